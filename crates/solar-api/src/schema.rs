//! Schema fragments that the derive cannot express.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An object with any content: the API server neither prunes nor checks what is inside.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// The largest number of entries in a map that CEL rules look into; unbounded maps are refused for their cost.
pub(crate) const MAX_ENTRIES: usize = 5_000;

/// A map with at most [`MAX_ENTRIES`] entries of `T`.
pub(crate) fn bounded_map<T: schemars::JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let value = generator.subschema_for::<T>();
    json_schema!({ "type": "object", "maxProperties": MAX_ENTRIES, "additionalProperties": value })
}

/// `metav1.Condition`, keyed by `type`.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>();
    json_schema!({
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}
