//! Create, update, patch and delete, as a client sees them.

mod common;

use common::{object, refusal, server, widget, widget_server, widget_with, widgets};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
};
use serde_json::{Value, json};

fn params() -> PostParams {
    PostParams::default()
}

async fn merge(client: &Client, name: &str, patch: Value) -> Result<kube::api::DynamicObject, kube::Error> {
    widgets(client, "default").patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
}

#[tokio::test(start_paused = true)]
async fn create_fills_in_what_the_server_owns() {
    let server = widget_server();
    let api = widgets(&server.client("default"), "default");
    let created = api.create(&params(), &widget("a")).await.unwrap();
    assert_eq!(created.metadata.generation, Some(1));
    assert_eq!(created.metadata.namespace.as_deref(), Some("default"));
    assert_eq!(created.metadata.uid.as_ref().map(String::len), Some(36));
    assert_eq!(
        created.metadata.creation_timestamp.map(|t| t.0.to_string()).as_deref(),
        Some("2030-01-01T00:00:00Z")
    );
    assert_eq!(created.data["spec"]["size"], 3, "the default of the schema");
}

#[tokio::test(start_paused = true)]
async fn names_are_generated_from_the_seed() {
    let names = async || {
        let api: Api<ConfigMap> = Api::default_namespaced(server().client("default"));
        let map: ConfigMap = object(json!({ "metadata": { "generateName": "m-" } }));
        api.create(&params(), &map).await.unwrap().metadata.name.unwrap()
    };
    let (first, second) = (names().await, names().await);
    assert_eq!(first, second);
    assert!(first.starts_with("m-") && first.len() == 7, "{first}");
}

#[tokio::test(start_paused = true)]
async fn creates_are_refused_in_the_words_of_the_real_server() {
    let server = widget_server();
    let client = server.client("default");
    let api = widgets(&client, "default");
    api.create(&params(), &widget("a")).await.unwrap();
    let again = refusal(api.create(&params(), &widget("a")).await);
    assert_eq!((again.code, again.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(again.message, "widgets.example.com \"a\" already exists");
    let nowhere = refusal(widgets(&client, "nowhere").create(&params(), &widget("a")).await);
    assert_eq!((nowhere.code, nowhere.reason.as_str()), (404, "NotFound"));
    assert_eq!(nowhere.message, "namespaces \"nowhere\" not found");
    let name = refusal(api.create(&params(), &widget("A_b")).await);
    assert_eq!((name.code, name.reason.as_str()), (422, "Invalid"));
    assert!(name.message.starts_with("Widget.example.com \"A_b\" is invalid: metadata.name: Invalid value: \"A_b\": a lowercase RFC 1123 subdomain"), "{}", name.message);
}

#[tokio::test(start_paused = true)]
async fn generation_follows_the_content_and_nothing_else() {
    let server = widget_server();
    let client = server.client("default");
    widgets(&client, "default").create(&params(), &widget("a")).await.unwrap();
    let table = [
        (json!({ "metadata": { "labels": { "x": "y" } } }), 1),
        (json!({ "spec": { "size": 5 } }), 2),
        (json!({ "spec": { "size": 5 } }), 2),
        (json!({ "status": { "note": "ignored" } }), 2),
        (json!({ "spec": { "unknown": 1 } }), 2),
    ];
    for (patch, generation) in table {
        let changed = merge(&client, "a", patch.clone()).await.unwrap();
        assert_eq!(changed.metadata.generation, Some(generation), "{patch}");
        assert!(changed.data.get("status").is_none(), "{patch}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_without_a_difference_is_no_write() {
    let server = widget_server();
    let client = server.client("default");
    let api = widgets(&client, "default");
    let created = api.create(&params(), &widget("a")).await.unwrap();
    let before = server.resource_version();
    let same = merge(&client, "a", json!({ "spec": { "ownerName": "alice" } })).await.unwrap();
    let replaced = api.replace("a", &params(), &created).await.unwrap();
    assert_eq!(same.metadata.resource_version, created.metadata.resource_version);
    assert_eq!(replaced.metadata.resource_version, created.metadata.resource_version);
    assert_eq!(server.resource_version(), before);
}

#[tokio::test(start_paused = true)]
async fn the_status_subresource_changes_the_status_alone() {
    let server = widget_server();
    let client = server.client("default");
    let api = widgets(&client, "default");
    api.create(&params(), &widget("a")).await.unwrap();
    let patch = json!({
        "metadata": { "labels": { "x": "y" } }, "spec": { "size": 9 }, "status": { "note": "hello" },
    });
    let patched = api.patch_status("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert_eq!(patched.data["status"]["note"], "hello");
    assert_eq!(patched.data["spec"]["size"], 3);
    assert_eq!(patched.metadata.labels, None);
    assert_eq!(patched.metadata.generation, Some(1));
    let read = api.get_status("a").await.unwrap();
    assert_eq!(read.data["status"]["note"], "hello");
}

#[tokio::test(start_paused = true)]
async fn stale_resource_versions_are_conflicts() {
    let server = widget_server();
    let client = server.client("default");
    let api = widgets(&client, "default");
    let old = api.create(&params(), &widget("a")).await.unwrap();
    merge(&client, "a", json!({ "spec": { "size": 1 } })).await.unwrap();
    let replaced = refusal(api.replace("a", &params(), &old).await);
    assert_eq!((replaced.code, replaced.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        replaced.message,
        "Operation cannot be fulfilled on widgets.example.com \"a\": the object has been modified; please apply your \
         changes to the latest version and try again"
    );
    let version = old.metadata.resource_version.clone().unwrap();
    let patch = json!({ "metadata": { "resourceVersion": version }, "spec": { "size": 2 } });
    assert_eq!(refusal(merge(&client, "a", patch).await).code, 409);
    let unversioned = refusal(api.replace("a", &params(), &widget("a")).await);
    assert_eq!(unversioned.code, 422);
    assert!(unversioned.message.contains("must be specified for an update"));
}

#[tokio::test(start_paused = true)]
async fn json_patches_test_before_they_change() {
    let server = widget_server();
    let client = server.client("default");
    let api = widgets(&client, "default");
    api.create(&params(), &widget("a")).await.unwrap();
    let patch = |owner: &str| -> Patch<()> {
        Patch::Json(object(json!([
            { "op": "test", "path": "/spec/ownerName", "value": owner },
            { "op": "replace", "path": "/spec/ownerName", "value": "bob" },
        ])))
    };
    let refused = refusal(api.patch("a", &PatchParams::default(), &patch("carol")).await);
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    let patched = api.patch("a", &PatchParams::default(), &patch("alice")).await.unwrap();
    assert_eq!(patched.data["spec"]["ownerName"], "bob");
}

#[tokio::test(start_paused = true)]
async fn server_side_apply_is_refused_with_a_reason() {
    let server = widget_server();
    let api = widgets(&server.client("default"), "default");
    let refused = refusal(api.patch("a", &PatchParams::apply("test"), &Patch::Apply(widget("a"))).await);
    assert_eq!((refused.code, refused.reason.as_str()), (415, "UnsupportedMediaType"));
    assert!(refused.message.contains("not supported by the embedded API"));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_answers_and_changes_nothing() {
    let server = widget_server();
    let api = widgets(&server.client("default"), "default");
    let dry = PostParams { dry_run: true, ..params() };
    let before = server.resource_version();
    let answer = api.create(&dry, &widget("a")).await.unwrap();
    assert!(answer.metadata.uid.is_some());
    assert_eq!(server.resource_version(), before);
    assert_eq!(server.count("Widget"), 0);
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let server = widget_server();
    let client = server.client("default");
    let api = widgets(&client, "default");
    let mut held = widget("a");
    held.metadata.finalizers = Some(vec!["example.com/a".into(), "example.com/b".into()]);
    api.create(&params(), &held).await.unwrap();
    let deleting = api.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(deleting.metadata.deletion_timestamp.is_some());
    assert_eq!(deleting.metadata.generation, Some(2), "as the real server counts it");
    let refused = refusal(
        merge(
            &client,
            "a",
            json!({ "metadata": { "finalizers": ["example.com/a", "example.com/b", "example.com/c"] } }),
        )
        .await,
    );
    assert_eq!(
        refused.message,
        "Widget.example.com \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the \
         object is being deleted, found new finalizers []string{\"example.com/c\"}"
    );
    merge(&client, "a", json!({ "metadata": { "finalizers": ["example.com/b"] } })).await.unwrap();
    assert_eq!(server.count("Widget"), 1);
    merge(&client, "a", json!({ "metadata": { "finalizers": null } })).await.unwrap();
    assert_eq!(server.count("Widget"), 0);
    assert_eq!(refusal(api.get("a").await).message, "widgets.example.com \"a\" not found");
}

#[tokio::test(start_paused = true)]
async fn deletions_keep_their_preconditions() {
    let server = widget_server();
    let api = widgets(&server.client("default"), "default");
    let created = api.create(&params(), &widget("a")).await.unwrap();
    let with = |uid: Option<&str>, version: Option<&str>| DeleteParams {
        preconditions: Some(Preconditions {
            uid: uid.map(str::to_owned),
            resource_version: version.map(str::to_owned),
        }),
        ..DeleteParams::default()
    };
    let uid = refusal(api.delete("a", &with(Some("other"), None)).await);
    assert_eq!((uid.code, uid.reason.as_str()), (409, "Conflict"));
    let version = refusal(api.delete("a", &with(None, Some("1"))).await);
    assert_eq!((version.code, version.reason.as_str()), (409, "Conflict"));
    let right = with(created.metadata.uid.as_deref(), created.metadata.resource_version.as_deref());
    let done = api.delete("a", &right).await.unwrap().right().unwrap();
    assert!(done.is_success());
}

#[tokio::test(start_paused = true)]
async fn dependents_follow_their_last_owner() {
    let server = widget_server();
    let client = server.client("default");
    let api = widgets(&client, "default");
    let owner = |o: &kube::api::DynamicObject| {
        json!({ "apiVersion": "example.com/v1", "kind": "Widget", "name": o.metadata.name, "uid": o.metadata.uid,
                "blockOwnerDeletion": true })
    };
    let owned = |name: &str, owners: Value| {
        object::<kube::api::DynamicObject>(json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": { "name": name, "ownerReferences": owners }, "spec": { "ownerName": "alice" },
        }))
    };
    let first = api.create(&params(), &widget("first")).await.unwrap();
    let second = api.create(&params(), &widget("second")).await.unwrap();
    api.create(&params(), &owned("both", json!([owner(&first), owner(&second)]))).await.unwrap();
    let one = api.create(&params(), &owned("one", json!([owner(&first)]))).await.unwrap();
    api.create(&params(), &owned("grandchild", json!([owner(&one)]))).await.unwrap();

    api.delete("first", &DeleteParams::default()).await.unwrap();
    let names = |server: &kube_embedded::Server| -> Vec<Value> {
        server.objects("Widget").map(|o| o["metadata"]["name"].clone()).collect()
    };
    assert_eq!(names(&server), ["both", "second"]);
    let both = server.get_object("Widget", "default", "both").unwrap();
    assert_eq!(both["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));

    api.create(&params(), &owned("late", json!([owner(&first)]))).await.unwrap();
    assert_eq!(names(&server), ["both", "second"], "a child of a gone owner goes at once");

    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    api.delete("second", &orphan).await.unwrap();
    assert_eq!(names(&server), ["both"]);
    let both = server.get_object("Widget", "default", "both").unwrap();
    assert_eq!(both["metadata"].get("ownerReferences"), None);
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_for_dependents_that_block() {
    let server = widget_server();
    let client = server.client("default");
    let api = widgets(&client, "default");
    let parent = api.create(&params(), &widget("parent")).await.unwrap();
    let child = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "spec": { "ownerName": "alice" },
        "metadata": { "name": "child", "finalizers": ["example.com/hold"], "ownerReferences": [{
            "apiVersion": "example.com/v1", "kind": "Widget", "name": "parent", "uid": parent.metadata.uid,
            "blockOwnerDeletion": true,
        }] },
    });
    api.create(&params(), &object(child)).await.unwrap();
    api.delete("parent", &DeleteParams::foreground()).await.unwrap();
    let parent = api.get("parent").await.unwrap();
    assert_eq!(parent.metadata.finalizers, Some(vec!["foregroundDeletion".into()]));
    assert!(api.get("child").await.unwrap().metadata.deletion_timestamp.is_some());
    merge(&client, "child", json!({ "metadata": { "finalizers": [] } })).await.unwrap();
    assert_eq!(server.count("Widget"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_when_its_last_object_is_gone() {
    let server = widget_server();
    let client = server.client("default");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&params(), &object(json!({ "metadata": { "name": "team" } }))).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "team");
    secrets.create(&params(), &object(json!({ "metadata": { "name": "s" } }))).await.unwrap();
    let mut held = widget("held");
    held.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    let api = widgets(&client, "team");
    api.create(&params(), &held).await.unwrap();

    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    let team = namespaces.get("team").await.unwrap();
    assert_eq!(team.status.unwrap().phase.as_deref(), Some("Terminating"));
    assert_eq!(server.count("Secret"), 0);
    let refused = refusal(api.create(&params(), &widget("new")).await);
    assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        refused.message,
        "widgets.example.com \"new\" is forbidden: unable to create new content in namespace team because it is being \
         terminated"
    );
    assert_eq!(refused.details.unwrap().causes[0].reason, "NamespaceTerminating");

    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    api.patch("held", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(refusal(namespaces.get("team").await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn secrets_take_plain_text_and_keep_their_type() {
    let api: Api<Secret> = Api::default_namespaced(server().client("default"));
    let secret = json!({ "metadata": { "name": "s" }, "stringData": { "a": "b" } });
    let created = api.create(&params(), &object(secret)).await.unwrap();
    assert_eq!(created.type_.as_deref(), Some("Opaque"));
    assert_eq!(created.data.unwrap()["a"].0, b"b");
    let patch = Patch::Merge(json!({ "type": "other" }));
    let refused = refusal(api.patch("s", &PatchParams::default(), &patch).await);
    assert_eq!(
        refused.message,
        "Secret \"s\" is invalid: type: Invalid value: \"other\": field is immutable"
    );
}

#[tokio::test(start_paused = true)]
async fn strict_field_validation_names_the_unknown_field() {
    let server = widget_server();
    let api = widgets(&server.client("default"), "default");
    let strict = PatchParams {
        field_validation: Some(kube::api::ValidationDirective::Strict),
        ..PatchParams::default()
    };
    let spec = json!({ "ownerName": "alice", "free": { "any": { "thing": 1 } } });
    api.create(&params(), &widget_with("a", spec)).await.unwrap();
    let patch = Patch::Merge(json!({ "spec": { "color": "red" } }));
    let refused = refusal(api.patch("a", &strict, &patch).await);
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    assert!(
        refused.message.ends_with("strict decoding error: unknown field \"spec.color\""),
        "{}",
        refused.message
    );
    let lenient = api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(lenient.data["spec"].get("color"), None);
    assert_eq!(lenient.data["spec"]["free"]["any"]["thing"], 1);
}
