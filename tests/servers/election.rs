//! Several processes of `run`: one works, the others stand by, whatever becomes of the one.

use std::time::Duration;

use http::Request;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use solar_controller::dev::registry::{Fault, RegistryOperation};
use test_bed::Cluster;

use crate::pipeline::{settled, touch};
use crate::program::{self, Program};
use crate::proxy::Proxy;
use crate::world::{Bed, Kind, World};

/// Short, so that nobody waits long for a process that is gone; a busy machine must still come to renew it in time.
pub const SHORT: [&str; 6] =
    ["--lease-duration", "8s", "--lease-renew-deadline", "5s", "--lease-retry-period", "500ms"];
/// How long nobody else takes it.
const DURATION: SignedDuration = SignedDuration::from_secs(8);

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

/// A time in the Lease.
fn time(world: &World, field: &str) -> Timestamp {
    leased(world, field).parse().unwrap()
}

/// Whoever leads now took the lease when the other one had sent its last write.
fn took_it_after_the_last_write_of(world: &World, who: &str) {
    let (last, taken) = (world.last_write(who).unwrap(), time(world, "acquireTime"));
    assert!(last < taken, "{who} wrote at {last}, and another process leads since {taken}");
}

/// Manifests are taken in after some seconds.
fn slow_pushes(world: &World, seconds: u64) {
    world.store.set_faults(move |info| match info.operation {
        RegistryOperation::PutManifest => Fault::Latency(Duration::from_secs(seconds)),
        _ => Fault::None,
    });
}

/// Waits until a manifest is on its way.
fn until_it_pushes(world: &World, program: &Program) {
    world.until("it pushes", Some(&program.log), || world.store.count(RegistryOperation::PutManifest) > 0);
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
    took_it_after_the_last_write_of(&world, "first");
    touch(&world, "web-next", 7);
    world.until("the change is followed", Some(&second.log), || world.is_at("staging", 2));
    assert!(world.writes("second") > 0);
    second.signal("-TERM");
    assert_eq!(world.code(&mut second), Some(0));
    assert_eq!(holder(&world), "", "the lease was given up");
}

pub fn the_work_of_a_process_that_was_killed_is_taken_up_when_its_lease_is_over(kind: Kind) {
    let Some(world) = World::new(kind, "killed") else { return };
    let [mut first, second] = two(&world);
    world.install_examples();
    world.until("something is pushed", Some(&first.log), || world.registry_writes() > 0);
    first.signal("-KILL");
    world.until("it is dead", None, || first.ended().is_some());
    let renewed = time(&world, "renewTime");
    until_it_says(&world, &second, "ok");
    assert!(time(&world, "acquireTime") >= renewed + DURATION);
    assert!(second.log.says("this process leads", "clean", &json!(false)), "{}", second.log.text());
    settled(&world, &second.log);
}

pub fn a_process_that_is_told_to_end_while_it_pushes_hands_over_what_it_did_not_do(kind: Kind) {
    let Some(world) = World::new(kind, "busy") else { return };
    let [mut first, second] = two(&world);
    slow_pushes(&world, 1);
    world.install_examples();
    until_it_pushes(&world, &first);
    first.signal("-TERM");
    assert_eq!(world.code(&mut first), Some(0), "{}", first.log.text());
    until_it_says(&world, &second, "ok");
    // It does not wait until the lease is over.
    took_it_after_the_last_write_of(&world, "first");
    assert!(time(&world, "acquireTime") < world.last_write("first").unwrap() + DURATION);
    world.store.clear_faults();
    settled(&world, &second.log);
}

pub fn a_process_that_was_stopped_for_longer_than_its_lease_writes_nothing_when_it_wakes(kind: Kind) {
    let Some(world) = World::new(kind, "halted") else { return };
    let [mut first, second] = two(&world);
    // Its jobs are in the middle of their pushes; the answers come while it stands still, and lie there when it wakes.
    // Nothing else is under way: what was given to a connection before would still be sent.
    slow_pushes(&world, 4);
    world.install_examples();
    until_it_pushes(&world, &first);
    let mut before = 0;
    world.until("it does nothing but push", Some(&first.log), || {
        let last = std::mem::replace(&mut before, world.asked("first").len());
        world.pause(Duration::from_millis(400));
        last == before
    });
    first.signal("-STOP");
    until_it_says(&world, &second, "ok");
    world.store.clear_faults();
    settled(&world, &second.log);
    // Now whoever writes is the first.
    second.signal("-STOP");
    let writes = world.registry_writes();
    first.signal("-CONT");
    assert_eq!(world.code(&mut first), Some(1));
    assert_eq!(world.registry_writes(), writes, "{}", first.log.text());
    took_it_after_the_last_write_of(&world, "first");
    assert!(first.log.text().contains("error: the controller ended: the lease"), "{}", first.log.text());
    assert!(!holder(&world).is_empty(), "it does not give up what it does not hold");
}

pub fn a_process_that_cannot_renew_its_lease_ends_before_another_begins(kind: Kind) {
    let Some(world) = World::new(kind, "silence") else { return };
    world.install_namespaces();
    let proxy = Proxy::start(&world, "first");
    let mut first = world.run_with(&proxy.kubeconfig, &SHORT);
    until_it_says(&world, &first, "ok");
    slow_pushes(&world, 1);
    world.install_examples();
    until_it_pushes(&world, &first);
    // The API server is away, for this process only; the registry is not.
    proxy.fall_silent();
    // The other one renders nothing, so that whoever writes to the registry is the first.
    let idle = [&SHORT[..], &["--controllers", "Release,ReleaseBinding"]].concat();
    let second = world.run("second", &idle);
    until_it_says(&world, &second, "ok");
    let writes = world.registry_writes();
    took_it_after_the_last_write_of(&world, "first");
    assert_eq!(world.code(&mut first), Some(1));
    let log = first.log.text();
    assert!(log.contains("could not be renewed for 5s"), "{log}");
    assert_eq!(world.registry_writes(), writes, "{log}");
    drop(second);
    world.store.clear_faults();
    let third = world.run("third", &SHORT);
    settled(&world, &third.log);
}

pub fn a_process_whose_lease_is_taken_by_hand_ends(kind: Kind) {
    let Some(world) = World::new(kind, "taken") else { return };
    world.install_namespaces();
    let mut first = world.run("first", &SHORT);
    until_it_says(&world, &first, "ok");
    // Its jobs are in the middle of their pushes, and would go on when the registry answers.
    slow_pushes(&world, 1);
    world.install_examples();
    until_it_pushes(&world, &first);
    world.patch(&lease(&world), &json!({ "spec": { "holderIdentity": "somebody" } }));
    assert_eq!(world.code(&mut first), Some(1));
    assert_eq!(world.written_after_its_lease_was_lost("first"), Some(0));
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
    world.until("something is pushed", Some(&first.log), || world.registry_writes() > 0);
    let cluster = &world.bed().cluster;
    cluster.api.kill();
    assert_eq!(world.code(&mut first), Some(1));
    let log = first.log.text();
    assert!(log.contains("could not be renewed for 5s"), "{log}");
    let before = world.registry_writes();
    world.until("the other one has tried to take the lease", Some(&second.log), || {
        let (code, text) = second.health("/readyz");
        code == 503 && text.contains("cannot be taken")
    });
    assert_eq!(world.registry_writes(), before, "nobody leads");
    cluster.start_api();
    until_it_says(&world, &second, "ok");
    took_it_after_the_last_write_of(&world, "first");
    settled(&world, &second.log);
    assert!(world.writes("second") > 0);
}

#[test]
fn a_process_that_may_not_touch_the_lease_is_not_ready_and_says_why() {
    let Some(world) = World::new(Kind::Real, "shut-out") else { return };
    world.install_namespaces();
    let rule = |groups: [&str; 3]| json!({ "apiGroups": groups, "resources": ["*"], "verbs": ["*"] });
    let user = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": world.user("run") });
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({
        "metadata": { "name": "all-but-leases" },
        "rules": [rule(["solar.opendefense.cloud", "events.k8s.io", ""])],
    });
    let binding = json!({
        "metadata": { "name": "all-but-leases" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all-but-leases" },
        "subjects": [user],
    });
    world.ensure(&format!("{rbac}/clusterroles"), &role);
    world.ensure(&format!("{rbac}/clusterrolebindings"), &binding);
    let kubeconfig = world.kubeconfig("run");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&kubeconfig).unwrap()).unwrap();
    config["users"][0]["user"]["as-groups"].take();
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let program = world.run_with(&kubeconfig, &SHORT);
    let lease = format!("the lease {}/solar-controller cannot be taken: ", world.namespace("platform"));
    world.until("it says what it lacks", Some(&program.log), || {
        let (code, text) = program.health("/readyz");
        code == 503 && text.starts_with(&lease) && text.contains("forbidden")
    });
    assert_eq!(program.health("/healthz").0, 200);
    let mend = json!([{ "op": "add", "path": "/rules/0/apiGroups/-", "value": "coordination.k8s.io" }]);
    let request = Request::patch(format!("{rbac}/clusterroles/all-but-leases"));
    world.send(request.header("content-type", "application/json-patch+json"), &mend).unwrap();
    until_it_says(&world, &program, "ok");
}
