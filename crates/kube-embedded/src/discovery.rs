//! Everything that is not a resource: discovery, version, health, OpenAPI.

use bytes::Bytes;
use http::{Method, Request, Response};
use serde_json::{Value, json};

use crate::{
    http::{
        ResponseBody,
        accept::{Format, Shape},
        render,
    },
    openapi, openapi_v2,
    resource::Resource,
    server::Inner,
    status::ApiError,
    store::registry::Registry,
};

/// Serves a path that is no resource.
pub(crate) fn serve(
    inner: &Inner,
    segments: &[String],
    request: &Request<Bytes>,
    format: Format,
) -> Result<Response<ResponseBody>, ApiError> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Err(ApiError::method_not_allowed());
    }
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    if let ["readyz" | "livez" | "healthz", ..] = words.as_slice() {
        return Ok(render::text(200, "ok"));
    }
    if let ["openapi", "v2"] = words.as_slice() {
        let accepts = |v: &http::HeaderValue| v.to_str().is_ok_and(|v| v.contains("protobuf"));
        if request.headers().get_all(http::header::ACCEPT).iter().any(accepts) {
            let document = inner.with(|state| openapi_v2::document(&state.registry));
            return Ok(render::with_type(200, document.into(), openapi_v2::MEDIA));
        }
        return Err(ApiError::new(
            404,
            "NotFound",
            "OpenAPI v2 is served by the embedded API in its protobuf form only: use /openapi/v3",
        ));
    }
    let aggregated = format.shape == Shape::Discovery;
    let found = inner.with(|state| {
        let registry = &state.registry;
        match words.as_slice() {
            [] => Some(root(registry)),
            ["version"] => Some(version()),
            ["api"] if aggregated => Some(aggregate(registry, str::is_empty)),
            ["apis"] if aggregated => Some(aggregate(registry, |g| !g.is_empty())),
            ["api"] => Some(json!({
                "kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"], "serverAddressByClientCIDRs": [],
            })),
            ["apis"] => Some(groups(registry)),
            ["api", "v1"] => resources(registry, "", "v1"),
            ["apis", group] => self::group(registry, group),
            ["apis", group, version] => resources(registry, group, version),
            ["openapi", "v3"] => Some(openapi::index(registry)),
            ["openapi", "v3", "api", version] => openapi::document(registry, "", version),
            ["openapi", "v3", "apis", group, version] => openapi::document(registry, group, version),
            _ => None,
        }
    });
    let found = found.ok_or_else(ApiError::unknown_path)?;
    let mut response = render::value(200, &found, format.yaml);
    if aggregated {
        let media = http::HeaderValue::from_static(
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        );
        response.headers_mut().insert(http::header::CONTENT_TYPE, media);
    }
    Ok(response)
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": concat!("v1.36.0+embedded.", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none",
        "compiler": "rustc", "platform": concat!("embedded/", "rust"),
    })
}

fn root(registry: &Registry) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in registry.groups().iter().filter(|(g, _)| !g.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|v| format!("/apis/{group}/{v}")));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    json!({ "paths": paths })
}

fn group_json(group: &str, versions: &[std::sync::Arc<str>]) -> Value {
    let versions: Vec<Value> =
        versions.iter().map(|v| json!({ "groupVersion": format!("{group}/{v}"), "version": &**v })).collect();
    json!({ "name": group, "versions": versions, "preferredVersion": versions.first() })
}

fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry
        .groups()
        .iter()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, versions)| group_json(name, versions))
        .collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

fn group(registry: &Registry, name: &str) -> Option<Value> {
    let groups = registry.groups();
    let versions = groups.get(name)?;
    let mut group = group_json(name, versions);
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

fn in_version<'a>(
    registry: &'a Registry,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = (&'a Resource, usize)> {
    registry
        .iter()
        .filter(move |r| *r.group == *group)
        .filter_map(move |r| r.version_index(version).map(|v| (&**r, v)))
}

fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut list = Vec::new();
    for (resource, index) in in_version(registry, group, version) {
        list.push(json!({
            "name": &*resource.plural, "singularName": &*resource.singular, "namespaced": resource.namespaced,
            "kind": &*resource.kind, "verbs": resource.verbs(), "shortNames": resource.short_names,
            "categories": resource.categories,
        }));
        if resource.versions.get(index).is_some_and(|v| v.has_status) {
            list.push(json!({
                "name": format!("{}/status", resource.plural), "singularName": "", "namespaced": resource.namespaced,
                "kind": &*resource.kind, "verbs": ["get", "patch", "update"],
            }));
        }
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    (!list.is_empty()).then(|| {
        json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list,
        })
    })
}

fn aggregate(registry: &Registry, pick: impl Fn(&str) -> bool) -> Value {
    let items: Vec<Value> = registry
        .groups()
        .iter()
        .filter(|(name, _)| pick(name))
        .map(|(name, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> = in_version(registry, name, version)
                        .map(|(r, index)| aggregated_resource(r, index, version))
                        .collect();
                    json!({ "version": &**version, "resources": resources, "freshness": "Current" })
                })
                .collect();
            json!({ "metadata": { "name": &**name, "creationTimestamp": null }, "versions": versions })
        })
        .collect();
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items })
}

fn aggregated_resource(resource: &Resource, index: usize, version: &str) -> Value {
    let kind = json!({ "group": &*resource.group, "version": version, "kind": &*resource.kind });
    let mut item = json!({
        "resource": &*resource.plural, "responseKind": kind,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": &*resource.singular, "verbs": resource.verbs(), "shortNames": resource.short_names,
        "categories": resource.categories,
    });
    if resource.versions.get(index).is_some_and(|v| v.has_status) {
        item["subresources"] = json!([
            { "subresource": "status", "responseKind": kind, "verbs": ["get", "patch", "update"] },
        ]);
    }
    item
}
