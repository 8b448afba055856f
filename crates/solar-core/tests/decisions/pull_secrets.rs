use solar_core::object::ObjectName;
use solar_core::pull_secret::{MissingRegistry, resolve};
use solar_core::record::{GrantRecord, RegistryBindingRecord, RegistryRecord};
use solar_core::world::World;

use crate::support;

fn registry(world: &mut World, namespace: &str, name: &str, host: &str, secret: &str) {
    let mut registry = support::registry(namespace, name, host);
    registry.spec.target_pull_secret_name = Some(secret.into());
    world.insert(RegistryRecord::from(&registry));
}

fn bind(world: &mut World, namespace: &str, name: &str, registry: &str) {
    let binding = support::registry_binding(namespace, name, "edge/berlin", registry);
    world.insert(RegistryBindingRecord::from(&binding));
}

fn berlin() -> ObjectName {
    ObjectName::new("edge", "berlin")
}

#[test]
fn each_bound_host_has_its_pull_secret_or_none() {
    let mut world = World::default();
    registry(&mut world, "edge", "one", "GHCR.io:443", "pull");
    registry(&mut world, "edge", "two", "quay.io", "");
    bind(&mut world, "edge", "b1", "one");
    bind(&mut world, "edge", "b2", "two");
    let secrets = resolve(&world, &berlin());
    let by_host: Vec<_> =
        secrets.by_host.iter().map(|(host, name)| (host.as_ref(), name.as_deref())).collect();
    assert_eq!(by_host, [("ghcr.io", Some("pull")), ("quay.io", None)]);
    assert!(secrets.conflicts.is_empty() && secrets.missing.is_empty());
}

#[test]
fn two_names_for_one_host_are_a_conflict_naming_both_bindings() {
    for (first, second, sentence) in [
        (
            "pull",
            "other",
            "RegistryBindings edge/b1 and edge/b2 give host ghcr.io different pull secrets (pull and other)",
        ),
        (
            "pull",
            "",
            "RegistryBindings edge/b1 and edge/b2 give host ghcr.io different pull secrets (pull and none)",
        ),
    ] {
        let mut world = World::default();
        registry(&mut world, "edge", "one", "ghcr.io", first);
        registry(&mut world, "edge", "two", "https://ghcr.io/", second);
        bind(&mut world, "edge", "b1", "one");
        bind(&mut world, "edge", "b2", "two");
        let conflicts: Vec<String> =
            resolve(&world, &berlin()).conflicts.iter().map(ToString::to_string).collect();
        assert_eq!(conflicts, [sentence]);
    }
}

#[test]
fn two_bindings_with_one_answer_agree() {
    let mut world = World::default();
    registry(&mut world, "edge", "one", "ghcr.io", "pull");
    bind(&mut world, "edge", "b1", "one");
    bind(&mut world, "edge", "b2", "one");
    assert!(resolve(&world, &berlin()).conflicts.is_empty());
}

#[test]
fn a_binding_of_another_namespace_counts_with_a_grant_only_and_takes_its_own_registry() {
    let mut world = World::default();
    registry(&mut world, "infra", "one", "ghcr.io", "infra-pull");
    registry(&mut world, "edge", "one", "quay.io", "edge-pull");
    bind(&mut world, "infra", "b1", "one");
    assert!(resolve(&world, &berlin()).by_host.is_empty());
    let grant = support::grant("edge", "g", &[("RegistryBinding", "infra")], &["Target"]);
    world.insert(GrantRecord::from(&grant));
    let secrets = resolve(&world, &berlin());
    assert_eq!(secrets.by_host.keys().map(AsRef::as_ref).collect::<Vec<&str>>(), ["ghcr.io"]);
}

#[test]
fn a_registry_that_does_not_exist_is_missing_and_not_anonymous() {
    let mut world = World::default();
    bind(&mut world, "edge", "b1", "gone");
    let missing =
        MissingRegistry { binding: ObjectName::new("edge", "b1"), registry: ObjectName::new("edge", "gone") };
    assert_eq!(resolve(&world, &berlin()).missing, std::slice::from_ref(&missing));
    let mut terminating = support::registry("edge", "gone", "ghcr.io");
    terminating.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(support::at(1)));
    world.insert(RegistryRecord::from(&terminating));
    assert_eq!(resolve(&world, &berlin()).missing, [missing]);
    terminating.metadata.finalizers = Some(vec![solar_api::names::REGISTRY_REF_FINALIZER.into()]);
    world.insert(RegistryRecord::from(&terminating));
    assert!(resolve(&world, &berlin()).missing.is_empty(), "a protected one still serves");
}
