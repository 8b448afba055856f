//! The ways in which registries differ where it matters for deletion.

/// How a registry answers. The default deletes tags as the distribution specification has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// DELETE of a tag.
    pub tag_delete: TagDelete,
    /// DELETE of a digest.
    pub digest_delete: DigestDelete,
    /// Accepted deletions take effect after this many later requests, or with
    /// [`super::RegistryStore::settle`]. A tag that was pushed anew in between is hit all the same.
    pub asynchronous: Option<u32>,
    /// `false`: HEAD of a manifest is answered 405.
    pub answers_head: bool,
    /// `false`: answers carry no `Docker-Content-Digest`.
    pub states_digest: bool,
    /// `true`: the list of tags of an emptied repository is `null` and not `[]`.
    pub null_tags: bool,
}

/// What a DELETE of a tag does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagDelete {
    /// 202, and only the tag goes; 404 when it is absent.
    Untags,
    /// This status and code, whether the tag exists or not; nothing changes.
    Refused(u16, &'static str),
}

/// What a DELETE of a digest does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestDelete {
    /// 202, and every tag of this digest goes too; 404 when it is absent.
    RemovesTags,
    /// This status and code, whether the digest exists or not; nothing changes.
    Refused(u16, &'static str),
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            tag_delete: TagDelete::Untags,
            digest_delete: DigestDelete::RemovesTags,
            asynchronous: None,
            answers_head: true,
            states_digest: true,
            null_tags: false,
        }
    }
}

impl Behaviour {
    /// distribution 2.8: a tag is not a digest, so 400.
    pub fn distribution_2() -> Self {
        Self { tag_delete: TagDelete::Refused(400, "DIGEST_INVALID"), null_tags: true, ..Self::default() }
    }

    /// 405 for tags, while digests can be deleted.
    pub fn refuses_tags_with_405() -> Self {
        Self { tag_delete: TagDelete::Refused(405, "UNSUPPORTED"), ..Self::default() }
    }

    /// Harbor: 400 UNSUPPORTED for tags, while digests can be deleted.
    pub fn harbor() -> Self {
        Self { tag_delete: TagDelete::Refused(400, "UNSUPPORTED"), ..Self::default() }
    }

    /// Answers 404 to the DELETE of a living tag.
    pub fn says_404_while_alive() -> Self {
        Self { tag_delete: TagDelete::Refused(404, "MANIFEST_UNKNOWN"), ..Self::default() }
    }

    /// Deletion switched off: 405 for tags and digests.
    pub fn deletion_off() -> Self {
        Self::deletion_refused(405, "UNSUPPORTED")
    }

    /// Tags and digests refused with the same answer.
    pub fn deletion_refused(status: u16, code: &'static str) -> Self {
        Self {
            tag_delete: TagDelete::Refused(status, code),
            digest_delete: DigestDelete::Refused(status, code),
            ..Self::default()
        }
    }

    /// Accepts deletions and performs them `requests` later requests.
    pub fn deletes_later(requests: u32) -> Self {
        Self { asynchronous: Some(requests), ..Self::default() }
    }
}
