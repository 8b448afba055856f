//! Which coordinates an OCI registry can hold at all.

use crate::host;

/// The longest repository path, in bytes.
const MAX_REPOSITORY: usize = 255;
/// The longest tag, in bytes.
const MAX_TAG: usize = 128;
/// What is repeated of a text that is no name, in characters.
const SHOWN: usize = 128;

/// A name that the distribution API does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {text:?} is not valid in an OCI registry")]
pub struct InvalidName {
    what: &'static str,
    text: String,
}

impl InvalidName {
    /// `text` is not a valid `what`.
    pub fn new(what: &'static str, text: &str) -> Self {
        Self { what, text: text.chars().take(SHOWN).collect() }
    }
}

/// Checks a repository path: lower-case segments joined by `/`, at most 255 bytes.
pub fn check_repository(repository: &str) -> Result<(), InvalidName> {
    let valid = repository.len() <= MAX_REPOSITORY && repository.split('/').all(is_repository_segment);
    if valid { Ok(()) } else { Err(InvalidName::new("repository", repository)) }
}

fn is_repository_segment(segment: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = segment.as_bytes();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || b"._-".contains(byte))
        && !segment.contains("..")
}

/// Checks a tag: `[A-Za-z0-9_][A-Za-z0-9._-]{0,127}`.
pub fn check_tag(tag: &str) -> Result<(), InvalidName> {
    let first = tag.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    let rest = tag.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if first && rest && tag.len() <= MAX_TAG { Ok(()) } else { Err(InvalidName::new("tag", tag)) }
}

/// Why no registry can hold `tag` of `repository` on `host`, which is normalised; `None`: one may.
pub fn impossible(host: &str, repository: &str, tag: &str) -> Option<String> {
    let host = host::is_valid(host).err().map(|error| error.to_string());
    let name = || check_repository(repository).and_then(|()| check_tag(tag)).err();
    host.or_else(|| name().map(|error| error.to_string()))
}
