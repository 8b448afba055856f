//! OpenAPI v3, as far as kubectl reads it: which operations take `fieldValidation`, and the schemas.

use serde_json::{Map, Value, json};

use crate::{resource::Resource, store::registry::Registry};

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
    Some(json!({
        "openapi": "3.0.0", "info": { "title": "kube-embedded", "version": "v1.34.0" }, "paths": paths,
        "components": { "schemas": schemas },
    }))
}

/// The reversed group, as the real server names its schemas.
fn schema_name(resource: &Resource, version: &str) -> String {
    let group = match &*resource.group {
        "" => "io.k8s.api.core".to_owned(),
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
    paths.insert(format!("{collection}/{{name}}"), json!({
        "get": operation("get"), "put": operation("put"), "patch": operation("patch"), "delete": operation("delete"),
    }));
    paths.insert(collection, json!({ "get": operation("list"), "post": operation("post") }));
}

fn schema_of(resource: &Resource, index: usize, version: &str) -> Value {
    let mut schema = resource.versions.get(index).map(|v| (*v.open_api).clone()).unwrap_or_default();
    if !schema.is_object() {
        schema = json!({ "type": "object" });
    }
    schema["x-kubernetes-group-version-kind"] = json!([gvk(resource, version)]);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("apiVersion".into(), json!({ "type": "string" }));
        properties.insert("kind".into(), json!({ "type": "string" }));
        properties.insert("metadata".into(), json!({ "type": "object" }));
    }
    schema
}
