//! Delete and delete collection.

use serde_json::{Value, json};

use super::{Failure, Outcome, Target, filter::Filter};
use crate::{
    field::FieldError,
    meta::Json,
    resource::Builtin,
    server::Inner,
    status::ApiError,
    store::{
        State, gc,
        object::{Key, Object},
    },
};

/// How a deletion treats dependents, and what must hold for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub dry_run: bool,
    policy: Option<Policy>,
    uid: Option<String>,
    resource_version: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Background,
    Foreground,
    Orphan,
}

impl DeleteOptions {
    /// Reads the options from the body and, where it has none, from the query.
    pub fn read(body: &Json, query: &dyn Fn(&str) -> Option<String>) -> Result<Self, ApiError> {
        let text =
            |field: &str| body.get(field).and_then(Value::as_str).map(str::to_owned).or_else(|| query(field));
        let orphan = body.get("orphanDependents").and_then(Value::as_bool);
        if let (Some(policy), Some(_)) = (text("propagationPolicy"), orphan) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            let error = FieldError::invalid_str("propagationPolicy", &policy, why);
            return Err(ApiError::invalid_options("DeleteOptions", &[error]));
        }
        let policy = match text("propagationPolicy").as_deref() {
            Some("Background") => Some(Policy::Background),
            Some("Foreground") => Some(Policy::Foreground),
            Some("Orphan") => Some(Policy::Orphan),
            None | Some("") => match orphan {
                Some(true) => Some(Policy::Orphan),
                Some(false) => Some(Policy::Background),
                None => None,
            },
            Some(other) => {
                return Err(ApiError::new(
                    422,
                    "Invalid",
                    format!(
                        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"{other}\": \
                         supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
                    ),
                ));
            }
        };
        let precondition = |field: &str| {
            body.get("preconditions").and_then(|p| p.get(field)).and_then(Value::as_str).map(str::to_owned)
        };
        let dry_run = body.get("dryRun").and_then(Value::as_array).is_some_and(|l| !l.is_empty())
            || query("dryRun").is_some_and(|d| d == "All");
        Ok(Self {
            dry_run,
            policy,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
        })
    }

    fn finalizer(&self) -> Option<&'static str> {
        match self.policy {
            Some(Policy::Foreground) => Some(gc::FOREGROUND),
            Some(Policy::Orphan) => Some(gc::ORPHAN),
            Some(Policy::Background) | None => None,
        }
    }

    fn check(&self, target: &Target, object: &Object) -> Result<(), ApiError> {
        let subject = target.resource.subject();
        if let Some(uid) = &self.uid
            && **uid != *object.uid
        {
            let why = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
                 deleted and then recreated",
                object.uid
            );
            return Err(ApiError::conflict(subject, &object.key.name, &why));
        }
        if let Some(version) = &self.resource_version
            && *version != object.revision.to_string()
        {
            let why = format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). \
                 The object might have been modified",
                object.revision
            );
            return Err(ApiError::conflict(subject, &object.key.name, &why));
        }
        Ok(())
    }
}

/// Deletes one object.
pub(crate) fn delete(inner: &Inner, target: &Target, options: &DeleteOptions) -> Result<Outcome, Failure> {
    inner.with(|state| {
        if state.fenced.contains(&target.info.actor) {
            return Err(Failure::Fenced);
        }
        let key = Key::new(&target.namespace, &target.name);
        let outcome = delete_key(inner, state, target, &key, options)?;
        state.settle(inner.now());
        Ok(outcome)
    })
}

fn delete_key(
    inner: &Inner,
    state: &mut State,
    target: &Target,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Outcome, ApiError> {
    let resource = &target.resource;
    let not_found = || ApiError::not_found(resource.subject(), &key.name);
    let object = state.get(resource.table, key).ok_or_else(not_found)?.clone();
    options.check(target, &object)?;
    if resource.builtin == Some(Builtin::Namespace) && matches!(&*key.name, "default" | "kube-system") {
        let why = "this namespace may not be deleted";
        return Err(ApiError::forbidden(resource.subject(), &key.name, why));
    }
    if options.dry_run {
        return Ok(Outcome::Value(200, success(target, &object)));
    }
    let (left, gone) = state.delete(resource, key, options.finalizer(), inner.now()).ok_or_else(not_found)?;
    if gone {
        Ok(Outcome::Value(200, success(target, &left)))
    } else {
        Ok(Outcome::one(200, left, Vec::new()))
    }
}

fn success(target: &Target, object: &Object) -> Value {
    let mut details = json!({
        "name": &*object.key.name, "kind": &*target.resource.plural, "uid": &*object.uid,
    });
    if !target.resource.group.is_empty() {
        details["group"] = Value::from(&*target.resource.group);
    }
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}

/// Deletes every object that fits; answers them as they were.
pub(crate) fn delete_collection(
    inner: &Inner,
    target: &Target,
    filter: &Filter,
    options: &DeleteOptions,
) -> Result<Outcome, Failure> {
    inner.with(|state| {
        if state.fenced.contains(&target.info.actor) {
            return Err(Failure::Fenced);
        }
        let objects: Vec<_> = state
            .tables
            .get(&target.resource.table)
            .into_iter()
            .flat_map(|t| t.range(&filter.namespace, None))
            .filter(|o| filter.matches(o))
            .cloned()
            .collect();
        for object in &objects {
            match delete_key(inner, state, target, &object.key, options) {
                Err(error) if error.code != 404 => return Err(error.into()),
                _ => {}
            }
        }
        state.settle(inner.now());
        Ok(Outcome::Many { objects, revision: state.revision, continues: None, remaining: None })
    })
}
