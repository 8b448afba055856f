//! Bad input of every kind ends in a clear sentence where a person looks, and the neighbours go on.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::scene::{
    HERE, RELEASE, delete_target, install_platform, install_target, is_ready, kill_and_start, object, pass,
    ready, registry, until_all_gone,
};
use crate::support::{Simulation, on_paused_time, options, world};

/// Long enough for every retry to have come, so that a loop would show.
const WHILE: Duration = Duration::from_secs(3_600);
/// Requests that a world with one fault in it may cost in that time: retries with backoff, and no loop.
const FEW: u64 = 400;

/// What the Target says of one of its conditions: status, reason and message.
fn says(sim: &Simulation, target: &str, type_: &str) -> String {
    let said = sim.condition("Target", "fleet", target, type_);
    said.map(|(status, reason, message)| format!("{status} {reason}: {message}")).unwrap_or_default()
}

/// The neighbour `one` stays ready, still follows its Release, and the bad one costs little.
async fn assert_the_neighbour_goes_on(sim: &Simulation, context: &str) {
    let requests = sim.server.request_count();
    pass(WHILE).await;
    let cost = sim.server.request_count() - requests;
    assert!(cost < FEW, "{context}: {cost} requests in an hour");
    assert!(is_ready(sim, "one"), "{context}: {}", sim.describe());
    let before =
        sim.server.get_object("Target", "fleet", "one").unwrap()["status"]["bootstrapVersion"].as_i64();
    sim.patch("releases", "fleet", "web", json!({ "spec": { "values": { "replicaCount": 7 } } })).await;
    sim.until(&format!("{context}: the neighbour follows its Release"), |sim| {
        let target = sim.server.get_object("Target", "fleet", "one").unwrap();
        is_ready(sim, "one") && target["status"]["bootstrapVersion"].as_i64() > before
    })
    .await;
}

fn bind(sim: &Simulation, name: &str, target: &str, release: &str) {
    let spec = json!({ "targetRef": { "name": target }, "releaseRef": { "name": release } });
    sim.server.install(object("ReleaseBinding", "fleet", name, spec)).unwrap();
}

/// A Target `bad` beside `one`, that is bound to a Release `bad` of a ComponentVersion `bad`, each changed by `change`.
async fn beside(change: impl Fn(&mut Value)) -> Simulation {
    let sim = ready().await;
    let chart = json!({
        "repository": "ghcr.io/charts/bad",
        "tag": "1.0.0",
        "helm": { "name": "bad", "version": "1.0.0" },
    });
    let mut objects = [
        object(
            "ComponentVersion",
            "fleet",
            "bad",
            json!({
                "componentRef": { "name": "web" },
                "tag": "1.0.0",
                "resources": { "chart": chart },
                "entrypoint": { "resourceName": "chart", "type": "helm" },
            }),
        ),
        object(
            "Release",
            "fleet",
            "bad",
            json!({ "componentVersionRef": { "name": "bad" }, "uniqueName": "bad", "targetNamespace": "web" }),
        ),
        object("Target", "fleet", "bad", json!({ "renderRegistryRef": { "name": "charts" } })),
    ];
    for object in &mut objects {
        change(object);
        sim.server.install(object.clone()).unwrap();
    }
    bind(&sim, "bad-bad", "bad", "bad");
    sim
}

fn is(object: &Value, kind: &str) -> bool {
    object["kind"] == kind
}

// ---- sizes ----

#[test]
fn the_longest_names_and_text_in_any_script_are_rendered_like_others() {
    on_paused_time(|| async {
        let sim = ready().await;
        let text = "Grüße 🚀 你好 \u{202e}קצה ".to_owned() + &"ß".repeat(490);
        // Domain names of 253 and 63 characters.
        let long = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
        assert_eq!(long.len(), 253);
        let mut version = sim.server.get_object("ComponentVersion", "fleet", "web-1").unwrap();
        version["metadata"] = json!({ "name": long, "namespace": "fleet" });
        version["spec"]["resources"]["chart"]["helm"]["description"] = json!(text);
        version["status"] = Value::Null;
        version.as_object_mut().unwrap().remove("status");
        sim.server.install(version).unwrap();
        let release = json!({
            "componentVersionRef": { "name": long },
            "uniqueName": "u".repeat(63),
            "targetNamespace": "n".repeat(63),
            "values": { text.clone(): text, "ключ": ["значение"] },
        });
        sim.server.install(object("Release", "fleet", &long, release)).unwrap();
        let target = json!({ "renderRegistryRef": { "name": "charts" }, "userdata": { "naïve": text } });
        sim.server.install(object("Target", "fleet", &long, target)).unwrap();
        bind(&sim, &long, &long, &long);
        sim.until("the Target is ready", |sim| is_ready(sim, &long)).await;
        for tag in sim.tags() {
            assert!(tag.split(':').next().is_some_and(|repository| repository.len() <= 255), "{tag}");
        }
        assert_the_neighbour_goes_on(&sim, "long names").await;
        sim.delete(&format!("{HERE}/releasebindings/{long}")).await;
        sim.delete(&format!("{HERE}/targets/{long}")).await;
        delete_target(&sim, "one").await;
        until_all_gone(&sim).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_version_with_five_thousand_resources_is_rendered() {
    on_paused_time(|| async {
        let sim = beside(|object| {
            if is(object, "ComponentVersion") {
                let resources = object["spec"]["resources"].as_object_mut().unwrap();
                for number in 1..5_000 {
                    let resource =
                        json!({ "repository": format!("ghcr.io/charts/r{number}"), "tag": "1.0.0" });
                    resources.insert(format!("resource-{number}"), resource);
                }
                assert_eq!(resources.len(), 5_000);
            }
        })
        .await;
        sim.until("the Target has a verdict", |sim| {
            is_ready(sim, "bad") || says(sim, "bad", "ReleasesRendered").contains("ReleaseFailed")
        })
        .await;
        assert!(is_ready(&sim, "bad"), "{}", says(&sim, "bad", "ReleasesRendered"));
        assert_the_neighbour_goes_on(&sim, "5,000 resources").await;
        sim.shut_down().await;
    });
}

/// What Helm could not keep in its Secret on the cluster is refused with the limit, and once.
#[test]
fn values_of_a_mebibyte_are_rendered_and_what_does_not_compress_says_which_limit_it_meets() {
    on_paused_time(|| async {
        let mut state = 1_u64;
        let noise: String = (0..1_040_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b'!' + u8::try_from((state >> 33) % 90).unwrap())
            })
            .collect();
        for (context, text) in [("plain", "x".repeat(1_040_000)), ("noise", noise)] {
            let sim = beside(|object| {
                if is(object, "Release") {
                    object["spec"]["values"] = json!({ "text": text });
                }
            })
            .await;
            let failed = |sim: &Simulation| {
                let said = says(sim, "bad", "ReleasesRendered");
                said.starts_with("False ReleaseFailed").then_some(said)
            };
            sim.until(context, |sim| is_ready(sim, "bad") || failed(sim).is_some()).await;
            if let Some(said) = failed(&sim) {
                assert!(
                    said.contains("KiB") || said.contains("MiB") || said.contains("bytes"),
                    "{context}: {said}"
                );
                assert!(said.len() < 2_000, "{context}: {} bytes", said.len());
            }
            assert_the_neighbour_goes_on(&sim, context).await;
            sim.shut_down().await;
        }
    });
}

// ---- what the rules would have refused ----

/// A controller over definitions without rules for `kinds`, as older ones may have been.
fn without_rules(kinds: &[&str]) -> Simulation {
    let (server, store) = world();
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    for crd in solar_api::crds() {
        let mut crd = serde_json::to_value(crd).unwrap();
        if kinds.iter().any(|kind| crd["spec"]["names"]["kind"] == *kind) {
            let version = crd["spec"]["versions"][0].as_object_mut().unwrap();
            // What is looked up by a field needs that field in the schema, and nothing else.
            let mut schema = anything.clone();
            let fields =
                version.get("selectableFields").and_then(Value::as_array).cloned().unwrap_or_default();
            for field in fields {
                let mut at = &mut schema;
                for part in field["jsonPath"].as_str().unwrap().trim_start_matches('.').split('.') {
                    at = &mut at["properties"][part];
                    if at.is_null() {
                        *at = anything.clone();
                    }
                }
                *at = json!({ "type": "string" });
            }
            version.insert("schema".to_owned(), json!({ "openAPIV3Schema": schema }));
            server.apply_crd(crd).unwrap();
        }
    }
    Simulation::over(server, store, options())
}

/// Notes of the Warnings about an object that cannot be read.
fn unreadable(sim: &Simulation, name: &str) -> Option<String> {
    let event = sim.server.objects("Event").find(|event| {
        let about = ["regarding", "involvedObject"].iter().any(|field| event[field]["name"] == name);
        about && event["reason"] == "Unreadable" && event["type"] == "Warning"
    })?;
    event["note"].as_str().or_else(|| event["message"].as_str()).map(ToOwned::to_owned)
}

/// Each kind with something that its definition refuses today, and what has to be said of it.
fn strange_objects() -> Vec<(&'static str, Value, &'static str)> {
    let chart = json!({ "chart": { "repository": "ghcr.io/charts/web", "tag": "1.0.0" } });
    vec![
        ("ComponentVersion", json!({}), "componentRef"),
        (
            "ComponentVersion",
            json!({
                "componentRef": { "name": "web" },
                "tag": "1",
                "resources": chart,
                "entrypoint": { "resourceName": "chart", "type": "terraform" },
            }),
            "terraform",
        ),
        ("Component", json!({ "scheme": "oci" }), "registry"),
        ("Release", json!({ "uniqueName": "x" }), "componentVersionRef"),
        ("Release", json!({ "componentVersionRef": { "name": "web-1" }, "priority": "high" }), "high"),
        ("Registry", json!({ "plainHTTP": true }), "hostname"),
        ("Registry", json!({ "hostname": 7 }), "7"),
        ("ReleaseBinding", json!({ "targetRef": {} }), "name"),
        ("RegistryBinding", json!({ "targetRef": { "name": "one" } }), "registryRef"),
        ("Profile", json!({ "releaseRef": { "name": "web" }, "targetSelector": "everything" }), "everything"),
        ("ReferenceGrant", json!({ "from": {}, "to": [] }), "expected a sequence"),
        ("RenderTask", json!({ "type": "terraform" }), "terraform"),
        ("RenderTask", json!({}), "type"),
        ("RenderArtifact", json!({ "baseURL": "h", "repository": "r" }), "tag"),
        ("RenderBinding", json!({ "ownerKind": "Target" }), "renderArtifactRef"),
        ("Target", json!({}), "renderRegistryRef"),
        ("Target", Value::Null, "missing field `spec`"),
    ]
}

#[test]
fn an_object_with_an_unknown_value_or_a_missing_field_gets_a_warning_and_its_neighbours_go_on() {
    for row in 0..strange_objects().len() {
        on_paused_time(move || async move {
            let (kind, spec, said) = strange_objects().swap_remove(row);
            let context = format!("{kind} {spec}");
            let sim = without_rules(&[kind]);
            install_platform(&sim);
            sim.server.install(object(kind, "fleet", "strange", spec)).unwrap();
            install_target(&sim, "one", "charts");
            sim.until(&format!("{context}: the neighbour is ready"), |sim| is_ready(sim, "one")).await;
            sim.until(&format!("{context}: a Warning"), |sim| unreadable(sim, "strange").is_some()).await;
            let note = unreadable(&sim, "strange").unwrap();
            assert!(note.contains(said) && note.contains("correct or delete it"), "{context}: {note}");
            // The whole way back, too, past whatever cannot be read.
            assert_the_neighbour_goes_on(&sim, &context).await;
            delete_target(&sim, "one").await;
            sim.until(&format!("{context}: the neighbour's tags and objects go"), |sim| {
                let ours = ["Target", "RenderTask", "RenderArtifact", "RenderBinding"];
                let of_one = |it: &Value| it["metadata"]["name"] != "strange";
                ours.iter().all(|kind| sim.server.objects(kind).filter(of_one).count() == 0)
                    && sim.tags().is_empty()
            })
            .await;
            sim.shut_down().await;
        });
    }
}

#[test]
fn a_binding_that_cannot_be_read_holds_its_artifact_and_nothing_else() {
    on_paused_time(|| async {
        let mut sim = without_rules(&["RenderBinding"]);
        install_platform(&sim);
        install_target(&sim, "one", "charts");
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        let artifact = sim.server.objects("RenderArtifact").find(|it| it["spec"]["repository"] == RELEASE);
        let artifact = artifact.unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
        let spec = json!({ "renderArtifactRef": { "name": artifact }, "ownerKind": "Target" });
        sim.server.install(object("RenderBinding", "fleet", "strange", spec)).unwrap();
        sim.until("a Warning", |sim| unreadable(sim, "strange").is_some()).await;

        // The next process trusts what it has read by itself only.
        kill_and_start(&mut sim, "controller", "next", options());
        install_target(&sim, "two", "charts");
        sim.until("another Target shares the chart", |sim| is_ready(sim, "two")).await;
        for target in ["one", "two"] {
            delete_target(&sim, target).await;
        }
        sim.until("the Targets go", |sim| sim.server.count("Target") == 0).await;
        let requests = sim.server.request_count();
        pass(WHILE).await;
        let cost = sim.server.request_count() - requests;
        assert!(cost < FEW, "{cost} requests in an hour");
        assert!(
            sim.tags().iter().any(|tag| tag.starts_with(RELEASE)),
            "somebody's holds it: {:?}",
            sim.tags()
        );

        sim.delete(&format!("{HERE}/renderbindings/strange")).await;
        until_all_gone(&sim).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_binding_that_cannot_be_read_keeps_no_profile_from_going() {
    on_paused_time(|| async {
        let sim = without_rules(&["ReleaseBinding"]);
        install_platform(&sim);
        install_target(&sim, "one", "charts");
        sim.server.install(object("ReleaseBinding", "fleet", "strange", json!({ "targetRef": {} }))).unwrap();
        let spec = json!({ "releaseRef": { "name": "web" }, "targetSelector": {} });
        sim.server.install(object("Profile", "fleet", "all", spec)).unwrap();
        sim.until("the Profile binds", |sim| sim.server.count("ReleaseBinding") == 3).await;
        sim.delete(&format!("{HERE}/profiles/all")).await;
        sim.until("it goes with its binding", |sim| {
            sim.server.count("Profile") == 0 && sim.server.count("ReleaseBinding") == 2
        })
        .await;
        sim.shut_down().await;
    });
}

#[test]
fn a_release_that_cannot_be_read_keeps_its_version_until_it_is_gone() {
    on_paused_time(|| async {
        let sim = without_rules(&["Release"]);
        install_platform(&sim);
        install_target(&sim, "one", "charts");
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        let spec = json!({ "componentVersionRef": { "name": "web-1" }, "priority": "high" });
        sim.server.install(object("Release", "fleet", "strange", spec)).unwrap();
        delete_target(&sim, "one").await;
        until_all_gone(&sim).await;
        sim.delete(&format!("{HERE}/releases/web")).await;
        sim.delete(&format!("{HERE}/componentversions/web-1")).await;
        let held = |sim: &Simulation| sim.server.get_object("ComponentVersion", "fleet", "web-1").is_some();
        pass(WHILE).await;
        assert!(held(&sim), "who cannot be read may need it");
        sim.delete(&format!("{HERE}/releases/strange")).await;
        sim.until("the version goes", |sim| !held(sim)).await;
        sim.shut_down().await;
    });
}

#[test]
fn values_that_nest_too_deeply_for_a_task_are_said_and_the_neighbours_go_on() {
    on_paused_time(|| async {
        let sim = beside(|object| {
            if is(object, "Release") {
                object["spec"]["values"] = (0..121).fold(json!(1), |inner, _| json!({ "a": inner }));
            }
        })
        .await;
        sim.until("it is said", |sim| {
            says(sim, "bad", "ReleasesRendered").starts_with("False ReleaseFailed")
        })
        .await;
        let said = says(&sim, "bad", "ReleasesRendered");
        assert!(said.contains("nests deeper than 120 levels") && said.contains("spec.values"), "{said}");
        assert_the_neighbour_goes_on(&sim, "deep").await;
        sim.patch("releases", "fleet", "bad", json!({ "spec": { "values": { "a": 1 } } })).await;
        sim.until("it follows once it is flatter", |sim| is_ready(sim, "bad")).await;
        sim.shut_down().await;
    });
}

#[test]
fn empty_texts_where_names_belong_are_said_and_the_neighbours_go_on() {
    // The object, the text in it, and how the Target's Ready begins: what it lacks and where, or that it lacks nothing.
    let rows = [
        (
            "Registry",
            "/spec/hostname",
            "False InvalidHostname: The hostname of Registry fleet/bad is not valid: the hostname is empty",
        ),
        (
            "Registry",
            "/spec/solarSecretRef/name",
            "False ReleaseFailed: Release fleet/bad: no Secret can be called \"\": correct the reference to it",
        ),
        (
            "Release",
            "/spec/componentVersionRef/name",
            "False MissingDependencies: Missing: ComponentVersion fleet/ of Release fleet/bad does not exist",
        ),
        // It is for people.
        ("ComponentVersion", "/spec/tag", "True Ready"),
        (
            "ComponentVersion",
            "/spec/componentRef/name",
            "False ReleaseFailed: Release fleet/bad: create RenderTask fleet/render-rel-bad-",
        ),
        (
            "ComponentVersion",
            "/spec/entrypoint/resourceName",
            "False ReleaseFailed: Release fleet/bad: the entrypoint \"\" is not in spec.resources",
        ),
        (
            "ComponentVersion",
            "/spec/resources/chart/repository",
            "False ReleaseFailed: Release fleet/bad: the entrypoint \"chart\" has no repository: set spec.resources",
        ),
        (
            "ComponentVersion",
            "/spec/resources/chart/tag",
            "False ReleaseFailed: Release fleet/bad: the entrypoint \"chart\" has no tag: set spec.resources",
        ),
        // The repository's name serves.
        ("ComponentVersion", "/spec/resources/chart/helm/name", "True Ready"),
        (
            "Target",
            "/spec/renderRegistryRef/name",
            "False NotFound: Registry fleet/ does not exist: create it, or correct spec.renderRegistryRef",
        ),
    ];
    for (kind, pointer, wanted) in rows {
        on_paused_time(move || async move {
            let context = format!("{kind} {pointer}");
            let sim = without_rules(&[kind]);
            install_platform(&sim);
            install_target(&sim, "one", "charts");
            sim.until("the neighbour is ready", |sim| is_ready(sim, "one")).await;
            // A copy of what `one` uses, changed in one place.
            let mut copies = Vec::new();
            for (of, name) in
                [("Registry", "charts"), ("ComponentVersion", "web-1"), ("Release", "web"), ("Target", "one")]
            {
                let mut copy = sim.server.get_object(of, "fleet", name).unwrap();
                copy["metadata"] = json!({ "name": "bad", "namespace": "fleet" });
                copy.as_object_mut().unwrap().remove("status");
                match of {
                    "Release" => copy["spec"]["componentVersionRef"]["name"] = json!("bad"),
                    "Target" => copy["spec"]["renderRegistryRef"]["name"] = json!("bad"),
                    _ => {}
                }
                if of == kind {
                    *copy.pointer_mut(pointer).unwrap() = json!("");
                }
                copies.push(copy);
            }
            for copy in copies {
                sim.server.install(copy).unwrap();
            }
            bind(&sim, "bad-bad", "bad", "bad");
            pass(WHILE).await;
            let said = says(&sim, "bad", "Ready");
            assert!(said.starts_with(wanted), "{context}: {said}");
            assert_the_neighbour_goes_on(&sim, &context).await;
            sim.shut_down().await;
        });
    }
}

// ---- references ----

#[test]
fn a_dangling_reference_names_what_is_missing_and_its_appearance_ends_the_wait() {
    // The object, the reference in it, where the Target says what is missing and how, and which object to copy there.
    type Row = (&'static str, &'static str, &'static str, &'static str, Option<(&'static str, &'static str)>);
    let rows: [Row; 3] = [
        (
            "Target",
            "/spec/renderRegistryRef/name",
            "RegistryResolved",
            "False NotFound: Registry fleet/nowhere",
            Some(("Registry", "charts")),
        ),
        (
            "Release",
            "/spec/componentVersionRef/name",
            "ReleasesRendered",
            "False MissingDependencies",
            Some(("ComponentVersion", "web-1")),
        ),
        (
            "ComponentVersion",
            "/spec/entrypoint/resourceName",
            "ReleasesRendered",
            "False ReleaseFailed",
            None,
        ),
    ];
    for (kind, pointer, type_, said, missing) in rows {
        on_paused_time(move || async move {
            let context = format!("{kind} {pointer}");
            let sim = beside(|object| {
                if is(object, kind) {
                    *object.pointer_mut(pointer).unwrap() = json!("nowhere");
                }
            })
            .await;
            sim.until(&context, |sim| {
                let told = says(sim, "bad", type_);
                told.starts_with(said) && told.contains("nowhere")
            })
            .await;
            assert_the_neighbour_goes_on(&sim, &context).await;
            assert!(!is_ready(&sim, "bad"), "{context}");
            let appeared = Instant::now();
            if let Some((of, name)) = missing {
                let mut copy = sim.server.get_object(of, "fleet", name).unwrap();
                copy["metadata"] = json!({ "name": "nowhere", "namespace": "fleet" });
                copy.as_object_mut().unwrap().remove("status");
                sim.server.install(copy).unwrap();
            } else {
                let bad = sim.server.get_object(kind, "fleet", "bad").unwrap();
                let resources = json!({ "nowhere": bad["spec"]["resources"]["chart"] });
                sim.patch("componentversions", "fleet", "bad", json!({ "spec": { "resources": resources } }))
                    .await;
            }
            sim.until(&format!("{context}: it is there"), |sim| is_ready(sim, "bad")).await;
            assert!(appeared.elapsed() < Duration::from_secs(3), "{context}: {:?}", appeared.elapsed());
            sim.shut_down().await;
        });
    }
}

#[test]
fn what_refers_to_itself_or_in_a_circle_is_no_loop() {
    on_paused_time(|| async {
        let sim = ready().await;
        let binding = |name: &str, artifact: &str, owner: &str| {
            let spec = json!({
                "renderArtifactRef": { "name": artifact },
                "ownerKind": "RenderBinding",
                "ownerName": owner,
                "ownerNamespace": "fleet",
            });
            object("RenderBinding", "fleet", name, spec)
        };
        for object in [
            binding("self", "self", "self"),
            binding("left", "right", "right"),
            binding("right", "left", "left"),
        ] {
            sim.server.install(object).unwrap();
        }
        let mut task = sim.server.objects("RenderTask").find(|it| it["spec"]["type"] == "release").unwrap();
        task["metadata"] = json!({ "name": "circular", "namespace": "fleet" });
        task.as_object_mut().unwrap().remove("status");
        for (field, value) in
            [("ownerKind", "RenderTask"), ("ownerName", "circular"), ("ownerNamespace", "fleet")]
        {
            task["spec"][field] = json!(value);
        }
        sim.server.install(task).unwrap();
        // A Target that its own binding owns, and a grant of a namespace to itself.
        let uid =
            sim.server.get_object("ReleaseBinding", "fleet", "one-web").unwrap()["metadata"]["uid"].clone();
        let owner = json!([{
            "apiVersion": "solar.opendefense.cloud/v1alpha1",
            "kind": "ReleaseBinding",
            "name": "one-web",
            "uid": uid,
        }]);
        sim.patch("targets", "fleet", "one", json!({ "metadata": { "ownerReferences": owner } })).await;
        let group = "solar.opendefense.cloud";
        let grant = json!({
            "from": [{ "group": group, "kind": "ReferenceGrant", "namespace": "fleet" }],
            "to": [{ "group": group, "kind": "ReferenceGrant" }],
        });
        sim.server.install(object("ReferenceGrant", "fleet", "self", grant)).unwrap();
        assert_the_neighbour_goes_on(&sim, "circles").await;
        sim.shut_down().await;
    });
}

#[test]
fn two_bindings_of_one_release_are_one_chart_and_the_first_to_go_takes_nothing_along() {
    on_paused_time(|| async {
        let sim = ready().await;
        let tags = sim.tags();
        bind(&sim, "again", "one", "web");
        assert_the_neighbour_goes_on(&sim, "two bindings").await;
        let charts = |sim: &Simulation| sim.tags().iter().filter(|tag| tag.starts_with(RELEASE)).count();
        sim.until("the old chart is gone", |sim| charts(sim) == 1).await;
        assert!(tags.len() == 2 && is_ready(&sim, "one"));
        sim.delete(&format!("{HERE}/releasebindings/one-web")).await;
        pass(WHILE).await;
        assert!(is_ready(&sim, "one") && charts(&sim) == 1, "{}", sim.describe());
        sim.delete(&format!("{HERE}/releasebindings/again")).await;
        sim.until("the chart goes", |sim| sim.tags().is_empty()).await;
        sim.shut_down().await;
    });
}

// ---- hosts ----

/// Text that is no host, or one with more in it than a host and a port, and what is said of it.
#[test]
fn a_hostname_that_is_none_is_named_and_no_request_leaves() {
    let rows = [
        ("charts.example/team", "holds a path"),
        ("https://charts.example/team/", "holds a path"),
        ("ftp://charts.example", "holds a scheme"),
        ("charts.example:0", "no valid port"),
        ("charts.example:65536", "no valid port"),
        ("charts.example:https", "no valid port"),
        ("charts example", "holds white space"),
        ("[::1", "neither a domain name nor an IP address"),
        ("///", "is empty"),
        ("solar:hunter2@charts.example", "holds a user or password"),
    ];
    for (host, said) in rows {
        on_paused_time(move || async move {
            let sim = ready().await;
            let mut wrong = registry("fleet", "wrong", "push");
            wrong["spec"]["hostname"] = json!(host);
            sim.server.install(wrong).unwrap();
            let requests = sim.store.log().len();
            install_target(&sim, "bad", "wrong");
            sim.until(host, |sim| says(sim, "bad", "Ready").contains(said)).await;
            pass(WHILE).await;
            assert_eq!(sim.store.log().len(), requests, "{host}: no request leaves");
            let told = says(&sim, "bad", "Ready");
            assert!(told.contains("Registry fleet/wrong"), "{host}: {told}");
            // What was made for it goes with it.
            delete_target(&sim, "bad").await;
            sim.until(&format!("{host}: nothing of it is left"), |sim| {
                sim.server.get_object("Target", "fleet", "bad").is_none()
                    && sim.server.count("RenderArtifact") == 2
            })
            .await;
            assert_the_neighbour_goes_on(&sim, host).await;
            sim.shut_down().await;
        });
    }
}

#[test]
fn a_hostname_with_a_scheme_a_slash_or_a_default_port_is_the_host_itself() {
    for host in
        ["http://127.0.0.1:5000/", "oci://127.0.0.1:5000", " 127.0.0.1:5000 ", "HTTPS://Charts.Example:443/"]
    {
        on_paused_time(move || async move {
            let sim = ready().await;
            let mut other = registry("fleet", "other", "push");
            other["spec"]["hostname"] = json!(host);
            other["spec"]["solarSecretRef"]["name"] = json!("both");
            sim.server.install(other).unwrap();
            let entry = json!({ "username": "solar", "password": "solar-dev" });
            let config = json!({ "auths": { "127.0.0.1:5000": entry, "charts.example": entry } });
            let mut secret = crate::scene::secret("fleet", "both", "");
            secret["stringData"][".dockerconfigjson"] = json!(config.to_string());
            sim.server.install(secret).unwrap();
            install_target(&sim, "two", "other");
            sim.until(host, |sim| is_ready(sim, "two")).await;
            sim.shut_down().await;
        });
    }
}
