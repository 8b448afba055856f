//! The actor of a ReleaseBinding: holds the Release that it binds.

use std::time::Duration;

use solar_api::Release;
use solar_api::names::RELEASE_REF_FINALIZER;
use solar_core::object::ObjectName;
use solar_core::routes::{ActorKind, RELEASE_BINDING};

use super::object::{NoRequest, Pass, PassError, Reconcile};
use super::protection::protect;
use super::system::Shared;

/// ReleaseBindings.
pub struct ReleaseBindingKind;

impl Reconcile for ReleaseBindingKind {
    const KIND: ActorKind = RELEASE_BINDING;
    type Request = NoRequest;
    type Memory = ();
    type Finding = ();

    fn memory(_: &Shared, _: bool) {}

    async fn reconcile(pass: &mut Pass<Self>) -> Result<Option<Duration>, PassError> {
        let release = {
            let world = pass.shared.cache.read();
            let binding = world.release_bindings.get(&pass.name).filter(|binding| !binding.meta.terminating);
            binding
                .and_then(|binding| world.releases.get(&binding.release))
                .map(|release| release.meta.clone())
        };
        // A Release that is going and was never held cannot be held any more: it counts as absent.
        if let Some(release) =
            release.filter(|meta| !meta.terminating && !meta.has_finalizer(RELEASE_REF_FINALIZER))
        {
            protect::<Release>(&pass.shared, &release, RELEASE_REF_FINALIZER).await?;
        }
        Ok(None)
    }

    fn is_done(shared: &Shared, name: &ObjectName, (): &()) -> bool {
        shared.cache.read().release_bindings.get(name).is_none()
    }
}
