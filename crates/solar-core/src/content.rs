//! When two charts have the same content.
//!
//! A chart's content is told by a fixed text of lines: small fields as JSON strings, payloads as their hashes. The text
//! is hashed, so that neither comparing nor naming a chart fetches a payload.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;
use solar_api as api;

use crate::hash::PayloadHash;
use crate::host;
use crate::layout;

/// Version of the templates and of everything else that turns an input into the bytes of a chart.
///
/// A change of the bytes needs a new version: tags of release charts are made from it, so every chart is made anew.
pub const TEMPLATE_VERSION: u32 = 1;

/// Length of the hash in a tag.
const TAG_HASH: usize = 8;

/// What decides a release chart besides its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseContent<'a> {
    /// Name of the component.
    pub component: &'a str,
    /// Hash of the ComponentVersion's resources.
    pub resources: PayloadHash,
    /// What is installed.
    pub entrypoint: &'a api::Entrypoint,
    /// Hash of the Release's values.
    pub values: PayloadHash,
    /// Namespace on the target cluster; empty when none is given.
    pub target_namespace: &'a str,
    /// Pull secret by normalised host, for the hosts of the resources only.
    pub pull_secrets: &'a BTreeMap<Box<str>, Box<str>>,
}

impl ReleaseContent<'_> {
    /// Equal for equal content, and the same as [`of_release`] gives for the configuration made from it.
    pub fn hash(&self) -> PayloadHash {
        let secrets = self.pull_secrets.iter().map(|(host, name)| (host.to_string(), Some(name.to_string())));
        self.hash_with(secrets)
    }

    fn hash_with(&self, secrets: impl Iterator<Item = (String, Option<String>)>) -> PayloadHash {
        let mut lines = Lines::default();
        lines.text("release", &TEMPLATE_VERSION.to_string());
        lines.text("component", &quoted(self.component));
        lines.text("entrypoint", self.entrypoint.type_.as_str());
        lines.text("entrypoint resource", &quoted(&self.entrypoint.resource_name));
        lines.text("target namespace", &quoted(self.target_namespace));
        lines.text("resources", &self.resources.to_hex());
        lines.text("values", &self.values.to_hex());
        for (host, name) in secrets {
            let name = name.map_or_else(|| "none".to_owned(), |name| quoted(&name));
            lines.text("pull secret", &format!("{} {name}", quoted(&host)));
        }
        lines.hash()
    }
}

/// The hash of what `config` says, besides its chart's name and version.
pub fn of_release(config: &api::ReleaseConfig) -> PayloadHash {
    let accesses: BTreeMap<&String, api::ResourceAccess> =
        config.input.resources.iter().map(|(name, resource)| (name, resource.access())).collect();
    let content = ReleaseContent {
        component: &config.input.component.name,
        resources: PayloadHash::of(&accesses),
        entrypoint: &config.input.entrypoint,
        values: PayloadHash::of_object(Some(&config.values)),
        target_namespace: &config.target_namespace,
        pull_secrets: &BTreeMap::new(),
    };
    content.hash_with(secrets_of(config).into_iter())
}

/// Host and pull secret of every resource, sorted. Hosts that are only pulled anonymously are left out, as they are
/// from [`ReleaseContent`]; a host with two different answers, which no Target asks for, stands there with both.
fn secrets_of(config: &api::ReleaseConfig) -> BTreeSet<(String, Option<String>)> {
    let mut secrets = BTreeSet::new();
    for resource in config.input.resources.values() {
        let (host, _) = host::split_repository(&resource.repository);
        let name = resource.pull_secret_name.clone().filter(|name| !name.is_empty());
        secrets.insert((host, name));
    }
    let named: BTreeSet<String> =
        secrets.iter().filter(|(_, name)| name.is_some()).map(|(host, _)| host.clone()).collect();
    secrets.retain(|(host, _)| named.contains(host));
    secrets
}

/// The hash of a bootstrap chart's input: rendered releases by unique name, and the hash of the userdata.
pub fn bootstrap_input(
    releases: &BTreeMap<String, api::BootstrapRelease>,
    userdata: PayloadHash,
) -> PayloadHash {
    let mut lines = Lines::default();
    lines.text("bootstrap", &TEMPLATE_VERSION.to_string());
    for (name, release) in releases {
        lines.text("release", &format!("{} {}", quoted(name), PayloadHash::of(release).to_hex()));
    }
    lines.text("userdata", &userdata.to_hex());
    lines.hash()
}

/// The hash of everything that decides the chart of a task besides its version.
///
/// A task without the configuration that its type names has the hash of an empty text, which no other task has.
pub fn of_task(spec: &api::RenderTaskSpec) -> PayloadHash {
    match (spec.type_, &spec.release, &spec.bootstrap) {
        (api::RenderTaskType::Release, Some(config), _) => of_release(config),
        (api::RenderTaskType::Bootstrap, _, Some(config)) => {
            bootstrap_input(&config.input.releases, PayloadHash::of_object(Some(&config.input.userdata)))
        }
        (api::RenderTaskType::Release, None, _) | (api::RenderTaskType::Bootstrap, _, None) => {
            Lines::default().hash()
        }
    }
}

/// Whether the tag of a task is right for its content.
///
/// False only where a release task's tag has this layout's form and ends in another content's hash: the task was changed
/// after it was made, or made by other templates. A tag of any other form promises nothing about the content.
pub fn tag_matches_content(spec: &api::RenderTaskSpec) -> bool {
    match (spec.type_, layout::parse_release_tag(&spec.tag)) {
        (api::RenderTaskType::Release, Some((_, hash))) => hash == ContentHash::of(of_task(spec)),
        (api::RenderTaskType::Release, None) | (api::RenderTaskType::Bootstrap, _) => true,
    }
}

/// The part of a content's hash that stands in a tag: 8 hex characters, one of them a letter.
///
/// A tag is a semantic version too, where a pre-release of digits must not begin with a zero.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(Box<str>);

impl ContentHash {
    /// The first 8 characters in a row of the hash's hex form that hold a letter.
    pub fn of(content: PayloadHash) -> Self {
        let hex = content.to_hex();
        let letter = hex.find(|c: char| c.is_ascii_alphabetic()).unwrap_or_default();
        let start = (letter + 1).saturating_sub(TAG_HASH);
        Self(hex[start..start + TAG_HASH].into())
    }

    /// `text` when it can stand in a tag.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.len() == TAG_HASH && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        (hex && text.contains(|c: char| c.is_ascii_alphabetic())).then(|| Self(text.into()))
    }

    /// The 8 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text of lines, each a word and what it says.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn text(&mut self, word: &str, text: &str) {
        self.0.push_str(word);
        self.0.push(' ');
        self.0.push_str(text);
        self.0.push('\n');
    }

    fn hash(&self) -> PayloadHash {
        PayloadHash::of_bytes(self.0.as_bytes())
    }
}

/// `text` as a JSON string: no text breaks a line or runs into the next word.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
