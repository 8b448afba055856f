//! Whether a ReleaseBinding or a RegistryBinding has an effect, and why not.

use std::sync::Arc;

use solar_api::conditions::{registry_resolved, release_resolved, target_resolved};
use solar_api::names::{REGISTRY_REF_FINALIZER, RELEASE_REF_FINALIZER};

use crate::condition::Wanted;
use crate::grant;
use crate::object::{Meta, ObjectName};
use crate::record::{RegistryBindingRecord, ReleaseBindingRecord};
use crate::world::World;

/// The conditions of a ReleaseBinding. `watched` are the only namespaces that are looked at, `None` stands for all.
pub fn of_release(
    world: &World,
    binding: &ReleaseBindingRecord,
    watched: Option<&[Arc<str>]>,
) -> [Wanted; 2] {
    let release = world.releases.get(&binding.release).map(|release| &release.meta);
    let usable = release.is_some_and(|meta| meta.can_be_depended_on(RELEASE_REF_FINALIZER));
    let condition = if usable {
        Wanted::yes(
            release_resolved::TYPE,
            release_resolved::RESOLVED,
            format!("Release {} was found", binding.release),
        )
    } else {
        Wanted::no(
            release_resolved::TYPE,
            release_resolved::NOT_FOUND,
            absent("Release", &binding.release, release, "spec.releaseRef"),
        )
    };
    [target(world, "ReleaseBinding", &binding.meta.name, &binding.target, watched), condition]
}

/// The conditions of a RegistryBinding. `watched` are the only namespaces that are looked at, `None` stands for all.
pub fn of_registry(
    world: &World,
    binding: &RegistryBindingRecord,
    watched: Option<&[Arc<str>]>,
) -> [Wanted; 2] {
    let registry = world.registries.get(&binding.registry);
    let meta = registry.map(|registry| &registry.meta);
    let usable = registry.filter(|registry| registry.meta.can_be_depended_on(REGISTRY_REF_FINALIZER));
    let condition = match usable {
        Some(registry) => {
            let secret = registry.target_pull_secret.as_deref();
            let how = secret.map_or_else(
                || "anonymously, for it names no targetPullSecretName".to_owned(),
                |secret| format!("with the Secret {secret} of the target cluster"),
            );
            let message = format!("Charts and images of {} are pulled {how}", registry.host);
            Wanted::yes(registry_resolved::TYPE, registry_resolved::RESOLVED, message)
        }
        None => Wanted::no(
            registry_resolved::TYPE,
            registry_resolved::NOT_FOUND,
            absent("Registry", &binding.registry, meta, "spec.registryRef"),
        ),
    };
    [target(world, "RegistryBinding", &binding.meta.name, &binding.target, watched), condition]
}

fn absent(kind: &str, name: &ObjectName, meta: Option<&Meta>, field: &str) -> String {
    match meta {
        Some(_) => format!("{kind} {name} is being deleted: create it again, or name another one in {field}"),
        None => format!("{kind} {name} does not exist: create it, or correct {field}"),
    }
}

fn target(
    world: &World,
    kind: &str,
    binding: &ObjectName,
    target: &ObjectName,
    watched: Option<&[Arc<str>]>,
) -> Wanted {
    use target_resolved::{NOT_FOUND, NOT_GRANTED, NOT_WATCHED, RESOLVED, TYPE};
    let (own, theirs) = (&binding.namespace, &target.namespace);
    // Grants of a namespace that is not watched are not seen either, so this comes first.
    if watched.is_some_and(|watched| !watched.contains(theirs)) {
        let message = format!(
            "The namespace of Target {target} is not watched: add it to --watch-namespace, or bind a Target of another one"
        );
        return Wanted::no(TYPE, NOT_WATCHED, message);
    }
    if !grant::allowed(world, kind, own, "Target", theirs) {
        let message = format!(
            "Namespace {theirs} does not let {kind}s of namespace {own} refer to its Targets: create a ReferenceGrant there from {kind} to Target"
        );
        return Wanted::no(TYPE, NOT_GRANTED, message);
    }
    if world.targets.get(target).is_none() {
        let message = format!("Target {target} does not exist: create it, or correct spec.targetRef");
        return Wanted::no(TYPE, NOT_FOUND, message);
    }
    Wanted::yes(TYPE, RESOLVED, format!("Target {target} was found"))
}
