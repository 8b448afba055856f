//! What all actors share: ports, cache, directory, and how to reach each other.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix::{Addr, Recipient};
use actix_rt::ArbiterHandle;
use solar_core::artifact::ArtifactOptions;
use solar_core::availability::AvailabilityOptions;
use solar_core::overlay::Moment;
use solar_core::routes::{ActorKey, ActorKind};
use solar_core::target::TargetOptions;
use tokio::sync::watch;
use tokio::time::Instant;

use super::directory::{Directory, Undelivered};
use super::errand_slots::ErrandSlots;
use super::gate::Gate;
use super::object::{Handle, Reconcile};
use super::pass::Spawner;
use super::registry_actor::RegistryActor;
use super::render_pool::RenderPool;
use super::root;
use super::timers::TimerQueue;
use crate::adapters::clock::Clock;
use crate::adapters::cpu::Cpu;
use crate::adapters::kubernetes::{Api, Cache, EventSink, Payloads};
use crate::adapters::leadership::Leadership;
use crate::adapters::oci::{
    HttpRegistry, HttpRegistryError, HttpRegistryOptions, Led, OciRegistry, Retrying, Writes,
};
use crate::adapters::rng;
use crate::messages::gate::Slots;
use crate::messages::object::{Answer, Answered, Asked, Cause};
use crate::messages::root::{CriticalPartDied, Retire};

/// How the controller works, set once at start.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kinds of object actors that run.
    pub controllers: BTreeSet<ActorKind>,
    /// Passes at once; 0 means no cap.
    pub max_concurrent_reconciles: usize,
    /// Jobs at once; 0 means no cap.
    pub max_concurrent_renders: usize,
    /// How long a job may take.
    pub render_timeout: Duration,
    /// When a refused submission is tried again.
    pub render_requeue_delay: Duration,
    /// Whether nothing is done until the root is told that this process leads.
    pub standby: bool,
    /// How long after a start, or after it began to lead, nothing is cleaned up.
    pub takeover_wait: Duration,
    /// How long passes and jobs that run may take to end at shutdown.
    pub shutdown_grace: Duration,
    /// Looks and clean-ups at once, for each registry.
    pub max_concurrent_errands: usize,
    /// How Targets are treated.
    pub target: TargetOptions,
    /// How artifacts are treated.
    pub artifact: ArtifactOptions,
    /// How ComponentVersions are checked.
    pub availability: AvailabilityOptions,
    /// How long an object actor does nothing before it goes to rest.
    pub rest_after: Duration,
    /// Threads that actors live on; 0 means one for each core.
    pub actor_threads: usize,
    /// Seed of all randomness.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controllers: root::all_kinds(),
            max_concurrent_reconciles: 50,
            max_concurrent_renders: 20,
            render_timeout: Duration::from_secs(300),
            render_requeue_delay: Duration::from_secs(2),
            standby: false,
            takeover_wait: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(20),
            max_concurrent_errands: 20,
            target: TargetOptions { strict: false, stale_grace: Duration::ZERO, watched: None },
            artifact: ArtifactOptions {
                unbound_grace: Duration::from_secs(300),
                check_interval: Some(Duration::from_secs(6 * 3_600)),
            },
            availability: AvailabilityOptions {
                interval: Duration::from_secs(300),
                grace: Duration::from_secs(900),
            },
            rest_after: Duration::from_secs(10),
            actor_threads: 0,
            seed: 0,
        }
    }
}

/// The ports of one incarnation. Everything in it is made inside the runtime that runs the passes.
#[derive(Clone)]
pub struct Ports {
    /// The API server.
    pub api: Api,
    /// The OCI registries.
    pub registry: Arc<dyn OciRegistry>,
    /// Time.
    pub clock: Clock,
    /// CPU work.
    pub cpu: Cpu,
    /// Tasks.
    pub spawner: Spawner,
}

impl Ports {
    /// The ports of a process that works on real registries, in real time. `ca_file` is trusted for registries besides the
    /// system's authorities.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn of_process(
        api: Api,
        options: &Options,
        ca_file: Option<PathBuf>,
        spawner: Spawner,
    ) -> Result<Self, HttpRegistryError> {
        let clock = Clock::machine();
        let registry_options = HttpRegistryOptions { ca_file, ..HttpRegistryOptions::default() };
        let registry = HttpRegistry::new(&registry_options, clock)?;
        Ok(Self {
            api,
            registry: Arc::new(Retrying::new(Arc::new(registry), rng::seeded(options.seed, "registry"))),
            clock,
            cpu: Cpu::Threads,
            spawner,
        })
    }

    /// The same ports, which write only while `lead` is valid; `writes` tells what is under way at registries.
    pub fn led_by(self, lead: &Leadership, writes: Arc<Writes>) -> Self {
        Self {
            api: self.api.led_by(lead.clone()),
            registry: Arc::new(Led::new(self.registry, lead.clone(), writes)),
            ..self
        }
    }
}

/// What all actors share.
pub struct Shared {
    /// How the controller works.
    pub options: Options,
    /// The API server.
    pub api: Api,
    /// The OCI registries.
    pub registry: Arc<dyn OciRegistry>,
    /// Time.
    pub clock: Clock,
    /// CPU work.
    pub cpu: Cpu,
    /// Tasks.
    pub spawner: Spawner,
    /// What the watches told.
    pub cache: Cache,
    /// Whole objects on demand.
    pub payloads: Payloads,
    /// Kubernetes events.
    pub events: EventSink,
    /// Object actors by key.
    pub directory: Directory,
    /// When actors look again by themselves.
    pub timers: TimerQueue,
    /// When actors that have done nothing for a while may go.
    pub rests: TimerQueue,
    /// The first fault of this program itself that was caught, for whoever must not overlook it: it is tried again, and
    /// an actor may rest afterwards.
    pub fault: OnceLock<String>,
    /// Bounds looks and clean-ups, which wait for registries.
    pub errands: ErrandSlots,
    /// Passes at once.
    pub slots: Arc<Slots>,
    pub(super) arbiters: Vec<ArbiterHandle>,
    /// Since when this process leads, and until when writes of an earlier one may land.
    pub(super) term: OnceLock<Term>,
    /// Why this process stands by without knowing that another one leads.
    pub shut_out: watch::Sender<Option<String>>,
    pub(super) gate: OnceLock<Addr<Gate>>,
    pub(super) pool: OnceLock<Addr<RenderPool>>,
    pub(super) checks: OnceLock<Addr<RegistryActor>>,
    pub(super) retire: OnceLock<Recipient<Retire>>,
    pub(super) critical: OnceLock<Recipient<CriticalPartDied>>,
}

/// The time in which this process does the work.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    /// Since when it does.
    pub began: Moment,
    /// Requests of an earlier process may land until then.
    pub quiet_until: Moment,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Shared {
    /// Everything but the actors.
    pub fn new(
        options: Options,
        ports: Ports,
        events: EventSink,
        directory: Directory,
        arbiters: Vec<ArbiterHandle>,
    ) -> Self {
        let errands = ErrandSlots::new(options.max_concurrent_errands);
        let slots = Slots::new(options.max_concurrent_reconciles);
        let term = OnceLock::new();
        if !options.standby {
            let _ = term.set(Term { began: Moment::ZERO, quiet_until: options.takeover_wait });
        }
        Self {
            options,
            slots,
            api: ports.api,
            registry: ports.registry,
            clock: ports.clock,
            cpu: ports.cpu,
            spawner: ports.spawner,
            cache: Cache::default(),
            payloads: Payloads::default(),
            events,
            directory,
            timers: TimerQueue::default(),
            rests: TimerQueue::default(),
            fault: OnceLock::new(),
            errands,
            arbiters,
            term,
            shut_out: watch::Sender::new(None),
            gate: OnceLock::new(),
            pool: OnceLock::new(),
            checks: OnceLock::new(),
            retire: OnceLock::new(),
            critical: OnceLock::new(),
        }
    }

    /// Whether this process does the work, and does not stand by.
    pub fn leads(&self) -> bool {
        self.term.get().is_some()
    }

    /// Since when this process does the work; the beginning, while it stands by.
    pub fn began(&self) -> Moment {
        self.term.get().map_or(Moment::ZERO, |term| term.began)
    }

    /// Until when requests of an earlier process may land; the beginning, while this one stands by.
    pub fn quiet_until(&self) -> Moment {
        self.term.get().map_or(Moment::ZERO, |term| term.quiet_until)
    }

    /// Wakes the actor of `key`, which is made if there is none. A wake is never lost: what cannot be handed over is
    /// remembered by the directory or by the actor's own mark.
    pub fn wake(self: &Arc<Self>, key: &ActorKey, cause: Cause) {
        Self::count_wake(key.kind, cause);
        match self.directory.say(self, key, |addr| addr.wake(cause)) {
            Ok(()) | Err(Undelivered::Full | Undelivered::Ending | Undelivered::NoSuchKind) => {}
        }
    }

    /// Asks the actor of `key` whether it may go, and lets it go if so; one that stays is asked again later.
    pub(super) async fn ask_to_go(&self, key: ActorKey) {
        let Some(addr) = self.directory.park(&key) else { return };
        let asked = addr.ask_to_go();
        // Whoever holds the address keeps the actor.
        drop(addr);
        if !self.directory.let_go(&key, asked.await) {
            self.put_off_rest(&key);
        }
    }

    /// Notes that `who` met a fault of this program itself.
    pub(super) fn note_fault(&self, who: &dyn std::fmt::Display, fault: &dyn std::fmt::Display) {
        // Later ones may follow from the first.
        let _ = self.fault.set(format!("{who}: {fault}"));
    }

    /// The actor of `key` is asked whether it may rest when it has had time enough to do nothing.
    pub(super) fn put_off_rest(&self, key: &ActorKey) {
        self.rests.set(key, Some(Instant::now() + self.options.rest_after));
    }

    /// Counts a wake.
    pub(super) fn count_wake(kind: ActorKind, cause: Cause) {
        metrics::counter!("solar_wakes_total", "kind" => kind.0, "cause" => cause.as_str()).increment(1);
    }

    /// Wakes all of `keys`, in their order.
    pub fn wake_all(self: &Arc<Self>, keys: &BTreeSet<ActorKey>, cause: Cause) {
        for key in keys {
            self.wake(key, cause);
        }
    }

    /// Tells the keeper of a status that the watch shows another one, in `version` of the object. Its own writes lead to
    /// nothing.
    pub fn tell_of_status(self: &Arc<Self>, keeper: &ActorKey, version: &str) {
        match self.directory.say(self, keeper, |addr| addr.show_status(version)) {
            Ok(()) | Err(Undelivered::Full | Undelivered::Ending | Undelivered::NoSuchKind) => {}
        }
    }

    /// Hands an answer to the actor of `to`. One that cannot be handed over is asked for again by whoever waits for it.
    pub fn answer(
        self: &Arc<Self>,
        to: &ActorKey,
        from: ActorKey,
        answer: Answer,
    ) -> Result<(), Undelivered> {
        let answered = Answered { from, answer };
        self.directory.say(self, to, |addr| addr.answer(answered.clone()))
    }

    /// Puts a request into the queue of the actor of `R` for `key`. A request that is not taken is handed back.
    pub fn request<R: Reconcile>(
        self: &Arc<Self>,
        key: &ActorKey,
        request: R::Request,
    ) -> Result<(), (Undelivered, Option<R::Request>)> {
        let mut request = Some(request);
        let said = self.directory.say(self, key, |addr| {
            let Some(handle) = addr.as_any().downcast_ref::<Handle<R>>() else {
                return Err(Undelivered::NoSuchKind);
            };
            let Some(taken) = request.take() else { return Err(Undelivered::Full) };
            handle.ask(Asked(taken)).map_err(|(undelivered, Asked(back))| {
                request = Some(back);
                undelivered
            })
        });
        said.map_err(|undelivered| (undelivered, request))
    }

    /// Tells the root that a part without which nothing works has died.
    pub(super) fn tell_of_death(&self, died: CriticalPartDied) {
        tracing::error!(part = died.part, reason = died.reason, "a critical part died");
        if let Some(root) = self.critical.get()
            && root.try_send(died).is_err()
        {
            tracing::error!("the root could not be told");
        }
    }

    /// The generator of `who`.
    pub fn rng(&self, who: &str) -> fastrand::Rng {
        rng::seeded(self.options.seed, who)
    }

    /// The arbiter on which the actor of `key` lives: always the same one.
    pub(super) fn arbiter(&self, key: &ActorKey) -> &ArbiterHandle {
        let hash = solar_core::hash::hash8(&key.to_string());
        let number = usize::from_str_radix(&hash, 16).unwrap_or_default();
        &self.arbiters[number % self.arbiters.len()]
    }
}
