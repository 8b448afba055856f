//! The role of deploy/ against what the program asks for.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::world::World;

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

fn role() -> BTreeSet<Permission> {
    let list = |rule: &Value, field: &str| -> Vec<String> {
        rule[field].as_array().unwrap().iter().map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    let mut permissions = BTreeSet::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/base");
    for file in ["cluster-role.yaml", "role.yaml"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let role: Value = serde_saphyr::from_str(&text).unwrap();
        for rule in role["rules"].as_array().unwrap() {
            for resource in list(rule, "resources") {
                permissions.extend(list(rule, "verbs").into_iter().map(|verb| (verb, resource.clone())));
            }
        }
    }
    permissions
}

/// The role allows what a process has asked for, and nothing that it did not ask for.
pub fn are_what_is_asked_for(world: &World, who: &str) {
    let asked = world.everything_asked(who).into_iter().filter(|asked| !asked.resource.is_empty());
    let asked: BTreeSet<Permission> = asked
        .map(|asked| {
            let slash = if asked.subresource.is_empty() { "" } else { "/" };
            (asked.verb, format!("{}{slash}{}", asked.resource, asked.subresource))
        })
        .collect();
    let role = role();
    let missing: Vec<_> = asked.difference(&role).collect();
    assert!(missing.is_empty(), "not allowed by deploy/base/cluster-role.yaml: {missing:?}");
    let rare = |(verb, resource): &&Permission| RARE.contains(&(verb.as_str(), resource.as_str()));
    let unused: Vec<_> = role.difference(&asked).filter(|permission| !rare(permission)).collect();
    assert!(unused.is_empty(), "allowed by deploy/base/cluster-role.yaml, but never asked for: {unused:?}");
}
