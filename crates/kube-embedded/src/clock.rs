//! Where the server takes the time of day from.

use jiff::Timestamp;

/// A source of wall time.
///
/// The server asks it for `creationTimestamp`, `deletionTimestamp`, conditions and the age columns of tables, and never
/// looks at the machine's clock by itself.
pub trait Clock: Send + Sync + 'static {
    /// The time of day.
    fn now(&self) -> Timestamp;
}

/// The machine's clock; what a server uses when its builder is given no other.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this type is the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// An epoch plus the time that passed on tokio's clock since the value was made.
///
/// Under `tokio::time::pause` it stands still with the rest of the program and moves with `tokio::time::advance`.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    epoch: Timestamp,
    start: tokio::time::Instant,
}

impl TokioClock {
    /// A clock that shows `epoch` now. Make it inside the runtime whose clock it is to follow.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, start: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.epoch.saturating_add(self.start.elapsed()).unwrap_or(self.epoch)
    }
}

/// RFC 3339 in whole seconds, as `metav1.Time` is written.
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
