//! The arrays of a store.

use std::sync::Arc;

use celltile_grid::Axis;
use celltile_ingest::hdf5::{Attribute, Dtype, NumberKind, NumberType, StringColumn};
use celltile_ingest::tree::TreeArray;
use celltile_ingest::{Error, Result};
use zarrs::plugin::ExtensionName as _;

use super::AnyStore;
use super::fault::of_zarr;
use super::tree::attribute;
use crate::array::ZarrArray;
use crate::cache::Cache;
use crate::elements::Elements;
use crate::error::ZarrError;
use crate::regrid::unravel;

/// Elements of the chunks that a rectilinear array is read in, about.
const READ: u64 = 1 << 20;

/// Bytes of decoded chunks kept for an array that is read in other pieces, at least.
const KEPT: u64 = 64 << 20;

/// Bytes that an array of one axis may have beyond what is stored justifies: chunks of nothing but the fill value are not
/// stored, so that a mask of many million cells may take none.
const MOST_UNSTORED: u64 = 256 << 20;

/// Bytes decoded for every byte stored, at most, beyond that.
const MOST_A_BYTE: u64 = 1 << 14;

/// An array of a store.
pub(super) struct StoreArray {
    file: String,
    path: String,
    array: ZarrArray<AnyStore>,
    dtype: Dtype,
    shape: Vec<u64>,
    grid: Vec<u64>,
    /// Decoded units, where the chunks that are read are others.
    kept: Option<Cache<Vec<u64>, Option<Arc<Elements>>>>,
}

impl std::fmt::Debug for StoreArray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreArray")
            .field("path", &self.path)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl StoreArray {
    pub(super) fn new(file: String, path: String, array: ZarrArray<AnyStore>) -> Self {
        let name = array.array().data_type().name_v3().unwrap_or_default().into_owned();
        let dtype = dtype(&name, array.fixed_size());
        let shape = array.grid().shape();
        let regular = array.units().to_regular();
        // Two neighbours at least, for the pieces that reach into both.
        let largest =
            array.units().axes().iter().map(|axis| axis.runs().map(|run| run.edge).max().unwrap_or(0));
        let largest = u64::try_from(array.chunk_bytes(largest)).unwrap_or(u64::MAX);
        let budget = largest.min(array.max_chunk_bytes()).saturating_mul(2).max(KEPT);
        let kept = regular.is_none().then(|| Cache::new(budget));
        let grid = regular.unwrap_or_else(|| read_grid(array.units().axes()));
        Self { file, path, array, dtype, shape, grid, kept }
    }

    fn damaged(&self, what: impl Into<String>) -> Error {
        Error::Damaged { file: self.file.clone(), at: self.path.clone(), what: what.into() }
    }

    fn fault(&self, error: ZarrError) -> Error {
        of_zarr(&self.file, error)
    }

    /// Calls `each` with the elements of each unit of an array of one axis or none, and how many of them are inside it.
    fn scan(&self, mut each: impl FnMut(&Elements, usize) -> Result<()>) -> Result<()> {
        if self.shape.len() > 1 {
            let (file, at) = (self.file.clone(), self.path.clone());
            let what = format!("shape {:?}; expected one axis", self.shape);
            return Err(Error::Unsupported { file, at, what });
        }
        let units = self.array.units();
        let active = units.active_shape();
        let element = self.array.element_bytes().max(1);
        let (mut decoded, mut stored) = (0_u64, 0_u64);
        for number in 0..active.iter().product() {
            let unit = unravel(number, &active);
            let placed = units.chunk(&unit).map_err(|error| self.damaged(error.to_string()))?;
            let clipped = placed.first().map_or(1, |axis| axis.clipped);
            decoded = decoded.saturating_add(clipped.saturating_mul(element));
            let elements = match self.array.read_unit(&unit).map_err(|error| self.fault(error))? {
                Some((elements, bytes)) => {
                    stored = stored.saturating_add(bytes);
                    elements
                }
                None if decoded > stored.saturating_mul(MOST_A_BYTE).saturating_add(MOST_UNSTORED) => {
                    let what = format!("{decoded} bytes and more, where {stored} are stored");
                    return Err(self.damaged(what));
                }
                None => self.array.filled(clipped).map_err(|error| self.fault(error))?,
            };
            each(&elements, usize::try_from(clipped).unwrap_or(usize::MAX))?;
        }
        Ok(())
    }
}

impl TreeArray for StoreArray {
    fn path(&self) -> &str {
        &self.path
    }

    fn dtype(&self) -> &Dtype {
        &self.dtype
    }

    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn grid(&self) -> &[u64] {
        &self.grid
    }

    fn attribute(&self, name: &str) -> Result<Option<Attribute>> {
        Ok(self.array.array().attributes().get(name).and_then(|value| attribute(name, value)))
    }

    fn read_chunk(&self, index: u64, out: &mut Vec<u8>) -> Result<()> {
        let down: Vec<u64> =
            self.shape.iter().zip(&self.grid).map(|(length, edge)| length.div_ceil(*edge)).collect();
        let chunk = unravel(index, &down);
        let elements = match &self.kept {
            // Chunks are units.
            None => match self.array.read_unit(&chunk).map_err(|error| self.fault(error))? {
                Some((elements, _)) => Ok(elements),
                None => self.array.filled(self.grid.iter().product()),
            },
            Some(kept) => {
                let starts = chunk.iter().zip(&self.grid).map(|(chunk, edge)| chunk.saturating_mul(*edge));
                let region: Vec<_> = starts
                    .zip(&self.grid)
                    .zip(&self.shape)
                    .map(|((start, edge), length)| start..start.saturating_add(*edge).min(*length))
                    .collect();
                self.array.gather(&self.grid, &region, Some(kept))
            }
        };
        match elements.map_err(|error| self.fault(error))? {
            Elements::Fixed(bytes) => *out = bytes,
            Elements::Variable { .. } => return Err(self.damaged("strings; expected numbers")),
        }
        Ok(())
    }

    fn read_all(&self) -> Result<Vec<u8>> {
        let Some(size) = self.array.fixed_size() else {
            return Err(self.damaged("strings; expected numbers"));
        };
        let mut all = Vec::new();
        self.scan(|elements, count| {
            let bytes = elements.fixed().and_then(|bytes| bytes.get(..count.checked_mul(size)?));
            all.extend_from_slice(bytes.ok_or_else(|| self.damaged("a chunk cut short"))?);
            Ok(())
        })?;
        Ok(all)
    }

    fn strings(&self) -> Result<StringColumn> {
        if self.dtype != Dtype::VarString {
            return Err(self.damaged(format!("{}; expected strings", self.dtype)));
        }
        let mut column = StringColumn::default();
        self.scan(|elements, count| {
            if let Some(texts) = elements.slices() {
                for text in texts.take(count) {
                    let text = std::str::from_utf8(text);
                    column.push(text.map_err(|_| self.damaged("a string that is not UTF-8"))?);
                }
                return Ok(());
            }
            let size = self.array.fixed_size().unwrap_or(4).max(4);
            for slot in elements.fixed().unwrap_or_default().chunks_exact(size).take(count) {
                let points = slot.as_chunks::<4>().0.iter().map(|point| u32::from_ne_bytes(*point));
                // Filled up with zeros.
                let text: Option<String> =
                    points.take_while(|point| *point != 0).map(char::from_u32).collect();
                column.push(&text.ok_or_else(|| self.damaged("a string of no valid characters"))?);
            }
            Ok(())
        })?;
        Ok(column)
    }
}

/// The type of elements that zarrs hands out, which are in this machine's byte order.
fn dtype(name: &str, size: Option<usize>) -> Dtype {
    let number = |kind| match size {
        Some(size) => Dtype::Number(NumberType { kind, size, big_endian: cfg!(target_endian = "big") }),
        None => Dtype::Other(name.to_owned()),
    };
    match name {
        "bool" => Dtype::Bool,
        "int8" | "int16" | "int32" | "int64" => number(NumberKind::Signed),
        "uint8" | "uint16" | "uint32" | "uint64" => number(NumberKind::Unsigned),
        "float16" | "float32" | "float64" => number(NumberKind::Float),
        "string" | "fixed_length_utf32" => Dtype::VarString,
        other => Dtype::Other(other.to_owned()),
    }
}

/// Chunks of one shape to read a rectilinear array in: as large as its largest, within bounds.
fn read_grid(axes: &[Axis]) -> Vec<u64> {
    let largest = |axis: &Axis| {
        let edge = axis.runs().map(|run| run.edge).max().unwrap_or(1);
        edge.min(axis.length().max(1))
    };
    let mut edges: Vec<u64> = axes.iter().map(largest).collect();
    if let ([edge], [axis]) = (edges.as_mut_slice(), axes) {
        *edge = READ.min(axis.length().max(1));
        return edges;
    }
    while edges.iter().fold(1_u64, |count, &edge| count.saturating_mul(edge)) > 4 * READ {
        let Some(largest) = edges.iter_mut().max() else { break };
        *largest = largest.div_ceil(2);
    }
    edges
}
