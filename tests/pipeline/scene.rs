//! One Target, one release, one registry: small enough to count every request, with the times at which they came.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_embedded::{Fault as ApiFault, FaultPlan, RequestInfo as ApiRequest};
use serde_json::{Value, json};
use solar_controller::actors::system::Options;
use solar_controller::adapters::oci::Reference;
use solar_controller::dev::registry::{Access, Fault, RequestInfo};
use tokio::time::Instant;

pub use crate::support::object;
use crate::support::{REGISTRY, Simulation, options, world};

/// Paths of objects in the scene's namespace.
pub const HERE: &str = "/apis/solar.opendefense.cloud/v1alpha1/namespaces/fleet";
/// A pause that tells two attempts at one thing from two tries inside one.
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(3);

/// A Secret with this password for the registry.
pub fn secret(namespace: &str, name: &str, password: &str) -> Value {
    let config = json!({ "auths": { REGISTRY: { "username": "solar", "password": password } } });
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": name, "namespace": namespace },
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": { ".dockerconfigjson": config.to_string() },
    })
}

/// A Registry with the registry's address and a Secret beside it.
pub fn registry(namespace: &str, name: &str, secret: &str) -> Value {
    let spec = json!({
        "hostname": REGISTRY,
        "plainHTTP": true,
        "solarSecretRef": { "name": secret },
        "targetPullSecretName": "pull",
    });
    object("Registry", namespace, name, spec)
}

/// Puts everything but the Target and its binding there.
pub fn install_platform(sim: &Simulation) {
    let namespace = |name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    let chart = json!({
        "repository": "ghcr.io/charts/web",
        "tag": "1.0.0",
        "helm": { "name": "web", "version": "1.0.0" },
    });
    let objects = [
        namespace("fleet"),
        namespace("platform"),
        secret("fleet", "push", "solar-dev"),
        registry("fleet", "charts", "push"),
        object(
            "Component",
            "fleet",
            "web",
            json!({
                "scheme": "oci", "registry": "ghcr.io", "repository": "charts/web",
            }),
        ),
        object(
            "ComponentVersion",
            "fleet",
            "web-1",
            json!({
                "componentRef": { "name": "web" },
                "tag": "1.0.0",
                "resources": { "chart": chart },
                "entrypoint": { "resourceName": "chart", "type": "helm" },
            }),
        ),
        object(
            "Release",
            "fleet",
            "web",
            json!({
                "componentVersionRef": { "name": "web-1" },
                "uniqueName": "web",
                "targetNamespace": "web",
                "values": { "replicaCount": 1 },
            }),
        ),
    ];
    for object in objects {
        sim.server.install(object).unwrap();
    }
}

/// A Target that renders to `registry`, bound to the release.
pub fn install_target(sim: &Simulation, name: &str, registry: &str) {
    let spec = json!({ "renderRegistryRef": { "name": registry } });
    sim.server.install(object("Target", "fleet", name, spec)).unwrap();
    let spec = json!({ "targetRef": { "name": name }, "releaseRef": { "name": "web" } });
    sim.server.install(object("ReleaseBinding", "fleet", &format!("{name}-web"), spec)).unwrap();
}

/// The scene with the Target `one`, with everything pushed.
pub async fn ready() -> Simulation {
    let sim = Simulation::new();
    install_platform(&sim);
    install_target(&sim, "one", "charts");
    sim.until("the Target is ready", Simulation::all_ready).await;
    sim
}

/// As [`ready`], with an open registry whose tags are looked at once per `interval`.
pub async fn ready_looking_every(interval: Duration) -> Simulation {
    let (server, store) = world();
    let mut options = options();
    options.artifact.check_interval = Some(interval);
    let sim = Simulation::over(server, store, options);
    sim.store.set_access(Access::Open);
    install_platform(&sim);
    install_target(&sim, "one", "charts");
    sim.until("the Target is ready", Simulation::all_ready).await;
    sim
}

/// A RenderTask that no Target owns, of which `change` changes the spec.
pub fn task(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut spec = json!({
        "type": "release",
        "release": {
            "chart": { "name": "by-hand", "version": "v1.0.0" },
            "input": {
                "component": { "name": "web" },
                "resources": { "chart": {
                    "repository": "ghcr.io/charts/web",
                    "tag": "1.0.0",
                    "helm": { "name": "web", "version": "1.0.0" },
                } },
                "entrypoint": { "resourceName": "chart", "type": "helm" },
            },
            "targetNamespace": "web",
            "values": {},
        },
        "repository": format!("fleet/{name}/by-hand"),
        "tag": "v1.0.0",
        "baseURL": REGISTRY,
        "registryRef": { "name": "charts" },
        "ownerKind": "",
        "ownerName": "",
        "ownerNamespace": "",
    });
    change(&mut spec);
    object("RenderTask", "fleet", name, spec)
}

/// The message of `JobFailed`, if it is True.
pub fn failure(sim: &Simulation, task: &str) -> Option<String> {
    let condition = sim.condition("RenderTask", "fleet", task, "JobFailed");
    condition.filter(|(status, ..)| status == "True").map(|(.., message)| message)
}

/// Whether the chart is in the registry, by the task's word.
pub fn succeeded(sim: &Simulation, task: &str) -> bool {
    sim.condition("RenderTask", "fleet", task, "JobSucceeded").is_some_and(|(status, ..)| status == "True")
}

/// Waits until the task has failed, and answers the message.
pub async fn until_failed(sim: &Simulation, task: &str) -> String {
    sim.until("the task has failed", |sim| failure(sim, task).is_some()).await;
    failure(sim, task).unwrap()
}

/// Lets virtual time pass.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// One registry request.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: Instant,
    pub info: RequestInfo,
}

/// The registry requests from now on.
#[derive(Clone)]
pub struct Traffic(Arc<Mutex<Vec<Seen>>>);

impl Traffic {
    /// Notes each registry request, and lets `fault` decide what becomes of it. The last hook set counts.
    pub fn with_faults(
        sim: &Simulation,
        mut fault: impl FnMut(&RequestInfo) -> Fault + Send + 'static,
    ) -> Self {
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let kept = seen.clone();
        sim.store.set_faults(move |info| {
            kept.lock().unwrap().push(Seen { at: Instant::now(), info: info.clone() });
            fault(info)
        });
        Self(seen)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.0.lock().unwrap().clone()
    }

    /// The requests, by attempt.
    pub fn attempts(&self) -> Vec<Vec<Seen>> {
        let mut attempts: Vec<Vec<Seen>> = Vec::new();
        for seen in self.seen() {
            match attempts.last_mut() {
                Some(attempt) if attempt.last().is_some_and(|last| seen.at - last.at < BETWEEN_ATTEMPTS) => {
                    attempt.push(seen);
                }
                _ => attempts.push(vec![seen]),
            }
        }
        attempts
    }

    /// The pauses between the end of one attempt and the begin of the next.
    pub fn pauses(&self) -> Vec<Duration> {
        let attempts = self.attempts();
        attempts.windows(2).map(|pair| pair[1][0].at - pair[0].last().unwrap().at).collect()
    }
}

/// The writes of the controller in the order in which they come, those to the API server and those to the registry.
#[derive(Clone, Default)]
pub struct Writes(Arc<Mutex<Vec<String>>>);

impl Writes {
    /// Those from now on.
    pub fn of(sim: &Simulation) -> Self {
        let writes = Self::default();
        let (of_api, of_registry) = (writes.clone(), writes.clone());
        sim.server.set_faults(FaultPlan::new().decide(move |request| {
            if &*request.actor == "controller" && request.verb.is_write() {
                let ApiRequest { verb, resource, subresource, name, .. } = request;
                of_api.note(format!("{verb} {resource}/{name} {subresource}"));
            }
            ApiFault::None
        }));
        sim.store.set_faults(move |request| {
            of_registry.note(format!("{} {}", request.operation, request.repository));
            Fault::None
        });
        writes
    }

    fn note(&self, write: String) {
        self.0.lock().unwrap().push(write.trim_end().to_owned());
    }

    /// The first of each of these, in the order in which they came.
    pub fn in_order<'a>(&self, these: &[&'a str]) -> Vec<&'a str> {
        let all = self.0.lock().unwrap();
        let place = |write: &str| all.iter().position(|it| it == write);
        let mut found: Vec<_> = these.iter().filter_map(|it| Some((place(it)?, *it))).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, it)| it).collect()
    }
}

/// Kills the incarnation `old`, so that nothing of it has any effect any more, and starts another over the same world.
pub fn kill_and_start(sim: &mut Simulation, old: &str, new: &str, options: Options) {
    sim.server.fence(old);
    sim.store.fence(old);
    sim.running = crate::support::start(&sim.server, &sim.store, options, new);
}

/// Repository of the release chart.
pub const RELEASE: &str = "fleet/fleet/release-web";

/// The release chart's tag.
pub fn tag(sim: &Simulation) -> Option<String> {
    let tags = sim.store.all_tags();
    tags.keys()
        .find(|(repository, tag)| repository == RELEASE && tag != "sibling")
        .map(|(_, tag)| tag.clone())
}

/// Gives the release chart's manifest another tag, as a person would.
pub fn add_sibling(sim: &Simulation) {
    assert!(sim.store.copy_tag(RELEASE, &tag(sim).unwrap(), "sibling"));
}

/// Whatever was deleted: not that.
pub fn assert_sibling_lives(sim: &Simulation, context: &str) {
    assert!(sim.store.resolve(RELEASE, &Reference::tag("sibling")).is_some(), "the sibling lives: {context}");
}

/// Deletes a Target with its ReleaseBinding.
pub async fn delete_target(sim: &Simulation, name: &str) {
    sim.delete(&format!("{HERE}/releasebindings/{name}-web")).await;
    sim.delete(&format!("{HERE}/targets/{name}")).await;
}

/// Waits until nothing is left but the sibling tag.
pub async fn until_all_gone(sim: &Simulation) {
    sim.until("artifacts and tags are gone", |sim| {
        let ours = ["Target", "RenderTask", "RenderArtifact", "RenderBinding"];
        ours.iter().all(|kind| sim.server.count(kind) == 0)
            && sim.tags().iter().all(|tag| tag.ends_with(":sibling"))
    })
    .await;
}

/// `OCICleanup` of the release chart's artifact: reason and message, while it is False.
pub fn cleanup_failure(sim: &Simulation) -> Option<(String, String)> {
    let artifact = sim.server.objects("RenderArtifact").find(|it| it["spec"]["repository"] == RELEASE)?;
    let name = artifact["metadata"]["name"].as_str()?.to_owned();
    let (status, reason, message) = sim.condition("RenderArtifact", "fleet", &name, "OCICleanup")?;
    (status == "False").then_some((reason, message))
}

/// Waits until `OCICleanup` is False, and answers its reason and message.
pub async fn until_cleanup_fails(sim: &Simulation) -> (String, String) {
    sim.until("the clean-up fails", |sim| cleanup_failure(sim).is_some()).await;
    cleanup_failure(sim).unwrap()
}

/// Whether the Target is Ready.
pub fn is_ready(sim: &Simulation, target: &str) -> bool {
    sim.condition("Target", "fleet", target, "Ready").is_some_and(|(status, ..)| status == "True")
}
