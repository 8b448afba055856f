//! One runtime for everything: the actix system, its arbiters and all tasks share it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use actix_rt::{Arbiter, ArbiterHandle, System};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::actors::supervision::Handling;

/// How long actor threads that ignore their end are waited for, and then tasks that do.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// A thread that actors live on.
struct ActorThread {
    arbiter: Arbiter,
    handling: Handling,
}

impl ActorThread {
    fn new(runtime: Arc<Runtime>) -> Self {
        let arbiter = Arbiter::with_tokio_rt(move || runtime);
        let handling = Handling::default();
        let shown = handling.clone();
        arbiter.spawn_fn(move || shown.show_on_this_thread());
        Self { arbiter, handling }
    }
}

/// Runs `main` on a fresh system with `actor_threads` arbiters (0: one for each core), and ends everything after it.
pub fn run<T, F>(actor_threads: usize, main: impl FnOnce(Vec<ArbiterHandle>) -> F) -> io::Result<T>
where
    F: Future<Output = T>,
{
    let runtime = Arc::new(Builder::new_multi_thread().enable_all().build()?);
    let threads = match actor_threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let system = {
        let runtime = runtime.clone();
        System::with_tokio_rt(move || runtime)
    };
    let threads: Vec<_> = (0..threads).map(|_| ActorThread::new(runtime.clone())).collect();
    let handles = threads.iter().map(|thread| thread.arbiter.handle()).collect();
    let result = system.block_on(main(handles));
    for (thread, handling) in end_threads(threads) {
        tracing::error!(thread, last = %handling, "an actor thread does not end and is left behind");
    }
    System::current().stop();
    drop(system);
    end(runtime);
    Ok(result)
}

/// Ends the threads; answers which of them did not end in time, and what they were at last.
fn end_threads(threads: Vec<ActorThread>) -> BTreeMap<usize, Handling> {
    let (tell, told) = mpsc::channel();
    let mut left = BTreeMap::new();
    for (number, ActorThread { arbiter, handling }) in threads.into_iter().enumerate() {
        arbiter.stop();
        left.insert(number, handling);
        let tell = tell.clone();
        // Whoever waits for a thread waits without bound.
        #[allow(clippy::disallowed_methods, reason = "there is no task that could wait")]
        std::thread::spawn(move || tell.send((number, arbiter.join().is_err())));
    }
    let deadline = Instant::now() + LAST_WAIT;
    while !left.is_empty() {
        let Ok((number, panicked)) = told.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        else {
            break;
        };
        left.remove(&number);
        if panicked {
            tracing::warn!("an actor thread had panicked");
        }
    }
    left
}

fn end(runtime: Arc<Runtime>) {
    if let Ok(runtime) = Arc::try_unwrap(runtime) {
        runtime.shutdown_timeout(LAST_WAIT);
    } else {
        tracing::debug!("the runtime is still in use at the end");
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a thread that hangs is not the test's own")]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_end_is_left_behind_and_what_it_was_at_is_known() {
        let (release, held) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = Arc::new(Builder::new_multi_thread().enable_all().build().unwrap());
            let system = {
                let runtime = runtime.clone();
                System::with_tokio_rt(move || runtime)
            };
            let threads: Vec<_> = (0..2).map(|_| ActorThread::new(runtime.clone())).collect();
            let (begin, begun) = mpsc::channel();
            threads[1].arbiter.spawn_fn(move || {
                Handling::note(&"Target fleet/one", "its turn");
                begin.send(()).unwrap();
                held.recv().unwrap_err();
            });
            begun.recv().unwrap();
            let left = system.block_on(async { end_threads(threads) });
            let left: Vec<_> = left.iter().map(|(thread, at)| (*thread, at.to_string())).collect();
            tell.send(left).unwrap();
        });
        let left = told.recv_timeout(Duration::from_secs(60));
        drop(release);
        assert_eq!(left, Ok(vec![(1, "Target fleet/one handles its turn".to_owned())]));
    }

    #[test]
    fn a_run_ends_although_a_thread_does_not() {
        let (release, held) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let result = run(1, |arbiters| async move {
                let (begin, begun) = mpsc::channel();
                arbiters[0].spawn_fn(move || {
                    begin.send(()).unwrap();
                    held.recv().unwrap_err();
                });
                begun.recv().unwrap();
                7
            });
            tell.send(result.unwrap()).unwrap();
        });
        let result = told.recv_timeout(Duration::from_secs(60));
        drop(release);
        assert_eq!(result, Ok(7));
    }
}
