//! Strategic merge patches for the built-in kinds.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{identity::identity_of, meta::Json, status::ApiError};

/// The lists of built-in kinds that merge, with the field that tells their entries apart (empty: the entry itself).
const MERGED: [(&str, &str); 4] =
    [("ownerReferences", "uid"), ("finalizers", ""), ("conditions", "type"), ("secrets", "name")];

const ORDER: &str = "$setElementOrder/";
const REMOVE: &str = "$deleteFromPrimitiveList/";

/// Applies a patch with its directives (`$patch`, `$retainKeys`, `$deleteFromPrimitiveList`, `$setElementOrder`).
pub(crate) fn merge(target: &mut Json, patch: &Value) -> Result<(), ApiError> {
    let Value::Object(patch) = patch else {
        return Ok(());
    };
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *target = patch
                .iter()
                .filter(|(name, _)| *name != "$patch")
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            return Ok(());
        }
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => {
            return Err(ApiError::bad_request(format!("unknown patch type found: {other}")));
        }
    }
    if let Some(Value::Array(keep)) = patch.get("$retainKeys") {
        target.retain(|name, _| keep.iter().any(|k| k.as_str() == Some(name)));
    }
    for (name, change) in patch {
        if let Some(list) = name.strip_prefix(REMOVE) {
            remove_entries(target, list, change);
        } else if !name.starts_with('$') {
            merge_field(target, name, change)?;
        }
    }
    for (name, order) in patch {
        if let (Some(list), Value::Array(order)) = (name.strip_prefix(ORDER), order) {
            sort_entries(target, list, order);
        }
    }
    Ok(())
}

fn merge_key(list: &str) -> Option<&'static str> {
    MERGED.iter().find(|(name, _)| *name == list).map(|(_, key)| *key)
}

fn merge_field(target: &mut Json, name: &str, change: &Value) -> Result<(), ApiError> {
    match (change, merge_key(name)) {
        (Value::Null, _) => {
            target.remove(name);
        }
        (Value::Object(_), _) => {
            let slot = target.entry(name.to_owned()).or_insert(Value::Null);
            if !slot.is_object() {
                *slot = Value::Object(Json::new());
            }
            if let Value::Object(slot) = slot {
                merge(slot, change)?;
            }
        }
        (Value::Array(changes), Some(key)) => {
            let slot = target.entry(name.to_owned()).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(entries) = slot {
                merge_list(entries, changes, key)?;
            }
        }
        (other, _) => {
            target.insert(name.to_owned(), other.clone());
        }
    }
    Ok(())
}

/// What tells an entry of a list apart; `None` where it lacks the field.
fn identity(entry: &Value, key: &str) -> Option<String> {
    if key.is_empty() { Some(identity_of(entry)) } else { entry.get(key).map(identity_of) }
}

fn merge_list(entries: &mut Vec<Value>, changes: &[Value], key: &str) -> Result<(), ApiError> {
    if changes.iter().any(|c| directive(c) == Some("replace")) {
        *entries = changes.iter().filter(|c| directive(c).is_none()).cloned().collect();
        return Ok(());
    }
    let mut places = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        identity(entry, key).map(|id| places.entry(id).or_insert(index));
    }
    let (mut new, mut gone) = (Vec::new(), BTreeSet::new());
    for change in changes {
        let id = identity(change, key);
        let found = id.as_ref().and_then(|id| places.get(id));
        match (directive(change), found) {
            (Some("delete"), _) => gone.extend(id),
            (_, Some(index)) => {
                if let Some(Value::Object(entry)) = entries.get_mut(*index) {
                    merge(entry, change)?;
                }
            }
            (_, None) => new.push(change.clone()),
        }
    }
    if !gone.is_empty() {
        entries.retain(|entry| identity(entry, key).is_none_or(|id| !gone.contains(&id)));
    }
    // As in the real server, what is new comes before what only the server knows.
    entries.splice(0..0, new);
    Ok(())
}

fn directive(change: &Value) -> Option<&str> {
    change.get("$patch").and_then(Value::as_str)
}

fn remove_entries(target: &mut Json, list: &str, gone: &Value) {
    let (Some(Value::Array(entries)), Value::Array(gone)) = (target.get_mut(list), gone) else {
        return;
    };
    let gone: BTreeSet<String> = gone.iter().map(identity_of).collect();
    entries.retain(|entry| !gone.contains(&identity_of(entry)));
    if entries.is_empty() {
        target.remove(list);
    }
}

fn sort_entries(target: &mut Json, list: &str, order: &[Value]) {
    let Some(key) = merge_key(list) else { return };
    if let Some(Value::Array(entries)) = target.get_mut(list) {
        let mut places = BTreeMap::new();
        for (index, entry) in order.iter().enumerate() {
            // The order of a list with a key names the keys, as objects that hold nothing else.
            identity(entry, key).map(|id| places.entry(id).or_insert(index));
        }
        let place = |entry: &Value| places.get(&identity(entry, key)?).copied();
        entries.sort_by_cached_key(|entry| place(entry).unwrap_or(usize::MAX));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn directives_do_what_they_say() {
        let start = json!({ "metadata": { "finalizers": ["a", "b"], "labels": { "x": "1" } }, "data": { "k": "v", "l": "w" } });
        let table = [
            (
                json!({ "data": { "k": null } }),
                json!({ "metadata": start["metadata"], "data": { "l": "w" } }),
            ),
            (
                json!({ "data": { "$patch": "replace", "n": "m" } }),
                json!({ "metadata": start["metadata"], "data": { "n": "m" } }),
            ),
            (
                json!({ "metadata": { "finalizers": ["c"], "$setElementOrder/finalizers": ["c", "a", "b"] } }),
                json!({ "metadata": { "finalizers": ["c", "a", "b"], "labels": { "x": "1" } }, "data": start["data"] }),
            ),
            (
                json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["a"] } }),
                json!({ "metadata": { "finalizers": ["b"], "labels": { "x": "1" } }, "data": start["data"] }),
            ),
            (
                json!({ "data": { "$retainKeys": ["l"], "l": "z" } }),
                json!({ "metadata": start["metadata"], "data": { "l": "z" } }),
            ),
        ];
        for (patch, wanted) in table {
            let mut object = start.as_object().unwrap().clone();
            merge(&mut object, &patch).unwrap();
            assert_eq!(Value::Object(object), wanted, "{patch}");
        }
    }
}
