//! Errors of the API: a code, a reason and the `Status` body that carries them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::field::FieldError;

/// What the server answers instead of a result.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub code: u16,
    pub reason: String,
    pub message: String,
    pub details: Map<String, Value>,
}

/// The group and plural that an error names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub group: &'a str,
    pub plural: &'a str,
    pub kind: &'a str,
}

impl Subject<'_> {
    fn resource(&self) -> String {
        qualified(self.plural, self.group)
    }

    fn details(&self, name: &str) -> Map<String, Value> {
        let mut details = Map::new();
        if !name.is_empty() {
            details.insert("name".into(), name.into());
        }
        if !self.group.is_empty() {
            details.insert("group".into(), self.group.into());
        }
        details.insert("kind".into(), self.plural.into());
        details
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

impl ApiError {
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self { code, reason: reason.to_owned(), message: message.into(), details: Map::new() }
    }

    fn with_details(mut self, details: Map<String, Value>) -> Self {
        self.details = details;
        self
    }

    pub fn cause(mut self, reason: &str, field: &str, message: impl Into<String>) -> Self {
        let mut cause = json!({ "reason": reason, "message": message.into() });
        if !field.is_empty() {
            cause["field"] = field.into();
        }
        let causes = self.details.entry("causes").or_insert_with(|| json!([]));
        if let Value::Array(causes) = causes {
            causes.push(cause);
        }
        self
    }

    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.insert("retryAfterSeconds".into(), seconds.into());
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn not_found(subject: Subject<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", subject.resource()))
            .with_details(subject.details(name))
    }

    pub fn unknown_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    pub fn not_acceptable() -> Self {
        Self::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json, application/yaml",
        )
    }

    pub fn already_exists(subject: Subject<'_>, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", subject.resource()))
            .with_details(subject.details(name))
    }

    pub fn conflict(subject: Subject<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", subject.resource());
        Self::new(409, "Conflict", message).with_details(subject.details(name))
    }

    pub fn modified(subject: Subject<'_>, name: &str) -> Self {
        Self::conflict(
            subject,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub fn too_large() -> Self {
        Self::new(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
    }

    pub fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
    }

    pub fn forbidden(subject: Subject<'_>, name: &str, why: &str) -> Self {
        Self::new(403, "Forbidden", format!("{} \"{name}\" is forbidden: {why}", subject.resource()))
            .with_details(subject.details(name))
    }

    pub fn unprocessable_patch(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", "the server rejected our request due to an error in our request").cause(
            "UnexpectedServerResponse",
            "",
            message,
        )
    }

    /// 422 with one cause per field; equal messages are named once, as the real server does.
    pub fn invalid(subject: Subject<'_>, name: &str, errors: &[FieldError]) -> Self {
        let mut said = BTreeSet::new();
        let messages = errors.iter().map(FieldError::message);
        let messages: Vec<String> = messages.filter(|message| said.insert(message.clone())).collect();
        let text = match messages.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let kind = qualified(subject.kind, subject.group);
        let mut details = subject.details(name);
        details.insert("kind".into(), subject.kind.into());
        let causes: Vec<Value> = errors
            .iter()
            .map(|e| json!({ "reason": e.reason, "message": e.body, "field": e.field }))
            .collect();
        details.insert("causes".into(), causes.into());
        Self::new(422, "Invalid", format!("{kind} \"{name}\" is invalid: {text}")).with_details(details)
    }

    /// 422 for options of a request, such as `ListOptions`.
    pub fn invalid_options(kind: &str, errors: &[FieldError]) -> Self {
        Self::invalid(Subject { group: "meta.k8s.io", plural: "", kind }, "", errors)
    }

    /// 422 for what a patch leads to but can't be read as an object; `why` says what is wrong.
    pub fn invalid_patch(patched: &Value, why: &str) -> Self {
        let error = FieldError::invalid_str("patch", &patched.to_string(), why);
        Self::invalid(Subject { group: "", plural: "", kind: "" }, "", &[error])
    }

    /// The `Status` object of this error.
    pub fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.as_str().into();
        }
        if !self.details.is_empty() {
            status["details"] = Value::Object(self.details.clone());
        }
        status
    }

    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds").and_then(Value::as_u64)
    }
}
