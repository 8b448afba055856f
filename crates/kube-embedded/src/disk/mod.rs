//! State that outlives the process: a log of changes on disk.

mod journal;
mod load;
mod log;

use std::{fmt, path::PathBuf};

pub(crate) use self::{journal::Journal, load::load, log::unfinished};

/// Why a log could not be used.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The file could not be read or written.
    #[error("{path}: {error}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file does not hold what was written to it. It is left as it is.
    #[error("{path} is damaged at byte {offset}: {problem}", path = .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where the record begins that is damaged.
        offset: usize,
        /// What is wrong there.
        problem: String,
    },
    /// Another version of this crate wrote the file, in a format that this one does not know. It is left as it is.
    #[error("{path} is of format {found}; this version reads format {known}", path = .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format that the file names.
        found: u32,
        /// The format that this version reads and writes.
        known: u32,
    },
}

/// An incomplete record at the end of a log, which [`Builder::open`](crate::Builder::open) cut off: a write that was under
/// way when the process was killed, and that was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// The file.
    pub path: PathBuf,
    /// Where the record began.
    pub offset: usize,
    /// How many bytes of it there were.
    pub bytes: usize,
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ended in the middle of a write at byte {}: {} bytes were cut off",
            self.path.display(),
            self.offset,
            self.bytes
        )
    }
}

/// One change, as it stands in a record.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Change<'a> {
    #[serde(borrow)]
    group: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    plural: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    namespace: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    name: std::borrow::Cow<'a, str>,
    /// The object as it is stored; none when it was removed.
    #[serde(borrow)]
    object: Option<&'a serde_json::value::RawValue>,
}

/// The changes of one operation, which come together or not at all.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Batch<'a> {
    /// The last resource version that was given out.
    revision: u64,
    #[serde(borrow)]
    changes: Vec<Change<'a>>,
}
