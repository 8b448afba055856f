//! What is known of the time before: of an earlier incarnation's requests, and of earlier bootstrap versions. And what
//! follows a change at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use solar_controller::actors::root::State;
use solar_controller::actors::system::Options;
use solar_controller::adapters::leadership::Leadership;
use solar_controller::adapters::oci::{Artifact, Endpoint, Led, OciRegistry, Reference, Writes};
use solar_controller::dev::registry::{Access, Behaviour, Fault, RegistryOperation, RegistryStore};
use tokio::time::Instant;

use crate::artifacts::{by_hand, held_by_a_person};
use crate::scene::{
    HERE, Traffic, delete_target, install_platform, install_target, is_ready, kill_and_start, object, pass,
    ready, secret, tag,
};
use crate::support::{REGISTRY, Simulation, on_paused_time, options};

/// How long "at once" may take.
const AT_ONCE: Duration = Duration::from_secs(5);
const TAKEOVER_WAIT: Duration = Duration::from_secs(30);

fn is_deletion(operation: RegistryOperation) -> bool {
    matches!(operation, RegistryOperation::DeleteTag | RegistryOperation::DeleteDigest)
}

// ---- an earlier incarnation ----

/// When the first deletion comes of what is to be cleaned up already, counted from the beginning of the lead.
async fn first_deletion(clean: bool) -> Duration {
    let mut sim = ready().await;
    sim.store.set_access(Access::Open);
    let traffic = Traffic::with_faults(&sim, |info| {
        if is_deletion(info.operation) { Fault::status(503, "UNAVAILABLE") } else { Fault::None }
    });
    delete_target(&sim, "one").await;
    let deletions = |traffic: &Traffic| {
        traffic.seen().into_iter().filter(|seen| is_deletion(seen.info.operation)).collect::<Vec<_>>()
    };
    sim.until("the clean-up has begun", |_| !deletions(&traffic).is_empty()).await;
    let standby = Options { standby: true, takeover_wait: TAKEOVER_WAIT, ..options() };
    kill_and_start(&mut sim, "controller", "next", standby);
    sim.until("it stands by", |sim| *sim.running.state.borrow() == State::Standby).await;
    let before = deletions(&traffic).len();
    pass(Duration::from_secs(600)).await;
    assert_eq!(deletions(&traffic).len(), before, "a standby deletes nothing");
    let began = Instant::now();
    sim.running.lead(clean).await;
    sim.until("it deletes", |_| deletions(&traffic).len() > before).await;
    let first = deletions(&traffic)[before].at - began;
    sim.shut_down().await;
    first
}

#[test]
fn after_a_take_over_nothing_is_deleted_before_what_may_still_land_has_landed() {
    let waited = on_paused_time(|| first_deletion(false));
    assert!((TAKEOVER_WAIT..TAKEOVER_WAIT + AT_ONCE).contains(&waited), "{waited:?}");
}

#[test]
fn after_a_clean_end_of_the_predecessor_nothing_is_waited_for() {
    let waited = on_paused_time(|| first_deletion(true));
    assert!(waited < AT_ONCE, "{waited:?}");
}

type Write = for<'a> fn(&'a Led) -> futures::future::BoxFuture<'a, bool>;

fn writes() -> [(&'static str, RegistryOperation, Write); 2] {
    [
        ("push", RegistryOperation::PutManifest, |led| {
            Box::pin(async move {
                let chart = Artifact::chart(&b"{}"[..], &b"chart"[..], &BTreeMap::new());
                led.push(&Endpoint::anonymous(REGISTRY, true), "team/app", "v1", &chart).await.is_ok()
            })
        }),
        ("delete", RegistryOperation::DeleteTag, |led| {
            Box::pin(async move {
                let tag = Reference::tag("v1");
                led.delete(&Endpoint::anonymous(REGISTRY, true), "team/app", &tag).await.is_ok()
            })
        }),
    ]
}

/// A process whose last write may still land must not call its end clean.
#[test]
fn a_write_counts_until_it_is_answered_and_without_an_answer_for_thirty_seconds_more() {
    for row in 0..2 {
        on_paused_time(move || async move {
            let (what, operation, write) = writes()[row];
            let store = RegistryStore::new(Behaviour::default(), Access::Open);
            let writes = Arc::new(Writes::default());
            let port: Arc<dyn OciRegistry> = Arc::new(store.handle("writer"));
            let led = Led::new(port.clone(), Leadership::always(), writes.clone());
            assert!(writes.are_answered(), "{what}: none was sent");
            assert!(write(&led).await && writes.are_answered(), "{what}: it was answered");
            let strike = |fault: fn() -> Fault| {
                store.set_faults(move |info| if info.operation == operation { fault() } else { Fault::None });
            };

            strike(|| Fault::status(403, "DENIED"));
            assert!(!write(&led).await && writes.are_answered(), "{what}: a refusal is an answer");

            // Dropped, as the end of the process does it.
            strike(|| Fault::Hang);
            let cut = tokio::time::timeout(Duration::from_secs(5), async {
                let unanswered = async {
                    pass(Duration::from_secs(1)).await;
                    assert!(!writes.are_answered(), "{what}: it is under way");
                    std::future::pending::<()>().await;
                };
                futures::future::join(write(&led), unanswered).await
            });
            assert!(cut.await.is_err());
            pass(Duration::from_secs(29)).await;
            assert!(!writes.are_answered(), "{what}: it may still land");
            pass(Duration::from_secs(2)).await;
            assert!(writes.are_answered(), "{what}");

            strike(|| Fault::CutAfterEffect);
            assert!(!write(&led).await);
            assert!(!writes.are_answered(), "{what}: the connection ended without an answer");
            pass(Duration::from_secs(31)).await;
            assert!(writes.are_answered(), "{what}");

            // Reading leaves nothing behind.
            store.set_faults(|_| Fault::Hang);
            let (endpoint, tag) = (Endpoint::anonymous(REGISTRY, true), Reference::tag("v1"));
            let read = led.head(&endpoint, "team/app", &tag);
            assert!(tokio::time::timeout(Duration::from_secs(5), read).await.is_err());
            assert!(writes.are_answered(), "{what}: a read");

            // Without the lead nothing is sent.
            store.clear_faults();
            let lost = Leadership::leased();
            lost.revoke();
            let requests = store.log().len();
            assert!(!write(&Led::new(port, lost, writes.clone())).await && writes.are_answered(), "{what}");
            assert_eq!(store.log().len(), requests, "{what}");
        });
    }
}

// ---- earlier versions ----

/// A Target that was made again, or restored without its status, continues behind what there is of it.
#[test]
fn a_new_targets_first_version_follows_those_of_artifacts_and_of_tags() {
    for in_registry in [true, false] {
        on_paused_time(move || async move {
            let sim = Simulation::new();
            sim.store.set_access(Access::Open);
            install_platform(&sim);
            if in_registry {
                let old = Artifact::chart(&b"{}"[..], &b"old"[..], &BTreeMap::new());
                let endpoint = Endpoint::anonymous(REGISTRY, true);
                let person = sim.store.handle("a person");
                for tag in ["v0.0.3", "v0.0.4", "latest"] {
                    person.push(&endpoint, "fleet/bootstrap-one", tag, &old).await.unwrap();
                }
            } else {
                sim.server.install(by_hand("old", REGISTRY, "fleet/bootstrap-one", "v0.0.4")).unwrap();
                sim.server.install(held_by_a_person("held", "old")).unwrap();
            }
            install_target(&sim, "one", "charts");
            sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
            let status = sim.server.get_object("Target", "fleet", "one").unwrap()["status"].clone();
            assert_eq!(status["bootstrapVersion"], 5, "in the registry: {in_registry}");
            assert_eq!(status["chartURL"], format!("oci://{REGISTRY}/fleet/bootstrap-one:v0.0.5"));
            sim.shut_down().await;
        });
    }
}

// ---- at once ----

fn version(sim: &Simulation) -> i64 {
    let target = sim.server.get_object("Target", "fleet", "one").unwrap();
    target["status"]["bootstrapVersion"].as_i64().unwrap()
}

/// How a cluster gets at the charts stands in the bootstrap chart, and in no release chart.
#[test]
fn transport_and_pull_secret_of_the_render_registry_make_a_new_bootstrap_and_no_new_release_chart() {
    on_paused_time(|| async {
        let sim = ready().await;
        let before = tag(&sim);
        for (number, change) in [json!({ "targetPullSecretName": "another" }), json!({ "plainHTTP": false })]
            .into_iter()
            .enumerate()
        {
            let wanted = i64::try_from(number).unwrap() + 2;
            sim.patch("registries", "fleet", "charts", json!({ "spec": change })).await;
            sim.until("the next bootstrap is ready", |sim| version(sim) == wanted && is_ready(sim, "one"))
                .await;
            assert_eq!(tag(&sim), before, "{change}");
            pass(Duration::from_secs(60)).await;
            assert_eq!((version(&sim), sim.tags().len()), (wanted, 2), "{change}");
        }
        sim.shut_down().await;
    });
}

fn grant(namespace: &str, name: &str, from: (&str, &str), to: &str) -> Value {
    let group = "solar.opendefense.cloud";
    let spec = json!({
        "from": [{ "group": group, "kind": from.0, "namespace": from.1 }],
        "to": [{ "group": group, "kind": to }],
    });
    object("ReferenceGrant", namespace, name, spec)
}

#[test]
fn what_a_grant_allows_or_a_new_object_resolves_is_said_at_once_and_so_is_its_end() {
    on_paused_time(|| async {
        let sim = ready().await;
        let there = |name: &str| json!({ "name": name, "namespace": "fleet" });
        let objects = [
            secret("platform", "push", "solar-dev"),
            object("Registry", "platform", "images", json!({ "hostname": "ghcr.io" })),
            object(
                "Release",
                "platform",
                "far",
                json!({ "componentVersionRef": there("web-2"), "uniqueName": "far" }),
            ),
            object(
                "ReleaseBinding",
                "platform",
                "one-far",
                json!({ "targetRef": there("one"), "releaseRef": { "name": "far" } }),
            ),
            object(
                "RegistryBinding",
                "platform",
                "one-images",
                json!({ "targetRef": there("one"), "registryRef": { "name": "images" } }),
            ),
        ];
        for object in objects {
            sim.server.install(object).unwrap();
        }
        let says = |sim: &Simulation, kind: &str, name: &str, type_: &str| {
            let said = sim.condition(kind, "platform", name, type_);
            said.map(|(status, reason, _)| format!("{status} {reason}")).unwrap_or_default()
        };
        let rows = [
            ("Release", "far", "ComponentVersionResolved", "ComponentVersion"),
            ("ReleaseBinding", "one-far", "TargetResolved", "Target"),
            ("RegistryBinding", "one-images", "TargetResolved", "Target"),
        ];
        for (kind, name, type_, to) in rows {
            pass(AT_ONCE).await;
            assert_eq!(says(&sim, kind, name, type_), "False NotGranted", "{kind}");
            let given = grant("fleet", &kind.to_lowercase(), (kind, "platform"), to);
            sim.server.install(given.clone()).unwrap();
            pass(AT_ONCE).await;
            if kind == "Release" {
                assert_eq!(says(&sim, kind, name, type_), "False NotFound");
                let mut version = sim.server.get_object("ComponentVersion", "fleet", "web-1").unwrap();
                version["metadata"] = json!({ "name": "web-2", "namespace": "fleet" });
                version.as_object_mut().unwrap().remove("status");
                sim.server.install(version).unwrap();
                pass(AT_ONCE).await;
            }
            assert_eq!(says(&sim, kind, name, type_), "True Resolved", "{kind}");
            sim.delete(&format!("{HERE}/referencegrants/{}", kind.to_lowercase())).await;
            pass(AT_ONCE).await;
            assert_eq!(says(&sim, kind, name, type_), "False NotGranted", "{kind}: it is revoked");
            sim.server.install(given).unwrap();
        }
        sim.shut_down().await;
    });
}
