//! The whole controller on one thread with paused time, over the in-memory API server and registry.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use actix_rt::System;
use kube_embedded::{Server, TokioClock};
use serde_json::{Value, json};
use solar_controller::actors::pass::{PollHook, Spawner};
use solar_controller::actors::root::{self, Running, State};
use solar_controller::actors::system::{Options, Ports};
use solar_controller::adapters::clock::Clock;
use solar_controller::adapters::cpu::Cpu;
use solar_controller::adapters::kubernetes::{Api, bounded};
use solar_controller::adapters::oci::Retrying;
use solar_controller::adapters::rng;
use solar_controller::dev::registry::{Access, Behaviour, RegistryStore};
use solar_controller::dev::{descriptor_examples, examples, push_descriptor};

/// The registry's address; nothing listens there, the in-memory port knows every host.
pub const REGISTRY: &str = "127.0.0.1:5000";
/// How long a test waits for a level, on the paused clock.
pub const PATIENCE: Duration = Duration::from_secs(600);
/// Kinds of which objects of this controller can be left behind.
pub const OUR_KINDS: [&str; 12] = [
    "Target",
    "ReleaseBinding",
    "Release",
    "ComponentVersion",
    "Component",
    "Registry",
    "RegistryBinding",
    "Profile",
    "RenderTask",
    "RenderArtifact",
    "RenderBinding",
    "ReferenceGrant",
];

/// Runs `test` on a fresh thread, system and paused runtime, as every run must to be replayed.
#[allow(clippy::disallowed_methods, reason = "a run must not share its thread with another")]
pub fn on_paused_time<T, F>(test: impl FnOnce() -> F + Send + 'static) -> T
where
    F: Future<Output = T> + 'static,
    T: Send + 'static,
{
    solar_controller::telemetry::init("off");
    let run = std::thread::spawn(move || {
        let system = System::with_tokio_rt(|| {
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
        });
        system.block_on(test())
    });
    match run.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// An object of a solar kind.
pub fn object(kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "solar.opendefense.cloud/v1alpha1",
        "kind": kind,
        "metadata": { "name": name, "namespace": namespace },
        "spec": spec,
    })
}

/// One incarnation of the controller with its world.
pub struct Simulation {
    /// The API server.
    pub server: Server,
    /// The registry.
    pub store: RegistryStore,
    /// A client of its own, for the test.
    pub client: kube::Client,
    /// The controller.
    pub running: Running,
}

/// An API server with the definitions, and a registry with the example's password.
pub fn world() -> (Server, RegistryStore) {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let server = Server::builder().clock(Arc::new(TokioClock::starting_at(epoch))).seed(1).build();
    for crd in solar_api::crds() {
        server.apply_crd(crd).unwrap();
    }
    (server, RegistryStore::new(Behaviour::default(), Access::basic("solar", "solar-dev")))
}

/// The options of tests: no wait for an earlier incarnation, since there is none, and no look at tags from time to time,
/// so that what is at rest is silent.
pub fn options() -> Options {
    let mut options = Options { takeover_wait: Duration::ZERO, ..Options::default() };
    options.artifact.check_interval = None;
    options
}

/// As [`options`], with actors that never rest, so that they can be asked how many passes they have had.
pub fn restless() -> Options {
    Options { rest_after: Duration::from_secs(7 * 24 * 3_600), ..options() }
}

/// Starts the controller over this world.
pub fn start(server: &Server, store: &RegistryStore, options: Options, incarnation: &str) -> Running {
    start_hooked(server, store, options, incarnation, Spawner::default())
}

/// As [`start`], with a spawner of its own.
pub fn start_hooked(
    server: &Server,
    store: &RegistryStore,
    options: Options,
    incarnation: &str,
    spawner: Spawner,
) -> Running {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    start_with(server, store, options, incarnation, spawner, epoch)
}

/// As [`start`], when the wall clock shows `now`.
pub fn start_at(
    server: &Server,
    store: &RegistryStore,
    options: Options,
    incarnation: &str,
    now: jiff::Timestamp,
) -> Running {
    start_with(server, store, options, incarnation, Spawner::default(), now)
}

fn start_with(
    server: &Server,
    store: &RegistryStore,
    options: Options,
    incarnation: &str,
    spawner: Spawner,
    epoch: jiff::Timestamp,
) -> Running {
    let ports = Ports {
        api: Api::new(bounded(server.service_for(incarnation), "default")),
        registry: Arc::new(Retrying::new(
            Arc::new(store.handle(incarnation)),
            rng::seeded(options.seed, "registry"),
        )),
        clock: Clock::simulated(epoch),
        cpu: Cpu::Inline,
        spawner,
    };
    root::start(options, ports, Vec::new(), incarnation)
}

impl Simulation {
    /// A controller over an empty world.
    pub fn new() -> Self {
        let (server, store) = world();
        Self::over(server, store, options())
    }

    /// A controller over an empty world, whose tasks and messages `hook` looks at.
    pub fn hooked(options: Options, hook: PollHook) -> Self {
        let (server, store) = world();
        let running = start_hooked(&server, &store, options, "controller", Spawner::hooked(hook));
        let client = server.client("default");
        Self { server, store, client, running }
    }

    /// A controller over this world.
    pub fn over(server: Server, store: RegistryStore, options: Options) -> Self {
        let running = start(&server, &store, options, "controller");
        let client = server.client("default");
        Self { server, store, client, running }
    }

    /// Installs the example objects.
    pub fn install_examples(&self) {
        for example in examples(REGISTRY).unwrap() {
            self.server.install(serde_json::to_value(&example.object).unwrap()).unwrap();
        }
    }

    /// Installs a ComponentVersion whose descriptor is in the registry.
    pub async fn install_descriptor(&self) {
        push_descriptor(&self.store.handle("examples"), REGISTRY).await.unwrap();
        for example in descriptor_examples(REGISTRY).unwrap() {
            self.server.install(serde_json::to_value(&example.object).unwrap()).unwrap();
        }
    }

    /// Waits until `level` holds; panics with `what` and the state of the world when it never does.
    pub async fn until(&self, what: &str, level: impl Fn(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !level(self) {
            if let State::Failed(reason) = &*self.running.state.borrow() {
                panic!("the controller failed: {reason}");
            }
            assert!(tokio::time::Instant::now() < deadline, "never: {what}\n{}", self.describe());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The condition's status, reason and message of a Target.
    pub fn condition(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        type_: &str,
    ) -> Option<(String, String, String)> {
        let object = self.server.get_object(kind, namespace, name)?;
        let conditions = object["status"]["conditions"].as_array()?.clone();
        let condition = conditions.iter().find(|condition| condition["type"] == type_)?.clone();
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Some((text("status"), text("reason"), text("message")))
    }

    /// Whether every Target is Ready.
    pub fn all_ready(&self) -> bool {
        let mut targets = self.server.objects("Target").peekable();
        targets.peek().is_some()
            && targets.all(|target| {
                let name = target["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let namespace = target["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
                self.condition("Target", &namespace, &name, "Ready")
                    .is_some_and(|(status, ..)| status == "True")
            })
    }

    /// All tags in the registry as `repository:tag`.
    pub fn tags(&self) -> BTreeSet<String> {
        self.store.all_tags().keys().map(|(repository, tag)| format!("{repository}:{tag}")).collect()
    }

    /// Merges `patch` into an object of a solar kind.
    pub async fn patch(&self, plural: &str, namespace: &str, name: &str, patch: Value) {
        let uri = format!("/apis/solar.opendefense.cloud/v1alpha1/namespaces/{namespace}/{plural}/{name}");
        let request = http::Request::patch(uri)
            .header("content-type", "application/merge-patch+json")
            .body(serde_json::to_vec(&patch).unwrap())
            .unwrap();
        self.client.request::<Value>(request).await.unwrap();
    }

    /// Asks for the deletion of an object.
    pub async fn delete(&self, path: &str) {
        let request = http::Request::delete(path).body(serde_json::to_vec(&json!({})).unwrap()).unwrap();
        match self.client.request::<Value>(request).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => panic!("DELETE {path}: {error}"),
        }
    }

    /// What is left of our kinds, for messages.
    pub fn describe(&self) -> String {
        let mut lines = Vec::new();
        for kind in OUR_KINDS {
            for object in self.server.objects(kind) {
                lines.push(format!(
                    "{kind} {}/{} deletion={} finalizers={} conditions={}",
                    object["metadata"]["namespace"].as_str().unwrap_or_default(),
                    object["metadata"]["name"].as_str().unwrap_or_default(),
                    object["metadata"]["deletionTimestamp"],
                    object["metadata"]["finalizers"],
                    object["status"]["conditions"]
                        .as_array()
                        .map(|conditions| conditions
                            .iter()
                            .map(|c| format!(
                                "{}={}/{}: {}",
                                c["type"], c["status"], c["reason"], c["message"]
                            ))
                            .collect::<Vec<_>>()
                            .join("; "))
                        .unwrap_or_default(),
                ));
            }
        }
        lines.push(format!(
            "state: {:?}, API requests: {}",
            &*self.running.state.borrow(),
            self.server.request_count()
        ));
        lines.extend(self.server.requests().iter().rev().take(5).map(|request| format!("{request:?}")));
        lines.push(format!("tags: {:?}", self.tags()));
        lines.join("\n")
    }

    /// Ends the controller in order.
    pub async fn shut_down(self) {
        self.running.shut_down().await;
    }
}
