//! The custom resources of the group `solar.opendefense.cloud`, version `v1alpha1`.
//!
//! Field names, condition types, reasons, finalizers and annotations are wire contracts: clients and manifests of SolAr
//! use them to the letter. The crate holds types and their schemas only; it has no client and makes no decision.
//!
//! Each kind has a module of its own. [`crds`] gives the definitions that a cluster needs, in a fixed order.

#![allow(clippy::duplicated_attributes, reason = "columns of one definition share their types")]

mod component;
mod component_version;
mod profile;
mod reference_grant;
mod registry;
mod registry_binding;
mod release;
mod release_binding;
mod render_artifact;
mod render_binding;
mod render_task;
mod schema;
mod shared;
mod target;
mod yaml;

pub mod conditions;
pub mod names;

pub use component::{Component, ComponentSpec};
pub use component_version::{
    ComponentVersion, ComponentVersionSpec, ComponentVersionStatus, Entrypoint, EntrypointType, HelmResource,
    ResourceAccess,
};
pub use profile::{Profile, ProfileSpec, ProfileStatus};
pub use reference_grant::{GrantFrom, GrantTo, ReferenceGrant, ReferenceGrantSpec};
pub use registry::{Registry, RegistrySpec, RegistryStatus};
pub use registry_binding::{RegistryBinding, RegistryBindingSpec, RegistryBindingStatus};
pub use release::{Release, ReleaseSpec, ReleaseStatus};
pub use release_binding::{ReleaseBinding, ReleaseBindingSpec, ReleaseBindingStatus};
pub use render_artifact::{RenderArtifact, RenderArtifactSpec, RenderArtifactStatus};
pub use render_binding::{RenderBinding, RenderBindingSpec};
pub use render_task::{
    BootstrapConfig, BootstrapInput, BootstrapRelease, ChartConfig, ReleaseConfig, ReleaseInput, RenderTask,
    RenderTaskSpec, RenderTaskStatus, RenderTaskType, ResolvedResourceAccess,
};
pub use shared::{JsonObject, LocalReference, ObjectReference};
pub use target::{Target, TargetSpec, TargetStatus};
pub use yaml::crd_files;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

/// The API group of every kind in this crate.
pub const GROUP: &str = "solar.opendefense.cloud";
/// The one served version.
pub const VERSION: &str = "v1alpha1";

/// The definitions of all kinds, sorted by name.
///
/// `crds/` in the repository holds the same documents as YAML.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        Component::crd(),
        ComponentVersion::crd(),
        Profile::crd(),
        ReferenceGrant::crd(),
        Registry::crd(),
        RegistryBinding::crd(),
        Release::crd(),
        ReleaseBinding::crd(),
        RenderArtifact::crd(),
        RenderBinding::crd(),
        RenderTask::crd(),
        Target::crd(),
    ];
    crds.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    crds
}
