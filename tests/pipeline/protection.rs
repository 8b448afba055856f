//! What holds an object until nobody needs it: put back when somebody takes it, let go when a reference moved, and never
//! taken off under somebody who came in between.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_embedded::{Fault, FaultPlan, FaultRule, Verb};
use serde_json::{Value, json};
use solar_api::names;

use crate::scene::{self, HERE, install_platform, install_target, is_ready, object, pass, ready};
use crate::support::{Simulation, on_paused_time};

fn finalizers(sim: &Simulation, kind: &str, namespace: &str, name: &str) -> Vec<String> {
    let object = sim.server.get_object(kind, namespace, name).unwrap_or_default();
    let held = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    held.iter().map(|it| it.as_str().unwrap().to_owned()).collect()
}

fn holds(sim: &Simulation, kind: &str, namespace: &str, name: &str, finalizer: &str) -> bool {
    finalizers(sim, kind, namespace, name).iter().any(|it| it == finalizer)
}

#[test]
fn each_finalizer_that_somebody_takes_from_an_object_that_is_needed_is_put_back() {
    on_paused_time(|| async {
        let sim = ready().await;
        let spec = json!({ "targetRef": { "name": "one" }, "registryRef": { "name": "charts" } });
        sim.server.install(object("RegistryBinding", "fleet", "one-charts", spec)).unwrap();
        let spec = json!({ "releaseRef": { "name": "web" }, "targetSelector": {} });
        sim.server.install(object("Profile", "fleet", "all", spec)).unwrap();
        pass(Duration::from_secs(60)).await;
        let artifact = sim.server.objects("RenderArtifact").next().unwrap()["metadata"]["name"].clone();
        let artifact = artifact.as_str().unwrap();
        let rows = [
            ("Target", "targets", "one", names::TARGET_FINALIZER),
            ("RenderArtifact", "renderartifacts", artifact, names::RENDER_ARTIFACT_FINALIZER),
            ("Release", "releases", "web", names::RELEASE_FINALIZER),
            ("Release", "releases", "web", names::RELEASE_REF_FINALIZER),
            ("ReleaseBinding", "releasebindings", "one-web", names::RELEASE_BINDING_FINALIZER),
            ("RegistryBinding", "registrybindings", "one-charts", names::REGISTRY_BINDING_FINALIZER),
            ("Profile", "profiles", "all", names::PROFILE_FINALIZER),
            ("Registry", "registries", "charts", names::REGISTRY_REF_FINALIZER),
            ("ComponentVersion", "componentversions", "web-1", names::COMPONENT_VERSION_FINALIZER),
            ("ComponentVersion", "componentversions", "web-1", names::COMPONENT_VERSION_REF_FINALIZER),
            ("Component", "components", "web", names::COMPONENT_REF_FINALIZER),
        ];
        for (kind, plural, name, finalizer) in rows {
            let mut held = finalizers(&sim, kind, "fleet", name);
            assert!(held.iter().any(|it| it == finalizer), "{kind} {name} holds {finalizer}: {held:?}");
            held.retain(|it| it != finalizer);
            sim.patch(plural, "fleet", name, json!({ "metadata": { "finalizers": held } })).await;
            sim.until(&format!("{finalizer} is on {kind} {name} again"), |sim| {
                holds(sim, kind, "fleet", name, finalizer)
            })
            .await;
        }
        sim.shut_down().await;
    });
}

#[test]
fn a_reference_that_moved_while_nobody_looked_is_let_go_at_the_next_start() {
    on_paused_time(|| async {
        let mut sim = ready().await;
        pass(Duration::from_secs(60)).await;
        let spec = sim.server.get_object("ComponentVersion", "fleet", "web-1").unwrap()["spec"].clone();
        sim.server.install(object("ComponentVersion", "fleet", "web-2", spec)).unwrap();
        let spec = json!({ "componentVersionRef": { "name": "web-2" }, "uniqueName": "web" });
        sim.server.install(object("Release", "fleet", "next", spec)).unwrap();
        sim.server.install(scene::registry("fleet", "charts-2", "push")).unwrap();
        sim.running.shut_down().await;
        let reference = |name: &str| json!({ "name": name });
        let moves = [
            ("targets", "one", json!({ "renderRegistryRef": reference("charts-2") })),
            ("releasebindings", "one-web", json!({ "releaseRef": reference("next") })),
        ];
        for (plural, name, spec) in moves {
            sim.patch(plural, "fleet", name, json!({ "spec": spec })).await;
        }
        sim.delete(&format!("{HERE}/releases/web")).await;
        scene::kill_and_start(&mut sim, "controller", "next", crate::support::options());
        sim.until("what is referred to no more is let go", |sim| {
            sim.server.get_object("Release", "fleet", "web").is_none()
                && !holds(sim, "ComponentVersion", "fleet", "web-1", names::COMPONENT_VERSION_REF_FINALIZER)
                && !holds(sim, "Registry", "fleet", "charts", names::REGISTRY_REF_FINALIZER)
        })
        .await;
        let needed = [
            ("Release", "next", names::RELEASE_REF_FINALIZER),
            ("ComponentVersion", "web-2", names::COMPONENT_VERSION_REF_FINALIZER),
            ("Registry", "charts-2", names::REGISTRY_REF_FINALIZER),
        ];
        sim.until("what is needed now is held", |sim| {
            needed.iter().all(|(kind, name, finalizer)| holds(sim, kind, "fleet", name, finalizer))
        })
        .await;
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_version_that_a_release_of_another_namespace_names_stays_until_that_release_is_gone() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        install_platform(&sim);
        let group = "solar.opendefense.cloud";
        let spec = json!({
            "from": [{ "group": group, "kind": "Release", "namespace": "platform" }],
            "to": [{ "group": group, "kind": "ComponentVersion" }],
        });
        sim.server.install(object("ReferenceGrant", "fleet", "versions", spec)).unwrap();
        let spec = json!({ "componentVersionRef": { "name": "web-1", "namespace": "fleet" } });
        sim.server.install(object("Release", "platform", "far", spec)).unwrap();
        sim.delete(&format!("{HERE}/releases/web")).await;
        let held = |sim: &Simulation| {
            holds(sim, "ComponentVersion", "fleet", "web-1", names::COMPONENT_VERSION_REF_FINALIZER)
        };
        sim.until("it is held", held).await;
        sim.delete(&format!("{HERE}/componentversions/web-1")).await;
        pass(Duration::from_secs(600)).await;
        assert!(held(&sim), "{}", sim.describe());
        sim.delete("/apis/solar.opendefense.cloud/v1alpha1/namespaces/platform/releases/far").await;
        sim.until("it is gone", |sim| sim.server.get_object("ComponentVersion", "fleet", "web-1").is_none())
            .await;
        sim.shut_down().await;
    });
}

/// While the finalizer of a living Release is taken off, a binding comes in between: after each of the requests by which
/// that is done, one after the other.
#[test]
fn a_referrer_that_comes_in_between_is_never_left_without_its_finalizer() {
    for delayed in [Verb::List, Verb::Patch] {
        for number in 0..4 {
            on_paused_time(move || async move {
                let sim = ready().await;
                pass(Duration::from_secs(60)).await;
                let resource = if delayed == Verb::List { "releasebindings" } else { "releases" };
                let slow =
                    FaultRule::new(Fault::Delay(Duration::from_secs(2))).verb(delayed).resource(resource);
                sim.server.add_fault(slow.actor("controller").after(number).times(1));
                sim.delete(&format!("{HERE}/releasebindings/one-web")).await;
                pass(Duration::from_secs(1)).await;
                let spec = json!({ "targetRef": { "name": "one" }, "releaseRef": { "name": "web" } });
                if sim.server.get_object("ReleaseBinding", "fleet", "one-web").is_none() {
                    sim.server.install(object("ReleaseBinding", "fleet", "again", spec)).unwrap();
                }
                pass(Duration::from_secs(600)).await;
                let bound = sim.server.count("ReleaseBinding") > 0;
                let held = holds(&sim, "Release", "fleet", "web", names::RELEASE_REF_FINALIZER);
                assert_eq!(held, bound, "{delayed} {number}: {}", sim.describe());
                sim.shut_down().await;
            });
        }
    }
}

#[test]
fn events_tell_of_each_change_once_also_over_a_restart() {
    on_paused_time(|| async {
        let mut sim = ready().await;
        pass(Duration::from_secs(60)).await;
        let events = |sim: &Simulation| {
            let mut told: Vec<String> = sim
                .server
                .objects("Event")
                .filter(|event| event["involvedObject"]["kind"] == "Target")
                .map(|event| {
                    let times = event["series"]["count"].as_i64().unwrap_or(1);
                    format!("{} x{times}: {}", event["reason"].as_str().unwrap(), event["message"])
                })
                .collect();
            told.sort();
            told
        };
        let before = events(&sim);
        let count = |reason: &str| before.iter().filter(|it| it.starts_with(reason)).count();
        assert_eq!((count("Created x1"), count("BootstrapReady x1"), before.len()), (2, 1, 3), "{before:?}");
        scene::kill_and_start(&mut sim, "controller", "next", crate::support::options());
        pass(Duration::from_secs(600)).await;
        assert_eq!(events(&sim), before, "nothing is told again");
        install_target(&sim, "two", "charts");
        sim.until("both are ready", Simulation::all_ready).await;
        pass(Duration::from_secs(60)).await;
        assert_eq!(events(&sim).len(), 6);
        sim.shut_down().await;
    });
}

#[test]
fn a_target_made_again_with_its_releases_bound_adopts_nothing_of_the_one_before() {
    on_paused_time(|| async {
        let sim = ready().await;
        let owners = |sim: &Simulation, kind: &str| -> Vec<Value> {
            let objects = sim.server.objects(kind);
            objects.map(|it| it["metadata"]["ownerReferences"][0]["uid"].clone()).collect()
        };
        let uid = |sim: &Simulation| {
            sim.server.get_object("Target", "fleet", "one").unwrap()["metadata"]["uid"].clone()
        };
        let before = uid(&sim);
        sim.delete(&format!("{HERE}/targets/one")).await;
        sim.until("it is gone", |sim| sim.server.get_object("Target", "fleet", "one").is_none()).await;
        let spec = json!({ "renderRegistryRef": { "name": "charts" } });
        sim.server.install(object("Target", "fleet", "one", spec)).unwrap();
        sim.until("the new one is ready", |sim| is_ready(sim, "one")).await;
        assert_ne!(uid(&sim), before);
        for kind in ["RenderTask", "RenderBinding"] {
            sim.until("all are the new one's", |sim| owners(sim, kind).iter().all(|it| *it == uid(sim)))
                .await;
            assert_eq!(owners(&sim, kind).len(), 2, "{kind}");
        }
        sim.shut_down().await;
    });
}

// ---- others who write the same list ----

const STAYS: &str = "example.com/stays";
const GOES: &str = "example.com/goes";
const COMES: &str = "example.com/comes";

/// Kind and name of the objects of which the controller's first patch is under way.
type UnderWay = Arc<Mutex<BTreeSet<(String, String)>>>;

/// From now on the first patch of each object takes long enough for somebody else to write in between.
fn slow_first_patches(sim: &Simulation) -> UnderWay {
    let under_way = UnderWay::default();
    let noted = under_way.clone();
    sim.server.set_faults(FaultPlan::new().decide(move |request| {
        let is_patch = request.verb == Verb::Patch && request.subresource.is_empty();
        let is_ours = &*request.actor == "controller" && &*request.group == "solar.opendefense.cloud";
        let key = (request.kind.to_string(), request.name.to_string());
        let is_first = is_patch && is_ours && noted.lock().unwrap().insert(key);
        if is_first { Fault::Delay(Duration::from_secs(10)) } else { Fault::None }
    }));
    under_way
}

/// Kind, plural, name, and finalizers of ours.
type Row<'a> = (&'a str, &'a str, &'a str, Vec<&'a str>);

/// Waits until each row's first patch is under way; and in the middle of it, somebody takes a finalizer away and puts
/// another on.
async fn others_write_in_between(sim: &Simulation, under_way: &UnderWay, rows: &[Row<'_>]) {
    sim.until("the first patches are under way", |_| {
        let noted = under_way.lock().unwrap();
        rows.iter().all(|(kind, _, name, _)| noted.contains(&((*kind).to_owned(), (*name).to_owned())))
    })
    .await;
    for (kind, plural, name, _) in rows {
        let mut held = finalizers(sim, kind, "fleet", name);
        held.retain(|it| it != GOES);
        held.push(COMES.to_owned());
        sim.patch(plural, "fleet", name, json!({ "metadata": { "finalizers": held } })).await;
    }
}

/// Waits until each object holds exactly what its row says, and the two of others.
async fn until_exactly_held(sim: &Simulation, rows: &[Row<'_>]) {
    for (kind, _, name, ours) in rows {
        let mut wanted = [&[STAYS, COMES][..], ours].concat();
        wanted.sort_unstable();
        sim.until(&format!("{kind} {name} holds {wanted:?}"), |sim| {
            let mut held = finalizers(sim, kind, "fleet", name);
            held.sort();
            held == wanted
        })
        .await;
    }
}

/// Each kind, with what holds it while it is in use.
fn held_kinds<'a>() -> Vec<Row<'a>> {
    vec![
        ("Target", "targets", "one", vec![names::TARGET_FINALIZER]),
        ("Release", "releases", "web", vec![names::RELEASE_FINALIZER, names::RELEASE_REF_FINALIZER]),
        ("ReleaseBinding", "releasebindings", "one-web", vec![names::RELEASE_BINDING_FINALIZER]),
        ("RegistryBinding", "registrybindings", "one-charts", vec![names::REGISTRY_BINDING_FINALIZER]),
        ("Profile", "profiles", "all", vec![names::PROFILE_FINALIZER]),
        ("Registry", "registries", "charts", vec![names::REGISTRY_REF_FINALIZER]),
        (
            "ComponentVersion",
            "componentversions",
            "web-1",
            vec![names::COMPONENT_VERSION_FINALIZER, names::COMPONENT_VERSION_REF_FINALIZER],
        ),
        ("Component", "components", "web", vec![names::COMPONENT_REF_FINALIZER]),
    ]
}

/// The scene with one object of each kind that is held, on each of which somebody else has two finalizers already.
async fn with_finalizers_of_others() -> (Simulation, UnderWay) {
    let sim = Simulation::new();
    sim.running.shut_down().await;
    install_platform(&sim);
    install_target(&sim, "one", "charts");
    let spec = json!({ "targetRef": { "name": "one" }, "registryRef": { "name": "charts" } });
    sim.server.install(object("RegistryBinding", "fleet", "one-charts", spec)).unwrap();
    let nobody = json!({ "matchLabels": { "ring": "none" } });
    let spec = json!({ "releaseRef": { "name": "web" }, "targetSelector": nobody });
    sim.server.install(object("Profile", "fleet", "all", spec)).unwrap();
    for (_, plural, name, _) in held_kinds() {
        sim.patch(plural, "fleet", name, json!({ "metadata": { "finalizers": [STAYS, GOES] } })).await;
    }
    let under_way = slow_first_patches(&sim);
    (sim, under_way)
}

#[test]
fn what_others_do_to_the_list_while_a_finalizer_is_put_on_is_kept() {
    on_paused_time(|| async {
        let (mut sim, under_way) = with_finalizers_of_others().await;
        sim.running = crate::support::start(&sim.server, &sim.store, crate::support::options(), "controller");
        let rows = held_kinds();
        others_write_in_between(&sim, &under_way, &rows).await;
        until_exactly_held(&sim, &rows).await;
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;

        // An artifact is made with its finalizer; this one is put back.
        let artifact = sim.server.objects("RenderArtifact").next().unwrap();
        let name = artifact["metadata"]["name"].as_str().unwrap();
        let rows = [("RenderArtifact", "renderartifacts", name, vec![names::RENDER_ARTIFACT_FINALIZER])];
        let under_way = slow_first_patches(&sim);
        let without = json!({ "metadata": { "finalizers": [STAYS, GOES] } });
        sim.patch("renderartifacts", "fleet", name, without).await;
        others_write_in_between(&sim, &under_way, &rows).await;
        until_exactly_held(&sim, &rows).await;
        sim.shut_down().await;
    });
}

#[test]
fn what_others_do_to_the_list_while_a_finalizer_is_taken_off_is_kept() {
    on_paused_time(|| async {
        let sim = ready().await;
        pass(Duration::from_secs(60)).await;
        let hold = async |sim: &Simulation, rows: &[Row<'_>]| {
            for (kind, plural, name, _) in rows {
                let mut held = finalizers(sim, kind, "fleet", name);
                held.extend([STAYS.to_owned(), GOES.to_owned()]);
                sim.patch(plural, "fleet", name, json!({ "metadata": { "finalizers": held } })).await;
            }
        };
        // What was referred to lives on.
        let released: [Row<'_>; 4] = [
            ("Release", "releases", "web", vec![names::RELEASE_FINALIZER]),
            ("Registry", "registries", "charts", vec![]),
            ("ComponentVersion", "componentversions", "web-1", vec![names::COMPONENT_VERSION_FINALIZER]),
            ("Component", "components", "web", vec![]),
        ];
        hold(&sim, &released).await;
        let under_way = slow_first_patches(&sim);
        scene::delete_target(&sim, "one").await;
        others_write_in_between(&sim, &under_way, &released[..2]).await;
        until_exactly_held(&sim, &released[..2]).await;
        let free = json!({ "metadata": { "finalizers": [names::RELEASE_FINALIZER] } });
        sim.patch("releases", "fleet", "web", free.clone()).await;
        sim.delete(&format!("{HERE}/releases/web")).await;
        others_write_in_between(&sim, &under_way, &released[2..3]).await;
        until_exactly_held(&sim, &released[2..3]).await;
        let free = json!({ "metadata": { "finalizers": [names::COMPONENT_VERSION_FINALIZER] } });
        sim.patch("componentversions", "fleet", "web-1", free).await;
        sim.delete(&format!("{HERE}/componentversions/web-1")).await;
        others_write_in_between(&sim, &under_way, &released[3..]).await;
        until_exactly_held(&sim, &released[3..]).await;
        sim.shut_down().await;
    });
}

/// On an object that is being deleted others can only take theirs away.
#[test]
fn an_object_from_which_others_take_their_finalizer_while_its_own_goes_is_gone_with_the_last() {
    on_paused_time(|| async {
        let (mut sim, _) = with_finalizers_of_others().await;
        sim.server.set_faults(FaultPlan::new());
        sim.running = crate::support::start(&sim.server, &sim.store, crate::support::options(), "controller");
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        pass(Duration::from_secs(60)).await;
        let artifact = sim.server.objects("RenderArtifact").next().unwrap();
        let artifact = artifact["metadata"]["name"].as_str().unwrap();
        let held = json!([STAYS, GOES, names::RENDER_ARTIFACT_FINALIZER]);
        sim.patch("renderartifacts", "fleet", artifact, json!({ "metadata": { "finalizers": held } })).await;
        let mut rows = held_kinds();
        // Protected kinds without a finalizer of their own are let go while they live.
        rows.retain(|(kind, ..)| !["Registry", "Component"].contains(kind));
        rows.push(("RenderArtifact", "renderartifacts", artifact, vec![]));
        let under_way = slow_first_patches(&sim);
        for (kind, plural, name, _) in &rows {
            if *kind != "RenderArtifact" {
                sim.delete(&format!("{HERE}/{plural}/{name}")).await;
            }
        }
        for (kind, plural, name, _) in &rows {
            sim.until(&format!("the first patch of {kind} {name} is under way"), |_| {
                under_way.lock().unwrap().contains(&((*kind).to_owned(), (*name).to_owned()))
            })
            .await;
            let mut held = finalizers(&sim, kind, "fleet", name);
            held.retain(|it| it != GOES);
            assert!(held.len() > 1, "{kind} {name} still holds itself");
            sim.patch(plural, "fleet", name, json!({ "metadata": { "finalizers": held } })).await;
        }
        // Some are held by others of these as long as they exist.
        let mut rounds = 0;
        let mut freed = BTreeSet::new();
        while !rows.is_empty() {
            rows.retain(|(kind, _, name, _)| {
                let is_there = sim.server.get_object(kind, "fleet", name).is_some();
                assert!(is_there || freed.contains(kind), "{kind} {name} is gone although others hold it");
                is_there
            });
            for (kind, plural, name, _) in &rows {
                let held = finalizers(&sim, kind, "fleet", name);
                assert!(held.iter().any(|it| it == STAYS), "{kind} {name}: that of others is gone: {held:?}");
                if held == [STAYS] {
                    freed.insert(*kind);
                    sim.patch(plural, "fleet", name, json!({ "metadata": { "finalizers": [] } })).await;
                }
            }
            pass(Duration::from_secs(1)).await;
            rounds += 1;
            assert!(rounds < 600, "they are not let go: {}", sim.describe());
        }
        sim.shut_down().await;
    });
}
