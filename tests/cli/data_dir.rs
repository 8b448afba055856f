//! `dev --data-dir`: what one run leaves to the next.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kube_embedded::Server;
use serde_json::Value;
use test_bed::Guarded;

use super::{Dev, run, text};

/// An address that nobody listens on at the moment.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Everything that a folder keeps of the API, read from a copy.
fn kept(folder: &Path) -> Vec<Value> {
    let copy = tempfile::tempdir().unwrap();
    let log = copy.path().join("api.log");
    std::fs::copy(folder.join("api.log"), &log).unwrap();
    Server::builder().open(log).unwrap().server.snapshot()
}

/// Inode and time of change of each file of the registry: a file that is written again gets others.
fn registry_files(folder: &Path) -> BTreeMap<PathBuf, (u64, i64, i64)> {
    let folders = ["registry/repositories", "registry/blobs/sha256"].map(|inner| folder.join(inner));
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let state = |path: PathBuf| {
        let metadata = path.metadata().unwrap();
        (path, (metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
    };
    files.map(|entry| state(entry.unwrap().path())).collect()
}

fn metrics(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The sum of the samples of a metric that have all these words in their labels.
fn sum(metrics: &str, name: &str, labels: &[&str]) -> u64 {
    let samples = metrics.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
    let fit =
        samples.filter(|(own, _)| own.starts_with('{') && labels.iter().all(|label| own.contains(label)));
    fit.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
}

/// Waits until every object of these kinds had a pass, with `objects` as they are kept.
fn every_object_had_a_pass(address: &str, objects: &[Value]) -> String {
    let kinds = ["Target", "Release", "ReleaseBinding", "RenderTask", "RenderArtifact"];
    let count = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).count();
    // Each look is a request; the bound is only there so that a failure ends.
    for _ in 0..20_000 {
        let seen = metrics(address);
        let had = |kind: &str| sum(&seen, "solar_reconciles_total", &[&format!("kind=\"{kind}\"")]);
        if kinds.iter().all(|kind| had(kind) >= count(kind) as u64) {
            return seen;
        }
    }
    panic!("not every object had a pass:\n{}", metrics(address));
}

#[test]
fn a_restart_with_everything_ready_writes_and_pushes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (registry, metrics) = (free_address(), free_address());
    let first = Dev::start_at(folder.path(), &registry, &[]);
    assert!(first.printed.join("\n").contains("example objects"));
    assert!(first.interrupt());
    let (objects, files) = (kept(folder.path()), registry_files(folder.path()));
    assert!(!files.is_empty());

    let second = Dev::start_at(folder.path(), &registry, &["--metrics-bind-address", &metrics]);
    let printed = second.printed.join("\n");
    assert!(printed.contains("All 4 Targets are ready"), "{printed}");
    assert!(!printed.contains("example objects"), "{printed}");
    let url = printed.split("Kubernetes API on ").nth(1).unwrap().split(',').next().unwrap();
    assert!(std::fs::read_to_string(folder.path().join("kubeconfig")).unwrap().contains(url));

    let seen = every_object_had_a_pass(&metrics, &objects);
    assert!(sum(&seen, "solar_api_requests_total", &["verb=\"list\""]) > 0, "{seen}");
    for verb in ["create", "update", "patch", "delete"] {
        let verb = format!("verb=\"{verb}\"");
        assert_eq!(sum(&seen, "solar_api_requests_total", &[&verb]), 0, "{verb}\n{seen}");
    }
    assert_eq!(sum(&seen, "solar_renders_total", &[]), 0, "{seen}");
    assert_eq!(sum(&seen, "solar_oci_requests_total", &["operation=\"push"]), 0, "{seen}");
    assert!(second.interrupt());
    assert_eq!(kept(folder.path()), objects);
    assert_eq!(registry_files(folder.path()), files);
}

#[test]
fn a_killed_run_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let registry = free_address();
    // Once in the middle of the first writes, and once when everything is ready.
    drop(Dev::start_until(folder.path(), &registry, &[], "Applied"));
    drop(Dev::start_at(folder.path(), &registry, &[]));
    let objects = kept(folder.path());
    let third = Dev::start_at(folder.path(), &registry, &[]);
    assert!(third.printed.join("\n").contains("All 4 Targets are ready"));
    assert!(third.interrupt());
    let uids = |objects: &[Value], kind: &str| -> Vec<Value> {
        let of_kind = objects.iter().filter(|object| object["kind"] == kind);
        of_kind.map(|object| object["metadata"]["uid"].clone()).collect()
    };
    for kind in ["Target", "Release", "RenderTask"] {
        assert_eq!(uids(&kept(folder.path()), kind), uids(&objects, kind), "{kind}");
    }
}

#[test]
fn a_folder_serves_one_dev_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Dev::start(folder.path(), &["--no-examples"]);
    let said = refused(folder.path());
    assert!(
        said.contains(&format!("{} (--data-dir) is used by another `dev`", folder.path().display())),
        "{said}"
    );
}

#[test]
fn another_address_of_the_registry_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (free_address(), free_address());
    drop(Dev::start_at(folder.path(), &before, &[]));
    let ran = run(&dev_arguments(folder.path(), &after));
    let said = text(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    assert!(
        said.contains(&format!(
            "Registry platform/charts names {before}, but the embedded registry listens on {after}"
        )),
        "{said}"
    );
}

#[test]
fn a_damaged_file_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    drop(Dev::start(folder.path(), &[]));
    let blobs = folder.path().join("registry/blobs/sha256");
    let blob = std::fs::read_dir(blobs).unwrap().next().unwrap().unwrap().path();
    let index = std::fs::read_dir(folder.path().join("registry/repositories")).unwrap();
    let index = index.map(|entry| entry.unwrap().path()).next().unwrap();
    for file in [blob, index, folder.path().join("api.log")] {
        let whole = std::fs::read(&file).unwrap();
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 1;
        std::fs::write(&file, &damaged).unwrap();
        let said = refused(folder.path());
        assert!(said.contains(&format!("{} is damaged", file.display())), "{said}");
        assert_eq!(std::fs::read(&file).unwrap(), damaged, "it was touched");
        std::fs::write(&file, &whole).unwrap();
    }
    let missing = folder.path().join("registry/repositories/half.json.new");
    std::fs::write(&missing, "half").unwrap();
    let ran = run(&dev_arguments(folder.path(), "127.0.0.1:0"));
    assert!(ran.status.success());
    assert!(text(&ran.stderr).contains(&format!("{} was not finished", missing.display())));
}

#[test]
fn a_part_that_is_missing_is_named_and_nothing_is_started_without_it() {
    let folder = tempfile::tempdir().unwrap();
    drop(Dev::start(folder.path(), &[]));
    let index = std::fs::read_dir(folder.path().join("registry/repositories")).unwrap().next().unwrap();
    let index = index.unwrap().path();
    let index = index.strip_prefix(folder.path()).unwrap().to_str().unwrap().to_owned();
    let elsewhere = tempfile::tempdir().unwrap();
    let away = elsewhere.path().join("away");
    let parts = [
        "api.log",
        "registry",
        "registry/repositories",
        "registry/blobs/sha256",
        "registry/repositories.json",
    ];
    for part in parts.into_iter().chain([&*index]) {
        let missing = folder.path().join(part);
        std::fs::rename(&missing, &away).unwrap();
        let said = refused(folder.path());
        let named = said.contains(&format!("{}", missing.display())) && said.contains("missing");
        assert!(named, "{part}: {said}");
        std::fs::rename(&away, &missing).unwrap();
    }
    // Without the kubeconfig the registry still tells that there was a log; a new log in its place is none.
    std::fs::rename(folder.path().join("kubeconfig"), &away).unwrap();
    let (log, new) = (folder.path().join("api.log"), folder.path().join("api.log.new"));
    std::fs::rename(&log, &new).unwrap();
    let said = refused(folder.path());
    assert!(said.contains(&format!("{} (--data-dir) is missing", log.display())), "{said}");
    assert!(new.exists(), "it was touched");
    std::fs::rename(&new, &log).unwrap();
    assert!(run(&dev_arguments(folder.path(), "127.0.0.1:0")).status.success());
}

#[test]
fn what_is_kept_is_for_the_eyes_of_its_owner() {
    fn look(path: &Path, seen: &mut Vec<(PathBuf, u32)>) {
        let metadata = path.metadata().unwrap();
        seen.push((path.to_owned(), metadata.mode() & 0o777));
        if metadata.is_dir() {
            for entry in std::fs::read_dir(path).unwrap() {
                look(&entry.unwrap().path(), seen);
            }
        }
    }
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().join("data");
    drop(Dev::start(&folder, &[]));
    let mut seen = Vec::new();
    look(&folder, &mut seen);
    assert!(seen.len() > 20, "{seen:?}");
    for (path, mode) in seen {
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
}

#[test]
fn a_torn_log_and_one_that_was_not_finished_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let registry = free_address();
    drop(Dev::start_at(folder.path(), &registry, &[]));
    let log = folder.path().join("api.log");
    let whole = std::fs::read(&log).unwrap();
    std::fs::write(&log, &whole[..whole.len() - 3]).unwrap();
    let new = folder.path().join("api.log.new");
    std::fs::write(&new, "half").unwrap();
    let ran = run(&dev_arguments(folder.path(), &registry));
    let said = text(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    assert!(
        said.contains(&format!("warning: {} ended in the middle of a write at byte", log.display())),
        "{said}"
    );
    assert!(said.contains(&format!("warning: {} was not finished and is removed", new.display())), "{said}");
    assert!(!new.exists());
}

#[test]
fn a_log_of_another_format_is_named_as_such() {
    let folder = tempfile::tempdir().unwrap();
    drop(Dev::start(folder.path(), &["--no-examples"]));
    std::fs::write(folder.path().join("api.log"), "kube-embedded log 2\n").unwrap();
    let said = refused(folder.path());
    assert!(said.contains("is of format 2; this version reads format 1"), "{said}");
}

/// Posts a large object to the API that `dev` printed; answers the first line.
fn post_large(address: &str, name: &str) -> String {
    let body =
        serde_json::json!({ "metadata": { "name": name }, "data": { "a": "x".repeat(900_000) } }).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = "POST /api/v1/namespaces/default/configmaps HTTP/1.1";
    let fields = format!("Host: {address}\r\nConnection: close\r\nContent-Type: application/json");
    write!(stream, "{head}\r\n{fields}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_dev_that_can_keep_nothing_more_says_so_and_ends_badly() {
    let folder = tempfile::tempdir().unwrap();
    // A file that may not grow stands for a disk that is full.
    let limited = "trap '' XFSZ && ulimit -f 6000 && exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", limited, env!("CARGO_BIN_EXE_solar-controller")])
        .args([
            "dev",
            "--no-examples",
            "--api-address",
            "127.0.0.1:0",
            "--registry-address",
            "127.0.0.1:0",
            "--data-dir",
        ])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Guarded::spawn(&mut command);
    let mut lines = BufReader::new(child.stdout().unwrap()).lines().map(Result::unwrap);
    let address = lines.find_map(|line| Some(line.split_once("http://")?.1.split(',').next()?.to_owned()));
    let address = address.expect("an address");
    let answers: Vec<String> = (0..20)
        .map(|number| post_large(&address, &format!("large-{number}")))
        .take_while(|answer| answer.contains(" 201 "))
        .collect();
    assert!((1..20).contains(&answers.len()), "{answers:?}");
    let mut said = String::new();
    child.stderr().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().code(), Some(1), "{said}");
    assert!(said.contains("error: cannot keep changes on disk: "), "{said}");
    assert!(said.contains("api.log"), "{said}");
    // What was answered is there.
    let maps = kept(folder.path()).iter().filter(|object| object["kind"] == "ConfigMap").count();
    assert_eq!(maps, answers.len());
}

/// How many files a registry keeps.
fn files_kept(folder: &Path) -> usize {
    let parts = ["registry/repositories", "registry/blobs/sha256"];
    parts.iter().filter_map(|part| Some(std::fs::read_dir(folder.join(part)).ok()?.count())).sum()
}

#[test]
fn a_kill_in_the_middle_of_pushes_loses_no_chart() {
    let registry = free_address();
    for kill_at in [1, 2, 3, 5, 8, 13, 20] {
        let folder = tempfile::tempdir().unwrap();
        let dev = Dev::start_until(folder.path(), &registry, &[], "Data folder");
        // The bound is only there so that a failure ends.
        let reached = (0..10_000_000_u64).find(|_| files_kept(folder.path()) >= kill_at);
        assert!(reached.is_some(), "nothing was pushed");
        drop(dev);
        let again = run(&dev_arguments(folder.path(), &registry));
        let (printed, said) = (text(&again.stdout), text(&again.stderr));
        assert!(
            again.status.success() && printed.contains("All 4 Targets are ready"),
            "{kill_at}: {printed}{said}"
        );
        let (registry, torn) = solar_controller::dev::registry::RegistryStore::open(
            Default::default(),
            solar_controller::dev::registry::Access::Open,
            &folder.path().join("registry"),
        )
        .unwrap();
        assert!(torn.is_empty());
        let tags = registry.all_tags();
        for target in ["edge-1", "edge-2", "lab", "staging"] {
            let name = format!("fleet/bootstrap-{target}");
            assert!(tags.keys().any(|(repository, _)| *repository == name), "{kill_at}: {name} of {tags:?}");
        }
    }
}

fn dev_arguments<'a>(folder: &'a Path, registry: &'a str) -> [&'a str; 8] {
    let folder = folder.to_str().unwrap();
    let api = ["dev", "--exit-when-ready", "--api-address", "127.0.0.1:0"];
    let [dev, exit, flag, address] = api;
    [dev, exit, flag, address, "--registry-address", registry, "--data-dir", folder]
}

/// What `dev` says when it does not start.
fn refused(folder: &Path) -> String {
    let ran = run(&dev_arguments(folder, "127.0.0.1:0"));
    assert_eq!(ran.status.code(), Some(1), "{}", text(&ran.stdout));
    text(&ran.stderr)
}
