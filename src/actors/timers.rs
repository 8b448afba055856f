//! One queue for all timers: an actor's next look survives its restart and its rest, and an idle object costs none.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use solar_core::routes::ActorKey;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::system::Shared;
use crate::messages::object::Cause;

/// No timer is set further ahead; whoever wants more looks again and waits once more.
const FARTHEST: Duration = Duration::from_secs(24 * 3600);

/// Questions whether an actor may rest that are out at once: enough to keep the actors' threads awake, and few beside the
/// thousands of actors that become idle together.
const ASKED_AT_ONCE: usize = 64;

/// When each actor looks again by itself: at most one time for each.
#[derive(Debug, Default)]
pub struct TimerQueue {
    due: Mutex<Due>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Due {
    order: BTreeSet<(Instant, ActorKey)>,
    // For lookups by key only; nothing is taken out of it in its own order.
    times: HashMap<ActorKey, Instant>,
}

impl TimerQueue {
    /// Sets the one timer of `key`; `None` takes it away.
    pub fn set(&self, key: &ActorKey, at: Option<Instant>) {
        let mut due = self.lock();
        if let Some(before) = due.times.remove(key) {
            due.order.remove(&(before, key.clone()));
        }
        if let Some(at) = at {
            let at = at.min(Instant::now() + FARTHEST);
            due.times.insert(key.clone(), at);
            due.order.insert((at, key.clone()));
            if due.order.first().is_some_and(|(first, first_key)| *first == at && first_key == key) {
                self.changed.notify_one();
            }
        }
    }

    /// How many timers are set.
    pub fn len(&self) -> usize {
        self.lock().order.len()
    }

    /// Whether no timer is set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for the next times that come, and takes them away with their keys.
    async fn next_due(&self) -> Vec<ActorKey> {
        loop {
            let changed = self.changed.notified();
            match self.first() {
                None => changed.await,
                Some(at) => {
                    tokio::select! {
                        biased;
                        () = tokio::time::sleep_until(at) => {}
                        () = changed => {}
                    }
                }
            }
            let due = self.take_due(Instant::now());
            if !due.is_empty() {
                return due;
            }
        }
    }

    fn first(&self) -> Option<Instant> {
        self.lock().order.first().map(|(at, _)| *at)
    }

    fn take_due(&self, now: Instant) -> Vec<ActorKey> {
        let mut due = self.lock();
        let mut keys = Vec::new();
        while let Some((_, key)) = due.order.first().filter(|(at, _)| *at <= now).cloned() {
            if let Some(at) = due.times.remove(&key) {
                due.order.remove(&(at, key.clone()));
            }
            keys.push(key);
        }
        // A crowd that is gone leaves room for as many.
        let wanted = 2 * due.times.len();
        if due.times.capacity() > 2 * wanted + 1_000 {
            due.times.shrink_to(wanted);
        }
        keys
    }

    fn lock(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes whoever is due, for ever.
pub async fn wake_due(shared: Arc<Shared>) {
    loop {
        for key in shared.timers.next_due().await {
            shared.wake(&key, Cause::Timer);
        }
    }
}

/// Asks each actor that has done nothing for a while whether it may rest, for ever.
pub async fn offer_rests(shared: Arc<Shared>) {
    loop {
        let due = shared.rests.next_due().await;
        stream::iter(due).for_each_concurrent(ASKED_AT_ONCE, |key| shared.ask_to_go(key)).await;
        shared.directory.give_back();
    }
}
