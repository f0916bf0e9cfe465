use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::ParquetMetaDataReader;

use super::chunks::Chunks;
use super::fault::file_fault as fault;
use super::{ObsField, ObsSchema};
use crate::contain::contained;
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::table::{Codes, Kind};

/// Footer length and magic at a Parquet file's end.
const TRAILER: u64 = 8;
const MAGIC: &[u8; 4] = b"PAR1";
/// Rows decoded at a time: what memory is taken for follows the data, not a number in a footer.
const BATCH: usize = 1 << 16;

/// An obs shard whose footer was read and agrees with schema and manifest.
#[derive(Debug)]
pub(super) struct Shard {
    path: String,
    size: u64,
    metadata: ArrowReaderMetadata,
}

impl Shard {
    /// Reads the footer with ranged reads and checks it. `size` and `tile_cells` (of the shard's tiles) are the
    /// manifest's.
    pub(super) fn open(
        storage: &dyn Storage,
        key: &str,
        size: u64,
        schema: &ObsSchema,
        tile_cells: &[u64],
    ) -> Result<Self> {
        let path = storage.locate(key);
        // A network's answer to a range does not need a question about the size first.
        if !storage.is_remote() {
            let found = storage.size(key)?;
            if found != size {
                return Err(Error::Size { path, found, expected: size });
            }
        }
        let end = size
            .checked_sub(TRAILER)
            .ok_or_else(|| fault(&path, "size", size, "at least the 8 bytes of a Parquet trailer"))?;
        let trailer = storage.read_range(key, end..size)?;
        let footer = footer_range(&path, &trailer, end)?;
        let footer = storage.read_range(key, footer)?;
        contained(&path, "footer", || Self::parse(path.clone(), size, &footer, schema, tile_cells))
    }

    fn parse(path: String, size: u64, footer: &[u8], schema: &ObsSchema, tile_cells: &[u64]) -> Result<Self> {
        let metadata = ParquetMetaDataReader::decode_metadata(footer)
            .map_err(|e| fault(&path, "footer", e, "Parquet metadata"))?;
        // Columns have the types of their Parquet types, whatever a writer's own notes say.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), options)
            .map_err(|e| fault(&path, "footer", e, "a Parquet schema"))?;
        let shard = Self { path, size, metadata };
        shard.check(schema, tile_cells)?;
        Ok(shard)
    }

    fn check(&self, schema: &ObsSchema, tile_cells: &[u64]) -> Result<()> {
        let fields = self.metadata.schema().fields();
        let leaves = self.metadata.parquet_schema().num_columns();
        if fields.len() != schema.fields().len() || leaves != fields.len() {
            let expected = format!("{}, as in obs/schema.json", schema.fields().len());
            return Err(fault(&self.path, "columns", leaves, expected));
        }
        for (index, (found, expected)) in fields.iter().zip(schema.fields()).enumerate() {
            if *found.name() != expected.name {
                let expected = format!("{:?}, as in obs/schema.json", expected.name);
                let found = format!("{:?}", found.name());
                return Err(fault(&self.path, format!("name of column {index}"), found, expected));
            }
            if *found.data_type() != expected.arrow_type {
                let what = format!("type of column {:?}", expected.name);
                let expected = format!("{}, as in obs/schema.json", expected.type_name());
                return Err(fault(&self.path, what, found.data_type(), expected));
            }
        }
        let groups = self.metadata.metadata().row_groups();
        if groups.len() != tile_cells.len() {
            return Err(fault(&self.path, "row groups", groups.len(), tile_cells.len()));
        }
        for (index, (group, &cells)) in groups.iter().zip(tile_cells).enumerate() {
            if u64::try_from(group.num_rows()) != Ok(cells) {
                let what = format!("rows of row group {index}");
                return Err(fault(&self.path, what, group.num_rows(), format!("{cells}, as its tile has")));
            }
            for column in 0..group.num_columns() {
                self.chunk(index, column)?;
                let values = group.columns().get(column).map_or(0, |chunk| chunk.num_values());
                if values != group.num_rows() {
                    let what = format!("values of column {column} in row group {index}");
                    return Err(fault(&self.path, what, values, group.num_rows()));
                }
            }
        }
        Ok(())
    }

    /// Where the chunk of a column in a row group lies.
    pub(super) fn chunk(&self, group: usize, column: usize) -> Result<Range<u64>> {
        let groups = self.metadata.metadata().row_groups();
        let what = || format!("place of column {column} in row group {group}");
        let chunk = groups
            .get(group)
            .and_then(|group| group.columns().get(column))
            .ok_or_else(|| fault(&self.path, what(), "nothing", "a column chunk"))?;
        let start = chunk
            .dictionary_page_offset()
            .map_or(chunk.data_page_offset(), |dictionary| dictionary.min(chunk.data_page_offset()));
        let range = u64::try_from(start).ok().zip(u64::try_from(chunk.compressed_size()).ok());
        range
            .and_then(|(start, length)| Some(start..start.checked_add(length)?))
            .filter(|range| range.start >= 4 && range.end <= self.size - TRAILER)
            .ok_or_else(|| {
                let found = format!("{start}, {} bytes", chunk.compressed_size());
                fault(&self.path, what(), found, format!("a range inside {} bytes", self.size))
            })
    }

    /// Decodes columns of a row group from parts of the file that hold their chunks. Values are checked: number
    /// of rows, codes inside the vocabulary.
    pub(super) fn decode(
        &self,
        group: usize,
        columns: &[usize],
        schema: &ObsSchema,
        parts: Vec<(u64, Bytes)>,
    ) -> Result<Vec<ArrayRef>> {
        contained(&self.path, &format!("row group {group}"), || {
            self.decode_unguarded(group, columns, schema, parts)
        })
    }

    fn decode_unguarded(
        &self,
        group: usize,
        columns: &[usize],
        schema: &ObsSchema,
        parts: Vec<(u64, Bytes)>,
    ) -> Result<Vec<ArrayRef>> {
        let what = || format!("row group {group}");
        let rows = self.metadata.metadata().row_groups().get(group).map_or(0, |group| group.num_rows());
        let rows = usize::try_from(rows).unwrap_or(0);
        let mask = ProjectionMask::leaves(self.metadata.parquet_schema(), columns.iter().copied());
        let mut pieces: Vec<Vec<ArrayRef>> = vec![Vec::new(); columns.len()];
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(
            Chunks::new(self.size, parts),
            self.metadata.clone(),
        )
        .with_row_groups(vec![group])
        .with_projection(mask)
        .with_batch_size(rows.clamp(1, BATCH))
        .build()
        .map_err(|e| fault(&self.path, what(), e, "pages"))?;
        for batch in reader {
            let batch = batch.map_err(|e| fault(&self.path, what(), e, "pages"))?;
            // Projection gives columns in the file's order, which is the order of their numbers.
            let mut sorted: Vec<_> = (0..columns.len()).collect();
            sorted.sort_by_key(|&i| columns.get(i));
            for (&slot, array) in sorted.iter().zip(batch.columns()) {
                if let Some(pieces) = pieces.get_mut(slot) {
                    pieces.push(Arc::clone(array));
                }
            }
        }
        pieces
            .into_iter()
            .zip(columns)
            .map(|(pieces, &column)| {
                let field = schema.fields().get(column);
                let field = field.ok_or_else(|| fault(&self.path, what(), column, "a column"))?;
                let array = concat(&pieces, field).map_err(|e| fault(&self.path, what(), e, "values"))?;
                if array.len() != rows {
                    let what = format!("rows of column {:?} in row group {group}", field.name);
                    return Err(fault(&self.path, what, array.len(), rows));
                }
                checked(array, field).map_err(|e| {
                    fault(
                        &self.path,
                        format!("column {:?} in row group {group}", field.name),
                        e,
                        "codes of its categories",
                    )
                })
            })
            .collect()
    }
}

/// Where the footer lies, from the last 8 bytes of the file.
fn footer_range(path: &str, trailer: &[u8], end: u64) -> Result<Range<u64>> {
    let Some((length, magic)) = trailer.split_first_chunk::<4>() else {
        return Err(fault(path, "trailer", trailer.len(), "8 bytes"));
    };
    if magic != MAGIC {
        return Err(fault(path, "last four bytes", hex::encode(magic), "PAR1, the magic of Parquet"));
    }
    let length = u64::from(u32::from_le_bytes(*length));
    match end.checked_sub(length) {
        // The magic stands at the start, too.
        Some(start) if start >= 4 => Ok(start..end),
        _ => Err(fault(path, "footer length", length, format!("less than the {end} bytes before it"))),
    }
}

fn concat(pieces: &[ArrayRef], field: &ObsField) -> std::result::Result<ArrayRef, arrow_schema::ArrowError> {
    match pieces {
        [] => Ok(arrow_array::new_empty_array(&field.arrow_type)),
        [one] => Ok(Arc::clone(one)),
        many => arrow_select::concat::concat(&many.iter().map(AsRef::as_ref).collect::<Vec<_>>()),
    }
}

/// Codes inside their vocabulary, with nulls as -1; other values as they are.
fn checked(array: ArrayRef, field: &ObsField) -> std::result::Result<ArrayRef, crate::table::TableError> {
    if field.kind != Kind::Category {
        return Ok(array);
    }
    let codes = Codes::from_array(array.as_ref())?;
    codes.check(field.categories.as_ref().map_or(0, crate::table::Categories::len))?;
    Ok(codes.to_array())
}
