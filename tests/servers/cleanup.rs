//! The clean-up of tags on real registries, as users see it: distribution 2.8, which refuses to delete by tag, and 3, with
//! deletion on and off.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use solar_controller::adapters::clock::Clock;
use solar_controller::adapters::oci::{Credentials, Endpoint, HttpRegistry, HttpRegistryOptions, Timeouts};
use test_bed::{EXAMPLE_USERS, Generation, Registry, RegistryBuilder};

use crate::pipeline::delete_everything;
use crate::program::{Log, Program};
use crate::registries::listed;
use crate::world::{Kind, PATIENCE, World, name};

/// A world whose charts go to a real registry, and a process that has made all Targets ready.
struct Real {
    world: World,
    registry: Registry,
    program: Program,
    client: HttpRegistry,
}

fn ready(
    kind: Kind,
    generation: Generation,
    case: &str,
    settings: impl Fn(RegistryBuilder) -> RegistryBuilder,
) -> Option<Real> {
    let registry = settings(Registry::builder(generation).htpasswd(EXAMPLE_USERS)).start()?;
    let mut world = World::new(kind, case)?;
    world.registry = registry.host();
    world.install_examples();
    let program = world.run("run", &[]);
    rustls::crypto::ring::default_provider().install_default().ok();
    let timeouts = Timeouts { read: PATIENCE, write: PATIENCE };
    let client = {
        let _inside = world.runtime.enter();
        HttpRegistry::new(&HttpRegistryOptions { ca_file: None, timeouts }, Clock::machine()).unwrap()
    };
    let real = Real { world, registry, program, client };
    real.until("all Targets are ready", || real.world.all_ready());
    real.until("the registry holds what the artifacts say", || real.agrees());
    Some(real)
}

impl Real {
    fn log(&self) -> &Log {
        &self.program.log
    }

    fn until(&self, what: &str, level: impl FnMut() -> bool) {
        self.world.until(what, Some(self.log()), level);
    }

    /// `repository:tag` of every tag that the registry lists.
    fn tags(&self) -> BTreeSet<String> {
        let credentials = Credentials::Basic { username: "solar".into(), password: "solar-dev".into() };
        let endpoint = Endpoint { credentials, ..Endpoint::anonymous(self.registry.host(), true) };
        listed(&self.world, &self.registry, &self.client, &endpoint)
    }

    fn agrees(&self) -> bool {
        let artifacts: BTreeSet<String> = self.world.artifacts().into_keys().collect();
        self.tags() == artifacts && artifacts.len() == self.world.list("renderartifacts").len()
    }

    fn delete_targets(&self) {
        // Targets first: one that loses a binding may else push another chart before it goes.
        for plural in ["targets", "profiles", "releasebindings"] {
            self.world.delete_all(plural);
        }
        self.until("the Targets are gone", || self.world.list("targets").is_empty());
    }

    /// What `OCICleanup` says of each artifact.
    fn cleanups(&self) -> Vec<Option<[String; 3]>> {
        let artifacts = self.world.list("renderartifacts");
        let said = |it: &Value| self.world.condition(&format!("renderartifacts/{}", name(it)), "OCICleanup");
        artifacts.iter().map(said).collect()
    }
}

pub fn tags_go_with_the_last_target_that_needs_them_and_not_before(kind: Kind) {
    for (generation, case) in [(Generation::Two, "deletes-two"), (Generation::Three, "deletes-three")] {
        let Some(real) = ready(kind, generation, case, |builder| builder) else { continue };
        let before = real.tags();
        assert!(before.len() >= 7, "{before:?}");
        // One of two Targets that share releases.
        real.world.delete(&real.world.fleet("targets/edge-1"), "Background");
        real.until("its own tag has gone, and no other", || {
            real.tags().len() == before.len() - 1 && real.agrees()
        });
        let gone: Vec<_> = before.difference(&real.tags()).cloned().collect();
        assert!(gone[0].contains("bootstrap-edge-1"), "{generation:?}: {gone:?}");
        assert!(real.world.all_ready());
        delete_everything(&real.world, real.log());
        assert_eq!(real.tags(), BTreeSet::new(), "{generation:?}");
    }
}

pub fn where_deletion_is_off_artifacts_stay_and_say_so_their_tags_serve_new_targets_and_go_when_it_is_on(
    kind: Kind,
) {
    for (generation, case) in [(Generation::Two, "off-two"), (Generation::Three, "off-three")] {
        let Some(real) = ready(kind, generation, case, RegistryBuilder::without_deletion) else { continue };
        let before = real.tags();
        let artifacts = real.world.list("renderartifacts").len();
        real.delete_targets();
        let refused = |said: &Option<[String; 3]>| {
            said.as_ref().is_some_and(|[status, reason, message]| {
                status == "False"
                    && reason == "DeleteFailed"
                    && message.contains("registry does not support deletion")
            })
        };
        real.until("every artifact stays and says why", || {
            let cleanups = real.cleanups();
            cleanups.len() == artifacts && cleanups.iter().all(refused)
        });
        assert_eq!(real.tags(), before, "{generation:?}");

        // New Targets take the tags as they are.
        real.world.install_examples();
        real.until("all Targets are ready again", || real.world.all_ready());
        let releases = |tags: &BTreeSet<String>| {
            tags.iter().filter(|tag| tag.contains("release-")).cloned().collect::<BTreeSet<_>>()
        };
        assert_eq!(releases(&real.tags()), releases(&before), "{generation:?}");
        real.until("no artifact in use says that it failed", || {
            let bound = real.world.list("renderbindings");
            let bound = bound.iter().filter_map(|it| it["spec"]["renderArtifactRef"]["name"].as_str());
            let bound: BTreeSet<_> = bound.collect();
            let mut said =
                bound.iter().map(|it| real.world.condition(&format!("renderartifacts/{it}"), "OCICleanup"));
            bound.len() >= 7 && said.all(|said| said.is_none())
        });

        // The registry is told to delete; what depends on it is tried at once when the Registry changes.
        real.delete_targets();
        real.until("all say why once more", || real.cleanups().iter().all(refused));
        let path = real.registry.folder().join("config.yml");
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        config["storage"]["delete"]["enabled"] = json!(true);
        real.registry.process.kill();
        fs::write(&path, config.to_string()).unwrap();
        real.registry.start();
        let platform = real.world.namespace("platform");
        let secrets = format!("/api/v1/namespaces/{platform}/secrets");
        let mut secret = real.world.get(&format!("{secrets}/charts-push")).unwrap();
        secret["metadata"] = json!({ "name": "charts-push-2", "namespace": platform });
        real.world.ensure(&secrets, &secret);
        let registry =
            format!("/apis/solar.opendefense.cloud/v1alpha1/namespaces/{platform}/registries/charts");
        real.world.patch(&registry, &json!({ "spec": { "solarSecretRef": { "name": "charts-push-2" } } }));
        delete_everything(&real.world, real.log());
        assert_eq!(real.tags(), BTreeSet::new(), "{generation:?}");
    }
}
