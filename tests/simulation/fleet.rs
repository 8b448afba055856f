//! The objects of a run, and what users do to them.

use serde_json::{Value, json};

use crate::descriptors;

/// The registry that most charts go to; one whose secret stands beside it in another namespace.
pub const SHARED_HOST: &str = "charts.example:5000";
/// The registry of one team, in its own namespace.
pub const OWN_HOST: &str = "own.example:5000";
/// The registry of component descriptors, open for everybody.
pub const DESCRIPTOR_HOST: &str = "descriptors.example:5000";
/// The user of the registry at `host`.
pub fn user(host: &str) -> String {
    format!("user-of-{}", host.split('.').next().unwrap_or_default())
}

/// The password there, which changes.
pub fn password(host: &str, number: u32) -> String {
    format!("password-{number}-of-{}", host.split('.').next().unwrap_or_default())
}

const GROUP: &str = "solar.opendefense.cloud";
const VERSION: &str = "solar.opendefense.cloud/v1alpha1";

/// Kinds of users' objects with their plural names, referrers first.
pub const USER_KINDS: [(&str, &str); 9] = [
    ("Target", "targets"),
    ("ReleaseBinding", "releasebindings"),
    ("RegistryBinding", "registrybindings"),
    ("Release", "releases"),
    ("ComponentVersion", "componentversions"),
    ("Component", "components"),
    ("Registry", "registries"),
    ("ReferenceGrant", "referencegrants"),
    ("Profile", "profiles"),
];
/// Kinds that the controller makes.
pub const OWN_KINDS: [(&str, &str); 3] = [
    ("RenderTask", "rendertasks"),
    ("RenderBinding", "renderbindings"),
    ("RenderArtifact", "renderartifacts"),
];

/// Plural name of a kind.
pub fn plural(kind: &str) -> &'static str {
    USER_KINDS
        .iter()
        .chain(&OWN_KINDS)
        .find(|(known, _)| *known == kind)
        .map_or("secrets", |(_, plural)| plural)
}

fn object(kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": VERSION,
        "kind": kind,
        "metadata": { "name": name, "namespace": namespace },
        "spec": spec,
    })
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

/// The Secret with which charts are pushed to `host`.
fn secret(namespace: &str, host: &str, number: u32) -> Value {
    let config = json!({ "auths": { host: { "username": user(host), "password": password(host, number) } } });
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": "push", "namespace": namespace },
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": { ".dockerconfigjson": config.to_string() },
    })
}

fn registry(namespace: &str, name: &str, host: &str, secret: Option<&str>, pull: &str) -> Value {
    let mut spec = json!({ "hostname": host, "plainHTTP": true, "targetPullSecretName": pull });
    if let Some(secret) = secret {
        spec["solarSecretRef"] = json!({ "name": secret });
    }
    object("Registry", namespace, name, spec)
}

fn grant(namespace: &str, name: &str, from: &[(&str, &str)], to: &str) -> Value {
    let from: Vec<_> =
        from.iter().map(|(kind, ns)| json!({ "group": GROUP, "kind": kind, "namespace": ns })).collect();
    let spec = json!({ "from": from, "to": [{ "group": GROUP, "kind": to }] });
    let mut grant = object("ReferenceGrant", namespace, name, json!({}));
    grant["spec"] = spec;
    grant
}

fn component_version(namespace: &str, name: &str, component: &str, tag: &str) -> Value {
    let mut version = component_version_without_descriptor(namespace, name, component, tag);
    if descriptors::COMPONENTS.contains(&component) {
        version["spec"]["registry"] = json!(DESCRIPTOR_HOST);
        version["spec"]["componentName"] = json!(format!("acme.org/{component}"));
        version["spec"]["digest"] = json!(descriptors::digest(component));
    }
    version
}

fn component_version_without_descriptor(namespace: &str, name: &str, component: &str, tag: &str) -> Value {
    object(
        "ComponentVersion",
        namespace,
        name,
        json!({
            "componentRef": { "name": component },
            "tag": tag,
            "resources": { "chart": {
                "repository": format!("source.example/{component}"),
                "tag": tag,
                "helm": { "name": component, "version": tag },
            } },
            "entrypoint": { "resourceName": "chart", "type": "helm" },
        }),
    )
}

fn release(namespace: &str, name: &str, version: Value, unique: &str, priority: u32) -> Value {
    object(
        "Release",
        namespace,
        name,
        json!({
            "componentVersionRef": version,
            "uniqueName": unique,
            "targetNamespace": "apps",
            "priority": priority,
            "values": { "replicas": 1 },
        }),
    )
}

fn target(namespace: &str, name: &str, registry: Value) -> Value {
    let spec = json!({ "renderRegistryRef": registry, "userdata": { "site": name } });
    object("Target", namespace, name, spec)
}

fn release_binding(namespace: &str, target: &str, release: &str) -> Value {
    let spec = json!({ "targetRef": { "name": target }, "releaseRef": { "name": release } });
    object("ReleaseBinding", namespace, &format!("{target}-{release}"), spec)
}

/// All objects, in an order in which they can be applied.
pub fn objects(password: u32) -> Vec<Value> {
    let mut objects: Vec<Value> = ["platform", "team-a", "team-b"].map(namespace).to_vec();
    objects.push(secret("platform", SHARED_HOST, password));
    objects.push(secret("team-b", OWN_HOST, password));
    objects.push(registry("platform", "charts", SHARED_HOST, Some("push"), "pull-charts"));
    objects.push(registry("team-b", "own", OWN_HOST, Some("push"), "pull-own"));
    objects.push(registry("team-a", "source-1", "source.example", None, "pull-1"));
    objects.push(registry("team-a", "source-2", "source.example", None, "pull-2"));
    for team in ["team-a", "team-b"] {
        objects.push(registry(team, "descriptors", DESCRIPTOR_HOST, None, "pull-descriptors"));
    }
    for (target, registry) in [("a-0", "source-1"), ("a-1", "source-1"), ("a-2", "source-2")] {
        let spec = json!({ "targetRef": { "name": target }, "registryRef": { "name": registry } });
        objects.push(object("RegistryBinding", "team-a", &format!("{target}-{registry}"), spec));
    }
    let users = [
        ("Target", "team-a"),
        ("RenderArtifact", "team-a"),
        ("Target", "team-b"),
        ("RenderArtifact", "team-b"),
    ];
    objects.push(grant("platform", "teams-use-charts", &users, "Registry"));
    objects.push(grant("team-b", "team-a-uses-versions", &[("Release", "team-a")], "ComponentVersion"));
    for (namespace, component, versions) in
        [("team-a", "web", 3), ("team-a", "probe", 1), ("team-b", "store", 2)]
    {
        let spec = json!({ "scheme": "oci", "registry": "source.example", "repository": component });
        objects.push(object("Component", namespace, component, spec));
        for version in 0..versions {
            let name = format!("{component}-{version}");
            objects.push(component_version(namespace, &name, component, &format!("1.{version}.0")));
        }
    }
    for (number, (version, unique)) in
        [("web-0", "web"), ("web-1", "web"), ("web-2", "web"), ("probe-0", "probe")].iter().enumerate()
    {
        let priority = u32::try_from(number).unwrap_or_default();
        objects.push(release("team-a", &format!("r-{number}"), json!({ "name": version }), unique, priority));
    }
    let shared = json!({ "name": "store-0", "namespace": "team-b" });
    objects.push(release("team-a", "r-4", shared, "store", 0));
    objects.push(release("team-b", "s-0", json!({ "name": "store-0" }), "store", 0));
    objects.push(release("team-b", "s-1", json!({ "name": "store-1" }), "store", 1));
    let everywhere = json!({ "releaseRef": { "name": "r-3" }, "targetSelector": {} });
    objects.push(object("Profile", "team-a", "everywhere", everywhere));
    let canary =
        json!({ "releaseRef": { "name": "r-4" }, "targetSelector": { "matchLabels": { "ring": "canary" } } });
    objects.push(object("Profile", "team-a", "canary", canary));
    let charts = json!({ "name": "charts", "namespace": "platform" });
    for (name, releases) in [
        ("a-0", &["r-0", "r-3", "r-4"][..]),
        ("a-1", &["r-0", "r-3"]),
        ("a-2", &["r-1", "r-2", "r-3"]),
        ("a-3", &["r-2", "r-4"]),
        ("a-4", &["r-0"]),
    ] {
        objects.push(target("team-a", name, charts.clone()));
        objects.extend(releases.iter().map(|release| release_binding("team-a", name, release)));
    }
    for (name, registry, releases) in [
        ("b-0", json!({ "name": "own" }), &["s-0"][..]),
        ("b-1", json!({ "name": "own" }), &["s-0", "s-1"]),
        ("b-2", charts, &["s-1"]),
    ] {
        objects.push(target("team-b", name, registry));
        objects.extend(releases.iter().map(|release| release_binding("team-b", name, release)));
    }
    objects
}

/// One thing that a user does.
#[derive(Clone, Debug)]
pub enum Deed {
    /// Merges a change into an object.
    Change {
        /// Kind.
        kind: &'static str,
        /// Namespace and name.
        name: (String, String),
        /// Merge patch.
        patch: Value,
    },
    /// Deletes an object.
    Delete {
        /// Kind.
        kind: &'static str,
        /// Namespace and name.
        name: (String, String),
    },
    /// Makes everything again that is missing.
    Restore,
    /// Puts a component's descriptor into its registry, or takes it away.
    Descriptor {
        /// The component.
        component: &'static str,
        /// Whether it is there afterwards.
        there: bool,
    },
    /// Changes the registries' password, and the Secrets a little later.
    RotatePassword,
    /// Breaks all watches, or lets them expire.
    BreakWatches {
        /// With 410 instead of a cut.
        expire: bool,
    },
}

/// Chooses what a user does next, among the objects that exist. `hot`: only what brings tags to come and go, again and
/// again the same ones.
pub fn deed(
    rng: &mut fastrand::Rng,
    hot: bool,
    existing: &impl Fn(&str) -> Vec<(String, String)>,
) -> Option<Deed> {
    let roll = if hot { [0, 26, 38, 47, 72, 90, 95, 99][rng.usize(0..8)] } else { rng.u32(0..100) };
    let pick = |rng: &mut fastrand::Rng, kind: &'static str| rng.choice(existing(kind));
    let change =
        |kind, name: Option<(String, String)>, patch| Some(Deed::Change { kind, name: name?, patch });
    let delete = |kind, name: Option<(String, String)>| Some(Deed::Delete { kind, name: name? });
    match roll {
        0..19 => {
            let patch = json!({ "spec": { "values": { "replicas": rng.u32(1..3) } } });
            let name = pick(rng, "Release");
            change("Release", name, patch)
        }
        19..21 => {
            let ring = ["canary", "stable"][rng.usize(0..2)];
            let name = pick(rng, "Target");
            change("Target", name, json!({ "metadata": { "labels": { "ring": ring } } }))
        }
        21..22 => {
            let release = ["r-0", "r-3", "r-4", "none"][rng.usize(0..4)];
            let name = pick(rng, "Profile");
            change("Profile", name, json!({ "spec": { "releaseRef": { "name": release } } }))
        }
        22..27 => {
            let patch = json!({ "spec": { "priority": rng.u32(0..4) } });
            let name = pick(rng, "Release");
            change("Release", name, patch)
        }
        27..31 => {
            let tag = format!("1.{}.1", rng.u32(0..3));
            let patch = json!({ "spec": { "resources": { "chart": { "tag": tag } } } });
            let name = pick(rng, "ComponentVersion");
            change("ComponentVersion", name, patch)
        }
        31..32 => {
            let site = ["bremen", "kiel"][rng.usize(0..2)];
            let name = pick(rng, "Target");
            change("Target", name, json!({ "spec": { "userdata": { "site": site } } }))
        }
        32..34 => {
            let suspend = if rng.bool() { json!("true") } else { Value::Null };
            let patch =
                json!({ "metadata": { "annotations": { "solar.opendefense.cloud/suspend": suspend } } });
            let name = pick(rng, "Target");
            change("Target", name, patch)
        }
        34..38 => {
            let registry = if rng.bool() {
                json!({ "name": "charts", "namespace": "platform" })
            } else {
                json!({ "name": "own", "namespace": null })
            };
            let mut teams = existing("Target");
            teams.retain(|(namespace, _)| namespace == "team-b");
            change("Target", rng.choice(teams), json!({ "spec": { "renderRegistryRef": registry } }))
        }
        38..47 => delete("Target", pick(rng, "Target")),
        47..52 => delete("ReleaseBinding", pick(rng, "ReleaseBinding")),
        52..55 => delete("Release", pick(rng, "Release")),
        55..57 => delete("ComponentVersion", pick(rng, "ComponentVersion")),
        57..58 => delete("Component", pick(rng, "Component")),
        58..59 => delete("RegistryBinding", pick(rng, "RegistryBinding")),
        59..60 => delete("Profile", pick(rng, "Profile")),
        60..62 => delete("Registry", pick(rng, "Registry")),
        62..63 => delete("ReferenceGrant", pick(rng, "ReferenceGrant")),
        63..64 => delete("Secret", pick(rng, "Secret")),
        64..68 => delete("RenderTask", pick(rng, "RenderTask")),
        68..72 => delete("RenderBinding", pick(rng, "RenderBinding")),
        72..77 => delete("RenderArtifact", pick(rng, "RenderArtifact")),
        77..79 => Some(Deed::RotatePassword),
        79..83 => Some(Deed::BreakWatches { expire: rng.bool() }),
        83..86 => {
            let component = descriptors::COMPONENTS[rng.usize(0..descriptors::COMPONENTS.len())];
            Some(Deed::Descriptor { component, there: rng.u32(0..3) == 0 })
        }
        86..88 => {
            let value = rng.u32(0..1_000).to_string();
            let name = "solar.opendefense.cloud/availability-recheck";
            let patch = json!({ "metadata": { "annotations": { name: value } } });
            change("ComponentVersion", pick(rng, "ComponentVersion"), patch)
        }
        88..90 => {
            let component = descriptors::COMPONENTS[rng.usize(0..descriptors::COMPONENTS.len())];
            let digests =
                [json!(descriptors::digest(component)), json!(descriptors::digest("nowhere")), json!(null)];
            let patch = json!({ "spec": { "digest": digests[rng.usize(0..3)] } });
            change("ComponentVersion", pick(rng, "ComponentVersion"), patch)
        }
        _ => Some(Deed::Restore),
    }
}
