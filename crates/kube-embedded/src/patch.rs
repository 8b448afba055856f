//! Patches: from a media type and a body to a new object.

use json_patch::{Patch, PatchErrorKind, PatchOperation};
use serde_json::Value;

use crate::{http::input, meta::Json, status::ApiError};

/// The most operations of one JSON patch, as in the real server.
const MAX_OPERATIONS: usize = 10_000;

/// A patch that was read.
pub(crate) enum PatchBody {
    Merge(Value),
    Json(Patch),
    Strategic(Value),
}

/// The forms of a patch that are read; the strategic one only for built-in kinds.
const ACCEPTED: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"];

impl PatchBody {
    /// Reads a patch, and what is to be said of fields that stand in it twice. Strategic patches are for the built-in
    /// kinds only.
    pub fn read(content_type: &str, body: &[u8], builtin: bool) -> Result<(Self, Vec<String>), ApiError> {
        let refuse = |why: String| ApiError::bad_request(format!("error decoding patch: {why}"));
        let parse = || input::json(body).map_err(refuse);
        match content_type {
            "application/merge-patch+json" => {
                let (patch, repeated) = parse()?;
                Ok((Self::Merge(object(patch)?), repeated))
            }
            "application/json-patch+json" => Ok((read_json_patch(parse()?.0)?, Vec::new())),
            "application/strategic-merge-patch+json" if builtin => {
                let (patch, repeated) = parse()?;
                Ok((Self::Strategic(object(patch)?), repeated))
            }
            "application/apply-patch+yaml" => Err(ApiError::new(
                415,
                "UnsupportedMediaType",
                "server-side apply is not supported by the embedded API: use a merge patch, or kubectl apply without \
                 --server-side",
            )),
            _ => {
                let accepted = if builtin { &ACCEPTED[..] } else { &ACCEPTED[..2] };
                Err(ApiError::unsupported_media_type(&accepted.join(", ")))
            }
        }
    }

    /// Applies the patch to an object.
    pub fn apply(&self, mut object: Json) -> Result<Json, ApiError> {
        match self {
            Self::Merge(patch) => {
                merge(&mut object, patch);
                Ok(object)
            }
            Self::Strategic(patch) => {
                crate::strategic::merge(&mut object, patch)?;
                Ok(object)
            }
            Self::Json(patch) => {
                let mut value = Value::Object(object);
                apply_operations(&mut value, patch)?;
                match value {
                    Value::Object(object) => Ok(object),
                    _ => Err(ApiError::bad_request("the patch leaves no object")),
                }
            }
        }
    }
}

fn object(value: Value) -> Result<Value, ApiError> {
    if value.is_object() {
        Ok(value)
    } else {
        Err(ApiError::bad_request("error decoding patch: the patch must be an object"))
    }
}

fn read_json_patch(value: Value) -> Result<PatchBody, ApiError> {
    let count = value.as_array().map_or(0, Vec::len);
    if count > MAX_OPERATIONS {
        return Err(ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"),
        ));
    }
    let known = |o: &Value| {
        let name = o.get("op").and_then(Value::as_str);
        name.is_none_or(|n| matches!(n, "add" | "remove" | "replace" | "move" | "copy" | "test"))
    };
    if let Some(operation) = value.as_array().into_iter().flatten().find(|o| !known(o)) {
        return Err(ApiError::unprocessable_patch(format!("unexpected kind: {}", operation["op"])));
    }
    serde_json::from_value(value)
        .map(PatchBody::Json)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))
}

/// Applies the operations in their order. As in the real server, a test for `null` holds where nothing is.
///
/// # Errors
/// 422 for the first operation that cannot be applied.
fn apply_operations(value: &mut Value, patch: &Patch) -> Result<(), ApiError> {
    for operation in &patch.0 {
        if let PatchOperation::Test(test) = operation
            && test.value.is_null()
            && value.pointer(test.path.as_str()).is_none()
        {
            continue;
        }
        if let PatchOperation::Replace(replace) = operation
            && let Some((parent, name)) = replace.path.split_back()
            && let Some(Value::Object(parent)) = value.pointer_mut(parent.as_str())
        {
            // The real server puts a member there that was missing.
            parent.insert(name.decoded().into_owned(), replace.value.clone());
            continue;
        }
        json_patch::patch(value, std::slice::from_ref(operation)).map_err(|error| refuse(&error))?;
    }
    Ok(())
}

fn refuse(error: &json_patch::PatchError) -> ApiError {
    let path = &error.path;
    let why = match error.kind {
        PatchErrorKind::TestFailed => format!("testing value {path} failed: test failed"),
        _ => format!("{} at {path}", error.kind),
    };
    ApiError::unprocessable_patch(why)
}

/// RFC 7386: `null` removes, objects merge, everything else replaces.
pub(crate) fn merge(target: &mut Json, patch: &Value) {
    let Value::Object(patch) = patch else { return };
    for (name, change) in patch {
        match change {
            Value::Null => {
                target.remove(name);
            }
            Value::Object(_) => {
                let slot = target.entry(name.clone()).or_insert(Value::Null);
                if !slot.is_object() {
                    *slot = Value::Object(Json::new());
                }
                if let Value::Object(slot) = slot {
                    merge(slot, change);
                }
            }
            other => {
                target.insert(name.clone(), other.clone());
            }
        }
    }
}
