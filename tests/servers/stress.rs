//! What goes wrong in clusters: the controller says so, comes through, and loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use http::Request;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use solar_controller::adapters::clock::Clock;
use solar_controller::dev::registry::{Fault, RegistryOperation};
use test_bed::Cluster;

use crate::metrics::Scraped;
use crate::pipeline::{delete_everything, settled, touch};
use crate::program::{self, Log, Program};
use crate::proxy::Proxy;
use crate::status_edits::{edits, of_ours};
use crate::webhook::{self, Webhook};
use crate::world::{Bed, Kind, World, name};

/// Only one process, which shall outlive what would cost it the lease.
const ALONE: [&str; 1] = ["--leader-elect=false"];

/// What a program tells at `/metrics`: the sum of all samples of `name` that have these labels.
fn sum(program: &Program, name: &str, labels: &[(&str, &str)]) -> f64 {
    Scraped::read(&program::get(&program.metrics, "/metrics").1).sum(name, labels)
}

fn until_it_says(world: &World, log: &Log, says: &str) {
    world.until(&format!("it says {says:?}"), Some(log), || log.text().contains(says));
}

pub fn connections_that_are_cut_every_second_lose_nothing(kind: Kind) {
    let Some(world) = World::new(kind, "cut") else { return };
    world.install_namespaces();
    let proxy = Proxy::start(&world, "run");
    proxy.cut_every_second(&world);
    let program = world.run_with(&proxy.kubeconfig, &ALONE);
    let seen = |more| {
        let wanted = proxy.cut() + more;
        world.until("connections are cut", Some(&program.log), || proxy.cut() >= wanted);
    };
    seen(12);
    world.install_examples();
    settled(&world, &program.log);
    touch(&world, "web-next", 5);
    world.until("the change arrives", Some(&program.log), || {
        world.is_at("staging", 2) && world.is_at("lab", 2)
    });
    seen(12);
    // An event that came while nobody watched is not lost.
    touch(&world, "web-stable", 6);
    world.until("the change arrives", Some(&program.log), || {
        world.is_at("edge-1", 2) && world.is_at("edge-2", 2)
    });
    settled(&world, &program.log);
    // That a connection ends is an everyday thing: it is opened again without a word, and counted.
    let opened = sum(&program, "solar_api_requests_total", &[("verb", "watch"), ("kind", "Release")]);
    assert!(opened >= 5.0, "the watches of Releases were opened {opened} times");
    delete_everything(&world, &program.log);
}

#[test]
fn an_api_server_that_ends_in_the_middle_of_rendering_finds_the_work_go_on_when_it_is_back() {
    let Some(bed) = Bed::start(Cluster::builder()) else { return };
    let world = World::over(bed, "restart");
    world.define();
    let program = world.run("run", &ALONE);
    // Pushes wait in the middle until the API server is gone, and end when it is away.
    world.store.set_faults(|info| {
        if info.operation == RegistryOperation::PutManifest {
            Fault::Latency(Duration::from_secs(2))
        } else {
            Fault::None
        }
    });
    world.install_examples();
    world.until("it pushes", Some(&program.log), || world.registry_writes() > 0);
    let cluster = &world.bed().cluster;
    cluster.api.kill();
    until_it_says(&world, &program.log, "a pass failed");
    until_it_says(&world, &program.log, "Connection refused");
    assert_eq!(program.health("/healthz").0, 200);
    world.store.clear_faults();
    cluster.start_api();
    settled(&world, &program.log);
    // Without its etcd it has nothing to say.
    cluster.etcd.kill();
    cluster.start_etcd();
    cluster.start_api();
    touch(&world, "web-next", 5);
    world.until("the change arrives", Some(&program.log), || {
        world.is_at("staging", 2) && world.is_at("lab", 2)
    });
    settled(&world, &program.log);
    delete_everything(&world, &program.log);
}

/// Forgets all of the API server's history.
fn compact(world: &World) {
    if let Some(server) = world.embedded_server() {
        server.compact();
        return;
    }
    let etcd = world.bed().cluster.etcd_url();
    let client = kube::Config::new(etcd.parse().unwrap());
    let client = world.runtime.block_on(async { kube::Client::try_from(client).unwrap() });
    let ask = |path: &str, body: Value| -> Value {
        let request = Request::post(path).body(body.to_string().into_bytes()).unwrap();
        let answer = world.runtime.block_on(client.request_text(request)).unwrap();
        serde_json::from_str(&answer).unwrap()
    };
    let status = ask("/v3/kv/range", json!({ "key": "AA==" }));
    let revision = status["header"]["revision"].as_str().unwrap();
    let compacted = ask("/v3/kv/compaction", json!({ "revision": revision, "physical": true }));
    assert!(compacted["header"].is_object(), "{compacted}");
}

pub fn changes_and_deletions_that_the_server_has_forgotten_are_found_by_a_new_list(kind: Kind) {
    // With its cache the real one would remember what etcd has forgotten.
    let builder = Cluster::builder().flag("--watch-cache=false");
    let Some(world) = World::undefined_with(kind, "compacted", builder) else { return };
    world.define();
    world.install_examples();
    let proxy = Proxy::start(&world, "run");
    let program = world.run_saying("info,solar_controller::actors::watch=debug", &proxy.kubeconfig, &ALONE);
    settled(&world, &program.log);
    let lists =
        || world.asked("run").iter().filter(|it| it.verb == "list" && it.resource == "releases").count();
    let errors = || sum(&program, "solar_watch_errors_total", &[("kind", "Release")]);
    let (before, errors_before) = (lists(), errors());
    assert!(before > 0);
    // Its watches end, and what they would resume from is forgotten.
    proxy.shut();
    touch(&world, "web-next", 5);
    world.delete(&world.fleet("releasebindings/edge-1-web-stable"), "Background");
    compact(&world);
    proxy.open();
    let watch = format!("watch of Release in {}", world.namespace("fleet"));
    world.until("it is told that its version is forgotten", Some(&program.log), || {
        let log = program.log.text();
        log.lines()
            .any(|line| line.contains(&watch) && line.contains("too old") && line.contains(": Expired"))
    });
    world.until("it lists again", Some(&program.log), || lists() > before);
    world.until("all is followed", Some(&program.log), || {
        world.is_at("staging", 2) && world.is_at("lab", 2) && world.is_at("edge-1", 2)
    });
    assert!(errors() > errors_before);
    settled(&world, &program.log);
    let binding = world.fleet("releasebindings/edge-1-web-stable");
    world.until("the binding is let go", Some(&program.log), || world.is_gone(&binding));
}

#[test]
fn requests_that_are_turned_away_by_priority_and_fairness_are_sent_again() {
    let Some(world) = World::new(Kind::Real, "fairness") else { return };
    let program = world.run("run", &ALONE);
    world.install_namespaces();
    world.until("it is ready", Some(&program.log), || program.health("/readyz").0 == 200);
    let api = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let object = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": "nobody-passes" },
            "spec": spec,
        })
    };
    let level = object(
        "PriorityLevelConfiguration",
        json!({
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 0,
                "borrowingLimitPercent": 0,
                "limitResponse": { "type": "Reject" },
            },
        }),
    );
    let schema = object(
        "FlowSchema",
        json!({
            "matchingPrecedence": 10,
            "priorityLevelConfiguration": { "name": "nobody-passes" },
            "rules": [{
                "subjects": [{ "kind": "User", "user": { "name": world.user("run") } }],
                "resourceRules": [{
                    "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true,
                }],
            }],
        }),
    );
    world.ensure(&format!("{api}/prioritylevelconfigurations"), &level);
    world.ensure(&format!("{api}/flowschemas"), &schema);
    // It is no fault, so that the log has no word of it.
    let turned_away = || sum(&program, "solar_api_requests_total", &[("code", "429")]) > 0.0;
    // Each change wakes somebody who asks for something.
    world.install_examples();
    let mut number = 0;
    world.until("requests are turned away", Some(&program.log), || {
        number += 1;
        let label = json!({ "metadata": { "labels": { "touched": number.to_string() } } });
        world.patch(&world.fleet("targets/lab"), &label);
        turned_away()
    });
    world.delete(&format!("{api}/flowschemas/nobody-passes"), "Background");
    world.delete(&format!("{api}/prioritylevelconfigurations/nobody-passes"), "Background");
    settled(&world, &program.log);
    delete_everything(&world, &program.log);
}

/// A service account in `platform` that may do everything; its path.
fn account(world: &World) -> String {
    let accounts = format!("/api/v1/namespaces/{}/serviceaccounts", world.namespace("platform"));
    world.ensure(&accounts, &json!({ "metadata": { "name": "controller" } }));
    let subject =
        json!({ "kind": "ServiceAccount", "name": "controller", "namespace": world.namespace("platform") });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": subject["namespace"] },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [subject],
    });
    world.ensure("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding);
    format!("{accounts}/controller")
}

/// A kubeconfig whose user logs in by `user`.
fn login(world: &World, user: &Value) -> PathBuf {
    let text = std::fs::read_to_string(world.path("kubeconfig")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["users"][0]["user"] = user.clone();
    let path = world.path("kubeconfig-login");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

/// Waits until the API server refuses `token`; it remembers for a while whom it has let in.
fn until_refused(world: &World, log: &Log, token: &str) {
    let path = login(world, &json!({ "token": token }));
    let client = world.runtime.block_on(async {
        let config = Kubeconfig::read_from(path).unwrap();
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        kube::Client::try_from(config).unwrap()
    });
    world.until("the token is not taken any more", Some(log), || {
        let answer = world.runtime.block_on(client.apiserver_version());
        matches!(answer, Err(kube::Error::Api(status)) if status.code == 401)
    });
}

/// The program is refused, says so, and goes on when `renew` has laid another token in place of the one in the file.
fn goes_on_with_another_token(world: &World, program: &Program, file: &Path, renew: impl FnOnce()) {
    let old = std::fs::read_to_string(file).unwrap();
    until_refused(world, &program.log, &old);
    touch(world, "web-next", 5);
    until_it_says(world, &program.log, "nauthorized");
    assert!(!world.is_at("staging", 2));
    renew();
    let new = std::fs::read_to_string(file).unwrap();
    assert_ne!(old, new);
    world.until("the change arrives", Some(&program.log), || {
        world.is_at("staging", 2) && world.is_at("lab", 2)
    });
    settled(world, &program.log);
    let log = program.log.text();
    assert!(!log.contains(&old) && !log.contains(&new));
}

/// As a kubelet lays it into a pod, only shorter.
#[test]
fn a_token_in_a_file_that_expires_is_said_and_its_successor_is_used() {
    let Some(world) = World::new(Kind::Real, "expires") else { return };
    world.install_namespaces();
    let account = world.get(&account(&world)).unwrap();
    let file = world.path("token");
    let write = |seconds| {
        let metadata = |field: &str| account["metadata"][field].as_str().unwrap();
        let (namespace, name, uid) = (metadata("namespace"), metadata("name"), metadata("uid"));
        let now = Clock::machine().wall().as_second();
        let token = world.bed().cluster.short_token(namespace, name, uid, now, seconds);
        std::fs::write(&file, token).unwrap();
    };
    write(30);
    let kubeconfig = login(&world, &json!({ "tokenFile": file }));
    let program = world.run_with(&kubeconfig, &ALONE);
    world.install_examples();
    settled(&world, &program.log);
    goes_on_with_another_token(&world, &program, &file, || write(3_600));
}

/// A token of the account at `path`, in place of the file.
fn write_token(world: &World, path: &str, file: &Path) {
    let request = Request::post(format!("{path}/token")).header("content-type", "application/json");
    let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "audiences": [] } });
    let answer = world.send(request, &body).unwrap();
    std::fs::write(file, answer["status"]["token"].as_str().unwrap()).unwrap();
}

/// Its answer holds for five seconds: a client comes back a minute before the end.
const LOGIN: &str = r#"
printf '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": '
printf '{"token": "%s", "expirationTimestamp": "%s"}}' "$(cat "$1")" "$(date -u -d '+65 seconds' +%Y-%m-%dT%H:%M:%SZ)"
"#;

#[test]
fn a_token_that_is_not_taken_any_more_is_said_and_the_program_logs_in_again() {
    let Some(world) = World::new(Kind::Real, "token") else { return };
    world.install_namespaces();
    let (file, script) = (world.path("token"), world.path("login.sh"));
    let path = account(&world);
    write_token(&world, &path, &file);
    std::fs::write(&script, LOGIN).unwrap();
    let kubeconfig = login(
        &world,
        &json!({ "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "sh",
            "args": [script, file],
            "interactiveMode": "Never",
        } }),
    );
    let program = world.run_with(&kubeconfig, &ALONE);
    world.install_examples();
    settled(&world, &program.log);
    // A token is as long valid as its account is there.
    world.delete(&path, "Background");
    goes_on_with_another_token(&world, &program, &file, || {
        account(&world);
        write_token(&world, &path, &file);
    });
}

#[test]
fn writes_that_a_policy_refuses_are_said_and_made_when_it_is_gone() {
    let Some(world) = World::new(Kind::Real, "refused") else { return };
    world.install_namespaces();
    let api = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "refused" },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": world.namespace("fleet") } },
                "resourceRules": [{
                    "apiGroups": ["solar.opendefense.cloud"], "apiVersions": ["*"],
                    "operations": ["CREATE"], "resources": ["rendertasks"],
                }],
            },
            "validations": [{ "expression": "false", "message": "the auditors are on holiday" }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "refused" },
        "spec": { "policyName": "refused", "validationActions": ["Deny"] },
    });
    world.ensure(&format!("{api}/validatingadmissionpolicies"), &policy);
    world.ensure(&format!("{api}/validatingadmissionpolicybindings"), &binding);
    let probe = json!({
        "apiVersion": "solar.opendefense.cloud/v1alpha1",
        "kind": "RenderTask",
        "metadata": { "name": "probe" },
        "spec": {
            "type": "release",
            "release": {
                "chart": { "name": "by-hand", "version": "v1.0.0" },
                "input": {
                    "component": { "name": "web" },
                    "resources": { "chart": { "repository": "ghcr.io/charts/web", "tag": "1.0.0" } },
                    "entrypoint": { "resourceName": "chart", "type": "helm" },
                },
            },
            "repository": "fleet/probe/by-hand",
            "tag": "v1.0.0",
            "baseURL": world.registry,
            "registryRef": { "name": "charts" },
            "ownerKind": "",
            "ownerName": "",
            "ownerNamespace": "",
        },
    });
    world.until("the policy is in force", None, || {
        let request =
            Request::post(world.fleet("rendertasks?dryRun=All")).header("content-type", "application/json");
        world.send(request, &probe).is_err_and(|(_, message)| message.contains("on holiday"))
    });
    let program = world.run("run", &ALONE);
    world.install_examples();
    until_it_says(&world, &program.log, "the auditors are on holiday");
    assert!(world.list("rendertasks").is_empty() && world.tags().is_empty());
    let told: Vec<_> =
        world.list("targets").iter().map(|it| it["status"]["conditions"].to_string()).collect();
    assert!(
        told.iter().all(|conditions| !conditions.contains("\"type\":\"Ready\",\"status\":\"True\"")),
        "{told:?}"
    );
    world.delete(&format!("{api}/validatingadmissionpolicybindings/refused"), "Background");
    world.delete(&format!("{api}/validatingadmissionpolicies/refused"), "Background");
    settled(&world, &program.log);
    delete_everything(&world, &program.log);
}

#[test]
fn writes_that_a_webhook_refuses_or_that_it_is_not_there_to_allow_are_said_and_made_in_the_end() {
    let Some(world) = World::new(Kind::Real, "webhook") else { return };
    world.install_namespaces();
    let webhook = Webhook::start(&world);
    webhook.install(&world, &["CREATE", "UPDATE"], &["rendertasks", "targets/status"], 5);
    let program = world.run("run", &ALONE);
    world.install_examples();
    until_it_says(&world, &program.log, webhook::REFUSAL);
    webhook.go_away();
    until_it_says(&world, &program.log, "failed calling webhook");
    assert!(world.tags().is_empty() && !world.all_ready());
    assert_eq!(program.health("/healthz").0, 200);
    webhook.allow();
    settled(&world, &program.log);
    Webhook::uninstall(&world);
    delete_everything(&world, &program.log);
}

pub fn definitions_that_come_after_the_start_are_waited_for_by_name(kind: Kind) {
    let Some(world) = World::undefined(kind, "late") else { return };
    world.install_namespaces();
    let program = world.run("run", &[]);
    world.until("missing kinds are named", Some(&program.log), || {
        let (code, text) = program.health("/readyz");
        code == 503
            && text.contains("Target is not listed yet\n")
            && text.contains("Registry is not listed yet\n")
    });
    until_it_says(&world, &program.log, "install the definitions of crds/");
    assert_eq!(program.health("/healthz").0, 200);
    world.define();
    world.install_examples();
    settled(&world, &program.log);
    world.until("it is ready itself", Some(&program.log), || program.health("/readyz").0 == 200);
}

/// Kind and name of what is edited, for each row of the table of edits: one after the other of those there are. Of tasks and
/// artifacts those of releases, for another version of a bootstrap chart has others.
fn edited(world: &World) -> Vec<(String, Value)> {
    let mut rounds: BTreeMap<&str, usize> = BTreeMap::new();
    let edits = edits().into_iter().map(|(kind, status)| {
        let plural = format!("{}s", kind.to_lowercase());
        let mut objects = world.list(&plural);
        if ["RenderTask", "RenderArtifact"].contains(&kind) {
            objects.retain(|it| it["spec"]["repository"].to_string().contains("/release-"));
        }
        let round = rounds.entry(kind).or_default();
        let object = &objects[*round % objects.len()];
        *round += 1;
        (format!("{plural}/{}", name(object)), status)
    });
    edits.collect()
}

/// Spec and owners of the bindings and artifacts, by name.
fn held(world: &World) -> BTreeMap<String, (Value, Value)> {
    let both = ["renderbindings", "renderartifacts"].into_iter().flat_map(|plural| world.list(plural));
    both.map(|it| (name(&it).to_owned(), (it["spec"].clone(), it["metadata"]["ownerReferences"].clone())))
        .collect()
}

pub fn what_people_edit_by_hand_with_kubectl_is_set_right(kind: Kind) {
    let Some(kubectl) = test_bed::tool("kubectl") else { return };
    let Some(world) = World::new(kind, "by-hand") else { return };
    world.install_examples();
    // The one kind with a status that the examples leave out.
    let pulls = |kind: &str, spec: Value| {
        let version = "solar.opendefense.cloud/v1alpha1";
        json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "pulls" }, "spec": spec })
    };
    let registry = json!({ "hostname": "pulls.example" });
    world.ensure(&world.fleet("registries"), &pulls("Registry", registry));
    let binding = json!({ "targetRef": { "name": "edge-1" }, "registryRef": { "name": "pulls" } });
    world.ensure(&world.fleet("registrybindings"), &pulls("RegistryBinding", binding));
    let program = world.run("run", &[]);
    settled(&world, &program.log);
    let tags = world.tags();
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new(&kubectl);
        command.args(arguments).args(["-n", &world.namespace("fleet")]);
        command.env("KUBECONFIG", world.path("kubeconfig")).env("HOME", world.folder.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let all = |plural: &str| -> Vec<String> {
        world.list(plural).iter().map(|it| format!("{plural}/{}", name(it))).collect()
    };
    let right = |what: &str| {
        world.until(what, Some(&program.log), || world.all_ready() && world.agrees() && world.tags() == tags);
    };

    let finalizers = || -> Vec<BTreeSet<String>> {
        let kinds = ["targets", "releases", "renderartifacts"].into_iter();
        let all = kinds.flat_map(|plural| world.list(plural));
        // Their order says nothing.
        all.map(|it| it["metadata"]["finalizers"].as_array().cloned().unwrap_or_default())
            .map(|list| list.iter().map(Value::to_string).collect())
            .collect()
    };
    let before = finalizers();
    for what in all("targets").into_iter().chain(all("releases")).chain(all("renderartifacts")) {
        kubectl(&["patch", &what, "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    }
    world.until("finalizers are put back", Some(&program.log), || finalizers() == before);
    right("with all as it was");

    let before = held(&world);
    for what in all("renderbindings").into_iter().chain(all("renderartifacts")) {
        let patch = r#"{"spec":{"registryRef":{"name":"elsewhere"}}}"#;
        kubectl(&["patch", &what, "--type=merge", "-p", patch]);
    }
    world.until("the Registry is named again", Some(&program.log), || held(&world) == before);
    for what in all("renderbindings") {
        kubectl(&["patch", &what, "--type=merge", "-p", r#"{"metadata":{"ownerReferences":null}}"#]);
    }
    world.until("bindings belong to their Targets again", Some(&program.log), || held(&world) == before);
    right("with the same charts");

    for (plural, what) in [("rendertasks", "tasks"), ("renderbindings", "bindings")] {
        let uids = || -> BTreeMap<String, String> {
            let all = world.list(plural);
            all.iter().map(|it| (name(it).to_owned(), it["metadata"]["uid"].to_string())).collect()
        };
        let before = uids();
        kubectl(&["delete", plural, "--all", "--wait=false"]);
        world.until(&format!("there are other {what} of the same names"), Some(&program.log), || {
            let now = uids();
            now.keys().eq(before.keys()) && now.iter().all(|(name, uid)| before[name] != *uid)
        });
        right("with the same charts");
    }

    let edited = edited(&world);
    let status = |path: &str| world.get(&world.fleet(path)).map(|object| of_ours(&object));
    let before: BTreeMap<&String, _> = edited.iter().map(|(path, _)| (path, status(path))).collect();
    for (path, nonsense) in &edited {
        let patch = json!({ "status": nonsense }).to_string();
        kubectl(&["patch", path, "--subresource=status", "--type=merge", "-p", &patch]);
    }
    for (path, truth) in before {
        world.until(&format!("the status of {path} tells the truth"), Some(&program.log), || {
            status(path) == truth
        });
    }
    settled(&world, &program.log);
    for target in world.list("targets") {
        let url = target["status"]["chartURL"].as_str().unwrap();
        let chart = url.strip_prefix(&format!("oci://{}/", world.registry));
        assert!(world.tags().contains(chart.unwrap()), "{url}");
    }
    delete_everything(&world, &program.log);
}
