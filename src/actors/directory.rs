//! The directory of object actors: at most one for each name, made when it is first spoken to.
//!
//! Messages are handed over while the entry is locked, so that none can go to an actor whose address is given up. An
//! address is given up in three steps: the entry is parked (what arrives meanwhile is remembered), the actor is asked
//! whether it is idle behind everything that it was sent, and only then the entry goes, or comes back.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use futures::future::BoxFuture;
use solar_core::routes::{ActorKey, ActorKind};
use thiserror::Error;

use super::system::Shared;
use crate::messages::gate::Slot;
use crate::messages::object::{Answered, Cause, Snapshot};

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Undelivered {
    /// The mailbox is full.
    #[error("the actor's mailbox is full")]
    Full,
    /// The actor is ending or has ended; a new one is made for the next message.
    #[error("the actor is ending")]
    Ending,
    /// No controller of this kind runs.
    #[error("no controller of this kind runs here")]
    NoSuchKind,
}

/// What the directory can say to an actor without knowing its type.
pub trait ObjectAddr: Send + Sync {
    /// Wakes the actor; wakes that are not yet served are as good as one.
    fn wake(&self, cause: Cause) -> Result<(), Undelivered>;
    /// Tells that the watch shows another status than before in `version` of the object.
    fn show_status(&self, version: &str) -> Result<(), Undelivered>;
    /// Hands over an answer.
    fn answer(&self, answered: Answered) -> Result<(), Undelivered>;
    /// Lets the actor's pass begin; the slot comes back when it is not taken.
    fn open_gate(&self, slot: Slot) -> Result<(), (Undelivered, Slot)>;
    /// Asks, behind everything that the actor was sent, whether it has nothing left to do.
    fn ask_whether_idle(&self) -> BoxFuture<'static, bool>;
    /// What the actor is doing; `None` when it has ended.
    fn snapshot(&self) -> BoxFuture<'static, Option<Snapshot>>;
    /// The typed address.
    fn as_any(&self) -> &dyn Any;
}

/// Makes the actor of a name.
pub type Factory = fn(&Arc<Shared>, &ActorKey, restarted: bool) -> Arc<dyn ObjectAddr>;

enum Place {
    Alive(Arc<dyn ObjectAddr>),
    /// The address is about to be given up; whether somebody knocked meanwhile.
    Parked {
        knocked: bool,
        addr: Arc<dyn ObjectAddr>,
    },
}

/// Addresses of object actors by key.
pub struct Directory {
    places: DashMap<ActorKey, Place>,
    factories: HashMap<ActorKind, Factory>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").field("actors", &self.places.len()).finish_non_exhaustive()
    }
}

impl Directory {
    /// A directory that makes actors of these kinds.
    pub fn new(factories: impl IntoIterator<Item = (ActorKind, Factory)>) -> Self {
        Self { places: DashMap::new(), factories: factories.into_iter().collect() }
    }

    /// How many actors there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is no actor.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The keys of all actors, sorted. For dumps only.
    pub fn keys(&self) -> Vec<ActorKey> {
        let mut keys: Vec<_> = self.places.iter().map(|place| place.key().clone()).collect();
        keys.sort();
        keys
    }

    /// Does `say` with the actor of `key`, which is made if there is none. An actor that turns out to have died is
    /// replaced once.
    pub fn say<T>(
        &self,
        shared: &Arc<Shared>,
        key: &ActorKey,
        mut say: impl FnMut(&dyn ObjectAddr) -> Result<T, Undelivered>,
    ) -> Result<T, Undelivered> {
        let factory = self.factories.get(&key.kind).ok_or(Undelivered::NoSuchKind)?;
        match self.places.entry(key.clone()) {
            Entry::Vacant(vacant) => {
                let addr = factory(shared, key, false);
                let said = say(addr.as_ref());
                vacant.insert(Place::Alive(addr));
                said
            }
            Entry::Occupied(mut occupied) => match occupied.get_mut() {
                Place::Parked { knocked, .. } => {
                    *knocked = true;
                    Err(Undelivered::Ending)
                }
                Place::Alive(addr) => match say(addr.as_ref()) {
                    Err(Undelivered::Ending) => {
                        let fresh = factory(shared, key, true);
                        let said = say(fresh.as_ref());
                        *addr = fresh;
                        said
                    }
                    said => said,
                },
            },
        }
    }

    /// The actor of `key`, if there is one, also while its address is about to be given up: it may be waiting for what
    /// the caller brings, and would never ask for it again.
    pub fn find(&self, key: &ActorKey) -> Option<Arc<dyn ObjectAddr>> {
        match self.places.get(key)?.value() {
            Place::Alive(addr) | Place::Parked { addr, .. } => Some(addr.clone()),
        }
    }

    /// First step of giving up an address: nothing new is said to it. `None`: it is parked already, or unknown.
    pub fn park(&self, key: &ActorKey) -> Option<Arc<dyn ObjectAddr>> {
        let mut place = self.places.get_mut(key)?;
        let Place::Alive(addr) = place.value() else { return None };
        let addr = addr.clone();
        *place = Place::Parked { knocked: false, addr: addr.clone() };
        Some(addr)
    }

    /// Last step, when the actor still has something to do: its address is good again. Says whether somebody knocked
    /// meanwhile.
    pub fn reinstate(&self, key: &ActorKey, addr: Arc<dyn ObjectAddr>) -> bool {
        let Some(mut place) = self.places.get_mut(key) else { return false };
        let before = std::mem::replace(place.value_mut(), Place::Alive(addr));
        matches!(before, Place::Parked { knocked: true, .. })
    }

    /// Last step, when the actor is idle: the entry goes. Says whether somebody knocked meanwhile.
    pub fn remove(&self, key: &ActorKey) -> bool {
        matches!(self.places.remove(key), Some((_, Place::Parked { knocked: true, .. })))
    }

    /// Drops all addresses, so that nothing keeps the actors of an ended system.
    pub fn clear(&self) {
        self.places.clear();
    }
}
