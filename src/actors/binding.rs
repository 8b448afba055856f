//! The actors of ReleaseBindings and RegistryBindings: one implementation. Each holds what it binds, and says whether it
//! has an effect.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use solar_api as api;
use solar_api::names::{
    REGISTRY_BINDING_FINALIZER, REGISTRY_REF_FINALIZER, RELEASE_BINDING_FINALIZER, RELEASE_REF_FINALIZER,
};
use solar_core::binding;
use solar_core::condition::{self, Wanted};
use solar_core::object::{Meta, ObjectName};
use solar_core::overlay::Own;
use solar_core::record::{RegistryBindingRecord, ReleaseBindingRecord};
use solar_core::routes::{ActorKind, REGISTRY_BINDING, RELEASE_BINDING};
use solar_core::world::{Kept, Record as _, World};

use super::finalizers::{ensure, protect, remove_own};
use super::object::{NoRequest, Pass, PassError, Reconcile, or_keep};
use super::own::{catch_up, has_caught_up, keep, observe};
use super::system::Shared;
use crate::adapters::kubernetes::{Expect, Namespaced};

/// A kind of bindings.
pub trait Binding: Namespaced {
    /// What is kept of one.
    type Record: Kept + for<'a> From<&'a Self>;
    /// What it binds to a Target.
    type Bound: Namespaced;
    /// Its status.
    type Status: Serialize + Send + Sync;
    /// Its actors.
    const ACTOR: ActorKind;
    /// Held by a binding on itself.
    const OWN_FINALIZER: &'static str;
    /// Held by a binding on what it binds.
    const REF_FINALIZER: &'static str;

    /// The metadata of what is bound, as watched.
    fn bound(world: &World, binding: &Self::Record) -> Option<Meta>;
    /// What its conditions are to say.
    fn wanted(world: &World, binding: &Self::Record, watched: Option<&[Arc<str>]>) -> [Wanted; 2];
    /// Its conditions as stored.
    fn conditions(binding: &Self::Record) -> Vec<Condition>;
    /// A status with these conditions.
    fn status(conditions: Vec<Condition>) -> Self::Status;
}

impl Binding for api::ReleaseBinding {
    type Record = ReleaseBindingRecord;
    type Bound = api::Release;
    type Status = api::ReleaseBindingStatus;
    const ACTOR: ActorKind = RELEASE_BINDING;
    const OWN_FINALIZER: &'static str = RELEASE_BINDING_FINALIZER;
    const REF_FINALIZER: &'static str = RELEASE_REF_FINALIZER;

    fn bound(world: &World, binding: &Self::Record) -> Option<Meta> {
        world.releases.get(&binding.release).map(|release| release.meta.clone())
    }
    fn wanted(world: &World, binding: &Self::Record, watched: Option<&[Arc<str>]>) -> [Wanted; 2] {
        binding::of_release(world, binding, watched)
    }
    fn conditions(binding: &Self::Record) -> Vec<Condition> {
        binding.conditions.get()
    }
    fn status(conditions: Vec<Condition>) -> Self::Status {
        api::ReleaseBindingStatus { conditions }
    }
}

impl Binding for api::RegistryBinding {
    type Record = RegistryBindingRecord;
    type Bound = api::Registry;
    type Status = api::RegistryBindingStatus;
    const ACTOR: ActorKind = REGISTRY_BINDING;
    const OWN_FINALIZER: &'static str = REGISTRY_BINDING_FINALIZER;
    const REF_FINALIZER: &'static str = REGISTRY_REF_FINALIZER;

    fn bound(world: &World, binding: &Self::Record) -> Option<Meta> {
        world.registries.get(&binding.registry).map(|registry| registry.meta.clone())
    }
    fn wanted(world: &World, binding: &Self::Record, watched: Option<&[Arc<str>]>) -> [Wanted; 2] {
        binding::of_registry(world, binding, watched)
    }
    fn conditions(binding: &Self::Record) -> Vec<Condition> {
        binding.conditions.get()
    }
    fn status(conditions: Vec<Condition>) -> Self::Status {
        api::RegistryBindingStatus { conditions }
    }
}

/// Bindings of kind `K`.
pub struct BindingKind<K>(PhantomData<fn() -> K>);

impl<K: Binding> Reconcile for BindingKind<K> {
    const KIND: ActorKind = K::ACTOR;
    type Request = NoRequest;
    type Memory = Option<Own<K::Record>>;
    type Finding = ();

    fn memory(_: &Shared, _: bool) -> Self::Memory {
        None
    }

    async fn reconcile(pass: &mut Pass<Self>) -> Result<Option<Duration>, PassError> {
        catch_up::<_, K::Record, K>(pass).await?;
        let Some(mut binding) = observe(pass) else { return Ok(None) };
        let shared = pass.shared.clone();
        if binding.meta().terminating {
            // What it bound is let go by that object's Protection, once the binding is gone.
            if let Some(let_go) = remove_own::<K>(&shared, binding.meta(), K::OWN_FINALIZER).await? {
                keep(pass, &let_go);
            }
            return Ok(None);
        }
        // What cannot be held now is tried again, and keeps nobody from reading why.
        let mut failed = Ok(());
        let held = ensure::<K>(&shared, binding.meta(), K::OWN_FINALIZER).await;
        if let Some(held) = or_keep(held, &mut failed)? {
            binding = keep(pass, &held);
        }
        let bound = K::bound(&shared.cache.read(), &binding);
        // What is going and was never held cannot be held any more: it counts as absent.
        if let Some(bound) = bound {
            or_keep(protect::<K::Bound>(&shared, &bound, K::REF_FINALIZER).await, &mut failed)?;
        }
        let meta = binding.meta();
        let wanted = K::wanted(&shared.cache.read(), &binding, shared.options.target.watched.as_deref());
        let stored = K::conditions(&binding);
        let Some(conditions) = condition::updated(&stored, &wanted, meta.generation, shared.clock.wall())
        else {
            return failed.map(|()| None);
        };
        let expect = Expect { uid: &meta.uid, resource_version: Some(&meta.resource_version) };
        let (stored, wanted) = (K::status(stored), K::status(conditions));
        if let Some(written) = pass.write_status::<K, _>(expect, &stored, &wanted).await? {
            keep(pass, &written);
        }
        failed.map(|()| None)
    }

    fn is_done(shared: &Shared, name: &ObjectName, _: &Self::Memory) -> bool {
        K::Record::table(&shared.cache.read()).get(name).is_none()
    }

    fn is_dispensable(shared: &Shared, name: &ObjectName, own: &mut Self::Memory) -> bool {
        has_caught_up(shared, name, own)
    }
}
