//! An API server with the definitions, and one good object of each kind.

use kube_embedded::Server;
use serde_json::{Value, json};

const API: &str = "/apis/solar.opendefense.cloud/v1alpha1/namespaces/default";

pub struct Api {
    client: kube::Client,
}

impl Api {
    pub fn new() -> Self {
        let server = Server::builder().build();
        for crd in solar_api::crds() {
            server.apply_crd(crd).unwrap();
        }
        Self { client: server.client("default") }
    }

    /// The object as stored, or what the server says against it.
    pub async fn create(&self, plural: &str, object: &Value) -> Result<Value, String> {
        let request = http::Request::post(format!("{API}/{plural}"))
            .header("content-type", "application/json")
            .body(serde_json::to_vec(object).unwrap())
            .unwrap();
        self.send(request).await
    }

    /// The object after a merge patch, or what the server says against it.
    pub async fn patch(&self, plural: &str, name: &str, patch: &Value) -> Result<Value, String> {
        let request = http::Request::patch(format!("{API}/{plural}/{name}"))
            .header("content-type", "application/merge-patch+json")
            .body(serde_json::to_vec(patch).unwrap())
            .unwrap();
        self.send(request).await
    }

    /// The object after its status was merged with `status`, or what the server says against it.
    pub async fn patch_status(&self, plural: &str, name: &str, status: &Value) -> Result<Value, String> {
        self.patch(plural, &format!("{name}/status"), &json!({ "status": status })).await
    }

    /// The object that `object` replaces it with, or what the server says against it.
    pub async fn replace(&self, plural: &str, name: &str, object: &Value) -> Result<Value, String> {
        let request = http::Request::put(format!("{API}/{plural}/{name}"))
            .header("content-type", "application/json")
            .body(serde_json::to_vec(object).unwrap())
            .unwrap();
        self.send(request).await
    }

    /// A list, as a table where `accept` asks for one, or what the server says against it.
    pub async fn list(&self, plural: &str, query: &str, accept: &str) -> Result<Value, String> {
        let request = http::Request::get(format!("{API}/{plural}?{query}"))
            .header("accept", accept)
            .body(Vec::new())
            .unwrap();
        self.send(request).await
    }

    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<Value, String> {
        match self.client.request::<Value>(request).await {
            Ok(object) => Ok(object),
            Err(kube::Error::Api(status)) => Err(status.message.clone()),
            Err(error) => panic!("{error}"),
        }
    }
}

pub fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

/// Kind, plural and the spec of an object that nothing can be said against.
pub fn good() -> Vec<(&'static str, &'static str, Value)> {
    let resource = json!({
        "repository": "ghcr.io/a/b",
        "tag": "1.0.0",
        "helm": { "name": "b", "version": "1.0.0" },
    });
    let release = json!({
        "chart": { "name": "release-r", "version": "v0.0.1-0a1b2c3d" },
        "input": {
            "component": { "name": "c" },
            "resources": { "chart": resource },
            "entrypoint": { "resourceName": "chart", "type": "helm" },
        },
    });
    vec![
        ("Component", "components", json!({ "scheme": "oci", "registry": "ghcr.io", "repository": "a/b" })),
        (
            "ComponentVersion",
            "componentversions",
            json!({
                "componentRef": { "name": "c" },
                "tag": "1.0.0",
                "resources": { "chart": resource },
                "entrypoint": { "resourceName": "chart", "type": "helm" },
            }),
        ),
        ("Registry", "registries", json!({ "hostname": "registry.example" })),
        (
            "RegistryBinding",
            "registrybindings",
            json!({ "targetRef": { "name": "t" }, "registryRef": { "name": "r" } }),
        ),
        ("Release", "releases", json!({ "componentVersionRef": { "name": "cv" } })),
        (
            "ReleaseBinding",
            "releasebindings",
            json!({ "targetRef": { "name": "t" }, "releaseRef": { "name": "r" } }),
        ),
        ("Profile", "profiles", json!({ "releaseRef": { "name": "r" }, "targetSelector": {} })),
        (
            "ReferenceGrant",
            "referencegrants",
            json!({
                "from": [{ "group": "solar.opendefense.cloud", "kind": "Target", "namespace": "other" }],
                "to": [{ "group": "solar.opendefense.cloud", "kind": "Registry" }],
            }),
        ),
        ("Target", "targets", json!({ "renderRegistryRef": { "name": "r" } })),
        (
            "RenderTask",
            "rendertasks",
            json!({
                "type": "release",
                "release": release,
                "repository": "ns/ns/release-r",
                "tag": "v0.0.1-0a1b2c3d",
                "baseURL": "registry.example",
                "ownerKind": "Target",
                "ownerName": "t",
                "ownerNamespace": "default",
            }),
        ),
        (
            "RenderArtifact",
            "renderartifacts",
            json!({ "baseURL": "registry.example", "repository": "a/b", "tag": "v0.0.1", "renderTaskRef": "rt" }),
        ),
        (
            "RenderBinding",
            "renderbindings",
            json!({
                "renderArtifactRef": { "name": "ra" },
                "ownerKind": "Target",
                "ownerName": "t",
                "ownerNamespace": "default",
            }),
        ),
    ]
}

pub fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "solar.opendefense.cloud/v1alpha1",
        "kind": kind,
        "metadata": { "name": name, "namespace": "default" },
        "spec": spec,
    })
}

/// Plural and spec of the good object of `kind`.
pub fn good_of(kind: &str) -> (&'static str, Value) {
    let found = good().into_iter().find(|(name, ..)| *name == kind).unwrap();
    (found.1, found.2)
}

/// What the server says of an object with the given faults.
pub fn refusal(kind: &str, name: &str, faults: &[&str]) -> String {
    let faults = match faults {
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    };
    format!("{kind}.solar.opendefense.cloud \"{name}\" is invalid: {faults}")
}

/// What the server adds where rules stand beside a fault that leaves nothing to run them on.
pub const UNCHECKED: &str = "<nil>: Invalid value: null: some validation rules were not checked because the object \
                             was invalid; correct the existing errors to complete validation";

/// The faults of an object of `kind` that has `fault`, which keeps rules from being checked.
pub fn blocking<'a>(kind: &str, fault: &'a str) -> Vec<&'a str> {
    let has_rules = ["Registry", "Release", "RenderTask", "RenderArtifact", "RenderBinding"].contains(&kind);
    if has_rules { vec![fault, UNCHECKED] } else { vec![fault] }
}

/// Puts `value` at `pointer` below the spec; null takes the field away.
pub fn with(mut spec: Value, pointer: &str, value: &Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = spec.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        parent.remove(field);
    } else {
        parent.insert(field.to_owned(), value.clone());
    }
    spec
}
