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
use serde_json::json;
use solar_controller::adapters::bucket::TokenBucket;
use solar_controller::adapters::clock::Clock;
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

/// All versions become due at one moment, ten times as many as fit into an interval.
fn together() {
    support::on_paused_time(|| async {
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
    // One round over the hosts: the next of each.
    let mut hosts: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for ((_, repository), time) in arrivals.iter().zip(&times).take(VERSIONS) {
        hosts.entry(repository.split('/').next().unwrap_or_default()).or_default().push(*time);
    }
    let rounds = (10..VERSIONS / HOSTS).filter_map(|round| {
        let lags: Vec<f64> = hosts.values().filter_map(|times| times.get(round).copied()).collect();
        let mean = lags.iter().sum::<f64>() / lags.len() as f64;
        lags.iter().copied().reduce(f64::max).map(|worst| worst / mean)
    });
    say(
        "worst lag by the mean lag of its round over the hosts, at most",
        format!("{:.3}", rounds.fold(0.0, f64::max)),
    );
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

/// The actor's own part: queue and bucket.
fn actor() {
    const MANY: usize = 1_000_000;
    println!("\nthe registry actor itself");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _inside = runtime.enter();
    let names: Vec<ObjectName> =
        (0..MANY).map(|number| ObjectName::new("team", format!("version-{number:07}"))).collect();
    let mut turns = Turns::new(4, MANY);
    let mut bucket = TokenBucket::new(Clock::machine());
    let before = resident();
    let began = RealInstant::now();
    for (number, name) in names.iter().enumerate() {
        turns.stand(name, &host(number % HOSTS), Duration::ZERO, Lane::Due);
    }
    let asked = began.elapsed();
    say(
        "memory of the queue for each that waits, bytes",
        format!("{:.0}", (resident() - before) / MANY as f64),
    );
    let began = RealInstant::now();
    let mut begun = 0;
    while let Some(host) = turns.first(Duration::ZERO, |_, _| true) {
        // The bucket is asked each time, whether it gives or not.
        let _ = bucket.take();
        begun += usize::from(turns.begin(&host).is_some());
        turns.ended(&host, Duration::ZERO);
    }
    say(
        "CPU for each check: to queue it, and to begin and end it, ns",
        format!(
            "{:.0} {:.0}",
            asked.as_secs_f64() * 1e9 / MANY as f64,
            began.elapsed().as_secs_f64() * 1e9 / begun as f64
        ),
    );
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
