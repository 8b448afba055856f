//! The request log: what was asked, by whom, and what came of it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;

use crate::request::{RequestInfo, Verb};

/// One entry of the request log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// Running number on this server, from 1.
    pub number: u64,
    /// When it came in.
    pub received: Timestamp,
    /// Who asked.
    pub actor: Arc<str>,
    /// What it did.
    pub verb: Verb,
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Plural name; empty for paths that are no resource.
    pub resource: Arc<str>,
    /// Such as `status`; empty without.
    pub subresource: Arc<str>,
    /// Namespace; empty without.
    pub namespace: Arc<str>,
    /// Name; empty without.
    pub name: Arc<str>,
    /// The HTTP code of the answer; 0 while there is none, and for ever if none was sent.
    pub code: u16,
}

/// A bounded log with counters that outlive its entries.
#[derive(Debug)]
pub(crate) struct RequestLog {
    capacity: usize,
    records: VecDeque<RequestRecord>,
    counts: BTreeMap<(Arc<str>, Verb), u64>,
    /// The number of the last request.
    last: u64,
}

/// The longest text that is kept of a request, in bytes: no name that is one is longer.
const MAX_TEXT: usize = 253;

fn short(text: &Arc<str>) -> Arc<str> {
    match text.len() {
        ..=MAX_TEXT => text.clone(),
        _ => text[..text.floor_char_boundary(MAX_TEXT)].into(),
    }
}

impl RequestLog {
    pub fn new(capacity: usize) -> Self {
        Self { capacity, records: VecDeque::new(), counts: BTreeMap::new(), last: 0 }
    }

    /// Takes a request in at `now` and gives it its number: in one step, so that entries stand in the order of their numbers.
    pub fn arrived(&mut self, info: &mut RequestInfo, now: Timestamp) {
        self.last += 1;
        info.number = self.last;
        // Of what is not served there may be any number of names.
        let counted = if info.kind.is_empty() { "".into() } else { info.resource.clone() };
        *self.counts.entry((counted, info.verb)).or_default() += 1;
        if self.capacity == 0 {
            return;
        }
        if self.records.len() == self.capacity {
            self.records.pop_front();
        }
        self.records.push_back(RequestRecord {
            number: info.number,
            received: now,
            actor: short(&info.actor),
            verb: info.verb,
            group: short(&info.group),
            resource: short(&info.resource),
            subresource: short(&info.subresource),
            namespace: short(&info.namespace),
            name: short(&info.name),
            code: 0,
        });
    }

    /// Notes the code of an answer, if the entry is still in the log.
    pub fn answered(&mut self, number: u64, code: u16) {
        if let Ok(index) = self.records.binary_search_by_key(&number, |r| r.number)
            && let Some(record) = self.records.get_mut(index)
        {
            record.code = code;
        }
    }

    pub fn records(&self) -> Vec<RequestRecord> {
        self.records.iter().cloned().collect()
    }

    pub fn count(&self, verb: Verb, resource: &str) -> u64 {
        self.counts.iter().filter(|((r, v), _)| *v == verb && **r == *resource).map(|(_, n)| n).sum()
    }

    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    pub fn reset(&mut self) {
        self.records.clear();
        self.counts.clear();
    }
}
