//! OpenAPI v3, as far as kubectl reads it: which operations take `fieldValidation`, and the schemas.

use serde_json::{Map, Value, json};

use crate::{
    resource::{Builtin, Resource},
    store::registry::Registry,
};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const OWNER: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference";

/// The groups and versions that have a document.
pub(crate) fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, versions) in registry.groups() {
        for version in versions {
            let path =
                if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            let url = format!("/openapi/v3/{path}");
            paths.insert(path, json!({ "serverRelativeURL": url }));
        }
    }
    json!({ "paths": paths })
}

/// The document of one group and version.
pub(crate) fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for resource in registry.iter().filter(|r| *r.group == *group) {
        let Some(index) = resource.version_index(version) else {
            continue;
        };
        let schema = schema_name(resource, version);
        add_paths(&mut paths, resource, version, &schema);
        schemas.insert(schema, schema_of(resource, index, version));
    }
    if paths.is_empty() {
        return None;
    }
    schemas.insert(META.to_owned(), object_meta());
    schemas.insert(OWNER.to_owned(), owner_reference());
    Some(json!({
        "openapi": "3.0.0", "info": { "title": "kube-embedded", "version": "v1.36.0" }, "paths": paths,
        "components": { "schemas": schemas },
    }))
}

/// The reversed group, as the real server names its schemas.
fn schema_name(resource: &Resource, version: &str) -> String {
    let group = match &*resource.group {
        "" => "io.k8s.api.core".to_owned(),
        "coordination.k8s.io" => "io.k8s.api.coordination".to_owned(),
        "events.k8s.io" => "io.k8s.api.events".to_owned(),
        group => group.split('.').rev().collect::<Vec<_>>().join("."),
    };
    format!("{group}.{version}.{}", resource.kind)
}

fn gvk(resource: &Resource, version: &str) -> Value {
    json!({ "group": &*resource.group, "version": version, "kind": &*resource.kind })
}

fn add_paths(paths: &mut Map<String, Value>, resource: &Resource, version: &str, schema: &str) {
    let base = if resource.group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{}/{version}", resource.group)
    };
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{base}{scope}/{}", resource.plural);
    let operation = |action: &str| {
        let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation"]
            .map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true } }))
            .into();
        let reference = json!({ "$ref": format!("#/components/schemas/{schema}") });
        json!({
            "operationId": format!("{action}{}", resource.kind), "parameters": parameters,
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk(resource, version),
            "requestBody": { "content": { "application/json": { "schema": reference } } },
            "responses": { "200": { "description": "OK", "content": { "application/json": { "schema": reference } } } },
        })
    };
    let pick = |all: &[(&str, &str, &str)]| {
        let served = all.iter().filter(|(verb, _, _)| resource.verbs().contains(verb));
        Value::Object(served.map(|(_, method, action)| ((*method).to_owned(), operation(action))).collect())
    };
    let named = [
        ("get", "get", "get"),
        ("update", "put", "put"),
        ("patch", "patch", "patch"),
        ("delete", "delete", "delete"),
    ];
    if resource.verbs().contains(&"get") {
        paths.insert(format!("{collection}/{{name}}"), pick(&named));
    }
    paths.insert(collection, pick(&[("list", "get", "list"), ("create", "post", "post")]));
}

fn schema_of(resource: &Resource, index: usize, version: &str) -> Value {
    let mut schema = resource.versions.get(index).map(|v| (*v.open_api).clone()).unwrap_or_default();
    if !schema.is_object() {
        schema = json!({ "type": "object" });
    }
    schema["x-kubernetes-group-version-kind"] = json!([gvk(resource, version)]);
    if let Some(builtin) = resource.builtin {
        schema["description"] = description(builtin).into();
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert(
            "apiVersion".into(),
            json!({ "type": "string", "description": "The version of the schema that this object follows." }),
        );
        properties.insert(
            "kind".into(),
            json!({ "type": "string", "description": "The kind of this object, in CamelCase." }),
        );
        // A reference with a description of its own stands in `allOf`, as in the real server's documents.
        properties.insert(
            "metadata".into(),
            json!({
                "description": "Standard metadata of an object.",
                "allOf": [{ "$ref": format!("#/components/schemas/{META}") }], "default": {},
            }),
        );
    }
    schema
}

fn description(builtin: Builtin) -> &'static str {
    match builtin {
        Builtin::Namespace => "A scope for names.",
        Builtin::Secret => "Secret data of up to 1 MiB; the values in `data` are base64.",
        Builtin::ConfigMap => "Configuration data that programs read.",
        Builtin::Event | Builtin::EventV1 => "A report of something that happened to an object.",
        Builtin::Lease => "A lock that ends unless it is renewed.",
        Builtin::Crd => "A definition of a kind that the API serves.",
        Builtin::Service => "A name for a set of pods. The embedded API lists none and takes none.",
        Builtin::AccessReview => "Asks whether the one who asks may do something.",
        Builtin::RulesReview => "Asks for everything that the one who asks may do in a namespace.",
        Builtin::UserReview => "Asks who the one who asks is.",
    }
}

/// The schema of `metadata`.
fn object_meta() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let time =
        |description: &str| json!({ "type": "string", "format": "date-time", "description": description });
    let map = |description: &str| {
        json!({
            "type": "object", "additionalProperties": { "type": "string", "default": "" }, "description": description,
        })
    };
    let number =
        |description: &str| json!({ "type": "integer", "format": "int64", "description": description });
    json!({
        "type": "object", "description": "Metadata that every stored object has.",
        "properties": {
            "name": text("Unique in its namespace; can't be changed."),
            "generateName": text("The beginning of a name that the server completes."),
            "namespace": text("The namespace; empty for cluster-wide kinds."),
            "labels": map("Keys and values by which objects are selected."),
            "annotations": map("Keys and values that tools keep with an object."),
            "uid": text("Unique in time and space; set by the server."),
            "resourceVersion": text("Changes with every write; clients compare it for equality only."),
            "generation": number("Counts the changes of the desired state."),
            "creationTimestamp": time("When the object was created."),
            "deletionTimestamp": time("When the object was asked to go."),
            "deletionGracePeriodSeconds": number("How long the object may take to go."),
            "selfLink": text("No longer set."),
            "finalizers": {
                "type": "array", "items": { "type": "string", "default": "" },
                "description": "Who must let go before the object is removed.",
            },
            "ownerReferences": {
                "type": "array", "items": { "allOf": [{ "$ref": format!("#/components/schemas/{OWNER}") }] },
                "description": "The objects that this one depends on.",
            },
        },
    })
}

fn owner_reference() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let flag = |description: &str| json!({ "type": "boolean", "description": description });
    json!({
        "type": "object", "description": "An object that another one depends on, in the same namespace.",
        "required": ["apiVersion", "kind", "name", "uid"],
        "properties": {
            "apiVersion": text("API version of the owner."), "kind": text("Kind of the owner."),
            "name": text("Name of the owner."), "uid": text("UID of the owner."),
            "controller": flag("Whether the owner is the one that manages this object."),
            "blockOwnerDeletion": flag("Whether a foreground deletion of the owner waits for this object."),
        },
    })
}
