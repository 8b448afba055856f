//! The actors of Profiles: one for each Profile, which holds its Release and says how it fares, and one for each Target
//! that Profiles select, which makes and takes away the bindings.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::ObjectMeta;
use serde_json::json;
use solar_api::names::{PROFILE_FINALIZER, RELEASE_BINDING_FINALIZER, RELEASE_REF_FINALIZER};
use solar_api::{LocalReference, ObjectReference, Profile, Release, ReleaseBinding, ReleaseBindingSpec};
use solar_core::object::{Meta, ObjectName};
use solar_core::overlay::Own;
use solar_core::profile::{self, BindingOrder, Hindrance, Hindrances};
use solar_core::record::{ProfileRecord, ReleaseBindingRecord};
use solar_core::routes::{ActorKey, ActorKind, PROFILE, PROFILE_BINDINGS};
use solar_core::world::IndexKey;

use super::finalizers::{ensure, protect, remove_own};
use super::object::{NoRequest, Pass, PassError, Reconcile, or_keep};
use super::own::{OwnWrite, catch_up, keep, observe};
use super::references::{controlled_by, reference};
use super::system::Shared;
use crate::adapters::kubernetes::{ApiError, Expect, Problem, Regarding};
use crate::messages::object::{Answer, Cause};

/// How often it is looked whether a stranger has gone that has the name of a binding, should the word of it be missed.
const COLLISION_AGAIN: Duration = Duration::from_secs(60);

/// Profiles.
pub struct ProfileKind;

/// Kept between passes.
#[derive(Debug, Default)]
pub struct Memory {
    own: Option<Own<ProfileRecord>>,
    /// What is in the way of its bindings, as far as it has been told.
    hindrances: Hindrances,
    /// Uid of the Profile that they are about.
    uid: Box<str>,
}

impl OwnWrite<ProfileRecord> for Memory {
    fn own(&mut self) -> &mut Option<Own<ProfileRecord>> {
        &mut self.own
    }
}

impl Reconcile for ProfileKind {
    const KIND: ActorKind = PROFILE;
    type Request = NoRequest;
    type Memory = Memory;
    type Finding = ();

    fn memory(_: &Shared, _: bool) -> Memory {
        Memory::default()
    }

    async fn reconcile(pass: &mut Pass<Self>) -> Result<Option<Duration>, PassError> {
        catch_up::<_, _, Profile>(pass).await?;
        let Some(mut profile) = observe(pass) else { return Ok(None) };
        take_in_answers(pass, &profile);
        let shared = pass.shared.clone();
        let freed = pass.memory().hindrances.freed(&shared.cache.read(), &profile);
        for target in freed {
            shared.wake(&ActorKey::new(PROFILE_BINDINGS, target), Cause::Change);
        }
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
        if let Some(held) = or_keep(held, &mut failed)? {
            profile = keep(pass, &held);
        }
        let release = shared.cache.read().releases.get(&profile.release).map(|release| release.meta.clone());
        if let Some(release) = release {
            or_keep(protect::<Release>(&shared, &release, RELEASE_REF_FINALIZER).await, &mut failed)?;
        }
        let meta = &profile.meta;
        let status = {
            let world = shared.cache.read();
            let hindrances = &mut pass.memory().hindrances;
            hindrances.look(&world, &profile);
            profile::status(&world, &profile, hindrances, shared.clock.wall())
        };
        if let Some(status) = status {
            let expect = Expect { uid: &meta.uid, resource_version: Some(&meta.resource_version) };
            let stored = profile.status.get();
            let written = pass.write_status::<Profile, _>(expect, &stored, &status).await?;
            if let Some(written) = written {
                keep(pass, &written);
                if let Some(warning) = profile::warning(&stored, &status) {
                    shared.events.emit(Regarding::new("Profile", meta), warning);
                }
            }
        }
        failed.map(|()| None)
    }

    fn is_done(shared: &Shared, name: &ObjectName, _: &Memory) -> bool {
        shared.cache.read().profiles.get(name).is_none()
    }
}

/// Remembers what it was told of its bindings; another Profile of the same name begins anew.
fn take_in_answers(pass: &mut Pass<ProfileKind>, profile: &ProfileRecord) {
    let answers = std::mem::take(&mut pass.answers);
    let mut memory = pass.memory();
    if memory.uid != profile.meta.uid {
        memory.uid = profile.meta.uid.clone();
        memory.hindrances = Hindrances::default();
    }
    for (from, (answer, _)) in answers {
        match answer {
            Answer::Hindered { uid, hindrance } if uid == profile.meta.uid => {
                memory.hindrances.hear(from.object, hindrance);
            }
            _ => {}
        }
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
        let mut owners = binding.meta.owner_references.iter().flatten();
        owners.any(|owner| *owner.uid == *profile.meta.uid)
    });
    if owned {
        // The watch is behind the API server; its next event wakes this actor.
        return Err(PassError::Outdated(pass.name.clone()));
    }
    Ok(false)
}

/// What each Profile has been told last of the binding of one Target, with its uid.
pub type Told = BTreeMap<ObjectName, (Box<str>, Hindrance)>;

/// The ReleaseBindings that Profiles want for one Target.
pub struct ProfileBindingsKind;

impl Reconcile for ProfileBindingsKind {
    const KIND: ActorKind = PROFILE_BINDINGS;
    type Request = NoRequest;
    type Memory = Told;
    type Finding = ();

    fn memory(_: &Shared, _: bool) -> Told {
        Told::new()
    }

    /// Every order is tried, also after one that failed: a Profile that is refused holds up no other.
    async fn reconcile(pass: &mut Pass<Self>) -> Result<Option<Duration>, PassError> {
        let orders = profile::decide(&pass.shared.cache.read(), &pass.name);
        let mut failed = Ok(());
        let mut hindered = Told::new();
        for order in orders {
            let profile = order.profile().clone();
            let done = perform(&pass.shared, &pass.name, order).await;
            let hindrance = match &done {
                Ok(hindrance) => hindrance.clone(),
                // An error that is no refusal tells nothing new of what is in the way.
                Err(error) => error.refusal().map(Hindrance::Refused).or_else(|| told_before(pass, &profile)),
            };
            if let Some(hindrance) = hindrance {
                hindered.entry(profile.name).or_insert((profile.uid, hindrance));
            }
            failed = failed.and(done.map(drop));
        }
        let told = tell(pass, &hindered);
        failed.and(told)?;
        let collides = hindered.values().any(|(_, it)| matches!(it, Hindrance::NameCollision(_)));
        Ok(collides.then_some(COLLISION_AGAIN))
    }

    fn is_done(_: &Shared, _: &ObjectName, told: &Told) -> bool {
        told.is_empty()
    }
}

/// What `profile` has been told last.
fn told_before(pass: &Pass<ProfileBindingsKind>, profile: &Meta) -> Option<Hindrance> {
    let told = pass.memory();
    let (uid, hindrance) = told.get(&profile.name)?;
    (*uid == profile.uid).then(|| hindrance.clone())
}

/// Tells Profiles what is in the way of their bindings now, where that is news.
fn tell(pass: &Pass<ProfileBindingsKind>, hindered: &Told) -> Result<(), PassError> {
    let before = pass.memory().clone();
    let gone = before.iter().filter(|(profile, _)| !hindered.contains_key(*profile));
    let gone = gone.map(|(profile, (uid, _))| (profile, uid, None));
    let news = hindered.iter().filter(|(profile, told)| before.get(*profile) != Some(*told));
    let news = news.map(|(profile, (uid, hindrance))| (profile, uid, Some(hindrance.clone())));
    for (profile, uid, hindrance) in gone.chain(news) {
        let to = ActorKey::new(PROFILE, profile.clone());
        let answer = Answer::Hindered { uid: uid.clone(), hindrance: hindrance.clone() };
        pass.shared
            .answer(&to, pass.key(), answer)
            .map_err(|undelivered| PassError::Undelivered { to, undelivered })?;
        match hindrance {
            Some(hindrance) => pass.memory().insert(profile.clone(), (uid.clone(), hindrance)),
            None => pass.memory().remove(profile),
        };
    }
    Ok(())
}

/// Does what is ordered; answers what only a person can do.
async fn perform(
    shared: &Shared,
    target: &ObjectName,
    order: BindingOrder,
) -> Result<Option<Hindrance>, PassError> {
    let result = match order {
        BindingOrder::Create { profile, name, release } => {
            shared.api.create(&binding(&profile, name, target, &release)).await.map(drop)
        }
        BindingOrder::Correct { binding, release, .. } => {
            let expect = Expect { uid: &binding.uid, resource_version: Some(&binding.resource_version) };
            let target_ref = reference(&binding.name.namespace, target);
            let change = json!({ "spec": {
                // A merge keeps a namespace that is not named.
                "targetRef": { "name": target_ref.name, "namespace": target_ref.namespace },
                "releaseRef": { "name": &*release.name },
            } });
            shared.api.merge::<ReleaseBinding>(&binding.name, expect, change).await.map(drop)
        }
        BindingOrder::Delete { binding, .. } => {
            let expect = Expect { uid: &binding.uid, resource_version: None };
            shared.api.delete::<ReleaseBinding>(&binding.name, expect).await.map(drop)
        }
        BindingOrder::Collision { with, .. } => return Ok(Some(Hindrance::collision(target, &with))),
    };
    match result {
        // The watch will show what is there.
        Err(ApiError { problem: Problem::AlreadyExists, .. }) => Ok(None),
        result => Ok(result.map(|()| None)?),
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
