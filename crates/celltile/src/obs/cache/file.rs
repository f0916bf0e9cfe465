//! One cached column: an Arrow IPC file with one record batch a tile.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::writer::FileWriter;
use arrow_ipc::{Block, root_as_footer};
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;

use crate::contain::contained;
use crate::obs::ObsField;
use crate::storage::mmap;
use crate::table::Kind;

/// At the start (padded to 8 bytes) and at the end of an IPC file.
const MAGIC: &[u8; 6] = b"ARROW1";

/// What was found where a cached column should be.
pub(super) enum Found {
    /// The column, mapped: an array a tile.
    Column(Vec<ArrayRef>),
    /// No file.
    Nothing,
    /// A file that is damaged or another column's.
    Stale,
}

/// Maps a cached column, if the file is there and agrees with schema and manifest.
pub(super) fn open(path: &Path, field: &ObsField, tile_cells: &[u64]) -> io::Result<Found> {
    let bytes = match File::open(path) {
        Ok(file) => mmap::map(&file)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(e) => return Err(e),
    };
    let tiles = contained("", "", || Ok(parse(&bytes, field, tile_cells)));
    Ok(tiles.ok().flatten().map_or(Found::Stale, Found::Column))
}

fn parse(bytes: &Bytes, field: &ObsField, tile_cells: &[u64]) -> Option<Vec<ArrayRef>> {
    if !bytes.starts_with(MAGIC) {
        return None;
    }
    let (rest, magic) = bytes.split_last_chunk::<6>()?;
    let (rest, length) = rest.split_last_chunk::<4>()?;
    if magic != MAGIC {
        return None;
    }
    let start = rest.len().checked_sub(usize::try_from(i32::from_le_bytes(*length)).ok()?)?;
    let footer = root_as_footer(rest.get(start..)?).ok()?;
    let schema = try_fb_to_schema(footer.schema()?).ok()?;
    // Another writer of the same cache may mark codes as nullable: its own choice.
    let [found] = schema.fields().as_ref() else { return None };
    if found.name() != &field.name || found.data_type() != &field.arrow_type {
        return None;
    }
    if footer.dictionaries().is_some_and(|list| !list.is_empty()) {
        return None;
    }
    let blocks = footer.recordBatches()?;
    if blocks.len() != tile_cells.len() {
        return None;
    }
    let schema: SchemaRef = Arc::new(schema);
    let decoder = FileDecoder::new(schema, footer.version()).with_require_alignment(true);
    let whole = Buffer::from(bytes.clone());
    blocks
        .iter()
        .zip(tile_cells)
        .map(|(block, &cells)| {
            let data = block_bytes(&whole, block, start)?;
            let batch = decoder.read_record_batch(block, &data).ok()??;
            let array = batch.columns().first()?;
            let no_nulls = field.kind != Kind::Category || array.null_count() == 0;
            (u64::try_from(array.len()) == Ok(cells) && no_nulls).then(|| Arc::clone(array))
        })
        .collect()
}

/// A record batch's bytes, if they lie before the footer.
fn block_bytes(whole: &Buffer, block: &Block, end: usize) -> Option<Buffer> {
    let offset = usize::try_from(block.offset()).ok()?;
    let metadata = usize::try_from(block.metaDataLength()).ok()?;
    let length = metadata.checked_add(usize::try_from(block.bodyLength()).ok()?)?;
    (offset.checked_add(length)? <= end).then(|| whole.slice_with_length(offset, length))
}

/// A cached column in the making.
pub(super) struct Writer {
    inner: FileWriter<BufWriter<File>>,
    schema: SchemaRef,
}

impl Writer {
    pub(super) fn new(file: File, field: &ObsField) -> io::Result<Self> {
        let schema = Arc::new(Schema::new(vec![field.arrow_field()]));
        let inner = FileWriter::try_new(BufWriter::new(file), &schema).map_err(io_error)?;
        Ok(Self { inner, schema })
    }

    /// Appends a tile.
    pub(super) fn write(&mut self, array: ArrayRef) -> io::Result<()> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![array]).map_err(io_error)?;
        self.inner.write(&batch).map_err(io_error)
    }

    /// Ends the file and makes it durable.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.inner.finish().map_err(io_error)?;
        let buffered = self.inner.into_inner().map_err(io_error)?;
        buffered.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

fn io_error(error: arrow_schema::ArrowError) -> io::Error {
    match error {
        // The kind says whether the disk is full.
        arrow_schema::ArrowError::IoError(_, error) => error,
        other => io::Error::other(other.to_string()),
    }
}
