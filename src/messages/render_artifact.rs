//! To a RenderArtifact's actor: everything that changes state is a request in its queue.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use solar_core::artifact::{Owner, PushRequest, Ticket, Written};
use solar_core::object::ObjectName;
use solar_core::routes::ActorKey;
use solar_core::target::Coordinates;
use tokio::sync::oneshot;

/// A request to an artifact's actor.
#[derive(Debug)]
pub enum ArtifactRequest {
    /// A Target wants to hold the artifact. Answered by [`super::object::Answer::Bind`].
    Bind {
        /// The Target.
        owner: Owner,
        /// Where the chart lies.
        coordinates: Coordinates,
        /// The Registry that the Target resolves.
        registry: ObjectName,
        /// The task that will push.
        render_task: String,
        /// Who is answered.
        reply_to: ActorKey,
    },
    /// A Target gives up the artifact. Answered by [`super::object::Answer::Unbound`].
    Unbind {
        /// The Target.
        owner: Owner,
        /// Who is answered.
        reply_to: ActorKey,
    },
    /// A job wants to push.
    OpenPush {
        /// What and for whom.
        request: PushRequest,
        /// Where the ticket is put when it is granted.
        held: HeldTicket,
        /// Where the answer goes; a job that is gone hears nothing and loses nothing.
        reply: oneshot::Sender<PushAnswer>,
    },
    /// The tag holds this digest.
    Pushed {
        /// The ticket's id.
        ticket: u64,
        /// Digest of the manifest that the tag holds.
        digest: String,
        /// Told once the digest is in the status.
        done: oneshot::Sender<()>,
    },
    /// The ticket is given back without a push.
    PushFailed {
        /// The ticket's id.
        ticket: u64,
        /// What was sent under it.
        written: Written,
    },
}

/// The ticket that a job has open; shared with the pool, which gives it back when the job is ended from outside.
pub type HeldTicket = Arc<Mutex<Option<OpenTicket>>>;

/// A ticket that has not been given back.
#[derive(Clone, Debug)]
pub struct OpenTicket {
    /// The artifact.
    pub artifact: ObjectName,
    /// The ticket's id.
    pub ticket: u64,
    /// What was sent under it so far.
    pub written: Written,
}

/// Answer to an OpenPush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushAnswer {
    /// Go on.
    Granted {
        /// To be given back by Pushed or PushFailed.
        ticket: Ticket,
    },
    /// Nobody holds the tag.
    NotBound,
    /// The tag is being deleted, or may still be.
    Terminating {
        /// When to ask again.
        retry_after: Duration,
    },
    /// Another job holds the ticket.
    Busy,
    /// The tag is known to hold what would be pushed; no ticket was given.
    Known,
}
