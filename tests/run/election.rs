//! Several processes of `run`: one works, the others stand by, whatever becomes of the one.

use std::time::Duration;

use kube_embedded::{Fault, FaultRule, Verb};
use serde_json::json;
use solar_controller::dev::registry::{Fault as OciFault, RegistryOperation};

use crate::code;
use crate::world::{Program, World};

/// Short, so that nobody waits long for a process that is gone.
const SHORT: [&str; 6] =
    ["--lease-duration", "3s", "--lease-renew-deadline", "2s", "--lease-retry-period", "300ms"];

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/solar-controller";

/// The API requests of a process that change anything but its Lease.
fn writes(world: &World, who: &str) -> usize {
    let reads = [Verb::Get, Verb::List, Verb::Watch];
    let requests = world.server.requests().into_iter();
    requests.filter(|it| &*it.actor == who && !reads.contains(&it.verb) && &*it.resource != "leases").count()
}

/// Requests by which any process changed the registry.
fn pushes(world: &World) -> usize {
    let changes = |operation| {
        matches!(
            operation,
            RegistryOperation::PutManifest | RegistryOperation::DeleteTag | RegistryOperation::DeleteDigest
        )
    };
    world.store.log().iter().filter(|it| changes(it.operation)).count()
}

fn holder(world: &World) -> String {
    let lease = world.server.get_object("Lease", "default", "solar-controller").unwrap_or_default();
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

/// Starts a process with a name and the short times, and waits until it leads.
fn leader(world: &World, who: &str) -> Program {
    let program = world.run_as(who, &SHORT);
    world.until("it leads", &program.log, || program.health("/readyz") == (200, "ok\n".to_owned()));
    program
}

/// Starts a process with a name and the short times, and waits until it stands by.
fn standby(world: &World, who: &str) -> Program {
    let program = world.run_as(who, &SHORT);
    world.until("it stands by", &program.log, || program.health("/readyz") == (200, "standby\n".to_owned()));
    program
}

fn until_it_leads(world: &World, program: &Program) {
    world.until("it leads", &program.log, || program.health("/readyz") == (200, "ok\n".to_owned()));
}

fn touch(world: &World, release: &str, replicas: u64) {
    let path = format!("/apis/solar.opendefense.cloud/v1alpha1/namespaces/fleet/releases/{release}");
    world.patch(&path, &json!({ "spec": { "values": { "replicaCount": replicas } } }));
}

/// Whether every Target is ready with a bootstrap of this version or a later one where it is bound to the release.
fn follows(world: &World, target: &str, version: i64) -> bool {
    let object = world.server.get_object("Target", "fleet", target).unwrap();
    world.all_ready() && object["status"]["bootstrapVersion"].as_i64() >= Some(version)
}

#[test]
fn one_of_two_works_and_the_other_takes_over_at_once_when_it_ends() {
    let world = World::new(&[]);
    let mut first = leader(&world, "first");
    let mut second = standby(&world, "second");
    world.install_examples(&[]);
    world.until("all Targets are ready", &first.log, || world.all_ready());
    assert!(writes(&world, "first") > 0);
    assert_eq!(writes(&world, "second"), 0);
    let scraped = |program: &Program| crate::world::get(&program.metrics, "/metrics").1;
    assert!(scraped(&first).contains("\nsolar_leader 1\n"), "{}", scraped(&first));
    assert!(scraped(&second).contains("\nsolar_leader 0\n"));

    first.signal("-TERM");
    assert_eq!(code(&world, &mut first), Some(0), "{}", first.log.text());
    until_it_leads(&world, &second);
    assert!(second.log.says("this process leads", "clean", &json!(true)), "{}", second.log.text());
    let before = writes(&world, "first");
    touch(&world, "web-next", 7);
    world.until("the change is followed", &second.log, || follows(&world, "staging", 2));
    assert_eq!(writes(&world, "first"), before);
    assert!(writes(&world, "second") > 0);
    second.signal("-TERM");
    assert_eq!(code(&world, &mut second), Some(0));
    assert_eq!(holder(&world), "", "the lease was given up");
}

#[test]
fn the_work_of_a_process_that_was_killed_is_taken_up_when_its_lease_is_over() {
    let world = World::new(&[]);
    let first = leader(&world, "first");
    let second = standby(&world, "second");
    world.install_examples(&[]);
    world.until("something is pushed", &first.log, || pushes(&world) > 0);
    first.signal("-KILL");
    until_it_leads(&world, &second);
    assert!(second.log.says("this process leads", "clean", &json!(false)), "{}", second.log.text());
    world.until("all Targets are ready", &second.log, || world.all_ready());
}

#[test]
fn a_process_that_was_stopped_for_longer_than_its_lease_writes_nothing_when_it_wakes() {
    let world = World::new(&[]);
    let mut first = leader(&world, "first");
    let second = standby(&world, "second");
    // Its jobs are in the middle of their pushes, and its passes wait for answers.
    world.store.set_faults(|info| {
        if info.operation == RegistryOperation::PutManifest { OciFault::Hang } else { OciFault::None }
    });
    world.install_examples(&[]);
    world.until("it pushes", &first.log, || {
        world.store.log().iter().any(|it| it.operation == RegistryOperation::PutManifest)
    });
    first.signal("-STOP");
    world.store.clear_faults();
    until_it_leads(&world, &second);
    world.until("all Targets are ready", &second.log, || world.all_ready());
    // What the first had sent before it was stopped has landed by now or never will.
    world.pause(Duration::from_millis(500));
    let before = (writes(&world, "first"), pushes(&world));
    first.signal("-CONT");
    assert_eq!(code(&world, &mut first), Some(1));
    assert_eq!((writes(&world, "first"), pushes(&world)), before, "{}", first.log.text());
    assert!(first.log.text().contains("error: the controller ended: the lease default/solar-controller"));
    assert!(!holder(&world).is_empty(), "it does not give up what it does not hold");
}

#[test]
fn only_the_process_that_leads_looks_for_descriptors() {
    const MANY: usize = 60;
    let often = [&SHORT[..], &["--componentversion-availability-interval", "1s"]].concat();
    let world = World::new(&[]);
    let ready = |program: &Program| program.health("/readyz").1;
    let heads = || world.store.count(RegistryOperation::HeadManifest);
    let fleet = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "fleet" } });
    world.server.install(fleet).unwrap();
    world.install_descriptor();
    let version = world.server.get_object("ComponentVersion", "fleet", "described-1.0.0").unwrap();
    for number in 1..MANY {
        let mut version = version.clone();
        version["metadata"] = json!({ "name": format!("described-1.0.{number}"), "namespace": "fleet" });
        world.server.install(version).unwrap();
    }
    let mut first = world.run_as("first", &often);
    until_it_leads(&world, &first);
    let second = world.run_as("second", &often);
    world.until("it stands by", &second.log, || ready(&second) == "standby\n");
    world.until("all are looked for", &first.log, || {
        (0..MANY).all(|number| {
            let name = format!("described-1.0.{number}");
            world
                .condition("ComponentVersion", &name, "Available")
                .is_some_and(|[status, ..]| status == "True")
        })
    });
    let scraped = crate::world::get(&first.metrics, "/metrics").1;
    let throttled = scraped.lines().find_map(|line| line.strip_prefix("solar_availability_throttled_total "));
    assert!(throttled.is_some_and(|count| count.parse::<f64>().unwrap() > 0.0), "{scraped}");

    first.signal("-STOP");
    // What it had sent has arrived by then.
    world.pause(Duration::from_millis(300));
    let before = heads();
    world.pause(Duration::from_millis(700));
    assert_eq!((ready(&second).as_str(), heads()), ("standby\n", before));
    until_it_leads(&world, &second);
    world.until("the second looks", &second.log, || heads() > before);
    second.signal("-STOP");
    world.pause(Duration::from_millis(300));
    let before = heads();
    first.signal("-CONT");
    assert_eq!(code(&world, &mut first), Some(1), "{}", first.log.text());
    assert_eq!(heads(), before, "it wakes with dozens that are due");
}

#[test]
fn a_process_that_cannot_renew_its_lease_ends_before_another_begins() {
    let world = World::new(&[]);
    let mut first = leader(&world, "first");
    world.install_examples(&[]);
    world.until("all Targets are ready", &first.log, || world.all_ready());
    // The API server is away, for this process only.
    world.server.add_fault(FaultRule::new(Fault::Hang).actor("first"));
    let second = world.run_as("second", &SHORT);
    assert_eq!(code(&world, &mut first), Some(1));
    let log = first.log.text();
    assert!(log.contains("the lease default/solar-controller could not be renewed for 2s"), "{log}");
    let before = writes(&world, "first");
    until_it_leads(&world, &second);
    touch(&world, "web-next", 7);
    world.until("the change is followed", &second.log, || follows(&world, "staging", 2));
    assert_eq!(writes(&world, "first"), before);
}

#[test]
fn a_process_whose_lease_is_taken_by_hand_ends() {
    let world = World::new(&[]);
    let mut first = leader(&world, "first");
    world.patch(LEASE, &json!({ "spec": { "holderIdentity": "somebody" } }));
    assert_eq!(code(&world, &mut first), Some(1));
    assert!(first.log.text().contains("was taken by another process"), "{}", first.log.text());
    assert_eq!(holder(&world), "somebody");
}

#[test]
fn other_fields_of_the_lease_may_be_written_by_people() {
    let world = World::new(&[]);
    let first = leader(&world, "first");
    for number in 0..5 {
        world.patch(LEASE, &json!({ "metadata": { "labels": { "touched": number.to_string() } } }));
        let renewals = || {
            let requests = world.server.requests().into_iter();
            requests.filter(|it| it.verb == Verb::Update && it.code == 200).count()
        };
        let before = renewals();
        world.until("it is renewed", &first.log, || renewals() > before);
    }
    assert_eq!(first.health("/readyz"), (200, "ok\n".to_owned()));
}
