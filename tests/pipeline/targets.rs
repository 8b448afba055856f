//! The traps that a Target's actor must not step into, each acted out on the whole system.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_embedded::{Fault as ApiFault, FaultPlan, FaultRule, Verb};
use serde_json::{Value, json};
use solar_controller::dev::registry::{Fault, RegistryOperation};

use crate::scene::{
    self, HERE, Traffic, install_platform, install_target, is_ready, object, pass, ready, registry,
};
use crate::support::{Simulation, on_paused_time};

/// Longer than every pause of a pipeline that works, shorter than the timers behind the watches.
const AT_ONCE: Duration = Duration::from_secs(1);
const A_WHILE: Duration = Duration::from_secs(600);

fn says(sim: &Simulation, target: &str, type_: &str) -> String {
    let condition = sim.condition("Target", "fleet", target, type_);
    condition.map(|(status, reason, _)| format!("{status} {reason}")).unwrap_or_default()
}

fn message(sim: &Simulation, target: &str, type_: &str) -> String {
    sim.condition("Target", "fleet", target, type_).map(|(.., message)| message).unwrap_or_default()
}

fn tasks(sim: &Simulation) -> BTreeSet<String> {
    sim.server.objects("RenderTask").map(|task| task["metadata"]["uid"].to_string()).collect()
}

fn version(sim: &Simulation, target: &str) -> i64 {
    sim.server.get_object("Target", "fleet", target).unwrap()["status"]["bootstrapVersion"].as_i64().unwrap()
}

fn tags(sim: &Simulation, repository: &str) -> BTreeSet<String> {
    let start = format!("{repository}:");
    sim.tags().into_iter().filter(|tag| tag.starts_with(&start)).collect()
}

fn grant(namespace: &str, from: (&str, &str), to: &str) -> Value {
    let group = "solar.opendefense.cloud";
    let spec = json!({
        "from": [{ "group": group, "kind": from.0, "namespace": from.1 }],
        "to": [{ "group": group, "kind": to }],
    });
    object("ReferenceGrant", namespace, &format!("{}-{to}", from.0).to_lowercase(), spec)
}

fn path(namespace: &str, plural: &str, name: &str) -> String {
    format!("/apis/solar.opendefense.cloud/v1alpha1/namespaces/{namespace}/{plural}/{name}")
}

#[test]
fn the_deletion_of_a_bound_release_bumps_its_generation_and_renders_nothing() {
    on_paused_time(|| async {
        let sim = ready().await;
        let (tasks_before, tags_before) = (tasks(&sim), sim.tags());
        sim.delete(&format!("{HERE}/releases/web")).await;
        pass(A_WHILE).await;
        let release = sim.server.get_object("Release", "fleet", "web").unwrap();
        assert_eq!(release["metadata"]["generation"], 2, "the deletion counts as a change");
        assert_eq!((tasks(&sim), sim.tags()), (tasks_before, tags_before));
        assert!(is_ready(&sim, "one") && version(&sim, "one") == 1);
        sim.shut_down().await;
    });
}

#[test]
fn a_priority_that_decides_nothing_renders_nothing() {
    on_paused_time(|| async {
        let sim = ready().await;
        let before = (tasks(&sim), sim.tags());
        sim.patch("releases", "fleet", "web", json!({ "spec": { "priority": 7, "failedJobTTL": 60 } })).await;
        pass(A_WHILE).await;
        assert_eq!((tasks(&sim), sim.tags()), before);
        assert!(is_ready(&sim, "one") && version(&sim, "one") == 1);
        sim.shut_down().await;
    });
}

#[test]
fn two_targets_that_share_a_release_are_deleted_in_either_order_also_while_the_second_renders() {
    for (first, second, renders) in [("one", "two", false), ("two", "one", false), ("one", "two", true)] {
        on_paused_time(move || async move {
            let sim = Simulation::new();
            install_platform(&sim);
            install_target(&sim, "one", "charts");
            sim.until("the first is ready", |sim| is_ready(sim, "one")).await;
            let shared = scene::tag(&sim).unwrap();
            let traffic = Traffic::with_faults(&sim, move |info| {
                let waits = renders && info.repository == "fleet/bootstrap-two";
                if waits { Fault::Hang } else { Fault::None }
            });
            install_target(&sim, "two", "charts");
            if renders {
                sim.until("the second renders its bootstrap", |_| {
                    traffic.seen().iter().any(|seen| seen.info.repository == "fleet/bootstrap-two")
                })
                .await;
            } else {
                sim.until("both are ready", Simulation::all_ready).await;
            }
            scene::delete_target(&sim, first).await;
            sim.until("it is gone", |sim| sim.server.get_object("Target", "fleet", first).is_none()).await;
            pass(Duration::from_secs(30)).await;
            assert_eq!(scene::tag(&sim), Some(shared), "the other one holds it");
            sim.store.clear_faults();
            sim.until("the other one is ready", |sim| is_ready(sim, second)).await;
            scene::delete_target(&sim, second).await;
            scene::until_all_gone(&sim).await;
            assert_eq!(sim.tags(), BTreeSet::new());
            sim.shut_down().await;
        });
    }
}

#[test]
fn a_registry_that_moves_to_another_host_gets_the_charts_there_and_old_tags_wait_for_credentials() {
    on_paused_time(|| async {
        let sim = ready().await;
        let config = json!({ "auths": {
            "other.example": { "username": "solar", "password": "solar-dev" },
            crate::support::REGISTRY: { "username": "solar", "password": "solar-dev" },
        } });
        let mut push = scene::secret("fleet", "push", "");
        push["stringData"] = json!({ ".dockerconfigjson": config.to_string() });
        sim.server.install(push).unwrap();
        sim.patch("registries", "fleet", "charts", json!({ "spec": { "hostname": "Other.example/" } })).await;
        sim.until("the chart is at the new host", |sim| {
            let target = sim.server.get_object("Target", "fleet", "one").unwrap();
            let url = target["status"]["chartURL"].as_str().unwrap_or_default();
            is_ready(sim, "one") && url.starts_with("oci://other.example/fleet/bootstrap-one:")
        })
        .await;
        let old = |sim: &Simulation| -> Vec<String> {
            let all = sim.server.objects("RenderArtifact");
            all.filter(|it| it["spec"]["baseURL"] == crate::support::REGISTRY)
                .map(|it| it["metadata"]["name"].as_str().unwrap().to_owned())
                .collect()
        };
        sim.until("the old artifacts say why they stay", |sim| {
            old(sim).len() == 2
                && old(sim).iter().all(|artifact| {
                    let said = sim.condition("RenderArtifact", "fleet", artifact, "OCICleanup");
                    said.is_some_and(|(_, reason, message)| {
                        reason == "AuthFailed" && message.contains("has the hostname other.example")
                    })
                })
        })
        .await;
        // The mend that is named: a Registry with the old host.
        sim.server.install(registry("fleet", "old", "push")).unwrap();
        for artifact in old(&sim) {
            let change = json!({ "spec": { "registryRef": { "name": "old" } } });
            sim.patch("renderartifacts", "fleet", &artifact, change).await;
        }
        sim.until("the old artifacts are gone", |sim| old(sim).is_empty()).await;
        sim.until("the Registry of the mend is let go", |sim| {
            sim.server.get_object("Registry", "fleet", "old").unwrap()["metadata"]["finalizers"].is_null()
        })
        .await;
        assert!(is_ready(&sim, "one"));
        sim.shut_down().await;
    });
}

#[test]
fn a_target_that_names_another_registry_is_ready_all_the_way_and_takes_its_tags_along() {
    on_paused_time(|| async {
        let sim = ready().await;
        let mut push = scene::secret("fleet", "push-2", "");
        let config = json!({ "auths": { "two.example": { "username": "solar", "password": "solar-dev" } } });
        push["stringData"] = json!({ ".dockerconfigjson": config.to_string() });
        sim.server.install(push).unwrap();
        let mut second = registry("fleet", "charts-2", "push-2");
        second["spec"]["hostname"] = json!("two.example");
        sim.server.install(second).unwrap();
        let change = json!({ "spec": { "renderRegistryRef": { "name": "charts-2" } } });
        sim.patch("targets", "fleet", "one", change).await;
        sim.until("it renders to the new one", |sim| {
            let target = sim.server.get_object("Target", "fleet", "one").unwrap();
            let url = target["status"]["chartURL"].as_str().unwrap_or_default().to_owned();
            assert!(!url.is_empty(), "the earlier chart is named until the new one is there");
            is_ready(sim, "one") && url.starts_with("oci://two.example/")
        })
        .await;
        sim.until("what was at the old one is gone", |sim| {
            sim.server.objects("RenderArtifact").all(|it| it["spec"]["baseURL"] == "two.example")
        })
        .await;
        sim.until("the old Registry is let go", |sim| {
            let old = sim.server.get_object("Registry", "fleet", "charts").unwrap();
            old["metadata"]["finalizers"].is_null()
        })
        .await;
        sim.shut_down().await;
    });
}

#[test]
fn a_pull_secret_that_changes_gives_a_new_chart_and_one_that_changes_back_the_old_one_again() {
    on_paused_time(|| async {
        let sim = ready().await;
        let anonymous = scene::tag(&sim).unwrap();
        let images = object("Registry", "fleet", "images", json!({ "hostname": "ghcr.io" }));
        sim.server.install(images).unwrap();
        let spec = json!({ "targetRef": { "name": "one" }, "registryRef": { "name": "images" } });
        sim.server.install(object("RegistryBinding", "fleet", "images", spec)).unwrap();
        pass(A_WHILE).await;
        assert_eq!(scene::tag(&sim), Some(anonymous.clone()), "an empty name is anonymous too");
        let secret = |name: Value| json!({ "spec": { "targetPullSecretName": name } });
        sim.patch("registries", "fleet", "images", secret(json!("pull-1"))).await;
        sim.until("another tag", |sim| {
            is_ready(sim, "one")
                && tags(sim, scene::RELEASE).len() == 1
                && scene::tag(sim) != Some(anonymous.clone())
        })
        .await;
        assert_eq!(version(&sim, "one"), 2);
        sim.patch("registries", "fleet", "images", secret(Value::Null)).await;
        sim.until("the first tag again", |sim| {
            is_ready(sim, "one")
                && tags(sim, scene::RELEASE).len() == 1
                && scene::tag(sim) == Some(anonymous.clone())
        })
        .await;
        assert_eq!(version(&sim, "one"), 3, "a version is never given twice");
        sim.shut_down().await;
    });
}

#[test]
fn a_decision_that_flips_by_priority_and_flips_back_is_followed_each_time() {
    on_paused_time(|| async {
        let sim = ready().await;
        let spec = json!({
            "componentVersionRef": { "name": "web-1" }, "uniqueName": "web", "values": { "other": true },
        });
        sim.server.install(object("Release", "fleet", "other", spec)).unwrap();
        let spec = json!({ "targetRef": { "name": "one" }, "releaseRef": { "name": "other" } });
        sim.server.install(object("ReleaseBinding", "fleet", "one-other", spec)).unwrap();
        let reads = |sim: &Simulation, release: &str| {
            let repository = format!("fleet/fleet/release-{release}");
            let lost = if release == "web" { "other" } else { "web" };
            is_ready(sim, "one")
                && tags(sim, &repository).len() == 1
                && tags(sim, &format!("fleet/fleet/release-{lost}")).is_empty()
                && says(sim, "one", "ReleasesResolved") == "True Resolved"
                && message(sim, "one", "ReleasesResolved").contains(if release == "web" {
                    "one-other"
                } else {
                    "one-web"
                })
        };
        // One priority: the lower name of the binding wins.
        sim.until("other has the lower name", |sim| reads(sim, "other")).await;
        let first = version(&sim, "one");
        for (round, priority) in (1..=3).zip([5, -5, 6]) {
            sim.patch("releases", "fleet", "web", json!({ "spec": { "priority": priority } })).await;
            let winner = if priority > 0 { "web" } else { "other" };
            sim.until("the decision is followed", |sim| reads(sim, winner)).await;
            assert_eq!(version(&sim, "one"), first + round);
        }
        sim.shut_down().await;
    });
}

#[test]
fn a_bootstrap_that_renders_when_its_input_changes_again_is_overtaken_by_the_next_version() {
    on_paused_time(|| async {
        let sim = ready().await;
        let hang = |version: &'static str| {
            move |info: &solar_controller::dev::registry::RequestInfo| {
                let is_push = info.operation == RegistryOperation::PutManifest;
                let hangs = is_push && info.repository == "fleet/bootstrap-one" && info.reference == version;
                if hangs { Fault::Hang } else { Fault::None }
            }
        };
        let traffic = Traffic::with_faults(&sim, hang("v0.0.2"));
        let userdata = |site: &str| json!({ "spec": { "userdata": { "site": site } } });
        sim.patch("targets", "fleet", "one", userdata("bremen")).await;
        sim.until("version 2 is being pushed", |_| {
            traffic.seen().iter().any(|seen| seen.info.reference == "v0.0.2")
        })
        .await;
        let url = |sim: &Simulation| {
            sim.server.get_object("Target", "fleet", "one").unwrap()["status"]["chartURL"].clone()
        };
        assert_eq!(says(&sim, "one", "BootstrapReady"), "False Rendering");
        assert!(url(&sim).as_str().unwrap().ends_with("bootstrap-one:v0.0.1"), "the earlier chart stays");
        sim.patch("targets", "fleet", "one", userdata("kiel")).await;
        sim.until("version 3 is ready", |sim| is_ready(sim, "one") && version(sim, "one") == 3).await;
        assert!(url(&sim).as_str().unwrap().ends_with("bootstrap-one:v0.0.3"));
        sim.store.clear_faults();
        sim.until("the others are gone", |sim| tags(sim, "fleet/bootstrap-one").len() == 1).await;
        pass(A_WHILE).await;
        assert_eq!(tags(&sim, "fleet/bootstrap-one"), ["fleet/bootstrap-one:v0.0.3".to_owned()].into());
        sim.shut_down().await;
    });
}

#[test]
fn what_was_missing_for_long_is_used_at_once_when_it_appears() {
    on_paused_time(|| async {
        // Everything across namespaces, so that each grant can be missing too.
        let sim = Simulation::new();
        install_platform(&sim);
        let there = |name: &str| json!({ "name": name, "namespace": "platform" });
        let spec = json!({ "renderRegistryRef": there("far") });
        sim.server.install(object("Target", "fleet", "one", spec)).unwrap();
        let spec = json!({ "targetRef": { "name": "one" }, "releaseRef": { "name": "late" } });
        sim.server.install(object("ReleaseBinding", "fleet", "one-late", spec)).unwrap();
        let spec = json!({ "targetRef": { "name": "one" }, "registryRef": { "name": "images" } });
        sim.server.install(object("RegistryBinding", "fleet", "images", spec)).unwrap();
        let mut version = sim.server.get_object("ComponentVersion", "fleet", "web-1").unwrap();
        version["metadata"] = json!({ "name": "web-far", "namespace": "platform" });
        let steps: Vec<(&str, Value, &str, &str)> = vec![
            (
                "RegistryResolved",
                grant("platform", ("Target", "fleet"), "Registry"),
                "False NotGranted",
                "False NotFound",
            ),
            ("RegistryResolved", registry("platform", "far", "push"), "False NotFound", "True Resolved"),
            (
                "ReleasesRendered",
                object("Release", "fleet", "late", json!({ "componentVersionRef": there("web-far") })),
                "Release fleet/late of ReleaseBinding fleet/one-late does not exist",
                "ComponentVersion platform/web-far of Release fleet/late is not granted",
            ),
            (
                "ReleasesRendered",
                grant("platform", ("Release", "fleet"), "ComponentVersion"),
                "is not granted",
                "ComponentVersion platform/web-far of Release fleet/late does not exist",
            ),
            (
                "ReleasesRendered",
                version,
                "ComponentVersion platform/web-far of Release fleet/late does not exist",
                "Registry fleet/images of RegistryBinding fleet/images does not exist",
            ),
            (
                "ReleasesRendered",
                object("Registry", "fleet", "images", json!({ "hostname": "ghcr.io" })),
                "Registry fleet/images of RegistryBinding fleet/images does not exist",
                "",
            ),
        ];
        sim.server.install(scene::secret("platform", "push", "solar-dev")).unwrap();
        sim.server.install(grant("platform", ("RenderArtifact", "fleet"), "Registry")).unwrap();
        let said = |sim: &Simulation, type_: &str| {
            format!("{}: {}", says(sim, "one", type_), message(sim, "one", type_))
        };
        for (type_, appears, before, after) in steps {
            pass(Duration::from_secs(3_600)).await;
            assert!(said(&sim, type_).contains(before), "{before} in {}", said(&sim, type_));
            sim.server.install(appears).unwrap();
            pass(AT_ONCE).await;
            assert!(said(&sim, type_).contains(after), "{after} in {}", said(&sim, type_));
        }
        sim.until("it is ready", |sim| is_ready(sim, "one")).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_grant_that_is_revoked_while_all_is_ready_is_said_and_takes_no_chart_away() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        install_platform(&sim);
        let there = |name: &str| json!({ "name": name, "namespace": "platform" });
        let objects = [
            scene::secret("platform", "push", "solar-dev"),
            registry("platform", "far", "push"),
            object(
                "Registry",
                "platform",
                "images",
                json!({ "hostname": "ghcr.io", "targetPullSecretName": "s" }),
            ),
            object("Target", "fleet", "one", json!({ "renderRegistryRef": there("far") })),
            object(
                "Release",
                "platform",
                "web",
                json!({ "componentVersionRef": { "name": "web-1", "namespace": "fleet" } }),
            ),
            object(
                "ReleaseBinding",
                "platform",
                "one-web",
                json!({ "targetRef": { "name": "one", "namespace": "fleet" }, "releaseRef": { "name": "web" } }),
            ),
            object(
                "RegistryBinding",
                "platform",
                "one-images",
                json!({ "targetRef": { "name": "one", "namespace": "fleet" }, "registryRef": { "name": "images" } }),
            ),
        ];
        for object in objects {
            sim.server.install(object).unwrap();
        }
        let grants = [
            (grant("platform", ("Target", "fleet"), "Registry"), "RegistryResolved", "False NotGranted"),
            (
                grant("fleet", ("Release", "platform"), "ComponentVersion"),
                "ReleasesRendered",
                "False MissingDependencies",
            ),
            (
                grant("fleet", ("ReleaseBinding", "platform"), "Target"),
                "ReleasesResolved",
                "False NoReleaseBindings",
            ),
            (grant("platform", ("RenderArtifact", "fleet"), "Registry"), "Ready", "True Ready"),
        ];
        for (grant, ..) in &grants {
            sim.server.install(grant.clone()).unwrap();
        }
        let pulls = grant("fleet", ("RegistryBinding", "platform"), "Target");
        sim.server.install(pulls.clone()).unwrap();
        sim.until("it is ready", |sim| is_ready(sim, "one")).await;
        let charts = sim.tags();
        assert_eq!(charts.len(), 2);
        for (grant, type_, wanted) in &grants {
            let meta = &grant["metadata"];
            let (namespace, name) = (meta["namespace"].as_str().unwrap(), meta["name"].as_str().unwrap());
            sim.delete(&path(namespace, "referencegrants", name)).await;
            pass(AT_ONCE).await;
            assert_eq!(says(&sim, "one", type_), *wanted, "{name}");
            pass(Duration::from_secs(3_600)).await;
            assert_eq!(sim.tags(), charts, "{name}");
            sim.server.install(grant.clone()).unwrap();
            pass(AT_ONCE).await;
            assert!(is_ready(&sim, "one"), "{name}: {}", sim.describe());
            assert_eq!((version(&sim, "one"), sim.tags()), (1, charts.clone()), "{name}");
        }
        // Without this one the images are pulled anonymously: that is other content.
        sim.delete(&path("fleet", "referencegrants", "registrybinding-target")).await;
        sim.until("there is a new bootstrap", |sim| is_ready(sim, "one") && version(sim, "one") == 2).await;
        sim.shut_down().await;
    });
}

#[test]
fn strict_mode_names_host_and_resource_until_the_host_is_bound() {
    on_paused_time(|| async {
        let (server, store) = crate::support::world();
        let mut options = crate::support::options();
        options.target.strict = true;
        let sim = Simulation::over(server, store, options);
        install_platform(&sim);
        install_target(&sim, "one", "charts");
        sim.until("it says which binding is missing", |sim| {
            says(sim, "one", "ReleasesRendered") == "False MissingRegistryBinding"
        })
        .await;
        let said = message(&sim, "one", "ReleasesRendered");
        assert!(said.contains("ghcr.io") && said.contains("chart"), "{said}");
        let images = object("Registry", "fleet", "images", json!({ "hostname": "GHCR.io:443" }));
        sim.server.install(images).unwrap();
        let spec = json!({ "targetRef": { "name": "one" }, "registryRef": { "name": "images" } });
        sim.server.install(object("RegistryBinding", "fleet", "images", spec)).unwrap();
        sim.until("it is ready", |sim| is_ready(sim, "one")).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_suspended_target_says_so_keeps_everything_and_is_still_deleted() {
    on_paused_time(|| async {
        let sim = ready().await;
        let suspend = |value: Value| json!({ "metadata": { "annotations": { "solar.opendefense.cloud/suspend": value } } });
        sim.patch("targets", "fleet", "one", suspend(json!("true"))).await;
        sim.until("it says so", |sim| says(sim, "one", "Ready") == "False Suspended").await;
        let before = (tasks(&sim), sim.tags());
        sim.patch("releases", "fleet", "web", json!({ "spec": { "values": { "replicaCount": 9 } } })).await;
        pass(A_WHILE).await;
        assert_eq!((tasks(&sim), sim.tags()), before);
        assert_eq!(says(&sim, "one", "BootstrapReady"), "True Ready", "the others stay");
        sim.patch("targets", "fleet", "one", suspend(Value::Null)).await;
        sim.until("it goes on", |sim| is_ready(sim, "one") && version(sim, "one") == 2).await;
        sim.patch("targets", "fleet", "one", suspend(json!("true"))).await;
        scene::delete_target(&sim, "one").await;
        scene::until_all_gone(&sim).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_stale_chart_outlives_the_bootstrap_that_replaced_it_for_the_grace_period() {
    on_paused_time(|| async {
        let (server, store) = crate::support::world();
        let mut options = crate::support::options();
        options.target.stale_grace = Duration::from_secs(900);
        let sim = Simulation::over(server, store, options);
        install_platform(&sim);
        install_target(&sim, "one", "charts");
        sim.until("it is ready", |sim| is_ready(sim, "one")).await;
        let first = sim.tags();
        sim.patch("releases", "fleet", "web", json!({ "spec": { "values": { "replicaCount": 9 } } })).await;
        sim.until("it is ready again", |sim| is_ready(sim, "one") && version(sim, "one") == 2).await;
        pass(Duration::from_secs(890)).await;
        assert!(sim.tags().is_superset(&first) && sim.tags().len() == 4, "{:?}", sim.tags());
        pass(Duration::from_secs(30)).await;
        assert!(sim.tags().is_disjoint(&first) && sim.tags().len() == 2, "{:?}", sim.tags());
        sim.shut_down().await;
    });
}

#[test]
fn a_registry_that_only_artifacts_need_is_held_until_their_tags_are_gone() {
    on_paused_time(|| async {
        let sim = ready().await;
        sim.server.install(registry("fleet", "second", "push")).unwrap();
        let artifact = sim.server.objects("RenderArtifact").next().unwrap()["metadata"]["name"].clone();
        let artifact = artifact.as_str().unwrap().to_owned();
        // Nobody binds again meanwhile.
        let suspended = json!({ "solar.opendefense.cloud/suspend": "true" });
        sim.patch("targets", "fleet", "one", json!({ "metadata": { "annotations": suspended } })).await;
        sim.until("it rests", |sim| says(sim, "one", "Ready") == "False Suspended").await;
        // No binding names a Registry any more, so that nobody pins the artifact back.
        for binding in sim.server.objects("RenderBinding").collect::<Vec<_>>() {
            let name = binding["metadata"]["name"].as_str().unwrap();
            sim.patch("renderbindings", "fleet", name, json!({ "spec": { "registryRef": null } })).await;
        }
        let change = json!({ "spec": { "registryRef": { "name": "second" } } });
        sim.patch("renderartifacts", "fleet", &artifact, change).await;
        let held = |sim: &Simulation| {
            let second = sim.server.get_object("Registry", "fleet", "second").unwrap_or_default();
            second["metadata"]["finalizers"] == json!(["solar.opendefense.cloud/registry-ref"])
        };
        sim.until("it is held", held).await;
        sim.delete(&format!("{HERE}/registries/second")).await;
        pass(A_WHILE).await;
        assert!(held(&sim), "{}", sim.describe());
        scene::delete_target(&sim, "one").await;
        scene::until_all_gone(&sim).await;
        sim.until("it is gone", |sim| sim.server.get_object("Registry", "fleet", "second").is_none()).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_render_request_brings_a_tag_back_that_somebody_deleted() {
    on_paused_time(|| async {
        let sim = ready().await;
        let before = sim.tags();
        for (repository, tag) in sim.store.all_tags().into_keys() {
            sim.store.remove_tag(&repository, &tag);
        }
        let annotations = json!({ "solar.opendefense.cloud/render-request": "where are they" });
        sim.patch("targets", "fleet", "one", json!({ "metadata": { "annotations": annotations } })).await;
        sim.until("they are there again", |sim| sim.tags() == before && is_ready(sim, "one")).await;
        sim.shut_down().await;
    });
}

/// What the task says of itself is not enough: the tag must have held its digest after the artifact existed.
#[test]
fn a_task_that_succeeded_makes_no_target_ready_while_its_artifact_has_no_digest_or_another() {
    for digest in [Value::Null, json!(format!("sha256:{}", "0".repeat(64)))] {
        for repository in [scene::RELEASE, "fleet/bootstrap-one"] {
            let digest = digest.clone();
            on_paused_time(move || async move {
                let sim = ready().await;
                let context = format!("{repository} {digest}");
                let of = |kind: &str| {
                    let found = sim.server.objects(kind).find(|it| it["spec"]["repository"] == repository);
                    found.unwrap()["metadata"]["name"].as_str().unwrap().to_owned()
                };
                let (artifact, task) = (of("RenderArtifact"), of("RenderTask"));
                let url =
                    sim.server.get_object("Target", "fleet", "one").unwrap()["status"]["chartURL"].clone();
                // Nothing can be found out of the tag, nor said by the task.
                sim.store.set_faults(|_| Fault::status(503, ""));
                let mute = FaultRule::new(ApiFault::unavailable()).verb(Verb::Patch).resource("rendertasks");
                sim.server.add_fault(mute);
                let change = json!({ "status": { "digest": digest } });
                sim.patch("renderartifacts", "fleet", &format!("{artifact}/status"), change).await;
                pass(AT_ONCE).await;
                for _ in 0..60 {
                    assert!(scene::succeeded(&sim, &task), "{context}: the task still says so");
                    assert!(says(&sim, "one", "Ready").starts_with("False"), "{context}: {}", sim.describe());
                    pass(Duration::from_secs(60)).await;
                }
                let target = sim.server.get_object("Target", "fleet", "one").unwrap();
                assert_eq!(target["status"]["chartURL"], url, "the earlier chart is still named");
                sim.store.clear_faults();
                sim.server.set_faults(FaultPlan::new());
                sim.until(&format!("{context}: it is ready"), |sim| is_ready(sim, "one")).await;
                let found = sim.server.get_object("RenderArtifact", "fleet", &artifact).unwrap();
                let task = sim.server.get_object("RenderTask", "fleet", &task).unwrap();
                assert_eq!(found["status"]["digest"], task["status"]["digest"], "{context}");
                sim.shut_down().await;
            });
        }
    }
}
