//! What the real server checks of the content of built-in kinds.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::Value;

use crate::{
    field::FieldError,
    meta::{self, Json},
    names,
    resource::{Builtin, Resource},
    schema::Violations,
};

/// The most bytes of data in a ConfigMap or Secret.
const MAX_DATA: usize = 1024 * 1024;

/// Checks an object that is to be stored; `old` is the one that it replaces.
pub(super) fn check(resource: &Resource, object: &Json, old: Option<&Json>, errors: &mut Violations) {
    match resource.builtin {
        Some(Builtin::Secret) => {
            check_data(&["data"], "data", object, old, errors);
            check_secret_type(object, errors);
            if let Some(old) = old
                && old.get("type") != object.get("type")
            {
                let found = object.get("type").cloned().unwrap_or_default();
                errors.push(FieldError::invalid("type", &found, "field is immutable"));
            }
        }
        Some(Builtin::ConfigMap) => check_data(&["data", "binaryData"], "[]", object, old, errors),
        Some(Builtin::Lease) => check_lease(object, errors),
        Some(Builtin::Event) => check_event(object, errors),
        Some(Builtin::EventV1) => {
            check_event(object, errors);
            if old.is_none() {
                check_new_event(object, errors);
            }
        }
        _ => {}
    }
}

fn check_data(fields: &[&str], whole: &str, object: &Json, old: Option<&Json>, errors: &mut Violations) {
    let mut size = 0;
    for field in fields {
        for (key, value) in object.get(*field).and_then(Value::as_object).into_iter().flatten() {
            let length = value.as_str().unwrap_or_default().len();
            let is_text = *field == "data" && fields.len() > 1;
            size += if is_text { length } else { length / 4 * 3 };
            let fits = !key.is_empty()
                && key.len() <= 253
                && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
            if !fits {
                errors.push(FieldError::invalid_str(
                    format!("{field}[{key}]"),
                    key,
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                     'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
                ));
            }
        }
    }
    if size > MAX_DATA {
        errors.push(FieldError::too_long(whole, MAX_DATA as u64));
    }
    let Some(old) = old.filter(|o| o.get("immutable").and_then(Value::as_bool) == Some(true)) else {
        return;
    };
    for field in fields.iter().chain(&["immutable"]) {
        if old.get(*field) != object.get(*field) {
            errors.push(FieldError::forbidden(*field, "field is immutable when `immutable` is set"));
        }
    }
}

fn check_secret_type(secret: &Json, errors: &mut Violations) {
    let (needed, all): (&[&str], bool) = match secret.get("type").and_then(Value::as_str) {
        Some("kubernetes.io/dockerconfigjson") => (&[".dockerconfigjson"], true),
        Some("kubernetes.io/dockercfg") => (&[".dockercfg"], true),
        Some("kubernetes.io/ssh-auth") => (&["ssh-privatekey"], true),
        Some("kubernetes.io/tls") => (&["tls.crt", "tls.key"], true),
        Some("kubernetes.io/basic-auth") => (&["username", "password"], false),
        _ => return,
    };
    let value = |key: &str| secret.get("data").and_then(|d| d.get(key)).and_then(Value::as_str);
    let missing: Vec<&&str> = needed.iter().filter(|key| value(key).is_none()).collect();
    if !missing.is_empty() && (all || missing.len() == needed.len()) {
        errors.extend(missing.iter().map(|key| FieldError::required(format!("data[{key}]"), "")));
    }
    for key in needed.iter().filter(|key| key.starts_with(".docker")) {
        let is_json = |text: &str| {
            BASE64
                .decode(text)
                .is_ok_and(|bytes| serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok())
        };
        if value(key).is_some_and(|text| !is_json(text)) {
            let field = format!("data[{key}]");
            errors.push(FieldError::invalid_str(field, "<secret contents redacted>", "invalid character"));
        }
    }
}

fn check_lease(lease: &Json, errors: &mut Violations) {
    let number = |field: &str| lease.get("spec").and_then(|s| s.get(field)).and_then(Value::as_i64);
    if let Some(seconds) = number("leaseDurationSeconds").filter(|n| *n <= 0) {
        let field = "spec.leaseDurationSeconds";
        errors.push(FieldError::invalid(field, &seconds.into(), "must be greater than 0"));
    }
    if let Some(count) = number("leaseTransitions").filter(|n| *n < 0) {
        let field = "spec.leaseTransitions";
        errors.push(FieldError::invalid(field, &count.into(), "must be greater than or equal to 0"));
    }
}

/// Checks an event in its stored form, which is that of the core group.
fn check_event(event: &Json, errors: &mut Violations) {
    let about = event.get("involvedObject").and_then(|o| o.get("namespace"));
    let about = about.and_then(Value::as_str).unwrap_or_default();
    let namespace = meta::text(event, "namespace");
    // An event about a cluster-wide object is in the default namespace.
    let fits =
        if about.is_empty() { matches!(namespace, "default" | "kube-system") } else { about == namespace };
    if !fits {
        let field = "involvedObject.namespace";
        errors.push(FieldError::invalid_str(field, about, "does not match event.namespace"));
    }
}

/// What an event must say that is created through `events.k8s.io`.
fn check_new_event(event: &Json, errors: &mut Violations) {
    let text = |field: &str| event.get(field).and_then(Value::as_str).unwrap_or_default();
    for (field, stored) in [
        ("reportingController", "reportingComponent"),
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ] {
        if text(stored).is_empty() {
            errors.push(FieldError::required(field, ""));
        }
    }
    if let Some(why) = names::check_qualified(text("reportingComponent")) {
        errors.push(FieldError::invalid_str("reportingController", text("reportingComponent"), &why));
    }
}
