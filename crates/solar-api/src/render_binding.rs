//! [`RenderBinding`].

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::shared::{LocalReference, ObjectReference};

/// Says that one consumer still needs a [`RenderArtifact`](crate::RenderArtifact).
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "solar.opendefense.cloud",
    version = "v1alpha1",
    kind = "RenderBinding",
    namespaced,
    derive = "PartialEq",
    shortname = "rbin",
    category = "solar",
    doc = "Says that one consumer still needs a RenderArtifact.",
    selectable = ".spec.renderArtifactRef.name",
    selectable = ".spec.ownerName",
    printcolumn(name = "Artifact", type_ = "string", json_path = ".spec.renderArtifactRef.name"),
    printcolumn(name = "Owner Kind", type_ = "string", json_path = ".spec.ownerKind"),
    printcolumn(name = "Owner Name", type_ = "string", json_path = ".spec.ownerName"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct RenderBindingSpec {
    /// The artifact, in this namespace.
    #[x_kube(
        validation = Rule::new("self == oldSelf")
            .message("spec.renderArtifactRef is immutable: delete the RenderBinding and create another one")
    )]
    pub render_artifact_ref: LocalReference,
    /// Kind of the consumer.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(
        validation = Rule::new("self == oldSelf")
            .message("spec.ownerKind is immutable: delete the RenderBinding and create another one")
    )]
    pub owner_kind: String,
    /// Name of the consumer.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = Rule::new("self == oldSelf")
            .message("spec.ownerName is immutable: delete the RenderBinding and create another one")
    )]
    pub owner_name: String,
    /// Namespace of the consumer.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(
        validation = Rule::new("self == oldSelf")
            .message("spec.ownerNamespace is immutable: delete the RenderBinding and create another one")
    )]
    pub owner_namespace: String,
    /// The Registry that the consumer resolves; the artifact is pinned to one of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_ref: Option<ObjectReference>,
}
