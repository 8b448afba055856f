//! Faults, decided per request.

use std::time::Duration;

use super::request::RegistryOperation;

/// What a fault hook sees of a request on its arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// Running number over all requests, from 1.
    pub sequence: u64,
    /// Running number among requests of the same operation, from 1.
    pub nth: u64,
    /// The handle, or the HTTP front, through which it came.
    pub actor: String,
    /// What it asks for.
    pub operation: RegistryOperation,
    /// The repository, empty where there is none.
    pub repository: String,
    /// Tag, digest or upload, empty where there is none.
    pub reference: String,
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it is served.
    None,
    /// Answered with this status instead of being served.
    Status {
        /// HTTP status.
        status: u16,
        /// Code of the error body; empty: a plain-text body.
        code: &'static str,
        /// `Retry-After` in seconds.
        retry_after: Option<u64>,
    },
    /// Served after this delay.
    Latency(Duration),
    /// Neither served nor answered, ever.
    Hang,
    /// Served and never answered.
    HangAfterEffect,
    /// The connection ends without effect and answer.
    Cut,
    /// Served; the connection ends without an answer.
    CutAfterEffect,
    /// The connection ends; the request takes effect after this delay, unless its actor is fenced
    /// before that.
    CutAndLandLater(Duration),
}

impl Fault {
    /// A status with its code.
    pub fn status(status: u16, code: &'static str) -> Self {
        Self::Status { status, code, retry_after: None }
    }
}

/// Decides the fault of each request.
pub type FaultHook = dyn FnMut(&RequestInfo) -> Fault + Send;
