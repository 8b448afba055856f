//! What can go wrong between this process and a registry, and what follows from it.

use std::fmt;
use std::time::Duration;

use super::types::InvalidName;

/// A request, or a small group of requests, as metrics and messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// HEAD of a manifest.
    Head,
    /// GET of a manifest.
    GetManifest,
    /// GET of a blob.
    GetBlob,
    /// Upload of a blob. Content-addressed: it never moves a tag.
    PushBlob,
    /// PUT of a manifest to a tag.
    PushManifest,
    /// DELETE of a manifest or tag.
    Delete,
    /// List of tags.
    Tags,
    /// Fetch of a bearer token.
    Token,
}

impl Operation {
    /// The label value in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::GetManifest => "get_manifest",
            Self::GetBlob => "get_blob",
            Self::PushBlob => "push_blob",
            Self::PushManifest => "push_manifest",
            Self::Delete => "delete",
            Self::Tags => "tags",
            Self::Token => "token",
        }
    }

    /// `true` when the request changes what a tag or digest resolves to.
    pub fn changes_references(self) -> bool {
        matches!(self, Self::PushManifest | Self::Delete)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Head => "HEAD manifest",
            Self::GetManifest => "GET manifest",
            Self::GetBlob => "GET blob",
            Self::PushBlob => "push of a blob",
            Self::PushManifest => "push of the manifest",
            Self::Delete => "DELETE",
            Self::Tags => "list of tags",
            Self::Token => "token request",
        })
    }
}

/// A registry operation that failed. Holds no credential, no header, no query string.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation} at {host}/{repository}: {kind}")]
pub struct OciError {
    /// What was tried.
    pub operation: Operation,
    /// The registry, `host[:port]`.
    pub host: String,
    /// The repository, without host and tag.
    pub repository: String,
    /// What happened.
    pub kind: OciErrorKind,
}

/// What happened to a registry operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OciErrorKind {
    /// 401 that the given credentials do not lift.
    #[error("the registry answered 401: the credentials are missing, wrong or lack the right")]
    Unauthorized {
        /// The registry's error code.
        code: Option<String>,
    },
    /// 403.
    #[error("the registry answered 403{}", shown(code.as_deref()))]
    Forbidden {
        /// The registry's error code.
        code: Option<String>,
    },
    /// 429.
    #[error("the registry answered 429: too many requests")]
    Throttled {
        /// What `Retry-After` asked for.
        retry_after: Option<Duration>,
    },
    /// 5xx.
    #[error("the registry answered {status}")]
    Server {
        /// HTTP status.
        status: u16,
    },
    /// Another refusal (4xx).
    #[error("the registry refused with {status}{}", shown(code.as_deref()))]
    Rejected {
        /// HTTP status.
        status: u16,
        /// The registry's error code.
        code: Option<String>,
    },
    /// No connection: name resolution, connect or TLS. The request was not sent.
    #[error("the registry cannot be reached: {cause}")]
    Unreachable {
        /// The cause, without URLs.
        cause: String,
    },
    /// The connection broke after the request was on its way.
    #[error("the connection broke before the answer: {cause}")]
    Cut {
        /// The cause, without URLs.
        cause: String,
    },
    /// No answer in time.
    #[error("no answer within {} s", after.as_secs_f32())]
    TimedOut {
        /// The limit that was reached.
        after: Duration,
    },
    /// The answer is larger than it may be.
    #[error("the answer exceeds {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// An answer that the protocol does not allow.
    #[error("unexpected answer: {what}")]
    Protocol {
        /// What was wrong with it.
        what: String,
    },
    /// The registry named a token endpoint that must not see these credentials.
    #[error(
        "credentials withheld: the registry names a token endpoint at {realm}, which it cannot vouch for"
    )]
    RealmRefused {
        /// Scheme and host of the endpoint.
        realm: String,
    },
    /// A name that no registry accepts; nothing was sent.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// This process does not lead any more. What was sent before may still land.
    #[error("this process does not lead any more, and writes nothing")]
    NotLeading,
    /// No client could be built for this registry; nothing was sent.
    #[error("no client for this registry: {cause}")]
    Client {
        /// The cause.
        cause: String,
    },
}

fn shown(code: Option<&str>) -> String {
    code.map(|code| format!(" ({code})")).unwrap_or_default()
}

impl OciErrorKind {
    /// `true` when the registry answered for certain, or was never asked.
    ///
    /// 502 and 504 come from a proxy that gave up waiting, so the registry may still act.
    fn is_definite(&self) -> bool {
        match self {
            Self::Server { status } => !matches!(status, 502 | 504),
            Self::Cut { .. }
            | Self::TimedOut { .. }
            | Self::Protocol { .. }
            | Self::TooLarge { .. }
            | Self::NotLeading => false,
            Self::Unauthorized { .. }
            | Self::Forbidden { .. }
            | Self::Throttled { .. }
            | Self::Rejected { .. }
            | Self::Unreachable { .. }
            | Self::RealmRefused { .. }
            | Self::InvalidName(_)
            | Self::Client { .. } => true,
        }
    }
}

impl OciError {
    /// `true` when the request may still change the registry although it failed: a write that was
    /// sent and got no answer. Its sender must treat it as under way for a while.
    pub fn may_still_land(&self) -> bool {
        self.operation.changes_references() && !self.kind.is_definite()
    }

    /// `true` when the same request may well succeed seconds later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            OciErrorKind::Throttled { .. }
                | OciErrorKind::Server { .. }
                | OciErrorKind::Unreachable { .. }
                | OciErrorKind::Cut { .. }
        )
    }

    /// The delay that the registry asked for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            OciErrorKind::Throttled { retry_after } => retry_after,
            _ => None,
        }
    }

    /// The registry's answer or the failure, from a closed set, as a metric label.
    pub fn label(&self) -> &'static str {
        match &self.kind {
            OciErrorKind::Unauthorized { .. } => "401",
            OciErrorKind::Forbidden { .. } => "403",
            OciErrorKind::Throttled { .. } => "429",
            OciErrorKind::Server { .. } => "5xx",
            OciErrorKind::Rejected { .. } => "4xx",
            OciErrorKind::Unreachable { .. } => "unreachable",
            OciErrorKind::Cut { .. } => "cut",
            OciErrorKind::TimedOut { .. } => "timeout",
            OciErrorKind::TooLarge { .. } | OciErrorKind::Protocol { .. } => "protocol",
            OciErrorKind::NotLeading => "not_leading",
            OciErrorKind::RealmRefused { .. }
            | OciErrorKind::InvalidName(_)
            | OciErrorKind::Client { .. } => "not_sent",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(operation: Operation, kind: OciErrorKind) -> OciError {
        OciError { operation, host: "r.example".into(), repository: "a/b".into(), kind }
    }

    #[test]
    fn only_an_unanswered_write_may_still_land() {
        let cut = || OciErrorKind::Cut { cause: "reset".into() };
        let timeout = || OciErrorKind::TimedOut { after: Duration::from_secs(20) };
        let table = [
            (Operation::Delete, cut(), true),
            (Operation::Delete, timeout(), true),
            (Operation::PushManifest, timeout(), true),
            (Operation::PushManifest, OciErrorKind::Server { status: 504 }, true),
            (Operation::PushManifest, OciErrorKind::Server { status: 500 }, false),
            (Operation::PushManifest, OciErrorKind::Server { status: 503 }, false),
            (Operation::Delete, OciErrorKind::Throttled { retry_after: None }, false),
            (Operation::Delete, OciErrorKind::Forbidden { code: None }, false),
            (Operation::Delete, OciErrorKind::Unreachable { cause: "refused".into() }, false),
            (Operation::PushBlob, cut(), false),
            (Operation::Head, timeout(), false),
            (Operation::Token, timeout(), false),
        ];
        for (operation, kind, expected) in table {
            let error = error(operation, kind);
            assert_eq!(error.may_still_land(), expected, "{error}");
        }
    }

    #[test]
    fn messages_name_operation_host_and_repository() {
        let error = error(Operation::Delete, OciErrorKind::Forbidden { code: Some("DENIED".into()) });
        assert_eq!(error.to_string(), "DELETE at r.example/a/b: the registry answered 403 (DENIED)");
    }
}
