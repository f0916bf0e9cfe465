//! The metadata of arrays and groups that we write.

use celltile_grid::Grid;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::error::{Result, ZarrError};

/// How the bytes of a chunk, or of a shard's inner chunks, are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// One zstd frame of that level.
    Zstd(i32),
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

impl std::str::FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || {
            format!("'{text}' is no compression; expected none, zstd or zstd:LEVEL with a level of 1 to 22")
        };
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            None if text == "zstd" => Ok(Self::Zstd(3)),
            Some(("zstd", level)) => match level.parse() {
                Ok(level @ 1..=22) => Ok(Self::Zstd(level)),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

/// How an array's chunks are encoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Encoding {
    /// Compression of chunks, or of inner chunks.
    pub compression: Compression,
    /// Shape of the inner chunks into which each chunk (then a shard) is divided; every edge must be a multiple of it.
    pub inner: Option<Vec<u64>>,
    /// Whether a CRC-32C is stored with each chunk, or with each inner chunk.
    pub checksum: bool,
}

/// Which of the two grids of the specification an array's metadata names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GridForm {
    /// `regular`: all edges of an axis are equal.
    Regular,
    /// `rectilinear`.
    Rectilinear,
}

/// An array of Zarr v3 before it exists: what its `zarr.json` says.
#[derive(Debug, Clone)]
pub struct ArraySpec {
    /// Shape and chunks.
    pub grid: Grid,
    /// How the metadata names the grid.
    pub form: GridForm,
    /// The data type's name: `int32`, `float32`, `bool`, `string`, ...
    pub data_type: String,
    /// The value of elements in chunks that are not stored.
    pub fill_value: Value,
    /// How chunks are encoded.
    pub encoding: Encoding,
    /// Attributes.
    pub attributes: Map<String, Value>,
    /// A name for each dimension.
    pub dimension_names: Option<Vec<String>>,
}

impl ArraySpec {
    /// An array with that grid and data type whose fill value is zero (or `false`, or the empty string), not compressed.
    #[must_use]
    pub fn new(grid: Grid, form: GridForm, data_type: &str) -> Self {
        let fill_value = match data_type {
            "bool" => json!(false),
            "string" => json!(""),
            name if name.starts_with("float") => json!(0.0),
            _ => json!(0),
        };
        Self {
            grid,
            form,
            data_type: data_type.to_owned(),
            fill_value,
            encoding: Encoding::default(),
            attributes: Map::new(),
            dimension_names: None,
        }
    }

    /// The text of `zarr.json`, always the same for the same specification.
    ///
    /// # Errors
    ///
    /// If the form is [`GridForm::Regular`] and an axis has unequal edges.
    pub fn to_json(&self, node: &str) -> Result<String> {
        let chunk_grid = grid_json(node, &self.grid, self.form)?;
        let metadata = ArrayJson {
            shape: self.grid.shape(),
            data_type: &self.data_type,
            chunk_grid: &chunk_grid,
            chunk_key_encoding: json!({"name": "default", "configuration": {"separator": "/"}}),
            fill_value: &self.fill_value,
            codecs: self.codecs(),
            attributes: &self.attributes,
            dimension_names: self.dimension_names.as_deref(),
            zarr_format: 3,
            node_type: "array",
            storage_transformers: [],
        };
        to_text(node, &metadata)
    }

    pub(crate) fn codecs(&self) -> Value {
        let mut chain = vec![match self.data_type.as_str() {
            "string" => json!({"name": "vlen-utf8", "configuration": {}}),
            "bool" | "int8" | "uint8" => json!({"name": "bytes"}),
            _ => json!({"name": "bytes", "configuration": {"endian": "little"}}),
        }];
        if let Compression::Zstd(level) = self.encoding.compression {
            chain.push(json!({"name": "zstd", "configuration": {"level": level, "checksum": false}}));
        }
        if self.encoding.checksum {
            chain.push(json!({"name": "crc32c"}));
        }
        let Some(inner) = &self.encoding.inner else { return Value::Array(chain) };
        json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": inner,
            "codecs": chain,
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "index_location": "end",
        }}])
    }
}

#[derive(Serialize)]
struct ArrayJson<'a> {
    shape: Vec<u64>,
    data_type: &'a str,
    chunk_grid: &'a RawValue,
    chunk_key_encoding: Value,
    fill_value: &'a Value,
    codecs: Value,
    attributes: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimension_names: Option<&'a [String]>,
    zarr_format: u8,
    node_type: &'static str,
    storage_transformers: [Value; 0],
}

/// The text of a group's `zarr.json`, without consolidated metadata.
pub(crate) fn group_json(node: &str, attributes: &Map<String, Value>) -> Result<String> {
    #[derive(Serialize)]
    struct GroupJson<'a> {
        attributes: &'a Map<String, Value>,
        zarr_format: u8,
        node_type: &'static str,
    }
    to_text(node, &GroupJson { attributes, zarr_format: 3, node_type: "group" })
}

/// The `chunk_grid` object of a grid.
pub(crate) fn grid_json(node: &str, grid: &Grid, form: GridForm) -> Result<Box<RawValue>> {
    let text = match form {
        GridForm::Rectilinear => grid.to_json(),
        GridForm::Regular => {
            let edges = grid.to_regular().ok_or_else(|| ZarrError::Mismatch {
                node: node.to_owned(),
                what: "the grid",
                found: "one of unequal edges".to_owned(),
                expected: "one edge length an axis, as a regular grid has".to_owned(),
            })?;
            json!({"name": "regular", "configuration": {"chunk_shape": edges}}).to_string()
        }
    };
    RawValue::from_string(text).map_err(|error| ZarrError::metadata(node, error.to_string()))
}

fn to_text(node: &str, value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| ZarrError::metadata(node, error.to_string()))
}
