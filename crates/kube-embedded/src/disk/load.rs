//! Reads a log back into a state.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use serde_json::value::RawValue;

use super::{Batch, StorageError, Torn, log};
use crate::{
    crd,
    meta::Json,
    resource::{Builtin, Resource},
    store::{State, object::Key},
};

/// A state as it was left.
pub(crate) struct Loaded {
    pub state: State,
    pub torn: Option<Torn>,
}

/// The objects of each group and plural, with the offsets of their records.
type Kinds<'a> = BTreeMap<(String, String), BTreeMap<Key, (usize, &'a RawValue)>>;

/// Reads a log; `None` when there is none.
pub(crate) fn load(path: &Path, seed: u64, window: usize) -> Result<Option<Loaded>, StorageError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StorageError::Io { path: path.to_owned(), error }),
    };
    let contents = log::parse(path, &bytes)?;
    let (revision, mut kinds) = replay(path, &contents.records)?;
    let mut loading = Loading { state: State::new(seed, window), path: path.to_owned() };
    // First of all the definitions, without which the others have no place.
    let crds = loading.state.registry.iter().find(|r| r.builtin == Some(Builtin::Crd)).cloned();
    if let Some(crds) = crds {
        let found = kinds.remove(&(crds.group.to_string(), crds.plural.to_string()));
        for (offset, raw) in found.into_iter().flat_map(BTreeMap::into_values) {
            loading.define(&crds, offset, raw)?;
        }
    }
    for ((group, plural), objects) in kinds {
        for (offset, raw) in objects.into_values() {
            loading.restore(&group, &plural, offset, raw)?;
        }
    }
    loading.state.resume_at(revision, seed);
    Ok(Some(Loaded { state: loading.state, torn: contents.torn }))
}

/// What is left after all changes, and the last revision.
fn replay<'a>(path: &Path, records: &[(usize, &'a [u8])]) -> Result<(u64, Kinds<'a>), StorageError> {
    let mut kinds = Kinds::new();
    let mut revision = 0;
    for (offset, content) in records {
        let batch: Batch<'a> = serde_json::from_slice(content).map_err(|error| StorageError::Corrupt {
            path: path.to_owned(),
            offset: *offset,
            problem: format!("a record cannot be read: {error}"),
        })?;
        revision = revision.max(batch.revision);
        for change in batch.changes {
            let key = Key::new(&change.namespace, &change.name);
            let kind = (change.group.into_owned(), change.plural.into_owned());
            if let Some(object) = change.object {
                kinds.entry(kind).or_default().insert(key, (*offset, object));
                continue;
            }
            // A definition takes what is left of its kind along.
            if let ("customresourcedefinitions", Some((plural, group))) = (&*kind.1, key.name.split_once('.'))
            {
                kinds.remove(&(group.to_owned(), plural.to_owned()));
            }
            if let Some(objects) = kinds.get_mut(&kind) {
                objects.remove(&key);
            }
        }
    }
    Ok((revision, kinds))
}

struct Loading {
    state: State,
    path: PathBuf,
}

impl Loading {
    fn corrupt(&self, offset: usize, problem: String) -> StorageError {
        StorageError::Corrupt { path: self.path.clone(), offset, problem }
    }

    fn object(&self, offset: usize, raw: &RawValue) -> Result<Json, StorageError> {
        serde_json::from_str(raw.get())
            .map_err(|error| self.corrupt(offset, format!("an object cannot be read: {error}")))
    }

    fn define(&mut self, crds: &Resource, offset: usize, raw: &RawValue) -> Result<(), StorageError> {
        let object = self.object(offset, raw)?;
        let mut errors = Vec::new();
        let defined = crd::establish(&mut object.clone(), None, &mut errors);
        let Some(resource) = defined else {
            let problems: Vec<String> = errors.iter().map(crate::field::FieldError::message).collect();
            return Err(self.corrupt(offset, format!("a definition is refused: {}", problems.join("; "))));
        };
        self.state.define(resource);
        self.keep(crds, offset, object)
    }

    fn restore(
        &mut self,
        group: &str,
        plural: &str,
        offset: usize,
        raw: &RawValue,
    ) -> Result<(), StorageError> {
        let resource = self.state.registry.get(group, plural).cloned();
        let resource = resource
            .ok_or_else(|| self.corrupt(offset, format!("nothing defines {plural} of \"{group}\"")))?;
        let object = self.object(offset, raw)?;
        self.keep(&resource, offset, object)
    }

    fn keep(&mut self, resource: &Resource, offset: usize, object: Json) -> Result<(), StorageError> {
        let name = crate::meta::text(&object, "name").to_owned();
        if self.state.restore(resource, object) {
            return Ok(());
        }
        Err(self.corrupt(offset, format!("the object {name} has no resource version")))
    }
}
