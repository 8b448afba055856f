//! The data folder: what `dev` keeps between runs.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `kubeconfig` | how to reach the API of the current run |
//! | `api.log` | the objects |
//! | `registry/` | blobs, manifests and tags; made before `api.log` |
//! | `lock` | locked by the `dev` that uses the folder |
//! | `examples.unfinished` | there while the examples are not all applied |

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kube_embedded::{Builder, Server, StorageError};
use thiserror::Error;

use super::private;
use super::registry::{Access, Behaviour, RegistryStorageError, RegistryStore};

/// Why a data folder cannot be used.
#[derive(Debug, Error)]
pub(super) enum FolderError {
    #[error("cannot use {path} (--data-dir): {error}", path = .path.display())]
    Unusable { path: PathBuf, error: std::io::Error },
    #[error("{path} (--data-dir) is used by another `dev`: end that one, or choose another folder", path = .0.display())]
    Taken(PathBuf),
    #[error(
        "{missing} (--data-dir) is missing, but there is {there}: put it back, or empty the folder to start anew",
        missing = .missing.display(), there = .there.display()
    )]
    Incomplete { missing: PathBuf, there: PathBuf },
    #[error("cannot go on with the objects of --data-dir: {0}")]
    Api(#[from] StorageError),
    #[error("cannot go on with the registry of --data-dir: {0}")]
    Registry(#[from] RegistryStorageError),
}

/// The data folder.
pub(super) enum Folder {
    /// Kept between runs; the lock is held as long as the file is open, however the process ends.
    Given { path: PathBuf, _lock: File },
    /// Holds the kubeconfig only and ends with the run; all else is in memory.
    Temporary(tempfile::TempDir),
}

impl Folder {
    /// Opens the folder that is given, or a temporary one. One that is empty is marked for examples if
    /// they are wanted.
    pub(super) fn open(given: Option<&Path>, examples: bool) -> Result<Self, FolderError> {
        let Some(path) = given else {
            let folder = tempfile::Builder::new().prefix("solar-controller-").tempdir();
            return folder.map(Self::Temporary).map_err(unusable(&std::env::temp_dir()));
        };
        private::create_folders(path).map_err(unusable(path))?;
        let lock = private::create(&path.join("lock")).map_err(unusable(path))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => FolderError::Taken(path.to_owned()),
            TryLockError::Error(error) => unusable(path)(error),
        })?;
        let folder = Self::Given { path: path.to_owned(), _lock: lock };
        folder.check_whole()?;
        if examples && !folder.log().exists() {
            private::create(&folder.unfinished()).map_err(unusable(path))?;
        }
        Ok(folder)
    }

    /// Whether everything is there, or nothing. What was taken away would be missed by nobody otherwise: the controller
    /// finds objects that say that their charts are pushed.
    fn check_whole(&self) -> Result<(), FolderError> {
        let log = self.log();
        let part = |name: &str| self.path().join(name);
        let incomplete = |missing, there| Err(FolderError::Incomplete { missing, there });
        if log.exists() {
            // The registry is opened first, so that all of it is there before the log is.
            let parts = ["registry/repositories", "registry/blobs/sha256", "registry/repositories.json"];
            return match parts.map(part).into_iter().find(|part| !part.exists()) {
                Some(missing) => incomplete(missing, log),
                None => Ok(()),
            };
        }
        if part("kubeconfig").exists() {
            return incomplete(log, part("kubeconfig"));
        }
        for kept in ["registry/repositories", "registry/blobs/sha256"].map(part) {
            match std::fs::read_dir(&kept).map(|mut files| files.next()) {
                Ok(None) => {}
                Ok(Some(_)) => return incomplete(log, kept),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(unusable(&kept)(error)),
            }
        }
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Given { path, .. } => path,
            Self::Temporary(folder) => folder.path(),
        }
    }

    /// The API server with the objects that were kept.
    pub(super) fn api(&self, builder: Builder) -> Result<Server, FolderError> {
        match self {
            Self::Temporary(_) => Ok(builder.build()),
            Self::Given { .. } => {
                let opened = builder.open(self.log())?;
                if let Some(unfinished) = opened.unfinished {
                    eprintln!("warning: {} was not finished and is removed", unfinished.display());
                }
                if let Some(torn) = opened.torn {
                    eprintln!("warning: {torn}; it was not answered");
                }
                Ok(opened.server)
            }
        }
    }

    /// The registry with the content that was kept.
    pub(super) fn registry(
        &self,
        behaviour: Behaviour,
        access: Access,
    ) -> Result<RegistryStore, FolderError> {
        match self {
            Self::Temporary(_) => Ok(RegistryStore::new(behaviour, access)),
            Self::Given { path, .. } => {
                let (store, torn) = RegistryStore::open(behaviour, access, &path.join("registry"))?;
                for file in torn {
                    eprintln!(
                        "warning: {} was not finished and is removed; it was not answered",
                        file.display()
                    );
                }
                Ok(store)
            }
        }
    }

    /// Writes the kubeconfig of this run; answers where.
    pub(super) fn write_kubeconfig(&self, kubeconfig: &str) -> Result<PathBuf, FolderError> {
        let path = self.path().join("kubeconfig");
        private::write(&path, kubeconfig.as_bytes()).map_err(unusable(&path))?;
        Ok(path)
    }

    /// Whether the folder was empty, or a run ended before it had applied all examples.
    pub(super) fn wants_examples(&self) -> bool {
        matches!(self, Self::Temporary(_)) || self.unfinished().exists()
    }

    /// Notes that the examples are applied.
    pub(super) fn has_examples(&self) -> Result<(), FolderError> {
        match self {
            Self::Temporary(_) => Ok(()),
            Self::Given { .. } => {
                std::fs::remove_file(self.unfinished()).map_err(unusable(&self.unfinished()))
            }
        }
    }

    fn log(&self) -> PathBuf {
        self.path().join("api.log")
    }

    fn unfinished(&self) -> PathBuf {
        self.path().join("examples.unfinished")
    }
}

fn unusable(path: &Path) -> impl FnOnce(std::io::Error) -> FolderError {
    let path = path.to_owned();
    |error| FolderError::Unusable { path, error }
}
