//! References between objects as they are written.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};
use solar_api::ObjectReference;
use solar_core::object::ObjectName;

use crate::adapters::kubernetes::Namespaced;

/// `name` as a reference from an object of namespace `own`.
pub fn reference(own: &str, name: &ObjectName) -> ObjectReference {
    ObjectReference {
        name: name.name.to_string(),
        namespace: (*name.namespace != *own).then(|| name.namespace.to_string()),
    }
}

/// The merge patch that makes the Registry of an object in the namespace `own` this one. Both fields are named, for one that
/// is not would stay as it is.
pub fn refer_to_registry(own: &str, name: &ObjectName) -> Value {
    let ObjectReference { name, namespace } = reference(own, name);
    json!({ "spec": { "registryRef": { "name": name, "namespace": namespace } } })
}

/// An ownerReference to the `K` of this name and uid, as the controller.
pub fn controlled_by<K: Namespaced>(owner: &ObjectName, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name.to_string(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
