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
/// What the first line begins with in every format, and the number of this one behind it.
const MAGIC: &[u8] = b"kube-embedded log ";
const FORMAT: u32 = 1;
/// The longest number of a format that is looked for.
const MAX_NUMBER: usize = 10;
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

/// Where a new log is written before it takes the place of an old one.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    path.with_added_extension("new")
}

/// Makes an empty file that nobody else can read: objects may hold secrets.
fn create_private(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // One that a killed process left may be readable.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    options.open(path)
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
        let new = unfinished(path);
        let write = || {
            let mut file = create_private(&new)?;
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
    if let Some(found) = format_of(bytes).filter(|found| *found != FORMAT) {
        return Err(StorageError::Format { path: path.to_owned(), found, known: FORMAT });
    }
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

/// The format that a file names, if it is a log at all.
fn format_of(bytes: &[u8]) -> Option<u32> {
    let number = bytes.strip_prefix(MAGIC)?;
    let end = number.iter().take(MAX_NUMBER + 1).position(|byte| *byte == b'\n')?;
    str::from_utf8(&number[..end]).ok()?.parse().ok()
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
            match refused {
                StorageError::Corrupt { offset, .. } => assert!(offset <= index, "byte {index}: {offset}"),
                // Where the number stands, another one is no damage that could be told from another format.
                StorageError::Format { .. } => assert_eq!(index, super::MAGIC.len()),
                other @ StorageError::Io { .. } => panic!("{other}"),
            }
        }
    }

    #[test]
    fn another_format_is_named() {
        for (line, wanted) in [
            ("kube-embedded log 2\n", "log is of format 2; this version reads format 1"),
            ("kube-embedded log 0\n", "log is of format 0; this version reads format 1"),
            ("kube-embedded log x\n", "log is damaged at byte 0"),
            ("kube-embedded log 99999999999999\n", "log is damaged at byte 0"),
            ("", "log is damaged at byte 0"),
        ] {
            let said = parse(Path::new("log"), line.as_bytes()).unwrap_err().to_string();
            assert!(said.starts_with(wanted), "{line:?}: {said}");
        }
    }
}
