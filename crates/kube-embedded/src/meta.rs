//! Reading and writing `metadata` of an object that is held as JSON.

use serde_json::{Map, Value};

/// A Kubernetes object as JSON.
pub(crate) type Json = Map<String, Value>;

/// `metadata`, or `None` where it is missing or no object.
pub(crate) fn metadata(object: &Json) -> Option<&Json> {
    object.get("metadata").and_then(Value::as_object)
}

/// `metadata`, put there when missing.
pub(crate) fn metadata_mut(object: &mut Json) -> &mut Json {
    let slot = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// A text field of `metadata`; empty where it is missing.
pub(crate) fn text<'a>(object: &'a Json, field: &str) -> &'a str {
    metadata(object).and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// The finalizers.
pub(crate) fn finalizers(object: &Json) -> Vec<&str> {
    strings(metadata(object).and_then(|m| m.get("finalizers")))
}

/// Whether a deletion is under way.
pub(crate) fn is_deleting(object: &Json) -> bool {
    metadata(object).and_then(|m| m.get("deletionTimestamp")).is_some_and(|v| !v.is_null())
}

/// `metadata.generation`; 0 where the kind has none.
pub(crate) fn generation(object: &Json) -> i64 {
    metadata(object).and_then(|m| m.get("generation")).and_then(Value::as_i64).unwrap_or_default()
}

/// The owner references.
pub(crate) fn owners(object: &Json) -> impl Iterator<Item = &Json> {
    metadata(object)
        .and_then(|m| m.get("ownerReferences"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
}

/// Removes `name` from the finalizers; an empty list goes with its last entry.
pub(crate) fn remove_finalizer(object: &mut Json, name: &str) {
    let meta = metadata_mut(object);
    let Some(Value::Array(list)) = meta.get_mut("finalizers") else {
        return;
    };
    list.retain(|f| f.as_str() != Some(name));
    if list.is_empty() {
        meta.remove("finalizers");
    }
}

/// Adds `name` to the finalizers unless it stands there.
pub(crate) fn add_finalizer(object: &mut Json, name: &str) {
    let list = metadata_mut(object).entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(list) = list
        && !list.iter().any(|f| f.as_str() == Some(name))
    {
        list.push(name.into());
    }
}

/// The strings of a JSON list.
pub(crate) fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The value at a path of field names.
pub(crate) fn lookup<'a>(object: &'a Json, path: &[Box<str>]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let mut value = object.get(&**first)?;
    for name in rest {
        value = value.get(&**name)?;
    }
    Some(value)
}

/// How deep objects and lists may nest in each other: no deeper than `serde_json` reads them back.
pub(crate) const MAX_DEPTH: usize = 127;

/// Whether a value nests deeper than so many objects and lists.
pub(crate) fn is_deeper(value: &Value, than: usize) -> bool {
    let Some(below) = than.checked_sub(1) else {
        return value.is_object() || value.is_array();
    };
    match value {
        Value::Object(map) => map.values().any(|child| is_deeper(child, below)),
        Value::Array(list) => list.iter().any(|child| is_deeper(child, below)),
        _ => false,
    }
}

/// The length of a value's JSON, in bytes.
pub(crate) fn json_size(value: &impl serde::Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Nothing fails in counting, and a tree of JSON values always has a text.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
