//! Datasets as Zarr stores, and the stores' own commands.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use celltile::{Csr, Dataset, ReadOptions};
use tempfile::TempDir;

use crate::support::{command, dataset, run, run_on};

/// Counts of each cell by the genes' names.
fn by_name(path: &Path) -> Vec<BTreeMap<String, i32>> {
    let dataset = Dataset::open(path).unwrap();
    let names = dataset.var_names().unwrap().unwrap();
    let mut csr = Csr::<i32>::new();
    dataset.rows_into(0..dataset.n_cells(), &ReadOptions::default(), &mut csr).unwrap();
    csr.indptr
        .windows(2)
        .map(|ends| {
            let cell = ends[0] as usize..ends[1] as usize;
            cell.map(|at| (names.names()[csr.genes[at] as usize].clone(), csr.counts[at])).collect()
        })
        .collect()
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn test_an_exported_store_is_sound_and_comes_back_as_the_same_cells() {
    let (folder, path, _) = dataset();
    let expected = by_name(&path);
    for (number, (options, setting)) in [
        ("--grid tile", true),
        ("--grid tile-chunk --grid-nnz 700 --compress zstd", true),
        ("--grid regular --grid-nnz 333 --compress zstd:5 --float32", false),
    ]
    .into_iter()
    .enumerate()
    {
        let store = folder.path().join(format!("{number}.zarr"));
        let told = run_on(&path, &format!("export {{}} -o {} {options}", text(&store))).ok();
        assert_eq!(told.out.contains("ZARR_ARRAY__RECTILINEAR_CHUNKS=True"), setting, "{}", told.out);
        assert!(told.out.contains("250") && told.out.contains("grid chunks of the matrix"), "{}", told.out);
        let checked = run_on(&store, "zarr check {}").ok();
        assert!(checked.out.contains("faults: 0"), "{}", checked.out);
        let info = run_on(&store, "zarr info {}").ok();
        assert!(info.out.contains("/X/data") && info.out.contains("group csr_matrix"), "{}", info.out);
        assert_eq!(info.out.contains("rectilinear: "), setting, "{}", info.out);
        run_on(&path, &format!("export {{}} -o {}", text(&store))).fails(1, "is not empty");
        run_on(&path, &format!("export {{}} -o {} --overwrite", text(&store))).fails(2, "new place");
        let again = folder.path().join(format!("again_{number}"));
        let converted = run_on(&store, &format!("convert {{}} -o {}", text(&again))).ok();
        assert!(converted.out.contains("zarr v3"), "{}", converted.out);
        assert_eq!(by_name(&again), expected, "{options}");
    }
    run_on(&path, "export {} -o x.zarr --compress lz4").fails(2, "no compression");
    run_on(&path, "export {} -o x.zarr --grid-nnz 0").fails(2, "0");
    run_on(&path, "zarr info {}").fails(1, "no Zarr store");
}

#[test]
fn test_a_store_that_is_damaged_is_told_by_array_and_axis() {
    let (folder, path, _) = dataset();
    let store = folder.path().join("a.zarr");
    run_on(&path, &format!("export {{}} -o {}", text(&store))).ok();
    let metadata = store.join("X/data/zarr.json");
    let wrong =
        fs::read_to_string(&metadata).unwrap().replace("\"chunk_shapes\":[[", "\"chunk_shapes\":[[0,");
    fs::write(&metadata, wrong).unwrap();
    let checked = run_on(&store, "zarr check {}");
    assert_eq!(checked.code, Some(1));
    assert!(checked.out.contains("fault: /X/data, axis 0"), "{}", checked.out);
    let info = run_on(&store, "zarr info {}").ok();
    assert!(info.out.contains("not readable"), "{}", info.out);
    run_on(&store, "convert {} -o x").fails(1, "X/data");
    run_on(&folder.path().join("none"), "zarr check {}").fails(1, "");
}

#[test]
fn test_a_regridding_is_killed_and_taken_up_and_blocks_are_appended() {
    let (folder, path, _) = dataset();
    let expected = by_name(&path);
    let store = folder.path().join("a.zarr");
    run_on(&path, &format!("export {{}} -o {} --grid regular --grid-nnz 60", text(&store))).ok();
    let regridded = folder.path().join("b.zarr");
    let words =
        ["zarr", "regrid", &text(&store), "-o", &text(&regridded), "--chunks", "50", "--array", "X/data"]
            .into_iter()
            .chain(["--array", "/X/indices", "--compress", "zstd", "--progress", "lines"])
            .map(str::to_owned)
            .collect::<Vec<_>>();
    let mut killed = 0;
    for attempt in 0..20_u64 {
        let mut child = command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(30 + 40 * attempt));
        let ended = child.try_wait().unwrap().is_some();
        child.kill().unwrap();
        child.wait().unwrap();
        if ended {
            break;
        }
        killed += 1;
        // What is not complete is no store.
        assert!(!regridded.join("zarr.json").exists() || run_on(&regridded, "zarr check {}").code == Some(0));
    }
    let told = run(&words).ok();
    assert!(told.out.contains("regridded") && told.out.contains("/X/indices"), "{}", told.out);
    eprintln!("{killed} killed; {}", told.out.replace('\n', "; "));
    let checked = run_on(&regridded, "zarr check {}").ok();
    assert!(checked.out.contains("faults: 0"), "{}", checked.out);
    let again = folder.path().join("again");
    run_on(&regridded, &format!("convert {{}} -o {}", text(&again))).ok();
    assert_eq!(by_name(&again), expected);

    // Another grid at the same place is refused, and so are wrong arguments.
    let other = ["zarr", "regrid", &text(&store), "-o", &text(&regridded), "--chunks", "70"];
    run(other).fails(1, "is there already");
    run(["zarr", "regrid", &text(&store), "--chunks", "50"]).fails(2, "--output");
    run(["zarr", "regrid", &text(&store), "-o", "x", "--chunks", "50y"]).fails(2, "no chunk shape");
    run(["zarr", "regrid", &text(&store), "-o", "x", "--chunks", "5", "--array", "Y"])
        .fails(1, "no such array");

    let renamed = run(["zarr", "regrid", &text(&store), "--as", "rectilinear", "--array", "X/data"]).ok();
    assert!(renamed.out.contains("/X/data"), "{}", renamed.out);
    assert!(run_on(&store, "zarr check {}").ok().out.contains("faults: 0"));

    let block = folder.path().join("block.npy");
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    let header = format!("{:<117}\n", "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }");
    npy.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    npy.extend(header.as_bytes());
    npy.extend([7_i64, 8, 9].iter().flat_map(|value| value.to_le_bytes()));
    fs::write(&block, &npy).unwrap();
    let append =
        |store: &Path, array: &str| run(["zarr", "append", &text(store), &text(&block), "--array", array]);
    let uneven = folder.path().join("d.zarr");
    run(["zarr", "regrid", &text(&store), "-o", &text(&uneven), "--chunks", "100", "--array", "X/indptr"])
        .ok();
    append(&uneven, "X/indptr").fails(1, "ends inside chunk");
    append(&store, "X/data").fails(1, "type is <i8");
    append(&store, "X").fails(1, "group");
    let whole = folder.path().join("c.zarr");
    run(["zarr", "regrid", &text(&store), "-o", &text(&whole), "--chunks", "[[251]]", "--array", "X/indptr"])
        .ok();
    let told = append(&whole, "X/indptr").ok();
    assert!(told.out.contains("254"), "{}", told.out);
    // The matrix now says that its arrays do not fit together.
    assert_eq!(run_on(&whole, "zarr check {}").code, Some(1));
}

/// What a server answers: status line and body.
fn ask(address: &str, request: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("{request}\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let status = String::from_utf8_lossy(&answer[..end]).lines().next().unwrap().to_owned();
    (status, answer[end + 4..].to_vec())
}

/// A process that does not outlive the test.
struct Ends(std::process::Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn test_a_served_dataset_is_converted_from_its_url_and_the_server_ends_on_interrupt() {
    let (folder, path, _) = dataset();
    let mut server = command(["serve", &text(&path), "--grid", "tile", "--compress", "zstd"]);
    let mut server = Ends(server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut url = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let address = url.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{url}");
    let (status, body) = ask(&address, "GET /zarr.json HTTP/1.1");
    assert!(status.contains("200") && body.starts_with(b"{"), "{status}");
    for (hostile, expected) in [
        ("/../../etc/passwd", "400"),
        ("/..%2f..%2fetc%2fpasswd", "400"),
        ("/manifest.json", "404"),
        ("/X/data/c/99", "404"),
        ("/X/data/c/00", "404"),
    ] {
        let (status, _) = ask(&address, &format!("GET {hostile} HTTP/1.1"));
        assert!(status.contains(expected), "{hostile}: {status}");
    }
    assert!(ask(&address, "PUT /zarr.json HTTP/1.1").0.contains("405"));
    let again = folder.path().join("again");
    let converted = run(["convert", url.trim(), "-o", &text(&again)]).ok();
    assert!(converted.out.contains("zarr v3"), "{}", converted.out);
    assert_eq!(by_name(&again), by_name(&path));
    let interrupted = Command::new("kill").args(["-INT", &server.0.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
    run(["serve", &text(&path), "--bind", "nowhere"]).fails(2, "nowhere");
    let empty = TempDir::new().unwrap();
    run(["serve", &text(empty.path())]).fails(1, "manifest.json");
}
