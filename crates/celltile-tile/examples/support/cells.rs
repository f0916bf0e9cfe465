//! Count matrices to measure on: simulated, or read from a file.

use std::path::Path;

use celltile_tile::Csr;

/// A matrix and its number of genes.
pub(crate) struct Cells {
    pub(crate) name: String,
    pub(crate) csr: Csr,
    pub(crate) n_genes: u32,
}

/// A small generator of pseudo-random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In [0, 1).
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn poisson(&mut self, mean: f64) -> i32 {
        if mean > 50.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0) as i32;
        }
        let (mut left, mut count) = ((-mean).exp(), 0);
        let mut u = self.uniform();
        // By inversion.
        let mut term = left;
        while u >= left && count < 1000 {
            count += 1;
            term *= mean / f64::from(count);
            left += term;
        }
        u = left;
        let _ = u;
        count
    }
}

/// Cells shaped like those of a droplet experiment: gene means over seven decades, ten cell types, over-dispersed counts,
/// about 2,000 nonzeros a cell of 36,601 genes, and genes in the order of decreasing totals.
pub(crate) fn simulate(n_cells: usize) -> Cells {
    const N_GENES: usize = 36_601;
    const N_TYPES: usize = 10;
    let mut random = Random(1);
    let mut means: Vec<f64> = (0..N_GENES).map(|_| (2.4 * random.normal() - 4.85).exp()).collect();
    means.sort_by(|a, b| b.total_cmp(a));
    let types: Vec<Vec<f64>> = (0..N_TYPES)
        .map(|_| means.iter().map(|mean| mean * (0.8 * random.normal() - 0.3).exp()).collect())
        .collect();
    let mut csr = Csr::<i32>::new();
    for _ in 0..n_cells {
        let cell_type = &types[(random.next() % N_TYPES as u64) as usize];
        let depth = (0.4 * random.normal()).exp();
        for (gene, mean) in cell_type.iter().enumerate() {
            let mut mean = mean * depth;
            if mean > 0.01 {
                mean *= (0.5 * random.normal() - 0.125).exp();
            }
            let count = random.poisson(mean);
            if count > 0 {
                csr.genes.push(gene as i32);
                csr.counts.push(count);
            }
        }
        csr.indptr.push(csr.genes.len() as i64);
    }
    let mut cells = Cells { name: format!("simulated-{n_cells}"), csr, n_genes: N_GENES as u32 };
    sort_genes(&mut cells);
    cells
}

/// Renumbers the genes by decreasing total counts.
fn sort_genes(cells: &mut Cells) {
    let mut totals = vec![0_i64; cells.n_genes as usize];
    for (gene, count) in cells.csr.genes.iter().zip(&cells.csr.counts) {
        totals[*gene as usize] += i64::from(*count);
    }
    let mut order: Vec<usize> = (0..totals.len()).collect();
    order.sort_by_key(|gene| std::cmp::Reverse(totals[*gene]));
    let mut number = vec![0; totals.len()];
    for (new, old) in order.into_iter().enumerate() {
        number[old] = new as i32;
    }
    for cell in cells.csr.indptr.windows(2) {
        let range = cell[0] as usize..cell[1] as usize;
        let mut entries: Vec<(i32, i32)> =
            range.clone().map(|i| (number[cells.csr.genes[i] as usize], cells.csr.counts[i])).collect();
        entries.sort_unstable();
        for (i, (gene, count)) in range.zip(entries) {
            cells.csr.genes[i] = gene;
            cells.csr.counts[i] = count;
        }
    }
}

/// Reads a matrix from a raw file, all little-endian: u64 cells, u64 genes, u64 nonzeros, i64 indptr, i32 genes, i32 counts.
/// The genes are renumbered by decreasing totals.
pub(crate) fn read(path: &Path) -> Cells {
    let bytes = std::fs::read(path).unwrap();
    let word = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap()) as usize;
    let (n_cells, n_genes, nnz) = (word(0), word(1), word(2));
    let (indptr, rest) = bytes[24..].split_at(8 * (n_cells + 1));
    let (genes, counts) = rest.split_at(4 * nnz);
    let ints = |bytes: &[u8]| bytes.as_chunks().0.iter().map(|b| i32::from_le_bytes(*b)).collect();
    let csr = Csr {
        indptr: indptr.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect(),
        genes: ints(genes),
        counts: ints(counts),
    };
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut cells = Cells { name, csr, n_genes: n_genes as u32 };
    sort_genes(&mut cells);
    cells
}

/// The matrices named by the arguments: files, or `simulated` and a number of cells.
pub(crate) fn from_arguments(arguments: &[String]) -> Vec<Cells> {
    let named = arguments.iter().map(|argument| match argument.parse() {
        Ok(n_cells) => simulate(n_cells),
        Err(_) => read(Path::new(argument)),
    });
    let all: Vec<Cells> = named.collect();
    if all.is_empty() { vec![simulate(10_000)] } else { all }
}
