//! What a RenderTask needs next: a job, a status, or nothing.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use solar_api::conditions::render_task as reason;
use solar_api::{RenderTaskStatus, Target};

use crate::backoff;
use crate::condition::{self, Status, Wanted};
use crate::overlay::Moment;
use crate::record::{RenderArtifactRecord, RenderTaskRecord};
use crate::target::EventOrder;

/// Attempts after which a task that never came to a result is given up: it may be what ends the process.
pub const MAX_ATTEMPTS: i32 = 3;
/// How long a task may wait for its turn before its status says so.
pub const SCHEDULED_AFTER: Duration = Duration::from_secs(2);
/// First wait after a failure of the surroundings.
pub const RETRY_BASE: Duration = Duration::from_secs(5);
/// Longest wait after a failure of the surroundings.
pub const RETRY_CAP: Duration = Duration::from_secs(300);

/// How long the watch may take to show a digest that was just written.
const WATCH_LAG: Duration = Duration::from_secs(5);
/// How long a task waits for a change of its binding or artifact before it asks all the same: the change may have come
/// before the answer.
const HELD_RECHECK: Duration = Duration::from_secs(30);
/// How long a submission goes without a word before it is made again: its answer may have been lost with a pass that
/// failed, and the pool takes a second one for the first.
pub const ASK_AGAIN: Duration = Duration::from_secs(30);
/// First wait when a chart is thrown away as stale twice in a row: the watch needs a moment.
const STALE_BASE: Duration = Duration::from_millis(100);
/// Longest wait after a chart was thrown away as stale.
const STALE_CAP: Duration = Duration::from_secs(5);

/// Whose fault a failed attempt was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The task's own input: the same input fails again, so nothing is retried.
    Input,
    /// Something around the task: retried with backoff, and at once when the cause changes.
    Surroundings {
        /// What the registry asked for.
        retry_after: Option<Duration>,
    },
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// The chart is in the registry.
    Succeeded {
        /// Digest of its manifest.
        digest: String,
        /// Its `oci://` address.
        chart_url: String,
    },
    /// The attempt failed.
    Failed {
        /// Whose fault it was.
        fault: Fault,
        /// The cause in one sentence.
        message: String,
    },
    /// The task changed while its chart was rendered; nothing was pushed.
    Stale,
    /// The artifact could not be pushed to just now; nothing was pushed.
    Held {
        /// When to try again; `None`: when the binding or artifact changes.
        retry_after: Option<Duration>,
    },
}

/// What the task's actor remembers between passes.
#[derive(Clone, Debug, Default)]
pub struct TaskMemory {
    /// A submission or job is out.
    pub submitted: bool,
    /// When it was last asked for.
    pub asked_at: Option<Moment>,
    /// Outcome of the last job, until it is taken in.
    pub outcome: Option<JobOutcome>,
    /// What the last job came to, until the status says so.
    pub result: Option<TaskResult>,
    /// The pool was full: no submission before this.
    pub refused_until: Option<Moment>,
    /// Since when the task has been waiting for its turn.
    pub waiting_since: Option<Moment>,
    /// Charts thrown away as stale in a row.
    pub stale: u32,
    /// Failures of the surroundings in a row.
    pub failures: u32,
    /// No attempt before this.
    pub retry_at: Option<Moment>,
    /// The surroundings in which the last attempt failed.
    pub failed_with: Option<String>,
    /// The surroundings, and binding and artifact, when the last job was submitted.
    pub submitted_with: Option<(String, String)>,
    /// The number of attempts that the status has to show before the attempt that begins.
    pub counted: Option<i32>,
    /// A person asked for another attempt at a chart that is there, and the status has noted it.
    pub again: bool,
    /// Waits for a change of the binding or artifact: what they were, and until when.
    pub held: Option<(String, Moment)>,
    /// The digest that this task's job left in the artifact's status, and when: the watch may not show it yet.
    pub pushed: Option<(String, Moment)>,
}

impl TaskMemory {
    /// Whether an empty memory would lead to the same steps for `task` from `now` on.
    pub fn is_dispensable(&self, task: &RenderTaskRecord, now: Moment) -> bool {
        let is_resolved = is_true(task, reason::JOB_SUCCEEDED) || is_true(task, reason::JOB_FAILED);
        let is_attempt_ahead = self.submitted
            || self.outcome.is_some()
            || self.result.is_some()
            || self.again
            || self.held.is_some()
            || self.retry_at.is_some()
            || self.refused_until.is_some_and(|until| now < until)
            || self.waiting_since.is_some();
        let is_watch_behind = self.pushed.as_ref().is_some_and(|(_, at)| now < *at + WATCH_LAG);
        is_resolved && !is_attempt_ahead && !is_watch_behind && self.failures == 0 && self.stale == 0
    }
}

/// What a job came to that the status has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskResult {
    /// The chart is in the registry.
    Succeeded {
        /// Digest of its manifest.
        digest: String,
        /// Its `oci://` address.
        chart_url: String,
    },
    /// The attempt failed.
    Failed {
        /// The cause in one sentence.
        message: String,
        /// Whether the same input fails again.
        is_final: bool,
    },
}

/// What a pass sees besides the task.
#[derive(Clone, Copy, Debug)]
pub struct TaskView<'a> {
    /// The artifact of the task's coordinates.
    pub artifact: Option<&'a RenderArtifactRecord>,
    /// Whether the task may push: its Target holds the artifact, or no Target owns it.
    pub bound: bool,
    /// Whether this process saw the task being created, so that no earlier attempt can have ended a process.
    pub seen_created: bool,
    /// Registry, grant and host as they are now, in any form that differs when one of them does.
    pub surroundings: &'a str,
}

/// One step of a task's actor.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskStep {
    /// Write the status, then record the event.
    WriteStatus(RenderTaskStatus, Option<EventOrder>),
    /// Submit a job.
    Submit,
    /// Nothing to do, until then or until something changes.
    Wait(Option<Moment>),
}

/// Decides the next step. `jitter` is in 0..1.
pub fn next(
    task: &RenderTaskRecord,
    view: &TaskView<'_>,
    memory: &mut TaskMemory,
    now: Moment,
    wall: Timestamp,
    jitter: f64,
) -> TaskStep {
    if task.meta.terminating {
        return TaskStep::Wait(None);
    }
    if let Some(outcome) = memory.outcome.take() {
        take_in(view, memory, outcome, now, jitter);
    }
    // Kept until the status says it, for the write may fail.
    if let Some(step) = memory.result.as_ref().and_then(|result| write_result(task, result, wall)) {
        return step;
    }
    memory.result = None;
    if memory.submitted {
        return out(task, memory, now, wall);
    }
    if !view.bound {
        // When it is bound again, that is a change.
        memory.held = None;
    }
    if !wants_attempt(task, view, memory) {
        return TaskStep::Wait(None);
    }
    if let Some(until) = watch_lags(task, memory, now) {
        return TaskStep::Wait(Some(until));
    }
    if let Some(wait) = not_yet(task, view, memory, now) {
        return wait;
    }
    if let Some(step) = before_attempt(task, view, memory, wall) {
        return step;
    }
    memory.waiting_since.get_or_insert(now);
    match memory.refused_until {
        Some(until) if now < until => waiting(task, memory, now, wall),
        _ => {
            memory.asked_at = Some(now);
            memory.submitted_with = Some((view.surroundings.to_owned(), held_mark(view)));
            TaskStep::Submit
        }
    }
}

/// Whether the status calls for another attempt.
fn wants_attempt(task: &RenderTaskRecord, view: &TaskView<'_>, memory: &TaskMemory) -> bool {
    if !view.bound {
        return false;
    }
    if requested(task) || memory.again {
        return true;
    }
    if is_true(task, reason::JOB_SUCCEEDED) {
        let Some(digest) = task.status.get().digest else { return true };
        return match view.artifact {
            Some(artifact) => artifact.status.get().digest != Some(digest),
            None => task.controller.as_ref().is_some_and(|owner| *owner.kind == *"Target"),
        };
    }
    !(is_true(task, reason::JOB_FAILED) && attempts(task) >= MAX_ATTEMPTS)
}

/// Right after a push the artifact's status may be ahead of the watch: the digest is believed for a while.
fn watch_lags(task: &RenderTaskRecord, memory: &TaskMemory, now: Moment) -> Option<Moment> {
    let (digest, at) = memory.pushed.as_ref()?;
    let until = *at + WATCH_LAG;
    let done = is_true(task, reason::JOB_SUCCEEDED) && task.status.get().digest.as_ref() == Some(digest);
    (done && !requested(task) && !memory.again && now < until).then_some(until)
}

/// Whether a person asked for another attempt.
fn requested(task: &RenderTaskRecord) -> bool {
    task.render_request.as_deref() != task.status.get().observed_render_request.as_deref()
        && task.render_request.is_some()
}

/// The wait after a failure, unless what it depended on has changed or a person asked.
fn not_yet(
    task: &RenderTaskRecord,
    view: &TaskView<'_>,
    memory: &mut TaskMemory,
    now: Moment,
) -> Option<TaskStep> {
    if requested(task) {
        memory.held = None;
        memory.retry_at = None;
        return None;
    }
    if let Some((mark, until)) = &memory.held {
        if now < *until && *mark == held_mark(view) {
            return Some(TaskStep::Wait(Some(*until)));
        }
        memory.held = None;
    }
    let retry_at = memory.retry_at?;
    if now >= retry_at || memory.failed_with.as_deref() != Some(view.surroundings) {
        memory.retry_at = None;
        return None;
    }
    Some(TaskStep::Wait(Some(retry_at)))
}

/// What the status must say before an attempt begins.
fn before_attempt(
    task: &RenderTaskRecord,
    view: &TaskView<'_>,
    memory: &mut TaskMemory,
    wall: Timestamp,
) -> Option<TaskStep> {
    let failed = is_true(task, reason::JOB_FAILED);
    let requested = requested(task);
    let unresolved = !failed && !is_true(task, reason::JOB_SUCCEEDED);
    let counted = memory.counted.is_some_and(|wanted| attempts(task) >= wanted);
    if unresolved && !requested && !view.seen_created && !counted {
        if attempts(task) >= MAX_ATTEMPTS {
            let message = format!(
                "{MAX_ATTEMPTS} attempts ended without a result, perhaps with the process; change the input, or set \
                 the annotation {} to a new value to try again",
                solar_api::names::RENDER_REQUEST_ANNOTATION
            );
            return failed_status(task, wall, &message, true);
        }
        let mut status = task.status.get();
        status.attempts = Some(attempts(task) + 1);
        memory.counted = status.attempts;
        return Some(TaskStep::WriteStatus(status, None));
    }
    if !failed && !requested {
        return None;
    }
    let mut status = task.status.get();
    status.attempts = None;
    status.observed_render_request = task.render_request.as_deref().map(Into::into);
    if failed {
        set(&mut status, task, reason::JOB_FAILED, false, reason::RETRYING, "another attempt began", wall);
    }
    memory.counted = Some(0);
    memory.again = requested && !unresolved && !failed;
    (status != task.status.get()).then_some(TaskStep::WriteStatus(status, None))
}

/// Keeps what follows from an outcome.
fn take_in(view: &TaskView<'_>, memory: &mut TaskMemory, outcome: JobOutcome, now: Moment, jitter: f64) {
    memory.waiting_since = None;
    // What changed since the submission may or may not have been seen by the job: better one attempt too many.
    let (surroundings, mark) =
        memory.submitted_with.take().unwrap_or_else(|| (view.surroundings.to_owned(), held_mark(view)));
    if outcome != JobOutcome::Stale {
        memory.stale = 0;
    }
    match outcome {
        JobOutcome::Stale => {
            if let Some(earlier) = memory.stale.checked_sub(1) {
                memory.refused_until = Some(now + backoff::delay(earlier, STALE_BASE, STALE_CAP, jitter));
            }
            memory.stale = memory.stale.saturating_add(1);
        }
        JobOutcome::Held { retry_after: Some(after) } => memory.refused_until = Some(now + after),
        JobOutcome::Held { retry_after: None } => memory.held = Some((mark, now + HELD_RECHECK)),
        JobOutcome::Succeeded { digest, chart_url } => {
            memory.again = false;
            memory.failures = 0;
            memory.retry_at = None;
            memory.pushed = Some((digest.clone(), now));
            memory.result = Some(TaskResult::Succeeded { digest, chart_url });
        }
        JobOutcome::Failed { fault: Fault::Input, message } => {
            memory.again = false;
            memory.result = Some(TaskResult::Failed { message, is_final: true });
        }
        JobOutcome::Failed { fault: Fault::Surroundings { retry_after }, message } => {
            memory.again = false;
            let backoff = backoff::delay(memory.failures, RETRY_BASE, RETRY_CAP, jitter);
            memory.failures = memory.failures.saturating_add(1);
            memory.retry_at = Some(now + backoff.max(retry_after.unwrap_or_default()));
            memory.failed_with = Some(surroundings);
            memory.result = Some(TaskResult::Failed { message, is_final: false });
        }
    }
}

/// Writes what a job came to, unless the status says it already.
fn write_result(task: &RenderTaskRecord, result: &TaskResult, wall: Timestamp) -> Option<TaskStep> {
    match result {
        TaskResult::Succeeded { digest, chart_url } => succeeded_status(task, wall, digest, chart_url),
        TaskResult::Failed { message, is_final } => failed_status(task, wall, message, *is_final),
    }
}

fn succeeded_status(
    task: &RenderTaskRecord,
    wall: Timestamp,
    digest: &str,
    chart_url: &str,
) -> Option<TaskStep> {
    let mut status = task.status.get();
    status.conditions.retain(|condition| condition.type_ != reason::JOB_FAILED);
    let message = format!("{chart_url} has digest {digest}");
    set(&mut status, task, reason::JOB_SUCCEEDED, true, reason::JOB_SUCCEEDED, &message, wall);
    status.attempts = None;
    status.digest = Some(digest.to_owned());
    status.chart_url = Some(chart_url.to_owned());
    let event = EventOrder { warning: false, reason: "JobSucceeded", note: message };
    (status != task.status.get()).then_some(TaskStep::WriteStatus(status, Some(event)))
}

fn failed_status(
    task: &RenderTaskRecord,
    wall: Timestamp,
    message: &str,
    is_final: bool,
) -> Option<TaskStep> {
    let mut status = task.status.get();
    status.conditions.retain(|condition| condition.type_ != reason::JOB_SUCCEEDED);
    status.digest = None;
    status.chart_url = None;
    status.attempts = is_final.then_some(MAX_ATTEMPTS);
    set(&mut status, task, reason::JOB_FAILED, true, reason::JOB_FAILED, message, wall);
    let event = EventOrder { warning: true, reason: "JobFailed", note: message.to_owned() };
    (status != task.status.get()).then_some(TaskStep::WriteStatus(status, Some(event)))
}

/// While a submission is out: asks once more when no word came for long.
fn out(task: &RenderTaskRecord, memory: &mut TaskMemory, now: Moment, wall: Timestamp) -> TaskStep {
    let again = *memory.asked_at.get_or_insert(now) + ASK_AGAIN;
    if now >= again {
        memory.asked_at = Some(now);
        return TaskStep::Submit;
    }
    match waiting(task, memory, now, wall) {
        TaskStep::Wait(until) => TaskStep::Wait(Some(until.map_or(again, |until| until.min(again)))),
        step => step,
    }
}

/// While a job is out or its turn has not come: says so in the status once it lasts.
fn waiting(task: &RenderTaskRecord, memory: &TaskMemory, now: Moment, wall: Timestamp) -> TaskStep {
    let Some(since) = memory.waiting_since else { return TaskStep::Wait(memory.retry_at) };
    let refused = memory.refused_until.filter(|until| now < *until);
    let announced =
        task.status.get().conditions.iter().any(|condition| condition.type_ == reason::JOB_SCHEDULED);
    if announced || !memory.submitted && refused.is_none() {
        return TaskStep::Wait(refused);
    }
    if now < since + SCHEDULED_AFTER {
        let deadline = since + SCHEDULED_AFTER;
        return TaskStep::Wait(Some(refused.map_or(deadline, |until| until.min(deadline))));
    }
    let mut status = task.status.get();
    let message = match refused {
        Some(_) => "waits for its turn to be rendered and pushed",
        None => "is being rendered and pushed, or waits for a chart of the same content",
    };
    set(&mut status, task, reason::JOB_SCHEDULED, true, reason::JOB_SCHEDULED, message, wall);
    TaskStep::WriteStatus(status, None)
}

fn held_mark(view: &TaskView<'_>) -> String {
    match view.artifact {
        None => format!("{}", view.bound),
        Some(artifact) => format!(
            "{} {} {} {:?}",
            view.bound,
            artifact.meta.uid,
            artifact.meta.terminating,
            artifact.status.get().digest
        ),
    }
}

fn attempts(task: &RenderTaskRecord) -> i32 {
    // Below zero would be more attempts than there are meant to be.
    task.status.get().attempts.unwrap_or_default().max(0)
}

fn is_true(task: &RenderTaskRecord, type_: &str) -> bool {
    task.status
        .get()
        .conditions
        .iter()
        .any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Sets a condition and keeps the order in which the status column looks for the first True one.
fn set(
    status: &mut RenderTaskStatus,
    task: &RenderTaskRecord,
    type_: &'static str,
    is_true: bool,
    reason: &'static str,
    message: &str,
    wall: Timestamp,
) {
    let status_word = if is_true { Status::True } else { Status::False };
    let wanted = Wanted { type_, status: status_word, reason, message: message.to_owned() };
    condition::set(&mut status.conditions, &wanted, task.meta.generation, wall);
    status.conditions.sort_by_key(rank);
}

fn rank(condition: &Condition) -> usize {
    [reason::JOB_SUCCEEDED, reason::JOB_FAILED, reason::JOB_SCHEDULED]
        .iter()
        .position(|type_| condition.type_ == *type_)
        .unwrap_or(3)
}

/// Whether `task` belongs to a Target by its ownerReference.
pub fn is_owned_by_target(task: &RenderTaskRecord) -> bool {
    task.controller.as_ref().is_some_and(|owner| *owner.kind == *<Target as kube::Resource>::kind(&()))
}
