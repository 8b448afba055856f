//! What follows from a change: dependents of gone owners, namespaces and CRDs that empty, and finalizers of the server.
//!
//! A real cluster has controllers for this, which come some time later. Here it is part of the operation that caused it,
//! so that one seed gives one order of events.

use std::sync::Arc;

use serde_json::Value;

use super::{
    State, mark_deleted,
    object::{Key, Object},
};
use crate::{
    meta::{self, Json},
    resource::{Builtin, CRDS, NAMESPACES, Resource, TableId},
};

/// Waits for dependents that block.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Waits until dependents are let go.
pub(crate) const ORPHAN: &str = "orphan";
/// Waits until the objects of a CRD are gone.
pub(crate) const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// A change whose consequences are still to be drawn.
#[derive(Debug)]
pub(crate) enum Pending {
    /// An object was removed.
    Gone(Arc<Object>, Arc<Resource>),
    /// An object with owners was written.
    Owned(TableId, Key),
    /// An object that is being deleted was written.
    Deleting(TableId, Key),
}

impl State {
    /// Draws all consequences of what was done since the last call.
    pub fn settle(&mut self, now: jiff::Timestamp) {
        while !self.pending.is_empty() {
            for pending in std::mem::take(&mut self.pending) {
                match pending {
                    Pending::Gone(object, resource) => self.after_removal(&object, &resource, now),
                    Pending::Owned(table, key) => self.check_owners(table, &key, now),
                    Pending::Deleting(table, key) => self.advance_deletion(table, &key, now),
                }
            }
        }
    }

    fn after_removal(&mut self, object: &Object, resource: &Arc<Resource>, now: jiff::Timestamp) {
        for (table, key) in self.dependents(&object.uid) {
            self.check_owners(table, &key, now);
        }
        for owner in &object.owners {
            if let Some((table, key)) = self.by_uid(owner).cloned() {
                self.pending.push(Pending::Deleting(table, key));
            }
        }
        if !object.key.namespace.is_empty() {
            let key = Key::new("", &object.key.namespace);
            self.pending.push(Pending::Deleting(NAMESPACES, key));
        }
        match resource.builtin {
            None => self.pending.push(Pending::Deleting(CRDS, Self::crd_key(resource))),
            Some(Builtin::Crd) => {
                let crd = object.parse();
                let spec = crd.get("spec");
                let text = |path: &str| spec.and_then(|s| s.pointer(path)).and_then(Value::as_str);
                if let (Some(group), Some(plural)) = (text("/group"), text("/names/plural")) {
                    self.undefine(group, plural);
                }
            }
            Some(_) => {}
        }
    }

    /// Deletes an object whose owners are all gone, and drops the references to those that are.
    fn check_owners(&mut self, table: TableId, key: &Key, now: jiff::Timestamp) {
        let Some(object) = self.get(table, key).cloned() else {
            return;
        };
        if object.owners.is_empty() || object.deleting {
            return;
        }
        let json = object.parse();
        let states: Vec<Owner> = meta::owners(&json).map(|o| self.owner_state(o, &key.namespace)).collect();
        let Some(resource) = self.tables.get(&table).map(|t| t.resource.clone()) else {
            return;
        };
        if states.iter().all(|s| *s == Owner::Solid) {
            return;
        }
        if states.contains(&Owner::Solid) {
            let keep = |i: usize| states.get(i) == Some(&Owner::Solid);
            self.put(&resource, keep_owners(json, keep));
        } else if states.contains(&Owner::Waiting) && !self.dependents(&object.uid).is_empty() {
            self.delete(&resource, key, Some(FOREGROUND), now);
        } else {
            self.delete(&resource, key, None, now);
        }
    }

    fn owner_state(&self, owner: &Json, namespace: &str) -> Owner {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        let Some((table, key)) = self.by_uid(text("uid")) else {
            let group = text("apiVersion").rsplit_once('/').map_or("", |(g, _)| g);
            // Like the real collector: a kind that is not served proves nothing.
            return if self.registry.by_kind(group, text("kind")).is_some() {
                Owner::Gone
            } else {
                Owner::Solid
            };
        };
        if !key.namespace.is_empty() && *key.namespace != *namespace {
            return Owner::Gone;
        }
        let waits = self.get(*table, key).is_some_and(|o| {
            o.deleting && o.has_finalizers && meta::finalizers(&o.parse()).contains(&FOREGROUND)
        });
        if waits { Owner::Waiting } else { Owner::Solid }
    }

    /// Moves a deletion on: server-side finalizers, contents of namespaces and CRDs, and the end.
    fn advance_deletion(&mut self, table: TableId, key: &Key, now: jiff::Timestamp) {
        let Some(object) = self.get(table, key).cloned().filter(|o| o.deleting) else {
            return;
        };
        let Some(resource) = self.tables.get(&table).map(|t| t.resource.clone()) else {
            return;
        };
        let json = object.parse();
        let finalizers = meta::finalizers(&json);
        if finalizers.contains(&ORPHAN) {
            self.release_dependents(&object.uid);
            self.drop_finalizer(&resource, key, ORPHAN);
        } else if finalizers.contains(&FOREGROUND) {
            self.advance_foreground(&resource, &object, now);
        } else if table == CRDS && finalizers.contains(&CRD_CLEANUP) {
            self.empty_crd(&resource, key, &json, now);
        } else if table == NAMESPACES {
            self.empty_namespace(&resource, key, json, now);
        } else if finalizers.is_empty() {
            self.remove(table, key);
        }
    }

    fn release_dependents(&mut self, uid: &str) {
        for (table, key) in self.dependents(uid) {
            let Some(object) = self.get(table, &key).cloned() else {
                continue;
            };
            let Some(resource) = self.tables.get(&table).map(|t| t.resource.clone()) else {
                continue;
            };
            let json = object.parse();
            let stays: Vec<bool> =
                meta::owners(&json).map(|o| o.get("uid").and_then(Value::as_str) != Some(uid)).collect();
            self.put(&resource, keep_owners(json, |i| stays.get(i) == Some(&true)));
        }
    }

    fn advance_foreground(&mut self, resource: &Arc<Resource>, object: &Object, now: jiff::Timestamp) {
        let mut blocked = false;
        for (table, key) in self.dependents(&object.uid) {
            let Some(child) = self.get(table, &key).cloned() else {
                continue;
            };
            let json = child.parse();
            if !child.deleting {
                self.check_owners(table, &key, now);
            }
            let blocks = meta::owners(&json).any(|o| {
                o.get("uid").and_then(Value::as_str) == Some(&object.uid)
                    && o.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true)
            });
            blocked |= blocks && self.get(table, &key).is_some_and(|c| c.uid == child.uid);
        }
        if !blocked {
            self.drop_finalizer(resource, &object.key, FOREGROUND);
        }
    }

    fn drop_finalizer(&mut self, resource: &Arc<Resource>, key: &Key, name: &str) {
        let Some(object) = self.get(resource.table, key) else {
            return;
        };
        let mut json = object.parse();
        meta::remove_finalizer(&mut json, name);
        if meta::finalizers(&json).is_empty() && resource.table != NAMESPACES {
            self.remove(resource.table, key);
        } else {
            self.put(resource, json);
        }
    }

    fn empty_crd(&mut self, crds: &Arc<Resource>, key: &Key, crd: &Json, now: jiff::Timestamp) {
        let text = |path: &str| crd.get("spec").and_then(|s| s.pointer(path)).and_then(Value::as_str);
        let (Some(group), Some(plural)) = (text("/group"), text("/names/plural")) else {
            return self.drop_finalizer(crds, key, CRD_CLEANUP);
        };
        if let Some(resource) = self.registry.get(group, plural).cloned() {
            self.delete_all(&resource, "", now);
            if self.tables.get(&resource.table).is_some_and(|t| !t.is_empty()) {
                return;
            }
        }
        self.drop_finalizer(crds, key, CRD_CLEANUP);
    }

    fn empty_namespace(
        &mut self,
        namespaces: &Arc<Resource>,
        key: &Key,
        mut json: Json,
        now: jiff::Timestamp,
    ) {
        let tables: Vec<Arc<Resource>> = self.tables.values().map(|t| t.resource.clone()).collect();
        let mut left = false;
        for resource in tables.iter().filter(|r| r.namespaced) {
            self.delete_all(resource, &key.name, now);
            left |=
                self.tables.get(&resource.table).is_some_and(|t| t.range(&key.name, None).next().is_some());
        }
        if left {
            return;
        }
        if meta::finalizers(&json).is_empty() {
            self.remove(NAMESPACES, key);
        } else if json.get("spec").and_then(|s| s.get("finalizers")).is_some() {
            json.insert("spec".into(), serde_json::json!({}));
            self.put(namespaces, json);
        }
    }

    /// Deletes every object of a resource in a namespace (empty: everywhere).
    fn delete_all(&mut self, resource: &Arc<Resource>, namespace: &str, now: jiff::Timestamp) {
        let keys: Vec<Key> = self
            .tables
            .get(&resource.table)
            .into_iter()
            .flat_map(|t| t.range(namespace, None))
            .filter(|o| !o.deleting)
            .map(|o| o.key.clone())
            .collect();
        for key in keys {
            self.delete(resource, &key, None, now);
        }
    }

    /// Deletes an object: marks it while finalizers (also the one named) hold it, else removes it. Answers the state that
    /// is left and whether the object is gone.
    pub fn delete(
        &mut self,
        resource: &Arc<Resource>,
        key: &Key,
        finalizer: Option<&str>,
        now: jiff::Timestamp,
    ) -> Option<(Arc<Object>, bool)> {
        let object = self.get(resource.table, key)?.clone();
        let mut json = object.parse();
        let before = json.clone();
        if let Some(finalizer) = finalizer
            && !object.deleting
        {
            meta::add_finalizer(&mut json, finalizer);
        }
        let held = !meta::finalizers(&json).is_empty() || resource.table == NAMESPACES;
        if !held {
            return self.remove(resource.table, key).map(|last| (last, true));
        }
        mark_deleted(resource, &mut json, now);
        if json == before {
            return Some((object, false));
        }
        Some((self.put(resource, json), false))
    }
}

/// What the collector finds behind an owner reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Solid,
    /// Being deleted in the foreground.
    Waiting,
    Gone,
}

fn keep_owners(mut json: Json, keep: impl Fn(usize) -> bool) -> Json {
    let meta = meta::metadata_mut(&mut json);
    if let Some(Value::Array(owners)) = meta.get_mut("ownerReferences") {
        let mut index = 0;
        owners.retain(|_| {
            index += 1;
            keep(index - 1)
        });
        if owners.is_empty() {
            meta.remove("ownerReferences");
        }
    }
    json
}
