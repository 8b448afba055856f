//! For actors that remember of their object their own last write.

use std::sync::Arc;

use solar_core::object::ObjectName;
use solar_core::overlay::{Own, is_overdue, settle};
use solar_core::world::Kept;

use super::object::{Pass, PassError, Reconcile};
use super::system::Shared;
use crate::adapters::kubernetes::Namespaced;

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

/// Reads the object again where the watch has not shown the actor's last write for long. Where the store was restored from
/// a backup it never will, and whatever is written to that version is refused.
pub async fn catch_up<A, R, K>(pass: &Pass<A>) -> Result<(), PassError>
where
    A: Reconcile,
    A::Memory: OwnWrite<R>,
    R: Kept + for<'a> From<&'a K>,
    K: Namespaced,
{
    let overdue = {
        let world = pass.shared.cache.read();
        is_overdue(R::table(&world).get(&pass.name), pass.memory().own().as_ref(), pass.now())
    };
    if overdue {
        match pass.shared.api.get::<K>(&pass.name).await? {
            Some(found) => drop(keep(pass, &found)),
            None => *pass.memory().own() = None,
        }
    }
    Ok(())
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
    // One that the watch knows no more is gone: own answers keep it only a moment longer.
    watched?;
    Some(record)
}

/// Whether the watch shows the last write to the object `name`, which is forgotten then.
pub fn has_caught_up<R: Kept>(shared: &Shared, name: &ObjectName, own: &mut Option<Own<R>>) -> bool {
    settle(R::table(&shared.cache.read()).get(name), own);
    own.is_none()
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
