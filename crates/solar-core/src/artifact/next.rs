//! The step that comes next when no request waits.

use std::sync::Arc;

use super::memory::{ArtifactMemory, ArtifactOptions};
use super::requests::pin;
use super::view::View;
use crate::condition;
use crate::object::ObjectName;
use crate::oci_name;
use crate::overlay::{Moment, Own, WATCH_LAG};
use crate::record::{RenderArtifactRecord, RenderBindingRecord};
use crate::world::{IndexKey, World};
use solar_api::conditions::oci_cleanup;
use solar_api::names::RENDER_ARTIFACT_FINALIZER;

/// One step of an artifact's actor.
#[derive(Clone, Debug, PartialEq)]
pub enum ArtifactStep {
    /// Read artifact and bindings by API and keep what is found.
    Read,
    /// Put `render-artifact-finalizer` on.
    AddFinalizer,
    /// Write `status.chartURL`.
    SetChartUrl(String),
    /// Take `OCICleanup` out of the status: it speaks of a tag that is in use.
    ForgetCleanupFailure,
    /// Pin `spec.registryRef` to this Registry.
    Repin(ObjectName),
    /// Read the binding's owner by API; remove the binding when that owner is gone or another.
    CheckOwner(Arc<RenderBindingRecord>),
    /// Delete the artifact, with uid and resourceVersion as preconditions; no binding is left by API read.
    DeleteSelf,
    /// Say once that the tag is kept because it is bound.
    AnnounceKept,
    /// Look at the tag by HEAD: it may have gone before the artifact was bound again.
    Look,
    /// Delete the tag.
    CleanUp,
    /// No registry can hold the tag, for this reason: there is nothing to delete, and the artifact may go with a word.
    LetGo(String),
    /// Leave the tag to this other artifact, which stands for it too, provided that it does by API read.
    Yield(ObjectName),
    /// Take `render-artifact-finalizer` off.
    RemoveFinalizer,
    /// Nothing to do, until then or until something changes.
    Wait(Option<Moment>),
}

/// Decides the next step; also keeps the marks in `memory` that depend on what is seen. `world` knows the bindings' owners.
pub fn next(
    world: &World,
    view: &View<'_>,
    memory: &mut ArtifactMemory,
    options: &ArtifactOptions,
    now: Moment,
) -> ArtifactStep {
    notice(view, memory, now);
    // Not by a binding whose Target is not there: in a backup that is restored it may come before its owner.
    memory.seen_bound = memory.seen_bound || view.bindings.values().any(|binding| !world.is_stray(binding));
    // Before the owners: a watch that lags behind them must not keep the status from being written.
    if let Some(step) = owed_address(view).or_else(|| settle_owners(view)) {
        return step;
    }
    let step = match &view.artifact {
        // Only then its actor has nothing to remember any more.
        None => ArtifactStep::Wait(memory.idle_at().filter(|at| now < *at)),
        Some(artifact) if artifact.meta.terminating => terminating(world, view, artifact, memory, now),
        Some(artifact) => living(view, artifact, memory, options, now),
    };
    match step {
        // Whether the terminating artifact is bound is asked anew: a binding may come in between.
        ArtifactStep::DeleteSelf => memory.confirmed = false,
        ArtifactStep::CleanUp => {
            memory.cleaning = true;
            // Whatever becomes of it, what the tag held before proves nothing afterwards.
            memory.looked = None;
            memory.sighting = None;
        }
        ArtifactStep::Look => memory.cleaning = false,
        _ => {}
    }
    match (step, lag_deadline(memory)) {
        (ArtifactStep::Wait(_), Some(deadline)) if deadline <= now => ArtifactStep::Read,
        // Last: a status that cannot be written holds up nothing else.
        (ArtifactStep::Wait(until), deadline) => {
            outdated_failure(view, memory).unwrap_or_else(|| ArtifactStep::Wait(earlier(until, deadline)))
        }
        (step, _) => step,
    }
}

/// Keeps track of what this incarnation has seen.
pub(super) fn notice(view: &View<'_>, memory: &mut ArtifactMemory, now: Moment) {
    let terminating = view.artifact.as_ref().is_some_and(|artifact| artifact.meta.terminating);
    if !memory.started {
        memory.started = true;
        memory.terminating_at_start = terminating && now < memory.quiet_until;
    }
    let uid = view.artifact.as_ref().map(|artifact| artifact.meta.uid.clone());
    if memory.known_since.as_ref().map(|(uid, _)| uid) != uid.as_ref() {
        memory.known_since = uid.map(|uid| (uid, now));
        memory.seen_bound = false;
        memory.cleanup = super::Cleanup::default();
        memory.looked = None;
        memory.check_at = None;
        memory.look_at = None;
        memory.look_failures = 0;
    }
}

/// The chart's address, where the status of a living artifact does not have it yet.
fn owed_address(view: &View<'_>) -> Option<ArtifactStep> {
    let artifact = view.artifact.as_ref().filter(|artifact| {
        !artifact.meta.terminating && artifact.meta.has_finalizer(RENDER_ARTIFACT_FINALIZER)
    })?;
    (!artifact.has_its_address()).then(|| ArtifactStep::SetChartUrl(artifact.address()))
}

/// Why a tag could not be deleted is of no account once it is in use: where the artifact lives, or is held again.
fn outdated_failure(view: &View<'_>, memory: &ArtifactMemory) -> Option<ArtifactStep> {
    let artifact = view.artifact.as_ref()?;
    let in_use = !artifact.meta.terminating || !view.bindings.is_empty() && !memory.is_cleaning_up();
    let failed = condition::find(&artifact.status.get().conditions, oci_cleanup::TYPE).is_some();
    (in_use && failed).then_some(ArtifactStep::ForgetCleanupFailure)
}

/// A binding whose owner the watch does not know, or knows under another uid, is checked by API.
fn settle_owners(view: &View<'_>) -> Option<ArtifactStep> {
    let stray = view.bindings.strays().find(|binding| !binding.meta.terminating)?;
    Some(ArtifactStep::CheckOwner(stray.clone()))
}

fn living(
    view: &View<'_>,
    artifact: &RenderArtifactRecord,
    memory: &mut ArtifactMemory,
    options: &ArtifactOptions,
    now: Moment,
) -> ArtifactStep {
    if !artifact.meta.has_finalizer(RENDER_ARTIFACT_FINALIZER) {
        return ArtifactStep::AddFinalizer;
    }
    if !view.bindings.is_empty() {
        return match pin(&view.bindings, |_| true) {
            Some(wanted) if artifact.registry.as_ref() != Some(&wanted) => ArtifactStep::Repin(wanted),
            _ => check(artifact, memory, options, now),
        };
    }
    if let Some(wait) = wait_for_writes(memory, now) {
        return wait;
    }
    let since = memory.known_since.as_ref().map_or(now, |(_, since)| *since);
    let deadline = since + options.unbound_grace;
    if !memory.seen_bound && now < deadline {
        return ArtifactStep::Wait(Some(deadline));
    }
    if memory.confirmed { ArtifactStep::DeleteSelf } else { ArtifactStep::Read }
}

/// Looks from time to time whether the tag is still there. Not while it may be written: what a look shows then proves
/// nothing.
fn check(
    artifact: &RenderArtifactRecord,
    memory: &mut ArtifactMemory,
    options: &ArtifactOptions,
    now: Moment,
) -> ArtifactStep {
    if options.check_interval.is_none() || artifact.status.get().digest.is_none() || memory.errand {
        return ArtifactStep::Wait(None);
    }
    let Some(due) = memory.check_at else { return ArtifactStep::Wait(None) };
    if let Some(wait) = wait_for_writes(memory, now) {
        return wait;
    }
    let earliest = memory.look_at.unwrap_or_default().max(due);
    if now < earliest { ArtifactStep::Wait(Some(earliest)) } else { ArtifactStep::Look }
}

fn terminating(
    world: &World,
    view: &View<'_>,
    artifact: &RenderArtifactRecord,
    memory: &mut ArtifactMemory,
    now: Moment,
) -> ArtifactStep {
    if !artifact.meta.has_finalizer(RENDER_ARTIFACT_FINALIZER) {
        return ArtifactStep::Wait(None);
    }
    if memory.cleanup.done {
        // A deletion without an answer may still land: a tag that is pushed under a new artifact must not meet it.
        return wait_for_writes(memory, now).unwrap_or(ArtifactStep::RemoveFinalizer);
    }
    if memory.errand {
        return ArtifactStep::Wait(None);
    }
    if !memory.confirmed {
        return ArtifactStep::Read;
    }
    if !view.bindings.is_empty() {
        return kept(view, artifact, memory, now);
    }
    memory.announced = None;
    if let Some(wait) = wait_for_writes(memory, now) {
        return wait;
    }
    if let Some(fault) = oci_name::impossible(
        &artifact.coordinates.base_url,
        &artifact.coordinates.repository,
        &artifact.coordinates.tag,
    ) {
        return ArtifactStep::LetGo(fault);
    }
    if let Some(twin) = twin(world, artifact) {
        return ArtifactStep::Yield(twin);
    }
    match earlier_of_waits(memory, now) {
        Some(until) => ArtifactStep::Wait(Some(until)),
        None => ArtifactStep::CleanUp,
    }
}

/// Another artifact that stands for the same tag and stays: an earlier manager has spelt the host otherwise, or a person
/// made it.
pub fn twin(world: &World, artifact: &RenderArtifactRecord) -> Option<ObjectName> {
    let name = &artifact.meta.name;
    let key = IndexKey::repository(&name.namespace, &artifact.coordinates.repository);
    let is_twin =
        |other: &RenderArtifactRecord| other.meta.name != *name && other.coordinates == artifact.coordinates;
    let stays = |other: &RenderArtifactRecord| {
        !other.meta.terminating
            || world.render_bindings.count(&IndexKey::Artifact(other.meta.name.clone())) > 0
    };
    let mut others = world.render_artifacts.by(&key);
    others.find(|other| is_twin(other) && stays(other)).map(|other| other.meta.name.clone())
}

/// Terminating but bound: the tag stays, and so does the finalizer.
fn kept(
    view: &View<'_>,
    artifact: &RenderArtifactRecord,
    memory: &ArtifactMemory,
    now: Moment,
) -> ArtifactStep {
    let uid = Some(&artifact.meta.uid);
    if memory.announced.as_ref() != uid {
        return ArtifactStep::AnnounceKept;
    }
    // The look, and the clean-up once nobody holds it, need credentials that serve.
    if let Some(wanted) =
        pin(&view.bindings, |_| true).filter(|wanted| artifact.registry.as_ref() != Some(wanted))
    {
        return ArtifactStep::Repin(wanted);
    }
    if memory.looked.as_ref() == uid {
        return ArtifactStep::Wait(None);
    }
    if let Some(wait) = wait_for_writes(memory, now) {
        return wait;
    }
    let earliest = memory.look_at.unwrap_or_default().max(memory.quiet_until);
    if now < earliest { ArtifactStep::Wait(Some(earliest)) } else { ArtifactStep::Look }
}

/// While a ticket is open or a write may still land nothing is deleted: the wait until that is over.
fn wait_for_writes(memory: &ArtifactMemory, now: Moment) -> Option<ArtifactStep> {
    if memory.ticket.is_some() {
        return Some(ArtifactStep::Wait(None));
    }
    memory.under_way_until.filter(|until| now < *until).map(|until| ArtifactStep::Wait(Some(until)))
}

fn earlier_of_waits(memory: &ArtifactMemory, now: Moment) -> Option<Moment> {
    let earliest = memory.cleanup.retry_at.unwrap_or_default().max(memory.quiet_until);
    (now < earliest).then_some(earliest)
}

/// When the oldest own write that the watch has not shown yet is read again.
fn lag_deadline(memory: &ArtifactMemory) -> Option<Moment> {
    fn since<R>(own: &Own<R>) -> Option<Moment> {
        match own {
            Own::Present { since, .. } => Some(*since),
            Own::Gone { .. } => None,
        }
    }
    let artifact = memory.own_artifact.as_ref().and_then(since);
    let bindings = memory.own_bindings.values().filter_map(since).min();
    earlier(artifact, bindings).map(|since| since + WATCH_LAG)
}

fn earlier(a: Option<Moment>, b: Option<Moment>) -> Option<Moment> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
