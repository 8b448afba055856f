//! A process from its start to its end: what it does, what it tells about itself, and what it leaves.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use solar_controller::telemetry::metrics::FAMILIES;

use crate::looks::until_available;
use crate::metrics::Scraped;
use crate::permissions;
use crate::pipeline::{delete_everything, settled};
use crate::program::{self, Program};
use crate::webhook::hang_changes_of;
use crate::world::{Kind, World};

fn number(count: usize) -> f64 {
    u32::try_from(count).unwrap().into()
}

fn scrape(program: &Program) -> Scraped {
    let (code, text) = program::get(&program.metrics, "/metrics");
    assert_eq!(code, 200);
    Scraped::read(&text)
}

/// Whether something was done, and all actors are idle, or have gone to rest.
fn at_rest(program: &Program) -> bool {
    let scraped = scrape(program);
    let actors = scraped.sum("solar_actors", &[]);
    scraped.sum("solar_reconciles_total", &[]) > 0.0
        && actors.to_bits() == scraped.sum("solar_actors", &[("state", "idle")]).to_bits()
}

pub fn run_renders_tells_about_itself_ends_well_and_goes_on_where_it_ended(kind: Kind) {
    let Some(world) = World::new(kind, "life") else { return };
    // None is due a second time while this lasts.
    let seldom = ["--componentversion-availability-interval", "24h"];
    let mut program = world.run("run", &seldom);
    world.install_examples();
    world.install_descriptor();
    let binding = json!({
        "apiVersion": "solar.opendefense.cloud/v1alpha1",
        "kind": "RegistryBinding",
        "metadata": { "name": "charts" },
        "spec": {
            "targetRef": { "name": "lab", "namespace": world.namespace("fleet") },
            "registryRef": { "name": "charts" },
        },
    });
    world.ensure(&world.solar("platform", "registrybindings"), &binding);
    settled(&world, &program.log);
    until_available(&world, &program.log, "described-1.0.0");
    world.until("it is ready itself", Some(&program.log), || {
        program.health("/readyz") == (200, "ok\n".to_owned())
    });
    assert_eq!(program.health("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(program.health("/livez").0, 200);
    assert_eq!(program.health("/metrics").0, 404);
    let log = program.log.text();
    let line = program.log.started_line().unwrap();
    assert_eq!(line["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(line["controllers"], "all");
    assert!(!log.contains("this must be the only controller"), "{log}");

    tells_what_happened(&world, &program);

    program.signal("-TERM");
    assert_eq!(world.code(&mut program), Some(0));
    let events = format!("/apis/events.k8s.io/v1/namespaces/{}/events", world.namespace("fleet"));
    let events = world.get(&events).unwrap()["items"].as_array().cloned().unwrap();
    let reasons: BTreeSet<_> = events.iter().map(|event| event["reason"].to_string()).collect();
    assert!(reasons.contains("\"JobSucceeded\""), "{reasons:?}");

    // What the first one left, the second one finds: nothing is rendered twice, and everything can go.
    let pushes = world.registry_writes();
    let mut program = world.run("run", &seldom);
    world.until("it is ready itself", Some(&program.log), || program.health("/readyz").0 == 200);
    world.until("the actors have come to rest", Some(&program.log), || at_rest(&program));
    assert_eq!(world.registry_writes(), pushes);
    world.delete(&world.solar("platform", "registrybindings/charts"), "Background");
    delete_everything(&world, &program.log);
    // The descriptor is nobody's to delete.
    let left: Vec<_> = world.store.all_tags().into_keys().map(|(_, tag)| tag).collect();
    assert_eq!(left, ["1.0.0"]);
    program.signal("-INT");
    assert_eq!(world.code(&mut program), Some(0));
    permissions::are_what_is_asked_for(&world, "run");
}

/// Every family is of the table, and those that this run touched say what happened.
fn tells_what_happened(world: &World, program: &Program) {
    world.until("the actors have come to rest", Some(&program.log), || at_rest(program));
    let scraped = scrape(program);
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
    for (kind, plural) in [
        ("Target", "targets"),
        ("RenderTask", "rendertasks"),
        ("RenderArtifact", "renderartifacts"),
        ("ComponentVersion", "componentversions"),
        ("Release", "releases"),
        ("ReleaseBinding", "releasebindings"),
    ] {
        // Some have gone to rest.
        let actors = scraped.sum("solar_actors", &[("kind", kind)]);
        assert!(actors <= number(world.count(plural)) + 0.5, "{kind}: {actors} actors");
        assert!(
            scraped.sum("solar_reconciles_total", &[("kind", kind), ("result", "success")]) >= 1.0,
            "{kind}"
        );
    }
    let passes = scraped.sum("solar_reconciles_total", &[]);
    let timed = scraped.sum("solar_reconcile_duration_seconds_count", &[]);
    assert!(passes > 0.0 && (passes - timed).abs() < 0.5, "{passes} {timed}");
    // A job that finds the tag in other hands renders anew when its turn comes; what is pushed is pushed once.
    let rendered = scraped.sum("solar_renders_total", &[("result", "success")]);
    assert!(rendered + 0.5 > number(world.count("rendertasks")), "{rendered}");
    is("solar_render_slots_in_use", &[], 0);
    // The server's own counts are the truth; it writes them down a moment after its answer.
    for (verb, kind, plural) in [
        ("create", "RenderArtifact", "renderartifacts"),
        ("create", "RenderTask", "rendertasks"),
        ("list", "Target", "targets"),
        ("get", "Secret", "secrets"),
        ("patch", "Release", "releases"),
    ] {
        let counted = scraped.sum("solar_api_requests_total", &[("verb", verb), ("kind", kind)]);
        assert!(counted > 0.5, "{verb} {plural}");
        world.until("the server counts as many", Some(&program.log), || {
            let asked = world.asked("run");
            let sent = asked.iter().filter(|asked| asked.verb == verb && asked.resource == plural);
            (number(sent.count()) - counted).abs() < 0.5
        });
    }
    let codes = scraped.values("solar_api_requests_total", "code");
    assert!(codes.contains("200") && codes.contains("201"), "{codes:?}");
    assert!(
        scraped.sum("solar_api_requests_total", &[("verb", "watch"), ("kind", "Target"), ("code", "200")])
            >= 1.0
    );
    let pushes = [("operation", "push_manifest"), ("code", "201")];
    is("solar_oci_requests_total", &pushes, world.count("renderartifacts"));
}

pub fn a_missing_definition_keeps_only_those_waiting_that_need_it_and_is_named(kind: Kind) {
    let Some(world) = World::undefined(kind, "missing") else { return };
    let missing = |kind: &str| ["Component", "RegistryBinding"].contains(&kind);
    world.define_those(|kind| !missing(kind));
    world.install_those(|kind| !missing(kind));
    let mut program = world.run("run", &[]);
    world.until("Releases are looked after", Some(&program.log), || {
        let condition = world.condition("releases/web-next", "ComponentVersionResolved");
        condition.is_some_and(|[status, ..]| status == "True")
    });
    // Each namespace is listed by itself.
    let says = |text: &str| {
        let (code, said) = program.health("/readyz");
        code == 503 && said == text
    };
    let waits = "Component is not listed yet\nRegistryBinding is not listed yet\n";
    world.until("both are named", Some(&program.log), || says(waits));
    assert_eq!(program.health("/healthz").0, 200);
    for target in world.list("targets") {
        assert!(target["status"].is_null() && target["metadata"]["finalizers"].is_null(), "{target}");
    }

    world.define_those(|kind| kind == "RegistryBinding");
    settled(&world, &program.log);
    assert!(says("Component is not listed yet\n"));
    world.define_those(|kind| kind == "Component");
    world.until("it is ready itself", Some(&program.log), || program.health("/readyz").0 == 200);
    let log = program.log.text();
    let told = log.matches("install the definitions of crds/").count();
    assert_eq!(told, 4, "said once for each kind and namespace: {log}");
    program.signal("-TERM");
    assert_eq!(world.code(&mut program), Some(0));
}

pub fn a_second_signal_ends_it_at_once_while_the_first_lets_passes_finish(kind: Kind) {
    let Some(world) = World::new(kind, "signals") else { return };
    world.install_examples();
    // Passes of Releases wait for the answer to their first write.
    hang_changes_of(&world, "releases");
    let mut program = world.run("run", &["--shutdown-grace", "10m"]);
    world.until("the passes of all Releases wait", Some(&program.log), || {
        let scraped = scrape(&program);
        let running = scraped.sum("solar_actors", &[("kind", "Release"), ("state", "running")]);
        let passes = scraped.sum("solar_gate_slots_in_use", &[]);
        running + 0.5 > number(world.count("releases")) && passes >= running
    });
    program.signal("-TERM");
    world.until("it is ready no longer", Some(&program.log), || {
        program.health("/readyz") == (503, "stopping\n".to_owned())
    });
    assert_eq!(program.health("/healthz").0, 200);
    assert!(program.ended().is_none());
    program.signal("-INT");
    assert_eq!(world.code(&mut program), Some(130));
}
