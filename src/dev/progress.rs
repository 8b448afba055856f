//! Shows which Target is at which stage, and what it waits for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solar_core::condition;
use solar_core::object::ObjectName;
use solar_core::record::TargetRecord;

use crate::actors::system::Shared;
use crate::cli::say;

/// How often the cache is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Where a Target is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    /// Whether its actor has written a status.
    pub looked_at: bool,
    /// Whether it is ready.
    pub ready: bool,
    /// The condition that is not fulfilled, its reason and what it waits for.
    pub text: String,
}

impl Stage {
    fn of(target: &TargetRecord) -> Self {
        let status = target.status.get();
        let ready = condition::find(&status.conditions, "Ready");
        match ready {
            None => Self { looked_at: false, ready: false, text: "not looked at yet".to_owned() },
            Some(ready) if ready.status == "True" => {
                let url = status.chart_url.unwrap_or_default();
                Self { looked_at: true, ready: true, text: format!("Ready: {url}") }
            }
            Some(ready) => {
                Self { looked_at: true, ready: false, text: format!("{}: {}", ready.reason, ready.message) }
            }
        }
    }
}

/// Prints each change of a Target's stage until all of `expected` are ready.
pub(super) async fn until_ready(shared: &Arc<Shared>, expected: &[ObjectName]) {
    let mut shown = BTreeMap::new();
    let show = |stages: &BTreeMap<ObjectName, Stage>| {
        for (name, stage) in stages {
            if shown.get(name) != Some(stage) {
                say(&format!("  {name}  {}", stage.text));
            }
        }
        shown.clone_from(stages);
        stages.values().all(|stage| stage.ready)
    };
    until(shared, expected, show).await;
}

/// Looks at the stages until `reached` says that they are far enough.
pub(super) async fn until(
    shared: &Arc<Shared>,
    expected: &[ObjectName],
    mut reached: impl FnMut(&BTreeMap<ObjectName, Stage>) -> bool,
) {
    while !reached(&stages(shared, expected)) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until each of `versions` says whether it is available, and prints what each says.
pub(super) async fn until_checked(shared: &Arc<Shared>, versions: &[ObjectName]) {
    for name in versions {
        let text = loop {
            match availability(shared, name) {
                Some(text) => break text,
                None => tokio::time::sleep(LOOK).await,
            }
        };
        say(&format!("  {name}  {text}"));
    }
}

fn availability(shared: &Arc<Shared>, version: &ObjectName) -> Option<String> {
    let world = shared.cache.read();
    let status = world.component_versions.get(version)?.status.get();
    let available = condition::find(&status.conditions, "Available")?;
    Some(format!("{}: {}", available.reason, available.message))
}

/// The stages of `expected` now.
pub(super) fn stages(shared: &Arc<Shared>, expected: &[ObjectName]) -> BTreeMap<ObjectName, Stage> {
    let world = shared.cache.read();
    let absent = Stage { looked_at: false, ready: false, text: "not seen yet".to_owned() };
    expected
        .iter()
        .map(|name| {
            let stage = world.targets.get(name).map_or_else(|| absent.clone(), |target| Stage::of(target));
            (name.clone(), stage)
        })
        .collect()
}
