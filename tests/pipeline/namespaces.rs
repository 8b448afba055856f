//! A namespace that is deleted as a whole: everything in it at once.

use std::time::Duration;

use serde_json::json;

use crate::scene::{self, install_platform, install_target, is_ready, object, pass, registry, secret};
use crate::support::{OUR_KINDS, Simulation, on_paused_time};

/// The scene with every kind in the namespace `fleet`; its charts go to a Registry of `namespace`.
async fn full(namespace: &str) -> Simulation {
    let sim = Simulation::new();
    install_platform(&sim);
    let group = "solar.opendefense.cloud";
    let from = |kind: &str| json!({ "group": group, "kind": kind, "namespace": "fleet" });
    let to = json!([{ "group": group, "kind": "Registry" }]);
    let spec = json!({ "from": [from("Target"), from("RenderArtifact")], "to": to });
    sim.server.install(secret("platform", "push", "solar-dev")).unwrap();
    sim.server.install(registry("platform", "charts", "push")).unwrap();
    sim.server.install(object("ReferenceGrant", "platform", "fleet", spec)).unwrap();
    install_target(&sim, "one", "charts");
    install_target(&sim, "two", "charts");
    let there = json!({ "spec": { "renderRegistryRef": { "name": "charts", "namespace": namespace } } });
    for target in ["one", "two"] {
        sim.patch("targets", "fleet", target, there.clone()).await;
    }
    let images = object("Registry", "fleet", "images", json!({ "hostname": "ghcr.io" }));
    sim.server.install(images).unwrap();
    let spec = json!({ "targetRef": { "name": "one" }, "registryRef": { "name": "images" } });
    sim.server.install(object("RegistryBinding", "fleet", "one", spec)).unwrap();
    let spec = json!({ "releaseRef": { "name": "web" }, "targetSelector": {} });
    sim.server.install(object("Profile", "fleet", "all", spec)).unwrap();
    sim.until("both are ready", |sim| is_ready(sim, "one") && is_ready(sim, "two")).await;
    pass(Duration::from_secs(60)).await;
    assert!(sim.server.count("ReleaseBinding") == 4 && sim.server.count("RenderBinding") == 4);
    sim
}

/// Objects of ours in `fleet`.
fn left(sim: &Simulation) -> Vec<String> {
    let all = OUR_KINDS.into_iter().flat_map(|kind| {
        sim.server.objects(kind).filter(|it| it["metadata"]["namespace"] == "fleet").collect::<Vec<_>>()
    });
    all.map(|it| format!("{} {}", it["kind"].as_str().unwrap(), it["metadata"]["name"].as_str().unwrap()))
        .collect()
}

fn refused(sim: &Simulation) -> usize {
    sim.server.requests().iter().filter(|it| &*it.actor == "controller" && it.code == 403).count()
}

#[test]
fn a_namespace_whose_credentials_lie_elsewhere_ends_empty_and_takes_its_tags_along() {
    on_paused_time(|| async {
        let sim = full("platform").await;
        assert_eq!(sim.tags().len(), 3);
        sim.delete("/api/v1/namespaces/fleet").await;
        sim.until("the namespace is gone", |sim| sim.server.get_object("Namespace", "", "fleet").is_none())
            .await;
        assert_eq!((left(&sim), sim.tags().len()), (Vec::new(), 0));
        assert!(refused(&sim) < 20, "{} requests were refused", refused(&sim));
        sim.until("the Registry is let go", |sim| {
            sim.server.get_object("Registry", "platform", "charts").unwrap()["metadata"]["finalizers"]
                .is_null()
        })
        .await;
        pass(Duration::from_secs(600)).await;
        let requests = sim.server.request_count();
        pass(Duration::from_secs(120)).await;
        assert_eq!(sim.server.request_count(), requests, "no request follows");
        sim.shut_down().await;
    });
}

#[test]
fn a_namespace_whose_secret_went_first_keeps_exactly_its_artifacts_which_say_why_and_the_mend_frees_them() {
    on_paused_time(|| async {
        let sim = full("fleet").await;
        sim.delete("/api/v1/namespaces/fleet").await;
        sim.until("only artifacts, and the Registry that they name, are left", |sim| {
            left(sim).iter().all(|it| it.starts_with("RenderArtifact ") || it == "Registry charts")
        })
        .await;
        let artifacts = |sim: &Simulation| {
            left(sim).into_iter().filter_map(|it| it.strip_prefix("RenderArtifact ").map(ToOwned::to_owned))
        };
        assert_eq!(artifacts(&sim).count(), 3);
        sim.until("each says why", |sim| {
            artifacts(sim).all(|artifact| {
                let said = sim.condition("RenderArtifact", "fleet", &artifact, "OCICleanup");
                said.is_some_and(|(_, reason, message)| {
                    reason == "AuthFailed" && message.contains("Secret fleet/push does not exist")
                })
            })
        })
        .await;
        pass(Duration::from_secs(3_600)).await;
        assert_eq!(artifacts(&sim).count(), 3, "without credentials nothing is given up");
        // An event for each attempt, which come every five minutes by then.
        assert!(refused(&sim) < 90, "{} requests were refused", refused(&sim));
        // Nothing can be created in a namespace that goes, so the mend is a Registry elsewhere.
        for artifact in artifacts(&sim) {
            let change = json!({ "spec": { "registryRef": { "name": "charts", "namespace": "platform" } } });
            sim.patch("renderartifacts", "fleet", &artifact, change).await;
        }
        sim.until("the namespace is gone", |sim| sim.server.get_object("Namespace", "", "fleet").is_none())
            .await;
        assert_eq!((left(&sim), scene::tag(&sim)), (Vec::new(), None));
        sim.shut_down().await;
    });
}
