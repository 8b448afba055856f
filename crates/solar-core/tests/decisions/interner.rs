//! What records share, and that it goes with them.

use std::sync::Arc;

use solar_core::object::{Meta, NameParts};
use solar_core::record::{ReleaseBindingRecord, TargetRecord};
use solar_core::world::World;

use crate::support::{release_binding, target};

fn binding(name: &str, to: &str) -> ReleaseBindingRecord {
    ReleaseBindingRecord::from(&release_binding("edge", name, to, "web"))
}

fn is_one(a: &NameParts, b: &NameParts) -> bool {
    std::ptr::eq(a, b)
}

fn meta<'a>(world: &'a World, name: &str) -> &'a Meta {
    &world.release_bindings.get(&binding(name, "").meta.name).unwrap().meta
}

#[test]
fn an_object_and_those_that_refer_to_it_have_one_name() {
    for targets_first in [true, false] {
        let mut world = World::default();
        let target = || TargetRecord::from(&target("edge", "berlin", "charts"));
        if targets_first {
            world.insert(target());
        }
        world.insert(binding("one", "berlin"));
        world.insert(binding("two", "berlin"));
        world.insert(target());
        let name = &world.targets.get(&target().meta.name).unwrap().meta.name;
        for binding in world.release_bindings.iter() {
            assert!(is_one(&binding.target, name));
            assert!(Arc::ptr_eq(&binding.meta.name.namespace, &name.namespace));
        }
    }
}

#[test]
fn an_object_that_changes_keeps_its_name() {
    let mut world = World::default();
    world.insert(binding("one", "berlin"));
    let before = meta(&world, "one").name.clone();
    world.insert(binding("one", "hamburg"));
    assert!(is_one(&meta(&world, "one").name, &before));
}

#[test]
fn equal_finalizers_are_kept_once() {
    let mut world = World::default();
    for name in ["one", "two"] {
        let mut object = release_binding("edge", name, "berlin", "web");
        object.metadata.finalizers = Some(vec!["a".into(), "b".into()]);
        world.insert(ReleaseBindingRecord::from(&object));
    }
    let finalizers = |name| &meta(&world, name).finalizers;
    assert_eq!(finalizers("one").len(), 2);
    assert!(Arc::ptr_eq(finalizers("one"), finalizers("two")));
}

#[test]
fn what_nobody_names_any_more_is_let_go() {
    let mut world = World::default();
    let name = |number: usize| format!("object-{number}");
    for number in 0..1_000 {
        world.insert(binding(&name(number), &name(number)));
    }
    assert!(world.shared_values() > 1_000);
    for number in 0..1_000 {
        world.remove::<ReleaseBindingRecord>(&binding(&name(number), "").meta.name);
    }
    assert!(world.shared_values() < 20, "{} are left", world.shared_values());
}

#[test]
fn an_object_that_names_another_one_each_time_leaves_nothing_behind() {
    let mut world = World::default();
    for number in 0..1_000 {
        world.insert(binding("one", &format!("target-{number}")));
        assert!(world.shared_values() < 20);
    }
}

#[test]
fn what_somebody_still_holds_is_kept_with_the_others() {
    let mut world = World::default();
    world.insert(binding("one", "berlin"));
    let held = world.release_bindings.iter().next().unwrap().target.clone();
    world.remove::<ReleaseBindingRecord>(&meta(&world, "one").name.clone());
    for number in 0..100 {
        world.insert(binding("two", &format!("target-{number}")));
    }
    world.insert(binding("two", "berlin"));
    assert!(is_one(&world.release_bindings.iter().next().unwrap().target, &held));
}
