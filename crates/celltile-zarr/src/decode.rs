//! Chunks decoded without trusting a byte of them: what a compressor gives is bounded by what the chunk's shape needs, before
//! memory is taken for it.

mod inflate;
mod shard;

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;
use zarrs::array::{
    ArrayToBytesCodecTraits as _, BytesRepresentation, BytesToBytesCodecTraits, CodecChain, CodecError,
    DataType, DataTypeSize, FillValue,
};
use zarrs::metadata::v3::MetadataV3;

use crate::array::serial;
use crate::elements::Elements;
use crate::error::{Result, ZarrError};
use crate::metadata::field;

use inflate::inflate;
pub(crate) use shard::{ShardIndex, Sharded};

/// How an array's chunks are decoded.
#[derive(Debug)]
pub(crate) enum Decoder {
    /// Each by itself.
    Plain(Chain),
    /// In inner chunks, each by itself.
    Sharded(Box<Sharded>),
    /// Not at all, for that reason.
    Refused(&'static str),
}

impl Decoder {
    /// The decoder for an array of format 3, whose `codecs` are these.
    pub(crate) fn from_metadata(node: &str, codecs: &[Value], chain: &CodecChain) -> Result<Self> {
        let is_shard = |codec: &Value| field(codec, "/name") == "sharding_indexed";
        match codecs {
            [codec] if is_shard(codec) => Ok(match Sharded::new(node, field(codec, "/configuration"))? {
                Some(sharded) => Self::Sharded(Box::new(sharded)),
                None => Self::Refused("shards inside shards"),
            }),
            codecs if codecs.iter().any(is_shard) => Ok(Self::Refused("shards below other codecs")),
            _ => Ok(Self::Plain(Chain::new(chain))),
        }
    }
}

/// A chain of codecs that is undone step by step.
#[derive(Debug)]
pub(crate) struct Chain {
    /// Without what works on bytes.
    array: CodecChain,
    bytes: Vec<Arc<dyn BytesToBytesCodecTraits>>,
}

/// What a chunk holds once it is decoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form<'a> {
    pub(crate) shape: &'a [u64],
    pub(crate) data_type: &'a DataType,
    pub(crate) fill_value: &'a FillValue,
    /// Bytes that elements of any size may take.
    pub(crate) most: u64,
}

/// Bytes that text may decode to for every byte stored, as for HDF5 files: more is a bomb.
const MOST_A_BYTE: u64 = 1 << 14;

impl Chain {
    pub(crate) fn new(chain: &CodecChain) -> Self {
        let array = chain.array_to_array_codecs().to_vec();
        let array = CodecChain::new(array, Arc::clone(chain.array_to_bytes_codec()), Vec::new());
        Self { array, bytes: chain.bytes_to_bytes_codecs().to_vec() }
    }

    pub(crate) fn from_values(node: &str, codecs: &Value) -> Result<(Self, CodecChain)> {
        let fault = |error: &dyn std::fmt::Display| ZarrError::metadata(node, format!("codecs: {error}"));
        let codecs: Vec<MetadataV3> =
            serde_json::from_value(codecs.clone()).map_err(|error| fault(&error))?;
        let chain = CodecChain::from_metadata(&codecs).map_err(|error| fault(&error))?;
        Ok((Self::new(&chain), chain))
    }

    /// A chunk's elements, or what is wrong with its bytes.
    pub(crate) fn decode(&self, encoded: &[u8], form: &Form<'_>) -> std::result::Result<Elements, String> {
        let count = form.shape.iter().try_fold(1_u64, |count, &edge| count.checked_mul(edge));
        let count = count.ok_or("more elements than 2^64 - 1")?;
        let size = match form.data_type.size() {
            DataTypeSize::Fixed(size) => Some(size as u64),
            DataTypeSize::Variable => None,
        };
        // Codecs that compress badly or add a checksum need a little more.
        let most = match size {
            Some(size) => {
                let bytes = count.checked_mul(size).ok_or("more bytes than 2^64 - 1")?;
                bytes.saturating_add(bytes / 64).saturating_add(1 << 12)
            }
            None => {
                let bytes = (encoded.len() as u64).saturating_mul(MOST_A_BYTE).saturating_add(1 << 20);
                bytes.min(form.most)
            }
        };
        let mut bytes = Cow::Borrowed(encoded);
        for codec in self.bytes.iter().rev() {
            bytes = match inflate(&name(codec.as_ref()), &bytes, most)? {
                Some(inflated) => Cow::Owned(inflated),
                None => guarded(|| codec.decode(bytes, &BytesRepresentation::UnboundedSize, &serial()))?,
            };
        }
        // Each text has a length of four bytes before it.
        if size.is_none() && (bytes.len() as u64) < count.saturating_mul(4) {
            return Err(format!("{} bytes for {count} texts", bytes.len()));
        }
        let shape: Option<Vec<NonZeroU64>> = form.shape.iter().map(|&edge| NonZeroU64::new(edge)).collect();
        let shape = shape.ok_or("an edge of 0")?;
        let (data_type, fill_value) = (form.data_type, form.fill_value);
        let elements = guarded(|| self.array.decode(bytes, &shape, data_type, fill_value, &serial()))?;
        let elements = Elements::from_zarrs(elements).ok_or("optional elements, which are not read")?;
        let right = match (&elements, size) {
            (Elements::Fixed(bytes), Some(size)) => count.checked_mul(size) == Some(bytes.len() as u64),
            (Elements::Variable { offsets, .. }, None) => offsets.len() as u64 == count.saturating_add(1),
            _ => false,
        };
        if right { Ok(elements) } else { Err(format!("not the {count} elements of its shape")) }
    }
}

/// What a codec is called, without the prefix of numcodecs.
fn name(codec: &dyn BytesToBytesCodecTraits) -> String {
    let name = codec.name_v3().or_else(|| codec.name_v2()).unwrap_or_default();
    name.strip_prefix("numcodecs.").unwrap_or(&name).to_owned()
}

/// Runs something of zarrs that may panic on hostile bytes.
fn guarded<T>(run: impl FnOnce() -> std::result::Result<T, CodecError>) -> std::result::Result<T, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("a codec gave up on bytes that are not valid".to_owned()),
    }
}
