//! What the actor of a ComponentVersion does next.

use std::time::Duration;

use jiff::Timestamp;
use solar_api::ComponentVersionStatus;
use solar_api::conditions::available as reason;

use super::subject::Subject;
use super::table::{Finding, Judged, Missing, judge, missing};
use super::turns::Lane;
use super::{AvailabilityOptions, Now};
use crate::condition;
use crate::hash::PayloadHash;
use crate::overlay::Moment;
use crate::record::ComponentVersionRecord;
use crate::schedule::next_time;

/// A check whose time fell into the last moments before this process began to lead is made up for: the one before may have
/// ended in the middle of it, or have been gone already.
const LOOK_BACK: Duration = Duration::from_secs(30);
/// How long after the time that it was told a version asks again, should the check not have begun by itself.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// How long after its begin a check without a result is asked for again; longer than any check may take.
const NO_RESULT: Duration = Duration::from_secs(20);

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// [`Subject::mark`] of what was looked for.
    pub mark: PayloadHash,
    /// Value of the recheck annotation when the check began.
    pub recheck: Option<Box<str>>,
    /// What was found.
    pub finding: Finding,
    /// When, by the clock that never jumps.
    pub at: Moment,
    /// When, by the wall clock.
    pub wall: Timestamp,
}

/// How far a check is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Asked {
    /// None is wanted.
    #[default]
    No,
    /// Asked for, and not answered yet, or told to wait for its turn.
    Waiting {
        /// Asked again then.
        until: Moment,
        /// Since when it is due.
        due: Moment,
        /// In whose queue it stands.
        host: Box<str>,
        /// In which lane of it.
        lane: Lane,
    },
    /// It runs.
    Running {
        /// Asked for again then.
        until: Moment,
    },
}

/// What a version's actor keeps between passes. It may be lost: then a check is made once more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    asked: Asked,
    /// When the last check of this process ended.
    last: Option<Moment>,
    /// What the last check was about, or what was to be looked for when the version was first seen.
    mark: Option<PayloadHash>,
    /// A result that is not in the status yet.
    checked: Option<Box<Checked>>,
    /// When this process saw the descriptor go missing.
    missing_from: Option<Moment>,
    /// The last value of the recheck annotation that was answered, should the status not keep it.
    answered: Option<Box<str>>,
}

impl Memory {
    /// The check runs, and its result will follow.
    pub fn started(&mut self, now: Moment) {
        self.asked = Asked::Running { until: now + NO_RESULT };
    }

    /// The check will begin in about `retry_after`. Whoever said so may be gone by then, so it is asked again after
    /// `interval` at the latest.
    pub fn throttled(&mut self, retry_after: Duration, now: Moment, interval: Duration) {
        if let Asked::Waiting { until, .. } = &mut self.asked {
            *until = now + retry_after.min(interval) + ASK_AGAIN;
        }
    }

    /// The check has ended.
    pub fn checked(&mut self, checked: Checked) {
        self.asked = Asked::No;
        self.checked = Some(Box::new(checked));
    }

    /// The status that followed from the last result is written.
    pub fn written(&mut self) {
        self.checked = None;
    }
}

/// What a version's actor does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing, until then.
    Wait(Option<Moment>),
    /// Ask for a check of this host, which has been due since then.
    Ask {
        /// The host.
        host: Box<str>,
        /// Since when.
        due: Moment,
        /// Where it stands among those of the host.
        lane: Lane,
    },
    /// Write this status.
    Write(Box<ComponentVersionStatus>),
}

/// What is to be done for `version`, of which `subject` is to be looked for.
///
/// Told of a status write by [`Memory::written`], of the answers to a question by [`Memory::started`] and
/// [`Memory::throttled`], and of a result by [`Memory::checked`], it comes to [`Step::Wait`].
pub fn next(
    version: &ComponentVersionRecord,
    subject: &Result<Subject, Finding>,
    memory: &mut Memory,
    now: Now,
    options: &AvailabilityOptions,
) -> Step {
    let subject = match subject {
        Ok(subject) => subject,
        Err(finding) => return without_a_check(version, finding, memory, now, options),
    };
    if let Some(step) = take_in_result(version, subject, memory, options) {
        return step;
    }
    // What is first seen after a start says nothing of what changed before.
    let mark = *memory.mark.get_or_insert(subject.mark);
    let is_urgent = is_unanswered(version, memory) || is_edited(version);
    match &memory.asked {
        Asked::Running { until } if now.moment < *until => Step::Wait(Some(*until)),
        Asked::Waiting { until, host, lane, .. }
            if now.moment < *until && *host == subject.host && (!is_urgent || *lane == Lane::Soon) =>
        {
            Step::Wait(Some(*until))
        }
        Asked::Waiting { due, lane, .. } => {
            let (due, lane) = (*due, *lane);
            // By then its time has come in this life, too.
            let looks_back = matches!(lane, Lane::LookBack { .. });
            let is_overtaken = looks_back && now.moment >= due.saturating_add(options.interval);
            let lane = if is_overtaken { Lane::Due } else { lane };
            ask(memory, subject, due, if is_urgent { Lane::Soon } else { lane }, now)
        }
        Asked::No | Asked::Running { .. } => {
            memory.asked = Asked::No;
            let (due, lane) = due(version, subject, mark, memory, now, options);
            if due > now.moment {
                Step::Wait(Some(due))
            } else {
                ask(memory, subject, due, if is_urgent { Lane::Soon } else { lane }, now)
            }
        }
    }
}

fn ask(memory: &mut Memory, subject: &Subject, due: Moment, lane: Lane, now: Now) -> Step {
    let host = subject.host.clone();
    memory.asked = Asked::Waiting { until: now.moment + ASK_AGAIN, due, host: host.clone(), lane };
    Step::Ask { host, due, lane }
}

/// The condition of a version that nothing can be looked for.
fn without_a_check(
    version: &ComponentVersionRecord,
    finding: &Finding,
    memory: &mut Memory,
    now: Now,
    options: &AvailabilityOptions,
) -> Step {
    let (Finding::NoDigest(why) | Finding::NoRegistry(why) | Finding::Failed(why)) = finding else {
        return Step::Wait(None);
    };
    // Whatever is to be looked for later differs from this.
    *memory = Memory { mark: Some(PayloadHash::of_bytes(why.as_bytes())), ..Memory::default() };
    let judged = Judged {
        finding,
        reference: "",
        at: now.wall,
        seen_missing_for: None,
        generation: version.meta.generation,
    };
    let status = judge(&version.status.get(), judged, options.grace);
    written_unless_same(version, status, version.recheck.as_deref())
        .map_or(Step::Wait(None), |status| Step::Write(Box::new(status)))
}

/// The status that follows from a result that is not written yet.
fn take_in_result(
    version: &ComponentVersionRecord,
    subject: &Subject,
    memory: &mut Memory,
    options: &AvailabilityOptions,
) -> Option<Step> {
    let checked = memory.checked.as_deref()?.clone();
    memory.last = Some(checked.at);
    memory.mark = Some(checked.mark);
    if checked.mark != subject.mark {
        // Of something else than what is to be looked for now, which is therefore due.
        memory.checked = None;
        return None;
    }
    memory.answered.clone_from(&checked.recheck);
    let reference = subject.reference();
    match checked.finding {
        Finding::Absent if missing(&version.status.get(), &reference, version.meta.generation).is_none() => {
            memory.missing_from = Some(checked.at);
        }
        Finding::Absent => {}
        _ => memory.missing_from = None,
    }
    let judged = Judged {
        finding: &checked.finding,
        reference: &reference,
        at: checked.wall,
        seen_missing_for: memory.missing_from.map(|from| checked.at.saturating_sub(from)),
        generation: version.meta.generation,
    };
    let status = judge(&version.status.get(), judged, options.grace);
    let status = written_unless_same(version, status, checked.recheck.as_deref());
    if status.is_none() {
        memory.checked = None;
    }
    status.map(|status| Step::Write(Box::new(status)))
}

fn written_unless_same(
    version: &ComponentVersionRecord,
    mut status: ComponentVersionStatus,
    recheck: Option<&str>,
) -> Option<ComponentVersionStatus> {
    if let Some(recheck) = recheck {
        status.observed_recheck = Some(recheck.to_owned());
    }
    let before = version.status.get();
    let same = condition::same(&status.conditions, &before.conditions)
        && status.descriptor_missing_since == before.descriptor_missing_since
        && status.observed_recheck == before.observed_recheck;
    (!same).then_some(status)
}

/// Whether the recheck annotation has a value that no check has answered.
fn is_unanswered(version: &ComponentVersionRecord, memory: &Memory) -> bool {
    version.recheck.as_deref().is_some_and(|value| {
        Some(value) != version.status.get().observed_recheck.as_deref()
            && Some(value) != memory.answered.as_deref()
    })
}

/// Whether what the condition says was true of an earlier spec.
fn is_edited(version: &ComponentVersionRecord) -> bool {
    condition::find(&version.status.get().conditions, reason::TYPE)
        .is_some_and(|available| available.observed_generation != Some(version.meta.generation))
}

/// Since when the next check is due, or when it will be, and where it stands then.
fn due(
    version: &ComponentVersionRecord,
    subject: &Subject,
    mark: PayloadHash,
    memory: &Memory,
    now: Now,
    options: &AvailabilityOptions,
) -> (Moment, Lane) {
    let status = version.status.get();
    let is_known = condition::find(&status.conditions, reason::TYPE).is_some_and(|available| {
        available.observed_generation == Some(version.meta.generation)
            && ![reason::NO_DIGEST, reason::REGISTRY_NOT_CONFIGURED].contains(&&*available.reason)
    });
    if is_unanswered(version, memory) || !is_known || mark != subject.mark {
        return (now.moment, Lane::Due);
    }
    // The last check as the wall clock counts now, however it was set since.
    let ago = memory
        .last
        .map_or(now.moment.saturating_sub(now.began) + LOOK_BACK, |last| now.moment.saturating_sub(last));
    let last = now.wall.checked_sub(ago).unwrap_or(Timestamp::MIN);
    let regular = next_time(&version.meta.uid, last, options.interval);
    let began = now.wall.checked_sub(now.moment.saturating_sub(now.began)).unwrap_or(Timestamp::MIN);
    let lane = |time: Timestamp| match Duration::try_from(began.duration_since(time)) {
        Ok(age) if memory.last.is_none() && !age.is_zero() => Lane::LookBack { age },
        _ => Lane::Due,
    };
    let (regular, lane_of_regular) = (moment_of(regular, now), lane(regular));
    match missing(&status, &subject.reference(), version.meta.generation) {
        Some(Missing::Since(since)) => {
            let red = since.checked_add(options.grace).unwrap_or(Timestamp::MAX);
            let lane_of_red = lane(red);
            let seen = memory.missing_from.map_or(Moment::ZERO, |from| from + options.grace);
            let red = moment_of(red, now).max(seen);
            if red < regular && memory.last.is_none_or(|last| red > last) {
                (red, lane_of_red)
            } else {
                (regular, lane_of_regular)
            }
        }
        _ => (regular, lane_of_regular),
    }
}

/// The moment of a wall time, as the wall clock counts now; a time before the start of the process is its start.
fn moment_of(time: Timestamp, now: Now) -> Moment {
    match Duration::try_from(time.duration_since(now.wall)) {
        Ok(ahead) => now.moment.saturating_add(ahead),
        Err(_) => now.moment.saturating_sub(time.duration_since(now.wall).unsigned_abs()),
    }
}
