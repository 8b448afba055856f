//! Statuses that somebody else writes: they are put right at once, and nobody fights over them without end.

use std::time::Duration;

use kube_embedded::{RequestRecord, Verb};
use serde_json::{Value, json};

use crate::scene::{
    HERE, RELEASE, delete_target, is_ready, kill_and_start, object, pass, ready, until_all_gone,
};
use crate::status_edits::{edits, of_ours};
use crate::support::{Simulation, on_paused_time, options};

/// Nothing but watches, which are made anew now and then.
async fn comes_to_rest(sim: &Simulation, context: &str) {
    sim.server.reset_requests();
    let registry = sim.store.log().len();
    pass(Duration::from_secs(600)).await;
    let mut work = sim.server.requests().into_iter();
    assert_eq!(work.find(|request| request.verb != Verb::Watch), None, "{context}: it comes to rest");
    assert_eq!(sim.store.log().len(), registry, "{context}: it comes to rest");
}

/// The scene with one object of each kind that has a status.
async fn scene() -> Simulation {
    let sim = ready().await;
    let spec = json!({ "releaseRef": { "name": "web" }, "targetSelector": { "matchLabels": { "a": "b" } } });
    sim.server.install(object("Profile", "fleet", "all", spec)).unwrap();
    let spec = json!({ "targetRef": { "name": "one" }, "registryRef": { "name": "charts" } });
    sim.server.install(object("RegistryBinding", "fleet", "pulls", spec)).unwrap();
    pass(Duration::from_secs(60)).await;
    sim
}

/// How often the controller wrote the object since the requests were reset.
fn own_writes(sim: &Simulation, name: &str) -> usize {
    let is_own = |request: &&RequestRecord| {
        &*request.actor == "controller" && request.verb == Verb::Patch && *request.name == *name
    };
    sim.server.requests().iter().filter(is_own).count()
}

/// The object of a kind that is edited; of tasks and artifacts that of the release chart.
fn name_of(sim: &Simulation, kind: &str) -> String {
    let name = match kind {
        "Target" => "one",
        "Release" => "web",
        "ReleaseBinding" => "one-web",
        "RegistryBinding" => "pulls",
        "Profile" => "all",
        _ => {
            let of_release = |it: &Value| it["spec"]["repository"] == RELEASE;
            let object = sim.server.objects(kind).find(of_release).unwrap();
            return object["metadata"]["name"].as_str().unwrap().to_owned();
        }
    };
    name.to_owned()
}

async fn edit(sim: &Simulation, kind: &str, name: &str, status: Value) {
    let plural =
        if kind == "Registry" { "registries".to_owned() } else { format!("{}s", kind.to_lowercase()) };
    sim.patch(&plural, "fleet", &format!("{name}/status"), json!({ "status": status })).await;
}

/// Of what somebody writes, what can have been given is believed. What cannot is put right, and the next chart gets the
/// next version, also where its content changes before the Target has looked, and in the next process.
#[test]
fn a_bootstrap_version_that_cannot_have_been_given_is_put_right_and_versions_go_on() {
    for (written, restarted) in
        [(i64::MAX, false), (i64::MAX, true), (i64::MAX - 1, true), (-7, false), (i64::MIN, true)]
    {
        on_paused_time(move || async move {
            let context = format!("{written} {restarted}");
            let mut sim = ready().await;
            let version = |sim: &Simulation| {
                let target = sim.server.get_object("Target", "fleet", "one").unwrap();
                target["status"]["bootstrapVersion"].as_i64().unwrap()
            };
            let mut process = "controller";
            // First the content changes with it, then nothing does.
            for next in ["second", "third"] {
                if restarted {
                    sim.server.fence(process);
                    sim.store.fence(process);
                }
                edit(&sim, "Target", "one", json!({ "bootstrapVersion": written })).await;
                if next == "second" {
                    let values = json!({ "spec": { "values": { "replicaCount": 40 } } });
                    sim.patch("releases", "fleet", "web", values).await;
                }
                if restarted {
                    kill_and_start(&mut sim, process, next, options());
                    process = next;
                }
                sim.until(&format!("{context}: it is put right"), |sim| {
                    version(sim) == 2 && is_ready(sim, "one")
                })
                .await;
            }
            sim.patch("releases", "fleet", "web", json!({ "spec": { "values": { "replicaCount": 50 } } }))
                .await;
            sim.until(&format!("{context}: the next"), |sim| version(sim) == 3 && is_ready(sim, "one")).await;
            sim.until(&format!("{context}: only the last is left"), |sim| {
                let of_bootstrap = |tag: &String| tag.starts_with("fleet/bootstrap-one:");
                sim.tags().into_iter().filter(of_bootstrap).eq(["fleet/bootstrap-one:v0.0.3".to_owned()])
            })
            .await;
            sim.shut_down().await;
        });
    }
}

#[test]
fn a_status_that_somebody_filled_with_nonsense_heals_at_once_and_stays_so() {
    for row in 0..edits().len() {
        on_paused_time(move || async move {
            let (kind, nonsense) = edits().swap_remove(row);
            let context = format!("{kind} {nonsense}");
            let mut sim = scene().await;
            let name = name_of(&sim, kind);
            let before = sim.server.get_object(kind, "fleet", &name).unwrap();
            sim.server.reset_requests();
            edit(&sim, kind, &name, nonsense.clone()).await;
            // Sooner than any timer.
            pass(Duration::from_secs(3)).await;
            let after = sim.server.get_object(kind, "fleet", &name).unwrap();
            assert_eq!(of_ours(&after), of_ours(&before), "{context}");
            let writes = own_writes(&sim, &name);
            // A higher version leads to a new chart of that version and what has to be told of it.
            let most = if nonsense["bootstrapVersion"].is_i64() { 4 } else { 2 };
            assert!(writes <= most, "{context}: {writes} writes");
            comes_to_rest(&sim, &context).await;
            assert!(is_ready(&sim, "one"), "{context}: {}", sim.describe());
            // The next process has nothing to add.
            kill_and_start(&mut sim, "controller", "next", options());
            pass(Duration::from_secs(600)).await;
            comes_to_rest(&sim, &context).await;
            let later = sim.server.get_object(kind, "fleet", &name).unwrap();
            assert_eq!(of_ours(&later), of_ours(&before), "{context}");
            let url = sim.server.get_object("Target", "fleet", "one").unwrap()["status"]["chartURL"].clone();
            let address = url.as_str().unwrap().trim_start_matches("oci://127.0.0.1:5000/").to_owned();
            assert!(sim.tags().contains(&address), "{context}: {url} can be pulled");
            delete_target(&sim, "one").await;
            sim.delete(&format!("{HERE}/registrybindings/pulls")).await;
            until_all_gone(&sim).await;
            sim.shut_down().await;
        });
    }
}

/// For each kind, what another manager keeps writing into the status.
fn contested() -> Vec<(&'static str, Value)> {
    let odd = |type_: &str| {
        json!([{
            "type": type_,
            "status": "Unknown",
            "reason": "Theirs",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    };
    vec![
        ("Target", json!({ "conditions": odd("Ready") })),
        ("Release", json!({ "conditions": odd("ComponentVersionResolved") })),
        ("ReleaseBinding", json!({ "conditions": odd("TargetResolved") })),
        ("RegistryBinding", json!({ "conditions": odd("TargetResolved") })),
        ("Profile", json!({ "conditions": odd("Ready") })),
        ("RenderTask", json!({ "conditions": odd("JobSucceeded") })),
        ("RenderArtifact", json!({ "conditions": odd("OCICleanup") })),
    ]
}

#[test]
fn another_manager_of_the_same_status_is_answered_ever_more_seldom_and_never_given_up() {
    for row in 0..contested().len() {
        on_paused_time(move || async move {
            let (kind, theirs) = contested().swap_remove(row);
            let sim = scene().await;
            let name = name_of(&sim, kind);
            let ours = sim.server.get_object(kind, "fleet", &name).unwrap();
            sim.server.reset_requests();
            // Whatever is written, it writes its own again within a tenth of a second.
            for _ in 0..36_000 {
                let status = &sim.server.get_object(kind, "fleet", &name).unwrap()["status"];
                if status["conditions"] != theirs["conditions"] {
                    edit(&sim, kind, &name, theirs.clone()).await;
                }
                pass(Duration::from_millis(100)).await;
            }
            // After 1, 2, 4 ... 256 s and then every 5 min at the latest, less up to a quarter by jitter.
            let writes = own_writes(&sim, &name);
            // An artifact looks whether the watch has caught up with its write 30 s later, and sees theirs then.
            let most = if kind == "RenderArtifact" { 130 } else { 26 };
            assert!((15..=most).contains(&writes), "{kind}: {writes} writes in an hour");
            let others = |request: &&RequestRecord| {
                request.verb != Verb::Watch && &*request.actor == "controller" && *request.name != *name
            };
            let others: Vec<_> = sim.server.requests().into_iter().filter(|it| others(&it)).collect();
            // A Target tells of its task's state, there and back, each with an event.
            assert!(
                others.len() <= 5 * writes,
                "{kind}: {} other requests in an hour: {others:#?}",
                others.len()
            );
            // The other one ends; the last word is ours.
            pass(Duration::from_secs(300)).await;
            let after = sim.server.get_object(kind, "fleet", &name).unwrap();
            assert_eq!(of_ours(&after), of_ours(&ours), "{kind}");
            comes_to_rest(&sim, kind).await;
            sim.shut_down().await;
        });
    }
}
