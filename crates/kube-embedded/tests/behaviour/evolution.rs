//! CRDs that change while objects are stored.

use serde_json::{Value, json};

use crate::case::{Case, cases, until};

/// Changes the widget CRD.
async fn change(case: &Case, patch: Value) {
    case.crds().json_patch(&format!("widgets.{}", case.group), patch).await.is(200);
}

const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";

cases! {
    async fn new_fields_are_kept_from_then_on(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "spec": { "weight": 1 } })).await;
        change(&case, json!([{ "op": "add", "path": format!("{SPEC}/properties/weight"), "value": { "type": "integer" } }])).await;
        until("the field is known", async || {
            widgets.merge("a", json!({ "spec": { "weight": 2 } })).await.is(200)["spec"]["weight"] == 2
        }).await;
    }

    async fn removed_fields_are_not_shown(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "spec": { "color": "red", "size": 1 } })).await;
        change(&case, json!([
            { "op": "remove", "path": format!("{SPEC}/properties/size") },
        ])).await;
        until("the field is gone", async || widgets.get("a").await.is(200)["spec"].get("size").is_none()).await;
    }

    async fn new_defaults_are_shown_in_stored_objects(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "spec": {} })).await;
        change(&case, json!([{ "op": "add", "path": format!("{SPEC}/properties/level"),
            "value": { "type": "integer", "default": 5 } }])).await;
        until("the default is shown", async || widgets.get("a").await.is(200)["spec"]["level"] == 5).await;
        assert_eq!(widgets.list("").await.is(200)["items"][0]["spec"]["level"], 5);
    }

    async fn what_did_not_change_may_stay_wrong(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "spec": { "color": "crimson", "size": 50 } })).await;
        change(&case, json!([
            { "op": "replace", "path": format!("{SPEC}/properties/color/maxLength"), "value": 3 },
        ])).await;
        until("the limit holds", async || {
            let answer = widgets.create_with("dryRun=All", json!({ "metadata": { "name": "x" }, "spec": { "color": "long" } }));
            answer.await.code == 422
        }).await;
        assert_eq!(widgets.merge("a", json!({ "spec": { "size": 51 } })).await.is(200)["spec"]["size"], 51);
        widgets.merge("a", json!({ "spec": { "color": "scarlet" } })).await.refused(422, "Invalid")
            .cause("FieldValueTooLong", "spec.color");
        widgets.merge("a", json!({ "spec": { "color": "red" } })).await.is(200);
        widgets.merge("a", json!({ "spec": { "color": "crimson" } })).await.refused(422, "Invalid");
    }

    async fn rules_let_what_did_not_change_stay_wrong(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "spec": { "color": "crimson", "size": 50 } })).await;
        change(&case, json!([{ "op": "add", "path": format!("{SPEC}/properties/color/x-kubernetes-validations"),
            "value": [{ "rule": "self == 'red'", "message": "red it must be" }] }])).await;
        until("the rule holds", async || {
            let answer = widgets.create_with("dryRun=All", json!({ "metadata": { "name": "x" }, "spec": { "color": "blue" } }));
            answer.await.code == 422
        }).await;
        widgets.merge("a", json!({ "spec": { "size": 51 } })).await.is(200);
        widgets.merge("a", json!({ "spec": { "color": "blue" } })).await.refused(422, "Invalid").says("red it must be");
    }

    async fn names_and_scope_stay(case) {
        case.widgets().await;
        let name = format!("widgets.{}", case.group);
        case.crds().merge(&name, json!({ "spec": { "scope": "Cluster" } })).await.refused(422, "Invalid")
            .cause("FieldValueInvalid", "spec.scope");
        case.crds().merge(&name, json!({ "spec": { "group": "other.example.com" } })).await.refused(422, "Invalid");
        case.crds().merge(&name, json!({ "spec": { "names": { "plural": "gadgets" } } })).await.refused(422, "Invalid");
    }

    async fn a_second_version_serves_the_same_objects(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "spec": { "size": 3 } })).await;
        change(&case, json!([
            { "op": "copy", "from": "/spec/versions/0", "path": "/spec/versions/1" },
            { "op": "replace", "path": "/spec/versions/1/name", "value": "v2" },
            { "op": "replace", "path": "/spec/versions/1/storage", "value": false },
        ])).await;
        let second = widgets.at("/v1", "/v2");
        until("v2 is served", async || second.list("").await.code == 200).await;
        let found = second.get("a").await.is(200);
        assert_eq!((&found["apiVersion"], &found["spec"]["size"]), (&json!(format!("{}/v2", case.group)), &json!(3)));
        second.make("b", json!({ "spec": { "size": 4 } })).await;
        assert_eq!(widgets.get("b").await.is(200)["apiVersion"], format!("{}/v1", case.group));
        assert_eq!(second.list("").await.is(200)["items"][0]["apiVersion"], format!("{}/v2", case.group));
    }

    async fn a_version_that_is_no_longer_served_is_gone(case) {
        let widgets = case.widgets().await;
        change(&case, json!([
            { "op": "copy", "from": "/spec/versions/0", "path": "/spec/versions/1" },
            { "op": "replace", "path": "/spec/versions/1/name", "value": "v2" },
            { "op": "replace", "path": "/spec/versions/1/storage", "value": false },
        ])).await;
        let second = widgets.at("/v1", "/v2");
        until("v2 is served", async || second.list("").await.code == 200).await;
        change(&case, json!([{ "op": "replace", "path": "/spec/versions/1/served", "value": false }])).await;
        until("v2 is not served", async || second.list("").await.code == 404).await;
        widgets.list("").await.is(200);
    }

    async fn the_stored_versions_are_noted(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        change(&case, json!([
            { "op": "copy", "from": "/spec/versions/0", "path": "/spec/versions/1" },
            { "op": "replace", "path": "/spec/versions/1/name", "value": "v2" },
            { "op": "replace", "path": "/spec/versions/0/storage", "value": false },
        ])).await;
        let name = format!("widgets.{}", case.group);
        let crd = case.crds().get(&name).await.is(200);
        assert_eq!(crd["status"]["storedVersions"], json!(["v1", "v2"]));
        // What is stored in a version needs that version.
        case.crds().json_patch(&name, json!([{ "op": "remove", "path": "/spec/versions/0" }])).await
            .refused(422, "Invalid").cause("FieldValueInvalid", "status.storedVersions[0]");
    }

    async fn a_generation_counts_the_changes_of_a_definition(case) {
        case.widgets().await;
        let name = format!("widgets.{}", case.group);
        assert_eq!(case.crds().get(&name).await.is(200)["metadata"]["generation"], 1);
        change(&case, json!([{ "op": "add", "path": "/spec/names/shortNames", "value": ["wd"] }])).await;
        assert_eq!(case.crds().get(&name).await.is(200)["metadata"]["generation"], 2);
    }
}
