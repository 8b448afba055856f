//! `solar-controller run` as a cluster starts it, asks it, and ends it.

mod deploy;
mod flush;
mod looks;
mod metrics;
mod pages;
#[path = "../support/program.rs"]
mod program;
mod proxy;
mod refused;
mod relist;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use kube_embedded::{Fault, FaultRule, Verb};
use metrics::Scraped;
use serde_json::json;
use solar_controller::reference;
use solar_controller::telemetry::metrics::FAMILIES;
use world::{Program, World};

fn number(count: usize) -> f64 {
    u32::try_from(count).unwrap().into()
}

/// The exit code, once it has ended.
fn code(world: &World, program: &mut Program) -> Option<i32> {
    let log = program.log.clone();
    let mut ended = None;
    world.until("the program has ended", &log, || {
        ended = program.ended();
        ended.is_some()
    });
    ended.and_then(|status| status.code())
}

#[test]
fn run_renders_tells_about_itself_ends_well_and_goes_on_where_it_ended() {
    let world = World::new(&[]);
    let mut program = world.run(&[]);
    world.install_examples(&[]);
    world.install_descriptor();
    let binding = json!({
        "apiVersion": "solar.opendefense.cloud/v1alpha1",
        "kind": "RegistryBinding",
        "metadata": { "name": "charts", "namespace": "platform" },
        "spec": { "targetRef": { "name": "lab", "namespace": "fleet" }, "registryRef": { "name": "charts" } },
    });
    world.server.install(binding).unwrap();
    world.until("all Targets are ready", &program.log, || world.all_ready());
    world.until("the version is available", &program.log, || {
        world.condition("ComponentVersion", "described-1.0.0", "Available").is_some_and(|[s, ..]| s == "True")
    });
    world.until("it is ready itself", &program.log, || program.health("/readyz") == (200, "ok\n".to_owned()));
    assert_eq!(program.health("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(program.health("/livez").0, 200);
    assert_eq!(program.health("/metrics").0, 404);
    let log = program.log.text();
    let line = program.log.started_line().unwrap();
    assert_eq!(line["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&line["namespaces"], &line["controllers"]), (&"all".into(), &"all".into()));
    assert!(!log.contains("this must be the only controller"), "{log}");

    tells_what_happened(&world, &program);

    program.signal("-TERM");
    assert_eq!(code(&world, &mut program), Some(0));
    let events: BTreeSet<_> =
        world.server.objects("Event").map(|event| event["reason"].to_string()).collect();
    assert!(events.contains("\"JobSucceeded\""), "{events:?}");

    // What the first one left, the second one finds: nothing is rendered twice, and everything can go.
    let tags = world.store.all_tags();
    let pushes = world.store.log().len();
    // A chart whose Target goes at the same moment may never be seen bound.
    let mut program = world.run(&["--unbound-grace", "5s"]);
    world.until("it is ready itself", &program.log, || program.health("/readyz").0 == 200);
    // It takes its bindings along itself.
    world.delete_all("Profile", "profiles");
    world.until("the Profile is gone", &program.log, || world.server.count("Profile") == 0);
    world.delete_all("ReleaseBinding", "releasebindings");
    world.delete_all("Target", "targets");
    world.delete_all("Release", "releases");
    world.delete_all("ComponentVersion", "componentversions");
    world.delete_all("Component", "components");
    let kinds = ["Target", "Profile", "ReleaseBinding", "Release", "ComponentVersion", "Component"];
    let made = ["RenderTask", "RenderBinding", "RenderArtifact"];
    world.until("everything is gone", &program.log, || {
        kinds.iter().chain(&made).all(|kind| world.server.count(kind) == 0)
    });
    world.delete_all("RegistryBinding", "registrybindings");
    world.until("the Registry is let go", &program.log, || {
        world.server.objects("Registry").all(|registry| registry["metadata"]["finalizers"].is_null())
    });
    assert!(!tags.is_empty() && pushes > 0);
    // The descriptor is nobody's to delete.
    let left: Vec<_> = world.store.all_tags().into_keys().map(|(_, tag)| tag).collect();
    assert_eq!(left, ["1.0.0"]);
    program.signal("-INT");
    assert_eq!(code(&world, &mut program), Some(0));
    deploy::is_what_is_asked_for(&deploy::asked(&world.server));
}

/// Every family is of the table, and those that this run touched say what happened.
fn tells_what_happened(world: &World, program: &Program) {
    let scrape = || {
        let (code, text) = world::get(&program.metrics, "/metrics");
        assert_eq!(code, 200);
        Scraped::read(&text)
    };
    world.until("the actors have come to rest", &program.log, || {
        let scraped = scrape();
        let actors = scraped.sum("solar_actors", &[]);
        actors > 0.0 && actors.to_bits() == scraped.sum("solar_actors", &[("state", "idle")]).to_bits()
    });
    let scraped = scrape();
    let table: BTreeMap<_, _> = FAMILIES.iter().map(|family| (family.name, family)).collect();
    for (name, kind) in &scraped.types {
        let family = table.get(name.as_str()).unwrap_or_else(|| panic!("{name} is not in the table"));
        assert_eq!(kind, family.measure.as_str(), "{name}");
        let labels: BTreeSet<String> = family.labels.iter().map(ToString::to_string).collect();
        assert_eq!(scraped.labels(name), labels, "{name}");
    }
    for name in [
        "solar_actors",
        "solar_api_requests_total",
        "solar_availability_check_lag_seconds",
        "solar_availability_checks_in_flight",
        "solar_availability_checks_total",
        "solar_availability_queue",
        "solar_availability_tokens",
        "solar_build_info",
        "solar_gate_queue",
        "solar_gate_slots_in_use",
        "solar_oci_requests_total",
        "solar_push_duration_seconds",
        "solar_reconcile_duration_seconds",
        "solar_reconciles_total",
        "solar_render_duration_seconds",
        "solar_render_queue",
        "solar_render_slots_in_use",
        "solar_renders_total",
        "solar_wakes_total",
    ] {
        assert!(scraped.types.contains_key(name), "{name} is missing");
    }

    let is = |name: &str, labels: &[(&str, &str)], wanted: usize| {
        let sum = scraped.sum(name, labels);
        assert!((sum - number(wanted)).abs() < 0.5, "{name} {labels:?}: {sum} instead of {wanted}");
    };
    is("solar_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    // Beside it three versions without a digest, for which nothing is asked; the bucket has long been full again.
    is("solar_availability_checks_total", &[("result", "available")], 1);
    is("solar_availability_checks_total", &[], 1);
    is("solar_availability_check_lag_seconds_count", &[], 1);
    is("solar_availability_tokens", &[], 20);
    for kind in ["Target", "RenderTask", "RenderArtifact", "ComponentVersion", "Release", "ReleaseBinding"] {
        is("solar_actors", &[("kind", kind)], world.server.count(kind));
        assert!(
            scraped.sum("solar_reconciles_total", &[("kind", kind), ("result", "success")]) >= 1.0,
            "{kind}"
        );
    }
    let passes = scraped.sum("solar_reconciles_total", &[]);
    let timed = scraped.sum("solar_reconcile_duration_seconds_count", &[]);
    assert!(passes > 0.0 && (passes - timed).abs() < 0.5, "{passes} {timed}");
    is("solar_renders_total", &[("result", "success")], world.server.count("RenderTask"));
    is("solar_render_slots_in_use", &[], 0);
    // The server's own counts are the truth.
    for (verb, kind, plural) in [
        (Verb::Create, "RenderArtifact", "renderartifacts"),
        (Verb::Create, "RenderTask", "rendertasks"),
        (Verb::List, "Target", "targets"),
        (Verb::Get, "Secret", "secrets"),
        (Verb::Patch, "Release", "releases"),
    ] {
        let sent = usize::try_from(world.server.count_requests(verb, plural)).unwrap();
        assert!(sent > 0, "{verb} {plural}");
        is("solar_api_requests_total", &[("verb", verb.as_str()), ("kind", kind)], sent);
    }
    let codes = scraped.values("solar_api_requests_total", "code");
    assert!(codes.contains("200") && codes.contains("201"), "{codes:?}");
    assert!(
        scraped.sum("solar_api_requests_total", &[("verb", "watch"), ("kind", "Target"), ("code", "200")])
            >= 1.0
    );
    let pushed = scraped.sum("solar_oci_requests_total", &[("operation", "push_manifest"), ("code", "201")]);
    assert!(pushed >= 1.0, "{:?}", scraped.values("solar_oci_requests_total", "operation"));
}

#[test]
fn a_missing_definition_keeps_only_those_waiting_that_need_it_and_is_named() {
    let missing = ["Component", "RegistryBinding"];
    let world = World::new(&missing);
    world.install_examples(&missing);
    let mut program = world.run(&[]);
    let resolved = || {
        let condition = world.condition("Release", "web-next", "ComponentVersionResolved");
        condition.is_some_and(|[status, ..]| status == "True")
    };
    world.until("Releases are looked after", &program.log, resolved);
    let waits = "Component is not listed yet\nRegistryBinding is not listed yet\n";
    world.until("both are named", &program.log, || program.health("/readyz") == (503, waits.to_owned()));
    assert_eq!(program.health("/healthz").0, 200);
    for target in world.server.objects("Target") {
        assert!(target["status"].is_null() && target["metadata"]["finalizers"].is_null(), "{target}");
    }

    world.define("RegistryBinding");
    world.until("all Targets are ready", &program.log, || world.all_ready());
    assert_eq!(program.health("/readyz"), (503, "Component is not listed yet\n".to_owned()));
    world.define("Component");
    world.until("it is ready itself", &program.log, || program.health("/readyz").0 == 200);
    let log = program.log.text();
    assert_eq!(log.matches("install the definitions of crds/").count(), 2, "said once for each kind: {log}");
    program.signal("-TERM");
    assert_eq!(code(&world, &mut program), Some(0));
}

#[test]
fn only_the_named_namespaces_are_looked_at() {
    let world = World::new(&[]);
    world.install_examples(&[]);
    let program = world.run(&["--watch-namespace", "fleet"]);
    let reason = || world.condition("Target", "edge-1", "RegistryResolved").map(|[_, reason, _]| reason);
    world.until("the Registry's namespace is missed", &program.log, || {
        reason().as_deref() == Some("NotWatched")
    });
    drop(program);

    world.server.reset_requests();
    let program = world.run(&["--watch-namespace", "platform,fleet", "--watch-namespace", "fleet"]);
    world.until("all Targets are ready", &program.log, || world.all_ready());
    assert_eq!(program.health("/readyz").0, 200);
    let watched: BTreeSet<_> = world
        .server
        .requests()
        .iter()
        .filter(|request| request.verb == Verb::Watch)
        .map(|request| request.namespace.to_string())
        .collect();
    assert_eq!(watched, BTreeSet::from(["fleet".to_owned(), "platform".to_owned()]));
}

#[test]
fn only_the_named_controllers_run_and_only_what_they_need_is_watched() {
    let world = World::new(&[]);
    world.install_examples(&[]);
    let program = world.run(&["--controllers", "Release,ReleaseBinding"]);
    world.until("it is ready itself", &program.log, || program.health("/readyz").0 == 200);
    world.until("Releases are looked after", &program.log, || {
        ["web-stable", "web-next"].iter().all(|release| {
            let object = world.server.get_object("Release", "fleet", release).unwrap();
            world.condition("Release", release, "ComponentVersionResolved").is_some()
                && object["metadata"]["finalizers"].is_array()
        })
    });
    for target in world.server.objects("Target") {
        assert!(target["status"].is_null() && target["metadata"]["finalizers"].is_null(), "{target}");
    }
    let listed: BTreeSet<_> = world
        .server
        .requests()
        .iter()
        .filter(|request| request.verb == Verb::List)
        .map(|request| request.resource.to_string())
        .collect();
    let needed = ["componentversions", "referencegrants", "releasebindings", "releases", "targets"];
    assert_eq!(listed, needed.map(ToOwned::to_owned).into());
}

#[test]
fn a_second_signal_ends_it_at_once_while_the_first_lets_passes_finish() {
    let world = World::new(&[]);
    // Passes of Releases wait for the answer to their first write.
    world.server.add_fault(FaultRule::new(Fault::Hang).verb(Verb::Patch).resource("releases"));
    world.install_examples(&[]);
    let mut program = world.run(&["--shutdown-grace", "10m"]);
    world.until("the passes of all Releases wait", &program.log, || {
        let scraped = Scraped::read(&world::get(&program.metrics, "/metrics").1);
        let running = scraped.sum("solar_actors", &[("kind", "Release"), ("state", "running")]);
        let passes = scraped.sum("solar_gate_slots_in_use", &[]);
        running + 0.5 > number(world.server.count("Release")) && passes >= running
    });
    program.signal("-TERM");
    world.until("it is ready no longer", &program.log, || {
        program.health("/readyz") == (503, "stopping\n".to_owned())
    });
    assert_eq!(program.health("/healthz").0, 200);
    assert!(program.ended().is_none());
    program.signal("-INT");
    assert_eq!(code(&world, &mut program), Some(130));
}

#[test]
fn the_reference_pages_are_what_the_code_says() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    for (name, page) in reference::pages() {
        let written = std::fs::read_to_string(docs.join(name)).unwrap_or_default();
        assert_eq!(written, page, "docs/{name} is out of date: run `make docs`");
    }
}
