//! What is in a Zarr store, and what is wrong with its grids.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use zarrs::storage::{ListableStorageTraits, ReadableStorageTraits, StoreKey, StorePrefix};

use crate::array::ZarrArray;
use crate::error::{Result, ZarrError};
use crate::metadata::{NodeKind, field, node_kind};
use crate::spec::GridForm;

/// A node of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeInfo {
    /// A group and its attributes' `encoding-type`.
    Group {
        /// Path, with a slash before it.
        path: String,
        /// What AnnData takes it for.
        encoding: Option<String>,
    },
    /// An array.
    Array(Box<ArrayInfo>),
    /// A node that cannot be read.
    Broken {
        /// Path, with a slash before it.
        path: String,
        /// Why.
        reason: String,
    },
}

/// What an array is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArrayInfo {
    /// Path, with a slash before it.
    pub path: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// The data type's name.
    pub data_type: String,
    /// How the metadata names the grid.
    pub form: GridForm,
    /// Each axis.
    pub axes: Vec<AxisInfo>,
    /// Shape of the inner chunks of shards.
    pub inner: Option<Vec<u64>>,
    /// The codecs' names, in order.
    pub codecs: Vec<String>,
    /// Chunks that are stored.
    pub stored: u64,
    /// Their bytes.
    pub stored_bytes: u64,
    /// Whether the array is of Zarr format 2.
    pub v2: bool,
}

/// How an axis is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AxisInfo {
    /// Declared chunks.
    pub declared: u64,
    /// Those that intersect the array.
    pub active: u64,
    /// Runs of equal edges.
    pub runs: usize,
    /// The smallest edge.
    pub smallest: u64,
    /// The largest.
    pub largest: u64,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Allowed, and worth knowing.
    Note,
    /// Not as the specification says, or data that cannot be read.
    Fault,
}

/// Something that [`check`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The node, with a slash before it.
    pub path: String,
    /// The axis, where it is about one.
    pub axis: Option<usize>,
    /// How bad it is.
    pub severity: Severity,
    /// What was found, and what was expected.
    pub message: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.severity {
            Severity::Note => "note",
            Severity::Fault => "fault",
        };
        write!(f, "{kind}: {}", self.path)?;
        if let Some(axis) = self.axis {
            write!(f, ", axis {axis}")?;
        }
        // Errors of an array begin with its name.
        let message = self.message.strip_prefix(&format!("array {}: ", self.path)).unwrap_or(&self.message);
        write!(f, ": {}", message.strip_prefix(&format!("{}: ", self.path)).unwrap_or(message))
    }
}

/// Lists every node of a store, groups before what is in them.
///
/// # Errors
///
/// If the store cannot be listed or read. Nodes that are not valid are listed as [`NodeInfo::Broken`].
pub fn inspect<S>(store: &Arc<S>) -> Result<Vec<NodeInfo>>
where
    S: ?Sized + ReadableStorageTraits + ListableStorageTraits + 'static,
{
    let keys = Keys::of(store.as_ref())?;
    keys.nodes.iter().map(|path| node_info(store, path, &keys)).collect()
}

/// Says what is wrong with the grids of a store, by array and axis: metadata that are not valid, shards whose inner chunks do not
/// divide an edge, chunks stored past the array's end, consolidated metadata that differ from the nodes' own, and sparse
/// matrices whose arrays do not fit together.
///
/// # Errors
///
/// If the store cannot be listed or read.
pub fn check<S>(store: &Arc<S>) -> Result<Vec<Finding>>
where
    S: ?Sized + ReadableStorageTraits + ListableStorageTraits + 'static,
{
    let keys = Keys::of(store.as_ref())?;
    let mut findings = Vec::new();
    if keys.nodes.is_empty() {
        findings.push(fault("/", "no array or group there (no zarr.json, .zarray or .zgroup)"));
    }
    for path in &keys.nodes {
        let node = match open(store, path) {
            Ok(node) => node,
            Err(error) => {
                findings.push(of_error(path, &error));
                continue;
            }
        };
        match node {
            Opened::Array(array) => check_chunks(&array, &keys, &mut findings),
            Opened::Group(group) => {
                check_consolidated(store.as_ref(), path, &group, &keys, &mut findings)?;
                check_sparse(store, path, &group, &mut findings);
            }
        }
    }
    Ok(findings)
}

/// A node that could be read.
enum Opened<S: ?Sized> {
    Array(Box<ZarrArray<S>>),
    /// Its metadata; of format 2, its attributes under that key.
    Group(Value),
}

fn open<S>(store: &Arc<S>, path: &str) -> Result<Opened<S>>
where
    S: ?Sized + ReadableStorageTraits + 'static,
{
    let json = |name: &str| -> Result<Option<Value>> {
        let Some(text) = store.get(&key_of(path, name)?)? else { return Ok(None) };
        let parsed = serde_json::from_slice(&text);
        parsed.map(Some).map_err(|error| ZarrError::metadata(path, format!("{name}: {error}")))
    };
    if let Some(text) = store.get(&key_of(path, "zarr.json")?)? {
        if node_kind(path, &text)? == NodeKind::Group {
            return Ok(Opened::Group(json("zarr.json")?.unwrap_or_default()));
        }
    } else if json(".zgroup")?.is_some() {
        return Ok(Opened::Group(serde_json::json!({"attributes": json(".zattrs")?})));
    }
    Ok(Opened::Array(Box::new(ZarrArray::open(Arc::clone(store), path)?)))
}

fn node_info<S>(store: &Arc<S>, path: &str, keys: &Keys) -> Result<NodeInfo>
where
    S: ?Sized + ReadableStorageTraits + 'static,
{
    let path = path.to_owned();
    let array = match open(store, &path) {
        Ok(Opened::Array(array)) => array,
        Ok(Opened::Group(group)) => {
            let encoding = field(&group, "/attributes/encoding-type").as_str().map(str::to_owned);
            return Ok(NodeInfo::Group { path, encoding });
        }
        Err(ZarrError::Store(error)) => return Err(error.into()),
        Err(error) => return Ok(NodeInfo::Broken { path, reason: error.to_string() }),
    };
    let axes = array.grid().axes().iter().map(|axis| {
        let edges = || axis.runs().map(|run| run.edge);
        AxisInfo {
            declared: axis.n_declared(),
            active: axis.n_active(),
            runs: axis.n_runs(),
            smallest: edges().min().unwrap_or_default(),
            largest: edges().max().unwrap_or_default(),
        }
    });
    let metadata = serde_json::to_value(array.array().metadata()).unwrap_or_default();
    let text = |value: &Value| {
        value
            .as_str()
            .or_else(|| field(value, "/name").as_str())
            .or_else(|| field(value, "/id").as_str())
            .map(str::to_owned)
    };
    let data_type =
        text(field(&metadata, "/data_type")).or_else(|| text(field(&metadata, "/dtype"))).unwrap_or_default();
    let mut codecs: Vec<String> = Vec::new();
    names(field(&metadata, "/codecs"), &mut codecs);
    names(field(&metadata, "/filters"), &mut codecs);
    codecs.extend(text(field(&metadata, "/compressor")));
    let chunks = keys.objects.get(&path).map(Vec::as_slice).unwrap_or_default();
    Ok(NodeInfo::Array(Box::new(ArrayInfo {
        shape: array.grid().shape(),
        data_type,
        form: array.form(),
        axes: axes.collect(),
        inner: array.inner().map(<[u64]>::to_vec),
        codecs,
        stored: chunks.len() as u64,
        stored_bytes: keys.bytes.get(&path).copied().unwrap_or_default(),
        v2: array.is_v2(),
        path,
    })))
}

/// The names of codecs, those inside shards after the shards'.
fn names(codecs: &Value, out: &mut Vec<String>) {
    for codec in codecs.as_array().into_iter().flatten() {
        out.extend(
            field(codec, "/name").as_str().or_else(|| field(codec, "/id").as_str()).map(str::to_owned),
        );
        names(field(codec, "/configuration/codecs"), out);
    }
}

/// The objects of a store, by the node that they belong to.
#[derive(Debug, Default)]
struct Keys {
    /// Paths of nodes, parents first.
    nodes: Vec<String>,
    /// Of each node, what is stored below it that is neither metadata nor below another node: relative keys.
    objects: BTreeMap<String, Vec<String>>,
    bytes: BTreeMap<String, u64>,
}

impl Keys {
    fn of<S: ?Sized + ReadableStorageTraits + ListableStorageTraits>(store: &S) -> Result<Self> {
        let (mut nodes, mut others) = (Vec::new(), Vec::new());
        for key in store.list_prefix(&StorePrefix::root())? {
            let (folder, name) = key.as_str().rsplit_once('/').unwrap_or(("", key.as_str()));
            match name {
                "zarr.json" | ".zarray" | ".zgroup" => nodes.push(format!("/{folder}")),
                ".zattrs" | ".zmetadata" => {}
                _ => others.push(key.as_str().to_owned()),
            }
        }
        nodes.sort();
        nodes.dedup();
        let mut keys = Self { nodes, ..Self::default() };
        for key in others {
            let full = format!("/{key}");
            let mut folder = full.as_str();
            let owner = loop {
                folder = match folder.rsplit_once('/') {
                    Some(("", _)) if folder != "/" => "/",
                    Some((above, _)) => above,
                    None => break None,
                };
                if keys.nodes.binary_search_by(|node| node.as_str().cmp(folder)).is_ok() {
                    break Some(folder.to_owned());
                }
                if folder == "/" || folder.is_empty() {
                    break None;
                }
            };
            let Some(owner) = owner else { continue };
            let relative = full.strip_prefix(owner.trim_end_matches('/')).unwrap_or(&full);
            let size = store.size_key(
                &StoreKey::new(&key).map_err(|error| ZarrError::metadata(&full, error.to_string()))?,
            )?;
            let bytes = keys.bytes.entry(owner.clone()).or_default();
            *bytes = bytes.saturating_add(size.unwrap_or_default());
            keys.objects.entry(owner).or_default().push(relative.trim_start_matches('/').to_owned());
        }
        Ok(keys)
    }
}

/// Chunks past the array's end, declared or stored.
fn check_chunks<S: ?Sized>(array: &ZarrArray<S>, keys: &Keys, findings: &mut Vec<Finding>) {
    let path = array.path();
    for (number, axis) in array.grid().axes().iter().enumerate() {
        let (declared, active) = (axis.n_declared(), axis.n_active());
        if declared > active {
            findings.push(Finding {
                path: path.to_owned(),
                axis: Some(number),
                severity: Severity::Note,
                message: format!(
                    "declares {declared} chunks up to {}, {active} of which hold elements up to {}",
                    axis.declared_length(),
                    axis.length()
                ),
            });
        }
    }
    let active = array.grid().active_shape();
    for object in keys.objects.get(path).into_iter().flatten() {
        let Some(chunk) = chunk_of(object, active.len()) else {
            findings.push(Finding {
                path: path.to_owned(),
                axis: None,
                severity: Severity::Note,
                message: format!("stores {object}, which is not a chunk"),
            });
            continue;
        };
        let outside = chunk.iter().zip(&active).position(|(chunk, active)| chunk >= active);
        if let Some(axis) = outside {
            let active = active.get(axis).copied().unwrap_or_default();
            findings.push(Finding {
                path: path.to_owned(),
                axis: Some(axis),
                severity: Severity::Note,
                message: format!(
                    "stores {object}, past the {active} chunks that hold elements: no reader sees it"
                ),
            });
        }
    }
}

/// The chunk of a key, in either of the usual encodings with either separator.
fn chunk_of(object: &str, ndim: usize) -> Option<Vec<u64>> {
    if ndim == 0 {
        return matches!(object, "c" | "0").then(Vec::new);
    }
    let numbers = object.strip_prefix("c/").or_else(|| object.strip_prefix("c.")).unwrap_or(object);
    let chunk: Option<Vec<u64>> = numbers.split(['/', '.']).map(|number| number.parse().ok()).collect();
    chunk.filter(|chunk| chunk.len() == ndim)
}

/// Consolidated metadata against the nodes' own.
fn check_consolidated<S: ?Sized + ReadableStorageTraits>(
    store: &S,
    path: &str,
    group: &Value,
    keys: &Keys,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let Some(entries) = group.pointer("/consolidated_metadata/metadata").and_then(Value::as_object) else {
        return Ok(());
    };
    let base = path.trim_end_matches('/');
    for (name, entry) in entries {
        let node = format!("{base}/{name}");
        let own = match store.get(&key_of(&node, "zarr.json")?)? {
            Some(text) => serde_json::from_slice::<Value>(&text).ok(),
            None => None,
        };
        let Some(own) = own else {
            findings.push(fault(
                &node,
                format!("is in the consolidated metadata of {path}, but has none of its own"),
            ));
            continue;
        };
        for key in [
            "node_type",
            "shape",
            "data_type",
            "chunk_grid",
            "chunk_key_encoding",
            "codecs",
            "fill_value",
            "attributes",
        ] {
            if own.get(key) != entry.get(key) {
                findings
                    .push(fault(&node, format!("{key} differs from the consolidated metadata of {path}")));
            }
        }
    }
    let prefix = format!("{base}/");
    for node in keys.nodes.iter().filter_map(|node| node.strip_prefix(&prefix)) {
        if !node.is_empty() && !entries.contains_key(node) {
            findings.push(fault(
                &format!("{base}/{node}"),
                format!("is not in the consolidated metadata of {path}"),
            ));
        }
    }
    Ok(())
}

/// The arrays of a sparse matrix against each other.
fn check_sparse<S>(store: &Arc<S>, path: &str, group: &Value, findings: &mut Vec<Finding>)
where
    S: ?Sized + ReadableStorageTraits + 'static,
{
    let attributes = field(group, "/attributes");
    let major = match field(attributes, "/encoding-type").as_str() {
        Some("csr_matrix") => 0,
        Some("csc_matrix") => 1,
        _ => return,
    };
    let open =
        |name: &str| ZarrArray::open(Arc::clone(store), &format!("{}/{name}", path.trim_end_matches('/')));
    let (Ok(data), Ok(indices), Ok(indptr)) = (open("data"), open("indices"), open("indptr")) else { return };
    if data.grid().shape() != indices.grid().shape() {
        let (a, b) = (data.grid().shape(), indices.grid().shape());
        findings.push(fault(path, format!("data has shape {a:?} and indices {b:?}, expected the same")));
    } else if data.grid() != indices.grid() {
        findings.push(Finding {
            path: path.to_owned(),
            axis: Some(0),
            severity: Severity::Note,
            message:
                "data and indices are cut differently: a reader fetches parts of each that it does not need"
                    .into(),
        });
    }
    let Some(cells) = field(attributes, "/shape").get(major).and_then(Value::as_u64) else {
        findings.push(fault(
            path,
            format!("attribute shape is {}, expected two lengths", field(attributes, "/shape")),
        ));
        return;
    };
    let offsets = indptr.grid().shape();
    if offsets != [cells.saturating_add(1)] {
        findings.push(fault(
            path,
            format!("indptr has shape {offsets:?}, expected [{}]", cells.saturating_add(1)),
        ));
        return;
    }
    let last = indptr
        .read_region(std::slice::from_ref(&(cells..cells + 1)))
        .ok()
        .and_then(|last| last.into_fixed().ok());
    let last = last.and_then(|bytes| match bytes.len() {
        4 => bytes.as_ref().try_into().ok().map(|bytes| u64::from(u32::from_ne_bytes(bytes))),
        8 => bytes.as_ref().try_into().ok().map(u64::from_ne_bytes),
        _ => None,
    });
    if last.map(|last| vec![last]) != Some(data.grid().shape()) {
        let (last, length) =
            (last.map_or("not readable".to_owned(), |last| last.to_string()), data.grid().shape());
        findings.push(fault(
            path,
            format!("the last entry of indptr is {last}, expected the length of data, {length:?}"),
        ));
    }
}

fn fault(path: &str, message: impl Into<String>) -> Finding {
    Finding { path: path.to_owned(), axis: None, severity: Severity::Fault, message: message.into() }
}

fn of_error(path: &str, error: &ZarrError) -> Finding {
    let axis = match error {
        ZarrError::Grid { source, .. } => source.place().and_then(|place| place.axis),
        _ => None,
    };
    Finding { axis, ..fault(path, error.to_string()) }
}

fn key_of(path: &str, name: &str) -> Result<StoreKey> {
    let key = format!("{}/{name}", path.trim_end_matches('/'));
    StoreKey::new(key.trim_start_matches('/')).map_err(|error| ZarrError::metadata(path, error.to_string()))
}
