//! From the outcome of an operation to the response that shows it.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::{
    ResponseBody,
    accept::{Format, Shape},
};
use crate::{
    convert,
    ops::{Outcome, Target},
    server::Inner,
    status::ApiError,
    store::object::Object,
    table,
    watch::WatchStream,
};

/// An error as a response.
pub(crate) fn error(error: &ApiError, format: Format) -> Response<ResponseBody> {
    let mut response = value(error.code, &error.to_json(), format.yaml);
    if let Some(seconds) = error.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Any JSON as a response.
pub(crate) fn value(code: u16, value: &Value, yaml: bool) -> Response<ResponseBody> {
    bytes(code, value.to_string().into(), yaml)
}

/// A text as a response.
pub(crate) fn text(code: u16, text: &str) -> Response<ResponseBody> {
    with_type(code, Bytes::from(text.to_owned()), "text/plain; charset=utf-8")
}

/// An open watch as a response.
pub(crate) fn stream(stream: WatchStream) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::watch(stream));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn bytes(code: u16, json: Bytes, yaml: bool) -> Response<ResponseBody> {
    if yaml {
        let parsed: Value = serde_json::from_slice(&json).unwrap_or_default();
        if let Ok(text) = serde_saphyr::to_string(&parsed) {
            return with_type(code, text.into(), "application/yaml");
        }
    }
    with_type(code, json, "application/json")
}

pub(crate) fn with_type(code: u16, body: Bytes, media: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::once(body));
    // Codes come from this crate or from a fault; one that is none becomes 500.
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// The outcome of an operation in the form that its client wants.
pub(crate) fn outcome(
    inner: &Inner,
    target: &Target,
    outcome: Outcome,
    format: Format,
    include: &str,
) -> Response<ResponseBody> {
    match outcome {
        Outcome::Value(code, found) => value(code, &found, format.yaml),
        Outcome::One { code, object, warnings } => {
            let json = match format.shape {
                Shape::Table => {
                    let meta = json!({ "resourceVersion": object.revision.to_string() });
                    let rows = [table::row(target, &object, include, inner.now())];
                    table::table(target, meta, rows.into(), true).to_string().into()
                }
                Shape::Metadata => metadata_only(&object).to_string().into(),
                _ => object_json(target, &object),
            };
            let mut response = bytes(code, json, format.yaml);
            for warning in &warnings {
                if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", Value::from(warning.as_str())))
                {
                    response.headers_mut().append(header::WARNING, value);
                }
            }
            response
        }
        Outcome::Many { objects, revision, continues, remaining } => {
            let mut meta = json!({ "resourceVersion": revision.to_string() });
            if let Some(token) = continues {
                meta["continue"] = token.into();
            }
            if let Some(remaining) = remaining {
                meta["remainingItemCount"] = remaining.into();
            }
            let json = match format.shape {
                Shape::Table => {
                    let now = inner.now();
                    let rows = objects.iter().map(|o| table::row(target, o, include, now)).collect();
                    table::table(target, meta, rows, true).to_string().into()
                }
                Shape::Metadata => {
                    let items: Vec<Bytes> =
                        objects.iter().map(|o| metadata_only(o).to_string().into()).collect();
                    list("meta.k8s.io/v1", "PartialObjectMetadataList", &meta, &items)
                }
                _ => {
                    let items: Vec<Bytes> = objects.iter().map(|o| object_json(target, o)).collect();
                    let version = target.resource.api_version(target.version);
                    list(&version, &target.resource.list_kind, &meta, &items)
                }
            };
            bytes(200, json, format.yaml)
        }
    }
}

/// A list, written around the bytes of its items.
fn list(api_version: &str, kind: &str, meta: &Value, items: &[Bytes]) -> Bytes {
    let head = format!(
        "{{\"apiVersion\":{},\"kind\":{},\"metadata\":{meta},\"items\":[",
        Value::from(api_version),
        Value::from(kind)
    );
    let size = head.len() + 2 + items.iter().map(|i| i.len() + 1).sum::<usize>();
    let mut body = BytesMut::with_capacity(size);
    body.put_slice(head.as_bytes());
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            body.put_u8(b',');
        }
        body.put_slice(item);
    }
    body.put_slice(b"]}");
    body.freeze()
}

/// The bytes of an object in the version of the request; shared when that is how it is stored.
pub(crate) fn object_json(target: &Target, object: &Object) -> Bytes {
    if target.resource.stored_as(target.version) {
        return object.json.clone();
    }
    let json = convert::to_version(&target.resource, target.version, object.parse());
    Value::Object(json).to_string().into()
}

/// An object without anything but its metadata.
pub(crate) fn metadata_only(object: &Object) -> Value {
    let metadata = object.parse().remove("metadata").unwrap_or_default();
    json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata })
}
