//! Reviews: what `kubectl auth` asks about the one who asks.
//!
//! There is no authorisation here, so every action is allowed, and everybody is the same user.

use serde_json::{Value, json};

use crate::{field::FieldError, meta::Json, ops::Target, resource::Builtin, status::ApiError};

/// The name of whoever asks, as in [`Server::kubeconfig`](crate::Server::kubeconfig).
const USER: &str = "embedded";

/// Answers a review.
///
/// # Errors
/// 400 for an object of another kind, 422 for an access review that names no action, or two.
pub(crate) fn answer(target: &Target, body: &Json) -> Result<Value, ApiError> {
    crate::ops::admit::check_identity(target, body)?;
    let spec = body.get("spec").cloned().unwrap_or_else(|| json!({}));
    let status = match target.resource.builtin {
        Some(Builtin::AccessReview) => {
            check_access_review(target, &spec)?;
            json!({ "allowed": true, "reason": "the embedded API allows everything" })
        }
        Some(Builtin::RulesReview) => json!({
            "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
            "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
            "incomplete": false,
        }),
        _ => json!({
            "userInfo": { "username": USER, "groups": ["system:masters", "system:authenticated"] },
        }),
    };
    let mut review = json!({
        "kind": &*target.resource.kind, "apiVersion": target.resource.api_version(target.version),
        "metadata": { "creationTimestamp": null }, "status": status,
    });
    if target.resource.builtin != Some(Builtin::UserReview) {
        review["spec"] = spec;
    }
    Ok(review)
}

fn check_access_review(target: &Target, spec: &Value) -> Result<(), ApiError> {
    let named = |field: &str| spec.get(field).is_some_and(|v| !v.is_null());
    if named("resourceAttributes") != named("nonResourceAttributes") {
        return Ok(());
    }
    let error = FieldError::invalid(
        "spec.resourceAttributes",
        spec.get("resourceAttributes").unwrap_or(&Value::Null),
        "exactly one of nonResourceAttributes or resourceAttributes must be specified",
    );
    Err(ApiError::invalid(target.resource.subject(), "", &[error]))
}
