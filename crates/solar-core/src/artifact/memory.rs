//! What an artifact's actor remembers between passes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::object::ObjectName;
use crate::overlay::{Moment, Own};
use crate::record::{RenderArtifactRecord, RenderBindingRecord};

/// How long a registry write without an answer counts as under way after it was sent: longer than its total timeout and
/// than a proxy may hold it back.
pub const UNANSWERED_WRITE: Duration = Duration::from_secs(30);

/// How artifacts are treated, set once at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactOptions {
    /// How long an artifact waits that was never seen bound.
    pub unbound_grace: Duration,
    /// How often a tag is looked at that is believed to be there; `None`: never.
    pub check_interval: Option<Duration>,
}

/// Leave to push one chart, given to one job at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Tells tickets of this actor apart.
    pub id: u64,
    /// Uid of the artifact when the ticket was given; `None` when there was none (a task that no Target owns).
    pub artifact_uid: Option<Box<str>>,
}

/// What a job has sent to the registry under its ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// No write: the tag is as it was.
    Nothing,
    /// Writes that were all answered.
    Answered,
    /// A write that has no answer; it was sent then.
    Unanswered(Moment),
}

/// What kind of failure the last attempt to delete the tag ended with; it decides what a Target that wants to bind is
/// told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanupProblem {
    /// No credentials for the tag: its Registry, a grant or a Secret is missing or wrong. Those of a Target that wants to
    /// bind may serve.
    NoCredentials,
    /// The registry has said for certain that it does not delete. The tag may as well be used again.
    Refused,
    /// Anything else: the next attempt may succeed.
    Other,
}

/// What a look at the tag with a Target's credentials found. Counts only in the pass that took it in: a clean-up that
/// begins later may change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The artifact's uid for which the tag was looked at.
    pub uid: Box<str>,
    /// The Registry whose credentials were used.
    pub registry: ObjectName,
    /// What the tag holds, or in one sentence why that is not known.
    pub found: Result<Option<String>, String>,
}

/// How the deletion of the tag goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleanup {
    /// Attempts that failed since the last success.
    pub failures: u32,
    /// No attempt before this.
    pub retry_at: Option<Moment>,
    /// The tag is gone, or was somebody else's: the finalizer may go.
    pub done: bool,
    /// Why the last attempt failed, in one sentence.
    pub cause: Option<String>,
    /// What kind of failure that was.
    pub problem: Option<CleanupProblem>,
    /// Registries of Targets that wanted to bind while the tag had no credentials of its own: where they have the tag's
    /// host, an attempt may use theirs.
    pub lenders: BTreeSet<ObjectName>,
    /// What the outcome depended on besides the registry; another value is worth an attempt at once.
    pub fingerprint: Option<String>,
}

/// Kept by the actor, also when a pass fails: tickets must not be forgotten.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a mark of its own, set and cleared for its own reason"
)]
#[derive(Clone, Debug, Default)]
pub struct ArtifactMemory {
    /// The artifact by own deed, until the watch has caught up.
    pub own_artifact: Option<Own<RenderArtifactRecord>>,
    /// Bindings by own deed, until the watch has caught up.
    pub own_bindings: BTreeMap<Arc<str>, Own<RenderBindingRecord>>,
    /// Uid of an artifact that this actor has made while nothing was under way, and under which no job has written since.
    /// Nothing in the status tells that, so no other incarnation knows.
    pub untouched: Option<Box<str>>,
    /// The open ticket.
    pub ticket: Option<Ticket>,
    /// Id of the last ticket given.
    pub last_ticket: u64,
    /// A registry write without an answer may land until then.
    pub under_way_until: Option<Moment>,
    /// Requests of an earlier incarnation may land until then: no cleanup, and no push to a terminating artifact.
    pub quiet_until: Moment,
    /// Whether the artifact was terminating when this incarnation first looked.
    pub terminating_at_start: bool,
    /// Whether this actor has looked at all since it was made.
    pub started: bool,
    /// Whether artifact and bindings were written or read by API in this incarnation; the watch alone is no ground for
    /// a push.
    pub trusted: bool,
    /// The artifact's uid and when it was first seen.
    pub known_since: Option<(Box<str>, Moment)>,
    /// Whether a binding was seen since then whose owner, if it is a Target, was there.
    pub seen_bound: bool,
    /// Bindings were listed by API in this pass, and nothing was served since.
    pub confirmed: bool,
    /// The uid for which, terminating and bound, the tag was looked at.
    pub looked: Option<Box<str>>,
    /// When the tag of a living artifact is looked at next: it may have been deleted by others. `None`: not set yet.
    pub check_at: Option<Moment>,
    /// No look before this, after one that failed.
    pub look_at: Option<Moment>,
    /// Looks that failed in a row.
    pub look_failures: u32,
    /// The uid whose kept tag was announced.
    pub announced: Option<Box<str>>,
    /// Whether an errand (a look or a cleanup) is out.
    pub errand: bool,
    /// Whether the last errand asked for was a clean-up and not a look.
    pub cleaning: bool,
    /// How the deletion goes.
    pub cleanup: Cleanup,
    /// What a Target's credentials showed of the tag; taken away when the requests of this pass are served.
    pub sighting: Option<Sighting>,
}

impl ArtifactMemory {
    /// Memory of an actor made at `now`, while requests of an earlier incarnation may land until `quiet_until`.
    pub fn new(quiet_until: Moment) -> Self {
        Self { quiet_until, ..Self::default() }
    }

    /// Whether a registry write of this process may still land at `now`.
    pub fn write_under_way(&self, now: Moment) -> bool {
        self.ticket.is_some() || self.under_way_until.is_some_and(|until| now < until)
    }

    /// Whether the tag is being deleted, or is gone with the finalizer still to go: what binds or pushes now is lost.
    pub fn is_cleaning_up(&self) -> bool {
        self.cleanup.done || (self.errand && self.cleaning)
    }

    /// Whether nothing would be lost if the actor went.
    pub fn is_idle(&self, now: Moment) -> bool {
        !self.write_under_way(now) && !self.errand && (!self.terminating_at_start || now >= self.quiet_until)
    }

    /// When nothing can be under way any more, as far as that is a matter of time.
    pub(super) fn idle_at(&self) -> Option<Moment> {
        self.under_way_until.max(self.terminating_at_start.then_some(self.quiet_until))
    }

    /// Notes that this actor has made the artifact of `uid`.
    pub fn created(&mut self, uid: &str, now: Moment) {
        self.untouched = (!self.write_under_way(now)).then(|| uid.into());
    }

    /// Whether it is certain that no chart was pushed for `artifact`, so that there is no tag to delete.
    pub fn has_nothing_to_delete(&self, artifact: &RenderArtifactRecord) -> bool {
        self.ticket.is_none()
            && self.untouched.as_ref() == Some(&artifact.meta.uid)
            && artifact.status.get().digest.is_none()
    }

    /// Ends the ticket `id`, under which `written` was sent.
    ///
    /// A ticket that is not open is ignored: its end was told twice.
    pub fn close_ticket(&mut self, id: u64, written: Written) {
        if self.ticket.as_ref().is_none_or(|ticket| ticket.id != id) {
            return;
        }
        self.ticket = None;
        if written != Written::Nothing {
            self.untouched = None;
        }
        if let Written::Unanswered(since) = written {
            let until = since + UNANSWERED_WRITE;
            self.under_way_until = Some(self.under_way_until.map_or(until, |earlier| earlier.max(until)));
        }
    }
}
