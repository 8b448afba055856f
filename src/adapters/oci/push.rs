//! Uploads with oci-client.
//!
//! One client keeps the first credential that it saw for a registry, so there is one per endpoint
//! (credentials included). It is handed the authorization that the session obtained and never asks a
//! token endpoint by itself: which endpoint may see credentials is decided in one place.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use oci_client::{
    Client, Reference, RegistryOperation,
    token_cache::{RegistryToken, RegistryTokenType},
};

use super::artifact::{Artifact, MANIFEST_MEDIA_TYPE};
use super::auth::Authorization;
use super::call::{fail, refusal};
use super::error::{OciError, OciErrorKind, Operation};
use super::http_registry::failure_kind;
use super::types::{Endpoint, check_repository, check_tag};

/// Clients kept; the least recently used one is dropped, with its connections.
const CLIENTS: NonZeroUsize = NonZeroUsize::new(64).unwrap();
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct Pusher {
    ca: Option<Vec<u8>>,
    timeout: Duration,
    clients: Mutex<LruCache<Endpoint, Client>>,
}

impl Pusher {
    pub(super) fn new(ca: Option<Vec<u8>>, timeout: Duration) -> Self {
        Self { ca, timeout, clients: Mutex::new(LruCache::new(CLIENTS)) }
    }

    /// Uploads each blob, then the manifest, each request bounded in time.
    pub(super) async fn push(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        tag: &str,
        artifact: &Artifact,
        authorization: Option<Authorization>,
    ) -> Result<(), OciError> {
        let failed = |kind| fail(Operation::PushBlob, endpoint, repository, kind);
        check_repository(repository).map_err(|error| failed(error.into()))?;
        check_tag(tag).map_err(|error| failed(error.into()))?;
        let client = self.client(endpoint).map_err(failed)?;
        let target =
            Reference::with_tag(endpoint.api_host().to_owned(), repository.to_owned(), tag.to_owned());
        authorize(&client, &target, authorization).await;
        for blob in artifact.blobs() {
            let upload = client.push_blob(&target, blob.bytes.clone(), blob.digest.as_str());
            self.bounded(Operation::PushBlob, endpoint, repository, upload).await?;
        }
        let media_type = http::HeaderValue::from_static(MANIFEST_MEDIA_TYPE);
        let upload = client.push_manifest_raw(&target, artifact.manifest().clone(), media_type);
        self.bounded(Operation::PushManifest, endpoint, repository, upload).await
    }

    /// Drops the client of an endpoint, so that the next push starts with nothing remembered.
    pub(super) fn forget(&self, endpoint: &Endpoint) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).pop(endpoint);
    }

    fn client(&self, endpoint: &Endpoint) -> Result<Client, OciErrorKind> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(endpoint) {
            return Ok(client.clone());
        }
        let client = self.build(endpoint)?;
        clients.put(endpoint.clone(), client.clone());
        Ok(client)
    }

    fn build(&self, endpoint: &Endpoint) -> Result<Client, OciErrorKind> {
        let certificate =
            |pem: &Vec<u8>| Certificate { encoding: CertificateEncoding::Pem, data: pem.clone() };
        let config = ClientConfig {
            protocol: if endpoint.plain_http { ClientProtocol::Http } else { ClientProtocol::Https },
            use_monolithic_push: true,
            extra_root_certificates: self.ca.iter().map(certificate).collect(),
            connect_timeout: Some(CONNECT_TIMEOUT),
            user_agent: concat!("solar-controller/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        // The text of this error could hold a proxy's URL.
        Client::try_from(config)
            .map_err(|_| OciErrorKind::Client { cause: "bad TLS or proxy settings".into() })
    }

    async fn bounded(
        &self,
        operation: Operation,
        endpoint: &Endpoint,
        repository: &str,
        upload: impl Future<Output = Result<String, OciDistributionError>>,
    ) -> Result<(), OciError> {
        let kind = match tokio::time::timeout(self.timeout, upload).await {
            Ok(Ok(_)) => {
                count(operation, "201");
                return Ok(());
            }
            Ok(Err(error)) => upload_failure(error),
            Err(_) => OciErrorKind::TimedOut { after: self.timeout },
        };
        let error = fail(operation, endpoint, repository, kind);
        count(operation, error.label());
        Err(error)
    }
}

fn count(operation: Operation, code: &'static str) {
    metrics::counter!("solar_oci_requests_total", "operation" => operation.as_str(), "code" => code)
        .increment(1);
}

/// Puts the authorization where the client looks first. Without one the client knows no credential
/// for the registry and asks nobody for any.
async fn authorize(client: &Client, target: &Reference, authorization: Option<Authorization>) {
    let token = match authorization {
        None => return,
        Some(Authorization::Basic(username, password)) => RegistryTokenType::Basic(username, password),
        Some(Authorization::Bearer(token)) => RegistryTokenType::Bearer(RegistryToken::Token { token }),
    };
    client.store_auth_if_needed(target.resolve_registry(), &RegistryAuth::Anonymous).await;
    client.tokens.insert(target, RegistryOperation::Push, token).await;
}

/// Only statuses and codes are taken over: messages and URLs of this library may hold anything.
fn upload_failure(error: OciDistributionError) -> OciErrorKind {
    match error {
        OciDistributionError::RequestError(error) => failure_kind(error),
        OciDistributionError::ServerError { code, message, .. } => match http::StatusCode::from_u16(code) {
            Ok(status) => refusal(status, None, message.as_bytes()),
            Err(_) => OciErrorKind::Protocol { what: format!("status {code}") },
        },
        OciDistributionError::UnauthorizedError { .. } | OciDistributionError::AuthenticationFailure(_) => {
            OciErrorKind::Unauthorized { code: None }
        }
        OciDistributionError::SpecViolationError(_) => {
            OciErrorKind::Protocol { what: "a success status that uploads do not have".into() }
        }
        OciDistributionError::RegistryNoLocationError => {
            OciErrorKind::Protocol { what: "no location".into() }
        }
        _ => OciErrorKind::Protocol { what: "an answer that the upload cannot go on with".into() },
    }
}
