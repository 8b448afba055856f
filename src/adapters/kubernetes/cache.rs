//! The cache: what the watches have told, shared by all passes.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use solar_core::object::ObjectName;
use solar_core::routes::{ActorKey, Concerned, Routed, keeper_of_status};
use solar_core::world::World;

thread_local! {
    static READING: Cell<bool> = const { Cell::new(false) };
}

/// A look at the world. One at a time for each thread: a second one behind a waiting writer would wait for ever.
pub struct WorldRef<'a> {
    world: RwLockReadGuard<'a, World>,
}

impl Deref for WorldRef<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Drop for WorldRef<'_> {
    fn drop(&mut self) {
        READING.set(false);
    }
}

/// The world behind a lock; never held across an await.
#[derive(Debug, Default)]
pub struct Cache {
    world: RwLock<World>,
}

impl Cache {
    /// The world as it is now.
    ///
    /// # Panics
    /// When this thread looks at it already: with a writer in between that would be a deadlock.
    pub fn read(&self) -> WorldRef<'_> {
        assert!(!READING.replace(true), "the world is looked at twice at once");
        WorldRef { world: self.world.read().unwrap_or_else(std::sync::PoisonError::into_inner) }
    }

    fn write(&self) -> RwLockWriteGuard<'_, World> {
        self.world.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes in `record`, and says who is concerned, and who keeps the status if that is another now. `live`: told as a
    /// change, not as part of a list.
    pub fn apply<R: Routed>(&self, mut record: R, live: bool) -> (Concerned, Option<ActorKey>) {
        let mut world = self.write();
        let name = record.meta().name.clone();
        let old = R::table(&world).get(&name).cloned();
        record.entering(old.as_deref(), live);
        let keeper = keeper_of_status(old.as_deref(), &record);
        world.insert(record);
        let mut concerned = Concerned::new();
        let new = R::table(&world).get(&name).cloned();
        R::concerned(&world, old.as_deref(), new.as_deref(), &mut concerned);
        (concerned, keeper)
    }

    /// Takes out the record of `name`, and says who is concerned.
    pub fn remove<R: Routed>(&self, name: &ObjectName) -> Concerned {
        let mut world = self.write();
        let mut concerned = Concerned::new();
        if let Some(old) = world.remove::<R>(name) {
            R::concerned(&world, Some(&old), None, &mut concerned);
        }
        concerned
    }

    /// Takes out every record that a complete list of `namespace`, or of all namespaces, did not name.
    pub fn sweep<R: Routed>(&self, namespace: Option<&str>, listed: &BTreeSet<ObjectName>) -> Concerned {
        let in_scope = |name: &ObjectName| namespace.is_none_or(|namespace| *name.namespace == *namespace);
        let gone: Vec<ObjectName> = {
            let world = self.read();
            let names = R::table(&world).iter().map(|record| record.meta().name.clone());
            names.filter(|name| in_scope(name) && !listed.contains(name)).collect()
        };
        gone.iter().flat_map(|name| self.remove::<R>(name)).collect()
    }
}
