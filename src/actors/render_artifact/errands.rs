//! What waits for a registry: looks at the tag and attempts to delete it. An errand holds no pass; what it brings back is
//! taken in by a later one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use solar_api::conditions::oci_cleanup;
use solar_api::{RenderArtifact, RenderArtifactStatus};
use solar_core::artifact::{self, ArtifactMemory, CleanupProblem, Sighting};
use solar_core::backoff;
use solar_core::condition::{self, Wanted};
use solar_core::object::{Meta, ObjectName};
use solar_core::overlay::Moment;
use solar_core::record::RenderArtifactRecord;
use solar_core::target::EventOrder;

use super::own::{emit, event, lock, write_status};
use super::{RenderArtifactKind, bindings_of, cleanup_fingerprint, known, look};
use crate::actors::access::{self, AccessError};
use crate::actors::object::{Pass, PassError};
use crate::actors::system::Shared;
use crate::adapters::kubernetes::ApiError;
use crate::adapters::oci::{
    Digest, Endpoint, OciErrorKind, Reference, UntagError, UntagOutcome, UntagProgress, UntagRequest, untag,
};

/// Bounds one attempt to delete a tag as a whole.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);
/// First wait after an attempt that failed.
const RETRY_BASE: Duration = Duration::from_secs(1);
/// Longest wait after an attempt that failed.
const RETRY_CAP: Duration = Duration::from_secs(300);

/// What an errand brings back.
#[derive(Debug)]
pub enum Finding {
    /// A look at the tag.
    Looked {
        /// The artifact's uid.
        uid: Box<str>,
        /// The last ticket that had been given when it began.
        last_ticket: u64,
        /// What the tag holds, or why that is not known.
        found: Result<Option<String>, String>,
    },
    /// A look at the tag with the credentials of a Target that wants to bind.
    Sighted(Sighting),
    /// No attempt was made to delete the tag: something else is so than when it was decided upon.
    NotTried,
    /// No attempt was made to delete the tag: the API server did not say whether it may be.
    NotConfirmed(ApiError),
    /// An attempt to delete the tag.
    CleanedUp {
        /// The artifact's uid.
        uid: Box<str>,
        /// How it ended.
        result: Result<UntagOutcome, CleanupFailure>,
    },
}

/// Why a tag was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum CleanupFailure {
    /// Registry, grant or Secret.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The registry.
    #[error(transparent)]
    Untag(#[from] UntagError),
    /// The attempt took too long.
    #[error("the attempt did not end within {} s", CLEANUP_TIMEOUT.as_secs())]
    TimedOut,
}

impl CleanupFailure {
    fn problem(&self) -> CleanupProblem {
        match self {
            // The API server did not answer; the Secret may be as it should.
            Self::Access(AccessError::Api(_)) => CleanupProblem::Other,
            Self::Access(_) => CleanupProblem::NoCredentials,
            Self::Untag(error) if error.is_definite_refusal() => CleanupProblem::Refused,
            Self::Untag(_) | Self::TimedOut => CleanupProblem::Other,
        }
    }
}

/// Sends a look at the tag.
pub(super) fn send_look(pass: &mut Pass<RenderArtifactKind>, artifact: Arc<RenderArtifactRecord>) {
    let last_ticket = {
        let mut memory = pass.memory();
        memory.core.errand = true;
        memory.core.check_at = None;
        memory.core.last_ticket
    };
    let shared = pass.shared.clone();
    pass.send_errand(&artifact.coordinates.base_url.clone(), async move {
        let uid = artifact.meta.uid.clone();
        let found = see(&shared, "RenderArtifact", &artifact, artifact.registry.as_ref()).await;
        Finding::Looked { uid, last_ticket, found }
    });
}

/// Sends a look at the tag with the credentials of the Registry that a Target names which wants to bind. While another
/// errand is out, what waits is decided anew when that is back.
pub(super) fn send_sighting(pass: &mut Pass<RenderArtifactKind>, registry: ObjectName) {
    let Some(artifact) = known(pass) else { return };
    {
        let mut memory = pass.memory();
        if memory.core.errand {
            return;
        }
        memory.core.errand = true;
        memory.core.cleaning = false;
    }
    let shared = pass.shared.clone();
    pass.send_errand(&artifact.coordinates.base_url.clone(), async move {
        let uid = artifact.meta.uid.clone();
        let found = see(&shared, "Target", &artifact, Some(&registry)).await;
        Finding::Sighted(Sighting { uid, registry, found })
    });
}

/// What the tag holds, by the credentials of `registry` and the right of an object of `kind`.
async fn see(
    shared: &Shared,
    kind: &'static str,
    artifact: &RenderArtifactRecord,
    registry: Option<&ObjectName>,
) -> Result<Option<String>, String> {
    let endpoint = endpoint(shared, kind, artifact, registry).await.map_err(|error| error.to_string())?;
    let tag = Reference::tag(artifact.coordinates.tag.to_string());
    let found = shared.registry.head(&endpoint, &artifact.coordinates.repository, &tag).await;
    found.map(|digest| digest.map(|digest| digest.as_str().to_owned())).map_err(|error| error.to_string())
}

async fn endpoint(
    shared: &Shared,
    kind: &'static str,
    artifact: &RenderArtifactRecord,
    registry: Option<&ObjectName>,
) -> Result<Endpoint, AccessError> {
    let namespace = &artifact.meta.name.namespace;
    access::endpoint(
        shared,
        kind,
        namespace,
        registry,
        &artifact.coordinates.base_url,
        &artifact.coordinates.repository,
    )
    .await
}

/// Sends an attempt to delete the tag.
pub(super) fn send_cleanup(pass: &mut Pass<RenderArtifactKind>, artifact: Arc<RenderArtifactRecord>) {
    let fingerprint = {
        let world = pass.shared.cache.read();
        let lenders = pass.memory().core.cleanup.lenders.clone();
        cleanup_fingerprint(&world, &artifact, &lenders)
    };
    let (progress, lenders) = {
        let mut memory = pass.memory();
        memory.core.errand = true;
        memory.core.cleanup.fingerprint = Some(fingerprint);
        if memory.progress_uid != artifact.meta.uid {
            memory.progress_uid = artifact.meta.uid.clone();
            memory.progress = Arc::default();
        }
        (memory.progress.clone(), memory.core.cleanup.lenders.clone())
    };
    let shared = pass.shared.clone();
    pass.send_errand(&artifact.coordinates.base_url.clone(), clean_up(shared, artifact, lenders, progress));
}

async fn clean_up(
    shared: Arc<Shared>,
    artifact: Arc<RenderArtifactRecord>,
    lenders: BTreeSet<ObjectName>,
    progress: Arc<Mutex<UntagProgress>>,
) -> Finding {
    let uid = artifact.meta.uid.clone();
    // It may have waited long behind a registry that hangs: what was read before counts no more.
    let artifact = match still_unbound(&shared, &artifact.meta).await {
        Ok(Some(artifact)) => artifact,
        Ok(None) => return Finding::NotTried,
        Err(error) => return Finding::NotConfirmed(error),
    };
    // What is known is taken along, and put back whatever happens: also when this errand is dropped in mid-air.
    let known = lock(&progress).clone();
    let mut carried = Carried { progress: known, home: progress };
    let attempt = delete_tag(&shared, &artifact, &lenders, &mut carried.progress);
    let result = match tokio::time::timeout(CLEANUP_TIMEOUT, attempt).await {
        Ok(result) => result,
        Err(_) => Err(CleanupFailure::TimedOut),
    };
    Finding::CleanedUp { uid, result }
}

/// The artifact as it is now, if it is still to be cleaned up by API reads.
async fn still_unbound(shared: &Shared, meta: &Meta) -> Result<Option<RenderArtifactRecord>, ApiError> {
    let found = shared.api.get::<RenderArtifact>(&meta.name).await?;
    let found = found.as_ref().map(RenderArtifactRecord::from);
    let Some(artifact) = found.filter(|found| found.meta.uid == meta.uid && found.meta.terminating) else {
        return Ok(None);
    };
    // Read last: a binding comes before its artifact.
    let bindings = bindings_of(shared, &meta.name).await?;
    let has_twin = || artifact::twin(&shared.cache.read(), &artifact).is_some();
    Ok((bindings.is_empty() && !has_twin()).then_some(artifact))
}

struct Carried {
    progress: UntagProgress,
    home: Arc<Mutex<UntagProgress>>,
}

impl Drop for Carried {
    fn drop(&mut self) {
        *lock(&self.home) = self.progress.clone();
    }
}

async fn delete_tag(
    shared: &Shared,
    artifact: &RenderArtifactRecord,
    lenders: &BTreeSet<ObjectName>,
    progress: &mut UntagProgress,
) -> Result<UntagOutcome, CleanupFailure> {
    let endpoint = own_or_lent_endpoint(shared, artifact, lenders).await?;
    // A status that somebody filled with nonsense says as little as an empty one.
    let expected = artifact.status.get().digest.as_deref().and_then(|digest| digest.parse::<Digest>().ok());
    let request = UntagRequest {
        endpoint: &endpoint,
        repository: &artifact.coordinates.repository,
        tag: &artifact.coordinates.tag,
        expected: expected.as_ref(),
    };
    Ok(untag(shared.registry.as_ref(), &request, progress).await?)
}

/// The artifact's own credentials, or those of the first lender that has some for the tag's host. Where there are none,
/// the artifact's own fault is told.
async fn own_or_lent_endpoint(
    shared: &Shared,
    artifact: &RenderArtifactRecord,
    lenders: &BTreeSet<ObjectName>,
) -> Result<Endpoint, AccessError> {
    let own = endpoint(shared, "RenderArtifact", artifact, artifact.registry.as_ref()).await;
    let error = match own {
        Ok(_) | Err(AccessError::Api(_)) => return own,
        Err(error) => error,
    };
    for lender in lenders {
        if let Ok(lent) = endpoint(shared, "RenderArtifact", artifact, Some(lender)).await {
            return Ok(lent);
        }
    }
    Err(error)
}

/// Keeps what an errand brought back.
pub(super) async fn take_in(pass: &mut Pass<RenderArtifactKind>) -> Result<(), PassError> {
    let Some(finding) = pass.finding.take() else {
        if pass.memory().core.errand && !pass.errand_out {
            died(pass);
        }
        return Ok(());
    };
    pass.memory().core.errand = false;
    let artifact = known(pass);
    match finding {
        Finding::Looked { uid, last_ticket, found } => {
            let Some(artifact) = artifact.filter(|artifact| artifact.meta.uid == uid) else { return Ok(()) };
            // What was seen before or during a push proves nothing of the tag as it is now.
            let is_outdated = pass.memory().core.last_ticket != last_ticket;
            if is_outdated && !artifact.meta.terminating {
                return Ok(());
            }
            looked(pass, &artifact, found).await
        }
        Finding::Sighted(sighting) => {
            pass.memory().core.sighting = Some(sighting);
            Ok(())
        }
        // This pass reads anew before it decides.
        Finding::NotTried => Ok(()),
        Finding::NotConfirmed(error) => {
            // What the registry said of an earlier attempt still holds.
            let (now, jitter) = (pass.now(), pass.rng.f64());
            retry_cleanup(&mut pass.memory().core, now, jitter);
            Err(error.into())
        }
        Finding::CleanedUp { uid, result } => {
            // Whatever has become of the artifact meanwhile: the tag is the same.
            note_unanswered(pass);
            if let Some(artifact) = artifact.filter(|artifact| artifact.meta.uid == uid) {
                cleaned_up(pass, &artifact, result);
            }
            Ok(())
        }
    }
}

/// No finding although an errand was out: it died. What it wrote may still land.
fn died(pass: &mut Pass<RenderArtifactKind>) {
    let now = pass.now();
    let jitter = pass.rng.f64();
    let mut memory = pass.memory();
    memory.core.errand = false;
    if memory.core.cleaning {
        let until = Some(now + artifact::UNANSWERED_WRITE);
        memory.core.under_way_until = memory.core.under_way_until.max(until);
        memory.core.untouched = None;
        let cause = "the attempt was cut short".to_owned();
        fail_cleanup(&mut memory.core, CleanupProblem::Other, cause, now, jitter);
    } else {
        fail_look(&mut memory.core, now, jitter);
        // Whoever waits for it asks again.
        memory.waiting.clear();
    }
}

async fn looked(
    pass: &mut Pass<RenderArtifactKind>,
    artifact: &RenderArtifactRecord,
    found: Result<Option<String>, String>,
) -> Result<(), PassError> {
    match found {
        Ok(found) => {
            let stored = artifact.status.get();
            if found.is_none() || found != stored.digest {
                if let Some(pushed) = stored.digest.as_deref() {
                    let found = found.as_deref().unwrap_or("nothing");
                    let chart = artifact.address();
                    tracing::warn!(artifact = %artifact.meta.name, chart, found, pushed, "a tag does not hold what was pushed");
                }
                // Only when that is written it counts as looked at: the owners learn that their chart has to be pushed
                // again.
                let wanted = RenderArtifactStatus { digest: None, ..stored };
                if let Err(error) = write_status(pass, artifact, &wanted).await {
                    let (now, jitter) = (pass.now(), pass.rng.f64());
                    fail_look(&mut pass.memory().core, now, jitter);
                    return Err(error);
                }
            }
            let mut memory = pass.memory();
            memory.core.look_failures = 0;
            memory.core.looked = Some(artifact.meta.uid.clone());
        }
        Err(error) => {
            let jitter = pass.rng.f64();
            let now = pass.now();
            let mut memory = pass.memory();
            fail_look(&mut memory.core, now, jitter);
            tracing::info!(artifact = %artifact.meta.name, error, "a look at a tag failed");
        }
    }
    Ok(())
}

fn cleaned_up(
    pass: &mut Pass<RenderArtifactKind>,
    artifact: &RenderArtifactRecord,
    result: Result<UntagOutcome, CleanupFailure>,
) {
    let failure = match result {
        Ok(outcome) => return succeeded(pass, artifact, &outcome),
        Err(failure) => failure,
    };
    if failure.problem() == CleanupProblem::NoCredentials {
        if pass.memory().core.has_nothing_to_delete(artifact) {
            let note = format!("no tag is deleted, for nothing was pushed there: {failure}");
            end(pass, artifact, event("OCICleanupSkipped", &note));
            return;
        }
    } else {
        // The attempt may have written to the tag itself.
        pass.memory().core.untouched = None;
    }
    metrics::counter!("solar_tag_deletions_total", "result" => "failure").increment(1);
    let jitter = pass.rng.f64();
    let now = pass.now();
    let message = message(pass, artifact, &failure);
    let reason = match &failure {
        CleanupFailure::Access(_) => oci_cleanup::AUTH_FAILED,
        _ => oci_cleanup::DELETE_FAILED,
    };
    emit(pass, artifact, EventOrder { warning: true, reason: "OCICleanupFailed", note: message.clone() });
    let mut memory = pass.memory();
    fail_cleanup(&mut memory.core, failure.problem(), message.clone(), now, jitter);
    memory.owed_condition = Some((artifact.meta.uid.clone(), Wanted::no(oci_cleanup::TYPE, reason, message)));
}

/// Why the tag was not deleted, with the mend where the credentials were not taken.
fn message(
    pass: &Pass<RenderArtifactKind>,
    artifact: &RenderArtifactRecord,
    failure: &CleanupFailure,
) -> String {
    let message = format!("{} was not deleted: {failure}", artifact.coordinates);
    let CleanupFailure::Untag(error) = failure else { return message };
    let kind = error.oci_error().map(|error| &error.kind);
    if !matches!(kind, Some(OciErrorKind::Unauthorized { .. } | OciErrorKind::Forbidden { .. })) {
        return message;
    }
    let world = pass.shared.cache.read();
    let mend = access::credentials_mend(&world, artifact.registry.as_ref(), None);
    format!("{message}: {mend}")
}

fn succeeded(pass: &Pass<RenderArtifactKind>, artifact: &RenderArtifactRecord, outcome: &UntagOutcome) {
    metrics::counter!("solar_tag_deletions_total", "result" => "success").increment(1);
    let order = match outcome {
        UntagOutcome::Deleted => event("OCICleanupSucceeded", "the tag was deleted"),
        UntagOutcome::AlreadyGone => event("OCICleanupSucceeded", "the tag was already gone"),
        UntagOutcome::Foreign { found, expected } => EventOrder {
            warning: true,
            reason: "OCICleanupFailed",
            note: format!(
                "the tag holds {found}, not {expected} that was pushed for this artifact: it is somebody else's and \
                 stays"
            ),
        },
    };
    end(pass, artifact, order);
    *lock(&pass.memory().progress) = UntagProgress::default();
}

/// Nothing is left to do for the tag, of which `order` tells.
fn end(pass: &Pass<RenderArtifactKind>, artifact: &RenderArtifactRecord, order: EventOrder) {
    emit(pass, artifact, order);
    let mut memory = pass.memory();
    memory.core.cleanup = artifact::Cleanup { done: true, ..artifact::Cleanup::default() };
    memory.owed_condition = None;
}

/// Lets an artifact go whose tag no registry can hold, and says so.
pub(super) fn let_go(pass: &Pass<RenderArtifactKind>, artifact: &RenderArtifactRecord, fault: &str) {
    let note = format!("no tag is deleted, for no registry can hold one there: {fault}");
    end(pass, artifact, EventOrder { warning: true, reason: "OCICleanupFailed", note });
}

/// Lets an artifact go whose tag is left to `twin`.
pub(super) fn yield_to(pass: &Pass<RenderArtifactKind>, artifact: &RenderArtifactRecord, twin: &ObjectName) {
    let note = format!("the tag is kept: RenderArtifact {twin} stands for it too");
    end(pass, artifact, event("OCICleanupSkipped", &note));
}

/// Writes what the status has to say of the last attempt to delete the tag; kept until it does.
pub(super) async fn write_owed_condition(pass: &Pass<RenderArtifactKind>) -> Result<(), PassError> {
    let Some((uid, wanted)) = pass.memory().owed_condition.clone() else { return Ok(()) };
    // What is held again is in use: why it was not deleted is of no account.
    let unheld = look(pass, |view, _| view.artifact.clone().filter(|_| view.bindings.is_empty()));
    let artifact = unheld.filter(|artifact| artifact.meta.uid == uid);
    if let Some(artifact) = artifact {
        let stored = artifact.status.get();
        let mut status = stored.clone();
        let now = pass.shared.clock.wall();
        condition::set(&mut status.conditions, &wanted, artifact.meta.generation, now);
        if !condition::same(&status.conditions, &stored.conditions) {
            write_status(pass, &artifact, &status).await?;
        }
    }
    pass.memory().owed_condition = None;
    Ok(())
}

/// A deletion whose answer never came may still take effect.
fn note_unanswered(pass: &Pass<RenderArtifactKind>) {
    let now = pass.now();
    let mut memory = pass.memory();
    let unanswered = lock(&memory.progress).unanswered_write();
    if let Some(at) = unanswered {
        let until = (now + artifact::UNANSWERED_WRITE).saturating_sub(at.elapsed());
        memory.core.under_way_until = memory.core.under_way_until.max(Some(until));
    }
}

fn fail_cleanup(
    memory: &mut ArtifactMemory,
    problem: CleanupProblem,
    cause: String,
    now: Moment,
    jitter: f64,
) {
    retry_cleanup(memory, now, jitter);
    memory.cleanup.cause = Some(cause);
    memory.cleanup.problem = Some(problem);
}

fn retry_cleanup(memory: &mut ArtifactMemory, now: Moment, jitter: f64) {
    let wait = backoff::delay(memory.cleanup.failures, RETRY_BASE, RETRY_CAP, jitter);
    memory.cleanup.failures += 1;
    memory.cleanup.retry_at = Some(now + wait);
}

fn fail_look(memory: &mut ArtifactMemory, now: Moment, jitter: f64) {
    let wait = backoff::delay(memory.look_failures, RETRY_BASE, RETRY_CAP, jitter);
    memory.look_failures += 1;
    memory.look_at = Some(now + wait);
    // A living artifact's tag is not left until the next regular time.
    memory.check_at = Some(now);
}
