//! Which references into another namespace hold.

use std::sync::Arc;

use solar_api as api;

use crate::record::GrantRecord;
use crate::world::{IndexKey, World};

/// Whether objects of `from_kind` in `from_namespace` may refer to objects of `to_kind` in `to_namespace`.
///
/// Both kinds are of this project's group. A reference inside a namespace always holds; any other needs a ReferenceGrant
/// in the namespace of the object that is referred to.
pub fn allowed(
    world: &World,
    from_kind: &str,
    from_namespace: &Arc<str>,
    to_kind: &str,
    to_namespace: &Arc<str>,
) -> bool {
    from_namespace == to_namespace
        || world
            .grants
            .by(&IndexKey::Namespace(to_namespace.clone()))
            .any(|grant| grant.allows(from_kind, from_namespace, to_kind))
}

impl GrantRecord {
    /// Whether it lets objects of `from_kind` in `from_namespace` refer to objects of `to_kind` in its own namespace.
    pub fn allows(&self, from_kind: &str, from_namespace: &str, to_kind: &str) -> bool {
        let from = self.from.iter().any(|from| {
            from.group == api::GROUP && from.kind == from_kind && from.namespace == from_namespace
        });
        from && self.to.iter().any(|to| to.group == api::GROUP && to.kind == to_kind)
    }
}
