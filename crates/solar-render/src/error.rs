//! Why a chart was not rendered.

/// A fault of the input: only another input mends it.
///
/// Fields are named as in a RenderTask. Texts of values, userdata and values templates are never repeated, for they may
/// hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The configuration that `spec.type` names is absent.
    #[error("spec.type is {kind} but spec.{kind} is missing: set it, or correct spec.type")]
    MissingConfig {
        /// `release` or `bootstrap`.
        kind: &'static str,
    },
    /// The entrypoint is installed by something else than Helm.
    #[error(
        "spec.entrypoint.type of the ComponentVersion is {kind}, but only helm entrypoints can be rendered: name a \
         resource that is a Helm chart and set the type to helm"
    )]
    EntrypointType {
        /// The type.
        kind: &'static str,
    },
    /// The entrypoint names a resource that is not there.
    #[error(
        "the entrypoint {resource:?} is not in spec.resources of the ComponentVersion: add it there, or correct \
         spec.entrypoint.resourceName"
    )]
    EntrypointNotInResources {
        /// The resource's name.
        resource: String,
    },
    /// The entrypoint has no repository.
    #[error(
        "the entrypoint {resource:?} has no repository: set spec.resources[{resource:?}].repository of the \
         ComponentVersion to <host>/<path>"
    )]
    EntrypointWithoutRepository {
        /// The resource's name.
        resource: String,
    },
    /// The entrypoint has no tag.
    #[error(
        "the entrypoint {resource:?} has no tag: set spec.resources[{resource:?}].tag of the ComponentVersion to a tag \
         or to a digest behind an @"
    )]
    EntrypointWithoutTag {
        /// The resource's name.
        resource: String,
    },
    /// A field holds what Helm, Flux or the registry would refuse later.
    #[error("{field} {problem}")]
    InvalidField {
        /// Path of the field.
        field: String,
        /// What is wrong with it, and the mend.
        problem: String,
    },
    /// A number that does not fit into a 64-bit float, which is what Helm and Flux make of every number.
    #[error(
        "{path} is {number}, an integer beyond 2^53, which Helm and Flux would change: write it as a string (\"{number}\")"
    )]
    InexactNumber {
        /// Path of the number.
        path: String,
        /// The number.
        number: String,
    },
    /// A key that no YAML parser reads.
    #[error(
        "{path} has a key of {length} bytes that begins with {beginning:?}: YAML reads keys of at most {limit} bytes, \
         shorten it"
    )]
    LongKey {
        /// Path of the object that holds the key.
        path: String,
        /// The key's first characters.
        beginning: String,
        /// Length of the key as it is written, quotes and escapes included.
        length: usize,
        /// The longest one that is read.
        limit: usize,
    },
    /// A values template that is no YAML.
    #[error(
        "helm.valuesTemplate of the resource {resource:?} is no valid YAML: {problem}; correct it in spec.resources of \
         the ComponentVersion"
    )]
    ValuesTemplate {
        /// The resource's name.
        resource: String,
        /// What the parser found, and where.
        problem: String,
    },
    /// A file that Helm and Flux refuse for its size.
    #[error(
        "the chart's {file} has {size} bytes, more than the {limit} that Helm and Flux read: make the values, the values \
         template or the userdata smaller"
    )]
    FileTooLarge {
        /// Path of the file in the chart.
        file: &'static str,
        /// Its size in bytes.
        size: usize,
        /// The largest one that is read.
        limit: usize,
    },
    /// A chart that Flux refuses for its size.
    #[error(
        "the chart has {size} bytes, more than the {limit} that Flux reads: make the values, the values template or the \
         userdata smaller"
    )]
    ChartTooLarge {
        /// Size of all its files in bytes.
        size: usize,
        /// The largest one that is read.
        limit: usize,
    },
}

impl RenderError {
    pub(crate) fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::InvalidField { field: field.into(), problem: problem.into() }
    }
}
