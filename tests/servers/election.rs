//! Several processes of `run`: one works, the others stand by, whatever becomes of the one.

use std::time::Duration;

use serde_json::json;
use solar_controller::dev::registry::{Fault, RegistryOperation};
use test_bed::Cluster;

use crate::pipeline::{settled, touch};
use crate::program::{self, Program};
use crate::world::{Bed, Kind, World};

/// Short, so that nobody waits long for a process that is gone.
const SHORT: [&str; 6] =
    ["--lease-duration", "3s", "--lease-renew-deadline", "2s", "--lease-retry-period", "300ms"];

fn holder(world: &World) -> String {
    let namespace = world.namespace("platform");
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/solar-controller");
    let lease = world.get(&path).unwrap_or_default();
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

fn until_it_says(world: &World, program: &Program, says: &str) {
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
