//! Descriptors of component versions, looked for in a registry over HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use solar_controller::dev::registry::{Fault, RegistryOperation};

use crate::election::{SHORT, until_it_says};
use crate::metrics::Scraped;
use crate::program::{self, Log};
use crate::world::{Kind, World};

fn available(world: &World, version: &str) -> Option<[String; 3]> {
    world.condition(&format!("componentversions/{version}"), "Available")
}

/// Waits until a version is available.
pub fn until_available(world: &World, log: &Log, version: &str) {
    world.until("the version is available", Some(log), || {
        available(world, version).is_some_and(|[status, ..]| status == "True")
    });
}

pub fn a_descriptor_that_goes_and_comes_back_is_told(kind: Kind) {
    let Some(world) = World::new(kind, "descriptor") else { return };
    world.install_namespaces();
    world.install_descriptor();
    let often =
        ["--componentversion-availability-interval", "1s", "--componentversion-availability-grace", "3s"];
    let program = world.run("run", &often);
    until_available(&world, &program.log, "described-1.0.0");
    let reasons = |wanted: &str| {
        world.until(wanted, Some(&program.log), || {
            available(&world, "described-1.0.0").is_some_and(|[_, reason, _]| reason == wanted)
        });
    };
    world.store.set_faults(|info| match info.operation {
        RegistryOperation::HeadManifest => Fault::status(404, "MANIFEST_UNKNOWN"),
        _ => Fault::None,
    });
    reasons("DescriptorMissingPending");
    reasons("DescriptorMissing");
    world.store.clear_faults();
    reasons("DescriptorAvailable");
    let version = world.get(&world.fleet("componentversions/described-1.0.0")).unwrap();
    assert_eq!(version["status"]["descriptorMissingSince"], Value::Null);
    // A check that changes nothing writes nothing.
    let heads = || world.store.count(RegistryOperation::HeadManifest);
    let (seen, written) = (heads(), world.writes("run"));
    world.until("it is looked for again", Some(&program.log), || heads() >= seen + 3);
    assert_eq!(world.writes("run"), written);
}

pub fn only_the_process_that_leads_looks_for_descriptors(kind: Kind) {
    const MANY: usize = 60;
    let often = [&SHORT[..], &["--componentversion-availability-interval", "1s"]].concat();
    let Some(world) = World::new(kind, "looks") else { return };
    let heads = || world.store.count(RegistryOperation::HeadManifest);
    world.install_namespaces();
    world.install_descriptor();
    let mut version = world.get(&world.fleet("componentversions/described-1.0.0")).unwrap();
    for number in 1..MANY {
        version["metadata"] = json!({ "name": format!("described-1.0.{number}") });
        version["status"].take();
        world.ensure(&world.fleet("componentversions"), &version);
    }
    let mut first = world.run("first", &often);
    until_it_says(&world, &first, "ok");
    let second = world.run("second", &often);
    until_it_says(&world, &second, "standby");
    world.until("all are looked for", Some(&first.log), || {
        let versions = world.list("componentversions");
        let described = versions
            .iter()
            .filter(|it| it["status"]["conditions"].to_string().contains("DescriptorAvailable"));
        described.count() == MANY
    });
    let scraped = program::get(&first.metrics, "/metrics").1;
    let throttled = scraped.lines().find_map(|line| line.strip_prefix("solar_availability_throttled_total "));
    assert!(throttled.is_some_and(|count| count.parse::<f64>().unwrap() > 0.0), "{scraped}");

    first.signal("-STOP");
    // What it had sent has arrived by then.
    world.pause(Duration::from_millis(500));
    let before = heads();
    world.pause(Duration::from_millis(1_500));
    assert_eq!((second.health("/readyz").1.as_str(), heads()), ("standby\n", before));
    until_it_says(&world, &second, "ok");
    world.until("the second looks", Some(&second.log), || heads() > before);
    second.signal("-STOP");
    world.pause(Duration::from_millis(500));
    let before = heads();
    first.signal("-CONT");
    assert_eq!(world.code(&mut first), Some(1), "{}", first.log.text());
    assert_eq!(heads(), before, "it wakes with dozens that are due");
}

pub fn metrics_tell_what_checks_came_to_how_many_run_and_how_many_wait(kind: Kind) {
    let Some(world) = World::new(kind, "checks") else { return };
    world.install_namespaces();
    world.install_descriptor();
    let mut version = world.get(&world.fleet("componentversions/described-1.0.0")).unwrap();
    version["status"].take();
    let mut install = |name: &str| {
        version["metadata"] = json!({ "name": name });
        world.ensure(&world.fleet("componentversions"), &version);
        if name == "gone" {
            let patch = json!({ "spec": { "digest": format!("sha256:{}", "0".repeat(64)) } });
            world.patch(&world.fleet("componentversions/gone"), &patch);
        }
    };
    for number in 1..4 {
        install(&format!("described-1.0.{number}"));
    }
    world.store.set_faults(|info| match info.operation {
        RegistryOperation::HeadManifest => Fault::Hang,
        _ => Fault::None,
    });
    let program = world.run("run", &["--componentversion-availability-interval", "24h"]);
    let scrape = || Scraped::read(&program::get(&program.metrics, "/metrics").1);
    let is = |scraped: &Scraped, name: &str, labels: &[(&str, &str)], wanted: u32| {
        (scraped.sum(name, labels) - f64::from(wanted)).abs() < 0.5
    };
    let (total, lag) = ("solar_availability_checks_total", "solar_availability_check_lag_seconds");
    let (running, queue) = ("solar_availability_checks_in_flight", "solar_availability_queue");
    let until = |what: &str, level: &dyn Fn(&Scraped) -> bool| {
        world.until(what, Some(&program.log), || level(&scrape()));
    };
    until("four run", &|scraped| is(scraped, running, &[], 4));
    for name in ["described-1.0.4", "described-1.0.5", "gone"] {
        install(name);
    }
    until("three wait", &|scraped| is(scraped, queue, &[], 3));
    let scraped = scrape();
    assert!(is(&scraped, total, &[], 0));
    assert!(is(&scraped, &format!("{lag}_count"), &[], 4));
    assert!(scraped.sum("solar_availability_throttled_total", &[]) >= 3.0);
    world.pause(Duration::from_millis(500));
    // Those that run find no answer within their time; the others find it working.
    world.store.clear_faults();
    until("all have ended", &|scraped| is(scraped, total, &[], 7));
    let scraped = scrape();
    for (result, wanted) in [("unreachable", 4), ("available", 2), ("missing", 1)] {
        assert!(is(&scraped, total, &[("result", result)], wanted), "{result}");
    }
    assert!(is(&scraped, &format!("{lag}_count"), &[], 7));
    assert!(scraped.sum(&format!("{lag}_sum"), &[]) >= 1.5, "three waited for half a second each");
    assert!(is(&scraped, running, &[], 0) && is(&scraped, queue, &[], 0));
}
