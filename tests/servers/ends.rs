//! The processes of the tests end with the tests.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use test_bed::{Guarded, wait_until};

use crate::world::{Kind, World};

fn runs(pid: &str) -> bool {
    // A process that nobody has waited for yet has ended all the same.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Not a test: the process that the next one kills.
#[test]
#[ignore = "waits to be killed"]
fn victim() {
    let Some(world) = World::new(Kind::Embedded, "victim") else { return };
    world.install_namespaces();
    let (first, second) = (world.run("first", &[]), world.run("second", &[]));
    second.signal("-STOP");
    println!("victim {} {}", first.id(), second.id());
    std::io::stdin().lines().next();
}

#[test]
fn a_killed_process_of_tests_leaves_no_controller_behind() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "ends::victim", "--nocapture"]);
    let mut victim = Guarded::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let output = BufReader::new(victim.stdout().unwrap());
    // The test runner writes the name of the test in front.
    let line = output.lines().map(Result::unwrap).find(|line| line.contains("victim ")).expect("a line");
    let pids: Vec<&str> = line.split("victim ").last().unwrap().split(' ').collect();
    assert!(pids.len() == 2 && pids.iter().all(|pid| runs(pid)), "{line}");
    drop(victim);
    wait_until("all have ended", || !pids.iter().any(|pid| runs(pid))).unwrap();
}
