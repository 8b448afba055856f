//! Names of the objects that this controller makes. They are wire contracts.

use crate::fit::fit;
use crate::hash::hash8;
use crate::object::ObjectName;
use crate::target::Coordinates;

/// The longest name of an object.
const MAX_NAME: usize = 253;
/// The longest name of a ReleaseBinding that a Profile makes; it serves as a label value too.
const MAX_PROFILE_BINDING: usize = 63;

/// Name of the RenderArtifact of a tag. `base_url` is a normalised host.
pub fn artifact(namespace: &str, base_url: &str, repository: &str, tag: &str) -> String {
    format!("render-art-{}", hash8(&format!("{namespace}/{base_url}/{repository}/{tag}")))
}

/// Name of the RenderArtifact at `coordinates`.
pub fn artifact_at(namespace: &str, coordinates: &Coordinates) -> String {
    artifact(namespace, &coordinates.base_url, &coordinates.repository, &coordinates.tag)
}

/// Name of the RenderBinding by which the Target `target` holds the artifact `artifact`; both are names.
pub fn binding(artifact: &str, target: &str) -> String {
    format!("render-bind-{}", hash8(&format!("{artifact}/Target/{target}")))
}

/// Name of the RenderTask by which the Target named `target` has the chart of `release` made at `coordinates`.
pub fn release_task(release: &ObjectName, target: &str, coordinates: &Coordinates) -> String {
    let Coordinates { base_url, repository, tag } = coordinates;
    let hash = hash8(&format!("{release}-{target}-{base_url}/{repository}:{tag}"));
    fit(&format!("render-rel-{}-{hash}", release.name), MAX_NAME)
}

/// Name of the RenderTask of a Target's bootstrap chart.
pub fn bootstrap_task(target: &str, version: i64) -> String {
    fit(&format!("render-tgt-{target}-{version}"), MAX_NAME)
}

/// Name of the ReleaseBinding by which a Profile binds `target`.
pub fn profile_binding(profile: &str, profile_uid: &str, target: &ObjectName) -> String {
    let hash = hash8(&format!("{profile_uid}/{target}"));
    fit(&format!("{profile}-{}-{hash}", target.name), MAX_PROFILE_BINDING)
}
