//! Which ReleaseBindings Profiles want.
//!
//! A Profile's bindings are decided Target by Target, so that a label that changes costs work for its Target only.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use solar_api as api;
use solar_api::conditions::profile_ready as reason;
use solar_api::names::{PROFILE_FINALIZER, RELEASE_REF_FINALIZER};

use crate::condition::{self, Wanted};
use crate::names;
use crate::object::{Meta, ObjectName};
use crate::record::{GrantRecord, ProfileRecord, ReleaseBindingRecord, TargetRecord};
use crate::selector;
use crate::world::{IndexKey, World};

/// What is to be done for one Target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingOrder {
    /// Make a binding.
    Create {
        /// Its Profile, which owns it.
        profile: Meta,
        /// Its name, in the Profile's namespace.
        name: String,
        /// The Release that it binds.
        release: ObjectName,
    },
    /// Let the binding name this Release and the Target again.
    Correct {
        /// The binding.
        binding: Meta,
        /// The Release.
        release: ObjectName,
    },
    /// Delete the binding.
    Delete {
        /// The binding.
        binding: Meta,
    },
    /// Tell people that somebody else's object has the name that is needed.
    Collision {
        /// The Profile.
        profile: Meta,
        /// The object.
        with: ObjectName,
    },
}

/// The namespaces whose Targets the Profiles of `namespace` may select: their own, and those that grant it.
pub fn scope(world: &World, namespace: &Arc<str>) -> BTreeSet<Arc<str>> {
    let granting = world.grants.by(&IndexKey::From(namespace.clone()));
    let granting = granting.filter(|grant| grants(grant, namespace));
    granting.map(|grant| grant.meta.name.namespace.clone()).chain([namespace.clone()]).collect()
}

/// The Profiles that may select the Targets of `namespace`.
pub fn over<'a>(world: &'a World, namespace: &Arc<str>) -> impl Iterator<Item = &'a Arc<ProfileRecord>> {
    let mut from = BTreeSet::from([namespace.clone()]);
    for grant in world.grants.by(&IndexKey::Namespace(namespace.clone())) {
        from.extend(
            grant
                .from
                .iter()
                .map(|from| Arc::from(from.namespace.as_str()))
                .filter(|from| grants(grant, from)),
        );
    }
    from.into_iter().flat_map(|from| world.profiles.by(&IndexKey::Namespace(from)))
}

/// Whether `grant` lets Profiles of `namespace` select Targets.
fn grants(grant: &GrantRecord, namespace: &str) -> bool {
    grant.allows("Profile", namespace, "Target")
}

/// Whether `profile` selects a Target with the labels of `target`; no selector that cannot be asked selects anything.
pub fn selects(profile: &ProfileRecord, target: Option<&TargetRecord>) -> bool {
    target.is_some_and(|target| selector::matches(&profile.selector, &target.labels) == Ok(true))
}

/// What the bindings of all Profiles to the Target of `name` need, whether it exists or not.
pub fn decide(world: &World, name: &ObjectName) -> Vec<BindingOrder> {
    let target = world.targets.get(name);
    let mut orders = Vec::new();
    let mut settled = BTreeSet::new();
    for profile in over(world, &name.namespace).filter(|profile| !profile.meta.terminating) {
        let binding = binding_name(profile, name);
        if target.is_none() || !selects(profile, target.map(AsRef::as_ref)) {
            // One that was made for this Target, and that somebody pointed at another, is found by its name only.
            orders.extend(astray(world, profile, name, &binding));
            continue;
        }
        orders.extend(wanted(world, profile, name, target, &binding));
        settled.insert(binding);
    }
    let bindings = world.release_bindings.by(&IndexKey::Target(name.clone()));
    for binding in
        bindings.filter(|binding| !binding.meta.terminating && !settled.contains(&binding.meta.name))
    {
        if is_unwanted(world, binding, name) {
            orders.push(BindingOrder::Delete { binding: binding.meta.clone() });
        }
    }
    orders
}

fn binding_name(profile: &ProfileRecord, target: &ObjectName) -> ObjectName {
    let name = &profile.meta.name;
    name.sibling(names::profile_binding(&name.name, &profile.meta.uid, target))
}

/// What a Target that `profile` selects needs.
fn wanted(
    world: &World,
    profile: &ProfileRecord,
    target: &ObjectName,
    record: Option<&Arc<TargetRecord>>,
    name: &ObjectName,
) -> Option<BindingOrder> {
    // The Profile holds the Release first, and itself: then nothing that it has made can be forgotten.
    let release = world.releases.get(&profile.release);
    let may_bind = profile.meta.has_finalizer(PROFILE_FINALIZER)
        && release.is_some_and(|release| release.meta.has_finalizer(RELEASE_REF_FINALIZER));
    let Some(binding) = world.release_bindings.get(name) else {
        let is_staying = record.is_some_and(|target| !target.meta.terminating);
        return (may_bind && is_staying).then(|| BindingOrder::Create {
            profile: profile.meta.clone(),
            name: name.name.to_string(),
            release: profile.release.clone(),
        });
    };
    if binding.profile() != Some((profile.meta.name.clone(), &profile.meta.uid)) {
        return Some(BindingOrder::Collision { profile: profile.meta.clone(), with: name.clone() });
    }
    let is_right = binding.target == *target && binding.release == profile.release;
    (may_bind && !is_right && !binding.meta.terminating)
        .then(|| BindingOrder::Correct { binding: binding.meta.clone(), release: profile.release.clone() })
}

/// The deletion of a binding that `profile` has made for `target`, which it does not select, and that names another one.
fn astray(
    world: &World,
    profile: &ProfileRecord,
    target: &ObjectName,
    name: &ObjectName,
) -> Option<BindingOrder> {
    let binding = world.release_bindings.get(name)?;
    let is_astray = binding.target != *target
        && binding.profile() == Some((profile.meta.name.clone(), &profile.meta.uid))
        && !binding.meta.terminating
        && selector::validate(&profile.selector).is_ok();
    is_astray.then(|| BindingOrder::Delete { binding: binding.meta.clone() })
}

/// Whether a Profile has made `binding` for `target` and does not want it any more. A selector that cannot be asked
/// takes nothing away. What somebody pointed at another Target is left to the one that its name was made for.
fn is_unwanted(world: &World, binding: &ReleaseBindingRecord, target: &ObjectName) -> bool {
    let Some((name, uid)) = binding.profile() else { return false };
    // Where the Profile is gone, so is the binding soon, by its owner reference.
    let Some(profile) = world.profiles.get(&name).filter(|profile| *profile.meta.uid == *uid) else {
        return false;
    };
    profile.meta.terminating
        || (selector::validate(&profile.selector).is_ok()
            && binding_name(profile, target) == binding.meta.name)
}

/// The status that follows; `None` when it is the stored one.
pub fn status(world: &World, profile: &ProfileRecord, now: Timestamp) -> Option<api::ProfileStatus> {
    let stored = &profile.status;
    let conditions =
        condition::updated(&stored.conditions, &[ready(world, profile)], profile.meta.generation, now);
    let bound = world.release_bindings.count(&IndexKey::Profile(profile.meta.name.clone()));
    let matched_targets = i64::try_from(bound).unwrap_or(i64::MAX);
    if conditions.is_none() && matched_targets == stored.matched_targets {
        return None;
    }
    let conditions = conditions.unwrap_or_else(|| stored.conditions.clone());
    Some(api::ProfileStatus { matched_targets, conditions })
}

fn ready(world: &World, profile: &ProfileRecord) -> Wanted {
    if let Err(error) = selector::validate(&profile.selector) {
        let message = format!(
            "spec.targetSelector.{error}; the Targets that are bound stay bound, and no other is until it is corrected"
        );
        return Wanted::no(reason::TYPE, reason::INVALID_SELECTOR, message);
    }
    let release = world.releases.get(&profile.release);
    if !release.is_some_and(|release| release.meta.can_be_depended_on(RELEASE_REF_FINALIZER)) {
        let message = format!(
            "Release {} does not exist: create it, or correct spec.releaseRef; until then no Target is bound to it",
            profile.release
        );
        return Wanted::no(reason::TYPE, reason::RELEASE_NOT_FOUND, message);
    }
    let message = format!("The selected Targets are bound to Release {}", profile.release);
    Wanted::yes(reason::TYPE, reason::BOUND, message)
}
