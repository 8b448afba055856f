//! The token bucket of availability checks: 10 per second, 20 at once after a rest. The numbers are fixed, for they are
//! what registries are promised.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock as GovernorClock;
use governor::middleware::StateInformationMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use super::clock::Clock;

/// Tokens each second.
pub const PER_SECOND: u32 = 10;
/// Tokens of a full bucket.
pub const BURST: u32 = 20;
/// Time from one token to the next.
pub const PACE: Duration = Duration::from_millis(1_000 / PER_SECOND as u64);

/// governor's clock on the controller's own, so that it stands still when time is paused.
#[derive(Clone, Copy, Debug)]
struct MonotonicClock(Clock);

impl GovernorClock for MonotonicClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A bucket with a single taker.
#[derive(Debug)]
pub struct TokenBucket {
    clock: Clock,
    limiter: RateLimiter<NotKeyed, InMemoryState, MonotonicClock, StateInformationMiddleware>,
    /// Tokens left when one was last taken, and when that was.
    left: (u32, Duration),
}

impl TokenBucket {
    /// A full bucket by `clock`.
    pub fn new(clock: Clock) -> Self {
        const RATE: NonZeroU32 = NonZeroU32::new(PER_SECOND).unwrap();
        const FULL: NonZeroU32 = NonZeroU32::new(BURST).unwrap();
        let quota = Quota::per_second(RATE).allow_burst(FULL);
        let limiter = RateLimiter::direct_with_clock(quota, MonotonicClock(clock)).with_middleware();
        Self { clock, limiter, left: (BURST, clock.elapsed()) }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// How long it is until there is one.
    pub fn take(&mut self) -> Result<(), Duration> {
        let now = self.clock.elapsed();
        match self.limiter.check() {
            Ok(state) => {
                self.left = (state.remaining_burst_capacity(), now);
                Ok(())
            }
            // Never zero: a wait of nothing would be tried again for ever at one moment.
            Err(denied) => Err(denied.wait_time_from(now).max(Duration::from_millis(1))),
        }
    }

    /// Tokens that are free now.
    pub fn tokens(&self) -> u32 {
        let (left, at) = self.left;
        let since = self.clock.elapsed().saturating_sub(at);
        let come = u32::try_from(since.as_nanos() / PACE.as_nanos()).unwrap_or(u32::MAX);
        left.saturating_add(come).min(BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bucket: &mut TokenBucket) -> u32 {
        let mut taken = 0;
        while bucket.take().is_ok() {
            taken += 1;
        }
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn twenty_at_once_then_one_each_tenth_of_a_second_and_never_more_than_twenty() {
        let mut bucket = TokenBucket::new(Clock::machine());
        assert_eq!((bucket.tokens(), taken(&mut bucket), bucket.tokens()), (20, 20, 0));
        assert_eq!(bucket.take(), Err(Duration::from_millis(100)));
        for _ in 0..3 {
            tokio::time::advance(Duration::from_millis(100)).await;
            assert_eq!((bucket.tokens(), taken(&mut bucket)), (1, 1));
        }
        tokio::time::advance(Duration::from_millis(550)).await;
        assert_eq!((bucket.tokens(), taken(&mut bucket)), (5, 5));
        assert_eq!(bucket.take(), Err(Duration::from_millis(50)));
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!((bucket.tokens(), taken(&mut bucket)), (20, 20));
    }
}
