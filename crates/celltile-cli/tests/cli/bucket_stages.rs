//! A conversion in stages by many processes into a bucket, and datasets that are appended to there.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::http_server::HttpServer;
use crate::place::{Place, random};
use crate::support::{finish, run_on};

fn inputs(folder: &Path, sizes: &[u64]) {
    for (number, cells) in sizes.iter().enumerate() {
        let path = folder.join(format!("part{number}.h5ad"));
        let words = format!("simulate -o {{}} --cells {cells} --genes 1000 --nonzeros 200 --seed 5");
        run_on(&path, &words).ok();
    }
}

/// Runs all at once, every one twice and some of them killed on the way; then what is left to do.
fn all_at_once(place: &Place, commands: &[String], random: &mut impl FnMut() -> f64) -> u32 {
    let spawn = |words: &String| -> Child {
        place.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut killed = 0;
    let mut children: Vec<Child> = commands.iter().chain(commands).map(spawn).collect();
    std::thread::sleep(Duration::from_millis(100));
    for child in &mut children {
        if random() < 0.4 {
            std::thread::sleep(Duration::from_secs_f64(random() * 0.05));
            let _ = child.kill();
        }
    }
    for mut child in children {
        killed += u32::from(!child.wait().unwrap().success());
    }
    for words in commands {
        place.run(words).ok();
    }
    killed
}

#[test]
fn test_stages_of_many_processes_in_a_bucket_make_what_convert_makes_on_disk() {
    let Some(place) = Place::in_a_bucket() else { return };
    let folder = tempfile::tempdir().unwrap();
    inputs(folder.path(), &[330, 60, 275, 140]);
    let disk = Place::on_disk(folder.path());
    let mut random = random();
    let mut killed = 0;
    let list = |words: &str, ranges: &[&str]| -> Vec<String> {
        ranges.iter().map(|range| words.replace("RANGE", range)).collect()
    };
    for more in ["", "--shuffle --seed 3"] {
        for place in [&place, &disk] {
            place.clear();
        }
        let options =
            format!("{}/part*.h5ad -o OUT --tile-size 50 --preset fast {more}", folder.path().display());
        disk.run(&format!("convert {options}")).ok();
        let shares = ["0:1", "1:3", "2:4", ":"];
        let planned = place.run(&format!("plan {options} --memory 1MiB")).ok().out;
        assert_eq!(planned.contains("scatter needed"), !more.is_empty(), "{planned}");
        place.run(&format!("plan {options} --memory 1MiB --resume")).ok();
        killed += all_at_once(&place, &list("count OUT --inputs RANGE", &shares), &mut random);
        killed += all_at_once(&place, &list("scatter OUT --inputs RANGE", &shares), &mut random);
        let tiles = ["0:5", "4:9", "9:", "12:14"];
        killed += all_at_once(&place, &list("encode OUT --tiles RANGE", &tiles), &mut random);
        let mut finish =
            place.command("finish OUT").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs_f64(random() * 0.2));
        let _ = finish.kill();
        finish.wait().unwrap();
        place.run("finish OUT").ok();
        assert!(place.run("finish OUT").ok().out.contains("complete already"));
        place.run("count OUT --inputs 1:3").ok();
        assert!(place.objects() == disk.objects(), "{more}");
        place.run("verify OUT --strict").ok();
    }
    eprintln!("{killed} processes killed");
    assert!(killed > 0);
}

/// Cells by gene, which are sorted, of an input that is shuffled: both kinds of spilling.
#[test]
fn test_cells_are_put_aside_in_a_bucket() {
    let Some(place) = Place::in_a_bucket() else { return };
    let folder = tempfile::tempdir().unwrap();
    let genes = (0..40).map(|gene| {
        let counts: Vec<String> = (0..3000).map(|cell| ((cell * 7 + gene * 3) % 5).to_string()).collect();
        format!("g{gene}\t{}\n", counts.join("\t"))
    });
    let header: Vec<String> = (0..3000).map(|cell| format!("c{cell}")).collect();
    let table = format!("\t{}\n{}", header.join("\t"), genes.collect::<String>());
    let input = folder.path().join("cells.tsv");
    std::fs::write(&input, table).unwrap();
    let disk = Place::on_disk(folder.path());
    let words = format!("convert {} -o OUT --cells columns --tile-size 500 --shuffle", input.display());
    disk.run(&words).ok();
    let mut command = place.command(&format!("{words} --memory 1MiB --spill-dir s3://bucket/aside"));
    command.current_dir(folder.path());
    finish(command).ok();
    assert!(place.objects() == disk.objects());
    let aside = place.server.as_ref().unwrap().folder().join("aside");
    assert!(!aside.exists() || crate::support::files(&aside).is_empty());
    assert!(!folder.path().join("s3:").exists());
}

#[test]
fn test_tiles_are_copied_by_the_server() {
    let Some(place) = Place::in_a_bucket() else { return };
    let folder = tempfile::tempdir().unwrap();
    inputs(folder.path(), &[330, 60]);
    let part = |number: u32| folder.path().join(format!("part{number}.h5ad")).display().to_string();
    place.run(&format!("convert {} -o OUT --tile-size 50 --preset fast", part(0))).ok();
    let server = place.server.as_ref().unwrap();
    let proxy = HttpServer::proxy(server.address());
    let words = format!("append OUT {} -o s3://bucket/more --preset fast", part(1));
    finish(place.command_through(&words, Some(proxy.address()))).ok();
    let log = proxy.log();
    let tiles = |method: &str| {
        let of_tiles = log.iter().filter(|r| r.method == method && r.target.contains(".dct"));
        of_tiles.collect::<Vec<_>>()
    };
    let copies = tiles("PUT").iter().filter(|r| r.header("x-amz-copy-source").is_some()).count();
    assert_eq!((copies, tiles("PUT").len()), (6, 8), "six full tiles, and two of the rest");
    // Only the last tile of the dataset, which is not full, was fetched.
    let fetched = tiles("GET").iter().all(|r| r.target.contains("cells/tiles/tile_000006.dct"));
    assert!(fetched, "{:?}", tiles("GET").iter().map(|r| &r.target).collect::<Vec<_>>());
    let (old, new) =
        (crate::support::files(&place.folder), crate::support::files(&server.folder().join("more")));
    for tile in 0..6 {
        let name = format!("tiles/tile_{tile:06}.dct");
        assert!(old[Path::new(&name)] == new[Path::new(&name)], "{name}");
    }
    finish(place.command("verify s3://bucket/more --strict")).ok();
}
