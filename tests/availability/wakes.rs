//! What makes a version look again, and how it and its Component are held.

use std::time::Duration;

use kube_embedded::{Fault as ApiFault, FaultPlan, FaultRule, Verb};
use serde_json::json;
use solar_controller::dev::registry::{Access, Behaviour, Fault, RegistryOperation, RegistryStore};
use solar_core::object::ObjectName;
use solar_core::routes::{ActorKey, COMPONENT_VERSION};

use crate::scene::{self, HOST, NAMESPACE, REPOSITORY, reason};
use crate::support::{self, Simulation, on_paused_time};

const PATH: &str = "/apis/solar.opendefense.cloud/v1alpha1/namespaces/team";
const RECHECK: &str = "solar.opendefense.cloud/availability-recheck";

/// A controller over one version whose descriptor is there, and has been looked for.
async fn checked() -> Simulation {
    let (server, _) = support::world();
    let store = RegistryStore::new(Behaviour::default(), Access::Open);
    scene::install_component(&server);
    scene::install(&server, scene::registry("r", HOST));
    let digest = scene::push(&store, REPOSITORY, "content").await;
    scene::install(&server, scene::version("v", HOST, digest.as_str()));
    let sim = Simulation::over(server, store, support::restless());
    sim.until("it is there", |sim| reason(&sim.server, "v") == "DescriptorAvailable").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    sim
}

fn checks(sim: &Simulation) -> u64 {
    sim.store.count(RegistryOperation::HeadManifest)
}

async fn passes(sim: &Simulation) -> u64 {
    let key = ActorKey::new(COMPONENT_VERSION, ObjectName::new(NAMESPACE, "v"));
    let actor = sim.running.shared.directory.find(&key).unwrap();
    actor.snapshot().await.unwrap().passes
}

fn finalizers(sim: &Simulation, kind: &str, name: &str) -> Vec<String> {
    let object = sim.server.get_object(kind, NAMESPACE, name).unwrap();
    let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.iter().map(|finalizer| finalizer.as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_value_of_the_annotation_asks_for_one_check_and_is_answered_with_its_result() {
    on_paused_time(|| async {
        let sim = checked().await;
        for value in ["1", "2"] {
            let before = checks(&sim);
            let patch = json!({ "metadata": { "annotations": { RECHECK: value } } });
            sim.patch("componentversions", NAMESPACE, "v", patch).await;
            sim.until("it is answered", |sim| {
                let version = sim.server.get_object("ComponentVersion", NAMESPACE, "v").unwrap();
                version["status"]["observedRecheck"] == value
            })
            .await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(checks(&sim), before + 1);
        }
        sim.shut_down().await;
    });
}

#[test]
fn an_annotation_that_was_set_while_nobody_was_there_is_answered() {
    on_paused_time(|| async {
        let sim = checked().await;
        let (server, store) = (sim.server.clone(), sim.store.clone());
        sim.running.shut_down().await;
        let patch = json!({ "metadata": { "annotations": { RECHECK: "now" } } });
        sim.patch("componentversions", NAMESPACE, "v", patch).await;
        let sim = Simulation::over(server, store, support::restless());
        sim.until("it is answered", |sim| {
            let version = sim.server.get_object("ComponentVersion", NAMESPACE, "v").unwrap();
            version["status"]["observedRecheck"] == "now"
        })
        .await;
        sim.shut_down().await;
    });
}

#[test]
fn updates_of_the_status_alone_cause_nothing() {
    on_paused_time(|| async {
        let sim = checked().await;
        let (before, looked) = (checks(&sim), passes(&sim).await);
        let uri = format!("{PATH}/componentversions/v/status");
        for number in 0..5 {
            let patch = json!({ "status": { "observedRecheck": format!("by somebody, {number}") } });
            let request = http::Request::patch(&uri)
                .header("content-type", "application/merge-patch+json")
                .body(serde_json::to_vec(&patch).unwrap())
                .unwrap();
            sim.client.request::<serde_json::Value>(request).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!((checks(&sim), passes(&sim).await), (before, looked));
        sim.shut_down().await;
    });
}

#[test]
fn a_changed_spec_is_looked_for_at_once() {
    on_paused_time(|| async {
        let sim = checked().await;
        let digest = scene::descriptor("other").digest().to_string();
        sim.patch("componentversions", NAMESPACE, "v", json!({ "spec": { "digest": digest } })).await;
        sim.until("it is missing", |sim| reason(&sim.server, "v") == "DescriptorMissingPending").await;
        for (digest, wanted) in [(json!(null), "NoDigest"), (json!("latest"), "NoDigest")] {
            sim.patch("componentversions", NAMESPACE, "v", json!({ "spec": { "digest": digest } })).await;
            sim.until("it says so", |sim| reason(&sim.server, "v") == wanted).await;
        }
        sim.shut_down().await;
    });
}

#[test]
fn a_registry_that_goes_comes_or_changes_is_heeded_at_once() {
    on_paused_time(|| async {
        let sim = checked().await;
        sim.delete(&format!("{PATH}/registries/r")).await;
        sim.until("it is gone", |sim| reason(&sim.server, "v") == "RegistryNotConfigured").await;
        let before = checks(&sim);
        tokio::time::sleep(Duration::from_secs(700)).await;
        assert_eq!(checks(&sim), before, "without a Registry nobody is asked");
        scene::install(&sim.server, scene::registry("again", HOST));
        sim.until("it is there again", |sim| reason(&sim.server, "v") == "DescriptorAvailable").await;
        sim.store.set_faults(|_| Fault::status(403, "DENIED"));
        let change = json!({ "spec": { "targetPullSecretName": "other" } });
        sim.patch("registries", NAMESPACE, "again", change).await;
        sim.until("it was asked anew", |sim| reason(&sim.server, "v") == "RegistryUnreachable").await;
        sim.store.clear_faults();
        let change = json!({ "spec": { "hostname": "elsewhere.example" } });
        sim.patch("registries", NAMESPACE, "again", change).await;
        sim.until("it has moved", |sim| reason(&sim.server, "v") == "RegistryNotConfigured").await;
        sim.shut_down().await;
    });
}

#[test]
fn a_version_on_its_components_registry_follows_it() {
    on_paused_time(|| async {
        let sim = checked().await;
        let change = json!({ "spec": { "registry": null, "componentName": null } });
        sim.patch("componentversions", NAMESPACE, "v", change).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(reason(&sim.server, "v"), "DescriptorAvailable");
        sim.patch("components", NAMESPACE, "web", json!({ "spec": { "registry": "moved.example" } })).await;
        sim.until("it followed", |sim| reason(&sim.server, "v") == "RegistryNotConfigured").await;
        scene::install(&sim.server, scene::registry("moved", "moved.example"));
        sim.until("it is found there", |sim| reason(&sim.server, "v") == "DescriptorAvailable").await;
        sim.shut_down().await;
    });
}

#[test]
fn a_version_holds_itself_and_its_component_and_goes_without_asking_the_registry() {
    on_paused_time(|| async {
        let sim = checked().await;
        assert_eq!(
            finalizers(&sim, "ComponentVersion", "v"),
            ["solar.opendefense.cloud/componentversion-finalizer"]
        );
        assert_eq!(finalizers(&sim, "Component", "web"), ["solar.opendefense.cloud/component-ref"]);
        sim.delete(&format!("{PATH}/components/web")).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(finalizers(&sim, "Component", "web"), ["solar.opendefense.cloud/component-ref"]);
        // Nobody answers there any more, and it goes all the same.
        sim.store.set_faults(|_| Fault::Hang);
        let patch = json!({ "metadata": { "annotations": { RECHECK: "hangs" } } });
        sim.patch("componentversions", NAMESPACE, "v", patch).await;
        sim.delete(&format!("{PATH}/componentversions/v")).await;
        sim.until("both are gone", |sim| {
            sim.server.count("ComponentVersion") == 0 && sim.server.count("Component") == 0
        })
        .await;
        sim.shut_down().await;
    });
}

#[test]
fn a_version_that_a_release_names_stays_until_the_release_goes_and_is_not_looked_for_any_more() {
    on_paused_time(|| async {
        let sim = checked().await;
        let spec = json!({ "componentVersionRef": { "name": "v" }, "uniqueName": "web" });
        scene::install(&sim.server, scene::object("Release", "r", spec));
        sim.until("it is held", |sim| finalizers(sim, "ComponentVersion", "v").len() == 2).await;
        sim.delete(&format!("{PATH}/componentversions/v")).await;
        sim.until("it lets go of itself", |sim| {
            finalizers(sim, "ComponentVersion", "v") == ["solar.opendefense.cloud/componentversion-ref"]
        })
        .await;
        let before = checks(&sim);
        tokio::time::sleep(Duration::from_secs(700)).await;
        assert_eq!(checks(&sim), before);
        assert_eq!(finalizers(&sim, "Component", "web"), ["solar.opendefense.cloud/component-ref"]);
        sim.delete(&format!("{PATH}/releases/r")).await;
        sim.until("it is gone", |sim| sim.server.count("ComponentVersion") == 0).await;
        sim.until("nothing holds the Component", |sim| finalizers(sim, "Component", "web").is_empty()).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_component_that_cannot_be_held_keeps_nobody_from_looking() {
    on_paused_time(|| async {
        let (server, _) = support::world();
        let store = RegistryStore::new(Behaviour::default(), Access::Open);
        scene::install_component(&server);
        scene::install(&server, scene::registry("r", HOST));
        let digest = scene::push(&store, REPOSITORY, "content").await;
        scene::install(&server, scene::version("v", HOST, digest.as_str()));
        server.add_fault(FaultRule::new(ApiFault::unavailable()).verb(Verb::Patch).resource("components"));
        let sim = Simulation::over(server, store, support::restless());
        sim.until("it is there", |sim| reason(&sim.server, "v") == "DescriptorAvailable").await;
        assert!(finalizers(&sim, "Component", "web").is_empty());
        sim.server.set_faults(FaultPlan::default());
        sim.until("it is held after all", |sim| !finalizers(sim, "Component", "web").is_empty()).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_version_whose_component_comes_later_holds_it_then() {
    on_paused_time(|| async {
        let (server, _) = support::world();
        let store = RegistryStore::new(Behaviour::default(), Access::Open);
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
        scene::install(&server, namespace);
        scene::install(&server, scene::registry("r", HOST));
        let digest = scene::push(&store, REPOSITORY, "content").await;
        scene::install(&server, scene::version("v", HOST, digest.as_str()));
        let sim = Simulation::over(server, store, support::restless());
        sim.until("it needs no Component", |sim| reason(&sim.server, "v") == "DescriptorAvailable").await;
        let spec = json!({ "scheme": "oci", "registry": HOST, "repository": REPOSITORY });
        scene::install(&sim.server, scene::object("Component", "web", spec));
        sim.until("it is held", |sim| {
            finalizers(sim, "Component", "web") == ["solar.opendefense.cloud/component-ref"]
        })
        .await;
        // A finalizer that somebody took away comes back.
        for (plural, name) in [("components", "web"), ("componentversions", "v")] {
            sim.patch(plural, NAMESPACE, name, json!({ "metadata": { "finalizers": null } })).await;
        }
        sim.until("both are held again", |sim| {
            finalizers(sim, "Component", "web").len() == 1
                && finalizers(sim, "ComponentVersion", "v").len() == 1
        })
        .await;
        sim.shut_down().await;
    });
}
