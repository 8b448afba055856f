//! Faults by chance, from a seed.

use std::{sync::Arc, time::Duration};

use crate::{
    faults::{Fault, WatchFault},
    request::{RequestInfo, Verb},
};

/// How often which fault strikes: in how many of 1,000 requests of those that it can concern.
///
/// All are 0 unless set. The errors are tried in the order of the fields, and a request is struck by the first that hits.
/// What is left of the lists may be stale, and of all but watches late. What is left of the watches can have several of
/// the faults that begin with `watch` at once, but is not both cut and ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// Only requests of this actor are struck; of all if `None`.
    pub actor: Option<Arc<str>>,
    /// 409 for updates, patches and deletions.
    pub conflict: u32,
    /// 410 for lists and watches.
    pub gone: u32,
    /// 429 with `Retry-After: 1`.
    pub too_many_requests: u32,
    /// 500.
    pub internal: u32,
    /// 503.
    pub unavailable: u32,
    /// 504, and nothing is done.
    pub timed_out: u32,
    /// 504 for a write that is carried out.
    pub timed_out_after: u32,
    /// The answer of a write is lost.
    pub lose_answer: u32,
    /// The connection is refused.
    pub refuse: u32,
    /// A request that is no watch takes some time, up to [`Self::longest_delay`].
    pub delay: u32,
    /// A list shows up to ten revisions ago.
    pub stale_list: u32,
    /// A watch breaks after one to eight events.
    pub watch_cut: u32,
    /// A watch ends with 410 after one to eight events.
    pub watch_gone: u32,
    /// The events of a watch are late, up to [`Self::longest_delay`].
    pub watch_delay: u32,
    /// A watch repeats up to four events where it resumes.
    pub watch_repeat: u32,
    /// A watch sends no bookmarks.
    pub watch_without_bookmarks: u32,
    /// The longest delay, in whole milliseconds.
    pub longest_delay: Duration,
}

impl FaultRates {
    /// Every fault now and then: `rate` in 1,000, with delays of up to a second.
    pub fn all(rate: u32) -> Self {
        Self {
            actor: None,
            conflict: rate,
            gone: rate,
            too_many_requests: rate,
            internal: rate,
            unavailable: rate,
            timed_out: rate,
            timed_out_after: rate,
            lose_answer: rate,
            refuse: rate,
            delay: rate,
            stale_list: rate,
            watch_cut: rate,
            watch_gone: rate,
            watch_delay: rate,
            watch_repeat: rate,
            watch_without_bookmarks: rate,
            longest_delay: Duration::from_secs(1),
        }
    }
}

/// A rate, whether the fault fits the request, and the fault.
type Draw = (u32, bool, fn() -> Fault);

/// A generator and what it draws.
#[derive(Debug, Clone)]
pub(crate) struct RandomFaults {
    rng: fastrand::Rng,
    rates: FaultRates,
}

impl RandomFaults {
    pub fn new(seed: u64, rates: FaultRates) -> Self {
        Self { rng: fastrand::Rng::with_seed(seed), rates }
    }

    /// Draws for one request; paths that are no resource are left alone.
    pub fn strike(&mut self, info: &RequestInfo) -> Fault {
        let concerned = self.rates.actor.as_ref().is_none_or(|a| *a == info.actor);
        if info.resource.is_empty() || !concerned {
            return Fault::None;
        }
        let rates = self.rates.clone();
        let changes = matches!(info.verb, Verb::Update | Verb::Patch | Verb::Delete);
        let many = matches!(info.verb, Verb::List | Verb::Watch);
        let write = info.verb.is_write();
        let plain: [Draw; 9] = [
            (rates.conflict, changes, Fault::conflict),
            (rates.gone, many, Fault::gone),
            (rates.too_many_requests, true, || Fault::too_many_requests(1)),
            (rates.internal, true, Fault::internal),
            (rates.unavailable, true, Fault::unavailable),
            (rates.timed_out, true, Fault::timed_out),
            (rates.timed_out_after, write, || Fault::TimeOutAfter),
            (rates.lose_answer, write, || Fault::LoseAnswer),
            (rates.refuse, true, || Fault::Refuse),
        ];
        for (rate, fits, fault) in plain {
            if fits && self.hits(rate) {
                return fault();
            }
        }
        if info.verb == Verb::List && self.hits(rates.stale_list) {
            return Fault::StaleList(self.rng.u64(1..=10));
        }
        if info.verb == Verb::Watch {
            return self.watch_fault(&rates);
        }
        if self.hits(rates.delay) { Fault::Delay(self.delay()) } else { Fault::None }
    }

    fn watch_fault(&mut self, rates: &FaultRates) -> Fault {
        let mut fault = WatchFault::default();
        if self.hits(rates.watch_cut) {
            fault.cut_after = Some(self.rng.usize(1..=8));
        } else if self.hits(rates.watch_gone) {
            (fault.cut_after, fault.gone) = (Some(self.rng.usize(1..=8)), true);
        }
        if self.hits(rates.watch_delay) {
            fault.delay = Some(self.delay());
        }
        if self.hits(rates.watch_repeat) {
            fault.repeat = self.rng.usize(1..=4);
        }
        fault.withhold_bookmarks = self.hits(rates.watch_without_bookmarks);
        if fault == WatchFault::default() { Fault::None } else { Fault::Watch(fault) }
    }

    fn hits(&mut self, rate: u32) -> bool {
        rate > 0 && self.rng.u32(0..1_000) < rate
    }

    fn delay(&mut self) -> Duration {
        let longest = u64::try_from(self.rates.longest_delay.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.rng.u64(0..=longest))
    }
}
