//! SHA-256, and the one text of a JSON value that is hashed.

use std::fmt;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use solar_api::JsonObject;

/// The SHA-256 of `bytes` as 64 lower-case hex characters.
pub fn sha256_hex(bytes: &[u8]) -> String {
    PayloadHash::of_bytes(bytes).to_hex()
}

/// The first 8 hex characters of the SHA-256 of `text`; object names end in it.
pub fn hash8(text: &str) -> String {
    let mut hex = sha256_hex(text.as_bytes());
    hex.truncate(8);
    hex
}

/// SHA-256 of a payload's canonical JSON: equal payloads have equal hashes, whatever the order of their keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PayloadHash([u8; 32]);

impl PayloadHash {
    /// The hash of `bytes` as they are.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash of `payload` as canonical JSON.
    ///
    /// A payload that JSON cannot hold (a map with keys that are no strings) counts as `null`; no API type is one.
    pub fn of<T: Serialize + ?Sized>(payload: &T) -> Self {
        let value = serde_json::to_value(payload).unwrap_or(Value::Null);
        Self::of_bytes(canonical_json(&value).as_bytes())
    }

    /// The hash of an optional object; an absent one is the same as an empty one.
    pub fn of_object(object: Option<&JsonObject>) -> Self {
        let mut text = String::new();
        match object {
            None => text.push_str("{}"),
            Some(object) => write_object(object, &mut text),
        }
        Self::of_bytes(text.as_bytes())
    }

    /// 64 lower-case hex characters.
    pub fn to_hex(self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

impl fmt::Debug for PayloadHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

/// `value` as JSON without white space, keys sorted by their bytes at every depth, numbers and strings as serde_json
/// writes them.
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write_value(value, &mut text);
    text
}

fn write_value(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                write_value(item, text);
            }
            text.push(']');
        }
        Value::Object(object) => write_object(object, text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
    }
}

fn write_object(object: &JsonObject, text: &mut String) {
    // A map keeps insertion order where another crate of the build asks serde_json for it.
    let mut entries: Vec<(&String, &Value)> = object.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    text.push('{');
    for (position, (key, value)) in entries.into_iter().enumerate() {
        if position > 0 {
            text.push(',');
        }
        text.push_str(&Value::from(key.as_str()).to_string());
        text.push(':');
        write_value(value, text);
    }
    text.push('}');
}
