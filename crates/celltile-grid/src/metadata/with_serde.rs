//! Metadata inside other documents, through serde.

use serde::ser::{Error as _, Serialize, Serializer};
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use super::GridMetadata;
use crate::Grid;

/// Writes the canonical JSON. To be read back exactly it must go to JSON text: `serde_json::Value` keeps integers below
/// 2^64, which are all there are.
impl Serialize for GridMetadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self.to_json(), serializer)
    }
}

/// As its metadata. There is no counterpart that reads: a grid needs the array's shape, which lies elsewhere.
impl Serialize for Grid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self.to_json(), serializer)
    }
}

fn serialize<S: Serializer>(json: String, serializer: S) -> Result<S::Ok, S::Error> {
    RawValue::from_string(json).map_err(S::Error::custom)?.serialize(serializer)
}

/// Reads the text as [`GridMetadata::parse`] does, from JSON only: another format, or a buffer in between (an untagged enum,
/// a flattened struct), loses how numbers were written.
impl<'de> Deserialize<'de> for GridMetadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(json.get()).map_err(de::Error::custom)
    }
}
