//! What a request asks for, as faults and the request log see it.

use std::sync::Arc;

/// What a request does, in the words of RBAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// One object, or a path that is no resource (discovery, health).
    Get,
    /// Many objects.
    List,
    /// A stream of changes.
    Watch,
    /// A new object.
    Create,
    /// A replacement (PUT).
    Update,
    /// A partial change.
    Patch,
    /// The end of one object.
    Delete,
    /// The end of all selected objects.
    DeleteCollection,
}

impl Verb {
    /// The RBAC name, such as `deletecollection`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Whether requests of this verb change something.
    pub const fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl std::fmt::Display for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One request, as far as its path and parameters tell.
///
/// Texts are empty where a request has no such part: a list has no name, a cluster-wide request no namespace, and a path
/// outside the resources (such as `/version`) has nothing but `path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo {
    /// Running number on this server, from 1.
    pub number: u64,
    /// Who asks: the name that the client was made with.
    pub actor: Arc<str>,
    /// What it does.
    pub verb: Verb,
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Version of the group.
    pub version: Arc<str>,
    /// Plural name, such as `secrets`.
    pub resource: Arc<str>,
    /// Kind, such as `Secret`; empty when the server does not know the resource.
    pub kind: Arc<str>,
    /// Such as `status`.
    pub subresource: Arc<str>,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name of the object: from the path, from the JSON body of a create, or from the `metadata.name` of a field selector.
    pub name: Arc<str>,
    /// The field selector of a list or watch, as it was sent.
    pub field_selector: Arc<str>,
    /// The path without its query.
    pub path: Arc<str>,
}
