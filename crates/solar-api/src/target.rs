//! [`Target`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::shared::{JsonObject, ObjectReference};

/// A cluster to deploy to.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "solar.opendefense.cloud",
    version = "v1alpha1",
    kind = "Target",
    namespaced,
    status = "TargetStatus",
    derive = "PartialEq",
    shortname = "tgt",
    category = "solar",
    doc = "A cluster to deploy to: its bound releases become charts in its render registry.",
    selectable = ".spec.renderRegistryRef.name",
    printcolumn(name = "Registry", type_ = "string", json_path = ".spec.renderRegistryRef.name"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(name = "Version", type_ = "integer", json_path = ".status.bootstrapVersion"),
    printcolumn(
        name = "Releases",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ReleasesRendered\")].reason",
        priority = 1
    ),
    printcolumn(
        name = "Bootstrap",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"BootstrapReady\")].reason",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct TargetSpec {
    /// The Registry that charts are pushed to; another namespace needs a grant there.
    pub render_registry_ref: ObjectReference,
    /// Data that the bootstrap chart passes to every release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_object")]
    pub userdata: Option<JsonObject>,
}

/// How far the Target's charts are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetStatus {
    /// Version of the newest bootstrap chart that was asked for; 0 before the first.
    #[serde(default)]
    pub bootstrap_version: i64,
    /// `oci://` address of the bootstrap chart; absent before the first.
    #[serde(default, rename = "chartURL", skip_serializing_if = "Option::is_none")]
    pub chart_url: Option<String>,
    /// Generation of the spec that the conditions speak of.
    #[serde(default)]
    pub observed_generation: i64,
    /// `RegistryResolved`, `ReleasesResolved`, `ReleasesRendered`, `BootstrapReady` and `Ready`.
    #[serde(default)]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
