//! Uploading with plain requests: how the embedded registry's port pushes, in the order in which `HttpRegistry` does.

use http::{Method, header};

use super::artifact::{Artifact, Blob, MANIFEST_MEDIA_TYPE};
use super::auth::Access;
use super::call::{Message, SMALL_BODY, location};
use super::error::{OciError, Operation};
use super::session::Session;
use super::transport::Transport;
use super::types::{Digest, Endpoint, Reference};

impl<T: Transport> Session<T> {
    /// Uploads an artifact with plain requests, in the order in which `HttpRegistry` does.
    pub(crate) async fn push(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        tag: &str,
        artifact: &Artifact,
    ) -> Result<Digest, OciError> {
        let operation = Operation::PushManifest;
        let call = self.call_to(operation, Access::Push, (endpoint, repository), SMALL_BODY);
        let url = call.manifest_url(&Reference::tag(tag))?;
        for blob in artifact.blobs() {
            self.push_blob(endpoint, repository, blob).await?;
        }
        let message = Message::new(Method::PUT, url)
            .header(header::CONTENT_TYPE, MANIFEST_MEDIA_TYPE)
            .body(artifact.manifest());
        let response = self.call(&call, message).await?;
        if response.status().is_success() {
            Ok(artifact.digest().clone())
        } else {
            Err(call.refused(&response))
        }
    }

    async fn push_blob(&self, endpoint: &Endpoint, repository: &str, blob: &Blob) -> Result<(), OciError> {
        let call = self.push_blob_call(endpoint, repository);
        let start = call.url("blobs/uploads/")?;
        let response = self.call(&call, Message::new(Method::POST, start.clone())).await?;
        if !response.status().is_success() {
            return Err(call.refused(&response));
        }
        let mut location = location(&start, response.headers())
            .ok_or_else(|| call.protocol("an upload without a location"))?;
        location.query_pairs_mut().append_pair("digest", blob.digest.as_str());
        let message = Message::new(Method::PUT, location)
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .body(&blob.bytes);
        let response = self.call(&call, message).await?;
        if response.status().is_success() { Ok(()) } else { Err(call.refused(&response)) }
    }
}
