//! With several namespaces, a list of one says nothing of the others.

use kube_embedded::{Fault, FaultRule, Verb};
use serde_json::json;
use solar_controller::actors::root::State;
use solar_controller::actors::system::Options;

use crate::support::{Simulation, on_paused_time, options, world};

fn of_two_namespaces() -> Options {
    let mut options = options();
    options.target.watched = Some(vec!["fleet".into(), "platform".into()]);
    options
}

#[test]
fn a_list_of_one_namespace_takes_nothing_out_of_another() {
    on_paused_time(|| async {
        let (server, store) = world();
        let sim = Simulation::over(server, store, of_two_namespaces());
        sim.install_examples();
        sim.until("all Targets are ready", Simulation::all_ready).await;
        let known = |sim: &Simulation| {
            let world = sim.running.shared.cache.read();
            (world.registries.iter().count(), world.components.iter().count())
        };
        // One that no ComponentVersion holds.
        let spec = json!({ "scheme": "oci", "registry": "r.example", "repository": "lonely" });
        let component = json!({
            "apiVersion": "solar.opendefense.cloud/v1alpha1",
            "kind": "Component",
            "metadata": { "name": "lonely", "namespace": "fleet" },
            "spec": spec,
        });
        sim.server.install(component).unwrap();
        sim.until("it is known", |sim| known(sim) == (1, 2)).await;

        // The Component goes while nobody looks; only the new list tells.
        let lists = sim.server.count_requests(Verb::List, "components");
        sim.server.add_fault(
            FaultRule::new(Fault::unavailable()).verb(Verb::Watch).resource("components").times(1),
        );
        sim.server.cut_watches(|request| *request.namespace == *"fleet");
        sim.delete("/apis/solar.opendefense.cloud/v1alpha1/namespaces/fleet/components/lonely").await;
        sim.server.compact();
        sim.until("the namespace is listed again", |sim| {
            sim.server.count_requests(Verb::List, "components") > lists && known(sim).1 == 1
        })
        .await;
        assert_eq!(known(&sim), (1, 1));
        sim.shut_down().await;
    });
}

#[test]
fn a_kind_is_synced_when_every_namespace_is_listed() {
    on_paused_time(|| async {
        let (server, store) = world();
        let refused = FaultRule::new(Fault::unavailable()).verb(Verb::List).resource("components");
        server.add_fault(refused.namespace("platform").times(3));
        let sim = Simulation::over(server, store, of_two_namespaces());
        let waits = State::Syncing(["Component"].into());
        sim.until("only that namespace is waited for", |sim| *sim.running.state.borrow() == waits).await;
        sim.until("it was refused", |sim| sim.server.count_requests(Verb::List, "components") >= 3).await;
        assert_eq!(*sim.running.state.borrow(), waits);
        sim.until("all is listed", |sim| *sim.running.state.borrow() == State::Running).await;
        sim.shut_down().await;
    });
}

#[test]
fn objects_of_other_namespaces_are_not_seen() {
    on_paused_time(|| async {
        let (server, store) = world();
        let mut options = options();
        options.target.watched = Some(vec!["platform".into()]);
        let sim = Simulation::over(server, store, options);
        sim.install_examples();
        sim.until("it runs", |sim| *sim.running.state.borrow() == State::Running).await;
        sim.patch("registries", "platform", "charts", json!({"metadata": {"labels": {"a": "b"}}})).await;
        sim.until("the Registry is seen", |sim| {
            sim.running.shared.cache.read().registries.iter().count() == 1
        })
        .await;
        assert_eq!(sim.running.shared.cache.read().targets.iter().count(), 0);
        sim.shut_down().await;
    });
}
