use std::sync::{Arc, OnceLock};

use hdf5_reader::messages::HdfMessage;
use hdf5_reader::messages::filter_pipeline::FilterDescription;
use hdf5_reader::messages::layout::{ChunkIndexing, DataLayout};

use super::attribute::Attribute;
use super::dtype::{self, Dtype};
use super::file::Shared;
use super::filters::Inflater;
use crate::error::{Error, Result, human_bytes};

/// Bytes of the pieces that contiguous data are read in.
const PIECE_BYTES: u64 = 1 << 20;

/// Elements that a file of a given size may declare: 2^14 bytes of them for every byte of the file. Deflate reaches a
/// factor of about a thousand; much more is a declared shape that nothing was ever stored for.
const MAX_EXPANSION: u64 = 1 << 14;

/// Bytes of a column, which is read in one piece, for every byte of the file. Matrices, read in blocks, may declare more
/// ([`MAX_EXPANSION`]).
const COLUMN_EXPANSION: u64 = 64;

/// Bytes that a column may have in any file.
const COLUMN_BYTES: u64 = 64 << 20;

/// Where one chunk of a dataset lies in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRef {
    /// Position of the chunk in the grid of chunks, row-major.
    pub index: u64,
    /// First byte in the file.
    pub address: u64,
    /// Bytes stored.
    pub size: u64,
    /// Bit `i` set: filter `i` was not applied to this chunk.
    pub filter_mask: u32,
}

/// How a dataset's elements are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// In the object header.
    Compact(Vec<u8>),
    /// In one piece; `None` where nothing was ever written.
    Contiguous(Option<u64>),
    /// In chunks of equal shape, each located by an index.
    Chunked,
}

/// A dataset of an open file; cheap to clone, usable from many threads.
///
/// Whatever its layout, it is read through a grid of chunks: [`Dataset::grid`] and [`Dataset::read_chunk`].
#[derive(Clone)]
pub struct Dataset {
    pub(crate) shared: Arc<Shared>,
    inner: Arc<Inner>,
    complete: bool,
}

struct Inner {
    path: String,
    parsed: hdf5_reader::Dataset,
    dtype: Dtype,
    shape: Vec<u64>,
    element_size: usize,
    layout: Layout,
    grid: Vec<u64>,
    filters: Vec<FilterDescription>,
    fill: Vec<u8>,
    chunks: OnceLock<Vec<ChunkRef>>,
}

impl std::fmt::Debug for Dataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dataset")
            .field("path", &self.inner.path)
            .field("shape", &self.inner.shape)
            .field("dtype", &self.inner.dtype)
            .finish_non_exhaustive()
    }
}

impl Dataset {
    pub(crate) fn new(shared: Arc<Shared>, path: String, parsed: hdf5_reader::Dataset) -> Result<Self> {
        let header = shared
            .parsed
            .get_or_parse_header(parsed.address())
            .map_err(|error| shared.damaged(&path, error.to_string()))?;
        let mut layout = None;
        let mut filters = Vec::new();
        let mut external = false;
        for message in &header.messages {
            match message {
                HdfMessage::DataLayout(message) => layout = Some(&message.layout),
                HdfMessage::FilterPipeline(message) => filters.clone_from(&message.filters),
                HdfMessage::ExternalFiles(_) => external = true,
                _ => {}
            }
        }
        if external {
            return Err(shared.unsupported(path, "its data are in another file (external storage)"));
        }
        let dtype = match Dtype::from_parsed(parsed.dtype()) {
            dtype @ (Dtype::Number(_) | Dtype::Bool | Dtype::Enum(..)) => {
                let message = parsed.raw_datatype();
                let message = message.map_err(|error| shared.damaged(&path, error.to_string()))?;
                dtype::oddity(&message).map_or(dtype, Dtype::Other)
            }
            dtype => dtype,
        };
        let shape = parsed.shape().to_vec();
        let element_size = match parsed.raw_element_size() {
            Ok(size) if size > 0 => size,
            Ok(_) => return Err(shared.damaged(path, "elements of no bytes")),
            Err(error) => return Err(shared.damaged(path, error.to_string())),
        };
        let count = shape.iter().try_fold(1_u64, |product, &edge| product.checked_mul(edge));
        let bytes = count.and_then(|count| count.checked_mul(element_size as u64));
        let limit = shared.bytes.len().saturating_mul(MAX_EXPANSION);
        let total = match bytes {
            Some(bytes) if bytes <= limit => bytes,
            _ => {
                let what = format!(
                    "shape {shape:?} of {element_size}-byte elements; a file of {} cannot hold that",
                    human_bytes(shared.bytes.len())
                );
                return Err(shared.damaged(path, what));
            }
        };
        let undefined = |address: u64| address == u64::MAX || address == u64::from(u32::MAX);
        let (layout, grid) = match layout {
            Some(DataLayout::Compact { data }) => {
                if (data.len() as u64) < total {
                    let what = format!("{} bytes stored; its shape needs {total}", data.len());
                    return Err(shared.damaged(path, what));
                }
                (Layout::Compact(data.clone()), whole_rows(&shape, element_size))
            }
            Some(DataLayout::Contiguous { address, size }) => {
                let address = if undefined(*address) { None } else { Some(*address) };
                if address.is_some() && *size < total {
                    return Err(shared.damaged(path, format!("{size} bytes stored; its shape needs {total}")));
                }
                (Layout::Contiguous(address), whole_rows(&shape, element_size))
            }
            Some(DataLayout::Chunked { .. }) => {
                let grid = parsed.chunks().unwrap_or_default().into_iter().map(u64::from).collect::<Vec<_>>();
                if grid.len() != shape.len() || grid.contains(&0) {
                    return Err(shared.damaged(path, format!("chunks of shape {grid:?} for shape {shape:?}")));
                }
                (Layout::Chunked, grid)
            }
            None => return Err(shared.damaged(path, "a dataset without a layout")),
        };
        // The parser takes a `_FillValue` attribute for a fill value, which is another format's rule.
        let fill = header
            .messages
            .iter()
            .find_map(|message| match message {
                HdfMessage::FillValue(fill) => fill.value.clone(),
                _ => None,
            })
            .filter(|fill| fill.len() == element_size)
            .unwrap_or_else(|| vec![0; element_size]);
        let inner = Inner {
            path,
            parsed,
            dtype,
            shape,
            element_size,
            layout,
            grid,
            filters,
            fill,
            chunks: OnceLock::new(),
        };
        Ok(Self { shared, inner: Arc::new(inner), complete: false })
    }

    /// Refuses zeros that stand for what was never written, where they are nothing that could be meant.
    pub(crate) fn complete(mut self) -> Self {
        self.complete = true;
        self
    }

    /// Path in the file, without a slash at the front.
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    /// Name of the file, for messages.
    pub fn file_name(&self) -> &str {
        &self.shared.name
    }

    /// Address of the object, as object references name it.
    pub fn address(&self) -> u64 {
        self.inner.parsed.address()
    }

    /// The elements' type.
    pub fn dtype(&self) -> &Dtype {
        &self.inner.dtype
    }

    /// Bytes an element takes in the file.
    pub fn element_size(&self) -> usize {
        self.inner.element_size
    }

    /// The shape; empty for a scalar.
    pub fn shape(&self) -> &[u64] {
        &self.inner.shape
    }

    /// The number of elements of a dataset with one axis.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if it has another number of axes.
    pub fn len_1d(&self) -> Result<u64> {
        match self.shape() {
            [len] => Ok(*len),
            shape => Err(self.damaged(format!("shape {shape:?}; expected one axis"))),
        }
    }

    /// How the elements are stored.
    pub fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    /// The filters that were applied to each chunk, in that order: identifiers.
    pub fn filters(&self) -> impl Iterator<Item = u16> {
        self.inner.filters.iter().map(|filter| filter.id)
    }

    /// The chunk shape that the dataset is read in; for data that are not chunked, whole rows of about a mebibyte.
    pub fn grid(&self) -> &[u64] {
        &self.inner.grid
    }

    /// Elements in a chunk, those beyond the dataset's edges included.
    pub(crate) fn chunk_elements(&self) -> u64 {
        // The product of edges that fit 32 bits each for two axes at most; more axes saturate.
        self.inner.grid.iter().fold(1_u64, |product, &edge| product.saturating_mul(edge))
    }

    /// Bytes of a chunk once its filters are undone.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_elements().saturating_mul(self.inner.element_size as u64)
    }

    /// Fails if a chunk takes more memory than that.
    pub(crate) fn check_chunk_bytes(&self, allowed: u64) -> Result<()> {
        if self.chunk_bytes() > allowed {
            return Err(Error::Memory {
                file: self.shared.name.clone(),
                at: format!("{}: chunks of shape {:?}", self.inner.path, self.inner.grid),
                needed: human_bytes(self.chunk_bytes()),
                allowed: format!("{} (their share of the limit)", human_bytes(allowed)),
            });
        }
        Ok(())
    }

    /// All attributes, in no particular order.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if they cannot be read.
    pub fn attributes(&self) -> Result<Vec<Attribute>> {
        let raw = self.raw_attributes()?;
        Ok(raw.into_iter().map(|raw| Attribute::new(&self.shared, raw)).collect())
    }

    fn raw_attributes(&self) -> Result<Vec<hdf5_reader::RawAttribute>> {
        self.inner.parsed.raw_attributes().map_err(|error| self.damaged(error.to_string()))
    }

    /// The attribute of that name, if there is one.
    ///
    /// # Errors
    ///
    /// As [`Dataset::attributes`].
    pub fn attribute(&self, name: &str) -> Result<Option<Attribute>> {
        let raw = self.raw_attributes()?.into_iter().find(|raw| raw.name() == name);
        Ok(raw.map(|raw| Attribute::new(&self.shared, raw)))
    }

    /// An error about this dataset's bytes.
    pub(crate) fn damaged(&self, what: impl Into<String>) -> Error {
        self.shared.damaged(&self.inner.path, what)
    }

    pub(crate) fn unsupported(&self, what: impl Into<String>) -> Error {
        self.shared.unsupported(&self.inner.path, what)
    }

    /// The chunks that are stored, in the order of their place in the grid. Read once and kept.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if the index cannot be read, names a place outside the file, or a chunk twice.
    pub fn chunks(&self) -> Result<&[ChunkRef]> {
        if let Some(chunks) = self.inner.chunks.get() {
            return Ok(chunks);
        }
        let chunks = self.load_chunks()?;
        Ok(self.inner.chunks.get_or_init(|| chunks))
    }

    fn load_chunks(&self) -> Result<Vec<ChunkRef>> {
        let parsed = &self.shared.parsed;
        let header =
            parsed.get_or_parse_header(self.address()).map_err(|error| self.damaged(error.to_string()))?;
        let layout = header.messages.iter().find_map(|message| match message {
            HdfMessage::DataLayout(message) => Some(&message.layout),
            _ => None,
        });
        let Some(DataLayout::Chunked { address, chunk_indexing, .. }) = layout else {
            return Ok(Vec::new());
        };
        if *address == u64::MAX || self.shape().contains(&0) {
            return Ok(Vec::new());
        }
        let (storage, superblock) = (parsed.storage(), parsed.superblock());
        let (offsets, lengths) = (superblock.offset_size, superblock.length_size);
        let rank = self.shape().len();
        let axes = u32::try_from(rank).map_err(|_| self.damaged("too many axes"))?;
        let edges: Vec<u32> =
            self.grid().iter().map(|&edge| u32::try_from(edge).unwrap_or(u32::MAX)).collect();
        let shape = self.shape();
        let damaged = |error: hdf5_reader::error::Error| self.damaged(format!("chunk index: {error}"));
        let entries = match chunk_indexing {
            None => {
                let leaves = hdf5_reader::btree_v1::collect_btree_v1_leaves_storage(
                    storage,
                    *address,
                    offsets,
                    lengths,
                    Some(axes),
                    &edges,
                    None,
                )
                .map_err(damaged)?;
                let mut entries = Vec::with_capacity(leaves.len());
                for (key, address) in leaves {
                    let hdf5_reader::btree_v1::BTreeV1Key::RawData { chunk_size, filter_mask, offsets } = key
                    else {
                        return Err(self.damaged("chunk index: a key that is none of a chunk's"));
                    };
                    entries.push((address, u64::from(chunk_size), filter_mask, offsets));
                }
                entries
            }
            Some(indexing) => {
                let entries = match indexing {
                    ChunkIndexing::SingleChunk { filtered_size, filters } => {
                        Ok(vec![hdf5_reader::chunk_index::single_chunk_entry(
                            *address,
                            *filtered_size,
                            *filters,
                            rank,
                        )])
                    }
                    ChunkIndexing::BTreeV2 => hdf5_reader::chunk_index::collect_v2_chunk_entries_storage(
                        storage, *address, offsets, lengths, axes, &edges, None,
                    ),
                    ChunkIndexing::Implicit => hdf5_reader::chunk_index::collect_implicit_chunk_entries(
                        *address,
                        shape,
                        &edges,
                        self.element_size(),
                        None,
                        storage.len(),
                    ),
                    ChunkIndexing::FixedArray { .. } => {
                        hdf5_reader::fixed_array::collect_fixed_array_chunk_entries_storage(
                            storage, *address, offsets, lengths, shape, &edges, None,
                        )
                    }
                    ChunkIndexing::ExtensibleArray { .. } => {
                        hdf5_reader::extensible_array::collect_extensible_array_chunk_entries_storage(
                            storage,
                            *address,
                            offsets,
                            lengths,
                            shape,
                            self.inner.parsed.max_dims(),
                            &edges,
                            None,
                        )
                    }
                };
                entries
                    .map_err(damaged)?
                    .into_iter()
                    .map(|entry| (entry.address, entry.size, entry.filter_mask, entry.offsets))
                    .collect()
            }
        };
        let found = entries.len();
        let mut chunks = Vec::with_capacity(found);
        for (address, size, filter_mask, offsets) in entries {
            if let Some(index) = self.grid_index(&offsets)? {
                // Indexes of chunks without filters leave the size out.
                let size = if size == 0 { self.chunk_bytes() } else { size };
                chunks.push(ChunkRef { index, address, size, filter_mask });
            }
        }
        // A damaged place looks like one that was left behind, but then a chunk is missing.
        let (outside, within) = (found - chunks.len(), self.grid_shape().iter().product::<u64>());
        if outside > 0 && (chunks.len() as u64) < within {
            let missing = within - chunks.len() as u64;
            return Err(self.damaged(format!(
                "chunk index: {outside} chunks lie outside the shape, and {missing} of those inside are missing"
            )));
        }
        chunks.sort_unstable_by_key(|chunk| chunk.index);
        if chunks.windows(2).any(|pair| matches!(pair, [a, b] if a.index == b.index)) {
            return Err(self.damaged("chunk index: the same chunk twice"));
        }
        Ok(chunks)
    }

    /// Place in the grid of the chunk that starts at these coordinates; `None` for one outside the shape, which
    /// shrinking a dataset leaves behind.
    fn grid_index(&self, start: &[u64]) -> Result<Option<u64>> {
        if start.len() < self.shape().len() {
            return Err(self.damaged("chunk index: coordinates for too few axes"));
        }
        // The last coordinate counts within an element.
        if start.iter().skip(self.shape().len()).any(|&within| within != 0) {
            return Err(self.damaged("chunk index: a chunk that starts within an element"));
        }
        let mut index = 0_u64;
        for ((&start, &edge), &len) in start.iter().zip(self.grid()).zip(self.shape()) {
            if !start.is_multiple_of(edge) {
                return Err(self.damaged(format!("chunk index: a chunk at {start}, off the grid of {edge}")));
            }
            if start >= len {
                return Ok(None);
            }
            index = index
                .checked_mul(len.div_ceil(edge))
                .and_then(|index| index.checked_add(start / edge))
                .ok_or_else(|| self.damaged("chunk index: too many chunks"))?;
        }
        Ok(Some(index))
    }

    /// Chunks along each axis.
    pub fn grid_shape(&self) -> Vec<u64> {
        self.shape().iter().zip(self.grid()).map(|(&len, &edge)| len.div_ceil(edge)).collect()
    }

    /// Reads one chunk of the grid and undoes its filters. `out` then holds the chunk's elements, row-major, as stored;
    /// for data that are not chunked only those inside the shape.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if it lies outside the file or does not inflate to its size, [`Error::Unsupported`] for an
    /// unknown filter, [`Error::Io`].
    pub fn read_chunk(&self, index: u64, inflater: &mut Inflater, out: &mut Vec<u8>) -> Result<()> {
        let element = self.element_size() as u64;
        match &self.inner.layout {
            Layout::Chunked => {
                let chunks = self.chunks()?;
                let found = chunks
                    .binary_search_by_key(&index, |chunk| chunk.index)
                    .ok()
                    .and_then(|at| chunks.get(at));
                let bytes =
                    usize::try_from(self.chunk_bytes()).map_err(|_| self.damaged("chunks too large"))?;
                match found {
                    None => self.fill(bytes, out),
                    Some(chunk) => self.inflate(chunk, bytes, inflater, out),
                }
            }
            Layout::Compact(data) => {
                let (start, len) = self.piece(index)?;
                let (start, len) = (start.saturating_mul(element), len.saturating_mul(element));
                let part = usize::try_from(start)
                    .ok()
                    .zip(usize::try_from(start.saturating_add(len)).ok())
                    .and_then(|(start, end)| data.get(start..end));
                out.clear();
                out.extend_from_slice(part.ok_or_else(|| self.damaged("fewer bytes than its shape needs"))?);
                Ok(())
            }
            Layout::Contiguous(address) => {
                let (start, len) = self.piece(index)?;
                let bytes = len.saturating_mul(element);
                let len = usize::try_from(bytes).map_err(|_| self.damaged("rows too large"))?;
                match address {
                    None => self.fill(len, out),
                    Some(address) => {
                        let at = start.checked_mul(element).and_then(|start| start.checked_add(*address));
                        let at = at.ok_or_else(|| self.damaged("address past 2^64"))?;
                        self.read_stored(at, bytes, out)
                    }
                }
            }
        }
    }

    /// First element and number of elements of a piece of data that are not chunked.
    fn piece(&self, index: u64) -> Result<(u64, u64)> {
        let rows = self.grid().first().copied().unwrap_or(1);
        let total = self.shape().first().copied().unwrap_or(1);
        let row: u64 = self.shape().iter().skip(1).product();
        let start = index.saturating_mul(rows);
        if start >= total {
            return Err(self.damaged("a piece past its end was asked for"));
        }
        Ok((start.saturating_mul(row), rows.min(total - start).saturating_mul(row)))
    }

    fn fill(&self, bytes: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        if !self.inner.fill.iter().all(|&byte| byte == 0) {
            out.extend(self.inner.fill.iter().copied().cycle().take(bytes));
        } else if self.complete {
            return Err(
                self.damaged("some of its values were never written: was the file written to its end?")
            );
        } else {
            out.resize(bytes, 0);
        }
        Ok(())
    }

    fn read_stored(&self, address: u64, size: u64, out: &mut Vec<u8>) -> Result<()> {
        let file = self.shared.bytes.len();
        let start = address.checked_add(self.shared.base);
        let start = match start {
            Some(start) if start.checked_add(size).is_some_and(|end| end <= file) => start,
            _ => {
                let what = format!("{size} bytes at {address} lie outside the file of {file} bytes");
                return Err(self.damaged(what));
            }
        };
        let size = usize::try_from(size).map_err(|_| self.damaged("more bytes than memory can address"))?;
        out.resize(size, 0);
        self.shared.bytes.read_at(start, out).map_err(|source| Error::Io {
            path: self.shared.name.clone().into(),
            action: "read",
            source,
        })
    }

    fn inflate(
        &self,
        chunk: &ChunkRef,
        bytes: usize,
        inflater: &mut Inflater,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if self.inner.filters.is_empty() {
            if chunk.size < bytes as u64 {
                return Err(self.damaged(format!("a chunk of {} bytes; expected {bytes}", chunk.size)));
            }
            return self.read_stored(chunk.address, bytes as u64, out);
        }
        let mut stored = inflater.take_stored();
        self.read_stored(chunk.address, chunk.size, &mut stored)?;
        let result = inflater.undo(&self.inner.filters, chunk.filter_mask, &mut stored, bytes, out);
        inflater.give_stored(stored);
        result.map_err(|fault| {
            let what = format!("chunk {} (at byte {}): {}", chunk.index, chunk.address, fault.what);
            if fault.unsupported { self.unsupported(what) } else { self.damaged(what) }
        })
    }

    /// All elements, as stored, row-major. For small datasets: columns, names, scalars.
    ///
    /// # Errors
    ///
    /// As [`Dataset::read_chunk`]; [`Error::Unsupported`] for chunked data of more than two axes.
    pub fn read_all(&self) -> Result<Vec<u8>> {
        let element = self.element_size();
        let count: u64 = self.shape().iter().product();
        let total = count.checked_mul(element as u64).and_then(|bytes| usize::try_from(bytes).ok());
        let total = total.ok_or_else(|| self.damaged("more elements than memory can address"))?;
        let file = self.shared.bytes.len();
        if total as u64 > file.saturating_mul(COLUMN_EXPANSION).saturating_add(COLUMN_BYTES) {
            let what = format!(
                "shape {:?} of {element}-byte elements, {} to hold at once; a file of {} hardly holds that",
                self.shape(),
                human_bytes(total as u64),
                human_bytes(file)
            );
            return Err(self.damaged(what));
        }
        let mut all = Vec::new();
        if total == 0 {
            return Ok(all);
        }
        let mut inflater = Inflater::default();
        let mut chunk = Vec::new();
        let chunks: u64 = self.grid_shape().iter().product();
        match (self.layout(), self.shape(), self.grid()) {
            (Layout::Chunked, &[rows, columns], &[chunk_rows, chunk_columns]) => {
                all.resize(total, 0);
                let across = columns.div_ceil(chunk_columns);
                for index in 0..chunks {
                    self.read_chunk(index, &mut inflater, &mut chunk)?;
                    let (row, column) = (index / across * chunk_rows, index % across * chunk_columns);
                    let width = chunk_columns.min(columns - column);
                    for (within, row) in (row..rows.min(row + chunk_rows)).enumerate() {
                        let from = (within as u64 * chunk_columns, width);
                        copy_elements(&chunk, from, &mut all, row * columns + column, element)
                            .ok_or_else(|| self.damaged("a chunk smaller than its shape"))?;
                    }
                }
            }
            (Layout::Chunked, shape, _) if shape.len() > 2 => {
                return Err(self.unsupported(format!("chunked data of {} axes", shape.len())));
            }
            _ => {
                // Taken as the bytes come, not as the shape declares them.
                for index in 0..chunks.max(1) {
                    self.read_chunk(index, &mut inflater, &mut chunk)?;
                    let wanted = (total - all.len()).min(chunk.len());
                    all.extend_from_slice(chunk.get(..wanted).unwrap_or(&[]));
                }
                if all.len() != total {
                    return Err(self.damaged(format!("{} bytes; its shape needs {total}", all.len())));
                }
            }
        }
        Ok(all)
    }
}

/// Copies `from.1` elements that start at element `from.0` to element `to`.
fn copy_elements(source: &[u8], from: (u64, u64), target: &mut [u8], to: u64, element: usize) -> Option<()> {
    let start = usize::try_from(from.0).ok()?.checked_mul(element)?;
    let len = usize::try_from(from.1).ok()?.checked_mul(element)?;
    let to = usize::try_from(to).ok()?.checked_mul(element)?;
    let source = source.get(start..start.checked_add(len)?)?;
    target.get_mut(to..to.checked_add(len)?)?.copy_from_slice(source);
    Some(())
}

/// A grid of whole rows of about [`PIECE_BYTES`], for data that are not chunked.
fn whole_rows(shape: &[u64], element_size: usize) -> Vec<u64> {
    let row: u64 = shape.iter().skip(1).product::<u64>().saturating_mul(element_size as u64).max(1);
    shape
        .iter()
        .enumerate()
        .map(|(axis, &len)| if axis == 0 { (PIECE_BYTES / row).clamp(1, len.max(1)) } else { len.max(1) })
        .collect()
}
