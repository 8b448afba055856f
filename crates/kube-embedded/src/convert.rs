//! Between a stored object and the version that a request speaks.

use serde_json::Value;

use crate::{
    meta::Json,
    resource::{Builtin, Resource},
};

/// Event fields that the two groups name differently: core, then `events.k8s.io`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Turns a stored object into one of a version.
pub(crate) fn to_version(resource: &Resource, version: usize, mut object: Json) -> Json {
    if resource.builtin == Some(Builtin::EventV1) {
        rename(&mut object, EVENT_FIELDS.iter().map(|(core, modern)| (*core, *modern)));
    }
    object.insert("apiVersion".into(), resource.api_version(version).into());
    object
}

/// Turns an object of a request into one to store.
pub(crate) fn to_storage(resource: &Resource, mut object: Json) -> Json {
    if resource.builtin == Some(Builtin::EventV1) {
        rename(&mut object, EVENT_FIELDS.iter().map(|(core, modern)| (*modern, *core)));
        object.insert("apiVersion".into(), "v1".into());
    } else {
        object.insert("apiVersion".into(), resource.api_version(resource.storage).into());
    }
    object.insert("kind".into(), Value::from(&*resource.kind));
    object
}

fn rename<'a>(object: &mut Json, names: impl Iterator<Item = (&'a str, &'a str)>) {
    for (from, to) in names {
        if let Some(value) = object.remove(from) {
            object.insert(to.to_owned(), value);
        }
    }
}
