//! Where charts lie in a registry.
//!
//! ```text
//! <host>/<target namespace>/<release namespace>/release-<release name>:v0.0.<generation>-<hash>
//! <host>/<target namespace>/bootstrap-<target name>:v0.0.<bootstrapVersion>
//! ```

use crate::content::ContentHash;
use crate::fit::fit;
use crate::object::ObjectName;

/// The longest repository path.
const MAX_REPOSITORY: usize = 255;
/// The longest chart name, which is the last segment of a repository.
const MAX_CHART_NAME: usize = 250;
/// The highest version of a bootstrap chart: no greater integer passes every JSON parser unchanged. A greater number, or a
/// negative one, was not given by this controller.
pub const MAX_BOOTSTRAP_VERSION: i64 = (1 << 53) - 1;
/// What every tag begins with.
const TAG_PREFIX: &str = "v0.0.";

/// The repository of the charts of `release` for Targets of `target_namespace`.
pub fn release_repository(target_namespace: &str, release: &ObjectName) -> String {
    under(&format!("{target_namespace}/{}/", release.namespace), &format!("release-{}", release.name))
}

/// The repository of the bootstrap charts of `target`.
pub fn bootstrap_repository(target: &ObjectName) -> String {
    under(&format!("{}/", target.namespace), &format!("bootstrap-{}", target.name))
}

fn under(prefix: &str, segment: &str) -> String {
    let limit = MAX_REPOSITORY.saturating_sub(prefix.len()).min(MAX_CHART_NAME);
    format!("{prefix}{}", fit(segment, limit))
}

/// The chart's name: the last segment of its repository.
pub fn chart_name(repository: &str) -> &str {
    repository.rsplit('/').next().unwrap_or(repository)
}

/// Tag of a release chart whose content was first rendered at `generation` of its Release.
pub fn release_tag(generation: i64, content: &ContentHash) -> String {
    format!("{TAG_PREFIX}{generation}-{content}")
}

/// Generation and content hash of a release chart's tag; `None` for any other tag.
pub fn parse_release_tag(tag: &str) -> Option<(i64, ContentHash)> {
    let (generation, hash) = tag.strip_prefix(TAG_PREFIX)?.split_once('-')?;
    Some((parse_number(generation)?, ContentHash::parse(hash)?))
}

/// Tag of a bootstrap chart.
pub fn bootstrap_tag(version: i64) -> String {
    format!("{TAG_PREFIX}{version}")
}

/// Version of a bootstrap chart's tag; `None` for any other tag.
pub fn parse_bootstrap_tag(tag: &str) -> Option<i64> {
    parse_number(tag.strip_prefix(TAG_PREFIX)?).filter(|version| *version <= MAX_BOOTSTRAP_VERSION)
}

/// `oci://` address of a chart. `host` is a normalised host.
pub fn chart_url(host: &str, repository: &str, tag: &str) -> String {
    format!("oci://{host}/{repository}:{tag}")
}

/// A number as it is written into tags: no sign, no leading zero.
fn parse_number(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number >= 0 && number.to_string() == text).then_some(number)
}
