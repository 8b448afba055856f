//! What makes a schema structural, beyond the types of its fields.

use serde_json::Value;

use crate::field::{FieldError, Path};

/// Keywords that may not stand in the branches of `allOf` and the like.
const NOT_IN_BRANCHES: [&str; 4] = ["type", "default", "description", "nullable"];

/// Checks a node and all below it.
pub(super) fn check(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let object = |name: &str| schema.get(name).filter(|v| v.is_object());
    if schema.get("type").and_then(Value::as_str) == Some("array") && schema.get("items").is_none() {
        errors.push(FieldError::required(path.field("items").to_string(), "must be specified"));
    }
    if object("properties").is_some() && object("additionalProperties").is_some() {
        let why = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(path.field("additionalProperties").to_string(), why));
    }
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    if schema.get("x-kubernetes-list-type").and_then(Value::as_str) == Some("map")
        && keys.is_none_or(Vec::is_empty)
    {
        let why = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(path.field("x-kubernetes-list-map-keys").to_string(), why));
    }
    check_branches(schema, path, errors);
    let properties = path.field("properties");
    for (name, child) in object("properties").and_then(Value::as_object).into_iter().flatten() {
        check(child, &properties.key(name), errors);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(child) = object(name) {
            check(child, &path.field(name), errors);
        }
    }
}

fn check_branches(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    // An integer or text may say so in the branches of `anyOf`.
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return;
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let below = path.field(name);
        for (index, branch) in schema.get(name).and_then(Value::as_array).into_iter().flatten().enumerate() {
            check_branch(branch, &below.index(index), errors);
        }
    }
    if let Some(branch) = schema.get("not") {
        check_branch(branch, &path.field("not"), errors);
    }
}

fn check_branch(branch: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for keyword in NOT_IN_BRANCHES.iter().filter(|k| branch.get(**k).is_some_and(|v| !v.is_null())) {
        errors.push(FieldError::forbidden(path.field(keyword).to_string(), "must be empty to be structural"));
    }
    let properties = path.field("properties");
    for (name, child) in branch.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check_branch(child, &properties.key(name), errors);
    }
}
