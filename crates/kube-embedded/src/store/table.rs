//! The objects of one resource, their indexes, and the window of their last changes.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
    sync::Arc,
    task::Waker,
};

use super::object::{Key, Object};
use crate::{request::RequestInfo, resource::Resource};

/// The most bytes of objects in the window of one resource: as many changes as it may hold could fill the memory.
const MAX_HELD: usize = 64 * 1024 * 1024;

/// One change of one object.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub revision: u64,
    /// What was there before.
    pub old: Option<Arc<Object>>,
    /// What is there now; for a deletion the last state, at the revision of the deletion.
    pub new: Arc<Object>,
    pub deleted: bool,
}

/// How a watch is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The connection breaks.
    Broken,
    /// An error event 410 ends the stream.
    Gone,
}

/// A watch that is open.
#[derive(Debug)]
pub(crate) struct Watcher {
    pub info: Arc<RequestInfo>,
    pub waker: Option<Waker>,
    pub cut: Option<Cut>,
}

type Index = BTreeMap<Box<str>, BTreeSet<Key>>;

/// The objects of one resource.
#[derive(Debug)]
pub(crate) struct Table {
    pub resource: Arc<Resource>,
    objects: BTreeMap<Key, Arc<Object>>,
    /// The number of objects in each namespace.
    counts: BTreeMap<Arc<str>, usize>,
    /// One index per selectable field that has one.
    indexes: Vec<Option<Index>>,
    changes: VecDeque<Change>,
    window: usize,
    /// The bytes of the objects in the window.
    held: usize,
    /// Changes up to this revision are forgotten.
    pub floor: u64,
    pub watchers: BTreeMap<u64, Watcher>,
}

impl Table {
    pub fn new(resource: Arc<Resource>, window: usize, floor: u64) -> Self {
        let indexes = empty_indexes(&resource);
        Self {
            resource,
            objects: BTreeMap::new(),
            counts: BTreeMap::new(),
            indexes,
            changes: VecDeque::new(),
            window,
            held: 0,
            floor,
            watchers: BTreeMap::new(),
        }
    }

    /// Puts a new definition in place. Stored objects keep their revision; they get the new selectable fields and show
    /// themselves by the new schema: pruned, and with its defaults.
    pub fn redefine(&mut self, resource: Arc<Resource>) {
        self.indexes = empty_indexes(&resource);
        self.resource = resource;
        let objects = std::mem::take(&mut self.objects);
        for object in objects.into_values() {
            let object = object.by_schema(&self.resource);
            self.index(&object, true);
            self.objects.insert(object.key.clone(), Arc::new(object));
        }
    }

    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// The number of objects in a namespace (empty: in all).
    pub fn count_in(&self, namespace: &str) -> usize {
        if namespace.is_empty() {
            self.len()
        } else {
            self.counts.get(namespace).copied().unwrap_or_default()
        }
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// All objects in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }

    /// The objects of one namespace (empty: all) behind a key.
    pub fn range<'a>(
        &'a self,
        namespace: &'a str,
        after: Option<&Key>,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        let start = match after {
            Some(key) => Bound::Excluded(key.clone()),
            None => Bound::Included(Key::new(namespace, "")),
        };
        self.objects
            .range((start, Bound::Unbounded))
            .map(|(_, object)| object)
            .take_while(move |o| namespace.is_empty() || *o.key.namespace == *namespace)
    }

    /// The keys that the index of a field holds for a value; `None` when the field has no index.
    pub fn lookup(&self, field: usize, value: &str) -> Option<&BTreeSet<Key>> {
        static NONE: BTreeSet<Key> = BTreeSet::new();
        let index = self.indexes.get(field)?.as_ref()?;
        Some(index.get(value).unwrap_or(&NONE))
    }

    /// Stores an object and notes the change.
    pub fn put(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let old = self.objects.insert(object.key.clone(), object.clone());
        match &old {
            Some(old) => self.index(old, false),
            None => *self.counts.entry(object.key.namespace.clone()).or_default() += 1,
        }
        self.index(&object, true);
        self.note(Change { revision: object.revision, old: old.clone(), new: object, deleted: false });
        old
    }

    /// Takes an object back that was there before; that is no change.
    pub fn restore(&mut self, object: Arc<Object>) {
        self.index(&object, true);
        *self.counts.entry(object.key.namespace.clone()).or_default() += 1;
        self.objects.insert(object.key.clone(), object);
    }

    /// Drops an object; `last` is its last state, at the revision of the deletion.
    pub fn remove(&mut self, last: Arc<Object>) {
        let Some(old) = self.objects.remove(&last.key) else {
            return;
        };
        self.index(&old, false);
        if let Some(count) = self.counts.get_mut(&old.key.namespace) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&old.key.namespace);
            }
        }
        self.note(Change { revision: last.revision, old: Some(old), new: last, deleted: true });
    }

    fn note(&mut self, change: Change) {
        self.held += change.new.json.len();
        self.changes.push_back(change);
        while self.changes.len() > self.window || self.held > MAX_HELD && self.changes.len() > 1 {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.changes.pop_front() {
            self.floor = oldest.revision;
            self.held -= oldest.new.json.len();
        }
    }

    /// Forgets all changes up to a revision.
    pub fn compact(&mut self, revision: u64) {
        while self.changes.front().is_some_and(|c| c.revision <= revision) {
            self.forget_oldest();
        }
        self.floor = self.floor.max(revision);
    }

    /// The changes after a revision, oldest first.
    pub fn changes_after(&self, revision: u64) -> impl DoubleEndedIterator<Item = &Change> {
        let start = self.changes.partition_point(|c| c.revision <= revision);
        self.changes.range(start..)
    }

    /// The revision behind which a watch sees the last `count` changes up to a revision once more.
    pub fn revision_before(&self, revision: u64, count: usize) -> u64 {
        let end = self.changes.partition_point(|c| c.revision <= revision);
        match self.changes.get(end.saturating_sub(count)).filter(|c| c.revision <= revision) {
            Some(change) => change.revision - 1,
            None => revision,
        }
    }

    /// What stood under each key that changed after a revision.
    pub fn undo(&self, revision: u64) -> BTreeMap<Key, Option<Arc<Object>>> {
        self.changes_after(revision).rev().map(|c| (c.new.key.clone(), c.old.clone())).collect()
    }

    fn index(&mut self, object: &Object, add: bool) {
        for (index, value) in self.indexes.iter_mut().zip(&object.fields) {
            let (Some(index), Some(value)) = (index, value) else {
                continue;
            };
            if add {
                index.entry(value.clone()).or_default().insert(object.key.clone());
            } else if let Some(keys) = index.get_mut(value) {
                keys.remove(&object.key);
                if keys.is_empty() {
                    index.remove(value);
                }
            }
        }
    }
}

fn empty_indexes(resource: &Resource) -> Vec<Option<Index>> {
    resource.fields.iter().map(|f| f.indexed.then(Index::new)).collect()
}
