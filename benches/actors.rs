//! What an idle object costs, and how long it takes from a wake to its pass: object actors beside bare tokio tasks with
//! channels that do the same. Each is measured in a process of its own. Prints, never asserts.
#![allow(
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "a measurement on the machine's clock"
)]

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use kube_embedded::Server;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use solar_api::Component;
use solar_controller::actors::pass::Spawner;
use solar_controller::actors::root::{self, State};
use solar_controller::actors::system::{Options, Ports, Shared};
use solar_controller::adapters::clock::Clock;
use solar_controller::adapters::cpu::Cpu;
use solar_controller::adapters::kubernetes::{Api, Cache, bounded};
use solar_controller::dev::registry::RegistryStore;
use solar_controller::messages::object::Cause;
use solar_controller::runtime;
use solar_core::object::ObjectName;
use solar_core::record::ComponentRecord;
use solar_core::routes::{ActorKey, COMPONENT_PROTECTION};
use tokio::sync::{Semaphore, mpsc};

const OBJECTS: usize = 100_000;
const SINGLE_WAKES: usize = 2_000;

/// Passes that have ended, and when the last one did, in nanoseconds since the process's first look at the clock.
static PASSES: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicU64 = AtomicU64::new(0);

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("actors") => print(&actors()),
        Some("bare") => print(&bare()),
        _ => {
            println!("{OBJECTS} idle objects: object actors, and bare tokio tasks with channels");
            let (actors, bare) = (child("actors"), child("bare"));
            for ((what, actors), (_, bare)) in actors.iter().zip(&bare) {
                println!("{what:<50}{actors:>10.2}{bare:>10.2}{:>8.2}x", actors / bare);
            }
        }
    }
}

type Figures = Vec<(String, f64)>;

fn child(which: &str) -> Figures {
    let output = Command::new(std::env::current_exe().expect("this program has a path")).arg(which).output();
    let output = output.expect("it can be started once more");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it prints text");
    let figures = text.lines().filter_map(|line| {
        let (what, figure) = line.rsplit_once(": ")?;
        Some((what.to_owned(), figure.parse().ok()?))
    });
    figures.collect()
}

fn print(figures: &Figures) {
    for (what, figure) in figures {
        println!("{what}: {figure}");
    }
}

fn nanos() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Hears of every pass that has ended: the one metric that is counted, as it would be in production.
struct PassCounter;

impl metrics::Recorder for PassCounter {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == "solar_reconciles_total" {
            Counter::from_arc(Arc::new(Self))
        } else {
            Counter::noop()
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

impl metrics::CounterFn for PassCounter {
    fn increment(&self, _: u64) {
        pass_ended();
    }

    fn absolute(&self, _: u64) {}
}

fn pass_ended() {
    LAST.store(nanos(), Ordering::Release);
    PASSES.fetch_add(1, Ordering::AcqRel);
}

/// Resident memory in bytes.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4096.0
}

fn name(number: usize) -> ObjectName {
    ObjectName::new("fleet", format!("component-{number}"))
}

fn fill(cache: &Cache) {
    for number in 0..OBJECTS {
        let mut component = Component::new(&name(number).name, solar_api::ComponentSpec::default());
        component.metadata.namespace = Some("fleet".to_owned());
        component.metadata.uid = Some(format!("uid-{number}"));
        cache.apply(ComponentRecord::from(&component), false);
    }
}

async fn passes(wanted: u64) {
    while PASSES.load(Ordering::Acquire) < wanted {
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
}

/// Wakes everybody, everybody again, and one after another; `wake` wakes the object of that number.
async fn measure(wake: impl Fn(usize), before: f64) -> Figures {
    for number in 0..OBJECTS {
        wake(number);
    }
    let objects = OBJECTS as u64;
    passes(objects).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let bytes = (resident() - before) / OBJECTS as f64;

    let began = Instant::now();
    for number in 0..OBJECTS {
        wake(number);
    }
    passes(2 * objects).await;
    let all = began.elapsed();

    let mut times: Vec<u64> = Vec::with_capacity(SINGLE_WAKES);
    for number in 0..SINGLE_WAKES {
        let before = PASSES.load(Ordering::Acquire);
        let began = nanos();
        wake(number * 37 % OBJECTS);
        while PASSES.load(Ordering::Acquire) == before {
            tokio::task::yield_now().await;
        }
        times.push(LAST.load(Ordering::Acquire).saturating_sub(began));
    }
    times.sort_unstable();
    vec![
        ("bytes for each idle object".to_owned(), bytes),
        ("all woken at once, us each".to_owned(), all.as_secs_f64() * 1e6 / OBJECTS as f64),
        ("one woken, us until its pass has ended, median".to_owned(), times[SINGLE_WAKES / 2] as f64 / 1e3),
        (
            "one woken, us until its pass has ended, 99 of 100".to_owned(),
            times[SINGLE_WAKES * 99 / 100] as f64 / 1e3,
        ),
    ]
}

/// The object actors of the controller: those that protect Components, whose passes look at the cache and end.
fn actors() -> Figures {
    let run = runtime::run(0, |arbiters| async move {
        let server = Server::builder().build();
        for crd in solar_api::crds() {
            server.apply_crd(crd).expect("the definitions are accepted");
        }
        metrics::set_global_recorder(PassCounter).expect("nothing else records metrics in this process");
        let options = Options { controllers: BTreeSet::from([COMPONENT_PROTECTION]), ..Options::default() };
        let ports = Ports {
            api: Api::new(bounded(server.service(), "default")),
            registry: Arc::new(RegistryStore::default().handle("bench")),
            clock: Clock::machine(),
            cpu: Cpu::Threads,
            spawner: Spawner::default(),
        };
        let running = root::start(options, ports, arbiters, "bench");
        let mut state = running.state.clone();
        let ready = state.wait_for(|state| *state == State::Running).await;
        ready.expect("the controller starts");
        fill(&running.shared.cache);
        let before = resident();
        let shared: Arc<Shared> = running.shared.clone();
        let keys: Vec<ActorKey> =
            (0..OBJECTS).map(|number| ActorKey::new(COMPONENT_PROTECTION, name(number))).collect();
        let before = before.max(resident());
        let figures = measure(move |number| shared.wake(&keys[number], Cause::Change), before).await;
        running.shut_down().await;
        figures
    });
    run.expect("the runtime starts")
}

/// A task and a channel for each object, a cap on passes, and each pass a task of its own, as the actors have it.
fn bare() -> Figures {
    let run = runtime::run(0, |_| async move {
        let cache = Arc::new(Cache::default());
        fill(&cache);
        let cap = Arc::new(Semaphore::new(50));
        let keys: Vec<ActorKey> =
            (0..OBJECTS).map(|number| ActorKey::new(COMPONENT_PROTECTION, name(number))).collect();
        let before = resident();
        let addresses: Arc<DashMap<ActorKey, mpsc::Sender<Cause>>> = Arc::default();
        let wake = move |number: usize| {
            let key = &keys[number];
            let address = addresses.entry(key.clone()).or_insert_with(|| start(key.clone(), &cache, &cap));
            // A full channel is one that will be read.
            let _ = address.try_send(Cause::Change);
        };
        measure(wake, before).await
    });
    run.expect("the runtime starts")
}

fn start(key: ActorKey, cache: &Arc<Cache>, cap: &Arc<Semaphore>) -> mpsc::Sender<Cause> {
    let (sender, mut mail) = mpsc::channel(1);
    let (cache, cap) = (cache.clone(), cap.clone());
    tokio::spawn(async move {
        while mail.recv().await.is_some() {
            let Ok(permit) = cap.clone().acquire_owned().await else { return };
            let (cache, key) = (cache.clone(), key.clone());
            let pass = tokio::spawn(async move { cache.read().components.get(&key.object).is_some() });
            if pass.await.is_err() {
                return;
            }
            pass_ended();
            drop(permit);
        }
    });
    sender
}
