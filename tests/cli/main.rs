//! The program as a person starts it.

mod data_dir;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use test_bed::Guarded;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_solar-controller"))
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A `dev` that is up; ended when it is dropped, and with the tests.
struct Dev {
    child: Guarded,
    printed: Vec<String>,
}

impl Dev {
    /// Starts `dev` on free ports and reads what it prints until it has said everything.
    fn start(folder: &Path, more: &[&str]) -> Self {
        Self::start_at(folder, "127.0.0.1:0", more)
    }

    /// As [`Self::start`], with the registry at an address.
    fn start_at(folder: &Path, registry: &str, more: &[&str]) -> Self {
        Self::start_until(folder, registry, more, "Ctrl-C")
    }

    /// As [`Self::start_at`], but reads only up to a line that begins like this.
    fn start_until(folder: &Path, registry: &str, more: &[&str], end: &str) -> Self {
        let mut command = program();
        command
            .args(["dev", "--api-address", "127.0.0.1:0", "--registry-address", registry, "--data-dir"])
            .arg(folder)
            .args(more)
            .stdout(Stdio::piped());
        let mut child = Guarded::spawn(&mut command);
        let lines = BufReader::new(child.stdout().unwrap()).lines();
        let mut printed = Vec::new();
        for line in lines {
            let line = line.unwrap();
            let last = line.starts_with(end);
            printed.push(line);
            if last {
                break;
            }
        }
        Self { child, printed }
    }

    /// Ends it as Ctrl-C does; answers whether it ended well.
    fn interrupt(mut self) -> bool {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        self.child.wait().success()
    }
}

#[test]
fn dev_for_scripts_ends_well_when_every_target_is_ready() {
    // With a name for an address, and with a flag of `run`.
    let ran = run(&[
        "dev",
        "--exit-when-ready",
        "--api-address",
        "localhost:0",
        "--registry-address",
        "127.0.0.1:0",
        "--metrics-bind-address",
        "localhost:0",
    ]);
    let printed = text(&ran.stdout);
    assert!(ran.status.success(), "{printed}\n{}", text(&ran.stderr));
    assert!(printed.contains("All 4 Targets are ready"), "{printed}");
    for target in ["edge-1", "edge-2", "lab", "staging"] {
        assert!(printed.contains(&format!("fleet/bootstrap-{target}:v0.0.1")), "{printed}");
    }
}

#[test]
fn dev_stays_up_prints_the_commands_and_ends_well_on_an_interrupt() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path(), &[]);
    let printed = dev.printed.join("\n");
    let kubeconfig = folder.path().join("kubeconfig");
    assert!(kubeconfig.exists());
    assert!(printed.contains(&kubeconfig.display().to_string()), "{printed}");
    let commands =
        dev.printed.iter().filter(|line| line.starts_with("  kubectl") || line.starts_with("  curl"));
    assert_eq!(commands.count(), 6, "{printed}");
    assert!(dev.interrupt());
}

#[test]
fn an_unknown_flag_or_value_is_refused_with_the_reason() {
    for (arguments, says) in [
        (vec!["dev", "--no-such-flag"], "unexpected argument '--no-such-flag'"),
        (vec!["dev", "--timeout", "soon"], "\"soon\" is not a duration: write it like 90s, 5m or 1h30m"),
        (vec!["dev", "--timeout=-5s"], "\"-5s\" is less than zero"),
        (vec!["dev", "--api-address", "here"], "invalid value 'here' for '--api-address <HOST:PORT>'"),
        (
            vec!["dev", "--registry-address", "here"],
            "write it like 127.0.0.1:8080, localhost:8080, [::1]:8080",
        ),
        (vec!["dev", "--max-concurrent-renders", "many"], "invalid value 'many'"),
        (vec!["nonsense"], "unrecognized subcommand 'nonsense'"),
    ] {
        let ran = run(&arguments);
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}

#[test]
fn a_port_that_is_taken_is_said_with_the_flag() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (flag, other) in [("--api-address", "--registry-address"), ("--registry-address", "--api-address")] {
        let ran = run(&["dev", flag, &address, other, "127.0.0.1:0"]);
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("cannot listen on {address} ({flag})")), "{said}");
        assert!(said.contains(&format!("choose another one with {flag}")), "{said}");
    }
}

#[test]
fn a_timeout_names_what_is_not_ready() {
    let ran = run(&[
        "dev",
        "--exit-when-ready",
        "--timeout",
        "0s",
        "--api-address",
        "127.0.0.1:0",
        "--registry-address",
        "127.0.0.1:0",
    ]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("fleet/edge-1"), "{said}");
}

#[test]
fn crds_prints_every_definition() {
    let ran = run(&["crds"]);
    assert!(ran.status.success());
    let printed = text(&ran.stdout);
    assert_eq!(printed.matches("kind: CustomResourceDefinition").count(), solar_api::crds().len());
}
