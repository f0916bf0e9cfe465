//! Arrays of zarrs whose grids are ours.

mod read;

use std::sync::Arc;

use celltile_grid::{AxisChunk, Grid};
use zarrs::array::{
    Array, ArrayBytes, ArrayMetadata, ArrayMetadataV2, ArrayMetadataV3, CodecOptions, DataTypeSize,
};
use zarrs::node::NodePath;
use zarrs::storage::{Bytes, ReadableStorageTraits, StoreKey, WritableStorageTraits};

use crate::cache::Cache;
use crate::decode::{Chain, Decoder, ShardIndex};
use crate::error::{Result, ZarrError};
use crate::grid::{RectilinearGrid, with_grid};
use crate::metadata::{DeclaredGrid, NodeKind, declared_codecs, node_kind, parse_grid, parse_v2};
use crate::spec::{ArraySpec, GridForm};

/// The decoded size above which a chunk is refused, unless the caller allows more.
pub const MAX_CHUNK_BYTES: u64 = 4 << 30;

/// Bytes of shards' indexes kept for an array.
const INDEX_BYTES: u64 = 32 << 20;

/// An array of zarrs, with the grid that its metadata declares.
///
/// Made by [`open`](Self::open) and [`create`](Self::create) only, which parse and check the grid before zarrs sees it. zarrs' own
/// `Array::open`, `builder` and `set_shape` make a grid of their own, which lists every edge of every run; so the array is lent
/// out for reading and writing, not for changing its shape.
#[derive(Debug)]
pub struct ZarrArray<S: ?Sized> {
    array: Array<S>,
    declared: DeclaredGrid,
    decoder: Decoder,
    /// What is decoded at once: inner chunks of shards, or chunks.
    units: Grid,
    indexes: Cache<Vec<u64>, Option<ShardIndex>>,
    /// `zarr.json` as it was given; nothing for format 2.
    text: Option<Box<[u8]>>,
    max_chunk_bytes: u64,
    complete: bool,
}

impl<S: ?Sized + ReadableStorageTraits + 'static> ZarrArray<S> {
    /// Opens the array of Zarr format 3 or 2 at `path`, which starts with a slash.
    ///
    /// # Errors
    ///
    /// [`ZarrError::NotFound`]; [`ZarrError::Grid`] or [`ZarrError::Metadata`] if the grid is not valid, before memory is
    /// taken for it; [`ZarrError::Create`] if zarrs has no such data type, codec or key encoding.
    pub fn open(storage: Arc<S>, path: &str) -> Result<Self> {
        let key = metadata_key(path, "zarr.json")?;
        match storage.get(&key)? {
            Some(text) => Self::from_text(storage, path, &text),
            None => Self::open_v2(storage, path),
        }
    }

    fn open_v2(storage: Arc<S>, path: &str) -> Result<Self> {
        let Some(text) = storage.get(&metadata_key(path, ".zarray")?)? else {
            return Err(ZarrError::NotFound { node: path.to_owned() });
        };
        let grid = parse_v2(path, &text)?;
        let fault = |error: serde_json::Error| ZarrError::metadata(path, format!(".zarray: {error}"));
        let mut metadata: ArrayMetadataV2 = serde_json::from_slice(&text).map_err(fault)?;
        if let Some(text) = storage.get(&metadata_key(path, ".zattrs")?)? {
            let fault = |error: serde_json::Error| ZarrError::metadata(path, format!(".zattrs: {error}"));
            metadata.attributes = serde_json::from_slice(&text).map_err(fault)?;
        }
        let array = Array::new_with_metadata(storage, path, ArrayMetadata::V2(metadata));
        let array = array.map_err(ZarrError::create(path))?;
        let decoder = Decoder::Plain(Chain::new(&array.codecs()));
        let declared = DeclaredGrid { grid, form: GridForm::Regular, inner: None };
        Self::assembled(array, declared, decoder, None)
    }
}

impl<S: ?Sized> ZarrArray<S> {
    /// An array from the text of its `zarr.json`, which need not be stored.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_text(storage: Arc<S>, path: &str, text: &[u8]) -> Result<Self> {
        if node_kind(path, text)? == NodeKind::Group {
            return Err(ZarrError::metadata(path, "is a group, expected an array"));
        }
        let declared = parse_grid(path, text)?;
        let metadata: ArrayMetadataV3 = serde_json::from_slice(text)
            .map_err(|error| ZarrError::metadata(path, format!("zarr.json: {error}")))?;
        let make = || Array::new_with_metadata(storage, path, ArrayMetadata::V3(metadata));
        let array = match declared.form {
            GridForm::Regular => make(),
            GridForm::Rectilinear => with_grid(RectilinearGrid::new(declared.grid.clone()), make),
        };
        let array = array.map_err(ZarrError::create(path))?;
        let decoder = Decoder::from_metadata(path, &declared_codecs(path, text)?, &array.codecs())?;
        Self::assembled(array, declared, decoder, Some(text.into()))
    }

    fn assembled(
        array: Array<S>,
        declared: DeclaredGrid,
        decoder: Decoder,
        text: Option<Box<[u8]>>,
    ) -> Result<Self> {
        let units = match &decoder {
            Decoder::Sharded(sharded) => Grid::from_regular(&declared.grid.shape(), &sharded.inner)
                .map_err(ZarrError::grid(array.path().as_str()))?,
            Decoder::Plain(_) | Decoder::Refused(_) => declared.grid.clone(),
        };
        let indexes = Cache::new(INDEX_BYTES);
        Ok(Self {
            array,
            declared,
            decoder,
            units,
            indexes,
            text,
            max_chunk_bytes: MAX_CHUNK_BYTES,
            complete: false,
        })
    }

    /// Allows chunks of that decoded size.
    #[must_use]
    pub fn with_max_chunk_bytes(mut self, bytes: u64) -> Self {
        self.max_chunk_bytes = bytes;
        self
    }

    /// Refuses chunks that are not stored, where the fill value is nothing that could be meant.
    pub(crate) fn with_complete(mut self, complete: bool) -> Self {
        self.complete = complete;
        self
    }

    /// The decoded size above which a chunk is refused.
    #[must_use]
    pub fn max_chunk_bytes(&self) -> u64 {
        self.max_chunk_bytes
    }

    /// The array of zarrs.
    #[must_use]
    pub fn array(&self) -> &Array<S> {
        &self.array
    }

    /// Shape and chunks.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.declared.grid
    }

    /// How the metadata names the grid.
    #[must_use]
    pub fn form(&self) -> GridForm {
        self.declared.form
    }

    /// Shape of the inner chunks, if chunks are shards.
    #[must_use]
    pub fn inner(&self) -> Option<&[u64]> {
        self.declared.inner.as_deref()
    }

    /// The text of `zarr.json`; nothing for an array of Zarr format 2.
    #[must_use]
    pub fn text(&self) -> Option<&[u8]> {
        self.text.as_deref()
    }

    /// Whether the array is of Zarr format 2.
    #[must_use]
    pub fn is_v2(&self) -> bool {
        self.text.is_none()
    }

    /// Path in the store, with a slash before it.
    #[must_use]
    pub fn path(&self) -> &str {
        self.array.path().as_str()
    }

    /// Bytes of one element in memory; 16 for elements of variable length, whose bytes come on top.
    #[must_use]
    pub fn element_bytes(&self) -> u64 {
        match self.array.data_type().size() {
            DataTypeSize::Fixed(bytes) => bytes as u64,
            DataTypeSize::Variable => 16,
        }
    }

    /// Decoded bytes of a chunk of that declared shape.
    pub(crate) fn chunk_bytes(&self, edges: impl IntoIterator<Item = u64>) -> u128 {
        edges
            .into_iter()
            .fold(u128::from(self.element_bytes()), |bytes, edge| bytes.saturating_mul(edge.into()))
    }

    fn check_chunk(&self, chunk: &[u64]) -> Result<()> {
        self.check_size(self.declared.grid.chunk(chunk).map_err(ZarrError::grid(self.path()))?.iter())
    }

    fn check_size<'a>(&self, chunk: impl Iterator<Item = &'a AxisChunk> + Clone) -> Result<()> {
        let bytes = self.chunk_bytes(chunk.clone().map(|axis| axis.edge));
        if bytes <= u128::from(self.max_chunk_bytes) {
            return Ok(());
        }
        let (node, chunk) = (self.path().to_owned(), chunk.map(|axis| axis.chunk).collect());
        Err(ZarrError::ChunkTooLarge { node, chunk, bytes, limit: self.max_chunk_bytes })
    }
}

impl<S: ?Sized + WritableStorageTraits + 'static> ZarrArray<S> {
    /// An array that does not exist yet. Nothing is written: chunks come first, and [`store_metadata`](Self::store_metadata)
    /// last makes the array visible.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), if the specification is not valid.
    pub fn create(storage: Arc<S>, path: &str, spec: &ArraySpec) -> Result<Self> {
        Self::from_text(storage, path, spec.to_json(path)?.as_bytes())
    }

    /// Writes `zarr.json`.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn store_metadata(&self) -> Result<()> {
        let Some(text) = &self.text else {
            return Err(ZarrError::metadata(self.path(), "is of Zarr format 2, which is only read"));
        };
        let key = metadata_key(self.path(), "zarr.json")?;
        Ok(self.array.storage().set(&key, Bytes::copy_from_slice(text))?)
    }

    /// Writes a chunk's elements, its declared shape whole. A chunk of nothing but the fill value is not stored.
    ///
    /// # Errors
    ///
    /// If the chunk is not active, the bytes are not those of as many elements, or the store cannot be written.
    pub fn write_chunk(&self, chunk: &[u64], elements: ArrayBytes<'_>) -> Result<()> {
        self.check_chunk(chunk)?;
        self.array.store_chunk_opt(chunk, elements, &serial()).map_err(ZarrError::array(self.path()))
    }
}

/// Parallelism is over chunks, here; codecs get one thread each.
pub(crate) fn serial() -> CodecOptions {
    CodecOptions::default().with_concurrent_target(1)
}

/// The key of a node's metadata.
pub(crate) fn metadata_key(path: &str, name: &str) -> Result<StoreKey> {
    let fault = |error: &dyn std::fmt::Display| ZarrError::metadata(path, error.to_string());
    let path = NodePath::new(path).map_err(|error| fault(&error))?;
    let folder = path.as_str().trim_start_matches('/');
    let key = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    StoreKey::new(key).map_err(|error| fault(&error))
}
