//! JSON of bounded depth.
//!
//! Parsers, those of clients included, give up at 128 levels. So a stored value is never deeper than [`DEEPEST`],
//! which leaves room for the structures around it.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Most levels of arrays and objects in a stored value.
pub const DEEPEST: usize = 64;
/// Replaces deeper levels.
pub const OMITTED: &str = "[omitted: nested too deeply]";
/// Most levels of a whole document, a little below the parser's limit.
const DOCUMENT: usize = 100;

/// Whether the value has more than [`DEEPEST`] levels.
pub(crate) fn is_too_deep(value: &Value) -> bool {
    exceeds(value, DEEPEST)
}

fn exceeds(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(values) => levels == 0 || values.iter().any(|v| exceeds(v, levels - 1)),
        Value::Object(fields) => levels == 0 || fields.values().any(|v| exceeds(v, levels - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Replaces everything below [`DEEPEST`] levels by [`OMITTED`].
pub fn prune(value: &mut Value) {
    cut(value, DEEPEST);
}

fn cut(value: &mut Value, levels: usize) {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => *value = OMITTED.into(),
        Value::Array(values) => values.iter_mut().for_each(|v| cut(v, levels - 1)),
        Value::Object(fields) => fields.values_mut().for_each(|v| cut(v, levels - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Reads a document of any depth and replaces levels that no parser accepts by [`OMITTED`], so that a deeply nested
/// line of an agent's file is still read.
pub fn read<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text).or_else(|error| {
        let mut reader = serde_json::Deserializer::from_str(text);
        let Ok(value) = Levels(DOCUMENT).deserialize(&mut reader) else {
            return Err(error);
        };
        reader.end()?;
        serde_json::from_value(value)
    })
}

/// A value that is truncated at [`DEEPEST`] levels while it is read.
#[derive(Debug)]
pub(crate) struct TruncatedValue(pub(crate) Value);

impl<'de> Deserialize<'de> for TruncatedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Levels(DEEPEST).deserialize(deserializer).map(Self)
    }
}

/// Reads a value of at most this many levels and skips deeper ones without recursion.
struct Levels(usize);

impl<'de> DeserializeSeed<'de> for Levels {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Levels {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let Some(below) = self.0.checked_sub(1) else {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(OMITTED.into());
        };
        let mut values = vec![];
        while let Some(value) = seq.next_element_seed(Levels(below))? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let Some(below) = self.0.checked_sub(1) else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(OMITTED.into());
        };
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            fields.insert(name, map.next_value_seed(Levels(below))?);
        }
        Ok(fields.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn l13_any_depth_is_read_and_cut_alike() {
        for levels in [1, DEEPEST, DEEPEST + 1, 127, 128, 1_000_000] {
            let text = nested(levels);
            let read: TruncatedValue = serde_json::from_str(&text).unwrap();
            assert!(!is_too_deep(&read.0), "{levels}");
            assert_eq!(read.0.to_string().contains(OMITTED), levels > DEEPEST);
            let mut whole: Value = super::read(&text).unwrap();
            assert_eq!(is_too_deep(&whole), levels > DEEPEST);
            prune(&mut whole);
            assert_eq!(whole, read.0, "{levels}");
        }
        for bad in ["", "[", "{\"a\":}", "[1] 2", &"[".repeat(500)] {
            assert!(read::<Value>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_deep_is_read_as_it_is() {
        let value = json!({"a": [1, -2, 2.5, "x\n", null, true, {}, []]});
        let read: TruncatedValue = serde_json::from_str(&value.to_string()).unwrap();
        assert_eq!(read.0, value);
    }
}
