//! What goes wrong in clusters: the controller says so, comes through, and loses nothing.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Request;
use serde_json::{Value, json};
use solar_controller::dev::registry::{Fault, RegistryOperation};
use test_bed::{ADMIN, Cluster};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::pipeline::{delete_everything, settled, touch};
use crate::program::{self, Log};
use crate::world::{Bed, Kind, World, name};

/// Only one process, which shall outlive what would cost it the lease.
const ALONE: [&str; 1] = ["--leader-elect=false"];

fn until_it_says(world: &World, log: &Log, says: &str) {
    world.until(&format!("it says {says:?}"), Some(log), || log.text().contains(says));
}

/// A proxy on loopback that cuts all its connections every second; answers its port and the count of cuts.
#[allow(clippy::disallowed_methods, reason = "its tasks belong to the test's runtime and end with it")]
fn cutting_proxy(world: &World, to: String) -> (u16, Arc<AtomicUsize>) {
    let listener = world.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (cut, cuts) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (every_second, count) = (cut.clone(), cuts.clone());
    world.runtime.spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            every_second.notify_waiters();
        }
    });
    world.runtime.spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let (cut, count, to) = (cut.clone(), count.clone(), to.clone());
            tokio::spawn(async move {
                let Ok(mut far) = TcpStream::connect(&to).await else { return };
                tokio::select! {
                    _ = copy_bidirectional(&mut near, &mut far) => {}
                    () = cut.notified() => { count.fetch_add(1, Ordering::Relaxed); }
                }
            });
        }
    });
    (port, cuts)
}

pub fn connections_that_are_cut_every_second_lose_nothing(kind: Kind) {
    let Some(world) = World::new(kind, "cut") else { return };
    world.install_namespaces();
    let kubeconfig = world.kubeconfig("run");
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    let address = text.split("127.0.0.1:").nth(1).unwrap();
    let address: String = address.chars().take_while(char::is_ascii_digit).collect();
    let address = format!("127.0.0.1:{address}");
    let (port, cuts) = cutting_proxy(&world, address.clone());
    std::fs::write(&kubeconfig, text.replace(&address, &format!("127.0.0.1:{port}"))).unwrap();
    let program = world.run_with(&kubeconfig, &ALONE);
    let seen = |more| {
        let wanted = cuts.load(Ordering::Relaxed) + more;
        world.until("connections are cut", Some(&program.log), || cuts.load(Ordering::Relaxed) >= wanted);
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
    world.until("it pushes", Some(&program.log), || {
        world.store.log().iter().any(|it| it.operation == RegistryOperation::PutManifest)
    });
    let cluster = &world.bed().cluster;
    cluster.api.kill();
    world.until("what was begun is pushed", Some(&program.log), || world.pushes() > 0);
    until_it_says(&world, &program.log, "objects cannot be listed");
    assert_eq!(program.health("/healthz").0, 200);
    world.store.clear_faults();
    cluster.start_api();
    settled(&world, &program.log);
    // Also when etcd is away, which answers with errors instead of silence.
    cluster.etcd.kill();
    world.until("the API server has errors", Some(&program.log), || {
        world.get(&world.fleet("releases/web-next")).is_none()
    });
    cluster.start_etcd();
    cluster.start_api();
    world.until("it answers", Some(&program.log), || world.get(&world.fleet("releases/web-next")).is_some());
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

/// A token of a service account in `platform`, in place of the file at `path`.
fn write_token(world: &World, path: &std::path::Path) {
    let accounts = format!("/api/v1/namespaces/{}/serviceaccounts", world.namespace("platform"));
    world.ensure(&accounts, &json!({ "metadata": { "name": "controller" } }));
    let request =
        Request::post(format!("{accounts}/controller/token")).header("content-type", "application/json");
    let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "audiences": [] } });
    let answer = world.send(request, &body).unwrap();
    std::fs::write(path, answer["status"]["token"].as_str().unwrap()).unwrap();
}

#[test]
fn a_token_that_is_not_taken_any_more_is_said_and_its_successor_is_used() {
    let Some(world) = World::new(Kind::Real, "token") else { return };
    world.install_namespaces();
    let (token, kubeconfig) = (world.path("token"), world.path("kubeconfig-token"));
    write_token(&world, &token);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "token-controller" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "name": "controller", "namespace": world.namespace("platform") }],
    });
    world.ensure("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding);
    let text = std::fs::read_to_string(world.path("kubeconfig")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["users"][0]["user"] = json!({ "tokenFile": token });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let program = world.run_with(&kubeconfig, &ALONE);
    world.install_examples();
    settled(&world, &program.log);
    // A token is as long valid as its account is there, which is the quickest way to end it.
    let account = format!("/api/v1/namespaces/{}/serviceaccounts/controller", world.namespace("platform"));
    world.delete(&account, "Background");
    touch(&world, "web-next", 5);
    let mut number = 0;
    world.until("it says so", Some(&program.log), || {
        number += 1;
        let label = json!({ "metadata": { "labels": { "touched": number.to_string() } } });
        world.patch(&world.fleet("targets/lab"), &label);
        program.log.text().contains("nauthorized")
    });
    write_token(&world, &token);
    // The file is read again within a minute.
    world.until("the change arrives", Some(&program.log), || {
        world.is_at("staging", 2) && world.is_at("lab", 2)
    });
    settled(&world, &program.log);
    let secret = std::fs::read_to_string(&token).unwrap();
    assert!(!program.log.text().contains(&secret));
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
        "spec": {},
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
    let finalizers = || -> Vec<Value> {
        let kinds = ["targets", "releases", "renderartifacts"].into_iter();
        kinds.flat_map(|plural| world.list(plural)).map(|it| it["metadata"]["finalizers"].clone()).collect()
    };
    let before = finalizers();
    for what in all("targets").into_iter().chain(all("releases")).chain(all("renderartifacts")) {
        kubectl(&["patch", &what, "--type=merge", "-p", no_finalizers]);
    }
    world.until("finalizers are put back", Some(&program.log), || finalizers() == before);
    right("with all as it was");

    status("target/edge-1", r#"{"status":{"chartURL":"oci://elsewhere/x:1","conditions":[]}}"#);
    world.until("the status tells the truth", Some(&program.log), || {
        let target = world.get(&world.fleet("targets/edge-1")).unwrap();
        target["status"]["chartURL"].as_str().unwrap().contains(&world.registry)
    });
    right("the Target is ready again");

    let artifact = &all("renderartifacts")[0];
    let digest = || world.get(&world.fleet(artifact)).unwrap()["status"]["digest"].clone();
    let told = digest();
    let wrong = format!(r#"{{"status":{{"digest":"sha256:{}"}}}}"#, "0".repeat(64));
    status(artifact, &wrong);
    world.until("the digest is the tag's", Some(&program.log), || digest() == told);

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
