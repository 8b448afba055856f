//! The charts of the accepted releases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solar_api as api;

use super::chart::{self, Chart, ChartState};
use super::events;
use super::own::Own;
use super::plan::{Coordinates, ReleaseTaskOrder, TargetStep};
use super::releases::{BoundRelease, Releases};
use super::view::View;
use crate::content::{ContentHash, ReleaseContent};
use crate::hash::PayloadHash;
use crate::layout;
use crate::names;
use crate::object::ObjectName;
use crate::record::RegistryRecord;
use crate::world::IndexKey;

/// The chart of an accepted release.
pub(super) struct ReleaseChart {
    pub(super) bound: BoundRelease,
    pub(super) state: ChartState,
    secrets: BTreeMap<Box<str>, Box<str>>,
}

/// A resource whose host has no RegistryBinding although one is demanded.
pub(super) struct Unmatched {
    pub(super) release: ObjectName,
    pub(super) host: Box<str>,
    pub(super) resource: Box<str>,
}

/// The charts of the accepted releases.
#[derive(Default)]
pub(super) struct Stage1 {
    /// Those that can be made, first come first.
    pub(super) charts: Vec<ReleaseChart>,
    /// Why others cannot.
    pub(super) unmatched: Vec<Unmatched>,
}

impl Stage1 {
    /// Binding first, then the tasks of what is held.
    pub(super) fn steps(&self) -> Vec<TargetStep> {
        let prepare = self.charts.iter().flat_map(|chart| chart.state.steps());
        let unmade = self.charts.iter().filter(|chart| chart.state.create);
        prepare.chain(unmade.flat_map(ReleaseChart::create)).collect()
    }

    pub(super) fn ask_again(&self) -> Option<Duration> {
        self.charts.iter().filter_map(|chart| chart.state.ask_again()).min()
    }
}

impl ReleaseChart {
    fn create(&self) -> [TargetStep; 2] {
        let Chart { coordinates, registry, task, .. } = &self.state.chart;
        let (release, version) = (&self.bound.release, &self.bound.version);
        let order = ReleaseTaskOrder {
            name: task.clone(),
            coordinates: coordinates.clone(),
            registry: registry.clone(),
            release: release.meta.name.clone(),
            release_revision: release.meta.revision(),
            component_version: version.meta.name.clone(),
            component_version_revision: version.meta.revision(),
            pull_secrets: self.secrets.clone(),
            chart: chart_config(coordinates, format!("Release {}", release.meta.name)),
        };
        [TargetStep::CreateReleaseTask(order), events::created(task, coordinates)]
    }
}

/// Chart.yaml at `coordinates`. Nothing in it may come from anything that the tag does not stand for.
pub(super) fn chart_config(coordinates: &Coordinates, description: String) -> api::ChartConfig {
    api::ChartConfig {
        name: layout::chart_name(&coordinates.repository).to_owned(),
        description,
        version: coordinates.tag.to_string(),
        app_version: coordinates.tag.to_string(),
    }
}

/// Looks at the chart of each accepted release. Without a registry, or while pull secrets conflict, there is none.
pub(super) fn plan(
    view: &View<'_>,
    own: &Own,
    registry: Option<&RegistryRecord>,
    releases: &Releases,
) -> Stage1 {
    let mut stage = Stage1::default();
    let Some(registry) = registry.filter(|_| releases.secrets.conflicts.is_empty()) else {
        return stage;
    };
    for bound in &releases.accepted {
        match unmatched(bound, releases) {
            // A missing Registry may be the one of this host: a chart without its pull secret would be wrong.
            Some(_) if !releases.secrets.missing.is_empty() => {}
            Some((host, resource)) if view.options.strict => stage.unmatched.push(Unmatched {
                release: bound.release.meta.name.clone(),
                host: host.into(),
                resource: resource.into(),
            }),
            _ => stage.charts.push(release_chart(view, own, registry, bound, releases)),
        }
    }
    stage
}

/// The first host of the release's resources that no RegistryBinding speaks of, with a resource that lies there.
fn unmatched<'a>(bound: &'a BoundRelease, releases: &Releases) -> Option<(&'a str, &'a str)> {
    let mut hosts = bound.version.hosts.iter();
    let (host, resource) = hosts.find(|(host, _)| !releases.secrets.by_host.contains_key(*host))?;
    Some((host, resource))
}

fn release_chart(
    view: &View<'_>,
    own: &Own,
    registry: &RegistryRecord,
    bound: &BoundRelease,
    releases: &Releases,
) -> ReleaseChart {
    let secrets: BTreeMap<Box<str>, Box<str>> = (bound.version.hosts.keys())
        .filter_map(|host| Some((host.clone(), releases.secrets.by_host.get(host)?.clone()?)))
        .collect();
    let content = ReleaseContent {
        component: &bound.version.component.name,
        resources: bound.version.resources,
        entrypoint: &bound.version.entrypoint,
        values: bound.release.values,
        target_namespace: &bound.release.target_namespace,
        pull_secrets: &secrets,
    };
    let content = content.hash();
    let release = &bound.release.meta.name;
    let repository = layout::release_repository(&view.name().namespace, release);
    let tag = lent_tag(view, own, &repository, content)
        .unwrap_or_else(|| layout::release_tag(bound.release.meta.generation, &ContentHash::of(content)));
    let coordinates =
        Coordinates { base_url: (&*registry.host).into(), repository: repository.into(), tag: tag.into() };
    let task: Arc<str> = names::release_task(release, &view.name().name, &coordinates).into();
    let chart = Chart { coordinates, registry: registry.meta.name.clone(), task, content };
    ReleaseChart { bound: bound.clone(), state: chart::look(view, chart), secrets }
}

/// The tag under which this content was rendered before: content decides, and a Release's generation counts changes that
/// are none. Of several the one that this Target holds, or else the highest generation.
fn lent_tag(view: &View<'_>, own: &Own, repository: &str, content: PayloadHash) -> Option<String> {
    let hash = ContentHash::of(content);
    let generation = |tag: &str| {
        let (generation, found) = layout::parse_release_tag(tag)?;
        (found == hash).then_some(generation)
    };
    let key = IndexKey::repository(&view.name().namespace, repository);
    let artifacts = view.world.render_artifacts.by(&key).filter_map(|artifact| {
        let held = own.holds(&artifact.meta.name);
        let lends = held || !artifact.meta.terminating;
        Some((held, generation(&artifact.coordinates.tag).filter(|_| lends)?))
    });
    let tasks = own.tasks.iter().filter_map(|task| {
        let lends = !task.meta.terminating
            && task.content == content
            && task.coordinates.repository.as_ref() == repository;
        Some((own.holds(task.artifact()), generation(&task.coordinates.tag).filter(|_| lends)?))
    });
    let (_, generation) = artifacts.chain(tasks).max()?;
    Some(layout::release_tag(generation, &hash))
}
