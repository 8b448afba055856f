//! How a condition changes, and texts that must fit where they are stored.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The longest message of a condition, in bytes. The API server refuses longer ones.
pub const MAX_MESSAGE: usize = 32_768;
/// The longest note of an event, in bytes.
pub const MAX_NOTE: usize = 1_024;

/// What stands where a text was cut.
const CUT: &str = "...";

/// A condition's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// It could not be found out.
    Unknown,
}

impl Status {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// What a condition is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Type of the condition.
    pub type_: &'static str,
    /// Its status.
    pub status: Status,
    /// One word of a closed set.
    pub reason: &'static str,
    /// A sentence for a person; cut at [`MAX_MESSAGE`] when it is set.
    pub message: String,
}

impl Wanted {
    /// A condition that holds.
    pub fn yes(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: Status::True, reason, message: message.into() }
    }

    /// A condition that does not hold.
    pub fn no(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: Status::False, reason, message: message.into() }
    }

    /// A condition of which it is not known whether it holds.
    pub fn unknown(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: Status::Unknown, reason, message: message.into() }
    }
}

/// Puts `wanted` in the place of the condition of its type, or at the end.
///
/// `lastTransitionTime` becomes `now` only when the status differs from the one before. Conditions of other types, known
/// or not, keep their place and content.
pub fn set(conditions: &mut Vec<Condition>, wanted: &Wanted, generation: i64, now: Timestamp) {
    let found = conditions.iter().position(|condition| condition.type_ == wanted.type_);
    let unchanged = found.map(|at| &conditions[at]).filter(|old| old.status == wanted.status.as_str());
    let condition = Condition {
        last_transition_time: unchanged.map_or(Time(now), |old| old.last_transition_time.clone()),
        message: fit_message(&wanted.message),
        observed_generation: Some(generation),
        reason: wanted.reason.to_owned(),
        status: wanted.status.as_str().to_owned(),
        type_: wanted.type_.to_owned(),
    };
    match found {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// `stored` with all of `wanted` in it; `None` when that says nothing new.
pub fn updated(
    stored: &[Condition],
    wanted: &[Wanted],
    generation: i64,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let mut conditions = stored.to_vec();
    for wanted in wanted {
        set(&mut conditions, wanted, generation, now);
    }
    (!same(&conditions, stored)).then_some(conditions)
}

/// The condition of `type_`.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of `type_` is True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == Status::True.as_str())
}

/// Whether two lists say the same, times aside. A difference is worth a write, a time alone is not.
pub fn same(a: &[Condition], b: &[Condition]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_condition(a, b))
}

fn same_condition(a: &Condition, b: &Condition) -> bool {
    a.type_ == b.type_
        && a.status == b.status
        && a.reason == b.reason
        && a.message == b.message
        && a.observed_generation == b.observed_generation
}

/// `message`, or its beginning with `...` behind it when it is longer than a condition may hold.
pub fn fit_message(message: &str) -> String {
    fit_text(message, MAX_MESSAGE)
}

/// `text`, or its beginning with `...` behind it when it has more than `limit` bytes. No character is split.
pub fn fit_text(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(limit.saturating_sub(CUT.len()));
    let cut = &CUT[..CUT.len().min(limit)];
    format!("{}{cut}", &text[..end])
}
