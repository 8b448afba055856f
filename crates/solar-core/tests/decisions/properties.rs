//! Random clusters: no plan panics, and every one leads to its end.

use proptest::prelude::*;
use serde_json::json;
use solar_api::names::SUSPEND_ANNOTATION;

use crate::model::{Model, name, put};
use crate::support;

/// One thing that somebody does to the cluster.
#[derive(Clone, Debug)]
enum Deed {
    Bind { namespace: usize, release: usize, target: usize },
    Unbind(usize),
    Values { release: usize, value: i64 },
    Priority { release: usize, value: i32 },
    UniqueName { release: usize, unique: usize },
    DropRelease(usize),
    DropVersion(usize),
    Host(usize),
    Secret(bool),
    BindRegistry { registry: usize, secret: usize },
    UnbindRegistry(usize),
    Grant { namespace: usize, kind: usize },
    Revoke(usize),
    Userdata(i64),
    Suspend { target: usize, suspended: bool },
    DeleteTarget(usize),
    CreateTarget(usize),
    LoseTag(usize),
    LoseTask(usize),
    LoseBinding(usize),
    Restart,
    Freeze,
    Thaw,
    Pass(usize),
    Render,
}

const NAMESPACES: [&str; 2] = ["edge", "team"];
const RELEASES: [&str; 3] = ["db", "mail", "web"];
const TARGETS: [&str; 2] = ["edge/berlin", "edge/bonn"];
const KINDS: [(&str, &str, &str, &str); 3] = [
    ("edge", "ReleaseBinding", "team", "Target"),
    ("edge", "RegistryBinding", "team", "Target"),
    ("team", "Target", "edge", "Registry"),
];

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        (0..2_usize, 0..3_usize, 0..2_usize).prop_map(|(namespace, release, target)| Deed::Bind {
            namespace,
            release,
            target
        }),
        any::<usize>().prop_map(Deed::Unbind),
        (any::<usize>(), 0..3_i64).prop_map(|(release, value)| Deed::Values { release, value }),
        (any::<usize>(), -1..2_i32).prop_map(|(release, value)| Deed::Priority { release, value }),
        (any::<usize>(), 0..3_usize).prop_map(|(release, unique)| Deed::UniqueName { release, unique }),
        any::<usize>().prop_map(Deed::DropRelease),
        any::<usize>().prop_map(Deed::DropVersion),
        (0..3_usize).prop_map(Deed::Host),
        any::<bool>().prop_map(Deed::Secret),
        (0..2_usize, 0..2_usize).prop_map(|(registry, secret)| Deed::BindRegistry { registry, secret }),
        any::<usize>().prop_map(Deed::UnbindRegistry),
        (0..2_usize, 0..3_usize).prop_map(|(namespace, kind)| Deed::Grant { namespace, kind }),
        any::<usize>().prop_map(Deed::Revoke),
        (0..3_i64).prop_map(Deed::Userdata),
        (0..2_usize, any::<bool>()).prop_map(|(target, suspended)| Deed::Suspend { target, suspended }),
        (0..2_usize).prop_map(Deed::DeleteTarget),
        (0..2_usize).prop_map(Deed::CreateTarget),
        any::<usize>().prop_map(Deed::LoseTag),
        any::<usize>().prop_map(Deed::LoseTask),
        any::<usize>().prop_map(Deed::LoseBinding),
        Just(Deed::Restart),
        Just(Deed::Freeze),
        Just(Deed::Thaw),
        (0..2_usize).prop_map(Deed::Pass),
        (0..2_usize).prop_map(Deed::Pass),
        Just(Deed::Render),
    ]
}

fn nth<K: Clone, V>(map: &std::collections::BTreeMap<K, V>, at: usize) -> Option<K> {
    (!map.is_empty()).then(|| map.keys().nth(at % map.len()).cloned()).flatten()
}

fn apply(model: &mut Model, deed: Deed, serial: usize) {
    match deed {
        Deed::Bind { namespace, release, target } => {
            model.bind_release(NAMESPACES[namespace], RELEASES[release], TARGETS[target]);
        }
        Deed::Unbind(at) => {
            drop(nth(&model.release_bindings, at).and_then(|n| model.release_bindings.remove(&n)));
        }
        Deed::Values { release, value } => {
            if let Some(release) = nth(&model.releases, release).and_then(|n| model.releases.get_mut(&n)) {
                release.spec.values = Some(support::object(&json!({"replicas": value})));
                release.metadata.generation = release.metadata.generation.map(|g| g + 1);
            }
        }
        Deed::Priority { release, value } => {
            if let Some(release) = nth(&model.releases, release).and_then(|n| model.releases.get_mut(&n)) {
                release.spec.priority = value;
                release.metadata.generation = release.metadata.generation.map(|g| g + 1);
            }
        }
        Deed::UniqueName { release, unique } => {
            if let Some(release) = nth(&model.releases, release).and_then(|n| model.releases.get_mut(&n)) {
                release.spec.unique_name = [None, Some("web"), Some("No.Label")][unique].map(str::to_owned);
            }
        }
        Deed::DropRelease(at) => drop(nth(&model.releases, at).and_then(|n| model.releases.remove(&n))),
        Deed::DropVersion(at) => drop(nth(&model.versions, at).and_then(|n| model.versions.remove(&n))),
        Deed::Host(host) => {
            let registry = model.registries.get_mut(&name("edge/reg")).unwrap();
            registry.spec.hostname = ["registry.example.com", "other.example.com:5000", "[::1]"][host].into();
        }
        Deed::Secret(there) => {
            let registry = model.registries.get_mut(&name("edge/reg")).unwrap();
            registry.spec.solar_secret_ref = there.then(|| solar_api::LocalReference { name: "push".into() });
        }
        Deed::BindRegistry { registry, secret } => {
            let registry_name = ["one", "two"][registry];
            let mut object = support::registry("edge", registry_name, "ghcr.io");
            object.spec.target_pull_secret_name = Some(["", "pull"][secret].into());
            put(&mut model.registries, object);
            let binding = support::registry_binding("edge", registry_name, TARGETS[0], registry_name);
            put(&mut model.registry_bindings, binding);
        }
        Deed::UnbindRegistry(at) => {
            drop(nth(&model.registry_bindings, at).and_then(|n| model.registry_bindings.remove(&n)));
        }
        Deed::Grant { namespace, kind } => {
            let (to_namespace, from, from_namespace, to) = KINDS[kind];
            let name = format!("g{kind}-{namespace}");
            put(&mut model.grants, support::grant(to_namespace, &name, &[(from, from_namespace)], &[to]));
        }
        Deed::Revoke(at) => drop(nth(&model.grants, at).and_then(|n| model.grants.remove(&n))),
        Deed::Userdata(value) => {
            if let Some(target) = model.targets.get_mut(&name(TARGETS[0])) {
                target.spec.userdata = Some(support::object(&json!({"site": value})));
            }
        }
        Deed::Suspend { target, suspended } => {
            if let Some(target) = model.targets.get_mut(&name(TARGETS[target])) {
                let value = (SUSPEND_ANNOTATION.to_owned(), suspended.to_string());
                target.metadata.annotations = Some([value].into());
            }
        }
        Deed::DeleteTarget(target) => {
            // Without a finalizer the API server drops an object at once.
            let name = name(TARGETS[target]);
            let held = model
                .targets
                .get(&name)
                .map(|t| t.metadata.finalizers.as_ref().is_some_and(|f| !f.is_empty()));
            match held {
                Some(true) => model.delete_target(TARGETS[target]),
                Some(false) => drop(model.targets.remove(&name)),
                None => {}
            }
        }
        Deed::CreateTarget(target) => {
            let name = name(TARGETS[target]);
            if !model.targets.contains_key(&name) {
                model.thaw();
                let mut object = support::target(&name.namespace, &name.name, "reg");
                object.metadata.uid = Some(format!("uid-{serial}"));
                put(&mut model.targets, object);
                model.memory.remove(&name);
            }
        }
        Deed::LoseTag(at) => {
            if let Some(artifact) = nth(&model.artifacts, at).and_then(|n| model.artifacts.get_mut(&n)) {
                artifact.status = None;
            }
        }
        Deed::LoseTask(at) => drop(nth(&model.tasks, at).and_then(|n| model.tasks.remove(&n))),
        Deed::LoseBinding(at) => {
            drop(nth(&model.bindings, at).and_then(|n| model.bindings.remove(&n)));
            model.collect();
            // The watch tells the Targets, which forget what they were answered.
            model.memory.values_mut().for_each(|memory| memory.answers.clear());
        }
        Deed::Restart => {
            // A new process lists everything before it decides anything.
            model.thaw();
            model.memory.clear();
        }
        Deed::Freeze => model.freeze(),
        Deed::Thaw => model.thaw(),
        Deed::Pass(target) => {
            if model.targets.contains_key(&name(TARGETS[target])) {
                model.pass(TARGETS[target]);
            }
        }
        Deed::Render => model.render(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn every_history_comes_to_an_end_and_leaves_nothing_behind(deeds in prop::collection::vec(deed(), 0..40)) {
        let mut model = Model::scene();
        put(&mut model.targets, support::target("edge", "bonn", "reg"));
        for (serial, deed) in deeds.into_iter().enumerate() {
            apply(&mut model, deed, serial);
        }
        model.settle();
        for target in model.targets.keys().cloned().collect::<Vec<_>>() {
            let target = target.to_string();
            let verdict = model.verdict(&target, "Ready");
            prop_assert!(verdict != "absent" && verdict != "False/Pending" || model.message(&target, "Ready").contains("Registry"), "{}", verdict);
        }
        // With everything in order again, every Target is ready, and deletion leaves nothing.
        model.registry_bindings.clear();
        model.registries.get_mut(&name("edge/reg")).unwrap().spec.solar_secret_ref =
            Some(solar_api::LocalReference { name: "push".into() });
        model.release_bindings.clear();
        model.releases.clear();
        for target in model.targets.values_mut() {
            target.metadata.annotations = None;
        }
        for target in model.targets.clone().keys() {
            model.bind_release("edge", "web", &target.to_string());
        }
        model.settle();
        for target in model.targets.clone().keys() {
            prop_assert_eq!(model.verdict(&target.to_string(), "Ready"), "True/Ready");
        }
        for target in model.targets.clone().keys() {
            model.delete_target(&target.to_string());
        }
        model.settle();
        prop_assert!(model.targets.is_empty());
    }
}
