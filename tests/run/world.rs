//! A Kubernetes API and an OCI registry on loopback, and the built program beside them.

use std::time::Duration;

use kube_embedded::Server;
use serde_json::Value;
use solar_controller::actors::pass::{PassHandle, Spawner};
use solar_controller::dev::registry::{self, Access, Behaviour, RegistryStore};
use solar_controller::dev::{descriptor_examples, examples, push_descriptor};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::time::Instant;

pub use crate::program::{Log, Program, get, program};

/// How long a level may take to come. Only a broken program needs it.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// What a cluster and a registry are to the program.
pub struct World {
    /// The API server.
    pub server: Server,
    /// The registry.
    pub store: RegistryStore,
    /// The registry's address.
    pub registry: String,
    /// Holds the kubeconfig and the logs.
    pub folder: tempfile::TempDir,
    // In this order: the tasks end before their runtime.
    _serving: [PassHandle<std::io::Result<()>>; 2],
    runtime: Runtime,
}

impl World {
    /// A world with all definitions but those of the kinds `without`.
    pub fn new(without: &[&str]) -> Self {
        let server = Server::builder().request_log_capacity(100_000).build();
        for crd in solar_api::crds() {
            if !without.contains(&crd.spec.names.kind.as_str()) {
                server.apply_crd(crd).unwrap();
            }
        }
        let store = RegistryStore::new(Behaviour::default(), Access::basic("solar", "solar-dev"));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (api, charts) = runtime.block_on(async {
            let api = TcpListener::bind("127.0.0.1:0").await.unwrap();
            (api, TcpListener::bind("127.0.0.1:0").await.unwrap())
        });
        let registry = charts.local_addr().unwrap().to_string();
        let folder = tempfile::tempdir().unwrap();
        let url = format!("http://{}", api.local_addr().unwrap());
        std::fs::write(folder.path().join("kubeconfig"), server.kubeconfig(&url)).unwrap();
        let serving = {
            let _inside = runtime.enter();
            let (server, store) = (server.clone(), store.clone());
            let spawner = Spawner::default();
            [
                spawner.spawn_pass("api", async move { server.serve(api, std::future::pending()).await }),
                spawner.spawn_pass("registry", async move {
                    registry::serve(store, charts, std::future::pending()).await
                }),
            ]
        };
        Self { server, store, registry, folder, _serving: serving, runtime }
    }

    /// The definition of `kind` comes after all.
    pub fn define(&self, kind: &str) {
        let crd = solar_api::crds().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
        self.server.apply_crd(crd).unwrap();
    }

    /// Installs the example objects, but those of the kinds `without`.
    pub fn install_examples(&self, without: &[&str]) {
        for example in examples(&self.registry).unwrap() {
            if !without.contains(&example.resource.kind.as_str()) {
                self.server.install(serde_json::to_value(&example.object).unwrap()).unwrap();
            }
        }
    }

    /// Installs a ComponentVersion whose descriptor is in the registry.
    pub fn install_descriptor(&self) {
        self.runtime.block_on(push_descriptor(&self.store, &self.registry)).unwrap();
        for example in descriptor_examples(&self.registry).unwrap() {
            self.server.install(serde_json::to_value(&example.object).unwrap()).unwrap();
        }
    }

    /// Asks for the deletion of every object of `kind`.
    pub fn delete_all(&self, kind: &str, plural: &str) {
        let client = self.runtime.block_on(async { self.server.client("default") });
        for object in self.server.objects(kind) {
            let text = |field: &str| object["metadata"][field].as_str().unwrap();
            let (namespace, name) = (text("namespace"), text("name"));
            let path =
                format!("/apis/solar.opendefense.cloud/v1alpha1/namespaces/{namespace}/{plural}/{name}");
            let request = http::Request::delete(path).body(b"{}".to_vec()).unwrap();
            self.runtime.block_on(client.request::<Value>(request)).unwrap();
        }
    }

    /// Status, reason and message of a condition.
    pub fn condition(&self, kind: &str, name: &str, type_: &str) -> Option<[String; 3]> {
        let object = self.server.get_object(kind, "fleet", name)?;
        let conditions = object["status"]["conditions"].as_array()?.clone();
        let condition = conditions.into_iter().find(|condition| condition["type"] == type_)?;
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Some([text("status"), text("reason"), text("message")])
    }

    /// Whether there are Targets and all are Ready.
    pub fn all_ready(&self) -> bool {
        let names: Vec<_> =
            self.server.objects("Target").map(|target| target["metadata"]["name"].clone()).collect();
        !names.is_empty()
            && names.iter().all(|name| {
                let ready = self.condition("Target", name.as_str().unwrap(), "Ready");
                ready.is_some_and(|[status, ..]| status == "True")
            })
    }

    /// What is there of our kinds, and what keeps it.
    fn finalizers(&self) -> Vec<String> {
        let kinds = solar_api::crds().into_iter().map(|crd| crd.spec.names.kind);
        let objects = kinds.flat_map(|kind| self.server.objects(&kind).collect::<Vec<_>>());
        objects
            .map(|object| {
                let (kind, meta) = (&object["kind"], &object["metadata"]);
                format!("{kind} {}: {} {}", meta["name"], meta["deletionTimestamp"], meta["finalizers"])
            })
            .collect()
    }

    /// Waits until `level` holds.
    pub fn until(&self, what: &str, log: &Log, mut level: impl FnMut() -> bool) {
        self.runtime.block_on(async {
            let deadline = Instant::now() + PATIENCE;
            while !level() {
                assert!(Instant::now() < deadline, "never: {what}\n{}\n{:#?}", log.text(), self.finalizers());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }

    /// Lets real time pass.
    pub fn pause(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// Starts `run` against this world, on free ports, and waits until it says that it has started.
    pub fn run(&self, more: &[&str]) -> Program {
        let mut command = program();
        command.arg("run").arg("--kubeconfig").arg(self.folder.path().join("kubeconfig"));
        command.args(["--health-bind-address", "127.0.0.1:0", "--metrics-bind-address", "127.0.0.1:0"]);
        command.args(["--log-format", "json", "--takeover-wait", "0s"]).args(more);
        let mut program = Program::start(command, self.folder.path());
        let log = program.log.clone();
        self.until("the program has started", &log, || log.started_line().is_some());
        let line = log.started_line().unwrap();
        let address = |field: &str| line[field].as_str().unwrap().to_owned();
        (program.health, program.metrics) = (address("health"), address("metrics"));
        program
    }
}
