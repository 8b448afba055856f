//! An API server with the definitions, and one good object of each kind.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kube_embedded::Server;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const API: &str = "/apis/solar.opendefense.cloud/v1alpha1/namespaces";

/// A namespace on a server with the definitions.
pub struct Api {
    client: kube::Client,
    namespace: String,
}

impl Api {
    async fn new(server: &str, client: kube::Client) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let namespace = format!("{server}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let api = Self { client, namespace };
        let object = json!({ "metadata": { "name": api.namespace } });
        api.send(post("/api/v1/namespaces", &object)).await.unwrap();
        api
    }

    /// On an embedded server of its own.
    async fn embedded() -> Self {
        let server = Server::builder().build();
        for crd in solar_api::crds() {
            server.apply_crd(crd).unwrap();
        }
        Self::new("embedded", server.client("default")).await
    }

    /// On a real server, if there is one.
    async fn real() -> Option<Self> {
        static DEFINED: OnceCell<()> = OnceCell::const_new();
        let client = test_bed::Cluster::shared()?.client();
        DEFINED.get_or_init(|| define(&client)).await;
        Some(Self::new("real", client).await)
    }

    fn collection(&self, plural: &str) -> String {
        format!("{API}/{}/{plural}", self.namespace)
    }

    /// The object as stored, or what the server says against it.
    pub async fn create(&self, plural: &str, object: &Value) -> Result<Value, String> {
        self.send(post(&self.collection(plural), object)).await
    }

    /// The object after a merge patch, or what the server says against it.
    pub async fn patch(&self, plural: &str, name: &str, patch: &Value) -> Result<Value, String> {
        let request = http::Request::patch(format!("{}/{name}", self.collection(plural)))
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
        let request = http::Request::put(format!("{}/{name}", self.collection(plural)))
            .header("content-type", "application/json")
            .body(serde_json::to_vec(object).unwrap())
            .unwrap();
        self.send(request).await
    }

    /// A list, as a table where `accept` asks for one, or what the server says against it.
    pub async fn list(&self, plural: &str, query: &str, accept: &str) -> Result<Value, String> {
        let request = http::Request::get(format!("{}?{query}", self.collection(plural)))
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

fn post(path: &str, object: &Value) -> http::Request<Vec<u8>> {
    http::Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(object).unwrap())
        .unwrap()
}

/// Applies the definitions and waits until their kinds are served.
async fn define(client: &kube::Client) {
    let crds = kube::Api::all(client.clone());
    for crd in solar_api::crds() {
        crds.create(&Default::default(), &crd).await.unwrap();
    }
    let served = async {
        for crd in solar_api::crds() {
            let path = format!("{API}/default/{}", crd.spec.names.plural);
            // Not found at first, then refused for a moment.
            while client.request_text(http::Request::get(&path).body(Vec::new()).unwrap()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    tokio::time::timeout(test_bed::DEADLINE, served).await.expect("every kind is served");
}

/// Runs a test on the embedded server and, where there is one, on a real server.
pub fn run(test: impl AsyncFn(Api)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        test(Api::embedded().await).await;
        if let Some(real) = Api::real().await {
            // A failure below says nothing of where it was.
            eprintln!("on the real server:");
            test(real).await;
        }
    });
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
        "metadata": { "name": name },
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
