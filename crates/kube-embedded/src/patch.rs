//! Patches: from a media type and a body to a new object.

use json_patch::{Patch, PatchErrorKind, PatchOperation};
use serde_json::Value;

use crate::{
    http::input,
    meta::{self, Json},
    status::ApiError,
};

/// The most operations of one JSON patch, as in the real server.
const MAX_OPERATIONS: usize = 10_000;

/// The most bytes that the copies of one JSON patch may come to, as in the real server: each may double the object.
const MAX_COPIED: usize = 3 * 1024 * 1024;

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
/// 422 for the first operation that cannot be applied, that goes too deep, or that copies too much.
fn apply_operations(value: &mut Value, patch: &Patch) -> Result<(), ApiError> {
    let mut copied = 0;
    for operation in &patch.0 {
        check_growth(value, operation, &mut copied)?;
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

/// Whether an object stays of a size and depth that can be stored. What an operation puts in is there already, in the
/// patch or in the object, so that it is known before anything is done.
fn check_growth(value: &Value, operation: &PatchOperation, copied: &mut usize) -> Result<(), ApiError> {
    let (path, put) = match operation {
        PatchOperation::Add(add) => (&add.path, Some(&add.value)),
        PatchOperation::Replace(replace) => (&replace.path, Some(&replace.value)),
        PatchOperation::Copy(copy) => (&copy.path, value.pointer(copy.from.as_str())),
        PatchOperation::Move(moved) => (&moved.path, value.pointer(moved.from.as_str())),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    let Some(put) = put else { return Ok(()) };
    let outside = path.count();
    if outside > meta::MAX_DEPTH || meta::is_deeper(put, meta::MAX_DEPTH - outside) {
        let why = format!("the value at {path} would nest deeper than {} objects and lists", meta::MAX_DEPTH);
        return Err(ApiError::unprocessable_patch(why));
    }
    if matches!(operation, PatchOperation::Copy(_)) {
        *copied += meta::json_size(put);
        if *copied > MAX_COPIED {
            return Err(ApiError::unprocessable_patch(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit \
                 {MAX_COPIED}"
            )));
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apply(value: &mut Value, operations: Value) -> Result<(), ApiError> {
        apply_operations(value, &serde_json::from_value(operations).unwrap())
    }

    fn copies(count: usize, path: impl Fn(usize) -> String) -> Value {
        (0..count).map(|i| json!({ "op": "copy", "from": "/a", "path": path(i) })).collect()
    }

    #[test]
    fn copies_that_double_the_object_end_at_a_bound() {
        let mut value = json!({ "a": { "text": "x".repeat(1_000) } });
        assert_eq!(apply(&mut value, copies(40, |i| format!("/a/k{i}"))).unwrap_err().code, 422);
        assert!(meta::json_size(&value) <= 2 * MAX_COPIED);
        let mut value = json!({ "a": "x".repeat(1_000) });
        apply(&mut value, copies(3_000, |i| format!("/k{i}"))).unwrap();
    }

    #[test]
    fn nothing_goes_deeper_than_what_can_be_read_back() {
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({ "a": inner }));
        let mut value = json!({ "a": {} });
        assert_eq!(apply(&mut value, copies(9_000, |_| "/a/a".to_owned())).unwrap_err().code, 422);
        assert!(!meta::is_deeper(&value, meta::MAX_DEPTH));
        for op in ["add", "replace"] {
            let mut value = nested(60);
            let path = "/a".repeat(60);
            let operation = |depth| json!([{ "op": op, "path": path, "value": nested(depth) }]);
            apply(&mut value, operation(67)).unwrap();
            assert_eq!(apply(&mut value, operation(68)).unwrap_err().code, 422, "{op}");
            assert!(serde_json::from_str::<Value>(&value.to_string()).is_ok());
        }
        let mut value = json!({ "a": nested(100), "b": nested(100) });
        let deeper = json!([{ "op": "move", "from": "/b", "path": format!("{}/b", "/a".repeat(50)) }]);
        assert_eq!(apply(&mut value, deeper).unwrap_err().code, 422);
    }
}
