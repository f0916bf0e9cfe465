//! Shards: the inner chunks of a chunk, found by the index stored with them.

use std::ops::Range;

use serde_json::Value;
use zarrs::array::{
    ArrayToBytesCodecTraits as _, BytesRepresentation, CodecChain, DataType, FillValue, data_type,
};
use zarrs::storage::byte_range::ByteRange;
use zarrs::storage::{ReadableStorageTraits, StoreKey};

use super::{Chain, Form};
use crate::elements::Elements;
use crate::error::{Result, ZarrError};
use crate::metadata::field;

/// How shards are read.
#[derive(Debug)]
pub(crate) struct Sharded {
    /// Shape of the inner chunks.
    pub(crate) inner: Vec<u64>,
    pub(crate) chain: Chain,
    index: Chain,
    index_chain: CodecChain,
    at_end: bool,
}

/// Where the inner chunks of a shard are, in C order.
#[derive(Debug, Default)]
pub(crate) struct ShardIndex {
    /// Inner chunks along each axis.
    shape: Vec<u64>,
    places: Vec<Option<Range<u64>>>,
}

impl Sharded {
    /// From the codec's configuration; `None` if the inner chunks are shards themselves.
    pub(super) fn new(node: &str, configuration: &Value) -> Result<Option<Self>> {
        let inner = field(configuration, "/chunk_shape").as_array();
        let inner = inner.map(|edges| edges.iter().filter_map(Value::as_u64).collect()).unwrap_or_default();
        let codecs = field(configuration, "/codecs");
        let nested = |codec: &Value| field(codec, "/name") == "sharding_indexed";
        if codecs.as_array().is_some_and(|codecs| codecs.iter().any(nested)) {
            return Ok(None);
        }
        let (chain, _) = Chain::from_values(node, codecs)?;
        let (index, index_chain) = Chain::from_values(node, field(configuration, "/index_codecs"))?;
        let at_end = match field(configuration, "/index_location") {
            Value::Null => true,
            Value::String(place) if place == "end" => true,
            Value::String(place) if place == "start" => false,
            other => {
                let reason = format!("sharding_indexed: index_location is {other}, expected start or end");
                return Err(ZarrError::metadata(node, reason));
            }
        };
        Ok(Some(Self { inner, chain, index, index_chain, at_end }))
    }

    /// Reads a shard's index; `None` if there is no such shard.
    pub(crate) fn index<S: ?Sized + ReadableStorageTraits>(
        &self,
        node: &str,
        store: &S,
        key: &StoreKey,
        edges: &[u64],
    ) -> Result<Option<ShardIndex>> {
        let Some(size) = store.size_key(key)? else { return Ok(None) };
        let fault = |reason: String| ZarrError::metadata(node, format!("shard {key}: {reason}"));
        let shape: Vec<u64> =
            edges.iter().zip(&self.inner).map(|(edge, inner)| edge / (*inner).max(1)).collect();
        let data_type: DataType = data_type::uint64();
        let fill_value = FillValue::from(u64::MAX);
        let mut whole = shape.clone();
        whole.push(2);
        let stored = whole.iter().map(|&edge| edge.try_into()).collect::<std::result::Result<Vec<_>, _>>();
        let stored = stored.map_err(|_| fault("an edge shorter than an inner chunk".to_owned()))?;
        let length = self.index_chain.encoded_representation(&stored, &data_type, &fill_value);
        let length = match length.map_err(|error| fault(error.to_string()))? {
            BytesRepresentation::FixedSize(length) => length,
            BytesRepresentation::BoundedSize(_) | BytesRepresentation::UnboundedSize => {
                return Err(fault("an index of no known size".to_owned()));
            }
        };
        // An index that fits into what is stored justifies the memory that it takes.
        if length > size {
            return Err(fault(format!("{size} bytes, less than the {length} of its index")));
        }
        let range =
            if self.at_end { ByteRange::Suffix(length) } else { ByteRange::FromStart(0, Some(length)) };
        let Some(bytes) = store.get_partial(key, range)? else { return Ok(None) };
        let form = Form { shape: &whole, data_type: &data_type, fill_value: &fill_value, most: length };
        let entries = self.index.decode(&bytes, &form).map_err(|reason| fault(format!("index: {reason}")))?;
        let entries = entries.fixed().unwrap_or_default().as_chunks::<16>().0;
        let mut places = Vec::with_capacity(entries.len());
        for entry in entries {
            let (offset, length) = entry.split_at(8);
            let number = |bytes: &[u8]| bytes.try_into().map_or(u64::MAX, u64::from_ne_bytes);
            places.push(match (number(offset), number(length)) {
                (u64::MAX, u64::MAX) => None,
                (offset, length) => match offset.checked_add(length) {
                    Some(end) if end <= size => Some(offset..end),
                    _ => {
                        let reason = format!("an inner chunk of {length} bytes at {offset}, of {size}");
                        return Err(fault(reason));
                    }
                },
            });
        }
        Ok(Some(ShardIndex { shape, places }))
    }

    /// Reads an inner chunk by its place in the shard: its elements and the bytes stored; `None` if it is not stored.
    pub(crate) fn read<S: ?Sized + ReadableStorageTraits>(
        &self,
        node: &str,
        store: &S,
        key: &StoreKey,
        place: Range<u64>,
        form: &Form<'_>,
    ) -> Result<Option<(Elements, u64)>> {
        let length = place.end.saturating_sub(place.start);
        let range = ByteRange::FromStart(place.start, Some(length));
        let Some(bytes) = store.get_partial(key, range)? else { return Ok(None) };
        let elements = self.chain.decode(&bytes, form);
        let elements = elements.map_err(|reason| {
            ZarrError::metadata(node, format!("shard {key}, bytes {}..{}: {reason}", place.start, place.end))
        })?;
        Ok(Some((elements, length)))
    }
}

impl ShardIndex {
    /// Where an inner chunk is, by its place in the shard.
    pub(crate) fn place(&self, inner: &[u64]) -> Option<Range<u64>> {
        let mut at = 0_u64;
        for (index, edge) in inner.iter().zip(&self.shape) {
            at = at.checked_mul(*edge)?.checked_add(*index)?;
        }
        self.places.get(usize::try_from(at).ok()?)?.clone()
    }

    /// Bytes it takes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.places.len() as u64).saturating_mul(24)
    }
}
