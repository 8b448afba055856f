//! Several processes of `run`: one works, the others stand by, whatever becomes of the one.

use std::time::Duration;

use serde_json::json;
use solar_controller::dev::registry::{Fault, RegistryOperation};
use test_bed::Cluster;

use crate::pipeline::{settled, touch};
use crate::program::{self, Program};
use crate::proxy::Proxy;
use crate::world::{Bed, Kind, World};

/// Short, so that nobody waits long for a process that is gone.
pub const SHORT: [&str; 6] =
    ["--lease-duration", "3s", "--lease-renew-deadline", "2s", "--lease-retry-period", "300ms"];

fn lease(world: &World) -> String {
    let namespace = world.namespace("platform");
    format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/solar-controller")
}

/// A field of the Lease.
fn leased(world: &World, field: &str) -> String {
    let lease = world.get(&lease(world)).unwrap_or_default();
    lease["spec"][field].as_str().unwrap_or_default().to_owned()
}

fn holder(world: &World) -> String {
    leased(world, "holderIdentity")
}

pub fn until_it_says(world: &World, program: &Program, says: &str) {
    let says = (200, format!("{says}\n"));
    world.until("it says what it is", Some(&program.log), || program.health("/readyz") == says);
}

/// One that leads and one that stands by.
fn two(world: &World) -> [Program; 2] {
    world.install_namespaces();
    let first = world.run("first", &SHORT);
    until_it_says(world, &first, "ok");
    let second = world.run("second", &SHORT);
    until_it_says(world, &second, "standby");
    [first, second]
}

pub fn one_of_two_works_and_the_other_takes_over_at_once_when_it_ends(kind: Kind) {
    let Some(world) = World::new(kind, "handover") else { return };
    let [mut first, mut second] = two(&world);
    world.install_examples();
    settled(&world, &first.log);
    assert!(world.writes("first") > 0);
    assert_eq!(world.writes("second"), 0);
    let scraped = |program: &Program| program::get(&program.metrics, "/metrics").1;
    assert!(scraped(&first).contains("\nsolar_leader 1\n"), "{}", scraped(&first));
    assert!(scraped(&second).contains("\nsolar_leader 0\n"));

    first.signal("-TERM");
    assert_eq!(world.code(&mut first), Some(0), "{}", first.log.text());
    until_it_says(&world, &second, "ok");
    assert!(second.log.says("this process leads", "clean", &json!(true)), "{}", second.log.text());
    let before = world.writes("first");
    touch(&world, "web-next", 7);
    world.until("the change is followed", Some(&second.log), || world.is_at("staging", 2));
    assert_eq!(world.writes("first"), before);
    assert!(world.writes("second") > 0);
    second.signal("-TERM");
    assert_eq!(world.code(&mut second), Some(0));
    assert_eq!(holder(&world), "", "the lease was given up");
}

pub fn the_work_of_a_process_that_was_killed_is_taken_up_when_its_lease_is_over(kind: Kind) {
    let Some(world) = World::new(kind, "killed") else { return };
    let [first, second] = two(&world);
    world.install_examples();
    world.until("something is pushed", Some(&first.log), || world.pushes() > 0);
    first.signal("-KILL");
    until_it_says(&world, &second, "ok");
    assert!(second.log.says("this process leads", "clean", &json!(false)), "{}", second.log.text());
    settled(&world, &second.log);
}

pub fn a_process_that_was_stopped_for_longer_than_its_lease_writes_nothing_when_it_wakes(kind: Kind) {
    let Some(world) = World::new(kind, "halted") else { return };
    let [mut first, second] = two(&world);
    // Its jobs are in the middle of their pushes, and its passes wait for answers.
    world.store.set_faults(|info| {
        if info.operation == RegistryOperation::PutManifest { Fault::Hang } else { Fault::None }
    });
    world.install_examples();
    world.until("it pushes", Some(&first.log), || {
        world.store.log().iter().any(|it| it.operation == RegistryOperation::PutManifest)
    });
    first.signal("-STOP");
    world.store.clear_faults();
    until_it_says(&world, &second, "ok");
    settled(&world, &second.log);
    // What the first had sent before it was stopped has landed by now or never will.
    world.pause(Duration::from_millis(500));
    let before = (world.writes("first"), world.pushes());
    first.signal("-CONT");
    assert_eq!(world.code(&mut first), Some(1));
    assert_eq!((world.writes("first"), world.pushes()), before, "{}", first.log.text());
    assert!(first.log.text().contains("error: the controller ended: the lease"), "{}", first.log.text());
    assert!(!holder(&world).is_empty(), "it does not give up what it does not hold");
}

pub fn a_process_that_cannot_renew_its_lease_ends_before_another_begins(kind: Kind) {
    let Some(world) = World::new(kind, "silence") else { return };
    world.install_namespaces();
    let proxy = Proxy::start(&world, "first");
    let mut first = world.run_with(&proxy.kubeconfig, &SHORT);
    until_it_says(&world, &first, "ok");
    world.install_examples();
    settled(&world, &first.log);
    // The API server is away, for this process only.
    proxy.fall_silent();
    let second = world.run("second", &SHORT);
    assert_eq!(world.code(&mut first), Some(1));
    let log = first.log.text();
    assert!(log.contains("could not be renewed for 2s"), "{log}");
    let before = world.writes("first");
    until_it_says(&world, &second, "ok");
    touch(&world, "web-next", 7);
    world.until("the change is followed", Some(&second.log), || world.is_at("staging", 2));
    assert_eq!(world.writes("first"), before);
}

pub fn a_process_whose_lease_is_taken_by_hand_ends(kind: Kind) {
    let Some(world) = World::new(kind, "taken") else { return };
    world.install_namespaces();
    let mut first = world.run("first", &SHORT);
    until_it_says(&world, &first, "ok");
    // Its jobs are in the middle of their pushes, and would go on when the registry answers.
    world.store.set_faults(|info| {
        let waits = info.operation == RegistryOperation::PutManifest;
        if waits { Fault::Latency(Duration::from_secs(1)) } else { Fault::None }
    });
    world.install_examples();
    world.until("it pushes", Some(&first.log), || {
        world.store.log().iter().any(|it| it.operation == RegistryOperation::PutManifest)
    });
    world.patch(&lease(&world), &json!({ "spec": { "holderIdentity": "somebody" } }));
    assert_eq!(world.code(&mut first), Some(1));
    // The embedded server notes no times, by which what was on its way could be told from what came later.
    if kind == Kind::Real {
        assert_eq!(world.patched_after_its_lease_was_lost("first"), Some(0));
    }
    assert!(first.log.text().contains("was taken by another process"), "{}", first.log.text());
    assert_eq!(holder(&world), "somebody");
}

pub fn other_fields_of_the_lease_may_be_written_by_people(kind: Kind) {
    let Some(world) = World::new(kind, "labelled") else { return };
    world.install_namespaces();
    let first = world.run("first", &SHORT);
    until_it_says(&world, &first, "ok");
    for number in 0..5 {
        let label = json!({ "metadata": { "labels": { "touched": number.to_string() } } });
        world.patch(&lease(&world), &label);
        let before = leased(&world, "renewTime");
        world.until("it is renewed", Some(&first.log), || leased(&world, "renewTime") != before);
    }
    assert_eq!(first.health("/readyz"), (200, "ok\n".to_owned()));
}

#[test]
fn when_the_api_server_is_away_for_longer_than_the_lease_the_leader_ends_and_one_works_when_it_is_back() {
    let Some(bed) = Bed::start(Cluster::builder()) else { return };
    let world = World::over(bed, "away");
    world.define();
    let [mut first, second] = two(&world);
    world.install_examples();
    world.until("something is pushed", Some(&first.log), || world.pushes() > 0);
    let cluster = &world.bed().cluster;
    cluster.api.kill();
    assert_eq!(world.code(&mut first), Some(1));
    let log = first.log.text();
    assert!(log.contains("could not be renewed for 2s"), "{log}");
    let before = world.pushes();
    world.pause(Duration::from_secs(4));
    assert_eq!(world.pushes(), before, "nobody leads");
    cluster.start_api();
    until_it_says(&world, &second, "ok");
    let written = world.writes("first");
    settled(&world, &second.log);
    assert_eq!(world.writes("first"), written);
    assert!(world.writes("second") > 0);
}
