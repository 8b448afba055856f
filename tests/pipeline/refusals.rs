//! What the API server refuses, or fails to do: said where a person looks, once, while everything else goes on.

use std::time::Duration;

use kube_embedded::{Fault as ApiFault, FaultPlan, FaultRule, Verb};
use serde_json::{Value, json};
use solar_controller::dev::registry::{Access, Fault, RegistryOperation};
use solar_core::names;

use crate::artifacts::{by_hand, held_by_a_person};
use crate::scene::{
    HERE, RELEASE, Traffic, delete_target, install_platform, install_target, is_ready, object, pass, ready,
    tag,
};
use crate::support::{REGISTRY, Simulation, on_paused_time};

/// Long enough for whatever repeats to have repeated.
const WHILE: Duration = Duration::from_secs(600);

/// A condition of the Target: status, reason and message.
fn says(sim: &Simulation, target: &str, type_: &str) -> String {
    let said = sim.condition("Target", "fleet", target, type_);
    said.map(|(status, reason, message)| format!("{status} {reason}: {message}")).unwrap_or_default()
}

/// How often events with this reason were told about this kind: each as `<times>x <note>`.
fn told(sim: &Simulation, kind: &str, reason: &str) -> Vec<String> {
    let events = sim.server.objects("Event");
    let events = events.filter(|it| it["involvedObject"]["kind"] == kind && it["reason"] == reason);
    let one = |event: Value| {
        let times = event["series"]["count"].as_i64().unwrap_or(1);
        format!("{times}x {}", event["message"].as_str().unwrap_or_default())
    };
    events.map(one).collect()
}

/// The controller's status writes to Targets since the log was emptied.
fn status_writes(sim: &Simulation) -> usize {
    let requests = sim.server.requests();
    let writes = requests.iter().filter(|request| {
        &*request.actor == "controller"
            && request.verb == Verb::Patch
            && &*request.resource == "targets"
            && &*request.subresource == "status"
    });
    writes.count()
}

/// A Release `api` beside `web`, of a ComponentVersion of its own, bound to the Target `one`.
fn install_sibling(sim: &Simulation, values: &Value, resources: &Value, entrypoint: &str) {
    let version = json!({
        "componentRef": { "name": "web" },
        "tag": "2.0.0",
        "resources": resources,
        "entrypoint": { "resourceName": entrypoint, "type": "helm" },
    });
    let release = json!({
        "componentVersionRef": { "name": "api-1" },
        "uniqueName": "api",
        "targetNamespace": "web",
        "values": values,
    });
    let binding = json!({ "targetRef": { "name": "one" }, "releaseRef": { "name": "api" } });
    for object in [
        object("ComponentVersion", "fleet", "api-1", version),
        object("Release", "fleet", "api", release),
        object("ReleaseBinding", "fleet", "one-api", binding),
    ] {
        sim.server.install(object).unwrap();
    }
}

fn chart() -> Value {
    json!({ "chart": {
        "repository": "ghcr.io/charts/api",
        "tag": "2.0.0",
        "helm": { "name": "api", "version": "2.0.0" },
    } })
}

/// Whether a chart of the Release `name` is in the registry.
fn is_pushed(sim: &Simulation, name: &str) -> bool {
    sim.tags().iter().any(|tag| tag.starts_with(&format!("fleet/fleet/release-{name}:")))
}

// ---- a task that cannot be made ----

/// Strikes creates of RenderTasks whose name begins with `prefix`.
fn refuse_tasks(sim: &Simulation, prefix: &'static str, fault: ApiFault) {
    sim.server.set_faults(FaultPlan::new().decide(move |request| {
        let strikes = &*request.actor == "controller"
            && request.verb == Verb::Create
            && &*request.resource == "rendertasks"
            && request.name.starts_with(prefix);
        if strikes { fault.clone() } else { ApiFault::None }
    }));
}

#[test]
fn a_task_that_is_refused_is_the_releases_failure_and_its_siblings_are_rendered() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        install_platform(&sim);
        install_sibling(&sim, &json!({}), &chart(), "chart");
        let quota = ApiFault::status(403, "Forbidden", "rendertasks is forbidden: exceeded quota: charts");
        refuse_tasks(&sim, "render-rel-api-", quota);
        install_target(&sim, "one", "charts");
        sim.until("the Target says so", |sim| {
            let said = says(sim, "one", "ReleasesRendered");
            said.starts_with("False ReleaseFailed: Release fleet/api:") && said.contains("exceeded quota")
        })
        .await;
        sim.until("the sibling is rendered", |sim| is_pushed(sim, "web")).await;
        pass(Duration::from_secs(10)).await;
        sim.server.reset_requests();
        pass(WHILE).await;
        assert_eq!(status_writes(&sim), 0, "nothing new to say: {}", sim.describe());
        let tries = sim.server.requests();
        let tries =
            tries.iter().filter(|it| it.verb == Verb::Create && &*it.resource == "rendertasks").count();
        assert!((15..=25).contains(&tries), "{tries} tries in ten minutes");
        let failed = told(&sim, "Target", "RenderFailed");
        assert!(failed.len() == 1 && failed[0].starts_with("1x "), "{failed:?}");
        assert_eq!(told(&sim, "Target", "Created").len(), 1, "only what was made");
        sim.server.set_faults(FaultPlan::new());
        let mended = tokio::time::Instant::now();
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        assert!(mended.elapsed() < Duration::from_secs(35), "{:?}", mended.elapsed());
        sim.shut_down().await;
    });
}

/// What fits into a Release need not fit into the task that is made of it and of the version's resources.
#[test]
fn a_task_that_is_too_large_for_the_api_server_is_the_releases_failure() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        install_platform(&sim);
        let resources = (0..100).map(|number| {
            let access = json!({ "repository": format!("ghcr.io/images/{number}"), "tag": "t".repeat(100) });
            (format!("image-{number}"), access)
        });
        let mut resources: Value = resources.collect::<serde_json::Map<_, _>>().into();
        resources["chart"] = chart()["chart"].clone();
        install_sibling(&sim, &json!({ "text": "x".repeat(1_560_000) }), &resources, "chart");
        install_target(&sim, "one", "charts");
        sim.until("the Target says so", |sim| {
            let said = says(sim, "one", "ReleasesRendered");
            said.starts_with("False ReleaseFailed: Release fleet/api:") && said.contains("too large")
        })
        .await;
        sim.until("the sibling is rendered", |sim| is_pushed(sim, "web")).await;
        sim.patch("releases", "fleet", "api", json!({ "spec": { "values": { "text": "short" } } })).await;
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_bootstrap_task_that_is_refused_is_said_and_made_under_the_same_version_when_it_may_be() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        install_platform(&sim);
        refuse_tasks(&sim, "render-tgt-", ApiFault::status(403, "Forbidden", "the auditors are on holiday"));
        install_target(&sim, "one", "charts");
        sim.until("the Target says so", |sim| {
            let said = says(sim, "one", "BootstrapReady");
            said.starts_with("False Failed: ") && said.contains("on holiday")
        })
        .await;
        pass(WHILE).await;
        assert!(says(&sim, "one", "BootstrapReady").contains("on holiday"), "{}", sim.describe());
        let failed = told(&sim, "Target", "RenderFailed");
        assert!(failed.len() == 1 && failed[0].starts_with("1x "), "{failed:?}");
        sim.server.set_faults(FaultPlan::new());
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        assert_eq!(sim.server.get_object("Target", "fleet", "one").unwrap()["status"]["bootstrapVersion"], 1);
        sim.shut_down().await;
    });
}

/// The status is written although a create fails in every pass, and what it says is told.
#[test]
fn a_failure_is_told_although_another_step_of_the_same_pass_fails() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        install_platform(&sim);
        install_sibling(&sim, &json!({}), &chart(), "nowhere");
        refuse_tasks(&sim, "render-rel-web-", ApiFault::internal());
        install_target(&sim, "one", "charts");
        sim.until("the Target says so", |sim| {
            says(sim, "one", "ReleasesRendered").starts_with("False ReleaseFailed: Release fleet/api:")
        })
        .await;
        pass(WHILE).await;
        let failed = told(&sim, "Target", "RenderFailed");
        assert!(
            failed.len() == 1 && failed[0].starts_with("1x ") && failed[0].contains("nowhere"),
            "{failed:?}"
        );
        sim.shut_down().await;
    });
}

// ---- what stays as it is, is said once ----

#[test]
fn a_target_that_waits_for_a_clean_up_writes_its_status_once() {
    on_paused_time(|| async {
        let sim = ready().await;
        sim.store.set_access(Access::Open);
        let hangs = |info: &solar_controller::dev::registry::RequestInfo| {
            if info.operation == RegistryOperation::DeleteTag { Fault::Hang } else { Fault::None }
        };
        Traffic::with_faults(&sim, hangs);
        delete_target(&sim, "one").await;
        sim.until("its bindings are gone", |sim| sim.server.count("RenderBinding") == 0).await;
        install_target(&sim, "two", "charts");
        let waits = |sim: &Simulation| {
            let said = says(sim, "two", "ReleasesRendered");
            said.starts_with("False Pending: Waits for RenderArtifact") && said.contains("no answer within")
        };
        sim.until("the Target says what it waits for", waits).await;
        pass(Duration::from_secs(10)).await;
        sim.server.reset_requests();
        pass(WHILE).await;
        assert!(waits(&sim), "{}", sim.describe());
        assert_eq!(status_writes(&sim), 0, "nothing new to say");
        sim.store.clear_faults();
        sim.until("the Target is ready", |sim| is_ready(sim, "two")).await;
        assert!(tag(&sim).is_some());
        sim.shut_down().await;
    });
}

#[test]
fn a_bind_that_stays_refused_is_said_and_told_once() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        install_platform(&sim);
        let refuse = ApiFault::status(403, "Forbidden", "renderbindings is forbidden: exceeded quota");
        let rule = FaultRule::new(refuse).actor("controller").verb(Verb::Create).resource("renderbindings");
        sim.server.add_fault(rule);
        install_target(&sim, "one", "charts");
        let failed =
            |sim: &Simulation| says(sim, "one", "ReleasesRendered").starts_with("False ReleaseFailed");
        sim.until("the Target says so", failed).await;
        pass(Duration::from_secs(10)).await;
        sim.server.reset_requests();
        pass(WHILE).await;
        assert_eq!(status_writes(&sim), 0, "nothing new to say: {}", sim.describe());
        let tries = sim.server.count_requests(Verb::Create, "renderbindings");
        assert!((15..=25).contains(&tries), "{tries} tries in ten minutes");
        let failed = told(&sim, "Target", "RenderFailed");
        assert!(failed.len() == 1 && failed[0].starts_with("1x "), "{failed:?}");
        sim.server.set_faults(FaultPlan::new());
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        sim.shut_down().await;
    });
}

#[test]
fn each_bootstrap_version_that_is_left_out_is_told_of_once() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        install_platform(&sim);
        for version in ["v0.0.1", "v0.0.2"] {
            let name = names::artifact("fleet", REGISTRY, "fleet/bootstrap-one", version);
            sim.server.install(by_hand(&name, REGISTRY, "team/app", version)).unwrap();
            sim.server.install(held_by_a_person(&format!("held-{version}"), &name)).unwrap();
        }
        // The third cannot be bound for a while, so it is asked for again and again.
        let third =
            names::binding(&names::artifact("fleet", REGISTRY, "fleet/bootstrap-one", "v0.0.3"), "one");
        let refuse = ApiFault::status(403, "Forbidden", "renderbindings is forbidden: exceeded quota");
        let rule = FaultRule::new(refuse).actor("controller").verb(Verb::Create).resource("renderbindings");
        sim.server.add_fault(rule.name(&third).times(4));
        install_target(&sim, "one", "charts");
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        pass(Duration::from_secs(10)).await;
        assert_eq!(sim.server.get_object("Target", "fleet", "one").unwrap()["status"]["bootstrapVersion"], 3);
        let mut collisions = told(&sim, "Target", "NameCollision");
        collisions.sort();
        assert_eq!(collisions.len(), 2, "{collisions:?}");
        assert!(collisions.iter().all(|it| it.starts_with("1x ")), "{collisions:?}");
        sim.shut_down().await;
    });
}

// ---- finalizers that cannot be put on ----

#[test]
fn conditions_are_written_although_no_finalizer_can_be_put_on() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        let refuse = ApiFault::status(403, "Forbidden", "a policy allows no such patch");
        let rule = FaultRule::new(refuse).actor("controller").verb(Verb::Patch).subresource("");
        sim.server.add_fault(rule);
        install_platform(&sim);
        install_target(&sim, "one", "charts");
        let binding = json!({ "targetRef": { "name": "one" }, "registryRef": { "name": "charts" } });
        sim.server.install(object("RegistryBinding", "fleet", "one-charts", binding)).unwrap();
        let profile =
            json!({ "releaseRef": { "name": "web" }, "targetSelector": { "matchLabels": { "a": "b" } } });
        sim.server.install(object("Profile", "fleet", "all", profile)).unwrap();
        let objects = [
            ("Release", "web"),
            ("ReleaseBinding", "one-web"),
            ("RegistryBinding", "one-charts"),
            ("Profile", "all"),
        ];
        for (kind, name) in objects {
            sim.until(&format!("{kind} {name} says its conditions"), |sim| {
                let object = sim.server.get_object(kind, "fleet", name).unwrap();
                object["status"]["conditions"].as_array().is_some_and(|conditions| !conditions.is_empty())
            })
            .await;
            let held = sim.server.get_object(kind, "fleet", name).unwrap()["metadata"]["finalizers"].clone();
            assert_eq!(held, Value::Null, "{kind}");
        }
        sim.server.set_faults(FaultPlan::new());
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        for (kind, name) in objects {
            sim.until(&format!("{kind} {name} is held"), |sim| {
                sim.server.get_object(kind, "fleet", name).unwrap()["metadata"]["finalizers"].is_array()
            })
            .await;
        }
        assert!(sim.tags().iter().any(|tag| tag.starts_with(&format!("{RELEASE}:"))));
        sim.delete(&format!("{HERE}/profiles/all")).await;
        sim.shut_down().await;
    });
}

/// The finalizer comes too late: the Registry is on its way out, and would go while charts lie on it.
#[test]
fn nothing_is_bound_to_a_registry_that_goes_before_it_could_be_held() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        install_platform(&sim);
        let late =
            FaultRule::new(ApiFault::Delay(Duration::from_secs(10))).actor("controller").verb(Verb::Patch);
        sim.server.add_fault(late.resource("registries").subresource("").times(1));
        install_target(&sim, "one", "charts");
        let patches = |sim: &Simulation| {
            let requests = sim.server.requests();
            requests.iter().filter(|it| it.verb == Verb::Patch && &*it.resource == "registries").count()
        };
        sim.until("the Registry is about to be held", |sim| patches(sim) > 0).await;
        let held = json!({ "metadata": { "finalizers": ["example.com/of-somebody"] } });
        sim.patch("registries", "fleet", "charts", held).await;
        sim.delete(&format!("{HERE}/registries/charts")).await;
        pass(Duration::from_secs(60)).await;
        let said = says(&sim, "one", "RegistryResolved");
        assert!(said.starts_with("False NotFound"), "{said}");
        assert_eq!(sim.server.count_requests(Verb::Create, "renderbindings"), 0, "{}", sim.describe());
        let registry = sim.server.get_object("Registry", "fleet", "charts").unwrap();
        assert_eq!(registry["metadata"]["finalizers"], json!(["example.com/of-somebody"]));
        sim.shut_down().await;
    });
}
