//! Random edits, deletions and faults; when they stop, everything converges. One seed is one run.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_embedded::{Fault as ApiFault, FaultPlan, Verb};
use serde_json::{Value, json};
use solar_controller::dev::registry::Fault;

use crate::support::{Simulation, on_paused_time};

const API: &str = "/apis/solar.opendefense.cloud/v1alpha1/namespaces";
/// Seeds of every run of the tests; a seed that found a fault stays here.
const SEEDS: std::ops::Range<u64> = 0..12;
const STEPS: usize = 40;

#[test]
fn random_edits_and_faults_converge_once_they_stop() {
    for seed in SEEDS {
        on_paused_time(move || run(seed));
    }
}

async fn run(seed: u64) {
    println!("seed {seed}");
    let sim = Simulation::new();
    sim.install_examples();
    let mut rng = fastrand::Rng::with_seed(seed);
    inject_faults(&sim, seed);
    for _ in 0..STEPS {
        act(&sim, &mut rng).await;
        tokio::time::sleep(Duration::from_millis(rng.u64(0..3_000))).await;
    }
    sim.server.set_faults(FaultPlan::new());
    sim.store.clear_faults();
    // What is on its way out goes first: an object that is made again too early would go with it.
    sim.until("no Target is terminating", |sim| {
        sim.server.objects("Target").all(|target| target["metadata"]["deletionTimestamp"].is_null())
    })
    .await;
    sim.install_examples();
    sim.until("all Targets are ready and nothing is left over", |sim| {
        sim.all_ready() && sim.server.count("Target") == 4 && sim.tags() == wanted_tags(sim)
    })
    .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let requests = sim.server.request_count();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(sim.server.request_count(), requests, "seed {seed}: {:?}", sim.server.requests().last());
    assert_eq!(sim.tags(), wanted_tags(&sim), "seed {seed}");
    sim.shut_down().await;
}

/// The tags of all artifacts that a binding names.
fn wanted_tags(sim: &Simulation) -> BTreeSet<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let bound: BTreeSet<String> =
        sim.server.objects("RenderBinding").map(|b| text(&b["spec"]["renderArtifactRef"]["name"])).collect();
    sim.server
        .objects("RenderArtifact")
        .filter(|artifact| bound.contains(&text(&artifact["metadata"]["name"])))
        .map(|artifact| {
            format!("{}:{}", text(&artifact["spec"]["repository"]), text(&artifact["spec"]["tag"]))
        })
        .collect()
}

fn inject_faults(sim: &Simulation, seed: u64) {
    let rng = std::sync::Mutex::new(fastrand::Rng::with_seed(seed ^ 1));
    sim.server.set_faults(FaultPlan::new().decide(move |request| {
        if *request.actor != *"controller" {
            return ApiFault::None;
        }
        let mut rng = rng.lock().unwrap();
        let is_write = !matches!(request.verb, Verb::Get | Verb::List | Verb::Watch);
        match rng.u32(0..100) {
            0..3 => ApiFault::internal(),
            3..6 if is_write => ApiFault::LoseAnswer,
            6..8 => ApiFault::too_many_requests(1),
            8..10 if is_write => ApiFault::conflict(),
            10..12 => ApiFault::Refuse,
            12..15 if request.verb == Verb::Watch => ApiFault::cut_watch_after(2),
            15..17 if request.verb == Verb::Watch => ApiFault::gone(),
            _ => ApiFault::None,
        }
    }));
    let mut rng = fastrand::Rng::with_seed(seed ^ 2);
    sim.store.set_faults(move |_| match rng.u32(0..100) {
        0..4 => Fault::Cut,
        4..8 => Fault::CutAfterEffect,
        8..11 => Fault::status(503, ""),
        11..13 => Fault::Latency(Duration::from_secs(3)),
        13..14 => Fault::HangAfterEffect,
        _ => Fault::None,
    });
}

async fn act(sim: &Simulation, rng: &mut fastrand::Rng) {
    match rng.u32(0..10) {
        0..3 => {
            let count = rng.u32(1..4);
            let release = ["web-stable", "web-next", "probe"][rng.usize(0..3)];
            if sim.server.get_object("Release", "fleet", release).is_some() {
                let patch = json!({ "spec": { "values": { "replicaCount": count } } });
                sim.patch("releases", "fleet", release, patch).await;
            }
        }
        3..5 => {
            let target = ["edge-1", "edge-2", "staging", "lab"][rng.usize(0..4)];
            sim.delete(&format!("{API}/fleet/targets/{target}")).await;
        }
        5 => delete_any(sim, rng, "RenderTask", "rendertasks").await,
        6 => delete_any(sim, rng, "RenderBinding", "renderbindings").await,
        7 => delete_any(sim, rng, "RenderArtifact", "renderartifacts").await,
        8 => delete_any(sim, rng, "ReleaseBinding", "releasebindings").await,
        // Makes what was deleted again, under the same names.
        _ => reinstall_missing(sim),
    }
}

async fn delete_any(sim: &Simulation, rng: &mut fastrand::Rng, kind: &str, plural: &str) {
    let names: Vec<String> = sim
        .server
        .objects(kind)
        .filter_map(|object| object["metadata"]["name"].as_str().map(ToOwned::to_owned))
        .collect();
    if let Some(name) = rng.choice(&names) {
        sim.delete(&format!("{API}/fleet/{plural}/{name}")).await;
    }
}

fn reinstall_missing(sim: &Simulation) {
    for example in solar_controller::dev::examples(crate::support::REGISTRY).unwrap() {
        let object = serde_json::to_value(&example.object).unwrap();
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        if sim.server.get_object(&example.resource.kind, &text("namespace"), &text("name")).is_none() {
            sim.server.install(object).unwrap();
        }
    }
}
