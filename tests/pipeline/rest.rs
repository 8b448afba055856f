//! Actors that have nothing to do go to rest, and nobody can tell.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_embedded::{Fault as ApiFault, FaultRule, Verb, WatchFault};
use serde_json::json;
use solar_controller::dev::registry::Access;
use solar_controller::messages::object::{Cause, Departure};
use solar_core::object::ObjectName;
use solar_core::routes::{ActorKey, RELEASE_BINDING, TARGET};

use crate::scene::{install_platform, install_target, is_ready, pass, ready};
use crate::support::{Simulation, on_paused_time, options, world};

/// Who has an actor.
fn awake(sim: &Simulation) -> BTreeSet<ActorKey> {
    sim.running.shared.directory.keys().into_iter().collect()
}

fn rest_after(sim: &Simulation) -> Duration {
    sim.running.shared.options.rest_after
}

#[test]
fn actors_of_what_is_ready_rest_and_the_next_change_finds_its_way() {
    on_paused_time(|| async {
        let sim = ready().await;
        assert!(!awake(&sim).is_empty());
        pass(2 * rest_after(&sim)).await;
        assert_eq!(awake(&sim), BTreeSet::new(), "a while without work is enough");

        let traffic = |sim: &Simulation| {
            let requests = sim.server.requests();
            (requests.iter().filter(|it| it.verb != Verb::Watch).count(), sim.store.log().len())
        };
        let before = traffic(&sim);
        pass(20 * rest_after(&sim)).await;
        assert_eq!(traffic(&sim), before, "those who rest ask nothing");

        let first = sim.tags();
        sim.patch("releases", "fleet", "web", json!({ "spec": { "values": { "replicaCount": 9 } } })).await;
        sim.until("it is ready with the new chart", |sim| {
            is_ready(sim, "one") && sim.tags().is_disjoint(&first)
        })
        .await;
        pass(2 * rest_after(&sim)).await;
        assert_eq!(awake(&sim), BTreeSet::new(), "and they rest again");
        sim.shut_down().await;
    });
}

#[test]
fn what_an_actor_wrote_and_the_watch_does_not_show_is_remembered_through_its_rest() {
    on_paused_time(|| async {
        let (server, store) = world();
        let late = WatchFault { delay: Some(Duration::from_secs(200)), ..WatchFault::default() };
        let rule = FaultRule::new(ApiFault::Watch(late)).actor("controller").verb(Verb::Watch);
        server.add_fault(rule.resource("releasebindings"));
        store.set_access(Access::Open);
        let sim = Simulation::over(server, store, options());
        install_platform(&sim);
        install_target(&sim, "one", "charts");
        sim.until("the binding says that it holds", |sim| {
            let mut bindings = sim.server.objects("ReleaseBinding");
            bindings.any(|binding| binding["status"]["conditions"].is_array())
        })
        .await;
        pass(Duration::from_secs(150)).await;
        let binding = ActorKey::new(RELEASE_BINDING, ObjectName::new("fleet", "one-web"));
        assert!(!awake(&sim).contains(&binding));

        let writes = |sim: &Simulation| {
            let all = sim.server.requests();
            all.iter().filter(|it| it.verb == Verb::Patch && &*it.resource == "releasebindings").count()
        };
        let before = writes(&sim);
        sim.running.shared.wake(&binding, Cause::Change);
        pass(Duration::from_secs(20)).await;
        assert_eq!(writes(&sim) - before, 0, "the next one knows what is written");
        sim.shut_down().await;
    });
}

#[test]
fn who_is_spoken_to_while_it_is_asked_to_go_stays_and_hears_it() {
    on_paused_time(|| async {
        let sim = ready().await;
        let (shared, directory) = (&sim.running.shared, &sim.running.shared.directory);
        let target = ActorKey::new(TARGET, ObjectName::new("fleet", "one"));
        let passes = async || {
            let actor = directory.find(&target).expect("it is there");
            actor.snapshot().await.expect("it answers").passes
        };
        pass(rest_after(&sim) / 2).await;
        let before = passes().await;
        directory.park(&target).expect("it has an actor");
        assert!(directory.park(&target).is_none(), "it is asked once at a time");
        shared.wake(&target, Cause::Change);
        assert!(!directory.let_go(&target, Departure::Ends), "somebody spoke to it");
        pass(Duration::from_secs(1)).await;
        assert_eq!(passes().await, before + 1);

        directory.park(&target).expect("its address is good again");
        assert!(directory.let_go(&target, Departure::Ends));
        assert!(directory.find(&target).is_none());
        shared.wake(&target, Cause::Change);
        pass(Duration::from_secs(1)).await;
        assert_eq!(passes().await, 1, "another one");
        sim.shut_down().await;
    });
}
