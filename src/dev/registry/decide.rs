//! The one function that serves requests; both fronts call it.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use http::{HeaderName, Response, header};

use crate::adapters::oci::{Digest, MANIFEST_LIMIT, MANIFEST_MEDIA_TYPE, Reference};

use super::access::{self, Access, Tokens};
use super::answer::{Refusal, Served, json, plain, with};
use super::behaviour::{Behaviour, DigestDelete, TagDelete};
use super::content::{Content, Full, StoredManifest, blobs_named_in, manifests_named_in};
use super::request::{ParsedRequest, RegistryOperation};

const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
const MAX_UPLOADS: usize = 1000;

/// A deletion that was accepted and has not happened yet.
#[derive(Clone, Debug)]
pub(super) enum Deletion {
    Tag { repository: String, tag: String },
    Digest { repository: String, digest: Digest },
}

/// Everything that requests read and change.
pub(super) struct Registry {
    pub(super) behaviour: Behaviour,
    pub(super) access: Access,
    pub(super) content: Content,
    pub(super) tokens: Tokens,
    /// Accepted deletions with the number of requests that still come before them.
    pub(super) accepted: Vec<(u32, Deletion)>,
    uploads: BTreeMap<u64, (String, BytesMut)>,
    next_upload: u64,
    upload_limit: usize,
}

impl Registry {
    pub(super) fn new(behaviour: Behaviour, access: Access, limit: usize) -> Self {
        Self {
            behaviour,
            access,
            content: Content::new(limit),
            tokens: Tokens::default(),
            accepted: Vec::new(),
            uploads: BTreeMap::new(),
            next_upload: 0,
            upload_limit: limit,
        }
    }

    /// Serves one request.
    pub(super) fn serve(&mut self, request: &ParsedRequest) -> Response<Bytes> {
        let before = self.accepted.len();
        let response = self.dispatch(request).unwrap_or_else(Refusal::into_response);
        if request.operation != RegistryOperation::Token {
            self.advance(before);
        }
        match self.content.failure() {
            // What was done may not have been kept: nobody may rely on it.
            Some(why) => json(500, &serde_json::json!({ "errors": [{ "code": "UNKNOWN", "message": why }] })),
            None => response,
        }
    }

    /// Performs all accepted deletions.
    pub(super) fn settle(&mut self) {
        for (_, deletion) in std::mem::take(&mut self.accepted) {
            self.perform(deletion);
        }
    }

    /// One request nearer for each of the first `count` accepted deletions.
    fn advance(&mut self, count: usize) {
        for (index, (mut left, deletion)) in std::mem::take(&mut self.accepted).into_iter().enumerate() {
            left = left.saturating_sub(u32::from(index < count));
            if left == 0 && index < count {
                self.perform(deletion);
            } else {
                self.accepted.push((left, deletion));
            }
        }
    }

    fn perform(&mut self, deletion: Deletion) {
        match deletion {
            Deletion::Tag { repository, tag } => self.content.untag(&repository, &tag),
            Deletion::Digest { repository, digest } => {
                self.content.delete_digest(&repository, &digest);
            }
        }
    }

    fn dispatch(&mut self, request: &ParsedRequest) -> Served {
        if request.operation == RegistryOperation::Token {
            return access::token(&self.access, &mut self.tokens, request);
        }
        access::check(&self.access, &self.tokens, request)?;
        match request.operation {
            RegistryOperation::Ping => Ok(json(200, &serde_json::json!({}))),
            RegistryOperation::Catalog => Ok(self.catalog(request)),
            RegistryOperation::Tags => self.tags(request),
            RegistryOperation::HeadManifest | RegistryOperation::GetManifest => self.manifest(request),
            RegistryOperation::PutManifest => self.put_manifest(request),
            RegistryOperation::DeleteTag => self.delete_tag(request),
            RegistryOperation::DeleteDigest => self.delete_digest(request),
            RegistryOperation::HeadBlob | RegistryOperation::GetBlob => self.blob(request),
            RegistryOperation::StartUpload => self.start_upload(request),
            RegistryOperation::PatchUpload => self.patch_upload(request),
            RegistryOperation::FinishUpload => self.finish_upload(request),
            RegistryOperation::UploadStatus => self.upload_status(request),
            RegistryOperation::CancelUpload => self.cancel_upload(request),
            RegistryOperation::Token | RegistryOperation::Unknown => Err(Refusal::new(404, "UNSUPPORTED")),
        }
    }

    fn catalog(&self, request: &ParsedRequest) -> Response<Bytes> {
        let (page, more) = page(self.content.names(), request);
        let body = serde_json::json!({ "repositories": page });
        with_next(json(200, &body), more.then(|| page.last()).flatten(), "/v2/_catalog", request)
    }

    fn tags(&self, request: &ParsedRequest) -> Served {
        let name = &request.repository;
        let repository = self.content.repository(name).ok_or(Refusal::new(404, "NAME_UNKNOWN"))?;
        let (page, more) = page(repository.tags.keys(), request);
        let null = self.behaviour.null_tags && repository.tags.is_empty();
        let tags = if null { serde_json::Value::Null } else { serde_json::json!(page) };
        let body = serde_json::json!({ "name": name, "tags": tags });
        let path = format!("/v2/{name}/tags/list");
        Ok(with_next(json(200, &body), more.then(|| page.last()).flatten(), &path, request))
    }

    fn manifest(&self, request: &ParsedRequest) -> Served {
        let head = request.operation == RegistryOperation::HeadManifest;
        if head && !self.behaviour.answers_head {
            return Err(Refusal::new(405, "UNSUPPORTED"));
        }
        let repository = self.content.repository(&request.repository);
        let found = request.manifest().and_then(|reference| repository?.resolve(&reference));
        let (digest, manifest) = found.ok_or(Refusal::new(404, "MANIFEST_UNKNOWN"))?;
        let response = body(&manifest.bytes, head, &manifest.media_type);
        Ok(if self.behaviour.states_digest { with(response, DIGEST, digest.as_str()) } else { response })
    }

    fn put_manifest(&mut self, request: &ParsedRequest) -> Served {
        let name = &request.repository;
        let reference = request.manifest().ok_or(Refusal::new(400, "TAG_INVALID"))?;
        if request.body.len() > MANIFEST_LIMIT {
            return Err(Refusal::new(413, "SIZE_INVALID"));
        }
        if serde_json::from_slice::<serde::de::IgnoredAny>(&request.body).is_err() {
            return Err(Refusal::new(400, "MANIFEST_INVALID"));
        }
        let digest = Digest::of(&request.body);
        let tag = match &reference {
            Reference::Tag(tag) => Some(tag.as_str()),
            Reference::Digest(asked) if *asked == digest => None,
            Reference::Digest(_) => return Err(Refusal::new(400, "DIGEST_INVALID")),
        };
        let repository = self.content.repository(name);
        let has_blob = |digest: &Digest| repository.is_some_and(|held| held.blobs.contains_key(digest));
        let has_manifest =
            |digest: &Digest| repository.is_some_and(|held| held.manifests.contains_key(digest));
        if !blobs_named_in(&request.body).iter().all(has_blob) {
            return Err(Refusal::new(400, "MANIFEST_BLOB_UNKNOWN"));
        }
        if !manifests_named_in(&request.body).iter().all(has_manifest) {
            return Err(Refusal::new(400, "MANIFEST_UNKNOWN"));
        }
        let stated = request.header(header::CONTENT_TYPE);
        let media_type = if stated.is_empty() { MANIFEST_MEDIA_TYPE } else { stated }.to_owned();
        let manifest = StoredManifest { bytes: request.body.clone(), media_type };
        let digest = self.content.put_manifest(name, tag, manifest).map_err(full)?;
        let location = format!("/v2/{name}/manifests/{}", reference.as_str());
        let response = with(plain(201, Bytes::new()), header::LOCATION, &location);
        Ok(if self.behaviour.states_digest { with(response, DIGEST, digest.as_str()) } else { response })
    }

    fn delete_tag(&mut self, request: &ParsedRequest) -> Served {
        if let TagDelete::Refused(status, code) = self.behaviour.tag_delete {
            return Err(Refusal::new(status, code));
        }
        let (repository, tag) = (request.repository.clone(), request.reference.clone());
        let exists = self.content.repository(&repository).is_some_and(|held| held.tags.contains_key(&tag));
        self.accept(exists, Deletion::Tag { repository, tag })
    }

    fn delete_digest(&mut self, request: &ParsedRequest) -> Served {
        if let DigestDelete::Refused(status, code) = self.behaviour.digest_delete {
            return Err(Refusal::new(status, code));
        }
        let digest: Digest = request.reference.parse().map_err(|_| Refusal::new(400, "DIGEST_INVALID"))?;
        let repository = request.repository.clone();
        let exists =
            self.content.repository(&repository).is_some_and(|held| held.manifests.contains_key(&digest));
        self.accept(exists, Deletion::Digest { repository, digest })
    }

    fn accept(&mut self, exists: bool, deletion: Deletion) -> Served {
        if !exists {
            return Err(Refusal::new(404, "MANIFEST_UNKNOWN"));
        }
        match self.behaviour.asynchronous {
            Some(requests) => self.accepted.push((requests, deletion)),
            None => self.perform(deletion),
        }
        Ok(plain(202, Bytes::new()))
    }

    fn blob(&self, request: &ParsedRequest) -> Served {
        let digest: Digest = request.reference.parse().map_err(|_| Refusal::new(400, "DIGEST_INVALID"))?;
        let repository = self.content.repository(&request.repository);
        let blob =
            repository.and_then(|held| held.blobs.get(&digest)).ok_or(Refusal::new(404, "BLOB_UNKNOWN"))?;
        let response =
            body(blob, request.operation == RegistryOperation::HeadBlob, "application/octet-stream");
        Ok(with(response, DIGEST, digest.as_str()))
    }

    fn start_upload(&mut self, request: &ParsedRequest) -> Served {
        let name = &request.repository;
        if let Some(digest) = request.param("digest") {
            return self.store_blob(name, digest, request.body.clone());
        }
        if let (Some(digest), Some(from)) = (request.param("mount"), request.param("from")) {
            let parsed = digest.parse::<Digest>().ok();
            let found = parsed.and_then(|digest| self.content.repository(from)?.blobs.get(&digest).cloned());
            if let Some(blob) = found {
                return self.store_blob(name, digest, blob);
            }
        }
        self.next_upload += 1;
        let id = self.next_upload;
        self.uploads.insert(id, (name.clone(), BytesMut::new()));
        if self.uploads.len() > MAX_UPLOADS {
            self.uploads.pop_first();
        }
        Ok(upload_answer(202, name, id, 0))
    }

    fn patch_upload(&mut self, request: &ParsedRequest) -> Served {
        let id = self.upload_id(request)?;
        let limit = self.upload_limit;
        let (name, data) = self.uploads.get_mut(&id).ok_or(Refusal::new(404, "BLOB_UPLOAD_UNKNOWN"))?;
        let range = request.header(header::CONTENT_RANGE);
        let start = range.split('-').next().and_then(|start| start.parse::<usize>().ok());
        if start.is_some_and(|start| start != data.len()) {
            return Err(Refusal::new(416, "BLOB_UPLOAD_INVALID"));
        }
        if data.len().saturating_add(request.body.len()) > limit {
            return Err(Refusal::new(413, "SIZE_INVALID"));
        }
        data.extend_from_slice(&request.body);
        Ok(upload_answer(202, name, id, data.len()))
    }

    fn finish_upload(&mut self, request: &ParsedRequest) -> Served {
        let id = self.upload_id(request)?;
        let (name, mut data) = self.uploads.remove(&id).ok_or(Refusal::new(404, "BLOB_UPLOAD_UNKNOWN"))?;
        data.extend_from_slice(&request.body);
        let digest = request.param("digest").unwrap_or_default();
        self.store_blob(&name, digest, data.freeze())
    }

    fn upload_status(&mut self, request: &ParsedRequest) -> Served {
        let id = self.upload_id(request)?;
        let held = self.uploads.get(&id).ok_or(Refusal::new(404, "BLOB_UPLOAD_UNKNOWN"))?;
        Ok(upload_answer(204, &held.0, id, held.1.len()))
    }

    fn cancel_upload(&mut self, request: &ParsedRequest) -> Served {
        let id = self.upload_id(request)?;
        self.uploads
            .remove(&id)
            .map(|_| plain(204, Bytes::new()))
            .ok_or(Refusal::new(404, "BLOB_UPLOAD_UNKNOWN"))
    }

    fn upload_id(&self, request: &ParsedRequest) -> Result<u64, Refusal> {
        let id = request.reference.parse().ok();
        let mine = id.filter(|id| self.uploads.get(id).is_some_and(|(name, _)| *name == request.repository));
        mine.ok_or(Refusal::new(404, "BLOB_UPLOAD_UNKNOWN"))
    }

    fn store_blob(&mut self, name: &str, digest: &str, bytes: Bytes) -> Served {
        let stated: Digest = digest.parse().map_err(|_| Refusal::new(400, "DIGEST_INVALID"))?;
        if Digest::of(&bytes) != stated {
            return Err(Refusal::new(400, "DIGEST_INVALID"));
        }
        self.content.put_blob(name, stated.clone(), bytes).map_err(full)?;
        let location = format!("/v2/{name}/blobs/{stated}");
        Ok(with(with(plain(201, Bytes::new()), header::LOCATION, &location), DIGEST, stated.as_str()))
    }
}

fn full(_: Full) -> Refusal {
    Refusal::new(507, "SIZE_INVALID")
}

fn body(bytes: &Bytes, head: bool, media_type: &str) -> Response<Bytes> {
    let response = plain(200, if head { Bytes::new() } else { bytes.clone() });
    let response = with(response, header::CONTENT_LENGTH, &bytes.len().to_string());
    with(response, header::CONTENT_TYPE, media_type)
}

fn upload_answer(status: u16, name: &str, id: u64, length: usize) -> Response<Bytes> {
    let location = format!("/v2/{name}/blobs/uploads/{id}");
    let range = format!("0-{}", length.saturating_sub(1));
    let response = with(plain(status, Bytes::new()), header::LOCATION, &location);
    let response = with(response, header::RANGE, &range);
    with(response, HeaderName::from_static("docker-upload-uuid"), &id.to_string())
}

/// The names after `last`, at most `n`, and whether there are more.
fn page<'a>(names: impl Iterator<Item = &'a String>, request: &ParsedRequest) -> (Vec<&'a String>, bool) {
    let last = request.param("last").unwrap_or_default();
    let limit = request.param("n").and_then(|n| n.parse().ok()).unwrap_or(usize::MAX);
    let mut rest = names.filter(|name| last.is_empty() || name.as_str() > last);
    let page = rest.by_ref().take(limit).collect();
    (page, rest.next().is_some())
}

fn with_next(
    response: Response<Bytes>,
    last: Option<&&String>,
    path: &str,
    request: &ParsedRequest,
) -> Response<Bytes> {
    let Some(last) = last else { return response };
    let n = request.param("n").unwrap_or_default();
    let query = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("last", last)
        .append_pair("n", n)
        .finish();
    with(response, header::LINK, &format!("<{path}?{query}>; rel=\"next\""))
}
