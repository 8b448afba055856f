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

/// What a file of deploy/base permits.
fn permitted(file: &str) -> BTreeSet<Permission> {
    let list = |rule: &Value, field: &str| -> Vec<String> {
        rule[field].as_array().unwrap().iter().map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/base").join(file);
    let role: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut permissions = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        for resource in list(rule, "resources") {
            permissions.extend(list(rule, "verbs").into_iter().map(|verb| (verb, resource.clone())));
        }
    }
    permissions
}

/// The roles allow what a process has asked for, and nothing that it did not ask for: that of its own namespace what is for
/// its Lease there, that of the cluster everything else.
pub fn are_what_is_asked_for(world: &World, who: &str) {
    let own = world.namespace("platform");
    let asked = world.everything_asked(who).into_iter().filter(|asked| !asked.resource.is_empty());
    let (leases, others): (Vec<_>, Vec<_>) =
        asked.partition(|asked| asked.resource == "leases" && asked.namespace == own);
    for (file, asked) in [("role.yaml", leases), ("cluster-role.yaml", others)] {
        let permissions = asked.into_iter().map(|asked| {
            let slash = if asked.subresource.is_empty() { "" } else { "/" };
            (asked.verb, format!("{}{slash}{}", asked.resource, asked.subresource))
        });
        let asked: BTreeSet<Permission> = permissions.collect();
        let role = permitted(file);
        let missing: Vec<_> = asked.difference(&role).collect();
        assert!(missing.is_empty(), "not allowed by deploy/base/{file}: {missing:?}");
        let rare = |(verb, resource): &&Permission| RARE.contains(&(verb.as_str(), resource.as_str()));
        let unused: Vec<_> = role.difference(&asked).filter(|permission| !rare(permission)).collect();
        assert!(unused.is_empty(), "allowed by deploy/base/{file}, but never asked for: {unused:?}");
    }
}
