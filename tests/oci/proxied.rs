//! Real registries behind a proxy that does what networks and proxies do.

use std::time::Duration;

use solar_controller::adapters::oci::{
    Endpoint, HttpRegistry, OciError, OciErrorKind, OciRegistry, Operation, Reference, Timeouts, UntagError,
    UntagOutcome, UntagProgress, UntagRequest, untag,
};
use test_bed::{Generation, Registry};

use crate::distribution::{holds, untag_v1};
use crate::faulty::{Plan, Proxy, Trouble};
use crate::support::{chart, http_client, patient};

fn endpoint(proxy: &Proxy) -> Endpoint {
    Endpoint::anonymous(&proxy.host, true)
}

fn is_meant(error: &OciError, trouble: Trouble) -> bool {
    match trouble {
        Trouble::CutBefore | Trouble::CutAfter => matches!(error.kind, OciErrorKind::Cut { .. }),
        Trouble::Late => matches!(error.kind, OciErrorKind::TimedOut { .. }),
        // A push loses what `Retry-After` says: the client library keeps it to itself.
        Trouble::Status(429) if matches!(error.operation, Operation::PushBlob | Operation::PushManifest) => {
            matches!(error.kind, OciErrorKind::Throttled { .. })
        }
        Trouble::Status(429) => error.retry_after() == Some(Duration::from_secs(1)),
        Trouble::Status(status) => error.kind == OciErrorKind::Server { status },
    }
}

/// A client with time, and one without.
struct Clients {
    patient: HttpRegistry,
    hasty: HttpRegistry,
}

impl Clients {
    fn new() -> Self {
        let limit = Duration::from_millis(300);
        Self { patient: http_client(patient()), hasty: http_client(Timeouts { read: limit, write: limit }) }
    }
}

/// Pushes and untags while one request meets trouble, tries again, and looks; `false` when there was no such request.
async fn one_trouble(
    clients: &Clients,
    proxy: &Proxy,
    trouble: Trouble,
    at: usize,
    repository: &str,
) -> bool {
    let (endpoint, friend) = (endpoint(proxy), &clients.patient);
    let first = if trouble == Trouble::Late { &clients.hasty } else { friend };
    proxy.plan(Plan { trouble: Some((at, trouble)), ..Plan::default() });
    let other = chart("other");
    if let Err(error) = first.push(&endpoint, repository, "v1", &other).await {
        assert!(is_meant(&error, trouble), "{trouble:?} at {at}: {error:?}");
        proxy.calm_down().await;
        assert_eq!(friend.push(&endpoint, repository, "v1", &other).await.as_ref(), Ok(other.digest()));
    }
    // Looked at behind the proxy, so that looking is not counted.
    let direct = Endpoint::anonymous(proxy.target(), true);
    holds(friend, &direct, repository, "v1", &other).await;
    // The sibling has the same bytes, which must not go along.
    assert_eq!(friend.push(&direct, repository, "sibling", &other).await.as_ref(), Ok(other.digest()));

    let mut progress = UntagProgress::default();
    let expected = Some(other.digest());
    let request = UntagRequest { endpoint: &endpoint, repository, tag: "v1", expected };
    match untag(first, &request, &mut progress).await {
        Ok(outcome) => assert_eq!(outcome, UntagOutcome::Deleted, "{trouble:?} at {at}"),
        Err(UntagError::Failed { source, .. }) => {
            assert!(is_meant(&source, trouble), "{trouble:?} at {at}: {source:?}");
            proxy.calm_down().await;
            let again = untag(friend, &request, &mut progress).await;
            let done = matches!(again, Ok(UntagOutcome::Deleted | UntagOutcome::AlreadyGone));
            assert!(done, "{trouble:?} at {at}: {again:?}");
        }
        Err(error) => panic!("{trouble:?} at {at}: {error:?}"),
    }
    let met = proxy.seen() >= at;
    let gone = friend.head(&direct, repository, &Reference::tag("v1")).await;
    assert_eq!(gone, Ok(None), "{trouble:?} at {at}");
    holds(friend, &direct, repository, "sibling", &other).await;
    met
}

async fn every_request_meets(troubles: &[Trouble]) {
    let clients = Clients::new();
    for generation in Generation::ALL {
        let Some(server) = Registry::builder(generation).start() else { continue };
        let proxy = Proxy::before(&server).await;
        for (number, trouble) in troubles.iter().enumerate() {
            let mut at = 1;
            while one_trouble(&clients, &proxy, *trouble, at, &format!("team/{number}-{at}")).await {
                at += 1;
            }
            // A push and three requests to untag at least.
            assert!(at > 8, "{generation:?} {trouble:?}: only {} requests", at - 1);
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_at_any_request_costs_one_more_attempt() {
    every_request_meets(&[Trouble::CutBefore, Trouble::CutAfter]).await;
}

#[tokio::test]
async fn a_proxy_that_answers_itself_at_any_request_costs_one_more_attempt() {
    every_request_meets(&[Trouble::Status(429), Trouble::Status(500)]).await;
}

#[tokio::test]
async fn a_request_that_lands_after_its_time_costs_one_more_attempt() {
    every_request_meets(&[Trouble::Late]).await;
}

#[tokio::test]
async fn blobs_may_live_on_another_host() {
    for generation in Generation::ALL {
        let Some(server) = Registry::builder(generation).start() else { continue };
        let proxy = Proxy::before(&server).await;
        proxy.plan(Plan { blobs_at: Some(server.named_host()), ..Plan::default() });
        let (registry, endpoint) = (http_client(patient()), endpoint(&proxy));
        let artifact = chart("content");
        for tag in ["v1", "v1", "sibling"] {
            let pushed = registry.push(&endpoint, "team/web", tag, &artifact).await;
            assert_eq!(pushed.as_ref(), Ok(artifact.digest()));
            holds(&registry, &endpoint, "team/web", tag, &artifact).await;
        }
        assert_eq!(untag_v1(&registry, &endpoint, "team/web", &artifact).await, Ok(UntagOutcome::Deleted));
        holds(&registry, &endpoint, "team/web", "sibling", &artifact).await;
    }
}
