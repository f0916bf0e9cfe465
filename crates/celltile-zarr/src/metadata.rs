//! The metadata of arrays that others wrote, as far as grids are concerned: read and refused before zarrs sees it.

use std::num::NonZeroU64;

use celltile_grid::Grid;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{Result, ZarrError};
use crate::spec::GridForm;

/// The grid that an array's metadata declares.
#[derive(Debug, Clone)]
pub struct DeclaredGrid {
    /// Shape and chunks.
    pub grid: Grid,
    /// How the metadata names it.
    pub form: GridForm,
    /// Shape of the inner chunks, if chunks are shards.
    pub inner: Option<Vec<u64>>,
}

#[derive(Deserialize)]
struct ArrayHead<'a> {
    zarr_format: Value,
    node_type: Value,
    shape: Vec<u64>,
    #[serde(borrow)]
    chunk_grid: &'a RawValue,
    codecs: Vec<Value>,
}

#[derive(Deserialize)]
struct Regular {
    chunk_shape: Vec<NonZeroU64>,
}

/// What kind of node a `zarr.json` describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// An array.
    Array,
    /// A group.
    Group,
}

/// What kind of node the text of a `zarr.json` describes.
///
/// # Errors
///
/// If it is not a JSON object of Zarr format 3 with one of the two node types.
pub fn node_kind(node: &str, text: &[u8]) -> Result<NodeKind> {
    #[derive(Deserialize)]
    struct Head {
        zarr_format: Value,
        node_type: Value,
    }
    let head: Head = parse(node, text)?;
    check_format(node, &head.zarr_format)?;
    match head.node_type.as_str() {
        Some("array") => Ok(NodeKind::Array),
        Some("group") => Ok(NodeKind::Group),
        _ => Err(ZarrError::metadata(
            node,
            format!("node_type is {}, expected array or group", head.node_type),
        )),
    }
}

/// The grid in the text of an array's `zarr.json`, strictly checked: its edges, and whether they divide into the inner chunks of
/// shards.
///
/// Takes memory in the number of runs, whatever their counts.
///
/// # Errors
///
/// [`ZarrError::Grid`] with axis, position and value; [`ZarrError::Metadata`] if the text is not an array's metadata or
/// names a grid that is neither regular nor rectilinear.
pub fn parse_grid(node: &str, text: &[u8]) -> Result<DeclaredGrid> {
    let head: ArrayHead<'_> = parse(node, text)?;
    check_format(node, &head.zarr_format)?;
    if head.node_type.as_str() != Some("array") {
        return Err(ZarrError::metadata(node, format!("node_type is {}, expected array", head.node_type)));
    }
    let (grid, form) = parse_chunk_grid(node, head.chunk_grid.get(), &head.shape)?;
    let inner = inner_shape(node, &head.codecs)?;
    if let Some(inner) = &inner {
        grid.check_inner(inner).map_err(ZarrError::grid(node))?;
    }
    Ok(DeclaredGrid { grid, form, inner })
}

/// The codecs in the text of an array's `zarr.json`.
pub(crate) fn declared_codecs(node: &str, text: &[u8]) -> Result<Vec<Value>> {
    #[derive(Deserialize)]
    struct Codecs {
        codecs: Vec<Value>,
    }
    Ok(parse::<Codecs>(node, text)?.codecs)
}

/// The grid in the text of an array's `.zarray`.
pub(crate) fn parse_v2(node: &str, text: &[u8]) -> Result<Grid> {
    #[derive(Deserialize)]
    struct Head {
        zarr_format: Value,
        shape: Vec<u64>,
        chunks: Vec<NonZeroU64>,
    }
    let head: Head = serde_json::from_slice(text)
        .map_err(|error| ZarrError::metadata(node, format!(".zarray: {error}")))?;
    if head.zarr_format.as_u64() != Some(2) {
        return Err(ZarrError::metadata(node, format!("zarr_format is {}, expected 2", head.zarr_format)));
    }
    let chunks: Vec<u64> = head.chunks.into_iter().map(NonZeroU64::get).collect();
    Grid::from_regular(&head.shape, &chunks).map_err(ZarrError::grid(node))
}

/// A `chunk_grid` object of either form.
pub(crate) fn parse_chunk_grid(node: &str, text: &str, shape: &[u64]) -> Result<(Grid, GridForm)> {
    #[derive(Deserialize)]
    struct Named<'a> {
        name: String,
        #[serde(borrow)]
        configuration: Option<&'a RawValue>,
    }
    // Errors of a rectilinear grid come from its own parser, which names axis, position and value.
    let regular = serde_json::from_str::<Named<'_>>(text).ok().filter(|named| named.name == "regular");
    let Some(regular) = regular else {
        let grid = Grid::from_json(text, shape).map_err(ZarrError::grid(node))?;
        return Ok((grid, GridForm::Rectilinear));
    };
    let configuration = regular.configuration.map_or("{}", RawValue::get);
    let Regular { chunk_shape } = serde_json::from_str(configuration)
        .map_err(|error| ZarrError::metadata(node, format!("regular chunk grid: {error}")))?;
    let chunk_shape: Vec<u64> = chunk_shape.into_iter().map(NonZeroU64::get).collect();
    let grid = Grid::from_regular(shape, &chunk_shape).map_err(ZarrError::grid(node))?;
    Ok((grid, GridForm::Regular))
}

/// The shape of a shard's inner chunks.
fn inner_shape(node: &str, codecs: &[Value]) -> Result<Option<Vec<u64>>> {
    let Some(sharding) = codecs.iter().find(|codec| field(codec, "/name") == "sharding_indexed") else {
        return Ok(None);
    };
    let shape = field(sharding, "/configuration/chunk_shape");
    let edges: Option<Vec<u64>> = shape
        .as_array()
        .map(|edges| edges.iter().map_while(Value::as_u64).filter(|edge| *edge > 0).collect());
    match edges {
        Some(edges) if Some(edges.len()) == shape.as_array().map(Vec::len) => Ok(Some(edges)),
        _ => Err(ZarrError::metadata(
            node,
            format!("sharding_indexed: chunk_shape is {shape}, expected positive integers"),
        )),
    }
}

/// A part of a JSON value, by its pointer; null if it is not there.
pub(crate) fn field<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

fn parse<'a, T: Deserialize<'a>>(node: &str, text: &'a [u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| ZarrError::metadata(node, format!("zarr.json: {error}")))
}

fn check_format(node: &str, format: &Value) -> Result<()> {
    if format.as_u64() == Some(3) {
        return Ok(());
    }
    Err(ZarrError::metadata(node, format!("zarr_format is {format}, expected 3")))
}
