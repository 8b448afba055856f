//! To the gate.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
    /// Whether every kind is open now.
    pub all: bool,
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

/// The slots, shared by the gate and by whoever asks for one.
///
/// While nobody waits, an actor takes a slot by itself and needs no word of the gate. All orders are sequentially
/// consistent: whoever gives a slot back sees the one who began to wait, or that one sees the slot.
#[derive(Debug)]
pub struct Slots {
    /// 0 means no cap.
    cap: usize,
    in_use: AtomicUsize,
    waiting: AtomicUsize,
    /// Everybody may begin: no kind is kept waiting for what is not listed yet, and the end has not begun.
    open: AtomicBool,
}

impl Slots {
    /// `cap` free slots (0: no cap), for which one has to ask the gate.
    pub fn new(cap: usize) -> Arc<Self> {
        Arc::new(Self {
            cap,
            in_use: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            open: AtomicBool::new(false),
        })
    }

    /// A slot, when one is free.
    pub fn take(self: &Arc<Self>) -> Option<Slot> {
        let taken = self.in_use.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |in_use| {
            (self.cap == 0 || in_use < self.cap).then_some(in_use + 1)
        });
        taken.is_ok().then(|| Slot { slots: self.clone() })
    }

    /// A slot without asking the gate: when everybody may begin, one is free, and nobody waits for it.
    pub fn take_unasked(self: &Arc<Self>) -> Option<Slot> {
        let unasked = self.open.load(Ordering::SeqCst) && self.waiting.load(Ordering::SeqCst) == 0;
        unasked.then(|| self.take()).flatten()
    }

    /// Slots in use.
    pub fn in_use(&self) -> usize {
        self.in_use.load(Ordering::SeqCst)
    }

    /// How many wait at the gate.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Sets how many wait at the gate.
    pub fn set_waiting(&self, waiting: usize) {
        self.waiting.store(waiting, Ordering::SeqCst);
    }

    /// Sets whether slots may be taken without asking the gate.
    pub fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::SeqCst);
    }
}

/// Leave to run one pass. Dropping it gives it back, wherever that happens.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.in_use.fetch_sub(1, Ordering::SeqCst);
    }
}
