//! Which of the bound releases reach a Target: one for each unique name, and none beside one that it must not meet.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::fmt;

use crate::object::ObjectName;
use crate::record::ReleaseRecord;
use crate::selector;

/// The longest DNS label.
const MAX_LABEL: usize = 63;

/// A bound release.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The ReleaseBinding.
    pub binding: &'a ObjectName,
    /// Its Release.
    pub release: &'a ReleaseRecord,
    /// `spec.uniqueName` of the Release, or else the name of its component.
    pub unique_name: &'a str,
}

/// What the resolver decided.
#[derive(Debug)]
pub struct Resolution<'a> {
    /// What reaches the Target: highest priority first, ties by `<namespace>/<name>` of the binding.
    pub accepted: Vec<Candidate<'a>>,
    /// What does not, by `<namespace>/<name>` of the binding.
    pub filtered: Vec<Filtered>,
}

/// A ReleaseBinding without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filtered {
    /// The binding.
    pub binding: ObjectName,
    /// Why.
    pub reason: FilterReason,
}

impl fmt::Display for Filtered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReleaseBinding {}: {}", self.binding, self.reason)
    }
}

/// Why a binding has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterReason {
    /// The unique name cannot name an object.
    #[error(
        "the unique name {unique_name:?} of Release {release} is no DNS label: set spec.uniqueName of the Release"
    )]
    UniqueName {
        /// The Release.
        release: ObjectName,
        /// Its effective unique name.
        unique_name: String,
    },
    /// The anti-affinity selector cannot be read.
    #[error("spec.antiAffinity of Release {release} is invalid: {source}")]
    Selector {
        /// The Release.
        release: ObjectName,
        /// What is wrong.
        source: selector::SelectorError,
    },
    /// Another binding has the unique name.
    #[error("Release {winner} has the unique name {unique_name} by ReleaseBinding {binding}")]
    Duplicate {
        /// The unique name.
        unique_name: String,
        /// The Release that has it.
        winner: ObjectName,
        /// The binding of that Release.
        binding: ObjectName,
    },
    /// A release that was accepted before must not be beside this one.
    #[error("spec.antiAffinity of Release {holder} excludes Release {excluded}")]
    AntiAffinity {
        /// Whose selector it is.
        holder: ObjectName,
        /// Whose labels it matches.
        excluded: ObjectName,
    },
}

/// Decides which of `candidates` reach the Target. The result does not depend on their order.
///
/// Invalid ones are filtered first. Of those with one unique name the first in order stays, where the order is highest
/// priority, then lowest `<namespace>/<name>` of the binding. In the same order each is accepted unless its selector
/// matches the labels of one accepted before, or the other way round.
pub fn resolve<'a>(candidates: impl IntoIterator<Item = Candidate<'a>>) -> Resolution<'a> {
    let mut candidates: Vec<Candidate<'a>> = candidates.into_iter().collect();
    candidates.sort_by(order);
    let mut winners: BTreeMap<&str, Candidate<'a>> = BTreeMap::new();
    let mut accepted: Vec<Candidate<'a>> = Vec::new();
    let mut filtered = Vec::new();
    for candidate in candidates {
        match verdict(&candidate, &mut winners, &accepted) {
            Ok(()) => accepted.push(candidate),
            Err(reason) => filtered.push(Filtered { binding: candidate.binding.clone(), reason }),
        }
    }
    filtered.sort_by(|a, b| by_text(&a.binding, &b.binding));
    Resolution { accepted, filtered }
}

fn verdict<'a>(
    candidate: &Candidate<'a>,
    winners: &mut BTreeMap<&'a str, Candidate<'a>>,
    accepted: &[Candidate<'a>],
) -> Result<(), FilterReason> {
    check(candidate)?;
    if let Some(winner) = winners.get(candidate.unique_name) {
        return Err(FilterReason::Duplicate {
            unique_name: candidate.unique_name.to_owned(),
            winner: winner.release.meta.name.clone(),
            binding: winner.binding.clone(),
        });
    }
    // The name is taken even when anti-affinity filters its holder: a lower priority never comes in by that.
    winners.insert(candidate.unique_name, *candidate);
    for other in accepted {
        excludes(candidate.release, other.release)?;
        excludes(other.release, candidate.release)?;
    }
    Ok(())
}

fn check(candidate: &Candidate<'_>) -> Result<(), FilterReason> {
    let release = || candidate.release.meta.name.clone();
    if !is_dns_label(candidate.unique_name) {
        let unique_name = candidate.unique_name.to_owned();
        return Err(FilterReason::UniqueName { release: release(), unique_name });
    }
    let Some(selector) = &candidate.release.anti_affinity else {
        return Ok(());
    };
    selector::validate(selector).map_err(|source| FilterReason::Selector { release: release(), source })
}

fn excludes(holder: &ReleaseRecord, other: &ReleaseRecord) -> Result<(), FilterReason> {
    let Some(selector) = &holder.anti_affinity else {
        return Ok(());
    };
    match selector::matches(selector, &other.labels) {
        Ok(true) => Err(FilterReason::AntiAffinity {
            holder: holder.meta.name.clone(),
            excluded: other.meta.name.clone(),
        }),
        // Invalid selectors were filtered before.
        Ok(false) | Err(_) => Ok(()),
    }
}

/// Whether `name` is a DNS label: up to 63 lower-case letters, digits and, between them, hyphens.
pub fn is_dns_label(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !name.is_empty()
        && name.len() <= MAX_LABEL
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

fn order(a: &Candidate<'_>, b: &Candidate<'_>) -> Ordering {
    let priority = |candidate: &Candidate<'_>| Reverse(candidate.release.priority);
    priority(a).cmp(&priority(b)).then_with(|| by_text(a.binding, b.binding))
}

/// By `<namespace>/<name>` as a text, which is not the order of namespaces: `-` and `.` come before `/`.
fn by_text(a: &ObjectName, b: &ObjectName) -> Ordering {
    let text = |name: &ObjectName| {
        let bytes: Vec<u8> = [name.namespace.as_bytes(), b"/", name.name.as_bytes()].concat();
        bytes
    };
    text(a).cmp(&text(b))
}
