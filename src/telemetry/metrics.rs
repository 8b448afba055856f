//! Every metric that the controller tells, in one table: `/metrics` describes them with it, and docs/metrics.md is made
//! of it.

use std::fmt::Write as _;

use metrics::{Label, Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use thiserror::Error;

/// What kind of metric a family is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Seconds, counted in buckets with these upper bounds.
    Seconds(&'static [f64]),
}

impl Measure {
    /// The word for it in the text format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Seconds(_) => "histogram",
        }
    }
}

/// A family of metrics.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What kind of metric it is.
    pub measure: Measure,
    /// Its labels; each has a closed set of values.
    pub labels: &'static [&'static str],
    /// What it tells, in one sentence.
    pub help: &'static str,
}

/// A pass takes a few requests to the API server.
const PASS_BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];
/// A chart takes milliseconds of CPU, a large one seconds.
const RENDER_BUCKETS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// A push takes a few requests to a registry.
const PUSH_BUCKETS: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0];

/// A check begins at once, or waits behind thousands of others.
const LAG_BUCKETS: &[f64] = &[0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 150.0, 300.0, 600.0, 1_200.0, 3_600.0, 7_200.0];

const fn family(
    name: &'static str,
    measure: Measure,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, measure, labels, help }
}

/// The table, by name.
pub const FAMILIES: &[Family] = &[
    family(
        "solar_actor_restarts_total",
        Measure::Counter,
        &["kind"],
        "Object actors that were restarted after a panic.",
    ),
    family(
        "solar_actors",
        Measure::Gauge,
        &["kind", "state"],
        "Object actors by what they do (those at rest have ended): idle, queued for a pass, running one, or waiting for an errand.",
    ),
    family(
        "solar_api_requests_total",
        Measure::Counter,
        &["verb", "kind", "code"],
        "Requests to the Kubernetes API by RBAC verb, kind of object and HTTP status; code error is a request without an \
         answer, code canceled one that nobody waited for any longer.",
    ),
    family(
        "solar_availability_check_lag_seconds",
        Measure::Seconds(LAG_BUCKETS),
        &[],
        "How long after their time availability checks began.",
    ),
    family(
        "solar_availability_checks_in_flight",
        Measure::Gauge,
        &[],
        "Availability checks that run, at most 4.",
    ),
    family(
        "solar_availability_checks_total",
        Measure::Counter,
        &["result"],
        "Availability checks that ended, by result: available, missing, unreachable for every other answer and for none, or \
         died for a fault of the controller.",
    ),
    family(
        "solar_availability_queue",
        Measure::Gauge,
        &[],
        "ComponentVersions that wait for their availability check to begin.",
    ),
    family(
        "solar_availability_throttled_total",
        Measure::Counter,
        &[],
        "Questions for an availability check that found no free token or runner, and wait for their turn.",
    ),
    family(
        "solar_availability_tokens",
        Measure::Gauge,
        &[],
        "Tokens for availability checks: one comes each tenth of a second, up to 20.",
    ),
    family(
        "solar_build_info",
        Measure::Gauge,
        &["version"],
        "Always 1; the label is the version of the controller.",
    ),
    family(
        "solar_events_dropped_total",
        Measure::Counter,
        &[],
        "Kubernetes events that were not written because too many were waiting.",
    ),
    family("solar_gate_queue", Measure::Gauge, &[], "Actors that wait for leave to run a pass."),
    family("solar_gate_slots_in_use", Measure::Gauge, &[], "Passes that run."),
    family(
        "solar_leader",
        Measure::Gauge,
        &[],
        "1 while this process leads, 0 while it stands by for another one.",
    ),
    family(
        "solar_oci_requests_total",
        Measure::Counter,
        &["operation", "code"],
        "Requests to OCI registries by operation and HTTP status, or a word for one without an answer.",
    ),
    family(
        "solar_push_duration_seconds",
        Measure::Seconds(PUSH_BUCKETS),
        &[],
        "How long looking at a tag and pushing a chart to it took.",
    ),
    family(
        "solar_reconcile_duration_seconds",
        Measure::Seconds(PASS_BUCKETS),
        &["kind"],
        "How long passes took, from leave to run until their end.",
    ),
    family(
        "solar_reconciles_total",
        Measure::Counter,
        &["kind", "result"],
        "Passes by kind of actor and result: success, or the sort of failure.",
    ),
    family(
        "solar_render_duration_seconds",
        Measure::Seconds(RENDER_BUCKETS),
        &["kind"],
        "How long the CPU work of a render took.",
    ),
    family(
        "solar_render_joins_total",
        Measure::Counter,
        &[],
        "Render tasks that waited for a render of equal content.",
    ),
    family(
        "solar_render_queue",
        Measure::Gauge,
        &["waits_for"],
        "Render tasks that wait for a free slot, or for a render of equal content.",
    ),
    family(
        "solar_render_refusals_total",
        Measure::Counter,
        &[],
        "Submissions that found no free render slot.",
    ),
    family("solar_render_slots_in_use", Measure::Gauge, &[], "Render slots in use."),
    family(
        "solar_renders_total",
        Measure::Counter,
        &["kind", "result"],
        "Render jobs by result: success, a fault of the input or of the surroundings, stale, or held back.",
    ),
    family(
        "solar_tag_deletions_total",
        Measure::Counter,
        &["result"],
        "Clean-ups of OCI tags by result; each failed attempt counts.",
    ),
    family(
        "solar_wakes_total",
        Measure::Counter,
        &["kind", "cause"],
        "Wakes of object actors by cause, also those that found the actor awake.",
    ),
    family(
        "solar_watch_errors_total",
        Measure::Counter,
        &["kind"],
        "Lists and watches that were refused or broke with an error, and went on. One whose connection just ends is opened again and counts as a request only.",
    ),
    family(
        "solar_unreadable_objects_total",
        Measure::Counter,
        &["kind"],
        "Times that an object was left out because it could not be read",
    ),
    family(
        "solar_watch_restarts_total",
        Measure::Counter,
        &["kind"],
        "Watch loops that died and were started again.",
    ),
];

/// Why metrics cannot be told.
#[derive(Debug, Error)]
pub enum MetricsError {
    /// The table is wrong.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// This process records metrics somewhere else already.
    #[error("metrics are recorded already")]
    Twice,
}

/// A recorder that knows the buckets of the table.
fn recorder() -> Result<PrometheusRecorder, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for family in FAMILIES {
        if let Measure::Seconds(buckets) = family.measure {
            builder = builder.set_buckets_for_metric(Matcher::Full(family.name.to_owned()), buckets)?;
        }
    }
    Ok(builder.build_recorder())
}

/// Records all metrics of this process from now on; the handle writes them as text.
///
/// # Errors
/// When this was done before in this process.
pub fn record() -> Result<PrometheusHandle, MetricsError> {
    let recorder = recorder()?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|_| MetricsError::Twice)?;
    describe();
    metrics::gauge!("solar_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

fn describe() {
    for family in FAMILIES {
        match family.measure {
            Measure::Counter => describe_counter!(family.name, Unit::Count, family.help),
            Measure::Gauge => describe_gauge!(family.name, Unit::Count, family.help),
            Measure::Seconds(_) => describe_histogram!(family.name, Unit::Seconds, family.help),
        }
    }
}

/// The text of `/metrics` with one sample of every family of the table, whose labels have `value`.
///
/// # Errors
/// When the table is wrong.
pub fn specimen(value: &'static str) -> Result<String, MetricsError> {
    let recorder = recorder()?;
    metrics::with_local_recorder(&recorder, || {
        describe();
        for family in FAMILIES {
            let labels: Vec<Label> =
                family.labels.iter().map(|label| Label::from_static_parts(label, value)).collect();
            match family.measure {
                Measure::Counter => metrics::counter!(family.name, labels).increment(1),
                Measure::Gauge => metrics::gauge!(family.name, labels).set(1.0),
                Measure::Seconds(_) => metrics::histogram!(family.name, labels).record(1.0),
            }
        }
    });
    Ok(recorder.handle().render())
}

/// The table as the page docs/metrics.md.
pub fn page() -> String {
    let mut page =
        "# Metrics\n\n<!-- Made by `make docs` from src/telemetry/metrics.rs; do not edit. -->\n\n\
        `solar-controller run` serves them as Prometheus text at `/metrics` of `--metrics-bind-address`.\n\n\
        | metric | type | labels | what it tells |\n| --- | --- | --- | --- |\n"
            .to_owned();
    for Family { name, measure, labels, help } in FAMILIES {
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        // Writing to a String does not fail.
        let _ = writeln!(page, "| `{name}` | {} | {} | {help} |", measure.as_str(), labels.join(", "));
    }
    page
}

/// One actor's part of `solar_actors`: counted in the state that it told last, and taken out when it is dropped.
#[derive(Debug)]
pub struct ActorGauge {
    kind: &'static str,
    state: &'static str,
}

impl ActorGauge {
    /// Counts an actor of `kind` that is idle.
    pub fn new(kind: &'static str) -> Self {
        let gauge = Self { kind, state: "idle" };
        gauge.add(1.0);
        gauge
    }

    /// Counts the actor in `state` from now on.
    pub fn set(&mut self, state: &'static str) {
        if self.state != state {
            self.add(-1.0);
            self.state = state;
            self.add(1.0);
        }
    }

    fn add(&self, number: f64) {
        metrics::gauge!("solar_actors", "kind" => self.kind, "state" => self.state).increment(number);
    }
}

impl Drop for ActorGauge {
    fn drop(&mut self) {
        self.add(-1.0);
    }
}
