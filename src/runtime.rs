//! One runtime for everything: the actix system, its arbiters and all tasks share it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix_rt::{Arbiter, ArbiterHandle, System};
use tokio::runtime::{Builder, Runtime};

/// How long tasks that ignore their end are waited for.
const LAST_WAIT: Duration = Duration::from_secs(2);

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
    let arbiters: Vec<Arbiter> = (0..threads)
        .map(|_| {
            let runtime = runtime.clone();
            Arbiter::with_tokio_rt(move || runtime)
        })
        .collect();
    let handles = arbiters.iter().map(Arbiter::handle).collect();
    let result = system.block_on(main(handles));
    for arbiter in arbiters {
        arbiter.stop();
        if arbiter.join().is_err() {
            tracing::warn!("an actor thread had panicked");
        }
    }
    System::current().stop();
    drop(system);
    end(runtime);
    Ok(result)
}

fn end(runtime: Arc<Runtime>) {
    if let Ok(runtime) = Arc::try_unwrap(runtime) {
        runtime.shutdown_timeout(LAST_WAIT);
    } else {
        tracing::debug!("the runtime is still in use at the end");
    }
}
