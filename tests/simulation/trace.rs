//! What a run did, line by line: two runs of one seed are the same run when their traces are equal.

use std::fmt::Write as _;
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
    kept: Option<String>,
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
    /// An empty trace that begins now; `keep` also keeps the text.
    pub fn new(keep: bool) -> Self {
        let state = State { kept: keep.then(String::new), ..State::default() };
        Self { began: Instant::now(), state: Mutex::new(state) }
    }

    /// Writes a line.
    pub fn line(&self, what: std::fmt::Arguments<'_>) {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:>12} {what}", self.began.elapsed().as_micros());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.hash.update(text.as_bytes());
        state.lines += 1;
        if let Some(kept) = &mut state.kept {
            kept.push_str(&text);
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner).kept.clone()
    }
}
