//! Damaged files: cut off, and with bytes changed. Nothing panics, nothing hangs, and what is read is either an error or
//! what the file says.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::path::PathBuf;

use celltile_ingest::matrix::{CellBlock, ReadOptions};
use celltile_ingest::source::{self, MatrixChoice, SourceOptions};

/// Small files of every age of anndata and 10x, from the folder that `CELLTILE_TEST_DATA` names.
const FILES: [(&str, &str); 7] = [
    ("h5ad/mini_v0.6.22.h5ad", "X"),
    ("h5ad/mini_uint16.h5ad", "X"),
    ("h5ad/cellxgene_valid.h5ad", "raw/X"),
    ("h5ad/anndata_v0.7.0.h5ad", "X"),
    ("h5ad/anndata_v0.13.3.h5ad", "X"),
    ("h5ad/dup_cell.h5ad", "X"),
    ("10x/v2_multiple_genomes.h5", "hg19_chr21"),
];

/// Reads everything that a conversion reads; the figures of the matrix, or the error.
fn read(path: &std::path::Path, matrix: &str) -> Result<(u64, u64), celltile_ingest::Error> {
    let mut options = SourceOptions::default();
    options.read.memory = 64 << 20;
    if path.extension().is_some_and(|extension| extension == "h5") {
        options.genome = Some(matrix.to_owned());
    } else {
        options.matrix = MatrixChoice::Path(matrix.to_owned());
    }
    let source = source::open(path, &options)?;
    // Tables may be unreadable on their own.
    let _ = (source.obs(), source.var());
    let read = ReadOptions { memory: 64 << 20, ..ReadOptions::default() };
    let mut blocks = source.cells(0..source.info().shape.cells, &read)?;
    let (mut block, mut nonzeros, mut sum) = (CellBlock::default(), 0, 0);
    while blocks.next_block(&mut block)? {
        nonzeros += block.counts.iter().filter(|&&count| count > 0).count() as u64;
        sum += block.counts.iter().map(|&count| u64::from(count)).sum::<u64>();
    }
    Ok((nonzeros, sum))
}

/// A small generator, so that every run damages the same bytes.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}

fn files() -> Vec<(PathBuf, &'static str)> {
    let Some(folder) = std::env::var_os("CELLTILE_TEST_DATA") else {
        eprintln!("skipped: CELLTILE_TEST_DATA is not set");
        return Vec::new();
    };
    FILES.iter().map(|(name, matrix)| (PathBuf::from(&folder).join(name), *matrix)).collect()
}

#[test]
fn a_file_cut_at_every_sixteenth_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (path, matrix) in files() {
        let bytes = std::fs::read(&path).unwrap();
        let cut = folder.path().join(path.file_name().unwrap());
        for sixteenth in 0..16 {
            std::fs::write(&cut, &bytes[..bytes.len() * sixteenth / 16]).unwrap();
            let error = read(&cut, matrix).unwrap_err().to_string();
            let said = error.contains("truncated")
                || error.contains("not an HDF5 file")
                || error.contains("empty file");
            assert!(said, "{} cut at {sixteenth}/16: {error}", path.display());
        }
        std::fs::write(&cut, &bytes[..bytes.len() - 1]).unwrap();
        assert!(read(&cut, matrix).is_err(), "{} without its last byte", path.display());
    }
}

#[test]
fn changed_bytes_never_panic_or_hang() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (path, matrix) in files() {
        let bytes = std::fs::read(&path).unwrap();
        // Structure is more fragile than data: half of the damage goes near a signature.
        let marks: Vec<usize> = [&b"TREE"[..], b"SNOD", b"HEAP", b"GCOL", b"OHDR", b"FRHP", b"\x89HDF"]
            .iter()
            .flat_map(|mark| {
                bytes.windows(mark.len()).enumerate().filter(move |(_, part)| part == mark).map(|(at, _)| at)
            })
            .collect();
        let changed = folder.path().join(path.file_name().unwrap());
        for round in 0..150 {
            let mut damaged = bytes.clone();
            for _ in 0..=random.below(4) {
                let at = if round % 2 == 0 || marks.is_empty() {
                    random.below(damaged.len())
                } else {
                    (marks[random.below(marks.len())] + random.below(300)).min(damaged.len() - 1)
                };
                damaged[at] = match random.below(4) {
                    0 => 0,
                    1 => 255,
                    2 => damaged[at] ^ (1 << random.below(8)),
                    _ => u8::try_from(random.below(256)).unwrap(),
                };
            }
            std::fs::write(&changed, &damaged).unwrap();
            let started = std::time::Instant::now();
            let _ = read(&changed, matrix);
            assert!(started.elapsed().as_secs() < 20, "{} round {round}", path.display());
        }
    }
}
