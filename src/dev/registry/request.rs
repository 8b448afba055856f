//! Requests of the distribution API, taken apart.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, Method, header};

use crate::adapters::oci::{Digest, Reference, check_repository, check_tag};

use super::log::Presented;

/// What a request asks of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RegistryOperation {
    /// `GET /v2/`
    Ping,
    /// `GET /v2/_catalog`
    Catalog,
    /// `GET .../tags/list`
    Tags,
    /// `HEAD .../manifests/...`
    HeadManifest,
    /// `GET .../manifests/...`
    GetManifest,
    /// `PUT .../manifests/...`
    PutManifest,
    /// `DELETE .../manifests/<tag>`
    DeleteTag,
    /// `DELETE .../manifests/<digest>`
    DeleteDigest,
    /// `HEAD .../blobs/...`
    HeadBlob,
    /// `GET .../blobs/...`
    GetBlob,
    /// `POST .../blobs/uploads/`
    StartUpload,
    /// `PATCH .../blobs/uploads/...`
    PatchUpload,
    /// `PUT .../blobs/uploads/...`
    FinishUpload,
    /// `GET .../blobs/uploads/...`
    UploadStatus,
    /// `DELETE .../blobs/uploads/...`
    CancelUpload,
    /// The token endpoint.
    Token,
    /// Anything else.
    Unknown,
}

impl fmt::Display for RegistryOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ping => "ping",
            Self::Catalog => "catalog",
            Self::Tags => "tags",
            Self::HeadManifest => "head manifest",
            Self::GetManifest => "get manifest",
            Self::PutManifest => "put manifest",
            Self::DeleteTag => "delete tag",
            Self::DeleteDigest => "delete digest",
            Self::HeadBlob => "head blob",
            Self::GetBlob => "get blob",
            Self::StartUpload => "start upload",
            Self::PatchUpload => "patch upload",
            Self::FinishUpload => "finish upload",
            Self::UploadStatus => "upload status",
            Self::CancelUpload => "cancel upload",
            Self::Token => "token",
            Self::Unknown => "unknown",
        })
    }
}

/// The path of the token endpoint.
pub(super) const TOKEN_PATH: &str = "/token";

/// A request with its target parsed.
#[derive(Clone)]
pub(super) struct ParsedRequest {
    pub(super) operation: RegistryOperation,
    pub(super) repository: String,
    /// The last segment: tag, digest or upload id; empty where there is none.
    pub(super) reference: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: HeaderMap,
    pub(super) scheme: String,
    pub(super) body: Bytes,
}

impl ParsedRequest {
    pub(super) fn new(request: http::Request<Bytes>) -> Self {
        let (parts, body) = request.into_parts();
        let (operation, repository, reference) = route(&parts.method, parts.uri.path());
        let query = parts.uri.query().unwrap_or_default().as_bytes();
        let mut headers = parts.headers;
        if let Some(authority) = parts.uri.authority()
            && let Ok(host) = header::HeaderValue::from_str(authority.as_str())
        {
            headers.entry(header::HOST).or_insert(host);
        }
        Self {
            operation,
            repository,
            reference,
            query: url::form_urlencoded::parse(query).into_owned().collect(),
            headers,
            scheme: parts.uri.scheme_str().unwrap_or("http").to_owned(),
            body,
        }
    }

    pub(super) fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The manifest reference; `None` when it is neither a tag nor a digest.
    pub(super) fn manifest(&self) -> Option<Reference> {
        match self.reference.parse::<Digest>() {
            Ok(digest) => Some(Reference::Digest(digest)),
            Err(_) => check_tag(&self.reference).ok().map(|()| Reference::tag(&self.reference)),
        }
    }

    /// User name and password of a basic `Authorization`.
    pub(super) fn basic(&self) -> Option<(String, String)> {
        use base64::Engine as _;
        let encoded = self.header(header::AUTHORIZATION).strip_prefix("Basic ")?;
        let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).ok()?;
        let text = String::from_utf8(decoded).ok()?;
        text.split_once(':').map(|(username, password)| (username.to_owned(), password.to_owned()))
    }

    pub(super) fn bearer(&self) -> Option<&str> {
        self.header(header::AUTHORIZATION).strip_prefix("Bearer ")
    }

    pub(super) fn presented(&self) -> Presented {
        if !self.headers.contains_key(header::AUTHORIZATION) {
            Presented::Nothing
        } else if self.bearer().is_some() {
            Presented::Bearer
        } else {
            self.basic().map_or(Presented::Other, |(username, _)| Presented::Basic(username))
        }
    }

    /// A form body.
    pub(super) fn form(&self) -> BTreeMap<String, String> {
        url::form_urlencoded::parse(&self.body).into_owned().collect()
    }
}

fn route(method: &Method, path: &str) -> (RegistryOperation, String, String) {
    let plain = |operation| (operation, String::new(), String::new());
    let Some(tail) = path.strip_prefix("/v2") else {
        return plain(if path == TOKEN_PATH { RegistryOperation::Token } else { RegistryOperation::Unknown });
    };
    match tail {
        "" | "/" => return plain(RegistryOperation::Ping),
        "/_catalog" => return plain(RegistryOperation::Catalog),
        _ => {}
    }
    let segments: Vec<&str> = tail.trim_start_matches('/').split('/').collect();
    let (length, operation, reference) = match *segments.as_slice() {
        [.., "tags", "list"] => (2, RegistryOperation::Tags, ""),
        [.., "blobs", "uploads"] | [.., "blobs", "uploads", ""] => {
            (segments.len() - blobs_at(&segments), RegistryOperation::StartUpload, "")
        }
        [.., "blobs", "uploads", id] => (3, upload(method), id),
        [.., "manifests", reference] => (2, manifest(method, reference), reference),
        [.., "blobs", digest] => (2, blob(method), digest),
        _ => return plain(RegistryOperation::Unknown),
    };
    let repository = segments[..segments.len() - length].join("/");
    let fits = operation != RegistryOperation::StartUpload || *method == Method::POST;
    if fits && check_repository(&repository).is_ok() {
        (operation, repository, reference.to_owned())
    } else {
        plain(RegistryOperation::Unknown)
    }
}

fn blobs_at(segments: &[&str]) -> usize {
    segments.iter().rposition(|segment| *segment == "blobs").unwrap_or_default()
}

fn upload(method: &Method) -> RegistryOperation {
    match *method {
        Method::PATCH => RegistryOperation::PatchUpload,
        Method::PUT => RegistryOperation::FinishUpload,
        Method::GET => RegistryOperation::UploadStatus,
        Method::DELETE => RegistryOperation::CancelUpload,
        _ => RegistryOperation::Unknown,
    }
}

fn manifest(method: &Method, reference: &str) -> RegistryOperation {
    match *method {
        Method::HEAD => RegistryOperation::HeadManifest,
        Method::GET => RegistryOperation::GetManifest,
        Method::PUT => RegistryOperation::PutManifest,
        Method::DELETE if reference.contains(':') => RegistryOperation::DeleteDigest,
        Method::DELETE => RegistryOperation::DeleteTag,
        _ => RegistryOperation::Unknown,
    }
}

fn blob(method: &Method) -> RegistryOperation {
    match *method {
        Method::HEAD => RegistryOperation::HeadBlob,
        Method::GET => RegistryOperation::GetBlob,
        _ => RegistryOperation::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_routed_by_their_last_segments() {
        let table = [
            (Method::GET, "/v2/", RegistryOperation::Ping, "", ""),
            (Method::GET, "/v2/_catalog", RegistryOperation::Catalog, "", ""),
            (Method::GET, "/v2/a/b/tags/list", RegistryOperation::Tags, "a/b", ""),
            (Method::HEAD, "/v2/a/manifests/v1", RegistryOperation::HeadManifest, "a", "v1"),
            (Method::DELETE, "/v2/a/manifests/v1", RegistryOperation::DeleteTag, "a", "v1"),
            (Method::DELETE, "/v2/a/manifests/sha256:0", RegistryOperation::DeleteDigest, "a", "sha256:0"),
            (Method::POST, "/v2/a/blobs/uploads/", RegistryOperation::StartUpload, "a", ""),
            (Method::POST, "/v2/a/blobs/uploads", RegistryOperation::StartUpload, "a", ""),
            (Method::PUT, "/v2/a/blobs/uploads/7", RegistryOperation::FinishUpload, "a", "7"),
            (
                Method::GET,
                "/v2/blobs/uploads/manifests/v1",
                RegistryOperation::GetManifest,
                "blobs/uploads",
                "v1",
            ),
            (Method::GET, "/v2/manifests/v1", RegistryOperation::Unknown, "", ""),
            (Method::GET, "/v2/A/manifests/v1", RegistryOperation::Unknown, "", ""),
            (Method::GET, "/token", RegistryOperation::Token, "", ""),
            (Method::GET, "/", RegistryOperation::Unknown, "", ""),
        ];
        for (method, path, operation, repository, reference) in table {
            assert_eq!(
                route(&method, path),
                (operation, repository.into(), reference.into()),
                "{method} {path}"
            );
        }
    }
}
