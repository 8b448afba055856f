//! The HTTP front as other clients see it.

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use solar_controller::adapters::oci::{Digest, Reference};
use solar_controller::dev::registry::{Access, Behaviour, RegistryStore};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::support::{Front, REPOSITORY, Rig, chart, http_client, patient};

fn client() -> Client {
    rustls::crypto::ring::default_provider().install_default().ok();
    Client::new()
}

async fn get(rig: &Rig, path: &str) -> (StatusCode, Value) {
    let response =
        client().get(format!("http://{}{path}", rig.endpoint.host)).send().await.expect("an answer");
    (response.status(), response.json().await.unwrap_or_default())
}

#[tokio::test]
async fn curl_lists_repositories_and_tags() {
    let rig = Rig::new(Front::Http, Behaviour::default()).await;
    rig.push("content", &["v1", "v2"]).await;
    assert_eq!(get(&rig, "/v2/").await, (StatusCode::OK, json!({})));
    assert_eq!(get(&rig, "/v2/_catalog").await, (StatusCode::OK, json!({ "repositories": [REPOSITORY] })));
    let tags = get(&rig, &format!("/v2/{REPOSITORY}/tags/list")).await;
    assert_eq!(tags, (StatusCode::OK, json!({ "name": REPOSITORY, "tags": ["v1", "v2"] })));
    let page = get(&rig, &format!("/v2/{REPOSITORY}/tags/list?n=1&last=v1")).await;
    assert_eq!(page.1["tags"], json!(["v2"]));
}

#[tokio::test]
async fn refusals_have_the_status_and_code_of_real_registries() {
    let rig = Rig::new(Front::Http, Behaviour::default()).await;
    let table = [
        ("/v2/a/tags/list", 404, "NAME_UNKNOWN"),
        ("/v2/a/manifests/v1", 404, "MANIFEST_UNKNOWN"),
        (
            "/v2/a/blobs/sha256:0000000000000000000000000000000000000000000000000000000000000000",
            404,
            "BLOB_UNKNOWN",
        ),
        ("/v2/a/blobs/nonsense", 400, "DIGEST_INVALID"),
        ("/v2/a/blobs/uploads/77", 404, "BLOB_UPLOAD_UNKNOWN"),
    ];
    for (path, status, code) in table {
        let (seen, body) = get(&rig, path).await;
        assert_eq!((seen.as_u16(), body["errors"][0]["code"].as_str()), (status, Some(code)), "{path}");
    }
}

#[tokio::test]
async fn a_manifest_whose_blobs_are_missing_or_elsewhere_is_refused() {
    let rig = Rig::new(Front::Http, Behaviour::default()).await;
    rig.push("content", &["v1"]).await;
    let put = |repository: &str, body: Vec<u8>| {
        client().put(format!("http://{}/v2/{repository}/manifests/v9", rig.endpoint.host)).body(body).send()
    };
    let artifact = chart("content");
    let elsewhere = put("other", artifact.manifest().to_vec()).await.expect("an answer");
    assert_eq!(elsewhere.status(), StatusCode::BAD_REQUEST, "blobs belong to a repository");
    let garbage = put(REPOSITORY, b"not json".to_vec()).await.expect("an answer");
    assert_eq!(garbage.status(), StatusCode::BAD_REQUEST);
    let here = put(REPOSITORY, artifact.manifest().to_vec()).await.expect("an answer");
    assert_eq!(here.status(), StatusCode::CREATED);
}

#[tokio::test]
async fn blobs_arrive_in_chunks_in_one_request_or_from_another_repository() {
    let rig = Rig::new(Front::Http, Behaviour::default()).await;
    let base = format!("http://{}/v2", rig.endpoint.host);
    let content = b"hello world";
    let digest = Digest::of(content);

    let start = client().post(format!("{base}/a/blobs/uploads/")).send().await.expect("an answer");
    let upload = start.headers()["location"].to_str().expect("a location").to_owned();
    let upload = format!("http://{}{upload}", rig.endpoint.host);
    let patch =
        client().patch(&upload).header("content-range", "0-4").body("hello").send().await.expect("an answer");
    assert_eq!((patch.status().as_u16(), patch.headers()["range"].to_str().ok()), (202, Some("0-4")));
    let gap =
        client().patch(&upload).header("content-range", "9-10").body("ld").send().await.expect("an answer");
    assert_eq!(gap.status().as_u16(), 416);
    let wrong =
        client().put(format!("{upload}?digest={}", Digest::impossible())).send().await.expect("an answer");
    assert_eq!(wrong.status().as_u16(), 400);

    let whole = format!("{base}/a/blobs/uploads/?digest={digest}");
    let whole = client().post(whole).body(&content[..]).send().await.expect("an answer");
    assert_eq!(whole.status().as_u16(), 201);
    let mount = format!("{base}/b/blobs/uploads/?mount={digest}&from=a");
    assert_eq!(client().post(mount).send().await.expect("an answer").status().as_u16(), 201);
    for repository in ["a", "b"] {
        let head =
            client().head(format!("{base}/{repository}/blobs/{digest}")).send().await.expect("an answer");
        assert_eq!(
            (head.status().as_u16(), head.headers()["content-length"].to_str().ok()),
            (200, Some("11"))
        );
    }
    let elsewhere = client().head(format!("{base}/c/blobs/{digest}")).send().await.expect("an answer");
    assert_eq!(elsewhere.status().as_u16(), 404);
}

#[tokio::test(start_paused = true)]
async fn a_full_registry_drops_what_no_tag_refers_to_and_then_refuses() {
    let store = RegistryStore::with_limit(Behaviour::default(), Access::Open, 5000);
    let mut rig = Rig::new(Front::Memory, Behaviour::default()).await;
    rig.registry = std::sync::Arc::new(store.handle("test"));
    rig.store = store;
    rig.push(&"a".repeat(3000), &["v1"]).await;
    let second = chart(&"b".repeat(3000));
    let full = rig.registry.push(&rig.endpoint, REPOSITORY, "v2", &second).await;
    assert!(full.is_err(), "both do not fit");
    rig.store.remove_tag(REPOSITORY, "v1");
    rig.push(&"b".repeat(3000), &["v2"]).await;
    assert_eq!(rig.store.resolve(REPOSITORY, &Reference::tag("v2")).as_ref(), Some(second.digest()));
}

#[tokio::test]
async fn the_server_ends_when_it_is_told_to() {
    let store = RegistryStore::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let host = listener.local_addr().expect("its address").to_string();
    let (stop, stopped) = oneshot::channel::<()>();
    let mut servers = JoinSet::new();
    servers.spawn(solar_controller::dev::registry::serve(store.clone(), listener, async {
        stopped.await.ok();
    }));
    let endpoint = solar_controller::adapters::oci::Endpoint::anonymous(host, true);
    let registry: &dyn solar_controller::adapters::oci::OciRegistry = &http_client(patient());
    assert_eq!(registry.tags(&endpoint, "a").await, Ok(vec![]));
    assert_eq!(store.connections(), 1);
    stop.send(()).expect("the server listens");
    assert!(matches!(servers.join_next().await, Some(Ok(Ok(())))));
    assert!(registry.tags(&endpoint, "a").await.is_err());
}

/// A rig over a registry that keeps its content in a folder.
async fn kept_in(folder: &std::path::Path) -> Rig {
    let mut rig = Rig::new(Front::Memory, Behaviour::default()).await;
    let (store, torn) =
        RegistryStore::open(Behaviour::default(), Access::Open, folder).expect("a sound folder");
    assert_eq!(torn, Vec::<std::path::PathBuf>::new());
    rig.registry = std::sync::Arc::new(store.handle("test"));
    rig.store = store;
    rig
}

#[tokio::test(start_paused = true)]
async fn a_registry_on_disk_goes_on_where_the_last_one_left_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = kept_in(folder.path()).await;
    let chart = first.push("first", &["v1", "v2"]).await;
    let other = first.push("second", &["v3", "v4"]).await;
    first.store.remove_tag(REPOSITORY, "v1");
    let gone = first.registry.delete(&first.endpoint, REPOSITORY, &other.digest().clone().into()).await;
    assert!(gone.is_ok());
    let tags = first.store.all_tags();
    assert_eq!(tags.len(), 1, "{tags:?}");
    drop(first);

    let second = kept_in(folder.path()).await;
    assert_eq!(second.store.all_tags(), tags);
    let by_tag = Reference::tag("v2");
    assert_eq!(second.store.resolve(REPOSITORY, &by_tag).as_ref(), Some(chart.digest()));
    let manifest = second.store.manifest(REPOSITORY, &by_tag).expect("the manifest");
    assert_eq!(Digest::of(&manifest), *chart.digest());
    // The blobs are there too: the same chart is pushed without them.
    second.push("first", &["v5"]).await;
    let file = |digest: &Digest| folder.path().join("blobs").join(digest.as_str().replace(':', "/"));
    assert!(file(chart.digest()).exists());
    assert!(!file(other.digest()).exists(), "what was deleted is still there");
}

#[tokio::test(start_paused = true)]
async fn what_a_registry_cannot_keep_is_refused_from_then_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let rig = kept_in(folder.path()).await;
    rig.push("first", &["v1"]).await;
    folder.close().expect("to remove it");
    let refused = rig.registry.push(&rig.endpoint, REPOSITORY, "v2", &chart("second")).await;
    assert!(refused.is_err());
    assert!(rig.registry.tags(&rig.endpoint, REPOSITORY).await.is_err(), "it answered after all");
}
