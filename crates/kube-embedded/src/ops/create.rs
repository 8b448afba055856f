//! Create.

use std::sync::Arc;

use serde_json::Value;

use super::{Failure, Outcome, Received, Target, WriteOptions, admit};
use crate::{
    clock, crd,
    field::FieldError,
    meta::{self, Json},
    resource::{Builtin, Resource},
    server::Inner,
    status::ApiError,
    store::{
        State,
        object::{Key, Object},
    },
};

/// How often a generated name that is taken is drawn again.
const DRAWS: usize = 8;

/// Creates an object.
pub(crate) fn create(
    inner: &Inner,
    target: &Target,
    body: Json,
    options: &WriteOptions,
) -> Result<Outcome, Failure> {
    let resource = &target.resource;
    let Received { mut object, warnings } = admit::receive(target, body, options)?;
    let name = meta::text(&object, "name").to_owned();
    if !meta::text(&object, "resourceVersion").is_empty() {
        return Err(
            ApiError::new(500, "", "resourceVersion should not be set on objects to be created").into()
        );
    }
    inner.with(|state| state.check_namespace(resource, &target.namespace, &name))?;
    prepare(inner, target, &mut object);
    let prefix = meta::text(&object, "generateName").to_owned();
    let drawn = name.is_empty() && !prefix.is_empty();
    if drawn {
        let suffix = inner.with(State::new_suffix);
        set_name(&mut object, &prefix, &suffix);
    }
    let definition = check(target, &mut object)?;
    if !options.dry_run {
        admit::check_size(&object)?;
    }
    let stored = inner.with(|state| {
        for _ in 0..DRAWS {
            match commit(inner, state, target, &mut object, options) {
                Err(Failure::Api(error)) if drawn && error.reason == "AlreadyExists" => {
                    let suffix = state.new_suffix();
                    set_name(&mut object, &prefix, &suffix);
                }
                Ok(stored) => {
                    if let Some(definition) = definition
                        && !options.dry_run
                    {
                        state.define(definition);
                    }
                    return Ok(stored);
                }
                other => return other,
            }
        }
        Err(ApiError::already_exists(resource.subject(), meta::text(&object, "name")).into())
    })?;
    Ok(Outcome::one(201, stored, warnings))
}

/// Defaults, schema and rules; answers the definition when the object is a CRD.
fn check(target: &Target, object: &mut Json) -> Result<Option<Resource>, ApiError> {
    let mut errors: Vec<FieldError> = Vec::new();
    admit::check_metadata(&target.resource, object, &mut errors);
    let definition = if target.resource.builtin == Some(Builtin::Crd) {
        crd::establish(object, None, &mut errors)
    } else {
        admit::check_content(target, object, None, &mut errors);
        None
    };
    if errors.is_empty() {
        return Ok(definition);
    }
    let name = meta::text(object, "name");
    Err(ApiError::invalid(target.resource.subject(), name, &errors))
}

fn prepare(inner: &Inner, target: &Target, object: &mut Json) {
    let resource = &target.resource;
    if target.has_status() {
        object.remove("status");
    }
    let uid = inner.with(State::new_uid);
    let meta = meta::metadata_mut(object);
    for field in
        ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields", "generation"]
    {
        meta.remove(field);
    }
    meta.insert("uid".into(), uid.into());
    meta.insert("creationTimestamp".into(), clock::seconds(inner.now()).into());
    if resource.has_generation() {
        meta.insert("generation".into(), 1.into());
    }
    if resource.namespaced {
        meta.insert("namespace".into(), Value::from(&*target.namespace));
    } else {
        meta.remove("namespace");
    }
    admit::set_builtin_defaults(resource, object, true, inner.now());
}

fn set_name(object: &mut Json, prefix: &str, suffix: &str) {
    // The real server cuts the prefix so that the whole fits 63 characters.
    let mut end = prefix.len().min(58);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let name = format!("{}{suffix}", &prefix[..end]);
    meta::metadata_mut(object).insert("name".into(), name.into());
}

fn commit(
    inner: &Inner,
    state: &mut State,
    target: &Target,
    object: &mut Json,
    options: &WriteOptions,
) -> Result<Arc<Object>, Failure> {
    let resource = &target.resource;
    let name = meta::text(object, "name");
    if state.fenced.contains(&target.info.actor) {
        return Err(Failure::Fenced);
    }
    state.check_namespace(resource, &target.namespace, name)?;
    if state.is_retiring(resource) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(ApiError::forbidden(resource.subject(), name, why).into());
    }
    let key = Key::new(&target.namespace, name);
    if state.get(resource.table, &key).is_some() {
        return Err(ApiError::already_exists(resource.subject(), name).into());
    }
    if options.dry_run {
        return Ok(Arc::new(Object::unstored(resource, std::mem::take(object))));
    }
    let stored = state.put(resource, std::mem::take(object));
    state.settle(inner.now());
    Ok(stored)
}
