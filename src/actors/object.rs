//! The object actor: written once, for every kind of object.
//!
//! Wakes coalesce: a mark says that one is on its way, a dirty bit that one more pass is needed. Requests are queued,
//! kept apart, and served by the same pass. A pass runs as a task behind a panic boundary, when the gate lets it; it
//! never waits for another actor, it sends and ends. What others answer is kept, the last from each, and given to the
//! next pass. A pass that fails, or panics, is tried again with backoff; its answers are forgotten, its memory is not.
//!
//! An actor that has done nothing for a while and expects nothing goes to rest: it ends, its memory is kept where it holds
//! what watch and status do not show, and the next message to its name makes another. So an idle object costs little more
//! than its record.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix::fut::ActorFutureExt;
use actix::prelude::SendError;
use actix::{Actor, Addr, AsyncContext, Context, Handler, Supervised, Supervisor, WrapFuture};
use futures::future::BoxFuture;
use serde::Serialize;
use solar_core::artifact::Owner;
use solar_core::backoff;
use solar_core::object::ObjectName;
use solar_core::queue::Queue;
use solar_core::routes::{ActorKey, ActorKind};
use solar_core::status_edits::{EditLook, ShownStatus, StatusEdits};
use thiserror::Error;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::directory::{ObjectAddr, Origin, Undelivered};
use super::pass::{Begun, Died, PassHandle};
use super::supervision;
use super::system::Shared;
use crate::adapters::kubernetes::{ApiError, Expect, Namespaced, PayloadError, Problem};
use crate::messages::gate::{Enter, Slot, SlotReturned};
use crate::messages::object::{
    Answer, Answered, AskToGo, Asked, Cause, Departure, GateOpened, GetSnapshot, Snapshot, StatusShown, Woken,
};
use crate::messages::root::Retire;
use crate::telemetry::metrics::ActorGauge;

/// Mail that an object actor holds back: one wake, one leave from the gate, and requests or answers. A release that
/// every Target of a large namespace shares gets a Bind from each at once; whoever finds the box full asks again.
const MAILBOX: usize = 1_024;
/// Requests held for the pass.
const REQUESTS: usize = 4_096;
/// First wait after a failed pass.
const RETRY_BASE: Duration = Duration::from_millis(200);
/// Longest wait after a failed pass.
const RETRY_CAP: Duration = Duration::from_secs(300);
/// Longest wait while the API server fails whoever asks: nothing tells when it is well again.
const OUTAGE_CAP: Duration = Duration::from_secs(30);
/// Wait after a conflict, which is normal: the watch needs a moment to catch up.
const CONFLICT_WAIT: Duration = Duration::from_millis(50);

/// Wait for a pass that was ended from outside to let go.
const STILL_PASSING: Duration = Duration::from_millis(10);

/// Retries after such a short wait before they are spaced out like any other failure.
const QUIET_RETRIES: u32 = 5;

/// What a kind adds to the object actor.
pub trait Reconcile: Sized + Send + Sync + 'static {
    /// The kind.
    const KIND: ActorKind;
    /// What others may ask of it.
    type Request: Send + 'static;
    /// Kept between passes, also failed ones.
    type Memory: Send + 'static;
    /// What an errand brings back.
    type Finding: Send + Sync + Unpin + 'static;

    /// Whether `request` is taken however many wait: whoever sends it will not ask again, and their number is bounded.
    fn must_be_heard(request: &Self::Request) -> bool {
        let _ = request;
        false
    }

    /// The memory of a fresh actor; `restarted` when an earlier one for this name has died in this process.
    fn memory(shared: &Shared, restarted: bool) -> Self::Memory;

    /// One pass: observe, decide, act. Answers when to look again although nothing changed.
    fn reconcile(pass: &mut Pass<Self>) -> impl Future<Output = Result<Option<Duration>, PassError>> + Send;

    /// Who asks, where a later request of the same asker makes an earlier one pointless, so that only the later is served
    /// and answered.
    fn asker(request: &Self::Request) -> Option<&Owner> {
        let _ = request;
        None
    }

    /// Whether nothing would be lost if the actor went: its object is gone, and its memory holds nothing.
    fn is_done(shared: &Shared, name: &ObjectName, memory: &Self::Memory) -> bool;

    /// Whether a fresh actor would go on as this one does: `memory` holds nothing that watch and status do not show. What
    /// the watch has caught up with may be forgotten here.
    fn is_dispensable(shared: &Shared, name: &ObjectName, memory: &mut Self::Memory) -> bool {
        let _ = (shared, name, memory);
        false
    }
}

/// The request type of a kind that nobody asks anything.
#[derive(Debug)]
pub enum NoRequest {}

/// Why a pass failed.
#[derive(Debug, Error)]
pub enum PassError {
    /// A request to the API server.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A payload.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// Another actor could not be asked.
    #[error("{to}: {undelivered}")]
    Undelivered {
        /// Whom.
        to: ActorKey,
        /// Why not.
        undelivered: Undelivered,
    },
    /// The watch is behind what was decided upon.
    #[error("{0} changed since it was watched")]
    Outdated(ObjectName),
    /// The pass's task has no result.
    #[error("the pass {0}")]
    Died(#[from] Died),
    /// The plan did not come to an end.
    #[error("more than {0} steps without an end")]
    Endless(usize),
}

impl PassError {
    /// Whether this program itself is at fault.
    fn is_fault(&self) -> bool {
        matches!(self, Self::Died(Died::Panicked(_)) | Self::Endless(_))
    }

    /// Whether it is a normal part of working beside others: retried soon and without a word.
    fn is_quiet(&self) -> bool {
        match self {
            // Where the object is gone that was written to, the watch is about to say so.
            Self::Api(error) | Self::Payload(PayloadError::Api(error)) => {
                error.problem.is_quiet() || error.problem == Problem::NotFound
            }
            Self::Undelivered { .. } | Self::Outdated(_) | Self::Payload(PayloadError::Gone(_)) => true,
            Self::Died(_) | Self::Endless(_) => false,
        }
    }

    /// What the API server will not do however often it is asked, with the mend.
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Api(error) => match error.problem {
                Problem::Forbidden(_) => {
                    Some(format!("{error}: the controller's role, a quota or a policy has to allow it"))
                }
                Problem::Invalid(_) => Some(error.to_string()),
                Problem::TooLarge(_) => Some(format!("{error}: what it is made from has to become smaller")),
                Problem::Server { code, .. } if code < 500 && code != 401 => Some(error.to_string()),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether the API server cannot be talked to just now, so that other requests would fail too.
    pub fn is_away(&self) -> bool {
        let (Self::Api(error) | Self::Payload(PayloadError::Api(error))) = self else { return false };
        match error.problem {
            Problem::Throttled(_)
            | Problem::TimedOut(_)
            | Problem::Unreachable(_)
            | Problem::NotLeading(_) => true,
            // A 500 is what a webhook that fails is answered with: it may concern this object alone.
            Problem::Server { code, .. } => code > 500 || code == 401,
            _ => false,
        }
    }

    /// How long the next attempt waits at most.
    fn longest_wait(&self) -> Duration {
        if self.is_away() { OUTAGE_CAP } else { RETRY_CAP }
    }

    /// How long the API server wants to be left alone.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Api(error) | Self::Payload(PayloadError::Api(error)) => match error.problem {
                Problem::Throttled(after) => after,
                _ => None,
            },
            _ => None,
        }
    }

    /// One word of a closed set.
    fn label(&self) -> &'static str {
        match self {
            Self::Api(_) | Self::Payload(_) => "api",
            Self::Undelivered { .. } => "undelivered",
            Self::Outdated(_) => "outdated",
            Self::Died(_) => "died",
            Self::Endless(_) => "endless",
        }
    }
}

/// What `result` brought, or nothing: its error is kept in `failed`, and what else there is to do goes on. While the API
/// server is away nothing else would be done either, and the error is the answer.
pub fn or_keep<T: Default>(
    result: Result<T, PassError>,
    failed: &mut Result<(), PassError>,
) -> Result<T, PassError> {
    match result {
        Err(error) if !error.is_away() => {
            if failed.is_ok() {
                *failed = Err(error);
            }
            Ok(T::default())
        }
        result => result,
    }
}

/// What one pass has.
pub struct Pass<R: Reconcile> {
    /// The object.
    pub name: ObjectName,
    /// What all actors share.
    pub shared: Arc<Shared>,
    /// The last answer of each correspondent, with when it came; what is left in it is kept for the next pass.
    pub answers: BTreeMap<ActorKey, (Answer, Duration)>,
    /// What the last errand brought back.
    pub finding: Option<R::Finding>,
    /// Whether an errand is still out.
    pub errand_out: bool,
    /// The actor's generator.
    pub rng: fastrand::Rng,
    memory: Arc<Mutex<R::Memory>>,
    requests: Arc<Mutex<Queue<Owner, R::Request>>>,
    mail: Arc<Mail>,
    // Behind a mutex only so that a pass can be shared across an await.
    errand: Mutex<Option<Errand<R::Finding>>>,
}

/// Work that waits for a registry, and for which.
struct Errand<F> {
    host: Box<str>,
    work: BoxFuture<'static, F>,
}

impl<R: Reconcile> Pass<R> {
    /// The actor's key.
    pub fn key(&self) -> ActorKey {
        ActorKey::new(R::KIND, self.name.clone())
    }

    /// The actor's memory; never held across an await.
    pub fn memory(&self) -> MutexGuard<'_, R::Memory> {
        lock(&self.memory)
    }

    /// Takes the oldest request.
    pub fn next_request(&self) -> Option<R::Request> {
        lock(&self.requests).pop_front()
    }

    /// Puts a request back to the front: it could not be served just now, and must not be lost, unless a later one has
    /// made it pointless meanwhile.
    pub fn put_back(&self, request: R::Request) {
        let mut requests = lock(&self.requests);
        let asker = R::asker(&request).cloned();
        if !asker.as_ref().is_some_and(|asker| requests.holds(asker)) {
            requests.push_front(asker, request);
        }
    }

    /// Sends an errand out when the pass has ended; what it brings back is the next pass's finding. One at a time.
    pub fn send_errand(&mut self, host: &str, errand: impl Future<Output = R::Finding> + Send + 'static) {
        *lock(&self.errand) = Some(Errand { host: host.into(), work: Box::pin(errand) });
    }

    /// Writes the difference between two statuses of the actor's own object, as [`Api::write_status`] does. What the watch
    /// shows of it wakes nobody.
    ///
    /// [`Api::write_status`]: crate::adapters::kubernetes::Api::write_status
    pub async fn write_status<K: Namespaced, S: Serialize + Sync>(
        &self,
        expect: Expect<'_>,
        stored: &S,
        wanted: &S,
    ) -> Result<Option<K>, ApiError> {
        let written = self.shared.api.write_status::<K, S>(&self.name, expect, stored, wanted).await?;
        if let Some(version) = written.as_ref().and_then(|written| written.meta().resource_version.as_deref())
        {
            lock(&self.mail.status).wrote(version);
        }
        Ok(written)
    }

    /// Time since the process started.
    pub fn now(&self) -> Duration {
        self.shared.clock.elapsed()
    }
}

/// A pass that is over: it comes back with its result, or it died.
type Ended<R> = Result<(Pass<R>, Result<Option<Duration>, PassError>), Died>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Queued,
    Running,
}

/// The actor of one object.
pub struct ObjectActor<R: Reconcile> {
    key: ActorKey,
    shared: Arc<Shared>,
    mail: Arc<Mail>,
    memory: Arc<Mutex<R::Memory>>,
    requests: Arc<Mutex<Queue<Owner, R::Request>>>,
    answers: BTreeMap<ActorKey, (Answer, Duration)>,
    finding: Option<R::Finding>,
    errand_out: bool,
    dirty: Option<Cause>,
    phase: Phase,
    /// Whether a pass is awaited.
    pass_out: bool,
    /// Held by the task of a pass for as long as it exists.
    passing: Arc<()>,
    failures: u32,
    rng: fastrand::Rng,
    last_cause: Option<Cause>,
    last_error: Option<String>,
    passes: u64,
    restarts: u32,
    next_wake: Option<Instant>,
    /// When the last pass succeeded.
    succeeded_at: Instant,
    gauge: ActorGauge,
    edits: StatusEdits,
}

/// What an actor that goes to rest leaves to the next of its name.
struct Left<R: Reconcile> {
    memory: Arc<Mutex<R::Memory>>,
    // Waits in a row, each by an actor of its own, are to be jittered differently.
    rng: fastrand::Rng,
    /// What the watch has shown of the status, while it is behind the actor's own writes: the next one must not take them
    /// for somebody else's.
    status: Option<Box<ShownStatus>>,
}

/// What is known of an actor's mail outside its mailbox.
#[derive(Debug, Default)]
struct Mail {
    /// A wake is on its way, so that there is never more than one in the mailbox.
    woken: AtomicBool,
    /// What the watch has shown of the object's status.
    status: Mutex<ShownStatus>,
}

/// The address of an object actor, and what keeps its mail short.
pub struct Handle<R: Reconcile> {
    addr: Addr<ObjectActor<R>>,
    mail: Arc<Mail>,
}

impl<R: Reconcile> Handle<R> {
    /// Queues a request; hands it back when it is not taken.
    pub fn ask(&self, asked: Asked<R::Request>) -> Result<(), (Undelivered, Asked<R::Request>)> {
        self.addr.try_send(asked).map_err(|error| match error {
            SendError::Full(asked) => (Undelivered::Full, asked),
            SendError::Closed(asked) => (Undelivered::Ending, asked),
        })
    }
}

impl<R: Reconcile> ObjectAddr for Handle<R> {
    fn wake(&self, cause: Cause) -> Result<(), Undelivered> {
        if self.mail.woken.swap(true, Ordering::AcqRel) {
            return if self.addr.connected() { Ok(()) } else { Err(Undelivered::Ending) };
        }
        match self.addr.try_send(Woken { cause }) {
            // A full mailbox is one that will be read, and every handler looks at the mark.
            Ok(()) | Err(SendError::Full(_)) => Ok(()),
            Err(SendError::Closed(_)) => Err(Undelivered::Ending),
        }
    }

    fn show_status(&self, version: &str) -> Result<(), Undelivered> {
        {
            let mut status = lock(&self.mail.status);
            status.show(version);
            // The answer to an own write may still be on its way: the actor looks again when its pass has ended.
            if !status.is_edited() {
                return Ok(());
            }
        }
        match self.addr.try_send(StatusShown) {
            // As for wakes.
            Ok(()) | Err(SendError::Full(_)) => Ok(()),
            Err(SendError::Closed(_)) => Err(Undelivered::Ending),
        }
    }

    fn answer(&self, answered: Answered) -> Result<(), Undelivered> {
        self.addr.try_send(answered).map_err(|error| match error {
            SendError::Full(_) => Undelivered::Full,
            SendError::Closed(_) => Undelivered::Ending,
        })
    }

    fn open_gate(&self, slot: Slot) -> Result<(), (Undelivered, Slot)> {
        self.addr.try_send(GateOpened(slot)).map_err(|error| match error {
            SendError::Full(GateOpened(slot)) => (Undelivered::Full, slot),
            SendError::Closed(GateOpened(slot)) => (Undelivered::Ending, slot),
        })
    }

    fn ask_to_go(&self) -> BoxFuture<'static, Departure> {
        let asked = self.addr.send(AskToGo);
        // One that has died is not one that has nothing left to do: whoever speaks to it next finds out.
        Box::pin(async move { asked.await.unwrap_or(Departure::Stays) })
    }

    fn snapshot(&self) -> BoxFuture<'static, Option<Snapshot>> {
        let asked = self.addr.send(GetSnapshot);
        Box::pin(async move { asked.await.ok() })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Makes the actor of `key` on its arbiter, under a supervisor.
pub fn start<R: Reconcile>(shared: &Arc<Shared>, key: &ActorKey, origin: Origin) -> Arc<dyn ObjectAddr> {
    let restarted = matches!(origin, Origin::Death);
    let left = match &origin {
        Origin::Rest(left) => left.downcast_ref::<Left<R>>(),
        Origin::New | Origin::Death => None,
    };
    let (memory, rng, status) = match left {
        Some(Left { memory, rng, status }) => (memory.clone(), rng.clone(), status.clone()),
        None => (Arc::new(Mutex::new(R::memory(shared, restarted))), shared.rng(&key.to_string()), None),
    };
    let mail = Mail {
        status: Mutex::new(status.map_or_else(Default::default, |status| *status)),
        ..Mail::default()
    };
    let mail = Arc::new(mail);
    let actor = ObjectActor::<R> {
        key: key.clone(),
        shared: shared.clone(),
        mail: mail.clone(),
        edits: StatusEdits::default(),
        memory,
        requests: Arc::default(),
        answers: BTreeMap::new(),
        finding: None,
        errand_out: false,
        dirty: None,
        phase: Phase::Idle,
        pass_out: false,
        passing: Arc::default(),
        failures: 0,
        rng,
        last_cause: None,
        last_error: None,
        passes: 0,
        restarts: u32::from(restarted),
        next_wake: None,
        succeeded_at: Instant::now(),
        gauge: ActorGauge::new(R::KIND.0),
    };
    if restarted {
        shared.note_fault(key, &"died");
    }
    shared.put_off_rest(key);
    let addr = Supervisor::start_in_arbiter(shared.arbiter(key), move |ctx| {
        ctx.set_mailbox_capacity(MAILBOX);
        actor
    });
    Arc::new(Handle { addr, mail })
}

impl<R: Reconcile> Actor for ObjectActor<R> {
    type Context = Context<Self>;
}

impl<R: Reconcile> Supervised for ObjectActor<R> {
    fn restarting(&mut self, _: &mut Context<Self>) {
        // The new context knows nothing of the tasks that the old one waited for: they are ended.
        self.pass_out = false;
        self.errand_out = false;
        self.start_again("was stopped");
    }
}

impl<R: Reconcile> ObjectActor<R> {
    /// Runs `handle`, then whatever the mailbox's mark and the new state call for, behind the panic boundary.
    fn guarded(
        &mut self,
        ctx: &mut Context<Self>,
        message: &'static str,
        handle: impl FnOnce(&mut Self, &mut Context<Self>),
    ) {
        let (shared, key) = (self.shared.clone(), self.key.clone());
        let handled = supervision::guard(&shared, &key, message, self, ctx, |actor, ctx| {
            handle(actor, ctx);
            if actor.mail.woken.swap(false, Ordering::AcqRel) {
                actor.dirty.get_or_insert(Cause::Change);
            }
            actor.pump(ctx);
        });
        if let Some(Err(message)) = handled {
            tracing::error!(actor = %self.key, message, "an actor panicked and starts again");
            let fault = format!("panicked: {message}");
            self.start_again(&fault);
            self.last_error = Some(fault);
        }
        self.gauge.set(self.state());
    }

    /// What the actor does, in a word of a closed set.
    fn state(&self) -> &'static str {
        match self.phase {
            Phase::Idle if self.errand_out => "errand",
            Phase::Idle => "idle",
            Phase::Queued => "queued",
            Phase::Running => "running",
        }
    }

    /// Forgets what a message or an answer may have left half done, and looks again after a pause. A pass that runs ends
    /// by itself; requests and memory stay.
    fn start_again(&mut self, fault: &str) {
        self.shared.note_fault(&self.key, &fault);
        metrics::counter!("solar_actor_restarts_total", "kind" => R::KIND.0).increment(1);
        self.restarts += 1;
        self.answers.clear();
        self.finding = None;
        if self.phase == Phase::Queued || !self.pass_out {
            // The turn may have been lost with the message; one too many is given back.
            self.phase = Phase::Idle;
        }
        self.tell_gate();
        let wait = self.retry_wait(RETRY_CAP);
        self.look_again(Some(wait));
    }

    /// Asks for a pass when one is needed and none is on its way.
    fn pump(&mut self, ctx: &mut Context<Self>) {
        // Requests that a failed pass put back wait for its retry; each that arrives sets the dirty bit itself.
        if self.phase != Phase::Idle {
            return;
        }
        self.look_at_edits();
        if self.dirty.is_none() {
            return;
        }
        if let Some(slot) = self.shared.slots.take_unasked() {
            self.phase = Phase::Queued;
            self.begin(ctx, slot);
            return;
        }
        let Some(gate) = self.shared.gate.get() else { return };
        if gate.try_send(Enter { key: self.key.clone() }).is_ok() {
            self.phase = Phase::Queued;
        } else {
            self.look_again(Some(RETRY_BASE));
        }
    }

    /// Asks for a pass where the watch shows a status that somebody else wrote; later, where somebody keeps writing it.
    fn look_at_edits(&mut self) {
        if self.dirty.is_some() || !lock(&self.mail.status).is_edited() {
            return;
        }
        let now = self.shared.clock.elapsed();
        match self.edits.look(now) {
            EditLook::Now => {
                Shared::count_wake(R::KIND, Cause::Edit);
                self.dirty = Some(Cause::Edit);
            }
            EditLook::At(at) => {
                let wait = at.saturating_sub(now);
                if self.next_wake.is_none_or(|next| Instant::now() + wait < next) {
                    self.look_again(Some(wait));
                }
            }
        }
    }

    fn begin(&mut self, ctx: &mut Context<Self>, slot: Slot) {
        if self.phase != Phase::Queued {
            self.leave(slot);
            return;
        }
        if Arc::strong_count(&self.passing) > 1 {
            // A pass that was ended from outside has not let go yet: there is never a second one beside it.
            self.leave(slot);
            self.phase = Phase::Idle;
            self.look_again(Some(STILL_PASSING));
            return;
        }
        self.phase = Phase::Running;
        let cause = self.dirty.take().unwrap_or(Cause::Request);
        self.last_cause = Some(cause);
        if lock(&self.mail.status).pass_begins() {
            self.edits.looked(self.shared.clock.elapsed(), self.rng.f64());
        }
        let mut pass = Pass::<R> {
            name: self.key.object.clone(),
            shared: self.shared.clone(),
            answers: std::mem::take(&mut self.answers),
            finding: self.finding.take(),
            errand_out: self.errand_out,
            rng: self.rng.fork(),
            memory: self.memory.clone(),
            requests: self.requests.clone(),
            mail: self.mail.clone(),
            errand: Mutex::new(None),
        };
        let span = tracing::info_span!(
            "reconcile",
            kind = R::KIND.0,
            namespace = %self.key.object.namespace,
            name = %self.key.object.name,
            cause = cause.as_str(),
        );
        let began = Instant::now();
        let passing = self.passing.clone();
        let begun = self.shared.spawner.begin_pass(
            &self.key,
            async move {
                let result = R::reconcile(&mut pass).await;
                drop(passing);
                (pass, result)
            }
            .instrument(span),
        );
        let task = match begun {
            Begun::Ended(ended) => return self.pass_ended(ctx, began, ended, slot),
            Begun::Waits(task) => task,
        };
        self.pass_out = true;
        ctx.spawn(task.into_actor(self).map(move |ended, actor, ctx| {
            actor.pass_out = false;
            actor.guarded(ctx, "the end of a pass", |actor, ctx| actor.pass_ended(ctx, began, ended, slot));
        }));
    }

    fn pass_ended(&mut self, ctx: &mut Context<Self>, began: Instant, ended: Ended<R>, slot: Slot) {
        metrics::histogram!("solar_reconcile_duration_seconds", "kind" => R::KIND.0)
            .record(began.elapsed().as_secs_f64());
        self.ended(ctx, ended);
        self.leave(slot);
    }

    fn ended(&mut self, ctx: &mut Context<Self>, ended: Ended<R>) {
        self.phase = Phase::Idle;
        let result = match ended {
            Err(died) => Err(PassError::Died(died)),
            Ok((mut pass, result)) => {
                if result.is_ok() {
                    for (from, kept) in std::mem::take(&mut pass.answers) {
                        self.answers.entry(from).or_insert(kept);
                    }
                }
                let errand = lock(&pass.errand).take();
                if let Some(errand) = errand {
                    self.run_errand(ctx, errand);
                }
                result
            }
        };
        match result {
            Ok(next) => self.succeeded(next),
            Err(error) => self.failed(&error),
        }
    }

    fn succeeded(&mut self, next: Option<Duration>) {
        Self::count("success");
        self.passes += 1;
        self.failures = 0;
        self.succeeded_at = Instant::now();
        self.last_error = None;
        // Where requests are left, the pass has served as many as one may.
        let is_served = lock(&self.requests).is_empty();
        self.look_again(if is_served { next } else { Some(Duration::ZERO) });
        if self.is_idle()
            && self.next_wake.is_none()
            && let Some(root) = self.shared.retire.get()
        {
            // One that is not told now is asked later, like all others; it saves memory, nothing else.
            let _ = root.try_send(Retire { key: self.key.clone() });
        }
        self.shared.put_off_rest(&self.key);
    }

    /// Whether nothing was done for a while, and there is nothing to lose besides the memory. The timer stays set, and
    /// wakes the next actor.
    fn is_at_rest(&self) -> bool {
        self.phase == Phase::Idle
            && self.dirty.is_none()
            && !self.errand_out
            && self.failures == 0
            && self.succeeded_at.elapsed() >= self.shared.options.rest_after
            && self.finding.is_none()
            && self.answers.is_empty()
            && lock(&self.requests).is_empty()
            && self.edits.is_forgotten(self.shared.clock.elapsed())
            && !lock(&self.mail.status).is_edited()
            // A pass that was ended from outside may not have let go yet.
            && Arc::strong_count(&self.passing) == 1
    }

    fn departure(&self) -> Departure {
        if self.is_idle() {
            return Departure::Ends;
        }
        if !self.is_at_rest() {
            return Departure::Stays;
        }
        if R::is_dispensable(&self.shared, &self.key.object, &mut lock(&self.memory)) {
            Departure::Ends
        } else {
            let status = lock(&self.mail.status);
            let status = status.is_behind().then(|| Box::new(status.clone()));
            Departure::Rests(Arc::new(Left::<R> {
                memory: self.memory.clone(),
                rng: self.rng.clone(),
                status,
            }))
        }
    }

    fn failed(&mut self, error: &PassError) {
        Self::count(error.label());
        self.last_error = Some(error.to_string());
        if error.is_fault() {
            self.shared.note_fault(&self.key, error);
        }
        let wait = if error.is_quiet() && self.failures < QUIET_RETRIES {
            self.failures += 1;
            tracing::debug!(actor = %self.key, %error, "a pass is tried again");
            CONFLICT_WAIT * self.failures
        } else {
            if error.is_quiet() {
                tracing::debug!(actor = %self.key, %error, "a pass is tried again later");
            } else {
                tracing::warn!(actor = %self.key, %error, "a pass failed");
            }
            self.retry_wait(error.longest_wait())
        };
        self.look_again(Some(error.retry_after().map_or(wait, |after| after.max(wait))));
    }

    fn retry_wait(&mut self, cap: Duration) -> Duration {
        let wait = backoff::delay(self.failures, RETRY_BASE, cap, self.rng.f64());
        self.failures = self.failures.saturating_add(1);
        wait
    }

    fn count(result: &'static str) {
        metrics::counter!("solar_reconciles_total", "kind" => R::KIND.0, "result" => result).increment(1);
    }

    fn run_errand(&mut self, ctx: &mut Context<Self>, errand: Errand<R::Finding>) {
        self.errand_out = true;
        let shared = self.shared.clone();
        let task: PassHandle<R::Finding> =
            self.shared.spawner.spawn_pass(&format_args!("errand of {}", self.key), async move {
                let _slot = shared.errands.take(&errand.host).await;
                errand.work.await
            });
        ctx.spawn(task.into_actor(self).map(|ended, actor, ctx| {
            actor.errand_out = false;
            actor.guarded(ctx, "the end of an errand", |actor, _| {
                match ended {
                    Ok(finding) => actor.finding = Some(finding),
                    Err(died) => {
                        actor.last_error = Some(format!("an errand {died}"));
                        tracing::warn!(actor = %actor.key, %died, "an errand had no result");
                    }
                }
                actor.dirty.get_or_insert(Cause::Errand);
            });
        }));
    }

    fn look_again(&mut self, after: Option<Duration>) {
        self.next_wake = after.map(|after| Instant::now() + after);
        self.shared.timers.set(&self.key, self.next_wake);
    }

    fn leave(&self, slot: Slot) {
        drop(slot);
        self.tell_gate();
    }

    /// Somebody may wait for the slot that was given back.
    fn tell_gate(&self) {
        if self.shared.slots.waiting() == 0 {
            return;
        }
        if let Some(gate) = self.shared.gate.get() {
            // One that finds the mailbox full finds others there that do the same.
            let _ = gate.try_send(SlotReturned);
        }
    }

    fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
            && self.dirty.is_none()
            && !self.errand_out
            && lock(&self.requests).is_empty()
            && R::is_done(&self.shared, &self.key.object, &lock(&self.memory))
    }
}

impl<R: Reconcile> Handler<Woken> for ObjectActor<R> {
    type Result = ();

    fn handle(&mut self, woken: Woken, ctx: &mut Context<Self>) {
        self.mail.woken.store(false, Ordering::Release);
        self.guarded(ctx, "a wake", |actor, _| {
            actor.dirty.get_or_insert(woken.cause);
        });
    }
}

impl<R: Reconcile> Handler<StatusShown> for ObjectActor<R> {
    type Result = ();

    fn handle(&mut self, _: StatusShown, ctx: &mut Context<Self>) {
        self.guarded(ctx, "a status", |_, _| {});
    }
}

impl<R: Reconcile> Handler<Answered> for ObjectActor<R> {
    type Result = ();

    fn handle(&mut self, answered: Answered, ctx: &mut Context<Self>) {
        self.guarded(ctx, "an answer", |actor, _| {
            let now = actor.shared.clock.elapsed();
            actor.answers.insert(answered.from, (answered.answer, now));
            actor.dirty.get_or_insert(Cause::Answer);
        });
    }
}

impl<R: Reconcile> Handler<Asked<R::Request>> for ObjectActor<R> {
    type Result = ();

    fn handle(&mut self, Asked(request): Asked<R::Request>, ctx: &mut Context<Self>) {
        self.guarded(ctx, "a request", |actor, _| {
            let mut requests = lock(&actor.requests);
            let asker = R::asker(&request).cloned();
            if R::must_be_heard(&request) {
                // Others may wait for what it ends.
                requests.push_front(asker, request);
                actor.dirty.get_or_insert(Cause::Request);
            } else if requests.len() < REQUESTS || asker.as_ref().is_some_and(|asker| requests.holds(asker)) {
                requests.push_back(asker, request);
                actor.dirty.get_or_insert(Cause::Request);
            } else {
                // The asker hears nothing and asks again.
                tracing::warn!(actor = %actor.key, "a request was turned away: too many are waiting");
            }
        });
    }
}

impl<R: Reconcile> Handler<GateOpened> for ObjectActor<R> {
    type Result = ();

    fn handle(&mut self, GateOpened(slot): GateOpened, ctx: &mut Context<Self>) {
        self.guarded(ctx, "its turn", |actor, ctx| actor.begin(ctx, slot));
    }
}

impl<R: Reconcile> Handler<AskToGo> for ObjectActor<R> {
    type Result = Departure;

    fn handle(&mut self, _: AskToGo, ctx: &mut Context<Self>) -> Departure {
        let mut departure = Departure::Stays;
        self.guarded(ctx, "whether it may go", |actor, _| {
            // A wake that found the mailbox full has left nothing but the mark.
            if !actor.mail.woken.load(Ordering::Acquire) {
                departure = actor.departure();
            }
        });
        departure
    }
}

impl<R: Reconcile> Handler<GetSnapshot> for ObjectActor<R> {
    type Result = Snapshot;

    fn handle(&mut self, _: GetSnapshot, _: &mut Context<Self>) -> Snapshot {
        Snapshot {
            state: self.state(),
            requests: lock(&self.requests).len(),
            last_cause: self.last_cause.map(Cause::as_str),
            passes: self.passes,
            failures: self.failures,
            last_error: self.last_error.clone(),
            restarts: self.restarts,
            next_wake_seconds: self.next_wake.map(|at| (at - Instant::now()).as_secs_f64()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
