//! `/healthz`, `/readyz` and `/metrics`: what a cluster asks a running controller.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State as Shared;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use metrics::gauge;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;

use crate::actors::root::{Running, State};

/// How long actors may take to answer before the process counts as hung. A kubelet's probe waits 1 s by default.
const PATIENCE: Duration = Duration::from_millis(800);
/// How often samples of histograms are put into their buckets while nobody asks for them.
const UPKEEP: Duration = Duration::from_secs(5);

type Answer = (StatusCode, String);

/// Serves `/healthz`, `/livez` and `/readyz` of `running` for ever.
pub async fn serve_health(listener: TcpListener, running: Running) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/healthz", get(healthz))
        .route("/livez", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(Arc::new(running));
    axum::serve(listener, routes).await
}

/// Serves `/metrics` for ever.
pub async fn serve_metrics(
    listener: TcpListener,
    metrics: PrometheusHandle,
    running: Running,
) -> std::io::Result<()> {
    let routes = Router::new().route("/metrics", get(text)).with_state(Arc::new((metrics, running)));
    axum::serve(listener, routes).await
}

async fn text(Shared(told): Shared<Arc<(PrometheusHandle, Running)>>) -> impl IntoResponse {
    let (metrics, running) = told.as_ref();
    look_at_queues(running).await;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics.render())
}

/// Sets the gauges that only gate, pool and registry actor know. Who does not answer keeps the old ones.
async fn look_at_queues(running: &Running) {
    let asked = async {
        (running.gate_snapshot().await, running.pool_snapshot().await, running.checks_snapshot().await)
    };
    let Ok((gate, pool, checks)) = tokio::time::timeout(PATIENCE, asked).await else { return };
    if let Some(gate) = gate {
        gauge!("solar_gate_slots_in_use").set(number(gate.in_use));
        gauge!("solar_gate_queue").set(number(gate.queued));
    }
    if let Some(pool) = pool {
        gauge!("solar_render_queue", "waits_for" => "slot").set(number(pool.queued));
        gauge!("solar_render_queue", "waits_for" => "render").set(number(pool.joined));
    }
    if let Some(checks) = checks {
        gauge!("solar_availability_checks_in_flight").set(number(checks.running.len()));
        gauge!("solar_availability_queue").set(number(checks.queued));
        gauge!("solar_availability_tokens").set(f64::from(checks.tokens));
    }
}

/// As a gauge takes it; nothing here is counted beyond four billion.
fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Keeps what is recorded small, for ever: samples pile up until they are put into buckets.
pub async fn keep_small(metrics: PrometheusHandle) {
    loop {
        tokio::time::sleep(UPKEEP).await;
        metrics.run_upkeep();
    }
}

/// 200 when the root, the gate and every actors' thread answer.
async fn healthz(Shared(running): Shared<Arc<Running>>) -> Answer {
    match running.answers(PATIENCE).await {
        None => (StatusCode::SERVICE_UNAVAILABLE, "the actors do not answer\n".to_owned()),
        Some(State::Failed(reason)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        Some(_) => (StatusCode::OK, "ok\n".to_owned()),
    }
}

/// 200 while everything runs or another process leads; before that, the kinds that are not listed yet, one a line, or why
/// the lease cannot be taken.
async fn readyz(Shared(running): Shared<Arc<Running>>) -> Answer {
    let state = tokio::time::timeout(PATIENCE, running.state()).await.ok().flatten();
    let shut_out = running.shared.shut_out.borrow().clone();
    ready(state, shut_out)
}

fn ready(state: Option<State>, shut_out: Option<String>) -> Answer {
    let text = match state {
        Some(State::Running) => return (StatusCode::OK, "ok\n".to_owned()),
        Some(State::Standby) => match shut_out {
            None => return (StatusCode::OK, "standby\n".to_owned()),
            Some(problem) => format!("{problem}\n"),
        },
        Some(State::Syncing(kinds)) => kinds.iter().fold(String::new(), |mut text, kind| {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{kind} is not listed yet");
            text
        }),
        Some(State::Stopping | State::Stopped) => "stopping\n".to_owned(),
        Some(State::Failed(reason)) => format!("{reason}\n"),
        None => "the root does not answer\n".to_owned(),
    };
    (StatusCode::SERVICE_UNAVAILABLE, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_controller_is_ready_and_others_say_why_not() {
        let missing = State::Syncing(["Component", "Target"].into());
        let cases = [
            (Some(State::Running), 200, "ok\n"),
            (Some(State::Standby), 200, "standby\n"),
            (Some(missing), 503, "Component is not listed yet\nTarget is not listed yet\n"),
            (Some(State::Stopping), 503, "stopping\n"),
            (Some(State::Stopped), 503, "stopping\n"),
            (Some(State::Failed("the gate has ended".into())), 503, "the gate has ended\n"),
            (None, 503, "the root does not answer\n"),
        ];
        for (state, code, says) in cases {
            let (status, text) = ready(state, None);
            assert_eq!((status.as_u16(), text.as_str()), (code, says));
        }
        let shut_out = || Some("the lease a/b cannot be taken: 403".to_owned());
        let says = "the lease a/b cannot be taken: 403\n".to_owned();
        assert_eq!(ready(Some(State::Standby), shut_out()), (StatusCode::SERVICE_UNAVAILABLE, says));
        assert_eq!(ready(Some(State::Running), shut_out()).0, StatusCode::OK);
    }
}
