//! Patches that change what is meant and nothing else.

use kube::api::Patch;
use serde_json::{Map, Value, json};

/// The JSON merge patch that turns `old` into `new`; `None` when they are equal.
pub fn merge_difference(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (old, new) if old == new => None,
        (Value::Object(old), Value::Object(new)) => {
            let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
            let changed = new.iter().filter_map(|(key, value)| {
                let before = old.get(key).unwrap_or(&Value::Null);
                merge_difference(before, value).map(|change| (key.clone(), change))
            });
            Some(Value::Object(gone.chain(changed).collect::<Map<_, _>>()))
        }
        (_, new) => Some(new.clone()),
    }
}

/// Adds `finalizer` behind `present`, provided that the list is still `present`.
pub fn add_finalizer(uid: &str, present: &[Box<str>], finalizer: &str) -> Patch<Value> {
    let mut wanted: Vec<&str> = present.iter().map(AsRef::as_ref).collect();
    wanted.push(finalizer);
    let operations = if present.is_empty() {
        json!([
            { "op": "test", "path": "/metadata/uid", "value": uid },
            { "op": "test", "path": "/metadata/finalizers", "value": null },
            { "op": "add", "path": "/metadata/finalizers", "value": wanted },
        ])
    } else {
        json!([
            { "op": "test", "path": "/metadata/uid", "value": uid },
            { "op": "test", "path": "/metadata/finalizers", "value": present },
            { "op": "replace", "path": "/metadata/finalizers", "value": wanted },
        ])
    };
    json_patch(operations)
}

/// Takes `finalizer` out of `present`, provided that the list is still `present` and, where it is given, that nothing
/// of the object has changed since `resource_version`.
pub fn remove_finalizer(
    uid: &str,
    present: &[Box<str>],
    finalizer: &str,
    resource_version: Option<&str>,
) -> Patch<Value> {
    let kept: Vec<&str> = present.iter().map(AsRef::as_ref).filter(|held| *held != finalizer).collect();
    let mut operations = vec![
        json!({ "op": "test", "path": "/metadata/uid", "value": uid }),
        json!({ "op": "test", "path": "/metadata/finalizers", "value": present }),
    ];
    if let Some(version) = resource_version {
        operations.push(json!({ "op": "test", "path": "/metadata/resourceVersion", "value": version }));
    }
    operations.push(json!({ "op": "replace", "path": "/metadata/finalizers", "value": kept }));
    json_patch(Value::Array(operations))
}

fn json_patch(operations: Value) -> Patch<Value> {
    match serde_json::from_value(operations) {
        Ok(patch) => Patch::Json(patch),
        // The operations above are literals; an empty patch would be refused by the server, never misapplied.
        Err(_) => Patch::Json(json_patch::Patch(Vec::new())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_sets_what_changed_and_nulls_what_went() {
        let old = json!({ "a": 1, "b": { "c": 2, "d": 3 }, "e": [1] });
        let new = json!({ "a": 1, "b": { "c": 4 }, "e": [1, 2], "f": true });
        assert_eq!(
            merge_difference(&old, &new),
            Some(json!({ "b": { "c": 4, "d": null }, "e": [1, 2], "f": true }))
        );
        assert_eq!(merge_difference(&new, &new), None);
    }
}
