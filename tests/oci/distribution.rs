//! The port against real registries: distribution 2.8, which refuses to delete by tag, and distribution 3.

use std::collections::BTreeSet;

use solar_controller::adapters::clock::Clock;
use solar_controller::adapters::oci::{
    Artifact, DeleteOutcome, Endpoint, HttpRegistry, HttpRegistryOptions, OciErrorKind, OciRegistry,
    Reference, UntagError, UntagOutcome, UntagProgress, UntagRequest, untag,
};
use test_bed::{Authority, Generation, Identity, Registry, RegistryBuilder};
use tokio::task::JoinSet;

use crate::support::{REPOSITORY, basic, chart, http_client, patient};
use crate::tokens::{ISSUER, SERVICE, Tokens};

/// The password of `robot` is `right`.
const USERS: &str = "robot:$2y$05$abcdefghijklmnopqrstuu8xaCxxL82bnl.UY74PMksDxIJShppPC\n";

/// The registries that are there, made as `settings` say.
fn registries(
    settings: impl Fn(RegistryBuilder) -> RegistryBuilder,
) -> impl Iterator<Item = (Generation, Registry)> {
    Generation::ALL.into_iter().filter_map(move |generation| {
        let registry = settings(Registry::builder(generation)).start()?;
        Some((generation, registry))
    })
}

fn plain(registry: &Registry) -> Endpoint {
    Endpoint::anonymous(registry.host(), true)
}

pub async fn untag_v1(
    registry: &dyn OciRegistry,
    endpoint: &Endpoint,
    repository: &str,
    chart: &Artifact,
) -> Result<UntagOutcome, UntagError> {
    let request = UntagRequest { endpoint, repository, tag: "v1", expected: Some(chart.digest()) };
    untag(registry, &request, &mut UntagProgress::default()).await
}

/// The tag is there with all that belongs to it.
pub async fn holds(
    registry: &dyn OciRegistry,
    endpoint: &Endpoint,
    repository: &str,
    tag: &str,
    artifact: &Artifact,
) {
    let tag = Reference::tag(tag);
    let head = registry.head(endpoint, repository, &tag).await;
    assert_eq!(head.as_ref().map(Option::as_ref), Ok(Some(artifact.digest())));
    let manifest = registry.manifest(endpoint, repository, &tag).await;
    assert_eq!(manifest.expect("an answer").expect("a manifest").bytes, artifact.manifest());
    for blob in artifact.blobs() {
        let read = registry.blob(endpoint, repository, &blob.digest, 1024).await;
        assert_eq!(read.as_ref().map(Option::as_ref), Ok(Some(&blob.bytes)));
    }
}

/// Push, push again, look, move, untag beside a sibling, push again: what the controller does with a registry.
async fn life_of_a_tag(registry: &dyn OciRegistry, endpoint: &Endpoint) {
    let (artifact, other) = (chart("content"), chart("other"));
    let push = async |tag: &str, artifact: &Artifact| {
        let pushed = registry.push(endpoint, REPOSITORY, tag, artifact).await;
        assert_eq!(pushed.as_ref(), Ok(artifact.digest()));
        holds(registry, endpoint, REPOSITORY, tag, artifact).await;
    };
    let absent = registry.head(endpoint, REPOSITORY, &Reference::tag("v1")).await;
    assert_eq!(absent, Ok(None));
    for tag in ["v1", "v1", "sibling"] {
        push(tag, &artifact).await;
    }
    push("v1", &other).await;
    push("v1", &artifact).await;

    let foreign = untag_v1(registry, endpoint, REPOSITORY, &other).await;
    assert!(matches!(foreign, Ok(UntagOutcome::Foreign { .. })), "{foreign:?}");
    let gone = untag_v1(registry, endpoint, REPOSITORY, &artifact).await;
    assert_eq!(gone, Ok(UntagOutcome::Deleted));
    let again = untag_v1(registry, endpoint, REPOSITORY, &artifact).await;
    assert_eq!(again, Ok(UntagOutcome::AlreadyGone));
    assert_eq!(registry.tags(endpoint, REPOSITORY).await, Ok(vec!["sibling".to_owned()]));
    holds(registry, endpoint, REPOSITORY, "sibling", &artifact).await;

    push("v1", &artifact).await;
    let gone = untag_v1(registry, endpoint, REPOSITORY, &artifact).await;
    assert_eq!(gone, Ok(UntagOutcome::Deleted));
    holds(registry, endpoint, REPOSITORY, "sibling", &artifact).await;
}

#[tokio::test]
async fn a_tag_lives_and_goes_beside_its_sibling() {
    for (generation, server) in registries(|builder| builder) {
        let (registry, endpoint) = (http_client(patient()), plain(&server));
        life_of_a_tag(&registry, &endpoint).await;
        let by_tag = registry.delete(&endpoint, REPOSITORY, &Reference::tag("sibling")).await;
        let wanted = match generation {
            Generation::Two => DeleteOutcome { status: 400, code: Some("DIGEST_INVALID".into()) },
            Generation::Three => DeleteOutcome { status: 202, code: None },
        };
        assert_eq!(by_tag, Ok(wanted));
    }
}

#[tokio::test]
async fn a_registry_without_deletion_is_found_out_and_keeps_the_tag() {
    for (_, server) in registries(RegistryBuilder::without_deletion) {
        let (registry, endpoint) = (http_client(patient()), plain(&server));
        let artifact = chart("content");
        let unsupported = UntagError::Unsupported { status: 405, code: Some("UNSUPPORTED".into()) };
        // Once more after the tag was pushed anew.
        for _ in 0..2 {
            for tag in ["v1", "sibling"] {
                let pushed = registry.push(&endpoint, REPOSITORY, tag, &artifact).await;
                assert_eq!(pushed.as_ref(), Ok(artifact.digest()));
            }
            let refused = untag_v1(&registry, &endpoint, REPOSITORY, &artifact).await;
            assert_eq!(refused.as_ref(), Err(&unsupported));
            for tag in ["v1", "sibling"] {
                holds(&registry, &endpoint, REPOSITORY, tag, &artifact).await;
            }
            let tags: BTreeSet<String> =
                registry.tags(&endpoint, REPOSITORY).await.expect("tags").into_iter().collect();
            assert_eq!(tags, BTreeSet::from(["sibling".to_owned(), "v1".to_owned()]));
        }
    }
}

/// Without a password and with a wrong one, every operation is refused for that reason.
async fn is_closed_to_strangers(registry: &dyn OciRegistry, endpoint: &Endpoint) {
    for endpoint in [endpoint.clone(), endpoint.clone().with_credentials(basic("wrong"))] {
        let tag = Reference::tag("v1");
        let refusals = [
            registry.head(&endpoint, REPOSITORY, &tag).await.err(),
            registry.push(&endpoint, REPOSITORY, "v1", &chart("content")).await.err(),
            registry.delete(&endpoint, REPOSITORY, &tag).await.err(),
            registry.tags(&endpoint, REPOSITORY).await.err(),
        ];
        for refusal in refusals.map(|refusal| refusal.expect("a refusal")) {
            assert!(matches!(refusal.kind, OciErrorKind::Unauthorized { .. }), "{refusal:?}");
        }
    }
}

#[tokio::test]
async fn a_registry_with_passwords_takes_the_right_one_only() {
    for (_, server) in registries(|builder| builder.htpasswd(USERS)) {
        let registry = http_client(patient());
        is_closed_to_strangers(&registry, &plain(&server)).await;
        life_of_a_tag(&registry, &plain(&server).with_credentials(basic("right"))).await;
        // Nothing of who was let in is left to others.
        is_closed_to_strangers(&registry, &plain(&server)).await;
    }
}

/// Repository and actions of a scope.
fn named(scope: &str) -> (String, BTreeSet<String>) {
    let (repository, actions) = scope.rsplit_once(':').expect("a scope");
    (repository.to_owned(), actions.split(',').map(str::to_owned).collect())
}

#[tokio::test]
async fn a_registry_with_tokens_takes_those_with_the_right_actions_only() {
    let folder = test_bed::folder("tokens");
    let authority = Authority::new(&folder);
    let mut servers = JoinSet::new();
    let (tokens, realm) = Tokens::serve(&authority, "robot:right", &mut servers).await;
    let with_tokens =
        |builder: RegistryBuilder| builder.tokens(&realm, SERVICE, ISSUER, &authority.certificate);
    for (generation, server) in registries(with_tokens) {
        let registry = http_client(patient());
        is_closed_to_strangers(&registry, &plain(&server)).await;
        let endpoint = plain(&server).with_credentials(basic("right"));
        life_of_a_tag(&registry, &endpoint).await;
        // What the registry names, which has no order of its own, and no more.
        let asked: BTreeSet<(String, BTreeSet<String>)> =
            tokens.asked().iter().map(|scope| named(scope)).collect();
        let scope = |actions: &str| named(&format!("repository:{REPOSITORY}:{actions}"));
        assert_eq!(asked, BTreeSet::from([scope("delete"), scope("pull"), scope("pull,push")]));
        is_closed_to_strangers(&registry, &plain(&server)).await;

        // Who may not delete is told so, and loses nothing.
        let artifact = chart("content");
        assert!(registry.push(&endpoint, REPOSITORY, "v1", &artifact).await.is_ok());
        tokens.grant_only(&["pull", "push"]);
        let newcomer = http_client(patient());
        let refused = untag_v1(&newcomer, &endpoint, REPOSITORY, &artifact).await;
        tokens.grant_only(&["pull", "push", "delete"]);
        assert!(
            matches!(&refused, Err(UntagError::Refused { source }) if matches!(source.kind, OciErrorKind::Unauthorized { .. })),
            "{generation:?}: {refused:?}"
        );
        holds(&registry, &endpoint, REPOSITORY, "v1", &artifact).await;
    }
}

#[tokio::test]
async fn a_private_ca_is_trusted_when_it_is_named_and_not_otherwise() {
    let folder = test_bed::folder("tls");
    let authority = Authority::new(&folder);
    let identity = authority.server();
    for (_, server) in registries(|builder| builder.tls(&identity, None)) {
        let endpoint = Endpoint::anonymous(server.named_host(), false);
        let stranger = http_client(patient());
        let tag = Reference::tag("v1");
        let head = stranger.head(&endpoint, REPOSITORY, &tag).await.expect_err("an unknown CA");
        assert!(matches!(head.kind, OciErrorKind::Unreachable { .. }), "{head}");
        let push = stranger.push(&endpoint, REPOSITORY, "v1", &chart("content")).await;
        let push = push.expect_err("an unknown CA");
        assert!(matches!(push.kind, OciErrorKind::Unreachable { .. }), "{push}");
        life_of_a_tag(&knows(&authority), &endpoint).await;
    }
}

fn knows(authority: &Authority) -> HttpRegistry {
    rustls::crypto::ring::default_provider().install_default().ok();
    let ca_file = Some(authority.certificate.clone());
    HttpRegistry::new(&HttpRegistryOptions { ca_file, timeouts: patient() }, Clock::machine())
        .expect("a client")
}

/// A client that the registry port could be if its library could show a certificate.
fn with_certificate(authority: &Authority, identity: &Identity) -> reqwest::Client {
    rustls::crypto::ring::default_provider().install_default().ok();
    let read = |path| std::fs::read(path).expect("a file");
    let trusted = reqwest::Certificate::from_pem(&read(&authority.certificate)).expect("a certificate");
    let own = [read(&identity.certificate), read(&identity.key)].concat();
    let own = reqwest::Identity::from_pem(&own).expect("a certificate with its key");
    let client = reqwest::Client::builder().tls_certs_only([trusted]).identity(own);
    client.build().expect("a client")
}

/// The client library has no client certificates, so all that can be asked for is an error in time.
#[tokio::test]
async fn a_registry_that_asks_for_a_client_certificate_cannot_be_used_and_the_error_comes_at_once() {
    let folder = test_bed::folder("mutual-tls");
    let authority = Authority::new(&folder);
    let identity = authority.server();
    let client = authority.client("robot");
    for (_, server) in registries(|builder| builder.tls(&identity, Some(&authority.certificate))) {
        // With one it opens: what is refused below is refused for its lack.
        let url = format!("https://{}/v2/", server.named_host());
        assert_eq!(
            with_certificate(&authority, &client).get(&url).send().await.expect("an answer").status(),
            200
        );
        let endpoint = Endpoint::anonymous(server.named_host(), false);
        let registry = knows(&authority);
        let head = registry.head(&endpoint, REPOSITORY, &Reference::tag("v1")).await;
        let push = registry.push(&endpoint, REPOSITORY, "v1", &chart("content")).await;
        for error in [head.expect_err("no certificate"), push.expect_err("no certificate")] {
            let told = matches!(error.kind, OciErrorKind::Unreachable { .. } | OciErrorKind::Cut { .. });
            assert!(told, "{error:?}");
        }
    }
}
