//! `celltile verify`.

use crate::support::{dataset, run_on};

#[test]
fn test_a_sound_dataset() {
    let (_folder, path, _) = dataset();
    let run = run_on(&path, "verify {}").ok();
    assert!(run.out.starts_with("sound: 3 tiles, ") && run.err.is_empty(), "{}{}", run.out, run.err);
    assert!(run_on(&path, "verify {} --strict --threads 1").ok().out.contains("every count decoded"));
}

#[test]
fn test_all_faults_are_told_not_the_first() {
    let (_folder, path, _) = dataset();
    for tile in [0, 2] {
        let file = path.join(format!("tiles/tile_{tile:06}.dct"));
        let mut bytes = std::fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&file, bytes).unwrap();
    }
    std::fs::remove_file(path.join("var_names.txt")).unwrap();
    for words in ["verify {}", "verify {} --strict"] {
        let run = run_on(&path, words).fails(1, "");
        for name in ["tile_000000.dct", "tile_000002.dct", "var_names.txt"] {
            assert!(run.out.contains(name), "{name} not in {}", run.out);
        }
        assert!(!run.out.contains("tile_000001.dct"), "{}", run.out);
        assert!(run.out.lines().last().unwrap().starts_with("faults: "), "{}", run.out);
    }
}
