//! What every write goes through: identity, metadata, defaults, pruning, schema and rules.

use std::sync::{Arc, LazyLock};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};

use super::{FieldValidation, Received, Target, WriteOptions, builtin};
use crate::{
    convert,
    field::{FieldError, Path},
    meta::{self, Json},
    names,
    resource::{Builtin, Resource},
    schema::{Schema, Violations, unchanged},
    status::{ApiError, Subject},
    store::gc,
};

/// The shape of `metadata`, which is the same for all kinds.
static METADATA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let text = json!({ "type": "string" });
    let map = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    Schema::builtin(&json!({ "type": "object", "properties": {
        "name": text, "generateName": text, "namespace": text, "uid": text, "resourceVersion": text,
        "selfLink": text, "creationTimestamp": text, "deletionTimestamp": text,
        "generation": { "type": "integer" }, "deletionGracePeriodSeconds": { "type": "integer" },
        "labels": map, "annotations": map,
        "finalizers": { "type": "array", "items": text },
        "managedFields": { "type": "array", "items": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        } },
        "ownerReferences": { "type": "array", "items": { "type": "object", "properties": {
            "apiVersion": text, "kind": text, "name": text, "uid": text,
            "controller": { "type": "boolean" }, "blockOwnerDeletion": { "type": "boolean" },
        } } },
    } }))
});

/// Checks that an object is of the kind and place that the request names, brings it into its stored form and drops what
/// its schema does not know.
pub(crate) fn receive(
    target: &Target,
    mut object: Json,
    options: &WriteOptions,
) -> Result<Received, ApiError> {
    check_depth(&object)?;
    check_identity(target, &object)?;
    let mut dropped = Vec::new();
    prune_metadata(&mut object, &mut dropped)?;
    if let Some(version) = target.version() {
        version.schema.prune_object(&mut object, true, &Path::ROOT, &mut dropped);
    }
    if target.resource.builtin.is_some() {
        check_types(target, &object, options)?;
    }
    let warnings = report(target, &object, &dropped, options)?;
    let mut object = convert::to_storage(&target.resource, object);
    if target.resource.namespaced && meta::text(&object, "namespace").is_empty() {
        meta::metadata_mut(&mut object).insert("namespace".into(), Value::from(&*target.namespace));
    }
    Ok(Received { object, warnings })
}

/// The most bytes of an object, which the real server's store sets.
const MAX_SIZE: usize = 1024 * 1024 * 3 / 2;

/// Whether an object can be read back. One that comes over HTTP was read already, so it can.
fn check_depth(object: &Json) -> Result<(), ApiError> {
    let deep = object.values().any(|value| meta::is_deeper(value, meta::MAX_DEPTH - 1));
    if !deep {
        return Ok(());
    }
    let why = format!("the object nests deeper than {} objects and lists", meta::MAX_DEPTH);
    Err(ApiError::bad_request(why))
}

/// Whether an object has a size that can be stored.
pub(crate) fn check_size(object: &Json) -> Result<(), ApiError> {
    // The words of the real server's store, which come without a reason.
    if meta::json_size(object) > MAX_SIZE {
        return Err(ApiError::new(500, "", "etcdserver: request is too large"));
    }
    Ok(())
}

pub(crate) fn check_identity(target: &Target, object: &Json) -> Result<(), ApiError> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let wanted = target.resource.api_version(target.version);
    let (version, kind) = (text("apiVersion"), text("kind"));
    if !version.is_empty() && version != wanted {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({wanted})"
        )));
    }
    if target.resource.builtin.is_none() {
        check_custom_identity(target, object)?;
    }
    if !kind.is_empty() && *kind != *target.resource.kind {
        return Err(ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {}: the kind in the data does not match the expected \
             kind",
            target.resource.kind
        )));
    }
    let namespace = meta::text(object, "namespace");
    if !namespace.is_empty() && target.resource.namespaced && *namespace != *target.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Built-in kinds are decoded into types: a value of a wrong type is no object at all.
fn check_types(target: &Target, object: &Json, options: &WriteOptions) -> Result<(), ApiError> {
    let Some(version) = target.version() else { return Ok(()) };
    let mut errors = Vec::new();
    for (name, schema) in &version.schema.properties {
        if let Some(value) = object.get(name).filter(|v| !v.is_null()) {
            schema.validate(value, &Path::ROOT.field(name), &mut errors);
        }
    }
    let Some(error) = errors.first() else { return Ok(()) };
    if options.patch {
        return Err(ApiError::invalid_patch(&Value::Object(object.clone()), &error.message()));
    }
    Err(ApiError::bad_request(format!(
        "{kind} in version \"{}\" cannot be handled as a {kind}: {}",
        version.name,
        error.message(),
        kind = target.resource.kind,
    )))
}

/// Custom objects must say what they are.
fn check_custom_identity(target: &Target, object: &Json) -> Result<(), ApiError> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    for (field, name) in [("kind", "Kind"), ("apiVersion", "apiVersion")] {
        if text(field).is_empty() {
            let shown = Value::Object(object.clone());
            return Err(ApiError::bad_request(format!("Object '{name}' is missing in '{shown}'")));
        }
    }
    let kind = text("kind");
    if *kind == *target.resource.kind {
        return Ok(());
    }
    let must = format!("must be {}", target.resource.kind);
    let subject = Subject { kind, ..target.resource.subject() };
    Err(ApiError::invalid(
        subject,
        meta::text(object, "name"),
        &[FieldError::invalid_str("kind", kind, &must)],
    ))
}

fn prune_metadata(object: &mut Json, dropped: &mut Vec<String>) -> Result<(), ApiError> {
    let Some(metadata) = object.get_mut("metadata") else {
        return Ok(());
    };
    let path = Path::ROOT.field("metadata");
    if let Value::Object(map) = metadata {
        // Clients write `creationTimestamp: null` for a time that they have not set.
        map.retain(|_, v| !v.is_null());
    }
    METADATA.prune(metadata, false, &path, dropped);
    let mut errors = Vec::new();
    METADATA.validate(metadata, &path, &mut errors);
    match errors.first() {
        None => Ok(()),
        Some(error) => {
            Err(ApiError::bad_request(format!("the object provided is unrecognized: {}", error.message())))
        }
    }
}

/// The most bytes of the warnings of one answer, as in the real server.
const MAX_WARNINGS: usize = 4 * 1024;

/// The first of some texts that are not longer than so many bytes.
fn within(bytes: usize, texts: Vec<String>) -> Vec<String> {
    let mut left = bytes;
    let fits = |text: &String| {
        let rest = left.checked_sub(text.len());
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    texts.into_iter().take_while(fits).collect()
}

fn report(
    target: &Target,
    object: &Json,
    dropped: &[String],
    options: &WriteOptions,
) -> Result<Vec<String>, ApiError> {
    let unknown = dropped.iter().map(|f| format!("unknown field \"{f}\""));
    let warnings: Vec<String> = options.repeated.iter().cloned().chain(unknown).collect();
    match options.fields {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(within(MAX_WARNINGS, warnings)),
        FieldValidation::Strict if warnings.is_empty() => Ok(warnings),
        FieldValidation::Strict if options.patch => Err(ApiError::invalid_patch(
            &Value::Object(object.clone()),
            &format!("strict decoding error: {}", warnings.join(", ")),
        )),
        FieldValidation::Strict => Err(ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {}",
            warnings.join(", "),
            kind = target.resource.kind,
            version = target.version().map_or("", |v| &v.name),
        ))),
    }
}

/// Fills in defaults and checks schema and rules; `old` is the stored object that this one replaces.
pub(crate) fn check_content(
    target: &Target,
    object: &mut Json,
    old: Option<&Value>,
    errors: &mut Violations,
) {
    let Some(version) = target.version() else {
        return;
    };
    let schema = &version.schema;
    let builtin = target.resource.builtin.is_some();
    let mut value = Value::Object(std::mem::take(object));
    schema.apply_defaults(&mut value);
    let mut found = Vec::new();
    // The types of built-in kinds were checked on arrival.
    if !builtin {
        check_custom(schema, &value, old, &mut found);
    }
    if let Value::Object(map) = value {
        *object = map;
    }
    if builtin {
        builtin::check(&target.resource, object, old.and_then(Value::as_object), &mut found);
    }
    errors.append(&mut found);
}

fn check_custom(schema: &Schema, value: &Value, old: Option<&Value>, errors: &mut Violations) {
    match old {
        None => schema.validate(value, &Path::ROOT, errors),
        Some(old) => {
            schema.validate(value, &Path::ROOT, errors);
            if !errors.is_empty() {
                errors.clear();
                schema.validate_update(value, old, errors);
            }
        }
    }
    if errors.iter().any(|e| e.blocks_rules) {
        if schema.has_rules() {
            errors.push(FieldError::invalid(
                "<nil>",
                &Value::Null,
                "some validation rules were not checked because the object was invalid; correct the existing errors to \
                 complete validation",
            ));
        }
    } else {
        let mut broken = Vec::new();
        schema.check_rules(value, old, &Path::ROOT, &mut broken);
        if let Some(old) = old {
            broken.retain(|e| !unchanged(value, old, &e.field));
        }
        errors.append(&mut broken);
    }
}

/// What the real server checks of the metadata of any object.
pub(crate) fn check_metadata(resource: &Resource, object: &Json, errors: &mut Violations) {
    let name = meta::text(object, "name");
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else if let Some(why) = check_name(resource, name) {
        errors.push(FieldError::invalid_str("metadata.name", name, &why));
    }
    let Some(metadata) = meta::metadata(object) else {
        return;
    };
    let map = |field: &str| metadata.get(field).and_then(Value::as_object).into_iter().flatten();
    for (key, value) in map("labels") {
        let value = value.as_str().unwrap_or_default();
        if let Some(why) = names::check_qualified(key) {
            errors.push(FieldError::invalid_str("metadata.labels", key, &why));
        }
        if let Some(why) = names::check_label_value(value) {
            errors.push(FieldError::invalid_str("metadata.labels", value, &why));
        }
    }
    let mut size = 0;
    for (key, value) in map("annotations") {
        size += key.len() + value.as_str().unwrap_or_default().len();
        if let Some(why) = names::check_qualified(&key.to_lowercase()) {
            errors.push(FieldError::invalid_str("metadata.annotations", key, &why));
        }
    }
    if size > 256 * 1024 {
        errors.push(FieldError::too_long("metadata.annotations", 256 * 1024));
    }
    for (index, finalizer) in meta::finalizers(object).into_iter().enumerate() {
        if let Some(why) = names::check_qualified(finalizer) {
            errors.push(FieldError::invalid_str("metadata.finalizers", finalizer, &why));
        } else if resource.builtin.is_some() && !finalizer.contains('/') && !STANDARD.contains(&finalizer) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            let field = format!("metadata.finalizers[{index}]");
            errors.push(FieldError::invalid_str(field, finalizer, why));
        }
    }
    check_owners(object, errors);
}

/// The finalizers of built-in kinds that have no domain before them.
const STANDARD: [&str; 4] = ["kubernetes", gc::FOREGROUND, gc::ORPHAN, gc::CRD_CLEANUP];

fn check_name(resource: &Resource, name: &str) -> Option<String> {
    match resource.builtin {
        Some(Builtin::Namespace) => names::check_label(name),
        _ => names::check_subdomain(name),
    }
}

fn check_owners(object: &Json, errors: &mut Violations) {
    for (index, owner) in meta::owners(object).enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
                let path = format!("metadata.ownerReferences[{index}].{field}");
                errors.push(FieldError::required(path, &format!("{field} must not be empty")));
            }
        }
    }
    let is_controller = |o: &&Json| o.get("controller").and_then(Value::as_bool) == Some(true);
    if meta::owners(object).filter(is_controller).count() > 1 {
        errors.push(FieldError::invalid_str(
            "metadata.ownerReferences",
            "",
            "Only one reference can have Controller set to true",
        ));
    }
}

/// What the real server fills in by kind.
pub(crate) fn set_builtin_defaults(
    resource: &Resource,
    object: &mut Json,
    creating: bool,
    now: jiff::Timestamp,
) {
    match resource.builtin {
        Some(Builtin::Namespace) => {
            let name = Value::from(meta::text(object, "name"));
            let labels = meta::metadata_mut(object).entry("labels").or_insert_with(|| json!({}));
            labels["kubernetes.io/metadata.name"] = name;
            if creating {
                object.insert("spec".into(), json!({ "finalizers": ["kubernetes"] }));
                object.insert("status".into(), json!({ "phase": "Active" }));
            }
        }
        Some(Builtin::Secret) => {
            object.entry("type").or_insert_with(|| "Opaque".into());
            merge_string_data(object);
        }
        Some(Builtin::Crd) => {
            crate::crd::set_defaults(object, now);
            if creating {
                meta::add_finalizer(object, gc::CRD_CLEANUP);
            }
        }
        _ => {}
    }
}

fn merge_string_data(secret: &mut Json) {
    let Some(Value::Object(plain)) = secret.remove("stringData") else {
        return;
    };
    let data = secret.entry("data").or_insert_with(|| json!({}));
    for (key, value) in plain {
        if let Some(text) = value.as_str() {
            data[key] = BASE64.encode(text).into();
        }
    }
}
