//! What is left over, or lost, outside the usual way: it goes, or comes back, all the same.

use std::time::Duration;

use kube_embedded::{Fault as ApiFault, FaultRule, Verb};
use serde_json::Value;
use solar_controller::adapters::oci::Reference;
use solar_controller::dev::registry::Access;

use crate::scene::{
    RELEASE, delete_target, install_platform, install_target, is_ready, pass, ready, tag, until_all_gone,
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
        let patch = serde_json::json!({ "spec": { "values": { "replicaCount": 2 } } });
        sim.patch("releases", "fleet", "web", patch).await;
        sim.until("the old chart is gone", |sim| {
            sim.store.resolve(RELEASE, &Reference::tag(old.clone())).is_none()
        })
        .await;
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        pass(Duration::from_secs(60)).await;
        let requests = sim.server.request_count();
        pass(Duration::from_secs(600)).await;
        assert_eq!(sim.server.request_count(), requests, "nothing is left to do");
        sim.shut_down().await;
    });
}

// ---- a tag that is gone ----

/// The look comes once in six hours: what it has found must not wait for the next.
#[test]
fn a_lost_tag_that_a_look_has_found_is_pushed_again_although_the_first_status_write_fails() {
    for fault in [ApiFault::conflict(), ApiFault::unavailable()] {
        on_paused_time(move || async move {
            let mut options = options();
            options.artifact.check_interval = Some(Duration::from_secs(6 * 3_600));
            let (server, store) = crate::support::world();
            let sim = Simulation::over(server, store, options);
            sim.store.set_access(Access::Open);
            install_platform(&sim);
            install_target(&sim, "one", "charts");
            sim.until("the Target is ready", Simulation::all_ready).await;
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
