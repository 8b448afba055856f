//! A stored object: its JSON once, and beside it what lists and the garbage collector ask for.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use crate::{
    field::Path,
    meta::{self, Json},
    resource::Resource,
    selector,
};

/// Namespace (empty for cluster-wide kinds) and name.
///
/// Keys are ordered as the paths `namespace/name`, like those of the real server's store: `team-a/x` comes before
/// `team/x`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        if self.namespace == other.namespace {
            return self.name.cmp(&other.name);
        }
        let end = std::iter::once(b'/');
        self.namespace.bytes().chain(end.clone()).cmp(other.namespace.bytes().chain(end))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Key {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// One version of one object. It never changes; a write puts another in its place.
pub(crate) struct Object {
    pub key: Key,
    pub uid: Arc<str>,
    pub revision: u64,
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// The texts of the resource's selectable fields, in their order.
    pub fields: Box<[Option<Box<str>>]>,
    /// The uids of the owners.
    pub owners: Box<[Arc<str>]>,
    pub deleting: bool,
    pub has_finalizers: bool,
    /// The object in its storage version.
    pub json: Bytes,
}

// The bytes may hold a secret.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("key", &self.key)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

impl Object {
    /// Takes an object over at a revision, which is written into it.
    pub fn new(resource: &Resource, mut object: Json, revision: u64) -> Self {
        meta::metadata_mut(&mut object).insert("resourceVersion".into(), revision.to_string().into());
        Self::build(resource, object, revision)
    }

    /// An object that a dry run made: it has no revision.
    pub fn unstored(resource: &Resource, object: Json) -> Self {
        Self::build(resource, object, 0)
    }

    fn build(resource: &Resource, object: Json, revision: u64) -> Self {
        // A tree of JSON values always has a text. It is kept for long, so it keeps no more room than it needs.
        let json = Bytes::from(serde_json::to_vec(&object).unwrap_or_default().into_boxed_slice());
        Self {
            key: Key::new(meta::text(&object, "namespace"), meta::text(&object, "name")),
            uid: meta::text(&object, "uid").into(),
            revision,
            labels: selector::labels_of(&object),
            fields: resource.fields.iter().map(|f| f.value_of(&object)).collect(),
            owners: owner_uids(&object),
            deleting: meta::is_deleting(&object),
            has_finalizers: !meta::finalizers(&object).is_empty(),
            json,
        }
    }

    /// The object as a JSON tree of its own.
    ///
    /// # Panics
    /// When an object was let in that nests deeper than [`meta::MAX_DEPTH`]. To go on with anything else would lose it.
    pub fn parse(&self) -> Json {
        serde_json::from_slice(&self.json).expect("admission lets nothing in that cannot be read back")
    }

    /// The same object as the storage schema of a new definition shows it.
    pub fn by_schema(&self, resource: &Resource) -> Self {
        let mut json = self.parse();
        if let Some(version) = resource.versions.get(resource.storage) {
            version.schema.prune_object(&mut json, true, &Path::ROOT, &mut Vec::new());
            let mut value = Value::Object(json);
            version.schema.apply_defaults(&mut value);
            json = match value {
                Value::Object(json) => json,
                _ => Json::new(),
            };
            json.insert("apiVersion".into(), resource.api_version(resource.storage).into());
        }
        Self::new(resource, json, self.revision)
    }

    /// The same object at another revision.
    pub fn at_revision(&self, resource: &Resource, revision: u64) -> Self {
        Self::new(resource, self.parse(), revision)
    }
}

fn owner_uids(object: &Json) -> Box<[Arc<str>]> {
    meta::owners(object).filter_map(|o| o.get("uid").and_then(Value::as_str)).map(Into::into).collect()
}
