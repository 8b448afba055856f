//! What the tests share: a server with one custom kind, and raw JSON objects through a real client.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::sync::Arc;

use kube::{
    Api, Client, Error,
    api::{ApiResource, DynamicObject, GroupVersionKind},
    core::Status,
};
use kube_embedded::{Server, TokioClock};
use serde_json::{Value, json};

/// A server on tokio's clock that begins at 2030-01-01.
pub fn server() -> Server {
    Server::builder()
        .clock(Arc::new(TokioClock::starting_at("2030-01-01T00:00:00Z".parse().unwrap())))
        .seed(1)
        .build()
}

/// A server that also knows widgets.
pub fn widget_server() -> Server {
    let server = server();
    server.apply_crd(widget_crd()).unwrap();
    server
}

/// A CRD that uses what CRDs can.
pub fn widget_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"] },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "selectableFields": [{ "jsonPath": ".spec.ownerName" }, { "jsonPath": ".spec.ref.name" }],
                "additionalPrinterColumns": [
                    { "name": "Owner", "type": "string", "jsonPath": ".spec.ownerName" },
                    { "name": "Ready", "type": "string",
                      "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status" },
                    { "name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1 },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
                "schema": { "openAPIV3Schema": widget_schema() },
            }],
        },
    })
}

fn widget_schema() -> Value {
    let condition = json!({
        "type": "object",
        "required": ["type", "status"],
        "properties": { "type": { "type": "string" }, "status": { "type": "string" } },
    });
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["ownerName"],
                "properties": {
                    "ownerName": { "type": "string", "minLength": 1, "maxLength": 20, "pattern": "^[a-z]*$" },
                    "type": { "type": "string", "enum": ["helm", "kro"] },
                    "size": { "type": "integer", "minimum": 0, "maximum": 10, "default": 3 },
                    "frozen": {
                        "type": "string",
                        "x-kubernetes-validations": [
                            { "rule": "self == oldSelf", "message": "frozen can't be changed" },
                        ],
                    },
                    "ref": { "type": "object", "properties": { "name": { "type": "string" } } },
                    "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                    "port": { "x-kubernetes-int-or-string": true },
                    "maybe": {
                        "type": "string",
                        "nullable": true,
                        "x-kubernetes-validations": [{ "rule": "self.size() > 1", "message": "maybe is too short" }],
                    },
                    "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                },
                "x-kubernetes-validations": [
                    { "rule": "!has(self.size) || self.size != 7", "message": "size must not be 7" },
                ],
            },
            "status": {
                "type": "object",
                "properties": {
                    "note": { "type": "string" },
                    "conditions": {
                        "type": "array",
                        "items": condition,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["type"],
                    },
                },
            },
        },
    })
}

/// The widgets of a namespace.
pub fn widgets(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &widget_resource())
}

/// The widgets of all namespaces.
pub fn all_widgets(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &widget_resource())
}

pub fn widget_resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"))
}

/// A widget with the owner `alice`.
pub fn widget(name: &str) -> DynamicObject {
    widget_with(name, json!({ "ownerName": "alice" }))
}

/// A widget with this spec.
pub fn widget_with(name: &str, spec: Value) -> DynamicObject {
    object(json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec,
    }))
}

pub fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// The `Status` of a refusal.
pub fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Status {
    match result {
        Err(Error::Api(status)) => *status,
        other => panic!("expected a refusal, not {other:?}"),
    }
}
