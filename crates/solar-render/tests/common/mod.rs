//! Inputs and readers that the tests share.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use solar_api::{
    BootstrapConfig, BootstrapInput, BootstrapRelease, ChartConfig, Entrypoint, EntrypointType, HelmResource,
    LocalReference, ReleaseConfig, ReleaseInput, ResolvedResourceAccess,
};
use solar_render::RenderedChart;

/// Texts that YAML readers, Helm or Kubernetes like to take for something else.
pub const NASTY: [&str; 48] = [
    "",
    " ",
    "yes",
    "No",
    "on",
    "OFF",
    "y",
    "n",
    "true",
    "null",
    "~",
    "1e3",
    "0x10",
    "010",
    "0o7",
    "1_000",
    "12:30:45",
    "2024-01-01",
    ".inf",
    "-.NaN",
    "+1",
    "1.",
    "=",
    "<<",
    "*x",
    "&x",
    "!!int 3",
    "%TAG",
    "@",
    "`",
    "# no comment",
    "a: b",
    "- a",
    "? a",
    "{{ .Release.Name }}",
    "{{- fail \"evaluated\" }}",
    "${VAR}",
    "'",
    "\"",
    "\\",
    "\n",
    "\r\n",
    "\t",
    "---\nfoo",
    "trailing \n\n",
    "\u{85}\u{2028}\u{2029}",
    "\u{feff}\u{7f}\0\u{fffe}",
    "😀 ünï",
];

pub fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

pub fn chart_config(name: &str, version: &str) -> ChartConfig {
    ChartConfig {
        name: name.to_owned(),
        description: "Release of a \"podinfo\": {{ .Release.Name }}".to_owned(),
        version: version.to_owned(),
        app_version: "6.7.1".to_owned(),
    }
}

/// A release such as a small component has.
pub fn release() -> ReleaseConfig {
    let podinfo = ResolvedResourceAccess {
        repository: "ghcr.io/stefanprodan/charts/podinfo".to_owned(),
        insecure: false,
        tag: "6.7.1".to_owned(),
        helm: Some(HelmResource {
            name: "podinfo".to_owned(),
            version: "6.7.1".to_owned(),
            values_template: Some(
                "image:\n  repository: \"ghcr.io/podinfo\"\nui:\n  message: '{{ .Values.x }}'\n".to_owned(),
            ),
            ..HelmResource::default()
        }),
        pull_secret_name: Some("regcred".to_owned()),
    };
    let image = ResolvedResourceAccess {
        repository: "ghcr.io/stefanprodan/podinfo".to_owned(),
        tag: "6.7.1".to_owned(),
        ..ResolvedResourceAccess::default()
    };
    ReleaseConfig {
        chart: chart_config("release-podinfo", "v0.0.1-a1b2c3d4"),
        input: ReleaseInput {
            component: LocalReference { name: "podinfo".to_owned() },
            resources: BTreeMap::from([("chart".to_owned(), podinfo), ("image".to_owned(), image)]),
            entrypoint: Entrypoint { resource_name: "chart".to_owned(), type_: EntrypointType::Helm },
        },
        target_namespace: "podinfo".to_owned(),
        values: object(json!({
            "replicaCount": 2,
            "cpu": 0.5,
            "ratio": 1e300,
            "enabled": true,
            "removed": null,
            "answer": "yes",
            "version": "1e3",
            "text": "line one\nline two {{ .Values.x }}\n",
            "hosts": [{"name": "a.example", "port": 8080}, {}],
            "empty": [],
        })),
    }
}

pub fn bootstrap_release(repository: &str, tag: &str) -> BootstrapRelease {
    BootstrapRelease {
        repository: repository.to_owned(),
        tag: tag.to_owned(),
        digest: format!("sha256:{}", "0123456789abcdef".repeat(4)),
        ..BootstrapRelease::default()
    }
}

/// A Target with two releases.
pub fn bootstrap() -> BootstrapConfig {
    let insecure = BootstrapRelease {
        insecure: true,
        pull_secret_name: Some("render-pull".to_owned()),
        ..bootstrap_release("registry:5000/edge/apps/release-on", "v0.0.7-deadbeef")
    };
    let plain = bootstrap_release("registry.example/edge/apps/release-podinfo", "v0.0.1-a1b2c3d4");
    BootstrapConfig {
        chart: ChartConfig {
            app_version: String::new(),
            description: String::new(),
            ..chart_config("bootstrap-edge-1", "v0.0.3")
        },
        input: BootstrapInput {
            releases: BTreeMap::from([("podinfo".to_owned(), plain), ("on".to_owned(), insecure)]),
            userdata: object(json!({"site": "edge-1", "no": ["yes", null, 3]})),
        },
    }
}

/// The entrypoint resource of `config`.
pub fn entrypoint(config: &mut ReleaseConfig) -> &mut ResolvedResourceAccess {
    config.input.resources.get_mut("chart").expect("the sample's entrypoint")
}

/// A file of `chart` as text.
pub fn file<'a>(chart: &'a RenderedChart, path: &str) -> &'a str {
    std::str::from_utf8(&chart.files[path]).expect("UTF-8")
}

/// values.yaml of `chart`, read with libyaml.
pub fn values(chart: &RenderedChart) -> Value {
    serde_yaml_ng::from_str(file(chart, "values.yaml")).expect("values.yaml is YAML")
}
