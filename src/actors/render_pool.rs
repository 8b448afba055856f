//! The render pool: how many charts are rendered and pushed at once.
//!
//! A full pool never blocks. Submissions of equal content for equal coordinates wait, without a slot, for the first of
//! them, and then find its chart ready and, mostly, its digest known. A freed slot wakes whoever was refused first, and
//! is kept for it for a second; namespaces take turns.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix::fut::ActorFutureExt;
use actix::{Actor, AsyncContext, Context, Handler, WrapFuture};
use solar_core::admission::Admissions;
use solar_core::artifact::Written;
use solar_core::object::ObjectName;
use solar_core::render_task::{Fault, JobOutcome};
use solar_core::routes::{ActorKey, ActorKind, RENDER_ARTIFACT, RENDER_TASK};
use tokio::task::AbortHandle;

use super::directory::Undelivered;
use super::pass::Died;
use super::render_artifact::RenderArtifactKind;
use super::render_job::{self, ReadyChart, Working};
use super::supervision;
use super::system::Shared;
use crate::messages::object::Answer;
use crate::messages::render_artifact::{ArtifactRequest, HeldTicket, OpenTicket};
use crate::messages::render_pool::{
    Admission, GetPoolSnapshot, PoolSnapshot, StopRendering, Submission, Submit, Withdraw,
};

/// One Submit and one Withdraw at most from each RenderTask's actor; a full box is tried again by the task.
const MAILBOX: usize = 1 << 17;
/// How soon something is handed over again whose receiver had no room.
const REDELIVERY: Duration = Duration::from_millis(100);

/// How often a job's CPU work that outlives it is looked at.
const LINGER: Duration = Duration::from_secs(1);

/// By this key the pool answers submissions.
pub fn key() -> ActorKey {
    ActorKey::new(ActorKind("RenderPool"), ObjectName::new("-", "admissions"))
}

/// By this key the pool tells of jobs that ended: apart from admissions, since only the last answer of each
/// correspondent is kept, and a job's end must not be pushed out by word of a free slot.
pub fn jobs_key() -> ActorKey {
    ActorKey::new(ActorKind("RenderPool"), ObjectName::new("-", "jobs"))
}

struct Job {
    submission: Submission,
    stop: AbortHandle,
    ticket: HeldTicket,
    working: Working,
    /// Its task is gone: it was told to end, and nobody hears of it.
    withdrawn: bool,
    /// Another task of the name, which has to wait for its end.
    next: Option<Submission>,
}

/// The pool.
pub struct RenderPool {
    shared: Arc<Shared>,
    admissions: Admissions,
    jobs: BTreeMap<ObjectName, Job>,
    /// Submissions that wait for the job of equal content, by content key.
    joined: BTreeMap<String, VecDeque<Submission>>,
    /// The content key that each of them waits for.
    waits_for: BTreeMap<ObjectName, String>,
    /// Content key of each running job.
    leaders: BTreeMap<String, ObjectName>,
    /// Jobs that have ended while their CPU work goes on; they keep their slots.
    lingering: Vec<Working>,
    rng: fastrand::Rng,
    stopped: bool,
}

impl RenderPool {
    /// An empty pool.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            admissions: Admissions::new(shared.options.max_concurrent_renders),
            rng: shared.rng("render pool"),
            shared,
            jobs: BTreeMap::new(),
            joined: BTreeMap::new(),
            waits_for: BTreeMap::new(),
            leaders: BTreeMap::new(),
            lingering: Vec::new(),
            stopped: false,
        }
    }

    /// How much mail the pool holds.
    pub const fn mailbox() -> usize {
        MAILBOX
    }

    fn guarded<T: Default>(
        &mut self,
        ctx: &mut Context<Self>,
        message: &str,
        handle: impl FnOnce(&mut Self, &mut Context<Self>) -> T,
    ) -> T {
        let shared = self.shared.clone();
        supervision::guard_critical(&shared, "the render pool", message, self, ctx, handle)
    }

    fn submit(&mut self, ctx: &mut Context<Self>, submission: Submission) {
        let task = submission.task.clone();
        tracing::debug!(%task, uid = %submission.uid, "a chart is asked for");
        if self.stopped {
            return;
        }
        if let Some(job) = self.jobs.get_mut(&task) {
            if job.withdrawn {
                job.next = Some(submission);
            }
            return self.admitted(&task);
        }
        if self.waits_for.contains_key(&task) {
            return self.admitted(&task);
        }
        if self.leaders.contains_key(&submission.content_key) {
            self.admissions.forget(&task);
            self.waits_for.insert(task.clone(), submission.content_key.clone());
            self.joined.entry(submission.content_key.clone()).or_default().push_back(submission);
            tracing::debug!(%task, "a chart waits for one of equal content");
            metrics::counter!("solar_render_joins_total").increment(1);
            return self.admitted(&task);
        }
        if self.admissions.take(&task, self.shared.clock.elapsed()) {
            self.admitted(&task);
            self.start(ctx, submission, None);
        } else {
            tracing::debug!(%task, "no slot is free for a chart");
            metrics::counter!("solar_render_refusals_total").increment(1);
            let jitter = 1.0 + self.rng.f64() / 2.0;
            let retry_after = self.shared.options.render_requeue_delay.mul_f64(jitter);
            self.tell(ctx, &task, Answer::Admission(Admission::Full { retry_after }));
        }
    }

    fn admitted(&self, task: &ObjectName) {
        // Whoever misses this hears of the job's end.
        let to = ActorKey::new(RENDER_TASK, task.clone());
        let _ = self.shared.answer(&to, key(), Answer::Admission(Admission::Admitted));
    }

    fn start(&mut self, ctx: &mut Context<Self>, submission: Submission, ready: Option<ReadyChart>) {
        let task = submission.task.clone();
        let (ticket, working) = (HeldTicket::default(), Working::default());
        let job =
            render_job::run(self.shared.clone(), submission.clone(), ready, ticket.clone(), working.clone());
        let timeout = self.shared.options.render_timeout;
        let handle = self
            .shared
            .spawner
            .spawn_pass(&format_args!("job of {task}"), tokio::time::timeout(timeout, job));
        let stop = handle.stopper();
        self.leaders.entry(submission.content_key.clone()).or_insert_with(|| task.clone());
        metrics::gauge!("solar_render_slots_in_use").increment(1.0);
        let ended_task = task.clone();
        ctx.spawn(handle.into_actor(self).map(move |ended, pool, ctx| {
            let (outcome, ready) = outcome_of(ended, timeout);
            pool.guarded(ctx, "the end of a job", |pool, ctx| {
                pool.ended(ctx, &ended_task, outcome, ready);
            });
        }));
        tracing::debug!(%task, "a job has begun");
        self.jobs.insert(task, Job { submission, stop, ticket, working, withdrawn: false, next: None });
    }

    fn ended(
        &mut self,
        ctx: &mut Context<Self>,
        task: &ObjectName,
        outcome: JobOutcome,
        ready: Option<ReadyChart>,
    ) {
        let Some(job) = self.jobs.remove(task) else { return };
        self.give_back(ctx, &job);
        tracing::debug!(%task, ?outcome, "a job has ended");
        if !job.withdrawn {
            count(&outcome);
            self.tell(ctx, task, Answer::Job { uid: job.submission.uid.clone(), outcome });
        }
        if Arc::strong_count(&job.working) > 1 {
            tracing::warn!(%task, "a render goes on although its job has ended; it keeps its slot");
            self.lingering.push(job.working.clone());
            Self::later(ctx, LINGER, Self::look_at_lingering);
        } else {
            self.freed();
        }
        self.lead_on(ctx, &job.submission.content_key, task, ready);
        if let Some(next) = job.next {
            self.submit(ctx, next);
        }
    }

    /// Frees the slots of those whose CPU work has ended too.
    fn look_at_lingering(&mut self, ctx: &mut Context<Self>) {
        let before = self.lingering.len();
        self.lingering.retain(|working| Arc::strong_count(working) > 1);
        for _ in self.lingering.len()..before {
            self.freed();
        }
        if !self.lingering.is_empty() {
            Self::later(ctx, LINGER, Self::look_at_lingering);
        }
    }

    fn later(
        ctx: &mut Context<Self>,
        wait: Duration,
        then: impl FnOnce(&mut Self, &mut Context<Self>) + 'static,
    ) {
        ctx.run_later(wait, |pool, ctx| pool.guarded(ctx, "something put off", then));
    }

    /// A slot is free: whoever waits longest is told. One that misses it asks again by itself.
    fn freed(&mut self) {
        metrics::gauge!("solar_render_slots_in_use").decrement(1.0);
        if let Some(waiting) = self.admissions.give_back(self.shared.clock.elapsed()) {
            let to = ActorKey::new(RENDER_TASK, waiting);
            let _ = self.shared.answer(&to, key(), Answer::Admission(Admission::SlotFree));
        }
    }

    /// The submissions that waited for this job go on with its chart: as many at once as there are slots, the rest
    /// behind the first of them.
    fn lead_on(
        &mut self,
        ctx: &mut Context<Self>,
        content: &str,
        task: &ObjectName,
        ready: Option<ReadyChart>,
    ) {
        if self.leaders.get(content) == Some(task) {
            self.leaders.remove(content);
        }
        let Some(mut waiting) = self.joined.remove(content) else { return };
        let now = self.shared.clock.elapsed();
        while let Some(next) = waiting.front().filter(|_| !self.stopped) {
            if !self.admissions.take(&next.task, now) {
                break;
            }
            if let Some(next) = waiting.pop_front() {
                self.waits_for.remove(&next.task);
                self.start(ctx, next, ready.clone());
            }
        }
        if waiting.is_empty() {
            return;
        }
        if self.leaders.contains_key(content) {
            self.joined.insert(content.to_owned(), waiting);
        } else {
            // No slot and nobody to follow: each submits again when it is woken.
            for submission in waiting {
                self.waits_for.remove(&submission.task);
                let again = Answer::Job { uid: submission.uid.clone(), outcome: JobOutcome::Stale };
                self.tell(ctx, &submission.task, again);
            }
        }
    }

    /// Ends a ticket that its job left open.
    fn give_back(&self, ctx: &mut Context<Self>, job: &Job) {
        let open = job.ticket.lock().ok().and_then(|mut open| open.take());
        if let Some(mut open) = open {
            // A write without an answer may have been sent a moment ago, by a quick retry.
            let now = self.shared.clock.elapsed();
            if matches!(open.written, Written::Unanswered(_)) {
                open.written = Written::Unanswered(now);
            }
            self.hand_back(ctx, open);
        }
    }

    fn hand_back(&self, ctx: &mut Context<Self>, open: OpenTicket) {
        let request = ArtifactRequest::PushFailed { ticket: open.ticket, written: open.written };
        let to = ActorKey::new(RENDER_ARTIFACT, open.artifact.clone());
        if let Err((Undelivered::Full | Undelivered::Ending, _)) =
            self.shared.request::<RenderArtifactKind>(&to, request)
        {
            Self::later(ctx, REDELIVERY, move |pool, ctx| pool.hand_back(ctx, open));
        }
    }

    /// Tells a task, as often as it takes.
    fn tell(&self, ctx: &mut Context<Self>, task: &ObjectName, answer: Answer) {
        let to = ActorKey::new(RENDER_TASK, task.clone());
        let from = if matches!(answer, Answer::Job { .. }) { jobs_key() } else { key() };
        if let Err(Undelivered::Full | Undelivered::Ending) = self.shared.answer(&to, from, answer.clone()) {
            let task = task.clone();
            Self::later(ctx, REDELIVERY, move |pool, ctx| pool.tell(ctx, &task, answer));
        }
    }
}

fn outcome_of(
    ended: Result<Result<(JobOutcome, Option<ReadyChart>), tokio::time::error::Elapsed>, Died>,
    timeout: Duration,
) -> (JobOutcome, Option<ReadyChart>) {
    let message = match ended {
        Ok(Ok(ended)) => return ended,
        Ok(Err(_)) => format!("the job did not end within {} s", timeout.as_secs()),
        Err(died) => format!("the job {died}"),
    };
    (JobOutcome::Failed { fault: Fault::Surroundings { retry_after: None }, message }, None)
}

fn count(outcome: &JobOutcome) {
    let result = match outcome {
        JobOutcome::Succeeded { .. } => "success",
        JobOutcome::Failed { fault: Fault::Input, .. } => "input",
        JobOutcome::Failed { fault: Fault::Surroundings { .. }, .. } => "surroundings",
        JobOutcome::Stale => "stale",
        JobOutcome::Held { .. } => "held",
    };
    metrics::counter!("solar_renders_total", "kind" => "RenderTask", "result" => result).increment(1);
}

impl Actor for RenderPool {
    type Context = Context<Self>;
}

impl Handler<Submit> for RenderPool {
    type Result = ();

    fn handle(&mut self, submit: Submit, ctx: &mut Context<Self>) {
        self.guarded(ctx, "a submission", |pool, ctx| pool.submit(ctx, submit.submission));
    }
}

impl Handler<Withdraw> for RenderPool {
    type Result = ();

    fn handle(&mut self, withdraw: Withdraw, ctx: &mut Context<Self>) {
        self.guarded(ctx, "a withdrawal", |pool, _| pool.withdraw(&withdraw));
    }
}

impl RenderPool {
    fn withdraw(&mut self, withdraw: &Withdraw) {
        tracing::debug!(task = %withdraw.task, "a chart is no longer asked for");
        self.admissions.forget(&withdraw.task);
        if let Some(content) = self.waits_for.remove(&withdraw.task)
            && let Some(waiting) = self.joined.get_mut(&content)
        {
            waiting.retain(|submission| submission.task != withdraw.task);
            if waiting.is_empty() {
                self.joined.remove(&content);
            }
        }
        let shared = self
            .jobs
            .get(&withdraw.task)
            .is_some_and(|job| self.joined.contains_key(&job.submission.content_key));
        if shared {
            // Others wait for this chart: the job goes on, and finds out by itself that its task is gone.
            return;
        }
        if let Some(job) = self.jobs.get_mut(&withdraw.task) {
            // Only when it has let go of everything its ticket and its slot are given back.
            job.withdrawn = true;
            job.next = None;
            job.stop.abort();
        }
    }
}

impl Handler<StopRendering> for RenderPool {
    type Result = usize;

    fn handle(&mut self, _: StopRendering, ctx: &mut Context<Self>) -> usize {
        self.guarded(ctx, "the end", |pool, _| {
            pool.stopped = true;
            pool.jobs.len()
        })
    }
}

impl Handler<GetPoolSnapshot> for RenderPool {
    type Result = PoolSnapshot;

    fn handle(&mut self, _: GetPoolSnapshot, _: &mut Context<Self>) -> PoolSnapshot {
        PoolSnapshot {
            slots: self.shared.options.max_concurrent_renders,
            running: self.jobs.keys().map(ToString::to_string).collect(),
            lingering: self.lingering.len(),
            joined: self.waits_for.len(),
            queued: self.admissions.waiting(),
        }
    }
}
