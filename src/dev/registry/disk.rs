//! Content that outlives the process: blobs and manifests as files under their digests, and one index per repository.
//!
//! Every file is written under another name and then renamed, and every file is checked against a digest when it is read:
//! blobs and manifests against their names, an index against its first line.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::adapters::oci::Digest;

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
    failure: Option<String>,
}

impl Disk {
    /// Opens a folder, or makes it.
    pub(super) fn open(folder: &Path) -> Result<Self, RegistryStorageError> {
        let disk =
            Self { indexes: folder.join("repositories"), blobs: folder.join("blobs/sha256"), failure: None };
        for folder in [&disk.indexes, &disk.blobs] {
            std::fs::create_dir_all(folder).map_err(|error| io(folder, error))?;
        }
        Ok(disk)
    }

    /// Reads everything, and removes what was never finished.
    pub(super) fn load(&self) -> Result<Found, RegistryStorageError> {
        let mut found = Found { repositories: BTreeMap::new(), torn: Vec::new() };
        for path in files(&self.indexes)?.into_iter().chain(files(&self.blobs)?) {
            if path.extension().is_some_and(|extension| extension == "new") {
                std::fs::remove_file(&path).map_err(|error| io(&path, error))?;
                found.torn.push(path);
            }
        }
        for path in files(&self.indexes)? {
            let index = read_index(&path)?;
            let repository = self.read_repository(&path, &index)?;
            found.repositories.insert(index.name, repository);
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
        self.failure.as_deref()
    }

    /// Keeps the bytes of a blob or manifest; an index must name them before they count.
    pub(super) fn keep_bytes(&mut self, digest: &Digest, bytes: &[u8]) {
        let path = self.path_of(digest);
        self.attempt(|| if path.exists() { Ok(()) } else { write(&path, bytes) });
    }

    /// Keeps what a repository holds.
    pub(super) fn keep_index(&mut self, name: &str, repository: &Repository) {
        let path = self.indexes.join(format!("{}.json", hex(&Digest::of(name.as_bytes()))));
        let index = Index::of(name, repository);
        self.attempt(|| {
            let content = serde_json::to_vec(&index).map_err(|error| io(&path, error.into()))?;
            let mut bytes = format!("{}\n", Digest::of(&content)).into_bytes();
            bytes.extend(content);
            write(&path, &bytes)
        });
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
        if self.failure.is_none() {
            self.failure = what().err().map(|error| format!("cannot keep content on disk: {error}"));
        }
    }

    fn path_of(&self, digest: &Digest) -> PathBuf {
        self.blobs.join(hex(digest))
    }
}

fn read_index(path: &Path) -> Result<Index, RegistryStorageError> {
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

fn write(path: &Path, bytes: &[u8]) -> Result<(), RegistryStorageError> {
    let new = path.with_added_extension("new");
    std::fs::write(&new, bytes).and_then(|()| std::fs::rename(&new, path)).map_err(|error| io(path, error))
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
