//! The chart of one Target: an OCIRepository and a HelmRelease for each of its release charts.

use solar_api::{BootstrapConfig, BootstrapRelease};
use solar_core::fit::fit;

use crate::chart::{self, RenderedChart};
use crate::check;
use crate::data_file::DataFile;
use crate::error::RenderError;
use crate::release::MAX_LABEL_VALUE;
use crate::values_json;

const TEMPLATES: [(&str, &str); 2] = [
    ("templates/_name.tpl", include_str!("../templates/shared/_name.tpl")),
    ("templates/releases.yaml", include_str!("../templates/bootstrap/releases.yaml")),
];

/// Renders the chart that installs the release charts of a Target.
pub fn render_bootstrap(config: &BootstrapConfig) -> Result<RenderedChart, RenderError> {
    let releases = &config.input.releases;
    let urls =
        releases.iter().map(|(name, release)| check_release(name, release)).collect::<Result<Vec<_>, _>>()?;
    let userdata = values_json::to_json(&config.input.userdata, "spec.bootstrap.input.userdata")?;

    let mut file = DataFile::new();
    file.comment(
        "What the templates of this chart read. The templates are the same in every bootstrap chart.",
    );
    if releases.is_empty() {
        file.empty_section("releases");
    } else {
        file.section("releases", |file| {
            for ((name, release), url) in releases.iter().zip(&urls) {
                file.named_section(name, |file| write_release(file, name, release, url));
            }
        });
    }
    file.comment("Userdata of the Target as JSON text, handed on as it stands.");
    file.text("userdataJSON", &userdata);
    chart::build("spec.bootstrap.chart", &config.chart, &TEMPLATES, file.finish())
}

/// The address of a release's chart.
fn check_release(name: &str, release: &BootstrapRelease) -> Result<String, RenderError> {
    check::label("a key of spec.bootstrap.input.releases", name)?;
    let field = |field: &str| format!("spec.bootstrap.input.releases[{name:?}].{field}");
    check::tag(&field("tag"), &release.tag)?;
    check::digest(&field("digest"), &release.digest)?;
    if let Some(secret) = release.pull_secret_name.as_deref().filter(|name| !name.is_empty()) {
        check::subdomain(&field("pullSecretName"), secret)?;
    }
    check::repository_url(&field("repository"), &release.repository, release.insecure)
}

fn write_release(file: &mut DataFile, name: &str, release: &BootstrapRelease, url: &str) {
    file.text("label", &fit(name, MAX_LABEL_VALUE));
    file.text("url", url);
    file.flag("insecure", release.insecure);
    file.section("ref", |file| {
        file.text("tag", &release.tag);
        file.text("digest", &release.digest);
    });
    file.text_if_any("pullSecretName", release.pull_secret_name.as_deref().unwrap_or_default());
}
