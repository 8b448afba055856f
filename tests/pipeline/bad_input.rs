//! What is wrong is said where a person looks, with the mend; and where the surroundings were at fault, the pipeline goes
//! on by itself when the cause is gone.

use kube_embedded::{Fault as ApiFault, FaultPlan, FaultRule, Verb};
use serde_json::json;
use solar_controller::dev::registry::Access;

use crate::support::{Simulation, on_paused_time};

/// The example objects, of which `change` makes bad ones.
fn with_examples(change: impl Fn(&mut serde_json::Value) + Send + 'static) -> Simulation {
    let sim = Simulation::new();
    for example in solar_controller::dev::examples(crate::support::REGISTRY).unwrap() {
        let mut object = serde_json::to_value(&example.object).unwrap();
        change(&mut object);
        sim.server.install(object).unwrap();
    }
    sim
}

fn is(object: &serde_json::Value, kind: &str, name: &str) -> bool {
    object["kind"] == kind && object["metadata"]["name"] == name
}

/// Waits until the Target `lab` is not rendered for a failed release, and answers the message.
async fn failure(sim: &Simulation) -> String {
    let failed = |sim: &Simulation| sim.condition("Target", "fleet", "lab", "ReleasesRendered");
    sim.until("lab's release failed", |sim| {
        failed(sim).is_some_and(|(status, reason, _)| status == "False" && reason == "ReleaseFailed")
    })
    .await;
    let task = sim.server.objects("RenderTask").find(|task| {
        let conditions = task["status"]["conditions"].as_array();
        task["spec"]["ownerName"] == "lab"
            && conditions.is_some_and(|conditions| {
                conditions.iter().any(|c| c["type"] == "JobFailed" && c["status"] == "True")
            })
    });
    assert!(task.is_some(), "the RenderTask says so too: {}", sim.describe());
    failed(sim).unwrap().2
}

const REPAIRED_SECRET: &str =
    r#"{"auths": {"127.0.0.1:5000": {"username": "solar", "password": "solar-dev"}}}"#;

fn install_secret(sim: &Simulation, config: &str) {
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": "charts-push", "namespace": "platform" },
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": { ".dockerconfigjson": config },
    });
    sim.server.install(secret).unwrap();
}

#[test]
fn a_missing_secret_is_named_and_the_charts_follow_once_it_exists() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        for example in solar_controller::dev::examples(crate::support::REGISTRY).unwrap() {
            if example.resource.kind != "Secret" {
                sim.server.install(serde_json::to_value(&example.object).unwrap()).unwrap();
            }
        }
        let message = failure(&sim).await;
        assert!(message.contains("Secret platform/charts-push does not exist"), "{message}");
        install_secret(&sim, REPAIRED_SECRET);
        sim.until("all Targets are ready", Simulation::all_ready).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_malformed_secret_is_named_without_its_content_and_the_charts_follow_once_it_is_mended() {
    on_paused_time(|| async {
        let sim = with_examples(|object| {
            if is(object, "Secret", "charts-push") {
                object["stringData"] = json!({
                    ".dockerconfigjson": "{\"auths\": {\"127.0.0.1:5000\": {\"auth\": \"hunter2!\"}}}"
                });
            }
        });
        let message = failure(&sim).await;
        assert!(message.contains("platform/charts-push"), "{message}");
        assert!(message.contains(".dockerconfigjson"), "{message}");
        assert!(!sim.describe().contains("hunter2"), "the content stays secret");
        install_secret(&sim, REPAIRED_SECRET);
        sim.until("all Targets are ready", Simulation::all_ready).await;
        sim.shut_down().await;
    });
}

#[test]
fn wrong_credentials_are_said_and_the_charts_follow_once_they_are_right() {
    on_paused_time(|| async {
        let sim = with_examples(|_| {});
        sim.store.set_access(Access::basic("solar", "another"));
        let message = failure(&sim).await;
        assert!(message.contains("401"), "{message}");
        assert!(message.contains("127.0.0.1:5000"), "{message}");
        assert!(!sim.describe().contains("solar-dev"), "the password stays secret");
        sim.store.set_access(Access::basic("solar", "solar-dev"));
        sim.until("all Targets are ready", Simulation::all_ready).await;
        sim.shut_down().await;
    });
}

#[test]
fn an_entrypoint_that_is_not_in_resources_is_final_until_the_version_is_mended() {
    on_paused_time(|| async {
        let sim = with_examples(|object| {
            if is(object, "ComponentVersion", "podinfo-6.8.0") {
                object["spec"]["entrypoint"]["resourceName"] = json!("nowhere");
            }
        });
        let message = failure(&sim).await;
        assert!(message.contains("nowhere"), "{message}");
        sim.until("the others are ready", |sim| {
            ["edge-1", "edge-2"].iter().all(|target| {
                sim.condition("Target", "fleet", target, "Ready").is_some_and(|(status, ..)| status == "True")
            })
        })
        .await;
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        let requests = sim.server.request_count();
        tokio::time::sleep(std::time::Duration::from_secs(120)).await;
        assert_eq!(sim.server.request_count(), requests, "nothing is tried again");
        let mend = json!({ "spec": { "entrypoint": { "resourceName": "chart" } } });
        sim.patch("componentversions", "fleet", "podinfo-6.8.0", mend).await;
        sim.until("all Targets are ready", Simulation::all_ready).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_registry_without_a_grant_is_said_and_the_grant_lets_the_charts_follow() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        let examples = solar_controller::dev::examples(crate::support::REGISTRY).unwrap();
        let mut grant = None;
        for example in examples {
            let object = serde_json::to_value(&example.object).unwrap();
            if example.resource.kind == "ReferenceGrant" {
                grant = Some(object);
            } else {
                sim.server.install(object).unwrap();
            }
        }
        sim.until("lab says so", |sim| {
            sim.condition("Target", "fleet", "lab", "RegistryResolved").is_some_and(
                |(status, reason, message)| {
                    status == "False" && reason == "NotGranted" && message.contains("platform")
                },
            )
        })
        .await;
        sim.server.install(grant.unwrap()).unwrap();
        sim.until("all Targets are ready", Simulation::all_ready).await;
        sim.shut_down().await;
    });
}

/// A Target whose release chart is there already, so that the look for earlier bootstrap versions is the first request
/// with its own Registry's credentials.
fn second_registry(secret: &str) -> [serde_json::Value; 4] {
    let object = |kind: &str, namespace: &str, name: &str, spec: serde_json::Value| {
        json!({
            "apiVersion": "solar.opendefense.cloud/v1alpha1",
            "kind": kind,
            "metadata": { "name": name, "namespace": namespace },
            "spec": spec,
        })
    };
    [
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "other-push", "namespace": "platform" },
            "type": "kubernetes.io/basic-auth",
            "stringData": { "username": "solar", "password": secret },
        }),
        object(
            "Registry",
            "platform",
            "other",
            json!({
                "hostname": crate::support::REGISTRY,
                "plainHTTP": true,
                "solarSecretRef": { "name": "other-push" },
                "targetPullSecretName": "charts-pull",
            }),
        ),
        object(
            "Target",
            "fleet",
            "late",
            json!({
                "renderRegistryRef": { "name": "other", "namespace": "platform" },
            }),
        ),
        object(
            "ReleaseBinding",
            "fleet",
            "late-probe",
            json!({
                "targetRef": { "name": "late" },
                "releaseRef": { "name": "probe" },
            }),
        ),
    ]
}

#[test]
fn a_look_for_earlier_versions_that_fails_says_why_and_is_tried_again_with_backoff() {
    on_paused_time(|| async {
        let sim = with_examples(|_| {});
        sim.until("all Targets are ready", Simulation::all_ready).await;
        for object in second_registry("wrong") {
            sim.server.install(object).unwrap();
        }
        sim.until("late says so", |sim| {
            sim.condition("Target", "fleet", "late", "BootstrapReady").is_some_and(|(_, reason, message)| {
                reason == "Failed" && message.contains("401") && message.contains("127.0.0.1:5000")
            })
        })
        .await;
        let before = sim.store.log().len();
        tokio::time::sleep(std::time::Duration::from_secs(600)).await;
        let requests = sim.store.log().len() - before;
        assert!(requests < 60, "{requests} registry requests in ten minutes");
        let [secret, ..] = second_registry("solar-dev");
        sim.server.install(secret).unwrap();
        sim.until("all Targets are ready", Simulation::all_ready).await;
        sim.shut_down().await;
    });
}

/// A task for a chart that a Target has, made by hand with a Secret of its own, which is installed, and with one field
/// changed.
fn with_a_secret_of_its_own(sim: &Simulation, field: &str, value: &str) -> serde_json::Value {
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": "own", "namespace": "fleet" },
        "type": "kubernetes.io/basic-auth",
        "stringData": { "username": "solar", "password": "solar-dev" },
    });
    sim.server.install(secret).unwrap();
    let mut task = sim.server.objects("RenderTask").find(|task| task["spec"]["type"] == "release").unwrap();
    task["metadata"] = json!({ "name": "by-hand", "namespace": "fleet" });
    task["status"] = json!({});
    let spec = task["spec"].as_object_mut().unwrap();
    spec.remove("registryRef");
    spec.insert("pushSecretRef".to_owned(), json!({ "name": "own" }));
    spec.insert(field.to_owned(), json!(value));
    task
}

#[test]
fn a_tasks_own_basic_auth_secret_goes_only_to_the_host_whose_registry_names_it() {
    on_paused_time(|| async {
        let sim = with_examples(|_| {});
        sim.until("all Targets are ready", Simulation::all_ready).await;
        let task = with_a_secret_of_its_own(&sim, "baseURL", "attacker.example:5000");
        let requests = sim.store.log().len();
        sim.server.install(task).unwrap();
        sim.until("the task says so", |sim| {
            sim.condition("RenderTask", "fleet", "by-hand", "JobFailed")
                .is_some_and(|(status, _, message)| status == "True" && message.contains("Secret fleet/own"))
        })
        .await;
        assert_eq!(sim.store.log().len(), requests, "no request leaves");
        sim.shut_down().await;
    });
}

#[test]
fn a_task_with_a_secret_of_its_own_goes_on_at_once_when_a_registry_names_the_secret() {
    on_paused_time(|| async {
        let sim = with_examples(|_| {});
        sim.until("all Targets are ready", Simulation::all_ready).await;
        let task = with_a_secret_of_its_own(&sim, "repository", "fleet/by-hand");
        sim.server.install(task).unwrap();
        // Long enough for the waits between its attempts to have grown to minutes.
        tokio::time::sleep(std::time::Duration::from_secs(1_800)).await;
        let (status, _, message) = sim.condition("RenderTask", "fleet", "by-hand", "JobFailed").unwrap();
        assert_eq!(status, "True");
        assert!(
            message.contains("Secret fleet/own") && message.contains("create such a Registry"),
            "{message}"
        );
        let [_, mut registry, ..] = second_registry("solar-dev");
        registry["metadata"]["namespace"] = json!("fleet");
        registry["spec"]["solarSecretRef"] = json!({ "name": "own" });
        sim.server.install(registry).unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        let succeeded = sim.condition("RenderTask", "fleet", "by-hand", "JobSucceeded");
        assert!(succeeded.is_some_and(|(status, ..)| status == "True"), "{}", sim.describe());
        sim.shut_down().await;
    });
}

#[test]
fn a_failed_look_for_earlier_versions_that_is_not_wanted_any_more_is_no_busy_loop() {
    on_paused_time(|| async {
        let sim = with_examples(|_| {});
        sim.until("all Targets are ready", Simulation::all_ready).await;
        for object in second_registry("wrong") {
            sim.server.install(object).unwrap();
        }
        sim.until("late says so", |sim| {
            sim.condition("Target", "fleet", "late", "BootstrapReady")
                .is_some_and(|(_, reason, _)| reason == "Failed")
        })
        .await;
        sim.delete("/apis/solar.opendefense.cloud/v1alpha1/namespaces/fleet/releasebindings/late-probe")
            .await;
        // An actor that wakes itself after no time at all would keep this clock from moving.
        tokio::time::sleep(std::time::Duration::from_secs(600)).await;
        sim.until("late has nothing to do", |sim| {
            sim.condition("Target", "fleet", "late", "Ready")
                .is_some_and(|(_, reason, _)| reason == "NoReleaseBindings")
        })
        .await;
        sim.shut_down().await;
    });
}

/// A world whose definition of Targets has no rules, as an older one may have had.
fn world_without_rules() -> Simulation {
    let (server, store) = crate::support::world();
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    for crd in solar_api::crds() {
        let mut crd = serde_json::to_value(crd).unwrap();
        if crd["spec"]["names"]["kind"] == "Target" {
            let version = crd["spec"]["versions"][0].as_object_mut().unwrap();
            version.remove("selectableFields");
            version.insert("schema".to_owned(), json!({ "openAPIV3Schema": anything }));
            server.apply_crd(crd).unwrap();
        }
    }
    Simulation::over(server, store, crate::support::options())
}

#[test]
fn an_object_that_cannot_be_read_is_left_out_and_the_others_of_its_kind_go_on() {
    on_paused_time(|| async {
        let unreadable = json!({
            "apiVersion": "solar.opendefense.cloud/v1alpha1",
            "kind": "Target",
            "metadata": { "name": "unreadable", "namespace": "fleet" },
            "spec": { "renderRegistryRef": "not a reference" },
        });
        let sim = world_without_rules();
        sim.install_examples();
        // Once in the list, and once more when every watch is made anew.
        sim.server.install(unreadable).unwrap();
        sim.server.expire_watches(|_| true);
        sim.until("the others are ready", |sim| {
            ["edge-1", "edge-2", "staging", "lab"].iter().all(|target| {
                sim.condition("Target", "fleet", target, "Ready").is_some_and(|(status, ..)| status == "True")
            })
        })
        .await;
        let mend = json!({ "spec": { "renderRegistryRef": { "name": "charts", "namespace": "platform" } } });
        sim.patch("targets", "fleet", "unreadable", mend).await;
        sim.until("the mended one is looked at", |sim| {
            sim.condition("Target", "fleet", "unreadable", "Ready").is_some()
        })
        .await;
        sim.shut_down().await;
    });
}

#[test]
fn a_watch_that_is_ahead_of_its_api_server_lists_anew() {
    on_paused_time(|| async {
        let sim = crate::scene::ready().await;
        let lists = || sim.server.count_requests(Verb::List, "releases");
        let before = lists();
        let behind = ApiFault::status(504, "Timeout", "Timeout: Too large resource version: 9, current: 1");
        sim.server.add_fault(FaultRule::new(behind).verb(Verb::Watch).resource("releases"));
        // A watch ends by itself after five minutes.
        tokio::time::sleep(std::time::Duration::from_secs(600)).await;
        assert!(lists() > before, "otherwise it would be blind for ever");
        sim.server.set_faults(FaultPlan::new());
        sim.patch("releases", "fleet", "web", json!({ "spec": { "values": { "replicaCount": 7 } } })).await;
        sim.until("a change is seen again", |sim| {
            let target = sim.server.get_object("Target", "fleet", "one").unwrap();
            target["status"]["bootstrapVersion"] == 2 && crate::scene::is_ready(sim, "one")
        })
        .await;
        sim.shut_down().await;
    });
}

#[test]
fn a_kind_that_cannot_be_listed_is_asked_for_less_and_less_often() {
    on_paused_time(|| async {
        let (server, store) = crate::support::world();
        server.add_fault(FaultRule::new(ApiFault::unavailable()).verb(Verb::List).resource("releases"));
        let sim = Simulation::over(server, store, crate::support::options());
        sim.install_examples();
        tokio::time::sleep(std::time::Duration::from_secs(600)).await;
        let lists = sim.server.count_requests(Verb::List, "releases");
        // Doubling from 0.8 s to 30 s with jitter: about six until the longest wait is reached, then one each half minute.
        assert!((15..60).contains(&lists), "{lists} lists in ten minutes");
        sim.server.set_faults(FaultPlan::new());
        sim.until("all Targets are ready", Simulation::all_ready).await;
        sim.shut_down().await;
    });
}
