//! How many looks and clean-ups wait for one registry at once: a host that hangs holds up its own only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Slots by host. A host that nobody waits for takes no room.
#[derive(Debug)]
pub struct ErrandSlots {
    per_host: usize,
    hosts: Mutex<BTreeMap<Box<str>, Weak<Semaphore>>>,
}

/// A slot, free again when it is dropped.
#[derive(Debug)]
pub struct ErrandSlot {
    // In this order: the permit is given back before the host may be forgotten.
    _permit: Option<OwnedSemaphorePermit>,
    _host: Arc<Semaphore>,
}

impl ErrandSlots {
    /// `per_host` slots for each host, at least one.
    pub fn new(per_host: usize) -> Self {
        Self { per_host: per_host.max(1), hosts: Mutex::default() }
    }

    /// Waits for a slot of `host`.
    pub async fn take(&self, host: &str) -> ErrandSlot {
        let semaphore = self.of(host);
        // The semaphore is never closed.
        let permit = semaphore.clone().acquire_owned().await.ok();
        ErrandSlot { _permit: permit, _host: semaphore }
    }

    fn of(&self, host: &str) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(semaphore) = hosts.get(host).and_then(Weak::upgrade) {
            return semaphore;
        }
        hosts.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(self.per_host));
        hosts.insert(host.into(), Arc::downgrade(&semaphore));
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_host_that_is_full_holds_up_no_other_and_is_forgotten_when_idle() {
        let slots = ErrandSlots::new(1);
        let held = slots.take("hangs").await;
        assert!(slots.take("hangs").now_or_never().is_none());
        let other = slots.take("answers").now_or_never();
        assert!(other.is_some());
        drop((held, other));
        assert!(slots.take("hangs").now_or_never().is_some());
        drop(slots.take("third").await);
        assert!(slots.hosts.lock().unwrap().len() <= 2, "{slots:?}");
    }
}
