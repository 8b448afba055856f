//! What a fleet costs `run` as a process of its own, against the embedded API server and registry over HTTP, and against
//! kube-apiserver and distribution 3: from Targets that exist to all of them ready, beside a bare client that makes the
//! same writes; then one changed Release, one changed Registry, a restart, and rest. Each size is measured in a process of
//! its own, with servers of its own. Prints, never asserts.
#![allow(
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    reason = "a measurement on the machine's clock"
)]

#[path = "../tests/support/program.rs"]
mod program;
#[path = "../tests/servers/world.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod world;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt as _};
use http::Request;
use serde_json::{Value, json};
use solar_controller::adapters::clock::Clock;
use solar_controller::adapters::oci::{
    Artifact, Credentials, Endpoint, HttpRegistry, HttpRegistryOptions, OciRegistry as _, Timeouts,
};
use test_bed::{EXAMPLE_USERS, Generation, Registry};

use crate::program::Program;
use crate::world::{Kind, World};

const SIZES: [usize; 3] = [100, 300, 1_000];
const RELEASES: [(&str, &str); 3] =
    [("one", "podinfo-6.7.0"), ("two", "podinfo-6.7.1"), ("three", "podinfo-6.8.0")];
/// As many requests at once as the controller makes by default.
const AT_ONCE: usize = 50;
/// How long it is watched whether anything happens at rest: until the actors, too, have gone to rest.
const REST: Duration = Duration::from_secs(30);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, kind, targets, ..] = arguments.as_slice()
        && let Ok(targets) = targets.parse()
    {
        run(if kind == "real" { Kind::Real } else { Kind::Embedded }, targets);
        return;
    }
    for kind in ["embedded", "real"] {
        for targets in SIZES {
            let child = Command::new(std::env::current_exe().expect("this program has a path"))
                .args([kind, &targets.to_string()])
                .status();
            assert!(child.expect("it can be started once more").success());
        }
    }
}

fn say(what: &str, figure: impl std::fmt::Display) {
    println!("  {what:<66}{figure}");
}

/// Samples of the program's metrics, summed up by name and one label.
fn counted(program: &Program, name: &str, labels: &[&str]) -> BTreeMap<String, f64> {
    let text = program::get(&program.metrics, "/metrics").1;
    let mut sums = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with(name)) {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let label = |label: &&str| {
            let rest = series.split_once(&format!("{label}=\"")).map_or("", |(_, rest)| rest);
            rest.split('"').next().unwrap_or_default()
        };
        let key: Vec<&str> = labels.iter().map(label).collect();
        *sums.entry(key.join(" ")).or_default() += value.parse().unwrap_or(0.0);
    }
    sums
}

fn total(program: &Program, name: &str) -> f64 {
    counted(program, name, &[]).values().sum()
}

fn is_at_rest(program: &Program) -> bool {
    let states = counted(program, "solar_actors{", &["state"]);
    let all: f64 = states.values().sum();
    let idle = states.get("idle").copied().unwrap_or_default();
    total(program, "solar_reconciles_total{") > 0.5 && (idle - all).abs() < 0.5
}

/// Waits until all actors are idle and stay so for a second.
fn until_rest(world: &World, program: &Program) {
    let mut idle_since = None;
    while idle_since.is_none_or(|since: Instant| since.elapsed() < Duration::from_secs(1)) {
        world.pause(Duration::from_millis(50));
        idle_since = if is_at_rest(program) { idle_since.or_else(|| Some(Instant::now())) } else { None };
    }
}

/// CPU time in seconds and resident memory in MiB.
fn spent(program: &Program) -> (f64, f64) {
    let read =
        |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", program.id())).unwrap_or_default();
    let stat = read("stat");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks =
        |field: usize| fields.get(field).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or_default();
    let pages: f64 = read("statm").split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    ((ticks(11) + ticks(12)) / 100.0, pages * 4096.0 / f64::from(1 << 20))
}

fn object(kind: &str, metadata: Value, spec: Value) -> Value {
    json!({ "apiVersion": "solar.opendefense.cloud/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec })
}

fn release(name: &str, version: &str) -> Value {
    let spec =
        json!({ "componentVersionRef": { "name": version }, "uniqueName": name, "values": { "a": 1 } });
    object("Release", json!({ "name": name }), spec)
}

fn install(world: &World, targets: usize) {
    world.install_those(|kind| !matches!(kind, "Target" | "Release" | "ReleaseBinding" | "Profile"));
    let releases = world.fleet("releases");
    for (name, version) in RELEASES {
        world.ensure(&releases, &release(name, version));
    }
    let mut objects = Vec::new();
    for number in 0..targets {
        let target = format!("target-{number}");
        for (release, _) in RELEASES {
            let spec = json!({ "targetRef": { "name": target }, "releaseRef": { "name": release } });
            let metadata = json!({ "name": format!("{target}-{release}") });
            objects.push((world.fleet("releasebindings"), object("ReleaseBinding", metadata, spec)));
        }
        let registry = json!({ "name": "charts", "namespace": world.namespace("platform") });
        let spec = json!({ "renderRegistryRef": registry });
        objects.push((world.fleet("targets"), object("Target", json!({ "name": target }), spec)));
    }
    world
        .runtime
        .block_on(send_all(world, objects.into_iter().map(|(path, object)| Write::Create(path, object))));
}

/// A write of the bare client.
enum Write {
    Create(String, Value),
    Merge(String, Value),
}

async fn send_all(world: &World, writes: impl Iterator<Item = Write>) {
    let sent = stream::iter(writes).for_each_concurrent(AT_ONCE, |write| async move {
        let (request, body) = match &write {
            Write::Create(path, object) => {
                (Request::post(path).header("content-type", "application/json"), object)
            }
            Write::Merge(path, patch) => {
                (Request::patch(path).header("content-type", "application/merge-patch+json"), patch)
            }
        };
        let request = request.body(body.to_string().into_bytes()).expect("a request");
        world.client.request::<Value>(request).await.expect("the API server takes it");
    });
    sent.await;
}

/// How many Targets are ready with a bootstrap of at least this version.
fn ready(world: &World, version: i64) -> usize {
    let targets = world.list("targets");
    let is_ready = |target: &&Value| {
        world::is_ready(target) && target["status"]["bootstrapVersion"].as_i64() >= Some(version)
    };
    targets.iter().filter(is_ready).count()
}

fn until_ready(world: &World, targets: usize, version: i64) {
    // A look costs the API server something too.
    let pause = Duration::from_millis(50 + targets as u64 / 2);
    while ready(world, version) < targets {
        world.pause(pause);
    }
}

/// What happened since `before`.
fn since(now: &BTreeMap<String, f64>, before: &BTreeMap<String, f64>) -> String {
    let grown = now.iter().map(|(key, count)| (key, count - before.get(key).copied().unwrap_or_default()));
    let grown: Vec<String> =
        grown.filter(|(_, count)| *count > 0.5).map(|(key, count)| format!("{key} {count:.0}")).collect();
    if grown.is_empty() { "nothing".to_owned() } else { grown.join(", ") }
}

const API: &str = "solar_api_requests_total{";
const OCI: &str = "solar_oci_requests_total{";

fn run(kind: Kind, targets: usize) {
    let Some(mut world) = World::undefined(kind, "bench") else {
        println!("{kind:?} {targets}: left out, for a part is missing: make tools");
        return;
    };
    let registry = match kind {
        Kind::Embedded => None,
        Kind::Real => Registry::builder(Generation::Three).htpasswd(EXAMPLE_USERS).start(),
    };
    if let Some(registry) = &registry {
        world.registry = registry.host();
    }
    println!("{kind:?}: {targets} Targets with three shared releases");
    world.define();
    install(&world, targets);
    let alone = ["--leader-elect=false"];
    let began = Instant::now();
    let mut program = world.run("run", &alone);
    until_ready(&world, targets, 1);
    let took = began.elapsed();
    until_rest(&world, &program);
    let (cpu, memory) = spent(&program);
    let each = targets as f64;
    say("from the start of the process to all ready, s", format!("{:.2}", took.as_secs_f64()));
    say("CPU of the process, s, and ms for each Target", format!("{cpu:.2} {:.2}", cpu * 1e3 / each));
    say("resident, MiB", format!("{memory:.0}"));
    say("API requests for each Target, watches left out", {
        let all = counted(&program, API, &["verb"]);
        let watched = all.get("watch").copied().unwrap_or_default();
        format!("{:.1}", (all.values().sum::<f64>() - watched) / each)
    });
    let by_kind = counted(&program, API, &["verb", "kind"]);
    say("  by verb and kind", since(&by_kind, &BTreeMap::new()));
    say("registry requests", since(&counted(&program, OCI, &["operation", "code"]), &BTreeMap::new()));
    let pushes = total(&program, "solar_oci_requests_total{operation=\"push_manifest\"");
    say("manifests pushed, and contents", format!("{pushes:.0} {}", targets + RELEASES.len()));
    let bare = bare_client(&world, pushes);
    say("a bare client makes the same writes in, s", format!("{:.2}", bare.as_secs_f64()));
    say("the controller takes times that", format!("{:.2}", took.as_secs_f64() / bare.as_secs_f64()));

    let (api, oci) =
        (counted(&program, API, &["verb", "kind"]), counted(&program, OCI, &["operation", "code"]));
    let rendered = total(&program, "solar_renders_total{");
    let (began, cpu) = (Instant::now(), spent(&program).0);
    world.patch(&world.fleet("releases/one"), &json!({ "spec": { "values": { "a": 2 } } }));
    until_ready(&world, targets, 2);
    say(
        "one changed Release, until all are ready with it, s",
        format!("{:.2}", began.elapsed().as_secs_f64()),
    );
    until_rest(&world, &program);
    say("  CPU, s", format!("{:.2}", spent(&program).0 - cpu));
    say(
        "  renders, and contents",
        format!("{:.0} {}", total(&program, "solar_renders_total{") - rendered, targets + 1),
    );
    say("  API requests", since(&counted(&program, API, &["verb", "kind"]), &api));
    say("  registry requests", since(&counted(&program, OCI, &["operation", "code"]), &oci));

    let (api, oci) =
        (counted(&program, API, &["verb", "kind"]), counted(&program, OCI, &["operation", "code"]));
    let cpu = spent(&program).0;
    let secrets = format!("/api/v1/namespaces/{}/secrets", world.namespace("platform"));
    let mut secret = world.get(&format!("{secrets}/charts-push")).expect("the Secret of the examples");
    secret["metadata"] = json!({ "name": "other-push" });
    world.ensure(&secrets, &secret);
    world.patch(
        &world.solar("platform", "registries/charts"),
        &json!({ "spec": { "solarSecretRef": { "name": "other-push" } } }),
    );
    world.pause(Duration::from_secs(1));
    until_rest(&world, &program);
    say("one changed Secret of a Registry, until rest: CPU, s", format!("{:.2}", spent(&program).0 - cpu));
    say("  API requests", since(&counted(&program, API, &["verb", "kind"]), &api));
    say("  registry requests", since(&counted(&program, OCI, &["operation", "code"]), &oci));

    program.signal("-TERM");
    world.code(&mut program);
    let began = Instant::now();
    let program = world.run("again", &alone);
    until_rest(&world, &program);
    say("a restart until rest, s", format!("{:.2}", began.elapsed().as_secs_f64()));
    say("  CPU, s, and resident, MiB", format!("{:.2} {:.0}", spent(&program).0, spent(&program).1));
    say("  API requests", since(&counted(&program, API, &["verb"]), &BTreeMap::new()));
    let writes = |program: &Program| {
        let verbs = counted(program, API, &["verb"]);
        verbs
            .iter()
            .filter(|(verb, _)| !["get", "list", "watch"].contains(&verb.as_str()))
            .map(|(_, n)| n)
            .sum::<f64>()
            + 0.0
    };
    say("  writes among them", format!("{:.0}", writes(&program)));
    let (api, cpu) = (counted(&program, API, &["verb"]), spent(&program).0);
    world.pause(REST);
    say("at rest for 30 s: API requests", since(&counted(&program, API, &["verb"]), &api));
    say(
        "  CPU, ms, and resident, MiB",
        format!("{:.0} {:.0}", (spent(&program).0 - cpu) * 1e3, spent(&program).1),
    );
}

/// Makes the writes of the controller once more, as fast as the servers take them: the objects that it made, as many
/// patches for each object, and as many pushes, in a namespace that it does not watch.
fn bare_client(world: &World, pushes: f64) -> Duration {
    let namespace = world.namespace("bare");
    world.ensure("/api/v1/namespaces", &json!({ "metadata": { "name": namespace } }));
    let bare = |rest: &str| format!("/apis/solar.opendefense.cloud/v1alpha1/namespaces/{namespace}/{rest}");
    let copy = |object: &Value| {
        let mut metadata = json!({ "name": object["metadata"]["name"] });
        metadata["finalizers"] = object["metadata"]["finalizers"].clone();
        json!({
            "apiVersion": "solar.opendefense.cloud/v1alpha1",
            "kind": object["kind"],
            "metadata": metadata,
            "spec": object["spec"],
        })
    };
    let asked = world.asked("run");
    let count = |verb: &str, resource: &str, sub: &str| {
        let same = |it: &&world::Asked| it.verb == verb && it.resource == resource && it.subresource == sub;
        asked.iter().filter(same).count()
    };
    let made = ["rendertasks", "renderartifacts", "renderbindings"];
    let users = ["targets", "releases", "releasebindings", "componentversions", "components"];
    let (mut before, mut creates, mut patches) = (Vec::new(), Vec::new(), Vec::new());
    for plural in made.into_iter().chain(users) {
        let objects = world.list(plural);
        let to = if made.contains(&plural) { &mut creates } else { &mut before };
        to.extend(objects.iter().map(|object| Write::Create(bare(plural), copy(object))));
        for (sub, field) in [("", "metadata"), ("status", "status")] {
            for number in 0..count("patch", plural, sub) {
                let Some(object) = objects.get(number % objects.len().max(1)) else { continue };
                let name = world::name(object);
                let patch = if field == "metadata" {
                    json!({ "metadata": { "annotations": { "touched": number.to_string() } } })
                } else {
                    let mut status = object["status"].clone();
                    // Each is another one, or the API server writes nothing.
                    status["conditions"] = json!([{
                        "type": "Ready", "status": "True", "reason": "Touched", "message": number.to_string(),
                        "lastTransitionTime": "2024-01-01T00:00:00Z",
                    }]);
                    json!({ "status": status })
                };
                let slash = if sub.is_empty() { "" } else { "/" };
                patches.push(Write::Merge(bare(&format!("{plural}/{name}{slash}{sub}")), patch));
            }
        }
    }
    let events = (0..count("create", "events", "")).map(|number| {
        let event = json!({
            "metadata": { "name": format!("event-{number}") },
            "eventTime": "2024-01-01T00:00:00.000000Z", "action": "Reconcile", "reason": "Touched",
            "reportingController": "bare", "reportingInstance": "bare", "type": "Normal", "note": "one of many",
            "regarding": { "kind": "Target", "name": "target-0", "namespace": namespace,
                "apiVersion": "solar.opendefense.cloud/v1alpha1" },
        });
        Write::Create(format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"), event)
    });
    creates.extend(events);
    rustls::crypto::ring::default_provider().install_default().ok();
    let timeouts = Timeouts { read: Duration::from_secs(60), write: Duration::from_secs(60) };
    let login = Credentials::Basic { username: "solar".to_owned(), password: "solar-dev".to_owned() };
    world.runtime.block_on(async {
        send_all(world, before.into_iter()).await;
        let registry = Arc::new(
            HttpRegistry::new(&HttpRegistryOptions { ca_file: None, timeouts }, Clock::machine())
                .expect("a client"),
        );
        let endpoint = Endpoint::anonymous(&world.registry, true).with_credentials(login);
        let pushed = stream::iter(0..pushes as usize).for_each_concurrent(20, |number| {
            let (registry, endpoint) = (registry.clone(), endpoint.clone());
            async move {
                // As large as a bootstrap chart, and each another one.
                let layer: Vec<u8> = (0..4_000_usize)
                    .map(|at| (at * 31 + number * 17) as u8)
                    .chain(number.to_le_bytes())
                    .collect();
                let artifact = Artifact::chart(&b"{}"[..], layer, &BTreeMap::new());
                registry
                    .push(&endpoint, &format!("bare/chart-{number}"), "v0.0.1", &artifact)
                    .await
                    .expect("a push");
            }
        });
        let began = Instant::now();
        let writes = async {
            send_all(world, creates.into_iter()).await;
            send_all(world, patches.into_iter()).await;
        };
        futures::join!(writes, pushed);
        began.elapsed()
    })
}
