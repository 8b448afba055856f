//! Whether the render registry can be used.

use std::sync::Arc;

use solar_api::conditions::registry_resolved as reason;
use solar_api::names::REGISTRY_REF_FINALIZER;

use super::view::View;
use crate::condition::Wanted;
use crate::grant;
use crate::host;
use crate::object::ObjectName;
use crate::record::RegistryRecord;

/// What is known of the render registry.
pub(super) struct RenderRegistry {
    /// The Registry, when charts can be pushed there.
    pub(super) usable: Option<Arc<RegistryRecord>>,
    /// The Registry that has to be protected first.
    pub(super) protect: Option<ObjectName>,
    /// `RegistryResolved`.
    pub(super) condition: Wanted,
}

impl RenderRegistry {
    fn unusable(reason: &'static str, message: String) -> Self {
        Self { usable: None, protect: None, condition: Wanted::no(reason::TYPE, reason, message) }
    }
}

pub(super) fn resolve(view: &View<'_>) -> RenderRegistry {
    let name = &view.target.registry;
    let own = &view.name().namespace;
    // Grants of a namespace that is not watched are not seen either, so this comes first.
    if !view.watches(&name.namespace) {
        let message = format!(
            "The namespace of Registry {name} is not watched: add it to --watch-namespace, or name a Registry of another one"
        );
        return RenderRegistry::unusable(reason::NOT_WATCHED, message);
    }
    if !grant::allowed(view.world, "Target", own, "Registry", &name.namespace) {
        let message = format!(
            "Namespace {} does not grant Targets of namespace {own} its Registry {}: create a ReferenceGrant there from Target to Registry",
            name.namespace, name.name
        );
        return RenderRegistry::unusable(reason::NOT_GRANTED, message);
    }
    match view.world.registries.get(name) {
        None => {
            let message =
                format!("Registry {name} does not exist: create it, or correct spec.renderRegistryRef");
            RenderRegistry::unusable(reason::NOT_FOUND, message)
        }
        Some(registry) if !registry.meta.can_be_depended_on(REGISTRY_REF_FINALIZER) => {
            let message = format!("Registry {name} is being deleted: create it again, or name another one");
            RenderRegistry::unusable(reason::NOT_FOUND, message)
        }
        Some(registry) => existing(registry),
    }
}

fn existing(registry: &Arc<RegistryRecord>) -> RenderRegistry {
    let name = &registry.meta.name;
    let protect = (!registry.meta.has_finalizer(REGISTRY_REF_FINALIZER)).then(|| name.clone());
    if let Err(problem) = host::is_valid(&registry.host) {
        let message = format!("The hostname of Registry {name} is not valid: {problem}");
        return RenderRegistry { protect, ..RenderRegistry::unusable(reason::INVALID_HOSTNAME, message) };
    }
    if registry.solar_secret.is_none() {
        let message = format!(
            "Registry {name} has no push credentials: set its spec.solarSecretRef to a Secret in its namespace"
        );
        return RenderRegistry {
            protect,
            ..RenderRegistry::unusable(reason::MISSING_SOLAR_SECRET_REF, message)
        };
    }
    let message = format!("Charts are pushed to Registry {name} ({})", registry.host);
    let condition = Wanted::yes(reason::TYPE, reason::RESOLVED, message);
    RenderRegistry { usable: Some(registry.clone()), protect, condition }
}
