//! Types that more than one kind uses.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A JSON object whose keys the schema does not know: kept as the user wrote it.
pub type JsonObject = Map<String, Value>;

/// Names an object, in the referrer's own namespace unless `namespace` says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the object; empty or absent means the referrer's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
}

impl ObjectReference {
    /// The namespace meant by this reference when it stands in an object of namespace `own`.
    pub fn namespace_or<'a>(&'a self, own: &'a str) -> &'a str {
        match self.namespace.as_deref() {
            None | Some("") => own,
            Some(namespace) => namespace,
        }
    }
}

/// Names an object in the referrer's own namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, KubeSchema)]
pub struct LocalReference {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}
