//! Paths and methods: what a request is about.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request};
use percent_encoding::percent_decode_str;

use super::query::Query;
use crate::{
    request::{RequestInfo, Verb},
    resource::Resource,
    server::Inner,
};

/// What a path leads to.
#[derive(Debug, Clone)]
pub(crate) enum Route {
    /// Objects of a resource.
    Resource { resource: Arc<Resource>, version: usize },
    /// Discovery, health, version: by the segments of the path.
    Other(Vec<String>),
    /// A resource that is not served.
    Unknown,
}

/// The parts of a resource path.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parts {
    group: String,
    version: String,
    namespace: String,
    resource: String,
    name: String,
    subresource: String,
}

/// Finds out what a request is about; last comes the name in its path.
pub(crate) fn route(
    inner: &Inner,
    actor: Arc<str>,
    request: &Request<Bytes>,
) -> (Route, RequestInfo, Arc<str>) {
    let segments = segments(request.uri().path());
    let query = Query::of(request);
    let parts = split(&segments).unwrap_or_default();
    let resource = inner.with(|state| state.registry.get(&parts.group, &parts.resource).cloned());
    let served = resource.and_then(|r| r.version_index(&parts.version).map(|v| (r, v)));
    let verb = verb(request.method(), &parts, &query);
    let in_path: Arc<str> = parts.name.as_str().into();
    let name = match verb {
        _ if !in_path.is_empty() || parts.resource.is_empty() => in_path.clone(),
        Verb::Create => name_in_body(request.body()),
        Verb::List | Verb::Watch => name_in_selector(query.text("fieldSelector")),
        _ => in_path.clone(),
    };
    let info = RequestInfo {
        number: 0,
        actor,
        verb,
        group: parts.group.as_str().into(),
        version: parts.version.as_str().into(),
        resource: parts.resource.as_str().into(),
        kind: served.as_ref().map_or_else(|| "".into(), |(r, _)| r.kind.clone()),
        subresource: parts.subresource.as_str().into(),
        namespace: parts.namespace.as_str().into(),
        name,
        field_selector: query.text("fieldSelector").into(),
        path: request.uri().path().into(),
    };
    let route = match served {
        _ if parts == Parts::default() => Route::Other(segments),
        Some((resource, version)) => Route::Resource { resource, version },
        None => Route::Unknown,
    };
    (route, info, in_path)
}

/// The name of the object in a JSON body; empty where there is none.
fn name_in_body(body: &[u8]) -> Arc<str> {
    #[derive(serde::Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    struct Metadata {
        name: String,
    }
    serde_json::from_slice::<Object>(body).map_or_else(|_| "".into(), |object| object.metadata.name.into())
}

/// The one name that a field selector asks for, as RBAC sees it; empty where it asks for none.
fn name_in_selector(selector: &str) -> Arc<str> {
    let part = selector.split(',').find_map(|part| part.trim().strip_prefix("metadata.name="));
    part.map_or("", |name| name.trim_start_matches('=')).into()
}

fn segments(path: &str) -> Vec<String> {
    path.split('/')
        .filter(|s| !s.is_empty())
        .map(|s| percent_decode_str(s).decode_utf8_lossy().into_owned())
        .collect()
}

/// The parts of a path below `/api/v1` or `/apis/<group>/<version>`.
fn split(segments: &[String]) -> Option<Parts> {
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match words.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let mut parts = Parts { group: group.to_owned(), version: version.to_owned(), ..Parts::default() };
    let rest = match rest {
        [] => return None,
        // `status` and `finalize` are subresources of the namespace itself, not kinds in it.
        ["namespaces", name, sub @ ("status" | "finalize")] => {
            (parts.resource, parts.name) = ("namespaces".to_owned(), (*name).to_owned());
            (*sub).clone_into(&mut parts.subresource);
            return Some(parts);
        }
        ["namespaces", namespace, inside @ ..] if !inside.is_empty() => {
            (*namespace).clone_into(&mut parts.namespace);
            inside
        }
        rest => rest,
    };
    if let [resource, tail @ ..] = rest {
        (*resource).clone_into(&mut parts.resource);
        if let [name, tail @ ..] = tail {
            (*name).clone_into(&mut parts.name);
            parts.subresource = tail.join("/");
        }
    }
    Some(parts)
}

fn verb(method: &Method, parts: &Parts, query: &Query) -> Verb {
    let named = !parts.name.is_empty();
    match *method {
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if named => Verb::Delete,
        Method::DELETE => Verb::DeleteCollection,
        _ if parts.resource.is_empty() => Verb::Get,
        _ if query.flag("watch") => Verb::Watch,
        _ if named => Verb::Get,
        _ => Verb::List,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_into_their_parts() {
        let table = [
            ("/api/v1/namespaces", ["", "v1", "", "namespaces", "", ""]),
            ("/api/v1/namespaces/a", ["", "v1", "", "namespaces", "a", ""]),
            ("/api/v1/namespaces/a/status", ["", "v1", "", "namespaces", "a", "status"]),
            ("/api/v1/namespaces/a/secrets", ["", "v1", "a", "secrets", "", ""]),
            ("/apis/g.io/v1/namespaces/a/foos/x/status", ["g.io", "v1", "a", "foos", "x", "status"]),
            ("/apis/g.io/v1/foos", ["g.io", "v1", "", "foos", "", ""]),
        ];
        for (path, [group, version, namespace, resource, name, subresource]) in table {
            let parts = split(&segments(path)).unwrap();
            assert_eq!(
                [
                    &*parts.group,
                    &*parts.version,
                    &*parts.namespace,
                    &*parts.resource,
                    &*parts.name,
                    &*parts.subresource
                ],
                [group, version, namespace, resource, name, subresource],
                "{path}"
            );
        }
        assert_eq!(split(&segments("/apis/g.io/v1")), None);
        assert_eq!(split(&segments("/version")), None);
    }
}
