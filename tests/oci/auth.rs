use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use solar_controller::adapters::oci::{
    Credentials, DeleteOutcome, Endpoint, OciError, OciErrorKind, OciRegistry, Operation, Reference,
};
use solar_controller::dev::registry::{Access, Behaviour, Presented, RegistryOperation, RegistryStore};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::support::{BOTH, Front, REPOSITORY, Rig, basic, chart, http_client, listen, patient};

const PASSWORD: &str = "open-sesame";

fn token_access(actions: &[&'static str], realm: Option<String>) -> Access {
    Access::Token {
        username: "robot".into(),
        password: PASSWORD.into(),
        identity_token: Some("refresh-sesame".into()),
        actions: actions.to_vec(),
        realm,
    }
}

/// Every operation once; the tag is gone afterwards.
async fn all_operations(rig: &Rig) -> Result<(), OciError> {
    let Rig { registry, endpoint, .. } = rig;
    let artifact = chart("content");
    let tag = Reference::tag("v1");
    registry.push(endpoint, REPOSITORY, "v1", &artifact).await?;
    assert_eq!(registry.head(endpoint, REPOSITORY, &tag).await?.as_ref(), Some(artifact.digest()));
    assert_eq!(registry.tags(endpoint, REPOSITORY).await?, ["v1"]);
    let deleted = registry.delete(endpoint, REPOSITORY, &tag).await?;
    assert_eq!(deleted, DeleteOutcome { status: 202, code: None });
    assert_eq!(registry.head(endpoint, REPOSITORY, &tag).await?, None);
    Ok(())
}

#[tokio::test]
async fn the_right_credentials_open_every_operation() {
    for front in BOTH {
        for access in [Access::basic("robot", PASSWORD), token_access(&["pull", "push", "delete"], None)] {
            let rig = Rig::with_access(front, Behaviour::default(), access).await.with_password(PASSWORD);
            assert_eq!(all_operations(&rig).await, Ok(()));
        }
    }
}

#[tokio::test]
async fn an_identity_token_is_exchanged_at_the_token_endpoint() {
    for front in BOTH {
        let access = token_access(&["pull", "push", "delete"], None);
        let mut rig = Rig::with_access(front, Behaviour::default(), access).await;
        rig.endpoint.credentials = Credentials::IdentityToken { token: "refresh-sesame".into() };
        assert_eq!(all_operations(&rig).await, Ok(()));
        rig.endpoint.credentials = Credentials::IdentityToken { token: "wrong-sesame".into() };
        let error = all_operations(&rig).await.expect_err("a wrong refresh token");
        assert_eq!(error.kind, OciErrorKind::Unauthorized { code: Some("UNAUTHORIZED".into()) });
    }
}

#[tokio::test]
async fn wrong_or_missing_credentials_are_unauthorized_and_change_nothing() {
    for front in BOTH {
        for access in [Access::basic("robot", PASSWORD), token_access(&["pull", "push", "delete"], None)] {
            for credentials in [basic("wrong-sesame"), Credentials::Anonymous] {
                let mut rig = Rig::with_access(front, Behaviour::default(), access.clone()).await;
                rig.endpoint.credentials = credentials;
                let tag = Reference::tag("v1");
                let artifact = chart("content");
                let failures = [
                    rig.registry.head(&rig.endpoint, REPOSITORY, &tag).await.err(),
                    rig.registry.push(&rig.endpoint, REPOSITORY, "v1", &artifact).await.err(),
                    rig.registry.delete(&rig.endpoint, REPOSITORY, &tag).await.err(),
                    rig.registry.tags(&rig.endpoint, REPOSITORY).await.err(),
                ];
                for error in failures.map(|failure| failure.expect("a refusal")) {
                    assert!(matches!(error.kind, OciErrorKind::Unauthorized { .. }), "{error:?}");
                    assert!(!error.may_still_land());
                    assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
                }
                assert!(rig.store.all_tags().is_empty());
            }
        }
    }
}

#[tokio::test]
async fn a_token_without_the_delete_action_is_refused_at_the_delete_only() {
    for front in BOTH {
        let access = token_access(&["pull", "push"], None);
        let rig = Rig::with_access(front, Behaviour::default(), access).await.with_password(PASSWORD);
        let error = all_operations(&rig).await.expect_err("no right to delete");
        assert_eq!(error.operation, Operation::Delete);
        assert!(matches!(error.kind, OciErrorKind::Unauthorized { .. }));
        assert_eq!(rig.store.all_tags().len(), 1);
    }
}

#[tokio::test]
async fn a_token_is_reused_until_it_is_refused_and_then_renewed() {
    for front in BOTH {
        let access = token_access(&["pull", "push", "delete"], None);
        let rig = Rig::with_access(front, Behaviour::default(), access).await.with_password(PASSWORD);
        rig.push("content", &["v1", "v2", "v3"]).await;
        assert_eq!(rig.store.count(RegistryOperation::Token), 1, "one token for three pushes");
        for _ in 0..3 {
            let head = rig.registry.head(&rig.endpoint, REPOSITORY, &Reference::tag("v1")).await;
            assert!(matches!(head, Ok(Some(_))));
        }
        assert_eq!(rig.store.count(RegistryOperation::Token), 2, "and one for three reads");
        rig.store.revoke_tokens();
        rig.push("content", &["v4"]).await;
        assert_eq!(rig.store.count(RegistryOperation::Token), 3);
    }
}

#[tokio::test]
async fn a_rotated_password_is_used_at_once_and_the_old_one_no_more() {
    for front in BOTH {
        let mut rig = Rig::with_access(front, Behaviour::default(), Access::basic("robot", "old")).await;
        rig.endpoint.credentials = basic("old");
        rig.push("content", &["v1"]).await;
        rig.store.set_access(Access::basic("robot", "new"));
        let old = rig.registry.push(&rig.endpoint, REPOSITORY, "v2", &chart("content")).await;
        assert!(matches!(old.map_err(|error| error.kind), Err(OciErrorKind::Unauthorized { .. })));
        rig.endpoint.credentials = basic("new");
        rig.push("content", &["v2"]).await;
    }
}

#[tokio::test]
async fn credentials_are_withheld_from_a_token_endpoint_on_another_host() {
    let mut servers = JoinSet::new();
    let elsewhere = RegistryStore::new(Behaviour::default(), Access::token("robot", PASSWORD));
    let port = listen(&elsewhere, &mut servers).await.rsplit(':').next().expect("a port").to_owned();
    for front in BOTH {
        // The registry is 127.0.0.1; its realm names the same machine under another name.
        let realm = format!("http://localhost:{port}/token");
        let access = token_access(&["pull", "push", "delete"], Some(realm));
        let rig = Rig::with_access(front, Behaviour::default(), access).await.with_password(PASSWORD);
        let tag = Reference::tag("v1");
        let failures = [
            rig.registry.head(&rig.endpoint, REPOSITORY, &tag).await.err(),
            rig.registry.push(&rig.endpoint, REPOSITORY, "v1", &chart("content")).await.err(),
            rig.registry.delete(&rig.endpoint, REPOSITORY, &tag).await.err(),
        ];
        for error in failures.map(|failure| failure.expect("a refusal")) {
            assert_eq!(error.kind, OciErrorKind::RealmRefused { realm: format!("http://localhost:{port}") });
        }
        assert!(rig.store.log().iter().all(|entry| entry.presented == Presented::Nothing));
    }
    assert_eq!(elsewhere.connections(), 0, "nobody even connected");
}

/// A host that asks for basic credentials and then sends everybody to `target`.
async fn redirecting(target: String, status: u16, servers: &mut JoinSet<()>) -> String {
    let app = Router::new().fallback(move |request: Request| {
        let target = target.clone();
        async move { redirect(&request, &target, status) }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let host = listener.local_addr().expect("its address").to_string();
    servers.spawn(async move { axum::serve(listener, app).await.expect("serving") });
    host
}

fn redirect(request: &Request, target: &str, status: u16) -> Response {
    if !request.headers().contains_key("authorization") {
        return Response::builder()
            .status(401)
            .header("www-authenticate", "Basic realm=\"r\"")
            .body(Body::empty())
            .expect("a response");
    }
    let location = format!("http://{target}{}", request.uri());
    Response::builder().status(status).header("location", location).body(Body::empty()).expect("a response")
}

#[tokio::test]
async fn credentials_do_not_follow_a_redirect_to_another_host() {
    for status in [302, 307] {
        let mut servers = JoinSet::new();
        let rig = Rig::new(Front::Http, Behaviour::default()).await;
        let artifact = rig.push("content", &["v1"]).await;
        rig.store.clear_log();
        let front = redirecting(rig.endpoint.host.clone(), status, &mut servers).await;
        let endpoint = Endpoint::anonymous(front, true).with_credentials(basic(PASSWORD));
        let registry = http_client(patient());

        let head = registry.head(&endpoint, REPOSITORY, &Reference::tag("v1")).await;
        assert_eq!(head.as_ref().map(Option::as_ref), Ok(Some(artifact.digest())));
        let layer = &artifact.blobs().last().expect("a layer").digest;
        assert!(matches!(registry.blob(&endpoint, REPOSITORY, layer, 1024).await, Ok(Some(_))));

        let presented: Vec<_> = rig.store.log().into_iter().map(|entry| entry.presented).collect();
        assert_eq!(presented, [Presented::Nothing, Presented::Nothing]);
    }
}

#[tokio::test]
async fn a_push_whose_uploads_go_to_another_host_carries_no_credentials_there() {
    let mut servers = JoinSet::new();
    let rig = Rig::new(Front::Http, Behaviour::default()).await;
    let front = redirecting(rig.endpoint.host.clone(), 202, &mut servers).await;
    let endpoint = Endpoint::anonymous(front, true).with_credentials(basic(PASSWORD));
    // The upload session's location is the other host, which knows no such upload.
    let error = http_client(patient()).push(&endpoint, REPOSITORY, "v1", &chart("content")).await;
    let error = error.expect_err("the other host knows no such upload");
    assert_eq!(error.operation, Operation::PushBlob);
    assert!(!rig.store.log().is_empty(), "the other host was asked");
    assert!(rig.store.log().iter().all(|entry| entry.presented == Presented::Nothing));
}

#[tokio::test]
async fn redirects_without_end_and_of_deletes_are_errors() {
    let mut servers = JoinSet::new();
    let rig = Rig::new(Front::Http, Behaviour::default()).await;
    rig.push("content", &["v1"]).await;
    let front = redirecting(rig.endpoint.host.clone(), 302, &mut servers).await;
    let endpoint = Endpoint::anonymous(front.clone(), true).with_credentials(basic(PASSWORD));
    let registry = http_client(patient());
    let deleted =
        registry.delete(&endpoint, REPOSITORY, &Reference::tag("v1")).await.expect_err("a moved delete");
    assert!(matches!(deleted.kind, OciErrorKind::Protocol { .. }), "{deleted}");
    assert_eq!(rig.store.all_tags().len(), 1);

    let ring = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let host = ring.local_addr().expect("its address").to_string();
    let app = Router::new().fallback(|request: Request| async move {
        Response::builder()
            .status(302)
            .header("location", request.uri().path())
            .body(Body::empty())
            .expect("a response")
    });
    servers.spawn(async move { axum::serve(ring, app).await.expect("serving") });
    let endless = registry.head(&Endpoint::anonymous(host, true), REPOSITORY, &Reference::tag("v1")).await;
    assert!(matches!(endless.map_err(|error| error.kind), Err(OciErrorKind::Protocol { .. })));
}

#[tokio::test]
async fn a_push_to_an_open_registry_with_credentials_shows_none_and_leaves_no_upload_behind() {
    for front in BOTH {
        let rig = Rig::new(front, Behaviour::default()).await.with_password(PASSWORD);
        rig.push("content", &["v1"]).await;
        assert!(rig.store.log().iter().all(|entry| entry.presented == Presented::Nothing));
        let log = rig.store.log();
        let count = |operation| log.iter().filter(|entry| entry.operation == operation).count();
        let ended = count(RegistryOperation::FinishUpload) + count(RegistryOperation::CancelUpload);
        assert_eq!(count(RegistryOperation::StartUpload), ended);
    }
}

#[tokio::test]
async fn each_user_has_a_client_of_their_own() {
    let rig = Rig::with_access(Front::Http, Behaviour::default(), Access::basic("robot", PASSWORD)).await;
    let registry: Arc<dyn OciRegistry> = Arc::clone(&rig.registry);
    let right = rig.endpoint.clone().with_credentials(basic(PASSWORD));
    let wrong = rig.endpoint.clone().with_credentials(basic("wrong-sesame"));
    for _ in 0..2 {
        assert!(registry.push(&right, REPOSITORY, "v1", &chart("content")).await.is_ok());
        assert!(registry.push(&wrong, REPOSITORY, "v1", &chart("content")).await.is_err());
    }
}
