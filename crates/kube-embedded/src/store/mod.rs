//! What the server holds: tables, one revision counter, the index of owners.

pub(crate) mod gc;
pub(crate) mod object;
pub(crate) mod registry;
pub(crate) mod table;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    task::Waker,
};

use self::{
    gc::Pending,
    object::{Key, Object},
    registry::Registry,
    table::Table,
};
use crate::{
    disk::{Journal, StorageError},
    meta::{self, Json},
    resource::{Builtin, CRDS, NAMESPACES, Resource, TableId},
    status::ApiError,
};

/// Everything behind the lock.
pub(crate) struct State {
    /// The last resource version that was given out.
    pub revision: u64,
    pub registry: Registry,
    pub tables: BTreeMap<TableId, Table>,
    /// Where the object of a uid is. Only looked up, never walked.
    uids: HashMap<Arc<str>, (TableId, Key)>,
    /// The objects that name a uid as owner.
    dependents: BTreeMap<Arc<str>, BTreeSet<(TableId, Key)>>,
    pub rng: fastrand::Rng,
    pub fenced: BTreeSet<Arc<str>>,
    pub pending: Vec<Pending>,
    wakers: Vec<Waker>,
    pub next_watcher: u64,
    window: usize,
    /// Where changes are kept on disk; none when they are not.
    pub journal: Option<Journal>,
}

impl State {
    pub fn new(seed: u64, window: usize) -> Self {
        let registry = Registry::new();
        let mut tables = BTreeMap::new();
        let has_table = |builtin: Builtin| builtin != Builtin::EventV1 && !builtin.is_review();
        for resource in registry.iter().filter(|r| r.builtin.is_none_or(has_table)) {
            tables.insert(resource.table, Table::new(resource.clone(), window, 0));
        }
        Self {
            revision: 0,
            registry,
            tables,
            uids: HashMap::new(),
            dependents: BTreeMap::new(),
            rng: fastrand::Rng::with_seed(seed),
            fenced: BTreeSet::new(),
            pending: Vec::new(),
            wakers: Vec::new(),
            next_watcher: 0,
            window,
            journal: None,
        }
    }

    pub fn get(&self, table: TableId, key: &Key) -> Option<&Arc<Object>> {
        self.tables.get(&table)?.get(key)
    }

    /// The object of a uid.
    pub fn by_uid(&self, uid: &str) -> Option<&(TableId, Key)> {
        self.uids.get(uid)
    }

    pub fn dependents(&self, uid: &str) -> Vec<(TableId, Key)> {
        self.dependents.get(uid).map(|set| set.iter().cloned().collect()).unwrap_or_default()
    }

    /// Stores an object under a new revision and wakes who watches.
    pub fn put(&mut self, resource: &Resource, object: Json) -> Arc<Object> {
        self.revision += 1;
        let object = Arc::new(Object::new(resource, object, self.revision));
        let Some(table) = self.tables.get_mut(&resource.table) else {
            return object;
        };
        let old = table.put(object.clone());
        wake(&mut self.wakers, table);
        if let Some(journal) = &mut self.journal {
            journal.note(&table.resource, object.clone(), false);
        }
        if let Some(old) = &old {
            self.forget_owners(resource.table, old);
        }
        self.note_owners(resource.table, &object);
        let same_owners = old.is_some_and(|old| old.owners == object.owners);
        if !object.owners.is_empty() && !same_owners {
            self.pending.push(Pending::Owned(resource.table, object.key.clone()));
        }
        if object.deleting {
            self.pending.push(Pending::Deleting(resource.table, object.key.clone()));
        }
        object
    }

    /// Drops an object under a new revision; answers its last state.
    pub fn remove(&mut self, table_id: TableId, key: &Key) -> Option<Arc<Object>> {
        let table = self.tables.get_mut(&table_id)?;
        let resource = table.resource.clone();
        let old = table.get(key)?.clone();
        self.revision += 1;
        let last = Arc::new(old.at_revision(&resource, self.revision));
        table.remove(last.clone());
        wake(&mut self.wakers, table);
        if let Some(journal) = &mut self.journal {
            journal.note(&resource, last.clone(), true);
        }
        self.uids.remove(&old.uid);
        self.forget_owners(table_id, &old);
        self.pending.push(Pending::Gone(last.clone(), resource));
        Some(last)
    }

    /// Writes to disk what changed since the last call, if anything is kept there. After an error nothing more is kept.
    pub fn keep(&mut self) -> Result<(), StorageError> {
        let Some(mut journal) = self.journal.take() else {
            return Ok(());
        };
        journal.keep(self.revision)?;
        if journal.is_overgrown() {
            journal = Journal::start(journal.path(), self)?;
        }
        self.journal = Some(journal);
        Ok(())
    }

    /// Takes an object back as it was kept, with its revision; `false` when it has none.
    pub fn restore(&mut self, resource: &Resource, object: Json) -> bool {
        let Ok(revision) = meta::text(&object, "resourceVersion").parse() else {
            return false;
        };
        let object = Arc::new(Object::new(resource, object, revision));
        if let Some(table) = self.tables.get_mut(&resource.table) {
            table.restore(object.clone());
            self.note_owners(resource.table, &object);
        }
        true
    }

    /// Goes on behind a revision. What was before cannot be watched, and uids are others than those drawn before it.
    pub fn resume_at(&mut self, revision: u64, seed: u64) {
        self.revision = revision;
        self.tables.values_mut().for_each(|table| table.compact(revision));
        // Two draws apart: generators with seeds that differ by little begin near each other.
        let of_seed = fastrand::Rng::with_seed(seed).u64(..);
        let of_revision = fastrand::Rng::with_seed(revision).u64(..);
        self.rng = fastrand::Rng::with_seed(of_seed ^ of_revision);
    }

    fn note_owners(&mut self, table: TableId, object: &Object) {
        self.uids.insert(object.uid.clone(), (table, object.key.clone()));
        for owner in &object.owners {
            self.dependents.entry(owner.clone()).or_default().insert((table, object.key.clone()));
        }
    }

    fn forget_owners(&mut self, table: TableId, object: &Object) {
        let entry = (table, object.key.clone());
        for owner in &object.owners {
            if let Some(set) = self.dependents.get_mut(owner) {
                set.remove(&entry);
                if set.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }

    /// Puts the definition of a CRD in force.
    pub fn define(&mut self, resource: Resource) {
        let resource = self.registry.define(resource);
        if let Some(table) = self.tables.get_mut(&resource.table) {
            table.redefine(resource);
            // They show themselves by the new schema without a revision of their own.
            if let Some(journal) = &mut self.journal {
                table.iter().for_each(|object| journal.note(&table.resource, object.clone(), false));
            }
        } else {
            self.tables.insert(resource.table, Table::new(resource, self.window, self.revision));
        }
    }

    /// Takes a CRD's kind out of service and ends its watches.
    pub fn undefine(&mut self, group: &str, plural: &str) {
        if let Some(resource) = self.registry.undefine(group, plural)
            && let Some(mut table) = self.tables.remove(&resource.table)
        {
            wake(&mut self.wakers, &mut table);
        }
    }

    /// Whether something may be created in a namespace.
    pub fn check_namespace(&self, resource: &Resource, namespace: &str, name: &str) -> Result<(), ApiError> {
        if !resource.namespaced {
            return Ok(());
        }
        let Some(found) = self.get(NAMESPACES, &Key::new("", namespace)) else {
            let subject = crate::status::Subject { group: "", plural: "namespaces", kind: "Namespace" };
            return Err(ApiError::not_found(subject, namespace));
        };
        if !found.deleting {
            return Ok(());
        }
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        Err(ApiError::forbidden(resource.subject(), name, &why).cause(
            "NamespaceTerminating",
            "metadata.namespace",
            format!("namespace {namespace} is being terminated"),
        ))
    }

    /// The CRD that defines a resource.
    pub fn crd_key(resource: &Resource) -> Key {
        Key::new("", &format!("{}.{}", resource.plural, resource.group))
    }

    /// Whether the CRD of a resource is on its way out, so that nothing new may come.
    pub fn is_retiring(&self, resource: &Resource) -> bool {
        resource.builtin.is_none() && self.get(CRDS, &Self::crd_key(resource)).is_some_and(|crd| crd.deleting)
    }

    /// A random (version 4) uid.
    pub fn new_uid(&mut self) -> String {
        let bits = self.rng.u128(..);
        let bits = (bits & !(0xf_u128 << 76) & !(0x3_u128 << 62)) | (0x4_u128 << 76) | (0x2_u128 << 62);
        let hex = format!("{bits:032x}");
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// Five characters for `generateName`, from the real server's alphabet without vowels.
    pub fn new_suffix(&mut self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5).map(|_| char::from(ALPHABET[self.rng.usize(..ALPHABET.len())])).collect()
    }

    /// Wakes the watches that a predicate picks, after telling them to end.
    pub fn cut(&mut self, cut: table::Cut, pick: &dyn Fn(&crate::request::RequestInfo) -> bool) -> usize {
        let mut count = 0;
        for watcher in self.tables.values_mut().flat_map(|t| t.watchers.values_mut()) {
            if pick(&watcher.info) {
                watcher.cut = Some(cut);
                self.wakers.extend(watcher.waker.take());
                count += 1;
            }
        }
        count
    }

    /// The wakers that are due; to be called without the lock.
    pub fn take_wakers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.wakers)
    }
}

fn wake(wakers: &mut Vec<Waker>, table: &mut Table) {
    wakers.extend(table.watchers.values_mut().filter_map(|w| w.waker.take()));
}

/// Marks an object as being deleted; a second deletion changes nothing.
pub(crate) fn mark_deleted(resource: &Resource, object: &mut Json, now: jiff::Timestamp) {
    if meta::is_deleting(object) {
        return;
    }
    let generation = meta::generation(object);
    let meta = meta::metadata_mut(object);
    meta.insert("deletionTimestamp".into(), crate::clock::seconds(now).into());
    meta.insert("deletionGracePeriodSeconds".into(), 0.into());
    if generation > 0 {
        meta.insert("generation".into(), (generation + 1).into());
    }
    if resource.builtin == Some(Builtin::Namespace) {
        object.insert("status".into(), serde_json::json!({ "phase": "Terminating" }));
    }
}
