//! Deleting one tag without hurting another.
//!
//! Registries differ: some untag on a DELETE by tag, some refuse it, some answer 404 while the tag
//! lives, some delete later. So no status of a DELETE is believed; a HEAD decides. The chart's own
//! digest is never deleted, because that would take along every other tag of the same content.

use tokio::time::Instant;

use super::artifact::{Artifact, is_marked_manifest};
use super::error::{OciError, OciErrorKind};
use super::types::{Digest, Endpoint, Reference};
use super::{DeleteOutcome, OciRegistry};

/// Which tag is to go, and what it should hold.
#[derive(Clone, Copy, Debug)]
pub struct UntagRequest<'a> {
    /// The registry and the credentials to use.
    pub endpoint: &'a Endpoint,
    /// The repository.
    pub repository: &'a str,
    /// The tag.
    pub tag: &'a str,
    /// The digest that this controller pushed there. `None`: unknown, so nothing is compared.
    pub expected: Option<&'a Digest>,
}

/// What earlier attempts on the same tag leave behind for later ones.
///
/// The caller keeps one per tag from the first attempt until the tag is gone or wanted again, also
/// when it drops an attempt that takes too long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UntagProgress {
    delete_accepted: bool,
    unanswered_write: Option<Instant>,
}

impl UntagProgress {
    /// `true` once the registry has accepted the deletion of the tag. From then on the tag is only
    /// looked at: a second DELETE could hit whoever pushes that tag next.
    pub fn delete_accepted(&self) -> bool {
        self.delete_accepted
    }

    /// When the latest write was under way whose answer never came. It may still take effect for a
    /// while, so nobody may push to the tag or let go of it before that while is over.
    pub fn unanswered_write(&self) -> Option<Instant> {
        self.unanswered_write
    }

    /// Runs a write and remembers whether its answer came, also when the future is dropped.
    async fn write<T>(&mut self, write: impl Future<Output = Result<T, OciError>>) -> Result<T, OciError> {
        let earlier = self.unanswered_write.replace(Instant::now());
        let result = write.await;
        self.unanswered_write = match &result {
            Err(error) if error.may_still_land() => Some(Instant::now()),
            _ => earlier,
        };
        result
    }
}

/// How an attempt ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UntagOutcome {
    /// The tag was absent before anything was done.
    AlreadyGone,
    /// The tag was there and is absent now.
    Deleted,
    /// The tag holds what somebody else pushed; nothing of it was deleted.
    Foreign {
        /// What the tag holds.
        found: Digest,
        /// What this controller had pushed.
        expected: Digest,
    },
}

/// The step at which an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UntagStep {
    /// Looking at the tag before anything else.
    Look,
    /// DELETE of the tag.
    DeleteTag,
    /// Looking at the tag after its DELETE.
    LookAgain,
    /// DELETE of a digest that cannot exist.
    Probe,
    /// Push of the throw-away manifest.
    PushMarker,
    /// DELETE of the throw-away manifest's digest.
    DeleteMarker,
    /// Looking at the tag at the end.
    LookAtLast,
}

/// How an attempt failed. All but [`UntagError::is_definite_refusal`] are worth a retry soon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UntagError {
    /// The registry deletes neither tags nor digests.
    #[error("registry does not support deletion ({status}{})", code.as_ref().map(|c| format!(" {c}")).unwrap_or_default())]
    Unsupported {
        /// Status of the answer that said so.
        status: u16,
        /// Its error code.
        code: Option<String>,
    },
    /// 401 or 403 on a DELETE.
    #[error("registry refuses the deletion: {source}")]
    Refused {
        /// The answer.
        source: OciError,
    },
    /// The DELETE was accepted, now or earlier, and the tag is still there.
    #[error("registry accepted the deletion, but the tag is still there with {found}")]
    NotYetGone {
        /// What the tag holds.
        found: Digest,
    },
    /// The throw-away manifest was deleted and the tag is still there.
    #[error("tag is still there with {found} after its manifest was deleted ({status})")]
    StillThere {
        /// What the tag holds.
        found: Digest,
        /// Status of the DELETE.
        status: u16,
    },
    /// The probe was answered in a way that says neither yes nor no.
    #[error("registry answered {status}{} to the deletion of an absent digest", code.as_ref().map(|c| format!(" {c}")).unwrap_or_default())]
    Inconclusive {
        /// Status of the answer.
        status: u16,
        /// Its error code.
        code: Option<String>,
    },
    /// A request failed.
    #[error("{source}")]
    Failed {
        /// Where in the sequence.
        step: UntagStep,
        /// Why.
        source: OciError,
    },
}

impl UntagError {
    /// `true` when the registry has said for certain that it will not delete.
    pub fn is_definite_refusal(&self) -> bool {
        matches!(self, Self::Unsupported { .. } | Self::Refused { .. })
    }

    /// `true` when the failed request may still take effect: see [`OciError::may_still_land`].
    pub fn may_still_land(&self) -> bool {
        matches!(self, Self::Failed { source, .. } if source.may_still_land())
    }

    /// The registry error behind it.
    pub fn oci_error(&self) -> Option<&OciError> {
        match self {
            Self::Refused { source } | Self::Failed { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Makes one attempt to delete a tag. The caller bounds its time and repeats it until the tag is
/// gone, with the same `progress`.
///
/// Only [`UntagOutcome::AlreadyGone`] and [`UntagOutcome::Deleted`] say that the tag is absent.
pub async fn untag(
    registry: &dyn OciRegistry,
    request: &UntagRequest<'_>,
    progress: &mut UntagProgress,
) -> Result<UntagOutcome, UntagError> {
    let attempt = Attempt { registry, request, marker: Artifact::marker(request.repository, request.tag) };
    attempt.run(progress).await
}

struct Attempt<'a> {
    registry: &'a dyn OciRegistry,
    request: &'a UntagRequest<'a>,
    marker: Artifact,
}

/// What the tag holds.
enum Sight {
    Absent,
    Foreign { found: Digest, expected: Digest },
    Ours(Digest),
}

impl Attempt<'_> {
    async fn run(&self, progress: &mut UntagProgress) -> Result<UntagOutcome, UntagError> {
        let found = match self.look(UntagStep::Look).await? {
            Sight::Absent => return Ok(UntagOutcome::AlreadyGone),
            Sight::Foreign { found, expected } => {
                return Ok(UntagOutcome::Foreign { found, expected });
            }
            Sight::Ours(found) => found,
        };
        if progress.delete_accepted {
            return Err(UntagError::NotYetGone { found });
        }
        let tag = Reference::tag(self.request.tag);
        let answer = self.delete(&tag, UntagStep::DeleteTag, progress).await?;
        progress.delete_accepted = answer.accepted();
        match self.look(UntagStep::LookAgain).await? {
            Sight::Absent => Ok(UntagOutcome::Deleted),
            Sight::Foreign { found, expected } => Ok(UntagOutcome::Foreign { found, expected }),
            Sight::Ours(found) if progress.delete_accepted => Err(UntagError::NotYetGone { found }),
            Sight::Ours(_) => {
                self.probe(progress).await?;
                self.replace_and_delete(progress).await
            }
        }
    }

    /// Asks for the deletion of a digest that cannot exist, to learn whether digests can be deleted
    /// before anything is pushed over the tag.
    async fn probe(&self, progress: &mut UntagProgress) -> Result<(), UntagError> {
        let absent = Reference::Digest(Digest::impossible());
        let DeleteOutcome { status, code } = match self.delete(&absent, UntagStep::Probe, progress).await {
            Err(UntagError::Refused { source }) => return Err(Self::refused_probe(source)),
            answer => answer?,
        };
        match (status, says_unsupported(code.as_deref())) {
            (404, _) => Ok(()),
            (405, _) | (400, true) => Err(UntagError::Unsupported { status, code }),
            _ => Err(UntagError::Inconclusive { status, code }),
        }
    }

    fn refused_probe(source: OciError) -> UntagError {
        match &source.kind {
            OciErrorKind::Forbidden { code } if says_unsupported(code.as_deref()) => {
                UntagError::Unsupported { status: 403, code: code.clone() }
            }
            _ => UntagError::Refused { source },
        }
    }

    /// Moves the tag to a manifest that no other tag holds and deletes that manifest's digest: the
    /// computed one, never one that the registry returned.
    async fn replace_and_delete(&self, progress: &mut UntagProgress) -> Result<UntagOutcome, UntagError> {
        let UntagRequest { endpoint, repository, tag, .. } = *self.request;
        progress
            .write(self.registry.push(endpoint, repository, tag, &self.marker))
            .await
            .map_err(|source| UntagError::Failed { step: UntagStep::PushMarker, source })?;
        let marker = Reference::Digest(self.marker.digest().clone());
        let answer = self.delete(&marker, UntagStep::DeleteMarker, progress).await?;
        match self.look(UntagStep::LookAtLast).await? {
            Sight::Absent => Ok(UntagOutcome::Deleted),
            Sight::Foreign { found, expected } => Ok(UntagOutcome::Foreign { found, expected }),
            Sight::Ours(found) => Err(UntagError::StillThere { found, status: answer.status }),
        }
    }

    async fn look(&self, step: UntagStep) -> Result<Sight, UntagError> {
        let UntagRequest { endpoint, repository, tag, expected } = *self.request;
        let tag = Reference::tag(tag);
        let failed = |source| UntagError::Failed { step, source };
        let Some(found) = self.registry.head(endpoint, repository, &tag).await.map_err(failed)? else {
            return Ok(Sight::Absent);
        };
        let Some(expected) = expected else {
            return Ok(Sight::Ours(found));
        };
        if found == *expected || found == *self.marker.digest() {
            return Ok(Sight::Ours(found));
        }
        // A marker that another release of this program made has other bytes but the same mark.
        let manifest = self.registry.manifest(endpoint, repository, &tag).await.map_err(failed)?;
        Ok(match manifest {
            None => Sight::Absent,
            Some(manifest) if is_marked_manifest(&manifest.bytes) => Sight::Ours(manifest.digest),
            Some(_) => Sight::Foreign { found, expected: expected.clone() },
        })
    }

    async fn delete(
        &self,
        reference: &Reference,
        step: UntagStep,
        progress: &mut UntagProgress,
    ) -> Result<DeleteOutcome, UntagError> {
        let UntagRequest { endpoint, repository, .. } = *self.request;
        progress.write(self.registry.delete(endpoint, repository, reference)).await.map_err(|source| {
            match source.kind {
                OciErrorKind::Unauthorized { .. } | OciErrorKind::Forbidden { .. } => {
                    UntagError::Refused { source }
                }
                _ => UntagError::Failed { step, source },
            }
        })
    }
}

fn says_unsupported(code: Option<&str>) -> bool {
    matches!(code, Some("UNSUPPORTED" | "DENIED"))
}
