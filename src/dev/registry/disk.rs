//! Content that outlives the process: blobs and manifests as files under their digests, and one index per repository.
//!
//! Every file is written under another name and then renamed, and every file is checked against a digest when it is read:
//! blobs and manifests against their names, an index against its first line.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::SetOnce;

use crate::adapters::oci::Digest;
use crate::dev::private;

use super::content::{Repository, StoredManifest};

/// Why a registry's folder could not be used.
#[derive(Debug, Error)]
pub enum RegistryStorageError {
    /// A file could not be read or written.
    #[error("{path}: {error}", path = .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A file does not hold what was written to it. It is left as it is.
    #[error("{path} is damaged: {problem}", path = .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// What a repository holds, without the bytes.
#[derive(Serialize, Deserialize)]
struct Index {
    name: String,
    /// Media types by digest.
    manifests: BTreeMap<String, String>,
    tags: BTreeMap<String, String>,
    blobs: BTreeSet<String>,
}

impl Index {
    fn of(name: &str, repository: &Repository) -> Self {
        let text = |digest: &Digest| digest.as_str().to_owned();
        let manifests = repository.manifests.iter();
        Self {
            name: name.to_owned(),
            manifests: manifests.map(|(digest, held)| (text(digest), held.media_type.clone())).collect(),
            tags: repository.tags.iter().map(|(tag, digest)| (tag.clone(), text(digest))).collect(),
            blobs: repository.blobs.keys().map(text).collect(),
        }
    }
}

/// What a folder held.
pub(super) struct Found {
    pub(super) repositories: BTreeMap<String, Repository>,
    /// Files that were being written when the process was killed, which are removed.
    pub(super) torn: Vec<PathBuf>,
}

/// The folder of a registry.
pub(super) struct Disk {
    indexes: PathBuf,
    blobs: PathBuf,
    /// Says which repositories there are, so that none can get lost unnoticed.
    list: PathBuf,
    listed: BTreeSet<String>,
    failure: Arc<SetOnce<String>>,
}

impl Disk {
    /// Opens a folder, or makes it.
    pub(super) fn open(folder: &Path) -> Result<Self, RegistryStorageError> {
        let disk = Self {
            indexes: folder.join("repositories"),
            blobs: folder.join("blobs/sha256"),
            list: folder.join("repositories.json"),
            listed: BTreeSet::new(),
            failure: Arc::default(),
        };
        for folder in [&disk.indexes, &disk.blobs] {
            private::create_folders(folder).map_err(|error| io(folder, error))?;
        }
        if !disk.list.exists() {
            if let Some(index) = files(&disk.indexes)?.first() {
                return Err(corrupt(&disk.list, format!("it is missing, but there is {}", index.display())));
            }
            write_checked(&disk.list, &disk.listed)?;
        }
        Ok(disk)
    }

    /// Reads everything, and removes what was never finished.
    pub(super) fn load(&mut self) -> Result<Found, RegistryStorageError> {
        let mut found = Found { repositories: BTreeMap::new(), torn: Vec::new() };
        let beside = self.list.parent().map(files).transpose()?.unwrap_or_default();
        for path in files(&self.indexes)?.into_iter().chain(files(&self.blobs)?).chain(beside) {
            if path.extension().is_some_and(|extension| extension == "new") {
                std::fs::remove_file(&path).map_err(|error| io(&path, error))?;
                found.torn.push(path);
            }
        }
        for path in files(&self.indexes)? {
            let index: Index = read_checked(&path)?;
            let repository = self.read_repository(&path, &index)?;
            found.repositories.insert(index.name, repository);
        }
        let listed: BTreeSet<String> = read_checked(&self.list)?;
        if let Some(name) = listed.iter().find(|name| !found.repositories.contains_key(*name)) {
            return Err(corrupt(&self.index_of(name), format!("it is missing, with the repository {name}")));
        }
        // One that was new when the process was killed may not be listed.
        self.listed = found.repositories.keys().cloned().collect();
        if self.listed != listed {
            write_checked(&self.list, &self.listed)?;
        }
        Ok(found)
    }

    fn read_repository(&self, path: &Path, index: &Index) -> Result<Repository, RegistryStorageError> {
        let digest = |text: &String| text.parse::<Digest>().map_err(|error| corrupt(path, error));
        let mut repository = Repository::default();
        for (text, media_type) in &index.manifests {
            let digest = digest(text)?;
            let manifest = StoredManifest { bytes: self.read(&digest)?, media_type: media_type.clone() };
            repository.manifests.insert(digest, manifest);
        }
        for text in &index.blobs {
            let digest = digest(text)?;
            let bytes = self.read(&digest)?;
            repository.blobs.insert(digest, bytes);
        }
        for (tag, text) in &index.tags {
            repository.tags.insert(tag.clone(), digest(text)?);
        }
        Ok(repository)
    }

    fn read(&self, digest: &Digest) -> Result<Bytes, RegistryStorageError> {
        let path = self.path_of(digest);
        let bytes = std::fs::read(&path).map_err(|error| io(&path, error))?;
        if Digest::of(&bytes) != *digest {
            return Err(corrupt(&path, "its content does not match its digest"));
        }
        Ok(bytes.into())
    }

    /// Why nothing can be kept any more, if so.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Set when nothing can be kept any more.
    pub(super) fn failed(&self) -> Arc<SetOnce<String>> {
        self.failure.clone()
    }

    /// Keeps the bytes of a blob or manifest; an index must name them before they count.
    pub(super) fn keep_bytes(&mut self, digest: &Digest, bytes: &[u8]) {
        let path = self.path_of(digest);
        self.attempt(|| if path.exists() { Ok(()) } else { write(&path, bytes) });
    }

    /// Keeps what a repository holds.
    pub(super) fn keep_index(&mut self, name: &str, repository: &Repository) {
        let path = self.index_of(name);
        let index = Index::of(name, repository);
        self.attempt(|| write_checked(&path, &index));
        if self.listed.insert(name.to_owned()) {
            let (list, listed) = (self.list.clone(), self.listed.clone());
            self.attempt(|| write_checked(&list, &listed));
        }
    }

    fn index_of(&self, name: &str) -> PathBuf {
        self.indexes.join(format!("{}.json", hex(&Digest::of(name.as_bytes()))))
    }

    /// Removes the bytes that no repository holds.
    pub(super) fn sweep(&mut self, repositories: &BTreeMap<String, Repository>) {
        let held: BTreeSet<PathBuf> = repositories
            .values()
            .flat_map(|repository| repository.manifests.keys().chain(repository.blobs.keys()))
            .map(|digest| self.path_of(digest))
            .collect();
        let blobs = self.blobs.clone();
        self.attempt(|| {
            for path in files(&blobs)?.iter().filter(|path| !held.contains(*path)) {
                std::fs::remove_file(path).map_err(|error| io(path, error))?;
            }
            Ok(())
        });
    }

    /// Does something unless something failed before: what is on disk then is a state that was.
    fn attempt(&mut self, what: impl FnOnce() -> Result<(), RegistryStorageError>) {
        if self.failure().is_none()
            && let Err(error) = what()
        {
            // Nobody else sets it: the store is locked.
            let _ = self.failure.set(format!("cannot keep content on disk: {error}"));
        }
    }

    fn path_of(&self, digest: &Digest) -> PathBuf {
        self.blobs.join(hex(digest))
    }
}

/// Reads a file whose first line is the digest of what follows.
fn read_checked<T: DeserializeOwned>(path: &Path) -> Result<T, RegistryStorageError> {
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => corrupt(path, "it is no text"),
        _ => io(path, error),
    })?;
    let (digest, content) = text.split_once('\n').unwrap_or_default();
    if Digest::of(content.as_bytes()).as_str() != digest {
        return Err(corrupt(path, "its content does not match its first line"));
    }
    serde_json::from_str(content).map_err(|error| corrupt(path, error))
}

fn write_checked(path: &Path, content: &impl Serialize) -> Result<(), RegistryStorageError> {
    let content = serde_json::to_vec(content).map_err(|error| io(path, error.into()))?;
    let mut bytes = format!("{}\n", Digest::of(&content)).into_bytes();
    bytes.extend(content);
    write(path, &bytes)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), RegistryStorageError> {
    let new = path.with_added_extension("new");
    private::write(&new, bytes).and_then(|()| std::fs::rename(&new, path)).map_err(|error| io(path, error))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, RegistryStorageError> {
    let entries = std::fs::read_dir(folder).and_then(|entries| entries.map(|e| Ok(e?.path())).collect());
    entries.map_err(|error| io(folder, error))
}

fn hex(digest: &Digest) -> &str {
    digest.as_str().split_once(':').map_or("", |(_, hex)| hex)
}

fn io(path: &Path, error: std::io::Error) -> RegistryStorageError {
    RegistryStorageError::Io { path: path.to_owned(), error }
}

fn corrupt(path: &Path, problem: impl ToString) -> RegistryStorageError {
    RegistryStorageError::Corrupt { path: path.to_owned(), problem: problem.to_string() }
}
