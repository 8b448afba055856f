//! How long a broken watch waits.

use std::time::Duration;

use solar_core::backoff;

/// Doubling waits with jitter from a seeded generator, reset by the first object that is heard of.
#[derive(Debug)]
pub struct WatchBackoff {
    rng: fastrand::Rng,
    failures: u32,
}

impl WatchBackoff {
    const BASE: Duration = Duration::from_millis(800);
    const CAP: Duration = Duration::from_secs(30);

    /// Begins with the shortest wait.
    pub fn new(rng: fastrand::Rng) -> Self {
        Self { rng, failures: 0 }
    }

    /// How long to wait after one more failure.
    pub fn wait(&mut self) -> Duration {
        let wait = backoff::delay(self.failures, Self::BASE, Self::CAP, self.rng.f64());
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// Something was heard: the next failure is the first one again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}
