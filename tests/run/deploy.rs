//! What is in deploy/.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/base")
}

#[test]
fn every_file_is_named_by_the_kustomization_and_says_what_it_is() {
    let text = std::fs::read_to_string(folder().join("kustomization.yaml")).unwrap();
    let kustomization: Value = serde_saphyr::from_str(&text).unwrap();
    let named: BTreeSet<String> = kustomization["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    let files: BTreeSet<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "kustomization.yaml")
        .collect();
    assert_eq!(named, files);
    for name in files {
        let object: Value =
            serde_saphyr::from_str(&std::fs::read_to_string(folder().join(&name)).unwrap()).unwrap();
        for field in ["apiVersion", "kind"] {
            assert!(object[field].is_string(), "{name} has no {field}");
        }
        assert!(object["metadata"]["name"].is_string(), "{name} has no name");
    }
}

#[test]
fn the_deployment_runs_locked_down_processes_and_asks_them_where_they_answer() {
    let text = std::fs::read_to_string(folder().join("deployment.yaml")).unwrap();
    let spec = serde_saphyr::from_str::<Value>(&text).unwrap()["spec"].clone();
    assert_eq!(spec["replicas"], 2, "one that works and one that stands by");
    assert!(spec["strategy"].is_null(), "they hand over by the lease");
    let text = std::fs::read_to_string(folder().join("pod-disruption-budget.yaml")).unwrap();
    let budget = serde_saphyr::from_str::<Value>(&text).unwrap()["spec"].clone();
    assert_eq!((&budget["maxUnavailable"], &budget["selector"]), (&1.into(), &spec["selector"]));
    let spread = &spec["template"]["spec"]["topologySpreadConstraints"][0];
    assert_eq!(spread["labelSelector"], spec["selector"]);
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    let ports = container["ports"].as_array().unwrap();
    let port = |name: &str| ports.iter().find(|port| port["name"] == name).unwrap()["containerPort"].clone();
    assert_eq!((port("health"), port("metrics")), (8081.into(), 8080.into()));
}

/// Files below `folder` that hold rules of Prometheus.
fn rules(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rules(&path));
        } else if std::fs::read_to_string(&path)
            .is_ok_and(|text| text.contains("PrometheusRule") || text.lines().any(|line| line == "groups:"))
        {
            found.push(path);
        }
    }
    found
}

#[test]
fn deploy_has_no_rules_yet_that_promtool_would_have_to_check() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    // Whoever adds the first gives it `promtool check rules` and unit tests here.
    assert_eq!(rules(&deploy), Vec::<PathBuf>::new());
}
