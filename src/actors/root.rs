//! The root: starts everything in order, gives up addresses nobody needs, and ends everything in order.

use std::sync::Arc;
use std::time::Duration;

use std::collections::BTreeSet;

use actix::fut::ActorFutureExt;
use actix::{
    Actor, Addr, AsyncContext, Context, Handler, Recipient, ResponseActFuture, Supervisor, System, WrapFuture,
};
use actix_rt::ArbiterHandle;
use solar_api as api;
use solar_core::record::{
    ComponentRecord, ComponentVersionRecord, GrantRecord, ProfileRecord, RegistryBindingRecord,
    RegistryRecord, ReleaseBindingRecord, ReleaseRecord, RenderArtifactRecord, RenderBindingRecord,
    RenderTaskRecord, TargetRecord,
};
use solar_core::routes::{ActorKey, ActorKind, Routed};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::binding::BindingKind;
use super::component_version::ComponentVersionKind;
use super::directory::{Directory, Factory};
use super::gate::Gate;
use super::object::{self, Reconcile};
use super::pass::PassHandle;
use super::profile::{ProfileBindingsKind, ProfileKind};
use super::protection::ProtectionKind;
use super::registry_actor::RegistryActor;
use super::release::ReleaseKind;
use super::render_artifact::RenderArtifactKind;
use super::render_pool::RenderPool;
use super::render_task::RenderTaskKind;
use super::supervision;
use super::system::{Options, Ports, Shared, Term};
use super::target::TargetKind;
use super::timers;
use super::watch::Watch;
use crate::adapters::kubernetes::{EventSink, Namespaced, deliver, kind_name};
use crate::messages::gate::{Close, CountBusy, GateSnapshot, GetGateSnapshot, Open};
use crate::messages::registry_actor::{ChecksSnapshot, GetChecksSnapshot, StopChecking};
use crate::messages::render_pool::{GetPoolSnapshot, PoolSnapshot, StopRendering};
pub use crate::messages::root::State;
use crate::messages::root::{Begin, CriticalPartDied, GetState, KindSynced, Lead, Retire, ShutDown};
use crate::messages::watch::{StartWatching, StopWatching};

/// One message from each watch and each retiring actor at most; a retirement that finds the box full is told later.
const MAILBOX: usize = 1 << 14;
/// How often it is looked whether the parts are still there.
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// Looks in a row at which nobody may be busy: a message may be under way between two mailboxes.
const QUIET_LOOKS: u32 = 2;
/// How often running passes are looked at while they end.
const SHUTDOWN_LOOK: Duration = Duration::from_millis(10);

/// What a chart's way from Target to registry needs: its three kinds wait for each other, so each needs all of it.
const CHARTS: &[&str] = &[
    "ComponentVersion",
    "ReferenceGrant",
    "Registry",
    "RegistryBinding",
    "Release",
    "ReleaseBinding",
    "RenderArtifact",
    "RenderBinding",
    "RenderTask",
    "Target",
];

/// A kind of object actors.
struct Kind {
    actor: ActorKind,
    start: Factory,
    /// The kinds of records that its decisions look at: it runs as soon as they are all listed.
    needs: &'static [&'static str],
}

/// The kinds of object actors: one line each.
fn kinds() -> Vec<Kind> {
    fn of<R: Reconcile>(needs: &'static [&'static str]) -> Kind {
        Kind { actor: R::KIND, start: object::start::<R>, needs }
    }
    vec![
        of::<TargetKind>(CHARTS),
        of::<RenderTaskKind>(CHARTS),
        of::<RenderArtifactKind>(CHARTS),
        of::<ComponentVersionKind>(&["Component", "ComponentVersion", "ReferenceGrant", "Registry"]),
        of::<ReleaseKind>(&["ComponentVersion", "ReferenceGrant", "Release"]),
        of::<BindingKind<api::ReleaseBinding>>(&["ReferenceGrant", "Release", "ReleaseBinding", "Target"]),
        of::<BindingKind<api::RegistryBinding>>(&["ReferenceGrant", "Registry", "RegistryBinding", "Target"]),
        of::<ProfileKind>(&["Profile", "Release", "ReleaseBinding"]),
        of::<ProfileBindingsKind>(&["Profile", "ReferenceGrant", "Release", "ReleaseBinding", "Target"]),
        of::<ProtectionKind<api::Registry>>(&["Registry", "RegistryBinding", "RenderArtifact", "Target"]),
        of::<ProtectionKind<api::Release>>(&["Profile", "Release", "ReleaseBinding"]),
        of::<ProtectionKind<api::ComponentVersion>>(&["ComponentVersion", "Release"]),
        of::<ProtectionKind<api::Component>>(&["Component", "ComponentVersion"]),
    ]
}

/// Every kind of object actors.
pub fn all_kinds() -> BTreeSet<ActorKind> {
    kinds().into_iter().map(|kind| kind.actor).collect()
}

/// The kinds that `options` choose.
fn chosen(options: &Options) -> Vec<Kind> {
    kinds().into_iter().filter(|kind| options.controllers.contains(&kind.actor)).collect()
}

/// The root.
pub struct Root {
    shared: Arc<Shared>,
    watches: Vec<WatchAddr>,
    unsynced: BTreeSet<&'static str>,
    /// Chosen kinds to which the gate is still closed.
    closed: Vec<Kind>,
    gate: Addr<Gate>,
    pool: Addr<RenderPool>,
    checks: Addr<RegistryActor>,
    state: watch::Sender<State>,
    /// The end has begun: parts may stop.
    ending: bool,
    // Ends the timers and the events with the root.
    loops: Vec<PassHandle<()>>,
}

struct WatchAddr {
    start: Recipient<StartWatching>,
    stop: Recipient<StopWatching>,
}

/// A running controller: how to reach it from outside.
#[derive(Clone)]
pub struct Running {
    /// What all actors share.
    pub shared: Arc<Shared>,
    /// How far it is.
    pub state: watch::Receiver<State>,
    root: Addr<Root>,
}

impl Running {
    /// How far the root is; `None` when an actor that must always answer does not within `patience`: the root, the gate,
    /// or anybody on one of the actors' threads.
    pub async fn answers(&self, patience: Duration) -> Option<State> {
        let threads = self.shared.arbiters.iter().map(|arbiter| {
            let (tell, told) = oneshot::channel();
            // A thread that has ended drops the closure, and nothing is told.
            arbiter.spawn_fn(move || tell.send(()).unwrap_or_default());
            told
        });
        let threads: Vec<_> = threads.collect();
        let asked = async {
            for told in threads {
                told.await.ok()?;
            }
            self.gate_snapshot().await?;
            self.state().await
        };
        tokio::time::timeout(patience, asked).await.ok()?
    }

    /// How far the root is; `None` when it has ended.
    pub async fn state(&self) -> Option<State> {
        self.root.send(GetState).await.ok()
    }

    /// The gate's state; `None` when it has ended.
    pub async fn gate_snapshot(&self) -> Option<GateSnapshot> {
        self.shared.gate.get()?.send(GetGateSnapshot).await.ok()
    }

    /// The render pool's state; `None` when it has ended.
    pub async fn pool_snapshot(&self) -> Option<PoolSnapshot> {
        self.shared.pool.get()?.send(GetPoolSnapshot).await.ok()
    }

    /// The registry actor's state; `None` when it has ended.
    pub async fn checks_snapshot(&self) -> Option<ChecksSnapshot> {
        self.shared.checks.get()?.send(GetChecksSnapshot).await.ok()
    }

    /// Ready when a critical part has died; says which and why.
    pub async fn failed(&self) -> String {
        let mut state = self.state.clone();
        let failed =
            state.wait_for(|state| matches!(state, State::Failed(_))).await.map(|state| state.clone());
        match failed {
            Ok(State::Failed(reason)) => reason,
            _ => "the root has ended".to_owned(),
        }
    }

    /// This process leads from now on; `clean`: nothing of an earlier one can land any more.
    pub async fn lead(&self, clean: bool) {
        if self.root.send(Lead { clean }).await.is_err() {
            tracing::debug!("the root has already ended");
        }
    }

    /// Ends everything in order; the state tells when that is done.
    pub async fn shut_down(&self) {
        if self.root.send(ShutDown).await.is_err() {
            tracing::debug!("the root has already ended");
        }
    }
}

/// Starts a controller on the current actix system.
///
/// Everything is made inside the runtime that runs the passes, so that nothing outlives this incarnation.
pub fn start(options: Options, ports: Ports, arbiters: Vec<ArbiterHandle>, instance: &str) -> Running {
    let (events, queue) = EventSink::new();
    let arbiters = if arbiters.is_empty() { vec![System::current().arbiter().clone()] } else { arbiters };
    let home = arbiters[0].clone();
    let spawner = ports.spawner.clone();
    let kinds = chosen(&options);
    let directory = Directory::new(kinds.iter().map(|kind| (kind.actor, kind.start)));
    let shared = Arc::new(Shared::new(options, ports, events, directory, arbiters));

    let gate = Gate::new(shared.clone());
    let gate = Gate::start_in_arbiter(&home, move |ctx| {
        ctx.set_mailbox_capacity(Gate::mailbox());
        gate
    });
    let pool = RenderPool::new(shared.clone());
    let pool = RenderPool::start_in_arbiter(&home, move |ctx| {
        ctx.set_mailbox_capacity(RenderPool::mailbox());
        pool
    });
    let checks = RegistryActor::new(shared.clone());
    let checks = Supervisor::start_in_arbiter(&home, move |ctx| {
        ctx.set_mailbox_capacity(RegistryActor::mailbox());
        checks
    });
    let loops = vec![
        spawner.spawn_pass("timers", timers::wake_due(shared.clone())),
        spawner.spawn_pass("rests", timers::offer_rests(shared.clone())),
        spawner.spawn_pass("events", deliver(queue, shared.api.clone(), shared.clock, Arc::from(instance))),
    ];
    let (sender, state) = watch::channel(State::Syncing(BTreeSet::new()));
    let root = Root {
        shared: shared.clone(),
        watches: Vec::new(),
        unsynced: BTreeSet::new(),
        closed: kinds,
        gate: gate.clone(),
        pool: pool.clone(),
        checks: checks.clone(),
        state: sender,
        ending: false,
        loops,
    };
    let root = Root::start_in_arbiter(&home, move |ctx| {
        ctx.set_mailbox_capacity(MAILBOX);
        root
    });
    // Each is set once, here.
    let _ = shared.gate.set(gate);
    let _ = shared.pool.set(pool);
    let _ = shared.checks.set(checks);
    let _ = shared.retire.set(root.clone().recipient());
    let _ = shared.critical.set(root.clone().recipient());
    if root.try_send(Begin).is_err() {
        tracing::error!("the root did not start");
    }
    Running { shared, state, root }
}

impl Root {
    /// Makes the watch of `K` if a chosen kind needs it.
    fn watch<K, R>(&mut self, ctx: &mut Context<Self>)
    where
        K: Namespaced,
        R: Routed + for<'a> From<&'a K>,
    {
        let kind = kind_name::<K>();
        if !self.closed.iter().any(|chosen| chosen.needs.contains(&kind)) {
            return;
        }
        let root = ctx.address();
        let watch = Watch::<K, R>::new(self.shared.clone(), root.recipient());
        let addr = Watch::start_in_arbiter(&self.shared.arbiters[0], |_| watch);
        self.unsynced.insert(kind);
        self.watches.push(WatchAddr { start: addr.clone().recipient(), stop: addr.recipient() });
    }

    /// Opens the gate to the kinds that miss nothing any more.
    fn open_gate(&mut self) {
        if !self.shared.leads() {
            return;
        }
        let waits = |kind: &Kind| kind.needs.iter().any(|need| self.unsynced.contains(need));
        let (waiting, ready): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.closed).into_iter().partition(waits);
        self.closed = waiting;
        if ready.is_empty() {
            return;
        }
        let kinds = ready.iter().map(|kind| kind.actor).collect();
        if self.gate.try_send(Open { kinds, all: self.closed.is_empty() }).is_err() {
            self.tell(State::Failed("the gate has ended".to_owned()));
        }
    }

    /// Handles one message; a panic ends the process, as does that of any other part on which everything depends.
    fn guarded(
        &mut self,
        ctx: &mut Context<Self>,
        message: &str,
        handle: impl FnOnce(&mut Self, &mut Context<Self>),
    ) {
        let shared = self.shared.clone();
        if let Some(Err(reason)) = supervision::guard(&shared, &"the root", message, self, ctx, handle) {
            self.tell(State::Failed(format!("the root: panicked: {reason}")));
        }
    }

    /// A part that was stopped says nothing any more, so somebody has to look.
    fn look_after(ctx: &mut Context<Self>) {
        ctx.run_interval(LOOK_AFTER, |root, ctx| {
            root.guarded(ctx, "a look at its parts", |root, _| {
                let watches = root.watches.iter().map(|watch| ("a watch", watch.start.connected()));
                let parts = [
                    ("the gate", root.gate.connected()),
                    ("the render pool", root.pool.connected()),
                    ("the registry actor", root.checks.connected()),
                ];
                let dead = parts.into_iter().chain(watches).find(|(_, alive)| !alive && !root.ending);
                if let Some((part, _)) = dead {
                    root.tell(State::Failed(format!("{part}: was stopped")));
                }
            });
        });
    }

    /// Says how far it is. A failure is not taken back, whatever goes on meanwhile.
    fn tell(&self, state: State) {
        self.state.send_if_modified(|now| {
            let is_news = *now != state && (!matches!(now, State::Failed(_)) || state == State::Stopped);
            if is_news {
                *now = state;
            }
            is_news
        });
    }
}

impl Actor for Root {
    type Context = Context<Self>;
}

impl Handler<Begin> for Root {
    type Result = ();

    fn handle(&mut self, _: Begin, ctx: &mut Context<Self>) {
        self.guarded(ctx, "its start", Self::begin);
    }
}

impl Root {
    fn begin(&mut self, ctx: &mut Context<Self>) {
        Self::look_after(ctx);
        self.watch::<api::ReferenceGrant, GrantRecord>(ctx);
        self.watch::<api::Registry, RegistryRecord>(ctx);
        self.watch::<api::RegistryBinding, RegistryBindingRecord>(ctx);
        self.watch::<api::Profile, ProfileRecord>(ctx);
        self.watch::<api::Component, ComponentRecord>(ctx);
        self.watch::<api::ComponentVersion, ComponentVersionRecord>(ctx);
        self.watch::<api::Release, ReleaseRecord>(ctx);
        self.watch::<api::ReleaseBinding, ReleaseBindingRecord>(ctx);
        self.watch::<api::RenderArtifact, RenderArtifactRecord>(ctx);
        self.watch::<api::RenderBinding, RenderBindingRecord>(ctx);
        self.watch::<api::RenderTask, RenderTaskRecord>(ctx);
        self.watch::<api::Target, TargetRecord>(ctx);
        self.tell(State::Syncing(self.unsynced.clone()));
        for watch in &self.watches {
            if watch.start.try_send(StartWatching).is_err() {
                self.tell(State::Failed("a watch did not start".to_owned()));
            }
        }
        self.guard_loops(ctx);
    }
}

impl Root {
    /// A timer queue or an event task that ends takes the process along: without timers nothing is retried.
    fn guard_loops(&mut self, ctx: &mut Context<Self>) {
        for task in std::mem::take(&mut self.loops) {
            ctx.spawn(task.into_actor(self).map(|ended, root, _| {
                let reason = ended.err().map_or_else(|| "ended".to_owned(), |died| died.to_string());
                root.tell(State::Failed(format!("the timers, the rests or the events: {reason}")));
            }));
        }
    }
}

impl Handler<KindSynced> for Root {
    type Result = ();

    fn handle(&mut self, synced: KindSynced, ctx: &mut Context<Self>) {
        self.guarded(ctx, "a kind that is listed", |root, _| root.synced(&synced));
    }
}

impl Root {
    fn synced(&mut self, synced: &KindSynced) {
        if !self.unsynced.remove(synced.kind) {
            return;
        }
        // While it starts, not while it ends: a list may come in behind the order to stop.
        if matches!(*self.state.borrow(), State::Syncing(_)) {
            self.tell_progress();
            self.open_gate();
        }
    }

    fn tell_progress(&self) {
        let all = self.unsynced.is_empty();
        self.tell(match (all, self.shared.leads()) {
            (false, _) => State::Syncing(self.unsynced.clone()),
            (true, false) => State::Standby,
            (true, true) => State::Running,
        });
    }

    fn lead(&mut self, lead: Lead) {
        let now = self.shared.clock.elapsed();
        let wait = if lead.clean { Duration::ZERO } else { self.shared.options.takeover_wait };
        let is_news = self.shared.term.set(Term { began: now, quiet_until: now + wait }).is_ok();
        if is_news && matches!(*self.state.borrow(), State::Syncing(_) | State::Standby) {
            self.tell_progress();
            self.open_gate();
        }
    }
}

impl Handler<Lead> for Root {
    type Result = ();

    fn handle(&mut self, lead: Lead, ctx: &mut Context<Self>) {
        self.guarded(ctx, "its lead", |root, _| root.lead(lead));
    }
}

impl Handler<CriticalPartDied> for Root {
    type Result = ();

    fn handle(&mut self, died: CriticalPartDied, ctx: &mut Context<Self>) {
        self.guarded(ctx, "the death of a part", |root, _| {
            root.tell(State::Failed(format!("{}: {}", died.part, died.reason)));
        });
    }
}

impl Handler<Retire> for Root {
    type Result = ();

    /// Does not wait until it says yes or no.
    fn handle(&mut self, Retire { key }: Retire, ctx: &mut Context<Self>) {
        self.guarded(ctx, "an actor that has nothing left to do", |root, ctx| root.retire(ctx, key));
    }
}

impl Root {
    fn retire(&mut self, ctx: &mut Context<Self>, key: ActorKey) {
        let shared = self.shared.clone();
        let asked = async move { shared.ask_to_go(key).await };
        ctx.spawn(asked.into_actor(self));
    }
}

impl Handler<GetState> for Root {
    type Result = State;

    fn handle(&mut self, _: GetState, _: &mut Context<Self>) -> State {
        self.state.borrow().clone()
    }
}

impl Handler<ShutDown> for Root {
    type Result = ResponseActFuture<Self, ()>;

    /// No more events in and no more jobs begun. Jobs that run may end within half of the grace period, with the passes
    /// that they wait for; those who wait for their turn may have it within five eighths; then no more passes begin, and
    /// those that run may end within three quarters. What is left is cut off, and the rest of the grace period is for the
    /// Kubernetes events that are still queued.
    fn handle(&mut self, _: ShutDown, ctx: &mut Context<Self>) -> Self::Result {
        self.guarded(ctx, "its end", |root, _| {
            root.ending = true;
            root.tell(State::Stopping);
        });
        for watch in &self.watches {
            // A watch that has ended needs no telling.
            let _ = watch.stop.try_send(StopWatching);
        }
        // What a check would find is found by the next process.
        let _ = self.checks.try_send(StopChecking);
        let (gate, pool, shared) = (self.gate.clone(), self.pool.clone(), self.shared.clone());
        let grace = shared.options.shutdown_grace;
        let began = Instant::now();
        let ended = async move {
            let jobs_end = async {
                while pool.send(StopRendering).await.is_ok_and(|running| running > 0) {
                    tokio::time::sleep(SHUTDOWN_LOOK).await;
                }
            };
            let jobs_ended = tokio::time::timeout_at(began + grace / 2, jobs_end).await.is_ok();
            // Whoever was told of a job's end has its turn yet to come: it may write what it was told.
            let turns_end = async {
                let mut quiet = 0;
                while quiet < QUIET_LOOKS {
                    let is_busy = gate.send(CountBusy).await.is_ok_and(|busy| busy > 0);
                    quiet = if is_busy { 0 } else { quiet + 1 };
                    tokio::time::sleep(SHUTDOWN_LOOK).await;
                }
            };
            let _ = tokio::time::timeout_at(began + grace * 5 / 8, turns_end).await;
            let passes_end = async {
                while gate.send(Close).await.is_ok_and(|running| running > 0) {
                    tokio::time::sleep(SHUTDOWN_LOOK).await;
                }
            };
            let passes_ended = tokio::time::timeout_at(began + grace * 3 / 4, passes_end).await.is_ok();
            if !(jobs_ended && passes_ended) {
                tracing::warn!("some passes or jobs did not end in time and are cut off");
            }
            shared.directory.clear();
            if tokio::time::timeout_at(began + grace, shared.events.flush()).await.is_err() {
                tracing::warn!("some Kubernetes events were not written in time");
            }
        };
        Box::pin(ended.into_actor(self).map(|(), root, _| root.tell(State::Stopped)))
    }
}
