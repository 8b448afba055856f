//! The controllers around the pipeline: bindings, Profiles, Releases, and what keeps what from being deleted.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_embedded::{Fault, FaultPlan, FaultRule, Verb, WatchFault};
use serde_json::{Value, json};
use solar_api::names as finalizers;
use solar_core::object::ObjectName;

use crate::scene::{self, HERE, object};
use crate::support::{Simulation, on_paused_time};

fn holds(sim: &Simulation, kind: &str, name: &str, finalizer: &str) -> bool {
    let object = sim.server.get_object(kind, "fleet", name).unwrap_or_default();
    object["metadata"]["finalizers"].as_array().is_some_and(|held| held.iter().any(|it| it == finalizer))
}

fn says(sim: &Simulation, kind: &str, name: &str, type_: &str) -> String {
    let condition = sim.condition(kind, "fleet", name, type_);
    condition.map(|(status, reason, _)| format!("{status} {reason}")).unwrap_or_default()
}

async fn until_says(sim: &Simulation, kind: &str, name: &str, type_: &str, wanted: &str) {
    sim.until(&format!("{kind} {name} says {type_} {wanted}"), |sim| says(sim, kind, name, type_) == wanted)
        .await;
}

fn gone(sim: &Simulation, kind: &str, name: &str) -> bool {
    sim.server.get_object(kind, "fleet", name).is_none()
}

fn profile(name: &str, release: &str, labels: Value) -> Value {
    let spec = json!({ "releaseRef": { "name": release }, "targetSelector": { "matchLabels": labels } });
    object("Profile", "fleet", name, spec)
}

fn install_labelled(sim: &Simulation, name: &str, ring: &str) {
    let mut target = object("Target", "fleet", name, json!({ "renderRegistryRef": { "name": "charts" } }));
    target["metadata"]["labels"] = json!({ "ring": ring });
    sim.server.install(target).unwrap();
}

/// The Targets that bindings of Profiles name, with the Release of each.
fn bound(sim: &Simulation) -> BTreeSet<String> {
    sim.server
        .objects("ReleaseBinding")
        .filter(|binding| binding["metadata"]["ownerReferences"][0]["kind"] == "Profile")
        .map(|binding| {
            let name = |reference: &str| binding["spec"][reference]["name"].as_str().unwrap().to_owned();
            format!("{} {}", name("targetRef"), name("releaseRef"))
        })
        .collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_profile_binds_the_targets_whose_labels_match_and_follows_their_labels() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        scene::install_platform(&sim);
        install_labelled(&sim, "one", "canary");
        install_labelled(&sim, "two", "stable");
        sim.server.install(profile("canary", "web", json!({ "ring": "canary" }))).unwrap();
        sim.until("one is ready", |sim| scene::is_ready(sim, "one")).await;
        assert_eq!(bound(&sim), set(&["one web"]));
        until_says(&sim, "Profile", "canary", "Ready", "True Bound").await;
        let matched = |sim: &Simulation| {
            sim.server.get_object("Profile", "fleet", "canary").unwrap()["status"]["matchedTargets"].clone()
        };
        sim.until("it is counted", |sim| matched(sim) == 1).await;

        let canary = json!({ "metadata": { "labels": { "ring": "canary" } } });
        sim.patch("targets", "fleet", "two", canary).await;
        sim.until("two is ready", |sim| scene::is_ready(sim, "two")).await;
        sim.until("both are counted", |sim| matched(sim) == 2).await;
        let stable = json!({ "metadata": { "labels": { "ring": "stable" } } });
        sim.patch("targets", "fleet", "one", stable).await;
        sim.until("only two is bound", |sim| bound(sim) == set(&["two web"]) && matched(sim) == 1).await;
        sim.until("one's charts are gone", |sim| {
            says(sim, "Target", "one", "Ready") == "False NoReleaseBindings"
                && !sim.tags().iter().any(|tag| tag.starts_with("fleet/bootstrap-one"))
        })
        .await;

        // A binding that somebody took or changed comes back as it was.
        let name = sim.server.objects("ReleaseBinding").next().unwrap()["metadata"]["name"].clone();
        let name = name.as_str().unwrap();
        sim.patch("releasebindings", "fleet", name, json!({ "spec": { "targetRef": { "name": "one" } } }))
            .await;
        sim.until("it is pointed back", |sim| bound(sim) == set(&["two web"])).await;
        sim.delete(&format!("{HERE}/releasebindings/{name}")).await;
        sim.until("it is made again", |sim| bound(sim) == set(&["two web"]) && scene::is_ready(sim, "two"))
            .await;
        sim.shut_down().await;
    });
}

#[test]
fn a_profile_that_names_another_release_leaves_no_target_without_one() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        scene::install_platform(&sim);
        install_labelled(&sim, "one", "canary");
        sim.server.install(profile("canary", "web", json!({ "ring": "canary" }))).unwrap();
        sim.until("one is ready", |sim| scene::is_ready(sim, "one")).await;
        let uid = |sim: &Simulation| {
            sim.server.objects("ReleaseBinding").next().map(|it| it["metadata"]["uid"].clone())
        };
        let before = uid(&sim);

        sim.patch("profiles", "fleet", "canary", json!({ "spec": { "releaseRef": { "name": "shop" } } }))
            .await;
        until_says(&sim, "Profile", "canary", "Ready", "False ReleaseNotFound").await;
        scene::pass(std::time::Duration::from_secs(60)).await;
        assert_eq!(bound(&sim), set(&["one web"]), "what is bound stays bound");
        let spec = json!({ "componentVersionRef": { "name": "web-1" }, "uniqueName": "shop" });
        sim.server.install(object("Release", "fleet", "shop", spec)).unwrap();
        sim.until("the binding names the new one", |sim| bound(sim) == set(&["one shop"])).await;
        assert_eq!(uid(&sim), before, "in its place");
        until_says(&sim, "Profile", "canary", "Ready", "True Bound").await;
        sim.until("the old Release is let go", |sim| {
            !holds(sim, "Release", "web", finalizers::RELEASE_REF_FINALIZER)
                && holds(sim, "Release", "shop", finalizers::RELEASE_REF_FINALIZER)
        })
        .await;
        sim.shut_down().await;
    });
}

#[test]
fn a_deleted_profile_takes_its_bindings_along_and_then_its_release_can_go() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        scene::install_platform(&sim);
        install_labelled(&sim, "one", "canary");
        scene::install_target(&sim, "two", "charts");
        sim.server.install(profile("canary", "web", json!({ "ring": "canary" }))).unwrap();
        sim.until("all Targets are ready", Simulation::all_ready).await;
        sim.delete(&format!("{HERE}/releases/web")).await;
        sim.delete(&format!("{HERE}/profiles/canary")).await;
        sim.until("the Profile is gone", |sim| gone(sim, "Profile", "canary")).await;
        assert_eq!(bound(&sim), set(&[]));
        scene::pass(std::time::Duration::from_secs(60)).await;
        assert!(!gone(&sim, "Release", "web"), "a binding by hand holds it");
        assert!(scene::is_ready(&sim, "two"));
        sim.delete(&format!("{HERE}/releasebindings/two-web")).await;
        sim.until("the Release is gone", |sim| gone(sim, "Release", "web")).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_selector_that_cannot_be_asked_is_said_and_takes_nothing_away() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        scene::install_platform(&sim);
        install_labelled(&sim, "one", "canary");
        sim.server.install(profile("canary", "web", json!({ "ring": "canary" }))).unwrap();
        sim.until("one is ready", |sim| scene::is_ready(sim, "one")).await;
        let expressions = json!([{ "key": "ring", "operator": "In" }]);
        let spec = json!({ "targetSelector": { "matchLabels": null, "matchExpressions": expressions } });
        sim.patch("profiles", "fleet", "canary", json!({ "spec": spec })).await;
        until_says(&sim, "Profile", "canary", "Ready", "False InvalidSelector").await;
        scene::pass(std::time::Duration::from_secs(60)).await;
        assert_eq!(bound(&sim), set(&["one web"]));
        sim.shut_down().await;
    });
}

#[test]
fn a_profile_selects_across_namespaces_only_with_a_grant_and_only_while_it_stands() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        scene::install_platform(&sim);
        let mut target = object(
            "Target",
            "platform",
            "far",
            json!({ "renderRegistryRef": { "name": "charts", "namespace": "fleet" } }),
        );
        target["metadata"]["labels"] = json!({ "ring": "canary" });
        sim.server.install(target).unwrap();
        sim.server.install(profile("canary", "web", json!({ "ring": "canary" }))).unwrap();
        until_says(&sim, "Profile", "canary", "Ready", "True Bound").await;
        scene::pass(std::time::Duration::from_secs(10)).await;
        assert_eq!(bound(&sim), set(&[]));
        let group = "solar.opendefense.cloud";
        let grant = object(
            "ReferenceGrant",
            "platform",
            "profiles",
            json!({
                "from": [
                    { "group": group, "kind": "Profile", "namespace": "fleet" },
                    { "group": group, "kind": "ReleaseBinding", "namespace": "fleet" },
                ],
                "to": [{ "group": group, "kind": "Target" }],
            }),
        );
        sim.server.install(grant).unwrap();
        sim.until("it is bound", |sim| bound(sim) == set(&["far web"])).await;
        let binding = sim.server.objects("ReleaseBinding").next().unwrap();
        assert_eq!(binding["metadata"]["namespace"], "fleet", "it lies beside its Profile");
        assert_eq!(binding["spec"]["targetRef"]["namespace"], "platform");
        let name = binding["metadata"]["name"].as_str().unwrap().to_owned();
        until_says(&sim, "ReleaseBinding", &name, "TargetResolved", "True Resolved").await;
        sim.delete("/apis/solar.opendefense.cloud/v1alpha1/namespaces/platform/referencegrants/profiles")
            .await;
        sim.until("the binding is gone", |sim| bound(sim).is_empty()).await;
        sim.shut_down().await;
    });
}

#[test]
fn one_label_of_a_thousand_targets_costs_work_for_its_target_only() {
    const TARGETS: usize = 1_000;
    on_paused_time(|| async {
        let sim = Simulation::new();
        scene::install_platform(&sim);
        for number in 0..TARGETS {
            let mut target = object(
                "Target",
                "fleet",
                &format!("t{number}"),
                json!({ "renderRegistryRef": { "name": "charts" } }),
            );
            let ring = if number == 0 { "stable" } else { "canary" };
            target["metadata"]["labels"] = json!({ "ring": ring });
            // Nothing is rendered: this is about Profiles.
            target["metadata"]["annotations"] = json!({ "solar.opendefense.cloud/suspend": "true" });
            sim.server.install(target).unwrap();
        }
        sim.server.install(profile("canary", "web", json!({ "ring": "canary" }))).unwrap();
        sim.until("all are bound", |sim| bound(sim).len() == TARGETS - 1).await;
        scene::pass(std::time::Duration::from_secs(60)).await;
        sim.server.reset_requests();
        let canary = json!({ "metadata": { "labels": { "ring": "canary" } } });
        sim.patch("targets", "fleet", "t0", canary).await;
        sim.until("t0 is bound too", |sim| bound(sim).len() == TARGETS).await;
        scene::pass(std::time::Duration::from_secs(60)).await;
        let mut requests = sim.server.requests();
        requests.retain(|request| &*request.actor == "controller" && request.verb != Verb::Watch);
        let said: Vec<_> =
            requests.iter().map(|it| format!("{} {} {}", it.verb, it.resource, it.subresource)).collect();
        let wanted = ["create releasebindings ", "patch profiles status", "patch releasebindings status"];
        assert_eq!(said.iter().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(wanted));
        assert_eq!(said.len(), 3, "{said:?}");
        sim.shut_down().await;
    });
}

#[test]
fn bindings_say_why_they_have_no_effect_and_hold_what_they_bind() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        scene::install_platform(&sim);
        scene::install_target(&sim, "one", "charts");
        sim.until("one is ready", |sim| scene::is_ready(sim, "one")).await;
        until_says(&sim, "ReleaseBinding", "one-web", "TargetResolved", "True Resolved").await;
        until_says(&sim, "ReleaseBinding", "one-web", "ReleaseResolved", "True Resolved").await;
        assert!(holds(&sim, "ReleaseBinding", "one-web", finalizers::RELEASE_BINDING_FINALIZER));
        assert!(holds(&sim, "Release", "web", finalizers::RELEASE_REF_FINALIZER));
        assert!(holds(&sim, "Release", "web", finalizers::RELEASE_FINALIZER));

        let spec = json!({ "targetRef": { "name": "two" }, "registryRef": { "name": "images" } });
        sim.server.install(object("RegistryBinding", "fleet", "two-images", spec)).unwrap();
        until_says(&sim, "RegistryBinding", "two-images", "TargetResolved", "False NotFound").await;
        until_says(&sim, "RegistryBinding", "two-images", "RegistryResolved", "False NotFound").await;
        let images = object("Registry", "fleet", "images", json!({ "hostname": "ghcr.io" }));
        sim.server.install(images).unwrap();
        until_says(&sim, "RegistryBinding", "two-images", "RegistryResolved", "True Resolved").await;
        scene::install_target(&sim, "two", "charts");
        until_says(&sim, "RegistryBinding", "two-images", "TargetResolved", "True Resolved").await;
        sim.until("the Registry is held", |sim| {
            holds(sim, "Registry", "images", finalizers::REGISTRY_REF_FINALIZER)
        })
        .await;

        sim.delete(&format!("{HERE}/registries/images")).await;
        scene::pass(std::time::Duration::from_secs(60)).await;
        assert!(!gone(&sim, "Registry", "images"), "the binding holds it");
        until_says(&sim, "RegistryBinding", "two-images", "RegistryResolved", "True Resolved").await;
        sim.delete(&format!("{HERE}/registrybindings/two-images")).await;
        sim.until("both are gone", |sim| {
            gone(sim, "Registry", "images") && gone(sim, "RegistryBinding", "two-images")
        })
        .await;
        sim.shut_down().await;
    });
}

#[test]
fn finalizers_of_others_are_never_touched() {
    on_paused_time(|| async {
        const OTHER: &str = "example.com/theirs";
        let sim = Simulation::new();
        scene::install_platform(&sim);
        scene::install_target(&sim, "one", "charts");
        sim.server.install(profile("canary", "web", json!({ "ring": "canary" }))).unwrap();
        sim.until("one is ready", |sim| scene::is_ready(sim, "one")).await;
        let kinds = [
            ("Profile", "profiles", "canary"),
            ("ReleaseBinding", "releasebindings", "one-web"),
            ("Target", "targets", "one"),
            ("Release", "releases", "web"),
            ("Registry", "registries", "charts"),
        ];
        for (kind, plural, name) in kinds {
            let mut held =
                sim.server.get_object(kind, "fleet", name).unwrap()["metadata"]["finalizers"].clone();
            held.as_array_mut().unwrap_or(&mut Vec::new()).push(json!(OTHER));
            let held = if held.is_null() { json!([OTHER]) } else { held };
            sim.patch(plural, "fleet", name, json!({ "metadata": { "finalizers": held } })).await;
        }
        for (_, plural, name) in kinds {
            sim.delete(&format!("{HERE}/{plural}/{name}")).await;
        }
        sim.until("ours are gone, and theirs stay", |sim| {
            kinds.iter().all(|(kind, _, name)| {
                sim.server.get_object(kind, "fleet", name).unwrap()["metadata"]["finalizers"] == json!([OTHER])
                    // These need each other until somebody is really gone.
                    || ["Release", "Registry"].contains(kind)
            })
        })
        .await;
        for (_, plural, name) in &kinds[..3] {
            sim.patch(plural, "fleet", name, json!({ "metadata": { "finalizers": null } })).await;
        }
        sim.until("theirs alone are left", |sim| {
            kinds[3..].iter().all(|(kind, _, name)| {
                sim.server.get_object(kind, "fleet", name).unwrap()["metadata"]["finalizers"]
                    == json!([OTHER])
            })
        })
        .await;
        sim.shut_down().await;
    });
}

/// A Profile over twenty Targets whose bindings are being made: each create lands after three seconds, and is seen two
/// seconds later still. In the middle of that, `change` happens.
async fn with_bindings_under_way(change: impl AsyncFnOnce(&Simulation)) -> Simulation {
    let (server, store) = crate::support::world();
    let late = WatchFault { delay: Some(Duration::from_secs(2)), ..WatchFault::default() };
    let late = FaultRule::new(Fault::Watch(late)).verb(Verb::Watch).resource("releasebindings");
    let slow = FaultRule::new(Fault::Delay(Duration::from_secs(3))).verb(Verb::Create);
    server.set_faults(FaultPlan::new().rule(late).rule(slow.resource("releasebindings")));
    let sim = Simulation::over(server, store, crate::support::options());
    scene::install_platform(&sim);
    for number in 0..20 {
        install_labelled(&sim, &format!("t{number}"), "canary");
    }
    sim.server.install(profile("canary", "web", json!({ "ring": "canary" }))).unwrap();
    scene::pass(Duration::from_secs(1)).await;
    assert_eq!(bound(&sim), set(&[]), "all are under way");
    change(&sim).await;
    sim
}

#[test]
fn a_profile_that_is_deleted_while_its_bindings_are_being_made_ends_without_any() {
    on_paused_time(|| async {
        let sim = with_bindings_under_way(async |sim| {
            sim.delete(&format!("{HERE}/profiles/canary")).await;
        })
        .await;
        sim.until("the Profile is gone", |sim| gone(sim, "Profile", "canary")).await;
        scene::pass(Duration::from_secs(600)).await;
        assert_eq!(bound(&sim), set(&[]));
        sim.shut_down().await;
    });
}

#[test]
fn a_target_that_changes_while_its_binding_is_being_made_is_bound_as_it_is_now() {
    on_paused_time(|| async {
        let sim = with_bindings_under_way(async |sim| {
            for number in 1..20 {
                let stable = json!({ "metadata": { "labels": { "ring": "stable" } } });
                sim.patch("targets", "fleet", &format!("t{number}"), stable).await;
            }
        })
        .await;
        scene::pass(Duration::from_secs(600)).await;
        assert_eq!(bound(&sim), set(&["t0 web"]));
        sim.shut_down().await;
    });
}

/// The number of times that people were told this of the Profile.
fn told(sim: &Simulation, reason: &str) -> u64 {
    let of_profile = |it: &Value| it["involvedObject"]["kind"] == "Profile" && it["reason"] == reason;
    sim.server.objects("Event").filter(of_profile).map(|it| it["series"]["count"].as_u64().unwrap_or(1)).sum()
}

#[test]
fn a_profile_whose_bindings_are_refused_says_so_with_the_mend_until_they_are_not() {
    let rows = [
        (
            403,
            "Forbidden",
            "exceeded quota: bindings, requested: 1, used: 9, limited: 9",
            "a quota or a policy",
        ),
        (422, "Invalid", "spec.targetRef.name: Invalid value: not on a Friday", "not on a Friday"),
        (400, "BadRequest", "admission webhook \"names\" denied the request: no", "denied the request"),
    ];
    for (code, reason, message, said) in rows {
        on_paused_time(move || async move {
            let mut sim = scene::ready().await;
            install_labelled(&sim, "good", "canary");
            install_labelled(&sim, "bad", "canary");
            let refusal = FaultRule::new(Fault::status(code, reason, message)).verb(Verb::Create);
            sim.server.add_fault(refusal.resource("releasebindings"));
            sim.server.install(profile("canary", "web", json!({ "ring": "canary" }))).unwrap();
            until_says(&sim, "Profile", "canary", "Ready", "False BindingRefused").await;
            let message = |sim: &Simulation| sim.condition("Profile", "fleet", "canary", "Ready").unwrap().2;
            sim.until("both are counted", |sim| message(sim).ends_with("so it is with one more Target"))
                .await;
            let of_binding = "create ReleaseBinding fleet/canary-bad-";
            assert!(message(&sim).contains(said) && message(&sim).contains(of_binding), "{}", message(&sim));
            // It does not say otherwise in between, nor does the next process.
            let since = |sim: &Simulation| {
                let profile = sim.server.get_object("Profile", "fleet", "canary").unwrap();
                profile["status"]["conditions"][0]["lastTransitionTime"].clone()
            };
            let said_since = since(&sim);
            scene::pass(Duration::from_secs(1_800)).await;
            assert_eq!(since(&sim), said_since);
            scene::kill_and_start(&mut sim, "controller", "next", crate::support::options());
            scene::pass(Duration::from_secs(600)).await;
            assert_eq!(since(&sim), said_since);
            assert!(message(&sim).ends_with("so it is with one more Target"), "{}", message(&sim));
            sim.server.set_faults(FaultPlan::new());
            until_says(&sim, "Profile", "canary", "Ready", "True Bound").await;
            assert_eq!(bound(&sim), set(&["bad web", "good web"]));
            sim.shut_down().await;
        });
    }
}

#[test]
fn a_profile_with_many_hindered_bindings_has_nothing_to_add_in_the_next_process() {
    on_paused_time(|| async {
        let mut sim = scene::ready().await;
        let targets: Vec<_> = (0..12).map(|number| format!("t{number}")).collect();
        sim.server.install(profile("canary", "web", json!({ "ring": "canary" }))).unwrap();
        until_says(&sim, "Profile", "canary", "Ready", "True Bound").await;
        let uid = sim.server.get_object("Profile", "fleet", "canary").unwrap()["metadata"]["uid"].clone();
        for target in &targets {
            let named = ObjectName::new("fleet", target.as_str());
            let name = solar_core::names::profile_binding("canary", uid.as_str().unwrap(), &named);
            let spec = json!({ "targetRef": { "name": "elsewhere" }, "releaseRef": { "name": "web" } });
            sim.server.install(object("ReleaseBinding", "fleet", &name, spec)).unwrap();
            install_labelled(&sim, target, "canary");
        }
        let message = |sim: &Simulation| sim.condition("Profile", "fleet", "canary", "Ready").unwrap().2;
        sim.until("all are counted", |sim| message(sim).ends_with("so it is with 11 more Targets")).await;
        scene::pass(Duration::from_secs(120)).await;
        let version = |sim: &Simulation| {
            let profile = sim.server.get_object("Profile", "fleet", "canary").unwrap();
            profile["metadata"]["resourceVersion"].clone()
        };
        let before = (version(&sim), told(&sim, "NameCollision"));
        for process in ["next", "one more"] {
            scene::kill_and_start(&mut sim, "controller", process, crate::support::options());
            scene::pass(Duration::from_secs(120)).await;
            assert_eq!((version(&sim), told(&sim, "NameCollision")), before, "{process}");
        }
        sim.shut_down().await;
    });
}

#[test]
fn a_profile_says_once_that_a_stranger_has_the_name_of_its_binding_and_makes_its_own_when_that_has_gone() {
    on_paused_time(|| async {
        let mut sim = scene::ready().await;
        install_labelled(&sim, "two", "other");
        sim.server.install(profile("canary", "web", json!({ "ring": "canary" }))).unwrap();
        until_says(&sim, "Profile", "canary", "Ready", "True Bound").await;
        let uid = sim.server.get_object("Profile", "fleet", "canary").unwrap()["metadata"]["uid"].clone();
        let target = ObjectName::new("fleet", "two");
        let name = solar_core::names::profile_binding("canary", uid.as_str().unwrap(), &target);
        let spec = json!({ "targetRef": { "name": "elsewhere" }, "releaseRef": { "name": "web" } });
        sim.server.install(object("ReleaseBinding", "fleet", &name, spec)).unwrap();
        let ring = |ring: &str| json!({ "metadata": { "labels": { "ring": ring } } });
        sim.patch("targets", "fleet", "two", ring("canary")).await;
        until_says(&sim, "Profile", "canary", "Ready", "False NameCollision").await;
        let (.., message) = sim.condition("Profile", "fleet", "canary", "Ready").unwrap();
        assert!(message.contains(&name) && message.contains("delete it"), "{message}");
        // Whatever wakes it, also in the next process, it has been said.
        for zone in 0..5 {
            sim.patch(
                "targets",
                "fleet",
                "two",
                json!({ "metadata": { "labels": { "zone": zone.to_string() } } }),
            )
            .await;
            scene::pass(Duration::from_secs(90)).await;
        }
        scene::kill_and_start(&mut sim, "controller", "next", crate::support::options());
        scene::pass(Duration::from_secs(600)).await;
        assert_eq!(says(&sim, "Profile", "canary", "Ready"), "False NameCollision");
        assert_eq!(told(&sim, "NameCollision"), 1);
        // One that is not selected any more is in nobody's way.
        sim.patch("targets", "fleet", "two", ring("other")).await;
        until_says(&sim, "Profile", "canary", "Ready", "True Bound").await;
        sim.patch("targets", "fleet", "two", ring("canary")).await;
        until_says(&sim, "Profile", "canary", "Ready", "False NameCollision").await;
        sim.until("it is another state", |sim| told(sim, "NameCollision") == 2).await;
        scene::pass(Duration::from_secs(10)).await;
        sim.delete(&format!("{HERE}/releasebindings/{name}")).await;
        let gone = tokio::time::Instant::now();
        sim.until("its own is there", |sim| bound(sim) == set(&["two web"])).await;
        assert!(gone.elapsed() < Duration::from_secs(3), "it is woken: {:?}", gone.elapsed());
        until_says(&sim, "Profile", "canary", "Ready", "True Bound").await;
        sim.shut_down().await;
    });
}
