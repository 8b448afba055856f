//! `dev --data-dir`: what one run leaves to the next.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use kube_embedded::Server;
use serde_json::Value;

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
