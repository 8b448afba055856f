//! The port for real registries: uploads with oci-client, everything else with a small session
//! over reqwest, because the former has no DELETE, no total timeout and loses statuses.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use super::error::{OciError, OciErrorKind};
use super::push::Pusher;
use super::session::{Session, Timeouts};
use super::transport::{Transport, TransportError};
use super::{Artifact, Credentials, DeleteOutcome, Digest, Endpoint, Manifest, OciRegistry, Reference};
use crate::adapters::clock::Clock;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const USER_AGENT: &str = concat!("solar-controller/", env!("CARGO_PKG_VERSION"));

/// How to build an [`HttpRegistry`].
#[derive(Clone, Debug, Default)]
pub struct HttpRegistryOptions {
    /// A PEM bundle of certificate authorities that are trusted beside the system's.
    pub ca_file: Option<PathBuf>,
    /// Limits in time.
    pub timeouts: Timeouts,
}

/// No client could be built.
#[derive(Debug, thiserror::Error)]
pub enum HttpRegistryError {
    /// The file cannot be read.
    #[error("registry CA file {} cannot be read", path.display())]
    ReadCa {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file holds no certificate that can be used.
    #[error("registry CA file {} holds no usable PEM certificate", path.display())]
    ParseCa {
        /// The file.
        path: PathBuf,
    },
    /// The HTTP client refused its configuration.
    #[error("no HTTP client for registries: {cause}")]
    Client {
        /// Why.
        cause: String,
    },
}

/// [`OciRegistry`] over HTTP and TLS. Proxies come from the environment.
///
/// Build it inside the runtime that uses it, after a rustls provider was installed.
pub struct HttpRegistry {
    session: Session<ReqwestTransport>,
    pusher: Pusher,
}

impl HttpRegistry {
    /// A client without connections yet. Reads the CA file once.
    pub fn new(options: &HttpRegistryOptions, clock: Clock) -> Result<Self, HttpRegistryError> {
        let ca = options.ca_file.as_deref().map(read_ca).transpose()?;
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .user_agent(USER_AGENT)
            .tls_certs_merge(ca.as_ref().map(|ca| ca.certificates.clone()).unwrap_or_default())
            .build()
            .map_err(|error| HttpRegistryError::Client { cause: cause_of(error) })?;
        Ok(Self {
            session: Session::new(ReqwestTransport { client }, options.timeouts, clock),
            pusher: Pusher::new(ca.map(|ca| ca.pem), options.timeouts.write),
        })
    }
}

struct Ca {
    pem: Vec<u8>,
    certificates: Vec<reqwest::Certificate>,
}

fn read_ca(path: &Path) -> Result<Ca, HttpRegistryError> {
    let pem =
        std::fs::read(path).map_err(|source| HttpRegistryError::ReadCa { path: path.to_owned(), source })?;
    match reqwest::Certificate::from_pem_bundle(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(Ca { pem, certificates }),
        _ => Err(HttpRegistryError::ParseCa { path: path.to_owned() }),
    }
}

#[async_trait]
impl OciRegistry for HttpRegistry {
    async fn head(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Digest>, OciError> {
        self.session.head(endpoint, repository, reference).await
    }

    async fn manifest(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Manifest>, OciError> {
        self.session.manifest(endpoint, repository, reference).await
    }

    async fn blob(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        digest: &Digest,
        limit: usize,
    ) -> Result<Option<Bytes>, OciError> {
        self.session.blob(endpoint, repository, digest, limit).await
    }

    async fn push(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        tag: &str,
        artifact: &Artifact,
    ) -> Result<Digest, OciError> {
        // Without credentials the registry is asked for its challenge only if it turns out to have one.
        let known = match endpoint.credentials {
            Credentials::Anonymous => self.session.fresh_push(endpoint, repository),
            _ => self.session.authorize_push(endpoint, repository).await?,
        };
        let push = |authorization| self.pusher.push(endpoint, repository, tag, artifact, authorization);
        let refused = match push(known.clone()).await {
            Err(error) if matches!(error.kind, OciErrorKind::Unauthorized { .. }) => error,
            other => return other.map(|()| artifact.digest().clone()),
        };
        self.session.forget_push(endpoint, repository);
        self.pusher.forget(endpoint);
        let renewed = self.session.authorize_push(endpoint, repository).await?;
        if renewed.is_none() || renewed == known {
            return Err(refused);
        }
        push(renewed).await.map(|()| artifact.digest().clone())
    }

    async fn delete(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<DeleteOutcome, OciError> {
        self.session.delete(endpoint, repository, reference).await
    }

    async fn tags(&self, endpoint: &Endpoint, repository: &str) -> Result<Vec<String>, OciError> {
        self.session.tags(endpoint, repository).await
    }
}

struct ReqwestTransport {
    client: reqwest::Client,
}

#[async_trait]
impl Transport for ReqwestTransport {
    async fn send(
        &self,
        request: http::Request<Bytes>,
        limit: usize,
    ) -> Result<http::Response<Bytes>, TransportError> {
        let request = request.try_into().map_err(|error| TransportError::Unreachable(cause_of(error)))?;
        let mut response = self.client.execute(request).await.map_err(failure)?;
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(failure)? {
            if body.len() + chunk.len() > limit {
                return Err(TransportError::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        let mut answer = http::Response::new(body.freeze());
        *answer.status_mut() = response.status();
        *answer.headers_mut() = std::mem::take(response.headers_mut());
        Ok(answer)
    }
}

fn failure(error: reqwest::Error) -> TransportError {
    let never_sent = error.is_connect() || error.is_builder();
    let cause = cause_of(error);
    if never_sent { TransportError::Unreachable(cause) } else { TransportError::Cut(cause) }
}

/// An HTTP client's failure as an [`OciErrorKind`].
pub(super) fn failure_kind(error: reqwest::Error) -> OciErrorKind {
    match failure(error) {
        TransportError::Unreachable(cause) => OciErrorKind::Unreachable { cause },
        TransportError::Cut(cause) => OciErrorKind::Cut { cause },
        TransportError::TooLarge => OciErrorKind::TooLarge { limit: 0 },
    }
}

/// The innermost causes of an error, without its URL.
fn cause_of(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut chain = vec![error.to_string()];
    let mut source = std::error::Error::source(&error);
    while let Some(inner) = source {
        chain.push(inner.to_string());
        source = inner.source();
    }
    chain.dedup();
    let inner = chain.split_off(chain.len().saturating_sub(2));
    inner.join(": ").chars().take(300).collect()
}
