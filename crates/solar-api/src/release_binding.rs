//! [`ReleaseBinding`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::shared::{LocalReference, ObjectReference};

/// Binds a Release to a Target.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "solar.opendefense.cloud",
    version = "v1alpha1",
    kind = "ReleaseBinding",
    namespaced,
    status = "ReleaseBindingStatus",
    derive = "PartialEq",
    shortname = "rlb",
    category = "solar",
    doc = "Binds a Release to a Target.",
    selectable = ".spec.targetRef.name",
    selectable = ".spec.releaseRef.name",
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.targetRef.name"),
    printcolumn(name = "Release", type_ = "string", json_path = ".spec.releaseRef.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseBindingSpec {
    /// The Target; another namespace needs a grant there.
    pub target_ref: ObjectReference,
    /// The Release, in this namespace.
    pub release_ref: LocalReference,
}

/// Whether the binding has an effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseBindingStatus {
    /// Conditions of the binding.
    #[serde(default)]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
