//! The registry actor: which availability checks run, and when. (The objects of kind Registry have only their
//! Protection.)
//!
//! It owns the token bucket and four runners. Whoever asks is answered at once: the check runs, or it stands in the queue
//! of its host, which keeps nothing of it but its name. When its turn comes, what is to be looked for is taken from the
//! cache as it is then: a version that was edited has kept its place, and one that is gone is passed over before it costs
//! a token.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::fut::ActorFutureExt;
use actix::{Actor, AsyncContext, Context, Handler, SpawnHandle, Supervised, WrapFuture};
use solar_core::availability::{Checked, Finding, Turn, Turns};
use solar_core::object::ObjectName;
use solar_core::overlay::Moment;
use solar_core::routes::{ActorKey, ActorKind, COMPONENT_VERSION};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::availability_check::{Looked, Refused, check, wanted};
use super::directory::Undelivered;
use super::pass::Died;
use super::supervision;
use super::system::Shared;
use crate::adapters::bucket::{PACE, TokenBucket};
use crate::messages::object::Answer;
use crate::messages::registry_actor::{
    CheckAdmission, CheckManifest, ChecksSnapshot, GetChecksSnapshot, HostChecks, RunningCheck, StopChecking,
};
use crate::messages::root::CriticalPartDied;

/// Checks at once; fixed, as is the rate.
pub const RUNNERS: usize = 4;
/// Versions that wait for one host. At ten per second the last of them waits for almost two hours; who finds the queue
/// full asks again by then.
const QUEUE: usize = 1 << 16;
/// One question at most from each version's actor; one that finds the box full asks again.
const MAILBOX: usize = 1 << 17;
/// How soon a result is handed over again whose receiver had no room.
const REDELIVERY: Duration = Duration::from_millis(100);
/// Hosts that are told in a snapshot.
const MOST_HOSTS: usize = 100;
/// Panics and stops in a row that end the process.
const RESTART_LIMIT: u32 = 5;
/// An actor that ran for so long does not die in a row with the time before.
const FORGIVEN_AFTER: Duration = Duration::from_secs(300);
/// Weight of the last check in the mean duration of checks.
const WEIGHT: u32 = 8;

const PART: &str = "the registry actor";

/// By this key questions are answered.
pub fn key() -> ActorKey {
    ActorKey::new(ActorKind("RegistryActor"), ObjectName::new("-", "admissions"))
}

/// By this key results are told: only the last answer of each correspondent is kept, and a result must not be pushed out
/// by a word about a question.
pub fn results_key() -> ActorKey {
    ActorKey::new(ActorKind("RegistryActor"), ObjectName::new("-", "results"))
}

struct Running {
    number: u64,
    host: Arc<str>,
    began: Moment,
    stop: AbortHandle,
}

/// The registry actor.
pub struct RegistryActor {
    shared: Arc<Shared>,
    bucket: TokenBucket,
    turns: Turns,
    running: BTreeMap<ObjectName, Running>,
    /// Tells checks of one version apart.
    number: u64,
    /// How long a check takes, as of late.
    mean: Duration,
    /// When the next token comes for whoever waits.
    timer: Option<(SpawnHandle, Moment)>,
    restarts: u32,
    deaths: u32,
    started: Instant,
    stopped: bool,
}

impl RegistryActor {
    /// An actor with a full bucket, for whom nobody waits.
    pub fn new(shared: Arc<Shared>) -> Self {
        let interval = shared.options.availability.interval;
        Self {
            bucket: TokenBucket::new(shared.clock),
            turns: Turns::new(RUNNERS, QUEUE).starting_at(shared.clock.wall_exact(), interval),
            shared,
            running: BTreeMap::new(),
            number: 0,
            mean: Duration::ZERO,
            timer: None,
            restarts: 0,
            deaths: 0,
            started: Instant::now(),
            stopped: false,
        }
    }

    /// How much mail the actor holds.
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
        match supervision::guard(&shared, &PART, message, self, ctx, handle) {
            Some(Ok(handled)) => handled,
            None => T::default(),
            Some(Err(reason)) => {
                self.start_again(&format!("panicked: {reason}"));
                T::default()
            }
        }
    }

    /// Forgets who waits and ends what runs: each version asks again when its time is over, in the order in which they
    /// stood. The bucket stays as it is, so that no registry is asked more often for it.
    fn start_again(&mut self, reason: &str) {
        metrics::counter!("solar_actor_restarts_total", "kind" => "RegistryActor").increment(1);
        tracing::error!(reason, "the registry actor starts again");
        self.turns = self.turns.emptied();
        for running in std::mem::take(&mut self.running).into_values() {
            running.stop.abort();
        }
        // A timer that goes off finds nobody waiting.
        self.timer = None;
        self.restarts += 1;
        if self.started.elapsed() > FORGIVEN_AFTER {
            self.deaths = 0;
        }
        self.started = Instant::now();
        self.deaths += 1;
        if self.deaths > RESTART_LIMIT {
            self.shared.tell_of_death(CriticalPartDied { part: PART.to_owned(), reason: reason.to_owned() });
        }
    }

    fn asked(&mut self, ctx: &mut Context<Self>, question: &CheckManifest) {
        if self.stopped {
            return;
        }
        let version = &question.version;
        if self.running.contains_key(version) {
            return self.answer(version, CheckAdmission::Started);
        }
        let before = self.stand(question);
        self.serve(ctx);
        if self.running.contains_key(version) {
            return self.answer(version, CheckAdmission::Started);
        }
        metrics::counter!("solar_availability_throttled_total").increment(1);
        // A queue that is full has room again when it is served.
        let before = before.unwrap_or(QUEUE);
        let now = self.shared.clock.elapsed();
        let estimate = self.next_slot() + self.pace() * u32::try_from(before).unwrap_or(u32::MAX);
        let slot = self.turns.tell(version, now + estimate, self.pace(), now);
        self.answer(version, CheckAdmission::Throttled { retry_after: slot.saturating_sub(now) });
    }

    /// How many begin before; `None`: the queue is full of those that are wanted.
    fn stand(&mut self, question: &CheckManifest) -> Option<usize> {
        let CheckManifest { version, host, due, lane } = question;
        self.turns.stand(version, host, *due, *lane).or_else(|| {
            let (shared, now) = (self.shared.clone(), self.shared.clock.elapsed());
            self.turns.sweep(host, now, |version| is_wanted(&shared, version, host));
            self.turns.stand(version, host, *due, *lane)
        })
    }

    /// Begins checks while there are runners, tokens, and versions that wait. A process whose lease is over begins none:
    /// another one may be at it already.
    fn serve(&mut self, ctx: &mut Context<Self>) {
        while !self.stopped && self.shared.api.lead().is_valid() {
            let now = self.shared.clock.elapsed();
            let shared = self.shared.clone();
            let still_wanted = |version: &ObjectName, host: &str| is_wanted(&shared, version, host);
            let Some(host) = self.turns.first(now, still_wanted) else {
                if let Some(until) = self.turns.rests_until(now) {
                    self.serve_later(ctx, until.saturating_sub(now));
                }
                break;
            };
            if let Err(wait) = self.bucket.take() {
                self.serve_later(ctx, wait);
                break;
            }
            if let Some(turn) = self.turns.begin(&host) {
                self.begin(ctx, turn);
            }
        }
    }

    fn serve_later(&mut self, ctx: &mut Context<Self>, wait: Duration) {
        let due = self.shared.clock.elapsed() + wait;
        if let Some((timer, at)) = self.timer.take() {
            if at <= due && at > self.shared.clock.elapsed() {
                self.timer = Some((timer, at));
                return;
            }
            ctx.cancel_future(timer);
        }
        let timer = ctx.run_later(wait, |actor, ctx| {
            actor.guarded(ctx, "a token", |actor, ctx| {
                actor.timer = None;
                actor.serve(ctx);
            });
        });
        self.timer = Some((timer, due));
    }

    fn begin(&mut self, ctx: &mut Context<Self>, turn: Turn) {
        let Turn { version, host, due } = turn;
        let now = self.shared.clock.elapsed();
        metrics::histogram!("solar_availability_check_lag_seconds")
            .record(now.saturating_sub(due).as_secs_f64());
        self.number += 1;
        let number = self.number;
        let (shared, lead) = (self.shared.clone(), self.shared.api.lead().clone());
        let checked = version.clone();
        let check = async move { lead.while_valid(check(shared, checked)).await.unwrap_or_default() };
        let handle = self.shared.spawner.spawn_pass(&format_args!("check of {version}"), check);
        let stop = handle.stopper();
        let checked = version.clone();
        ctx.spawn(handle.into_actor(self).map(move |ended, actor, ctx| {
            actor.guarded(ctx, "the end of a check", |actor, ctx| {
                actor.ended(ctx, &checked, number, ended);
            });
        }));
        self.running.insert(version, Running { number, host, began: now, stop });
    }

    fn ended(
        &mut self,
        ctx: &mut Context<Self>,
        version: &ObjectName,
        number: u64,
        ended: Result<Option<Looked>, Died>,
    ) {
        // One that was ended by a new start of the actor is no longer among them.
        if self.running.get(version).is_none_or(|running| running.number != number) {
            return;
        }
        let Some(running) = self.running.remove(version) else { return };
        let now = self.shared.clock.elapsed();
        self.turns.ended(&running.host, now);
        let took = now.saturating_sub(running.began);
        self.mean = (self.mean * (WEIGHT - 1) + took) / WEIGHT;
        match ended {
            Ok(Some(Looked { checked, refused })) => {
                if let Some(Refused { retry_after }) = refused {
                    let interval = self.shared.options.availability.interval;
                    self.turns.rest(&running.host, retry_after, interval, now);
                }
                metrics::counter!("solar_availability_checks_total", "result" => checked.finding.label())
                    .increment(1);
                self.tell(ctx, version, checked);
            }
            // Its version was changed or deleted in the moment between: its own wake sees to it.
            Ok(None) => {}
            Err(died) => self.died(ctx, version, &died),
        }
        self.serve(ctx);
    }

    /// A check without a result counts as one that found out nothing.
    fn died(&self, ctx: &mut Context<Self>, version: &ObjectName, died: &Died) {
        tracing::warn!(%version, %died, "an availability check had no result");
        metrics::counter!("solar_availability_checks_total", "result" => "died").increment(1);
        let Some((record, subject)) = wanted(&self.shared, version) else { return };
        let finding =
            Finding::Failed(format!("{} could not be checked: the check {died}", subject.reference()));
        let checked = Checked {
            mark: subject.mark,
            recheck: record.recheck.clone(),
            finding,
            at: self.shared.clock.elapsed(),
            wall: self.shared.clock.wall_exact(),
        };
        self.tell(ctx, version, checked);
    }

    /// Tells a version, as often as it takes.
    fn tell(&self, ctx: &mut Context<Self>, version: &ObjectName, checked: Checked) {
        let to = ActorKey::new(COMPONENT_VERSION, version.clone());
        let answer = Answer::Checked(Box::new(checked.clone()));
        if let Err(Undelivered::Full | Undelivered::Ending) = self.shared.answer(&to, results_key(), answer) {
            let version = version.clone();
            ctx.run_later(REDELIVERY, move |actor, ctx| {
                actor.guarded(ctx, "a result told again", |actor, ctx| actor.tell(ctx, &version, checked));
            });
        }
    }

    fn answer(&self, version: &ObjectName, admission: CheckAdmission) {
        let to = ActorKey::new(COMPONENT_VERSION, version.clone());
        // Whoever misses it asks again soon.
        let _ = self.shared.answer(&to, key(), Answer::Check(admission));
    }

    /// Time from one beginning of a check to the next while many wait, as it has been of late.
    fn pace(&self) -> Duration {
        PACE.max(self.mean / u32::try_from(RUNNERS).unwrap_or(1))
    }

    /// Time until the next check may begin.
    fn next_slot(&self) -> Duration {
        let now = self.shared.clock.elapsed();
        match &self.timer {
            Some((_, at)) if self.running.len() < RUNNERS => at.saturating_sub(now),
            _ => self.pace(),
        }
    }
}

/// Whether `host` is to be asked for this version still.
fn is_wanted(shared: &Shared, version: &ObjectName, host: &str) -> bool {
    wanted(shared, version).is_some_and(|(_, subject)| *subject.host == *host)
}

impl Actor for RegistryActor {
    type Context = Context<Self>;
}

impl Supervised for RegistryActor {
    fn restarting(&mut self, _: &mut Context<Self>) {
        self.start_again("was stopped");
    }
}

impl Handler<CheckManifest> for RegistryActor {
    type Result = ();

    fn handle(&mut self, question: CheckManifest, ctx: &mut Context<Self>) {
        self.guarded(ctx, "a question", |actor, ctx| actor.asked(ctx, &question));
    }
}

impl Handler<StopChecking> for RegistryActor {
    type Result = ();

    fn handle(&mut self, _: StopChecking, ctx: &mut Context<Self>) {
        self.guarded(ctx, "the end", |actor, _| {
            actor.stopped = true;
            for running in std::mem::take(&mut actor.running).into_values() {
                running.stop.abort();
            }
        });
    }
}

impl Handler<GetChecksSnapshot> for RegistryActor {
    type Result = ChecksSnapshot;

    fn handle(&mut self, _: GetChecksSnapshot, _: &mut Context<Self>) -> ChecksSnapshot {
        let now = self.shared.clock.elapsed();
        let running = self.running.iter().map(|(version, running)| RunningCheck {
            version: version.to_string(),
            host: running.host.to_string(),
            seconds: now.saturating_sub(running.began).as_secs_f64(),
        });
        let hosts = self.turns.hosts().take(MOST_HOSTS);
        ChecksSnapshot {
            tokens: self.bucket.tokens(),
            queued: self.turns.waiting(),
            next_slot_seconds: (self.turns.waiting() > 0).then(|| self.next_slot().as_secs_f64()),
            running: running.collect(),
            hosts: hosts
                .map(|(host, queued, running)| HostChecks { host: host.to_owned(), queued, running })
                .collect(),
            restarts: self.restarts,
        }
    }
}
