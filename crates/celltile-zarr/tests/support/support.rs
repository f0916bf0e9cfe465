//! What several tests need.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use celltile_grid::{Axis, Grid};
use celltile_zarr::ZarrArray;
use zarrs::array::ArrayBytes;
use zarrs::storage::byte_range::ByteRangeIterator;
use zarrs::storage::store::MemoryStore;
use zarrs::storage::{
    Bytes, MaybeBytes, MaybeBytesIterator, OffsetBytesIterator, ReadableStorageTraits, StorageError,
    StoreKey, StorePrefix, WritableStorageTraits,
};

/// Numbers that look random and are the same each time.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }
}

/// An axis of that length, cut anyhow: an integer, or edges that may reach past its end.
pub(crate) fn random_axis(numbers: &mut Numbers, length: u64) -> Axis {
    if numbers.one_in(4) {
        return Axis::regular(length, numbers.between(1, 7)).unwrap();
    }
    let (mut edges, mut sum) = (Vec::new(), 0);
    while sum < length || edges.is_empty() {
        let (edge, count) = (numbers.between(1, 6), numbers.between(1, 3));
        edges.push((edge, count));
        sum += edge * count;
    }
    if numbers.one_in(3) {
        edges.push((numbers.between(1, 4), 1));
    }
    Axis::from_runs(edges).unwrap().with_length(length).unwrap()
}

pub(crate) fn random_grid(numbers: &mut Numbers, shape: &[u64]) -> Grid {
    Grid::new(shape.iter().map(|&length| random_axis(numbers, length)).collect())
}

/// Elements of an array in memory, in C order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reference {
    pub(crate) shape: Vec<u64>,
    pub(crate) values: Vec<i32>,
}

impl Reference {
    pub(crate) fn random(numbers: &mut Numbers, shape: &[u64]) -> Self {
        let n: u64 = shape.iter().product();
        // Many are zero, so that some chunks hold nothing but the fill value.
        let values = (0..n).map(|_| if numbers.one_in(3) { numbers.next() as i32 } else { 0 }).collect();
        Self { shape: shape.to_vec(), values }
    }

    fn at(&self, index: &[u64]) -> i32 {
        let offset = index.iter().zip(&self.shape).fold(0, |offset, (i, n)| offset * n + i);
        self.values[offset as usize]
    }

    /// Glues another array behind this one along an axis.
    pub(crate) fn append(&self, axis: usize, other: &Self) -> Self {
        let mut shape = self.shape.clone();
        shape[axis] += other.shape[axis];
        let n: u64 = shape.iter().product();
        let values = (0..n).map(|number| {
            let mut index = unravel(number, &shape);
            if index[axis] < self.shape[axis] {
                return self.at(&index);
            }
            index[axis] -= self.shape[axis];
            other.at(&index)
        });
        Self { values: values.collect(), shape: shape.clone() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    /// Writes every chunk of an array, element by element.
    pub(crate) fn write<S>(&self, array: &ZarrArray<S>)
    where
        S: ?Sized + ReadableStorageTraits + WritableStorageTraits + 'static,
    {
        let active = array.grid().active_shape();
        for number in 0..active.iter().product() {
            let chunk = unravel(number, &active);
            let placed = array.grid().chunk(&chunk).unwrap();
            let edges: Vec<u64> = placed.iter().map(|chunk| chunk.edge).collect();
            let values = (0..edges.iter().product::<u64>()).map(|number| {
                let index: Vec<u64> =
                    unravel(number, &edges).iter().zip(&placed).map(|(i, chunk)| i + chunk.origin).collect();
                let inside = index.iter().zip(&self.shape).all(|(i, n)| i < n);
                if inside { self.at(&index) } else { 0 }
            });
            let bytes: Vec<u8> = values.flat_map(i32::to_ne_bytes).collect();
            array.write_chunk(&chunk, ArrayBytes::new_flen(bytes)).unwrap();
        }
    }
}

pub(crate) fn unravel(mut number: u64, shape: &[u64]) -> Vec<u64> {
    let mut index = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        index[axis] = number % shape[axis].max(1);
        number /= shape[axis].max(1);
    }
    index
}

/// The elements of a whole array.
pub(crate) fn read_all<S: ?Sized + ReadableStorageTraits + 'static>(array: &ZarrArray<S>) -> Reference {
    let shape = array.grid().shape();
    let region: Vec<_> = shape.iter().map(|&length| 0..length).collect();
    let bytes = array.read_region(&region).unwrap().into_fixed().unwrap();
    let values = bytes.chunks_exact(4).map(|bytes| i32::from_ne_bytes(bytes.try_into().unwrap())).collect();
    Reference { shape, values }
}

/// A store that dies after so many writes.
#[derive(Debug)]
pub(crate) struct Dying {
    pub(crate) inner: Arc<MemoryStore>,
    pub(crate) left: AtomicI64,
}

impl Dying {
    pub(crate) fn new(inner: Arc<MemoryStore>, writes: i64) -> Self {
        Self { inner, left: AtomicI64::new(writes) }
    }
}

impl ReadableStorageTraits for Dying {
    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        self.inner.get_partial_many(key, ranges)
    }

    fn get(&self, key: &StoreKey) -> Result<MaybeBytes, StorageError> {
        self.inner.get(key)
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        self.inner.size_key(key)
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

impl WritableStorageTraits for Dying {
    fn set(&self, key: &StoreKey, value: Bytes) -> Result<(), StorageError> {
        if self.left.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return Err(StorageError::Other("killed".to_owned()));
        }
        self.inner.set(key, value)
    }

    fn set_partial_many(&self, key: &StoreKey, values: OffsetBytesIterator<'_>) -> Result<(), StorageError> {
        self.inner.set_partial_many(key, values)
    }

    fn erase(&self, key: &StoreKey) -> Result<(), StorageError> {
        self.inner.erase(key)
    }

    fn erase_prefix(&self, prefix: &StorePrefix) -> Result<(), StorageError> {
        self.inner.erase_prefix(prefix)
    }

    fn supports_set_partial(&self) -> bool {
        false
    }
}
