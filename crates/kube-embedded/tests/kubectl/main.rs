//! kubectl over real HTTP.

mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod looking;
mod waiting;
mod writing;

use std::process::Stdio;

use cluster::{Cluster, DEADLINE, serve, text, widget, words};
use common::{object, widget_server};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, PostParams},
    client::ConfigExt,
};
use kube_embedded::{Fault, FaultRule, Verb};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

#[tokio::test]
async fn get_shows_columns_and_objects() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster
        .server
        .install(json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a", "labels": { "x": "1" } },
            "spec": { "ownerName": "alice" }, "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        }))
        .unwrap();
    let table = cluster.ok("get widgets").await;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(words(lines[0]), ["NAME", "OWNER", "READY", "AGE"]);
    assert_eq!(words(lines[1])[..3], ["a", "alice", "True"]);
    let wide = cluster.ok("get wd -o wide -A").await;
    assert_eq!(words(wide.lines().next().unwrap()), ["NAMESPACE", "NAME", "OWNER", "READY", "SIZE", "AGE"]);
    let json: Value = serde_json::from_str(&cluster.ok("get widget a -o json").await).unwrap();
    assert_eq!(json["spec"]["ownerName"], "alice");
    assert!(cluster.ok("get widget a -o yaml").await.contains("ownerName: alice"));
    assert_eq!(cluster.ok("get widgets -o jsonpath={.items[*].metadata.name}").await, "a");
    assert_eq!(
        cluster.ok("get widgets -l x=1 --field-selector spec.ownerName=alice -o name").await,
        "widget.example.com/a\n"
    );
    assert!(
        cluster
            .fails("get widget b")
            .await
            .contains("Error from server (NotFound): widgets.example.com \"b\" not found")
    );
    let resources = cluster.ok("api-resources").await;
    for name in ["widgets", "secrets", "leases", "customresourcedefinitions"] {
        assert!(resources.lines().any(|l| l.starts_with(name)), "{name}");
    }
    assert!(cluster.ok("get namespaces").await.contains("Active"));
    assert!(cluster.ok("describe widget a").await.contains("Owner Name:"));
    assert!(cluster.ok("explain widget.spec").await.contains("ownerName"));
    assert!(cluster.ok("version").await.contains("Server Version: v1.36.0"));
    cluster.stop().await;
}

#[tokio::test]
async fn create_apply_patch_and_delete_change_what_is_stored() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let file = cluster.write("widget.json", &widget("a", json!({ "ownerName": "alice", "type": "helm" })));
    let file = text(&file);
    assert_eq!(cluster.ok(&format!("create -f {file}")).await, "widget.example.com/a created\n");
    let unchanged = cluster.ok(&format!("apply --validate=false -f {file}")).await;
    assert!(unchanged.starts_with("widget.example.com/a"), "{unchanged}");
    cluster.write("widget.json", &widget("a", json!({ "ownerName": "bob" })));
    assert_eq!(cluster.ok(&format!("apply -f {file}")).await, "widget.example.com/a configured\n");
    let stored = cluster.server.get_object("Widget", "default", "a").unwrap();
    assert_eq!(
        stored["spec"],
        json!({ "ownerName": "bob", "size": 3 }),
        "what was applied before and is left out goes"
    );
    assert_eq!(cluster.ok(&format!("apply -f {file}")).await, "widget.example.com/a unchanged\n");

    // What somebody else wrote meanwhile is no matter of what is applied.
    let others = r#"{"spec":{"size":4},"metadata":{"labels":{"other":"x"}}}"#;
    cluster.ok(&format!("patch widget a --type merge -p {others}")).await;
    cluster.write("widget.json", &widget("a", json!({ "ownerName": "dora" })));
    assert_eq!(cluster.ok(&format!("apply -f {file}")).await, "widget.example.com/a configured\n");
    let stored = cluster.server.get_object("Widget", "default", "a").unwrap();
    assert_eq!(stored["spec"], json!({ "ownerName": "dora", "size": 4 }));
    assert_eq!(stored["metadata"]["labels"], json!({ "other": "x" }));

    cluster.ok(r#"patch widget a --type merge -p {"spec":{"size":5}}"#).await;
    cluster
        .ok(r#"patch widget a --type json -p [{"op":"replace","path":"/spec/ownerName","value":"carol"}]"#)
        .await;
    cluster.ok(r#"patch widget a --subresource status --type merge -p {"status":{"note":"hi"}}"#).await;
    cluster.ok("label widget a team=x").await;
    cluster.ok("annotate widget a note=y").await;
    let stored = cluster.server.get_object("Widget", "default", "a").unwrap();
    assert_eq!(stored["spec"], json!({ "ownerName": "carol", "size": 5 }));
    assert_eq!(stored["status"]["note"], "hi");
    assert_eq!(stored["metadata"]["labels"]["team"], "x");

    let refused = cluster.fails(r#"patch widget a --type merge -p {"spec":{"type":"tar"}}"#).await;
    assert!(
        refused.contains("spec.type: Unsupported value: \"tar\": supported values: \"helm\", \"kro\""),
        "{refused}"
    );
    cluster.write("strict.json", &widget("b", json!({ "ownerName": "bob", "colour": 1 })));
    let strict = cluster.fails(&format!("create -f {}", text(&cluster.path("strict.json")))).await;
    assert!(strict.contains("unknown field \"spec.colour\""), "{strict}");
    let apply = cluster.fails(&format!("apply --server-side -f {file}")).await;
    assert!(apply.contains("not supported by the embedded API"), "{apply}");

    assert!(cluster.ok("delete widget a").await.contains("deleted"));
    assert_eq!(cluster.server.count("Widget"), 0);
    cluster.stop().await;
}

#[tokio::test]
async fn built_in_kinds_can_be_applied() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster.ok("create namespace team").await;
    cluster.ok("create secret generic s -n team --from-literal=a=b").await;
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m", "namespace": "team" },
                      "data": { "a": "1", "b": "2" } });
    let file = cluster.write("map.json", &map);
    let file = text(&file);
    cluster.ok(&format!("apply -f {file}")).await;
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m", "namespace": "team" },
                      "data": { "b": "3" } });
    cluster.write("map.json", &map);
    assert_eq!(cluster.ok(&format!("apply -f {file}")).await, "configmap/m configured\n");
    let stored = cluster.server.get_object("ConfigMap", "team", "m").unwrap();
    assert_eq!(stored["data"], json!({ "b": "3" }));
    assert!(cluster.ok("get cm,secret -n team").await.contains("secret/s"));
    cluster.ok("delete namespace team").await;
    assert_eq!((cluster.server.count("Namespace"), cluster.server.count("Secret")), (2, 0));
    cluster.stop().await;
}

#[tokio::test]
async fn delete_waits_for_finalizers() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let mut held = widget("a", json!({ "ownerName": "alice" }));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.server.install(held).unwrap();
    let mut delete = cluster.command("delete widget a").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(delete.stdout.take().unwrap()).lines();
    let first = tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap();
    assert!(first.unwrap().contains("deleted"));
    assert!(delete.try_wait().unwrap().is_none(), "it waits");
    cluster.ok(r#"patch widget a --type merge -p {"metadata":{"finalizers":null}}"#).await;
    let ended = tokio::time::timeout(DEADLINE, delete.wait()).await.unwrap().unwrap();
    assert!(ended.success());
    assert_eq!(cluster.server.count("Widget"), 0);
    cluster.stop().await;
}

#[tokio::test]
async fn get_watch_follows_the_changes() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster.server.install(widget("a", json!({ "ownerName": "alice" }))).unwrap();
    let mut watch = cluster.command("get widgets --watch").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap().unwrap();
        words(&line).iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(next().await[0], "NAME");
    assert_eq!(next().await[..2], ["a", "alice"]);
    cluster.server.install(widget("b", json!({ "ownerName": "bob" }))).unwrap();
    assert_eq!(next().await[..2], ["b", "bob"]);
    watch.kill().await.unwrap();
    cluster.stop().await;
}

#[tokio::test]
async fn a_client_over_http_sees_the_same_server() {
    let server = widget_server();
    let (url, stop, serving) = serve(server.clone()).await;
    let config = kube::Config::new(url.parse().unwrap());
    // A plain address needs no TLS, so the client is built from the connector without it.
    let connector = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
        .build_http::<kube::client::Body>();
    let service = tower::ServiceBuilder::new().layer(config.base_uri_layer()).service(connector);
    let api: Api<ConfigMap> = Api::default_namespaced(kube::Client::new(service, "default"));
    let map: ConfigMap = object(json!({ "metadata": { "name": "m" } }));
    api.create(&PostParams::default(), &map).await.unwrap();
    assert_eq!(server.count("ConfigMap"), 1);
    server.add_fault(FaultRule::new(Fault::LoseAnswer).verb(Verb::List).times(1));
    assert!(api.list(&ListParams::default()).await.is_err(), "the connection breaks");
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
    assert!(api.list(&ListParams::default()).await.is_err(), "its connections are gone");
}

#[tokio::test]
async fn a_broken_request_ends_its_connection_and_nothing_else() {
    let server = widget_server();
    let (url, stop, serving) = serve(server.clone()).await;
    let mut stream = tokio::net::TcpStream::connect(url.trim_start_matches("http://")).await.unwrap();
    stream.write_all(b"this is no HTTP\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(DEADLINE, tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut answer))
        .await
        .unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 400") || answer.is_empty());
    assert_eq!(server.request_count(), 0);
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
}
