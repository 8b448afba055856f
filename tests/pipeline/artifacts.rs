//! Rules of RenderArtifacts and their bindings on the whole system: what a clean-up needs and when it goes on, what is
//! never touched, and what a person does at the wrong moment.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_embedded::{Fault as ApiFault, FaultPlan, Verb};
use serde_json::{Value, json};
use solar_controller::dev::registry::{Access, Fault, LogEntry, RegistryOperation};
use tokio::time::Instant;

use crate::scene::{
    HERE, RELEASE, Traffic, cleanup_failure, delete_target, install_platform, install_target, is_ready,
    kill_and_start, object, pass, ready, registry, secret, tag, until_all_gone, until_cleanup_fails,
};
use crate::support::{REGISTRY, Simulation, on_paused_time, options, start};

/// How long "at once" may take.
const AT_ONCE: Duration = Duration::from_secs(5);
/// The longest wait between two attempts, with its jitter and the attempt itself.
const NEXT_RETRY: Duration = Duration::from_secs(400);
const GROUP: &str = "solar.opendefense.cloud";

fn is_about_artifacts(event: &Value) -> bool {
    ["regarding", "involvedObject"].iter().any(|field| event[field]["kind"] == "RenderArtifact")
}

/// Notes of the Warning events about RenderArtifacts.
pub fn warnings(sim: &Simulation) -> Vec<String> {
    let note = |event: Value| {
        event["note"].as_str().or_else(|| event["message"].as_str()).unwrap_or_default().to_owned()
    };
    let about = |event: &Value| is_about_artifacts(event) && event["type"] == "Warning";
    sim.server.objects("Event").filter(about).map(note).collect()
}

fn events(sim: &Simulation, reason: &str) -> usize {
    let about = |event: &Value| is_about_artifacts(event) && event["reason"] == reason;
    sim.server.objects("Event").filter(about).count()
}

/// An artifact as a person writes one.
pub fn by_hand(name: &str, base_url: &str, repository: &str, tag: &str) -> Value {
    let spec = json!({
        "baseURL": base_url,
        "repository": repository,
        "tag": tag,
        "renderTaskRef": "by-hand",
        "registryRef": { "name": "charts" },
    });
    object("RenderArtifact", "fleet", name, spec)
}

/// A binding of a consumer that is no Target.
pub fn held_by_a_person(name: &str, artifact: &str) -> Value {
    let spec = json!({
        "renderArtifactRef": { "name": artifact },
        "ownerKind": "Person",
        "ownerName": "operator",
        "ownerNamespace": "fleet",
    });
    object("RenderBinding", "fleet", name, spec)
}

fn release_artifact(sim: &Simulation) -> Option<Value> {
    sim.server.objects("RenderArtifact").find(|artifact| artifact["spec"]["repository"] == RELEASE)
}

// ---- what a clean-up needs ----

fn grant(kind: &str, name: &str) -> Value {
    let spec = json!({
        "from": [{ "group": GROUP, "kind": kind, "namespace": "fleet" }],
        "to": [{ "group": GROUP, "kind": "Registry" }],
    });
    object("ReferenceGrant", "platform", name, spec)
}

/// The scene with the Registry in another namespace; the Target's grant is there, that of its artifacts as well.
async fn ready_far_away() -> Simulation {
    let sim = Simulation::new();
    install_platform(&sim);
    sim.server.install(secret("platform", "push", "solar-dev")).unwrap();
    sim.server.install(registry("platform", "shared", "push")).unwrap();
    sim.server.install(grant("Target", "targets")).unwrap();
    sim.server.install(grant("RenderArtifact", "artifacts")).unwrap();
    let spec = json!({ "renderRegistryRef": { "name": "shared", "namespace": "platform" } });
    sim.server.install(object("Target", "fleet", "one", spec)).unwrap();
    let spec = json!({ "targetRef": { "name": "one" }, "releaseRef": { "name": "web" } });
    sim.server.install(object("ReleaseBinding", "fleet", "one-web", spec)).unwrap();
    sim.until("the Target is ready", Simulation::all_ready).await;
    sim
}

/// Has the Target stand still, so that what changes around it concerns its artifacts alone; then lets it go, waits until
/// the clean-up says why it fails, and until it is deep in its backoff.
async fn cleanup_that_fails(sim: &Simulation, reason: &str, parts: &[&str]) {
    delete_target(sim, "one").await;
    let (found, message) = until_cleanup_fails(sim).await;
    assert_eq!(found, reason, "{message}");
    for part in parts {
        assert!(message.contains(part), "{message}");
    }
    assert!(warnings(sim).iter().any(|note| note.contains(parts[0])), "{:?}", warnings(sim));
    pass(Duration::from_secs(3_600)).await;
    assert!(cleanup_failure(sim).is_some(), "it does not give up: {}", sim.describe());
}

async fn suspend(sim: &Simulation) {
    let suspended = json!({ "metadata": { "annotations": { "solar.opendefense.cloud/suspend": "true" } } });
    sim.patch("targets", "fleet", "one", suspended).await;
}

async fn ends_at_once(sim: &Simulation) {
    let mended = Instant::now();
    until_all_gone(sim).await;
    assert!(mended.elapsed() < AT_ONCE, "it took {:?}", mended.elapsed());
    assert_eq!(events(sim, "OCICleanupSucceeded"), 2, "one for each tag");
}

/// What a failed clean-up waits after so many failures: doubled each time, less a quarter at the most.
fn is_backoff(wait: Duration, failures: usize) -> bool {
    let whole = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0].get(failures).copied().unwrap_or(300.0);
    (whole * 0.75..=whole + 0.1).contains(&wait.as_secs_f64())
}

/// What keeps the first chart from a mistyped host, and what happens until the hostname is corrected.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Typo {
    /// The Secret holds nothing for such a host.
    NoEntry,
    /// No registry answers there.
    NoAnswer,
    /// The same, and the controller is restarted.
    NoAnswerAndRestart,
    /// A push has begun, and its end is not known.
    LostPush,
    /// A push has been refused.
    RefusedPush,
}

/// Nothing in a status tells whether a push has begun: only the process that made the artifact knows that none has.
#[test]
fn the_artifact_of_a_mistyped_hostname_goes_without_a_request_where_no_push_has_begun() {
    for (typo, goes) in [
        (Typo::NoEntry, true),
        (Typo::NoAnswer, true),
        (Typo::NoAnswerAndRestart, false),
        (Typo::LostPush, false),
        (Typo::RefusedPush, false),
    ] {
        on_paused_time(move || async move {
            let mut sim = Simulation::new();
            install_platform(&sim);
            if typo != Typo::NoEntry {
                let entry = json!({ "username": "solar", "password": "solar-dev" });
                let config = json!({ "auths": { REGISTRY: entry, "mistyped.example": entry } });
                let mut both = secret("fleet", "push", "solar-dev");
                both["stringData"][".dockerconfigjson"] = json!(config.to_string());
                sim.server.install(both).unwrap();
            }
            let hostname = |host: &str| json!({ "spec": { "hostname": host } });
            sim.patch("registries", "fleet", "charts", hostname("mistyped.example")).await;
            Traffic::with_faults(&sim, move |info| match (typo, info.operation) {
                (Typo::NoAnswer | Typo::NoAnswerAndRestart, _)
                | (Typo::LostPush, RegistryOperation::PutManifest) => Fault::Cut,
                (Typo::RefusedPush, RegistryOperation::PutManifest) => Fault::status(403, "DENIED"),
                _ => Fault::None,
            });
            install_target(&sim, "one", "charts");
            sim.until(&format!("{typo:?}: the push fails"), |sim| {
                sim.condition("Target", "fleet", "one", "ReleasesRendered")
                    .is_some_and(|(_, reason, _)| reason == "ReleaseFailed")
            })
            .await;
            if typo == Typo::NoAnswerAndRestart {
                kill_and_start(&mut sim, "controller", "next", options());
                pass(Duration::from_secs(60)).await;
            }
            let elsewhere = |sim: &Simulation| {
                let mut artifacts = sim.server.objects("RenderArtifact");
                artifacts.find(|it| it["spec"]["baseURL"] == "mistyped.example")
            };
            let name = elsewhere(&sim).unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
            sim.store.set_faults(|_| Fault::None);
            sim.patch("registries", "fleet", "charts", hostname(REGISTRY)).await;
            sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
            let requests = sim.store.log().len();
            pass(Duration::from_secs(600)).await;
            assert_eq!(sim.store.log().len(), requests, "{typo:?}: nothing is asked for there");
            assert_eq!(elsewhere(&sim).is_none(), goes, "{typo:?}: {}", sim.describe());
            let said =
                sim.condition("RenderArtifact", "fleet", &name, "OCICleanup").map(|(_, reason, _)| reason);
            assert_eq!(said, (!goes).then(|| "AuthFailed".to_owned()), "{typo:?}");
            assert_eq!(warnings(&sim).is_empty(), goes, "{typo:?}: {:?}", warnings(&sim));
            assert_eq!(events(&sim, "OCICleanupSkipped"), usize::from(goes), "{typo:?}");
            assert_eq!(sim.tags().len(), 2, "{typo:?}: {:?}", sim.tags());
            sim.shut_down().await;
        });
    }
}

#[test]
fn a_clean_up_that_fails_is_tried_again_after_a_second_and_then_ever_later_up_to_five_minutes() {
    on_paused_time(|| async {
        let sim = ready().await;
        sim.store.set_access(Access::Open);
        let traffic = Traffic::with_faults(&sim, |info| match info.operation {
            RegistryOperation::DeleteTag => Fault::status(503, ""),
            _ => Fault::None,
        });
        delete_target(&sim, "one").await;
        pass(Duration::from_secs(2 * 3_600)).await;
        let seen = traffic.seen();
        let deletes = seen
            .iter()
            .filter(|it| it.info.operation == RegistryOperation::DeleteTag && it.info.repository == RELEASE);
        let tried: Vec<Instant> = deletes.map(|it| it.at).collect();
        let waits: Vec<Duration> = tried.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (failures, wait) in waits.iter().enumerate() {
            assert!(is_backoff(*wait, failures), "wait {failures} is {wait:?} of {waits:?}");
        }
        assert!(waits.len() > 25, "it never gives up: {waits:?}");
        assert!(waits[9..].windows(2).any(|pair| pair[0] != pair[1]), "with jitter: {waits:?}");
        sim.store.clear_faults();
        let back = Instant::now();
        until_all_gone(&sim).await;
        assert!(back.elapsed() <= Duration::from_secs(301), "{:?}", back.elapsed());
        sim.shut_down().await;
    });
}

/// The mend that `AuthFailed` names where the Registry has gone to another host.
#[test]
fn a_registry_that_a_person_names_in_the_artifact_is_worth_an_attempt_at_once() {
    on_paused_time(|| async {
        let sim = ready().await;
        suspend(&sim).await;
        let moved = json!({ "spec": { "hostname": "moved.example" } });
        sim.patch("registries", "fleet", "charts", moved).await;
        cleanup_that_fails(&sim, "AuthFailed", &["name a Registry with that hostname"]).await;
        sim.server.install(registry("fleet", "old", "push")).unwrap();
        pass(AT_ONCE).await;
        assert_eq!(sim.server.count("RenderArtifact"), 2, "nothing names it yet");
        for artifact in sim.server.objects("RenderArtifact") {
            let name = artifact["metadata"]["name"].as_str().unwrap();
            let named = json!({ "spec": { "registryRef": { "name": "old" } } });
            sim.patch("renderartifacts", "fleet", name, named).await;
        }
        ends_at_once(&sim).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_registry_without_a_secret_is_asked_anonymously_and_a_secret_is_worth_an_attempt_at_once() {
    on_paused_time(|| async {
        let sim = ready().await;
        suspend(&sim).await;
        sim.patch("registries", "fleet", "charts", json!({ "spec": { "solarSecretRef": null } })).await;
        let mend = "name a Secret with credentials in spec.solarSecretRef of Registry fleet/charts";
        cleanup_that_fails(&sim, "DeleteFailed", &[mend, "401", REGISTRY]).await;
        let given = json!({ "spec": { "solarSecretRef": { "name": "push" } } });
        sim.patch("registries", "fleet", "charts", given).await;
        ends_at_once(&sim).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_registry_that_moved_gets_no_request_and_its_return_is_worth_an_attempt_at_once() {
    on_paused_time(|| async {
        let sim = ready().await;
        suspend(&sim).await;
        let hostname = |host: &str| json!({ "spec": { "hostname": host } });
        sim.patch("registries", "fleet", "charts", hostname("moved.example")).await;
        let requests = sim.store.log().len();
        cleanup_that_fails(&sim, "AuthFailed", &["has the hostname moved.example", "set the hostname back"])
            .await;
        assert_eq!(sim.store.log().len(), requests, "no request leaves");
        sim.patch("registries", "fleet", "charts", hostname(REGISTRY)).await;
        ends_at_once(&sim).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_registry_that_was_forced_away_is_named_and_its_return_is_worth_an_attempt_at_once() {
    on_paused_time(|| async {
        let sim = ready().await;
        suspend(&sim).await;
        sim.delete(&format!("{HERE}/registries/charts")).await;
        let still = sim.server.get_object("Registry", "fleet", "charts");
        assert!(still.is_some(), "the artifacts hold it");
        sim.patch("registries", "fleet", "charts", json!({ "metadata": { "finalizers": null } })).await;
        sim.until("it is gone", |sim| sim.server.get_object("Registry", "fleet", "charts").is_none()).await;
        cleanup_that_fails(&sim, "AuthFailed", &["Registry fleet/charts does not exist: create it"]).await;
        sim.server.install(registry("fleet", "charts", "push")).unwrap();
        ends_at_once(&sim).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_registry_is_held_until_the_last_artifact_of_it_is_gone() {
    on_paused_time(|| async {
        let sim = ready().await;
        sim.store.set_faults(|info| match info.operation {
            RegistryOperation::DeleteTag => Fault::status(503, ""),
            _ => Fault::None,
        });
        delete_target(&sim, "one").await;
        until_cleanup_fails(&sim).await;
        sim.delete(&format!("{HERE}/registries/charts")).await;
        pass(Duration::from_secs(3_600)).await;
        let held = sim.server.get_object("Registry", "fleet", "charts").unwrap();
        assert_eq!(held["metadata"]["finalizers"], json!([solar_api::names::REGISTRY_REF_FINALIZER]));
        sim.store.clear_faults();
        until_all_gone(&sim).await;
        sim.until("the Registry goes", |sim| sim.server.get_object("Registry", "fleet", "charts").is_none())
            .await;
        sim.shut_down().await;
    });
}

#[test]
fn the_targets_grant_is_none_for_its_artifacts_and_their_own_is_worth_an_attempt_at_once() {
    on_paused_time(|| async {
        let sim = ready_far_away().await;
        let grants = "/apis/solar.opendefense.cloud/v1alpha1/namespaces/platform/referencegrants";
        sim.delete(&format!("{grants}/artifacts")).await;
        let requests = sim.store.log().len();
        let parts = [
            "no ReferenceGrant in namespace platform lets RenderArtifact objects of namespace fleet",
            "create",
        ];
        cleanup_that_fails(&sim, "AuthFailed", &parts).await;
        assert_eq!(sim.store.log().len(), requests, "no request leaves");
        sim.server.install(grant("RenderArtifact", "artifacts")).unwrap();
        ends_at_once(&sim).await;
        sim.shut_down().await;
    });
}

/// What is wrong with the Secret `push`, and what is said of it.
fn bad_secrets() -> Vec<(Option<Value>, &'static str, Vec<&'static str>)> {
    let with = |type_: &str, data: Value| {
        let mut secret = secret("fleet", "push", "");
        secret["type"] = json!(type_);
        secret["stringData"] = data;
        Some(secret)
    };
    let docker =
        |config: &str| with("kubernetes.io/dockerconfigjson", json!({ ".dockerconfigjson": config }));
    vec![
        (None, "AuthFailed", vec!["Secret fleet/push does not exist: create it"]),
        (
            docker(r#"{"auths": {"127.0.0.1:5000": {"auth": "hunter2"}}}"#),
            "AuthFailed",
            vec![
                "Secret fleet/push",
                ".dockerconfigjson",
                "\"auth\" of the host's entry does not stand for text",
            ],
        ),
        (
            docker(r#"{"auths": {}, "credsStore": "hunter2"}"#),
            "AuthFailed",
            vec!["Secret fleet/push", ".dockerconfigjson", "credential helper"],
        ),
        (
            docker(r#"{"auths": {"hunter2.example": {"auth": "dTpw"}}}"#),
            "AuthFailed",
            vec!["Secret fleet/push", "no entry for 127.0.0.1:5000"],
        ),
        (
            with("Opaque", json!({ "username": "solar", "password": "hunter2" })),
            "AuthFailed",
            vec!["Secret fleet/push", "use kubernetes.io/dockerconfigjson"],
        ),
        (
            with("kubernetes.io/basic-auth", json!({ "username": "solar" })),
            "AuthFailed",
            vec!["Secret fleet/push", "no key \"password\""],
        ),
        (
            with("kubernetes.io/basic-auth", json!({ "username": "solar", "password": "hunter2" })),
            "DeleteFailed",
            vec!["check Secret fleet/push, which Registry fleet/charts names", "401"],
        ),
    ]
}

#[test]
fn each_fault_of_a_secret_is_named_without_its_content_and_the_next_retry_goes_on() {
    for row in 0..bad_secrets().len() {
        on_paused_time(move || async move {
            let (bad, reason, parts) = bad_secrets().swap_remove(row);
            let sim = ready().await;
            sim.delete("/api/v1/namespaces/fleet/secrets/push").await;
            if let Some(bad) = bad {
                sim.server.install(bad).unwrap();
            }
            let requests = sim.store.log().len();
            cleanup_that_fails(&sim, reason, &parts).await;
            assert_eq!(
                sim.store.log().len() == requests,
                reason == "AuthFailed",
                "no request without credentials"
            );
            let told = format!("{} {:?}", sim.describe(), warnings(&sim));
            assert!(!told.contains("hunter2"), "the content stays secret: {told}");
            sim.delete("/api/v1/namespaces/fleet/secrets/push").await;
            sim.server.install(secret("fleet", "push", "solar-dev")).unwrap();
            let mended = Instant::now();
            until_all_gone(&sim).await;
            assert!(mended.elapsed() < NEXT_RETRY, "{parts:?}: {:?}", mended.elapsed());
            sim.shut_down().await;
        });
    }
}

#[test]
fn a_secret_whose_name_no_object_can_have_is_refused_before_any_request() {
    for name in
        ["../../kube-system/secrets/admin", "push?watch=true", "push#", "a/b", "%2e%2e", "Push", "push "]
    {
        on_paused_time(move || async move {
            let sim = ready().await;
            suspend(&sim).await;
            let named = json!({ "spec": { "solarSecretRef": { "name": name } } });
            sim.patch("registries", "fleet", "charts", named).await;
            sim.server.reset_requests();
            let (reads, requests) = (sim.server.count_requests(Verb::Get, "secrets"), sim.store.log().len());
            cleanup_that_fails(&sim, "AuthFailed", &["no Secret can be called", "correct the reference"])
                .await;
            assert_eq!(sim.server.count_requests(Verb::Get, "secrets"), reads, "{name}");
            let paths = sim.server.requests();
            assert!(paths.iter().all(|request| !format!("{request:?}").contains("/secrets/")), "{name}");
            assert_eq!(sim.store.log().len(), requests, "{name}");
            sim.patch(
                "registries",
                "fleet",
                "charts",
                json!({ "spec": { "solarSecretRef": { "name": "push" } } }),
            )
            .await;
            ends_at_once(&sim).await;
            sim.shut_down().await;
        });
    }
}

/// A host that is another spelling of the Registry's is its host; for any other no request leaves.
#[test]
fn credentials_go_only_to_the_host_that_the_registry_names() {
    let rows = [
        ("http://127.0.0.1:5000/", true),
        ("OCI://127.0.0.1:5000", true),
        ("127.0.0.1", false),
        ("127.0.0.1:5001", false),
        ("localhost:5000", false),
        ("127.0.0.1:5000.attacker.example", false),
        ("attacker.example:5000", false),
        ("[::ffff:127.0.0.1]:5000", false),
    ];
    for (host, same) in rows {
        on_paused_time(move || async move {
            let sim = ready().await;
            let requests = sim.store.log().len();
            sim.server.install(by_hand("by-hand", host, "team/app", "v1")).unwrap();
            sim.until("it is adopted", |sim| {
                let found = sim.server.get_object("RenderArtifact", "fleet", "by-hand");
                found.is_some_and(|found| found["metadata"]["finalizers"].is_array())
            })
            .await;
            sim.delete(&format!("{HERE}/renderartifacts/by-hand")).await;
            let gone =
                |sim: &Simulation| sim.server.get_object("RenderArtifact", "fleet", "by-hand").is_none();
            if same {
                sim.until("it is gone", gone).await;
                assert!(sim.store.log().len() > requests, "{host}");
            } else {
                pass(Duration::from_secs(3_600)).await;
                assert_eq!(sim.store.log().len(), requests, "{host}: no request leaves");
                if gone(&sim) {
                    // What no registry can hold.
                    assert!(host.contains("attacker.example") && !warnings(&sim).is_empty(), "{host}");
                } else {
                    let said = sim.condition("RenderArtifact", "fleet", "by-hand", "OCICleanup").unwrap();
                    assert_eq!((&*said.0, &*said.1), ("False", "AuthFailed"), "{host}");
                    assert!(
                        said.2.contains("Registry fleet/charts has the hostname 127.0.0.1:5000"),
                        "{said:?}"
                    );
                }
            }
            assert!(is_ready(&sim, "one"));
            sim.shut_down().await;
        });
    }
}

#[test]
fn an_artifact_that_no_registry_can_hold_goes_with_a_warning_and_without_a_request() {
    let rows = [
        ("127.0.0.1:5000", "Team/App", "v1", "repository \"Team/App\""),
        ("127.0.0.1:5000", "team/../app", "v1", "repository \"team/../app\""),
        ("127.0.0.1:5000", "team/app", "v 1", "tag \"v 1\""),
        ("127.0.0.1:5000", "team/äpp", "v1", "repository \"team/äpp\""),
        (" ", "team/app", "v1", "the hostname is empty"),
        ("charts.example/team", "team/app", "v1", "holds a path"),
        ("ftp://charts.example", "team/app", "v1", "holds a scheme"),
        ("charts.example:port", "team/app", "v1", "no valid port"),
        ("solar:hunter2@charts.example", "team/app", "v1", "holds a user or password"),
    ];
    for (host, repository, tag, said) in rows {
        on_paused_time(move || async move {
            let sim = ready().await;
            let requests = sim.store.log().len();
            sim.server.install(by_hand("by-hand", host, repository, tag)).unwrap();
            pass(Duration::from_secs(10)).await;
            sim.delete(&format!("{HERE}/renderartifacts/by-hand")).await;
            sim.until("it is let go", |sim| sim.server.count("RenderArtifact") == 2).await;
            pass(Duration::from_secs(10)).await;
            assert!(warnings(&sim).iter().any(|note| note.contains(said)), "{host}: {:?}", warnings(&sim));
            assert!(warnings(&sim).iter().all(|note| !note.contains("hunter2")));
            assert_eq!(sim.store.log().len(), requests, "no request leaves");
            sim.shut_down().await;
        });
    }
}

// ---- what lives ----

#[test]
fn a_finalizer_an_address_and_a_pin_that_somebody_took_from_a_living_artifact_are_put_back() {
    on_paused_time(|| async {
        let sim = ready().await;
        let before = release_artifact(&sim).unwrap();
        let name = before["metadata"]["name"].as_str().unwrap().to_owned();
        sim.patch("renderartifacts", "fleet", &name, json!({ "metadata": { "finalizers": null } })).await;
        sim.patch(
            "renderartifacts",
            "fleet",
            &name,
            json!({ "spec": { "registryRef": { "name": "other" } } }),
        )
        .await;
        sim.patch(
            "renderartifacts",
            "fleet",
            &format!("{name}/status"),
            json!({ "status": { "chartURL": "x" } }),
        )
        .await;
        pass(AT_ONCE).await;
        let now = release_artifact(&sim).unwrap();
        assert_eq!(now["metadata"]["finalizers"], before["metadata"]["finalizers"]);
        assert_eq!((&now["spec"], &now["status"]), (&before["spec"], &before["status"]));
        assert!(is_ready(&sim, "one"));
        sim.shut_down().await;
    });
}

#[test]
fn an_artifact_that_was_never_seen_bound_waits_for_the_grace_and_anew_after_a_restart() {
    on_paused_time(|| async {
        let mut sim = Simulation::new();
        sim.store.set_access(Access::Open);
        install_platform(&sim);
        let grace = options().artifact.unbound_grace;
        let since = Instant::now();
        sim.server.install(by_hand("by-hand", REGISTRY, "team/app", "v1")).unwrap();
        pass(grace * 4 / 5).await;
        assert_eq!(sim.server.count("RenderArtifact"), 1);
        kill_and_start(&mut sim, "controller", "next", options());
        let restarted = Instant::now();
        sim.until("it goes", |sim| sim.server.count("RenderArtifact") == 0).await;
        assert!(restarted.elapsed() >= grace, "{:?} after the restart", restarted.elapsed());
        assert!(since.elapsed() < grace * 2 + AT_ONCE, "{:?}", since.elapsed());

        // Where it was seen bound, nothing is waited for.
        sim.server.install(by_hand("by-hand", REGISTRY, "team/app", "v1")).unwrap();
        sim.server.install(held_by_a_person("held", "by-hand")).unwrap();
        pass(Duration::from_secs(3_600)).await;
        assert_eq!(sim.server.count("RenderArtifact"), 1, "it is held");
        sim.delete(&format!("{HERE}/renderbindings/held")).await;
        let left = Instant::now();
        sim.until("it goes", |sim| sim.server.count("RenderArtifact") == 0).await;
        assert!(left.elapsed() < AT_ONCE, "{:?}", left.elapsed());
        sim.shut_down().await;
    });
}

/// A namespace may have thousands of bindings: whether one artifact is bound is asked for by its name.
#[test]
fn the_bindings_of_an_artifact_are_listed_by_its_name_and_never_with_all_others() {
    on_paused_time(|| async {
        let sim = ready().await;
        install_target(&sim, "two", "charts");
        sim.until("both are ready", Simulation::all_ready).await;
        let mut wanted: Vec<String> = (sim.server.objects("RenderArtifact"))
            .map(|it| format!("spec.renderArtifactRef.name={}", it["metadata"]["name"].as_str().unwrap()))
            .collect();
        wanted.sort();
        let asked: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let noted = asked.clone();
        sim.server.set_faults(FaultPlan::new().decide(move |request| {
            if request.verb == Verb::List && &*request.resource == "renderbindings" {
                noted.lock().unwrap().insert(request.field_selector.to_string());
            }
            ApiFault::None
        }));
        for target in ["one", "two"] {
            delete_target(&sim, target).await;
        }
        until_all_gone(&sim).await;
        let mut asked = asked.lock().unwrap().clone();
        // Before a Target goes it is read whether it still has bindings.
        assert!(asked.remove("spec.ownerName=one") && asked.remove("spec.ownerName=two"), "{asked:?}");
        assert_eq!(asked.into_iter().collect::<Vec<_>>(), wanted);
        sim.shut_down().await;
    });
}

/// A binding that is being deleted holds until it is gone, whoever keeps it.
#[test]
fn a_binding_that_somebody_holds_keeps_tag_and_target_until_it_is_gone() {
    on_paused_time(|| async {
        let sim = ready().await;
        let artifact = release_artifact(&sim).unwrap()["metadata"]["name"].clone();
        let bindings = sim.server.objects("RenderBinding");
        let mut bindings = bindings.filter(|it| it["spec"]["renderArtifactRef"]["name"] == artifact);
        let name = bindings.next().unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
        let held = json!({ "metadata": { "finalizers": ["example.com/theirs"] } });
        sim.patch("renderbindings", "fleet", &name, held).await;
        delete_target(&sim, "one").await;
        sim.until("the other tag is gone", |sim| sim.tags().len() == 1).await;
        pass(Duration::from_secs(3_600)).await;
        assert!(tag(&sim).is_some(), "{}", sim.describe());
        let found = sim.server.get_object("RenderArtifact", "fleet", artifact.as_str().unwrap()).unwrap();
        assert!(found["metadata"]["deletionTimestamp"].is_null(), "nothing is decided yet: {found}");
        assert!(sim.server.get_object("Target", "fleet", "one").is_some(), "it still holds the tag");
        let free = json!({ "metadata": { "finalizers": null } });
        sim.patch("renderbindings", "fleet", &name, free).await;
        let let_go = Instant::now();
        until_all_gone(&sim).await;
        assert!(let_go.elapsed() < AT_ONCE, "{:?}", let_go.elapsed());
        sim.shut_down().await;
    });
}

// ---- a backup ----

/// What a backup keeps of an object: not what the API server gives, nor what a garbage collector would follow.
fn kept(mut object: Value, with_status: bool) -> Value {
    let meta = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
        meta.remove(field);
    }
    if !with_status {
        object.as_object_mut().unwrap().remove("status");
    }
    object
}

/// Restored object by object in any order, with minutes between, no tag is lost and nothing is pushed that is there.
#[test]
fn a_backup_that_is_restored_in_any_order_loses_no_tag_and_pushes_nothing_that_is_there() {
    let orders = [
        ["RenderArtifact", "RenderBinding", "Target"],
        ["RenderArtifact", "Target", "RenderBinding"],
        ["RenderBinding", "RenderArtifact", "Target"],
        ["RenderBinding", "Target", "RenderArtifact"],
        ["Target", "RenderArtifact", "RenderBinding"],
        ["Target", "RenderBinding", "RenderArtifact"],
    ];
    for order in orders {
        for with_status in [true, false] {
            on_paused_time(move || async move {
                let context = format!("{order:?} with_status={with_status}");
                let old = ready().await;
                let tags = old.store.all_tags();
                let backup: Vec<Value> = ["RenderArtifact", "RenderBinding", "Target"]
                    .iter()
                    .flat_map(|kind| old.server.objects(kind).collect::<Vec<_>>())
                    .map(|object| kept(object, with_status))
                    .collect();
                old.server.fence("controller");
                old.store.fence("controller");
                let (server, _) = crate::support::world();
                let store = old.store.clone();
                let running = start(&server, &store, options(), "next");
                let client = server.client("default");
                let sim = Simulation { server, store, client, running };
                sim.store.clear_log();
                install_platform(&sim);
                let bound = json!({ "targetRef": { "name": "one" }, "releaseRef": { "name": "web" } });
                sim.server.install(object("ReleaseBinding", "fleet", "one-web", bound)).unwrap();
                for kind in order {
                    for object in backup.iter().filter(|object| object["kind"] == kind) {
                        // One that the controller has made again by now is left, as backup tools do.
                        let name = object["metadata"]["name"].as_str().unwrap();
                        if sim.server.get_object(kind, "fleet", name).is_none() {
                            sim.server.install(object.clone()).unwrap();
                        }
                    }
                    pass(Duration::from_secs(60)).await;
                }
                sim.until("the Target is ready", Simulation::all_ready).await;
                pass(Duration::from_secs(1_200)).await;
                // The task of the bootstrap chart is not in the backup, and a version without its task is never given again
                // with other input: the chart has the next version, or that of a new Target that knows no other.
                let bootstraps: Vec<_> =
                    sim.tags().into_iter().filter(|tag| !tag.starts_with(RELEASE)).collect();
                let target = sim.server.get_object("Target", "fleet", "one").unwrap();
                assert_eq!(bootstraps, ["fleet/bootstrap-one:v0.0.2"], "{context}");
                assert_eq!(
                    target["status"]["chartURL"],
                    format!("oci://{REGISTRY}/{}", bootstraps[0]),
                    "{context}"
                );
                assert_eq!(target["status"]["bootstrapVersion"], 2, "{context}");
                let chart = tag(&sim).unwrap_or_else(|| panic!("{context}: {}", sim.describe()));
                let key = (RELEASE.to_owned(), chart);
                assert_eq!(sim.store.all_tags().get(&key), tags.get(&key), "{context}");
                let harmless = [
                    RegistryOperation::HeadManifest,
                    RegistryOperation::GetManifest,
                    RegistryOperation::Tags,
                ];
                let harmful =
                    |entry: &LogEntry| entry.repository == RELEASE && !harmless.contains(&entry.operation);
                let log = sim.store.log();
                assert_eq!(log.iter().find(|entry| harmful(entry)), None, "{context}");
                // The new version was pushed before the old tag was deleted, each once.
                let written = |entry: &&LogEntry| {
                    let writes = [RegistryOperation::PutManifest, RegistryOperation::DeleteTag];
                    // One that is refused first asks for credentials.
                    let is_done = entry.status.is_some_and(|status| status < 300);
                    entry.repository == "fleet/bootstrap-one" && writes.contains(&entry.operation) && is_done
                };
                let written: Vec<_> =
                    log.iter().filter(written).map(|it| (it.operation, it.reference.as_str())).collect();
                let wanted =
                    [(RegistryOperation::PutManifest, "v0.0.2"), (RegistryOperation::DeleteTag, "v0.0.1")];
                assert_eq!(written, wanted, "{context}");
                delete_target(&sim, "one").await;
                until_all_gone(&sim).await;
                sim.shut_down().await;
            });
        }
    }
}

// ---- what comes from outside while a tag is deleted ----

/// What somebody outside does at one request of a clean-up.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Another consumer's binding appears.
    Binds,
    /// It appears, and is gone again before the next request.
    BindsAndUnbinds,
    /// It was there, and goes.
    Unbinds,
    /// Another Target is bound to the release.
    BindsATarget,
}

/// What a clean-up asks for that its rules speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// The bindings of the release chart's artifact.
    Bindings,
    /// The deletion of its tag.
    Deletion,
    /// Anything else.
    Other,
}

/// A request of the controller, when it came and when it is served.
#[derive(Clone, Copy, Debug)]
struct Noted {
    asked: Asked,
    came: Instant,
    served: Instant,
}

/// How long every request takes: else a whole clean-up would take no time, and come before whatever is done beside it.
const USUAL: Duration = Duration::from_millis(4);

/// The requests of the controller in their order, API and registry together. One of them is served half a second late, so
/// that what is done meanwhile comes before it.
#[derive(Clone, Default)]
struct Stopped {
    noted: Arc<Mutex<Vec<Noted>>>,
    struck: Arc<AtomicBool>,
}

impl Stopped {
    /// Notes a request; answers how long it is held up.
    fn note(&self, asked: Asked, number: usize) -> Duration {
        let mut noted = self.noted.lock().unwrap();
        let strikes = noted.len() == number;
        let delay = if strikes { Duration::from_millis(500) } else { USUAL };
        let came = Instant::now();
        noted.push(Noted { asked, came, served: came + delay });
        self.struck.fetch_or(strikes, Ordering::SeqCst);
        delay
    }

    fn has_struck(&self) -> bool {
        self.struck.load(Ordering::SeqCst)
    }

    fn noted(&self) -> Vec<Noted> {
        self.noted.lock().unwrap().clone()
    }
}

fn stop_at(sim: &Simulation, number: usize, artifact: &str) -> Stopped {
    let stopped = Stopped::default();
    let (of_api, bindings) = (stopped.clone(), format!("spec.renderArtifactRef.name={artifact}"));
    sim.server.set_faults(FaultPlan::new().decide(move |request| {
        let counts = &*request.actor == "controller"
            && request.verb != Verb::Watch
            && (&*request.group == GROUP || &*request.resource == "secrets");
        let asked = if *request.field_selector == *bindings { Asked::Bindings } else { Asked::Other };
        if counts { ApiFault::Delay(of_api.note(asked, number)) } else { ApiFault::None }
    }));
    let of_registry = stopped.clone();
    sim.store.set_faults(move |request| {
        let deletes = request.operation == RegistryOperation::DeleteTag && request.repository == RELEASE;
        let asked = if deletes { Asked::Deletion } else { Asked::Other };
        Fault::Latency(of_registry.note(asked, number))
    });
    stopped
}

async fn act(sim: &Simulation, deed: Deed, artifact: &str) {
    let path = format!("{HERE}/renderbindings/outside");
    match deed {
        Deed::Binds => sim.server.install(held_by_a_person("outside", artifact)).unwrap(),
        Deed::BindsAndUnbinds => {
            sim.server.install(held_by_a_person("outside", artifact)).unwrap();
            sim.delete(&path).await;
        }
        Deed::Unbinds => sim.delete(&path).await,
        Deed::BindsATarget => install_target(sim, "two", "charts"),
    }
}

/// One clean-up, with `deed` done at request `number`; `false` when the clean-up has fewer requests.
async fn clean_up_with(deed: Deed, number: usize) -> bool {
    let context = format!("{deed:?} at request {number}");
    let sim = ready().await;
    let artifact = release_artifact(&sim).unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    let chart = tag(&sim).unwrap();
    if matches!(deed, Deed::Unbinds) {
        sim.server.install(held_by_a_person("outside", &artifact)).unwrap();
        pass(Duration::from_secs(5)).await;
    }
    sim.store.clear_log();
    let stopped = stop_at(&sim, number, &artifact);
    delete_target(&sim, "one").await;
    let deadline = Instant::now() + Duration::from_secs(60);
    while !stopped.has_struck() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let reached = stopped.has_struck();
    if reached {
        let began = Instant::now();
        act(&sim, deed, &artifact).await;
        let done = Instant::now();
        // What was sent when it was done may end.
        pass(Duration::from_secs(60)).await;
        sim.server.set_faults(FaultPlan::new());
        sim.store.clear_faults();
        pass(Duration::from_secs(600)).await;
        check_outcome(&sim, deed, &artifact, &chart, &context);
        if matches!(deed, Deed::Binds) {
            check_order(&sim, &stopped.noted(), (began, done), &context);
        }
    }
    sim.server.set_faults(FaultPlan::new());
    sim.store.clear_faults();
    // Whatever happened: a Target that wants the chart gets it, and at the end there is no orphan.
    if !matches!(deed, Deed::BindsATarget) || !reached {
        install_target(&sim, "two", "charts");
    }
    sim.until(&format!("{context}: the second Target is ready"), |sim| is_ready(sim, "two")).await;
    assert!(tag(&sim).is_some(), "{context}");
    delete_target(&sim, "two").await;
    sim.delete(&format!("{HERE}/renderbindings/outside")).await;
    until_all_gone(&sim).await;
    sim.shut_down().await;
    reached
}

/// Either the tag is there with its artifact, or both are gone.
fn check_outcome(sim: &Simulation, deed: Deed, artifact: &str, chart: &str, context: &str) {
    let found = sim.server.get_object("RenderArtifact", "fleet", artifact);
    let has_tag = tag(sim).as_deref() == Some(chart);
    match deed {
        Deed::Binds => {
            assert_eq!(found.is_some(), has_tag, "{context}: {}", sim.describe());
            assert!(sim.server.get_object("RenderBinding", "fleet", "outside").is_some(), "{context}");
        }
        Deed::BindsAndUnbinds | Deed::Unbinds => {
            assert!(found.is_none() && !has_tag, "{context}: {}", sim.describe());
        }
        Deed::BindsATarget => {
            assert!(is_ready(sim, "two") && has_tag, "{context}: {}", sim.describe());
        }
    }
}

/// Nothing is deleted after a list that showed the binding, which was made between these two times; and a binding that the
/// last list of a clean-up showed is warned of.
fn check_order(sim: &Simulation, noted: &[Noted], (began, done): (Instant, Instant), context: &str) {
    let lists = || noted.iter().filter(|it| it.asked == Asked::Bindings);
    // Timers count whole milliseconds.
    let tick = Duration::from_millis(2);
    let shown = lists().filter(|it| it.served > done + tick).map(|it| it.served).min();
    let unclear = lists().any(|it| it.served + tick >= began && it.served <= done + tick);
    let late =
        noted.iter().find(|it| it.asked == Asked::Deletion && shown.is_some_and(|shown| it.came >= shown));
    assert!(late.is_none(), "{context}: deleted after a list had shown the binding: {noted:?}");
    let deleted = tag(sim).is_none();
    let warned = warnings(sim).iter().any(|note| note.contains("appeared while the tag was deleted"));
    if !unclear {
        assert_eq!(warned, deleted && shown.is_some(), "{context}: {noted:?} {}", sim.describe());
    }
}

fn sweep(deed: Deed) {
    // Ends well above where any clean-up does.
    for number in 0..200 {
        if !on_paused_time(move || clean_up_with(deed, number)) {
            assert!(number > 10, "only {number} requests: the sweep sweeps nothing");
            return;
        }
    }
    panic!("a clean-up without an end");
}

#[test]
fn a_binding_that_a_person_makes_at_any_request_of_a_clean_up_keeps_the_tag_or_is_warned_of() {
    sweep(Deed::Binds);
}

#[test]
fn a_binding_that_comes_and_goes_at_any_request_of_a_clean_up_leaves_no_orphan() {
    sweep(Deed::BindsAndUnbinds);
}

#[test]
fn a_binding_that_a_person_takes_away_at_any_request_lets_the_tag_go() {
    sweep(Deed::Unbinds);
}

#[test]
fn a_target_that_binds_at_any_request_of_a_clean_up_gets_its_chart() {
    sweep(Deed::BindsATarget);
}
