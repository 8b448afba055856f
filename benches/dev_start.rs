//! What `dev` spends its time on, from an empty process to every example Target ready: in process, over real sockets,
//! without the command line. Prints, never asserts.
#![allow(
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "a measurement on the machine's clock"
)]

use std::time::{Duration, Instant};

use solar_controller::dev::measure_start;

const RUNS: usize = 20;

fn main() {
    let metrics = metrics_exporter_prometheus::PrometheusBuilder::new()
        .install_recorder()
        .expect("nothing else records metrics in this process");
    let mut runs: Vec<Vec<(&'static str, Duration)>> = Vec::new();
    for _ in 0..RUNS {
        let began = Instant::now();
        match measure_start() {
            Ok(mut parts) => {
                parts.push(("in all", began.elapsed()));
                runs.push(parts);
            }
            Err(error) => {
                eprintln!("error: {error}");
                std::process::exit(1);
            }
        }
    }
    println!("dev, {RUNS} starts: median and slowest of each part, in ms");
    for (part, _) in runs[0].clone() {
        let mut times: Vec<Duration> =
            runs.iter().flatten().filter(|(name, _)| *name == part).map(|(_, time)| *time).collect();
        times.sort();
        let slowest = times.last().copied().unwrap_or_default();
        println!("{part:<28}{:>9.2}{:>9.2}", ms(times[times.len() / 2]), ms(slowest));
    }
    for (what, metric) in [
        ("renders, on all threads", "solar_render_duration_seconds"),
        ("pushes, on all tasks", "solar_push_duration_seconds"),
    ] {
        let (sum, count) = total(&metrics.render(), metric);
        let each = sum / count.max(1.0) * 1e3;
        println!("{what:<28}{:>9.2} a start, {each:.2} each", sum * 1e3 / RUNS as f64);
    }
    one_chart();
}

/// Sum and count of a summary in Prometheus text.
fn total(text: &str, metric: &str) -> (f64, f64) {
    let value = |suffix: &str| {
        let lines = text.lines().filter(|line| line.starts_with(&format!("{metric}_{suffix}")));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    (value("sum"), value("count"))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A release chart with typical values, rendered and packaged on this thread.
fn one_chart() {
    let task: solar_api::RenderTask =
        serde_saphyr::from_str(TASK).expect("the manifest below is a RenderTask");
    let mut times: Vec<Duration> = (0..2_000)
        .map(|_| {
            let began = Instant::now();
            let chart = solar_render::render(&task.spec).expect("the manifest below can be rendered");
            let time = began.elapsed();
            assert!(!chart.tgz.is_empty());
            time
        })
        .collect();
    times.sort();
    println!("one release chart, rendered and packaged: median {:.1} us", ms(times[times.len() / 2]) * 1e3);
}

const TASK: &str = r##"
apiVersion: solar.opendefense.cloud/v1alpha1
kind: RenderTask
metadata: { name: bench, namespace: fleet }
spec:
  type: release
  baseURL: 127.0.0.1:5000
  repository: fleet/fleet/release-web
  tag: v0.0.1-0a1b2c3d
  ownerKind: Target
  ownerName: edge-1
  ownerNamespace: fleet
  release:
    chart: { name: release-web, description: Release fleet/web, version: v0.0.1-0a1b2c3d, appVersion: v0.0.1-0a1b2c3d }
    targetNamespace: web
    input:
      component: { name: podinfo }
      entrypoint: { resourceName: chart, type: helm }
      resources:
        chart:
          repository: ghcr.io/stefanprodan/charts/podinfo
          tag: 6.7.0
          pullSecretName: ghcr-pull
          helm: { name: podinfo, version: 6.7.0 }
    values:
      replicaCount: 2
      image: { repository: ghcr.io/stefanprodan/podinfo, tag: 6.7.0, pullPolicy: IfNotPresent }
      ui: { message: "Stable greets you", color: "#34577c" }
      resources: { limits: { cpu: 500m, memory: 256Mi }, requests: { cpu: 100m, memory: 64Mi } }
      ingress: { enabled: true, className: nginx, hosts: [ { host: web.example.org, paths: [ { path: /, pathType: Prefix } ] } ] }
"##;
