//! The whole controller on one thread in virtual time, from a seed: users edit and delete, the API server and the
//! registries fail, the controller is killed at any point and started again. What must hold is looked at after every
//! step; when the noise stops, everything converges.
//!
//! A seed that fails is replayed with `make sim SEED=n`.

mod descriptors;
mod fleet;
mod invariants;
mod kill;
mod registries;
mod story;
mod trace;

use std::num::NonZeroUsize;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use trace::Keep;

/// Seeds that every run of the tests goes through; one that found a fault stays here.
const SEEDS: &[u64] = &[2, 4, 5, 7, 11, 15, 18, 22, 36];
/// The seed whose trace is compared.
const REPLAYED: u64 = 5;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn known_seeds_converge() {
    let failed = all(SEEDS.iter().copied());
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// Runs seeds on all cores; answers what failed.
#[allow(clippy::disallowed_methods, reason = "each run has its own thread and its own virtual time")]
fn all(seeds: impl Iterator<Item = u64> + Send) -> Vec<String> {
    let seeds = Mutex::new(seeds);
    let failed = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some(seed) = seeds.lock().unwrap().next() else { return };
                    if let Err(why) = story::run(seed, Keep::Nothing) {
                        println!("seed {seed} failed: {}", why.lines().next().unwrap_or_default());
                        failed.lock().unwrap().push(format!(
                            "seed {seed} failed; replay it with `make sim SEED={seed}`\n{why}"
                        ));
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap()
}

#[test]
fn one_seed_is_one_run_twice_in_a_process_and_once_in_another() {
    let first = story::run(REPLAYED, Keep::Text).unwrap_or_else(|why| panic!("{why}"));
    let second = story::run(REPLAYED, Keep::Text).unwrap_or_else(|why| panic!("{why}"));
    assert!(first.summary.lines > 1_000, "{:?}", first.summary);
    assert_eq!(first.summary, second.summary, "{:?}", difference(&first, &second));
    let text = first.text.as_deref().unwrap_or_default();
    for what in ["killed", "LoseAnswer", "Latency", "a late request lands"] {
        assert!(text.contains(what), "the seed that is compared has no {what}");
    }
    let other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_trace_of_a_seed", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&other.stdout);
    assert!(
        printed.contains(&format!("{:?}", first.summary)),
        "{:?} in this process, in the other:\n{printed}",
        first.summary
    );
}

/// The first line in which two runs differ.
fn difference(a: &story::Report, b: &story::Report) -> Option<String> {
    let (a, b) = (a.text.as_deref().unwrap_or_default(), b.text.as_deref().unwrap_or_default());
    let line = a.lines().zip(b.lines()).position(|(a, b)| a != b)?;
    Some(format!("line {line}: {:?} and {:?}", a.lines().nth(line), b.lines().nth(line)))
}

#[test]
#[ignore = "the other half of the replay test"]
fn the_trace_of_a_seed() {
    let report = story::run(REPLAYED, Keep::Nothing).unwrap_or_else(|why| panic!("{why}"));
    println!("{:?}", report.summary);
}

/// `make sim`: `SEEDS` seeds from `FROM` on, for at most `LIMIT` seconds; or one `SEED`, whose trace goes to `TRACE`.
#[test]
#[ignore = "runs as many seeds as it is told to: make sim"]
fn many_seeds() {
    if let Some(seed) = number("SEED") {
        let keep = std::env::var_os("TRACE").map_or(Keep::Nothing, |path| Keep::File(path.into()));
        match story::run(seed, keep) {
            Err(why) => panic!("seed {seed}: {why}"),
            Ok(report) => println!("seed {seed}: {:?}", report.summary),
        }
        return;
    }
    let from = number("FROM").unwrap_or(0);
    let to = from + number("SEEDS").unwrap_or(100);
    let limit = number("LIMIT").map(Duration::from_secs);
    let began = wall();
    let done = AtomicU64::new(0);
    let seeds = (from..to).take_while(|_| {
        let in_time = limit.is_none_or(|limit| began.elapsed() < limit);
        done.fetch_add(u64::from(in_time), Ordering::Relaxed);
        in_time
    });
    let failed = all(seeds);
    println!("{} seeds from {from} on in {:.0} s", done.into_inner(), began.elapsed().as_secs_f64());
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n\n"));
}

#[allow(clippy::disallowed_methods, reason = "how long the seeds take is real time")]
fn wall() -> Instant {
    Instant::now()
}
