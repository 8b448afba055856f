//! [`Profile`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::shared::{JsonObject, LocalReference};

/// Binds a Release to every Target whose labels match.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "solar.opendefense.cloud",
    version = "v1alpha1",
    kind = "Profile",
    namespaced,
    status = "ProfileStatus",
    derive = "PartialEq",
    shortname = "prf",
    category = "solar",
    doc = "Binds a Release to every Target whose labels match.",
    selectable = ".spec.releaseRef.name",
    printcolumn(name = "Release", type_ = "string", json_path = ".spec.releaseRef.name"),
    printcolumn(name = "Matched", type_ = "integer", json_path = ".status.matchedTargets"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ProfileSpec {
    /// The Release, in this namespace.
    pub release_ref: LocalReference,
    /// Which Targets are bound.
    pub target_selector: LabelSelector,
    /// Data for whoever reads the Profile; not used here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_object")]
    pub userdata: Option<JsonObject>,
}

/// What the Profile binds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileStatus {
    /// How many Targets match.
    #[serde(default)]
    pub matched_targets: i64,
    /// Conditions of the Profile.
    #[serde(default)]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
