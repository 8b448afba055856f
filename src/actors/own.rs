//! For actors that remember of their object their own last write.

use std::sync::Arc;

use solar_core::overlay::{Own, settle};
use solar_core::world::Kept;

use super::object::{Pass, Reconcile};

/// A memory that keeps the actor's last write.
pub trait OwnWrite<R> {
    /// The last write, until the watch has caught up.
    fn own(&mut self) -> &mut Option<Own<R>>;
}

impl<R> OwnWrite<R> for Option<Own<R>> {
    fn own(&mut self) -> &mut Self {
        self
    }
}

/// The object as it is watched, or as this actor has written it while the watch is behind; `None` when it is gone.
pub fn observe<A, R>(pass: &Pass<A>) -> Option<Arc<R>>
where
    A: Reconcile,
    A::Memory: OwnWrite<R>,
    R: Kept,
{
    let world = pass.shared.cache.read();
    let watched = R::table(&world).get(&pass.name);
    let record = settle(watched, pass.memory().own())?;
    watched?;
    Some(record)
}

/// Remembers the object as a write has left it.
pub fn keep<A, R, K>(pass: &Pass<A>, object: &K) -> Arc<R>
where
    A: Reconcile,
    A::Memory: OwnWrite<R>,
    R: Kept + for<'a> From<&'a K>,
{
    let record = Arc::new(R::from(object));
    *pass.memory().own() = Some(Own::Present { record: record.clone(), since: pass.now() });
    record
}
