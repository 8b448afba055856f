//! What the result of a check means for the condition `Available`.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use solar_api::ComponentVersionStatus;
use solar_api::conditions::available as reason;

use crate::condition::{self, Status, Wanted};

/// What a look at the registry found, or why there was none. Texts are sentences for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The manifest is there.
    Present,
    /// The registry answered 404.
    Absent,
    /// Anything else: it is not known whether the manifest is there.
    Failed(String),
    /// The version names no digest.
    NoDigest(String),
    /// No Registry has the descriptor's host.
    NoRegistry(String),
}

impl Finding {
    /// One word of a closed set.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Present => "available",
            Self::Absent => "missing",
            Self::Failed(_) => "unreachable",
            Self::NoDigest(_) => "no_digest",
            Self::NoRegistry(_) => "not_configured",
        }
    }
}

/// A finding with what it is about.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// What was found.
    pub finding: &'a Finding,
    /// Host, repository and digest; empty where nothing could be looked for.
    pub reference: &'a str,
    /// When it was found, to the fraction of a second.
    pub at: Timestamp,
    /// How long the descriptor has been missing by a clock that never jumps, where this process saw it begin.
    pub seen_missing_for: Option<Duration>,
    /// The version's generation.
    pub generation: i64,
}

/// The status that follows from `judged`.
///
/// A condition that speaks of another reference says nothing about this one: its grace period begins anew. Only an
/// absence that was found again `grace` after the first one, with nothing else in between, gives False; where the wall
/// clock was set meanwhile, the clock that never jumps must have shown that long, too.
pub fn judge(status: &ComponentVersionStatus, judged: Judged<'_>, grace: Duration) -> ComponentVersionStatus {
    let Judged { finding, reference, at, .. } = judged;
    let mut next = status.clone();
    let (wanted, since) = match finding {
        Finding::Present => (
            Wanted::yes(
                reason::TYPE,
                reason::DESCRIPTOR_AVAILABLE,
                format!("{reference} is in the registry"),
            ),
            None,
        ),
        Finding::Failed(why) => (Wanted::unknown(reason::TYPE, reason::REGISTRY_UNREACHABLE, why), None),
        Finding::NoDigest(why) => (Wanted::unknown(reason::TYPE, reason::NO_DIGEST, why), None),
        Finding::NoRegistry(why) => {
            (Wanted::unknown(reason::TYPE, reason::REGISTRY_NOT_CONFIGURED, why), None)
        }
        Finding::Absent => match missing(status, reference, judged.generation) {
            None => begun(reference, at, grace),
            // The clock was ahead when it began, and has been set back: nobody knows how long ago that is.
            Some(Missing::Since(since)) if since > full_second(at) => begun(reference, at, grace),
            Some(Missing::Red) => {
                // Nothing of it changes but the generation that it is true of.
                observe(&mut next, judged.generation);
                return next;
            }
            Some(Missing::Since(since)) => {
                let by_wall = Duration::try_from(at.duration_since(since)).unwrap_or(Duration::ZERO);
                if judged.seen_missing_for.map_or(by_wall, |seen| seen.min(by_wall)) < grace {
                    observe(&mut next, judged.generation);
                    return next;
                }
                (missing_for_good(reference, since, grace), None)
            }
        },
    };
    let now = Timestamp::from_second(at.as_second()).unwrap_or(at);
    condition::set(&mut next.conditions, &wanted, judged.generation, now);
    next.descriptor_missing_since = since.map(Time);
    next
}

/// That a descriptor is known to be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The grace period runs since then.
    Since(Timestamp),
    /// It is over.
    Red,
}

/// Whether `status` says that `reference` is missing, which is that of a version of this generation.
///
/// Words that name no reference at all are those of another author: they hold for the generation that they were true of.
pub(super) fn missing(status: &ComponentVersionStatus, reference: &str, generation: i64) -> Option<Missing> {
    let available = condition::find(&status.conditions, reason::TYPE)?;
    let is_of_this = if names_any(&available.message) {
        names(&available.message, reference)
    } else {
        available.observed_generation == Some(generation)
    };
    if !is_of_this {
        return None;
    }
    if available.status == Status::False.as_str() {
        return Some(Missing::Red);
    }
    let since = status.descriptor_missing_since.as_ref()?;
    let pends = available.status == Status::Unknown.as_str()
        && available.reason == reason::DESCRIPTOR_MISSING_PENDING;
    pends.then_some(Missing::Since(since.0))
}

/// Whether `reference` stands in `message` by itself, and not as a part of another.
fn names(message: &str, reference: &str) -> bool {
    let goes_on_before = |before: &str| {
        before
            .ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | ':' | '@' | ']'))
    };
    let goes_on_behind = |behind: &str| behind.starts_with(char::is_alphanumeric);
    message
        .match_indices(reference)
        .any(|(at, _)| !goes_on_before(&message[..at]) && !goes_on_behind(&message[at + reference.len()..]))
}

/// Whether a reference by digest stands in `message`, whichever it is.
fn names_any(message: &str) -> bool {
    ["@sha256:", "@sha512:"].iter().any(|digest| message.contains(digest))
}

/// The grace period begins.
fn begun(reference: &str, at: Timestamp, grace: Duration) -> (Wanted, Option<Timestamp>) {
    let since = full_second(at);
    (pending(reference, since, grace), Some(since))
}

fn observe(status: &mut ComponentVersionStatus, generation: i64) {
    let available = status.conditions.iter_mut().find(|condition| condition.type_ == reason::TYPE);
    if let Some(available) = available {
        available.observed_generation = Some(generation);
    }
}

fn pending(reference: &str, since: Timestamp, grace: Duration) -> Wanted {
    let message = format!(
        "{reference} is not in the registry since {since}: Available turns False when it is still missing {} later",
        written(grace)
    );
    Wanted::unknown(reason::TYPE, reason::DESCRIPTOR_MISSING_PENDING, message)
}

fn missing_for_good(reference: &str, since: Timestamp, grace: Duration) -> Wanted {
    let message = format!(
        "{reference} is not in the registry since {since}, longer than the grace period of {}: push it again, or delete \
         this version",
        written(grace)
    );
    Wanted::no(reason::TYPE, reason::DESCRIPTOR_MISSING, message)
}

fn written(duration: Duration) -> String {
    SignedDuration::try_from(duration)
        .map_or_else(|_| format!("{duration:?}"), |signed| format!("{signed:#}"))
}

/// The first full second that is not before `at`: what is stored has no fractions, and none may be lost of the grace.
fn full_second(at: Timestamp) -> Timestamp {
    let second = at.as_second() + i64::from(at.subsec_nanosecond() > 0);
    Timestamp::from_second(second).unwrap_or(at)
}
