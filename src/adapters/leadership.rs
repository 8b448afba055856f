//! Whether this process may write: always, or while its lease is valid.
//!
//! Everything that writes asks here, before it begins and each time it goes on. A process that was stopped and wakes up
//! later than its lease allows finds the lease over before it sends another byte.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Nothing may be written: the lease is not held, or over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not lead any more, and writes nothing")]
pub struct NotLeading;

/// The right to write. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Leadership {
    lease: Option<Arc<Lease>>,
}

#[derive(Debug)]
struct Lease {
    began: Instant,
    uptime: fn() -> Duration,
    began_uptime: Duration,
    /// Milliseconds after `began` until which the lease is valid.
    valid_until: AtomicU64,
    /// It was lost or given up; whatever is heard of it afterwards.
    revoked: AtomicBool,
    /// Wakes those who work until the lease is over.
    told: Notify,
}

impl Lease {
    /// Time since `began`, by the clock that went further: a machine that slept has slept through its lease. Neither
    /// clock is ever set, so this never goes back.
    fn elapsed(&self) -> Duration {
        self.began.elapsed().max((self.uptime)().saturating_sub(self.began_uptime))
    }
}

/// Time since the machine was started, that in which it slept included.
fn uptime() -> Duration {
    // Elsewhere the monotonic clock is the one that goes on while a machine sleeps.
    let clock = if cfg!(target_os = "linux") { ClockId::Boottime } else { ClockId::Monotonic };
    clock_gettime(clock).try_into().unwrap_or_default()
}

impl Leadership {
    /// Of a process that is alone.
    pub fn always() -> Self {
        Self { lease: None }
    }

    /// Of a process that has to hold a lease, and does not yet.
    pub fn leased() -> Self {
        Self::leased_by(uptime)
    }

    fn leased_by(uptime: fn() -> Duration) -> Self {
        Self {
            lease: Some(Arc::new(Lease {
                began: Instant::now(),
                uptime,
                began_uptime: uptime(),
                valid_until: AtomicU64::new(0),
                revoked: AtomicBool::new(false),
                told: Notify::new(),
            })),
        }
    }

    /// A point of time to count from, before a renewal is sent; `None` where there is no lease.
    pub fn mark(&self) -> Option<Duration> {
        self.lease.as_ref().map(|lease| lease.elapsed())
    }

    /// The lease is valid for `time` from `mark` on; an earlier end than the one that is known is ignored.
    pub fn extend(&self, mark: Option<Duration>, time: Duration) {
        if let (Some(lease), Some(mark)) = (&self.lease, mark) {
            let until = (mark + time).as_millis();
            lease.valid_until.fetch_max(u64::try_from(until).unwrap_or(u64::MAX), Ordering::AcqRel);
        }
    }

    /// The lease is over, for good.
    pub fn revoke(&self) {
        if let Some(lease) = &self.lease {
            lease.revoked.store(true, Ordering::Release);
            lease.told.notify_waiters();
        }
    }

    /// How long the lease is still valid; `None`: for ever.
    pub fn left(&self) -> Option<Duration> {
        let lease = self.lease.as_ref()?;
        if lease.revoked.load(Ordering::Acquire) {
            return Some(Duration::ZERO);
        }
        let until = Duration::from_millis(lease.valid_until.load(Ordering::Acquire));
        Some(until.saturating_sub(lease.elapsed()))
    }

    /// Whether writing is allowed now.
    pub fn is_valid(&self) -> bool {
        self.left().is_none_or(|left| !left.is_zero())
    }

    /// Carries out `work` for as long as writing is allowed; it is dropped when that ends.
    pub async fn while_valid<T>(&self, work: impl Future<Output = T>) -> Result<T, NotLeading> {
        if self.lease.is_none() {
            return Ok(work.await);
        }
        let (mut work, mut over) = (pin!(work), pin!(self.over()));
        poll_fn(|context| {
            if !self.is_valid() {
                return Poll::Ready(Err(NotLeading));
            }
            match work.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Ok(done)),
                Poll::Pending => over.as_mut().poll(context).map(|()| Err(NotLeading)),
            }
        })
        .await
    }

    /// Ready when the lease is over.
    pub async fn over(&self) {
        let Some(lease) = &self.lease else { return std::future::pending().await };
        let mut told = pin!(lease.told.notified());
        told.as_mut().enable();
        while let Some(left) = self.left().filter(|left| !left.is_zero()) {
            tokio::select! {
                biased;
                () = told.as_mut() => return,
                () = tokio::time::sleep(left) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn hold(lead: &Leadership, seconds: u64) {
        lead.extend(lead.mark(), Duration::from_secs(seconds));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_revoked_is_over_whatever_comes_afterwards() {
        let lead = Leadership::leased();
        hold(&lead, 10);
        assert!(lead.is_valid());
        lead.revoke();
        hold(&lead, 10);
        assert!(!lead.is_valid());
        assert_eq!(lead.while_valid(async { 1 }).await, Err(NotLeading));
        lead.over().await;
    }

    #[tokio::test(start_paused = true)]
    async fn work_in_the_middle_is_dropped_at_once_when_the_lease_is_revoked() {
        let lead = Leadership::leased();
        hold(&lead, 10);
        let began = Instant::now();
        let revoke = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            lead.revoke();
        };
        let endless = lead.while_valid(std::future::pending::<()>());
        assert_eq!(tokio::join!(endless, revoke).0, Err(NotLeading));
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }

    thread_local! {
        static SLEPT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_slept_has_slept_through_its_lease() {
        let lead = Leadership::leased_by(|| SLEPT.get());
        hold(&lead, 10);
        SLEPT.set(Duration::from_secs(9));
        assert!(lead.is_valid());
        SLEPT.set(Duration::from_secs(10));
        assert!(!lead.is_valid());
        assert_eq!(lead.while_valid(async { 1 }).await, Err(NotLeading));
        hold(&lead, 10);
        assert!(lead.is_valid(), "counted from when it was renewed");
    }

    #[test]
    fn the_machine_tells_how_long_it_has_been_up() {
        assert!(uptime() > Duration::ZERO && uptime() <= uptime());
    }

    #[tokio::test(start_paused = true)]
    async fn work_goes_on_while_the_lease_is_renewed_and_is_dropped_when_it_is_over() {
        let lead = Leadership::leased();
        assert_eq!(lead.while_valid(async { 1 }).await, Err(NotLeading), "it was never held");
        hold(&lead, 10);
        hold(&lead, 5);
        assert!(lead.left().unwrap() > Duration::from_secs(9), "a late answer to an earlier renewal");
        let slow = async {
            tokio::time::sleep(Duration::from_secs(15)).await;
            2
        };
        let renew = async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            hold(&lead, 10);
        };
        assert_eq!(tokio::join!(lead.while_valid(slow), renew).0, Ok(2));
        let steps = Cell::new(0);
        let endless = async {
            loop {
                tokio::time::sleep(Duration::from_millis(1_500)).await;
                steps.set(steps.get() + 1);
            }
        };
        assert_eq!(lead.while_valid::<()>(endless).await, Err(NotLeading));
        assert_eq!(steps.get(), 2, "of the 4 s that were left");
    }

    #[tokio::test(start_paused = true)]
    async fn what_wakes_up_too_late_does_not_go_on_even_once() {
        let lead = Leadership::leased();
        hold(&lead, 10);
        let went_on = Cell::new(false);
        let work = async {
            tokio::task::yield_now().await;
            went_on.set(true);
        };
        let mut work = pin!(lead.while_valid(work));
        assert!(poll_fn(|context| Poll::Ready(work.as_mut().poll(context).is_pending())).await);
        // The process stands still while the clock goes on.
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(work.await, Err(NotLeading));
        assert!(!went_on.get());
    }

    #[tokio::test]
    async fn a_process_that_is_alone_always_writes() {
        let lead = Leadership::always();
        assert!(lead.is_valid() && lead.left().is_none());
        assert_eq!(lead.while_valid(async { 1 }).await, Ok(1));
    }
}
