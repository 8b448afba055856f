//! What a fleet costs: Targets with three releases that they share, from nothing to every Target ready, over the
//! in-memory API server and registry without sockets. Each size is measured in a process of its own. Prints, never asserts.
#![allow(
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "a measurement on the machine's clock"
)]

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube_embedded::Server;
use mimalloc::MiMalloc;
use serde_json::{Value, json};
use solar_controller::actors::pass::Spawner;
use solar_controller::actors::root;
use solar_controller::actors::system::{Options, Ports};
use solar_controller::adapters::clock::Clock;
use solar_controller::adapters::cpu::Cpu;
use solar_controller::adapters::kubernetes::{Api, bounded};
use solar_controller::dev::examples;
use solar_controller::dev::registry::{Access, Behaviour, RegistryStore};
use solar_controller::runtime;
use solar_core::condition;
use solar_core::object::ObjectName;
use solar_core::world::World;

// As the program has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const SIZES: [usize; 4] = [100, 300, 1_000, 3_000];
const RELEASES: [(&str, &str); 3] =
    [("one", "podinfo-6.7.0"), ("two", "podinfo-6.7.1"), ("three", "podinfo-6.8.0")];

fn main() {
    if let Some(targets) = std::env::args().nth(1).and_then(|targets| targets.parse().ok()) {
        run(targets);
        return;
    }
    println!("Targets with three shared releases, from nothing to all ready");
    println!(
        "{:>8}{:>10}{:>14}{:>14}{:>16}{:>18}",
        "targets", "s", "ms a target", "CPU ms each", "MiB in all", "requests each"
    );
    for targets in SIZES {
        let child = Command::new(std::env::current_exe().expect("this program has a path"))
            .arg(targets.to_string())
            .status();
        assert!(child.expect("it can be started once more").success());
    }
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "solar.opendefense.cloud/v1alpha1",
        "kind": kind,
        "metadata": { "name": name, "namespace": "fleet" },
        "spec": spec,
    })
}

fn install(server: &Server, targets: usize) {
    for (name, version) in RELEASES {
        let spec =
            json!({ "componentVersionRef": { "name": version }, "uniqueName": name, "values": { "a": 1 } });
        server.install(object("Release", name, spec)).expect("the API server takes it");
    }
    for number in 0..targets {
        let target = target_name(number);
        for (release, _) in RELEASES {
            let spec = json!({ "targetRef": { "name": target }, "releaseRef": { "name": release } });
            let binding = object("ReleaseBinding", &format!("{target}-{release}"), spec);
            server.install(binding).expect("the API server takes it");
        }
        let spec = json!({ "renderRegistryRef": { "name": "charts", "namespace": "platform" } });
        server.install(object("Target", &target, spec)).expect("the API server takes it");
    }
}

fn target_name(number: usize) -> String {
    format!("target-{number}")
}

fn is_known_as_ready(world: &World, number: usize) -> bool {
    let target = world.targets.get(&ObjectName::new("fleet", target_name(number)));
    target.is_some_and(|target| condition::is_true(&target.status.conditions, "Ready"))
}

fn is_ready(target: &Value) -> bool {
    let conditions = target["status"]["conditions"].as_array();
    conditions
        .is_some_and(|conditions| conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
}

/// CPU time of this process so far.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks =
        |field: usize| fields.get(field).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or_default();
    // utime and stime, in hundredths of a second.
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4096.0
}

fn run(targets: usize) {
    let done = runtime::run(0, |arbiters| async move {
        let address = "127.0.0.1:5000";
        let server = Server::builder().request_log_capacity(0).watch_window(1 << 17).build();
        for crd in solar_api::crds() {
            server.apply_crd(crd).expect("the definitions are accepted");
        }
        for example in examples(address).expect("the examples are readable") {
            let kind = example.resource.kind.as_str();
            if !matches!(kind, "Target" | "ReleaseBinding" | "Release") {
                let object = serde_json::to_value(&example.object).expect("objects are JSON");
                server.install(object).expect("the API server takes it");
            }
        }
        let store =
            RegistryStore::with_limit(Behaviour::default(), Access::basic("solar", "solar-dev"), 1 << 30);
        install(&server, targets);
        let ports = Ports {
            api: Api::new(bounded(server.service(), "default")),
            registry: Arc::new(store.handle("bench")),
            clock: Clock::machine(),
            cpu: Cpu::Threads,
            spawner: Spawner::default(),
        };
        let (began, cpu_before) = (Instant::now(), cpu());
        let options = Options { takeover_wait: Duration::ZERO, ..Options::default() };
        let running = root::start(options, ports, arbiters, "bench");
        let shared = running.shared.clone();
        // One after the other, so that looking costs nothing beside what is measured.
        for number in 0..targets {
            while !is_known_as_ready(&shared.cache.read(), number) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let (took, spent) = (began.elapsed(), cpu().saturating_sub(cpu_before));
        assert!(server.objects("Target").all(|target| is_ready(&target)));
        let each = targets as f64;
        println!(
            "{targets:>8}{:>10.2}{:>14.2}{:>14.2}{:>16.1}{:>18.1}",
            took.as_secs_f64(),
            took.as_secs_f64() * 1e3 / each,
            spent.as_secs_f64() * 1e3 / each,
            resident() / f64::from(1 << 20),
            server.request_count() as f64 / each,
        );
        running.shut_down().await;
    });
    done.expect("the runtime starts");
}
