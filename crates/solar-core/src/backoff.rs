//! How long to wait after a failure.

use std::time::Duration;

use jiff::Timestamp;

/// The part of a delay that jitter takes off at most.
const JITTER: f64 = 0.25;

/// The wait before attempt number `attempt` + 1, where `attempt` counts the failures so far, from 0.
///
/// `base` doubled for each failure, at most `cap`, less up to a quarter by `jitter`, which is taken between 0 and 1.
pub fn delay(attempt: u32, base: Duration, cap: Duration, jitter: f64) -> Duration {
    doubled(attempt, base, cap).mul_f64(1.0 - JITTER * fraction(jitter))
}

fn doubled(times: u32, base: Duration, cap: Duration) -> Duration {
    let factor = 1_u32.checked_shl(times).unwrap_or(u32::MAX);
    base.saturating_mul(factor).min(cap)
}

/// The wait until the next look at something that has been missing `since`.
///
/// Looks are due `base` after `since`, and then each time after twice the wait before, at most `cap`; so the wait depends
/// on nothing but the times, and a restart changes nothing. `jitter` between 0 and 1 puts it off by up to a quarter.
pub fn until_next_look(
    since: Timestamp,
    now: Timestamp,
    base: Duration,
    cap: Duration,
    jitter: f64,
) -> Duration {
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO);
    // A base of zero would never pass any time.
    let base = base.max(Duration::from_millis(1));
    let (mut due, mut step, mut times) = (base, base, 0);
    while due <= elapsed && step < cap {
        times += 1;
        step = doubled(times, base, cap);
        due = due.saturating_add(step);
    }
    if due <= elapsed {
        let step_nanos = step.as_nanos().max(1);
        let over = elapsed.saturating_sub(due).as_nanos() % step_nanos;
        due = elapsed
            .saturating_add(Duration::from_nanos(u64::try_from(step_nanos - over).unwrap_or(u64::MAX)));
    }
    due.saturating_sub(elapsed).saturating_add(step.mul_f64(JITTER * fraction(jitter)))
}

fn fraction(jitter: f64) -> f64 {
    if jitter.is_nan() { 0.0 } else { jitter.clamp(0.0, 1.0) }
}
