//! Who may lead: one process at a time, by a Lease.
//!
//! No clock is compared with another machine's. A holder is believed dead when its Lease did not change for as long as
//! the Lease says, counted from when this process saw it change last; the holder itself stops earlier, counted from when
//! it sent the last renewal that was answered.

use std::time::Duration;

use crate::overlay::Moment;

/// How long things take, set once at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// How long a Lease that is not renewed keeps others out.
    pub duration: Duration,
    /// How long a holder works on after its last renewal; shorter than `duration`.
    pub renew_deadline: Duration,
    /// Pause between two looks, and between two renewals.
    pub retry_period: Duration,
}

impl LeaseTimes {
    /// What is wrong with these times, in one sentence.
    ///
    /// # Errors
    /// When a holder could work on while another begins, or has no second try to renew.
    pub fn check(&self) -> Result<(), String> {
        let Self { duration, renew_deadline, retry_period } = self;
        if renew_deadline >= duration {
            return Err(format!(
                "--lease-renew-deadline {renew_deadline:?} must be shorter than --lease-duration {duration:?}: \
                 the holder stops before another begins"
            ));
        }
        if *retry_period * 2 > *renew_deadline {
            return Err(format!(
                "--lease-retry-period {retry_period:?} must be at most half of --lease-renew-deadline \
                 {renew_deadline:?}: one renewal may fail"
            ));
        }
        Ok(())
    }
}

/// A Lease as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenLease {
    /// Who holds it; empty when it was given up.
    pub holder: String,
    /// Its version: another one means that somebody renewed it.
    pub version: String,
    /// How long it keeps others out, by its holder's word.
    pub duration: Duration,
    /// Whether whoever gave it up had an answer to everything that it wrote.
    pub clean: bool,
}

/// What a process that wants to lead does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStep {
    /// There is no Lease: create one.
    Create,
    /// Write oneself into it, provided that it is still as it was read.
    Take {
        /// Nothing of an earlier holder can land any more.
        clean: bool,
    },
    /// Look again after this long.
    Wait(Duration),
}

/// Watches the Lease of somebody else.
#[derive(Clone, Debug, Default)]
pub struct Candidate {
    seen: Option<Holder>,
}

/// What was last seen of a Lease that somebody held.
#[derive(Clone, Debug)]
struct Holder {
    version: String,
    duration: Duration,
    /// When this version was first seen.
    since: Moment,
    /// When it was last seen.
    looked: Moment,
}

impl Candidate {
    /// Decides by the Lease as it was read at `now`.
    pub fn next(&mut self, read: Option<SeenLease>, now: Moment, times: &LeaseTimes) -> LeaseStep {
        let Some(read) = read else {
            // Somebody deleted it; its holder works on for a while all the same.
            let left = self.seen.as_ref().map(|seen| (seen.looked + seen.duration).saturating_sub(now));
            return match left.filter(|left| !left.is_zero()) {
                Some(left) => LeaseStep::Wait(left.min(times.retry_period)),
                None => LeaseStep::Create,
            };
        };
        if read.holder.is_empty() {
            return LeaseStep::Take { clean: read.clean };
        }
        let since = match &self.seen {
            Some(seen) if seen.version == read.version => seen.since,
            _ => now,
        };
        // A holder that does not say how long is given as long as one that runs with these times.
        let duration = if read.duration.is_zero() { times.duration } else { read.duration };
        self.seen = Some(Holder { version: read.version, duration, since, looked: now });
        let left = (since + duration).saturating_sub(now);
        if left.is_zero() {
            LeaseStep::Take { clean: false }
        } else {
            LeaseStep::Wait(left.min(times.retry_period))
        }
    }
}
