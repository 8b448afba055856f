//! Patches: merge, JSON, strategic.

use serde_json::json;

use crate::case::cases;

cases! {
    async fn a_merge_patch_merges_objects_and_replaces_lists(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "spec": { "tags": { "x": "1", "y": "2" }, "list": ["a", "b"], "size": 1 } })).await;
        let patch = json!({ "spec": { "tags": { "y": null, "z": "3" }, "list": ["c"] } });
        let spec = widgets.merge("a", patch).await.is(200)["spec"].clone();
        assert_eq!(spec, json!({ "tags": { "x": "1", "z": "3" }, "list": ["c"], "size": 1, "mode": "auto" }));
    }

    async fn a_merge_patch_removes_and_the_default_returns(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "spec": { "mode": "manual" } })).await;
        let patched = widgets.merge("a", json!({ "spec": { "mode": null } })).await.is(200);
        assert_eq!(patched["spec"]["mode"], "auto");
    }

    async fn a_patch_of_an_absent_object_is_not_found(case) {
        case.maps().merge("a", json!({})).await.refused(404, "NotFound");
    }

    async fn json_patches_add_replace_and_remove(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "spec": { "list": ["a", "b"], "size": 1 } })).await;
        let patched = widgets.json_patch("a", json!([
            { "op": "add", "path": "/spec/list/-", "value": "c" },
            { "op": "add", "path": "/spec/list/0", "value": "z" },
            { "op": "replace", "path": "/spec/size", "value": 5 },
            { "op": "add", "path": "/metadata/labels", "value": {} },
            { "op": "add", "path": "/metadata/labels/example.com~1x", "value": "y" },
        ])).await.is(200);
        assert_eq!(patched["spec"]["list"], json!(["z", "a", "b", "c"]));
        assert_eq!((&patched["spec"]["size"], &patched["metadata"]["labels"]["example.com/x"]), (&json!(5), &json!("y")));
        let patched = widgets.json_patch("a", json!([{ "op": "remove", "path": "/spec/list/1" }])).await.is(200);
        assert_eq!(patched["spec"]["list"], json!(["z", "b", "c"]));
    }

    async fn json_patches_copy_and_move(case) {
        case.maps().make("a", json!({ "data": { "k": "v" } })).await;
        let patched = case.maps().json_patch("a", json!([
            { "op": "copy", "from": "/data/k", "path": "/data/l" },
            { "op": "move", "from": "/data/k", "path": "/data/m" },
        ])).await.is(200);
        assert_eq!(patched["data"], json!({ "l": "v", "m": "v" }));
    }

    async fn a_test_that_holds_lets_the_patch_through(case) {
        let made = case.maps().make("a", json!({ "data": { "k": "v" } })).await;
        case.maps().json_patch("a", json!([
            { "op": "test", "path": "/metadata/uid", "value": made["metadata"]["uid"] },
            { "op": "test", "path": "/data/k", "value": "v" },
            { "op": "replace", "path": "/data/k", "value": "w" },
        ])).await.is(200);
    }

    async fn a_test_that_fails_refuses_the_whole_patch(case) {
        case.maps().make("a", json!({ "data": { "k": "v" } })).await;
        case.maps().json_patch("a", json!([
            { "op": "replace", "path": "/data/k", "value": "w" },
            { "op": "test", "path": "/data/k", "value": "v" },
        ])).await.refused(422, "Invalid");
        assert_eq!(case.maps().get("a").await.is(200)["data"]["k"], "v");
    }

    async fn a_test_for_null_holds_where_nothing_is(case) {
        case.maps().make("a", json!({ "data": { "k": "v" } })).await;
        case.maps().json_patch("a", json!([{ "op": "test", "path": "/metadata/finalizers", "value": null }])).await.is(200);
    }

    async fn copies_that_come_to_too_much_are_refused(case) {
        let widgets = case.widgets_with(json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })).await;
        widgets.make("a", json!({ "spec": { "text": "x".repeat(1_000) } })).await;
        let doubling: Vec<_> =
            (0..40).map(|i| json!({ "op": "copy", "from": "/spec", "path": format!("/spec/k{i}") })).collect();
        widgets.json_patch("a", doubling.into()).await.refused(422, "Invalid");
        let deeper: Vec<_> = (0..9_000).map(|_| json!({ "op": "copy", "from": "/spec", "path": "/spec/a" })).collect();
        widgets.json_patch("a", deeper.into()).await.refused(422, "Invalid");
        let spec = widgets.get("a").await.is(200)["spec"].clone();
        assert_eq!(spec, json!({ "text": "x".repeat(1_000) }));
        widgets.delete("a").await.is(200);
        widgets.gone("a").await;
    }

    async fn a_patch_of_a_missing_path_is_refused(case) {
        case.maps().make("a", json!({ "data": { "k": "v" } })).await;
        for operation in [
            json!({ "op": "replace", "path": "/none/below", "value": "x" }),
            json!({ "op": "remove", "path": "/data/none" }),
            json!({ "op": "add", "path": "/none/below", "value": "x" }),
        ] {
            case.maps().json_patch("a", json!([operation])).await.refused(422, "Invalid");
        }
    }

    async fn a_replaced_member_may_be_missing(case) {
        case.maps().make("a", json!({ "data": { "k": "v" } })).await;
        let operation = json!({ "op": "replace", "path": "/data/l", "value": "w" });
        let patched = case.maps().json_patch("a", json!([operation])).await.is(200);
        assert_eq!(patched["data"], json!({ "k": "v", "l": "w" }));
    }

    async fn a_patch_of_a_wrong_type_is_refused(case) {
        case.maps().make("a", json!({})).await;
        case.maps().merge("a", json!({ "data": { "k": 1 } })).await.refused(422, "Invalid").cause("FieldValueInvalid", "patch");
    }

    async fn an_empty_json_patch_changes_nothing(case) {
        let made = case.maps().make("a", json!({})).await;
        assert_eq!(case.maps().json_patch("a", json!([])).await.is(200), made);
    }

    async fn a_json_patch_that_is_no_list_is_refused(case) {
        case.maps().make("a", json!({})).await;
        case.maps().json_patch("a", json!({ "op": "add" })).await.refused(400, "BadRequest");
    }

    async fn a_json_patch_with_an_unknown_operation_is_refused(case) {
        case.maps().make("a", json!({})).await;
        let answer = case.maps().json_patch("a", json!([{ "op": "turn", "path": "/data", "value": {} }])).await;
        answer.refused(422, "Invalid");
    }

    async fn a_patch_too_long_is_refused(case) {
        case.maps().make("a", json!({})).await;
        let operations: Vec<_> = (0..10_001).map(|_| json!({ "op": "test", "path": "/kind", "value": "ConfigMap" })).collect();
        case.maps().json_patch("a", operations.into()).await.refused(413, "RequestEntityTooLarge");
    }

    async fn a_patch_cannot_rename(case) {
        case.maps().make("a", json!({})).await;
        case.maps().merge("a", json!({ "metadata": { "name": "b" } })).await.refused(400, "BadRequest")
            .says("the name of the object (b) does not match the name on the URL (a)");
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        widgets.merge("a", json!({ "metadata": { "name": "b" } })).await.refused(400, "BadRequest");
    }

    async fn a_patch_cannot_move_to_another_namespace(case) {
        case.maps().make("a", json!({})).await;
        case.maps().merge("a", json!({ "metadata": { "namespace": "default" } })).await.refused(400, "BadRequest")
            .says("the namespace of the provided object does not match the namespace sent on the request");
    }

    async fn a_patch_cannot_change_the_kind(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        widgets.merge("a", json!({ "kind": "Gadget" })).await.refused(422, "Invalid").cause("FieldValueInvalid", "kind");
    }

    async fn a_strategic_patch_merges_maps_and_finalizers(case) {
        case.maps().make("a", json!({ "metadata": { "finalizers": ["a.b/1"] }, "data": { "k": "1", "l": "2" } })).await;
        let patch = json!({ "metadata": { "finalizers": ["a.b/2"] }, "data": { "k": null, "m": "3" } });
        let patched = case.maps().strategic("a", patch).await.is(200);
        assert_eq!(patched["data"], json!({ "l": "2", "m": "3" }));
        // What is new comes first.
        assert_eq!(patched["metadata"]["finalizers"], json!(["a.b/2", "a.b/1"]));
        case.maps().merge("a", json!({ "metadata": { "finalizers": null } })).await.is(200);
    }

    async fn a_strategic_patch_has_directives(case) {
        case.maps().make("a", json!({ "metadata": { "finalizers": ["a.b/1", "a.b/2"] }, "data": { "k": "1", "l": "2" } })).await;
        let patch = json!({
            "metadata": { "$deleteFromPrimitiveList/finalizers": ["a.b/1"] }, "data": { "$patch": "replace", "n": "9" },
        });
        let patched = case.maps().strategic("a", patch).await.is(200);
        assert_eq!((&patched["data"], &patched["metadata"]["finalizers"]), (&json!({ "n": "9" }), &json!(["a.b/2"])));
        case.maps().merge("a", json!({ "metadata": { "finalizers": null } })).await.is(200);
    }

    async fn a_strategic_patch_of_a_custom_object_is_refused(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        widgets.strategic("a", json!({})).await.refused(415, "UnsupportedMediaType")
            .says("accepted media types include: application/json-patch+json, application/merge-patch+json");
    }

    async fn a_patch_of_an_unknown_type_is_refused(case) {
        case.maps().make("a", json!({})).await;
        let path = format!("{}/a", case.maps().base);
        for media in ["application/json", "text/plain", ""] {
            case.send("PATCH", &path, media, "{}").await.refused(415, "UnsupportedMediaType");
        }
    }

    async fn server_side_apply_is_the_one_thing_that_is_missing(case) {
        let path = format!("{}/a?fieldManager=me", case.maps().base);
        let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }).to_string();
        let answer = case.send("PATCH", &path, "application/apply-patch+yaml", body).await;
        if case.is_embedded() {
            answer.refused(415, "UnsupportedMediaType").says("server-side apply is not supported by the embedded API");
        } else {
            answer.is(201);
        }
    }

    async fn a_dry_run_of_a_patch_shows_what_would_be(case) {
        case.maps().make("a", json!({ "data": { "k": "1" } })).await;
        let shown = case.maps().merge("a?dryRun=All", json!({ "data": { "k": "2" } })).await.is(200);
        assert_eq!(shown["data"]["k"], "2");
        assert_eq!(case.maps().get("a").await.is(200)["data"]["k"], "1");
    }
}
