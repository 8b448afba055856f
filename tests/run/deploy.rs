//! deploy/ against the code.

use std::collections::BTreeSet;
use std::path::Path;

use kube_embedded::Server;
use serde_json::Value;

/// Verb and resource, with `/status` and the like where there is one.
type Permission = (String, String);

/// Asked for only in rare cases, which no test here reaches.
const RARE: &[(&str, &str)] = &[
    // For the payload of a version that is not in the small cache any more, or after a lost race for a finalizer.
    ("get", "components"),
    ("get", "registries"),
    // A registry reference that has to follow a surviving binding; a finalizer that somebody took.
    ("patch", "renderbindings"),
    // A protected object that is let go: looked for by API reads.
    ("get", "targets"),
    ("get", "releases"),
    ("get", "componentversions"),
    ("get", "renderartifacts"),
    // Another finalizer was put on at the same moment.
    ("get", "releasebindings"),
    ("get", "registrybindings"),
    ("get", "profiles"),
    // A person asks for another attempt.
    ("patch", "rendertasks"),
    // An admission plugin asks for it where owner references block a deletion.
    ("update", "targets/finalizers"),
    ("update", "profiles/finalizers"),
    // A repeated event.
    ("patch", "events"),
];

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/base")
}

fn role() -> BTreeSet<Permission> {
    let list = |rule: &Value, field: &str| -> Vec<String> {
        rule[field].as_array().unwrap().iter().map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    let mut permissions = BTreeSet::new();
    for file in ["cluster-role.yaml", "role.yaml"] {
        let text = std::fs::read_to_string(folder().join(file)).unwrap();
        let role: Value = serde_saphyr::from_str(&text).unwrap();
        for rule in role["rules"].as_array().unwrap() {
            for resource in list(rule, "resources") {
                permissions.extend(list(rule, "verbs").into_iter().map(|verb| (verb, resource.clone())));
            }
        }
    }
    permissions
}

/// What the program has asked this server for.
pub fn asked(server: &Server) -> BTreeSet<Permission> {
    let requests = server.requests().into_iter().filter(|request| *request.actor == *"http");
    let resources = requests.filter(|request| !request.resource.is_empty());
    let named = resources.map(|request| {
        let slash = if request.subresource.is_empty() { "" } else { "/" };
        (request.verb.to_string(), format!("{}{slash}{}", request.resource, request.subresource))
    });
    named.collect()
}

/// The role allows what was asked for, and nothing that is not asked for.
pub fn is_what_is_asked_for(asked: &BTreeSet<Permission>) {
    let role = role();
    let missing: Vec<_> = asked.difference(&role).collect();
    assert!(missing.is_empty(), "not allowed by deploy/base/cluster-role.yaml: {missing:?}");
    let rare = |(verb, resource): &&Permission| RARE.contains(&(verb.as_str(), resource.as_str()));
    let unused: Vec<_> = role.difference(asked).filter(|permission| !rare(permission)).collect();
    assert!(unused.is_empty(), "allowed by deploy/base/cluster-role.yaml, but never asked for: {unused:?}");
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
