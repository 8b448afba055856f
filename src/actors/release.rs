//! The actor of a Release: says whether its ComponentVersion resolves, and holds it.

use std::time::Duration;

use solar_api::names::{COMPONENT_VERSION_REF_FINALIZER, RELEASE_FINALIZER};
use solar_api::{ComponentVersion, Release};
use solar_core::object::ObjectName;
use solar_core::overlay::Own;
use solar_core::record::ReleaseRecord;
use solar_core::release::{self, Resolved};
use solar_core::routes::{ActorKind, RELEASE};

use super::finalizers::{ensure, protect, remove_own};
use super::object::{NoRequest, Pass, PassError, Reconcile, or_keep};
use super::own::{catch_up, has_caught_up, keep, observe};
use super::system::Shared;
use crate::adapters::kubernetes::Expect;

/// Releases.
pub struct ReleaseKind;

impl Reconcile for ReleaseKind {
    const KIND: ActorKind = RELEASE;
    type Request = NoRequest;
    type Memory = Option<Own<ReleaseRecord>>;
    type Finding = ();

    fn memory(_: &Shared, _: bool) -> Self::Memory {
        None
    }

    async fn reconcile(pass: &mut Pass<Self>) -> Result<Option<Duration>, PassError> {
        catch_up::<_, _, Release>(pass).await?;
        let Some(mut release) = observe(pass) else { return Ok(None) };
        let shared = pass.shared.clone();
        // What cannot be held now is tried again, and keeps nobody from reading why.
        let mut failed = Ok(());
        if release.meta.terminating {
            // Bindings and Profiles hold it by `release-ref` for as long as they need it.
            let let_go = remove_own::<Release>(&shared, &release.meta, RELEASE_FINALIZER).await?;
            if let Some(let_go) = let_go {
                release = keep(pass, &let_go);
            }
        } else {
            let held = ensure::<Release>(&shared, &release.meta, RELEASE_FINALIZER).await;
            if let Some(held) = or_keep(held, &mut failed)? {
                release = keep(pass, &held);
            }
        }
        let watched = shared.options.target.watched.as_deref();
        let (resolved, version) = {
            let world = shared.cache.read();
            let version = world.component_versions.get(&release.component_version);
            (release::resolve(&world, &release, watched), version.map(|version| version.meta.clone()))
        };
        if !release.meta.terminating
            && resolved == (Resolved::Found { unprotected: true })
            && let Some(version) = version
        {
            let held = protect::<ComponentVersion>(&shared, &version, COMPONENT_VERSION_REF_FINALIZER).await;
            or_keep(held, &mut failed)?;
        }
        let status = release::status(&shared.cache.read(), &release, &resolved, shared.clock.wall());
        // One that nobody holds is gone by now.
        if let Some(status) =
            status.filter(|_| !release.meta.terminating || !release.meta.finalizers.is_empty())
        {
            let expect =
                Expect { uid: &release.meta.uid, resource_version: Some(&release.meta.resource_version) };
            let written = pass.write_status::<Release, _>(expect, &release.status.get(), &status).await?;
            if let Some(written) = written {
                keep(pass, &written);
            }
        }
        failed.map(|()| None)
    }

    fn is_done(shared: &Shared, name: &ObjectName, _: &Self::Memory) -> bool {
        shared.cache.read().releases.get(name).is_none()
    }

    fn is_dispensable(shared: &Shared, name: &ObjectName, own: &mut Self::Memory) -> bool {
        has_caught_up(shared, name, own)
    }
}
