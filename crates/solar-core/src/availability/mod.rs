//! Whether the component descriptor of a ComponentVersion is in its registry.
//!
//! [`subject`] says what there is to look for, [`next`] what a version's actor does next, [`judge`] what the result of a
//! check means for the condition `Available`, [`next_time`](crate::schedule::next_time) when the next check is due, and [`Turns`] whose check is
//! begun next.

mod subject;
mod table;
mod turns;
mod version;

use std::time::Duration;

use jiff::Timestamp;

use crate::overlay::Moment;

pub use subject::{Subject, subject};
pub use table::{Finding, Judged, judge};
pub use turns::{Lane, Turn, Turns};
pub use version::{Checked, Memory, Step, next};

/// How versions are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvailabilityOptions {
    /// How often each version is checked.
    pub interval: Duration,
    /// How long a descriptor must be missing before its version turns red.
    pub grace: Duration,
}

/// One moment by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Time since the process started, which never jumps.
    pub moment: Moment,
    /// When this process began to do the work: what it stood by before is no time in which it saw to anything.
    pub began: Moment,
    /// Wall time, to the fraction of a second.
    pub wall: Timestamp,
}
