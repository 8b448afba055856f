//! What can go wrong in a request to the API server.

use std::time::Duration;

use thiserror::Error;

use crate::adapters::leadership::NotLeading;

/// A request that did not succeed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{verb} {kind} {name}: {problem}")]
pub struct ApiError {
    /// Verb as in RBAC.
    pub verb: &'static str,
    /// Kind of the object.
    pub kind: &'static str,
    /// Namespace and name, or what was listed.
    pub name: String,
    /// What went wrong.
    pub problem: Problem,
}

/// Why a request did not succeed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    /// There is no such object, or the kind is not served.
    #[error("not found")]
    NotFound,
    /// A precondition does not hold: somebody wrote in between.
    #[error("conflict: somebody wrote in between")]
    Conflict,
    /// An object of that name exists.
    #[error("already exists")]
    AlreadyExists,
    /// The namespace is being deleted.
    #[error("the namespace is being deleted")]
    NamespaceTerminating,
    /// RBAC does not allow it.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// The object is refused.
    #[error("refused: {0}")]
    Invalid(String),
    /// The object is larger than what can be stored.
    #[error("refused: {0}")]
    TooLarge(String),
    /// Too many requests.
    #[error("throttled by the API server")]
    Throttled(Option<Duration>),
    /// The server failed.
    #[error("the API server failed with {code}: {message}")]
    Server {
        /// HTTP status.
        code: u16,
        /// What it said.
        message: String,
    },
    /// No answer in time.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// This process does not lead any more; what was sent before may still land.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// The object is not as its kind should be.
    #[error("an object that cannot be read: {0}: correct or delete it")]
    Unreadable(String),
    /// No connection, or a broken answer.
    #[error("{0}")]
    Unreachable(String),
}

impl Problem {
    /// Whether it is a normal part of working beside others: retried without a word.
    pub fn is_quiet(&self) -> bool {
        matches!(self, Self::Conflict | Self::NamespaceTerminating | Self::Throttled(_) | Self::NotLeading(_))
    }
}

impl From<kube::Error> for Problem {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => of_status(&status),
            // What is not JSON does not come from an API server.
            kube::Error::SerdeError(error) if error.is_data() || nests_too_deeply(&error) => {
                Self::Unreadable(error.to_string())
            }
            kube::Error::SerdeError(error) => {
                Self::Unreachable(format!("an answer that cannot be read: {error}"))
            }
            error => Self::Unreachable(chain(&error)),
        }
    }
}

/// Whether it is JSON, but deeper than is read.
pub(super) fn nests_too_deeply(error: &serde_json::Error) -> bool {
    // The error has no kind that tells.
    error.to_string().starts_with("recursion limit exceeded")
}

/// What the API server says of a JSON patch that cannot be applied to the object as it is.
const UNNAMED_REFUSAL: &str = "the server rejected our request due to an error in our request";

/// What the store behind the API server says of an object that it does not take; answered with 500 and without a reason.
const TOO_LARGE: &str = "etcdserver: request is too large";

fn of_status(status: &kube::core::Status) -> Problem {
    let terminating = status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .any(|cause| cause.reason == "NamespaceTerminating");
    if terminating {
        Problem::NamespaceTerminating
    } else if status.is_already_exists() {
        Problem::AlreadyExists
    } else if status.is_not_found() {
        Problem::NotFound
    } else if status.is_conflict() {
        Problem::Conflict
    } else if status.is_forbidden() {
        Problem::Forbidden(status.message.clone())
    } else if status.is_invalid() {
        // A JSON patch whose test does not hold is answered 422 without naming a field: somebody wrote in between.
        if status.message.starts_with(UNNAMED_REFUSAL) {
            Problem::Conflict
        } else {
            Problem::Invalid(status.message.clone())
        }
    } else if status.code == 413 || status.message.ends_with(TOO_LARGE) {
        Problem::TooLarge(status.message.clone())
    } else if status.code == 429 {
        let seconds = status.details.as_ref().map(|details| u64::from(details.retry_after_seconds));
        Problem::Throttled(seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs))
    } else {
        Problem::Server { code: status.code, message: status.message.clone() }
    }
}

/// The error with its sources, each said once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
