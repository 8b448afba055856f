//! Update and patch.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use super::{Failure, Outcome, Received, Target, WriteOptions, admit};
use crate::{
    convert, crd,
    field::FieldError,
    meta::{self, Json},
    resource::{Builtin, NAMESPACES, Resource},
    server::Inner,
    status::ApiError,
    store::{
        State,
        object::{Key, Object},
    },
};

/// Fields of `metadata` that a client can't change.
const KEPT: [&str; 6] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"];

/// Makes the new object, in the version of the request, out of the old one.
pub(crate) type Make<'a> = &'a dyn Fn(Json) -> Result<Json, ApiError>;

/// Replaces an object by what `make` says; `replace` asks for the resource version that a PUT must carry.
pub(crate) fn update(
    inner: &Inner,
    target: &Target,
    options: &WriteOptions,
    replace: bool,
    make: Make<'_>,
) -> Result<Outcome, Failure> {
    let resource = &target.resource;
    let key = Key::new(&target.namespace, &target.name);
    loop {
        let old = inner
            .with(|state| state.get(resource.table, &key).cloned())
            .ok_or_else(|| ApiError::not_found(resource.subject(), &target.name))?;
        let mut change = Change::prepare(inner, target, options, replace, &old, make)?;
        if let Some(stored) = inner.with(|state| commit(inner, state, target, &old, &mut change, options))? {
            return Ok(Outcome::one(200, stored, change.warnings));
        }
        // Somebody else was faster; what they wrote is the new old.
    }
}

struct Change {
    object: Json,
    same: bool,
    definition: Option<Resource>,
    warnings: Vec<String>,
}

impl Change {
    fn prepare(
        inner: &Inner,
        target: &Target,
        options: &WriteOptions,
        replace: bool,
        old: &Object,
        make: Make<'_>,
    ) -> Result<Self, ApiError> {
        let resource = &target.resource;
        let mut before = old.parse();
        let made = make(convert::to_version(resource, target.version, before.clone()))?;
        let mut errors = Vec::new();
        if !replace {
            check_place(target, &made)?;
        }
        let Received { mut object, warnings } = admit::receive(target, made, options)?;
        check_preconditions(target, &object, old, replace)?;
        keep_system_fields(&mut object, &before, &mut errors);
        if target.status {
            object = with_status(before.clone(), &mut object);
        } else if target.has_status() {
            keep_status(&mut object, &before);
        }
        if let (NAMESPACES, Some(spec)) = (resource.table, before.get("spec")) {
            object.insert("spec".into(), spec.clone());
        }
        admit::set_builtin_defaults(resource, &mut object, false, inner.now());
        admit::check_metadata(resource, &object, &mut errors);
        check_new_finalizers(&object, &before, &mut errors);
        let definition = if resource.builtin == Some(Builtin::Crd) && !target.status {
            crd::establish(&mut object, Some(&before), &mut errors)
        } else {
            // Lent as a value, for the schema speaks of values, and taken back.
            let value = Value::Object(before);
            admit::check_content(target, &mut object, Some(&value), &mut errors);
            before = match value {
                Value::Object(map) => map,
                _ => Json::new(),
            };
            None
        };
        if !errors.is_empty() {
            return Err(ApiError::invalid(resource.subject(), &target.name, &errors));
        }
        if !options.dry_run {
            admit::check_size(&object)?;
        }
        bump_generation(target, &mut object, &before);
        let version = meta::text(&before, "resourceVersion").to_owned();
        meta::metadata_mut(&mut object).insert("resourceVersion".into(), version.into());
        Ok(Self { same: object == before, object, definition, warnings })
    }
}

/// Whether a patch leaves an object where it is.
fn check_place(target: &Target, object: &Json) -> Result<(), ApiError> {
    let name = meta::text(object, "name");
    if *name == *target.name {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({})",
        target.name
    )))
}

/// What a PUT creates of an object that is not there: one that is of a certain object finds none, and the version is
/// nobody's.
pub(crate) fn for_creation(target: &Target, mut object: Json) -> Result<Json, ApiError> {
    let uid = meta::text(&object, "uid");
    if !uid.is_empty() {
        return Err(other_uid(target, uid, ""));
    }
    meta::metadata_mut(&mut object).remove("resourceVersion");
    Ok(object)
}

fn other_uid(target: &Target, wanted: &str, found: &str) -> ApiError {
    let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}");
    ApiError::conflict(target.resource.subject(), &target.name, &why)
}

fn check_preconditions(target: &Target, object: &Json, old: &Object, replace: bool) -> Result<(), ApiError> {
    let subject = target.resource.subject();
    let uid = meta::text(object, "uid");
    if !uid.is_empty() && *uid != *old.uid && !replace {
        let error = FieldError::invalid_str("metadata.uid", uid, "field is immutable");
        return Err(ApiError::invalid(subject, &target.name, &[error]));
    }
    if !uid.is_empty() && *uid != *old.uid {
        return Err(other_uid(target, uid, &old.uid));
    }
    let version = meta::text(object, "resourceVersion");
    if version.is_empty() && replace && !target.resource.allows_unconditional_update() {
        let error = FieldError::invalid(
            "metadata.resourceVersion",
            &Value::from(0),
            "must be specified for an update",
        );
        return Err(ApiError::invalid(subject, &target.name, &[error]));
    }
    if !version.is_empty() && version != old.revision.to_string() {
        return Err(ApiError::modified(subject, &target.name));
    }
    Ok(())
}

fn keep_system_fields(object: &mut Json, before: &Json, errors: &mut Vec<FieldError>) {
    let name = meta::text(object, "name");
    if name != meta::text(before, "name") {
        errors.push(FieldError::invalid_str("metadata.name", name, "field is immutable"));
    }
    let old = meta::metadata(before);
    let mark = meta::text(object, "deletionTimestamp");
    if !mark.is_empty() && mark != meta::text(before, "deletionTimestamp") {
        errors.push(FieldError::invalid_str("metadata.deletionTimestamp", mark, "field is immutable"));
    }
    check_grace(object, before, errors);
    let new = meta::metadata_mut(object);
    for field in KEPT {
        match old.and_then(|m| m.get(field)) {
            Some(value) => new.insert(field.to_owned(), value.clone()),
            None => new.remove(field),
        };
    }
    new.remove("managedFields");
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let empty = match new.get(field) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            _ => false,
        };
        if empty {
            new.remove(field);
        }
    }
}

/// The grace period of a deletion is the server's.
fn check_grace(object: &Json, before: &Json, errors: &mut Vec<FieldError>) {
    let field = "deletionGracePeriodSeconds";
    let of = |object| meta::metadata(object).and_then(|m| m.get(field)).cloned();
    if let Some(grace) = of(object).filter(|grace| Some(grace) != of(before).as_ref()) {
        errors.push(FieldError::invalid(format!("metadata.{field}"), &grace, "field is immutable"));
    }
}

fn with_status(mut before: Json, object: &mut Json) -> Json {
    match object.remove("status") {
        Some(status) => before.insert("status".into(), status),
        None => before.remove("status"),
    };
    before
}

fn keep_status(object: &mut Json, before: &Json) {
    match before.get("status") {
        Some(status) => object.insert("status".into(), status.clone()),
        None => object.remove("status"),
    };
}

fn check_new_finalizers(object: &Json, before: &Json, errors: &mut Vec<FieldError>) {
    if !meta::is_deleting(before) {
        return;
    }
    let old: BTreeSet<&str> = meta::finalizers(before).into_iter().collect();
    let mut new: Vec<&str> = meta::finalizers(object).into_iter().filter(|f| !old.contains(f)).collect();
    if new.is_empty() {
        return;
    }
    new.sort_unstable();
    let quoted: Vec<String> = new.iter().map(|f| Value::from(*f).to_string()).collect();
    errors.push(FieldError::forbidden(
        "metadata.finalizers",
        &format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            quoted.join(", ")
        ),
    ));
}

fn bump_generation(target: &Target, object: &mut Json, before: &Json) {
    if !target.resource.has_generation() || target.status {
        return;
    }
    let counts = |name: &str| name != "metadata" && !(name == "status" && target.has_status());
    let content = |o: &Json| o.keys().filter(|name| counts(name)).count();
    let same =
        object.iter().filter(|(name, _)| counts(name)).all(|(name, value)| before.get(name) == Some(value));
    if !same || content(object) != content(before) {
        let next = meta::generation(before) + 1;
        meta::metadata_mut(object).insert("generation".into(), next.into());
    }
}

/// Stores the change, unless the object is no longer the one that it was made from (`None`).
fn commit(
    inner: &Inner,
    state: &mut State,
    target: &Target,
    old: &Arc<Object>,
    change: &mut Change,
    options: &WriteOptions,
) -> Result<Option<Arc<Object>>, Failure> {
    let resource = &target.resource;
    if state.fenced.contains(&target.info.actor) {
        return Err(Failure::Fenced);
    }
    let current = state.get(resource.table, &old.key);
    if !current.is_some_and(|c| Arc::ptr_eq(c, old)) {
        return Ok(None);
    }
    let ends = old.deleting && meta::finalizers(&change.object).is_empty() && resource.table != NAMESPACES;
    if change.same && !ends {
        return Ok(Some(old.clone()));
    }
    if options.dry_run {
        return Ok(Some(Arc::new(Object::new(resource, std::mem::take(&mut change.object), old.revision))));
    }
    let object = std::mem::take(&mut change.object);
    let stored = if ends {
        state.remove(resource.table, &old.key);
        Arc::new(Object::new(resource, object, state.revision))
    } else {
        let stored = state.put(resource, object);
        if let Some(definition) = &change.definition {
            state.define(definition.clone());
        }
        stored
    };
    state.settle(inner.now());
    Ok(Some(stored))
}
