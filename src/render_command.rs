//! `solar-controller render`: the chart of a RenderTask manifest as files, without a cluster.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use solar_api::RenderTaskSpec;
use solar_core::hash::sha256_hex;
use solar_render::{RenderError, RenderedChart};

/// Group and version of the manifests that are read.
const API_VERSION: &str = "solar.opendefense.cloud/v1alpha1";
/// Kind of the manifests that are read.
const KIND: &str = "RenderTask";
/// Nesting that a manifest may have, as for objects that come from an API server.
const MAX_DEPTH: usize = 128;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Name of the chart.
    pub name: String,
    /// Version of the chart.
    pub version: String,
    /// The folder or `.tgz` that holds it.
    pub path: PathBuf,
    /// Number of files in the chart.
    pub files: usize,
    /// Size of the packed chart in bytes.
    pub packed_size: usize,
    /// SHA-256 of the packed chart, `sha256:...`: the digest of its layer in a registry.
    pub packed_digest: String,
    /// Whether the chart is so large that Helm may fail to store a release of it.
    pub is_large: bool,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, version, files, packed_size, packed_digest, .. } = self;
        write!(f, "{name} {version}: {files} files in {}, ", self.path.display())?;
        write!(f, "{packed_size} bytes when packed ({packed_digest})")?;
        if self.is_large {
            write!(
                f,
                "\nwarning: Helm may fail to store a release of a chart of {} KiB or more",
                limit_in_kib()
            )?;
        }
        Ok(())
    }
}

fn limit_in_kib() -> usize {
    solar_render::limits::LARGE_TGZ / 1024
}

/// Why nothing was rendered, or not all of it was written.
#[derive(Debug, thiserror::Error)]
pub enum RenderCommandError {
    /// The manifest cannot be read.
    #[error("the manifest is neither YAML nor JSON: {problem}")]
    Syntax {
        /// What the parser found, and where.
        problem: String,
    },
    /// There is more than one document in the manifest.
    #[error("the manifest holds more than one document: give one RenderTask in a file of its own")]
    Documents,
    /// The manifest is another kind of object.
    #[error(
        "the manifest is of apiVersion {api_version:?} and kind {kind:?}: give one of apiVersion {API_VERSION} and kind {KIND}"
    )]
    Kind {
        /// Its apiVersion.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// A field is missing or has the wrong type.
    #[error("{field}: {problem}; correct it in the manifest")]
    Field {
        /// Path of the field, or of the object that misses one.
        field: String,
        /// What is wrong.
        problem: String,
    },
    /// The manifest asks for a chart that cannot be.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Something is where the chart should go.
    #[error("{} {problem}", path.display())]
    Occupied {
        /// The path.
        path: PathBuf,
        /// What is there, and the mend.
        problem: &'static str,
    },
    /// The file system refused.
    #[error("{} cannot be written", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The fields of a manifest that are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    spec: RenderTaskSpec,
    #[serde(default, rename = "metadata")]
    _metadata: IgnoredAny,
}

/// Renders the chart of a RenderTask manifest (YAML or JSON) to `out`.
///
/// A path that ends in `.tgz` gets the packed chart, any other path is a folder that gets the chart's files. The folder
/// must be empty or absent and the `.tgz` absent; nothing is overwritten, and nothing is written unless the whole chart
/// was rendered.
pub fn render_manifest(manifest_yaml: &str, out: &Path) -> Result<Summary, RenderCommandError> {
    let spec = read_spec(manifest_yaml)?;
    let chart = solar_render::render(&spec)?;
    if out.extension().is_some_and(|extension| extension == "tgz") {
        write_new(out, &chart.tgz)?;
    } else {
        write_folder(out, &chart)?;
    }
    Ok(Summary {
        path: out.to_path_buf(),
        files: chart.files.len(),
        packed_size: chart.tgz.len(),
        packed_digest: format!("sha256:{}", sha256_hex(&chart.tgz)),
        is_large: chart.is_large(),
        name: chart.name,
        version: chart.version,
    })
}

fn read_spec(manifest: &str) -> Result<RenderTaskSpec, RenderCommandError> {
    let object = read_object(manifest)?;
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version != API_VERSION || kind != KIND {
        return Err(RenderCommandError::Kind { api_version, kind });
    }
    let manifest: Manifest = serde_path_to_error::deserialize(object).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "the manifest".to_owned() } else { path };
        RenderCommandError::Field { field, problem: error.into_inner().to_string() }
    })?;
    Ok(manifest.spec)
}

/// The manifest as kubectl reads it: JSON as JSON, and YAML with the flags and octal numbers of version 1.1.
fn read_object(manifest: &str) -> Result<Value, RenderCommandError> {
    if manifest.trim_start().starts_with('{')
        && let Ok(object) = serde_json::from_str(manifest)
    {
        return Ok(object);
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(manifest, options).map_err(|error| match error {
        serde_saphyr::Error::MultipleDocuments { .. } => RenderCommandError::Documents,
        error => RenderCommandError::Syntax { problem: error.to_string() },
    })
}

fn write_folder(out: &Path, chart: &RenderedChart) -> Result<(), RenderCommandError> {
    let fault = |path: &Path| {
        let path = path.to_path_buf();
        move |source| RenderCommandError::Write { path, source }
    };
    if out.exists() && !out.is_dir() {
        return Err(occupied(out, "is no folder: name another one, or a path that ends in .tgz"));
    }
    fs::create_dir_all(out).map_err(fault(out))?;
    if fs::read_dir(out).map_err(fault(out))?.next().is_some() {
        return Err(occupied(out, "is not empty: empty it, or name another folder"));
    }
    for (path, bytes) in &chart.files {
        let path = out.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(fault(folder))?;
        }
        write_new(&path, bytes)?;
    }
    Ok(())
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<(), RenderCommandError> {
    let write = || OpenOptions::new().write(true).create_new(true).open(path)?.write_all(bytes);
    write().map_err(|source| {
        if source.kind() == io::ErrorKind::AlreadyExists {
            occupied(path, "exists: delete it, or name another path")
        } else {
            RenderCommandError::Write { path: path.to_path_buf(), source }
        }
    })
}

fn occupied(path: &Path, problem: &'static str) -> RenderCommandError {
    RenderCommandError::Occupied { path: path.to_path_buf(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"
apiVersion: solar.opendefense.cloud/v1alpha1
kind: RenderTask
metadata: {name: render-rel-podinfo, namespace: edge}
spec:
  type: release
  repository: edge/apps/release-podinfo
  tag: v0.0.1-a1b2c3d4
  baseURL: registry.example
  ownerKind: Target
  ownerName: edge-1
  ownerNamespace: edge
  release:
    chart: {name: release-podinfo, version: v0.0.1-a1b2c3d4}
    input:
      component: {name: podinfo}
      entrypoint: {resourceName: chart, type: helm}
      resources:
        chart: {repository: ghcr.io/stefanprodan/charts/podinfo, tag: "6.7.1"}
    values: {enabled: yes, mode: 010}
"#;

    fn error(manifest: &str, out: &Path) -> String {
        render_manifest(manifest, out).expect_err("a fault").to_string()
    }

    #[test]
    fn a_manifest_becomes_a_folder_or_a_package_of_the_same_files() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (chart, package) = (folder.path().join("a/chart"), folder.path().join("chart.tgz"));
        let summary = render_manifest(MANIFEST, &chart).expect("a chart");
        assert_eq!((summary.name.as_str(), summary.version.as_str()), ("release-podinfo", "v0.0.1-a1b2c3d4"));
        assert_eq!((summary.files, summary.is_large, &summary.path), (6, false, &chart));
        let packed = render_manifest(MANIFEST, &package).expect("a chart");
        let bytes = fs::read(&package).expect("a package");
        assert_eq!((packed.packed_size, &packed.packed_digest), (bytes.len(), &summary.packed_digest));
        let files = solar_render::unpack(&bytes).expect("a package");
        assert_eq!(files.len(), 6);
        for (path, bytes) in files {
            assert_eq!(fs::read(chart.join(&path)).expect("a file"), bytes, "{path}");
        }
        let values = fs::read_to_string(chart.join("values.yaml")).expect("values");
        assert!(values.contains("\"enabled\": true") && values.contains("\"mode\": 8"), "{values}");
    }

    #[test]
    fn a_json_manifest_gives_the_same_chart() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let object = read_object(MANIFEST).expect("YAML");
        let yaml = render_manifest(MANIFEST, &folder.path().join("yaml.tgz")).expect("a chart");
        let json = render_manifest(&object.to_string(), &folder.path().join("json.tgz")).expect("a chart");
        assert_eq!(yaml.packed_digest, json.packed_digest);
    }

    #[test]
    fn a_manifest_that_is_none_is_refused_by_field() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let out = folder.path().join("out");
        let cases = [
            (String::new(), "the manifest is of apiVersion \"\" and kind \"\""),
            ("a: [".to_owned(), "the manifest is neither YAML nor JSON: "),
            ("{\"a\": ".to_owned(), "the manifest is neither YAML nor JSON: "),
            (
                format!("{MANIFEST}---\n{MANIFEST}"),
                "the manifest holds more than one document: give one RenderTask in a file of its own",
            ),
            (
                MANIFEST.replace("RenderTask", "Release"),
                "the manifest is of apiVersion \"solar.opendefense.cloud/v1alpha1\" and kind \"Release\": give one of",
            ),
            (
                MANIFEST.replace("\nspec:", "\nspecs:"),
                "the manifest: missing field `spec`; correct it in the manifest",
            ),
            (
                MANIFEST.replace("tag: \"6.7.1\"", "tag: 6.7"),
                "spec.release.input.resources.chart.tag: invalid type: floating",
            ),
            (MANIFEST.replace("  type: release\n", "  type: other\n"), "spec.type: unknown variant `other`"),
            (MANIFEST.replace("  tag: v0.0.1-a1b2c3d4\n", ""), "spec: missing field `tag`"),
            (
                MANIFEST.replace("  type: release\n", "  type: bootstrap\n"),
                "spec.type is bootstrap but spec.bootstrap is missing",
            ),
            (
                MANIFEST.replace("resourceName: chart", "resourceName: app"),
                "the entrypoint \"app\" is not in spec.resources",
            ),
        ];
        for (manifest, expected) in cases {
            let error = error(&manifest, &out);
            assert!(error.starts_with(expected), "{error:?} does not begin with {expected:?}");
            assert!(!out.exists(), "nothing is written after {error}");
        }
    }

    #[test]
    fn nothing_is_overwritten() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("file.txt");
        fs::write(&file, "mine").expect("a file");
        assert!(error(MANIFEST, folder.path()).ends_with("is not empty: empty it, or name another folder"));
        assert!(
            error(MANIFEST, &file).ends_with("is no folder: name another one, or a path that ends in .tgz")
        );
        let package = folder.path().join("chart.tgz");
        fs::write(&package, "mine").expect("a file");
        assert!(error(MANIFEST, &package).ends_with("chart.tgz exists: delete it, or name another path"));
        assert_eq!(fs::read_to_string(&package).expect("a file"), "mine");
        assert!(
            error(MANIFEST, &folder.path().join("none/chart.tgz"))
                .ends_with("none/chart.tgz cannot be written")
        );
    }
}
