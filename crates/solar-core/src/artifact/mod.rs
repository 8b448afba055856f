//! A reference count that never loses a tag: what a RenderArtifact's actor answers and does.
//!
//! The actor is the only writer of its artifact and of that artifact's bindings in this process. It decides on a
//! [`View`]: the watched records, with what the actor itself wrote or read laid over them ([`Own`](crate::overlay::Own)), so that a lagging
//! watch never makes it forget a write of its own. Requests are answered by [`bind`], [`unbind`] and [`open_push`];
//! between requests [`next`] says the one step that comes next, until it says [`ArtifactStep::Wait`].

mod memory;
mod next;
mod requests;
mod view;

pub use memory::{
    ArtifactMemory, ArtifactOptions, Cleanup, CleanupProblem, Sighting, Ticket, UNANSWERED_WRITE, Written,
};
pub use next::{ArtifactStep, next, twin};
pub use requests::{
    BindDecision, BindingChange, Owner, PushDecision, PushRequest, UnbindDecision, bind, binding_name,
    open_push, pin, release, unbind,
};
pub use view::{Bindings, View};
