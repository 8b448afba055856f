//! The actors of Profiles: one for each Profile, which holds its Release and says how it fares, and one for each Target
//! that Profiles select, which makes and takes away the bindings.

use std::time::Duration;

use kube::api::ObjectMeta;
use serde_json::json;
use solar_api::names::{PROFILE_FINALIZER, RELEASE_BINDING_FINALIZER, RELEASE_REF_FINALIZER};
use solar_api::{LocalReference, ObjectReference, Profile, Release, ReleaseBinding, ReleaseBindingSpec};
use solar_core::condition::{MAX_NOTE, fit_text};
use solar_core::object::{Meta, ObjectName};
use solar_core::overlay::Own;
use solar_core::profile::{self, BindingOrder};
use solar_core::record::{ProfileRecord, ReleaseBindingRecord};
use solar_core::routes::{ActorKind, PROFILE, PROFILE_BINDINGS};
use solar_core::target::EventOrder;
use solar_core::world::IndexKey;

use super::finalizers::{ensure, or_keep, protect, remove_own};
use super::object::{NoRequest, Pass, PassError, Reconcile};
use super::own::{keep, observe};
use super::references::{controlled_by, reference};
use super::system::Shared;
use crate::adapters::kubernetes::{ApiError, Expect, Problem, Regarding};

/// Profiles.
pub struct ProfileKind;

impl Reconcile for ProfileKind {
    const KIND: ActorKind = PROFILE;
    type Request = NoRequest;
    type Memory = Option<Own<ProfileRecord>>;
    type Finding = ();

    fn memory(_: &Shared, _: bool) -> Self::Memory {
        None
    }

    async fn reconcile(pass: &mut Pass<Self>) -> Result<Option<Duration>, PassError> {
        let Some(mut profile) = observe(pass) else { return Ok(None) };
        let shared = pass.shared.clone();
        if profile.meta.terminating {
            // The bindings' own actors delete them; their end wakes this one.
            if !has_bindings(pass, &profile).await? {
                let let_go = remove_own::<Profile>(&shared, &profile.meta, PROFILE_FINALIZER).await?;
                if let Some(let_go) = let_go {
                    keep(pass, &let_go);
                }
            }
            return Ok(None);
        }
        // What cannot be held now is tried again, and keeps nobody from reading why.
        let mut failed = Ok(());
        let held = ensure::<Profile>(&shared, &profile.meta, PROFILE_FINALIZER).await;
        if let Some(held) = or_keep(held, &mut failed) {
            profile = keep(pass, &held);
        }
        let release = shared.cache.read().releases.get(&profile.release).map(|release| release.meta.clone());
        if let Some(release) = release {
            or_keep(protect::<Release>(&shared, &release, RELEASE_REF_FINALIZER).await, &mut failed);
        }
        let meta = &profile.meta;
        let status = profile::status(&shared.cache.read(), &profile, shared.clock.wall());
        if let Some(status) = status {
            let expect = Expect { uid: &meta.uid, resource_version: Some(&meta.resource_version) };
            let api = &shared.api;
            let written =
                api.write_status::<Profile, _>(&pass.name, expect, &profile.status, &status).await?;
            if let Some(written) = written {
                keep(pass, &written);
            }
        }
        failed.map(|()| None)
    }

    fn is_done(shared: &Shared, name: &ObjectName, _: &Self::Memory) -> bool {
        shared.cache.read().profiles.get(name).is_none()
    }
}

/// Whether bindings of `profile` are left, by an API read where the watch shows none.
async fn has_bindings(pass: &Pass<ProfileKind>, profile: &ProfileRecord) -> Result<bool, PassError> {
    let is_own =
        |binding: &ReleaseBindingRecord| binding.profile().is_some_and(|(_, uid)| *uid == *profile.meta.uid);
    let watched = IndexKey::Profile(pass.name.clone());
    if pass.shared.cache.read().release_bindings.by(&watched).any(|binding| is_own(binding)) {
        return Ok(true);
    }
    // Not by the Release that it names now: bindings of one that it named before may be left.
    let bindings = pass.shared.api.list_in::<ReleaseBinding>(&pass.name.namespace).await?;
    let owned = bindings.iter().any(|binding| {
        let mut owners = binding.metadata.owner_references.iter().flatten();
        owners.any(|owner| *owner.uid == *profile.meta.uid)
    });
    if owned {
        // The watch is behind the API server; its next event wakes this actor.
        return Err(PassError::Outdated(pass.name.clone()));
    }
    Ok(false)
}

/// The ReleaseBindings that Profiles want for one Target.
pub struct ProfileBindingsKind;

impl Reconcile for ProfileBindingsKind {
    const KIND: ActorKind = PROFILE_BINDINGS;
    type Request = NoRequest;
    type Memory = ();
    type Finding = ();

    fn memory(_: &Shared, _: bool) {}

    /// Every order is tried, also after one that failed: a Profile that is refused holds up no other.
    async fn reconcile(pass: &mut Pass<Self>) -> Result<Option<Duration>, PassError> {
        let orders = profile::decide(&pass.shared.cache.read(), &pass.name);
        let mut failed = Ok(());
        for order in orders {
            let done = perform(&pass.shared, &pass.name, order).await;
            failed = failed.and(done);
        }
        failed.map(|()| None)
    }

    fn is_done(_: &Shared, _: &ObjectName, (): &()) -> bool {
        true
    }
}

async fn perform(shared: &Shared, target: &ObjectName, order: BindingOrder) -> Result<(), PassError> {
    let result = match order {
        BindingOrder::Create { profile, name, release } => {
            shared.api.create(&binding(&profile, name, target, &release)).await.map(drop)
        }
        BindingOrder::Correct { binding, release } => {
            let expect = Expect { uid: &binding.uid, resource_version: Some(&binding.resource_version) };
            let target_ref = reference(&binding.name.namespace, target);
            let change = json!({ "spec": {
                // A merge keeps a namespace that is not named.
                "targetRef": { "name": target_ref.name, "namespace": target_ref.namespace },
                "releaseRef": { "name": &*release.name },
            } });
            shared.api.merge::<ReleaseBinding>(&binding.name, expect, change).await.map(drop)
        }
        BindingOrder::Delete { binding } => {
            let expect = Expect { uid: &binding.uid, resource_version: None };
            shared.api.delete::<ReleaseBinding>(&binding.name, expect).await.map(drop)
        }
        BindingOrder::Collision { profile, with } => {
            let note = format!(
                "ReleaseBinding {with} was not made by this Profile and has the name of its binding of Target {target}: \
                 delete it, and the Profile makes its own"
            );
            let order =
                EventOrder { warning: true, reason: "NameCollision", note: fit_text(&note, MAX_NOTE) };
            shared.events.emit(Regarding::new("Profile", &profile), order);
            Ok(())
        }
    };
    match result {
        // The watch will show what is there.
        Err(ApiError { problem: Problem::AlreadyExists, .. }) => Ok(()),
        result => Ok(result?),
    }
}

fn binding(profile: &Meta, name: String, target: &ObjectName, release: &ObjectName) -> ReleaseBinding {
    let namespace = &profile.name.namespace;
    let target_ref: ObjectReference = reference(namespace, target);
    ReleaseBinding {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace.to_string()),
            owner_references: Some(vec![controlled_by::<Profile>(&profile.name, &profile.uid)]),
            // The binding's actor would put it on at once.
            finalizers: Some(vec![RELEASE_BINDING_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: ReleaseBindingSpec {
            target_ref,
            release_ref: LocalReference { name: release.name.to_string() },
        },
        status: None,
    }
}
