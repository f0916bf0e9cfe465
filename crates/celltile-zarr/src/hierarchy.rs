//! A dataset as an AnnData store of Zarr v3: every key and its bytes.
//!
//! The export writes these keys and the live view answers for them; there is no other description of the store, so the two
//! cannot differ. Nothing of the matrix is held: chunks are decoded when asked for.

mod cut;
mod frame;
mod series;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use celltile::obs::{Cache as ObsCache, ObsReader};
use celltile::{Csr, Dataset, ReadOptions};
use celltile_grid::{Axis, Grid};
use serde_json::{Map, Value, json};
use zarrs::array::{ArrayBytes, ArrayToBytesCodecTraits as _};
use zarrs::storage::Bytes;

use crate::array::{ZarrArray, serial};
use crate::cache::Cache;
use crate::error::{Result, ZarrError};
use crate::spec::{ArraySpec, Compression, Encoding, GridForm, group_json};

pub use cut::Cut;
use cut::Parts;
use frame::Frame;
use series::{Elements, SeriesPart, SharedSeries};

/// How a dataset is seen as a store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Where the matrix is cut.
    pub cut: Cut,
    /// Compression of every chunk.
    pub compression: Compression,
    /// Whether counts are float32 in place of int32. Counts above 2^24 are then an error.
    pub float32: bool,
    /// Bytes of decoded parts of the matrix kept.
    pub cache: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { cut: Cut::default(), compression: Compression::None, float32: false, cache: 256 << 20 }
    }
}

impl StoreOptions {
    /// With the matrix cut there.
    #[must_use]
    pub fn cut(mut self, cut: Cut) -> Self {
        self.cut = cut;
        self
    }

    /// With chunks compressed so.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// With counts as float32.
    #[must_use]
    pub fn float32(mut self, float32: bool) -> Self {
        self.float32 = float32;
        self
    }
}

/// Rows of obs and offsets of the matrix in one chunk, at least: whole tiles.
const ROWS: u64 = 1 << 16;

/// Every node of the store, and where its elements come from.
#[derive(Debug)]
pub struct Hierarchy {
    dataset: Arc<Dataset>,
    options: StoreOptions,
    nodes: BTreeMap<String, Node>,
    parts: Parts,
    decoded: Cache<u64, DecodedPart>,
    left_out: Vec<String>,
}

#[derive(Debug)]
enum Node {
    Group { attributes: Map<String, Value>, text: String },
    Array(Box<ArrayNode>),
}

#[derive(Debug)]
struct ArrayNode {
    array: ZarrArray<()>,
    text: String,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Counts,
    Genes,
    Offsets,
    Series(SharedSeries, SeriesPart),
}

/// Genes and counts of a part's cells, and which of them are the part's.
#[derive(Debug)]
struct DecodedPart {
    genes: Vec<i32>,
    counts: Counts,
    within: Range<usize>,
}

#[derive(Debug)]
enum Counts {
    Int(Vec<i32>),
    Float(Vec<f32>),
}

/// What a key stands for.
#[derive(Debug, Clone, Copy)]
enum Found<'a> {
    Metadata(&'a str),
    Chunk(&'a ArrayNode, u64),
}

impl Hierarchy {
    /// The store of a dataset: its matrix, its gene table (or names, or numbers) and its obs table (or cell numbers).
    ///
    /// obs columns are fetched into `cache` and mapped from there.
    ///
    /// # Errors
    ///
    /// If a tile's head or one of the tables cannot be read, or a table has another length than the dataset.
    pub fn open(dataset: Arc<Dataset>, cache: &ObsCache, options: StoreOptions) -> Result<Self> {
        let parts = Parts::new(&dataset, options.cut)?;
        let decoded = Cache::new(options.cache);
        let mut hierarchy =
            Self { dataset, options, nodes: BTreeMap::new(), parts, decoded, left_out: Vec::new() };
        for name in ["layers", "obsm", "obsp", "uns", "varm", "varp"] {
            hierarchy.group(name, encoded("dict", "0.1.0"))?;
        }
        hierarchy.matrix()?;
        let (cells, genes) = (hierarchy.dataset.n_cells(), hierarchy.dataset.n_genes());
        let var = match (hierarchy.dataset.var()?, hierarchy.dataset.var_names()?) {
            (Some(table), _) => Frame::from_table(&table)?,
            (None, Some(names)) => Frame::from_names(names.names()),
            (None, None) => Frame::of_rows(genes),
        };
        hierarchy.frame("var", &var, genes)?;
        let storage = Arc::clone(hierarchy.dataset.storage());
        let obs = match ObsReader::open(storage, hierarchy.dataset.manifest())? {
            Some(reader) => Frame::from_obs(&reader.all(cache)?, reader.index_column())?,
            None => Frame::of_rows(cells),
        };
        hierarchy.frame("obs", &obs, cells)?;
        hierarchy.root()?;
        Ok(hierarchy)
    }

    /// Columns that have no place in a Zarr store because of their names, as `obs/name`.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// How the store is made.
    #[must_use]
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// The dataset.
    #[must_use]
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// Every key, in order.
    pub fn keys(&self) -> impl Iterator<Item = String> + '_ {
        self.nodes.iter().flat_map(|(path, node)| {
            let chunks = match node {
                Node::Group { .. } => 0,
                Node::Array(node) => node.n_chunks(),
            };
            let chunks = (0..chunks).map(move |chunk| join(path, &format!("c/{chunk}")));
            std::iter::once(join(path, "zarr.json")).chain(chunks)
        })
    }

    /// The bytes of a key; `None` if there is no such key.
    ///
    /// # Errors
    ///
    /// If the dataset cannot be read, or is damaged.
    pub fn value(&self, key: &str) -> Result<Option<Bytes>> {
        match self.find(key) {
            None => Ok(None),
            Some(Found::Metadata(text)) => Ok(Some(Bytes::from(text.to_owned()))),
            Some(Found::Chunk(node, chunk)) => self.encode(node, chunk).map(Some),
        }
    }

    /// The size of a key's value, if it is known without making it: that of metadata, and of chunks that are not compressed and
    /// hold no text.
    #[must_use]
    pub fn quick_size(&self, key: &str) -> Option<u64> {
        match self.find(key)? {
            Found::Metadata(text) => Some(text.len() as u64),
            Found::Chunk(node, chunk) if self.options.compression == Compression::None => {
                node.plain_size(chunk)
            }
            Found::Chunk(..) => None,
        }
    }

    /// Which grid the matrix has.
    #[must_use]
    pub fn form(&self) -> GridForm {
        self.parts.form()
    }

    /// Grid chunks of the matrix.
    #[must_use]
    pub fn n_parts(&self) -> u64 {
        self.parts.len()
    }

    /// Chunks of all arrays.
    #[must_use]
    pub fn n_chunks(&self) -> u64 {
        self.nodes.values().fold(0, |count, node| match node {
            Node::Group { .. } => count,
            Node::Array(node) => count.saturating_add(node.n_chunks()),
        })
    }

    /// Whether there is such a key.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// What lies directly in a folder: keys and folders, both by name.
    #[must_use]
    pub fn list(&self, folder: &str) -> (Vec<String>, Vec<String>) {
        let (mut keys, mut folders) = (Vec::new(), Vec::new());
        if let Some(node) = self.nodes.get(folder) {
            keys.push("zarr.json".to_owned());
            if matches!(node, Node::Array(node) if node.n_chunks() > 0) {
                folders.push("c".to_owned());
            }
        } else if let Some(Node::Array(node)) =
            folder.strip_suffix("/c").and_then(|path| self.nodes.get(path))
        {
            keys.extend((0..node.n_chunks()).map(|chunk| chunk.to_string()));
        }
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        for path in self.nodes.range(prefix.clone()..).map(|(path, _)| path) {
            let Some(rest) = path.strip_prefix(&prefix) else { break };
            if !rest.is_empty() && !rest.contains('/') {
                folders.push(rest.to_owned());
            }
        }
        folders.sort();
        (keys, folders)
    }

    /// Arrays whose chunks of one number come from the same part, and how many chunks they have.
    pub(crate) fn work(&self) -> Vec<(Vec<String>, u64)> {
        let matrix = vec!["X/data".to_owned(), "X/indices".to_owned()];
        let mut work = vec![(matrix.clone(), self.parts.len())];
        for (path, node) in &self.nodes {
            if let Node::Array(node) = node
                && !matrix.contains(path)
            {
                work.push((vec![path.clone()], node.n_chunks()));
            }
        }
        work
    }

    /// The chunks of that number of some arrays of [`work`](Self::work): keys and values, the part decoded once and not kept.
    pub(crate) fn chunks(&self, paths: &[String], chunk: u64) -> Result<Vec<(String, Bytes)>> {
        let mut decoded = None;
        let mut values = Vec::with_capacity(paths.len());
        for path in paths {
            let Some(Node::Array(node)) = self.nodes.get(path) else { continue };
            let bytes = match &node.source {
                Source::Counts | Source::Genes => {
                    let part = match decoded.take() {
                        Some(part) => part,
                        None => self.decode_part(chunk)?,
                    };
                    let edge = node.axis_chunk(chunk)?.edge;
                    node.encode(chunk, edge, decoded.insert(part).elements(&node.source))?
                }
                Source::Offsets | Source::Series(..) => self.encode(node, chunk)?,
            };
            values.push((join(path, &format!("c/{chunk}")), bytes));
        }
        Ok(values)
    }

    /// The keys of all metadata but the root's.
    pub(crate) fn metadata_keys(&self) -> impl Iterator<Item = String> + '_ {
        self.nodes.keys().filter(|path| !path.is_empty()).map(|path| join(path, "zarr.json"))
    }

    fn find(&self, key: &str) -> Option<Found<'_>> {
        if let Some(path) = key.strip_suffix("zarr.json") {
            let path = if path.is_empty() { path } else { path.strip_suffix('/')? };
            return Some(Found::Metadata(self.nodes.get(path)?.text()));
        }
        let (folder, number) = key.rsplit_once('/')?;
        let Node::Array(node) = self.nodes.get(folder.strip_suffix("/c")?)? else { return None };
        let chunk: u64 = number.parse().ok()?;
        // `007` and `+7` are other keys.
        (chunk < node.n_chunks() && chunk.to_string() == number).then_some(Found::Chunk(node, chunk))
    }

    /// A chunk as it is stored. The part of the matrix that it comes from is kept for its twin.
    fn encode(&self, node: &ArrayNode, chunk: u64) -> Result<Bytes> {
        let path = node.array.path();
        let place = node.axis_chunk(chunk)?;
        let range = place.origin..place.origin.saturating_add(place.clipped);
        let elements = match &node.source {
            Source::Counts | Source::Genes => {
                return node.encode(chunk, place.edge, self.kept_part(chunk)?.elements(&node.source));
            }
            Source::Offsets => self.offsets(range)?,
            Source::Series(series, part) => series.elements(path, *part, range)?,
        };
        node.encode(chunk, place.edge, elements)
    }

    fn kept_part(&self, chunk: u64) -> Result<Arc<DecodedPart>> {
        let nonzeros = self.parts.grid().axes().first().and_then(|axis| axis.chunk(chunk).ok());
        let bytes = nonzeros.map_or(0, |place| place.clipped.saturating_mul(8));
        self.decoded.get(&chunk, bytes, || self.decode_part(chunk))
    }

    fn decode_part(&self, chunk: u64) -> Result<DecodedPart> {
        let part = self.parts.part(&self.dataset, chunk)?;
        let (cells, options) = (part.cells, ReadOptions::default());
        let (genes, counts) = if self.options.float32 {
            let mut csr = Csr::<f32>::new();
            self.dataset.rows_into(cells, &options, &mut csr)?;
            (csr.genes, Counts::Float(csr.counts))
        } else {
            let mut csr = Csr::<i32>::new();
            self.dataset.rows_into(cells, &options, &mut csr)?;
            (csr.genes, Counts::Int(csr.counts))
        };
        let within = usize::try_from(part.within.start).ok().zip(usize::try_from(part.within.end).ok());
        match within {
            Some((start, end)) if start <= end && end <= genes.len() => {
                Ok(DecodedPart { genes, counts, within: start..end })
            }
            _ => {
                let reason =
                    format!("{} nonzeros decoded where the manifest has {:?}", genes.len(), part.within);
                Err(ZarrError::metadata("/X", reason))
            }
        }
    }

    /// Entries of `indptr`: nonzeros before each cell, and of all.
    fn offsets(&self, range: Range<u64>) -> Result<ArrayBytes<'static>> {
        let mut bytes = Vec::new();
        let mut next = range.start;
        while next < range.end.min(self.dataset.n_cells()) {
            let (tile, row) = self.dataset.locate(next)?;
            let cells = self.dataset.tile_cells(tile)?;
            let end = cells.end.min(range.end);
            let base =
                usize::try_from(tile).ok().and_then(|tile| self.parts.tile_starts().get(tile)).copied();
            let base = base.unwrap_or_default();
            let head = self.dataset.tile_head(tile)?;
            let (skip, take) = (row, end.saturating_sub(next));
            let (skip, take) =
                (usize::try_from(skip).unwrap_or(usize::MAX), usize::try_from(take).unwrap_or(0));
            for offset in head.indptr().iter().skip(skip).take(take) {
                bytes.extend(base.saturating_add(offset.unsigned_abs()).to_le_bytes());
            }
            next = end;
        }
        if range.end > self.dataset.n_cells() {
            bytes.extend(self.parts.tile_starts().last().copied().unwrap_or_default().to_le_bytes());
        }
        Ok(ArrayBytes::new_flen(bytes))
    }

    fn matrix(&mut self) -> Result<()> {
        let (cells, genes) = (self.dataset.n_cells(), self.dataset.n_genes());
        let mut attributes = encoded("csr_matrix", "0.1.0");
        attributes.insert("shape".to_owned(), json!([cells, genes]));
        self.group("X", attributes)?;
        let grid = self.parts.grid().clone();
        let form = self.parts.form();
        let data_type = if self.options.float32 { "float32" } else { "int32" };
        self.array("X/data", grid.clone(), form, data_type, Map::new(), Source::Counts)?;
        self.array("X/indices", grid, form, "int32", Map::new(), Source::Genes)?;
        let offsets = cells.saturating_add(1);
        let grid = Grid::from_regular(&[offsets], &[self.rows_a_chunk(offsets)])
            .map_err(ZarrError::grid("/X/indptr"))?;
        self.array("X/indptr", grid, GridForm::Regular, "int64", Map::new(), Source::Offsets)
    }

    fn frame(&mut self, name: &str, frame: &Frame, rows: u64) -> Result<()> {
        let mut attributes = encoded("dataframe", "0.2.0");
        let mut order = Vec::new();
        self.group(name, Map::new())?;
        for (column, series) in frame.columns() {
            let length = series.len(SeriesPart::Values);
            if length != rows {
                return Err(ZarrError::Mismatch {
                    node: format!("/{name}"),
                    what: "the length of a column",
                    found: format!("{length} ({column:?})"),
                    expected: rows.to_string(),
                });
            }
            let path = format!("{name}/{column}");
            if !self.has_place(name, column) {
                self.left_out.push(path);
                continue;
            }
            self.parents(name, column)?;
            self.series(&path, series)?;
            if column != frame.index() {
                order.push(column.to_owned());
            }
        }
        attributes.insert("_index".to_owned(), json!(frame.index()));
        attributes.insert("column-order".to_owned(), json!(order));
        self.group(name, attributes)
    }

    /// Whether a column's name can be a path below its frame, and no other node is there or in its way.
    fn has_place(&self, frame: &str, column: &str) -> bool {
        let plain =
            |part: &str| !matches!(part, "" | "." | ".." | "zarr.json") && !part.contains(['\\', '\0']);
        let mut path = frame.to_owned();
        let parts: Vec<&str> = column.split('/').collect();
        for (depth, part) in parts.iter().enumerate() {
            path = format!("{path}/{part}");
            let taken = match self.nodes.get(&path) {
                None => false,
                // A group made only because a column has a slash in its name.
                Some(Node::Group { attributes, .. }) => depth + 1 == parts.len() || !attributes.is_empty(),
                Some(Node::Array(_)) => true,
            };
            if taken || !plain(part) {
                return false;
            }
        }
        true
    }

    /// Groups for the slashes in a column's name.
    fn parents(&mut self, frame: &str, column: &str) -> Result<()> {
        let mut path = frame.to_owned();
        let mut parts: Vec<&str> = column.split('/').collect();
        parts.pop();
        for part in parts {
            path = format!("{path}/{part}");
            if !self.nodes.contains_key(&path) {
                self.group(&path, Map::new())?;
            }
        }
        Ok(())
    }

    fn series(&mut self, path: &str, series: &SharedSeries) -> Result<()> {
        let Some((attributes, parts)) = frame::layout(series) else {
            return self.series_array(path, series, SeriesPart::Values);
        };
        self.group(path, attributes)?;
        for (name, part) in parts {
            self.series_array(&format!("{path}/{name}"), series, part)?;
        }
        Ok(())
    }

    fn series_array(&mut self, path: &str, series: &SharedSeries, part: SeriesPart) -> Result<()> {
        let data_type = series.data_type(part);
        let attributes = encoded(if data_type == "string" { "string-array" } else { "array" }, "0.2.0");
        let length = series.len(part);
        let edge = match part {
            SeriesPart::Categories => length.max(1),
            SeriesPart::Values | SeriesPart::Mask => self.rows_a_chunk(length),
        };
        let grid = Grid::from_regular(&[length], &[edge]).map_err(ZarrError::grid(path))?;
        let source = Source::Series(Arc::clone(series), part);
        self.array(path, grid, GridForm::Regular, data_type, attributes, source)
    }

    /// Rows in a chunk of a column or of the matrix' offsets: whole tiles, so that a chunk needs no tile's head twice, and no
    /// more than there are, since a chunk is written in full.
    fn rows_a_chunk(&self, length: u64) -> u64 {
        let tile = self.dataset.manifest().tile_size.max(1);
        tile.saturating_mul(ROWS.div_ceil(tile).max(1)).min(length.max(1))
    }

    fn group(&mut self, path: &str, attributes: Map<String, Value>) -> Result<()> {
        let text = group_json(path, &attributes)?;
        self.nodes.insert(path.to_owned(), Node::Group { attributes, text });
        Ok(())
    }

    fn array(
        &mut self,
        path: &str,
        grid: Grid,
        form: GridForm,
        data_type: &str,
        attributes: Map<String, Value>,
        source: Source,
    ) -> Result<()> {
        let mut spec = ArraySpec::new(grid, form, data_type);
        spec.encoding = Encoding { compression: self.options.compression, ..Encoding::default() };
        spec.attributes = attributes;
        let node = format!("/{path}");
        let text = spec.to_json(&node)?;
        let array = ZarrArray::from_text(Arc::new(()), &node, text.as_bytes())?;
        self.nodes.insert(path.to_owned(), Node::Array(Box::new(ArrayNode { array, text, source })));
        Ok(())
    }

    /// The root, with the metadata of every other node in it.
    fn root(&mut self) -> Result<()> {
        let attributes = encoded("anndata", "0.1.0");
        let fault = |error: serde_json::Error| ZarrError::metadata("/", error.to_string());
        let mut metadata = Map::new();
        for (path, node) in &self.nodes {
            metadata.insert(path.clone(), serde_json::from_str(node.text()).map_err(fault)?);
        }
        let root = json!({
            "attributes": attributes,
            "zarr_format": 3,
            "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": metadata},
            "node_type": "group",
        });
        let text = serde_json::to_string(&root).map_err(fault)?;
        self.nodes.insert(String::new(), Node::Group { attributes, text });
        Ok(())
    }
}

impl Node {
    fn text(&self) -> &str {
        match self {
            Self::Group { text, .. } => text,
            Self::Array(node) => &node.text,
        }
    }
}

impl ArrayNode {
    fn axis(&self) -> Option<&Axis> {
        self.array.grid().axes().first()
    }

    fn n_chunks(&self) -> u64 {
        self.axis().map_or(0, Axis::n_active)
    }

    fn axis_chunk(&self, chunk: u64) -> Result<celltile_grid::AxisChunk> {
        let path = self.array.path();
        let axis = self.axis().ok_or_else(|| ZarrError::metadata(path, "has no axis"))?;
        axis.chunk(chunk).map_err(ZarrError::grid(path))
    }

    /// The size of a chunk that is not compressed and whose elements have one size.
    fn plain_size(&self, chunk: u64) -> Option<u64> {
        let size = self.array.array().data_type().fixed_size()? as u64;
        self.axis_chunk(chunk).ok()?.edge.checked_mul(size)
    }

    /// Fills a chunk's elements up to its declared length and runs the codecs.
    fn encode(&self, chunk: u64, edge: u64, elements: ArrayBytes<'_>) -> Result<Bytes> {
        let array = self.array.array();
        let fault = |source| ZarrError::Codec {
            node: self.array.path().to_owned(),
            chunk: vec![chunk],
            source: Box::new(source),
        };
        let elements = Elements::pad(elements, edge, array.fill_value().as_ne_bytes())
            .ok_or_else(|| ZarrError::metadata(self.array.path(), "a chunk does not fit into memory"))?;
        let shape = array.chunk_shape(&[chunk]).map_err(ZarrError::array(self.array.path()))?;
        let encoded = array
            .codecs()
            .encode(elements, &shape, array.data_type(), array.fill_value(), &serial())
            .map_err(fault)?;
        Ok(Bytes::from(encoded.into_owned()))
    }
}

impl DecodedPart {
    /// Genes or counts as zarrs takes them, without a copy (hosts are little-endian, as the chunks are).
    fn elements(&self, source: &Source) -> ArrayBytes<'_> {
        let cut = |bytes| ArrayBytes::new_flen(bytes);
        match (source, &self.counts) {
            (Source::Counts, Counts::Int(counts)) => cut(as_bytes(counts, &self.within)),
            (Source::Counts, Counts::Float(counts)) => cut(as_bytes(counts, &self.within)),
            _ => cut(as_bytes(&self.genes, &self.within)),
        }
    }
}

fn as_bytes<'a, T: bytemuck::NoUninit>(values: &'a [T], within: &Range<usize>) -> &'a [u8] {
    bytemuck::cast_slice(values.get(within.clone()).unwrap_or_default())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

/// Attributes that say how AnnData reads a node.
pub(crate) fn encoded(kind: &str, version: &str) -> Map<String, Value> {
    let mut attributes = Map::new();
    attributes.insert("encoding-type".to_owned(), json!(kind));
    attributes.insert("encoding-version".to_owned(), json!(version));
    attributes
}
