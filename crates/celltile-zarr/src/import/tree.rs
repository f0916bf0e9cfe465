//! The groups of a store.

use std::collections::BTreeMap;
use std::sync::Arc;

use celltile_ingest::hdf5::{Attribute, AttributeValue, NodeKind};
use celltile_ingest::tree::{TreeGroup, TreeNode};
use celltile_ingest::{Error, Result};
use serde_json::{Map, Value};
use zarrs::storage::{StoreKey, StorePrefix};

use super::AnyStore;
use super::array::StoreArray;
use super::fault::{of_store, of_zarr};
use crate::array::ZarrArray;
use crate::metadata::field;

/// Bytes of one node's metadata, at most: a grid of 10^6 runs takes less.
const MOST_METADATA: u64 = 256 << 20;

/// What all nodes of a store share.
pub(super) struct Shared {
    file: String,
    store: Arc<AnyStore>,
    /// Bytes that a chunk may decode to.
    most: u64,
    v2: bool,
    listable: bool,
    /// The nodes of the consolidated metadata, for stores that cannot be listed.
    consolidated: BTreeMap<String, NodeKind>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("file", &self.file).finish_non_exhaustive()
    }
}

/// What is found at a path.
enum Found {
    Group(Map<String, Value>),
    Array,
}

impl Shared {
    fn damaged(&self, at: &str, what: impl Into<String>) -> Error {
        let at = if at.is_empty() { "/" } else { at };
        Error::Damaged { file: self.file.clone(), at: at.to_owned(), what: what.into() }
    }

    fn key(&self, text: &str) -> Result<StoreKey> {
        StoreKey::new(text).map_err(|error| self.damaged(text, error.to_string()))
    }

    fn size(&self, key: &StoreKey) -> Result<Option<u64>> {
        self.store.size_key(key).map_err(|error| of_store(&self.file, &error))
    }

    /// A JSON object, if it is there.
    fn json(&self, key: &str) -> Result<Option<Map<String, Value>>> {
        let name = self.key(key)?;
        match self.size(&name)? {
            None => return Ok(None),
            Some(size) if size > MOST_METADATA => {
                return Err(self.damaged(key, format!("{size} bytes, more than the metadata of any node")));
            }
            Some(_) => {}
        }
        let text = self.store.get(&name).map_err(|error| of_store(&self.file, &error))?;
        let Some(text) = text else { return Ok(None) };
        match serde_json::from_slice(&text) {
            Ok(Value::Object(object)) => Ok(Some(object)),
            Ok(_) => Err(self.damaged(key, "is no JSON object")),
            Err(error) => Err(self.damaged(key, error.to_string())),
        }
    }

    /// What is at a path, in either format.
    fn find(&self, path: &str) -> Result<Option<Found>> {
        let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        if let Some(mut node) = self.json(&at("zarr.json"))? {
            if node.get("node_type").and_then(Value::as_str) == Some("array") {
                return Ok(Some(Found::Array));
            }
            return match node.remove("attributes") {
                Some(Value::Object(attributes)) => Ok(Some(Found::Group(attributes))),
                None | Some(Value::Null) => Ok(Some(Found::Group(Map::new()))),
                Some(_) => Err(self.damaged(path, "its attributes are no JSON object")),
            };
        }
        if self.size(&self.key(&at(".zgroup"))?)?.is_some() {
            return Ok(Some(Found::Group(self.json(&at(".zattrs"))?.unwrap_or_default())));
        }
        Ok(self.size(&self.key(&at(".zarray"))?)?.map(|_| Found::Array))
    }

    /// The paths and kinds of nodes in the consolidated metadata of either format.
    fn read_consolidated(&self) -> Result<BTreeMap<String, NodeKind>> {
        let mut nodes = BTreeMap::new();
        if let Some(root) = self.json("zarr.json")? {
            let entries = root.get("consolidated_metadata").map(|all| field(all, "/metadata"));
            for (path, node) in entries.and_then(Value::as_object).into_iter().flatten() {
                let array = field(node, "/node_type") == "array";
                nodes.insert(path.clone(), if array { NodeKind::Dataset } else { NodeKind::Group });
            }
            return Ok(nodes);
        }
        let all = self.json(".zmetadata")?.unwrap_or_default();
        for key in all.get("metadata").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            if let Some(path) = key.strip_suffix("/.zarray") {
                nodes.insert(path.to_owned(), NodeKind::Dataset);
            } else if let Some(path) = key.strip_suffix("/.zgroup") {
                nodes.insert(path.to_owned(), NodeKind::Group);
            }
        }
        Ok(nodes)
    }
}

/// A group of a store.
#[derive(Debug)]
pub(super) struct StoreGroup {
    shared: Arc<Shared>,
    path: String,
    attributes: Map<String, Value>,
}

impl StoreGroup {
    /// The outermost group. `most` is what a chunk may decode to, in bytes.
    pub(super) fn root(file: String, store: Arc<AnyStore>, most: u64, listable: bool) -> Result<Self> {
        let mut shared = Shared { file, store, most, v2: false, listable, consolidated: BTreeMap::new() };
        let attributes = match shared.find("")? {
            Some(Found::Group(attributes)) => attributes,
            Some(Found::Array) => return Err(shared.damaged("", "an array; expected a group")),
            None => return Err(shared.damaged("", "no group there")),
        };
        shared.v2 = shared.size(&shared.key("zarr.json")?)?.is_none();
        shared.consolidated = shared.read_consolidated()?;
        Ok(Self { shared: Arc::new(shared), path: String::new(), attributes })
    }

    pub(super) fn is_v2(&self) -> bool {
        self.shared.v2
    }

    /// Whether it is a sparse matrix.
    fn is_sparse(&self) -> bool {
        let encoding = self.attributes.get("encoding-type").and_then(Value::as_str);
        encoding.is_some_and(|encoding| encoding == "csr_matrix" || encoding == "csc_matrix")
    }

    fn child_path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }

    /// Names of members, by listing the store; `None` if it cannot be listed.
    fn listed(&self) -> Result<Option<Vec<String>>> {
        if !self.shared.listable {
            return Ok(None);
        }
        let prefix = if self.path.is_empty() { String::new() } else { format!("{}/", self.path) };
        let at =
            StorePrefix::new(&prefix).map_err(|error| self.shared.damaged(&self.path, error.to_string()))?;
        let found = self.shared.store.list_dir(&at);
        let found = found.map_err(|error| of_store(&self.shared.file, &error))?;
        let names = found.prefixes().iter().filter_map(|folder| {
            let name = folder.as_str().trim_end_matches('/').strip_prefix(prefix.as_str())?;
            (!name.is_empty()).then(|| name.to_owned())
        });
        Ok(Some(names.collect()))
    }
}

impl TreeGroup for StoreGroup {
    fn path(&self) -> &str {
        &self.path
    }

    fn members(&self) -> Result<Vec<(String, NodeKind)>> {
        let Some(names) = self.listed()?.filter(|names| !names.is_empty()) else {
            let prefix = if self.path.is_empty() { String::new() } else { format!("{}/", self.path) };
            let below = self.shared.consolidated.iter().filter_map(|(path, kind)| {
                let name = path.strip_prefix(prefix.as_str())?;
                (!name.is_empty() && !name.contains('/')).then(|| (name.to_owned(), *kind))
            });
            return Ok(below.collect());
        };
        let mut members = Vec::new();
        for name in names {
            match self.shared.find(&self.child_path(&name)) {
                Ok(Some(Found::Array)) => members.push((name, NodeKind::Dataset)),
                // Whoever asks for a node that cannot be read hears why.
                Ok(Some(Found::Group(_))) | Err(_) => members.push((name, NodeKind::Group)),
                // A folder that is no node.
                Ok(None) => {}
            }
        }
        members.sort();
        Ok(members)
    }

    fn child(&self, name: &str) -> Result<Option<TreeNode>> {
        if matches!(name, "" | "." | "..") || name.contains(['/', '\\', '\0']) {
            return Ok(None);
        }
        let path = self.child_path(name);
        let shared = &self.shared;
        match shared.find(&path)? {
            None => Ok(None),
            Some(Found::Group(attributes)) => {
                Ok(Some(TreeNode::Group(Arc::new(Self { shared: Arc::clone(shared), path, attributes }))))
            }
            Some(Found::Array) => {
                let array = ZarrArray::open(Arc::clone(&shared.store), &format!("/{path}"));
                let array = array.map_err(|error| of_zarr(&shared.file, error))?;
                // No sparse matrix stores a chunk of zeros: one that is not there was lost.
                let values = name == "data" && self.is_sparse();
                let array = array.with_max_chunk_bytes(shared.most).with_complete(values);
                Ok(Some(TreeNode::Array(Arc::new(StoreArray::new(shared.file.clone(), path, array)))))
            }
        }
    }

    fn attribute(&self, name: &str) -> Result<Option<Attribute>> {
        Ok(self.attributes.get(name).and_then(|value| attribute(name, value)))
    }
}

/// A JSON value as an attribute; null is none.
pub(super) fn attribute(name: &str, value: &Value) -> Option<Attribute> {
    let values = match value {
        Value::Null => return None,
        Value::Array(values) => values.as_slice(),
        value => std::slice::from_ref(value),
    };
    let shape = if value.is_array() { vec![values.len() as u64] } else { Vec::new() };
    let integer = |value: &Value| value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    let value = if values.iter().all(Value::is_string) {
        AttributeValue::Strings(values.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    } else if values.iter().all(Value::is_boolean) {
        AttributeValue::Bools(values.iter().filter_map(Value::as_bool).collect())
    } else if let Some(integers) = values.iter().map(integer).collect() {
        AttributeValue::Integers(integers)
    } else if values.iter().all(Value::is_number) {
        AttributeValue::Floats(values.iter().filter_map(Value::as_f64).collect())
    } else {
        AttributeValue::Other("JSON of several types".to_owned())
    };
    Some(Attribute::with_value(name.to_owned(), shape, value))
}
