//! Helm charts for releases and bootstraps: values in, bytes out, the same bytes every time.
//!
//! [`render`] turns the spec of a RenderTask into a [`RenderedChart`]: its files, the packed chart, and what an OCI
//! manifest says about it. Nothing here reads a clock, a file or a socket.
//!
//! # Nothing a user writes is evaluated
//! Templates are constant files of this crate (`templates/`), the same in every chart of a kind. What varies is data in
//! Chart.yaml and values.yaml, written with every text in quotes or in a literal block. The
//! templates print texts with `quote`, which escapes whatever YAML would change, and call neither `tpl` nor `toYaml`.
//!
//! # How values stay what they are
//! A release's values and a Target's userdata are kept in values.yaml as *JSON text* (`valuesJSON`, `userdataJSON`),
//! which the templates print as it stands into `spec.values` of a HelmRelease. As a tree they would pass through Helm,
//! which turns every number into a 64-bit float, drops keys that are null when values are merged, and prints what is
//! left in its own words. As text they reach the parser of Kubernetes with their nulls, their numbers and every
//! character. The text is valid JSON and, at the same time, YAML 1.1 and 1.2 with one meaning: strings and keys are in
//! double quotes, characters that YAML refuses or folds are escaped, and floats have a point and a signed exponent.
//!
//! Behind the HelmRelease, Flux reads numbers as 64-bit floats. Integers beyond 2^53 therefore fail the render. Floats do
//! not: they are 64-bit floats already when they come in, and `1e300` or `9007199254740992.0` come out as the number they
//! were. The notation of a number is not kept (`1.0` may become `1`), its value is. A key whose value is null survives an
//! installation; Helm 3 upgrades objects by JSON merge patches, in which a null that is new means "remove".
//!
//! A values template is shipped as the text it is, in a ConfigMap.
//!
//! # The same bytes
//! A change of the bytes of a chart needs a new [`TEMPLATE_VERSION`](solar_core::content::TEMPLATE_VERSION); the golden
//! tests hold the bytes.

mod bootstrap;
mod chart;
mod check;
mod data_file;
mod error;
pub mod limits;
mod package;
mod release;
mod text;
mod values_json;
mod values_template;

use solar_api::{RenderTaskSpec, RenderTaskType};

pub use bootstrap::render_bootstrap;
pub use chart::RenderedChart;
pub use error::RenderError;
pub use package::{ChartFiles, UnpackError, unpack};
pub use release::render_release;

/// Renders the chart that a RenderTask asks for. Every error is a fault of the input.
pub fn render(spec: &RenderTaskSpec) -> Result<RenderedChart, RenderError> {
    match spec.type_ {
        RenderTaskType::Release => {
            render_release(spec.release.as_ref().ok_or(RenderError::MissingConfig { kind: "release" })?)
        }
        RenderTaskType::Bootstrap => {
            render_bootstrap(spec.bootstrap.as_ref().ok_or(RenderError::MissingConfig { kind: "bootstrap" })?)
        }
    }
}
