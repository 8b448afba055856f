//! What a fleet costs: Targets with three releases that they share, from nothing to every Target ready, over the
//! in-memory API server and registry without sockets. Each size is measured in a process of its own. Prints, never asserts.
#![allow(
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "a measurement on the machine's clock"
)]

mod scene;

use std::process::Command;
use std::time::{Duration, Instant};

use mimalloc::MiMalloc;
use serde_json::Value;
use solar_controller::actors::root;
use solar_controller::runtime;

// As the program has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const SIZES: [usize; 4] = [100, 300, 1_000, 3_000];

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
        let server = scene::server(targets);
        let ports = scene::ports(&server);
        let (began, cpu_before) = (Instant::now(), cpu());
        let running = root::start(scene::options(), ports, arbiters, "bench");
        let shared = running.shared.clone();
        // One after the other, so that looking costs nothing beside what is measured.
        for number in 0..targets {
            while !scene::is_known_as_ready(&shared.cache.read(), number) {
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
