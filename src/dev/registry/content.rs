//! What a registry holds: manifests, tags and blobs per repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::SetOnce;

use crate::adapters::oci::{Digest, Reference};

use super::disk::{Disk, RegistryStorageError};

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
    /// Where the content is kept; none when it lives in memory only.
    disk: Option<Disk>,
}

/// The content does not fit, even without what nothing refers to.
pub(super) struct Full;

impl Content {
    pub(super) fn new(limit: usize) -> Self {
        Self { repositories: BTreeMap::new(), size: 0, limit, disk: None }
    }

    /// Takes over the content that a folder keeps, and keeps everything there from now on; answers the
    /// files in it that were not finished and are removed.
    pub(super) fn open(&mut self, folder: &Path) -> Result<Vec<PathBuf>, RegistryStorageError> {
        let mut disk = Disk::open(folder)?;
        let found = disk.load()?;
        disk.sweep(&found.repositories);
        self.size = found.repositories.values().map(Repository::size).sum();
        self.repositories = found.repositories;
        self.disk = Some(disk);
        Ok(found.torn)
    }

    /// Set when nothing can be kept on disk any more; none when nothing is kept there.
    pub(super) fn failed(&self) -> Option<Arc<SetOnce<String>>> {
        self.disk.as_ref().map(Disk::failed)
    }

    /// Why nothing can be kept on disk any more, if so.
    pub(super) fn failure(&self) -> Option<&str> {
        self.disk.as_ref().and_then(Disk::failure)
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
        self.keep_bytes(&digest, &bytes);
        let held = self.entry(repository);
        held.in_flight.insert(digest.clone());
        let replaced = held.blobs.insert(digest, bytes);
        self.size -= replaced.map_or(0, |bytes| bytes.len());
        self.keep_index(repository);
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
        self.keep_bytes(&digest, &manifest.bytes);
        let held = self.entry(repository);
        held.in_flight.clear();
        let replaced = held.manifests.insert(digest.clone(), manifest);
        if let Some(tag) = tag {
            held.tags.insert(tag.to_owned(), digest.clone());
        }
        self.size -= replaced.map_or(0, |manifest| manifest.bytes.len());
        self.keep_index(repository);
        Ok(digest)
    }

    /// Removes the tag; its manifest stays reachable by digest.
    pub(super) fn untag(&mut self, repository: &str, tag: &str) {
        if let Some(held) = self.repositories.get_mut(repository) {
            held.tags.remove(tag);
            self.keep_index(repository);
        }
    }

    /// Removes the manifest and every tag that resolves to it.
    pub(super) fn delete_digest(&mut self, repository: &str, digest: &Digest) {
        if let Some(held) = self.repositories.get_mut(repository) {
            let removed = held.manifests.remove(digest);
            held.tags.retain(|_, tagged| tagged != digest);
            self.size -= removed.map_or(0, |manifest| manifest.bytes.len());
            self.keep_index(repository);
        }
    }

    fn entry(&mut self, repository: &str) -> &mut Repository {
        self.repositories.entry(repository.to_owned()).or_default()
    }

    fn keep_bytes(&mut self, digest: &Digest, bytes: &[u8]) {
        if let Some(disk) = &mut self.disk {
            disk.keep_bytes(digest, bytes);
        }
    }

    fn keep_index(&mut self, repository: &str) {
        if let (Some(disk), Some(held)) = (&mut self.disk, self.repositories.get(repository)) {
            disk.keep_index(repository, held);
        }
    }

    /// Drops what no tag refers to, on disk too.
    fn collect(&mut self) {
        self.repositories.values_mut().for_each(Repository::collect);
        self.size = self.repositories.values().map(Repository::size).sum();
        if let Some(disk) = &mut self.disk {
            self.repositories.iter().for_each(|(name, held)| disk.keep_index(name, held));
            disk.sweep(&self.repositories);
        }
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), Full> {
        if self.size.saturating_add(bytes) > self.limit {
            self.collect();
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
