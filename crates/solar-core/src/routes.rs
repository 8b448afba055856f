//! Who is concerned by a change: the old and the new side of every reference, each found through an index.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::object::{Meta, ObjectName};
use solar_api::names::{PROFILE_FINALIZER, RELEASE_REF_FINALIZER};

use crate::profile;
use crate::protection::Protected;
use crate::record::{
    ComponentRecord, ComponentVersionRecord, GrantRecord, ProfileRecord, RegistryBindingRecord,
    RegistryRecord, ReleaseBindingRecord, ReleaseRecord, RenderArtifactRecord, RenderBindingRecord,
    RenderTaskRecord, TargetRecord,
};
use crate::world::{IndexKey, Kept, Record, World};

/// The kind of an actor that stands for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorKind(pub &'static str);

/// Actors of Targets.
pub const TARGET: ActorKind = ActorKind("Target");
/// Actors of RenderTasks.
pub const RENDER_TASK: ActorKind = ActorKind("RenderTask");
/// Actors of RenderArtifacts.
pub const RENDER_ARTIFACT: ActorKind = ActorKind("RenderArtifact");
/// Actors of Releases.
pub const RELEASE: ActorKind = ActorKind("Release");
/// Actors of ReleaseBindings.
pub const RELEASE_BINDING: ActorKind = ActorKind("ReleaseBinding");
/// Actors of RegistryBindings.
pub const REGISTRY_BINDING: ActorKind = ActorKind("RegistryBinding");
/// Actors of Profiles.
pub const PROFILE: ActorKind = ActorKind("Profile");
/// Actors that keep, for one Target each, the ReleaseBindings that Profiles want.
pub const PROFILE_BINDINGS: ActorKind = ActorKind("ProfileBindings");
/// Actors of ComponentVersions.
pub const COMPONENT_VERSION: ActorKind = ActorKind("ComponentVersion");
/// Protection of Registries.
pub const REGISTRY_PROTECTION: ActorKind = ActorKind("RegistryProtection");
/// Protection of Releases.
pub const RELEASE_PROTECTION: ActorKind = ActorKind("ReleaseProtection");
/// Protection of ComponentVersions.
pub const COMPONENT_VERSION_PROTECTION: ActorKind = ActorKind("ComponentVersionProtection");
/// Protection of Components.
pub const COMPONENT_PROTECTION: ActorKind = ActorKind("ComponentProtection");

impl Protected {
    /// The actors that decide for this kind.
    pub fn actor_kind(self) -> ActorKind {
        match self {
            Self::Registry => REGISTRY_PROTECTION,
            Self::Release => RELEASE_PROTECTION,
            Self::ComponentVersion => COMPONENT_VERSION_PROTECTION,
            Self::Component => COMPONENT_PROTECTION,
        }
    }
}

/// Names one actor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorKey {
    /// Its kind.
    pub kind: ActorKind,
    /// Its object.
    pub object: ObjectName,
}

impl ActorKey {
    /// The actor of `kind` for `object`.
    pub fn new(kind: ActorKind, object: ObjectName) -> Self {
        Self { kind, object }
    }
}

impl std::fmt::Display for ActorKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.0, self.object)
    }
}

/// Those to wake, in one order.
pub type Concerned = BTreeSet<ActorKey>;

/// A record whose changes concern actors.
pub trait Routed: Kept {
    /// Adds whoever is concerned by the change from `old` to `new`; `world` holds the new state.
    fn concerned(world: &World, old: Option<&Self>, new: Option<&Self>, to: &mut Concerned);

    /// The kind of the actor that keeps the object's status and puts it right when somebody else wrote it.
    const KEEPER: Option<ActorKind> = None;

    /// Whether both have the same status.
    fn has_status_of(&self, _other: &Self) -> bool {
        true
    }

    /// Called once before a record enters the world, `live` when the watch told of a change and not of a list.
    fn entering(&mut self, _old: Option<&Self>, _live: bool) {}
}

/// The actor that keeps the status of an object which changed from `old` to `new`, where the status is another.
pub fn keeper_of_status<R: Routed>(old: Option<&R>, new: &R) -> Option<ActorKey> {
    let old = old.filter(|old| old.meta().uid == new.meta().uid && !new.has_status_of(old))?;
    R::KEEPER.map(|kind| ActorKey::new(kind, old.meta().name.clone()))
}

fn add(to: &mut Concerned, kind: ActorKind, object: &ObjectName) {
    to.insert(ActorKey::new(kind, object.clone()));
}

/// Adds the protection of what `of` names, on both sides, when the reference or the referrer's existence changed.
fn protect<R: Record>(
    to: &mut Concerned,
    kind: Protected,
    old: Option<&R>,
    new: Option<&R>,
    of: impl Fn(&R) -> Option<ObjectName>,
) {
    let (before, after) = (old.and_then(&of), new.and_then(&of));
    if before == after && old.is_some() == new.is_some() {
        return;
    }
    for name in before.iter().chain(&after) {
        add(to, kind.actor_kind(), name);
    }
}

/// Whether a change is anything but a status or a finalizer that was added.
fn touched(old: Option<&Meta>, new: Option<&Meta>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => {
            old.uid != new.uid
                || old.generation != new.generation
                || old.terminating != new.terminating
                || old.finalizers.iter().any(|finalizer| !new.has_finalizer(finalizer))
        }
        _ => true,
    }
}

/// Whether the existence or identity of an object changed for those who refer to it.
fn appeared_or_went(old: Option<&Meta>, new: Option<&Meta>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => old.uid != new.uid || old.terminating != new.terminating,
        _ => true,
    }
}

impl Routed for TargetRecord {
    const KEEPER: Option<ActorKind> = Some(TARGET);

    fn has_status_of(&self, other: &Self) -> bool {
        self.status == other.status
    }

    fn concerned(world: &World, old: Option<&Self>, new: Option<&Self>, to: &mut Concerned) {
        let Some(name) = old.or(new).map(|target| target.meta.name.clone()) else { return };
        let metas = (old.map(|t| &t.meta), new.map(|t| &t.meta));
        let annotated = |target: &Self| {
            (target.suspended, target.reconcile_request.clone(), target.render_request.clone())
        };
        if touched(metas.0, metas.1)
            || old.map(|t| &t.labels) != new.map(|t| &t.labels)
            || old.map(annotated) != new.map(annotated)
        {
            add(to, TARGET, &name);
        }
        protect(to, Protected::Registry, old, new, |target| Some(target.registry.clone()));
        if appeared_or_went(metas.0, metas.1) {
            for binding in world.render_bindings.by(&IndexKey::Owner(name.clone())) {
                add(to, RENDER_ARTIFACT, &binding.artifact);
            }
            let key = IndexKey::Target(name.clone());
            for binding in world.release_bindings.by(&key) {
                add(to, RELEASE_BINDING, &binding.meta.name);
                if binding.profile().is_some() {
                    add(to, PROFILE_BINDINGS, &name);
                }
            }
            for binding in world.registry_bindings.by(&key) {
                add(to, REGISTRY_BINDING, &binding.meta.name);
            }
        }
        if appeared_or_went(metas.0, metas.1) || old.map(|t| &t.labels) != new.map(|t| &t.labels) {
            let is_news = |profile: &&Arc<ProfileRecord>| {
                profile::selects(profile, old) != profile::selects(profile, new)
            };
            for profile in profile::over(world, &name.namespace).filter(is_news) {
                add(to, PROFILE_BINDINGS, &name);
                hindered_profile(profile, to);
            }
        }
    }
}

/// The namespace in which a name has become free.
fn freed<'a>(old: Option<&'a Meta>, new: Option<&Meta>) -> Option<&'a Arc<str>> {
    let gone = old.filter(|old| new.is_none_or(|new| new.uid != old.uid))?;
    Some(&gone.name.namespace)
}

/// Those of whom the name may be that has become free: what an object was in the way of stands in nothing but its name.
fn hindered_targets(world: &World, old: Option<&Meta>, new: Option<&Meta>, to: &mut Concerned) {
    let Some(namespace) = freed(old, new) else { return };
    for target in world.targets.by(&IndexKey::Hindered(namespace.clone())) {
        add(to, TARGET, &target.meta.name);
    }
}

/// A Profile that says that something is in the way of bindings may wait to hear of a Target that is none of its any more.
fn hindered_profile(profile: &ProfileRecord, to: &mut Concerned) {
    if profile::is_said_to_be_hindered(profile) {
        add(to, PROFILE, &profile.meta.name);
    }
}

/// Everything that `profile` has bound or may bind.
fn targets_of_profile(world: &World, profile: &ProfileRecord, to: &mut Concerned) {
    for namespace in profile::scope(world, &profile.meta.name.namespace) {
        for target in world.targets.by(&IndexKey::Namespace(namespace)) {
            add(to, PROFILE_BINDINGS, &target.meta.name);
        }
    }
    for binding in world.release_bindings.by(&IndexKey::Profile(profile.meta.name.clone())) {
        add(to, PROFILE_BINDINGS, &binding.target);
    }
}

/// Whether a finalizer came or went.
fn held_changed(old: Option<&Meta>, new: Option<&Meta>, finalizer: &str) -> bool {
    let held = |meta: Option<&Meta>| meta.is_some_and(|meta| meta.has_finalizer(finalizer));
    held(old) != held(new)
}

impl Routed for ReleaseBindingRecord {
    const KEEPER: Option<ActorKind> = Some(RELEASE_BINDING);

    fn has_status_of(&self, other: &Self) -> bool {
        self.conditions == other.conditions
    }

    fn concerned(world: &World, old: Option<&Self>, new: Option<&Self>, to: &mut Concerned) {
        let metas = (old.map(|b| &b.meta), new.map(|b| &b.meta));
        let touched = touched(metas.0, metas.1);
        if let Some(namespace) = freed(metas.0, metas.1) {
            for profile in world.profiles.by(&IndexKey::Hindered(namespace.clone())) {
                add(to, PROFILE, &profile.meta.name);
            }
        }
        if touched {
            for binding in old.iter().chain(&new) {
                add(to, TARGET, &binding.target);
                add(to, RELEASE_BINDING, &binding.meta.name);
            }
        }
        if touched || old.and_then(Self::profile) != new.and_then(Self::profile) {
            for binding in old.iter().chain(&new) {
                if let Some((profile, _)) = binding.profile() {
                    add(to, PROFILE, &profile);
                    // Also one that has just been made: what it was made for may be otherwise by now, and whoever was
                    // told of that did not see it yet.
                    add(to, PROFILE_BINDINGS, &binding.target);
                }
            }
        }
        protect(to, Protected::Release, old, new, |binding| Some(binding.release.clone()));
    }
}

impl Routed for ReleaseRecord {
    const KEEPER: Option<ActorKind> = Some(RELEASE);

    fn has_status_of(&self, other: &Self) -> bool {
        self.status == other.status
    }

    fn concerned(world: &World, old: Option<&Self>, new: Option<&Self>, to: &mut Concerned) {
        let Some(name) = old.or(new).map(|release| release.meta.name.clone()) else { return };
        let metas = (old.map(|r| &r.meta), new.map(|r| &r.meta));
        protect(to, Protected::ComponentVersion, old, new, |release| Some(release.component_version.clone()));
        let protection_changed = touched(metas.0, metas.1)
            || new.map(|r| r.meta.finalizers.len()) != old.map(|r| r.meta.finalizers.len());
        if protection_changed {
            add(to, RELEASE_PROTECTION, &name);
        }
        if appeared_or_went(metas.0, metas.1) || held_changed(metas.0, metas.1, RELEASE_REF_FINALIZER) {
            for profile in world.profiles.by(&IndexKey::Release(name.clone())) {
                add(to, PROFILE, &profile.meta.name);
                targets_of_profile(world, profile, to);
            }
        }
        if !touched(metas.0, metas.1) && old.map(|r| &r.labels) == new.map(|r| &r.labels) {
            return;
        }
        add(to, RELEASE, &name);
        for binding in world.release_bindings.by(&IndexKey::Release(name)) {
            add(to, TARGET, &binding.target);
            add(to, RELEASE_BINDING, &binding.meta.name);
        }
    }
}

impl Routed for ComponentRecord {
    fn concerned(world: &World, old: Option<&Self>, new: Option<&Self>, to: &mut Concerned) {
        let Some(name) = old.or(new).map(|component| component.meta.name.clone()) else { return };
        add(to, COMPONENT_PROTECTION, &name);
        if touched(old.map(|c| &c.meta), new.map(|c| &c.meta)) {
            for version in world.component_versions.by(&IndexKey::Component(name)) {
                add(to, COMPONENT_VERSION, &version.meta.name);
            }
        }
    }
}

impl Routed for ComponentVersionRecord {
    fn concerned(world: &World, old: Option<&Self>, new: Option<&Self>, to: &mut Concerned) {
        let Some(name) = old.or(new).map(|version| version.meta.name.clone()) else { return };
        protect(to, Protected::Component, old, new, |version| Some(version.component.clone()));
        let touched = touched(old.map(|v| &v.meta), new.map(|v| &v.meta));
        if touched || old.map(|v| v.meta.finalizers.len()) != new.map(|v| v.meta.finalizers.len()) {
            add(to, COMPONENT_VERSION_PROTECTION, &name);
        }
        if touched || old.map(|v| &v.recheck) != new.map(|v| &v.recheck) {
            add(to, COMPONENT_VERSION, &name);
        }
        if !touched {
            return;
        }
        for release in world.releases.by(&IndexKey::ComponentVersion(name)) {
            add(to, RELEASE, &release.meta.name);
            targets_of_release(world, &release.meta.name, to);
        }
    }
}

fn targets_of_release(world: &World, release: &ObjectName, to: &mut Concerned) {
    for binding in world.release_bindings.by(&IndexKey::Release(release.clone())) {
        add(to, TARGET, &binding.target);
    }
}

/// Those whose descriptors lie on `host`, by their own word or by that of their Component.
fn versions_on_host(world: &World, namespace: &Arc<str>, host: &str, to: &mut Concerned) {
    let key = IndexKey::host(namespace, host);
    for version in world.component_versions.by(&key) {
        add(to, COMPONENT_VERSION, &version.meta.name);
    }
    for component in world.components.by(&key) {
        let versions = world.component_versions.by(&IndexKey::Component(component.meta.name.clone()));
        for version in versions.filter(|version| version.descriptor.registry.is_none()) {
            add(to, COMPONENT_VERSION, &version.meta.name);
        }
    }
}

impl Routed for RegistryRecord {
    fn concerned(world: &World, old: Option<&Self>, new: Option<&Self>, to: &mut Concerned) {
        let Some(name) = old.or(new).map(|registry| registry.meta.name.clone()) else { return };
        add(to, REGISTRY_PROTECTION, &name);
        if !touched(old.map(|r| &r.meta), new.map(|r| &r.meta)) {
            return;
        }
        for registry in old.iter().chain(&new) {
            let namespace = &registry.meta.name.namespace;
            versions_on_host(world, namespace, &registry.host, to);
            for task in world.render_tasks.by(&IndexKey::host(namespace, &registry.host)) {
                add(to, RENDER_TASK, &task.meta.name);
            }
        }
        let key = IndexKey::Registry(name);
        for target in world.targets.by(&key) {
            add(to, TARGET, &target.meta.name);
        }
        for binding in world.registry_bindings.by(&key) {
            add(to, TARGET, &binding.target);
            add(to, REGISTRY_BINDING, &binding.meta.name);
        }
        for artifact in world.render_artifacts.by(&key) {
            add(to, RENDER_ARTIFACT, &artifact.meta.name);
        }
        for task in world.render_tasks.by(&key) {
            add(to, RENDER_TASK, &task.meta.name);
        }
    }
}

impl Routed for RegistryBindingRecord {
    const KEEPER: Option<ActorKind> = Some(REGISTRY_BINDING);

    fn has_status_of(&self, other: &Self) -> bool {
        self.conditions == other.conditions
    }

    fn concerned(_: &World, old: Option<&Self>, new: Option<&Self>, to: &mut Concerned) {
        if touched(old.map(|b| &b.meta), new.map(|b| &b.meta)) {
            for binding in old.iter().chain(&new) {
                add(to, TARGET, &binding.target);
                add(to, REGISTRY_BINDING, &binding.meta.name);
            }
        }
        protect(to, Protected::Registry, old, new, |binding| Some(binding.registry.clone()));
    }
}

impl Routed for ProfileRecord {
    const KEEPER: Option<ActorKind> = Some(PROFILE);

    fn has_status_of(&self, other: &Self) -> bool {
        self.status == other.status
    }

    fn concerned(world: &World, old: Option<&Self>, new: Option<&Self>, to: &mut Concerned) {
        protect(to, Protected::Release, old, new, |profile| Some(profile.release.clone()));
        let Some(profile) = new.or(old) else { return };
        let metas = (old.map(|p| &p.meta), new.map(|p| &p.meta));
        if touched(metas.0, metas.1) || held_changed(metas.0, metas.1, PROFILE_FINALIZER) {
            add(to, PROFILE, &profile.meta.name);
            targets_of_profile(world, profile, to);
        }
    }
}

impl Routed for GrantRecord {
    fn concerned(world: &World, old: Option<&Self>, new: Option<&Self>, to: &mut Concerned) {
        if let (Some(old), Some(new)) = (old, new)
            && (&old.from, &old.to) == (&new.from, &new.to)
        {
            return;
        }
        for grant in old.iter().chain(&new) {
            for from in grant.from.iter().filter(|from| from.group == solar_api::GROUP) {
                for object in grant.to.iter().filter(|object| object.group == solar_api::GROUP) {
                    granted(world, &grant.meta.name.namespace, &from.kind, &from.namespace, &object.kind, to);
                }
            }
        }
    }
}

/// Those in namespace `from_namespace` whose reference to a `to_kind` of `namespace` a grant allows or allowed.
fn granted(
    world: &World,
    namespace: &Arc<str>,
    from_kind: &str,
    from_namespace: &str,
    to_kind: &str,
    to: &mut Concerned,
) {
    let theirs = |name: &ObjectName| name.namespace.as_ref() == from_namespace;
    let into = IndexKey::Into(namespace.clone());
    match (from_kind, to_kind) {
        ("Target" | "RenderArtifact" | "RenderTask", "Registry") => {
            for target in world.targets.by(&into).filter(|target| theirs(&target.meta.name)) {
                add(to, TARGET, &target.meta.name);
            }
            for artifact in world.render_artifacts.by(&into).filter(|artifact| theirs(&artifact.meta.name)) {
                add(to, RENDER_ARTIFACT, &artifact.meta.name);
            }
            for task in world.render_tasks.by(&into).filter(|task| theirs(&task.meta.name)) {
                add(to, RENDER_TASK, &task.meta.name);
            }
        }
        ("Release", "ComponentVersion") => {
            for release in world.releases.by(&into).filter(|release| theirs(&release.meta.name)) {
                add(to, RELEASE, &release.meta.name);
                targets_of_release(world, &release.meta.name, to);
            }
        }
        ("ReleaseBinding", "Target") => {
            for binding in world.release_bindings.by(&into).filter(|binding| theirs(&binding.meta.name)) {
                add(to, RELEASE_BINDING, &binding.meta.name);
                add(to, TARGET, &binding.target);
            }
        }
        ("RegistryBinding", "Target") => {
            for binding in world.registry_bindings.by(&into).filter(|binding| theirs(&binding.meta.name)) {
                add(to, REGISTRY_BINDING, &binding.meta.name);
                add(to, TARGET, &binding.target);
            }
        }
        ("Profile", "Target") if world.profiles.count(&IndexKey::Namespace(from_namespace.into())) > 0 => {
            for profile in world.profiles.by(&IndexKey::Namespace(from_namespace.into())) {
                hindered_profile(profile, to);
            }
            for target in world.targets.by(&IndexKey::Namespace(namespace.clone())) {
                add(to, PROFILE_BINDINGS, &target.meta.name);
            }
        }
        _ => {}
    }
}

impl Routed for RenderTaskRecord {
    const KEEPER: Option<ActorKind> = Some(RENDER_TASK);

    fn has_status_of(&self, other: &Self) -> bool {
        self.status == other.status
    }

    fn concerned(world: &World, old: Option<&Self>, new: Option<&Self>, to: &mut Concerned) {
        let metas = (old.map(|t| &t.meta), new.map(|t| &t.meta));
        hindered_targets(world, metas.0, metas.1, to);
        let touched = touched(metas.0, metas.1) || old.map(|t| &t.controller) != new.map(|t| &t.controller);
        let asked = old.map(|t| &t.render_request) != new.map(|t| &t.render_request);
        for task in old.iter().chain(&new) {
            if touched || asked {
                add(to, RENDER_TASK, &task.meta.name);
            }
            let is_news = touched || old.map(|t| &t.status) != new.map(|t| &t.status);
            if *task.owner_kind == *"Target" && is_news {
                add(to, TARGET, &task.owner);
            }
        }
    }

    fn entering(&mut self, old: Option<&Self>, live: bool) {
        self.seen_created = match old {
            Some(old) if old.meta.uid == self.meta.uid => old.seen_created,
            _ => live,
        };
    }
}

impl Routed for RenderArtifactRecord {
    const KEEPER: Option<ActorKind> = Some(RENDER_ARTIFACT);

    fn has_status_of(&self, other: &Self) -> bool {
        self.status == other.status
    }

    fn concerned(world: &World, old: Option<&Self>, new: Option<&Self>, to: &mut Concerned) {
        let Some(name) = old.or(new).map(|artifact| artifact.meta.name.clone()) else { return };
        let metas = (old.map(|a| &a.meta), new.map(|a| &a.meta));
        hindered_targets(world, metas.0, metas.1, to);
        let touched = touched(metas.0, metas.1);
        if touched {
            add(to, RENDER_ARTIFACT, &name);
        }
        let digest = |artifact: &Self| artifact.status.get().digest;
        if touched || old.and_then(digest) != new.and_then(digest) {
            let bindings = world.render_bindings.by(&IndexKey::Artifact(name.clone()));
            for binding in bindings.filter(|binding| *binding.owner_kind == *"Target") {
                add(to, TARGET, &binding.owner);
            }
            for task in world.render_tasks.by(&IndexKey::Artifact(name)) {
                add(to, RENDER_TASK, &task.meta.name);
            }
        }
        protect(to, Protected::Registry, old, new, |artifact| artifact.registry.clone());
    }
}

impl Routed for RenderBindingRecord {
    fn concerned(world: &World, old: Option<&Self>, new: Option<&Self>, to: &mut Concerned) {
        let metas = (old.map(|b| &b.meta), new.map(|b| &b.meta));
        hindered_targets(world, metas.0, metas.1, to);
        // The owner reference decides who holds the artifact, and is no part of the spec.
        if !touched(metas.0, metas.1) && old.map(|b| &b.controller) == new.map(|b| &b.controller) {
            return;
        }
        for binding in old.iter().chain(&new) {
            add(to, RENDER_ARTIFACT, &binding.artifact);
            if *binding.owner_kind == *"Target" {
                add(to, TARGET, &binding.owner);
            }
            // Whether a task may push hangs on its own Target's binding, and no other's.
            let tasks = world.render_tasks.by(&IndexKey::Owner(binding.owner.clone()));
            for task in tasks.filter(|task| *task.artifact() == binding.artifact) {
                add(to, RENDER_TASK, &task.meta.name);
            }
        }
    }
}
