//! The panic boundary around every message, and what becomes of a part whose handler panics.
//!
//! actix does not restart an actor whose handler panics: its address stays dead, and mail to it vanishes. So no panic
//! gets as far as actix. An object actor goes on as after a failed pass (`object.rs`). A part that everything depends on
//! is not trusted after a panic: the root ends the process with the reason, and whatever runs it starts a new one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use actix::{Actor, ActorContext, Context};

use super::pass::{Verdict, panic_message};
use super::system::Shared;
use crate::messages::root::CriticalPartDied;

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
