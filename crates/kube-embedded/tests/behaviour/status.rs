//! Generation, and the walls around the status.

use serde_json::{Value, json};

use crate::case::{cases, version};

fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

cases! {
    async fn generation_begins_at_one(case) {
        assert_eq!(generation(&case.widgets().await.make("a", json!({})).await), 1);
    }

    async fn generation_follows_the_spec(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "spec": { "size": 1 } })).await;
        assert_eq!(generation(&widgets.merge("a", json!({ "spec": { "size": 2 } })).await.is(200)), 2);
        assert_eq!(generation(&widgets.merge("a", json!({ "spec": { "size": 2 } })).await.is(200)), 2);
        assert_eq!(generation(&widgets.merge("a", json!({ "spec": { "size": 3 } })).await.is(200)), 3);
    }

    async fn generation_ignores_metadata(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        let patch = json!({ "metadata": { "labels": { "a": "b" }, "annotations": { "c": "d" }, "finalizers": ["e.f/g"] } });
        assert_eq!(generation(&widgets.merge("a", patch).await.is(200)), 1);
        widgets.merge("a", json!({ "metadata": { "finalizers": null } })).await.is(200);
    }

    async fn generation_ignores_the_status(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        let changed = widgets.merge("a/status", json!({ "status": { "note": "x", "observedGeneration": 1 } })).await;
        let changed = changed.is(200);
        assert_eq!((generation(&changed), &changed["status"]["observedGeneration"]), (1, &json!(1)));
    }

    async fn generation_is_not_the_clients(case) {
        let widgets = case.widgets().await;
        let made = widgets.make("a", json!({ "metadata": { "generation": 40 } })).await;
        assert_eq!(generation(&made), 1);
        assert_eq!(generation(&widgets.merge("a", json!({ "metadata": { "generation": 50 } })).await.is(200)), 1);
    }

    async fn generation_counts_a_deletion_that_waits(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "metadata": { "finalizers": ["e.f/g"] } })).await;
        widgets.delete("a").await.is(200);
        assert_eq!(generation(&widgets.get("a").await.is(200)), 2);
        widgets.merge("a", json!({ "metadata": { "finalizers": null } })).await.is(200);
    }

    async fn config_maps_have_no_generation(case) {
        case.maps().make("a", json!({})).await;
        let changed = case.maps().merge("a", json!({ "data": { "k": "v" } })).await.is(200);
        assert_eq!(changed["metadata"].get("generation"), None);
    }

    async fn a_new_object_has_no_status_yet(case) {
        let made = case.widgets().await.make("a", json!({ "status": { "note": "mine" } })).await;
        assert_eq!(made.get("status"), None);
    }

    async fn a_write_of_the_object_leaves_the_status(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        widgets.merge("a/status", json!({ "status": { "note": "kept" } })).await.is(200);
        let patch = json!({ "spec": { "size": 1 }, "status": { "note": "lost" } });
        assert_eq!(widgets.merge("a", patch).await.is(200)["status"]["note"], "kept");
        let mut object = widgets.get("a").await.is(200);
        object.as_object_mut().unwrap().remove("status");
        assert_eq!(widgets.put("a", object).await.is(200)["status"]["note"], "kept");
    }

    async fn a_write_of_the_status_leaves_the_object(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "size": 1 } })).await;
        let patch = json!({
            "metadata": { "labels": { "a": "c" }, "annotations": { "x": "y" } }, "spec": { "size": 2 },
            "status": { "note": "x" },
        });
        let changed = widgets.merge("a/status", patch).await.is(200);
        assert_eq!(changed["spec"]["size"], 1);
        assert_eq!(changed["metadata"]["labels"], json!({ "a": "b" }));
        assert_eq!(changed["metadata"].get("annotations"), None);
        assert_eq!(changed["status"]["note"], "x");
    }

    async fn a_status_can_be_replaced(case) {
        let widgets = case.widgets().await;
        let mut made = widgets.make("a", json!({ "spec": { "size": 1 } })).await;
        made["spec"]["size"] = 9.into();
        made["status"] = json!({ "note": "x" });
        let changed = widgets.put("a/status", made).await.is(200);
        assert_eq!((&changed["spec"]["size"], &changed["status"]["note"]), (&json!(1), &json!("x")));
    }

    async fn a_status_can_be_read_alone(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        let found = widgets.get("a/status").await.is(200);
        assert_eq!((&found["kind"], &found["metadata"]["name"]), (&json!("Widget"), &json!("a")));
    }

    async fn a_status_is_checked_and_pruned(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        widgets.merge("a/status", json!({ "status": { "note": 5 } })).await.refused(422, "Invalid")
            .cause("FieldValueTypeInvalid", "status.note");
        let changed = widgets.merge("a/status", json!({ "status": { "note": "x", "other": 1 } })).await.is(200);
        assert_eq!(changed["status"], json!({ "note": "x" }));
    }

    async fn a_status_without_a_difference_is_no_write(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        let first = widgets.merge("a/status", json!({ "status": { "note": "x" } })).await.is(200);
        let second = widgets.merge("a/status", json!({ "status": { "note": "x" } })).await.is(200);
        assert_eq!(version(&first), version(&second));
    }

    async fn a_kind_without_the_subresource_has_no_status_path(case) {
        let mut crd = case.widget_crd();
        crd["spec"]["versions"][0].as_object_mut().unwrap().remove("subresources");
        let widgets = case.define(crd).await;
        let made = widgets.make("a", json!({ "status": { "note": "mine" } })).await;
        assert_eq!(made["status"]["note"], "mine");
        widgets.get("a/status").await.refused(404, "NotFound");
        let changed = widgets.merge("a", json!({ "status": { "note": "yours" } })).await.is(200);
        assert_eq!((generation(&changed), &changed["status"]["note"]), (2, &json!("yours")));
    }

    async fn the_status_of_an_absent_object_is_not_found(case) {
        let widgets = case.widgets().await;
        widgets.merge("a/status", json!({ "status": { "note": "x" } })).await.refused(404, "NotFound");
    }

    async fn system_fields_are_kept_from_clients(case) {
        let widgets = case.widgets().await;
        let made = widgets.make("a", json!({ "metadata": {
            "uid": "11111111-2222-3333-4444-555555555555", "creationTimestamp": "2001-01-01T00:00:00Z",
        } })).await;
        assert_ne!(made["metadata"]["uid"], "11111111-2222-3333-4444-555555555555");
        assert_ne!(made["metadata"]["creationTimestamp"], "2001-01-01T00:00:00Z");
        let patch = json!({ "metadata": { "creationTimestamp": "2001-01-01T00:00:00Z" } });
        let patched = widgets.merge("a", patch).await.is(200);
        assert_eq!(patched["metadata"]["creationTimestamp"], made["metadata"]["creationTimestamp"]);
        let patch = json!({ "metadata": { "deletionTimestamp": "2001-01-01T00:00:00Z" } });
        widgets.merge("a", patch).await.refused(422, "Invalid").cause("FieldValueInvalid", "metadata.deletionTimestamp");
    }
}
