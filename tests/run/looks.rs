//! Which of several processes of `run` looks for descriptors.

use std::time::Duration;

use serde_json::json;
use solar_controller::dev::registry::RegistryOperation;

use crate::code;
use crate::world::{Program, World};

/// Short, so that nobody waits long for a process that is halted.
const SHORT: [&str; 6] =
    ["--lease-duration", "3s", "--lease-renew-deadline", "2s", "--lease-retry-period", "300ms"];

fn until_it_says(world: &World, program: &Program, says: &str) {
    let says = (200, format!("{says}\n"));
    world.until("it says what it is", &program.log, || program.health("/readyz") == says);
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
    let mut first = world.run(&often);
    until_it_says(&world, &first, "ok");
    let second = world.run(&often);
    until_it_says(&world, &second, "standby");
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
    until_it_says(&world, &second, "ok");
    world.until("the second looks", &second.log, || heads() > before);
    second.signal("-STOP");
    world.pause(Duration::from_millis(300));
    let before = heads();
    first.signal("-CONT");
    assert_eq!(code(&world, &mut first), Some(1), "{}", first.log.text());
    assert_eq!(heads(), before, "it wakes with dozens that are due");
}
