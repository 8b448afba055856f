//! One run: users, faults and kills from a seed, and what must hold all the while and at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix_rt::System;
use jiff::Timestamp;
use kube_embedded::{Fault as ApiFault, FaultPlan, FaultRates, RequestInfo, Server, TokioClock, Verb};
use serde_json::{Value, json};
use solar_controller::actors::pass::{Spawner, Verdict};
use solar_controller::actors::root::{self, Running, State};
use solar_controller::actors::system::{Options, Ports};
use solar_controller::adapters::clock::Clock;
use solar_controller::adapters::cpu::Cpu;
use solar_controller::adapters::kubernetes::{Api, bounded};
use solar_controller::adapters::oci::Retrying;
use solar_controller::adapters::rng;
use solar_controller::dev::registry::{
    Access, Behaviour, Fault as OciFault, RegistryOperation, RegistryStore, RequestInfo as OciRequestInfo,
};
use solar_core::artifact::ArtifactOptions;
use solar_core::availability::AvailabilityOptions;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::descriptors::{self, Descriptors};
use crate::fleet::{self, Deed, OWN_HOST, SHARED_HOST};
use crate::invariants;
use crate::kill::{Kill, LATEST, Point, Remains};
use crate::registries::Registries;
use crate::trace::{Keep, Summary, Trace};

/// Steps of users while everything goes wrong.
const STEPS: u32 = 80;
/// How long a level is waited for, in virtual time.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// Polls at one moment that can only be a loop.
const SPINNING: u32 = 100_000;
/// How long nobody looks at most: less than a grace period, so that a version is seen waiting for its end.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long nothing may happen at the end.
const SILENCE: Duration = Duration::from_secs(600);

/// What a run ended with.
pub struct Report {
    /// Equal for two runs of one seed.
    pub summary: Summary,
    /// All lines, where they were asked for.
    pub text: Option<String>,
}

/// Runs one seed on a fresh thread; `Err` says what did not hold.
#[allow(clippy::disallowed_methods, reason = "a run must not share its thread with another")]
pub fn run(seed: u64, keep: Keep) -> Result<Report, String> {
    let run = std::thread::Builder::new().name(format!("seed {seed}"));
    let run = run.spawn(move || on_this_thread(seed, keep)).map_err(|error| error.to_string())?;
    run.join().map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
    })
}

fn on_this_thread(seed: u64, keep: Keep) -> Report {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let runtime = Arc::new(runtime);
    let mut story = {
        let _inside = runtime.enter();
        Story::new(seed, keep)
    };
    while !story.is_over {
        one_incarnation(&runtime, &mut story);
    }
    Report { summary: story.world.trace.summary(), text: story.world.trace.text() }
}

/// A system lives and dies with its incarnation; runtime and virtual time go on.
fn one_incarnation(runtime: &Arc<Runtime>, story: &mut Story) {
    let shared = runtime.clone();
    let system = System::with_tokio_rt(move || shared);
    system.block_on(story.incarnation());
    drop(system);
    // Aborted tasks go when they are next looked at.
    runtime.block_on(async {
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    });
}

/// What outlives incarnations.
pub struct World {
    /// The API server.
    pub server: Server,
    /// The registries.
    pub registries: Registries,
    /// Component descriptors, and what was said of them.
    pub descriptors: Mutex<Descriptors>,
    /// What was done.
    pub trace: Trace,
    /// What did not hold, seen where nothing may panic.
    pub broken: Mutex<Vec<String>>,
    epoch: Timestamp,
    began: Instant,
    noisy: AtomicBool,
    /// The last moment, and polls at it.
    moment: Mutex<(Instant, u32)>,
    /// Requests so far, apart from watches, which are renewed for ever.
    requests: AtomicU64,
    kill: Mutex<Option<Arc<Kill>>>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl World {
    /// Names of the objects of a kind, as namespace and name.
    pub fn names(&self, kind: &str) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let names = self
            .server
            .objects(kind)
            .map(|object| (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"])));
        names.collect()
    }

    /// Whether so much happens at one moment that it will never end; time goes on only when nobody has work.
    fn is_spinning(&self) -> bool {
        let mut moment = self.moment.lock().unwrap();
        let now = Instant::now();
        moment.1 = if moment.0 == now { moment.1 + 1 } else { 0 };
        moment.0 = now;
        if moment.1 == SPINNING {
            self.broken.lock().unwrap().push("the actors spin: time stands still".to_owned());
        }
        moment.1 >= SPINNING
    }

    /// The time that every clock shows.
    fn now(&self) -> Timestamp {
        self.epoch.checked_add(self.began.elapsed()).unwrap()
    }

    fn kill(&self) -> Option<Arc<Kill>> {
        self.kill.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a seed decides once.
#[derive(Clone, Copy, Debug)]
struct Plan {
    behaviour: Deletes,
    kills: u32,
    hot: bool,
    renders: usize,
    reconciles: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deletes {
    Tags,
    DigestsAfter400,
    DigestsAfter405,
    DigestsAfter404,
    Later,
}

impl Plan {
    fn of(rng: &mut fastrand::Rng) -> Self {
        let behaviour = match rng.u32(0..10) {
            0..5 => Deletes::Tags,
            5 => Deletes::DigestsAfter400,
            6 => Deletes::DigestsAfter405,
            7 => Deletes::DigestsAfter404,
            _ => Deletes::Later,
        };
        Self {
            behaviour,
            kills: rng.u32(0..8),
            hot: rng.bool(),
            renders: [0, 1, 2, 20][rng.usize(0..4)],
            reconciles: [1, 3, 50][rng.usize(0..3)],
        }
    }

    fn behaviour(self) -> Behaviour {
        match self.behaviour {
            Deletes::Tags => Behaviour::default(),
            Deletes::DigestsAfter400 => Behaviour::distribution_2(),
            Deletes::DigestsAfter405 => Behaviour::refuses_tags_with_405(),
            Deletes::DigestsAfter404 => Behaviour::says_404_while_alive(),
            Deletes::Later => Behaviour::deletes_later(3),
        }
    }

    /// A registry that deletes later and loses an answer is healed only by the look for lost tags, which is not there
    /// yet: such runs have no faults at the registry, and no kills.
    fn spares_the_registry(self) -> bool {
        self.behaviour == Deletes::Later
    }
}

struct Story {
    world: Arc<World>,
    seed: u64,
    rng: fastrand::Rng,
    plan: Plan,
    steps_left: u32,
    kills_left: u32,
    incarnations: u32,
    password: u32,
    secrets_due: bool,
    /// When held requests of an earlier incarnation are let through.
    landings: Vec<Instant>,
    is_over: bool,
}

impl Story {
    fn new(seed: u64, keep: Keep) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let plan = Plan::of(&mut rng);
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let server = Server::builder()
            .clock(Arc::new(TokioClock::starting_at(epoch)))
            .seed(seed)
            .request_log_capacity(200)
            .watch_window(64)
            .build();
        for crd in solar_api::crds() {
            server.apply_crd(crd).unwrap();
        }
        let store = |host| (host, RegistryStore::new(plan.behaviour(), access(host, 0)));
        let descriptors = RegistryStore::new(Behaviour::default(), Access::Open);
        let registries = Registries {
            descriptors,
            stores: BTreeMap::from([store(SHARED_HOST), store(OWN_HOST)]),
            elsewhere: RegistryStore::new(Behaviour::default(), Access::Open),
        };
        let world = Arc::new(World {
            server,
            registries,
            descriptors: Mutex::new(Descriptors::new(epoch)),
            trace: Trace::new(keep),
            broken: Mutex::default(),
            epoch,
            began: Instant::now(),
            noisy: AtomicBool::new(true),
            moment: Mutex::new((Instant::now(), 0)),
            requests: AtomicU64::new(0),
            kill: Mutex::new(None),
        });
        hook_up(&world, plan, seed);
        let kills_left = if plan.spares_the_registry() { 0 } else { plan.kills };
        Self {
            world,
            seed,
            rng,
            plan,
            steps_left: STEPS,
            kills_left,
            incarnations: 0,
            password: 0,
            secrets_due: false,
            landings: Vec::new(),
            is_over: false,
        }
    }

    /// From the start of a controller to its end: killed, ended in order, or at the end of the run.
    async fn incarnation(&mut self) {
        if self.incarnations == 0 {
            for component in descriptors::COMPONENTS {
                self.set_descriptor(component, true).await;
            }
            self.restore();
        } else {
            self.downtime().await;
        }
        let kill = self.next_kill();
        *self.world.kill.lock().unwrap() = Some(kill.clone());
        self.world.trace.line(format_args!("start {} {:?}", kill.actor, self.plan));
        let running = self.start(&kill);
        while self.steps_left > 0 {
            self.steps_left -= 1;
            self.caps_hold(&running).await;
            self.step().await;
            let most = if self.plan.hot { 1 << self.rng.u32(3..12) } else { 4_000 };
            self.pause(&kill, most).await;
            self.look(&running);
            if kill.is_dead() {
                self.bury(&kill);
                return;
            }
            if self.kills_left > 0 && self.rng.u32(0..40) == 0 {
                // An end in order counts among the kills.
                self.kills_left -= 1;
                self.world.trace.line(format_args!("shut down"));
                running.shut_down().await;
                return;
            }
        }
        self.calm();
        // A kill whose point comes only now is as good as any other.
        let is_over = tokio::select! {
            biased;
            () = kill.ended() => false,
            () = self.end(&running) => true,
        };
        if is_over {
            self.is_over = true;
            running.shut_down().await;
        } else {
            self.bury(&kill);
        }
    }

    fn next_kill(&mut self) -> Arc<Kill> {
        self.incarnations += 1;
        let point = if self.kills_left == 0 {
            Point::Never
        } else {
            self.kills_left -= 1;
            let upto = |rng: &mut fastrand::Rng, bits: u32| {
                let bits = rng.u32(0..bits);
                1 + rng.u64(..(1 << bits))
            };
            match self.rng.u32(0..10) {
                0..3 => Point::Poll(upto(&mut self.rng, 13)),
                3..5 => Point::BeforeWrite(upto(&mut self.rng, 9)),
                5..7 => Point::AfterWrite(upto(&mut self.rng, 9)),
                7..8 => Point::BeforeRegistry(upto(&mut self.rng, 7)),
                _ => Point::AfterRegistry(upto(&mut self.rng, 7)),
            }
        };
        let remains = if self.rng.bool() { Remains::Late(self.rng.u32(1..6)) } else { Remains::Fenced };
        Kill::new(format!("controller-{}", self.incarnations), point, remains, self.rng.u64(..))
    }

    fn start(&self, kill: &Arc<Kill>) -> Running {
        let world = &self.world;
        let options = Options {
            seed: self.seed,
            max_concurrent_renders: self.plan.renders,
            max_concurrent_reconciles: self.plan.reconciles,
            // A look of its own at some hour is a request that nothing asked for.
            artifact: ArtifactOptions { check_interval: None, ..Options::default().artifact },
            availability: AvailabilityOptions { interval: descriptors::INTERVAL, grace: descriptors::GRACE },
            // Most actors rest between two things that happen, or just when the next happens.
            rest_after: Duration::from_millis(match self.seed % 4 {
                0 => 200,
                1 => 1_000,
                2 => 10_000,
                _ => 60_000,
            }),
            ..Options::default()
        };
        let hook = {
            let (world, kill) = (world.clone(), kill.clone());
            move |label: &str| {
                let verdict = if world.is_spinning() { Verdict::Freeze } else { kill.on_poll(label) };
                world.trace.line(format_args!("poll {label} {verdict:?}"));
                verdict
            }
        };
        let now = world.now();
        let ports = Ports {
            api: Api::new(bounded(world.server.service_for(&kill.actor), "default")),
            registry: Arc::new(Retrying::new(
                world.registries.handle(&kill.actor),
                rng::seeded(options.seed, "registry"),
            )),
            clock: Clock::simulated(now),
            cpu: Cpu::Inline,
            spawner: Spawner::hooked(Arc::new(hook)),
        };
        root::start(options, ports, Vec::new(), &kill.actor)
    }

    /// What is left of a killed incarnation has no effect, or lands later.
    fn bury(&mut self, kill: &Kill) {
        self.world.trace.line(format_args!("killed {}", kill.actor));
        if kill.leaves_late_requests() {
            let held = self.world.server.held() - self.landings.len();
            let landings = (0..held).map(|_| Instant::now() + LATEST.mul_f64(self.rng.f64()));
            let landings: Vec<_> = landings.collect();
            self.landings.extend(landings);
            self.landings.sort();
        } else {
            self.world.server.fence(&kill.actor);
            self.world.registries.all().for_each(|store| store.fence(&kill.actor));
            self.world.registries.descriptors.fence(&kill.actor);
        }
    }

    async fn downtime(&mut self) {
        for _ in 0..self.rng.u32(0..3) {
            self.step().await;
            let time = Duration::from_millis(self.rng.u64(0..5_000));
            self.wait(time).await;
        }
    }

    /// Lets time pass until the incarnation has ended or the time is over.
    async fn pause(&mut self, kill: &Kill, most: u64) {
        let time = Duration::from_millis(self.rng.u64(0..most));
        tokio::select! {
            biased;
            () = kill.ended() => {}
            () = self.wait(time) => {}
        }
    }

    /// Lets time pass; requests that were held back land meanwhile. What is shown for a while is not overlooked.
    async fn wait(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() + LOOK_EVERY < until {
            self.wait_until(Instant::now() + LOOK_EVERY).await;
            invariants::hold(&self.world);
        }
        self.wait_until(until).await;
    }

    async fn wait_until(&mut self, until: Instant) {
        while let Some(due) = self.landings.first().copied().filter(|due| *due <= until) {
            tokio::time::sleep_until(due).await;
            self.landings.remove(0);
            self.world.trace.line(format_args!("a late request lands"));
            self.world.server.release_held();
        }
        tokio::time::sleep_until(until).await;
    }

    async fn step(&mut self) {
        if std::mem::take(&mut self.secrets_due) {
            self.install_secrets();
        }
        let world = self.world.clone();
        let Some(deed) = fleet::deed(&mut self.rng, self.plan.hot, &|kind| world.names(kind)) else { return };
        self.world.trace.line(format_args!("user {deed:?}"));
        match deed {
            Deed::Change { kind, name, patch } => self.request("PATCH", kind, &name, &patch).await,
            Deed::Delete { kind, name } => self.request("DELETE", kind, &name, &json!({})).await,
            Deed::Restore => self.restore(),
            Deed::Descriptor { component, there } => self.set_descriptor(component, there).await,
            Deed::RotatePassword => {
                self.password += 1;
                for (host, store) in &self.world.registries.stores {
                    store.set_access(access(host, self.password));
                }
                self.secrets_due = true;
            }
            Deed::BreakWatches { expire: true } => drop(self.world.server.expire_watches(|_| true)),
            Deed::BreakWatches { expire: false } => drop(self.world.server.cut_watches(|_| true)),
        }
    }

    async fn set_descriptor(&self, component: &'static str, there: bool) {
        let now = self.world.now();
        {
            let mut truth = self.world.descriptors.lock().unwrap();
            if there { truth.comes(component, now) } else { truth.goes(component, now) }
        }
        descriptors::set(&self.world.registries.descriptors, component, there).await;
    }

    async fn request(&self, method: &str, kind: &str, (namespace, name): &(String, String), body: &Value) {
        let root = if kind == "Secret" { "/api/v1" } else { "/apis/solar.opendefense.cloud/v1alpha1" };
        let uri = format!("{root}/namespaces/{namespace}/{}/{name}", fleet::plural(kind));
        let request = http::Request::builder()
            .method(method)
            .uri(uri)
            .header(
                "content-type",
                if method == "PATCH" { "application/merge-patch+json" } else { "application/json" },
            )
            .body(serde_json::to_vec(body).unwrap())
            .unwrap();
        let answer = self.world.server.client("default").request::<Value>(request).await;
        match answer {
            Err(kube::Error::Api(status)) if !status.is_not_found() => {
                panic!("{method} {kind} {name}: {status:?}")
            }
            Err(error) => self.world.trace.line(format_args!("refused: {error}")),
            Ok(_) => {}
        }
    }

    fn install_secrets(&self) {
        for secret in fleet::objects(self.password).into_iter().filter(|o| o["kind"] == "Secret") {
            self.world.server.install(secret).unwrap();
        }
    }

    /// Makes everything that is missing, and the Secrets what they should be.
    fn restore(&mut self) {
        self.secrets_due = false;
        self.install_missing(|_| true);
        self.install_secrets();
    }

    fn install_missing(&self, wanted: impl Fn(&str) -> bool) {
        for object in fleet::objects(self.password) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let kind = text(&object["kind"]);
            let (namespace, name) =
                (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
            if wanted(&kind) && self.world.server.get_object(&kind, &namespace, &name).is_none() {
                self.world.server.install(object).unwrap();
            }
        }
    }

    /// Nothing goes wrong from now on.
    fn calm(&mut self) {
        self.world.noisy.store(false, Ordering::Relaxed);
        self.install_secrets();
        self.world.trace.line(format_args!("calm"));
    }

    /// No more passes and jobs run than may.
    async fn caps_hold(&self, running: &Running) {
        if let Some(checks) = running.checks_snapshot().await {
            assert!(checks.running.len() <= 4, "{checks:?}");
        }
        let within = |busy: usize, cap: usize| cap == 0 || busy <= cap;
        if let Some(gate) = running.gate_snapshot().await {
            assert!(within(gate.in_use, self.plan.reconciles), "{gate:?}");
        }
        if let Some(pool) = running.pool_snapshot().await {
            assert!(within(pool.running.len() + pool.lingering, self.plan.renders), "{pool:?}");
        }
    }

    /// No fault of the controller's own: a panic, or a pass that found no end, is caught and tried again, and must not
    /// hide behind that.
    async fn no_fault_inside(&self, running: &Running) {
        assert_eq!(running.shared.fault.get(), None);
        if let Some(checks) = running.checks_snapshot().await {
            assert_eq!(checks.restarts, 0, "the registry actor was started again");
        }
    }

    fn look(&self, running: &Running) {
        if let State::Failed(reason) = &*running.state.borrow() {
            panic!("the controller failed: {reason}");
        }
        invariants::hold(&self.world);
    }

    /// Waits until `level` holds.
    async fn until(&mut self, running: &Running, what: &str, level: impl Fn(&World) -> Result<(), String>) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.look(running);
            let Err(missing) = level(&self.world) else { return };
            assert!(
                Instant::now() < deadline,
                "never: {what}: {missing}\n{}",
                invariants::describe(&self.world)
            );
            self.wait(Duration::from_secs(1)).await;
        }
    }

    /// The noise has stopped: everything must come to its end.
    async fn end(&mut self, running: &Running) {
        self.wait(LATEST).await;
        self.until(running, "every Target is ready, or says why not", invariants::explained).await;
        self.no_fault_inside(running).await;
        self.delete_everything().await;
        self.until(running, "nothing is left", invariants::nothing_is_left).await;
        if self.seed.is_multiple_of(2) {
            self.restore();
            self.until(running, "everything is ready", invariants::all_ready).await;
        }
        // Own deeds are looked at again within half a minute, then there is nothing left to do.
        self.wait(Duration::from_secs(120)).await;
        let before = self.requests();
        self.wait(SILENCE).await;
        let after = self.requests();
        assert_eq!(after, before, "no request follows: {:?}", self.world.server.requests().last());
        self.look(running);
        let pending = invariants::pending(&self.world);
        assert!(pending.is_empty(), "nobody turned red after the grace period: {pending:?}");
        self.no_fault_inside(running).await;
        let idle_finalizers = invariants::idle_finalizers(&self.world);
        assert!(idle_finalizers.is_empty(), "finalizers without reason: {idle_finalizers:?}");
        self.world.trace.line(format_args!("{}", invariants::describe(&self.world)));
    }

    fn requests(&self) -> (u64, usize) {
        let registries = self.world.registries.all().map(|store| store.log().len()).sum();
        (self.world.requests.load(Ordering::Relaxed), registries)
    }

    async fn delete_everything(&mut self) {
        // What cleaning up takes is there until the end.
        self.restore_credentials();
        let mut doomed: Vec<_> = fleet::USER_KINDS
            .iter()
            .filter(|(kind, _)| *kind != "ReferenceGrant")
            .flat_map(|(kind, _)| self.world.names(kind).into_iter().map(move |name| (*kind, name)))
            .collect();
        self.rng.shuffle(&mut doomed);
        for (kind, name) in doomed {
            self.request("DELETE", kind, &name, &json!({})).await;
        }
    }

    /// A tag can only be deleted with the Registry, the grant and the Secret that it was pushed with.
    fn restore_credentials(&self) {
        self.install_missing(|kind| matches!(kind, "Registry" | "ReferenceGrant" | "Secret"));
    }
}

/// Each registry has a user and a password of its own: credentials that go astray are seen.
fn access(host: &str, password: u32) -> Access {
    Access::basic(&fleet::user(host), &fleet::password(host, password))
}

/// Faults, kills and the trace see every request.
fn hook_up(world: &Arc<World>, plan: Plan, seed: u64) {
    let weak = Arc::downgrade(world);
    let rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let chance = Mutex::new((FaultPlan::random(seed ^ 0xfa17, api_rates()), rng));
    world.server.set_faults(FaultPlan::new().decide(move |request| {
        let Some(world) = weak.upgrade() else { return ApiFault::None };
        world.requests.fetch_add(u64::from(request.verb != Verb::Watch), Ordering::Relaxed);
        let (plan, rng) = &mut *chance.lock().unwrap();
        let fault = api_fault(&world, plan, rng, request);
        world.trace.line(format_args!("api {} {} {} {fault:?}", request.actor, request.verb, request.path));
        fault
    }));
    {
        let weak = Arc::downgrade(world);
        let mut rng = fastrand::Rng::with_seed(seed ^ 0xde5c);
        world.registries.descriptors.set_faults(move |request| {
            let Some(world) = weak.upgrade() else { return OciFault::None };
            let fault = descriptor_fault(&world, &mut rng, request);
            world.trace.line(format_args!(
                "descriptors {} {} {} {fault:?}",
                request.actor, request.operation, request.repository
            ));
            fault
        });
    }
    for (number, store) in world.registries.all().enumerate() {
        let weak = Arc::downgrade(world);
        let host = world.registries.stores.keys().nth(number).copied().unwrap_or("elsewhere");
        let mut rng = fastrand::Rng::with_seed(seed ^ (0xac1 + number as u64));
        store.set_faults(move |request| {
            let Some(world) = weak.upgrade() else { return OciFault::None };
            if request.operation == RegistryOperation::DeleteTag {
                invariants::may_delete(&world, host, &request.repository, &request.reference);
            }
            let fault = registry_fault(&world, plan, &mut rng, request);
            world.trace.line(format_args!(
                "registry {} {} {} {} {fault:?}",
                request.actor, request.operation, request.repository, request.reference
            ));
            fault
        });
    }
}

/// What goes wrong at the API, in 1,000 requests of those that it can concern.
fn api_rates() -> FaultRates {
    FaultRates {
        actor: None,
        conflict: 20,
        gone: 20,
        too_many_requests: 20,
        internal: 20,
        unavailable: 10,
        timed_out: 10,
        timed_out_after: 15,
        lose_answer: 30,
        refuse: 10,
        delay: 20,
        stale_list: 100,
        watch_cut: 30,
        watch_gone: 20,
        watch_delay: 40,
        watch_repeat: 50,
        watch_without_bookmarks: 50,
        longest_delay: Duration::from_secs(8),
    }
}

fn api_fault(
    world: &World,
    plan: &mut FaultPlan,
    rng: &mut fastrand::Rng,
    request: &RequestInfo,
) -> ApiFault {
    let Some(kill) = world.kill().filter(|kill| *kill.actor == *request.actor) else { return ApiFault::None };
    if let Some(fault) = kill.on_api(request) {
        return fault;
    }
    if !world.noisy.load(Ordering::Relaxed) {
        return ApiFault::None;
    }
    if request.verb != Verb::Watch && rng.u32(0..100) == 0 {
        return ApiFault::Hang;
    }
    plan.strike(request)
}

fn descriptor_fault(world: &World, rng: &mut fastrand::Rng, request: &OciRequestInfo) -> OciFault {
    let Some(kill) = world.kill().filter(|kill| kill.actor == request.actor) else { return OciFault::None };
    if let Some(fault) = kill.on_registry(request.operation) {
        return fault;
    }
    if !world.noisy.load(Ordering::Relaxed) {
        return OciFault::None;
    }
    match rng.u32(0..100) {
        0..3 => OciFault::Cut,
        3..6 => OciFault::status(503, ""),
        6..8 => OciFault::Status { status: 429, code: "TOOMANYREQUESTS", retry_after: Some(2) },
        8..10 => OciFault::status(403, "DENIED"),
        10..12 => OciFault::Hang,
        12..30 => OciFault::Latency(Duration::from_millis(rng.u64(1..9_000))),
        _ => OciFault::None,
    }
}

fn registry_fault(world: &World, plan: Plan, rng: &mut fastrand::Rng, request: &OciRequestInfo) -> OciFault {
    let Some(kill) = world.kill().filter(|kill| kill.actor == request.actor) else { return OciFault::None };
    if let Some(fault) = kill.on_registry(request.operation) {
        return fault;
    }
    if !world.noisy.load(Ordering::Relaxed) || plan.spares_the_registry() {
        return OciFault::None;
    }
    match rng.u32(0..100) {
        0..2 => OciFault::Cut,
        2..5 => OciFault::CutAfterEffect,
        5..7 => OciFault::status(503, ""),
        7..8 => OciFault::Status { status: 429, code: "TOOMANYREQUESTS", retry_after: Some(2) },
        8..9 => OciFault::HangAfterEffect,
        9..14 => OciFault::CutAndLandLater(LATEST.mul_f64(rng.f64())),
        14..44 => OciFault::Latency(Duration::from_millis(rng.u64(1..3_000))),
        _ => OciFault::None,
    }
}
