//! To the render pool.

use std::time::Duration;

use actix::Message;
use solar_core::object::ObjectName;

/// Asks for a chart to be rendered and pushed. Answered by [`super::object::Answer::Admission`] at once, and by
/// [`super::object::Answer::Job`] when an admitted job has ended.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Submit {
    /// The task and the request that it stands for.
    pub submission: Submission,
}

/// What a job is for; a task that is no longer like this when the chart is ready makes the job stale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The task.
    pub task: ObjectName,
    /// Its uid.
    pub uid: Box<str>,
    /// Its generation, for the payload.
    pub generation: i64,
    /// Value of its render request annotation.
    pub render_request: Option<Box<str>>,
    /// Whether the registry is asked although the tag is known to hold this chart: a person wants it looked at.
    pub look: bool,
    /// Submissions of equal key have equal content for equal coordinates.
    pub content_key: String,
}

/// Whether a job was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The job runs, or waits for one of equal content.
    Admitted,
    /// A slot became free and is kept for a second: submit again.
    SlotFree,
    /// Every slot is taken.
    Full {
        /// When to ask again; sooner if woken.
        retry_after: Duration,
    },
}

/// The submitter is gone: its job ends unless others share it.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Withdraw {
    /// The task.
    pub task: ObjectName,
}

/// No job is taken any more. Answers how many still run.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "usize")]
pub struct StopRendering;

/// Asks for the pool's state.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "PoolSnapshot")]
pub struct GetPoolSnapshot;

/// The pool's state.
#[derive(Clone, Debug, serde::Serialize, actix::MessageResponse)]
#[serde(rename_all = "camelCase")]
pub struct PoolSnapshot {
    /// Jobs at once; 0 means no cap.
    pub slots: usize,
    /// Tasks whose jobs run.
    pub running: Vec<String>,
    /// Renders that go on after their jobs have ended; they keep their slots.
    pub lingering: usize,
    /// Tasks that wait for a job of equal content.
    pub joined: usize,
    /// Tasks that were refused and wait for a slot.
    pub queued: usize,
}
