//! When something is looked at again and again: at times that follow from its uid and the wall clock alone, so that a
//! restart knows them and the objects of a cluster are spread evenly.

use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

/// How far behind the multiples of `interval` the times of the object with this uid lie: less than `interval`, in whole
/// milliseconds.
pub fn phase(uid: &str, interval: Duration) -> Duration {
    let hash = Sha256::digest(uid.as_bytes());
    let number = hash.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    Duration::from_millis(number % millis(interval).unsigned_abs())
}

/// The first time of the object with this uid that is later than `after`, at most one interval later.
///
/// An interval of less than a millisecond counts as one.
pub fn next_time(uid: &str, after: Timestamp, interval: Duration) -> Timestamp {
    let interval_millis = millis(interval);
    let phase = i64::try_from(phase(uid, interval).as_millis()).unwrap_or_default();
    let after = after.as_millisecond();
    let wait = (phase - after).rem_euclid(interval_millis);
    let wait = if wait == 0 { interval_millis } else { wait };
    Timestamp::from_millisecond(after.saturating_add(wait)).unwrap_or(Timestamp::MAX)
}

fn millis(interval: Duration) -> i64 {
    i64::try_from(interval.as_millis()).unwrap_or(i64::MAX).max(1)
}
