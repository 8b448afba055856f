//! Component descriptors that come and go, and what versions may say of them.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use solar_controller::adapters::oci::{Artifact, Digest, Endpoint, OciRegistry as _, Reference};
use solar_controller::dev::registry::RegistryStore;

use crate::fleet::DESCRIPTOR_HOST;

/// How often versions are checked, and how long a descriptor may be missing: short, so that much of it happens in a run.
pub const INTERVAL: Duration = Duration::from_secs(20);
pub const GRACE: Duration = Duration::from_secs(40);

/// The components that have descriptors.
pub const COMPONENTS: [&str; 2] = ["web", "store"];

/// Where the descriptors of a component lie.
pub fn repository(component: &str) -> String {
    format!("component-descriptors/acme.org/{component}")
}

fn artifact(component: &str) -> Artifact {
    Artifact::chart(b"{}".to_vec(), component.as_bytes().to_vec(), &BTreeMap::new())
}

/// The digest of a component's one descriptor.
pub fn digest(component: &str) -> String {
    artifact(component).digest().to_string()
}

/// When something was not there: from, and until.
type Absence = (Timestamp, Option<Timestamp>);

/// The absences as checks can see them: what came and went again between two of them was away all the time.
fn as_checked(absences: Vec<Absence>) -> Vec<Absence> {
    let mut seen: Vec<Absence> = Vec::new();
    for (from, until) in absences {
        match seen.last_mut() {
            Some((_, end)) if end.is_some_and(|end| from < end.saturating_add(INTERVAL).unwrap_or(end)) => {
                *end = until;
            }
            _ => seen.push((from, until)),
        }
    }
    seen
}

/// When each descriptor was not in the registry, and what versions said.
pub struct Descriptors {
    absent: BTreeMap<&'static str, Vec<Absence>>,
    /// What each version said when it was last looked at.
    seen: BTreeMap<(String, String), Value>,
}

impl Descriptors {
    pub fn new(now: Timestamp) -> Self {
        let absent = COMPONENTS.into_iter().map(|component| (component, vec![(now, None)])).collect();
        Self { absent, seen: BTreeMap::new() }
    }

    /// Notes that the descriptor is there from now on.
    pub fn comes(&mut self, component: &'static str, now: Timestamp) {
        let last = self.absent.entry(component).or_default().last_mut();
        if let Some((_, until)) = last {
            until.get_or_insert(now);
        }
    }

    /// Notes that the descriptor is not there from now on.
    pub fn goes(&mut self, component: &'static str, now: Timestamp) {
        let absences = self.absent.entry(component).or_default();
        if absences.last().is_none_or(|(_, until)| until.is_some()) {
            absences.push((now, None));
        }
    }

    /// When what the version looks for was not there.
    fn absences(&self, version: &Value) -> Vec<Absence> {
        let name = text(version, "/spec/componentName").trim_start_matches("acme.org/").to_owned();
        if text(version, "/spec/digest") != digest(&name) {
            return vec![(Timestamp::MIN, None)];
        }
        self.absent.get(&*name).cloned().unwrap_or_default()
    }

    /// Versions that have turned red although their descriptor was not missing all through the grace period.
    pub fn look(&mut self, versions: Vec<Value>) -> Vec<String> {
        let mut broken = Vec::new();
        let mut seen = BTreeMap::new();
        for version in versions {
            let name = (text(&version, "/metadata/namespace").into(), text(&version, "/metadata/uid").into());
            if let Some(before) = self.seen.get(&name) {
                broken.extend(self.compare(before, &version));
            }
            let pends = text(&version, "/status/conditions/0/reason") == "DescriptorMissingPending";
            if pends == version["status"]["descriptorMissingSince"].is_null() {
                broken
                    .push(format!("a grace period runs without a start, or the other way round: {version}"));
            }
            seen.insert(name, version);
        }
        self.seen = seen;
        broken
    }

    fn compare(&self, before: &Value, after: &Value) -> Option<String> {
        let status = |version: &Value| text(version, "/status/conditions/0/status").to_owned();
        if status(after) != "False" || status(before) == "False" {
            return None;
        }
        let turned = time(after, "/status/conditions/0/lastTransitionTime")?;
        // The truth is noted to the nanosecond, the transition in whole seconds.
        let second = Duration::from_secs(1);
        let enough = |since: Timestamp| {
            since.checked_add(GRACE).is_ok_and(|due| due <= turned.saturating_add(second).unwrap_or(turned))
        };
        let pended = text(before, "/status/conditions/0/reason") == "DescriptorMissingPending"
            && time(before, "/status/descriptorMissingSince").is_some_and(enough);
        if !pended {
            return Some(format!("red without a full grace period before: {before} {after}"));
        }
        let absences = as_checked(self.absences(after));
        let was_absent = absences.iter().any(|(from, until)| {
            enough(*from)
                && until.is_none_or(|until| until.saturating_add(second).is_ok_and(|until| until >= turned))
        });
        (!was_absent).then(|| format!("red although it was there: {absences:?} {after}"))
    }

    /// Whether the version says what is true; `registry`: one is there for its host. Red comes later.
    pub fn is_true(&self, version: &Value, registry: bool) -> Result<(), String> {
        let reason = text(version, "/status/conditions/0/reason");
        let wanted: &[&str] = if version["spec"]["digest"].is_null() {
            &["NoDigest"]
        } else if version["spec"]["componentName"].is_null() {
            // One that got a digest and nothing else.
            &["RegistryNotConfigured", "RegistryUnreachable"]
        } else if !registry {
            &["RegistryNotConfigured"]
        } else if self.absences(version).last().is_some_and(|(_, until)| until.is_none()) {
            &["DescriptorMissingPending", "DescriptorMissing"]
        } else {
            &["DescriptorAvailable"]
        };
        let annotation = "/metadata/annotations/solar.opendefense.cloud~1availability-recheck";
        if text(version, annotation) != text(version, "/status/observedRecheck")
            && !text(version, annotation).is_empty()
        {
            return Err(format!("a version was asked for a check that it did not make: {version}"));
        }
        if wanted.contains(&reason) {
            Ok(())
        } else {
            Err(format!("{wanted:?} is true, not {reason}: {version}"))
        }
    }
}

/// Puts the descriptor of `component` into the registry, or takes it away.
pub async fn set(store: &RegistryStore, component: &str, there: bool) {
    let endpoint = Endpoint::anonymous(DESCRIPTOR_HOST, true);
    let (user, repository) = (store.handle("user"), repository(component));
    if there {
        user.push(&endpoint, &repository, "latest", &artifact(component)).await.unwrap();
    } else {
        let digest: Digest = digest(component).parse().unwrap();
        user.delete(&endpoint, &repository, &Reference::from(digest)).await.unwrap();
    }
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn time(value: &Value, path: &str) -> Option<Timestamp> {
    text(value, path).parse().ok()
}
