//! The actor of a ComponentVersion: holds the version and its Component, and says whether its descriptor is in the
//! registry.

use std::sync::Arc;
use std::time::Duration;

use solar_api::names::{COMPONENT_REF_FINALIZER, COMPONENT_VERSION_FINALIZER};
use solar_api::{Component, ComponentVersion};
use solar_core::availability::{self, Finding, Now, Step, Subject};
use solar_core::object::{Meta, ObjectName};
use solar_core::overlay::{Own, settle};
use solar_core::record::ComponentVersionRecord;
use solar_core::routes::{ActorKind, COMPONENT_VERSION};

use super::finalizers::{ensure, protect, remove_own};
use super::object::{NoRequest, Pass, PassError, Reconcile};
use super::own::{OwnWrite, catch_up, has_caught_up, keep};
use super::registry_actor;
use super::system::Shared;
use crate::adapters::kubernetes::Expect;
use crate::messages::object::Answer;
use crate::messages::registry_actor::{CheckAdmission, CheckManifest};

/// Steps of one pass: at most a status, a question and a wait.
const MOST_STEPS: usize = 8;

/// ComponentVersions.
pub struct ComponentVersionKind;

/// Kept between passes.
#[derive(Debug, Default)]
pub struct Memory {
    core: availability::Memory,
    own: Option<Own<ComponentVersionRecord>>,
    uid: Box<str>,
}

impl OwnWrite<ComponentVersionRecord> for Memory {
    fn own(&mut self) -> &mut Option<Own<ComponentVersionRecord>> {
        &mut self.own
    }
}

impl Reconcile for ComponentVersionKind {
    const KIND: ActorKind = COMPONENT_VERSION;
    type Request = NoRequest;
    type Memory = Memory;
    type Finding = ();

    fn memory(_: &Shared, _: bool) -> Memory {
        Memory::default()
    }

    async fn reconcile(pass: &mut Pass<Self>) -> Result<Option<Duration>, PassError> {
        catch_up::<_, _, ComponentVersion>(pass).await?;
        let Some(seen) = observe(pass) else { return Ok(None) };
        take_in_answers(pass);
        let version = seen.version;
        let written = if version.meta.terminating {
            // It is held here for nothing; a Release may hold it still.
            remove_own::<ComponentVersion>(&pass.shared, &version.meta, COMPONENT_VERSION_FINALIZER).await?
        } else {
            ensure::<ComponentVersion>(&pass.shared, &version.meta, COMPONENT_VERSION_FINALIZER).await?
        };
        if let Some(written) = written {
            keep(pass, &written);
        }
        if version.meta.terminating {
            return Ok(None);
        }
        // A Component that cannot be held now is tried again, and keeps nobody from looking.
        let protected = match seen.component {
            Some(component) => protect::<Component>(&pass.shared, &component, COMPONENT_REF_FINALIZER).await,
            None => Ok(()),
        };
        let wait = check(pass).await?;
        protected.map(|()| wait)
    }

    fn is_done(shared: &Shared, name: &ObjectName, _: &Memory) -> bool {
        shared.cache.read().component_versions.get(name).is_none()
    }

    fn is_dispensable(shared: &Shared, name: &ObjectName, memory: &mut Memory) -> bool {
        // Only frees what the watch has caught up with: no status says when the version's turn was asked for.
        has_caught_up(shared, name, &mut memory.own);
        false
    }
}

struct Seen {
    version: Arc<ComponentVersionRecord>,
    /// The Component, where it exists.
    component: Option<Meta>,
    subject: Result<Subject, Finding>,
}

/// The version as it is now; another of the same name starts with an empty memory.
fn observe(pass: &Pass<ComponentVersionKind>) -> Option<Seen> {
    let world = pass.shared.cache.read();
    let watched = world.component_versions.get(&pass.name);
    let mut memory = pass.memory();
    let version = settle(watched, &mut memory.own)?;
    watched?;
    if memory.uid != version.meta.uid {
        let own = memory.own.take();
        *memory = Memory { own, uid: version.meta.uid.clone(), ..Memory::default() };
    }
    let component = world.components.get(&version.component).map(|component| component.meta.clone());
    let subject = availability::subject(&world, &version);
    Some(Seen { version, component, subject })
}

fn take_in_answers(pass: &mut Pass<ComponentVersionKind>) {
    let (now, interval) = (pass.now(), pass.shared.options.availability.interval);
    let admission = pass.answers.remove(&registry_actor::key());
    let result = pass.answers.remove(&registry_actor::results_key());
    let mut memory = pass.memory();
    match admission {
        Some((Answer::Check(CheckAdmission::Started), _)) => memory.core.started(now),
        Some((Answer::Check(CheckAdmission::Throttled { retry_after }), _)) => {
            memory.core.throttled(retry_after, now, interval);
        }
        _ => {}
    }
    if let Some((Answer::Checked(checked), _)) = result {
        memory.core.checked(*checked);
    }
}

/// Goes on with the check as far as it comes without waiting.
async fn check(pass: &Pass<ComponentVersionKind>) -> Result<Option<Duration>, PassError> {
    let options = pass.shared.options.availability;
    for _ in 0..MOST_STEPS {
        let Some(Seen { version, subject, .. }) = observe(pass) else { return Ok(None) };
        let now =
            Now { moment: pass.now(), began: pass.shared.began(), wall: pass.shared.clock.wall_exact() };
        let step = availability::next(&version, &subject, &mut pass.memory().core, now, &options);
        tracing::debug!(?step, "the next step");
        match step {
            Step::Wait(until) => return Ok(until.map(|until| until.saturating_sub(now.moment))),
            Step::Ask { host, due, lane } => {
                let question = CheckManifest { version: pass.name.clone(), host, due, lane };
                // Where it cannot be handed over there is no answer, and whoever gets none asks again.
                let _ = pass.shared.checks.get().map(|checks| checks.try_send(question));
            }
            Step::Write(status) => write_status(pass, &version, &status).await?,
        }
    }
    Err(PassError::Endless(MOST_STEPS))
}

async fn write_status(
    pass: &Pass<ComponentVersionKind>,
    version: &ComponentVersionRecord,
    status: &solar_api::ComponentVersionStatus,
) -> Result<(), PassError> {
    let expect = Expect { uid: &version.meta.uid, resource_version: Some(&version.meta.resource_version) };
    let written = pass
        .shared
        .api
        .write_status::<ComponentVersion, _>(&pass.name, expect, &version.status.get(), status)
        .await?;
    if let Some(written) = written {
        keep(pass, &written);
    }
    pass.memory().core.written();
    Ok(())
}
