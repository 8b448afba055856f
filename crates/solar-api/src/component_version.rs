//! [`ComponentVersion`].

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::shared::LocalReference;

/// One version of a [`Component`](crate::Component): where its resources lie and which of them is installed.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "solar.opendefense.cloud",
    version = "v1alpha1",
    kind = "ComponentVersion",
    namespaced,
    status = "ComponentVersionStatus",
    derive = "PartialEq",
    shortname = "cv",
    category = "solar",
    doc = "One version of a Component: where its resources lie and which of them is installed.",
    selectable = ".spec.componentRef.name",
    printcolumn(name = "Component", type_ = "string", json_path = ".spec.componentRef.name"),
    printcolumn(name = "Tag", type_ = "string", json_path = ".spec.tag"),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].reason"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ComponentVersionSpec {
    /// The component, in this namespace.
    pub component_ref: LocalReference,
    /// Version tag of the component.
    #[schemars(length(min = 1, max = 128))]
    pub tag: String,
    /// The resources of this version by name.
    #[schemars(schema_with = "schema::bounded_map::<ResourceAccess>")]
    pub resources: BTreeMap<String, ResourceAccess>,
    /// The resource that is installed on a target cluster.
    pub entrypoint: Entrypoint,
    /// Host of the registry that holds the component descriptor; the Component's registry when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub registry: Option<String>,
    /// Repository prefix of the component descriptor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub namespace: Option<String>,
    /// Component name in the descriptor's repository; derived from the Component when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub component_name: Option<String>,
    /// Digest of the component descriptor's manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub digest: Option<String>,
}

/// Where a resource lies, and how it is to be installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceAccess {
    /// Host and repository, without a tag.
    #[schemars(length(max = 1024))]
    pub repository: String,
    /// Whether the registry is spoken to over plain HTTP.
    #[serde(default)]
    pub insecure: bool,
    /// Tag, or a digest behind an `@` (`@sha256:...`).
    #[schemars(length(max = 256))]
    pub tag: String,
    /// Set for Helm charts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmResource>,
}

/// The Helm side of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmResource {
    /// Name of the chart.
    #[schemars(length(max = 250))]
    pub name: String,
    /// What the chart is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Version of the chart.
    #[schemars(length(max = 256))]
    pub version: String,
    /// Version of the application in the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub app_version: Option<String>,
    /// Values that discovery rendered already: YAML text, shipped as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1_048_576))]
    pub values_template: Option<String>,
}

/// Names the resource that is installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entrypoint {
    /// Key in `resources`.
    #[schemars(length(max = 253))]
    pub resource_name: String,
    /// What installs it.
    #[serde(rename = "type")]
    pub type_: EntrypointType,
}

/// What installs an entrypoint resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EntrypointType {
    /// A Helm chart.
    Helm,
    /// A kro resource graph.
    Kro,
}

impl EntrypointType {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Helm => "helm",
            Self::Kro => "kro",
        }
    }
}

/// What was observed of the component descriptor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentVersionStatus {
    /// `Available`.
    #[serde(default)]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Since when the descriptor has been missing without a break, while the grace period runs; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor_missing_since: Option<Time>,
    /// The last value of the recheck annotation that was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_recheck: Option<String>,
}
