//! [`Release`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::shared::{JsonObject, ObjectReference};

/// A ComponentVersion with the values to install it with.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "solar.opendefense.cloud",
    version = "v1alpha1",
    kind = "Release",
    namespaced,
    status = "ReleaseStatus",
    derive = "PartialEq",
    shortname = "rel",
    category = "solar",
    doc = "A ComponentVersion with the values to install it with.",
    selectable = ".spec.componentVersionRef.name",
    printcolumn(name = "ComponentVersion", type_ = "string", json_path = ".spec.componentVersionRef.name"),
    printcolumn(
        name = "Resolved",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ComponentVersionResolved\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(oldSelf.uniqueName) || has(self.uniqueName)")
        .message("spec.uniqueName cannot be removed once set: set it back, or create another Release")
)]
pub struct ReleaseSpec {
    /// The version to install; another namespace needs a grant there.
    pub component_version_ref: ObjectReference,
    /// Namespace on the target cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub target_namespace: Option<String>,
    /// At most one Release of a unique name reaches a Target; the component's name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    #[x_kube(
        validation = Rule::new("self == oldSelf")
            .message("spec.uniqueName cannot be changed once set: set it back, or create another Release")
    )]
    pub unique_name: Option<String>,
    /// Releases whose labels match are not installed beside this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<LabelSelector>,
    /// Helm values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_object")]
    pub values: Option<JsonObject>,
    /// Accepted for compatibility; has no effect. Seconds.
    #[serde(default, rename = "failedJobTTL", skip_serializing_if = "Option::is_none")]
    pub failed_job_ttl: Option<i32>,
    /// The highest priority wins among Releases of one unique name.
    #[serde(default)]
    pub priority: i32,
}

/// What was resolved for the Release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseStatus {
    /// `ComponentVersionResolved`.
    #[serde(default)]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The unique name that the resolver uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_unique_name: Option<String>,
    /// Name of a RenderTask of this Release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub render_task_ref: Option<String>,
}
