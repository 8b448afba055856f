//! The file format: a first line, then records that each carry their length and two checksums.
//!
//! A record is written by one `write`, so that a process that is killed leaves at most the last one incomplete. The
//! length has a checksum of its own: without it a damaged length could make the rest of the file look like an incomplete
//! record.

use std::{
    fs::File,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use super::{StorageError, Torn};

const FIRST_LINE: &[u8] = b"kube-embedded log 1\n";
/// Length, checksum of the length, checksum of the content; four bytes each.
const HEAD: usize = 12;

/// A record as it stands in the file.
pub(super) fn record(content: &[u8]) -> Result<Vec<u8>, ErrorKind> {
    let length = u32::try_from(content.len()).map_err(|_| ErrorKind::FileTooLarge)?.to_le_bytes();
    let mut record = Vec::with_capacity(HEAD + content.len());
    record.extend_from_slice(&length);
    record.extend_from_slice(&crc32fast::hash(&length).to_le_bytes());
    record.extend_from_slice(&crc32fast::hash(content).to_le_bytes());
    record.extend_from_slice(content);
    Ok(record)
}

/// A file that records are added to.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    path: PathBuf,
}

impl Log {
    /// Puts a new file with these records in the place of the one that is there; whoever is killed on the way leaves the
    /// old one.
    pub fn replace(path: &Path, records: &[u8]) -> Result<Self, StorageError> {
        let new = path.with_added_extension("new");
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(FIRST_LINE)?;
            file.write_all(records)?;
            file.sync_all()?;
            std::fs::rename(&new, path)?;
            Ok(file)
        };
        let file = write().map_err(|error| StorageError::Io { path: path.to_owned(), error })?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Adds a record. After an error the file may end with half of it, so nothing more may be added.
    pub fn append(&mut self, record: &[u8]) -> Result<(), StorageError> {
        self.file.write_all(record).map_err(|error| StorageError::Io { path: self.path.clone(), error })
    }
}

/// What a file held.
#[derive(Debug)]
pub(super) struct Contents<'a> {
    /// The records with the offsets at which they begin.
    pub records: Vec<(usize, &'a [u8])>,
    pub torn: Option<Torn>,
}

/// Takes a file apart.
pub(super) fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<Contents<'a>, StorageError> {
    let corrupt = |offset: usize, problem: &str| StorageError::Corrupt {
        path: path.to_owned(),
        offset,
        problem: problem.to_owned(),
    };
    if !bytes.starts_with(FIRST_LINE) {
        return Err(corrupt(0, "it does not begin like a log of this program"));
    }
    let mut records = Vec::new();
    let mut offset = FIRST_LINE.len();
    while let Some(rest) = bytes.get(offset..).filter(|rest| !rest.is_empty()) {
        let torn = Some(Torn { path: path.to_owned(), offset, bytes: rest.len() });
        let Some((head, rest)) = rest.split_at_checked(HEAD) else {
            return Ok(Contents { records, torn });
        };
        if crc32fast::hash(&head[..4]) != number(&head[4..8]) {
            return Err(corrupt(offset, "the length of a record does not match its checksum"));
        }
        let Some(content) = rest.get(..number(&head[..4]) as usize) else {
            return Ok(Contents { records, torn });
        };
        if crc32fast::hash(content) != number(&head[8..12]) {
            return Err(corrupt(offset, "a record does not match its checksum"));
        }
        records.push((offset, content));
        offset += HEAD + content.len();
    }
    Ok(Contents { records, torn: None })
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{FIRST_LINE, parse, record};
    use crate::StorageError;

    fn file() -> Vec<u8> {
        [FIRST_LINE, &record(b"first").unwrap(), &record(b"second").unwrap()].concat()
    }

    #[test]
    fn a_cut_at_any_place_leaves_whole_records_and_is_named() {
        let file = file();
        let second = FIRST_LINE.len() + record(b"first").unwrap().len();
        for end in FIRST_LINE.len()..file.len() {
            let contents = parse(Path::new("log"), &file[..end]).unwrap();
            assert_eq!(contents.records.len(), usize::from(end >= second), "cut at {end}");
            let clean = end == FIRST_LINE.len() || end == second;
            assert_eq!(contents.torn.is_none(), clean, "cut at {end}");
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_is_refused_with_its_place() {
        for index in 0..file().len() {
            let mut file = file();
            file[index] ^= 0x10;
            let refused = parse(Path::new("log"), &file).unwrap_err();
            let StorageError::Corrupt { offset, .. } = refused else { panic!("{refused}") };
            assert!(offset <= index, "byte {index}: {offset}");
        }
    }
}
