//! The clock port: monotonic time is tokio's, so that it stands still when a test pauses it.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Where wall time comes from.
#[derive(Clone, Copy, Debug)]
enum Wall {
    /// The machine's clock.
    Machine,
    /// An epoch plus the time since the clock was made.
    Since(Timestamp),
}

/// Tells monotonic and wall time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    wall: Wall,
}

impl Clock {
    /// The machine's clock.
    pub fn machine() -> Self {
        Self { start: Instant::now(), wall: Wall::Machine }
    }

    /// A clock that begins at `epoch` and advances with tokio's time: the same run shows the same times.
    pub fn simulated(epoch: Timestamp) -> Self {
        Self { start: Instant::now(), wall: Wall::Since(epoch) }
    }

    /// Time since the clock was made; never jumps.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// The instant `moment` after the clock was made.
    pub fn instant(&self, moment: Duration) -> Instant {
        self.start + moment
    }

    /// Wall time, in whole seconds as Kubernetes writes it.
    pub fn wall(&self) -> Timestamp {
        let now = self.wall_exact();
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    /// Wall time with its fraction of a second.
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    pub fn wall_exact(&self) -> Timestamp {
        match self.wall {
            Wall::Machine => Timestamp::now(),
            Wall::Since(epoch) => epoch + self.elapsed(),
        }
    }
}
