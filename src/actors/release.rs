//! The actor of a Release: says whether its ComponentVersion resolves, and holds it.

use std::sync::Arc;
use std::time::Duration;

use solar_api::names::COMPONENT_VERSION_REF_FINALIZER;
use solar_api::{ComponentVersion, Release};
use solar_core::object::ObjectName;
use solar_core::overlay::{Own, settle};
use solar_core::record::ReleaseRecord;
use solar_core::release::{self, Resolved};
use solar_core::routes::{ActorKind, RELEASE};

use super::object::{NoRequest, Pass, PassError, Reconcile};
use super::protection::protect;
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
        let Some((release, resolved, version)) = observe(pass) else { return Ok(None) };
        if !release.meta.terminating
            && resolved == (Resolved::Found { unprotected: true })
            && let Some(version) = version
        {
            protect::<ComponentVersion>(&pass.shared, &version, COMPONENT_VERSION_REF_FINALIZER).await?;
        }
        let status = {
            let world = pass.shared.cache.read();
            release::status(&world, &release, &resolved, pass.shared.clock.wall())
        };
        if let Some(status) = status {
            let expect =
                Expect { uid: &release.meta.uid, resource_version: Some(&release.meta.resource_version) };
            let written = pass
                .shared
                .api
                .write_status::<Release, _>(&pass.name, expect, &release.status, &status)
                .await?;
            if let Some(written) = written {
                let since = pass.now();
                *pass.memory() = Some(Own::Present { record: Arc::new((&written).into()), since });
            }
        }
        Ok(None)
    }

    fn is_done(shared: &Shared, name: &ObjectName, _: &Self::Memory) -> bool {
        shared.cache.read().releases.get(name).is_none()
    }
}

type Observed = (Arc<ReleaseRecord>, Resolved, Option<solar_core::object::Meta>);

fn observe(pass: &Pass<ReleaseKind>) -> Option<Observed> {
    let world = pass.shared.cache.read();
    let watched = world.releases.get(&pass.name);
    let release = settle(watched, &mut pass.memory())?;
    watched?;
    let resolved = release::resolve(&world, &release);
    let version =
        world.component_versions.get(&release.component_version).map(|version| version.meta.clone());
    Some((release, resolved, version))
}
