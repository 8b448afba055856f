//! Names that must not be longer than a limit.

use crate::hash::hash8;

/// Length of a `-` and the hash behind it.
const SUFFIX: usize = 9;

/// `name`, or, when it is longer than `limit` bytes, its beginning with `-` and [`hash8`] of the whole name behind it.
///
/// The result has at most `limit` bytes. No character is split, and the part before the suffix does not end in `-` or
/// `.`; where nothing is left of it, the hash stands alone. Two names with one beginning stay two.
pub fn fit(name: &str, limit: usize) -> String {
    if name.len() <= limit {
        return name.to_owned();
    }
    let end = name.floor_char_boundary(limit.saturating_sub(SUFFIX));
    let head = name[..end].trim_end_matches(['-', '.']);
    let mut hash = hash8(name);
    if head.is_empty() {
        hash.truncate(limit);
        return hash;
    }
    format!("{head}-{hash}")
}
