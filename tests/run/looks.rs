//! Which of several processes of `run` looks for descriptors.

use std::time::Duration;

use serde_json::json;
use solar_controller::dev::registry::{Fault, RegistryOperation};

use crate::code;
use crate::metrics::Scraped;
use crate::world::{Program, World, get};

/// Short, so that nobody waits long for a process that is halted.
const SHORT: [&str; 6] =
    ["--lease-duration", "3s", "--lease-renew-deadline", "2s", "--lease-retry-period", "300ms"];

fn until_it_says(world: &World, program: &Program, says: &str) {
    let says = (200, format!("{says}\n"));
    world.until("it says what it is", &program.log, || program.health("/readyz") == says);
}

#[test]
fn metrics_tell_what_checks_came_to_how_many_run_and_how_many_wait() {
    let world = World::new(&[]);
    world.install_examples(&[]);
    world.install_descriptor();
    let described = world.server.get_object("ComponentVersion", "fleet", "described-1.0.0").unwrap();
    let install = |name: &str, digest: Option<String>| {
        let mut version = described.clone();
        version["metadata"] = json!({ "name": name, "namespace": "fleet" });
        if let Some(digest) = digest {
            version["spec"]["digest"] = json!(digest);
        }
        world.server.install(version).unwrap();
    };
    for number in 1..4 {
        install(&format!("described-1.0.{number}"), None);
    }
    world.store.set_faults(|request| match request.operation {
        RegistryOperation::HeadManifest => Fault::Hang,
        _ => Fault::None,
    });
    let program = world.run(&["--componentversion-availability-interval", "24h"]);
    let scrape = || Scraped::read(&get(&program.metrics, "/metrics").1);
    let is = |scraped: &Scraped, name: &str, labels: &[(&str, &str)], wanted: u32| {
        (scraped.sum(name, labels) - f64::from(wanted)).abs() < 0.5
    };
    world.until("four run", &program.log, || is(&scrape(), "solar_availability_checks_in_flight", &[], 4));
    install("described-1.0.4", None);
    install("described-1.0.5", None);
    install("gone-1.0.0", Some(format!("sha256:{}", "0".repeat(64))));
    world.until("three wait", &program.log, || is(&scrape(), "solar_availability_queue", &[], 3));
    let scraped = scrape();
    assert!(is(&scraped, "solar_availability_checks_total", &[], 0));
    assert!(is(&scraped, "solar_availability_check_lag_seconds_count", &[], 4));
    assert!(scraped.sum("solar_availability_throttled_total", &[]) >= 3.0);
    world.pause(Duration::from_millis(500));
    // Those that run find no answer within their time; the others find it working.
    world.store.clear_faults();
    let total = "solar_availability_checks_total";
    world.until("all have ended", &program.log, || is(&scrape(), total, &[], 7));
    let scraped = scrape();
    for (result, wanted) in [("unreachable", 4), ("available", 2), ("missing", 1)] {
        assert!(is(&scraped, total, &[("result", result)], wanted), "{result}");
    }
    assert!(is(&scraped, "solar_availability_check_lag_seconds_count", &[], 7));
    assert!(
        scraped.sum("solar_availability_check_lag_seconds_sum", &[]) >= 1.5,
        "three waited half a second each"
    );
    assert!(is(&scraped, "solar_availability_checks_in_flight", &[], 0));
    assert!(is(&scraped, "solar_availability_queue", &[], 0));
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
