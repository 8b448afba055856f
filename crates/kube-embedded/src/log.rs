//! The request log: what was asked, by whom, and what came of it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use crate::request::{RequestInfo, Verb};

/// One entry of the request log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// Running number on this server, from 1.
    pub number: u64,
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
    /// Name; empty without (a create that carries its name only in the body has none here).
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
}

impl RequestLog {
    pub fn new(capacity: usize) -> Self {
        Self { capacity, records: VecDeque::new(), counts: BTreeMap::new() }
    }

    pub fn arrived(&mut self, info: &RequestInfo) {
        *self.counts.entry((info.resource.clone(), info.verb)).or_default() += 1;
        if self.capacity == 0 {
            return;
        }
        if self.records.len() == self.capacity {
            self.records.pop_front();
        }
        self.records.push_back(RequestRecord {
            number: info.number,
            actor: info.actor.clone(),
            verb: info.verb,
            group: info.group.clone(),
            resource: info.resource.clone(),
            subresource: info.subresource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
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
