//! What a ReleaseBinding and a RegistryBinding say of themselves.

use std::sync::Arc;

use solar_api::names::{REGISTRY_REF_FINALIZER, RELEASE_REF_FINALIZER};
use solar_core::binding;
use solar_core::condition::{self, Wanted};
use solar_core::record::{
    GrantRecord, RegistryBindingRecord, RegistryRecord, ReleaseBindingRecord, ReleaseRecord, TargetRecord,
};
use solar_core::world::World;

use crate::support::{at, grant, registry, registry_binding, release, release_binding, target};

/// What each of `wanted` says, in short, and that saying it twice says nothing new.
fn said(wanted: &[Wanted; 2]) -> Vec<String> {
    let conditions = condition::updated(&[], wanted, 1, at(1)).expect("the first is always new");
    assert_eq!(condition::updated(&conditions, wanted, 1, at(2)), None);
    assert!(conditions.iter().all(|condition| condition.observed_generation == Some(1)));
    conditions
        .iter()
        .map(|condition| format!("{} {} {}", condition.type_, condition.status, condition.reason))
        .collect()
}

const FOUND: &str = "TargetResolved True Resolved";

#[test]
fn a_release_binding_says_whether_target_and_release_resolve() {
    let mut world = World::default();
    let here = ReleaseBindingRecord::from(&release_binding("edge", "b", "berlin", "web"));
    let says = |world: &World| said(&binding::of_release(world, &here, None));
    let lost = "ReleaseResolved False NotFound";
    assert_eq!(says(&world), ["TargetResolved False NotFound", lost]);
    world.insert(TargetRecord::from(&target("edge", "berlin", "charts")));
    assert_eq!(says(&world), [FOUND, lost]);
    world.insert(ReleaseRecord::from(&release("edge", "web", "web-1")));
    assert_eq!(says(&world), [FOUND, "ReleaseResolved True Resolved"]);
    let mut going = ReleaseRecord::from(&release("edge", "web", "web-1"));
    going.meta.terminating = true;
    world.insert(going.clone());
    assert_eq!(says(&world), [FOUND, lost], "it cannot be held any more");
    going.meta.finalizers = [RELEASE_REF_FINALIZER.into()].into();
    world.insert(going);
    assert_eq!(says(&world), [FOUND, "ReleaseResolved True Resolved"], "it counts until it is gone");
}

#[test]
fn a_registry_binding_says_whether_target_and_registry_resolve() {
    let mut world = World::default();
    let here = RegistryBindingRecord::from(&registry_binding("edge", "b", "berlin", "images"));
    let says = |world: &World| said(&binding::of_registry(world, &here, None));
    let lost = "RegistryResolved False NotFound";
    assert_eq!(says(&world), ["TargetResolved False NotFound", lost]);
    world.insert(TargetRecord::from(&target("edge", "berlin", "charts")));
    let mut images = registry("edge", "images", "ghcr.io");
    world.insert(RegistryRecord::from(&images));
    assert_eq!(says(&world), [FOUND, "RegistryResolved True Resolved"]);
    let message = |world: &World| binding::of_registry(world, &here, None)[1].message.clone();
    assert!(message(&world).contains("anonymously"), "{}", message(&world));
    images.spec.target_pull_secret_name = Some("pull-ghcr".into());
    world.insert(RegistryRecord::from(&images));
    assert!(message(&world).contains("pull-ghcr"), "{}", message(&world));
    let mut going = RegistryRecord::from(&images);
    going.meta.terminating = true;
    world.insert(going.clone());
    assert_eq!(says(&world), [FOUND, lost], "it cannot be held any more");
    going.meta.finalizers = [REGISTRY_REF_FINALIZER.into()].into();
    world.insert(going);
    assert_eq!(says(&world), [FOUND, "RegistryResolved True Resolved"]);
}

#[test]
fn a_binding_into_another_namespace_needs_its_own_kind_granted_there() {
    let mut world = World::default();
    world.insert(TargetRecord::from(&target("far", "oslo", "charts")));
    let release = ReleaseBindingRecord::from(&release_binding("edge", "b", "far/oslo", "web"));
    let registry = RegistryBindingRecord::from(&registry_binding("edge", "b", "far/oslo", "images"));
    let says = |world: &World| {
        let release = said(&binding::of_release(world, &release, None))[0].clone();
        [release, said(&binding::of_registry(world, &registry, None))[0].clone()]
    };
    let refused = "TargetResolved False NotGranted";
    assert_eq!(says(&world), [refused, refused]);
    world.insert(GrantRecord::from(&grant("far", "g", &[("ReleaseBinding", "edge")], &["Target"])));
    assert_eq!(says(&world), [FOUND, refused]);
    world.insert(GrantRecord::from(&grant("far", "g", &[("RegistryBinding", "edge")], &["Target"])));
    assert_eq!(says(&world), [refused, FOUND]);
    let watched: [Arc<str>; 1] = ["edge".into()];
    let unwatched = binding::of_release(&world, &release, Some(&watched));
    assert_eq!(said(&unwatched)[0], "TargetResolved False NotWatched");
    assert!(unwatched[0].message.contains("--watch-namespace"));
}
