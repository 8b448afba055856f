//! Small builders of API objects.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};
use solar_api as api;
use solar_core::packed::{Pack, Packed};

pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// Changes a packed value.
pub fn edit<T: Pack>(packed: &mut Packed<T>, change: impl FnOnce(&mut T)) {
    let mut value = packed.get();
    change(&mut value);
    *packed = Packed::of(&value);
}

pub fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub fn object(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

pub fn meta(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(namespace.into()),
        name: Some(name.into()),
        uid: Some(format!("uid-{namespace}-{name}")),
        resource_version: Some("1".into()),
        generation: Some(1),
        ..Default::default()
    }
}

fn local(name: &str) -> api::LocalReference {
    api::LocalReference { name: name.into() }
}

/// A reference from `own` namespace to `namespace/name`.
fn reference(text: &str) -> api::ObjectReference {
    match text.split_once('/') {
        Some((namespace, name)) => {
            api::ObjectReference { name: name.into(), namespace: Some(namespace.into()) }
        }
        None => api::ObjectReference { name: text.into(), namespace: None },
    }
}

pub fn target(namespace: &str, name: &str, registry: &str) -> api::Target {
    let spec = api::TargetSpec { render_registry_ref: reference(registry), userdata: None };
    api::Target { metadata: meta(namespace, name), spec, status: None }
}

pub fn registry(namespace: &str, name: &str, hostname: &str) -> api::Registry {
    let spec = api::RegistrySpec {
        hostname: hostname.into(),
        solar_secret_ref: Some(local("push")),
        ..Default::default()
    };
    api::Registry { metadata: meta(namespace, name), spec, status: None }
}

pub fn registry_binding(namespace: &str, name: &str, target: &str, registry: &str) -> api::RegistryBinding {
    let spec = api::RegistryBindingSpec { target_ref: reference(target), registry_ref: local(registry) };
    api::RegistryBinding { metadata: meta(namespace, name), spec, status: None }
}

pub fn release(namespace: &str, name: &str, version: &str) -> api::Release {
    let spec = api::ReleaseSpec { component_version_ref: reference(version), ..Default::default() };
    api::Release { metadata: meta(namespace, name), spec, status: None }
}

pub fn release_binding(namespace: &str, name: &str, target: &str, release: &str) -> api::ReleaseBinding {
    let spec = api::ReleaseBindingSpec { target_ref: reference(target), release_ref: local(release) };
    api::ReleaseBinding { metadata: meta(namespace, name), spec, status: None }
}

/// A version of `component` with one Helm chart at `ghcr.io/acme/<component>`.
pub fn component_version(namespace: &str, name: &str, component: &str) -> api::ComponentVersion {
    let spec = json!({
        "componentRef": {"name": component},
        "tag": "1.2.3",
        "resources": {
            "chart": {
                "repository": format!("ghcr.io/acme/{component}"),
                "tag": "1.2.3",
                "helm": {"name": component, "version": "1.2.3"},
            },
        },
        "entrypoint": {"resourceName": "chart", "type": "helm"},
    });
    let spec = serde_json::from_value(spec).unwrap();
    api::ComponentVersion { metadata: meta(namespace, name), spec, status: None }
}

/// A grant in `namespace` from kinds of namespaces to kinds, all of this project's group.
pub fn grant(namespace: &str, name: &str, from: &[(&str, &str)], to: &[&str]) -> api::ReferenceGrant {
    let group = || "solar.opendefense.cloud".to_owned();
    let from = from.iter().map(|(kind, namespace)| api::GrantFrom {
        group: group(),
        kind: (*kind).into(),
        namespace: (*namespace).into(),
    });
    let to = to.iter().map(|kind| api::GrantTo { group: group(), kind: (*kind).into() });
    let spec = api::ReferenceGrantSpec { from: from.collect(), to: to.collect() };
    api::ReferenceGrant { metadata: meta(namespace, name), spec }
}

pub fn bootstrap_task_spec() -> api::RenderTaskSpec {
    let spec = json!({
        "type": "bootstrap",
        "bootstrap": {
            "chart": {"name": "bootstrap-berlin", "version": "v0.0.1"},
            "input": {"releases": {}, "userdata": {}},
        },
        "repository": "edge/bootstrap-berlin",
        "tag": "v0.0.1",
        "baseURL": "registry.example.com",
        "ownerKind": "Target",
        "ownerName": "berlin",
        "ownerNamespace": "edge",
    });
    serde_json::from_value(spec).unwrap()
}
