//! Writes what changes before anybody is told of it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Batch, Change, StorageError,
    log::{self, Log},
};
use crate::{
    resource::Resource,
    store::{State, object::Object},
};

/// How much a log grows at least before it is written anew.
const SLACK: usize = 8 * 1024 * 1024;

/// A change that is not written yet.
#[derive(Debug)]
struct Unsaved {
    group: Arc<str>,
    plural: Arc<str>,
    object: Arc<Object>,
    removed: bool,
}

impl Unsaved {
    fn new(resource: &Resource, object: Arc<Object>, removed: bool) -> Self {
        Self { group: resource.group.clone(), plural: resource.plural.clone(), object, removed }
    }

    fn change(&self) -> Result<Change<'_>, serde_json::Error> {
        let object = if self.removed {
            None
        } else {
            Some(serde_json::from_slice::<&serde_json::value::RawValue>(&self.object.json)?)
        };
        Ok(Change {
            group: (&*self.group).into(),
            plural: (&*self.plural).into(),
            namespace: (&*self.object.key.namespace).into(),
            name: (&*self.object.key.name).into(),
            object,
        })
    }
}

/// The log that a server writes.
#[derive(Debug)]
pub(crate) struct Journal {
    log: Log,
    path: PathBuf,
    /// The revision that the log knows of.
    revision: u64,
    unsaved: Vec<Unsaved>,
    /// How much was added since the log was written anew, and how much may be.
    grown: usize,
    room: usize,
}

impl Journal {
    /// Writes everything that is there into a new log in the place of an old one.
    pub fn start(path: &Path, state: &State) -> Result<Self, StorageError> {
        let mut records = batch(path, state.revision, &[])?;
        for table in state.tables.values() {
            for object in table.iter() {
                let change = Unsaved::new(&table.resource, object.clone(), false);
                records.extend(batch(path, state.revision, &[change])?);
            }
        }
        Ok(Self {
            log: Log::replace(path, &records)?,
            path: path.to_owned(),
            revision: state.revision,
            unsaved: Vec::new(),
            grown: 0,
            room: SLACK.max(2 * records.len()),
        })
    }

    /// Notes a change for the next [`Self::keep`].
    pub fn note(&mut self, resource: &Resource, object: Arc<Object>, removed: bool) {
        self.unsaved.push(Unsaved::new(resource, object, removed));
    }

    /// Writes what was noted, as one record.
    pub fn keep(&mut self, revision: u64) -> Result<(), StorageError> {
        if self.unsaved.is_empty() && self.revision == revision {
            return Ok(());
        }
        let record = batch(&self.path, revision, &std::mem::take(&mut self.unsaved))?;
        self.log.append(&record)?;
        self.revision = revision;
        self.grown += record.len();
        Ok(())
    }

    /// Whether most of the log is history.
    pub fn is_overgrown(&self) -> bool {
        self.grown > self.room
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn batch(path: &Path, revision: u64, changes: &[Unsaved]) -> Result<Vec<u8>, StorageError> {
    let io = |error: std::io::Error| StorageError::Io { path: path.to_owned(), error };
    let changes = changes.iter().map(Unsaved::change).collect::<Result<_, _>>().map_err(|e| io(e.into()))?;
    let content = serde_json::to_vec(&Batch { revision, changes }).map_err(|e| io(e.into()))?;
    log::record(&content).map_err(|kind| io(kind.into()))
}
