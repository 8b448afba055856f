//! The chart of one release: an OCIRepository and a HelmRelease for the entrypoint of a component.

use std::collections::BTreeMap;

use solar_api::{EntrypointType, ReleaseConfig, ResolvedResourceAccess};
use solar_core::fit::fit;

use crate::chart::{self, RenderedChart};
use crate::check;
use crate::data_file::DataFile;
use crate::error::RenderError;
use crate::values_json;
use crate::values_template;

const TEMPLATES: [(&str, &str); 4] = [
    ("templates/_name.tpl", include_str!("../templates/shared/_name.tpl")),
    ("templates/configmap.yaml", include_str!("../templates/release/configmap.yaml")),
    ("templates/release.yaml", include_str!("../templates/release/release.yaml")),
    ("templates/repository.yaml", include_str!("../templates/release/repository.yaml")),
];

/// The longest value of a label.
pub(crate) const MAX_LABEL_VALUE: usize = 63;

/// Renders the chart that installs a component's entrypoint.
pub fn render_release(config: &ReleaseConfig) -> Result<RenderedChart, RenderError> {
    let component = &config.input.component.name;
    check::subdomain("spec.release.input.component.name", component)?;
    if !config.target_namespace.is_empty() {
        check::label("spec.release.targetNamespace", &config.target_namespace)?;
    }
    let source = Source::of(config)?;
    let values = values_json::to_json(&config.values, "spec.release.values")?;

    let mut file = DataFile::new();
    file.comment("What the templates of this chart read. The templates are the same in every release chart.");
    file.section("component", |file| {
        file.text("name", component);
        file.text("label", &fit(component, MAX_LABEL_VALUE));
    });
    file.section("chart", |file| source.write(file));
    file.text_if_any("targetNamespace", &config.target_namespace);
    file.comment("Values of the release as JSON text, handed on as it stands.");
    file.text("valuesJSON", &values);
    if let Some(template) = source.values_template {
        file.comment("Values of the component as YAML text, handed on as it stands.");
        file.text("valuesTemplate", template);
    }
    chart::build("spec.release.chart", &config.chart, &TEMPLATES, file.finish())
}

/// Where the component's chart lies.
struct Source<'a> {
    url: String,
    insecure: bool,
    reference: (&'static str, &'a str),
    pull_secret: &'a str,
    values_template: Option<&'a str>,
}

impl<'a> Source<'a> {
    fn of(config: &'a ReleaseConfig) -> Result<Self, RenderError> {
        let entrypoint = &config.input.entrypoint;
        if entrypoint.type_ != EntrypointType::Helm {
            return Err(RenderError::EntrypointType { kind: entrypoint.type_.as_str() });
        }
        let resource = find(&config.input.resources, &entrypoint.resource_name)?;
        let field =
            |name: &str| format!("spec.release.input.resources[{:?}].{name}", entrypoint.resource_name);
        let pull_secret = resource.pull_secret_name.as_deref().unwrap_or_default();
        if !pull_secret.is_empty() {
            check::subdomain(&field("pullSecretName"), pull_secret)?;
        }
        let template = resource.helm.as_ref().and_then(|helm| helm.values_template.as_deref());
        let template = template.filter(|text| !text.is_empty());
        if let Some(text) = template {
            values_template::check(&entrypoint.resource_name, text)?;
        }
        Ok(Self {
            url: check::repository_url(&field("repository"), &resource.repository, resource.insecure)?,
            insecure: resource.insecure,
            reference: reference(&field("tag"), &resource.tag)?,
            pull_secret,
            values_template: template,
        })
    }

    fn write(&self, file: &mut DataFile) {
        let (kind, text) = self.reference;
        file.text("url", &self.url);
        file.flag("insecure", self.insecure);
        file.section("ref", |file| file.text(kind, text));
        file.text_if_any("pullSecretName", self.pull_secret);
    }
}

/// The entrypoint's resource, with a repository and a tag.
fn find<'a>(
    resources: &'a BTreeMap<String, ResolvedResourceAccess>,
    name: &str,
) -> Result<&'a ResolvedResourceAccess, RenderError> {
    let resource = || name.to_owned();
    let found =
        resources.get(name).ok_or_else(|| RenderError::EntrypointNotInResources { resource: resource() })?;
    if found.repository.is_empty() {
        return Err(RenderError::EntrypointWithoutRepository { resource: resource() });
    }
    if found.tag.is_empty() {
        return Err(RenderError::EntrypointWithoutTag { resource: resource() });
    }
    Ok(found)
}

/// Key and value of an OCIRepository's `ref`. A tag that begins with `@` is a digest.
fn reference<'a>(field: &str, tag: &'a str) -> Result<(&'static str, &'a str), RenderError> {
    match tag.strip_prefix('@') {
        Some(digest) => check::digest(field, digest).map(|()| ("digest", digest)),
        None => check::tag(field, tag).map(|()| ("tag", tag)),
    }
}
