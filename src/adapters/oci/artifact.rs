//! What is pushed: bytes and digests that are known before the first request.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::types::Digest;

/// Media type of every manifest that is pushed.
pub const MANIFEST_MEDIA_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of a chart's config blob: Chart.yaml as JSON.
pub const CHART_CONFIG_MEDIA_TYPE: &str = "application/vnd.cncf.helm.config.v1+json";
/// Media type of a chart's only layer: the .tgz.
pub const CHART_LAYER_MEDIA_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// Annotation that marks a throw-away manifest; its value is `<repository>:<tag>`.
pub const MARKER_ANNOTATION: &str = "solar.opendefense.cloud/untagged";

const EMPTY_JSON: &[u8] = b"{}";

/// One blob of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Content.
    pub bytes: Bytes,
    /// SHA-256 of the content.
    pub digest: Digest,
    /// Media type that the manifest states for it.
    pub media_type: &'static str,
}

impl Blob {
    /// A blob with its digest.
    pub fn new(bytes: impl Into<Bytes>, media_type: &'static str) -> Self {
        let bytes = bytes.into();
        Self { digest: Digest::of(&bytes), bytes, media_type }
    }

    fn descriptor(&self) -> Descriptor<'_> {
        Descriptor { digest: self.digest.as_str(), media_type: self.media_type, size: self.bytes.len() }
    }
}

/// A complete artifact: blobs, manifest bytes and the digest that the tag will resolve to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    config: Blob,
    layer: Blob,
    manifest: Bytes,
    digest: Digest,
}

impl Artifact {
    /// The artifact that `helm push` would make of a chart.
    ///
    /// `config` is Chart.yaml's metadata as JSON, `layer` the .tgz. Annotations with an empty value
    /// are left out, as Helm does.
    pub fn chart(
        config: impl Into<Bytes>,
        layer: impl Into<Bytes>,
        annotations: &BTreeMap<String, String>,
    ) -> Self {
        Self::new(
            Blob::new(config, CHART_CONFIG_MEDIA_TYPE),
            Blob::new(layer, CHART_LAYER_MEDIA_TYPE),
            annotations,
        )
    }

    /// The throw-away manifest for a tag: the same bytes for the same repository and tag, different
    /// from those of every other tag, so that deleting its digest can take no other tag along.
    ///
    /// It has a chart's media types because the registry has already accepted those.
    pub fn marker(repository: &str, tag: &str) -> Self {
        let annotations = BTreeMap::from([(MARKER_ANNOTATION.to_owned(), format!("{repository}:{tag}"))]);
        Self::new(
            Blob::new(EMPTY_JSON, CHART_CONFIG_MEDIA_TYPE),
            Blob::new(EMPTY_JSON, CHART_LAYER_MEDIA_TYPE),
            &annotations,
        )
    }

    fn new(config: Blob, layer: Blob, annotations: &BTreeMap<String, String>) -> Self {
        let (manifest, digest) = manifest_bytes(&config, &layer, annotations);
        Self { config, layer, manifest, digest }
    }

    /// The digest that the tag resolves to once this is pushed.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The manifest exactly as it is sent.
    pub fn manifest(&self) -> &Bytes {
        &self.manifest
    }

    /// The blobs in the order of upload, each content once.
    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        let layer = (self.layer.digest != self.config.digest).then_some(&self.layer);
        std::iter::once(&self.config).chain(layer)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor<'a> {
    digest: &'a str,
    media_type: &'a str,
    size: usize,
}

// Fields in alphabetical order: canonical JSON (sorted keys, no white space).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ImageManifest<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'a str, &'a str>,
    config: Descriptor<'a>,
    layers: [Descriptor<'a>; 1],
    media_type: &'a str,
    schema_version: u8,
}

/// The manifest of a config and a layer as canonical JSON, and its digest.
pub fn manifest_bytes(
    config: &Blob,
    layer: &Blob,
    annotations: &BTreeMap<String, String>,
) -> (Bytes, Digest) {
    let filled = annotations.iter().filter(|(_, value)| !value.is_empty());
    let manifest = ImageManifest {
        annotations: filled.map(|(key, value)| (key.as_str(), value.as_str())).collect(),
        config: config.descriptor(),
        layers: [layer.descriptor()],
        media_type: MANIFEST_MEDIA_TYPE,
        schema_version: 2,
    };
    let bytes = Bytes::from(to_json(&manifest));
    let digest = Digest::of(&bytes);
    (bytes, digest)
}

// Strings, integers and string-keyed maps always serialize.
fn to_json(manifest: &ImageManifest<'_>) -> Vec<u8> {
    serde_json::to_vec(manifest).unwrap_or_default()
}

/// `true` when these manifest bytes carry the marker annotation: whoever finds them at a tag treats
/// the tag as absent.
pub fn is_marked_manifest(manifest: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Annotated {
        #[serde(default)]
        annotations: BTreeMap<String, serde_json::Value>,
    }
    serde_json::from_slice::<Annotated>(manifest)
        .is_ok_and(|manifest| manifest.annotations.contains_key(MARKER_ANNOTATION))
}

/// The first layer of a chart manifest that holds a chart: its digest and its stated size in bytes.
///
/// `None` when these bytes are no manifest of a chart. The order of layers is not fixed, so the
/// media type decides.
pub fn chart_layer(manifest: &[u8]) -> Option<(Digest, u64)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Layer {
        media_type: String,
        digest: String,
        size: u64,
    }
    #[derive(Deserialize)]
    struct Layered {
        layers: Vec<Layer>,
    }
    let manifest: Layered = serde_json::from_slice(manifest).ok()?;
    let layer = manifest.layers.into_iter().find(|layer| layer.media_type == CHART_LAYER_MEDIA_TYPE)?;
    Some((layer.digest.parse().ok()?, layer.size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn chart_manifest_is_canonical_json_of_what_helm_pushes() {
        let chart = Artifact::chart(
            &b"{}"[..],
            &b""[..],
            &annotations(&[
                ("org.opencontainers.image.version", "v0.0.1"),
                ("org.opencontainers.image.title", "x"),
                ("empty", ""),
            ]),
        );
        let expected = concat!(
            r#"{"annotations":{"org.opencontainers.image.title":"x","org.opencontainers.image.version":"v0.0.1"},"#,
            r#""config":{"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","#,
            r#""mediaType":"application/vnd.cncf.helm.config.v1+json","size":2},"#,
            r#""layers":[{"digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","#,
            r#""mediaType":"application/vnd.cncf.helm.chart.content.v1.tar+gzip","size":0}],"#,
            r#""mediaType":"application/vnd.oci.image.manifest.v1+json","schemaVersion":2}"#
        );
        assert_eq!(std::str::from_utf8(chart.manifest()), Ok(expected));
        assert_eq!(chart.digest(), &Digest::of(expected.as_bytes()));
    }

    #[test]
    fn marker_is_determined_by_repository_and_tag_alone() {
        let marker = Artifact::marker("a/b", "v1");
        assert_eq!(marker, Artifact::marker("a/b", "v1"));
        assert_ne!(marker.digest(), Artifact::marker("a/b", "v2").digest());
        assert_ne!(marker.digest(), Artifact::marker("a/c", "v1").digest());
        assert_eq!(marker.blobs().count(), 1, "both descriptors name one blob");
    }

    #[test]
    fn only_the_annotation_marks_a_manifest() {
        assert!(is_marked_manifest(Artifact::marker("a/b", "v1").manifest()));
        let chart = Artifact::chart(&b"{}"[..], &b"x"[..], &BTreeMap::new());
        assert!(!is_marked_manifest(chart.manifest()));
        for other in [&b""[..], b"null", b"[]", br#"{"annotations":null}"#, br#"{"annotations":{"a":"b"}}"#] {
            assert!(!is_marked_manifest(other));
        }
    }

    #[test]
    fn the_chart_layer_is_found_by_its_media_type() {
        let chart = Artifact::chart(&b"{}"[..], &b"tgz"[..], &BTreeMap::new());
        assert_eq!(chart_layer(chart.manifest()), Some((Digest::of(b"tgz"), 3)));
        let digest = Digest::of(b"tgz");
        let provenance_first = format!(
            r#"{{"layers":[{{"mediaType":"application/vnd.cncf.helm.chart.provenance.v1.prov","digest":"{digest}","size":1}},
                {{"mediaType":"{CHART_LAYER_MEDIA_TYPE}","digest":"{digest}","size":3}}]}}"#
        );
        assert_eq!(chart_layer(provenance_first.as_bytes()), Some((digest, 3)));
        let bad_digest =
            format!(r#"{{"layers":[{{"mediaType":"{CHART_LAYER_MEDIA_TYPE}","digest":"x","size":3}}]}}"#);
        for other in ["", "null", "{}", r#"{"layers":[]}"#, &bad_digest] {
            assert_eq!(chart_layer(other.as_bytes()), None, "{other}");
        }
    }
}
