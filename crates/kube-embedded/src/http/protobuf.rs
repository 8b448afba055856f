//! Bodies in the protobuf form that kubectl's typed clients send (`kubectl create namespace` and the like).
//!
//! Only requests are read; answers are JSON, which those clients take as well. The tables below follow the field numbers
//! of the published `.proto` files.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::meta::Json;

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";
/// The deepest message of the tables is far above this.
const MAX_DEPTH: usize = 16;

/// How a field is read.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Texts,
    Bytes,
    Int,
    Bool,
    Object(&'static [Field]),
    Objects(&'static [Field]),
    TextMap,
    BytesMap,
    /// Whole seconds.
    Time,
    MicroTime,
}

type Field = (u64, &'static str, Form);

const OWNER: &[Field] = &[
    (1, "kind", Form::Text),
    (3, "name", Form::Text),
    (4, "uid", Form::Text),
    (5, "apiVersion", Form::Text),
    (6, "controller", Form::Bool),
    (7, "blockOwnerDeletion", Form::Bool),
];

const META: &[Field] = &[
    (1, "name", Form::Text),
    (2, "generateName", Form::Text),
    (3, "namespace", Form::Text),
    (5, "uid", Form::Text),
    (6, "resourceVersion", Form::Text),
    (7, "generation", Form::Int),
    (8, "creationTimestamp", Form::Time),
    (9, "deletionTimestamp", Form::Time),
    (10, "deletionGracePeriodSeconds", Form::Int),
    (11, "labels", Form::TextMap),
    (12, "annotations", Form::TextMap),
    (13, "ownerReferences", Form::Objects(OWNER)),
    (14, "finalizers", Form::Texts),
];

const NAMESPACE: &[Field] = &[
    (1, "metadata", Form::Object(META)),
    (2, "spec", Form::Object(&[(1, "finalizers", Form::Texts)])),
    (3, "status", Form::Object(&[(1, "phase", Form::Text)])),
];

const SECRET: &[Field] = &[
    (1, "metadata", Form::Object(META)),
    (2, "data", Form::BytesMap),
    (3, "type", Form::Text),
    (4, "stringData", Form::TextMap),
    (5, "immutable", Form::Bool),
];

const CONFIG_MAP: &[Field] = &[
    (1, "metadata", Form::Object(META)),
    (2, "data", Form::TextMap),
    (3, "binaryData", Form::BytesMap),
    (4, "immutable", Form::Bool),
];

const LEASE_SPEC: &[Field] = &[
    (1, "holderIdentity", Form::Text),
    (2, "leaseDurationSeconds", Form::Int),
    (3, "acquireTime", Form::MicroTime),
    (4, "renewTime", Form::MicroTime),
    (5, "leaseTransitions", Form::Int),
    (6, "strategy", Form::Text),
    (7, "preferredHolder", Form::Text),
];

const LEASE: &[Field] = &[(1, "metadata", Form::Object(META)), (2, "spec", Form::Object(LEASE_SPEC))];

const REFERENCE: &[Field] = &[
    (1, "kind", Form::Text),
    (2, "namespace", Form::Text),
    (3, "name", Form::Text),
    (4, "uid", Form::Text),
    (5, "apiVersion", Form::Text),
    (6, "resourceVersion", Form::Text),
    (7, "fieldPath", Form::Text),
];

const SOURCE: &[Field] = &[(1, "component", Form::Text), (2, "host", Form::Text)];

const SERIES: &[Field] = &[(1, "count", Form::Int), (2, "lastObservedTime", Form::MicroTime)];

const EVENT: &[Field] = &[
    (1, "metadata", Form::Object(META)),
    (2, "involvedObject", Form::Object(REFERENCE)),
    (3, "reason", Form::Text),
    (4, "message", Form::Text),
    (5, "source", Form::Object(SOURCE)),
    (6, "firstTimestamp", Form::Time),
    (7, "lastTimestamp", Form::Time),
    (8, "count", Form::Int),
    (9, "type", Form::Text),
    (10, "eventTime", Form::MicroTime),
    (11, "series", Form::Object(SERIES)),
    (12, "action", Form::Text),
    (13, "related", Form::Object(REFERENCE)),
    (14, "reportingComponent", Form::Text),
    (15, "reportingInstance", Form::Text),
];

const MODERN_EVENT: &[Field] = &[
    (1, "metadata", Form::Object(META)),
    (2, "eventTime", Form::MicroTime),
    (3, "series", Form::Object(SERIES)),
    (4, "reportingController", Form::Text),
    (5, "reportingInstance", Form::Text),
    (6, "action", Form::Text),
    (7, "reason", Form::Text),
    (8, "regarding", Form::Object(REFERENCE)),
    (9, "related", Form::Object(REFERENCE)),
    (10, "note", Form::Text),
    (11, "type", Form::Text),
    (12, "deprecatedSource", Form::Object(SOURCE)),
    (13, "deprecatedFirstTimestamp", Form::Time),
    (14, "deprecatedLastTimestamp", Form::Time),
    (15, "deprecatedCount", Form::Int),
];

const DELETE_OPTIONS: &[Field] = &[
    (1, "gracePeriodSeconds", Form::Int),
    (2, "preconditions", Form::Object(&[(1, "uid", Form::Text), (2, "resourceVersion", Form::Text)])),
    (3, "orphanDependents", Form::Bool),
    (4, "propagationPolicy", Form::Text),
    (5, "dryRun", Form::Texts),
];

const ACCESS_REVIEW_SPEC: &[Field] = &[
    (
        1,
        "resourceAttributes",
        Form::Object(&[
            (1, "namespace", Form::Text),
            (2, "verb", Form::Text),
            (3, "group", Form::Text),
            (4, "version", Form::Text),
            (5, "resource", Form::Text),
            (6, "subresource", Form::Text),
            (7, "name", Form::Text),
        ]),
    ),
    (2, "nonResourceAttributes", Form::Object(&[(1, "path", Form::Text), (2, "verb", Form::Text)])),
];

const ACCESS_REVIEW: &[Field] =
    &[(1, "metadata", Form::Object(META)), (2, "spec", Form::Object(ACCESS_REVIEW_SPEC))];

const RULES_REVIEW: &[Field] =
    &[(1, "metadata", Form::Object(META)), (2, "spec", Form::Object(&[(1, "namespace", Form::Text)]))];

const USER_REVIEW: &[Field] = &[(1, "metadata", Form::Object(META))];

const TYPE_META: &[Field] = &[(1, "apiVersion", Form::Text), (2, "kind", Form::Text)];

const ENVELOPE: &[Field] = &[(1, "type", Form::Object(TYPE_META)), (2, "raw", Form::Bytes)];

/// Reads a body; the error says what is wrong with it.
pub(super) fn decode(body: &[u8]) -> Result<Json, String> {
    let body =
        body.strip_prefix(MAGIC).ok_or("the body does not begin with the protobuf prefix of Kubernetes")?;
    let envelope = message(body, ENVELOPE, 0)?;
    let text = |field: &str| {
        envelope.get("type").and_then(|t| t.get(field)).and_then(Value::as_str).unwrap_or_default()
    };
    let (version, kind) = (text("apiVersion"), text("kind"));
    let fields = match (version, kind) {
        ("v1", "Namespace") => NAMESPACE,
        ("v1", "Secret") => SECRET,
        ("v1", "ConfigMap") => CONFIG_MAP,
        ("v1", "Event") => EVENT,
        ("events.k8s.io/v1", "Event") => MODERN_EVENT,
        ("coordination.k8s.io/v1", "Lease") => LEASE,
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => ACCESS_REVIEW,
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview") => RULES_REVIEW,
        ("authentication.k8s.io/v1", "SelfSubjectReview") => USER_REVIEW,
        (_, "DeleteOptions") => DELETE_OPTIONS,
        _ => {
            return Err(format!("{kind} of {version} is not read from protobuf by the embedded API"));
        }
    };
    let raw = envelope.get("raw").and_then(Value::as_str).unwrap_or_default();
    let raw = BASE64.decode(raw).map_err(|e| e.to_string())?;
    let mut object = message(&raw, fields, 0)?;
    object.insert("apiVersion".into(), version.into());
    object.insert("kind".into(), kind.into());
    Ok(object)
}

enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn message(mut bytes: &[u8], fields: &[Field], depth: usize) -> Result<Json, String> {
    if depth > MAX_DEPTH {
        return Err("messages are nested too deeply".to_owned());
    }
    let mut object = Map::new();
    while !bytes.is_empty() {
        let (number, wire) = next_field(&mut bytes)?;
        if let Some((_, name, form)) = fields.iter().find(|(n, _, _)| *n == number) {
            put(&mut object, name, *form, &wire, depth)?;
        }
    }
    Ok(object)
}

fn next_field<'a>(bytes: &mut &'a [u8]) -> Result<(u64, Wire<'a>), String> {
    let tag = varint(bytes)?;
    let wire = match tag & 7 {
        0 => Wire::Number(varint(bytes)?),
        1 => Wire::Bytes(take(bytes, 8)?),
        2 => {
            let length = varint(bytes)?;
            let length = usize::try_from(length).map_err(|e| e.to_string())?;
            Wire::Bytes(take(bytes, length)?)
        }
        5 => Wire::Bytes(take(bytes, 4)?),
        other => return Err(format!("unknown wire type {other}")),
    };
    Ok((tag >> 3, wire))
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?.first().copied().unwrap_or_default();
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("a number does not end".to_owned())
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (head, tail) = bytes.split_at_checked(count).ok_or("unexpected end of the body")?;
    *bytes = tail;
    Ok(head)
}

fn put(object: &mut Json, name: &str, form: Form, wire: &Wire<'_>, depth: usize) -> Result<(), String> {
    match (form, wire) {
        (Form::Int, Wire::Number(n)) => object.insert(name.to_owned(), n.cast_signed().into()),
        (Form::Bool, Wire::Number(n)) => object.insert(name.to_owned(), (*n != 0).into()),
        // An empty text or time is one that was not set.
        (Form::Text | Form::Time | Form::MicroTime, Wire::Bytes([])) => None,
        (Form::Text, Wire::Bytes(b)) => object.insert(name.to_owned(), utf8(b)?.into()),
        (Form::Bytes, Wire::Bytes(b)) => object.insert(name.to_owned(), BASE64.encode(b).into()),
        (Form::Object(fields), Wire::Bytes(b)) => {
            object.insert(name.to_owned(), message(b, fields, depth + 1)?.into())
        }
        (Form::Time, Wire::Bytes(b)) => object.insert(name.to_owned(), time(b, "%Y-%m-%dT%H:%M:%SZ")?.into()),
        (Form::MicroTime, Wire::Bytes(b)) => {
            object.insert(name.to_owned(), time(b, "%Y-%m-%dT%H:%M:%S.%6fZ")?.into())
        }
        (Form::Texts, Wire::Bytes(b)) => {
            push(object, name, utf8(b)?.into());
            None
        }
        (Form::Objects(fields), Wire::Bytes(b)) => {
            push(object, name, message(b, fields, depth + 1)?.into());
            None
        }
        (Form::TextMap | Form::BytesMap, Wire::Bytes(b)) => {
            let value = if matches!(form, Form::TextMap) { Form::Text } else { Form::Bytes };
            let entry = message(b, &[(1, "key", Form::Text), (2, "value", value)], depth + 1)?;
            let text = |f: &str| entry.get(f).and_then(Value::as_str).unwrap_or_default().to_owned();
            let map = object.entry(name.to_owned()).or_insert_with(|| Value::Object(Map::new()));
            map[text("key")] = text("value").into();
            None
        }
        _ => return Err(format!("{name} has the wrong wire type")),
    };
    Ok(())
}

fn push(object: &mut Json, name: &str, value: Value) {
    let list = object.entry(name.to_owned()).or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(list) = list {
        list.push(value);
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|e| e.to_string())
}

fn time(bytes: &[u8], format: &str) -> Result<String, String> {
    let parts = message(bytes, &[(1, "seconds", Form::Int), (2, "nanos", Form::Int)], 0)?;
    let number = |f: &str| parts.get(f).and_then(Value::as_i64).unwrap_or_default();
    let nanos = i32::try_from(number("nanos")).map_err(|e| e.to_string())?;
    let at = Timestamp::new(number("seconds"), nanos).map_err(|e| e.to_string())?;
    Ok(at.strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A field of bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend(bytes);
        out
    }

    fn body(kind: &str, raw: &[u8]) -> Vec<u8> {
        let types = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &types), field(2, raw)].concat()
    }

    #[test]
    fn a_secret_is_read_field_by_field() {
        let label = [field(1, b"k"), field(2, b"v")].concat();
        // 1,996,672,768 seconds.
        let time = [8, 0x80, 0x9e, 0x8b, 0xb8, 0x07];
        let meta = [field(1, b"s"), field(8, &time), field(11, &label), field(14, b"f/a"), field(14, b"f/b")]
            .concat();
        let data = [field(1, b"a"), field(2, &[0xff, 0])].concat();
        let raw = [field(1, &meta), field(2, &data), field(3, b"Opaque"), vec![5 << 3, 1]].concat();
        assert_eq!(
            Value::Object(decode(&body("Secret", &raw)).unwrap()),
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true, "data": { "a": "/wA=" },
                "metadata": {
                    "name": "s", "labels": { "k": "v" }, "finalizers": ["f/a", "f/b"],
                    "creationTimestamp": "2033-04-09T15:19:28Z",
                },
            })
        );
    }

    #[test]
    fn broken_bodies_are_errors() {
        let whole = body("Secret", &field(1, &field(1, b"s")));
        for end in 0..whole.len() {
            let _ = decode(&whole[..end]);
        }
        assert!(decode(b"{}").is_err());
        assert!(decode(&body("Pod", b"")).is_err());
        assert!(decode(&body("Secret", &[0x0a, 0x7f])).is_err());
        assert!(decode(&body("Secret", &[0xff; 11])).is_err());
    }
}
