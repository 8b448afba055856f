//! How long one typical chart takes to render and package, on one core:
//! `cargo run --release -p solar-render --example render_time`.

use std::time::{Duration, Instant};

use serde_json::json;
use solar_api::ReleaseConfig;
use solar_render::render_release;

const ROUNDS: usize = 2_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config: ReleaseConfig = serde_json::from_value(json!({
        "chart": {"name": "release-podinfo", "description": "Release podinfo", "version": "v0.0.1-a1b2c3d4"},
        "input": {
            "component": {"name": "podinfo"},
            "entrypoint": {"resourceName": "chart", "type": "helm"},
            "resources": {
                "chart": {
                    "repository": "ghcr.io/stefanprodan/charts/podinfo",
                    "tag": "6.7.1",
                    "pullSecretName": "regcred",
                    "helm": {
                        "name": "podinfo",
                        "version": "6.7.1",
                        "valuesTemplate": "image:\n  repository: ghcr.io/stefanprodan/podinfo\n  tag: 6.7.1\n",
                    },
                },
                "image": {"repository": "ghcr.io/stefanprodan/podinfo", "tag": "6.7.1"},
            },
        },
        "targetNamespace": "podinfo",
        "values": {
            "replicaCount": 2,
            "ui": {"message": "Hello", "color": "#34577c"},
            "ingress": {"enabled": true, "hosts": [{"host": "podinfo.example", "paths": [{"path": "/"}]}]},
            "resources": {"limits": {"cpu": 0.5, "memory": "128Mi"}, "requests": {"cpu": "10m", "memory": "64Mi"}},
            "podAnnotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9797"},
        },
    }))?;
    let mut times = Vec::with_capacity(ROUNDS);
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let (time, size) = time_of_one(&config)?;
        times.push(time);
        bytes = size;
    }
    times.sort_unstable();
    println!(
        "rendered and packaged {ROUNDS} times: {bytes} bytes, median {:?}, fastest {:?}, 99 of 100 within {:?}",
        times[ROUNDS / 2],
        times[0],
        times[ROUNDS * 99 / 100]
    );
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "measuring is what this example is for")]
fn time_of_one(config: &ReleaseConfig) -> Result<(Duration, usize), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let chart = render_release(config)?;
    Ok((start.elapsed(), chart.tgz.len()))
}
