//! Names of objects and the part of their metadata that decisions need.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The longest name of an object.
const MAX_NAME: usize = 253;

/// Namespace and name of an object of a known kind.
///
/// Cheap to clone, and small to hold: one pointer. Ordered by namespace, then name, so that every walk has one order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(pub(crate) Arc<NameParts>);

/// The parts of an [`ObjectName`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameParts {
    /// Namespace; never empty.
    pub namespace: Arc<str>,
    /// Name; never empty for an object that exists.
    pub name: Arc<str>,
}

impl Deref for ObjectName {
    type Target = NameParts;

    fn deref(&self) -> &NameParts {
        &self.0
    }
}

impl ObjectName {
    /// The object `name` in `namespace`.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(NameParts { namespace: namespace.into(), name: name.into() }))
    }

    /// What `reference` means when it stands in an object of `own` namespace.
    pub fn referred(reference: &solar_api::ObjectReference, own: &Arc<str>) -> Self {
        let namespace = match reference.namespace.as_deref() {
            None | Some("") => own.clone(),
            Some(namespace) if namespace == own.as_ref() => own.clone(),
            Some(namespace) => Arc::from(namespace),
        };
        Self::new(namespace, reference.name.as_str())
    }

    /// The object `name` in the same namespace.
    pub fn sibling(&self, name: impl Into<Arc<str>>) -> Self {
        Self::new(self.namespace.clone(), name)
    }

    /// Whether an object can have this namespace and name: both are domain names in lower case. The API server has
    /// nothing under any other, and a path made of one may lead elsewhere.
    pub fn is_possible(&self) -> bool {
        is_domain_name(&self.namespace) && is_domain_name(&self.name)
    }

    /// This object as a reference that names its namespace.
    pub fn reference(&self) -> solar_api::ObjectReference {
        solar_api::ObjectReference {
            name: self.name.to_string(),
            namespace: Some(self.namespace.to_string()),
        }
    }
}

/// Whether `text` is a domain name in lower case, as most kinds of objects have them for names.
pub fn is_domain_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        label.bytes().all(|byte| is_plain(byte) || byte == b'-')
            && label.bytes().next().is_some_and(is_plain)
            && label.bytes().last().is_some_and(is_plain)
    };
    text.len() <= MAX_NAME && text.split('.').all(is_label)
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What every record keeps of an object's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Namespace and name.
    pub name: ObjectName,
    /// Tells objects of one name apart over time.
    pub uid: Box<str>,
    /// Version that this record was made from.
    pub resource_version: Box<str>,
    /// Counts changes of the spec, and the request for deletion.
    pub generation: i64,
    /// Whether deletion was requested.
    pub terminating: bool,
    /// In the order of the object.
    pub finalizers: Arc<[Box<str>]>,
}

/// Which spec of which object: equal ones have equal specs. Status, labels, annotations and finalizers do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The object's uid.
    pub uid: Box<str>,
    /// Its generation.
    pub generation: i64,
}

impl Meta {
    /// Which spec this is.
    pub fn revision(&self) -> Revision {
        Revision { uid: self.uid.clone(), generation: self.generation }
    }

    /// The metadata of `object`; absent fields are empty.
    pub fn of(object: &ObjectMeta) -> Self {
        Self {
            name: ObjectName::new(
                object.namespace.as_deref().unwrap_or_default(),
                object.name.as_deref().unwrap_or_default(),
            ),
            uid: object.uid.as_deref().unwrap_or_default().into(),
            resource_version: object.resource_version.as_deref().unwrap_or_default().into(),
            generation: object.generation.unwrap_or_default(),
            terminating: object.deletion_timestamp.is_some(),
            finalizers: object.finalizers.iter().flatten().map(|f| f.as_str().into()).collect(),
        }
    }

    /// Whether a referrer that protects what it depends on with `finalizer` may count on the object: one that is being
    /// deleted takes no new finalizer, so without it the object is as good as gone.
    pub fn can_be_depended_on(&self, finalizer: &str) -> bool {
        !self.terminating || self.has_finalizer(finalizer)
    }

    /// Whether the object carries `finalizer`.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|held| held.as_ref() == finalizer)
    }
}

/// The owner that an object names as its controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControllerRef {
    /// Kind of the owner.
    pub kind: Box<str>,
    /// Name of the owner, in the object's namespace.
    pub name: Box<str>,
    /// Uid of the owner.
    pub uid: Box<str>,
}

impl ControllerRef {
    /// The controller among the owner references of `object`.
    pub fn of(object: &ObjectMeta) -> Option<Self> {
        let owner = object.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
        Some(Self {
            kind: owner.kind.as_str().into(),
            name: owner.name.as_str().into(),
            uid: owner.uid.as_str().into(),
        })
    }
}
