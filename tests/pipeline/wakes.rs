//! What wakes a Target: each change, on its old and its new side, and nobody else. Passes are counted.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use solar_core::object::ObjectName;
use solar_core::routes::{ActorKey, TARGET};

use crate::scene::{object, pass, registry, secret};
use crate::support::{Simulation, on_paused_time, restless, world};

const GROUP: &str = "solar.opendefense.cloud";
const HOST_2: &str = "127.0.0.2:5000";

fn in_namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

fn version(namespace: &str, name: &str, repository: &str) -> Value {
    let chart = json!({ "repository": repository, "tag": "1", "helm": { "name": name, "version": "1.0.0" } });
    let spec = json!({
        "componentRef": { "name": "web" },
        "tag": "1",
        "resources": { "chart": chart },
        "entrypoint": { "resourceName": "chart", "type": "helm" },
    });
    object("ComponentVersion", namespace, name, spec)
}

fn release(name: &str, version: Value) -> Value {
    object("Release", "fleet", name, json!({ "componentVersionRef": version, "uniqueName": name }))
}

fn bound(namespace: &str, name: &str, target: Value, release: &str) -> Value {
    let spec = json!({ "targetRef": target, "releaseRef": { "name": release } });
    object("ReleaseBinding", namespace, name, spec)
}

fn pulls(namespace: &str, name: &str, target: Value, registry: &str) -> Value {
    let spec = json!({ "targetRef": target, "registryRef": { "name": registry } });
    object("RegistryBinding", namespace, name, spec)
}

fn grant(namespace: &str, name: &str, from: &str, to: &str) -> Value {
    let spec = json!({
        "from": [{ "group": GROUP, "kind": from, "namespace": if namespace == "fleet" { "platform" } else { "fleet" } }],
        "to": [{ "group": GROUP, "kind": to }],
    });
    object("ReferenceGrant", namespace, name, spec)
}

/// Five Targets that share nothing but what the name of an object says:
///
/// | Target | renders to | gets | pulls with |
/// | --- | --- | --- | --- |
/// | `plain` | fleet/charts | r-plain (v-plain) | - |
/// | `far` | platform/charts, by grant | r-far (platform/v-far, by grant) | - |
/// | `given` | fleet/charts | platform's r-given, by grant | platform's images, by grant |
/// | `pulls` | fleet/charts-2 | r-plain | images |
/// | `empty` | fleet/charts-2 | nothing | - |
fn objects() -> Vec<Value> {
    let here = |name: &str| json!({ "name": name });
    let there = |name: &str| json!({ "name": name, "namespace": "platform" });
    let mut objects = vec![in_namespace("fleet"), in_namespace("platform")];
    for namespace in ["fleet", "platform"] {
        objects.push(secret(namespace, "push", "solar-dev"));
        objects.push(registry(namespace, "charts", "push"));
        objects.push(object("Registry", namespace, "images", json!({ "hostname": "ghcr.io" })));
        let spec = json!({ "scheme": "oci", "registry": "ghcr.io", "repository": "charts/web" });
        objects.push(object("Component", namespace, "web", spec));
    }
    // At a host of its own, so that no chart is shared with the others.
    let config = json!({ "auths": { HOST_2: { "username": "solar", "password": "solar-dev" } } });
    let mut push = secret("fleet", "push-2", "");
    push["stringData"] = json!({ ".dockerconfigjson": config.to_string() });
    objects.push(push);
    let mut charts = registry("fleet", "charts-2", "push-2");
    charts["spec"]["hostname"] = json!(HOST_2);
    objects.push(charts);
    objects.push(version("fleet", "v-plain", "ghcr.io/charts/plain"));
    objects.push(version("platform", "v-far", "ghcr.io/charts/far"));
    objects.push(version("platform", "v-given", "ghcr.io/charts/given"));
    objects.push(release("r-plain", here("v-plain")));
    objects.push(release("r-far", there("v-far")));
    let spec = json!({ "componentVersionRef": here("v-given"), "uniqueName": "r-given" });
    objects.push(object("Release", "platform", "r-given", spec));
    for (name, to) in [
        ("plain", here("charts")),
        ("far", there("charts")),
        ("given", here("charts")),
        ("pulls", here("charts-2")),
        ("empty", here("charts-2")),
    ] {
        objects.push(object("Target", "fleet", name, json!({ "renderRegistryRef": to })));
    }
    objects.push(bound("fleet", "plain", here("plain"), "r-plain"));
    objects.push(bound("fleet", "far", here("far"), "r-far"));
    objects.push(bound("fleet", "pulls", here("pulls"), "r-plain"));
    objects.push(pulls("fleet", "pulls", here("pulls"), "images"));
    let given = json!({ "name": "given", "namespace": "fleet" });
    objects.push(bound("platform", "given", given.clone(), "r-given"));
    objects.push(pulls("platform", "given", given, "images"));
    objects.push(grant("platform", "registries", "Target", "Registry"));
    objects.push(grant("platform", "clean-up", "RenderArtifact", "Registry"));
    objects.push(grant("platform", "versions", "Release", "ComponentVersion"));
    objects.push(grant("fleet", "releases", "ReleaseBinding", "Target"));
    objects.push(grant("fleet", "pulls", "RegistryBinding", "Target"));
    objects
}

const TARGETS: [&str; 5] = ["plain", "far", "given", "pulls", "empty"];

/// How many passes of each Target ended well so far.
async fn passes(sim: &Simulation) -> Vec<u64> {
    let mut passes = Vec::new();
    for target in TARGETS {
        let key = ActorKey::new(TARGET, ObjectName::new("fleet", target));
        let actor = sim.running.shared.directory.find(&key).expect("a living Target has its actor");
        passes.push(actor.snapshot().await.expect("it answers").passes);
    }
    passes
}

/// What somebody does to an object.
enum Deed {
    Merge(Value),
    /// In the status.
    Status(Value),
    Delete,
    /// Made again as it was installed.
    Restore,
    /// A new one.
    Install(Value),
}

struct Row {
    deed: Deed,
    plural: &'static str,
    namespace: &'static str,
    name: &'static str,
    /// The Targets that it wakes, and how many passes that is worth at the most: what it leads to, and one for each thing
    /// that its own deeds changed.
    wakes: &'static [(&'static str, u64)],
}

fn row(
    plural: &'static str,
    namespace: &'static str,
    name: &'static str,
    deed: Deed,
    wakes: &'static [(&'static str, u64)],
) -> Row {
    Row { deed, plural, namespace, name, wakes }
}

async fn act(sim: &Simulation, row: &Row) {
    let Row { plural, namespace, name, .. } = row;
    let path = format!("/apis/{GROUP}/v1alpha1/namespaces/{namespace}/{plural}/{name}");
    match &row.deed {
        Deed::Merge(patch) => sim.patch(plural, namespace, name, patch.clone()).await,
        Deed::Status(status) => {
            let request = http::Request::patch(format!("{path}/status"))
                .header("content-type", "application/merge-patch+json")
                .body(serde_json::to_vec(&json!({ "status": status })).unwrap())
                .unwrap();
            sim.client.request::<Value>(request).await.unwrap();
        }
        Deed::Delete => sim.delete(&path).await,
        Deed::Restore => {
            let kind = solar_api::crds().into_iter().find(|crd| crd.spec.names.plural == *plural);
            let kind = kind.unwrap().spec.names.kind;
            let installed = objects().into_iter().find(|it| {
                let meta = &it["metadata"];
                it["kind"] == kind && meta["name"] == *name && meta["namespace"] == *namespace
            });
            sim.server.install(installed.expect("it was installed")).unwrap();
        }
        Deed::Install(object) => sim.server.install(object.clone()).unwrap(),
    }
}

/// What is done one after another. Each row begins with what the ones before have left.
fn rows() -> Vec<Row> {
    use Deed::{Delete, Install, Merge, Restore, Status};
    let chart = |tag: &str| Merge(json!({ "spec": { "resources": { "chart": { "tag": tag } } } }));
    let annotated = |name: &str, value: &str| {
        Merge(json!({ "metadata": { "annotations": { format!("{GROUP}/{name}"): value } } }))
    };
    let target = |name: &str| json!({ "spec": { "targetRef": { "name": name } } });
    vec![
        // Its own changes.
        row("targets", "fleet", "plain", annotated("reconcile", "1"), &[("plain", 1)]),
        row("targets", "fleet", "plain", annotated("suspend", "true"), &[("plain", 1)]),
        row("targets", "fleet", "plain", annotated("suspend", "false"), &[("plain", 1)]),
        row("targets", "fleet", "plain", annotated("unrelated", "1"), &[]),
        row(
            "targets",
            "fleet",
            "plain",
            Merge(json!({ "metadata": { "labels": { "a": "b" } } })),
            &[("plain", 1)],
        ),
        row(
            "targets",
            "fleet",
            "plain",
            Merge(json!({ "spec": { "userdata": { "a": 1 } } })),
            &[("plain", 8)],
        ),
        // Releases and ComponentVersions.
        row(
            "releases",
            "fleet",
            "r-plain",
            Merge(json!({ "spec": { "values": { "a": 1 } } })),
            &[("plain", 13), ("pulls", 13)],
        ),
        row(
            "releases",
            "fleet",
            "r-plain",
            Merge(json!({ "metadata": { "labels": { "a": "b" } } })),
            &[("plain", 1), ("pulls", 1)],
        ),
        row(
            "releases",
            "fleet",
            "r-plain",
            Merge(json!({ "metadata": { "annotations": { "a": "b" } } })),
            &[],
        ),
        row("releases", "fleet", "r-far", Merge(json!({ "spec": { "priority": 3 } })), &[("far", 1)]),
        row("componentversions", "fleet", "v-plain", chart("2"), &[("plain", 13), ("pulls", 13)]),
        row("componentversions", "platform", "v-far", chart("2"), &[("far", 13)]),
        row("componentversions", "platform", "v-given", chart("2"), &[("given", 13)]),
        row("componentversions", "platform", "v-far", Status(json!({ "observedRecheck": "x" })), &[]),
        row("components", "fleet", "web", Merge(json!({ "spec": { "repository": "charts/other" } })), &[]),
        // Registries: of the charts, and of RegistryBindings.
        row(
            "registries",
            "fleet",
            "charts",
            Merge(json!({ "spec": { "scanInterval": "1h" } })),
            &[("plain", 1), ("given", 1)],
        ),
        row("registries", "fleet", "charts", Status(json!({ "conditions": [] })), &[]),
        row(
            "registries",
            "fleet",
            "charts-2",
            Merge(json!({ "spec": { "scanInterval": "1h" } })),
            &[("pulls", 1), ("empty", 1)],
        ),
        row(
            "registries",
            "platform",
            "charts",
            Merge(json!({ "spec": { "scanInterval": "1h" } })),
            &[("far", 1)],
        ),
        row(
            "registries",
            "fleet",
            "images",
            Merge(json!({ "spec": { "targetPullSecretName": "s" } })),
            &[("pulls", 13)],
        ),
        row(
            "registries",
            "platform",
            "images",
            Merge(json!({ "spec": { "targetPullSecretName": "s" } })),
            &[("given", 13)],
        ),
        // Grants, one pair after another, revoked and given again.
        row("referencegrants", "platform", "registries", Delete, &[("far", 5)]),
        row("referencegrants", "platform", "registries", Restore, &[("far", 1)]),
        row("referencegrants", "platform", "versions", Delete, &[("far", 5)]),
        row("referencegrants", "platform", "versions", Restore, &[("far", 1)]),
        row("referencegrants", "fleet", "releases", Delete, &[("given", 1)]),
        row("referencegrants", "fleet", "releases", Restore, &[("given", 1)]),
        row("referencegrants", "fleet", "pulls", Delete, &[("given", 13)]),
        row("referencegrants", "fleet", "pulls", Restore, &[("given", 13)]),
        row(
            "referencegrants",
            "fleet",
            "other",
            Install(grant("fleet", "other", "Release", "Component")),
            &[],
        ),
        // One that is edited in its place, and a host that moves away and back.
        row(
            "referencegrants",
            "platform",
            "registries",
            Merge(json!({ "spec": { "from": [
            { "group": GROUP, "kind": "Target", "namespace": "elsewhere" } ] } })),
            &[("far", 5)],
        ),
        // Its timer, for what is missing.
        row("referencegrants", "platform", "registries", Delete, &[("far", 1)]),
        row("referencegrants", "platform", "registries", Restore, &[("far", 1)]),
        row(
            "registries",
            "fleet",
            "images",
            Merge(json!({ "spec": { "hostname": "other.example" } })),
            &[("pulls", 13)],
        ),
        row(
            "registries",
            "fleet",
            "images",
            Merge(json!({ "spec": { "hostname": "ghcr.io" } })),
            &[("pulls", 13)],
        ),
        row("targets", "fleet", "plain", annotated("render-request", "1"), &[("plain", 2)]),
        // Bindings: what they name before and after.
        row("releasebindings", "fleet", "plain", Merge(target("empty")), &[("plain", 5), ("empty", 10)]),
        row("releasebindings", "fleet", "plain", Merge(target("plain")), &[("plain", 11), ("empty", 5)]),
        row("registrybindings", "fleet", "pulls", Merge(target("empty")), &[("pulls", 13), ("empty", 1)]),
        row("registrybindings", "fleet", "pulls", Merge(target("pulls")), &[("pulls", 13), ("empty", 1)]),
        row("releasebindings", "fleet", "far", Delete, &[("far", 6)]),
        row("releasebindings", "fleet", "far", Restore, &[("far", 9)]),
        row("registrybindings", "platform", "given", Delete, &[("given", 14)]),
        row("registrybindings", "platform", "given", Restore, &[("given", 13)]),
        // A reference that moved: the old side concerns it no more, the new one does.
        row(
            "targets",
            "fleet",
            "plain",
            Merge(json!({ "spec": { "renderRegistryRef": { "name": "charts-2" } } })),
            &[("plain", 15)],
        ),
        row(
            "registries",
            "fleet",
            "charts",
            Merge(json!({ "spec": { "scanInterval": "2h" } })),
            &[("given", 1)],
        ),
        row(
            "registries",
            "fleet",
            "charts-2",
            Merge(json!({ "spec": { "scanInterval": "2h" } })),
            &[("plain", 1), ("pulls", 1), ("empty", 1)],
        ),
        row(
            "releasebindings",
            "fleet",
            "plain",
            Merge(json!({ "spec": { "releaseRef": { "name": "r-far" } } })),
            &[("plain", 15)],
        ),
        row(
            "releases",
            "fleet",
            "r-plain",
            Merge(json!({ "spec": { "values": { "a": 2 } } })),
            &[("pulls", 13)],
        ),
        row(
            "releases",
            "fleet",
            "r-far",
            Merge(json!({ "spec": { "values": { "a": 2 } } })),
            &[("plain", 15), ("far", 13)],
        ),
        row("componentversions", "fleet", "v-plain", chart("3"), &[("pulls", 13)]),
        row("componentversions", "platform", "v-far", chart("3"), &[("plain", 15), ("far", 13)]),
        row(
            "releases",
            "fleet",
            "r-far",
            Merge(json!({ "spec": { "componentVersionRef": { "name": "v-plain", "namespace": "fleet" } } })),
            &[("plain", 15), ("far", 13)],
        ),
        row("componentversions", "platform", "v-far", chart("4"), &[]),
        row(
            "componentversions",
            "fleet",
            "v-plain",
            chart("4"),
            &[("plain", 15), ("far", 13), ("pulls", 13)],
        ),
        // Deletions, and what was missing comes back.
        row("componentversions", "platform", "v-given", Delete, &[("given", 2)]),
        row("releases", "platform", "r-given", Delete, &[("given", 2)]),
        row("registries", "platform", "images", Delete, &[("given", 1)]),
    ]
}

#[test]
fn each_change_wakes_the_targets_that_depend_on_it_before_or_after_and_nobody_else() {
    on_paused_time(|| async {
        let (server, store) = world();
        let sim = Simulation::over(server, store, restless());
        for object in objects() {
            sim.server.install(object).unwrap();
        }
        pass(Duration::from_secs(120)).await;
        for (number, row) in rows().iter().enumerate() {
            let before = passes(&sim).await;
            act(&sim, row).await;
            pass(Duration::from_secs(120)).await;
            let after = passes(&sim).await;
            let passes = TARGETS.iter().zip(before.iter().zip(&after));
            let woken: BTreeMap<&str, u64> = passes
                .map(|(target, (before, after))| (*target, after - before))
                .filter(|it| it.1 > 0)
                .collect();
            let Row { plural, namespace, name, wakes, .. } = row;
            let wanted: BTreeMap<&str, u64> = wakes.iter().copied().collect();
            let context = format!("row {number}: {plural} {namespace}/{name}: {woken:?}");
            assert!(woken.keys().eq(wanted.keys()), "{context}\n{}", sim.describe());
            for (target, most) in wanted {
                assert!(woken[target] <= most, "{context}: {target} in {most} passes");
            }
        }
        sim.shut_down().await;
    });
}

/// The first object of `kind` that Target `plain` owns, or that stands for its bootstrap chart.
fn own(sim: &Simulation, kind: &str) -> String {
    let found = sim
        .server
        .objects(kind)
        .find(|it| it["spec"]["ownerName"] == "plain" || it["spec"]["repository"] == "fleet/bootstrap-plain");
    found.unwrap()["metadata"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn what_becomes_of_its_tasks_bindings_and_artifacts_wakes_their_target_and_nobody_else() {
    on_paused_time(|| async {
        let (server, store) = world();
        let sim = Simulation::over(server, store, restless());
        for object in objects() {
            sim.server.install(object).unwrap();
        }
        pass(Duration::from_secs(120)).await;
        let nothing = json!({ "digest": null });
        let deeds = [
            ("RenderTask", "rendertasks", Deed::Delete),
            ("RenderBinding", "renderbindings", Deed::Delete),
            ("RenderArtifact", "renderartifacts", Deed::Status(nothing)),
            ("RenderArtifact", "renderartifacts", Deed::Delete),
        ];
        for (kind, plural, deed) in deeds {
            let before = passes(&sim).await;
            let name = own(&sim, kind).leak();
            act(&sim, &row(plural, "fleet", name, deed, &[])).await;
            pass(Duration::from_secs(120)).await;
            let after = passes(&sim).await;
            let woken =
                TARGETS.iter().zip(before.iter().zip(&after)).filter(|(_, (before, after))| before != after);
            let woken: Vec<&str> = woken.map(|(target, _)| *target).collect();
            assert_eq!(woken, ["plain"], "{kind} {name}\n{}", sim.describe());
        }
        sim.shut_down().await;
    });
}
