//! The pipeline as its users see it: from bindings to pulled charts, and back to nothing.

mod around;
mod artifacts;
mod bad_input;
mod edits;
mod failures;
mod jobs;
mod leftovers;
mod namespaces;
mod nonsense;
mod price;
mod protection;
mod protocol;
mod refusals;
mod rest;
mod scene;
#[path = "../support/edits.rs"]
mod status_edits;
mod strangers;
#[path = "../support/mod.rs"]
mod support;
mod takeover;
mod targets;
mod untagging;
mod wakes;

use kube_embedded::{Fault, FaultRule, Verb};
use serde_json::json;
use support::{OUR_KINDS, Simulation, on_paused_time};

const API: &str = "/apis/solar.opendefense.cloud/v1alpha1/namespaces";

#[test]
fn the_examples_become_ready_and_stay_silent() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        sim.install_examples();
        sim.until("all Targets are ready", Simulation::all_ready).await;
        let tags = sim.tags();
        assert_eq!(tags.iter().filter(|tag| tag.starts_with("fleet/bootstrap-")).count(), 4);
        // web-stable for edge-1 and edge-2, web-next for staging and lab, probe for edge-1 and edge-2.
        assert_eq!(tags.iter().filter(|tag| tag.starts_with("fleet/fleet/release-")).count(), 3, "{tags:?}");
        settle().await;
        let (requests, pushes) = (sim.server.request_count(), sim.store.log().len());
        tokio::time::sleep(std::time::Duration::from_secs(120)).await;
        assert_eq!(sim.store.log().len(), pushes, "no registry request follows");
        assert_eq!(
            sim.server.request_count(),
            requests,
            "no API request follows: {:?}",
            sim.server.requests().last()
        );
        sim.shut_down().await;
    });
}

/// Lets what is under way come to rest.
async fn settle() {
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
}

#[test]
fn changed_values_give_a_new_tag_and_a_higher_version_and_the_stale_tag_goes() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        sim.install_examples();
        sim.until("all Targets are ready", Simulation::all_ready).await;
        let before = tags_of(&sim, "fleet/fleet/release-web-next");
        assert_eq!(version(&sim, "staging"), 1);

        sim.patch("releases", "fleet", "web-next", json!({ "spec": { "values": { "replicaCount": 5 } } }))
            .await;
        sim.until("staging and lab have version 2", |sim| {
            sim.all_ready() && version(sim, "staging") == 2 && version(sim, "lab") == 2
        })
        .await;
        sim.until("one tag is left", |sim| tags_of(sim, "fleet/fleet/release-web-next").len() == 1).await;
        assert_ne!(tags_of(&sim, "fleet/fleet/release-web-next"), before);
        sim.until("the old bootstraps are gone", |sim| {
            tags_of(sim, "fleet/bootstrap-staging") == ["fleet/bootstrap-staging:v0.0.2"]
        })
        .await;
        assert_eq!(version(&sim, "edge-1"), 1, "a Target that is not bound to it is left alone");
        sim.shut_down().await;
    });
}

#[test]
fn a_shared_tag_outlives_the_first_target_and_goes_with_the_second() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        sim.install_examples();
        sim.until("all Targets are ready", Simulation::all_ready).await;
        let shared = tags_of(&sim, "fleet/fleet/release-web-stable");
        assert_eq!(shared.len(), 1);

        sim.delete(&format!("{API}/fleet/targets/edge-1")).await;
        sim.until("edge-1 is gone", |sim| sim.server.get_object("Target", "fleet", "edge-1").is_none()).await;
        sim.until("its bootstrap is gone", |sim| tags_of(sim, "fleet/bootstrap-edge-1").is_empty()).await;
        settle().await;
        assert_eq!(tags_of(&sim, "fleet/fleet/release-web-stable"), shared);

        sim.delete(&format!("{API}/fleet/targets/edge-2")).await;
        sim.until("the shared tag is gone", |sim| tags_of(sim, "fleet/fleet/release-web-stable").is_empty())
            .await;
        sim.until("edge-2 is gone", |sim| sim.server.get_object("Target", "fleet", "edge-2").is_none()).await;
        sim.shut_down().await;
    });
}

#[test]
fn deleting_everything_in_any_order_leaves_nothing() {
    for seed in 0..6 {
        on_paused_time(move || async move {
            let sim = Simulation::new();
            sim.install_examples();
            sim.until("all Targets are ready", Simulation::all_ready).await;
            let mut paths = Vec::new();
            for (kind, plural) in [
                ("Target", "targets"),
                ("Profile", "profiles"),
                ("ReleaseBinding", "releasebindings"),
                ("Release", "releases"),
                ("ComponentVersion", "componentversions"),
                ("Component", "components"),
                ("Registry", "registries"),
            ] {
                for object in sim.server.objects(kind) {
                    let namespace = object["metadata"]["namespace"].as_str().unwrap();
                    let name = object["metadata"]["name"].as_str().unwrap();
                    paths.push(format!("{API}/{namespace}/{plural}/{name}"));
                }
            }
            fastrand::Rng::with_seed(seed).shuffle(&mut paths);
            for path in &paths {
                sim.delete(path).await;
            }
            sim.until("nothing of ours is left", |sim| {
                OUR_KINDS
                    .iter()
                    .filter(|kind| **kind != "ReferenceGrant")
                    .all(|kind| sim.server.count(kind) == 0)
                    && sim.tags().is_empty()
            })
            .await;
            sim.shut_down().await;
        });
    }
}

fn tags_of(sim: &Simulation, repository: &str) -> Vec<String> {
    let prefix = format!("{repository}:");
    sim.tags().into_iter().filter(|tag| tag.starts_with(&prefix)).collect()
}

fn version(sim: &Simulation, target: &str) -> i64 {
    sim.server
        .get_object("Target", "fleet", target)
        .and_then(|target| target["status"]["bootstrapVersion"].as_i64())
        .unwrap_or_default()
}

#[test]
fn a_freed_render_slot_goes_to_whoever_waits_at_once() {
    on_paused_time(|| async {
        let (server, store) = support::world();
        // One slot, and half an hour until a refused task would ask again by itself.
        let options = solar_controller::actors::system::Options {
            max_concurrent_renders: 1,
            render_requeue_delay: std::time::Duration::from_secs(1_800),
            ..support::options()
        };
        let sim = Simulation::over(server, store, options);
        let began = tokio::time::Instant::now();
        sim.install_examples();
        sim.until("all Targets are ready", Simulation::all_ready).await;
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "after {:?}", began.elapsed());
        sim.shut_down().await;
    });
}

#[test]
fn a_list_that_is_never_answered_is_asked_for_again() {
    on_paused_time(|| async {
        let (server, store) = support::world();
        for verb in [Verb::List, Verb::Watch] {
            server.add_fault(FaultRule::new(Fault::Hang).verb(verb).resource("releases").times(1));
        }
        let sim = Simulation::over(server, store, support::options());
        sim.install_examples();
        sim.until("all Targets are ready", Simulation::all_ready).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_target_that_is_deleted_and_made_again_quickly_is_never_forgotten() {
    for seed in 0..8 {
        on_paused_time(move || async move {
            let sim = Simulation::new();
            sim.install_examples();
            sim.until("all Targets are ready", Simulation::all_ready).await;
            let mut rng = fastrand::Rng::with_seed(seed);
            let target = json!({
                "apiVersion": "solar.opendefense.cloud/v1alpha1",
                "kind": "Target",
                "metadata": { "name": "again", "namespace": "fleet" },
                "spec": { "renderRegistryRef": { "name": "charts", "namespace": "platform" } },
            });
            for _ in 0..40 {
                sim.delete(&format!("{API}/fleet/targets/again")).await;
                tokio::time::sleep(std::time::Duration::from_micros(rng.u64(0..30_000))).await;
                if sim.server.get_object("Target", "fleet", "again").is_none() {
                    sim.server.install(target.clone()).unwrap();
                }
                tokio::time::sleep(std::time::Duration::from_micros(rng.u64(0..30_000))).await;
            }
            settle().await;
            if sim.server.get_object("Target", "fleet", "again").is_none() {
                sim.server.install(target.clone()).unwrap();
            }
            sim.until("the Target has its conditions", |sim| {
                sim.condition("Target", "fleet", "again", "Ready")
                    .is_some_and(|(_, reason, _)| reason == "NoReleaseBindings")
            })
            .await;
            sim.shut_down().await;
        });
    }
}
