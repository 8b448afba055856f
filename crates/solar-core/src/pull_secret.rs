//! Which pull secret a target cluster needs for a host.

use std::collections::BTreeMap;
use std::fmt;

use solar_api as api;

use crate::grant;
use crate::object::ObjectName;
use crate::world::{IndexKey, World};

/// The answers that a Target's RegistryBindings give.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullSecrets {
    /// Pull secret by normalised host; `None` where a binding says that the host is pulled anonymously. Hosts of
    /// conflicts stand here with their first answer.
    pub by_host: BTreeMap<Box<str>, Option<Box<str>>>,
    /// Hosts with two answers, by host; one for each binding that disagrees with the first.
    pub conflicts: Vec<Conflict>,
    /// Bindings whose Registry does not exist, by name. Which hosts they speak of is not known.
    pub missing: Vec<MissingRegistry>,
}

/// Two RegistryBindings give one host different pull secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Normalised host.
    pub host: Box<str>,
    /// A binding and its answer.
    pub first: (ObjectName, Option<Box<str>>),
    /// Another binding and its answer.
    pub second: (ObjectName, Option<Box<str>>),
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RegistryBindings {} and {} give host {} different pull secrets ({} and {})",
            self.first.0,
            self.second.0,
            self.host,
            described(self.first.1.as_deref()),
            described(self.second.1.as_deref()),
        )
    }
}

fn described(secret: Option<&str>) -> &str {
    secret.unwrap_or("none")
}

/// A RegistryBinding whose Registry does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRegistry {
    /// The binding.
    pub binding: ObjectName,
    /// The Registry that it names.
    pub registry: ObjectName,
}

/// What the RegistryBindings of `target` say: those of its namespace, and those of namespaces that its namespace grants.
///
/// A Registry that is being deleted and that nothing protects counts as gone.
pub fn resolve(world: &World, target: &ObjectName) -> PullSecrets {
    let mut secrets = PullSecrets::default();
    let mut first: BTreeMap<Box<str>, ObjectName> = BTreeMap::new();
    for binding in world.registry_bindings.by(&IndexKey::Target(target.clone())) {
        let name = &binding.meta.name;
        if !grant::allowed(world, "RegistryBinding", &name.namespace, "Target", &target.namespace) {
            continue;
        }
        let registry = world.registries.get(&binding.registry);
        let Some(registry) =
            registry.filter(|r| r.meta.can_be_depended_on(api::names::REGISTRY_REF_FINALIZER))
        else {
            secrets
                .missing
                .push(MissingRegistry { binding: name.clone(), registry: binding.registry.clone() });
            continue;
        };
        let answer = registry.target_pull_secret.clone();
        match secrets.by_host.get(&registry.host) {
            None => {
                secrets.by_host.insert(registry.host.clone(), answer);
                first.insert(registry.host.clone(), name.clone());
            }
            Some(earlier) if *earlier == answer => {}
            Some(earlier) => secrets.conflicts.push(Conflict {
                host: registry.host.clone(),
                first: (first[&registry.host].clone(), earlier.clone()),
                second: (name.clone(), answer),
            }),
        }
    }
    secrets.conflicts.sort_by(|a, b| (&a.host, &a.second.0).cmp(&(&b.host, &b.second.0)));
    secrets
}
