//! To the root.

use std::collections::BTreeSet;

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

/// This process leads from now on: passes may begin.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Lead {
    /// Nothing of an earlier process can land any more, so nothing has to be waited for.
    pub clean: bool,
}

/// End: take no more work and finish what runs.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct ShutDown;

/// Asks how far the start or the end is.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "State")]
pub struct GetState;

/// How far the start or the end is.
#[derive(Clone, Debug, PartialEq, Eq, actix::MessageResponse)]
pub enum State {
    /// These kinds are not listed yet. Controllers that need none of them run already.
    Syncing(BTreeSet<&'static str>),
    /// Everything is listed, and another process leads.
    Standby,
    /// All passes run.
    Running,
    /// No work is taken any more, and what runs may end.
    Stopping,
    /// Everything has ended.
    Stopped,
    /// A critical part died: the process should end.
    Failed(String),
}
