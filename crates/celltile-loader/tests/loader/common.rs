//! Datasets to load from, and a storage that is slow or damaged on demand.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use bytes::Bytes;
use celltile::storage::{Entry, MemoryStorage, Object, ObjectWriter, Storage};
use celltile::{
    ChunkCut, Compression, Csr, Dataset, DatasetWriter, EncodeOptions, OpenOptions, Preset, WriterOptions,
};
use celltile_loader::{Batch, Element, Loader, LoaderOptions};

pub(crate) const N_GENES: u64 = 60;

/// splitmix64
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Cells of 0 to 15 nonzeros; a few counts above 65535.
pub(crate) fn matrix(seed: u64, n_cells: u64) -> Csr {
    let mut numbers = Numbers(seed);
    let mut out = Csr::new();
    for _ in 0..n_cells {
        let nnz = numbers.below(16);
        let genes: BTreeSet<i32> = (0..nnz).map(|_| i32::try_from(numbers.below(N_GENES)).unwrap()).collect();
        for gene in genes {
            out.genes.push(gene);
            let count = if numbers.below(300) == 0 { 70_000 } else { 1 + numbers.below(40) };
            out.counts.push(i32::try_from(count).unwrap());
        }
        out.indptr.push(i64::try_from(out.genes.len()).unwrap());
    }
    out
}

pub(crate) fn write(storage: Arc<dyn Storage>, cells: &Csr, tile_size: u64, chunk: u64) {
    let mut options = WriterOptions::default();
    options.tile_size = tile_size;
    options.threads = 1;
    options.encode =
        EncodeOptions { compression: Compression::Preset(Preset::Fast), cut: ChunkCut::Cells(chunk) };
    let mut writer = DatasetWriter::create(storage, N_GENES, &options).unwrap();
    writer.push(cells.view().unwrap()).unwrap();
    writer.finish().unwrap();
}

/// A dataset in memory, and its cells.
pub(crate) fn dataset(n_cells: u64, tile_size: u64, chunk: u64) -> (Arc<Dataset>, Csr) {
    let cells = matrix(n_cells, n_cells);
    let storage = Arc::new(MemoryStorage::new());
    write(storage.clone(), &cells, tile_size, chunk);
    let dataset = Dataset::open_storage(storage, &OpenOptions::default().threads(2)).unwrap();
    (Arc::new(dataset), cells)
}

pub(crate) fn options(batch_size: u64) -> LoaderOptions {
    let mut options = LoaderOptions::default();
    options.batch_size = batch_size;
    options.buffer = celltile_loader::Buffer::Cells(4 * batch_size);
    options.threads = 2;
    options.seed = 3;
    options
}

/// The batches of an epoch.
pub(crate) fn epoch<C: Element>(loader: &mut Loader<C>) -> Vec<Batch<C>> {
    std::iter::from_fn(|| loader.next_batch()).map(Result::unwrap).collect()
}

pub(crate) fn cells_of<C: Element>(batches: &[Batch<C>]) -> Vec<Vec<u64>> {
    batches.iter().map(|batch| batch.cells().to_vec()).collect()
}

/// One row of a matrix.
pub(crate) fn row(all: &Csr, cell: u64) -> (&[i32], &[i32]) {
    let cell = usize::try_from(cell).unwrap();
    let range = usize::try_from(all.indptr[cell]).unwrap()..usize::try_from(all.indptr[cell + 1]).unwrap();
    (&all.genes[range.clone()], &all.counts[range])
}

/// A storage that says it is far away, counts and delays its answers, and gives none while its gate is locked.
#[derive(Debug)]
pub(crate) struct Far {
    inner: MemoryStorage,
    delay: Duration,
    pub(crate) gate: RwLock<()>,
    pub(crate) reads: AtomicU64,
}

impl Far {
    /// A dataset of these cells, far away.
    pub(crate) fn with(cells: &Csr, tile_size: u64, chunk: u64, delay: Duration) -> Arc<Self> {
        let storage = Arc::new(MemoryStorage::new());
        write(storage.clone(), cells, tile_size, chunk);
        Self::away(storage, delay)
    }

    pub(crate) fn away(storage: Arc<MemoryStorage>, delay: Duration) -> Arc<Self> {
        let inner = Arc::into_inner(storage).unwrap();
        Arc::new(Self { inner, delay, gate: RwLock::new(()), reads: AtomicU64::new(0) })
    }
}

impl Storage for Far {
    fn locate(&self, key: &str) -> String {
        self.inner.locate(key)
    }
    fn is_remote(&self) -> bool {
        true
    }
    fn open(&self, key: &str) -> celltile::Result<Box<dyn Object>> {
        self.inner.open(key)
    }
    fn read(&self, key: &str) -> celltile::Result<Bytes> {
        self.inner.read(key)
    }
    fn read_range(&self, key: &str, range: Range<u64>) -> celltile::Result<Bytes> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let _open = self.gate.read().unwrap();
        std::thread::sleep(self.delay);
        self.inner.read_range(key, range)
    }
    fn list(&self, folder: &str) -> celltile::Result<Vec<Entry>> {
        self.inner.list(folder)
    }
    fn create(&self, key: &str) -> celltile::Result<Box<dyn ObjectWriter>> {
        self.inner.create(key)
    }
    fn remove(&self, key: &str) -> celltile::Result<()> {
        self.inner.remove(key)
    }
}

/// A storage at hand that counts what is read of open objects.
#[derive(Debug)]
pub(crate) struct Counted {
    inner: MemoryStorage,
    pub(crate) reads: Arc<AtomicU64>,
}

impl Counted {
    /// A dataset of these cells.
    pub(crate) fn with(cells: &Csr, tile_size: u64, chunk: u64) -> Arc<Self> {
        let storage = Arc::new(MemoryStorage::new());
        write(storage.clone(), cells, tile_size, chunk);
        Arc::new(Self { inner: Arc::into_inner(storage).unwrap(), reads: Arc::default() })
    }
}

impl Storage for Counted {
    fn locate(&self, key: &str) -> String {
        self.inner.locate(key)
    }
    fn open(&self, key: &str) -> celltile::Result<Box<dyn Object>> {
        Ok(Box::new(CountedObject { inner: self.inner.open(key)?, reads: Arc::clone(&self.reads) }))
    }
    fn read(&self, key: &str) -> celltile::Result<Bytes> {
        self.inner.read(key)
    }
    fn read_range(&self, key: &str, range: Range<u64>) -> celltile::Result<Bytes> {
        self.inner.read_range(key, range)
    }
    fn list(&self, folder: &str) -> celltile::Result<Vec<Entry>> {
        self.inner.list(folder)
    }
    fn create(&self, key: &str) -> celltile::Result<Box<dyn ObjectWriter>> {
        self.inner.create(key)
    }
    fn remove(&self, key: &str) -> celltile::Result<()> {
        self.inner.remove(key)
    }
}

#[derive(Debug)]
struct CountedObject {
    inner: Box<dyn Object>,
    reads: Arc<AtomicU64>,
}

impl Object for CountedObject {
    fn size(&self) -> celltile::Result<u64> {
        self.inner.size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> celltile::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.read_at(offset, buffer)
    }
}
