//! The CPU port: where work that takes time runs, so that it holds up no actor.

use std::panic::{AssertUnwindSafe, catch_unwind};

use thiserror::Error;

/// Where CPU work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    /// On the runtime's blocking threads.
    Threads,
    /// At once on the calling thread: blocking threads would stop a paused clock from being replayed.
    Inline,
}

/// The work panicked.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the work panicked")]
pub struct Panicked;

impl Cpu {
    /// Runs `work` and returns its result; a panic in it is an error.
    #[allow(clippy::disallowed_methods, reason = "the one place that hands work to the blocking threads")]
    pub async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        match self {
            Self::Threads => tokio::task::spawn_blocking(work).await.map_err(|_| Panicked),
            Self::Inline => catch_unwind(AssertUnwindSafe(work)).map_err(|_| Panicked),
        }
    }
}
