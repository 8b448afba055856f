//! The tables of the world against a plain list of what was put in.

use std::collections::BTreeMap;

use proptest::prelude::*;
use solar_core::object::ObjectName;
use solar_core::record::ReleaseBindingRecord;
use solar_core::world::{IndexKey, World};

use crate::support::release_binding;

// More bindings than the largest group that is kept as a list.
const NAMES: u8 = 40;
const TARGETS: [&str; 2] = ["berlin", "hamburg"];

fn record(name: u8, target: &str) -> ReleaseBindingRecord {
    ReleaseBindingRecord::from(&release_binding("edge", &format!("binding-{name:02}"), target, "web"))
}

proptest! {
    /// Whatever is put in, replaced and taken out: every lookup finds what is there, in the order of names, and nothing
    /// that is not.
    #[test]
    fn a_table_tells_what_was_put_in(
        changes in prop::collection::vec((0..NAMES, prop::option::weighted(0.7, prop::sample::select(&TARGETS[..]))), 1..200),
    ) {
        let mut world = World::default();
        let mut model = BTreeMap::new();
        for (name, target) in changes {
            let before = match target {
                Some(target) => world.insert(record(name, target)),
                None => world.remove(&record(name, TARGETS[0]).meta.name),
            };
            let expected = match target {
                Some(target) => model.insert(name, record(name, target)),
                None => model.remove(&name),
            };
            prop_assert_eq!(before.as_deref(), expected.as_ref());
            let table = &world.release_bindings;
            prop_assert_eq!((table.len(), table.is_empty()), (model.len(), model.is_empty()));
            prop_assert!(table.iter().map(AsRef::as_ref).eq(model.values()));
            prop_assert_eq!(table.get(&record(name, TARGETS[0]).meta.name).map(AsRef::as_ref), model.get(&name));
            for target in TARGETS {
                let key = IndexKey::Target(ObjectName::new("edge", target));
                let found = || model.values().filter(|record| &*record.target.name == target);
                prop_assert!(table.by(&key).map(AsRef::as_ref).eq(found()));
                prop_assert_eq!(table.count(&key), found().count());
            }
        }
    }
}
