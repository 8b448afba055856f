//! CRDs: what they define, and how their objects are checked.

mod common;

use common::{object, refusal, server, widget, widget_crd, widget_server, widget_with, widgets};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

fn params() -> PostParams {
    PostParams::default()
}

#[tokio::test(start_paused = true)]
async fn a_crd_is_served_as_soon_as_it_is_created() {
    let server = server();
    let client = server.client("default");
    assert_eq!(refusal(widgets(&client, "default").get("a").await).code, 404);
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let created = crds.create(&params(), &object(widget_crd())).await.unwrap();
    let status = created.status.unwrap();
    let mut conditions: Vec<(String, String)> =
        status.conditions.unwrap().into_iter().map(|c| (c.type_, c.status)).collect();
    conditions.sort();
    assert_eq!(conditions, [("Established".into(), "True".into()), ("NamesAccepted".into(), "True".into())]);
    assert_eq!(status.stored_versions, Some(vec!["v1".to_owned()]));
    widgets(&client, "default").create(&params(), &widget("a")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn objects_go_with_their_crd() {
    let server = widget_server();
    let client = server.client("default");
    let mut held = widget("held");
    held.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    let api = widgets(&client, "default");
    api.create(&params(), &held).await.unwrap();
    api.create(&params(), &widget("free")).await.unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.delete("widgets.example.com", &DeleteParams::default()).await.unwrap();
    assert_eq!(server.count("Widget"), 1);
    assert_eq!(refusal(api.create(&params(), &widget("new")).await).code, 403);
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    api.patch("held", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(refusal(crds.get("widgets.example.com").await).code, 404);
    assert_eq!(refusal(api.get("held").await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_changed_crd_holds_for_what_is_written_from_now_on() {
    let server = widget_server();
    let client = server.client("default");
    let api = widgets(&client, "default");
    api.create(&params(), &widget("a")).await.unwrap();
    let mut crd = widget_crd();
    let version = &mut crd["spec"]["versions"][0];
    version["selectableFields"] = json!([{ "jsonPath": ".spec.type" }]);
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["ownerName"]["maxLength"] =
        json!(3);
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["color"] =
        json!({ "type": "string" });
    server.apply_crd(crd).unwrap();
    let unchanged = Patch::Merge(json!({ "spec": { "color": "red", "type": "kro" } }));
    let patched = api.patch("a", &PatchParams::default(), &unchanged).await.unwrap();
    assert_eq!(patched.data["spec"]["color"], "red", "what was too long before may stay");
    let longer = Patch::Merge(json!({ "spec": { "ownerName": "alicia" } }));
    assert_eq!(refusal(api.patch("a", &PatchParams::default(), &longer).await).code, 422);
    let selected = kube::api::ListParams::default().fields("spec.type=kro");
    assert_eq!(api.list(&selected).await.unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn crds_that_make_no_sense_are_refused_by_field() {
    let client = server().client("default");
    let crds: Api<CustomResourceDefinition> = Api::all(client);
    let change = |pointer: &str, value: Value| {
        let mut crd = widget_crd();
        *crd.pointer_mut(pointer).unwrap() = value;
        crd
    };
    let schema = "/spec/versions/0/schema/openAPIV3Schema";
    let table = [
        (
            change("/metadata/name", json!("others.example.com")),
            "metadata.name: Invalid value: \"others.example.com\": must be spec.names.plural+\".\"+spec.group",
        ),
        (
            change("/spec/scope", json!("Everywhere")),
            "spec.scope: Unsupported value: \"Everywhere\": supported values: \"Cluster\", \"Namespaced\"",
        ),
        (
            change("/spec/versions/0/storage", json!(false)),
            "spec.versions: Invalid value: [\"v1\"]: must have exactly one version marked as storage version",
        ),
        (
            change(&format!("{schema}/properties/spec/properties/size"), json!({})),
            "spec.validation.openAPIV3Schema.properties[spec].properties[size].type: Required value: must not be empty for specified object fields",
        ),
        (
            change(&format!("{schema}/properties/spec/x-kubernetes-validations/0/rule"), json!("self.")),
            "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: \"self.\": compilation failed",
        ),
        (
            change("/spec/versions/0/selectableFields/0/jsonPath", json!("spec.ownerName")),
            "spec.selectableFields[0].jsonPath: Invalid value: \"spec.ownerName\": is an invalid path: expected [ or . but got: spec.ownerName",
        ),
    ];
    for (crd, message) in table {
        let refused = refusal(crds.create(&params(), &object(crd)).await);
        assert_eq!(refused.code, 422, "{message}");
        assert!(refused.message.contains(message), "{}\nlacks\n{message}", refused.message);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_schema_forbids_is_refused_in_the_words_of_the_real_server() {
    let server = widget_server();
    let api = widgets(&server.client("default"), "default");
    let table = [
        (json!({}), "spec.ownerName: Required value"),
        (
            json!({ "ownerName": 5 }),
            "spec.ownerName: Invalid value: \"integer\": spec.ownerName in body must be of type string: \"integer\"",
        ),
        (
            json!({ "ownerName": "" }),
            "spec.ownerName: Invalid value: \"\": spec.ownerName in body should be at least 1 chars long",
        ),
        (
            json!({ "ownerName": "B" }),
            "spec.ownerName: Invalid value: \"B\": spec.ownerName in body should match '^[a-z]*$'",
        ),
        (
            json!({ "ownerName": "abcdefghijklmnopqrstuvwxyz" }),
            "spec.ownerName: Too long: may not be more than 20 bytes",
        ),
        (
            json!({ "ownerName": "a", "type": "foo" }),
            "spec.type: Unsupported value: \"foo\": supported values: \"helm\", \"kro\"",
        ),
        (
            json!({ "ownerName": "a", "size": 11 }),
            "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10",
        ),
        (
            json!({ "ownerName": "a", "size": -1 }),
            "spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0",
        ),
        (json!({ "ownerName": "a", "size": 7 }), "spec: Invalid value: size must not be 7"),
        (
            json!({ "ownerName": "a", "port": true }),
            "spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \"boolean\"",
        ),
        (
            json!({ "ownerName": "a", "labels": { "k": 1 } }),
            "spec.labels.k: Invalid value: \"integer\": spec.labels.k in body must be of type string: \"integer\"",
        ),
    ];
    for (spec, message) in table {
        let refused = refusal(api.create(&params(), &widget_with("a", spec.clone())).await);
        assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"), "{spec}");
        let wanted = format!("Widget.example.com \"a\" is invalid: {message}");
        let found = refused.message.replacen("invalid: [", "invalid: ", 1);
        assert!(found.starts_with(&wanted), "{}\nis not\n{wanted}", refused.message);
        let details = refused.details.unwrap();
        assert_eq!((details.name.as_str(), details.kind.as_str()), ("a", "Widget"));
        assert!(!details.causes.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn rules_see_the_old_object_and_only_sound_ones() {
    let server = widget_server();
    let api = widgets(&server.client("default"), "default");
    let spec = json!({ "ownerName": "alice", "frozen": "ice" });
    api.create(&params(), &widget_with("a", spec)).await.unwrap();
    let patch = async |spec: Value| -> Result<DynamicObject, kube::Error> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        api.patch("a", &PatchParams::default(), &patch).await
    };
    patch(json!({ "size": 4 })).await.unwrap();
    let refused = refusal(patch(json!({ "frozen": "water" })).await);
    assert_eq!(
        refused.message,
        "Widget.example.com \"a\" is invalid: spec.frozen: Invalid value: \"water\": frozen can't be changed"
    );
    let unsound = refusal(patch(json!({ "frozen": "water", "ownerName": null })).await);
    assert_eq!(
        unsound.message,
        "Widget.example.com \"a\" is invalid: [spec.ownerName: Required value, <nil>: Invalid value: null: some \
         validation rules were not checked because the object was invalid; correct the existing errors to complete \
         validation]"
    );
}

#[tokio::test(start_paused = true)]
async fn rules_take_a_null_field_for_absent() {
    let server = widget_server();
    let api = widgets(&server.client("default"), "default");
    let null = json!({ "ownerName": "alice", "maybe": null });
    let created = api.create(&params(), &widget_with("a", null)).await.unwrap();
    assert_eq!(created.data["spec"]["maybe"], Value::Null);
    let patch = Patch::Merge(json!({ "spec": { "maybe": "x" } }));
    let refused = refusal(api.patch("a", &PatchParams::default(), &patch).await);
    assert_eq!(
        refused.message,
        "Widget.example.com \"a\" is invalid: spec.maybe: Invalid value: \"x\": maybe is too short"
    );
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_pruned_and_nulls_follow_the_schema() {
    let server = widget_server();
    let api = widgets(&server.client("default"), "default");
    let spec = json!({
        "ownerName": "alice", "unknown": 1, "size": null, "maybe": null, "type": null,
        "free": { "kept": { "deep": true } }, "ref": { "name": "r", "gone": 1 },
    });
    let created = api.create(&params(), &widget_with("a", spec)).await.unwrap();
    assert_eq!(
        created.data["spec"],
        json!({
            "ownerName": "alice", "size": 3, "maybe": null, "free": { "kept": { "deep": true } }, "ref": { "name": "r" },
        })
    );
}

#[tokio::test(start_paused = true)]
async fn the_keys_of_a_map_list_are_unique() {
    let server = widget_server();
    let api = widgets(&server.client("default"), "default");
    api.create(&params(), &widget("a")).await.unwrap();
    let condition = |status: &str| json!({ "type": "Ready", "status": status });
    let patch = Patch::Merge(json!({ "status": { "conditions": [condition("True"), condition("False")] } }));
    let refused = refusal(api.patch_status("a", &PatchParams::default(), &patch).await);
    assert_eq!(
        refused.message,
        "Widget.example.com \"a\" is invalid: status.conditions[1]: Duplicate value: {\"type\":\"Ready\"}"
    );
}
