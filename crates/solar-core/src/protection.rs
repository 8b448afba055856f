//! When a `*-ref` finalizer may go: the one implementation for every protected kind.

use std::sync::Arc;

use solar_api::names;

use crate::object::{Meta, ObjectName};
use crate::world::{IndexKey, World};

/// A kind whose objects are held while others need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protected {
    /// Held by Targets, RegistryBindings and RenderArtifacts.
    Registry,
    /// Held by ReleaseBindings and Profiles.
    Release,
    /// Held by Releases.
    ComponentVersion,
    /// Held by ComponentVersions.
    Component,
}

/// A kind that refers, with the field by which its referrers are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Referrer {
    /// The referring kind.
    pub kind: &'static str,
    /// Field selector on the name.
    pub field: &'static str,
    /// Whether referrers of other namespaces count.
    pub cross_namespace: bool,
}

impl Protected {
    /// The finalizer that holds objects of this kind.
    pub fn finalizer(self) -> &'static str {
        match self {
            Self::Registry => names::REGISTRY_REF_FINALIZER,
            Self::Release => names::RELEASE_REF_FINALIZER,
            Self::ComponentVersion => names::COMPONENT_VERSION_REF_FINALIZER,
            Self::Component => names::COMPONENT_REF_FINALIZER,
        }
    }

    /// The kinds whose objects need objects of this kind.
    pub fn referrers(self) -> &'static [Referrer] {
        match self {
            Self::Registry => &[
                Referrer { kind: "Target", field: "spec.renderRegistryRef.name", cross_namespace: true },
                Referrer { kind: "RegistryBinding", field: "spec.registryRef.name", cross_namespace: false },
                Referrer { kind: "RenderArtifact", field: "spec.registryRef.name", cross_namespace: true },
            ],
            Self::Release => &[
                Referrer { kind: "ReleaseBinding", field: "spec.releaseRef.name", cross_namespace: false },
                Referrer { kind: "Profile", field: "spec.releaseRef.name", cross_namespace: false },
            ],
            Self::ComponentVersion => {
                &[Referrer { kind: "Release", field: "spec.componentVersionRef.name", cross_namespace: true }]
            }
            Self::Component => &[Referrer {
                kind: "ComponentVersion",
                field: "spec.componentRef.name",
                cross_namespace: false,
            }],
        }
    }

    /// The metadata of the protected object, as watched.
    pub fn meta(self, world: &World, name: &ObjectName) -> Option<Meta> {
        match self {
            Self::Registry => world.registries.get(name).map(|record| record.meta.clone()),
            Self::Release => world.releases.get(name).map(|record| record.meta.clone()),
            Self::ComponentVersion => world.component_versions.get(name).map(|record| record.meta.clone()),
            Self::Component => world.components.get(name).map(|record| record.meta.clone()),
        }
    }

    /// A referrer of `name` as watched, for a person to read.
    pub fn a_referrer(self, world: &World, name: &ObjectName) -> Option<String> {
        fn say<R: crate::world::Record>(kind: &str, record: Option<&Arc<R>>) -> Option<String> {
            record.map(|record| format!("{kind} {}", record.meta().name))
        }
        match self {
            Self::Registry => {
                let key = IndexKey::Registry(name.clone());
                say("Target", world.targets.by(&key).next())
                    .or_else(|| say("RegistryBinding", world.registry_bindings.by(&key).next()))
                    .or_else(|| say("RenderArtifact", world.render_artifacts.by(&key).next()))
            }
            Self::Release => {
                let key = IndexKey::Release(name.clone());
                say("ReleaseBinding", world.release_bindings.by(&key).next())
                    .or_else(|| say("Profile", world.profiles.by(&key).next()))
            }
            Self::ComponentVersion => {
                say("Release", world.releases.by(&IndexKey::ComponentVersion(name.clone())).next())
            }
            Self::Component => say(
                "ComponentVersion",
                world.component_versions.by(&IndexKey::Component(name.clone())).next(),
            ),
        }
    }
}
