//! [`Registry`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::shared::LocalReference;

/// An OCI registry: its host, the credentials to push with, and the pull secret that target clusters use.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "solar.opendefense.cloud",
    version = "v1alpha1",
    kind = "Registry",
    namespaced,
    status = "RegistryStatus",
    derive = "PartialEq",
    shortname = "reg",
    category = "solar",
    doc = "An OCI registry: its host, the credentials to push with, and the pull secret that target clusters use.",
    printcolumn(name = "Hostname", type_ = "string", json_path = ".spec.hostname"),
    printcolumn(name = "Plain HTTP", type_ = "boolean", json_path = ".spec.plainHTTP"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.webhookPath) || self.webhookPath == '' || (has(self.flavor) && self.flavor != '')")
        .message("spec.flavor is required with spec.webhookPath: set flavor to the kind of registry that sends the webhook, or remove webhookPath")
)]
pub struct RegistrySpec {
    /// Host, with its port where it is not the scheme's default.
    #[schemars(length(min = 1, max = 300))]
    pub hostname: String,
    /// Whether the registry is spoken to over plain HTTP.
    #[serde(default, rename = "plainHTTP")]
    pub plain_http: bool,
    /// Secret in this namespace with the credentials that this controller pushes with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solar_secret_ref: Option<LocalReference>,
    /// Name of the pull secret on the target clusters; empty or absent means anonymous pull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub target_pull_secret_name: Option<String>,
    /// The kind of registry that sends webhooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub flavor: Option<String>,
    /// Path on which webhooks of this registry arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub webhook_path: Option<String>,
    /// How often discovery scans the registry, as a Go duration such as `30m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"))]
    #[x_kube(
        validation = Rule::new("duration(self) > duration('0s')")
            .message("spec.scanInterval must be longer than zero: use a duration such as 30m, or remove the field")
    )]
    pub scan_interval: Option<String>,
}

/// What was observed of the registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryStatus {
    /// Conditions of the registry.
    #[serde(default)]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
