//! AnnData stores as inputs: what is read is what was written, and hostile stores are refused.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use celltile::obs::Cache;
use celltile::storage::LocalStorage;
use celltile::{Csr, Dataset};
use celltile_grid::{Axis, Grid};
use celltile_ingest::matrix::{CellBlock, ReadOptions};
use celltile_ingest::source::{MatrixChoice, Opener, Source, SourceOptions};
use celltile_zarr::{
    ArraySpec, Compression, Cut, Encoding, GridForm, Hierarchy, KeyStore, StoreOptions, ZarrArray,
    ZarrOpener, export,
};
use serde_json::{Value, json};
use zarrs::array::{ArrayBytes, ArrayBytesOffsets};

use crate::dataset::{cells, dataset};
use crate::support::{Numbers, random_grid, unravel};

const GENES: u64 = 30;
const CELLS: u64 = 97;
const TILE: u64 = 20;

fn options() -> SourceOptions {
    SourceOptions { matrix: MatrixChoice::Path("X".to_owned()), ..SourceOptions::default() }
}

fn open(path: &Path) -> celltile_ingest::Result<Box<dyn Source>> {
    Ok(ZarrOpener.open(path, &options())?.unwrap())
}

/// All cells of a source, genes ascending.
fn read(source: &dyn Source) -> celltile_ingest::Result<Csr<i32>> {
    let mut csr = Csr { indptr: vec![0], genes: Vec::new(), counts: Vec::new() };
    let options = ReadOptions { memory: 8 << 20, ..ReadOptions::default() };
    let mut blocks = source.cells(0..source.info().shape.cells, &options)?;
    let mut block = CellBlock::default();
    while blocks.next_block(&mut block)? {
        for at in 0..block.cells() {
            let (genes, counts) = block.cell(at).unwrap();
            let mut entries: Vec<_> = genes.iter().zip(counts).filter(|(_, count)| **count > 0).collect();
            entries.sort();
            csr.genes.extend(entries.iter().map(|(gene, _)| **gene as i32));
            csr.counts.extend(entries.iter().map(|(_, count)| **count as i32));
            csr.indptr.push(csr.genes.len() as i64);
        }
    }
    Ok(csr)
}

fn export_to(path: &Path, dataset: &Arc<Dataset>, cut: Cut, compression: Compression) {
    let options = StoreOptions::default().cut(cut).compression(compression);
    let hierarchy = Hierarchy::open(Arc::clone(dataset), &Cache::memory(), options).unwrap();
    export(&hierarchy, &LocalStorage::new(path), None, &|_, _| {}).unwrap();
}

/// Every file below a folder, as paths with slashes.
fn files(folder: &Path, prefix: &str, into: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), &format!("{name}/"), into);
        } else {
            into.push(name);
        }
    }
}

fn zip(folder: &Path, target: &Path, top: &str, method: zip::CompressionMethod) {
    let mut names = Vec::new();
    files(folder, "", &mut names);
    let mut writer = zip::ZipWriter::new(fs::File::create(target).unwrap());
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    for name in names {
        writer.start_file(format!("{top}{name}"), options).unwrap();
        writer.write_all(&fs::read(folder.join(&name)).unwrap()).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn exports_come_back_from_folders_and_zip_files() {
    let csr = cells(21, CELLS, GENES, TILE, &[1]);
    let dataset = dataset(&csr, GENES, TILE);
    let folder = tempfile::tempdir().unwrap();
    let cuts = [Cut::Tile, Cut::TileChunk { nonzeros: 90 }, Cut::Regular { nonzeros: 77 }];
    for (number, cut) in cuts.into_iter().enumerate() {
        for compression in [Compression::None, Compression::Zstd(3)] {
            let path = folder.path().join(format!("{number}_{compression}.zarr"));
            export_to(&path, &dataset, cut, compression);
            let source = open(&path).unwrap();
            assert_eq!((source.info().format, source.info().encoding), ("zarr v3", "csr"));
            assert!(source.info().bytes > 1000);
            assert_eq!(read(source.as_ref()).unwrap(), csr, "{cut:?}, {compression}");
            assert_eq!(source.obs().unwrap().rows() as u64, CELLS);
            assert_eq!(source.gene_names().get(7), Some("7"));
        }
    }
    let store = folder.path().join("0_none.zarr");
    for (top, method) in [("", zip::CompressionMethod::Stored), ("a.zarr/", zip::CompressionMethod::Deflated)]
    {
        let target = folder.path().join("a.zip");
        zip(&store, &target, top, method);
        assert_eq!(read(open(&target).unwrap().as_ref()).unwrap(), csr, "{top}");
    }
}

/// A store under construction.
struct Made {
    folder: tempfile::TempDir,
    store: Arc<KeyStore>,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(KeyStore::new(Arc::new(LocalStorage::new(folder.path()))));
        let made = Self { folder, store };
        made.group("", json!({"encoding-type": "anndata", "encoding-version": "0.1.0"}));
        for (frame, rows) in [("obs", CELLS), ("var", GENES)] {
            let attributes = json!({"encoding-type": "dataframe", "_index": "_index", "column-order": []});
            made.group(frame, attributes);
            let names: Vec<String> = (0..rows).map(|row| format!("{frame}-{row}")).collect();
            made.texts(&format!("{frame}/_index"), &names);
        }
        made
    }

    fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    fn group(&self, path: &str, attributes: Value) {
        let text = json!({"zarr_format": 3, "node_type": "group", "attributes": attributes});
        self.write(&format!("{path}/zarr.json"), text.to_string().as_bytes());
    }

    fn write(&self, key: &str, bytes: &[u8]) {
        let path = self.folder.path().join(key.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn texts(&self, path: &str, texts: &[String]) {
        let grid = Grid::from_regular(&[texts.len() as u64], &[40]).unwrap();
        let mut spec = ArraySpec::new(grid, GridForm::Regular, "string");
        spec.encoding = Encoding { compression: Compression::Zstd(3), ..Encoding::default() };
        let array = ZarrArray::create(Arc::clone(&self.store), &format!("/{path}"), &spec).unwrap();
        for (chunk, texts) in texts.chunks(40).enumerate() {
            let mut ends = vec![0];
            let mut bytes = Vec::new();
            for at in 0..40 {
                bytes.extend(texts.get(at).map_or("", String::as_str).as_bytes());
                ends.push(bytes.len());
            }
            let elements = ArrayBytes::new_vlen(bytes, ArrayBytesOffsets::new(ends).unwrap()).unwrap();
            array.write_chunk(&[chunk as u64], elements).unwrap();
        }
        array.store_metadata().unwrap();
    }

    /// Writes elements of one size.
    fn array(&self, path: &str, spec: &ArraySpec, size: usize, values: &[u8]) {
        let array = ZarrArray::create(Arc::clone(&self.store), &format!("/{path}"), spec).unwrap();
        let shape = spec.grid.shape();
        let active = spec.grid.active_shape();
        for number in 0..active.iter().product() {
            let chunk = unravel(number, &active);
            let placed = spec.grid.chunk(&chunk).unwrap();
            let edges: Vec<u64> = placed.iter().map(|axis| axis.edge).collect();
            let mut bytes = Vec::new();
            for element in 0..edges.iter().product::<u64>() {
                let index: Vec<u64> =
                    unravel(element, &edges).iter().zip(&placed).map(|(i, c)| i + c.origin).collect();
                let at = index.iter().zip(&shape).fold(0, |at, (i, n)| at * n + i) as usize * size;
                let inside = index.iter().zip(&shape).all(|(i, n)| i < n);
                bytes.extend(if inside { values[at..at + size].to_vec() } else { vec![0; size] });
            }
            array.write_chunk(&chunk, ArrayBytes::new_flen(bytes)).unwrap();
        }
        array.store_metadata().unwrap();
    }

    /// A sparse matrix of float32 values and int32 positions, cut and encoded anyhow.
    fn sparse(&self, csr: &Csr<i32>, orientation: &str, numbers: &mut Numbers) {
        let shape = json!([CELLS, GENES]);
        self.group("X", json!({"encoding-type": orientation, "encoding-version": "0.1.0", "shape": shape}));
        let ints = |values: &[i32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let floats: Vec<u8> = csr.counts.iter().flat_map(|&count| (count as f32).to_le_bytes()).collect();
        let offsets: Vec<u8> = csr.indptr.iter().flat_map(|value| value.to_le_bytes()).collect();
        for (name, data_type, size, bytes) in [
            ("data", "float32", 4, floats),
            ("indices", "int32", 4, ints(&csr.genes)),
            ("indptr", "int64", 8, offsets),
        ] {
            let spec = any_spec(&[(bytes.len() / size) as u64], data_type, numbers);
            self.array(&format!("X/{name}"), &spec, size, &bytes);
        }
    }
}

/// A grid and codecs of any kind.
fn any_spec(shape: &[u64], data_type: &str, numbers: &mut Numbers) -> ArraySpec {
    // Not too many chunks: each is a file of its own.
    let by = if shape.len() == 1 { 8 } else { 2 };
    let coarse = |axis: &Axis| {
        let runs: Vec<_> = axis.runs().map(|run| (run.edge * by, run.count)).collect();
        Axis::from_runs(runs).unwrap()
    };
    let small: Vec<u64> = shape.iter().map(|length| length.div_ceil(by)).collect();
    let axes = random_grid(numbers, &small).axes().iter().map(coarse).collect::<Vec<_>>();
    let axes = axes.into_iter().zip(shape).map(|(axis, &length)| axis.with_length(length).unwrap());
    let mut grid = Grid::new(axes.collect());
    let mut encoding = Encoding { checksum: numbers.one_in(2), ..Encoding::default() };
    if numbers.one_in(2) {
        encoding.compression = Compression::Zstd(1);
    }
    if numbers.one_in(2) {
        let inner = numbers.between(1, 5);
        let scaled = |axis: &Axis| {
            let runs: Vec<_> = axis.runs().map(|run| (run.edge * inner, run.count)).collect();
            Axis::from_runs(runs).unwrap().with_length(axis.length()).unwrap()
        };
        grid = Grid::new(grid.axes().iter().map(scaled).collect());
        encoding.inner = Some(vec![inner; shape.len()]);
    }
    ArraySpec { encoding, ..ArraySpec::new(grid, GridForm::Rectilinear, data_type) }
}

/// The same matrix listed by gene.
fn by_gene(csr: &Csr<i32>) -> Csr<i32> {
    let mut out = Csr { indptr: vec![0], genes: Vec::new(), counts: Vec::new() };
    for gene in 0..GENES as i32 {
        for cell in 0..CELLS as usize {
            for at in csr.indptr[cell] as usize..csr.indptr[cell + 1] as usize {
                if csr.genes[at] == gene {
                    out.genes.push(cell as i32);
                    out.counts.push(csr.counts[at]);
                }
            }
        }
        out.indptr.push(out.genes.len() as i64);
    }
    out
}

#[test]
fn every_encoding_on_any_grid_sharded_or_not_is_read() {
    let mut numbers = Numbers::new(22);
    let csr = cells(22, CELLS, GENES, TILE, &[0]);
    for round in 0..12 {
        let made = Made::new();
        let encoding = ["csr_matrix", "csc_matrix", "array"][round % 3];
        match encoding {
            "csr_matrix" => made.sparse(&csr, encoding, &mut numbers),
            "csc_matrix" => made.sparse(&by_gene(&csr), encoding, &mut numbers),
            _ => {
                let mut dense = vec![0_u8; (CELLS * GENES * 4) as usize];
                for cell in 0..CELLS as usize {
                    for at in csr.indptr[cell] as usize..csr.indptr[cell + 1] as usize {
                        let place = (cell * GENES as usize + csr.genes[at] as usize) * 4;
                        dense[place..place + 4].copy_from_slice(&csr.counts[at].to_le_bytes());
                    }
                }
                let mut spec = any_spec(&[CELLS, GENES], "int32", &mut numbers);
                spec.attributes.insert("encoding-type".to_owned(), json!("array"));
                made.array("X", &spec, 4, &dense);
            }
        }
        let source = open(&made.path()).unwrap();
        assert_eq!(source.info().shape.cells, CELLS);
        assert_eq!(read(source.as_ref()).unwrap(), csr, "{encoding}, round {round}");
        assert_eq!(source.gene_names().get(29), Some("var-29"));
        assert_eq!(source.cell_name(96).as_deref(), Some("obs-96"));
    }
}

#[test]
fn raw_has_genes_of_its_own_and_layers_are_listed() {
    let mut numbers = Numbers::new(23);
    let csr = cells(23, CELLS, GENES, TILE, &[]);
    let made = Made::new();
    made.sparse(&csr, "csr_matrix", &mut numbers);
    fs::create_dir_all(made.path().join("layers")).unwrap();
    made.group("layers", json!({"encoding-type": "dict"}));
    fs::rename(made.path().join("X"), made.path().join("layers/counts")).unwrap();
    let error = open(&made.path()).err().unwrap().to_string();
    assert!(error.contains("no X") && error.contains("layers/counts"), "{error}");
    let auto = SourceOptions::default();
    let source = ZarrOpener.open(&made.path(), &auto).unwrap().unwrap();
    assert_eq!(source.info().matrix, "layers/counts");
    assert_eq!(read(source.as_ref()).unwrap(), csr);
}

#[test]
fn what_is_no_store_is_left_to_others() {
    let folder = tempfile::tempdir().unwrap();
    assert!(ZarrOpener.open(folder.path(), &options()).unwrap().is_none());
    assert!(ZarrOpener.open(&folder.path().join("missing"), &options()).unwrap().is_none());
    let file = folder.path().join("a.h5ad");
    fs::write(&file, b"\x89HDF\r\n\x1a\n and more, so that it is long enough").unwrap();
    assert!(ZarrOpener.open(&file, &options()).unwrap().is_none());
    fs::write(&file, b"").unwrap();
    assert!(ZarrOpener.open(&file, &options()).unwrap().is_none());
    let other = folder.path().join("other.zarr");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("zarr.json"), r#"{"zarr_format":3,"node_type":"group"}"#).unwrap();
    let error = ZarrOpener.open(&other, &options()).err().unwrap().to_string();
    assert!(error.contains("without obs"), "{error}");
}

#[test]
fn hostile_stores_are_refused_in_words() {
    let csr = cells(24, CELLS, GENES, TILE, &[]);
    let cases: [(&str, &str, &[u8], &str); 9] = [
        // An axis of 10^12 chunks is an ordinary one; that the matrix disagrees is said.
        ("X/data/zarr.json", "", br#"{"zarr_format":3,"node_type":"array","shape":[1000000000000],"data_type":"float32","chunk_grid":{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[[[1,1000000000000]]]}},"chunk_key_encoding":{"name":"default"},"fill_value":0.0,"codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}"#, "1000000000000 values"),
        ("X/data/zarr.json", "", br#"{"zarr_format":3,"node_type":"array","shape":[10],"data_type":"float32","chunk_grid":{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[[0,10]]}},"chunk_key_encoding":{"name":"default"},"fill_value":0.0,"codecs":[{"name":"bytes"}]}"#, "axis 0"),
        ("X/data/zarr.json", "", b"{", "X/data"),
        // Names that nothing is stored for, more than any memory holds.
        ("obs/_index/zarr.json", "", br#"{"zarr_format":3,"node_type":"array","shape":[97],"data_type":"string","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1000000000000]}},"chunk_key_encoding":{"name":"default"},"fill_value":"","codecs":[{"name":"vlen-utf8"}]}"#, "allowed"),
        ("X/indptr/zarr.json", "", br#"{"zarr_format":3,"node_type":"array","shape":[98],"data_type":"int64","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[98]}},"chunk_key_encoding":{"name":"default"},"fill_value":-5,"codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}"#, "X/indptr"),
        ("obs/zarr.json", "", br#"{"zarr_format":3,"node_type":"group","attributes":{"encoding-type":"dataframe","_index":"../../../../etc/passwd","column-order":[]}}"#, "no obs/"),
        ("obs/zarr.json", "", br#"{"zarr_format":3,"node_type":"group","attributes":[1]}"#, "attributes"),
        ("X/zarr.json", "", br#"{"zarr_format":3,"node_type":"group","attributes":{"encoding-type":"coo"}}"#, "coo"),
        ("X/zarr.json", "", br#"{"zarr_format":3,"node_type":"group","attributes":{"encoding-type":"csr_matrix","shape":[5,5]}}"#, "there are 97 cells"),
    ];
    for (key, _, text, expected) in cases {
        let made = Made::new();
        made.sparse(&csr, "csr_matrix", &mut Numbers::new(25));
        if key == "X/indptr/zarr.json" {
            fs::remove_dir_all(made.path().join("X/indptr/c")).unwrap();
        }
        made.write(key, text);
        let result = open(&made.path()).and_then(|source| {
            source.obs()?;
            read(source.as_ref())
        });
        let error = result.err().unwrap_or_else(|| panic!("{key}")).to_string();
        assert!(error.contains(expected), "{key}: {error}");
    }
}

#[test]
fn damaged_chunks_are_errors_wherever_the_damage_is() {
    let csr = cells(26, CELLS, GENES, TILE, &[]);
    let mut numbers = Numbers::new(27);
    let (mut refused, mut passed) = (0, 0);
    for _ in 0..4 {
        let made = Made::new();
        made.sparse(&csr, "csr_matrix", &mut numbers);
        let mut names = Vec::new();
        files(&made.path(), "", &mut names);
        let chunks: Vec<&String> = names.iter().filter(|name| !name.ends_with("zarr.json")).collect();
        for _ in 0..15 {
            let name = chunks[numbers.between(0, chunks.len() as u64 - 1) as usize];
            let path = made.path().join(name);
            let sound = fs::read(&path).unwrap();
            let mut bytes = sound.clone();
            match numbers.between(0, 2) {
                0 => bytes.truncate(numbers.between(0, bytes.len() as u64 - 1) as usize),
                1 => bytes.extend([0xff; 7]),
                _ => {
                    let at = numbers.between(0, bytes.len() as u64 - 1) as usize;
                    bytes[at] ^= 1 << numbers.between(0, 7);
                }
            }
            fs::write(&path, &bytes).unwrap();
            // No panic and no endless loop; a flipped bit of a value that is not compressed is another value.
            match open(&made.path()).and_then(|source| {
                source.obs()?;
                read(source.as_ref())
            }) {
                Ok(_) => passed += 1,
                Err(_) => refused += 1,
            }
            fs::write(&path, &sound).unwrap();
        }
        assert_eq!(read(open(&made.path()).unwrap().as_ref()).unwrap(), csr);
    }
    assert!(refused > passed, "{refused} refused, {passed} passed");
}

/// Everything that a conversion takes from a store: its counts, and the names of its cells and genes.
fn taken(path: &Path) -> celltile_ingest::Result<(Csr<i32>, Vec<String>)> {
    let source = open(path)?;
    let obs = source.obs()?;
    source.var()?;
    let cells = obs.index().map(|index| format!("{:?}", index.values())).unwrap_or_default();
    let names = source.gene_names().iter().map(str::to_owned).chain([cells]).collect();
    Ok((read(source.as_ref())?, names))
}

/// The members of a zip file have checksums: whatever is cut off or changed, nothing else comes out than what went in.
#[test]
fn a_damaged_zip_file_is_refused_or_gives_what_it_held() {
    let csr = cells(29, CELLS, GENES, TILE, &[]);
    let dataset = dataset(&csr, GENES, TILE);
    let folder = tempfile::tempdir().unwrap();
    let mut numbers = Numbers::new(29);
    for (compression, method) in [
        (Compression::None, zip::CompressionMethod::Stored),
        (Compression::Zstd(3), zip::CompressionMethod::Deflated),
    ] {
        let (store, sound) =
            (folder.path().join(format!("{compression}.zarr")), folder.path().join("sound.zip"));
        export_to(&store, &dataset, Cut::Tile, compression);
        zip(&store, &sound, "a.zarr/", method);
        let (whole, bytes) = (taken(&sound).unwrap(), fs::read(&sound).unwrap());
        assert_eq!(whole.0, csr);
        let path = folder.path().join("damaged.zip");
        for sixteenth in 0..16 {
            fs::write(&path, &bytes[..bytes.len() * sixteenth / 16]).unwrap();
            // Without the directory at its end it is no archive, and without its first bytes it is nothing.
            match ZarrOpener.open(&path, &options()) {
                Ok(found) => assert!(found.is_none(), "{sixteenth}"),
                Err(error) => assert!(error.to_string().contains("damaged.zip"), "{error}"),
            }
        }
        let mut refused = 0;
        for round in 0..150 {
            let mut damaged = bytes.clone();
            let at = numbers.between(0, damaged.len() as u64 - 1) as usize;
            damaged[at] = if round % 2 == 0 { damaged[at] ^ (1 << numbers.between(0, 7)) } else { round };
            fs::write(&path, &damaged).unwrap();
            match ZarrOpener.open(&path, &options()).map(|found| found.map(|_| taken(&path))) {
                Ok(Some(Ok(found))) => {
                    assert!(found == whole, "{compression}: byte {at} of {}", damaged.len());
                }
                Ok(None) => refused += 1,
                Ok(Some(Err(error))) | Err(error) => {
                    assert!(error.to_string().contains("damaged.zip"), "{error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 60, "{compression}: {refused}");
    }
}

/// A chunk that a store does not have stands for the fill value. Of the values of a sparse matrix that is never meant.
#[test]
fn a_store_that_was_not_copied_whole_is_refused() {
    let csr = cells(31, CELLS, GENES, TILE, &[]);
    let dataset = dataset(&csr, GENES, TILE);
    let folder = tempfile::tempdir().unwrap();
    for (number, cut) in [Cut::Tile, Cut::Regular { nonzeros: 77 }].into_iter().enumerate() {
        let store = folder.path().join(format!("{number}.zarr"));
        export_to(&store, &dataset, cut, Compression::Zstd(3));
        let mut names = Vec::new();
        files(&store, "", &mut names);
        for name in names.iter().filter(|name| name.starts_with("X/data/c/")) {
            let chunk = fs::read(store.join(name)).unwrap();
            fs::remove_file(store.join(name)).unwrap();
            let said = taken(&store).unwrap_err().to_string();
            assert!(said.contains("X/data") && said.contains("copied whole"), "{name}: {said}");
            fs::write(store.join(name), chunk).unwrap();
        }
    }
}

/// Each file of a store cut at every sixteenth: refused, with the name of the store.
#[test]
fn a_store_with_a_file_cut_short_is_refused() {
    let csr = cells(30, CELLS, GENES, TILE, &[]);
    let dataset = dataset(&csr, GENES, TILE);
    let folder = tempfile::tempdir().unwrap();
    for compression in [Compression::None, Compression::Zstd(3)] {
        let store = folder.path().join(format!("{compression}.zarr"));
        export_to(&store, &dataset, Cut::Tile, compression);
        let whole = taken(&store).unwrap();
        let mut names = Vec::new();
        files(&store, "", &mut names);
        for name in names {
            let path = store.join(&name);
            let sound = fs::read(&path).unwrap();
            for sixteenth in 0..16 {
                fs::write(&path, &sound[..sound.len() * sixteenth / 16]).unwrap();
                match taken(&store) {
                    // Some groups say nothing that is needed.
                    Ok(found) => assert!(found == whole && name.ends_with("zarr.json"), "{name} {sixteenth}"),
                    Err(error) => assert!(error.to_string().contains(".zarr"), "{name} {sixteenth}: {error}"),
                }
            }
            fs::write(&path, &sound).unwrap();
        }
    }
}

#[test]
fn bombs_are_refused_before_memory_is_taken() {
    let csr = cells(28, CELLS, GENES, TILE, &[]);
    let made = Made::new();
    made.sparse(&csr, "csr_matrix", &mut Numbers::new(28));
    // One chunk of a few hundred values that says that it decompresses to much more.
    let count = csr.counts.len() as u64;
    let grid = Grid::from_regular(&[count], &[count]).unwrap();
    let mut spec = ArraySpec::new(grid, GridForm::Regular, "float32");
    spec.encoding.compression = Compression::Zstd(3);
    let array = ZarrArray::create(Arc::clone(&made.store), "/X/data", &spec).unwrap();
    fs::remove_dir_all(made.path().join("X/data")).unwrap();
    array.store_metadata().unwrap();
    let mut bomb = Vec::with_capacity(zstd_safe::compress_bound(64 << 20));
    zstd_safe::compress(&mut bomb, &vec![0_u8; 64 << 20], 1).unwrap();
    made.write("X/data/c/0", &bomb);
    let error = read(open(&made.path()).unwrap().as_ref()).err().unwrap().to_string();
    assert!(error.contains("decompresses to more"), "{error}");
    // A frame that claims to hold 2^62 bytes.
    made.write("X/data/c/0", &[0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0]);
    assert!(read(open(&made.path()).unwrap().as_ref()).is_err());
}

#[test]
fn a_real_store_with_duplicate_members_is_read() {
    let Some(folder) = std::env::var_os("CELLTILE_TEST_DATA") else {
        eprintln!("skipped: CELLTILE_TEST_DATA is not set");
        return;
    };
    let path = Path::new(&folder).join("h5ad/anndata_v0.13.3.zarr.zip");
    let source = ZarrOpener.open(&path, &options()).unwrap().unwrap();
    let info = source.info();
    assert_eq!((info.format, info.shape.cells, info.shape.genes, info.stored), ("zarr v2", 10, 20, Some(75)));
    let csr = read(source.as_ref()).unwrap();
    assert_eq!((csr.counts.len(), csr.counts.iter().sum::<i32>()), (75, 91));
    let obs = source.obs().unwrap();
    let names: Vec<&str> = obs.columns().iter().map(|column| column.name()).collect();
    assert_eq!(names[..2], ["cat_unordered", "obs_cat"]);
    assert!(source.not_carried().iter().any(|part| part.path.starts_with("obsm/")));
}
