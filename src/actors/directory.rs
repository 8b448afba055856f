//! The directory of object actors: at most one for each name, made when it is first spoken to, and again after a rest.
//!
//! Messages are handed over while the entry is locked, so that none can go to an actor whose address is given up. An
//! address is given up in three steps: the entry is parked, the actor is asked behind everything that it was sent whether
//! it has nothing left to do, and only then the entry goes, unless the actor was spoken to meanwhile.

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
use crate::messages::object::{Answered, Cause, Departure, LeftBehind, Snapshot};

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
    /// Asks, behind everything that the actor was sent, whether it may go.
    fn ask_to_go(&self) -> BoxFuture<'static, Departure>;
    /// What the actor is doing; `None` when it has ended.
    fn snapshot(&self) -> BoxFuture<'static, Option<Snapshot>>;
    /// The typed address.
    fn as_any(&self) -> &dyn Any;
}

/// What an actor has before it.
#[derive(Debug)]
pub enum Origin {
    /// Nothing, as far as anybody knows.
    New,
    /// An actor of its name that died in this process.
    Death,
    /// An actor of its name that went to rest, and what it left.
    Rest(LeftBehind),
}

/// Makes the actor of a name.
pub type Factory = fn(&Arc<Shared>, &ActorKey, Origin) -> Arc<dyn ObjectAddr>;

enum Place {
    Alive(Arc<dyn ObjectAddr>),
    /// The address is about to be given up; whether somebody spoke to the actor meanwhile.
    Parked {
        knocked: bool,
        addr: Arc<dyn ObjectAddr>,
    },
    /// There is no actor, but what the last one left to the next.
    Resting(LeftBehind),
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

    /// The keys of all actors, sorted. For dumps only.
    pub fn keys(&self) -> Vec<ActorKey> {
        let awake = self.places.iter().filter(|place| !matches!(place.value(), Place::Resting(_)));
        let mut keys: Vec<_> = awake.map(|place| place.key().clone()).collect();
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
                let addr = factory(shared, key, Origin::New);
                let said = say(addr.as_ref());
                vacant.insert(Place::Alive(addr));
                said
            }
            Entry::Occupied(mut occupied) => {
                let place = occupied.get_mut();
                let origin = match place {
                    Place::Resting(left) => Origin::Rest(left.clone()),
                    Place::Parked { addr, .. } | Place::Alive(addr) => match say(addr.as_ref()) {
                        Err(Undelivered::Ending) => Origin::Death,
                        said => {
                            if let Place::Parked { knocked, .. } = place {
                                *knocked = true;
                            }
                            return said;
                        }
                    },
                };
                let fresh = factory(shared, key, origin);
                let said = say(fresh.as_ref());
                *place = Place::Alive(fresh);
                said
            }
        }
    }

    /// The actor of `key`, if there is one; none is made. It is not kept from going.
    pub fn find(&self, key: &ActorKey) -> Option<Arc<dyn ObjectAddr>> {
        match self.places.get(key)?.value() {
            Place::Alive(addr) | Place::Parked { addr, .. } => Some(addr.clone()),
            Place::Resting(_) => None,
        }
    }

    /// First step of giving up an address: whoever speaks to the actor from now on is noted. `None`: it is parked already,
    /// or there is no actor.
    pub fn park(&self, key: &ActorKey) -> Option<Arc<dyn ObjectAddr>> {
        let mut place = self.places.get_mut(key)?;
        let Place::Alive(addr) = place.value() else { return None };
        let addr = addr.clone();
        *place = Place::Parked { knocked: false, addr: addr.clone() };
        Some(addr)
    }

    /// Last step: the actor goes as it said, unless somebody spoke to it meanwhile. Says whether it went.
    pub fn let_go(&self, key: &ActorKey, departure: Departure) -> bool {
        let Entry::Occupied(mut occupied) = self.places.entry(key.clone()) else { return false };
        let Place::Parked { knocked, addr } = occupied.get() else { return false };
        let departure = if *knocked { Departure::Stays } else { departure };
        match departure {
            Departure::Stays => {
                let addr = addr.clone();
                occupied.insert(Place::Alive(addr));
                false
            }
            Departure::Ends => {
                occupied.remove();
                true
            }
            Departure::Rests(left) => {
                occupied.insert(Place::Resting(left));
                true
            }
        }
    }

    /// Gives back the room of those who are gone, where it is most of the room.
    pub fn give_back(&self) {
        let len = self.places.len();
        if self.places.capacity() > 4 * len + 1_000 {
            self.places.shrink_to_fit();
        }
    }

    /// Drops all addresses, so that nothing keeps the actors of an ended system.
    pub fn clear(&self) {
        self.places.clear();
    }
}
