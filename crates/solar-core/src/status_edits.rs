//! When a status that somebody else wrote is put right: at once, and ever later when somebody keeps writing it.

use std::time::Duration;

use crate::backoff;
use crate::overlay::Moment;

/// Wait after the first edit, before another is looked at.
const BASE: Duration = Duration::from_secs(1);
/// The longest such wait; an object that was left alone for as long behind it begins anew.
const CAP: Duration = Duration::from_secs(300);

/// What one object's actor knows of the versions of its status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusEdits {
    /// The newest version of the object that a pass has looked at, or that its actor wrote.
    known: u64,
    /// Edits in a row that were looked at.
    in_a_row: u32,
    /// No look only for the sake of an edit before this.
    earliest: Moment,
}

/// Whether an edit is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditLook {
    /// There is none that is not known.
    NotNeeded,
    /// Now.
    Now,
    /// Then.
    At(Moment),
}

impl StatusEdits {
    /// The actor itself wrote `version` of the object.
    pub fn wrote(&mut self, version: u64) {
        self.known = self.known.max(version);
    }

    /// Whether a pass is needed for the status that `version` of the object shows.
    pub fn look(&self, version: u64, now: Moment) -> EditLook {
        if version <= self.known {
            EditLook::NotNeeded
        } else if now < self.earliest {
            EditLook::At(self.earliest)
        } else {
            EditLook::Now
        }
    }

    /// A pass begins, for whatever cause, which sees at least `version`. `jitter` is between 0 and 1, and is asked for
    /// where that is an edit.
    pub fn pass_begins(&mut self, version: u64, now: Moment, jitter: impl FnOnce() -> f64) {
        if version <= self.known {
            return;
        }
        if now >= self.earliest + CAP {
            self.in_a_row = 0;
        }
        self.earliest = now + backoff::delay(self.in_a_row, BASE, CAP, jitter());
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.known = version;
    }
}
