//! `run` with registries as people have them: distribution 2.8 and 3 that ask for passwords or tokens, speak TLS with a
//! private authority, or delete nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use solar_controller::adapters::clock::Clock;
use solar_controller::adapters::oci::{
    Credentials, Endpoint, HttpRegistry, HttpRegistryOptions, OciRegistry as _, Reference, Timeouts,
};
use test_bed::{Authority, EXAMPLE_USERS, Generation, Registry, RegistryBuilder};
use tokio::task::JoinSet;

use crate::faulty::{Plan, Proxy, Trouble};
use crate::pipeline::{delete_everything, touch};
use crate::program::{Log, Program};
use crate::tokens::{ISSUER, SERVICE, Tokens};
use crate::world::{Kind, PATIENCE, World};

/// The digest that a tag has in a registry.
fn digest(
    world: &World,
    client: &HttpRegistry,
    endpoint: &Endpoint,
    repository: &str,
    tag: &str,
) -> Option<String> {
    let tag = Reference::tag(tag);
    let mut found = None;
    // A registry that is just deleting may answer with an error.
    world.until("the registry answers", None, || {
        let head = client.head(endpoint, repository, &tag);
        world.runtime.block_on(head).map(|digest| found = digest).is_ok()
    });
    found.map(|digest| digest.to_string())
}

/// `repository:tag` of every tag that a registry lists, in all its repositories, and has something for: where two tags of
/// a repository are deleted at once, distribution 2.8 may go on listing one that answers 404.
pub fn listed(
    world: &World,
    registry: &Registry,
    client: &HttpRegistry,
    endpoint: &Endpoint,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for repository in registry.repositories() {
        let mut tags = Vec::new();
        world.until("the registry lists its tags", None, || {
            let listed = client.tags(endpoint, &repository);
            world.runtime.block_on(listed).map(|listed| tags = listed).is_ok()
        });
        tags.retain(|tag| digest(world, client, endpoint, &repository, tag).is_some());
        found.extend(tags.iter().map(|tag| format!("{repository}:{tag}")));
    }
    found
}

/// A world whose objects name a real registry.
struct Site {
    world: World,
    registry: Registry,
    /// Of the registry's certificate, where it speaks TLS.
    authority: Option<Authority>,
    looker: HttpRegistry,
    /// Where it looks.
    looks_at: String,
}

impl Site {
    /// `None` where the registry is missing.
    fn new(
        kind: Kind,
        case: &str,
        generation: Generation,
        authority: Option<Authority>,
        builder: RegistryBuilder,
    ) -> Option<Self> {
        let builder = match &authority {
            Some(authority) => builder.tls(&authority.server(), None),
            None => builder,
        };
        let registry = builder.start()?;
        let mut world = World::new(kind, &format!("{case}-{generation:?}").to_lowercase())?;
        let host = if authority.is_some() { registry.named_host() } else { registry.host() };
        world.registry.clone_from(&host);
        rustls::crypto::ring::default_provider().install_default().ok();
        let ca_file = authority.as_ref().map(|authority| authority.certificate.clone());
        let timeouts = Timeouts { read: PATIENCE, write: PATIENCE };
        let looker = HttpRegistry::new(&HttpRegistryOptions { ca_file, timeouts }, Clock::machine()).unwrap();
        Some(Self { world, registry, authority, looker, looks_at: host })
    }

    /// Creates the examples, unless they are there.
    fn install(&self) {
        for (collection, mut object) in self.world.examples() {
            if object["kind"] == "Registry" {
                object["spec"]["plainHTTP"] = json!(self.authority.is_none());
            }
            self.world.ensure(&collection, &object);
        }
    }

    fn run(&self) -> Program {
        self.install();
        let file = self.authority.as_ref().map(|authority| authority.certificate.to_str().unwrap());
        let flags: Vec<&str> = file.into_iter().flat_map(|file| ["--registry-ca-file", file]).collect();
        self.world.run("run", &flags)
    }

    /// The registry, for who has the password.
    fn endpoint(&self) -> Endpoint {
        let login = Credentials::Basic { username: "solar".into(), password: "solar-dev".into() };
        Endpoint::anonymous(&self.looks_at, self.authority.is_none()).with_credentials(login)
    }

    /// `repository:tag` of every tag that the registry lists, in all its repositories.
    fn tags(&self) -> BTreeSet<String> {
        listed(&self.world, &self.registry, &self.looker, &self.endpoint())
    }

    /// The digest that a tag (`repository:tag`) has in the registry.
    fn digest(&self, tag: &str) -> Option<String> {
        let (repository, tag) = tag.rsplit_once(':').unwrap();
        digest(&self.world, &self.looker, &self.endpoint(), repository, tag)
    }

    /// Waits until all Targets are ready, each artifact has a digest, and the registry says the same of its tag and lists no
    /// other.
    fn settled(&self, log: &Log) -> BTreeMap<String, String> {
        let mut artifacts = BTreeMap::new();
        self.world.until("all Targets are ready with what the registry holds", Some(log), || {
            artifacts = self.world.artifacts();
            let agrees = |(tag, digest): (&String, &String)| self.digest(tag).as_ref() == Some(digest);
            self.world.all_ready()
                && artifacts.len() == self.world.count("renderartifacts")
                && artifacts.iter().all(agrees)
                && self.tags() == artifacts.keys().cloned().collect()
        });
        artifacts
    }

    /// Ready, changed, one Target less, none left: at each stage the registry has what is needed, and at the end nothing.
    fn life(&self) {
        let (world, program) = (&self.world, self.run());
        let log = &program.log;
        let first = self.settled(log);
        assert!(first.len() > 5, "{first:?}");
        touch(world, "web-next", 5);
        world.until("the change has arrived", Some(log), || {
            world.is_at("lab", 2) && world.is_at("staging", 2)
        });
        let replaced = |tag: &str| {
            ["bootstrap-lab:v0.0.1", "bootstrap-staging:v0.0.1"].iter().any(|end| tag.ends_with(end))
        };
        assert_eq!(first.keys().filter(|tag| replaced(tag)).count(), 2, "{first:?}");
        world.until("what was replaced is gone", Some(log), || !self.tags().iter().any(|tag| replaced(tag)));
        let second = self.settled(log);

        world.delete(&world.fleet("targets/lab"), "Background");
        world.until("the Target is gone with its charts, and no other is", Some(log), || {
            let third: BTreeSet<String> = world.artifacts().into_keys().collect();
            world.is_gone(&world.fleet("targets/lab"))
                && world.all_ready()
                && !third.iter().any(|tag| tag.contains("bootstrap-lab"))
                && self.tags() == third
        });
        assert!(second.keys().any(|tag| tag.contains("bootstrap-lab")), "{second:?}");

        self.end(log);
    }

    /// Everything that users made goes, and with it all that the registry holds.
    fn end(&self, log: &Log) {
        delete_everything(&self.world, log);
        assert_eq!(self.tags(), BTreeSet::new());
        assert!(self.registry.process.is_running());
    }
}

pub fn a_registry_with_passwords_has_what_targets_need_and_nothing_else(kind: Kind) {
    for generation in Generation::ALL {
        let builder = Registry::builder(generation).htpasswd(EXAMPLE_USERS);
        let Some(site) = Site::new(kind, "passwords", generation, None, builder) else { continue };
        site.life();
    }
}

pub fn a_registry_with_a_token_server_has_what_targets_need_and_nothing_else(kind: Kind) {
    let authority = Authority::new(&test_bed::folder("tokens"));
    for generation in Generation::ALL {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut servers = JoinSet::new();
        let (tokens, realm) = runtime.block_on(Tokens::serve(&authority, "solar:solar-dev", &mut servers));
        let builder = Registry::builder(generation).tokens(&realm, SERVICE, ISSUER, &authority.certificate);
        let Some(site) = Site::new(kind, "tokens", generation, None, builder) else { continue };
        site.life();
        let asked = tokens.asked();
        assert!(asked.iter().any(|scope| scope.contains("delete")), "{asked:?}");
        // Such as no log may have.
        assert!(tokens.issued().iter().all(|token| token.starts_with("eyJ")));
    }
}

pub fn a_registry_with_a_private_authority_is_used_once_its_file_is_named(kind: Kind) {
    for generation in Generation::ALL {
        let authority = Authority::new(&test_bed::folder("authority"));
        let builder = Registry::builder(generation).htpasswd(EXAMPLE_USERS);
        let Some(site) = Site::new(kind, "authority", generation, Some(authority), builder) else { continue };
        site.install();
        let mut stranger = site.world.run("stranger", &[]);
        site.world.until("it says that it cannot reach the registry", Some(&stranger.log), || {
            let tasks = site.world.list("rendertasks");
            tasks.iter().any(|task| {
                let conditions = task["status"]["conditions"].as_array().cloned().unwrap_or_default();
                conditions
                    .iter()
                    .any(|it| it["type"] == "JobFailed" && it["message"].to_string().contains("certificate"))
            })
        });
        assert!(!site.world.all_ready() && site.world.artifacts().is_empty());
        stranger.signal("-TERM");
        site.world.code(&mut stranger);
        site.life();
    }
}

/// Each nineteenth request meets trouble: seldom enough for waits between attempts to stay short.
fn behind_a_proxy(generation: Generation) {
    let builder = Registry::builder(generation).htpasswd(EXAMPLE_USERS);
    let Some(mut site) = Site::new(Kind::Embedded, "proxied", generation, None, builder) else { return };
    let proxy = site.world.runtime.block_on(Proxy::before(&site.registry));
    site.world.registry.clone_from(&proxy.host);
    let troubles = vec![Trouble::CutBefore, Trouble::Status(500), Trouble::CutAfter, Trouble::Status(429)];
    proxy.plan(Plan { again: Some((19, troubles)), ..Plan::default() });
    site.life();
    assert!(proxy.met() >= 4, "only {} of {} requests met trouble", proxy.met(), proxy.seen());
}

#[test]
fn distribution_2_behind_a_proxy_that_fails_now_and_then_has_what_targets_need_and_nothing_else() {
    behind_a_proxy(Generation::Two);
}

#[test]
fn distribution_3_behind_a_proxy_that_fails_now_and_then_has_what_targets_need_and_nothing_else() {
    behind_a_proxy(Generation::Three);
}

#[test]
fn a_registry_that_deletes_nothing_is_named_with_the_mend_and_let_go_once_it_does() {
    for generation in Generation::ALL {
        let builder = Registry::builder(generation).htpasswd(EXAMPLE_USERS).without_deletion();
        let Some(site) = Site::new(Kind::Embedded, "keeps", generation, None, builder) else { continue };
        let (world, program) = (&site.world, site.run());
        let before = site.settled(&program.log);
        world.delete(&world.fleet("targets/lab"), "Background");
        let own = |artifact: &Value| artifact["spec"]["repository"].to_string().contains("bootstrap-lab");
        let said = || -> Option<String> {
            let artifact = world.list("renderartifacts").into_iter().find(own)?;
            let conditions = artifact["status"]["conditions"].as_array()?.clone();
            let condition =
                conditions.into_iter().find(|it| it["type"] == "OCICleanup" && it["status"] == "False")?;
            Some(condition["message"].as_str()?.to_owned())
        };
        world.until("the artifact says why it stays", Some(&program.log), || said().is_some());
        let message = said().unwrap();
        assert!(message.contains("registry does not support deletion"), "{message}");
        assert_eq!(site.tags(), before.keys().cloned().collect());

        let file = site.registry.folder().join("config.yml");
        let config = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, config.replace(r#""enabled":false"#, r#""enabled":true"#)).unwrap();
        site.registry.process.stop();
        site.registry.start();
        world.until("the artifacts of the Target are gone", Some(&program.log), || {
            world.is_gone(&world.fleet("targets/lab")) && !world.list("renderartifacts").iter().any(own)
        });
        world.until("the registry has what the others need", Some(&program.log), || {
            let after: BTreeSet<String> = world.artifacts().into_keys().collect();
            after.len() < before.len() && world.all_ready() && site.tags() == after
        });
        site.end(&program.log);
    }
}
