//! What makes a schema structural, beyond the types of its fields.

use serde_json::Value;

use super::text_list;
use crate::field::{FieldError, Path};

/// Keywords of JSON Schema that no schema of a CRD may hold.
const NOT_SUPPORTED: [&str; 6] =
    ["$ref", "additionalItems", "definitions", "dependencies", "id", "patternProperties"];

/// What may not stand in the branches of `allOf` and the like, and what it must be there.
const NOT_IN_BRANCHES: [(&str, &str); 12] = [
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("description", "empty"),
    ("nullable", "false"),
    ("title", "empty"),
    ("type", "empty"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
];

/// Keywords with several branches.
const BRANCHES: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Checks a whole schema.
pub(super) fn check(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    check_node(schema, path, errors);
    // The real server looks for the fields of branches at the root only.
    each_branch(schema, path, &mut |branch, at| check_complete(branch, schema, path, at, errors));
    let metadata = schema.pointer("/properties/metadata/properties").and_then(Value::as_object);
    if metadata.into_iter().flatten().any(|(name, _)| !matches!(name.as_str(), "name" | "generateName")) {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        let field = path.field("properties").key("metadata").to_string();
        errors.push(FieldError::forbidden(field, why));
    }
}

fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// Shows the branches of a node.
fn each_branch(schema: &Value, path: &Path<'_>, show: &mut dyn FnMut(&Value, &Path<'_>)) {
    for name in BRANCHES {
        let below = path.field(name);
        for (index, branch) in schema.get(name).and_then(Value::as_array).into_iter().flatten().enumerate() {
            show(branch, &below.index(index));
        }
    }
    if let Some(branch) = schema.get("not") {
        show(branch, &path.field("not"));
    }
}

/// Checks a node and all below it.
fn check_node(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let object = |name: &str| schema.get(name).filter(|v| v.is_object());
    check_keywords(schema, path, errors);
    if schema.get("type").and_then(Value::as_str) == Some("array") && schema.get("items").is_none() {
        errors.push(FieldError::required(path.field("items").to_string(), "must be specified"));
    }
    if object("properties").is_some() && object("additionalProperties").is_some() {
        let why = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(path.field("additionalProperties").to_string(), why));
    }
    check_list(schema, path, errors);
    // An integer or text may say so in the branches of `anyOf`.
    if schema.get("x-kubernetes-int-or-string") != Some(&Value::Bool(true)) {
        each_branch(schema, path, &mut |branch, at| check_branch(branch, at, errors));
    }
    let properties = path.field("properties");
    for (name, child) in fields(schema) {
        check_node(child, &properties.key(name), errors);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(child) = object(name) {
            check_node(child, &path.field(name), errors);
        }
    }
}

fn check_keywords(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for keyword in NOT_SUPPORTED.iter().filter(|k| schema.get(**k).is_some_and(|v| !v.is_null())) {
        let why = format!("{keyword} is not supported");
        errors.push(FieldError::forbidden(path.field(keyword).to_string(), &why));
    }
    if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(path.field("uniqueItems").to_string(), why));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        let why = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(path.field("items").to_string(), why));
    }
}

/// Checks what tells the entries of a list apart.
fn check_list(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let kind = schema.get("x-kubernetes-list-type").and_then(Value::as_str).unwrap_or_default();
    let items = schema.get("items");
    let of_items = |name: &str| items.and_then(|i| i.get(name));
    match kind {
        "" | "atomic" => {}
        "set" => {
            let nested = matches!(of_items("type").and_then(Value::as_str), Some("object"));
            let map_type = of_items("x-kubernetes-map-type");
            if nested && map_type.and_then(Value::as_str) != Some("atomic") {
                let field = path.field("items").field("x-kubernetes-map-type").to_string();
                let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
                errors.push(FieldError::invalid(field, map_type.unwrap_or(&Value::Null), why));
            }
        }
        "map" => check_map_keys(schema, path, errors),
        other => {
            let supported = ["atomic", "set", "map"].map(Value::from);
            let field = path.field("x-kubernetes-list-type").to_string();
            errors.push(FieldError::not_supported(field, &other.into(), &supported));
        }
    }
}

fn check_map_keys(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let keys = text_list(schema.get("x-kubernetes-list-map-keys"));
    let field = path.field("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(field.to_string(), why));
    }
    let of_items = |name: &str| schema.get("items").and_then(|i| i.get(name));
    let required = text_list(of_items("required"));
    let items = path.field("items");
    let properties = items.field("properties");
    for key in &keys {
        let Some(property) = of_items("properties").and_then(|p| p.get(key)) else {
            let all = Value::from(keys.clone());
            let why = "entries must all be names of item properties";
            errors.push(FieldError::invalid(field.to_string(), &all, why));
            return;
        };
        if property.get("default").is_none() && !required.contains(key) {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(properties.key(key).field("default").to_string(), why));
        }
    }
}

fn check_branch(branch: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    check_keywords(branch, path, errors);
    for (keyword, wanted) in NOT_IN_BRANCHES {
        if branch
            .get(keyword)
            .is_some_and(|v| !v.is_null() && *v != Value::Bool(false) || wanted == "undefined")
        {
            let why = format!("must be {wanted} to be structural");
            errors.push(FieldError::forbidden(path.field(keyword).to_string(), &why));
        }
    }
    if branch.get("x-kubernetes-validations").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty())
    {
        let field = path.field("x-kubernetes-validations").to_string();
        errors.push(FieldError::forbidden(field, "must be empty to be structural"));
    }
    each_branch(branch, path, &mut |inner, at| check_branch(inner, at, errors));
    let properties = path.field("properties");
    for (name, child) in fields(branch) {
        check_branch(child, &properties.key(name), errors);
    }
    if let Some(items) = branch.get("items").filter(|items| items.is_object()) {
        check_branch(items, &path.field("items"), errors);
    }
}

/// Checks that the fields of a branch are fields of the schema itself.
fn check_complete(
    branch: &Value,
    schema: &Value,
    path: &Path<'_>,
    at: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let mut missing = |field: String, because: &Path<'_>| {
        errors.push(FieldError::required(field, &format!("because it is defined in {because}")));
    };
    let (own, theirs) = (path.field("properties"), at.field("properties"));
    let mut inner = Vec::new();
    for (name, child) in fields(branch) {
        match schema.get("properties").and_then(|p| p.get(name)) {
            Some(field) => inner.push((child, field, own.key(name), theirs.key(name))),
            None => missing(own.key(name).to_string(), &theirs.key(name)),
        }
    }
    if let Some(items) = branch.get("items").filter(|items| items.is_object()) {
        let (own, theirs) = (path.field("items"), at.field("items"));
        match schema.get("items") {
            Some(field) => inner.push((items, field, own, theirs)),
            None => missing(own.to_string(), &theirs),
        }
    }
    for (branch, schema, path, at) in inner {
        check_complete(branch, schema, &path, &at, errors);
    }
    each_branch(branch, at, &mut |inner, at| check_complete(inner, schema, path, at, errors));
}
