//! What a Target's pass is told to do.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use solar_api as api;

use crate::hash::PayloadHash;
use crate::layout;
use crate::object::{ObjectName, Revision};
use crate::record::{RenderArtifactRecord, RenderTaskRecord};

/// How Targets are treated, set once at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetOptions {
    /// Whether a resource host without a RegistryBinding fails the render instead of meaning anonymous pull.
    pub strict: bool,
    /// How long tasks and bindings that are no longer wanted outlive the bootstrap that replaced them.
    pub stale_grace: Duration,
    /// The namespaces that are watched; `None` means all.
    pub watched: Option<Vec<Arc<str>>>,
}

/// Where a chart lies. Host, repository and tag are kept apart and never parsed again once joined.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Coordinates {
    /// Normalised host.
    pub base_url: Arc<str>,
    /// Repository below the host.
    pub repository: Arc<str>,
    /// Tag.
    pub tag: Arc<str>,
}

impl Coordinates {
    /// Where the chart of `artifact` lies.
    pub fn of_artifact(artifact: &RenderArtifactRecord) -> Self {
        (*artifact.coordinates).clone()
    }

    /// Where `task` puts its chart.
    pub fn of_task(task: &RenderTaskRecord) -> Self {
        (*task.coordinates).clone()
    }

    /// `oci://` address of the chart.
    pub fn chart_url(&self) -> String {
        layout::chart_url(&self.base_url, &self.repository, &self.tag)
    }
}

impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.base_url, self.repository, self.tag)
    }
}

/// What has a name that a Target needs for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// A RenderArtifact of other coordinates.
    Artifact(Coordinates),
    /// A RenderBinding that holds another artifact.
    Binding,
    /// A RenderTask that the Target has not made.
    Task,
}

/// What an artifact's actor answered last to this Target's request to bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindAnswer {
    /// The binding and the artifact exist.
    Bound,
    /// The artifact is being cleaned up; nothing was created.
    Terminating {
        /// When to ask again.
        retry_after: Duration,
        /// What the clean-up waits for, in one sentence.
        cause: String,
    },
    /// Something else has a name that is needed.
    Collision {
        /// What it is.
        with: Stranger,
    },
    /// The API server does not let the binding or the artifact be made; the same request fails again until a person mends
    /// it.
    Refused {
        /// When to ask again.
        retry_after: Duration,
        /// What was refused and why, in one sentence.
        cause: String,
    },
}

/// A RenderTask that the API server did not let be made; the same request fails again until a person mends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedTask {
    /// When it is tried again.
    pub until: Timestamp,
    /// What was refused and why, in one sentence.
    pub cause: String,
}

/// What is known of earlier bootstrap versions of a Target that has none in its status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootstrapHistory {
    /// The highest version among artifacts (API read) and registry tags of the Target's bootstrap repository; 0: none.
    pub highest: i64,
}

/// Everything a pass has besides the world.
#[derive(Clone, Debug, Default)]
pub struct TargetMemory {
    /// Last answers by artifact name. `Bound` and `Collision` are to be forgotten once the watch shows what they speak of.
    /// `Terminating` and `Refused` are kept until there is a newer answer, or nothing more is asked: what they say goes on
    /// being said while the same question is out again.
    pub answers: BTreeMap<Arc<str>, BindAnswer>,
    /// By artifact name, from when on an answer `Terminating` or `Refused` may be followed by the same question: the time
    /// of the answer plus its `retry_after`. Where nothing stands, the question is asked in every pass, so that an answer
    /// which wakes the Target makes it ask again at once.
    pub ask_again: BTreeMap<Arc<str>, Timestamp>,
    /// By name, the tasks that could not be made. One is to be forgotten when it is made, or when its time has come and
    /// the plan does not ask for it.
    pub refused: BTreeMap<Arc<str>, RefusedTask>,
    /// Answer to [`TargetStep::LookUpBootstrapHistory`].
    pub history: Option<BootstrapHistory>,
    /// Why that answer could not be had the last time, in one sentence.
    pub history_failure: Option<String>,
    /// The bootstrap version that was last given: noted when [`TargetStep::CreateBootstrapTask`] is about to be carried
    /// out, whatever comes of it, and kept over failed passes. Without it a version whose task is not seen yet is taken
    /// for one whose task is gone, and the next one is used.
    pub given: Option<GivenVersion>,
}

/// A bootstrap version and the only input that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenVersion {
    /// The version.
    pub version: i64,
    /// Hash of its input.
    pub input: PayloadHash,
}

/// Steps in the order in which they are taken. After one that failed the others go on, but for those that need it:
/// [`TargetStep::goes_without`].
#[derive(Clone, Debug, PartialEq)]
pub struct TargetPlan {
    /// What to do.
    pub steps: Vec<TargetStep>,
    /// When to look again although nothing changed.
    pub wake_after: Option<Duration>,
}

/// One step of a Target's pass.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetStep {
    /// Add `target-finalizer`.
    AddFinalizer,
    /// Add `registry-ref` to the Registry, before anything depends on it.
    ProtectRegistry(ObjectName),
    /// Ask the artifact's actor to bind.
    Bind(BindOrder),
    /// Create the task of a release chart; its artifact is bound.
    CreateReleaseTask(ReleaseTaskOrder),
    /// Write the status; at most one a pass, and none without a difference.
    WriteStatus(api::TargetStatus),
    /// Find out which bootstrap versions were used before; the answer comes with the next pass.
    LookUpBootstrapHistory {
        /// The render registry.
        registry: ObjectName,
        /// The Target's bootstrap repository.
        repository: Box<str>,
    },
    /// Create the task of a bootstrap chart; its artifact is bound and its version is in the status.
    CreateBootstrapTask(BootstrapTaskOrder),
    /// Ask the artifact's actor to give up this Target's binding.
    Unbind {
        /// Name of the artifact.
        artifact: Arc<str>,
    },
    /// Hand the Target's render request to a RenderTask in its namespace: another attempt is asked for.
    RequestRender {
        /// Name of the task.
        name: Arc<str>,
        /// Uid that it must have.
        uid: Box<str>,
        /// Value of the annotation.
        request: Box<str>,
    },
    /// Delete a RenderTask in the Target's namespace.
    DeleteTask {
        /// Name of the task.
        name: Arc<str>,
        /// Uid that it must have.
        uid: Box<str>,
    },
    /// Confirm by API reads that no task and no binding of this Target is left, then remove `target-finalizer`.
    RemoveFinalizer,
    /// Record an event about the Target, if the last step that is none was taken in this pass, and for the first time.
    Emit(EventOrder),
}

impl TargetStep {
    /// Whether this step may be taken although `failed`, which stands before it in the plan, was not.
    pub fn goes_without(&self, failed: &Self) -> bool {
        match failed {
            // Nothing is made for a Target, or pushed to a Registry, that may go in the next moment. How far the Target is
            // can be said.
            Self::AddFinalizer | Self::ProtectRegistry(_) => matches!(self, Self::WriteStatus(_)),
            // A version is in the status before its task exists, and a chart in the status is not given up.
            Self::WriteStatus(_) => false,
            // A task without its binding would ask in vain to push.
            Self::DeleteTask { .. } => !matches!(self, Self::Unbind { .. } | Self::RemoveFinalizer),
            _ => true,
        }
    }
}

/// A binding that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindOrder {
    /// Name of the artifact.
    pub artifact: Arc<str>,
    /// Its coordinates.
    pub coordinates: Coordinates,
    /// The Registry that the Target resolves.
    pub registry: ObjectName,
    /// Name of the task that will push.
    pub render_task: Arc<str>,
}

/// A release chart that is wanted. Payloads are fetched by the pass and must have the hashes of the records.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseTaskOrder {
    /// Name of the task.
    pub name: Arc<str>,
    /// Where the chart goes.
    pub coordinates: Coordinates,
    /// The render registry.
    pub registry: ObjectName,
    /// The Release whose values are shipped.
    pub release: ObjectName,
    /// The Release's spec that was decided upon.
    pub release_revision: Revision,
    /// The ComponentVersion whose resources are shipped.
    pub component_version: ObjectName,
    /// The ComponentVersion's spec that was decided upon.
    pub component_version_revision: Revision,
    /// Pull secret by normalised host; a host that is absent is pulled anonymously.
    pub pull_secrets: BTreeMap<Box<str>, Box<str>>,
    /// Chart.yaml.
    pub chart: api::ChartConfig,
}

/// A bootstrap chart that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct BootstrapTaskOrder {
    /// Name of the task.
    pub name: Arc<str>,
    /// Where the chart goes.
    pub coordinates: Coordinates,
    /// The render registry.
    pub registry: ObjectName,
    /// The version, for [`TargetMemory::given`].
    pub given: GivenVersion,
    /// Rendered release charts by unique name.
    pub releases: BTreeMap<String, api::BootstrapRelease>,
    /// Chart.yaml.
    pub chart: api::ChartConfig,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventOrder {
    /// Warning instead of Normal.
    pub warning: bool,
    /// One word of a closed set.
    pub reason: &'static str,
    /// A sentence for a person.
    pub note: String,
}
