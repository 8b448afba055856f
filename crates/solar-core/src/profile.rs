//! Which ReleaseBindings Profiles want.
//!
//! A Profile's bindings are decided Target by Target, so that a label that changes costs work for its Target only.

use std::collections::{BTreeMap, BTreeSet};
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
use crate::target::EventOrder;
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
        /// Its Profile.
        profile: Meta,
        /// The binding.
        binding: Meta,
        /// The Release.
        release: ObjectName,
    },
    /// Delete the binding.
    Delete {
        /// Its Profile.
        profile: Meta,
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

impl BindingOrder {
    /// The Profile that the order is for.
    pub fn profile(&self) -> &Meta {
        match self {
            Self::Create { profile, .. }
            | Self::Correct { profile, .. }
            | Self::Delete { profile, .. }
            | Self::Collision { profile, .. } => profile,
        }
    }
}

/// Why the binding of a Target is not as its Profile wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// Another object has its name, as this sentence says with the mend.
    NameCollision(String),
    /// The API server will not do it, as this sentence says.
    Refused(String),
}

impl Hindrance {
    /// The collision of the binding of `target` with the object `with`.
    pub fn collision(target: &ObjectName, with: &ObjectName) -> Self {
        Self::NameCollision(format!(
            "ReleaseBinding {with} was not made by this Profile and has the name of its binding of Target {target}: \
             delete it, and the Profile makes its own"
        ))
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::NameCollision(_) => reason::NAME_COLLISION,
            Self::Refused(_) => reason::BINDING_REFUSED,
        }
    }

    fn sentence(&self) -> &str {
        match self {
            Self::NameCollision(sentence) | Self::Refused(sentence) => sentence,
        }
    }
}

/// What a Profile knows of what is in the way of its bindings.
#[derive(Debug, Default)]
pub struct Hindrances {
    /// What it was told, by Target.
    known: BTreeMap<ObjectName, Hindrance>,
    /// Targets whose bindings collide, which are told of first.
    collisions: BTreeSet<ObjectName>,
    /// Targets that may still be unbound, and of which nothing is known: an earlier process may have spoken of them. `None`:
    /// nobody has looked for any yet.
    unheard: Option<BTreeSet<ObjectName>>,
}

impl Hindrances {
    /// What is in the way of the binding of `target` now; `None`: nothing any more.
    pub fn hear(&mut self, target: ObjectName, hindrance: Option<Hindrance>) {
        self.collisions.remove(&target);
        let Some(hindrance) = hindrance else {
            let was_known = self.known.remove(&target).is_some();
            if let Some(unheard) = self.unheard.as_mut().filter(|_| was_known) {
                // Its binding may not be seen yet.
                unheard.insert(target);
            }
            return;
        };
        if let Some(unheard) = &mut self.unheard {
            unheard.remove(&target);
        }
        if matches!(hindrance, Hindrance::NameCollision(_)) {
            self.collisions.insert(target.clone());
        }
        self.known.insert(target, hindrance);
    }

    /// Finds out whether there are Targets to hear of: walks those that `profile` may select once, where the stored
    /// condition speaks of hindrances, and later looks at one after the other.
    pub fn look(&mut self, world: &World, profile: &ProfileRecord) {
        let known = &self.known;
        let unheard = self.unheard.get_or_insert_with(|| match said_before(profile) {
            Some(_) => unbound(world, profile).filter(|name| !known.contains_key(name)).collect(),
            None => BTreeSet::new(),
        });
        while unheard.first().is_some_and(|name| !is_unbound(world, profile, name)) {
            unheard.pop_first();
        }
    }

    /// Those whose binding collided, by what was told last, and collides with nothing any more: they are to look again.
    pub fn freed(&self, world: &World, profile: &ProfileRecord) -> Vec<ObjectName> {
        let is_taken = |target: &ObjectName| {
            let binding = world.release_bindings.get(&binding_name(profile, target));
            binding.is_some_and(|binding| !is_of(binding, profile))
        };
        self.collisions.iter().filter(|target| !is_taken(target)).cloned().collect()
    }

    /// The one that is told of, and how many others there are: a collision first, and the Target of the lowest name.
    fn first(&self) -> Option<(&Hindrance, usize)> {
        let target = self.collisions.first().or_else(|| self.known.keys().next())?;
        Some((self.known.get(target)?, self.known.len() - 1))
    }
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
        if let Some(profile) = who_does_not_want(world, binding, name) {
            orders
                .push(BindingOrder::Delete { profile: profile.meta.clone(), binding: binding.meta.clone() });
        }
    }
    orders
}

fn binding_name(profile: &ProfileRecord, target: &ObjectName) -> ObjectName {
    let name = &profile.meta.name;
    name.sibling(names::profile_binding(&name.name, &profile.meta.uid, target))
}

/// Whether `profile` has made `binding`.
fn is_of(binding: &ReleaseBindingRecord, profile: &ProfileRecord) -> bool {
    binding.profile() == Some((profile.meta.name.clone(), &profile.meta.uid))
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
    if !is_of(binding, profile) {
        return Some(BindingOrder::Collision { profile: profile.meta.clone(), with: name.clone() });
    }
    let is_right = binding.target == *target && binding.release == profile.release;
    (may_bind && !is_right && !binding.meta.terminating).then(|| BindingOrder::Correct {
        profile: profile.meta.clone(),
        binding: binding.meta.clone(),
        release: profile.release.clone(),
    })
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
        && is_of(binding, profile)
        && !binding.meta.terminating
        && selector::validate(&profile.selector).is_ok();
    is_astray.then(|| BindingOrder::Delete { profile: profile.meta.clone(), binding: binding.meta.clone() })
}

/// The Profile that has made `binding` for `target` and does not want it any more. A selector that cannot be asked
/// takes nothing away. What somebody pointed at another Target is left to the one that its name was made for.
fn who_does_not_want<'a>(
    world: &'a World,
    binding: &ReleaseBindingRecord,
    target: &ObjectName,
) -> Option<&'a ProfileRecord> {
    let (name, uid) = binding.profile()?;
    // Where the Profile is gone, so is the binding soon, by its owner reference.
    let profile = world.profiles.get(&name).filter(|profile| *profile.meta.uid == *uid)?;
    let is_unwanted = profile.meta.terminating
        || (selector::validate(&profile.selector).is_ok()
            && binding_name(profile, target) == binding.meta.name);
    is_unwanted.then_some(&**profile)
}

/// The status that follows; `None` when it is the stored one.
pub fn status(
    world: &World,
    profile: &ProfileRecord,
    hindrances: &Hindrances,
    now: Timestamp,
) -> Option<api::ProfileStatus> {
    let stored = profile.status.get();
    let ready = ready(world, profile, hindrances);
    let conditions = condition::updated(&stored.conditions, &[ready], profile.meta.generation, now);
    let bound = world.release_bindings.count(&IndexKey::Profile(profile.meta.name.clone()));
    let matched_targets = i64::try_from(bound).unwrap_or(i64::MAX);
    if conditions.is_none() && matched_targets == stored.matched_targets {
        return None;
    }
    let conditions = conditions.unwrap_or(stored.conditions);
    Some(api::ProfileStatus { matched_targets, conditions })
}

fn ready(world: &World, profile: &ProfileRecord, hindrances: &Hindrances) -> Wanted {
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
    if let Some(wanted) = hindered(profile, hindrances) {
        return wanted;
    }
    let message = format!("The selected Targets are bound to Release {}", profile.release);
    Wanted::yes(reason::TYPE, reason::BOUND, message)
}

/// What is said of hindrances.
fn hindered(profile: &ProfileRecord, hindrances: &Hindrances) -> Option<Wanted> {
    let is_complete = hindrances.unheard.as_ref().is_none_or(BTreeSet::is_empty);
    if let Some(before) = said_before(profile).filter(|_| !is_complete) {
        return Some(before);
    }
    let (first, more) = hindrances.first()?;
    let message = match more {
        0 => first.sentence().to_owned(),
        1 => format!("{}; so it is with one more Target", first.sentence()),
        more => format!("{}; so it is with {more} more Targets", first.sentence()),
    };
    Some(Wanted::no(reason::TYPE, first.reason(), message))
}

/// What the stored condition says of hindrances.
fn said_before(profile: &ProfileRecord) -> Option<Wanted> {
    let status = profile.status.get();
    let stored = condition::find(&status.conditions, reason::TYPE)?;
    let known = [reason::NAME_COLLISION, reason::BINDING_REFUSED]
        .into_iter()
        .find(|known| stored.reason == *known)?;
    Some(Wanted::no(reason::TYPE, known, stored.message.clone()))
}

/// Whether the stored condition of `profile` speaks of hindrances.
pub fn is_said_to_be_hindered(profile: &ProfileRecord) -> bool {
    said_before(profile).is_some()
}

/// The Targets of whose bindings to `profile` something is still to be done. Walks those that it may select.
fn unbound(world: &World, profile: &ProfileRecord) -> impl Iterator<Item = ObjectName> {
    let targets = scope(world, &profile.meta.name.namespace).into_iter();
    let targets = targets.flat_map(|namespace| world.targets.by(&IndexKey::Namespace(namespace)));
    targets.filter(|target| wants_work(world, profile, target)).map(|target| target.meta.name.clone())
}

/// Whether something about the binding of the Target of `name` to `profile` is still to be done.
fn is_unbound(world: &World, profile: &ProfileRecord, name: &ObjectName) -> bool {
    world.targets.get(name).is_some_and(|target| wants_work(world, profile, target))
        && scope(world, &profile.meta.name.namespace).contains(&name.namespace)
}

fn wants_work(world: &World, profile: &ProfileRecord, target: &Arc<TargetRecord>) -> bool {
    let name = &target.meta.name;
    selects(profile, Some(target))
        && wanted(world, profile, name, Some(target), &binding_name(profile, name)).is_some()
}

/// The warning that a status which follows `stored` is worth.
pub fn warning(stored: &api::ProfileStatus, status: &api::ProfileStatus) -> Option<EventOrder> {
    let ready = condition::find(&status.conditions, reason::TYPE)?;
    let before = condition::find(&stored.conditions, reason::TYPE);
    let is_told =
        before.is_some_and(|before| before.reason == ready.reason && before.message == ready.message);
    let is_collision = ready.reason == reason::NAME_COLLISION && !is_told;
    is_collision.then(|| EventOrder {
        warning: true,
        reason: reason::NAME_COLLISION,
        note: condition::fit_text(&ready.message, condition::MAX_NOTE),
    })
}
