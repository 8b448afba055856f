//! What a registry holds: manifests, tags and blobs per repository.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::adapters::oci::{Digest, Reference};

/// A manifest and the media type that it was pushed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredManifest {
    pub(super) bytes: Bytes,
    pub(super) media_type: String,
}

#[derive(Default)]
pub(super) struct Repository {
    pub(super) manifests: BTreeMap<Digest, StoredManifest>,
    pub(super) tags: BTreeMap<String, Digest>,
    pub(super) blobs: BTreeMap<Digest, Bytes>,
    /// Uploaded since the last manifest came in: the next one will name them.
    in_flight: BTreeSet<Digest>,
}

impl Repository {
    pub(super) fn resolve(&self, reference: &Reference) -> Option<(&Digest, &StoredManifest)> {
        let digest = match reference {
            Reference::Tag(tag) => self.tags.get(tag)?,
            Reference::Digest(digest) => digest,
        };
        self.manifests.get_key_value(digest)
    }

    fn collect(&mut self) {
        let tagged: BTreeSet<&Digest> = self.tags.values().collect();
        self.manifests.retain(|digest, _| tagged.contains(digest));
        let named: BTreeSet<Digest> =
            self.manifests.values().flat_map(|m| blobs_named_in(&m.bytes)).collect();
        self.blobs.retain(|digest, _| named.contains(digest) || self.in_flight.contains(digest));
    }

    fn size(&self) -> usize {
        let manifests = self.manifests.values().map(|manifest| manifest.bytes.len());
        manifests.chain(self.blobs.values().map(Bytes::len)).sum()
    }
}

/// All repositories, with a bound on the bytes of all blobs and manifests together.
pub(super) struct Content {
    repositories: BTreeMap<String, Repository>,
    size: usize,
    limit: usize,
}

/// The content does not fit, even without what nothing refers to.
pub(super) struct Full;

impl Content {
    pub(super) fn new(limit: usize) -> Self {
        Self { repositories: BTreeMap::new(), size: 0, limit }
    }

    pub(super) fn repository(&self, name: &str) -> Option<&Repository> {
        self.repositories.get(name)
    }

    /// Names of the repositories that hold a manifest.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.repositories
            .iter()
            .filter(|(_, repository)| !repository.manifests.is_empty())
            .map(|(name, _)| name)
    }

    pub(super) fn put_blob(&mut self, repository: &str, digest: Digest, bytes: Bytes) -> Result<(), Full> {
        self.reserve(bytes.len())?;
        let repository = self.entry(repository);
        repository.in_flight.insert(digest.clone());
        let replaced = repository.blobs.insert(digest, bytes);
        self.size -= replaced.map_or(0, |bytes| bytes.len());
        Ok(())
    }

    pub(super) fn put_manifest(
        &mut self,
        repository: &str,
        tag: Option<&str>,
        manifest: StoredManifest,
    ) -> Result<Digest, Full> {
        self.reserve(manifest.bytes.len())?;
        let digest = Digest::of(&manifest.bytes);
        let repository = self.entry(repository);
        repository.in_flight.clear();
        let replaced = repository.manifests.insert(digest.clone(), manifest);
        if let Some(tag) = tag {
            repository.tags.insert(tag.to_owned(), digest.clone());
        }
        self.size -= replaced.map_or(0, |manifest| manifest.bytes.len());
        Ok(digest)
    }

    /// Removes the tag; its manifest stays reachable by digest.
    pub(super) fn untag(&mut self, repository: &str, tag: &str) {
        if let Some(repository) = self.repositories.get_mut(repository) {
            repository.tags.remove(tag);
        }
    }

    /// Removes the manifest and every tag that resolves to it.
    pub(super) fn delete_digest(&mut self, repository: &str, digest: &Digest) {
        if let Some(repository) = self.repositories.get_mut(repository) {
            let removed = repository.manifests.remove(digest);
            repository.tags.retain(|_, tagged| tagged != digest);
            self.size -= removed.map_or(0, |manifest| manifest.bytes.len());
        }
    }

    fn entry(&mut self, repository: &str) -> &mut Repository {
        self.repositories.entry(repository.to_owned()).or_default()
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), Full> {
        if self.size.saturating_add(bytes) > self.limit {
            self.repositories.values_mut().for_each(Repository::collect);
            self.size = self.repositories.values().map(Repository::size).sum();
        }
        if self.size.saturating_add(bytes) > self.limit {
            return Err(Full);
        }
        self.size += bytes;
        Ok(())
    }
}

/// The config and layer digests in an image manifest.
pub(super) fn blobs_named_in(manifest: &[u8]) -> Vec<Digest> {
    named_in(manifest, &["config", "layers"])
}

/// The manifest digests in an index.
pub(super) fn manifests_named_in(manifest: &[u8]) -> Vec<Digest> {
    named_in(manifest, &["manifests"])
}

fn named_in(manifest: &[u8], fields: &[&str]) -> Vec<Digest> {
    let Ok(manifest) = serde_json::from_slice::<serde_json::Value>(manifest) else {
        return Vec::new();
    };
    let descriptors = fields.iter().filter_map(|field| manifest.get(field)).flat_map(|value| match value {
        serde_json::Value::Array(list) => list.iter().collect(),
        one => vec![one],
    });
    descriptors.filter_map(|descriptor| descriptor.get("digest")?.as_str()?.parse().ok()).collect()
}
