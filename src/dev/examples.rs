//! The example objects, as they stand in `examples/`.

use kube::api::{DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Client, ResourceExt as _};
use thiserror::Error;

use crate::adapters::oci::{Artifact, Credentials, Endpoint, OciError, OciRegistry};

/// The files, in the order in which they are applied.
const FILES: [(&str, &str); 3] = [
    ("examples/01-platform.yaml", include_str!("../../examples/01-platform.yaml")),
    ("examples/02-releases.yaml", include_str!("../../examples/02-releases.yaml")),
    ("examples/03-targets.yaml", include_str!("../../examples/03-targets.yaml")),
];
/// A version whose descriptor is in the registry once [`push_descriptor`] has put it there.
const DESCRIPTORS: (&str, &str) =
    ("examples/04-descriptors.yaml", include_str!("../../examples/04-descriptors.yaml"));
/// Where its descriptor lies.
const DESCRIPTOR_REPOSITORY: &str = "demo/component-descriptors/example.com/described";
/// The registry's address in the files.
const WRITTEN_ADDRESS: &str = "127.0.0.1:5000";
/// User of the embedded registry.
pub(super) const REGISTRY_USER: &str = "solar";
/// Password of the embedded registry; it stands in the examples for everybody to read.
pub(super) const REGISTRY_PASSWORD: &str = "solar-dev";

/// An object of the examples.
#[derive(Clone, Debug)]
pub struct Example {
    /// The object.
    pub object: DynamicObject,
    /// How it is addressed.
    pub resource: ApiResource,
}

/// An example that could not be read or applied.
#[derive(Debug, Error)]
pub enum ExampleError {
    /// A file is not what it should be.
    #[error("{file}: {problem}")]
    Unreadable {
        /// The file.
        file: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The API server refused an object.
    #[error("{kind} {name}: {error}")]
    Refused {
        /// Kind of the object.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        error: Box<kube::Error>,
    },
}

/// The example objects for a registry at `registry_address`.
pub fn examples(registry_address: &str) -> Result<Vec<Example>, ExampleError> {
    read(&FILES, registry_address)
}

/// A ComponentVersion with a descriptor in a registry at `registry_address`, and what belongs to it.
pub fn descriptor_examples(registry_address: &str) -> Result<Vec<Example>, ExampleError> {
    read(&[DESCRIPTORS], registry_address)
}

/// What stands for the component descriptor there; its digest is in the file.
fn descriptor() -> Artifact {
    let title = ("org.opencontainers.image.title".to_owned(), "described".to_owned());
    Artifact::chart(&b"{}"[..], &b"component descriptor of example.com/described 1.0.0"[..], &[title].into())
}

/// Puts the descriptor of [`descriptor_examples`] into the registry at this address, where the examples' user may push.
///
/// # Errors
/// When the registry does not take it.
pub async fn push_descriptor(registry: &dyn OciRegistry, registry_address: &str) -> Result<(), OciError> {
    let login =
        Credentials::Basic { username: REGISTRY_USER.to_owned(), password: REGISTRY_PASSWORD.to_owned() };
    let endpoint = Endpoint::anonymous(registry_address, true).with_credentials(login);
    registry.push(&endpoint, DESCRIPTOR_REPOSITORY, "1.0.0", &descriptor()).await.map(drop)
}

fn read(files: &[(&'static str, &str)], registry_address: &str) -> Result<Vec<Example>, ExampleError> {
    let mut found = Vec::new();
    for (file, text) in files {
        let text = text.replace(WRITTEN_ADDRESS, registry_address);
        let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text)
            .map_err(|error| ExampleError::Unreadable { file, problem: error.to_string() })?;
        for object in objects {
            let object: DynamicObject = serde_json::from_value(object)
                .map_err(|error| ExampleError::Unreadable { file, problem: error.to_string() })?;
            let types = object.types.clone().unwrap_or_default();
            let gvk = GroupVersionKind::try_from(&types)
                .map_err(|error| ExampleError::Unreadable { file, problem: error.to_string() })?;
            found.push(Example { resource: ApiResource::from_gvk(&gvk), object });
        }
    }
    Ok(found)
}

/// Creates the objects that are not there; answers how many there were to create.
pub(super) async fn apply(client: &Client, examples: &[Example]) -> Result<usize, ExampleError> {
    let mut created = 0;
    for Example { object, resource } in examples {
        let api: kube::Api<DynamicObject> = match object.namespace() {
            Some(namespace) => kube::Api::namespaced_with(client.clone(), &namespace, resource),
            None => kube::Api::all_with(client.clone(), resource),
        };
        match api.create(&PostParams::default(), object).await {
            Ok(_) => created += 1,
            // From a run that was killed before it had applied them all.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => {
                return Err(ExampleError::Refused {
                    kind: resource.kind.clone(),
                    name: object.name_any(),
                    error: Box::new(error),
                });
            }
        }
    }
    Ok(created)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptor_has_the_digest_that_its_version_names() {
        let examples = descriptor_examples("127.0.0.1:5000").unwrap();
        let version = examples.iter().find(|example| example.resource.kind == "ComponentVersion").unwrap();
        assert_eq!(version.object.data["spec"]["digest"], descriptor().digest().as_str());
    }
}
