//! What there is to look for, and where.

use crate::hash::PayloadHash;
use crate::host;
use crate::object::ObjectName;
use crate::record::ComponentVersionRecord;
use crate::world::{IndexKey, World};

use super::table::Finding;

/// The segment of a repository behind which component descriptors lie.
const DESCRIPTORS: &str = "component-descriptors";

/// A component descriptor's manifest, and the Registry that says how its host is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Host, normalised and valid.
    pub host: Box<str>,
    /// Repository below the host.
    pub repository: Box<str>,
    /// Digest, well-formed.
    pub digest: Box<str>,
    /// The Registry, in the version's namespace.
    pub registry: ObjectName,
    /// Differs when reference or Registry differ, the Registry's spec included.
    pub mark: PayloadHash,
}

impl Subject {
    /// Host, repository and digest as they are written.
    pub fn reference(&self) -> String {
        format!("{}/{}@{}", self.host, self.repository, self.digest)
    }
}

/// What is to be looked for on behalf of `version`, or why nothing can be.
///
/// # Errors
/// The finding that stands for the missing or malformed part, with a sentence on how to mend it.
pub fn subject(world: &World, version: &ComponentVersionRecord) -> Result<Subject, Finding> {
    let descriptor = &version.descriptor;
    let Some(digest) = descriptor.digest.as_deref() else {
        return Err(Finding::NoDigest(
            "spec.digest is not set, so nothing can be looked for: set it to the digest of the component descriptor's \
             manifest"
                .to_owned(),
        ));
    };
    if !is_digest(digest) {
        return Err(Finding::NoDigest(format!(
            "spec.digest {digest:?} is no digest: it must be sha256: and 64 hex digits in lower case, or sha512: and 128"
        )));
    }
    let component = world.components.get(&version.component);
    let named = descriptor.registry.as_deref().or(component.map(|component| &*component.registry));
    let Some(named) = named else {
        return Err(Finding::NoRegistry(format!(
            "spec.registry is not set, and Component {} does not exist: set the one or create the other",
            version.component
        )));
    };
    if let Err(problem) = host::is_valid(named) {
        return Err(Finding::Failed(format!("the registry of the descriptor cannot be asked: {problem}")));
    }
    let namespace = &version.meta.name.namespace;
    let Some(registry) = world.registries.by(&IndexKey::host(namespace, named)).next() else {
        return Err(Finding::NoRegistry(format!(
            "no Registry in namespace {namespace} has the hostname {named}: create one"
        )));
    };
    let name = match (descriptor.component_name.as_deref(), component) {
        (Some(name), _) => name,
        (None, None) => {
            return Err(Finding::Failed(format!(
                "spec.componentName is not set, and Component {} does not exist: set the one or create the other",
                version.component
            )));
        }
        (None, Some(component)) => behind_descriptors(&component.repository).ok_or_else(|| {
            Finding::Failed(format!(
                "spec.componentName is not set, and the repository {:?} of Component {} names none behind \
                 {DESCRIPTORS}/: set spec.componentName",
                component.repository, version.component
            ))
        })?,
    };
    let repository = match descriptor.namespace.as_deref() {
        Some(namespace) => format!("{namespace}/{DESCRIPTORS}/{name}"),
        None => format!("{DESCRIPTORS}/{name}"),
    };
    let mark = format!("{named} {repository} {digest} {} {}", registry.meta.uid, registry.meta.generation);
    Ok(Subject {
        host: named.into(),
        repository: repository.into(),
        digest: digest.into(),
        registry: registry.meta.name.clone(),
        mark: PayloadHash::of_bytes(mark.as_bytes()),
    })
}

/// The name of a component whose descriptors lie in `repository`.
fn behind_descriptors(repository: &str) -> Option<&str> {
    let repository = repository.trim_matches('/');
    let name = repository
        .strip_prefix(DESCRIPTORS)
        .and_then(|rest| rest.strip_prefix('/'))
        .or_else(|| repository.split_once("/component-descriptors/").map(|(_, name)| name))?;
    Some(name.trim_matches('/')).filter(|name| !name.is_empty())
}

/// Whether `text` is a digest that registries know.
fn is_digest(text: &str) -> bool {
    let hex = |hex: &str, length| {
        hex.len() == length && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    match text.split_once(':') {
        Some(("sha256", digits)) => hex(digits, 64),
        Some(("sha512", digits)) => hex(digits, 128),
        _ => false,
    }
}
