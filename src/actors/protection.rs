//! The actors that decide when a protected object is let go: one implementation for every protected kind.
//!
//! A referrer puts the finalizer on before it depends on the object. Only the object's Protection takes it off: after an
//! API read shows no referrer, with the object's version as precondition, and it looks once more afterwards.

use std::marker::PhantomData;
use std::time::Duration;

use solar_api as api;
use solar_core::object::{Meta, ObjectName};
use solar_core::protection::{Protected, Referrer};
use solar_core::routes::ActorKind;

use super::finalizers::protect;
use super::object::{NoRequest, Pass, PassError, Reconcile};
use super::system::Shared;
use crate::adapters::kubernetes::{ApiError, Namespaced, Problem, remove_finalizer};

/// A kind that can be protected.
pub trait ProtectedKind: Namespaced {
    /// Which.
    const PROTECTED: Protected;
    /// Its actors.
    const ACTOR: ActorKind;
}

macro_rules! protected {
    ($($kind:ident as $actor:ident),*) => {
        $(impl ProtectedKind for api::$kind {
            const PROTECTED: Protected = Protected::$kind;
            const ACTOR: ActorKind = solar_core::routes::$actor;
        })*
    };
}

protected! {
    Registry as REGISTRY_PROTECTION,
    Release as RELEASE_PROTECTION,
    ComponentVersion as COMPONENT_VERSION_PROTECTION,
    Component as COMPONENT_PROTECTION
}

/// Protections of objects of kind `K`.
pub struct ProtectionKind<K>(PhantomData<fn() -> K>);

impl<K: ProtectedKind> Reconcile for ProtectionKind<K> {
    const KIND: ActorKind = K::ACTOR;
    type Request = NoRequest;
    /// The finalizer was taken off, and whether somebody came in between was not seen yet.
    type Memory = bool;
    type Finding = ();

    fn memory(_: &Shared, _: bool) -> bool {
        false
    }

    async fn reconcile(pass: &mut Pass<Self>) -> Result<Option<Duration>, PassError> {
        let Some((meta, is_referred_to_here)) = observe(pass, K::PROTECTED) else { return Ok(None) };
        if !meta.has_finalizer(K::PROTECTED.finalizer()) {
            let owed = *pass.memory();
            return if owed { look_once_more(pass, &meta).await } else { Ok(None) };
        }
        if is_referred_to_here || is_referred_to(pass, K::PROTECTED).await? {
            // Where the watch is behind, the referrer's own event will wake this actor when it goes.
            return Ok(None);
        }
        release::<K>(pass, &meta).await
    }

    fn is_done(shared: &Shared, name: &ObjectName, _: &bool) -> bool {
        K::PROTECTED.meta(&shared.cache.read(), name).is_none()
    }

    fn is_dispensable(_: &Shared, _: &ObjectName, owed: &mut bool) -> bool {
        !*owed
    }
}

/// The object as the watch shows it, and whether the watch shows somebody who refers to it.
fn observe<K: ProtectedKind>(pass: &Pass<ProtectionKind<K>>, protected: Protected) -> Option<(Meta, bool)> {
    let world = pass.shared.cache.read();
    let meta = protected.meta(&world, &pass.name)?;
    Some((meta, protected.a_referrer(&world, &pass.name).is_some()))
}

async fn release<K: ProtectedKind>(
    pass: &Pass<ProtectionKind<K>>,
    meta: &Meta,
) -> Result<Option<Duration>, PassError> {
    let finalizer = K::PROTECTED.finalizer();
    *pass.memory() = true;
    let patch = remove_finalizer(&meta.uid, &meta.finalizers, finalizer, Some(&meta.resource_version));
    let released = match pass.shared.api.patch::<K>(&pass.name, &patch).await {
        Ok(released) => released,
        Err(ApiError { problem: Problem::NotFound, .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    look_once_more(pass, &Meta::of(released.meta())).await
}

/// Puts the finalizer back when somebody came to depend on the object in between; a terminating one cannot be held any
/// more.
async fn look_once_more<K: ProtectedKind>(
    pass: &Pass<ProtectionKind<K>>,
    meta: &Meta,
) -> Result<Option<Duration>, PassError> {
    if !meta.terminating && is_referred_to(pass, K::PROTECTED).await? {
        protect::<K>(&pass.shared, meta, K::PROTECTED.finalizer()).await?;
    }
    *pass.memory() = false;
    Ok(None)
}

/// Whether any referrer exists, by API reads.
async fn is_referred_to<K: ProtectedKind>(
    pass: &Pass<ProtectionKind<K>>,
    protected: Protected,
) -> Result<bool, PassError> {
    for referrer in protected.referrers() {
        if refers(&pass.shared, &pass.name, *referrer).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn refers(shared: &Shared, name: &ObjectName, referrer: Referrer) -> Result<bool, ApiError> {
    let namespace = (!referrer.cross_namespace).then_some(&*name.namespace);
    let means = |reference: &api::ObjectReference, own: Option<&String>| {
        let own = own.map_or("", String::as_str);
        reference.namespace_or(own) == &*name.namespace
    };
    let field = referrer.field;
    Ok(match referrer.kind {
        "Target" => shared
            .api
            .list_by::<api::Target>(namespace, field, &name.name)
            .await?
            .iter()
            .any(|target| means(&target.spec.render_registry_ref, target.metadata.namespace.as_ref())),
        "RenderArtifact" => {
            shared.api.list_by::<api::RenderArtifact>(namespace, field, &name.name).await?.iter().any(
                |artifact| {
                    let reference = artifact.spec.registry_ref.as_ref();
                    reference.is_some_and(|reference| means(reference, artifact.metadata.namespace.as_ref()))
                },
            )
        }
        "Release" => {
            shared.api.list_by::<api::Release>(namespace, field, &name.name).await?.iter().any(|release| {
                means(&release.spec.component_version_ref, release.metadata.namespace.as_ref())
            })
        }
        "RegistryBinding" => any::<api::RegistryBinding>(shared, namespace, field, name).await?,
        "ReleaseBinding" => any::<api::ReleaseBinding>(shared, namespace, field, name).await?,
        "Profile" => any::<api::Profile>(shared, namespace, field, name).await?,
        "ComponentVersion" => any::<api::ComponentVersion>(shared, namespace, field, name).await?,
        // An unknown referrer is a fault of this program: better to hold than to let go.
        _ => true,
    })
}

async fn any<K: Namespaced>(
    shared: &Shared,
    namespace: Option<&str>,
    field: &str,
    name: &ObjectName,
) -> Result<bool, ApiError> {
    Ok(!shared.api.list_by::<K>(namespace, field, &name.name).await?.is_empty())
}
