//! The operations of the port as requests of the distribution API.

use bytes::Bytes;
use http::{Method, header};

use super::MANIFEST_LIMIT;
use super::auth::Access;
use super::call::{Message, SMALL_BODY, error_code};
use super::error::{OciError, Operation};
use super::session::Session;
use super::transport::Transport;
use super::types::{DeleteOutcome, Digest, Endpoint, Manifest, Reference};

const DIGEST_HEADER: &str = "docker-content-digest";
const MANIFEST_ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

impl<T: Transport> Session<T> {
    pub(crate) async fn head(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Digest>, OciError> {
        let call = self.call_to(Operation::Head, Access::Pull, (endpoint, repository), SMALL_BODY);
        let message =
            Message::new(Method::HEAD, call.manifest_url(reference)?).header(header::ACCEPT, MANIFEST_ACCEPT);
        let response = self.call(&call, message).await?;
        let status = response.status();
        let stated =
            response.headers().get(DIGEST_HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
        match (status.as_u16(), stated) {
            (404, _) => Ok(None),
            (200..=299, Some(digest)) if is_comparable(&digest, reference) => Ok(Some(digest)),
            // No digest, one of another algorithm, or no HEAD here: the body tells.
            (200..=299 | 400 | 405 | 406 | 501, _) => {
                Ok(self.manifest(endpoint, repository, reference).await?.map(|manifest| manifest.digest))
            }
            _ => Err(call.refused(&response)),
        }
    }

    pub(crate) async fn manifest(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Manifest>, OciError> {
        let operation = Operation::GetManifest;
        let call = self.call_to(operation, Access::Pull, (endpoint, repository), MANIFEST_LIMIT);
        let message =
            Message::new(Method::GET, call.manifest_url(reference)?).header(header::ACCEPT, MANIFEST_ACCEPT);
        let response = self.call(&call, message).await?;
        match response.status().as_u16() {
            404 => return Ok(None),
            200..=299 => {}
            _ => return Err(call.refused(&response)),
        }
        let digest = match reference {
            Reference::Tag(_) => Digest::of(response.body()),
            Reference::Digest(asked) if asked.is_of(response.body()) => asked.clone(),
            Reference::Digest(_) => return Err(call.protocol("the manifest does not match its digest")),
        };
        let media_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        Ok(Some(Manifest {
            media_type: media_type.unwrap_or_default().to_owned(),
            digest,
            bytes: response.into_body(),
        }))
    }

    pub(crate) async fn blob(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        digest: &Digest,
        limit: usize,
    ) -> Result<Option<Bytes>, OciError> {
        let call = self.call_to(Operation::GetBlob, Access::Pull, (endpoint, repository), limit);
        let url = call.url(&format!("blobs/{digest}"))?;
        let response = self.call(&call, Message::new(Method::GET, url)).await?;
        match response.status().as_u16() {
            404 => Ok(None),
            200..=299 if Digest::of(response.body()) == *digest => Ok(Some(response.into_body())),
            200..=299 => Err(call.protocol("the blob does not match its digest")),
            _ => Err(call.refused(&response)),
        }
    }

    pub(crate) async fn delete(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<DeleteOutcome, OciError> {
        let operation = Operation::Delete;
        let call = self.call_to(operation, Access::Delete, (endpoint, repository), SMALL_BODY);
        let response = self.call(&call, Message::new(Method::DELETE, call.manifest_url(reference)?)).await?;
        match response.status().as_u16() {
            401 | 403 | 429 => Err(call.refused(&response)),
            status @ (200..=299 | 400..=499) => {
                Ok(DeleteOutcome { status, code: error_code(response.body()) })
            }
            _ => Err(call.refused(&response)),
        }
    }
}

/// Whether `stated` says by itself if what was asked for is there: digests of two algorithms can both be right.
fn is_comparable(stated: &Digest, reference: &Reference) -> bool {
    match reference {
        Reference::Tag(_) => true,
        Reference::Digest(asked) => stated.algorithm() == asked.algorithm(),
    }
}
