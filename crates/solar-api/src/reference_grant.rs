//! [`ReferenceGrant`].

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// Allows objects of other namespaces to refer to objects of this one.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "solar.opendefense.cloud",
    version = "v1alpha1",
    kind = "ReferenceGrant",
    namespaced,
    derive = "PartialEq",
    shortname = "rg",
    category = "solar",
    doc = "Allows objects of other namespaces to refer to objects of this one.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceGrantSpec {
    /// Who may refer.
    #[schemars(length(min = 1, max = 256))]
    pub from: Vec<GrantFrom>,
    /// What may be referred to.
    #[schemars(length(min = 1, max = 256))]
    pub to: Vec<GrantTo>,
}

/// Kinds of a namespace that may refer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct GrantFrom {
    /// API group of the referrer.
    #[schemars(length(max = 253))]
    pub group: String,
    /// Kind of the referrer.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Namespace of the referrer.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
}

/// A kind in this namespace that may be referred to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct GrantTo {
    /// API group of the object.
    #[schemars(length(max = 253))]
    pub group: String,
    /// Kind of the object.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
}
