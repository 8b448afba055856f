//! A rendered chart and what describes it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use solar_api::ChartConfig;

use crate::check;
use crate::data_file::DataFile;
use crate::error::RenderError;
use crate::limits::{LARGE_TGZ, MAX_CHART, MAX_FILE};
use crate::package::{self, CHART_YAML, ChartFiles};

/// A Helm chart, unpacked and packed.
///
/// Equal inputs give equal charts, byte by byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedChart {
    /// Name of the chart, as in Chart.yaml.
    pub name: String,
    /// Version of the chart, as in Chart.yaml.
    pub version: String,
    /// Its files by their path in the chart.
    pub files: ChartFiles,
    /// Its files as `helm package` packs them: one layer of media type
    /// `application/vnd.cncf.helm.chart.content.v1.tar+gzip`.
    pub tgz: Vec<u8>,
    /// Chart.yaml as JSON: the config of media type `application/vnd.cncf.helm.config.v1+json`.
    pub config: Vec<u8>,
    /// Annotations of the OCI manifest: title, version and, where there is one, description. No time.
    pub annotations: BTreeMap<String, String>,
}

impl RenderedChart {
    /// Whether the chart is so large that Helm may fail to store a release of it in one Secret.
    pub fn is_large(&self) -> bool {
        self.tgz.len() >= LARGE_TGZ
    }

    /// Whether a packed chart unpacks to this chart's files, in whatever order and form they were packed.
    pub fn has_content_of(&self, tgz: &[u8]) -> bool {
        package::unpack(tgz).is_ok_and(|files| {
            files.len() == self.files.len()
                && files
                    .iter()
                    .zip(&self.files)
                    .all(|(theirs, ours)| theirs.0 == ours.0 && theirs.1[..] == ours.1[..])
        })
    }
}

/// Checks `config` and packs a chart of constant `templates` with their `values`.
///
/// `field` is where `config` stands in the RenderTask.
pub(crate) fn build(
    field: &str,
    config: &ChartConfig,
    templates: &[(&'static str, &'static str)],
    values: Vec<u8>,
) -> Result<RenderedChart, RenderError> {
    check::chart_name(&format!("{field}.name"), &config.name)?;
    check::chart_version(&format!("{field}.version"), &config.version)?;
    let mut files: ChartFiles =
        templates.iter().map(|(path, text)| (*path, Cow::Borrowed(text.as_bytes()))).collect();
    files.insert(CHART_YAML, Cow::Owned(chart_yaml(config)));
    files.insert("values.yaml", Cow::Owned(values));
    check_sizes(&files)?;
    let tgz = package::pack(&config.name, &files).map_err(|error| {
        RenderError::invalid(format!("{field}.name"), format!("cannot be packed: {error}"))
    })?;
    Ok(RenderedChart {
        name: config.name.clone(),
        version: config.version.clone(),
        files,
        tgz,
        config: config_json(config),
        annotations: annotations(config),
    })
}

fn check_sizes(files: &ChartFiles) -> Result<(), RenderError> {
    if let Some((file, bytes)) = files.iter().find(|(_, bytes)| bytes.len() > MAX_FILE) {
        return Err(RenderError::FileTooLarge { file, size: bytes.len(), limit: MAX_FILE });
    }
    let size = files.values().map(|bytes| bytes.len()).sum();
    if size > MAX_CHART {
        return Err(RenderError::ChartTooLarge { size, limit: MAX_CHART });
    }
    Ok(())
}

fn chart_yaml(config: &ChartConfig) -> Vec<u8> {
    let mut file = DataFile::new();
    file.word("apiVersion", "v2");
    file.text("name", &config.name);
    file.text_if_any("description", &config.description);
    file.word("type", "application");
    file.text("version", &config.version);
    file.text_if_any("appVersion", &config.app_version);
    file.finish()
}

/// Chart.yaml in the order in which Helm writes its fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    api_version: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    app_version: &'a str,
    #[serde(rename = "type")]
    type_: &'static str,
}

fn config_json(config: &ChartConfig) -> Vec<u8> {
    let metadata = Metadata {
        name: &config.name,
        version: &config.version,
        description: &config.description,
        api_version: "v2",
        app_version: &config.app_version,
        type_: "application",
    };
    serde_json::to_vec(&metadata).unwrap_or_default()
}

fn annotations(config: &ChartConfig) -> BTreeMap<String, String> {
    [("title", &config.name), ("version", &config.version), ("description", &config.description)]
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(key, text)| (format!("org.opencontainers.image.{key}"), text.clone()))
        .collect()
}
