//! Get, list and watch, as a client sees them.

mod common;

use std::time::Duration;

use common::{all_widgets, object, refusal, server, widget, widget_server, widget_with, widgets};
use futures::{StreamExt, TryStreamExt};
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    runtime::watcher,
};
use kube_embedded::Server;
use serde_json::{Value, json};

fn params() -> PostParams {
    PostParams::default()
}

async fn create(client: &Client, namespace: &str, names: &[&str]) {
    for name in names {
        widgets(client, namespace).create(&params(), &widget(name)).await.unwrap();
    }
}

fn names(list: &kube::core::ObjectList<DynamicObject>) -> Vec<String> {
    list.items.iter().map(ResourceExt::name_any).collect()
}

fn add_namespace(server: &Server, name: &str) {
    server.install(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })).unwrap();
}

#[tokio::test(start_paused = true)]
async fn lists_are_sorted_and_selected() {
    let server = widget_server();
    let client = server.client("default");
    add_namespace(&server, "other");
    create(&client, "other", &["a"]).await;
    create(&client, "default", &["c", "a", "b"]).await;
    let api = widgets(&client, "default");
    let patch =
        Patch::Merge(json!({ "metadata": { "labels": { "x": "1" } }, "spec": { "ref": { "name": "r" } } }));
    api.patch("b", &PatchParams::default(), &patch).await.unwrap();
    api.create(&params(), &widget_with("d", json!({ "ownerName": "bob" }))).await.unwrap();
    let table: [(&str, &str, &[&str]); 11] = [
        ("", "", &["a", "b", "c", "d"]),
        ("x=1", "", &["b"]),
        ("x!=1", "", &["a", "c", "d"]),
        ("x notin (1),!x", "", &["a", "c", "d"]),
        ("", "metadata.name=c", &["c"]),
        ("", "metadata.name!=c,metadata.namespace=default", &["a", "b", "d"]),
        ("", "spec.ownerName=bob", &["d"]),
        ("", "spec.ownerName=alice,spec.ref.name=r", &["b"]),
        ("x=1", "spec.ownerName=bob", &[]),
        ("", "spec.ref.name=", &["a", "c", "d"]),
        ("", "spec.ref.name!=r", &["a", "c", "d"]),
    ];
    for (labels, fields, wanted) in table {
        let list = api.list(&ListParams::default().labels(labels).fields(fields)).await.unwrap();
        assert_eq!(names(&list), wanted, "{labels} {fields}");
    }
    let everywhere = all_widgets(&client).list(&ListParams::default()).await.unwrap();
    assert_eq!(names(&everywhere), ["a", "b", "c", "d", "a"]);
    let unknown = refusal(api.list(&ListParams::default().fields("spec.size=3")).await);
    assert_eq!((unknown.code, unknown.message.as_str()), (400, "field label not supported: spec.size"));
}

#[tokio::test(start_paused = true)]
async fn indexes_follow_what_is_written() {
    let server = widget_server();
    let client = server.client("default");
    create(&client, "default", &["a"]).await;
    let api = widgets(&client, "default");
    let owner = |name: &str| ListParams::default().fields(&format!("spec.ownerName={name}"));
    let patch = Patch::Merge(json!({ "spec": { "ownerName": "bob" } }));
    api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(names(&api.list(&owner("alice")).await.unwrap()), [""; 0]);
    assert_eq!(names(&api.list(&owner("bob")).await.unwrap()), ["a"]);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(names(&api.list(&owner("bob")).await.unwrap()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_pages_of_a_list_show_one_moment() {
    let server = widget_server();
    let client = server.client("default");
    create(&client, "default", &["a", "b", "d", "e"]).await;
    let api = widgets(&client, "default");
    let page = |token: Option<&str>| {
        let params = ListParams::default().limit(2);
        match token {
            Some(token) => params.continue_token(token),
            None => params,
        }
    };
    let first = api.list(&page(None)).await.unwrap();
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first.metadata.remaining_item_count, Some(2));
    create(&client, "default", &["c", "f"]).await;
    api.delete("d", &DeleteParams::default()).await.unwrap();
    let patch = Patch::Merge(json!({ "spec": { "size": 9 } }));
    api.patch("e", &PatchParams::default(), &patch).await.unwrap();
    let second = api.list(&page(first.metadata.continue_.as_deref())).await.unwrap();
    assert_eq!(names(&second), ["d", "e"]);
    assert_eq!(second.items[1].data["spec"]["size"], 3, "as it was");
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    assert_eq!(second.metadata.continue_, None);

    server.compact();
    let late = refusal(api.list(&page(first.metadata.continue_.as_deref())).await);
    assert_eq!((late.code, late.reason.as_str()), (410, "Expired"));
}

#[tokio::test(start_paused = true)]
async fn a_resource_version_from_the_future_is_refused() {
    let server = widget_server();
    let api = widgets(&server.client("default"), "default");
    let params = ListParams::default().at("4000000").matching(kube::api::VersionMatch::NotOlderThan);
    let refused = refusal(api.list(&params).await);
    assert_eq!((refused.code, refused.reason.as_str()), (504, "Timeout"));
}

type Seen = (String, String);

fn show(event: WatchEvent<DynamicObject>) -> Seen {
    match event {
        WatchEvent::Added(o) => ("ADDED".to_owned(), o.name_any()),
        WatchEvent::Modified(o) => ("MODIFIED".to_owned(), o.name_any()),
        WatchEvent::Deleted(o) => ("DELETED".to_owned(), o.name_any()),
        WatchEvent::Bookmark(b) => ("BOOKMARK".to_owned(), b.metadata.resource_version),
        WatchEvent::Error(e) => ("ERROR".to_owned(), e.code.to_string()),
    }
}

fn seen(list: &[(&str, &str)]) -> Vec<Seen> {
    list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_where_its_version_says() {
    let server = widget_server();
    let client = server.client("default");
    create(&client, "default", &["a"]).await;
    let api = widgets(&client, "default");
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    create(&client, "default", &["b"]).await;
    let stream = api.watch(&WatchParams::default(), &version).await.unwrap();
    let patch = Patch::Merge(json!({ "spec": { "size": 9 } }));
    api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    api.delete("b", &DeleteParams::default()).await.unwrap();
    let events: Vec<Seen> = stream.take(3).map_ok(show).try_collect().await.unwrap();
    assert_eq!(events, seen(&[("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selection_is_deleted_for_its_watch() {
    let server = widget_server();
    let client = server.client("default");
    let api = widgets(&client, "default");
    let version = server.resource_version().to_string();
    let params_of = WatchParams::default().fields("spec.ownerName=alice");
    let stream = api.watch(&params_of, &version).await.unwrap();
    api.create(&params(), &widget_with("a", json!({ "ownerName": "bob" }))).await.unwrap();
    for owner in ["alice", "alice", "carol"] {
        let patch = Patch::Merge(json!({ "spec": { "ownerName": owner, "size": owner.len() } }));
        api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    }
    let stream = stream.take(2).map_ok(show);
    let events: Vec<Seen> = stream.try_collect().await.unwrap();
    assert_eq!(events, seen(&[("ADDED", "a"), ("DELETED", "a")]));
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_its_timeout_with_a_bookmark() {
    let server = widget_server();
    let client = server.client("default");
    create(&client, "default", &["a"]).await;
    let version = server.resource_version().to_string();
    let started = tokio::time::Instant::now();
    let stream =
        widgets(&client, "default").watch(&WatchParams::default().timeout(90), &version).await.unwrap();
    let events: Vec<Seen> = stream.map_ok(show).try_collect().await.unwrap();
    assert_eq!(events, seen(&[("BOOKMARK", &version), ("BOOKMARK", &version)]));
    assert_eq!(started.elapsed(), Duration::from_secs(90));
}

#[tokio::test(start_paused = true)]
async fn a_watch_behind_the_window_is_told_so() {
    let server = Server::builder().watch_window(2).build();
    server.apply_crd(common::widget_crd()).unwrap();
    let client = server.client("default");
    let version = server.resource_version().to_string();
    create(&client, "default", &["a", "b", "c"]).await;
    let stream = widgets(&client, "default").watch(&WatchParams::default(), &version).await.unwrap();
    let events: Vec<Seen> = stream.map_ok(show).try_collect().await.unwrap();
    assert_eq!(events, seen(&[("ERROR", "410")]));
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_with_their_bookmark() {
    let server = widget_server();
    let client = server.client("default");
    create(&client, "default", &["a", "b"]).await;
    let config = watcher::Config::default().streaming_lists();
    let stream = watcher(widgets(&client, "default"), config);
    let events: Vec<String> = stream
        .take(4)
        .map_ok(|event| match event {
            watcher::Event::Init => "init".to_owned(),
            watcher::Event::InitApply(o) => o.name_any(),
            watcher::Event::InitDone => "done".to_owned(),
            other => format!("{other:?}"),
        })
        .try_collect()
        .await
        .unwrap();
    assert_eq!(events, ["init", "a", "b", "done"]);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_lives_through_cuts_and_expiry() {
    let server = widget_server();
    let client = server.client("default");
    create(&client, "default", &["a"]).await;
    let mut stream = watcher(widgets(&client, "default"), watcher::Config::default()).boxed();
    let mut next = async || stream.try_next().await.unwrap().unwrap();
    for _ in 0..3 {
        next().await;
    }
    assert_eq!(server.cut_watches(|_| true), 0, "the watch is opened by the next poll");
    create(&client, "default", &["b"]).await;
    assert!(matches!(next().await, watcher::Event::Apply(o) if o.name_any() == "b"));
    assert_eq!(server.cut_watches(|info| &*info.resource == "widgets"), 1);
    create(&client, "default", &["c"]).await;
    assert!(matches!(next().await, watcher::Event::Apply(o) if o.name_any() == "c"));
    assert_eq!(server.expire_watches(|_| true), 1);
    loop {
        match stream.next().await.unwrap() {
            Ok(watcher::Event::Init) => break,
            Ok(other) => panic!("expected a new list, not {other:?}"),
            Err(_) => {}
        }
    }
}

async fn raw(client: &Client, path: &str, accept: &str) -> Value {
    let request = Request::get(path).header("Accept", accept).body(Vec::new()).unwrap();
    client.request(request).await.unwrap()
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

#[tokio::test(start_paused = true)]
async fn tables_show_the_columns_of_the_crd() {
    let server = widget_server();
    let client = server.client("default");
    create(&client, "default", &["a"]).await;
    let status = json!({ "status": { "conditions": [
        { "type": "Other", "status": "False" }, { "type": "Ready", "status": "True" },
    ] } });
    widgets(&client, "default")
        .patch_status("a", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    tokio::time::advance(Duration::from_mins(5)).await;
    let table = raw(&client, "/apis/example.com/v1/namespaces/default/widgets", TABLE).await;
    assert_eq!(table["kind"], "Table");
    let columns: Vec<(&Value, &Value)> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| (&c["name"], &c["priority"])).collect();
    let wanted =
        [("Name", 0), ("Owner", 0), ("Ready", 0), ("Size", 1), ("Age", 0)].map(|(n, p)| (json!(n), json!(p)));
    assert_eq!(columns, wanted.iter().map(|(n, p)| (n, p)).collect::<Vec<_>>());
    assert_eq!(table["rows"][0]["cells"], json!(["a", "alice", "True", 3, "5m"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test(start_paused = true)]
async fn metadata_lists_leave_the_content_out() {
    let server = server();
    let client = server.client("default");
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let secret = json!({ "metadata": { "name": "s" }, "stringData": { "a": "hidden" } });
    secrets.create(&params(), &object(secret)).await.unwrap();
    let list = raw(&client, "/api/v1/namespaces/default/secrets", METADATA).await;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["metadata"]["name"], "s");
    assert_eq!(list["items"][0].get("data"), None);
    let listed = secrets.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items[0].metadata.name.as_deref(), Some("s"));
}

#[tokio::test(start_paused = true)]
async fn an_event_is_stored_once_and_served_in_both_groups() {
    let server = server();
    let client = server.client("default");
    let modern: Api<k8s_openapi::api::events::v1::Event> = Api::default_namespaced(client.clone());
    let event = json!({
        "metadata": { "name": "e" }, "eventTime": "2030-01-01T00:00:00.000000Z", "reason": "Started", "type": "Normal",
        "action": "Start", "note": "hello", "reportingController": "c", "reportingInstance": "i",
        "regarding": { "apiVersion": "v1", "kind": "Secret", "name": "s", "namespace": "default" },
    });
    modern.create(&params(), &object(event)).await.unwrap();
    let core: Api<Event> = Api::default_namespaced(client);
    let read = core.get("e").await.unwrap();
    assert_eq!(read.message.as_deref(), Some("hello"));
    assert_eq!(read.involved_object.name.as_deref(), Some("s"));
    assert_eq!(read.reporting_component.as_deref(), Some("c"));
    assert_eq!(server.count("Event"), 1);
    let selected = ListParams::default().fields("involvedObject.name=s,type=Normal");
    assert_eq!(core.list(&selected).await.unwrap().items.len(), 1);
    let selected = ListParams::default().fields("regarding.name=s,reason=Started");
    assert_eq!(modern.list(&selected).await.unwrap().items[0].note.as_deref(), Some("hello"));
    let patch = Patch::Merge(json!({ "note": "again", "deprecatedCount": 2 }));
    modern.patch("e", &PatchParams::default(), &patch).await.unwrap();
    let read = core.get("e").await.unwrap();
    assert_eq!((read.message.as_deref(), read.count), (Some("again"), Some(2)));
}

#[tokio::test(start_paused = true)]
async fn delete_collection_takes_what_is_selected() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    for (name, label) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let map = json!({ "metadata": { "name": name, "labels": { "l": label } } });
        api.create(&params(), &object(map)).await.unwrap();
    }
    let selected = ListParams::default().labels("l=x");
    let deleted = api.delete_collection(&DeleteParams::default(), &selected).await.unwrap().left().unwrap();
    assert_eq!(deleted.items.len(), 2);
    let left = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(left.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn discovery_tells_what_is_served() {
    let server = widget_server();
    let client = server.client("default");
    let discovery = kube::Discovery::new(client.clone()).run().await.unwrap();
    let aggregated = kube::Discovery::new(client.clone()).run_aggregated().await.unwrap();
    for discovery in [discovery, aggregated] {
        let group = discovery.get("example.com").unwrap();
        let (resource, capabilities) = group.recommended_kind("Widget").unwrap();
        assert_eq!(resource.plural, "widgets");
        assert!(capabilities.supports_operation("watch"));
        assert!(discovery.get("events.k8s.io").is_some());
    }
    let version = client.apiserver_version().await.unwrap();
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "36"));
    let ready = client.request_text(Request::get("/readyz").body(Vec::new()).unwrap()).await.unwrap();
    assert_eq!(ready, "ok");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_answered_as_by_the_real_server() {
    let client = widget_server().client("default");
    let table = [
        ("GET", "/apis/example.com/v1/namespaces/default/gadgets", 404, "NotFound"),
        ("GET", "/apis/example.com/v2/namespaces/default/widgets", 404, "NotFound"),
        ("GET", "/nothing", 404, "NotFound"),
        ("POST", "/apis/example.com/v1/widgets", 405, "MethodNotAllowed"),
        ("PUT", "/apis/example.com/v1/namespaces/default/widgets", 405, "MethodNotAllowed"),
        ("POST", "/version", 405, "MethodNotAllowed"),
        ("GET", "/api/v1/namespaces/default/configmaps/a/status", 404, "NotFound"),
    ];
    for (method, path, code, reason) in table {
        let request = Request::builder().method(method).uri(path).body(b"{}".to_vec()).unwrap();
        let refused = refusal(client.request::<Value>(request).await);
        assert_eq!((refused.code, refused.reason.as_str()), (code, reason), "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_cannot_be_read_are_refused() {
    let client = widget_server().client("default");
    let path = "/apis/example.com/v1/namespaces/default/widgets";
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(3 * 1024 * 1024));
    let wrong_kind = r#"{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"}}"#;
    let table = [
        ("application/json", "{", 400),
        ("application/json", "[]", 400),
        ("application/json", wrong_kind, 422),
        ("application/json", &long, 413),
        ("text/plain", "{}", 415),
        (
            "application/yaml",
            "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: y}\nspec: {ownerName: bob}\n",
            0,
        ),
    ];
    for (media, body, code) in table {
        let request =
            Request::post(path).header("Content-Type", media).body(body.as_bytes().to_vec()).unwrap();
        match client.request::<Value>(request).await {
            Ok(created) => assert_eq!((code, &created["spec"]["ownerName"]), (0, &json!("bob"))),
            refused => assert_eq!(refusal(refused).code, code, "{media}"),
        }
    }
}
