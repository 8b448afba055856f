//! Bodies that hold an object: JSON and YAML, with an eye for fields that stand there twice.

use std::{cell::RefCell, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::field::Path;

/// A value, and what is to be said of fields that it names twice (the last one wins).
pub(crate) type Parsed = (Value, Vec<String>);

/// Reads JSON; the error says what is wrong with it.
pub(crate) fn json(body: &[u8]) -> Result<Parsed, String> {
    let repeated = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let node = Node { path: &Path::ROOT, repeated: &repeated };
    let value = node.deserialize(&mut deserializer).map_err(|e| e.to_string())?;
    deserializer.end().map_err(|e| e.to_string())?;
    Ok((value, repeated.into_inner()))
}

/// Reads YAML; the error says what is wrong with it.
pub(crate) fn yaml(body: &[u8]) -> Result<Parsed, String> {
    use serde_saphyr::options::DuplicateKeyPolicy::{Error, LastWins};
    let read = |policy| {
        let options = serde_saphyr::options! { strict_booleans: true, duplicate_keys: policy };
        serde_saphyr::from_slice_with_options::<Value>(body, options).map_err(|e| e.to_string())
    };
    let value = read(LastWins)?;
    Ok((value, read(Error).err().into_iter().collect()))
}

/// A place in a document; repeated fields are noted with their path.
struct Node<'a> {
    path: &'a Path<'a>,
    repeated: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = self.path.index(list.len());
            match access.next_element_seed(Node { path: &path, repeated: self.repeated })? {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            let path = self.path.field(&name);
            let value = access.next_value_seed(Node { path: &path, repeated: self.repeated })?;
            if map.contains_key(&name) {
                let said = format!("duplicate field \"{path}\"");
                self.repeated.try_borrow_mut().map_err(A::Error::custom)?.push(said);
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_read_as_by_serde_json() {
        for text in [
            r#"{"a":[1,-2,3.5,1e3,18446744073709551615],"b":{"c":null,"d":true},"e":"\u00e4\n"}"#,
            "[]",
            "null",
            "9007199254740993",
        ] {
            let wanted: Value = serde_json::from_str(text).unwrap();
            assert_eq!(json(text.as_bytes()), Ok((wanted, Vec::new())), "{text}");
        }
        for text in ["", "{", "{}}", r#"{"a":1,}"#, "[1 2]", "nul"] {
            assert!(json(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn repeated_fields_are_named_by_their_path_and_the_last_one_wins() {
        let (value, repeated) =
            json(br#"{"spec":{"a":1,"list":[{"x":1,"x":2}],"a":3},"kind":"A","kind":"B"}"#).unwrap();
        assert_eq!(value, json!({ "spec": { "a": 3, "list": [{ "x": 2 }] }, "kind": "B" }));
        let fields = ["spec.list[0].x", "spec.a", "kind"];
        assert_eq!(repeated, fields.map(|f| format!("duplicate field \"{f}\"")));
        let (value, repeated) = yaml(b"spec:\n  a: 1\n  a: 2\n").unwrap();
        assert_eq!((value, repeated.len()), (json!({ "spec": { "a": 2 } }), 1));
    }
}
