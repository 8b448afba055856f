//! Fields that Helm, Flux, Kubernetes or the registry would refuse later, refused here with their name and the mend.

use solar_core::host;

use crate::error::RenderError;

/// The longest chart name that Helm takes.
const MAX_CHART_NAME: usize = 250;
/// The longest DNS name that Kubernetes takes for an object's name.
const MAX_SUBDOMAIN: usize = 253;
/// The longest DNS label.
const MAX_LABEL: usize = 63;
/// The longest tag.
const MAX_TAG: usize = 128;

/// A chart's name as Helm takes it; it is the last segment of a repository and a folder too.
pub(crate) fn chart_name(field: &str, name: &str) -> Result<(), RenderError> {
    let characters = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if characters && begins && name.len() <= MAX_CHART_NAME {
        return Ok(());
    }
    Err(RenderError::invalid(
        field,
        format!(
            "{name:?} is no name of a chart: give 1 to {MAX_CHART_NAME} letters, digits, dots, dashes or underscores, \
             the first one a letter or digit"
        ),
    ))
}

/// A chart's version: a semantic version, perhaps with a `v` in front.
pub(crate) fn chart_version(field: &str, version: &str) -> Result<(), RenderError> {
    let bare = version.strip_prefix('v').unwrap_or(version);
    semver::Version::parse(bare).map(drop).map_err(|error| {
        RenderError::invalid(
            field,
            format!("{version:?} is no semantic version ({error}): give one like 1.2.3"),
        )
    })
}

/// A name that Kubernetes takes for most objects.
pub(crate) fn subdomain(field: &str, name: &str) -> Result<(), RenderError> {
    if name.len() <= MAX_SUBDOMAIN && name.split('.').all(is_label) {
        return Ok(());
    }
    Err(RenderError::invalid(
        field,
        format!(
            "{name:?} is no Kubernetes name: give at most {MAX_SUBDOMAIN} lower-case letters, digits, dashes and dots, \
             with a letter or digit at both ends and around each dot"
        ),
    ))
}

/// A DNS label, such as the name of a namespace.
pub(crate) fn label(field: &str, name: &str) -> Result<(), RenderError> {
    if name.len() <= MAX_LABEL && is_label(name) {
        return Ok(());
    }
    Err(RenderError::invalid(
        field,
        format!(
            "{name:?} is no DNS label: give at most {MAX_LABEL} lower-case letters, digits and dashes, with a letter or \
             digit at both ends"
        ),
    ))
}

fn is_label(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.starts_with(edge) && name.ends_with(edge) && name.chars().all(|c| edge(c) || c == '-')
}

/// `oci://` address of a repository, its host in the normal form.
///
/// Flux looks for a repository on Docker Hub when its host has neither dot nor port; such a host gets its port, so that
/// it is taken literally.
pub(crate) fn repository_url(field: &str, repository: &str, insecure: bool) -> Result<String, RenderError> {
    let (host, path) = host::split_repository(repository);
    host::is_valid(&host).map_err(|error| {
        RenderError::invalid(
            field,
            format!("{repository:?} has no valid host in front of its first slash: {error}"),
        )
    })?;
    if path.is_empty() {
        return Err(RenderError::invalid(
            field,
            format!("{repository:?} has no host or no path: write it as <host>/<path>"),
        ));
    }
    if path.contains([':', '@']) {
        return Err(RenderError::invalid(
            field,
            format!(
                "{repository:?} carries a tag or digest: move it to the field tag (a digest behind an @)"
            ),
        ));
    }
    if !path.split('/').all(is_repository_segment) {
        return Err(RenderError::invalid(
            field,
            format!(
                "{repository:?} is no OCI repository: its path has lower-case letters and digits, with dots, dashes and \
                 underscores between them"
            ),
        ));
    }
    let named_locally = host != "localhost" && !host.contains(['.', ':']);
    let port = match (named_locally, insecure) {
        (false, _) => "",
        (true, false) => ":443",
        (true, true) => ":80",
    };
    Ok(format!("oci://{host}{port}/{path}"))
}

fn is_repository_segment(segment: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separator = |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|b| b == b'-');
    segment.starts_with(edge) && segment.ends_with(edge) && segment.split(edge).all(separator)
}

/// A tag of a registry.
pub(crate) fn tag(field: &str, tag: &str) -> Result<(), RenderError> {
    let character = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let valid = tag.len() <= MAX_TAG && !tag.starts_with(['.', '-']) && tag.chars().all(character);
    if valid && !tag.is_empty() {
        return Ok(());
    }
    Err(RenderError::invalid(
        field,
        format!(
            "{tag:?} is no tag: give at most {MAX_TAG} letters, digits, dots, dashes and underscores (a + of a version \
             is written as _)"
        ),
    ))
}

/// A digest of a manifest.
pub(crate) fn digest(field: &str, digest: &str) -> Result<(), RenderError> {
    let hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let valid = digest.split_once(':').is_some_and(|(algorithm, text)| {
        matches!((algorithm, text.len()), ("sha256", 64) | ("sha384", 96) | ("sha512", 128)) && hex(text)
    });
    if valid {
        return Ok(());
    }
    Err(RenderError::invalid(
        field,
        format!("{digest:?} is no digest: give sha256: and 64 lower-case hex digits"),
    ))
}
