//! A kind of object that the server serves: names, versions, schema, columns, selectable fields.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    jsonpath::JsonPath,
    meta::{self, Json},
    schema::Schema,
    status::Subject,
};

/// Where the objects of a resource are kept; two resources may share a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableId(pub u32);

/// Kinds that the server treats in a way of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    Namespace,
    Secret,
    ConfigMap,
    Event,
    /// Events as `events.k8s.io/v1` shows them.
    EventV1,
    Lease,
    Crd,
    /// Listed, always empty: `kubectl cluster-info` and `kubectl get all` ask for services.
    Service,
    /// `SelfSubjectAccessReview`: answered, never stored, like the next two.
    AccessReview,
    /// `SelfSubjectRulesReview`.
    RulesReview,
    /// `SelfSubjectReview`.
    UserReview,
}

impl Builtin {
    /// Whether objects of the kind are questions: answered, never stored.
    pub const fn is_review(self) -> bool {
        matches!(self, Self::AccessReview | Self::RulesReview | Self::UserReview)
    }
}

/// A printer column.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    pub cell: Cell,
}

/// How the cell of a column is made.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    Name,
    Path(JsonPath),
    /// The first of these that is there.
    FirstOf(Vec<JsonPath>),
    /// Kind in lower case and name of the object that the reference at this path names.
    Reference(JsonPath),
    /// The number of entries of an object or list, summed over several fields.
    Count(&'static [&'static str]),
}

/// A field that lists may be selected by.
#[derive(Debug, Clone)]
pub(crate) struct FieldDef {
    /// As it stands in a selector.
    pub name: Box<str>,
    /// As it stands in a stored object; several paths give the first that is there.
    pub path: Box<[Box<str>]>,
    /// Whether the store keeps an index of it.
    pub indexed: bool,
}

impl FieldDef {
    pub fn new(name: &str, path: &str, indexed: bool) -> Self {
        Self { name: name.into(), path: path.split('.').map(Into::into).collect(), indexed }
    }

    /// The text by which the field is selected; `None` where it is missing.
    pub fn value_of(&self, object: &Json) -> Option<Box<str>> {
        match meta::lookup(object, &self.path)? {
            Value::String(text) => Some(text.as_str().into()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
            other => Some(other.to_string().into()),
        }
    }
}

/// One version of a resource.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub name: Arc<str>,
    pub served: bool,
    pub schema: Arc<Schema>,
    /// The schema as it was written, for OpenAPI.
    pub open_api: Arc<Value>,
    pub has_status: bool,
    pub columns: Arc<[Column]>,
    /// Indexes into [`Resource::fields`].
    pub selectable: Arc<[usize]>,
}

/// A kind of object that the server serves.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub table: TableId,
    pub group: Arc<str>,
    pub plural: Arc<str>,
    pub singular: Arc<str>,
    pub kind: Arc<str>,
    pub list_kind: Arc<str>,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub versions: Vec<Version>,
    pub storage: usize,
    pub fields: Arc<[FieldDef]>,
    pub builtin: Option<Builtin>,
}

impl Resource {
    pub fn subject(&self) -> Subject<'_> {
        Subject { group: &self.group, plural: &self.plural, kind: &self.kind }
    }

    pub fn version_index(&self, name: &str) -> Option<usize> {
        self.versions.iter().position(|v| v.served && *v.name == *name)
    }

    /// `group/version`, or the version alone in the core group.
    pub fn api_version(&self, version: usize) -> String {
        let name = self.versions.get(version).map_or("", |v| &v.name);
        if self.group.is_empty() { name.to_owned() } else { format!("{}/{name}", self.group) }
    }

    /// What may be done with the objects, in the words of RBAC.
    pub fn verbs(&self) -> &'static [&'static str] {
        const ALL: &[&str] =
            &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        const NO_COLLECTION: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
        match self.builtin {
            Some(Builtin::Namespace) => NO_COLLECTION,
            Some(Builtin::Service) => &["get", "list", "watch"],
            Some(review) if review.is_review() => &["create"],
            _ => ALL,
        }
    }

    /// Whether the objects carry a generation that follows their content.
    pub fn has_generation(&self) -> bool {
        matches!(self.builtin, None | Some(Builtin::Crd))
    }

    /// Whether a stored object is served in this version as it is stored.
    pub fn stored_as(&self, version: usize) -> bool {
        version == self.storage && self.builtin != Some(Builtin::EventV1)
    }

    /// Whether a PUT of an object that is not there creates it.
    pub fn is_created_by_update(&self) -> bool {
        matches!(self.builtin, Some(Builtin::Lease | Builtin::Event | Builtin::EventV1))
    }

    /// Whether a PUT without a resource version is taken.
    pub fn allows_unconditional_update(&self) -> bool {
        !matches!(self.builtin, None | Some(Builtin::Lease | Builtin::Crd))
    }
}

/// A column whose cell is made in a way of its own.
pub(crate) fn column(name: &str, kind: &str, priority: i64, cell: Cell) -> Column {
    Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: String::new(),
        description: String::new(),
        priority,
        cell,
    }
}

/// The first column of every table.
pub(crate) fn name_column() -> Column {
    let mut name = column("Name", "string", 0, Cell::Name);
    "name".clone_into(&mut name.format);
    name
}

/// The age of an object.
pub(crate) fn age_column() -> Column {
    path_column("Age", "date", 0, ".metadata.creationTimestamp")
}

/// A column that shows a field.
pub(crate) fn path_column(name: &str, kind: &str, priority: i64, path: &str) -> Column {
    // A path of our own that does not parse shows nothing, which the tests of the tables would notice.
    column(name, kind, priority, Cell::Path(JsonPath::parse(path).unwrap_or_default()))
}

/// A column that shows what a reference names, as `kind/name`.
pub(crate) fn reference_column(name: &str, priority: i64, path: &str) -> Column {
    column(name, "string", priority, Cell::Reference(JsonPath::parse(path).unwrap_or_default()))
}

/// As [`path_column`], for a value that may stand in several places.
pub(crate) fn first_of_column(name: &str, kind: &str, priority: i64, paths: &[&str]) -> Column {
    let paths = paths.iter().map(|path| JsonPath::parse(path).unwrap_or_default());
    column(name, kind, priority, Cell::FirstOf(paths.collect()))
}

/// The table of namespaces.
pub(crate) const NAMESPACES: TableId = TableId(0);
/// The table of CRDs.
pub(crate) const CRDS: TableId = TableId(1);
/// The first table that a CRD may get.
pub(crate) const FIRST_CUSTOM: u32 = 100;
