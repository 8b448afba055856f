//! The only spawner: every pass, job, errand and loop is a task that ends with whoever started it.

use std::any::Any;
use std::fmt::Display;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use thiserror::Error;
use tokio::task::{AbortHandle, JoinHandle};

/// What becomes of a task before it is polled once more, or of an actor before it handles a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Go,
    /// It panics, as a fault of its own would make it.
    Panic,
    /// It is never polled again, as if its process had been ended. A message is handled all the same.
    Freeze,
    /// The actor is stopped, and handles the message no more. For a task the same as [`Self::Freeze`].
    Stop,
}

/// Looks at every poll of every task and every message of every actor; for tests that end things anywhere.
pub type PollHook = Arc<dyn Fn(&str) -> Verdict + Send + Sync>;

/// Starts tasks.
#[derive(Clone, Default)]
pub struct Spawner {
    hook: Option<PollHook>,
}

impl std::fmt::Debug for Spawner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spawner").field("hooked", &self.hook.is_some()).finish()
    }
}

impl Spawner {
    /// A spawner whose tasks ask `hook` before each poll.
    pub fn hooked(hook: PollHook) -> Self {
        Self { hook: Some(hook) }
    }

    /// What becomes of a message that `actor` is about to handle.
    pub(super) fn on_message(&self, actor: &dyn std::fmt::Display, message: &str) -> Verdict {
        self.hook.as_ref().map_or(Verdict::Go, |hook| hook(&format!("{actor} handles {message}")))
    }

    /// Begins `future` on this thread, and goes on with it on the shared runtime when it has to wait: a pass that finds
    /// nothing to do costs no change of threads.
    pub(super) fn begin_pass<F>(&self, label: &(impl Display + ?Sized), future: F) -> Begun<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let mut future: Pin<Box<dyn Future<Output = F::Output> + Send>> = match &self.hook {
            None => Box::pin(future),
            Some(hook) => Box::pin(Hooked {
                label: label.to_string().into(),
                hook: hook.clone(),
                future: Box::pin(future),
            }),
        };
        // Whoever polls next tells whom to wake; the runtime does so at once.
        let mut context = Context::from_waker(Waker::noop());
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context))) {
            Ok(Poll::Ready(output)) => Begun::Ended(Ok(output)),
            Ok(Poll::Pending) => Begun::Waits(Self::spawn(future)),
            Err(payload) => Begun::Ended(Err(Died::Panicked(panic_message(payload.as_ref())))),
        }
    }

    #[allow(clippy::disallowed_methods, reason = "the one place that spawns")]
    fn spawn<F>(future: F) -> PassHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        PassHandle { handle: tokio::spawn(future) }
    }

    /// Runs `future` on the shared runtime. Dropping the handle ends it; a panic in it is an error of the handle.
    pub fn spawn_pass<F>(&self, label: &(impl Display + ?Sized), future: F) -> PassHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match &self.hook {
            None => Self::spawn(future),
            Some(hook) => Self::spawn(Hooked {
                label: label.to_string().into(),
                hook: hook.clone(),
                future: Box::pin(future),
            }),
        }
    }
}

struct Hooked<F> {
    label: Arc<str>,
    hook: PollHook,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Hooked<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match (self.hook)(&self.label) {
            Verdict::Go => self.future.as_mut().poll(cx),
            Verdict::Freeze | Verdict::Stop => Poll::Pending,
            Verdict::Panic => panic!("a fault was injected into {}", self.label),
        }
    }
}

/// Why a task has no result.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Died {
    /// It panicked.
    #[error("panicked: {0}")]
    Panicked(String),
    /// It was ended from outside.
    #[error("was ended")]
    Ended,
}

/// How far a pass came at once.
#[derive(Debug)]
pub(super) enum Begun<T> {
    /// To its end.
    Ended(Result<T, Died>),
    /// It waits for something.
    Waits(PassHandle<T>),
}

/// A running task.
#[derive(Debug)]
pub struct PassHandle<T> {
    handle: JoinHandle<T>,
}

impl<T> PassHandle<T> {
    /// Ends the task from elsewhere; the handle then says [`Died::Ended`], once the task holds nothing any more.
    pub fn stopper(&self) -> AbortHandle {
        self.handle.abort_handle()
    }
}

impl<T> Future for PassHandle<T> {
    type Output = Result<T, Died>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.handle).poll(cx).map_err(|error| match error.try_into_panic() {
            Ok(payload) => Died::Panicked(panic_message(payload.as_ref())),
            Err(_) => Died::Ended,
        })
    }
}

impl<T> Drop for PassHandle<T> {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// What a panic said; only texts are passed on.
pub(super) fn panic_message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}
