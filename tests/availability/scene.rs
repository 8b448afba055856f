//! Objects around a descriptor, and a look at what is said of it.

use kube_embedded::Server;
use serde_json::{Value, json};
use solar_controller::adapters::oci::{Artifact, Digest, Endpoint, OciRegistry as _};
use solar_controller::dev::registry::RegistryStore;

pub const NAMESPACE: &str = "team";
pub const HOST: &str = "descriptors.example";
/// Where the descriptors of [`version`]s lie.
pub const REPOSITORY: &str = "component-descriptors/acme.org/web";

pub fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "solar.opendefense.cloud/v1alpha1",
        "kind": kind,
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": spec,
    })
}

pub fn install(server: &Server, object: Value) {
    server.install(object).unwrap();
}

/// The namespace and a Component.
pub fn install_component(server: &Server) {
    install(server, json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }));
    let spec = json!({ "scheme": "oci", "registry": HOST, "repository": REPOSITORY });
    install(server, object("Component", "web", spec));
}

pub fn registry(name: &str, host: &str) -> Value {
    object("Registry", name, json!({ "hostname": host, "plainHTTP": true }))
}

/// A version of the Component whose descriptor has `digest`, on `host`.
pub fn version(name: &str, host: &str, digest: &str) -> Value {
    object(
        "ComponentVersion",
        name,
        json!({
            "componentRef": { "name": "web" },
            "tag": "1.0.0",
            "resources": {},
            "entrypoint": { "resourceName": "chart", "type": "helm" },
            "registry": host,
            "componentName": "acme.org/web",
            "digest": digest,
        }),
    )
}

/// What is in the registry: its manifest has this digest.
pub async fn push(store: &RegistryStore, repository: &str, content: &str) -> Digest {
    let artifact = descriptor(content);
    let endpoint = Endpoint::anonymous(HOST, true);
    store.handle("user").push(&endpoint, repository, "latest", &artifact).await.unwrap()
}

pub fn descriptor(content: &str) -> Artifact {
    Artifact::chart(b"{}".to_vec(), content.as_bytes().to_vec(), &std::collections::BTreeMap::new())
}

/// Status, reason and message of Available.
pub fn available(server: &Server, name: &str) -> Option<(String, String, String)> {
    let version = server.get_object("ComponentVersion", NAMESPACE, name)?;
    let condition =
        version["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == "Available")?.clone();
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

pub fn reason(server: &Server, name: &str) -> String {
    available(server, name).map(|(_, reason, _)| reason).unwrap_or_default()
}
