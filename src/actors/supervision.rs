//! The panic boundary around every message, and what becomes of a part whose handler panics.
//!
//! actix does not restart an actor whose handler panics: its address stays dead, and mail to it vanishes. So no panic
//! gets as far as actix. An object actor goes on as after a failed pass (`object.rs`). A part that everything depends on
//! is not trusted after a panic: the root ends the process with the reason, and whatever runs it starts a new one.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use actix::{Actor, ActorContext, Context};

use super::pass::{Verdict, panic_message};
use super::system::Shared;
use crate::messages::root::CriticalPartDied;

thread_local! {
    static HANDLING: RefCell<Option<Handling>> = const { RefCell::new(None) };
}

/// What the actors of one thread were at last, for whoever waits in vain for its end. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Handling(Arc<Mutex<String>>);

impl Handling {
    /// From now on this thread notes here what it does.
    pub fn show_on_this_thread(self) {
        HANDLING.set(Some(self));
    }

    /// `actor` handles `message` on this thread.
    pub fn note(actor: &dyn std::fmt::Display, message: &str) {
        HANDLING.with_borrow(|handling| {
            if let Some(Self(text)) = handling {
                let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
                text.clear();
                // Writing to a text does not fail.
                let _ = write!(text, "{actor} handles {message}");
            }
        });
    }
}

impl std::fmt::Display for Handling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Handles one message behind the boundary; `Err` is what a panic said. `None`: the actor was stopped instead.
pub fn guard<A, T>(
    shared: &Shared,
    name: &dyn std::fmt::Display,
    message: &str,
    actor: &mut A,
    ctx: &mut Context<A>,
    handle: impl FnOnce(&mut A, &mut Context<A>) -> T,
) -> Option<Result<T, String>>
where
    A: Actor<Context = Context<A>>,
{
    Handling::note(name, message);
    let handled = catch_unwind(AssertUnwindSafe(|| match shared.spawner.on_message(name, message) {
        Verdict::Go | Verdict::Freeze => Some(handle(actor, ctx)),
        Verdict::Panic => panic!("a fault was injected"),
        Verdict::Stop => {
            ctx.stop();
            None
        }
    }));
    match handled {
        Ok(handled) => handled.map(Ok),
        Err(payload) => Some(Err(panic_message(payload.as_ref()))),
    }
}

/// Handles one message of a part without which nothing works; a panic in it ends the process.
pub fn guard_critical<A, T: Default>(
    shared: &Shared,
    part: &'static str,
    message: &str,
    actor: &mut A,
    ctx: &mut Context<A>,
    handle: impl FnOnce(&mut A, &mut Context<A>) -> T,
) -> T
where
    A: Actor<Context = Context<A>>,
{
    match guard(shared, &part, message, actor, ctx, handle) {
        Some(Ok(handled)) => handled,
        None => T::default(),
        Some(Err(reason)) => {
            shared.tell_of_death(CriticalPartDied {
                part: part.to_owned(),
                reason: format!("panicked: {reason}"),
            });
            T::default()
        }
    }
}
