//! What a Target costs until it is ready: requests to the API server and to the registry, counted.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_embedded::Verb;
use serde_json::json;
use solar_controller::dev::registry::RegistryOperation;

use crate::support::{Simulation, on_paused_time};

fn target(name: &str) -> serde_json::Value {
    json!({
        "apiVersion": "solar.opendefense.cloud/v1alpha1",
        "kind": "Target",
        "metadata": { "name": name, "namespace": "fleet" },
        "spec": { "renderRegistryRef": { "name": "charts", "namespace": "platform" } },
    })
}

fn release(name: &str, version: &str) -> serde_json::Value {
    json!({
        "apiVersion": "solar.opendefense.cloud/v1alpha1",
        "kind": "Release",
        "metadata": { "name": name, "namespace": "fleet" },
        "spec": { "componentVersionRef": { "name": version }, "uniqueName": name, "values": { "a": 1 } },
    })
}

fn binding(target: &str, release: &str) -> serde_json::Value {
    json!({
        "apiVersion": "solar.opendefense.cloud/v1alpha1",
        "kind": "ReleaseBinding",
        "metadata": { "name": format!("{target}-{release}"), "namespace": "fleet" },
        "spec": { "targetRef": { "name": target }, "releaseRef": { "name": release } },
    })
}

const RELEASES: [(&str, &str); 3] =
    [("one", "podinfo-6.7.0"), ("two", "podinfo-6.7.1"), ("three", "podinfo-6.8.0")];

fn add_target(sim: &Simulation, name: &str) {
    for (release, _) in RELEASES {
        sim.server.install(binding(name, release)).unwrap();
    }
    sim.server.install(target(name)).unwrap();
}

/// By hand, for a Target whose three charts another Target holds already:
///
/// | what | requests |
/// | --- | --- |
/// | its finalizer | 1 |
/// | its status: what is missing; the version of the bootstrap; that it renders; ready | 4 |
/// | earlier versions of its bootstrap: artifacts, and the Secret with which the registry is asked for tags | 2 |
/// | bindings: three releases and the bootstrap | 4 |
/// | tasks, each created and each with its result | 8 |
/// | the bootstrap's artifact: made, its address, its digest | 3 |
/// | before the bootstrap is pushed: the task once more, and the Secret | 2 |
/// | together | 24 |
///
/// Payloads come from what the first Target fetched, and from the answers to own writes.
const BY_HAND: usize = 24;
/// What the issue allows for at the most.
const LIMIT: usize = 25;

#[test]
fn a_target_with_three_shared_releases_costs_what_it_must() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        sim.install_examples();
        for (name, version) in RELEASES {
            sim.server.install(release(name, version)).unwrap();
        }
        add_target(&sim, "first");
        sim.until("all Targets are ready", Simulation::all_ready).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        sim.server.reset_requests();
        sim.store.clear_log();
        add_target(&sim, "second");
        sim.until("the second Target is ready", Simulation::all_ready).await;
        tokio::time::sleep(Duration::from_secs(60)).await;

        let counted = requests(&sim);
        let together: usize = counted.values().sum();
        assert!(together <= LIMIT && together * 10 <= BY_HAND * 11, "{together} requests: {counted:#?}");
        assert_eq!(sim.store.count(RegistryOperation::PutManifest), 1, "only the bootstrap is pushed");
        assert!(
            sim.store.log().iter().all(|request| !request.repository.contains("release-")),
            "the shared charts cost no request: {:#?}",
            sim.store.log()
        );
        sim.shut_down().await;
    });
}

/// The controller's requests; without watches, events, and what a ReleaseBinding costs by itself.
fn requests(sim: &Simulation) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for request in sim.server.requests() {
        let apart = ["events", "leases", "releasebindings"].contains(&&*request.resource);
        if &*request.actor == "controller" && request.verb != Verb::Watch && !apart {
            let what = format!("{} {} {}", request.verb, request.resource, request.subresource);
            *counted.entry(what).or_default() += 1;
        }
    }
    counted
}

#[test]
fn a_chart_is_pushed_once_however_many_targets_share_it() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        sim.install_examples();
        for (name, version) in RELEASES {
            sim.server.install(release(name, version)).unwrap();
        }
        let began = tokio::time::Instant::now();
        for number in 0..60 {
            add_target(&sim, &format!("shared-{number}"));
        }
        sim.until("all Targets are ready", Simulation::all_ready).await;
        assert!(began.elapsed() < Duration::from_secs(1), "nobody waits for a timer: {:?}", began.elapsed());
        let charts = sim.tags().len() as u64;
        assert_eq!(sim.store.count(RegistryOperation::PutManifest), charts, "one push for each chart");
        sim.shut_down().await;
    });
}
