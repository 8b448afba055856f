//! Optimistic concurrency.

use serde_json::json;

use crate::case::{cases, version};

cases! {
    async fn a_name_is_taken_once(case) {
        case.maps().make("a", json!({})).await;
        let refused = case.maps().create(json!({ "metadata": { "name": "a" } })).await.refused(409, "AlreadyExists");
        assert_eq!(refused.0["message"], "configmaps \"a\" already exists");
        assert_eq!(refused.0["details"], json!({ "name": "a", "kind": "configmaps" }));
    }

    async fn a_name_of_a_custom_kind_is_taken_once(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        let refused = widgets.create(json!({ "metadata": { "name": "a" } })).await.refused(409, "AlreadyExists");
        assert_eq!(refused.0["details"]["group"], case.group.as_str());
        refused.says(&format!("widgets.{} \"a\" already exists", case.group));
    }

    async fn every_write_has_a_version_of_its_own(case) {
        let first = case.maps().make("a", json!({ "data": { "k": "1" } })).await;
        let second = case.maps().merge("a", json!({ "data": { "k": "2" } })).await.is(200);
        assert_ne!(version(&first), version(&second));
        assert_eq!(version(&case.maps().get("a").await.is(200)), version(&second));
    }

    async fn a_write_without_a_difference_keeps_the_version(case) {
        let first = case.maps().make("a", json!({ "data": { "k": "1" } })).await;
        let second = case.maps().merge("a", json!({ "data": { "k": "1" } })).await.is(200);
        assert_eq!(version(&first), version(&second));
        let third = case.maps().put("a", first.clone()).await.is(200);
        assert_eq!(version(&first), version(&third));
    }

    async fn a_replacement_of_a_stale_version_is_a_conflict(case) {
        let first = case.maps().make("a", json!({})).await;
        case.maps().merge("a", json!({ "data": { "k": "1" } })).await.is(200);
        let refused = case.maps().put("a", first).await.refused(409, "Conflict");
        assert_eq!(refused.0["message"], "Operation cannot be fulfilled on configmaps \"a\": the object has been \
            modified; please apply your changes to the latest version and try again");
        assert_eq!(refused.0["details"], json!({ "name": "a", "kind": "configmaps" }));
    }

    async fn a_replacement_of_the_newest_version_is_taken(case) {
        case.maps().make("a", json!({})).await;
        let mut newest = case.maps().merge("a", json!({ "data": { "k": "1" } })).await.is(200);
        newest["data"]["k"] = "2".into();
        assert_eq!(case.maps().put("a", newest).await.is(200)["data"]["k"], "2");
    }

    async fn a_config_map_may_be_replaced_without_a_version(case) {
        case.maps().make("a", json!({ "data": { "k": "1" } })).await;
        let replaced = case.maps().put("a", json!({ "metadata": { "name": "a" }, "data": { "l": "2" } })).await.is(200);
        assert_eq!(replaced["data"], json!({ "l": "2" }));
    }

    async fn a_custom_object_may_not_be_replaced_without_a_version(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        widgets.put("a", json!({ "metadata": { "name": "a" } })).await.refused(422, "Invalid")
            .cause("FieldValueInvalid", "metadata.resourceVersion")
            .says("must be specified for an update");
    }

    async fn a_lease_may_not_be_replaced_without_a_version(case) {
        case.leases().make("a", json!({ "spec": {} })).await;
        case.leases().put("a", json!({ "metadata": { "name": "a" }, "spec": {} })).await.refused(422, "Invalid")
            .cause("FieldValueInvalid", "metadata.resourceVersion");
    }

    async fn a_patch_with_a_stale_version_is_a_conflict(case) {
        let first = case.maps().make("a", json!({})).await;
        case.maps().merge("a", json!({ "data": { "k": "1" } })).await.is(200);
        let patch = json!({ "metadata": { "resourceVersion": version(&first) }, "data": { "k": "2" } });
        case.maps().merge("a", patch).await.refused(409, "Conflict");
    }

    async fn a_patch_with_the_newest_version_is_taken(case) {
        let first = case.maps().make("a", json!({})).await;
        let patch = json!({ "metadata": { "resourceVersion": version(&first) }, "data": { "k": "2" } });
        case.maps().merge("a", patch).await.is(200);
    }

    async fn a_patch_cannot_change_the_uid(case) {
        case.maps().make("a", json!({})).await;
        let patch = json!({ "metadata": { "uid": "11111111-2222-3333-4444-555555555555" }, "data": { "k": "2" } });
        case.maps().merge("a", patch).await.refused(422, "Invalid").cause("FieldValueInvalid", "metadata.uid");
    }

    async fn a_replacement_with_another_uid_is_a_conflict(case) {
        let widgets = case.widgets().await;
        let mut made = widgets.make("a", json!({})).await;
        made["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555".into();
        widgets.put("a", made).await.refused(409, "Conflict").says("Precondition failed: UID in precondition");
    }

    async fn racing_patches_lose_no_change(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        let tag = |n: usize| json!({ "spec": { "tags": { format!("k{n}"): "v" } } });
        let patches = (0..20).map(|n| widgets.merge("a", tag(n)));
        let mut taken = 0;
        for answer in futures::future::join_all(patches).await {
            // The real server gives up after some lost races.
            assert!(matches!(answer.code, 200 | 409), "{}", answer.text);
            taken += usize::from(answer.code == 200);
        }
        assert!(taken > 0);
        assert_eq!(widgets.get("a").await.is(200)["spec"]["tags"].as_object().unwrap().len(), taken);
    }

    async fn a_status_patch_with_a_stale_version_is_a_conflict(case) {
        let widgets = case.widgets().await;
        let first = widgets.make("a", json!({})).await;
        widgets.merge("a", json!({ "spec": { "size": 1 } })).await.is(200);
        let patch = json!({ "metadata": { "resourceVersion": version(&first) }, "status": { "note": "x" } });
        widgets.merge("a/status", patch).await.refused(409, "Conflict");
    }

    async fn a_new_object_may_not_bring_a_version(case) {
        let refused = case.maps().create(json!({ "metadata": { "name": "a", "resourceVersion": "1" } })).await;
        refused.refused(500, "").says("resourceVersion should not be set on objects to be created");
    }
}
