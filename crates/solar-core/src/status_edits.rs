//! When a status that somebody else wrote is put right: at once, and ever later when somebody keeps writing it.

use std::time::Duration;

use crate::backoff;
use crate::overlay::Moment;

/// Wait after the first edit, before another is looked at.
const BASE: Duration = Duration::from_secs(1);
/// The longest such wait; an object that was left alone for as long behind it begins anew.
const CAP: Duration = Duration::from_secs(300);
/// Own writes that are remembered until the watch shows them. One that is forgotten costs a look at its own work.
const REMEMBERED: usize = 16;

/// What the watch has shown of one object's status, and which of it its actor wrote.
///
/// Versions are compared for equality only: a store that was restored from a backup begins again with lower ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownStatus {
    /// The versions that the actor's last writes made, in their order: the last that was shown, and those after it.
    own: Vec<Box<str>>,
    /// Whether the last of them was not shown yet.
    is_behind: bool,
    /// The version that was shown last, unless it is known to be an own one, or a pass has begun since.
    unknown: Option<Box<str>>,
}

impl ShownStatus {
    /// The actor itself wrote `version`. The watch may have been faster than the answer.
    pub fn wrote(&mut self, version: &str) {
        self.is_behind = self.unknown.as_deref() != Some(version);
        if !self.is_behind {
            self.unknown = None;
        }
        if self.own.len() == REMEMBERED {
            self.own.remove(0);
        }
        self.own.push(version.into());
    }

    /// The watch shows another status than before, in `version`.
    pub fn show(&mut self, version: &str) {
        match self.own.iter().position(|own| **own == *version) {
            Some(at) => {
                self.own.drain(..at);
                self.is_behind = self.own.len() > 1;
                self.unknown = None;
            }
            None => self.unknown = Some(version.into()),
        }
    }

    /// Whether the watch may still show the actor something of its own.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Whether somebody else may have written what is shown, and no pass has looked at it.
    pub fn is_edited(&self) -> bool {
        self.unknown.is_some()
    }

    /// A pass begins, which sees what is shown; answers whether that is an edit.
    pub fn pass_begins(&mut self) -> bool {
        self.unknown.take().is_some()
    }
}

/// When the edits of one object's status are looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusEdits {
    /// Edits in a row that were looked at.
    in_a_row: u32,
    /// No look only for the sake of an edit before this.
    earliest: Moment,
}

/// Whether an edit is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditLook {
    /// Now.
    Now,
    /// Then.
    At(Moment),
}

impl StatusEdits {
    /// When a pass is to look at an edit.
    pub fn look(&self, now: Moment) -> EditLook {
        if now < self.earliest { EditLook::At(self.earliest) } else { EditLook::Now }
    }

    /// Whether earlier edits make no difference any more.
    pub fn is_forgotten(&self, now: Moment) -> bool {
        self.in_a_row == 0 || now >= self.earliest + CAP
    }

    /// A pass begins, for whatever cause, which sees an edit. `jitter` is in 0..1.
    pub fn looked(&mut self, now: Moment, jitter: f64) {
        if now >= self.earliest + CAP {
            self.in_a_row = 0;
        }
        self.earliest = now + backoff::delay(self.in_a_row, BASE, CAP, jitter);
        self.in_a_row = self.in_a_row.saturating_add(1);
    }
}
