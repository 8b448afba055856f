//! What is left over, or lost, outside the usual way: it goes, or comes back, all the same.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_embedded::{Fault as ApiFault, FaultPlan, FaultRule, Verb, WatchFault};
use serde_json::{Value, json};
use solar_controller::actors::system::Options;
use solar_controller::adapters::oci::Reference;
use solar_controller::dev::registry::{Access, Fault, RegistryOperation};
use tokio::time::Instant;

use crate::artifacts::held_by_a_person;
use crate::scene::{
    HERE, RELEASE, Traffic, delete_target, install_platform, install_target, is_ready, kill_and_start,
    object, pass, ready, ready_looking_every, tag, until_all_gone,
};
use crate::support::{Simulation, on_paused_time, options};

// ---- bindings under other names ----

/// Copies the binding of the release chart under another name.
fn copy_binding(sim: &Simulation, with_owner: bool) {
    let artifact = sim
        .server
        .objects("RenderArtifact")
        .find(|artifact| artifact["spec"]["repository"] == RELEASE)
        .unwrap();
    let binding = sim
        .server
        .objects("RenderBinding")
        .find(|it| it["spec"]["renderArtifactRef"]["name"] == artifact["metadata"]["name"]);
    let mut copy = binding.unwrap();
    let meta = copy["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
        meta.remove(field);
    }
    if !with_owner {
        meta.remove("ownerReferences");
    }
    meta.insert("name".to_owned(), Value::from("copied-by-a-person"));
    sim.server.install(copy).unwrap();
}

#[test]
fn a_deleted_target_gives_up_a_binding_of_it_whatever_its_name() {
    for with_owner in [true, false] {
        on_paused_time(move || async move {
            let sim = ready().await;
            copy_binding(&sim, with_owner);
            pass(Duration::from_secs(10)).await;
            assert_eq!(sim.server.count("RenderBinding"), 3, "nobody takes it away: {}", sim.describe());
            delete_target(&sim, "one").await;
            until_all_gone(&sim).await;
            sim.shut_down().await;
        });
    }
}

#[test]
fn a_stale_chart_goes_although_a_binding_of_its_target_has_another_name() {
    on_paused_time(|| async {
        let sim = ready().await;
        copy_binding(&sim, true);
        let old = tag(&sim).unwrap();
        let patch = json!({ "spec": { "values": { "replicaCount": 2 } } });
        sim.patch("releases", "fleet", "web", patch).await;
        sim.until("the old chart is gone", |sim| {
            sim.store.resolve(RELEASE, &Reference::tag(old.clone())).is_none()
        })
        .await;
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        pass(Duration::from_secs(60)).await;
        sim.server.reset_requests();
        pass(Duration::from_secs(600)).await;
        let requests = sim.server.requests();
        let asked: Vec<_> = requests.iter().filter(|request| request.verb != Verb::Watch).collect();
        assert!(asked.is_empty(), "nothing is left to do: {asked:?}");
        sim.shut_down().await;
    });
}

// ---- behind a restart, and behind a queue ----

/// A Target may be served before the artifacts that it holds: then the first that such an artifact's actor is told is
/// that it is held no more.
#[test]
fn the_tags_of_targets_that_are_deleted_across_a_restart_go_without_the_grace_of_what_was_never_bound() {
    on_paused_time(|| async {
        let mut sim = Simulation::new();
        sim.store.set_access(Access::Open);
        install_platform(&sim);
        let names: Vec<String> = (0..60).map(|number| format!("target-{number}")).collect();
        for name in &names {
            install_target(&sim, name, "charts");
        }
        sim.until("all Targets are ready", Simulation::all_ready).await;
        sim.server.fence("controller");
        sim.store.fence("controller");
        for name in &names {
            delete_target(&sim, name).await;
        }
        let few = Options { max_concurrent_reconciles: 1, ..options() };
        kill_and_start(&mut sim, "controller", "next", few);
        let began = Instant::now();
        until_all_gone(&sim).await;
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        sim.shut_down().await;
    });
}

/// A scene in which a watch of this kind tells the controller everything a while later.
fn with_late_watches(resources: &[&str]) -> Simulation {
    let (server, store) = crate::support::world();
    let late = WatchFault { delay: Some(Duration::from_secs(20)), ..WatchFault::default() };
    for resource in resources {
        let rule = FaultRule::new(ApiFault::Watch(late)).actor("controller").verb(Verb::Watch);
        server.add_fault(rule.resource(resource));
    }
    let sim = Simulation::over(server, store, options());
    sim.store.set_access(Access::Open);
    install_platform(&sim);
    sim
}

/// Every one that was made is deleted by the controller, and the Target's finalizer goes after that: where it went first,
/// the garbage collector would come before whoever gives the tags up.
fn assert_given_up_before_the_target_went(sim: &Simulation, context: &str) {
    let requests = sim.server.requests();
    let ours: Vec<_> = requests.iter().filter(|it| &*it.actor == "controller" && it.code < 300).collect();
    let names = |verb: Verb, resource: &str| -> BTreeSet<&str> {
        let found = ours.iter().filter(|it| it.verb == verb && &*it.resource == resource);
        found.map(|it| &*it.name).collect()
    };
    let last = |verb: Verb, resource: &str| {
        let found = ours
            .iter()
            .filter(|it| it.verb == verb && &*it.resource == resource && it.subresource.is_empty());
        found.map(|it| it.number).max()
    };
    for resource in ["rendertasks", "renderbindings"] {
        let made = names(Verb::Create, resource);
        assert!(!made.is_empty(), "{context}: {resource}");
        assert_eq!(names(Verb::Delete, resource), made, "{context}: {resource}");
        let (deleted, let_go) = (last(Verb::Delete, resource), last(Verb::Patch, "targets"));
        assert!(deleted < let_go, "{context}: {resource}: {deleted:?}, the Target {let_go:?}");
    }
}

/// Whether a Target still holds anything says the API server, not a watch that has not told of it yet.
#[test]
fn a_target_that_is_deleted_before_the_watch_shows_what_it_has_goes_after_all_of_it() {
    let both: &[&str] = &["renderbindings", "rendertasks"];
    for late in [&both[..1], &both[1..], both, &["renderbindings", "rendertasks", "renderartifacts"]] {
        on_paused_time(move || async move {
            let context = format!("{late:?}");
            let sim = with_late_watches(late);
            install_target(&sim, "one", "charts");
            sim.until("it has bindings and tasks", |sim| {
                sim.server.count("RenderBinding") > 0 && sim.server.count("RenderTask") > 0
            })
            .await;
            delete_target(&sim, "one").await;
            until_all_gone(&sim).await;
            assert_given_up_before_the_target_went(&sim, &context);
            pass(Duration::from_secs(120)).await;
            assert!(sim.tags().is_empty(), "{context}: nothing comes later: {:?}", sim.tags());
            sim.shut_down().await;
        });
    }
}

/// As above, when everything is known and pushed, and the watch does not tell what becomes of it: a Target must not wait
/// for what is gone, nor a second one lose what it shares.
#[test]
fn a_target_that_is_deleted_while_the_watches_lag_takes_nothing_of_another_along() {
    on_paused_time(|| async {
        let sim = with_late_watches(&["renderbindings", "rendertasks", "renderartifacts"]);
        install_target(&sim, "one", "charts");
        install_target(&sim, "two", "charts");
        sim.until("both are ready", Simulation::all_ready).await;
        let shared = tag(&sim).unwrap();
        sim.store.clear_log();
        delete_target(&sim, "one").await;
        sim.until("it is gone", |sim| sim.server.get_object("Target", "fleet", "one").is_none()).await;
        pass(Duration::from_secs(600)).await;
        assert_eq!(tag(&sim), Some(shared));
        // Nor was it taken for a moment.
        let log = sim.store.log();
        let asked = log.iter().filter(|entry| entry.repository == RELEASE).count();
        assert_eq!(asked, 0, "of what is shared nothing is deleted or pushed again: {log:?}");
        assert!(is_ready(&sim, "two"), "{}", sim.describe());
        let owners: BTreeSet<String> = ["RenderBinding", "RenderTask"]
            .iter()
            .flat_map(|kind| sim.server.objects(kind))
            .map(|it| it["spec"]["ownerName"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(owners, ["two".to_owned()].into());
        delete_target(&sim, "two").await;
        until_all_gone(&sim).await;
        sim.shut_down().await;
    });
}

/// Nothing of the Bind is there yet when its Target goes: it is made afterwards, for nobody. Where the binding is there,
/// the Target waits for it.
#[test]
fn a_bind_that_ends_after_its_target_has_gone_leaves_nothing() {
    for resource in ["renderbindings", "renderartifacts"] {
        on_paused_time(move || async move {
            let sim = Simulation::new();
            sim.store.set_access(Access::Open);
            install_platform(&sim);
            let slow = FaultRule::new(ApiFault::Delay(Duration::from_secs(10))).verb(Verb::Create);
            sim.server.add_fault(slow.actor("controller").resource(resource).times(1));
            install_target(&sim, "one", "charts");
            sim.until("the Bind is under way", |sim| {
                let requests = sim.server.requests();
                requests.iter().any(|it| it.verb == Verb::Create && &*it.resource == resource)
            })
            .await;
            delete_target(&sim, "one").await;
            if resource == "renderbindings" {
                sim.until("it is gone", |sim| sim.server.get_object("Target", "fleet", "one").is_none())
                    .await;
                assert_eq!(sim.server.count("RenderBinding"), 0, "nothing of it is there yet");
            }
            sim.until("the Bind has ended", |sim| {
                let requests = sim.server.requests();
                requests.iter().any(|it| &*it.resource == "renderartifacts" && it.code == 201)
            })
            .await;
            // Where the artifact is made last, it was never seen bound by anybody, and goes after the grace.
            until_all_gone(&sim).await;
            assert!(sim.tags().is_empty(), "{resource}: {:?}", sim.tags());
            sim.shut_down().await;
        });
    }
}

/// A clean-up that waits behind another may wait for long: that nothing is bound is read again when its turn comes.
#[test]
fn what_is_bound_while_its_clean_up_waits_behind_a_registry_that_hangs_keeps_its_tag() {
    on_paused_time(|| async {
        let (server, store) = crate::support::world();
        let sim = Simulation::over(server, store, Options { max_concurrent_errands: 1, ..options() });
        sim.store.set_access(Access::Open);
        install_platform(&sim);
        install_target(&sim, "one", "charts");
        sim.until("the Target is ready", Simulation::all_ready).await;
        let artifacts: Vec<(String, String)> = sim
            .server
            .objects("RenderArtifact")
            .map(|it| {
                let text = |path: &str| it.pointer(path).and_then(Value::as_str).unwrap().to_owned();
                (text("/spec/repository"), text("/metadata/name"))
            })
            .collect();
        let mut left = 1;
        let traffic = Traffic::with_faults(&sim, move |_| {
            let strikes = left > 0;
            left -= usize::from(strikes);
            if strikes { Fault::Hang } else { Fault::None }
        });
        delete_target(&sim, "one").await;
        sim.until("one clean-up hangs", |_| !traffic.seen().is_empty()).await;
        let hanging = traffic.seen()[0].info.repository.clone();
        sim.until("the other is decided upon", |sim| {
            artifacts.iter().all(|(_, name)| {
                let artifact = sim.server.get_object("RenderArtifact", "fleet", name).unwrap();
                !artifact["metadata"]["deletionTimestamp"].is_null()
            })
        })
        .await;
        pass(Duration::from_secs(2)).await;
        assert!(traffic.seen().iter().all(|seen| seen.info.repository == hanging), "one at a time");
        let (repository, artifact) = artifacts.iter().find(|(repository, _)| *repository != hanging).unwrap();
        sim.server.install(held_by_a_person("restored", artifact)).unwrap();
        pass(Duration::from_secs(600)).await;
        assert!(
            sim.tags().iter().any(|tag| tag.starts_with(&format!("{repository}:"))),
            "{}",
            sim.describe()
        );
        let deletes = traffic.seen();
        let deletes = deletes.iter().filter(|seen| {
            seen.info.repository == *repository && seen.info.operation == RegistryOperation::DeleteTag
        });
        assert_eq!(deletes.count(), 0);
        sim.delete(&format!("{HERE}/renderbindings/restored")).await;
        until_all_gone(&sim).await;
        sim.shut_down().await;
    });
}

/// The watch shows none of its bindings, and the one that there is names the Release that the Profile named before.
#[test]
fn a_profile_that_moves_and_is_deleted_at_once_waits_for_the_bindings_of_the_release_before() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        install_platform(&sim);
        let spec = json!({ "renderRegistryRef": { "name": "charts" } });
        let mut target = object("Target", "fleet", "one", spec);
        target["metadata"]["labels"] = json!({ "ring": "canary" });
        sim.server.install(target).unwrap();
        pass(Duration::from_secs(10)).await;
        let late = WatchFault { delay: Some(Duration::from_secs(20)), ..WatchFault::default() };
        sim.server
            .add_fault(FaultRule::new(ApiFault::Watch(late)).actor("controller").resource("releasebindings"));
        sim.server.cut_watches(|request| &*request.resource == "releasebindings");
        pass(Duration::from_secs(60)).await;
        let selector = json!({ "matchLabels": { "ring": "canary" } });
        let spec = json!({ "releaseRef": { "name": "web" }, "targetSelector": selector });
        sim.server.install(object("Profile", "fleet", "canary", spec)).unwrap();
        sim.until("its binding is made", |sim| sim.server.count("ReleaseBinding") == 1).await;
        sim.patch("profiles", "fleet", "canary", json!({ "spec": { "releaseRef": { "name": "other" } } }))
            .await;
        sim.delete(&format!("{HERE}/profiles/canary")).await;
        sim.until("the Profile is gone", |sim| {
            let is_gone = sim.server.count("Profile") == 0;
            assert!(!is_gone || sim.server.count("ReleaseBinding") == 0, "{}", sim.describe());
            is_gone
        })
        .await;
        sim.shut_down().await;
    });
}

// ---- a tag that is gone ----

/// The look comes once in six hours: what it has found must not wait for the next.
#[test]
fn a_lost_tag_that_a_look_has_found_is_pushed_again_although_the_first_status_write_fails() {
    for fault in [ApiFault::conflict(), ApiFault::unavailable()] {
        on_paused_time(move || async move {
            let sim = ready_looking_every(Duration::from_secs(6 * 3_600)).await;
            pass(Duration::from_secs(60)).await;
            let name = tag(&sim).unwrap();
            let is_there =
                |sim: &Simulation| sim.store.resolve(RELEASE, &Reference::tag(name.clone())).is_some();
            let rule = FaultRule::new(fault.clone()).actor("controller").verb(Verb::Patch).times(1);
            sim.server.add_fault(rule.resource("renderartifacts").subresource("status"));
            sim.store.remove_tag(RELEASE, &name);
            sim.server.reset_requests();
            let struck = |sim: &Simulation| {
                sim.server.requests().iter().any(|request| {
                    &*request.resource == "renderartifacts" && &*request.subresource == "status"
                })
            };
            for _ in 0..7 * 360 {
                if struck(&sim) {
                    break;
                }
                pass(Duration::from_secs(10)).await;
            }
            assert!(struck(&sim), "the look came within the interval");
            pass(Duration::from_secs(30)).await;
            assert!(is_there(&sim), "{fault:?}: {}", sim.describe());
            sim.until("the Target is ready", Simulation::all_ready).await;
            sim.shut_down().await;
        });
    }
}

#[test]
fn a_lost_tag_whose_loss_cannot_be_written_down_is_looked_at_ever_more_seldom() {
    on_paused_time(|| async {
        let sim = ready_looking_every(Duration::from_secs(600)).await;
        let denied = ApiFault::status(403, "Forbidden", "nobody writes statuses");
        let rule = FaultRule::new(denied).actor("controller").verb(Verb::Patch).resource("renderartifacts");
        sim.server.add_fault(rule.subresource("status"));
        let name = tag(&sim).unwrap();
        sim.store.remove_tag(RELEASE, &name);
        let heads = |sim: &Simulation| sim.store.count(RegistryOperation::HeadManifest);
        let before = heads(&sim);
        pass(Duration::from_secs(3_600)).await;
        let looked = heads(&sim) - before;
        assert!((6..40).contains(&looked), "{looked} looks in an hour");
        sim.server.set_faults(FaultPlan::new());
        pass(Duration::from_secs(601)).await;
        let back = |sim: &Simulation| sim.store.resolve(RELEASE, &Reference::tag(name.clone())).is_some();
        assert!(back(&sim), "{}", sim.describe());

        // What failed before is no reason to wait when it is lost once more.
        pass(Duration::from_secs(60)).await;
        let rule = FaultRule::new(ApiFault::conflict()).actor("controller").verb(Verb::Patch).times(1);
        sim.server.add_fault(rule.resource("renderartifacts").subresource("status"));
        sim.store.remove_tag(RELEASE, &name);
        sim.server.reset_requests();
        for _ in 0..70 {
            if sim.server.requests().iter().any(|request| request.code == 409) {
                break;
            }
            pass(Duration::from_secs(10)).await;
        }
        pass(Duration::from_secs(10)).await;
        assert!(back(&sim), "{}", sim.describe());
        sim.shut_down().await;
    });
}
