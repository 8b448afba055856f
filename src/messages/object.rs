//! To any object actor.

use std::any::Any;
use std::sync::Arc;

use actix::Message;
use solar_core::availability::Checked;
use solar_core::profile::Hindrance;
use solar_core::render_task::JobOutcome;
use solar_core::routes::ActorKey;
use solar_core::target::BindAnswer;

use super::gate::Slot;
use super::registry_actor::CheckAdmission;
use super::render_pool::Admission;

/// Why an actor looks again. For logs, metrics and dumps; never for decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A watched object changed.
    Change,
    /// A time has come.
    Timer,
    /// Another actor answered.
    Answer,
    /// A request is waiting.
    Request,
    /// An errand came back.
    Errand,
    /// The last pass failed, or the actor was restarted.
    Retry,
    /// Somebody else wrote the object's status.
    Edit,
}

impl Cause {
    /// The word in metrics and dumps.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Timer => "timer",
            Self::Answer => "answer",
            Self::Request => "request",
            Self::Errand => "errand",
            Self::Retry => "retry",
            Self::Edit => "edit",
        }
    }
}

/// Something may have changed. Any number of these is as good as one.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Woken {
    /// The cause of the first of them.
    pub cause: Cause,
}

/// The watch shows a status that this actor may not have written.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct StatusShown;

/// An answer to an earlier request; the last from each correspondent is kept for the next pass.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Answered {
    /// Who answers.
    pub from: ActorKey,
    /// What it says.
    pub answer: Answer,
}

/// What actors answer each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A RenderArtifact's actor, to a Bind.
    Bind(BindAnswer),
    /// A RenderArtifact's actor: the binding is gone.
    Unbound,
    /// The actor of a Target's bindings, to a Profile.
    Hindered {
        /// Uid of the Profile that is meant.
        uid: Box<str>,
        /// What is in the way now; `None`: nothing any more.
        hindrance: Option<Hindrance>,
    },
    /// The registry actor, to a CheckManifest.
    Check(CheckAdmission),
    /// The registry actor: the check ended.
    Checked(Box<Checked>),
    /// The render pool, to a Submit.
    Admission(Admission),
    /// The render pool: the job ended.
    Job {
        /// Uid of the task that it was for.
        uid: Box<str>,
        /// How it ended.
        outcome: JobOutcome,
    },
}

/// A request for the actor's pass.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Asked<R>(
    /// The request.
    pub R,
);

/// The gate lets one pass begin.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct GateOpened(
    /// Kept until the pass ends.
    pub Slot,
);

/// Asks whether the actor may go; sent before its address is given up.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "Departure")]
pub struct AskToGo;

/// What an actor leaves to the next of its name.
pub type LeftBehind = Arc<dyn Any + Send + Sync>;

/// How an actor goes.
#[derive(Clone, Debug, actix::MessageResponse)]
pub enum Departure {
    /// It has something to do, or expects something.
    Stays,
    /// It leaves nothing behind that somebody could miss.
    Ends,
    /// The next of its name has to know this.
    Rests(LeftBehind),
}

/// Asks what the actor is doing.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "Snapshot")]
pub struct GetSnapshot;

/// What an object actor is doing.
#[derive(Clone, Debug, serde::Serialize, actix::MessageResponse)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// `idle`, `queued`, `running` or `errand`.
    pub state: &'static str,
    /// Requests waiting.
    pub requests: usize,
    /// The last wake's cause.
    pub last_cause: Option<&'static str>,
    /// Passes that ended well.
    pub passes: u64,
    /// Passes that failed in a row.
    pub failures: u32,
    /// Why the last pass failed.
    pub last_error: Option<String>,
    /// Restarts of the actor.
    pub restarts: u32,
    /// Seconds until the actor looks again by itself.
    pub next_wake_seconds: Option<f64>,
}
