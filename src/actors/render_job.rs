//! A job: one chart from its task's spec to the registry.
//!
//! Render, ask the artifact's actor for a ticket, read the task again, look at the tag, push if needed, tell the
//! artifact's actor. A job holds a render slot and no pass; whatever ends it, the pool gives its ticket back.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use solar_api::names::RENDER_REQUEST_ANNOTATION;
use solar_api::{RenderTask, RenderTaskType};
use solar_core::artifact::{Owner, PushRequest, Written};
use solar_core::content;
use solar_core::object::{ObjectName, Revision};
use solar_core::record::RenderTaskRecord;
use solar_core::render_task::{Fault, JobOutcome, is_owned_by_target};
use solar_core::routes::{ActorKey, RENDER_ARTIFACT};
use solar_core::target::Coordinates;
use solar_render::RenderedChart;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::access::{self, AccessError};
use super::directory::Undelivered;
use super::render_artifact::RenderArtifactKind;
use super::system::Shared;
use crate::adapters::kubernetes::{ApiError, PayloadError, Problem};
use crate::adapters::oci::{
    Artifact, CHART_LAYER_MEDIA_TYPE, Digest, Endpoint, OciError, OciErrorKind, Reference, is_marked_manifest,
};
use crate::messages::render_artifact::{ArtifactRequest, HeldTicket, OpenTicket, PushAnswer};
use crate::messages::render_pool::Submission;

/// How soon a request is handed over again whose receiver had no room.
const REDELIVERY: Duration = Duration::from_millis(50);
/// When a task tries again whose artifact another job is pushing.
const BUSY: Duration = Duration::from_secs(1);
/// The largest chart that is fetched to compare it, in bytes.
const COMPARE_LIMIT: usize = 16 * 1024 * 1024;

/// Held by whatever works for a job outside its task, which cannot be stopped: a job's slot is free when nobody else
/// holds it any more.
pub type Working = Arc<()>;

/// A rendered chart, ready to push.
#[derive(Clone, Debug)]
pub struct ReadyChart {
    /// The chart.
    chart: Arc<RenderedChart>,
    /// The artifact that it is pushed as.
    artifact: Arc<Artifact>,
}

/// Why a job ended without a chart in the registry.
enum End {
    Outcome(JobOutcome),
    Input(String),
    Surroundings {
        message: String,
        retry_after: Option<Duration>,
    },
    /// The registry answered 401 or 403.
    Unauthorized(String),
}

impl From<End> for JobOutcome {
    fn from(end: End) -> Self {
        match end {
            End::Outcome(outcome) => outcome,
            End::Input(message) => Self::Failed { fault: Fault::Input, message },
            End::Unauthorized(message) => {
                Self::Failed { fault: Fault::Surroundings { retry_after: None }, message }
            }
            End::Surroundings { message, retry_after } => {
                Self::Failed { fault: Fault::Surroundings { retry_after }, message }
            }
        }
    }
}

impl From<AccessError> for End {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::Api(error) => error.into(),
            error => Self::Surroundings { message: error.to_string(), retry_after: None },
        }
    }
}

impl From<ApiError> for End {
    fn from(error: ApiError) -> Self {
        let retry_after = match error.problem {
            Problem::Throttled(after) => after,
            _ => None,
        };
        Self::Surroundings { message: error.to_string(), retry_after }
    }
}

impl From<PayloadError> for End {
    fn from(error: PayloadError) -> Self {
        match error {
            PayloadError::Api(error) => error.into(),
            PayloadError::Gone(_) => Self::Outcome(JobOutcome::Stale),
        }
    }
}

impl From<OciError> for End {
    fn from(error: OciError) -> Self {
        let retry_after = error.retry_after();
        match error.kind {
            OciErrorKind::TooLarge { .. } => Self::Input(error.to_string()),
            OciErrorKind::Unauthorized { .. } | OciErrorKind::Forbidden { .. } => {
                Self::Unauthorized(error.to_string())
            }
            _ => Self::Surroundings { message: error.to_string(), retry_after },
        }
    }
}

/// Runs the job. `ready` is the chart of an earlier job of equal content. Hands the chart back for later ones.
pub async fn run(
    shared: Arc<Shared>,
    submission: Submission,
    ready: Option<ReadyChart>,
    ticket: HeldTicket,
    working: Working,
) -> (JobOutcome, Option<ReadyChart>) {
    let (task, chart) = match prepare(&shared, &submission, ready, working).await {
        Ok(prepared) => prepared,
        Err(end) => return (end.into(), None),
    };
    let job = Job { shared, submission, task, chart: chart.clone(), ticket };
    let outcome = job.push().await.unwrap_or_else(JobOutcome::from);
    (outcome, Some(chart))
}

async fn prepare(
    shared: &Arc<Shared>,
    submission: &Submission,
    ready: Option<ReadyChart>,
    working: Working,
) -> Result<(Arc<RenderTaskRecord>, ReadyChart), End> {
    let record = shared.cache.read().render_tasks.get(&submission.task).cloned();
    let record = record.filter(|record| record.meta.uid == submission.uid);
    if let (Some(record), Some(ready)) = (&record, ready) {
        return Ok((record.clone(), ready));
    }
    let revision = Revision { uid: submission.uid.clone(), generation: submission.generation };
    let task =
        shared.payloads.get_persistently::<RenderTask>(&shared.api, &submission.task, &revision).await?;
    if task.metadata.uid.as_deref() != Some(&submission.uid) {
        return Err(End::Outcome(JobOutcome::Stale));
    }
    let record = Arc::new(RenderTaskRecord::from(task.as_ref()));
    if is_owned_by_target(&record) && !content::tag_matches_content(&task.spec) {
        return Err(End::Input(format!(
            "spec.tag {} does not belong to the content of this task, which was changed after it was made: delete the \
             task",
            task.spec.tag
        )));
    }
    let began = Instant::now();
    let render = move || {
        let rendered = solar_render::render(&task.spec);
        drop(working);
        rendered
    };
    let rendered = shared.cpu.run(render).await;
    metrics::histogram!("solar_render_duration_seconds", "kind" => "RenderTask").record(began.elapsed());
    let chart = match rendered {
        Ok(Ok(chart)) => chart,
        Ok(Err(error)) => return Err(End::Input(error.to_string())),
        Err(error) => return Err(End::Input(format!("rendering failed: {error}"))),
    };
    let artifact = Artifact::chart(chart.config.clone(), chart.tgz.clone(), &chart.annotations);
    Ok((record, ReadyChart { chart: Arc::new(chart), artifact: Arc::new(artifact) }))
}

/// Whether `task` is not what the submission stood for any more.
fn is_stale(task: &RenderTask, submission: &Submission) -> bool {
    let annotations = task.metadata.annotations.as_ref();
    let request = annotations.and_then(|annotations| annotations.get(RENDER_REQUEST_ANNOTATION));
    task.metadata.uid.as_deref() != Some(&submission.uid)
        || task.metadata.deletion_timestamp.is_some()
        || request.map(String::as_str) != submission.render_request.as_deref()
}

/// Whether the job holds a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opened {
    /// It does, and may push.
    Ticket,
    /// It needs none: the chart is there.
    NotNeeded,
}

struct Job {
    shared: Arc<Shared>,
    submission: Submission,
    task: Arc<RenderTaskRecord>,
    chart: ReadyChart,
    ticket: HeldTicket,
}

impl Job {
    async fn push(&self) -> Result<JobOutcome, End> {
        if self.open().await? == Opened::NotNeeded {
            // A Target says of itself what it lacks. Of any other task nobody has looked yet whether it may push there.
            if !is_owned_by_target(&self.task) {
                self.endpoint().await?;
            }
            // The status write carries the task's version, which is enough where nothing is pushed.
            return Ok(self.succeeded(self.chart.artifact.digest().as_str()));
        }
        self.read_again().await?;
        let endpoint = self.endpoint().await?;
        let began = Instant::now();
        let looked = self.look(&endpoint).await.map_err(|end| self.with_mend(end));
        let digest = match looked? {
            Some(digest) => digest,
            None => self.upload(&endpoint).await.map_err(|end| self.with_mend(end))?,
        };
        metrics::histogram!("solar_push_duration_seconds").record(began.elapsed());
        self.done(digest.as_str()).await
    }

    /// Opens a ticket, unless the tag is known to hold this chart.
    async fn open(&self) -> Result<Opened, End> {
        let owner = self.task.controller.as_ref().filter(|_| is_owned_by_target(&self.task));
        let request = PushRequest {
            coordinates: Coordinates::of_task(&self.task),
            owner: owner.map(|owner| Owner {
                target: self.task.meta.name.sibling(&*owner.name),
                uid: owner.uid.clone(),
            }),
            digest: (!self.submission.look).then(|| self.chart.artifact.digest().as_str().to_owned()),
        };
        let (reply, answer) = oneshot::channel();
        self.ask(ArtifactRequest::OpenPush { request, held: self.ticket.clone(), reply }).await?;
        let held = |retry_after| Err(End::Outcome(JobOutcome::Held { retry_after }));
        match answer.await {
            Ok(PushAnswer::Granted { .. }) => Ok(Opened::Ticket),
            Ok(PushAnswer::Known) => Ok(Opened::NotNeeded),
            Ok(PushAnswer::NotBound) => held(None),
            Ok(PushAnswer::Terminating { retry_after }) => held(Some(retry_after)),
            // Without an answer the artifact's actor was restarted: ask again a little later.
            Ok(PushAnswer::Busy) | Err(_) => held(Some(BUSY)),
        }
    }

    /// Reads the task from the API, not the cache: only a task that still asks for this chart gets it pushed.
    async fn read_again(&self) -> Result<(), End> {
        let task = self.shared.api.get_persistently::<RenderTask>(&self.submission.task).await?;
        match task {
            Some(task) if !is_stale(&task, &self.submission) => Ok(()),
            _ => Err(End::Outcome(JobOutcome::Stale)),
        }
    }

    async fn endpoint(&self) -> Result<Endpoint, End> {
        let task = &self.task;
        let namespace = &task.meta.name.namespace;
        match (&task.registry, &task.push_secret) {
            (Some(registry), _) => {
                let kind = if self.target_names(registry) { "Target" } else { "RenderTask" };
                let found = access::endpoint(
                    &self.shared,
                    kind,
                    namespace,
                    Some(registry),
                    &task.coordinates.base_url,
                    &task.coordinates.repository,
                );
                Ok(found.await?)
            }
            (None, Some(secret)) => {
                let credentials = access::push_secret_credentials(
                    &self.shared,
                    secret,
                    &task.coordinates.base_url,
                    &task.coordinates.repository,
                )
                .await?;
                Ok(Endpoint::anonymous(&*task.coordinates.base_url, task.plain_http)
                    .with_credentials(credentials))
            }
            (None, None) => Ok(Endpoint::anonymous(&*task.coordinates.base_url, task.plain_http)),
        }
    }

    /// Whether a Target owns this task and still names `registry`: then its grant counts for the task.
    fn target_names(&self, registry: &ObjectName) -> bool {
        let Some(owner) = self.task.controller.as_ref().filter(|_| is_owned_by_target(&self.task)) else {
            return false;
        };
        let world = self.shared.cache.read();
        let target = world.targets.get(&self.task.meta.name.sibling(&*owner.name));
        target.is_some_and(|target| target.meta.uid == owner.uid && target.registry == *registry)
    }

    /// What the tag holds, if it is this chart. Absent, or a throw-away manifest that an interrupted clean-up left:
    /// `None`. Another chart is a stranger's.
    async fn look(&self, endpoint: &Endpoint) -> Result<Option<Digest>, End> {
        let tag = Reference::tag(self.task.coordinates.tag.to_string());
        let registry = &self.shared.registry;
        let Some(found) = registry.head(endpoint, &self.task.coordinates.repository, &tag).await? else {
            return Ok(None);
        };
        if found == *self.chart.artifact.digest() {
            return Ok(Some(found));
        }
        let Some(manifest) = registry.manifest(endpoint, &self.task.coordinates.repository, &tag).await?
        else {
            return Ok(None);
        };
        if is_marked_manifest(&manifest.bytes) {
            return Ok(None);
        }
        if let Some(layer) = chart_layer(&manifest.bytes) {
            let blob =
                registry.blob(endpoint, &self.task.coordinates.repository, &layer, COMPARE_LIMIT).await?;
            if blob.is_some_and(|tgz| self.chart.chart.has_content_of(&tgz)) {
                return Ok(Some(manifest.digest));
            }
        }
        Err(End::Input(format!(
            "{} holds {}, which somebody else pushed; this chart would be {}: delete that tag and set the annotation \
             {RENDER_REQUEST_ANNOTATION} of the Target or this task to another value, or change the {}",
            self.chart_url(),
            manifest.digest,
            self.chart.artifact.digest(),
            match self.task.type_ {
                RenderTaskType::Release => "Release",
                RenderTaskType::Bootstrap => "Target's releases",
            }
        )))
    }

    async fn upload(&self, endpoint: &Endpoint) -> Result<Digest, End> {
        self.mark(Written::Unanswered(self.shared.clock.elapsed()));
        let pushed = self
            .shared
            .registry
            .push(
                endpoint,
                &self.task.coordinates.repository,
                &self.task.coordinates.tag,
                &self.chart.artifact,
            )
            .await;
        match pushed {
            Ok(digest) => {
                self.mark(Written::Answered);
                Ok(digest)
            }
            Err(error) => {
                let is_answered = !error.may_still_land();
                let now = self.shared.clock.elapsed();
                self.mark(if is_answered { Written::Answered } else { Written::Unanswered(now) });
                Err(error.into())
            }
        }
    }

    /// Tells the artifact's actor what the tag holds, and waits until that is in the artifact's status.
    async fn done(&self, digest: &str) -> Result<JobOutcome, End> {
        let Some(open) = self.slot().clone() else { return Ok(JobOutcome::Stale) };
        let (done, written) = oneshot::channel();
        self.ask(ArtifactRequest::Pushed { ticket: open.ticket, digest: digest.to_owned(), done }).await?;
        if written.await.is_err() {
            // The artifact's actor was restarted and forgot the ticket: look at the tag once more.
            return Err(End::Outcome(JobOutcome::Held { retry_after: Some(BUSY) }));
        }
        self.take_ticket();
        Ok(self.succeeded(digest))
    }

    fn succeeded(&self, digest: &str) -> JobOutcome {
        JobOutcome::Succeeded { digest: digest.to_owned(), chart_url: self.chart_url() }
    }

    /// Names the Secret to look at, where the registry did not take its credentials.
    fn with_mend(&self, end: End) -> End {
        let End::Unauthorized(message) = end else { return end };
        let world = self.shared.cache.read();
        let mend =
            access::credentials_mend(&world, self.task.registry.as_ref(), self.task.push_secret.as_ref());
        End::Surroundings { message: format!("{message}: {mend}"), retry_after: None }
    }

    fn chart_url(&self) -> String {
        self.task.coordinates.chart_url()
    }

    /// Hands a request to the artifact's actor, as often as it takes; the job's time limit bounds it.
    async fn ask(&self, request: ArtifactRequest) -> Result<(), End> {
        let key = ActorKey::new(RENDER_ARTIFACT, self.task.artifact().clone());
        let mut request = request;
        loop {
            match self.shared.request::<RenderArtifactKind>(&key, request) {
                Ok(()) => return Ok(()),
                Err((Undelivered::Full | Undelivered::Ending, Some(back))) => request = back,
                Err((undelivered, _)) => {
                    return Err(End::Surroundings {
                        message: format!("{key}: {undelivered}"),
                        retry_after: None,
                    });
                }
            }
            tokio::time::sleep(REDELIVERY).await;
        }
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<OpenTicket>> {
        self.ticket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_ticket(&self) -> Option<OpenTicket> {
        self.slot().take()
    }

    /// Notes with the ticket what was sent under it.
    fn mark(&self, written: Written) {
        if let Some(open) = self.slot().as_mut() {
            open.written = written;
        }
    }
}

/// Digest of the chart layer in a manifest.
fn chart_layer(manifest: &[u8]) -> Option<Digest> {
    let manifest: serde_json::Value = serde_json::from_slice(manifest).ok()?;
    let layers = manifest.get("layers")?.as_array()?;
    let layer = layers.iter().find(|layer| layer["mediaType"] == CHART_LAYER_MEDIA_TYPE)?;
    layer.get("digest")?.as_str()?.parse().ok()
}
