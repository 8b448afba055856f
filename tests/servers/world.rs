//! An API server of either kind, a registry, and the program beside them; each test has namespaces of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Request;
use jiff::Timestamp;
use kube::Client;
use kube_embedded::Server;
use serde_json::{Value, json};
use solar_controller::actors::pass::{PassHandle, Spawner};
use solar_controller::dev::registry::{self, Access, Behaviour, RegistryOperation, RegistryStore};
use solar_controller::dev::{Example, descriptor_examples, examples, push_descriptor};
use test_bed::{ADMIN, Builder, Cluster};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::program::{self, Log, Program};

/// How long a level may take to come. Only a broken program needs it.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// The group of the controller's users at the real API server: it may do everything, and is not exempt from priority and
/// fairness as the group of administrators is.
pub const GROUP: &str = "solar:controllers";
/// The namespaces of the examples.
const NAMESPACES: [&str; 2] = ["fleet", "platform"];

/// Which API server a test runs against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// kube-embedded over HTTP.
    Embedded,
    /// etcd, kube-apiserver, and the controllers that collect garbage and empty namespaces.
    Real,
}

/// A real API server that writes down who asked what.
pub struct Bed {
    /// Its processes.
    pub cluster: Cluster,
    audit: PathBuf,
}

impl Bed {
    /// Starts one; `None` where a part is missing.
    pub fn start(builder: Builder) -> Option<Arc<Self>> {
        let folder = test_bed::folder("audit");
        let (policy, audit) = (folder.join("policy.json"), folder.join("audit.log"));
        let text = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived", "ResponseStarted"],
            "rules": [{ "level": "Metadata" }],
        });
        std::fs::write(&policy, text.to_string()).unwrap();
        let builder = builder.with_controllers();
        let builder = builder.flag(&format!("--audit-policy-file={}", policy.display()));
        let cluster = builder.flag(&format!("--audit-log-path={}", audit.display())).start()?;
        Some(Arc::new(Self { cluster, audit }))
    }

    /// What was answered to this user, in the order of the answers.
    fn audited(&self, user: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.audit).unwrap_or_default();
        let lines = text.lines().filter(|line| line.contains(user));
        // The last line may be half written.
        let events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|event| event["impersonatedUser"]["username"] == user).collect()
    }

    /// The one that all tests share which leave it running.
    fn shared() -> Option<Arc<Self>> {
        static SHARED: OnceLock<Option<Arc<Bed>>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(Cluster::builder())).clone()
    }
}

enum Api {
    Embedded(Server),
    Real(Arc<Bed>),
}

/// What was asked of an API server.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Such as `create`.
    pub verb: String,
    /// Plural name; empty for paths that are no resource.
    pub resource: String,
    /// Such as `status`; empty without.
    pub subresource: String,
    /// Namespace; empty without.
    pub namespace: String,
    /// When it came in.
    pub received: Timestamp,
}

impl Asked {
    fn changes_something(&self) -> bool {
        !["get", "list", "watch"].contains(&self.verb.as_str())
    }
}

/// What a cluster and a registry are to the program.
pub struct World {
    api: Api,
    /// May do everything.
    pub client: Client,
    /// The registry.
    pub store: RegistryStore,
    /// The registry's host.
    pub registry: String,
    /// Holds the kubeconfigs and the logs.
    pub folder: tempfile::TempDir,
    case: String,
    // In this order: the tasks end before their runtime.
    serving: Vec<PassHandle<std::io::Result<()>>>,
    /// Everything of the test runs in it.
    pub runtime: Runtime,
}

impl World {
    /// A world with all definitions, and with namespaces whose names begin with `case`; `None` where a part is missing.
    pub fn new(kind: Kind, case: &str) -> Option<Self> {
        let world = match kind {
            Kind::Embedded => Self::embedded(case),
            Kind::Real => Self::over(Bed::shared()?, case),
        };
        world.define();
        Some(world)
    }

    /// A world of its own without any definition; `None` where a part is missing.
    pub fn undefined(kind: Kind, case: &str) -> Option<Self> {
        Some(match kind {
            Kind::Embedded => Self::embedded(case),
            Kind::Real => Self::over(Bed::start(Cluster::builder())?, case),
        })
    }

    fn embedded(case: &str) -> Self {
        let server = Server::builder().request_log_capacity(100_000).build();
        let runtime = runtime();
        let client = runtime.block_on(async { server.client("test") });
        let mut world = Self::build(Api::Embedded(server.clone()), client, case, runtime);
        let listener = world.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::fs::write(world.path("kubeconfig"), server.kubeconfig(&url)).unwrap();
        let serving = {
            let _inside = world.runtime.enter();
            let serving = async move { server.serve(listener, std::future::pending()).await };
            Spawner::default().spawn_pass("api", serving)
        };
        world.serving.push(serving);
        world
    }

    /// A world without definitions over an API server that runs already.
    pub fn over(bed: Arc<Bed>, case: &str) -> Self {
        let runtime = runtime();
        let client = runtime.block_on(async { bed.cluster.client() });
        let world = Self::build(Api::Real(bed.clone()), client, case, runtime);
        std::fs::copy(bed.cluster.kubeconfig(ADMIN), world.path("kubeconfig")).unwrap();
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" });
        let group = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUP });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": "controllers" },
            "roleRef": role,
            "subjects": [group],
        });
        world.ensure("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding);
        world
    }

    fn build(api: Api, client: Client, case: &str, runtime: Runtime) -> Self {
        solar_controller::telemetry::init("off");
        let store = RegistryStore::new(Behaviour::default(), Access::basic("solar", "solar-dev"));
        let charts = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let registry = charts.local_addr().unwrap().to_string();
        let serving = {
            let _inside = runtime.enter();
            let store = store.clone();
            Spawner::default().spawn_pass("registry", async move {
                registry::serve(store, charts, std::future::pending()).await
            })
        };
        let folder = tempfile::tempdir_in(test_bed::folder("world")).unwrap();
        let case = case.to_owned();
        Self { api, client, store, registry, folder, case, serving: vec![serving], runtime }
    }

    /// A file of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The real API server.
    pub fn bed(&self) -> &Bed {
        match &self.api {
            Api::Real(bed) => bed,
            Api::Embedded(_) => panic!("this test is for the real API server"),
        }
    }

    /// The embedded API server; `None` where a real one runs.
    pub fn embedded_server(&self) -> Option<&Server> {
        match &self.api {
            Api::Embedded(server) => Some(server),
            Api::Real(_) => None,
        }
    }

    /// Applies the definitions and waits until they are served.
    pub fn define(&self) {
        self.define_those(|_| true);
    }

    /// As [`Self::define`], for some kinds.
    pub fn define_those(&self, wanted: impl Fn(&str) -> bool) {
        for crd in solar_api::crds().into_iter().filter(|crd| wanted(&crd.spec.names.kind)) {
            let plural = crd.spec.names.plural.clone();
            let crd = serde_json::to_value(crd).unwrap();
            self.ensure("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd);
            let path = format!("/apis/solar.opendefense.cloud/v1alpha1/{plural}");
            // Not found at first, then refused for a moment.
            self.until("the kind is served", None, || self.get(&path).is_some());
        }
    }

    /// The namespace that stands for `fleet` or `platform` of the examples.
    pub fn namespace(&self, name: &str) -> String {
        format!("{}-{name}", self.case)
    }

    /// Path of a solar object, or of all of its kind, in `fleet`.
    pub fn fleet(&self, rest: &str) -> String {
        self.solar("fleet", rest)
    }

    /// Path of a solar object, or of all of its kind, in the namespace that stands for `namespace`.
    pub fn solar(&self, namespace: &str, rest: &str) -> String {
        format!("/apis/solar.opendefense.cloud/v1alpha1/namespaces/{}/{rest}", self.namespace(namespace))
    }

    /// An answer, or the code and message of a refusal; code 0 when there was no answer.
    pub fn send(&self, request: http::request::Builder, body: &Value) -> Result<Value, (u16, String)> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = request.body(body).unwrap();
        let answer = async { tokio::time::timeout(PATIENCE, self.client.request::<Value>(request)).await };
        match self.runtime.block_on(answer) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) => Err((status.code, status.message)),
            Ok(Err(error)) => Err((0, error.to_string())),
            Err(late) => Err((0, late.to_string())),
        }
    }

    /// What is at `path`, if it can be had.
    pub fn get(&self, path: &str) -> Option<Value> {
        self.send(Request::get(path), &Value::Null).ok()
    }

    /// Whether the server says that nothing is at `path`.
    pub fn is_gone(&self, path: &str) -> bool {
        self.send(Request::get(path), &Value::Null).is_err_and(|(code, _)| code == 404)
    }

    /// All solar objects of a kind in `fleet`.
    pub fn list(&self, plural: &str) -> Vec<Value> {
        let list = self.get(&self.fleet(plural)).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Creates an object, or finds it there.
    pub fn ensure(&self, collection: &str, object: &Value) {
        let request = Request::post(collection).header("content-type", "application/json");
        match self.send(request, object) {
            Ok(_) | Err((409, _)) => {}
            Err(refused) => panic!("POST {collection}: {refused:?}"),
        }
    }

    /// Merges `patch` into the object at `path`.
    pub fn patch(&self, path: &str, patch: &Value) {
        self.send(merge_patch(path), patch).unwrap_or_else(|refused| panic!("PATCH {path}: {refused:?}"));
    }

    /// Asks for the deletion of what is at `path`.
    pub fn delete(&self, path: &str, propagation: &str) {
        let request = Request::delete(path).header("content-type", "application/json");
        match self.send(request, &json!({ "propagationPolicy": propagation })) {
            Ok(_) | Err((404, _)) => {}
            Err(refused) => panic!("DELETE {path}: {refused:?}"),
        }
    }

    /// Asks for the deletion of all objects of a kind in `fleet`, one by one.
    pub fn delete_all(&self, plural: &str) {
        for object in self.list(plural) {
            self.delete(&self.fleet(&format!("{plural}/{}", name(&object))), "Background");
        }
    }

    /// How many objects of a kind there are in both namespaces.
    pub fn count(&self, plural: &str) -> usize {
        let lists = NAMESPACES.map(|namespace| self.get(&self.solar(namespace, plural)).unwrap_or_default());
        lists.iter().filter_map(|list| Some(list["items"].as_array()?.len())).sum()
    }

    /// The examples in this world's namespaces and with its registry, each with its collection.
    pub fn examples(&self) -> Vec<(String, Value)> {
        self.placed(examples(&self.registry).unwrap())
    }

    fn placed(&self, examples: Vec<Example>) -> Vec<(String, Value)> {
        let renamed = |value: &Value| {
            let mut text = value.to_string();
            for namespace in NAMESPACES {
                text =
                    text.replace(&format!("\"{namespace}\""), &format!("\"{}\"", self.namespace(namespace)));
            }
            serde_json::from_str::<Value>(&text).unwrap()
        };
        examples
            .into_iter()
            .map(|example| {
                let object = renamed(&serde_json::to_value(&example.object).unwrap());
                let version = object["apiVersion"].as_str().unwrap();
                let root = if version == "v1" { "api" } else { "apis" };
                let scope = object["metadata"]["namespace"].as_str();
                let scope = scope.map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
                (format!("/{root}/{version}/{scope}{}", example.resource.plural), object)
            })
            .collect()
    }

    /// Creates the examples.
    pub fn install_examples(&self) {
        self.install_those(|_| true);
    }

    /// As [`Self::install_examples`], for some kinds.
    pub fn install_those(&self, wanted: impl Fn(&str) -> bool) {
        let examples = self.examples().into_iter();
        for (collection, object) in examples.filter(|(_, object)| wanted(object["kind"].as_str().unwrap())) {
            self.ensure(&collection, &object);
        }
    }

    /// Creates a ComponentVersion, `described-1.0.0`, whose descriptor is in the registry.
    pub fn install_descriptor(&self) {
        self.runtime.block_on(push_descriptor(&self.store.handle("examples"), &self.registry)).unwrap();
        for (collection, object) in self.placed(descriptor_examples(&self.registry).unwrap()) {
            self.ensure(&collection, &object);
        }
    }

    /// Creates the namespaces only.
    pub fn install_namespaces(&self) {
        for namespace in NAMESPACES {
            let metadata = json!({ "name": self.namespace(namespace) });
            self.ensure("/api/v1/namespaces", &json!({ "metadata": metadata }));
        }
    }

    /// Status, reason and message of a condition of an object in `fleet`.
    pub fn condition(&self, path: &str, type_: &str) -> Option<[String; 3]> {
        let object = self.get(&self.fleet(path))?;
        let conditions = object["status"]["conditions"].as_array()?.clone();
        let condition = conditions.into_iter().find(|condition| condition["type"] == type_)?;
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Some([text("status"), text("reason"), text("message")])
    }

    /// Whether there are Targets and all are ready.
    pub fn all_ready(&self) -> bool {
        let targets = self.list("targets");
        !targets.is_empty() && targets.iter().all(is_ready)
    }

    /// Whether a Target is ready with a bootstrap of at least this version.
    pub fn is_at(&self, target: &str, version: i64) -> bool {
        self.get(&self.fleet(&format!("targets/{target}")))
            .is_some_and(|it| is_ready(&it) && it["status"]["bootstrapVersion"].as_i64() >= Some(version))
    }

    /// `repository:tag` and digest of every tag in the registry, without the descriptors, which are nobody's to delete.
    fn charts(&self) -> BTreeMap<String, String> {
        let tags = self.store.all_tags().into_iter();
        let charts = tags.filter(|((repository, _), _)| !repository.contains("component-descriptors/"));
        charts
            .map(|((repository, tag), digest)| (format!("{repository}:{tag}"), digest.to_string()))
            .collect()
    }

    /// `repository:tag` of every chart in the registry.
    pub fn tags(&self) -> BTreeSet<String> {
        self.charts().into_keys().collect()
    }

    /// `repository:tag` and digest of every artifact that has one.
    pub fn artifacts(&self) -> BTreeMap<String, String> {
        let artifacts = self.list("renderartifacts").into_iter();
        artifacts
            .filter_map(|it| {
                let (spec, digest) = (&it["spec"], it["status"]["digest"].as_str()?);
                Some((
                    format!("{}:{}", spec["repository"].as_str()?, spec["tag"].as_str()?),
                    digest.to_owned(),
                ))
            })
            .collect()
    }

    /// Whether registry and artifacts tell the same.
    pub fn agrees(&self) -> bool {
        let charts = self.charts();
        charts == self.artifacts() && charts.len() == self.list("renderartifacts").len()
    }

    /// Requests by which any process changed the registry.
    pub fn registry_writes(&self) -> usize {
        let changes = |operation| {
            matches!(
                operation,
                RegistryOperation::StartUpload
                    | RegistryOperation::PatchUpload
                    | RegistryOperation::FinishUpload
                    | RegistryOperation::PutManifest
                    | RegistryOperation::DeleteTag
                    | RegistryOperation::DeleteDigest
            )
        };
        self.store.log().iter().filter(|it| changes(it.operation)).count()
    }

    /// The user of a process of this test.
    pub fn user(&self, who: &str) -> String {
        format!("{}:{who}", self.case)
    }

    /// What a process has asked the API server for, and what was answered; without its Lease.
    pub fn asked(&self, who: &str) -> Vec<Asked> {
        self.everything_asked(who).into_iter().filter(|asked| asked.resource != "leases").collect()
    }

    /// As [`Self::asked`], with its Lease. The real API server tells of a watch when it ends.
    pub fn everything_asked(&self, who: &str) -> Vec<Asked> {
        let user = self.user(who);
        match &self.api {
            Api::Embedded(server) => {
                let requests = server.requests().into_iter().filter(|it| *it.actor == *user);
                requests
                    .map(|it| Asked {
                        verb: it.verb.to_string(),
                        resource: it.resource.to_string(),
                        subresource: it.subresource.to_string(),
                        namespace: it.namespace.to_string(),
                        received: it.received,
                    })
                    .collect()
            }
            Api::Real(bed) => bed
                .audited(&user)
                .iter()
                .map(|event| Asked {
                    verb: text(&event["verb"]),
                    resource: text(&event["objectRef"]["resource"]),
                    subresource: text(&event["objectRef"]["subresource"]),
                    namespace: text(&event["objectRef"]["namespace"]),
                    received: text(&event["requestReceivedTimestamp"]).parse().unwrap(),
                })
                .collect(),
        }
    }

    /// Those that change something.
    pub fn writes(&self, who: &str) -> usize {
        self.asked(who).iter().filter(|asked| asked.changes_something()).count()
    }

    /// When a process last sent something that changes something; without its Lease.
    pub fn last_write(&self, who: &str) -> Option<Timestamp> {
        self.asked(who).iter().filter(|asked| asked.changes_something()).map(|asked| asked.received).max()
    }

    /// How many writes a process sent after it read last whose the Lease is; `None` if it never did. Those do not count
    /// that arrive within 300 ms.
    pub fn written_after_its_lease_was_lost(&self, who: &str) -> Option<usize> {
        let asked = self.everything_asked(who);
        let looked = asked.iter().rfind(|asked| asked.resource == "leases" && asked.verb == "get")?;
        // The answer, and what it has sent by then, may still be on its way.
        let told = looked.received + jiff::SignedDuration::from_millis(300);
        Some(asked.iter().filter(|asked| asked.changes_something() && asked.received > told).count())
    }

    /// Waits until `level` holds.
    pub fn until(&self, what: &str, log: Option<&Log>, mut level: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !level() {
            let log = || log.map(Log::text).unwrap_or_default();
            if let Api::Real(bed) = &self.api {
                let controllers = &bed.cluster.controllers;
                assert!(controllers.is_running(), "kube-controller-manager has ended: {}", controllers.log());
            }
            assert!(Instant::now() < deadline, "never: {what}\n{}\n{}", log(), self.describe());
            self.pause(Duration::from_millis(50));
        }
    }

    /// Lets real time pass.
    pub fn pause(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// Names, finalizers and conditions of what is there.
    fn describe(&self) -> String {
        let mut lines = vec![format!("tags: {:?}", self.tags())];
        for crd in solar_api::crds() {
            for it in self.list(&crd.spec.names.plural) {
                let meta = &it["metadata"];
                let conditions = it["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let conditions = conditions
                    .iter()
                    .map(|it| format!("{}={} {}: {}", it["type"], it["status"], it["reason"], it["message"]));
                lines.push(format!(
                    "{} {}: {} {} {}",
                    crd.spec.names.kind,
                    meta["name"],
                    meta["deletionTimestamp"],
                    meta["finalizers"],
                    conditions.collect::<Vec<_>>().join("; ")
                ));
            }
        }
        lines.join("\n")
    }

    /// The kubeconfig of a process: one that names the user `who`.
    pub fn kubeconfig(&self, who: &str) -> PathBuf {
        let text = std::fs::read_to_string(self.path("kubeconfig")).unwrap();
        let user = self.user(who);
        let text = match &self.api {
            Api::Embedded(_) => text.replace("user: {}", &format!("user: {{as: \"{user}\"}}")),
            Api::Real(_) => {
                let mut config: Value = serde_json::from_str(&text).unwrap();
                config["users"][0]["user"]["as"] = json!(user);
                config["users"][0]["user"]["as-groups"] = json!([GROUP]);
                config.to_string()
            }
        };
        let path = self.path(&format!("kubeconfig-{who}"));
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Starts a process as the user `who` and waits until it says that it has started.
    pub fn run(&self, who: &str, more: &[&str]) -> Program {
        self.run_with(&self.kubeconfig(who), more)
    }

    /// As [`Self::run`], with this kubeconfig.
    pub fn run_with(&self, kubeconfig: &Path, more: &[&str]) -> Program {
        let mut command = program::program();
        command.arg("run").arg("--kubeconfig").arg(kubeconfig);
        command.args(["--health-bind-address", "127.0.0.1:0", "--metrics-bind-address", "127.0.0.1:0"]);
        command.args(["--log-format", "json", "--takeover-wait", "0s"]);
        // A chart whose Target goes at the same moment may never be seen bound; nothing here restores a backup.
        command.args(["--unbound-grace", "5s"]);
        if !more.contains(&"--watch-namespace") {
            let namespaces = NAMESPACES.map(|name| self.namespace(name)).join(",");
            command.args(["--watch-namespace", &namespaces]);
        }
        command.args(["--leader-election-namespace", &self.namespace("platform")]).args(more);
        let mut program = Program::start(command, self.folder.path());
        let log = program.log.clone();
        self.until("the program has started", Some(&log), || log.started_line().is_some());
        let line = log.started_line().unwrap();
        let address = |field: &str| line[field].as_str().unwrap().to_owned();
        (program.health, program.metrics) = (address("health"), address("metrics"));
        program
    }

    /// The exit code, once it has ended.
    pub fn code(&self, program: &mut Program) -> Option<i32> {
        let log = program.log.clone();
        let mut ended = None;
        self.until("the program has ended", Some(&log), || {
            ended = program.ended();
            ended.is_some()
        });
        ended.and_then(|status| status.code())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The guardian keeps what the processes have logged.
            self.folder.disable_cleanup(true);
            return;
        }
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"log-")) {
                program::tells_no_secret(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }
}

/// A merge patch to `path`.
pub fn merge_patch(path: &str) -> http::request::Builder {
    Request::patch(path).header("content-type", "application/merge-patch+json")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Name of an object.
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Whether a Target is ready, and says so of its newest spec.
pub fn is_ready(target: &Value) -> bool {
    let conditions = target["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
    ready.is_some_and(|it| {
        it["status"] == "True" && it["observedGeneration"] == target["metadata"]["generation"]
    })
}
