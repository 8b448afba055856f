//! What goes wrong in clusters: the controller says so, comes through, and loses nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use http::Request;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use solar_controller::adapters::clock::Clock;
use solar_controller::dev::registry::{Fault, RegistryOperation};
use test_bed::{ADMIN, Cluster};

use crate::pipeline::{delete_everything, settled, touch};
use crate::program::{self, Log, Program};
use crate::proxy::Proxy;
use crate::webhook::{self, Webhook};
use crate::world::{Bed, Kind, World, name};

/// Only one process, which shall outlive what would cost it the lease.
const ALONE: [&str; 1] = ["--leader-elect=false"];

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

/// Forgets all of etcd's history.
fn compact(world: &World) {
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

#[test]
fn changes_and_deletions_that_etcd_has_forgotten_are_found_by_a_new_list() {
    let Some(bed) = Bed::start(Cluster::builder()) else { return };
    let world = World::over(bed, "compacted");
    world.define();
    world.install_examples();
    let program = world.run("run", &ALONE);
    settled(&world, &program.log);
    let lists =
        || world.asked("run").iter().filter(|it| it.verb == "list" && it.resource == "releases").count();
    let before = lists();
    assert!(before > 0);
    // While it sleeps its watches end and what they would resume from is forgotten.
    program.signal("-STOP");
    touch(&world, "web-next", 5);
    world.delete(&world.fleet("releasebindings/edge-1-web-stable"), "Background");
    let cluster = &world.bed().cluster;
    compact(&world);
    cluster.api.kill();
    cluster.start_api();
    program.signal("-CONT");
    world.until("it lists again", Some(&program.log), || lists() > before);
    world.until("all is followed", Some(&program.log), || {
        world.is_at("staging", 2) && world.is_at("lab", 2) && world.is_at("edge-1", 2)
    });
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
    let turned_away = || {
        let text = program::get(&program.metrics, "/metrics").1;
        let mut counts = text.lines().filter(|line| line.starts_with("solar_api_requests_total{"));
        counts.any(|line| line.contains("code=\"429\""))
    };
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

#[test]
fn definitions_that_come_after_the_start_are_waited_for_by_name() {
    let Some(bed) = Bed::start(Cluster::builder()) else { return };
    let world = World::over(bed, "late");
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

#[test]
fn what_people_edit_by_hand_with_kubectl_is_set_right() {
    let Some(kubectl) = test_bed::tool("kubectl") else { return };
    let Some(world) = World::new(Kind::Real, "by-hand") else { return };
    world.install_examples();
    let program = world.run("run", &[]);
    settled(&world, &program.log);
    let tags = world.tags();
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new(&kubectl);
        command.args(arguments).args(["-n", &world.namespace("fleet")]);
        command.env("KUBECONFIG", world.bed().cluster.kubeconfig(ADMIN)).env("HOME", world.folder.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let all = |plural: &str| -> Vec<String> {
        world.list(plural).iter().map(|it| format!("{plural}/{}", name(it))).collect()
    };
    let right = |what: &str| {
        world.until(what, Some(&program.log), || world.all_ready() && world.agrees() && world.tags() == tags);
    };
    let status = |what: &str, patch: &str| {
        kubectl(&["patch", what, "--subresource=status", "--type=merge", "-p", patch]);
    };

    let no_finalizers = r#"{"metadata":{"finalizers":null}}"#;
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
        kubectl(&["patch", &what, "--type=merge", "-p", no_finalizers]);
    }
    world.until("finalizers are put back", Some(&program.log), || finalizers() == before);
    right("with all as it was");

    status("target/edge-1", r#"{"status":{"chartURL":"oci://elsewhere/x:1","conditions":[]}}"#);
    // Nobody is woken by a status alone, as all would be by their own; this asks for a pass.
    kubectl(&["annotate", "target", "edge-1", "solar.opendefense.cloud/reconcile=now"]);
    world.until("the status tells the truth", Some(&program.log), || {
        let target = world.get(&world.fleet("targets/edge-1")).unwrap();
        target["status"]["chartURL"].as_str().unwrap().contains(&world.registry)
    });
    right("the Target is ready again");

    for (plural, what) in [("rendertasks", "tasks"), ("renderbindings", "bindings")] {
        kubectl(&["delete", plural, "--all", "--wait=false"]);
        world.until(&format!("all is there without those {what}"), Some(&program.log), || {
            world.list("renderbindings").iter().all(|it| it["metadata"]["deletionTimestamp"].is_null())
        });
        world.until("all is as it was", Some(&program.log), || {
            world.all_ready() && world.agrees() && world.artifacts().len() == tags.len()
        });
    }
    delete_everything(&world, &program.log);
}
