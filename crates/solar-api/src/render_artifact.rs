//! [`RenderArtifact`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::shared::ObjectReference;

/// One pushed OCI tag; it lives as long as a [`RenderBinding`](crate::RenderBinding) names it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "solar.opendefense.cloud",
    version = "v1alpha1",
    kind = "RenderArtifact",
    namespaced,
    status = "RenderArtifactStatus",
    derive = "PartialEq",
    shortname = "ra",
    category = "solar",
    doc = "One pushed OCI tag; it lives as long as a RenderBinding names it.",
    selectable = ".spec.repository",
    selectable = ".spec.registryRef.name",
    printcolumn(name = "Repository", type_ = "string", json_path = ".spec.repository"),
    printcolumn(name = "Tag", type_ = "string", json_path = ".spec.tag"),
    printcolumn(name = "ChartURL", type_ = "string", json_path = ".status.chartURL"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct RenderArtifactSpec {
    /// Host of the registry.
    #[serde(rename = "baseURL")]
    #[schemars(length(min = 1, max = 300))]
    #[x_kube(
        validation = Rule::new("self == oldSelf")
            .message("spec.baseURL is immutable: delete the RenderArtifact and let another one be created")
    )]
    pub base_url: String,
    /// Repository below the host.
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(
        validation = Rule::new("self == oldSelf")
            .message("spec.repository is immutable: delete the RenderArtifact and let another one be created")
    )]
    pub repository: String,
    /// The tag.
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(
        validation = Rule::new("self == oldSelf")
            .message("spec.tag is immutable: delete the RenderArtifact and let another one be created")
    )]
    pub tag: String,
    /// Name of the RenderTask that pushed it first.
    #[schemars(length(min = 1, max = 253))]
    pub render_task_ref: String,
    /// The Registry whose credentials delete the tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_ref: Option<ObjectReference>,
}

/// What is known of the tag.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenderArtifactStatus {
    /// `oci://` address of the chart.
    #[serde(default, rename = "chartURL", skip_serializing_if = "Option::is_none")]
    pub chart_url: Option<String>,
    /// The digest that the tag held after this object existed; absent when that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// `OCICleanup`.
    #[serde(default)]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
