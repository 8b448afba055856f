//! What was asked of the registry, for tests and for people.

use std::collections::{BTreeMap, VecDeque};

use super::request::RegistryOperation;

const MAX_ENTRIES: usize = 100_000;

/// How a request presented itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presented {
    /// No `Authorization` header.
    Nothing,
    /// Basic, with this user name.
    Basic(String),
    /// A bearer token.
    Bearer,
    /// A header of another form.
    Other,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Running number, from 1.
    pub sequence: u64,
    /// Who asked.
    pub actor: String,
    /// What for.
    pub operation: RegistryOperation,
    /// The repository, empty where there is none.
    pub repository: String,
    /// Tag, digest or upload, empty where there is none.
    pub reference: String,
    /// `Host` of the request.
    pub host: String,
    /// Its credentials, without the secret.
    pub presented: Presented,
    /// The answer; `None` when there was none.
    pub status: Option<u16>,
}

/// The latest requests, and counts of all of them by operation and status.
#[derive(Default)]
pub(super) struct RequestLog {
    entries: VecDeque<LogEntry>,
    counts: BTreeMap<(RegistryOperation, Option<u16>), u64>,
}

impl RequestLog {
    pub(super) fn push(&mut self, entry: LogEntry) {
        if self.entries.len() == MAX_ENTRIES {
            self.entries.pop_front();
        }
        *self.counts.entry((entry.operation, entry.status)).or_default() += 1;
        self.entries.push_back(entry);
    }

    pub(super) fn entries(&self) -> Vec<LogEntry> {
        self.entries.iter().cloned().collect()
    }

    pub(super) fn counts(&self) -> BTreeMap<(RegistryOperation, Option<u16>), u64> {
        self.counts.clone()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.counts.clear();
    }
}
