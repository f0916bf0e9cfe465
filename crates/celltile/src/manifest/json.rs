//! JSON, strictly: values as they stand in the text, so that `1.0` is not an integer, a key occurs once, and nothing
//! takes more memory than a small multiple of its text.

use std::borrow::Cow;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::ManifestFault;

type Result<T> = std::result::Result<T, ManifestFault>;

/// Characters of a value that a message repeats.
const SHOWN: usize = 60;

/// A value where it stands: its text, and the key it has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) text: &'a str,
}

/// The keys and values of an object, in the text's order. A key that occurs twice is a fault.
pub(super) fn object<'a>(field: &str, text: &'a str) -> Result<Vec<(Cow<'a, str>, Value<'a>)>> {
    let mut pairs = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer
        .deserialize_map(Pairs(&mut pairs))
        .and_then(|()| deserializer.end())
        .map_err(|e| fault(field, None, e, "a JSON object"))?;
    if let Some(key) = repeated(pairs.iter().map(|(key, _)| key.as_ref())) {
        return Err(fault(field, None, format!("key {:?} more than once", cut(&key)), "each key once"));
    }
    Ok(pairs)
}

/// Where a value stands in the text it was parsed from.
pub(super) fn span(text: &str, value: Value<'_>) -> Range<usize> {
    let start = value.text.as_ptr().addr().saturating_sub(text.as_ptr().addr());
    start..start.saturating_add(value.text.len())
}

impl<'a> Value<'a> {
    /// An integer without sign.
    pub(super) fn unsigned(self, field: &str, index: Option<u64>) -> Result<u64> {
        let digits = self.text.bytes().all(|b| b.is_ascii_digit());
        match self.text.parse() {
            Ok(number) if digits => Ok(number),
            _ => Err(fault(field, index, cut(self.text), "an integer from 0 to 18446744073709551615")),
        }
    }

    /// An integer.
    pub(super) fn signed(self, field: &str) -> Result<i64> {
        let digits = self.text.strip_prefix('-').unwrap_or(self.text);
        match self.text.parse() {
            Ok(number) if digits.bytes().all(|b| b.is_ascii_digit()) => Ok(number),
            _ => Err(fault(field, None, cut(self.text), "an integer")),
        }
    }

    pub(super) fn boolean(self, field: &str) -> Result<bool> {
        match self.text {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(fault(field, None, cut(other), "true or false")),
        }
    }

    pub(super) fn string(self, field: &str, index: Option<u64>) -> Result<Cow<'a, str>> {
        let mut deserializer = serde_json::Deserializer::from_str(self.text);
        Key.deserialize(&mut deserializer).map_err(|_| fault(field, index, cut(self.text), "a string"))
    }

    /// A list, each element made by `element` from its value and position.
    pub(super) fn list<T>(
        self,
        field: &str,
        element: impl FnMut(Value<'a>, u64) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut list = List { items: Vec::new(), element, failed: None };
        let mut deserializer = serde_json::Deserializer::from_str(self.text);
        let parsed = deserializer.deserialize_seq(&mut list);
        match (parsed, list.failed) {
            (_, Some(failed)) => Err(failed),
            (Err(_), None) => Err(fault(field, None, cut(self.text), "a list")),
            (Ok(()), None) => Ok(list.items),
        }
    }

    /// Any value, as long as no object in it has a key twice and it nests at most 120 deep.
    pub(super) fn check_free_form(self, field: &str) -> Result<()> {
        let mut deserializer = serde_json::Deserializer::from_str(self.text);
        FreeForm.deserialize(&mut deserializer).map_err(|e| fault(field, None, e, "a JSON value"))
    }
}

pub(super) fn fault(
    field: &str,
    index: Option<u64>,
    found: impl fmt::Display,
    expected: impl fmt::Display,
) -> ManifestFault {
    ManifestFault { field: field.to_owned(), index, found: found.to_string(), expected: expected.to_string() }
}

/// The beginning of a text, for a message.
pub(super) fn cut(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown
}

/// A key that occurs twice, found through sorted hashes: 8 bytes a key, whatever its length.
fn repeated<'a>(keys: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    let mut hashes: Vec<u64> = keys.clone().map(hash).collect();
    let twice = first_repeated(&mut hashes)?;
    keys.into_iter().find(|key| hash(key) == twice).map(str::to_owned)
}

fn first_repeated(hashes: &mut [u64]) -> Option<u64> {
    hashes.sort_unstable();
    hashes.windows(2).find_map(|pair| match pair {
        [a, b] if a == b => Some(*a),
        _ => None,
    })
}

fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

struct Pairs<'p, 'a>(&'p mut Vec<(Cow<'a, str>, Value<'a>)>);

impl<'a> Visitor<'a> for Pairs<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(Key)? {
            let value: &RawValue = map.next_value()?;
            self.0.push((key, Value { text: value.get() }));
        }
        Ok(())
    }
}

/// A string, borrowed from the text where it has no escapes.
struct Key;

impl<'a> DeserializeSeed<'a> for Key {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Key {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> std::result::Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

struct List<T, F> {
    items: Vec<T>,
    element: F,
    failed: Option<ManifestFault>,
}

impl<'a, T, F: FnMut(Value<'a>, u64) -> Result<T>> Visitor<'a> for &mut List<T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> std::result::Result<(), A::Error> {
        let mut index = 0;
        while let Some(value) = seq.next_element::<&RawValue>()? {
            match (self.element)(Value { text: value.get() }, index) {
                Ok(item) => self.items.push(item),
                Err(failed) => {
                    self.failed = Some(failed);
                    return Err(A::Error::custom("element"));
                }
            }
            index += 1;
        }
        Ok(())
    }
}

/// Walks a value of any kind and keeps nothing of it.
struct FreeForm;

impl<'a> DeserializeSeed<'a> for FreeForm {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for FreeForm {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> std::result::Result<(), A::Error> {
        while seq.next_element_seed(FreeForm)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let mut hashes = Vec::new();
        while let Some(key) = map.next_key_seed(Key)? {
            hashes.push(hash(&key));
            map.next_value_seed(FreeForm)?;
        }
        match first_repeated(&mut hashes) {
            None => Ok(()),
            Some(_) => Err(A::Error::custom("a key occurs more than once in an object")),
        }
    }
}
