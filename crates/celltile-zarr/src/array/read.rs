//! Elements read: chunks, regions, and what is decoded at once.

use std::ops::Range;
use std::sync::Arc;

use celltile_grid::Grid;
use zarrs::array::{ArrayBytes, DataTypeSize};
use zarrs::storage::ReadableStorageTraits;

use super::ZarrArray;
use crate::cache::Cache;
use crate::copy::lengths;
use crate::decode::{Decoder, Form};
use crate::elements::{Assembly, Elements};
use crate::error::{Result, ZarrError};

impl<S: ?Sized> ZarrArray<S> {
    /// What is decoded at once: the inner chunks of shards, or chunks.
    #[must_use]
    pub fn units(&self) -> &Grid {
        &self.units
    }

    /// Bytes of one element, if all have the same.
    pub(crate) fn fixed_size(&self) -> Option<usize> {
        match self.array.data_type().size() {
            DataTypeSize::Fixed(size) => Some(size),
            DataTypeSize::Variable => None,
        }
    }

    /// So many elements of the fill value.
    pub(crate) fn filled(&self, count: u64) -> Result<Elements> {
        let bytes = u128::from(count).saturating_mul(u128::from(self.element_bytes()));
        let count = usize::try_from(count).ok().filter(|_| bytes <= u128::from(self.max_chunk_bytes));
        let count =
            count.ok_or_else(|| ZarrError::metadata(self.path(), format!("{bytes} bytes of nothing")))?;
        Ok(Elements::filled(self.array.fill_value().as_ne_bytes(), count, self.fixed_size().is_none()))
    }

    fn too_large(&self) -> ZarrError {
        ZarrError::metadata(
            self.path(),
            "elements that do not fit into memory, or not as many as its grid says",
        )
    }
}

impl<S: ?Sized + ReadableStorageTraits + 'static> ZarrArray<S> {
    /// A chunk's elements, its declared shape whole; those of a chunk that is not stored are the fill value.
    ///
    /// # Errors
    ///
    /// If the chunk is not active, takes more memory than allowed, or cannot be read and decoded.
    pub fn read_chunk(&self, chunk: &[u64]) -> Result<ArrayBytes<'static>> {
        self.check_chunk(chunk)?;
        let placed = self.grid().chunk(chunk).map_err(ZarrError::grid(self.path()))?;
        let edges: Vec<u64> = placed.iter().map(|axis| axis.edge).collect();
        let region: Vec<Range<u64>> =
            placed.iter().map(|axis| axis.origin..axis.origin.saturating_add(axis.clipped)).collect();
        let elements = if self.inner().is_none() {
            match self.read_unit(chunk)? {
                Some((elements, _)) => elements,
                None => self.filled(edges.iter().product())?,
            }
        } else {
            self.gather(&edges, &region, None)?
        };
        elements.into_zarrs().ok_or_else(|| self.too_large())
    }

    /// The elements of a region, in C order.
    ///
    /// # Errors
    ///
    /// If the region is not inside the array, a chunk that it touches takes more memory than allowed, or one cannot be read and
    /// decoded.
    pub fn read_region(&self, region: &[Range<u64>]) -> Result<ArrayBytes<'static>> {
        let elements = self.gather(&lengths(region), region, None)?;
        elements.into_zarrs().ok_or_else(|| self.too_large())
    }

    /// The elements of one of [`units`](Self::units), its declared shape whole, and the bytes they are stored in; `None` if it is
    /// not stored.
    pub(crate) fn read_unit(&self, unit: &[u64]) -> Result<Option<(Elements, u64)>> {
        let found = self.stored_unit(unit)?;
        if found.is_none() && self.complete {
            let what = format!(
                "chunk {unit:?} is not stored, so that its values would be the fill value: was the store copied whole?"
            );
            return Err(ZarrError::metadata(self.path(), what));
        }
        Ok(found)
    }

    fn stored_unit(&self, unit: &[u64]) -> Result<Option<(Elements, u64)>> {
        let placed = self.units.chunk(unit).map_err(ZarrError::grid(self.path()))?;
        self.check_size(placed.iter())?;
        let edges: Vec<u64> = placed.iter().map(|axis| axis.edge).collect();
        let form = Form {
            shape: &edges,
            data_type: self.array.data_type(),
            fill_value: self.array.fill_value(),
            most: self.max_chunk_bytes,
        };
        let store = self.array.storage();
        let sharded = match &self.decoder {
            Decoder::Plain(chain) => {
                let key = self.array.chunk_key(unit);
                let Some(bytes) = store.get(&key)? else { return Ok(None) };
                let elements = chain.decode(&bytes, &form);
                let elements = elements
                    .map_err(|reason| ZarrError::metadata(self.path(), format!("chunk {key}: {reason}")))?;
                return Ok(Some((elements, bytes.len() as u64)));
            }
            Decoder::Refused(what) => {
                return Err(ZarrError::metadata(self.path(), format!("{what} are not read")));
            }
            Decoder::Sharded(sharded) => sharded,
        };
        let first: Vec<u64> = placed.iter().map(|axis| axis.origin).collect();
        let place = self.grid().locate(&first).map_err(ZarrError::grid(self.path()))?;
        let shard: Vec<u64> = place.iter().map(|axis| axis.chunk).collect();
        let key = self.array.chunk_key(&shard);
        let index = self.indexes.get_sized(&shard, || {
            let placed = self.grid().chunk(&shard).map_err(ZarrError::grid(self.path()))?;
            let edges: Vec<u64> = placed.iter().map(|axis| axis.edge).collect();
            let index = sharded.index(self.path(), store.as_ref(), &key, &edges)?;
            let bytes = index.as_ref().map_or(1, |index| index.bytes().max(1));
            Ok::<_, ZarrError>((index, bytes))
        })?;
        let Some(index) = index.as_ref() else { return Ok(None) };
        let within: Vec<u64> =
            place.iter().zip(&sharded.inner).map(|(axis, inner)| axis.within / (*inner).max(1)).collect();
        let Some(range) = index.place(&within) else { return Ok(None) };
        sharded.read(self.path(), store.as_ref(), &key, range, &form)
    }

    /// The elements of a region of the array as the first ones of a rectangle of that shape, whose other elements are the fill
    /// value. Units that are in `kept` are not decoded again.
    pub(crate) fn gather(
        &self,
        shape: &[u64],
        region: &[Range<u64>],
        kept: Option<&Cache<Vec<u64>, Option<Arc<Elements>>>>,
    ) -> Result<Elements> {
        let fill = self.array.fill_value().as_ne_bytes();
        let bytes = self.chunk_bytes(shape.iter().copied());
        let assembly =
            usize::try_from(bytes).ok().and_then(|_| Assembly::new(shape, self.fixed_size(), fill));
        let mut assembly = assembly.ok_or_else(|| self.too_large())?;
        let mut parts = self.units.region(region).map_err(ZarrError::grid(self.path()))?;
        while let Some(parts) = parts.next_part() {
            let unit: Vec<u64> = parts.iter().map(|part| part.chunk.chunk).collect();
            let edges: Vec<u64> = parts.iter().map(|part| part.chunk.edge).collect();
            let read = || Ok::<_, ZarrError>(self.read_unit(&unit)?.map(|(elements, _)| Arc::new(elements)));
            let piece = match kept {
                Some(kept) => {
                    let bytes = u64::try_from(self.chunk_bytes(edges.iter().copied())).unwrap_or(u64::MAX);
                    kept.get(&unit, bytes, read)?.as_ref().clone()
                }
                None => read()?,
            };
            let Some(piece) = piece else { continue };
            let extent: Vec<u64> = parts.iter().map(|part| part.within.end - part.within.start).collect();
            let from: Vec<u64> = parts.iter().map(|part| part.within.start).collect();
            let to: Vec<u64> = parts.iter().map(|part| part.selected.start).collect();
            assembly.put(&piece, &edges, &from, &to, &extent).ok_or_else(|| self.too_large())?;
        }
        Ok(assembly.finish())
    }
}
