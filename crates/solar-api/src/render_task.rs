//! [`RenderTask`].

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::component_version::{Entrypoint, HelmResource, ResourceAccess};
use crate::schema;
use crate::shared::{JsonObject, LocalReference, ObjectReference};

/// One chart to render and push.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "solar.opendefense.cloud",
    version = "v1alpha1",
    kind = "RenderTask",
    namespaced,
    status = "RenderTaskStatus",
    derive = "PartialEq",
    shortname = "rt",
    category = "solar",
    doc = "One chart to render and push.",
    selectable = ".spec.ownerName",
    printcolumn(name = "Owner Kind", type_ = "string", json_path = ".spec.ownerKind"),
    printcolumn(name = "Owner Name", type_ = "string", json_path = ".spec.ownerName"),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.status==\"True\")].type"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self == oldSelf")
        .message("spec is immutable: delete the RenderTask and create another one")
)]
#[x_kube(
    validation = Rule::new("self.type == 'release' ? has(self.release) && !has(self.bootstrap) : has(self.bootstrap) && !has(self.release)")
        .message("spec.release is required with type release and spec.bootstrap with type bootstrap: set exactly the one that spec.type names")
)]
pub struct RenderTaskSpec {
    /// Which of `release` and `bootstrap` is set.
    #[serde(rename = "type")]
    pub type_: RenderTaskType,
    /// Input of a release chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleaseConfig>,
    /// Input of a bootstrap chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapConfig>,
    /// Repository below the host.
    #[schemars(length(min = 1, max = 1024))]
    pub repository: String,
    /// Tag to push to.
    #[schemars(length(min = 1, max = 128))]
    pub tag: String,
    /// Host of the registry.
    #[serde(rename = "baseURL")]
    #[schemars(length(min = 1, max = 300))]
    pub base_url: String,
    /// The Registry whose credentials push the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_ref: Option<ObjectReference>,
    /// Secret in this namespace with credentials, where no Registry is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_secret_ref: Option<LocalReference>,
    /// Whether the registry is spoken to over plain HTTP, where no Registry is named.
    #[serde(default, rename = "plainHTTP")]
    pub plain_http: bool,
    /// Accepted for compatibility; has no effect. Seconds.
    #[serde(default, rename = "failedJobTTL", skip_serializing_if = "Option::is_none")]
    pub failed_job_ttl: Option<i32>,
    /// Kind of the object that asked for the chart.
    #[schemars(length(max = 63))]
    pub owner_kind: String,
    /// Name of the object that asked for the chart.
    #[schemars(length(max = 253))]
    pub owner_name: String,
    /// Namespace of the object that asked for the chart.
    #[schemars(length(max = 63))]
    pub owner_namespace: String,
}

/// Which chart a RenderTask makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RenderTaskType {
    /// The chart of one release.
    Release,
    /// The chart that bundles a Target's release charts.
    Bootstrap,
}

/// Chart.yaml of the chart to make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartConfig {
    /// Name of the chart: the last segment of its repository.
    #[schemars(length(min = 1, max = 250))]
    pub name: String,
    /// What the chart is for.
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub description: String,
    /// Version of the chart: its tag.
    #[schemars(length(min = 1, max = 128))]
    pub version: String,
    /// Version of the application in the chart.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub app_version: String,
}

/// Everything that decides a release chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseConfig {
    /// Chart.yaml.
    pub chart: ChartConfig,
    /// The component and its resources.
    pub input: ReleaseInput,
    /// Namespace on the target cluster; empty means Flux's own.
    #[serde(default)]
    #[schemars(length(max = 63))]
    pub target_namespace: String,
    /// Helm values of the release.
    #[serde(default)]
    #[schemars(schema_with = "schema::any_object")]
    pub values: JsonObject,
}

/// The component of a release with its resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseInput {
    /// The component.
    pub component: LocalReference,
    /// Its resources with their pull secrets, by name.
    #[schemars(schema_with = "schema::bounded_map::<ResolvedResourceAccess>")]
    pub resources: BTreeMap<String, ResolvedResourceAccess>,
    /// The resource that is installed.
    pub entrypoint: Entrypoint,
}

/// A [`ResourceAccess`] and the pull secret that a target cluster needs for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedResourceAccess {
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
    /// Pull secret on the target cluster; absent means anonymous pull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub pull_secret_name: Option<String>,
}

impl ResolvedResourceAccess {
    /// `access` with the pull secret that serves its host; an empty name means anonymous.
    pub fn new(access: ResourceAccess, pull_secret_name: Option<String>) -> Self {
        Self {
            repository: access.repository,
            insecure: access.insecure,
            tag: access.tag,
            helm: access.helm,
            pull_secret_name: pull_secret_name.filter(|name| !name.is_empty()),
        }
    }

    /// The resource as its ComponentVersion names it, without the pull secret.
    pub fn access(&self) -> ResourceAccess {
        ResourceAccess {
            repository: self.repository.clone(),
            insecure: self.insecure,
            tag: self.tag.clone(),
            helm: self.helm.clone(),
        }
    }
}

/// Everything that decides a bootstrap chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapConfig {
    /// Chart.yaml.
    pub chart: ChartConfig,
    /// The rendered releases.
    pub input: BootstrapInput,
}

/// The rendered releases of a Target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapInput {
    /// Rendered release charts by unique name.
    #[schemars(schema_with = "schema::bounded_map::<BootstrapRelease>")]
    pub releases: BTreeMap<String, BootstrapRelease>,
    /// The Target's userdata.
    #[serde(default)]
    #[schemars(schema_with = "schema::any_object")]
    pub userdata: JsonObject,
}

/// A rendered release chart: where it was pushed, and its digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapRelease {
    /// Host and repository, without a tag.
    #[schemars(length(max = 1400))]
    pub repository: String,
    /// Whether the registry is spoken to over plain HTTP.
    #[serde(default)]
    pub insecure: bool,
    /// Tag of the chart.
    #[schemars(length(max = 256))]
    pub tag: String,
    /// Set for Helm charts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmResource>,
    /// Pull secret on the target cluster; absent means anonymous pull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub pull_secret_name: Option<String>,
    /// Digest of the chart's manifest (`sha256:...`).
    #[schemars(length(max = 256))]
    pub digest: String,
}

/// How far the chart is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenderTaskStatus {
    /// `JobSucceeded`, `JobFailed` and `JobScheduled`, stored in this order.
    #[serde(default)]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// `oci://` address of the pushed chart.
    #[serde(default, rename = "chartURL", skip_serializing_if = "Option::is_none")]
    pub chart_url: Option<String>,
    /// Digest of the pushed chart's manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Attempts that began, counted where a process may have died in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i32>,
    /// The last value of the render request annotation that was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_render_request: Option<String>,
}
