//! The OCI port: what the controller asks of a registry, and the two ways it is answered.
//!
//! [`OciRegistry`] is the port. [`HttpRegistry`] speaks to real registries; the `dev` feature's
//! embedded registry implements the port in memory, over the same protocol code ([`session`]).
//! [`untag()`] deletes one tag without hurting another and is written over the port.
//!
//! Every request has a total timeout, every body a bound, and no error carries a secret.

mod artifact;
mod auth;
mod call;
mod error;
mod http_registry;
mod led;
#[cfg(feature = "dev")]
mod plain_push;
mod push;
mod requests;
mod retry;
pub(crate) mod session;
mod tags;
pub(crate) mod transport;
mod types;
mod untag;

use async_trait::async_trait;
use bytes::Bytes;

pub use artifact::{
    Artifact, Blob, CHART_CONFIG_MEDIA_TYPE, CHART_LAYER_MEDIA_TYPE, MANIFEST_MEDIA_TYPE, MARKER_ANNOTATION,
    chart_layer, is_marked_manifest, manifest_bytes,
};
pub use error::{OciError, OciErrorKind, Operation};
pub use http_registry::{HttpRegistry, HttpRegistryError, HttpRegistryOptions};
pub use led::{Led, Writes};
pub use retry::Retrying;
pub use session::Timeouts;
pub use types::{
    Credentials, DeleteOutcome, Digest, Endpoint, InvalidName, Manifest, Reference, check_repository,
    check_tag,
};
pub use untag::{UntagError, UntagOutcome, UntagProgress, UntagRequest, UntagStep, untag};

/// The largest manifest that is read, in bytes: what registries themselves accept.
pub const MANIFEST_LIMIT: usize = 4 * 1024 * 1024;

/// A client of OCI registries, shared as `Arc<dyn OciRegistry>`.
///
/// Absence (404 for the tag, the digest or the repository) is an answer, not an error. Each method
/// makes one attempt, bounded in time; [`Retrying`] adds the quick repetitions.
#[async_trait]
pub trait OciRegistry: Send + Sync {
    /// The digest that `reference` resolves to, `None` when it is absent.
    ///
    /// A registry that refuses HEAD or sends no digest is asked with GET.
    async fn head(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Digest>, OciError>;

    /// As [`Self::head`], in one attempt also where others are repeated: for whoever asks again by a plan of its own.
    async fn head_once(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Digest>, OciError> {
        self.head(endpoint, repository, reference).await
    }

    /// The manifest at `reference`, `None` when it is absent; at most [`MANIFEST_LIMIT`] bytes.
    async fn manifest(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Manifest>, OciError>;

    /// The blob `digest`, checked against it, `None` when it is absent; at most `limit` bytes.
    async fn blob(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        digest: &Digest,
        limit: usize,
    ) -> Result<Option<Bytes>, OciError>;

    /// Uploads the blobs, then the manifest to `tag`. Returns [`Artifact::digest`].
    ///
    /// Only a failure of the last step can still move the tag: see [`OciError::may_still_land`].
    async fn push(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        tag: &str,
        artifact: &Artifact,
    ) -> Result<Digest, OciError>;

    /// DELETE of a tag or digest. 401, 403, 429, 5xx and lost answers are errors; every other
    /// answer is an outcome, which by itself proves nothing.
    async fn delete(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<DeleteOutcome, OciError>;

    /// All tags of a repository, sorted; empty when the repository is absent.
    async fn tags(&self, endpoint: &Endpoint, repository: &str) -> Result<Vec<String>, OciError>;
}
