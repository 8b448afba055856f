//! The bootstrap chart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solar_api as api;

use super::chart::{self, Chart, ChartState, Stage};
use super::events;
use super::own::Own;
use super::plan::{BootstrapTaskOrder, Coordinates, GivenVersion, TargetStep};
use super::stage1::{self, Stage1};
use super::version::{self, Version};
use super::view::View;
use crate::content;
use crate::hash::PayloadHash;
use crate::layout;
use crate::names;
use crate::object::ObjectName;
use crate::record::RegistryRecord;

/// What is known of the bootstrap chart that is wanted.
pub(super) enum Stage2 {
    /// Nothing: earlier stages are not done.
    Unknown,
    /// Its input, and not its version.
    VersionUnknown {
        /// The render registry.
        registry: ObjectName,
        /// Where bootstrap charts lie.
        repository: Box<str>,
        /// Why it could not be found out.
        cause: Option<String>,
    },
    /// Its input, and that there is no version left for it.
    NoVersionLeft {
        /// Where bootstrap charts lie.
        repository: Box<str>,
    },
    /// Everything.
    Wanted(Box<Bootstrap>),
}

/// The bootstrap chart that is wanted.
pub(super) struct Bootstrap {
    pub(super) version: i64,
    pub(super) state: ChartState,
    releases: BTreeMap<String, api::BootstrapRelease>,
    description: String,
    /// Versions that were left out because their names are taken, one sentence each.
    skipped: Vec<String>,
}

impl Stage2 {
    pub(super) fn wanted(&self) -> Option<&Bootstrap> {
        match self {
            Self::Wanted(bootstrap) => Some(bootstrap),
            Self::Unknown | Self::VersionUnknown { .. } | Self::NoVersionLeft { .. } => None,
        }
    }

    /// What is done before the status is written.
    pub(super) fn binding_step(&self) -> Vec<TargetStep> {
        self.wanted().map_or_else(Vec::new, Bootstrap::prepare)
    }

    /// What is done once the status is written.
    pub(super) fn steps(&self) -> Vec<TargetStep> {
        match self {
            Self::VersionUnknown { registry, repository, .. } => {
                let (registry, repository) = (registry.clone(), repository.clone());
                vec![TargetStep::LookUpBootstrapHistory { registry, repository }]
            }
            Self::Wanted(bootstrap) if bootstrap.state.create => bootstrap.create(),
            Self::Unknown | Self::NoVersionLeft { .. } | Self::Wanted(_) => Vec::new(),
        }
    }

    pub(super) fn ask_again(&self) -> Option<Duration> {
        match self {
            Self::NoVersionLeft { .. } => Some(chart::REFUSED_AGAIN),
            _ => self.wanted().and_then(|bootstrap| bootstrap.state.ask_again()),
        }
    }
}

impl Bootstrap {
    /// Whether the version counts as used from now on: its task exists, or is made in this pass.
    pub(super) fn is_given(&self) -> bool {
        match self.state.stage {
            Stage::Held | Stage::Rendering | Stage::Rendered { .. } | Stage::Failed { .. } => true,
            Stage::Refused { .. } => self.state.create,
            Stage::Preparing | Stage::CleanedUp { .. } | Stage::Collision { .. } => false,
        }
    }

    /// Binds, and tells which versions were left out for it. Once bound, the version is taken as it is.
    fn prepare(&self) -> Vec<TargetStep> {
        // One that is asked for again was told of when it was asked for first.
        let is_first = !matches!(self.state.stage, Stage::CleanedUp { .. } | Stage::Refused { .. });
        let told = self.skipped.iter().filter(|_| is_first && self.state.bind.is_some());
        let told = told.map(|sentence| events::collision(sentence));
        let bind = self.state.bind.clone().map(TargetStep::Bind);
        bind.into_iter().chain(told).chain(self.state.make_room()).collect()
    }

    fn create(&self) -> Vec<TargetStep> {
        let Chart { coordinates, registry, task, content } = &self.state.chart;
        let order = BootstrapTaskOrder {
            name: task.clone(),
            coordinates: coordinates.clone(),
            registry: registry.clone(),
            given: GivenVersion { version: self.version, input: *content },
            releases: self.releases.clone(),
            chart: stage1::chart_config(coordinates, self.description.clone()),
        };
        vec![TargetStep::CreateBootstrapTask(order), events::created(task, coordinates)]
    }
}

/// Looks at the bootstrap chart, once every release chart can be pulled.
pub(super) fn plan(
    view: &View<'_>,
    own: &Own,
    registry: Option<&RegistryRecord>,
    stage1: &Stage1,
    all_rendered: bool,
) -> Stage2 {
    let Some(registry) = registry.filter(|_| all_rendered) else {
        return Stage2::Unknown;
    };
    let releases = input(registry, stage1);
    let input = content::bootstrap_input(&releases, view.target.userdata);
    let repository = layout::bootstrap_repository(view.name());
    let version = match version::of_input(view, own, registry, &repository, input) {
        Version::Is(version) => version,
        Version::Unknown => {
            return Stage2::VersionUnknown {
                registry: registry.meta.name.clone(),
                repository: repository.into(),
                cause: view.memory.history_failure.clone(),
            };
        }
        Version::NoneLeft => return Stage2::NoVersionLeft { repository: repository.into() },
    };
    let mut skipped = Vec::new();
    let (version, state) = free_version(view, registry, &repository, input, version, &mut skipped);
    let description = format!("Releases of Target {}", view.name());
    Stage2::Wanted(Box::new(Bootstrap { version, state, releases, description, skipped }))
}

/// The chart of `version`, or of the next one whose names are not a stranger's.
fn free_version(
    view: &View<'_>,
    registry: &RegistryRecord,
    repository: &str,
    input: PayloadHash,
    mut version: i64,
    skipped: &mut Vec<String>,
) -> (i64, ChartState) {
    loop {
        let coordinates = Coordinates {
            base_url: (&*registry.host).into(),
            repository: repository.into(),
            tag: layout::bootstrap_tag(version).into(),
        };
        let task: Arc<str> = names::bootstrap_task(&view.name().name, version).into();
        let chart = Chart { coordinates, registry: registry.meta.name.clone(), task, content: input };
        let state = chart::look(view, chart);
        match &state.stage {
            Stage::Collision { message, .. } if version < layout::MAX_BOOTSTRAP_VERSION => {
                skipped.push(message.clone());
            }
            _ => return (version, state),
        }
        version += 1;
    }
}

fn input(registry: &RegistryRecord, stage1: &Stage1) -> BTreeMap<String, api::BootstrapRelease> {
    let rendered = stage1.charts.iter().filter_map(|chart| match &chart.state.stage {
        Stage::Rendered { digest } => Some((chart, digest)),
        _ => None,
    });
    let entry = |coordinates: &Coordinates, digest: &str| api::BootstrapRelease {
        repository: format!("{}/{}", coordinates.base_url, coordinates.repository),
        insecure: registry.plain_http,
        tag: coordinates.tag.to_string(),
        helm: None,
        pull_secret_name: registry.target_pull_secret.as_deref().map(Into::into),
        digest: digest.to_owned(),
    };
    rendered
        .map(|(chart, digest)| {
            (chart.bound.unique_name().to_owned(), entry(&chart.state.chart.coordinates, digest))
        })
        .collect()
}
