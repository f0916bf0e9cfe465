//! Cells written and read back, against a reference that picks them one by one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a test fails by panicking"
)]

mod common;

use std::sync::Arc;

use celltile::genes::{GeneOrder, VarNames};
use celltile::storage::{LocalStorage, MemoryStorage, Storage};
use celltile::table::{Index, Table, Text};
use celltile::{ChunkCut, Csr, Dataset, DatasetWriter, Error, Manifest, OpenOptions, ReadOptions, Verify};
use common::{Numbers, matrix, options, select, write};
use proptest::prelude::*;

const CUTS: [ChunkCut; 4] =
    [ChunkCut::Nonzeros(200), ChunkCut::Cells(1), ChunkCut::Cells(7), ChunkCut::Count(3)];

/// A storage that says that it is remote, so that readers fetch ahead.
#[derive(Debug)]
struct Far(MemoryStorage);

impl Storage for Far {
    fn locate(&self, key: &str) -> String {
        format!("far:{key}")
    }
    fn is_remote(&self) -> bool {
        true
    }
    fn open(&self, key: &str) -> celltile::Result<Box<dyn celltile::storage::Object>> {
        self.0.open(key)
    }
    fn read(&self, key: &str) -> celltile::Result<bytes::Bytes> {
        self.0.read(key)
    }
    fn read_range(&self, key: &str, range: std::ops::Range<u64>) -> celltile::Result<bytes::Bytes> {
        self.0.read_range(key, range)
    }
    fn list(&self, folder: &str) -> celltile::Result<Vec<celltile::storage::Entry>> {
        self.0.list(folder)
    }
    fn create(&self, key: &str) -> celltile::Result<Box<dyn celltile::storage::ObjectWriter>> {
        self.0.create(key)
    }
    fn remove(&self, key: &str) -> celltile::Result<()> {
        self.0.remove(key)
    }
}

/// Takes out what other writers do not add.
fn as_foreign(storage: &MemoryStorage) {
    let mut manifest = Manifest::read(storage).unwrap();
    manifest.tile_checksums = None;
    manifest.tile_sha256 = None;
    manifest.files.clear();
    storage.remove("tile_checksums.bin").unwrap();
    storage.write("manifest.json", manifest.to_json().unwrap().as_bytes()).unwrap();
}

fn check_reads(dataset: &Dataset, all: &Csr, seed: u64) {
    let n_cells = dataset.n_cells();
    let mut numbers = Numbers(seed);
    assert_eq!(dataset.rows(0..n_cells).unwrap(), *all);
    for tile in 0..dataset.n_tiles() {
        let cells = dataset.tile_cells(tile).unwrap();
        assert_eq!(dataset.tile(tile).unwrap(), select(all, cells));
    }
    let mut out = Csr::new();
    for _ in 0..6 {
        let start = numbers.below(n_cells + 1);
        let end = start + numbers.below(n_cells + 1 - start);
        dataset.rows_into(start..end, &ReadOptions::default(), &mut out).unwrap();
        assert_eq!(out, select(all, start..end), "{start}..{end}");
        if n_cells == 0 {
            continue;
        }
        let mut cells: Vec<u64> = (0..numbers.below(60)).map(|_| numbers.below(n_cells)).collect();
        // Runs of neighbours and repeats too.
        let run = numbers.below(n_cells);
        cells.extend(run..n_cells.min(run + 9));
        cells.extend(run..n_cells.min(run + 9));
        dataset.gather_into(&cells, &ReadOptions::default(), &mut out).unwrap();
        assert_eq!(out, select(all, cells.iter().copied()), "{cells:?}");
    }
}

fn check_mapped(dataset: &Dataset, all: &Csr, seed: u64) {
    let n_genes = usize::try_from(dataset.n_genes()).unwrap();
    let mut numbers = Numbers(seed);
    let map: Vec<i32> = (0..n_genes)
        .map(|gene| if numbers.below(2) == 0 { -1 } else { i32::try_from(n_genes - gene).unwrap() })
        .collect();
    let cells: Vec<u64> = (0..40).map(|_| numbers.below(dataset.n_cells())).collect();
    let mut expected = Csr::<f32>::new();
    for &cell in &cells {
        let one = select(all, [cell]);
        for (gene, count) in one.genes.iter().zip(&one.counts) {
            let new = map[usize::try_from(*gene).unwrap()];
            if new >= 0 {
                expected.genes.push(new);
                expected.counts.push(*count as f32);
            }
        }
        expected.indptr.push(i64::try_from(expected.genes.len()).unwrap());
    }
    let mut out = Csr::<f32>::new();
    dataset.gather_into(&cells, &ReadOptions::default().gene_map(&map), &mut out).unwrap();
    assert_eq!(out, expected);
    let error =
        dataset.gather_into(&cells, &ReadOptions::default().gene_map(&map[1..]), &mut out).unwrap_err();
    assert!(matches!(error, Error::Argument { what: "gene map", .. }), "{error}");
    assert_eq!(out, Csr::new());
}

#[test]
fn test_every_way_to_read_agrees_with_the_reference() {
    let all = matrix(1, 95, 300, 60);
    for cut in CUTS {
        for (threads, piece) in [(1, 1000), (3, 11)] {
            let storage = MemoryStorage::new();
            write(Arc::new(storage.clone()), &all, 300, &options(40, cut, threads), piece);
            for foreign in [false, true] {
                if foreign {
                    as_foreign(&storage);
                }
                for verify in [Verify::Full, Verify::Structure] {
                    let how = OpenOptions::default().threads(threads).verify(verify);
                    let stores: [Arc<dyn Storage>; 2] =
                        [Arc::new(storage.clone()), Arc::new(Far(storage.clone()))];
                    for store in stores {
                        let dataset = Dataset::open_storage(store, &how).unwrap();
                        check_reads(&dataset, &all, 7);
                        check_mapped(&dataset, &all, 8);
                    }
                }
            }
        }
    }
}

#[test]
fn test_local_files_give_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let all = matrix(2, 120, 500, 90);
    let storage = Arc::new(LocalStorage::new(folder.path().join("new")));
    write(storage, &all, 500, &options(50, ChunkCut::Nonzeros(1000), 2), 7);
    let mut how = OpenOptions::default();
    // Caches so small that tiles come and go.
    how.head_cache = 1;
    how.open_files = 1;
    check_reads(&Dataset::open_with(folder.path().join("new"), &how).unwrap(), &all, 3);
    check_reads(&Dataset::open(folder.path().join("new")).unwrap(), &all, 4);
}

#[test]
fn test_bytes_do_not_depend_on_threads_or_pieces() {
    let all = matrix(3, 200, 1000, 150);
    for cut in CUTS {
        let bytes = |threads, piece, memory| {
            let storage = MemoryStorage::new();
            let mut options = options(64, cut, threads);
            options.memory = memory;
            write(Arc::new(storage.clone()), &all, 1000, &options, piece);
            let mut keys: Vec<String> = storage.list("tiles").unwrap().into_iter().map(|e| e.key).collect();
            keys.extend(["manifest.json".to_owned(), "tile_checksums.bin".to_owned()]);
            keys.into_iter().map(|key| (storage.read(&key).unwrap(), key)).collect::<Vec<_>>()
        };
        let first = bytes(1, 1000, 1 << 30);
        assert_eq!(first.len(), 6);
        assert!(first == bytes(4, 3, 1));
        assert!(first == bytes(2, 64, 1 << 20));
    }
}

#[test]
fn test_source_cells_give_the_same_bytes_as_sorted_ones() {
    let all = matrix(4, 100, 200, 80);
    // The source numbers genes backwards, has two more that are dropped, and holds zeros.
    let map: Arc<[i32]> = (0..200).rev().chain([-1, -1]).collect();
    let mut source = Csr::new();
    for (genes, counts) in all.view().unwrap().iter() {
        for (gene, count) in genes.iter().zip(counts) {
            source.genes.push(199 - gene);
            source.counts.push(*count);
        }
        if genes.len() < 50 {
            source.genes.extend([200, 201, 200]);
            source.counts.extend([3, 0, 1]);
        }
        source.indptr.push(i64::try_from(source.genes.len()).unwrap());
    }
    for cut in CUTS {
        let (sorted, unsorted) = (MemoryStorage::new(), MemoryStorage::new());
        write(Arc::new(sorted.clone()), &all, 200, &options(30, cut, 2), 9);
        let mut writer =
            DatasetWriter::create(Arc::new(unsorted.clone()), 200, &options(30, cut, 2)).unwrap();
        let (source, all) = (source.view().unwrap(), all.view().unwrap());
        writer.push_source(source.cells(0..33).unwrap(), &map).unwrap();
        // Both ways in one tile chunk.
        writer.push(all.cells(33..47).unwrap()).unwrap();
        writer.push_source(source.cells(47..100).unwrap(), &map).unwrap();
        let written = writer.finish().unwrap();
        assert!(written.zeros_dropped > 0 && written.unsorted_cells > 0);
        for key in ["manifest.json", "tiles/tile_000000.dct", "tiles/tile_000001.dct", "tile_checksums.bin"] {
            assert_eq!(sorted.read(key).unwrap(), unsorted.read(key).unwrap(), "{key} {cut:?}");
        }
    }
}

#[test]
fn test_zero_cells_and_empty_cells() {
    let storage = Arc::new(MemoryStorage::new());
    let written =
        DatasetWriter::create(storage.clone(), 5, &options(10, ChunkCut::default(), 1)).unwrap().finish();
    assert_eq!(written.unwrap().manifest.n_tiles(), 0);
    let dataset = Dataset::open_storage(storage, &OpenOptions::default()).unwrap();
    assert_eq!(dataset.rows(0..0).unwrap(), Csr::new());
    assert_eq!(dataset.gather(&[]).unwrap(), Csr::new());
    assert!(matches!(dataset.gather(&[0]), Err(Error::OutOfRange { what: "cell", index: 0, len: 0 })));

    let empty = Csr { indptr: vec![0; 26], genes: vec![], counts: vec![] };
    for cut in CUTS {
        let storage = Arc::new(MemoryStorage::new());
        write(storage.clone(), &empty, 5, &options(10, cut, 2), 4);
        let dataset = Dataset::open_storage(storage, &OpenOptions::default()).unwrap();
        check_reads(&dataset, &empty, 1);
    }
}

#[test]
fn test_out_of_range_is_named() {
    let storage = Arc::new(MemoryStorage::new());
    write(storage.clone(), &matrix(5, 20, 10, 5), 10, &options(8, ChunkCut::default(), 1), 20);
    let dataset = Dataset::open_storage(storage, &OpenOptions::default()).unwrap();
    assert_eq!(dataset.locate(19).unwrap(), (2, 3));
    assert_eq!(dataset.tile_cells(2).unwrap(), 16..20);
    for error in [
        dataset.rows(0..21).unwrap_err(),
        dataset.gather(&[3, 20]).unwrap_err(),
        dataset.locate(20).map(|_| ()).unwrap_err(),
        dataset.tile(3).unwrap_err(),
    ] {
        assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
    }
    #[allow(clippy::reversed_empty_ranges, reason = "what is tested")]
    let backwards = dataset.rows(5..3);
    assert!(backwards.is_err());
}

#[test]
fn test_large_counts_as_float32() {
    let big = (1 << 24) + 1;
    let cells = Csr { indptr: vec![0, 1, 2], genes: vec![0, 1], counts: vec![7, big] };
    let storage = Arc::new(MemoryStorage::new());
    write(storage.clone(), &cells, 2, &options(8, ChunkCut::default(), 1), 20);
    let dataset = Dataset::open_storage(storage, &OpenOptions::default()).unwrap();
    let mut out = Csr::<f32>::new();
    let error = dataset.rows_into(0..2, &ReadOptions::default(), &mut out).unwrap_err();
    assert!(error.to_string().contains("16777217"), "{error}");
    dataset.rows_into(0..2, &ReadOptions::default().round_counts(true), &mut out).unwrap();
    assert_eq!(out.counts, [7.0, 16_777_216.0]);
    // Allowing it once does not allow it for ever.
    assert!(dataset.rows_into(0..2, &ReadOptions::default(), &mut out).is_err());
}

#[test]
fn test_genes_and_metadata_come_back() {
    let storage = Arc::new(MemoryStorage::new());
    let mut writer = DatasetWriter::create(storage.clone(), 3, &options(8, ChunkCut::default(), 1)).unwrap();
    let order = GeneOrder::new(vec![2, 0, 1]).unwrap();
    let names = VarNames::new(["c", "a", "b"].map(str::to_owned).to_vec()).unwrap();
    writer.set_gene_order(&order).unwrap();
    writer.set_var_names(&names).unwrap();
    writer.set_var_table(b"PAR1").unwrap();
    let short = VarNames::new(vec!["x".to_owned()]).unwrap();
    assert!(matches!(writer.set_var_names(&short), Err(Error::Argument { .. })));
    writer.metadata_mut().insert("source".to_owned(), "x.h5ad".into());
    writer.finish().unwrap();
    let dataset = Dataset::open_storage(storage, &OpenOptions::default()).unwrap();
    assert_eq!(dataset.gene_order().unwrap(), Some(order));
    assert_eq!(dataset.var_names().unwrap(), Some(names));
    assert!(dataset.manifest().has_var_table);
    assert_eq!(dataset.manifest().metadata()["source"], "x.h5ad");
    assert_eq!(dataset.manifest().metadata()["encoder"]["preset"], "fast");
}

#[test]
fn test_genes_other_than_those_recorded_are_refused() {
    let storage = Arc::new(MemoryStorage::new());
    let mut writer = DatasetWriter::create(storage.clone(), 2, &options(8, ChunkCut::default(), 1)).unwrap();
    writer.set_gene_order(&GeneOrder::new(vec![7, 0]).unwrap()).unwrap();
    writer.set_var_names(&VarNames::new(vec!["a1".to_owned(), "b".to_owned()]).unwrap()).unwrap();
    writer.finish().unwrap();
    let dataset = Dataset::open_storage(storage.clone(), &OpenOptions::default()).unwrap();
    // Both still are what such a file may hold.
    storage.write("gene_order.npy", &GeneOrder::new(vec![3, 0]).unwrap().to_npy()).unwrap();
    storage.write("var_names.txt", b"a9\nb\n").unwrap();
    assert!(matches!(dataset.gene_order(), Err(Error::Checksum { .. })));
    assert!(matches!(dataset.var_names(), Err(Error::Checksum { .. })));
    assert!(dataset.gene_names().is_err());
    storage.write("var_names.txt", b"a1\nb\nc\n").unwrap();
    assert!(matches!(dataset.var_names(), Err(Error::Size { found: 7, expected: 5, .. })));
}

#[cfg(target_os = "linux")]
#[test]
fn test_files_larger_than_memory_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d");
    let mut writer = DatasetWriter::create_at(&path, 3, &options(8, ChunkCut::default(), 1)).unwrap();
    writer.push(Csr { indptr: vec![0, 1], genes: vec![2], counts: vec![5] }.view().unwrap()).unwrap();
    writer.set_var_names(&VarNames::new(["c", "a", "b"].map(str::to_owned).to_vec()).unwrap()).unwrap();
    writer.finish().unwrap();
    let dataset = Dataset::open(&path).unwrap();
    for key in ["var_names.txt", "tiles/tile_000000.dct", "manifest.json"] {
        std::fs::OpenOptions::new().write(true).open(path.join(key)).unwrap().set_len(1 << 43).unwrap();
    }
    assert!(matches!(dataset.var_names(), Err(Error::Size { .. })));
    assert!(matches!(dataset.rows(0..1), Err(Error::Size { .. })));
    let storage = LocalStorage::new(&path);
    let error = storage.read("var_names.txt").unwrap_err().to_string();
    assert!(error.contains("8796093022208 bytes are more than there is memory for"), "{error}");
    let error = Dataset::open(&path).unwrap_err().to_string();
    assert!(error.contains("at most 1073741824 bytes"), "{error}");
}

#[test]
fn test_names_that_no_line_can_hold_come_from_the_table() {
    let storage = Arc::new(MemoryStorage::new());
    let mut writer = DatasetWriter::create(storage.clone(), 2, &options(8, ChunkCut::default(), 1)).unwrap();
    let index = Index::new(None, ["two\nlines", "b"].map(Some).into_iter().collect::<Text>());
    writer.set_var(&Table::new(2, Some(index), Vec::new()).unwrap()).unwrap();
    writer.finish().unwrap();
    let dataset = Dataset::open_storage(storage, &OpenOptions::default()).unwrap();
    assert_eq!(dataset.var_names().unwrap(), None);
    assert_eq!(dataset.gene_names().unwrap().unwrap(), ["two\nlines", "b"]);
}

#[cfg(unix)]
#[test]
fn test_pipe_in_place_of_a_file_is_refused_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("manifest.json");
    assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    let error = Dataset::open(folder.path()).unwrap_err();
    assert!(error.to_string().contains("a pipe or a device"), "{error}");
}

#[test]
fn test_damage_is_seen_on_the_first_cell_that_meets_it() {
    let all = matrix(6, 60, 300, 60);
    let storage = MemoryStorage::new();
    write(Arc::new(storage.clone()), &all, 300, &options(30, ChunkCut::Cells(5), 1), 60);
    let good = storage.read("tiles/tile_000001.dct").unwrap();
    for foreign in [false, true] {
        if foreign {
            as_foreign(&storage);
        }
        for at in 0..good.len() {
            let mut damaged = good.to_vec();
            damaged[at] ^= 0x10;
            storage.write("tiles/tile_000001.dct", &damaged).unwrap();
            let dataset =
                Dataset::open_storage(Arc::new(storage.clone()), &OpenOptions::default().threads(1)).unwrap();
            assert_eq!(dataset.rows(0..30).unwrap(), select(&all, 0..30), "the other tile is sound");
            // Padding is in no part's checksum, the reserved field not in the tile's: then the cells are right.
            match dataset.rows(30..60) {
                Ok(cells) => assert!(
                    (!foreign || (60..64).contains(&at)) && cells == select(&all, 30..60),
                    "byte {at}"
                ),
                Err(error) => assert!(error.to_string().contains("tile_000001.dct"), "byte {at}: {error}"),
            }
        }
    }
}

#[test]
fn test_tiles_that_disagree_with_the_manifest() {
    let storage = MemoryStorage::new();
    write(Arc::new(storage.clone()), &matrix(6, 60, 300, 60), 300, &options(30, ChunkCut::Cells(5), 1), 60);
    as_foreign(&storage);
    let first = storage.read("tiles/tile_000000.dct").unwrap();
    let second = storage.read("tiles/tile_000001.dct").unwrap();
    let open = || Dataset::open_storage(Arc::new(storage.clone()), &OpenOptions::default()).unwrap();
    storage.write("tiles/tile_000000.dct", &second).unwrap();
    let error = open().rows(0..1).unwrap_err();
    assert!(matches!(error, Error::Size { .. }), "{error}");
    storage.write("tiles/tile_000000.dct", &first).unwrap();
    let mut manifest = Manifest::read(&storage).unwrap();
    manifest.tile_nnz[0] += 1;
    storage.write("manifest.json", manifest.to_json().unwrap().as_bytes()).unwrap();
    let error = open().rows(0..1).unwrap_err();
    assert!(matches!(error, Error::TileMismatch { what: "nnz", tile: 0, .. }), "{error}");
    assert!(open().rows(30..31).is_ok(), "other tiles can be read");
    storage.remove("tiles/tile_000001.dct").unwrap();
    assert!(open().rows(30..31).unwrap_err().is_not_found());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_cells_come_back(
        seed in any::<u64>(),
        n_cells in 0usize..80,
        n_genes in 1i32..400,
        most in 0u64..100,
        tile_size in 1u64..50,
        cut in prop_oneof![
            (1u64..500).prop_map(ChunkCut::Nonzeros),
            (1u64..20).prop_map(ChunkCut::Cells),
            (1u32..20).prop_map(ChunkCut::Count),
        ],
        threads in 1usize..4,
        piece in 1usize..100,
    ) {
        let all = matrix(seed, n_cells, n_genes, most);
        let storage = Arc::new(MemoryStorage::new());
        write(storage.clone(), &all, u64::try_from(n_genes).unwrap(), &options(tile_size, cut, threads), piece);
        let dataset = Dataset::open_storage(storage, &OpenOptions::default().threads(threads)).unwrap();
        check_reads(&dataset, &all, seed);
    }
}
