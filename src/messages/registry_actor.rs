//! To the registry actor, which has availability checks made.

use std::time::Duration;

use actix::Message;
use solar_core::availability::Lane;
use solar_core::object::ObjectName;
use solar_core::overlay::Moment;

/// Asks for a check of a ComponentVersion's descriptor. Answered by [`super::object::Answer::Check`] at once, and by
/// [`super::object::Answer::Checked`] when the check has ended. Asking again while it waits or runs changes nothing.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct CheckManifest {
    /// The version. What is looked for is what it names when the check begins.
    pub version: ObjectName,
    /// The host that is asked.
    pub host: Box<str>,
    /// Since when the check is due.
    pub due: Moment,
    /// Where it stands among those of the host. One that stands already is only moved to a better place.
    pub lane: Lane,
}

/// What becomes of a check that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckAdmission {
    /// It runs; its result follows.
    Started,
    /// No token or no runner is free. It keeps its place, and its result follows.
    Throttled {
        /// When it will begin, as far as is known now: later than whoever was told before, while a queue stands.
        retry_after: Duration,
    },
}

/// No check is begun any more, and those that run are ended.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct StopChecking;

/// Asks for the actor's state.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "ChecksSnapshot")]
pub struct GetChecksSnapshot;

/// The registry actor's state.
#[derive(Clone, Debug, serde::Serialize, actix::MessageResponse)]
#[serde(rename_all = "camelCase")]
pub struct ChecksSnapshot {
    /// Free tokens.
    pub tokens: u32,
    /// Versions that wait.
    pub queued: usize,
    /// Seconds until the next check may begin; absent while nobody waits.
    pub next_slot_seconds: Option<f64>,
    /// Checks that run.
    pub running: Vec<RunningCheck>,
    /// Waiting and running checks of each host, at most 100 hosts.
    pub hosts: Vec<HostChecks>,
    /// Times that the actor has started again.
    pub restarts: u32,
}

/// A check that runs.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningCheck {
    /// The version.
    pub version: String,
    /// The host that is asked.
    pub host: String,
    /// For how long it has been running.
    pub seconds: f64,
}

/// The checks of one host.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostChecks {
    /// The host.
    pub host: String,
    /// Versions that wait.
    pub queued: usize,
    /// Checks that run.
    pub running: usize,
}
