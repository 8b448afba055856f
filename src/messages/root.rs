//! To the root.

use actix::Message;
use solar_core::routes::ActorKey;

/// A watch has listed every object of its kind.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct KindSynced {
    /// The kind.
    pub kind: &'static str,
}

/// An actor has nothing left to do and its object is gone.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Retire {
    /// The actor.
    pub key: ActorKey,
}

/// A part without which nothing works has died: the process ends with this reason.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct CriticalPartDied {
    /// Which part.
    pub part: String,
    /// Why.
    pub reason: String,
}

/// Begin: start the watches.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Begin;

/// End: take no more work and finish what runs.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct ShutDown;
