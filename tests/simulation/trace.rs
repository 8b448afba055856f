//! What a run did, line by line: two runs of one seed are the same run when their traces are equal.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// Lines with the virtual time at which they were written.
pub struct Trace {
    began: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hash: Sha256,
    lines: u64,
    kept: Kept,
}

/// Where the text goes besides the digest.
#[derive(Clone, Debug, Default)]
pub enum Keep {
    /// Nowhere.
    #[default]
    Nothing,
    /// Into the report.
    Text,
    /// Into a file, also when the run fails.
    File(PathBuf),
}

#[derive(Default)]
enum Kept {
    #[default]
    Nothing,
    Text(String),
    File(BufWriter<File>),
}

/// What is compared between runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Lines written.
    pub lines: u64,
    /// SHA-256 over all of them, in hex.
    pub digest: String,
}

impl Trace {
    /// An empty trace that begins now.
    pub fn new(keep: Keep) -> Self {
        let kept = match keep {
            Keep::Nothing => Kept::Nothing,
            Keep::Text => Kept::Text(String::new()),
            Keep::File(path) => Kept::File(BufWriter::new(File::create(path).unwrap())),
        };
        let state = State { kept, ..State::default() };
        Self { began: Instant::now(), state: Mutex::new(state) }
    }

    /// Writes a line.
    pub fn line(&self, what: std::fmt::Arguments<'_>) {
        let text = format!("{:>12} {what}\n", self.began.elapsed().as_micros());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.hash.update(text.as_bytes());
        state.lines += 1;
        match &mut state.kept {
            Kept::Nothing => {}
            Kept::Text(kept) => kept.push_str(&text),
            Kept::File(file) => file.write_all(text.as_bytes()).unwrap(),
        }
    }

    /// What is compared.
    pub fn summary(&self) -> Summary {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = state.hash.clone().finalize();
        let digest = digest.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        Summary { lines: state.lines, digest }
    }

    /// The text, if it is kept.
    pub fn text(&self) -> Option<String> {
        match &self.state.lock().unwrap_or_else(PoisonError::into_inner).kept {
            Kept::Text(kept) => Some(kept.clone()),
            Kept::Nothing | Kept::File(_) => None,
        }
    }
}
