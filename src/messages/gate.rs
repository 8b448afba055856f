//! To the gate.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix::Message;
use solar_core::routes::{ActorKey, ActorKind};

/// Asks for leave to run one pass; answered by [`super::object::GateOpened`] when it is the actor's turn.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Enter {
    /// Who asks.
    pub key: ActorKey,
}

/// A slot was given back: see who is next. Carries nothing, so losing one behind others costs nothing.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct SlotReturned;

/// Everything that these kinds of actors need is listed: their passes may begin.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Open {
    /// The kinds; those that were opened before stay open.
    pub kinds: BTreeSet<ActorKind>,
}

/// Asks how many passes run or wait for their turn, apart from those that may not begin yet.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "usize")]
pub struct CountBusy;

/// No pass begins any more. Answers how many still run.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "usize")]
pub struct Close;

/// Asks for the gate's state.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "GateSnapshot")]
pub struct GetGateSnapshot;

/// The gate's state.
#[derive(Clone, Debug, serde::Serialize, actix::MessageResponse)]
#[serde(rename_all = "camelCase")]
pub struct GateSnapshot {
    /// Whether passes of any kind may begin.
    pub open: bool,
    /// Passes at once; 0 means no cap.
    pub slots: usize,
    /// Slots in use.
    pub in_use: usize,
    /// Actors waiting.
    pub queued: usize,
}

/// Leave to run one pass. Dropping it gives it back, wherever that happens.
#[derive(Debug)]
pub struct Slot {
    returned: Arc<AtomicUsize>,
}

impl Slot {
    /// A slot that counts itself in `returned` when it is dropped.
    pub fn new(returned: Arc<AtomicUsize>) -> Self {
        Self { returned }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.returned.fetch_add(1, Ordering::Release);
    }
}
