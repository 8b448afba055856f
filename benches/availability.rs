//! What looking for descriptors costs and how evenly it goes, with more versions than fit into an interval: in virtual
//! time, and once in real time. Prints, never asserts.
#![allow(
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "a measurement on the machine's clock"
)]

#[path = "../tests/availability/scene.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod scene;
#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant as RealInstant};

use kube_embedded::Server;
use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use serde_json::json;
use solar_controller::actors::pass::{Spawner, Verdict};
use solar_controller::dev::registry::{Access, Behaviour, Fault, RegistryOperation, RegistryStore};
use solar_core::availability::{Lane, Turns};
use solar_core::object::ObjectName;
use support::Simulation;
use tokio::time::Instant;

const VERSIONS: usize = 30_000;
const HOSTS: usize = 10;

type Arrivals = Arc<Mutex<Vec<(Duration, String)>>>;

fn main() {
    let part = std::env::args().nth(1).unwrap_or_default();
    match part.as_str() {
        "together" => together(),
        "slow" => slow(),
        "actor" => actor(),
        "real" => real(),
        // Each in a process of its own, so that memory is its own.
        _ => ["together", "slow", "actor", "real"].into_iter().for_each(child),
    }
}

fn child(part: &str) {
    let output = Command::new(std::env::current_exe().expect("this program has a path")).arg(part).output();
    let output = output.expect("it can be started once more");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn say(what: &str, figure: impl std::fmt::Display) {
    println!("{what:<72}{figure}");
}

/// Resident memory in bytes.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4096.0
}

/// CPU time of this process, in seconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = text.rsplit(')').next().unwrap_or_default();
    let ticks: Vec<f64> = rest.split_whitespace().skip(11).take(2).filter_map(|t| t.parse().ok()).collect();
    ticks.iter().sum::<f64>() / 100.0
}

fn host(number: usize) -> String {
    format!("h{number}.example")
}

fn world(versions: usize, hosts: usize) -> (Server, RegistryStore) {
    let (server, _) = support::world();
    scene::install_component(&server);
    let digest = scene::descriptor("content").digest().to_string();
    for number in 0..versions {
        let host = host(number % hosts);
        let mut version = scene::version(&format!("v-{number:05}"), &host, &digest);
        version["spec"]["namespace"] = json!(format!("h{}", number % hosts));
        version["spec"]["componentName"] = json!(format!("c{number}"));
        scene::install(&server, version);
    }
    (server, RegistryStore::new(Behaviour::default(), Access::Open))
}

fn note(store: &RegistryStore, fault: Fault) -> Arrivals {
    let arrivals = Arrivals::default();
    let (kept, began) = (arrivals.clone(), Instant::now());
    store.set_faults(move |request| {
        if request.operation != RegistryOperation::HeadManifest {
            return Fault::None;
        }
        kept.lock().unwrap().push((began.elapsed(), request.repository.clone()));
        fault.clone()
    });
    arrivals
}

async fn arrived(arrivals: &Arrivals, wanted: usize) {
    while arrivals.lock().unwrap().len() < wanted {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The fewest and the most arrivals in any ten seconds, per second.
fn rates(times: &[f64]) -> (f64, f64) {
    let last = times.last().copied().unwrap_or_default();
    let mut rates = (f64::MAX, 0.0_f64);
    for (number, start) in times.iter().enumerate().filter(|(_, start)| **start + 10.0 <= last) {
        // A window begins with the first of those that arrive together.
        if number > 0 && times[number - 1] >= *start {
            continue;
        }
        // Half a millisecond off: arrivals on the edge belong to one window only.
        let end = times.partition_point(|time| *time < *start + 9.9995);
        let rate = (end - number) as f64 / 10.0;
        rates = (rates.0.min(rate), rates.1.max(rate));
    }
    rates
}

/// Keeps how late each check began, as the registry actor says, in order.
#[derive(Clone, Default)]
struct Lags(Arc<Mutex<Vec<f64>>>);

impl HistogramFn for Lags {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

impl Recorder for Lags {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match key.name() {
            "solar_availability_check_lag_seconds" => Histogram::from_arc(Arc::new(self.clone())),
            _ => Histogram::noop(),
        }
    }
}

/// The worst of `lags` by their mean.
fn worst_by_mean(lags: &[f64]) -> f64 {
    let mean = lags.iter().sum::<f64>() / lags.len() as f64;
    lags.iter().copied().fold(0.0, f64::max) / mean
}

/// All versions become due at one moment, ten times as many as fit into an interval.
fn together() {
    let lags = Lags::default();
    metrics::set_global_recorder(lags.clone()).expect("it is the first");
    support::on_paused_time(|| async move {
        println!("{VERSIONS} versions on {HOSTS} hosts, due together, interval 5m, in virtual time");
        let (server, store) = world(VERSIONS, HOSTS);
        let sim = Simulation::over(server, store, support::options());
        sim.until("all say that there is no Registry", |sim| {
            let last = format!("v-{:05}", VERSIONS - 1);
            scene::reason(&sim.server, &last) == "RegistryNotConfigured"
        })
        .await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let arrivals = note(&sim.store, Fault::None);
        let idle = resident();
        for number in 0..HOSTS {
            scene::install(&sim.server, scene::registry(&format!("r-{number}"), &host(number)));
        }
        arrived(&arrivals, 20).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let waiting = sim.running.checks_snapshot().await.expect("it answers").queued;
        say("versions that wait after two seconds", waiting);
        say(
            "memory for each version that waits, everything counted, bytes",
            format!("{:.0}", (resident() - idle) / waiting as f64),
        );
        let (before, began) = (cpu(), RealInstant::now());
        let seen = arrivals.lock().unwrap().len();
        arrived(&arrivals, 2 * VERSIONS).await;
        let checks = (arrivals.lock().unwrap().len() - seen) as f64;
        say(
            "CPU for each check, the whole controller and the embedded registry, us",
            format!("{:.0}", (cpu() - before) * 1e6 / checks),
        );
        say("real time for two rounds, s", format!("{:.1}", began.elapsed().as_secs_f64()));
        let arrivals = arrivals.lock().unwrap().clone();
        evenness(&arrivals);
        let lags = lags.0.lock().unwrap().clone();
        // The very first begin at once, so that there is nothing to divide by.
        let rounds = lags[..VERSIONS].chunks(HOSTS).skip_while(|round| round[0] < 5.0);
        say(
            "worst lag by the mean of its round over the hosts, at most",
            format!("{:.3}", rounds.map(worst_by_mean).fold(0.0, f64::max)),
        );
        say(
            "worst lag by the mean, second round over all versions",
            format!("{:.3}", worst_by_mean(&lags[VERSIONS..])),
        );
        say("worst lag of all, s", format!("{:.0}", lags.iter().copied().fold(0.0, f64::max)));
        sim.shut_down().await;
    });
}

fn evenness(arrivals: &[(Duration, String)]) {
    let first = arrivals[0].0;
    let times: Vec<f64> = arrivals.iter().map(|(at, _)| at.saturating_sub(first).as_secs_f64()).collect();
    let burst = times.iter().filter(|time| **time < 0.05).count();
    say("checks at once in the beginning", burst);
    let (least, most) = rates(&times[burst..]);
    say("checks a second in any ten seconds after that, least and most", format!("{least:.2} {most:.2}"));
    let mut of: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for ((_, repository), time) in arrivals.iter().zip(&times) {
        of.entry(repository).or_default().push(*time);
    }
    say("versions that were checked", of.len());
    let again: Vec<f64> = of.values().filter_map(|times| Some(times.get(1)? - times.first()?)).collect();
    let mean = again.iter().sum::<f64>() / again.len() as f64;
    let worst = again.iter().copied().fold(0.0, f64::max);
    say("versions that were checked a second time", again.len());
    say("time from one check of a version to the next, mean and worst, s", format!("{mean:.0} {worst:.0}"));
    say("worst by mean", format!("{:.3}", worst / mean));
}

/// A registry that answers in two seconds.
fn slow() {
    support::on_paused_time(|| async {
        const FEW: usize = 1_200;
        println!("\n{FEW} versions on one host that answers in 2 s, in virtual time");
        let (server, store) = world(FEW, 1);
        let mut options = support::options();
        options.availability.interval = Duration::from_secs(24 * 3_600);
        scene::install(&server, scene::registry("r", &host(0)));
        let arrivals = note(&store, Fault::Latency(Duration::from_secs(2)));
        let sim = Simulation::over(server, store, options);
        arrived(&arrivals, FEW).await;
        let arrivals = arrivals.lock().unwrap().clone();
        let first = arrivals[0].0;
        let times: Vec<f64> = arrivals.iter().map(|(at, _)| at.saturating_sub(first).as_secs_f64()).collect();
        let most = times
            .iter()
            .map(|start| times.iter().filter(|time| **time >= *start && **time < *start + 1.999).count());
        say("checks at once, at most", most.max().unwrap_or_default());
        let (least, most) = rates(&times);
        say("checks a second in any ten seconds, least and most", format!("{least:.2} {most:.2}"));
        let distinct: std::collections::BTreeSet<_> = arrivals.iter().map(|(_, name)| name).collect();
        say("versions that were checked, each once", distinct.len());
        sim.shut_down().await;
    });
}

/// What the registry actor itself takes: the memory of its queue, and the time in its handlers while many wait.
fn actor() {
    const CHECKS: usize = 3_000;
    println!("\nthe registry actor itself, {VERSIONS} versions on {HOSTS} hosts, in virtual time");
    let names: Vec<ObjectName> =
        (0..VERSIONS).map(|number| ObjectName::new("team", format!("v-{number:05}"))).collect();
    let before = resident();
    let mut turns = Turns::new(4, VERSIONS);
    for (number, name) in names.iter().enumerate() {
        turns.stand(name, &host(number % HOSTS), Duration::ZERO, Lane::Due);
    }
    say(
        "memory of the queue for each that waits, bytes",
        format!("{:.0}", (resident() - before) / VERSIONS as f64),
    );
    drop(turns);
    // Everything is on one thread, so that what is between the begin of a handler and the next thing that is hooked is the
    // handler, and a little more.
    let times = Times::default();
    let hook = {
        let times = times.clone();
        move |label: &str| {
            times.lock().unwrap().next(label);
            Verdict::Go
        }
    };
    support::on_paused_time(move || async move {
        let (server, store) = world(VERSIONS, HOSTS);
        for number in 0..HOSTS {
            scene::install(&server, scene::registry(&format!("r-{number}"), &host(number)));
        }
        let arrivals = note(&store, Fault::None);
        let spawner = Spawner::hooked(Arc::new(hook));
        let running = support::start_hooked(&server, &store, support::options(), "controller", spawner);
        let client = server.client("default");
        let sim = Simulation { server, store, client, running };
        arrived(&arrivals, 100).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        times.lock().unwrap().of.clear();
        let seen = arrivals.lock().unwrap().len();
        arrived(&arrivals, seen + CHECKS).await;
        let checks = (arrivals.lock().unwrap().len() - seen) as f64;
        let mut all = 0.0;
        for (label, times) in &mut times.lock().unwrap().of {
            times.sort_unstable();
            let (each, median) =
                (times.len() as f64 / checks, times[times.len() / 2].as_nanos() as f64 / 1e3);
            say(&format!("{label}: times for each check, and median, us"), format!("{each:.2} {median:.1}"));
            all += each * median;
        }
        say("CPU for each check, us", format!("{all:.1}"));
        sim.shut_down().await;
    });
}

type Times = Arc<Mutex<Handlers>>;

/// How long the handlers of the registry actor took.
#[derive(Default)]
struct Handlers {
    runs: Option<(String, RealInstant)>,
    of: BTreeMap<String, Vec<Duration>>,
}

impl Handlers {
    fn next(&mut self, label: &str) {
        let now = RealInstant::now();
        if let Some((label, began)) = self.runs.take() {
            self.of.entry(label).or_default().push(now - began);
        }
        if label.starts_with("the registry actor handles") {
            self.runs = Some((label.to_owned(), RealInstant::now()));
        }
    }
}

/// The rate by the machine's clock.
fn real() {
    const SOME: usize = 220;
    println!("\n{SOME} versions due together, in real time");
    solar_controller::telemetry::init("off");
    let system = actix_rt::System::with_tokio_rt(|| {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
    });
    system.block_on(async {
        let (server, store) = world(SOME, HOSTS);
        for number in 0..HOSTS {
            scene::install(&server, scene::registry(&format!("r-{number}"), &host(number)));
        }
        let arrivals = note(&store, Fault::None);
        let mut options = support::options();
        options.availability.interval = Duration::from_secs(24 * 3_600);
        let before = cpu();
        let sim = Simulation::over(server, store, options);
        arrived(&arrivals, SOME).await;
        let arrivals = arrivals.lock().unwrap().clone();
        let first = arrivals[0].0;
        let times: Vec<f64> = arrivals.iter().map(|(at, _)| at.saturating_sub(first).as_secs_f64()).collect();
        say("time for all but the burst of 20, s", format!("{:.2}", times[SOME - 1]));
        let (least, most) = rates(&times[20..]);
        say("checks a second in any ten seconds after that, least and most", format!("{least:.2} {most:.2}"));
        say("CPU of the process meanwhile, s", format!("{:.2}", cpu() - before));
        sim.shut_down().await;
    });
}
