//! [`RegistryBinding`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::shared::{LocalReference, ObjectReference};

/// Tells a Target which pull secret serves a registry's host.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "solar.opendefense.cloud",
    version = "v1alpha1",
    kind = "RegistryBinding",
    namespaced,
    status = "RegistryBindingStatus",
    derive = "PartialEq",
    shortname = "rb",
    category = "solar",
    doc = "Tells a Target which pull secret serves a registry's host.",
    selectable = ".spec.targetRef.name",
    selectable = ".spec.registryRef.name",
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.targetRef.name"),
    printcolumn(name = "Registry", type_ = "string", json_path = ".spec.registryRef.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct RegistryBindingSpec {
    /// The Target; another namespace needs a grant there.
    pub target_ref: ObjectReference,
    /// The Registry, in this namespace.
    pub registry_ref: LocalReference,
}

/// Whether the binding has an effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryBindingStatus {
    /// Conditions of the binding.
    #[serde(default)]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
