//! The gate: how many passes run at once, and in which order actors get their turn.
//!
//! Kinds take turns, so that ten thousand Targets do not keep one RenderArtifact waiting; within a kind the first come
//! is served first. The gate is closed to a kind until the cache holds everything that the kind needs: before that, absence
//! proves nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, AsyncContext, Context, Handler};
use solar_core::routes::{ActorKey, ActorKind};

use super::directory::Undelivered;
use super::supervision;
use super::system::Shared;
use crate::messages::gate::{
    Close, CountBusy, Enter, GateSnapshot, GetGateSnapshot, Open, SlotReturned, Slots,
};

/// Every object actor has at most one [`Enter`] and a few [`SlotReturned`] under way, and a process holds far fewer than
/// half a million actors; an actor that finds the box full tries again.
const MAILBOX: usize = 1 << 20;

/// How soon an actor is told again that had no room.
const FULL_AGAIN: Duration = Duration::from_millis(50);

/// The gate.
pub struct Gate {
    shared: Arc<Shared>,
    slots: Arc<Slots>,
    open: BTreeSet<ActorKind>,
    closed: bool,
    queues: BTreeMap<ActorKind, VecDeque<ActorKey>>,
    last: Option<ActorKind>,
    /// Actors that had no room to be told that it is their turn.
    full: Vec<ActorKey>,
}

impl Gate {
    /// A closed gate.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            slots: shared.slots.clone(),
            shared,
            open: BTreeSet::new(),
            closed: false,
            queues: BTreeMap::new(),
            last: None,
            full: Vec::new(),
        }
    }

    fn admit(&mut self) {
        // Told before a slot is looked for: whoever gives one back from now on sends word of it.
        self.slots.set_waiting(self.waiting());
        while !self.closed && self.waiting() > 0 {
            let Some(slot) = self.slots.take() else { break };
            let Some(key) = self.next() else { break };
            if let Some(addr) = self.shared.directory.find(&key)
                && let Err((Undelivered::Full, _slot)) = addr.open_gate(slot)
            {
                // It waits for its turn and will not ask again.
                self.full.push(key);
            }
            // A slot that was not taken has come back by being dropped.
        }
        self.slots.set_waiting(self.waiting());
    }

    /// How many of the open kinds wait.
    fn waiting(&self) -> usize {
        let open = self.queues.iter().filter(|(kind, _)| self.open.contains(kind));
        open.map(|(_, queue)| queue.len()).sum()
    }

    /// Lets those in again later whose mailboxes were full.
    fn try_full_again(&mut self, ctx: &mut Context<Self>) {
        let full = std::mem::take(&mut self.full);
        if full.is_empty() {
            return;
        }
        ctx.run_later(FULL_AGAIN, move |gate, ctx| {
            gate.guarded(ctx, "those that were full", |gate| {
                for key in full {
                    gate.queues.entry(key.kind).or_default().push_back(key);
                }
                gate.admit();
            });
        });
    }

    /// The first of the next open kind behind the one that was served last.
    fn next(&mut self) -> Option<ActorKey> {
        let open = |kind: &&ActorKind| self.open.contains(kind);
        let after = self.last.and_then(|last| {
            self.queues.range((Bound::Excluded(last), Bound::Unbounded)).map(|(kind, _)| kind).find(open)
        });
        let kind = *after.or_else(|| self.queues.keys().find(open))?;
        self.last = Some(kind);
        let queue = self.queues.get_mut(&kind)?;
        let key = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&kind);
        }
        key
    }
}

impl Actor for Gate {
    type Context = Context<Self>;
}

impl Gate {
    fn guarded<T: Default>(
        &mut self,
        ctx: &mut Context<Self>,
        message: &str,
        handle: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let shared = self.shared.clone();
        supervision::guard_critical(&shared, "the gate", message, self, ctx, |gate, ctx| {
            let handled = handle(gate);
            gate.try_full_again(ctx);
            handled
        })
    }

    /// How much mail the gate holds.
    pub const fn mailbox() -> usize {
        MAILBOX
    }
}

impl Handler<Enter> for Gate {
    type Result = ();

    fn handle(&mut self, enter: Enter, ctx: &mut Context<Self>) {
        self.guarded(ctx, "an actor that wants in", |gate| {
            gate.queues.entry(enter.key.kind).or_default().push_back(enter.key);
            gate.admit();
        });
    }
}

impl Handler<SlotReturned> for Gate {
    type Result = ();

    fn handle(&mut self, _: SlotReturned, ctx: &mut Context<Self>) {
        self.guarded(ctx, "a slot that came back", Self::admit);
    }
}

impl Handler<Open> for Gate {
    type Result = ();

    fn handle(&mut self, open: Open, ctx: &mut Context<Self>) {
        self.guarded(ctx, "its opening", |gate| {
            gate.open.extend(open.kinds);
            gate.slots.set_open(open.all && !gate.closed);
            gate.admit();
        });
    }
}

impl Handler<CountBusy> for Gate {
    type Result = usize;

    fn handle(&mut self, _: CountBusy, ctx: &mut Context<Self>) -> usize {
        self.guarded(ctx, "a count", |gate| gate.slots.in_use() + gate.waiting() + gate.full.len())
    }
}

impl Handler<Close> for Gate {
    type Result = usize;

    fn handle(&mut self, _: Close, ctx: &mut Context<Self>) -> usize {
        self.guarded(ctx, "its closing", |gate| {
            gate.closed = true;
            gate.slots.set_open(false);
            gate.slots.in_use()
        })
    }
}

impl Handler<GetGateSnapshot> for Gate {
    type Result = GateSnapshot;

    fn handle(&mut self, _: GetGateSnapshot, _: &mut Context<Self>) -> GateSnapshot {
        GateSnapshot {
            open: !self.closed && !self.open.is_empty(),
            slots: self.shared.options.max_concurrent_reconciles,
            in_use: self.slots.in_use(),
            queued: self.queues.values().map(VecDeque::len).sum(),
        }
    }
}
