//! [`Component`].

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// A software component in a registry, of which [`ComponentVersion`](crate::ComponentVersion)s exist.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "solar.opendefense.cloud",
    version = "v1alpha1",
    kind = "Component",
    namespaced,
    derive = "PartialEq",
    shortname = "comp",
    category = "solar",
    doc = "A software component in a registry, of which ComponentVersions exist.",
    printcolumn(name = "Registry", type_ = "string", json_path = ".spec.registry"),
    printcolumn(name = "Repository", type_ = "string", json_path = ".spec.repository"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ComponentSpec {
    /// How the registry is spoken to, such as `oci` or `https`.
    pub scheme: String,
    /// Host of the registry, with its port where it has one.
    #[schemars(length(min = 1, max = 300))]
    pub registry: String,
    /// Repository below the host.
    #[schemars(length(min = 1, max = 1024))]
    pub repository: String,
}
