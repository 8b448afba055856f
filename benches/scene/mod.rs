//! A fleet on the in-memory API server and registry: Targets with three releases that they share.

use std::sync::Arc;
use std::time::Duration;

use kube_embedded::Server;
use serde_json::{Value, json};
use solar_controller::actors::pass::Spawner;
use solar_controller::actors::system::{Options, Ports};
use solar_controller::adapters::clock::Clock;
use solar_controller::adapters::cpu::Cpu;
use solar_controller::adapters::kubernetes::{Api, bounded};
use solar_controller::dev::examples;
use solar_controller::dev::registry::{Access, Behaviour, RegistryStore};
use solar_core::condition;
use solar_core::object::ObjectName;
use solar_core::world::World;

const RELEASES: [(&str, &str); 3] =
    [("one", "podinfo-6.7.0"), ("two", "podinfo-6.7.1"), ("three", "podinfo-6.8.0")];

/// An API server with `targets` Targets that nothing was done for yet.
pub fn server(targets: usize) -> Server {
    let server = Server::builder().request_log_capacity(0).watch_window(1 << 17).build();
    for crd in solar_api::crds() {
        server.apply_crd(crd).expect("the definitions are accepted");
    }
    for example in examples("127.0.0.1:5000").expect("the examples are readable") {
        let kind = example.resource.kind.as_str();
        if !matches!(kind, "Target" | "ReleaseBinding" | "Release") {
            let object = serde_json::to_value(&example.object).expect("objects are JSON");
            server.install(object).expect("the API server takes it");
        }
    }
    install(&server, targets);
    server
}

/// What the controller needs to work on `server` with a registry of its own.
pub fn ports(server: &Server) -> Ports {
    let store = RegistryStore::with_limit(Behaviour::default(), Access::basic("solar", "solar-dev"), 1 << 30);
    Ports {
        api: Api::new(bounded(server.service(), "default")),
        registry: Arc::new(store.handle("bench")),
        clock: Clock::machine(),
        cpu: Cpu::Threads,
        spawner: Spawner::default(),
    }
}

/// Options of a controller that need not wait for another one.
pub fn options() -> Options {
    Options { takeover_wait: Duration::ZERO, ..Options::default() }
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

/// Whether the Target of this number is ready.
pub fn is_known_as_ready(world: &World, number: usize) -> bool {
    let target = world.targets.get(&ObjectName::new("fleet", target_name(number)));
    target.is_some_and(|target| condition::is_true(&target.status.get().conditions, "Ready"))
}
