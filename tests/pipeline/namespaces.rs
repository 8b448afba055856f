//! A namespace that is deleted as a whole: everything in it at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::scene::{
    self, HERE, delete_target, install_platform, install_target, is_ready, object, pass, registry, secret,
};
use crate::support::{OUR_KINDS, Simulation, on_paused_time};

const GROUP: &str = "solar.opendefense.cloud";

/// The scene with every kind in the namespace `fleet`; its charts go to a Registry of `namespace`.
async fn full(namespace: &str) -> Simulation {
    let sim = Simulation::new();
    install_platform(&sim);
    let from = |kind: &str| json!({ "group": GROUP, "kind": kind, "namespace": "fleet" });
    let to = json!([{ "group": GROUP, "kind": "Registry" }]);
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

/// A patch that names only what the new reference has would leave the namespace of the old one standing.
#[test]
fn bindings_and_artifacts_follow_their_targets_to_a_registry_of_the_own_namespace() {
    on_paused_time(|| async {
        let sim = full("platform").await;
        let pins = |sim: &Simulation, kind: &str| -> Vec<Value> {
            sim.server.objects(kind).map(|it| it["spec"]["registryRef"].clone()).collect()
        };
        let (own, there) =
            (json!({ "name": "charts" }), json!({ "name": "charts", "namespace": "platform" }));
        assert!(
            pins(&sim, "RenderArtifact").iter().chain(&pins(&sim, "RenderBinding")).all(|pin| *pin == there)
        );
        let change = json!({ "spec": { "renderRegistryRef": { "name": "charts", "namespace": null } } });
        sim.patch("targets", "fleet", "one", change.clone()).await;
        sim.until("the bindings of one Target follow", |sim| {
            pins(sim, "RenderBinding").iter().filter(|pin| **pin == own).count() == 2
        })
        .await;
        // The shared chart has bindings of both; now the other lets go.
        sim.delete(&format!("{HERE}/profiles/all")).await;
        delete_target(&sim, "two").await;
        sim.until("all are pinned to what the Target that is left has", |sim| {
            pins(sim, "RenderArtifact") == [own.clone(), own.clone()]
                && pins(sim, "RenderBinding") == [own.clone(), own.clone()]
        })
        .await;
        sim.delete("/apis/solar.opendefense.cloud/v1alpha1/namespaces/platform/registries/charts").await;
        sim.until("nobody needs the other Registry", |sim| gone(sim, "Registry", "platform", "charts")).await;
        delete_target(&sim, "one").await;
        sim.until("all is gone with its tags", |sim| {
            sim.tags().is_empty() && sim.server.count("RenderArtifact") == 0
        })
        .await;
        sim.shut_down().await;
    });
}

fn gone(sim: &Simulation, kind: &str, namespace: &str, name: &str) -> bool {
    sim.server.get_object(kind, namespace, name).is_none()
}

/// The kinds of `fleet`, as a namespace controller would delete them one after another, in an order that nobody promises.
const KINDS: [(&str, &str); 12] = [
    ("Component", "components"),
    ("ComponentVersion", "componentversions"),
    ("Profile", "profiles"),
    ("Registry", "registries"),
    ("RegistryBinding", "registrybindings"),
    ("Release", "releases"),
    ("ReleaseBinding", "releasebindings"),
    ("RenderArtifact", "renderartifacts"),
    ("RenderBinding", "renderbindings"),
    ("RenderTask", "rendertasks"),
    ("Secret", "secrets"),
    ("Target", "targets"),
];

async fn delete_all(sim: &Simulation, namespace: &str, kind: &str, plural: &str) {
    let api = if kind == "Secret" { "/api/v1" } else { "/apis/solar.opendefense.cloud/v1alpha1" };
    let of_namespace = |it: &Value| it["metadata"]["namespace"] == namespace;
    for object in sim.server.objects(kind).filter(of_namespace).collect::<Vec<_>>() {
        let name = object["metadata"]["name"].as_str().unwrap();
        sim.delete(&format!("{api}/namespaces/{namespace}/{plural}/{name}")).await;
    }
}

/// The artifacts of `fleet`: name, tag, and what `OCICleanup` says.
fn artifacts(sim: &Simulation) -> Vec<(String, String, String)> {
    let all = sim.server.objects("RenderArtifact").filter(|it| it["metadata"]["namespace"] == "fleet");
    let told = |it: Value| {
        let text = |pointer: &str| it.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = text("/metadata/name");
        let said = sim.condition("RenderArtifact", "fleet", &name, "OCICleanup");
        let said = said.map(|(status, reason, message)| format!("{status} {reason}: {message}"));
        let tag = format!("{}:{}", text("/spec/repository"), text("/spec/tag"));
        (name, tag, said.unwrap_or_default())
    };
    all.map(told).collect()
}

/// Nothing is left, or nothing but artifacts that say what they lack, with their tags and the Registry that they name.
async fn until_only_what_lacks_credentials_is_left(sim: &Simulation, context: &str) {
    sim.until(&format!("{context}: nothing but artifacts without credentials is left"), |sim| {
        left(sim).iter().all(|it| it.starts_with("RenderArtifact ") || it == "Registry charts")
            && artifacts(sim).iter().all(|(.., said)| said.starts_with("False AuthFailed"))
    })
    .await;
    pass(Duration::from_secs(1_800)).await;
    for (name, tag, said) in artifacts(sim) {
        let has_mend =
            ["create it", "ReferenceGrant", "does not exist"].iter().any(|mend| said.contains(mend));
        assert!(said.starts_with("False AuthFailed") && has_mend, "{context}: {name} of {tag}: {said}");
    }
    let tags: BTreeSet<String> = artifacts(sim).into_iter().map(|(_, tag, _)| tag).collect();
    assert_eq!(sim.tags(), tags, "{context}: no tag is lost or left behind");
    if tags.is_empty() {
        assert_eq!(left(sim), Vec::<String>::new(), "{context}");
    }
}

/// Kind by kind, credentials at any place in the order, or last: then nothing is left. What lacked credentials goes when
/// these come back.
#[test]
fn whatever_order_the_kinds_of_a_namespace_go_in_only_what_lost_its_credentials_stays_and_until_they_return()
{
    let stayed = Arc::new(AtomicUsize::new(0));
    for seed in 0..16_u64 {
        let stayed = stayed.clone();
        on_paused_time(move || async move {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (far, last) = (seed % 2 == 0, seed % 4 < 2);
            let sim = full(if far { "platform" } else { "fleet" }).await;
            let mut order: Vec<_> = KINDS.iter().map(|(kind, plural)| ("fleet", *kind, *plural)).collect();
            if far {
                order.extend([
                    ("platform", "Secret", "secrets"),
                    ("platform", "Registry", "registries"),
                    ("platform", "ReferenceGrant", "referencegrants"),
                ]);
            }
            rng.shuffle(&mut order);
            let credentials = |(_, kind, _): &(&str, &str, &str)| ["Secret", "ReferenceGrant"].contains(kind);
            if last {
                order.sort_by_key(credentials);
            }
            let context =
                format!("seed {seed}: {:?}", order.iter().map(|it| (it.0, it.1)).collect::<Vec<_>>());
            let mut waited = false;
            for step in order {
                if last && credentials(&step) && !std::mem::replace(&mut waited, true) {
                    sim.until(&format!("{context}: the artifacts are gone"), |sim| artifacts(sim).is_empty())
                        .await;
                }
                delete_all(&sim, step.0, step.1, step.2).await;
                pass(Duration::from_millis(rng.u64(0..4_000))).await;
            }
            until_only_what_lacks_credentials_is_left(&sim, &context).await;
            if last {
                assert_eq!((left(&sim), sim.tags().len()), (Vec::new(), 0), "{context}");
            }
            stayed.fetch_add(usize::from(!artifacts(&sim).is_empty()), Ordering::SeqCst);
            let namespace = if far { "platform" } else { "fleet" };
            let from = |kind: &str| json!({ "group": GROUP, "kind": kind, "namespace": "fleet" });
            let to = json!([{ "group": GROUP, "kind": "Registry" }]);
            let grant = json!({ "from": [from("RenderArtifact")], "to": to });
            for object in [
                registry(namespace, "charts", "push"),
                secret(namespace, "push", "solar-dev"),
                object("ReferenceGrant", namespace, "fleet", grant),
            ] {
                let kind = object["kind"].as_str().unwrap();
                let name = object["metadata"]["name"].as_str().unwrap();
                // A Registry that is held is there still, though it is going.
                if sim.server.get_object(kind, namespace, name).is_none() {
                    sim.server.install(object.clone()).unwrap();
                }
            }
            sim.until(&format!("{context}: all tags are gone"), |sim| {
                artifacts(sim).is_empty() && sim.tags().is_empty()
            })
            .await;
            sim.shut_down().await;
        });
    }
    assert!(stayed.load(Ordering::SeqCst) >= 3, "no order lost credentials: the test tests nothing");
}

/// Some kinds first, the rest at once with their namespace, where nothing can be created any more.
#[test]
fn a_namespace_that_goes_after_some_of_its_kinds_ends_empty_or_with_what_lost_its_credentials() {
    let stayed = Arc::new(AtomicUsize::new(0));
    for seed in 0..12_u64 {
        let stayed = stayed.clone();
        on_paused_time(move || async move {
            let mut rng = fastrand::Rng::with_seed(100 + seed);
            let far = seed % 2 == 0;
            let sim = full(if far { "platform" } else { "fleet" }).await;
            let mut order = KINDS.to_vec();
            rng.shuffle(&mut order);
            order.truncate(rng.usize(1..KINDS.len()));
            let context = format!("seed {seed}: {order:?}");
            for (kind, plural) in order {
                delete_all(&sim, "fleet", kind, plural).await;
                pass(Duration::from_millis(rng.u64(0..2_000))).await;
            }
            sim.delete("/api/v1/namespaces/fleet").await;
            until_only_what_lacks_credentials_is_left(&sim, &context).await;
            if far {
                assert_eq!(
                    (left(&sim), sim.tags().len()),
                    (Vec::new(), 0),
                    "{context}: the Secret lies elsewhere"
                );
            }
            stayed.fetch_add(usize::from(!artifacts(&sim).is_empty()), Ordering::SeqCst);
            for (artifact, ..) in artifacts(&sim) {
                let there = json!({ "registryRef": { "name": "charts", "namespace": "platform" } });
                sim.patch("renderartifacts", "fleet", &artifact, json!({ "spec": there })).await;
            }
            sim.until(&format!("{context}: the namespace is gone"), |sim| {
                sim.server.get_object("Namespace", "", "fleet").is_none()
            })
            .await;
            assert_eq!((left(&sim), sim.tags().len()), (Vec::new(), 0), "{context}");
            sim.shut_down().await;
        });
    }
    assert!(stayed.load(Ordering::SeqCst) >= 2, "no order lost credentials: the test tests nothing");
}
