//! A tag that nobody needs goes, on every kind of registry and through every disturbance; or its artifact says why not.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_embedded::{Fault as ApiFault, FaultRule, Verb};
use serde_json::json;
use solar_controller::adapters::oci::{Artifact, Digest, Endpoint, OciRegistry as _, Reference};
use solar_controller::dev::registry::{Access, Behaviour, Fault, RegistryOperation};

use crate::scene::{
    HERE, RELEASE, Traffic, add_sibling, assert_sibling_lives, cleanup_failure, delete_target,
    install_platform, install_target, is_ready, kill_and_start, pass, ready, registry, secret, tag,
    until_all_gone, until_cleanup_fails,
};
use crate::support::{Simulation, on_paused_time, options};

/// Registries on which a tag can be deleted, one way or the other.
fn deletable() -> [Behaviour; 5] {
    [
        Behaviour::default(),
        Behaviour::distribution_2(),
        Behaviour::harbor(),
        Behaviour::refuses_tags_with_405(),
        Behaviour::says_404_while_alive(),
    ]
}

#[test]
fn the_tags_of_a_deleted_target_go_on_each_kind_of_registry_and_siblings_stay() {
    for behaviour in deletable() {
        for access in [Access::basic("solar", "solar-dev"), Access::token("solar", "solar-dev")] {
            let behaviour = behaviour.clone();
            on_paused_time(|| async move {
                let sim = Simulation::new();
                let context = format!("{behaviour:?} {access:?}");
                sim.store.set_behaviour(behaviour);
                sim.store.set_access(access);
                install_platform(&sim);
                install_target(&sim, "one", "charts");
                sim.until("the Target is ready", Simulation::all_ready).await;
                add_sibling(&sim);
                delete_target(&sim, "one").await;
                until_all_gone(&sim).await;
                assert_sibling_lives(&sim, &context);
                sim.shut_down().await;
            });
        }
    }
}

/// A push that was answered leaves nothing under way, whatever the answer was: only one without an answer holds up the
/// clean-up.
#[test]
fn after_a_push_that_was_refused_the_artifact_of_a_deleted_target_goes_at_once() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        sim.store.set_access(Access::basic("solar", "another"));
        install_platform(&sim);
        install_target(&sim, "one", "charts");
        sim.until("the push was refused", |sim| {
            let said = sim.condition("Target", "fleet", "one", "ReleasesRendered");
            said.is_some_and(|(_, reason, ..)| reason == "ReleaseFailed")
        })
        .await;
        sim.store.set_access(Access::basic("solar", "solar-dev"));
        let deleted = tokio::time::Instant::now();
        delete_target(&sim, "one").await;
        until_all_gone(&sim).await;
        assert!(deleted.elapsed() < Duration::from_secs(5), "it took {:?}", deleted.elapsed());
        sim.shut_down().await;
    });
}

#[test]
fn a_registry_without_deletion_is_said_and_heals_by_itself_once_deletion_is_enabled() {
    let refusals = [
        Behaviour::deletion_off(),
        Behaviour::deletion_refused(400, "UNSUPPORTED"),
        Behaviour::deletion_refused(403, "DENIED"),
    ];
    for behaviour in refusals {
        on_paused_time(|| async move {
            let sim = ready().await;
            let refuses_at_once = behaviour == Behaviour::deletion_refused(403, "DENIED");
            sim.store.set_behaviour(behaviour);
            delete_target(&sim, "one").await;
            let (reason, message) = until_cleanup_fails(&sim).await;
            assert_eq!(reason, "DeleteFailed");
            let said = if refuses_at_once {
                "registry refuses the deletion"
            } else {
                "registry does not support deletion"
            };
            assert!(message.contains(said), "{message}");
            let before = sim.store.log().len();
            pass(Duration::from_secs(3_600)).await;
            let requests = sim.store.log().len() - before;
            assert!(requests < 2 * 20 * 8, "{requests} requests in an hour for two tags");
            assert_eq!(sim.store.count(RegistryOperation::PutManifest), 2, "nothing is pushed over the tags");
            sim.store.set_behaviour(Behaviour::distribution_2());
            until_all_gone(&sim).await;
            sim.shut_down().await;
        });
    }
}

/// What meets each step of a clean-up three times, and what `OCICleanup` must say of it.
fn disturbances() -> Vec<(Fault, &'static str)> {
    vec![
        (Fault::status(401, "UNAUTHORIZED"), "check Secret fleet/push"),
        (Fault::status(403, "DENIED"), ""),
        (Fault::Status { status: 429, code: "TOOMANYREQUESTS", retry_after: Some(1) }, "429"),
        (Fault::status(503, ""), "503"),
        (Fault::Cut, "connection"),
        (Fault::CutAfterEffect, "connection"),
        (Fault::Hang, ""),
        (Fault::HangAfterEffect, ""),
    ]
}

#[test]
fn a_clean_up_that_is_disturbed_at_any_step_says_so_and_ends_well_without_hurting_a_sibling() {
    let steps = [
        RegistryOperation::HeadManifest,
        RegistryOperation::DeleteTag,
        RegistryOperation::PutManifest,
        RegistryOperation::DeleteDigest,
    ];
    for step in steps {
        for (fault, said) in disturbances() {
            on_paused_time(move || async move {
                let context = format!("{step} {fault:?}");
                let sim = ready().await;
                sim.store.set_behaviour(Behaviour::distribution_2());
                add_sibling(&sim);
                let mut left = 3;
                let traffic = Traffic::with_faults(&sim, move |info| {
                    let strikes = info.operation == step && info.repository == RELEASE && left > 0;
                    left -= usize::from(strikes);
                    if strikes { fault.clone() } else { Fault::None }
                });
                delete_target(&sim, "one").await;
                let (reason, message) = until_cleanup_fails(&sim).await;
                assert_eq!(reason, "DeleteFailed", "{context}");
                assert!(message.contains(said), "{context}: {message}");
                until_all_gone(&sim).await;
                // What may still land has landed.
                pass(Duration::from_secs(60)).await;
                assert_sibling_lives(&sim, &context);
                assert!(sim.tags().len() == 1 && !traffic.seen().is_empty(), "{context}: {:?}", sim.tags());
                sim.shut_down().await;
            });
        }
    }
}

/// Each request has its time, and all of an attempt have thirty seconds.
#[test]
fn an_attempt_on_a_slow_registry_ends_after_thirty_seconds_wherever_it_is_and_is_made_again() {
    on_paused_time(|| async {
        let sim = ready().await;
        sim.store.set_access(Access::Open);
        sim.store.set_behaviour(Behaviour::distribution_2());
        add_sibling(&sim);
        let slow = Duration::from_secs(9);
        let traffic = Traffic::with_faults(&sim, move |_| Fault::Latency(slow));
        delete_target(&sim, "one").await;
        sim.until("the attempt begins", |_| !traffic.seen().is_empty()).await;
        let began = tokio::time::Instant::now();
        let (reason, message) = until_cleanup_fails(&sim).await;
        let took = began.elapsed().as_secs();
        assert!((29..32).contains(&took), "{took} s: {message}");
        assert_eq!(reason, "DeleteFailed");
        assert!(message.contains("did not end within 30 s"), "{message}");
        sim.store.clear_faults();
        until_all_gone(&sim).await;
        assert_sibling_lives(&sim, "slow");
        sim.shut_down().await;
    });
}

#[test]
fn a_process_killed_between_the_throw_away_manifest_and_its_deletion_is_finished_by_the_next() {
    on_paused_time(|| async {
        let mut sim = ready().await;
        sim.store.set_behaviour(Behaviour::distribution_2());
        add_sibling(&sim);
        let old_tag = tag(&sim).unwrap();
        let marker = Artifact::marker(RELEASE, &old_tag);
        let digest = marker.digest().as_str().to_owned();
        // The deletion of the marker never comes to anything.
        sim.store.set_faults(move |info| if info.reference == digest { Fault::Hang } else { Fault::None });
        delete_target(&sim, "one").await;
        let held = |sim: &Simulation| sim.store.resolve(RELEASE, &Reference::tag(&*old_tag));
        sim.until("the marker is pushed", |sim| held(sim).as_ref() == Some(marker.digest())).await;
        pass(Duration::from_millis(500)).await;
        kill_and_start(&mut sim, "controller", "next", options());
        sim.store.clear_faults();
        until_all_gone(&sim).await;
        assert_sibling_lives(&sim, "killed");
        sim.shut_down().await;
    });
}

#[test]
fn a_push_that_finds_a_throw_away_manifest_takes_the_tag_as_absent() {
    on_paused_time(|| async {
        let sim = ready().await;
        let tag = tag(&sim).unwrap();
        delete_target(&sim, "one").await;
        until_all_gone(&sim).await;
        sim.store.set_access(Access::Open);
        let marker = Artifact::marker(RELEASE, &tag);
        push_by_hand(&sim, &tag, &marker).await;
        install_target(&sim, "one", "charts");
        sim.until("the Target is ready", Simulation::all_ready).await;
        let held = sim.store.resolve(RELEASE, &Reference::tag(&*tag));
        assert!(held.is_some_and(|held| held != *marker.digest()));
        sim.shut_down().await;
    });
}

// ---- what must not block new Targets ----

/// A Target of the same release, whose bootstrap chart is its own.
fn install_second(sim: &Simulation, registry: &str) {
    install_target(sim, "two", registry);
}

#[test]
fn a_tag_that_the_registry_cannot_delete_is_bound_again_by_a_new_target_without_a_push() {
    for behaviour in [Behaviour::deletion_off(), Behaviour::deletion_refused(403, "DENIED")] {
        on_paused_time(|| async move {
            let sim = ready().await;
            let tag_before = tag(&sim);
            sim.store.set_behaviour(behaviour);
            delete_target(&sim, "one").await;
            until_cleanup_fails(&sim).await;
            // Deep in the backoff of the clean-up.
            pass(Duration::from_secs(3_600)).await;
            let pushes = sim.store.count(RegistryOperation::PutManifest);
            let asked = tokio::time::Instant::now();
            install_second(&sim, "charts");
            sim.until("the second Target is ready", |sim| is_ready(sim, "two")).await;
            assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
            assert_eq!(tag(&sim), tag_before);
            assert_eq!(
                sim.store.count(RegistryOperation::PutManifest),
                pushes + 1,
                "the bootstrap chart and nothing else"
            );
            assert_eq!(cleanup_failure(&sim), None, "what is in use is not said to have failed");
            pass(Duration::from_secs(3_600)).await;
            assert_eq!(tag(&sim), tag_before, "it stays while it is bound");
            assert_eq!(cleanup_failure(&sim), None, "nor later");
            sim.store.set_behaviour(Behaviour::default());
            delete_target(&sim, "two").await;
            until_all_gone(&sim).await;
            sim.shut_down().await;
        });
    }
}

#[test]
fn a_tag_that_the_registry_cannot_delete_and_that_holds_something_else_is_not_bound() {
    on_paused_time(|| async {
        let sim = ready().await;
        let tag = tag(&sim).unwrap();
        sim.store.set_behaviour(Behaviour::deletion_off());
        delete_target(&sim, "one").await;
        until_cleanup_fails(&sim).await;
        sim.store.remove_tag(RELEASE, &tag);
        // No attempt may find out first.
        sim.store.set_faults(|info| match info.operation {
            RegistryOperation::HeadManifest if info.repository == RELEASE => Fault::status(503, ""),
            _ => Fault::None,
        });
        install_second(&sim, "charts");
        pass(Duration::from_secs(120)).await;
        assert_eq!(
            sim.server.objects("RenderBinding").filter(|b| b["spec"]["ownerName"] == "two").count(),
            0
        );
        sim.store.clear_faults();
        sim.until("the second Target is ready", |sim| is_ready(sim, "two")).await;
        assert!(sim.store.resolve(RELEASE, &Reference::tag(&*tag)).is_some(), "it was pushed anew");
        sim.shut_down().await;
    });
}

#[test]
fn a_tag_without_credentials_takes_those_of_a_target_that_wants_to_bind() {
    on_paused_time(|| async {
        let sim = ready().await;
        // The Target does not follow its Registry, so that nothing of the new host has to be cleaned up.
        let suspended =
            json!({ "metadata": { "annotations": { "solar.opendefense.cloud/suspend": "true" } } });
        sim.patch("targets", "fleet", "one", suspended).await;
        let moved = json!({ "spec": { "hostname": "moved.example" } });
        sim.patch("registries", "fleet", "charts", moved).await;
        delete_target(&sim, "one").await;
        let (reason, message) = until_cleanup_fails(&sim).await;
        assert_eq!(reason, "AuthFailed");
        assert!(message.contains("Registry fleet/charts has the hostname moved.example"), "{message}");
        assert!(message.contains("name a Registry with that hostname"), "{message}");
        pass(Duration::from_secs(3_600)).await;
        let requests = sim.store.log().len();
        pass(Duration::from_secs(600)).await;
        assert_eq!(sim.store.log().len(), requests, "no request with the credentials of another host");
        sim.server.install(secret("fleet", "other", "solar-dev")).unwrap();
        sim.server.install(registry("fleet", "other", "other")).unwrap();
        let asked = tokio::time::Instant::now();
        install_second(&sim, "other");
        sim.until("the second Target is ready", |sim| is_ready(sim, "two")).await;
        assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
        sim.shut_down().await;
    });
}

// ---- a Bind that is refused ----

#[test]
fn a_bind_that_the_api_server_refuses_is_the_askers_condition_and_holds_up_nobody_else() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        install_platform(&sim);
        let refuse = ApiFault::status(403, "Forbidden", "renderbindings is forbidden: exceeded quota");
        let rule = FaultRule::new(refuse).actor("controller").verb(Verb::Create).resource("renderbindings");
        sim.server.add_fault(rule.times(1));
        install_target(&sim, "one", "charts");
        sim.until("the first Target says so", |sim| {
            sim.condition("Target", "fleet", "one", "ReleasesRendered").is_some_and(|(_, reason, message)| {
                reason == "ReleaseFailed" && message.contains("exceeded quota")
            })
        })
        .await;
        let asked = tokio::time::Instant::now();
        install_second(&sim, "charts");
        sim.until("the second Target is ready", |sim| is_ready(sim, "two")).await;
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
        sim.until("the first Target is ready", |sim| is_ready(sim, "one")).await;
        sim.shut_down().await;
    });
}

#[test]
fn what_a_clean_up_came_to_is_said_although_its_first_write_fails() {
    on_paused_time(|| async {
        let sim = ready().await;
        sim.store.set_behaviour(Behaviour::deletion_off());
        let rule = FaultRule::new(ApiFault::internal()).actor("controller").verb(Verb::Patch);
        sim.server.add_fault(rule.resource("renderartifacts").subresource("status").times(3));
        let failed = || sim.server.requests().iter().filter(|request| request.code == 500).count();
        delete_target(&sim, "one").await;
        sim.until("writes of the status fail", |_| failed() >= 3).await;
        let attempts = sim.store.count(RegistryOperation::DeleteTag);
        until_cleanup_fails(&sim).await;
        assert!(sim.store.count(RegistryOperation::DeleteTag) <= attempts + 2, "not by attempts alone");
        sim.shut_down().await;
    });
}

// ---- what stays ----

/// Notes of the events with this reason about RenderArtifacts.
fn notes(sim: &Simulation, reason: &str) -> Vec<String> {
    let events = sim.server.objects("Event").filter(|event| event["reason"] == reason);
    let note = |event: serde_json::Value| {
        event["note"].as_str().or_else(|| event["message"].as_str()).unwrap_or_default().to_owned()
    };
    events.map(note).collect()
}

#[test]
fn what_somebody_else_pushed_to_the_tag_stays_and_a_warning_names_both_digests() {
    on_paused_time(|| async {
        let sim = ready().await;
        let tag = tag(&sim).unwrap();
        let ours = sim.store.resolve(RELEASE, &Reference::tag(&*tag)).unwrap();
        sim.store.set_access(Access::Open);
        let foreign =
            push_by_hand(&sim, &tag, &Artifact::chart(&b"{}"[..], &b"theirs"[..], &BTreeMap::new())).await;
        delete_target(&sim, "one").await;
        sim.until("the artifacts are gone", |sim| sim.server.count("RenderArtifact") == 0).await;
        assert_eq!(sim.store.resolve(RELEASE, &Reference::tag(&*tag)), Some(foreign.clone()));
        let warned = notes(&sim, "OCICleanupFailed");
        assert!(
            warned.iter().any(|note| note.contains(foreign.as_str()) && note.contains(ours.as_str())),
            "{warned:?}"
        );
        sim.shut_down().await;
    });
}

async fn push_by_hand(sim: &Simulation, tag: &str, artifact: &Artifact) -> Digest {
    let handle = sim.store.handle("a person");
    let endpoint = Endpoint::anonymous(crate::support::REGISTRY, true);
    handle.push(&endpoint, RELEASE, tag, artifact).await.unwrap()
}

#[test]
fn an_artifact_that_is_deleted_by_hand_while_it_is_bound_keeps_its_tag_and_says_so_once_for_each_stay() {
    on_paused_time(|| async {
        let sim = ready().await;
        let tags = sim.tags();
        let artifacts: Vec<_> = sim.server.objects("RenderArtifact").collect();
        for artifact in &artifacts {
            let name = artifact["metadata"]["name"].as_str().unwrap();
            sim.delete(&format!("{HERE}/renderartifacts/{name}")).await;
        }
        pass(Duration::from_secs(3_600)).await;
        assert_eq!(sim.tags(), tags, "the tags are kept");
        assert!(is_ready(&sim, "one"));
        assert_eq!(notes(&sim, "OCICleanupSkipped").len(), artifacts.len());
        // A further owner is bound too, for no clean-up can begin.
        install_second(&sim, "charts");
        sim.until("the second Target is ready", |sim| is_ready(sim, "two")).await;
        delete_target(&sim, "one").await;
        delete_target(&sim, "two").await;
        until_all_gone(&sim).await;
        sim.shut_down().await;
    });
}

// ---- requests that repeat ----

#[test]
fn requests_of_one_owner_that_repeat_during_an_outage_do_not_pile_up() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        install_platform(&sim);
        let rule = FaultRule::new(ApiFault::unavailable()).actor("controller").verb(Verb::Create);
        sim.server.add_fault(rule.resource("renderbindings"));
        install_target(&sim, "one", "charts");
        pass(Duration::from_secs(3_600)).await;
        let mut waiting = 0;
        let directory = &sim.running.shared.directory;
        for key in directory.keys() {
            if let Some(addr) = directory.find(&key) {
                waiting += addr.snapshot().await.map_or(0, |snapshot| snapshot.requests);
            }
        }
        assert_eq!(waiting, 1, "the Bind of the Target, once");
        sim.server.set_faults(kube_embedded::FaultPlan::new());
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        sim.shut_down().await;
    });
}
