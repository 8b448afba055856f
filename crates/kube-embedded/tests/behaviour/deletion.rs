//! Finalizers, and deletions with preconditions.

use serde_json::json;

use crate::case::{cases, version};

cases! {
    async fn a_deletion_of_a_config_map_answers_success(case) {
        let made = case.maps().make("a", json!({})).await;
        let status = case.maps().delete("a").await.is(200);
        assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
        assert_eq!(status["details"], json!({ "name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"] }));
        case.maps().get("a").await.refused(404, "NotFound");
    }

    async fn a_deletion_of_a_custom_object_answers_success(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        let status = widgets.delete("a").await.is(200);
        assert_eq!(status["status"], "Success");
        assert_eq!(status["details"]["group"], case.group.as_str());
    }

    async fn what_is_absent_cannot_be_deleted(case) {
        let refused = case.maps().delete("a").await.refused(404, "NotFound");
        assert_eq!(refused.0["message"], "configmaps \"a\" not found");
    }

    async fn finalizers_hold_an_object(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "metadata": { "finalizers": ["x.y/1", "x.y/2"] } })).await;
        let marked = widgets.delete("a").await.is(200);
        assert_eq!(marked["kind"], "Widget");
        assert!(marked["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
        widgets.merge("a", json!({ "metadata": { "finalizers": ["x.y/2"] } })).await.is(200);
        widgets.get("a").await.is(200);
        widgets.merge("a", json!({ "metadata": { "finalizers": [] } })).await.is(200);
        widgets.get("a").await.refused(404, "NotFound");
    }

    async fn a_second_deletion_changes_nothing(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "metadata": { "finalizers": ["x.y/1"] } })).await;
        let first = widgets.delete("a").await.is(200);
        let second = widgets.delete("a").await.is(200);
        assert_eq!(version(&first), version(&second));
        widgets.merge("a", json!({ "metadata": { "finalizers": null } })).await.is(200);
    }

    async fn no_finalizer_is_added_to_what_is_being_deleted(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "metadata": { "finalizers": ["x.y/1"] } })).await;
        widgets.delete("a").await.is(200);
        let patch = json!({ "metadata": { "finalizers": ["x.y/1", "x.y/2"] } });
        widgets.merge("a", patch).await.refused(422, "Invalid")
            .cause("FieldValueForbidden", "metadata.finalizers")
            .says("no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x.y/2\"}");
        widgets.merge("a", json!({ "metadata": { "finalizers": null } })).await.is(200);
    }

    async fn the_spec_may_change_while_finalizers_hold(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "metadata": { "finalizers": ["x.y/1"] } })).await;
        widgets.delete("a").await.is(200);
        assert_eq!(widgets.merge("a", json!({ "spec": { "size": 4 } })).await.is(200)["spec"]["size"], 4);
        widgets.merge("a/status", json!({ "status": { "note": "going" } })).await.is(200);
        widgets.merge("a", json!({ "metadata": { "finalizers": null } })).await.is(200);
    }

    async fn a_deletion_mark_cannot_be_taken_back(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "metadata": { "finalizers": ["x.y/1"] } })).await;
        widgets.delete("a").await.is(200);
        let patched = widgets.merge("a", json!({ "metadata": { "deletionTimestamp": null } })).await.is(200);
        assert!(patched["metadata"]["deletionTimestamp"].is_string());
        widgets.merge("a", json!({ "metadata": { "finalizers": null } })).await.is(200);
    }

    async fn a_name_is_held_until_the_last_finalizer_is_gone(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "metadata": { "finalizers": ["x.y/1"] } })).await;
        widgets.delete("a").await.is(200);
        widgets.create(json!({ "metadata": { "name": "a" } })).await.refused(409, "AlreadyExists");
        widgets.merge("a", json!({ "metadata": { "finalizers": null } })).await.is(200);
        widgets.make("a", json!({})).await;
    }

    async fn a_successor_has_another_uid(case) {
        let first = case.maps().make("a", json!({})).await;
        case.maps().delete("a").await.is(200);
        let second = case.maps().make("a", json!({})).await;
        assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    }

    async fn a_deletion_with_the_wrong_uid_is_a_conflict(case) {
        case.maps().make("a", json!({})).await;
        let options = json!({ "preconditions": { "uid": "11111111-2222-3333-4444-555555555555" } });
        case.maps().delete_with("a", options).await.refused(409, "Conflict")
            .says("the UID in the precondition (11111111-2222-3333-4444-555555555555) does not match the UID in record");
    }

    async fn a_deletion_with_the_right_uid_is_done(case) {
        let made = case.maps().make("a", json!({})).await;
        case.maps().delete_with("a", json!({ "preconditions": { "uid": made["metadata"]["uid"] } })).await.is(200);
    }

    async fn a_deletion_with_a_stale_version_is_a_conflict(case) {
        let made = case.maps().make("a", json!({})).await;
        case.maps().merge("a", json!({ "data": { "k": "v" } })).await.is(200);
        let options = json!({ "preconditions": { "resourceVersion": version(&made) } });
        case.maps().delete_with("a", options).await.refused(409, "Conflict")
            .says("the ResourceVersion in the precondition");
    }

    async fn a_deletion_with_the_newest_version_is_done(case) {
        let made = case.maps().make("a", json!({})).await;
        let options = json!({ "preconditions": { "resourceVersion": version(&made) } });
        case.maps().delete_with("a", options).await.is(200);
    }

    async fn a_dry_run_of_a_deletion_leaves_the_object(case) {
        case.maps().make("a", json!({})).await;
        case.maps().delete_with("a", json!({ "dryRun": ["All"] })).await.is(200);
        case.maps().delete("a?dryRun=All").await.is(200);
        case.maps().get("a").await.is(200);
    }

    async fn an_unknown_propagation_policy_is_refused(case) {
        case.maps().make("a", json!({})).await;
        case.maps().delete_with("a", json!({ "propagationPolicy": "Sideways" })).await.refused(422, "Invalid")
            .says("propagationPolicy: Unsupported value");
    }

    async fn a_collection_is_deleted_by_selector(case) {
        for (name, team) in [("a", "x"), ("b", "x"), ("c", "y")] {
            case.maps().make(name, json!({ "metadata": { "labels": { "team": team } } })).await;
        }
        case.maps().delete_all("labelSelector=team%3Dx").await.is(200);
        assert_eq!(case.maps().names("labelSelector=team").await, ["c"]);
    }

    async fn a_collection_of_custom_objects_waits_for_finalizers(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        widgets.make("b", json!({ "metadata": { "finalizers": ["x.y/1"] } })).await;
        widgets.delete_all("").await.is(200);
        assert_eq!(widgets.names("").await, ["b"]);
        widgets.merge("b", json!({ "metadata": { "finalizers": null } })).await.is(200);
    }

    async fn all_namespaces_at_once_cannot_be_deleted(case) {
        case.namespaces().delete_all("").await.refused(405, "MethodNotAllowed");
    }

    async fn finalizers_have_qualified_names(case) {
        let widgets = case.widgets().await;
        let answer = widgets.create(json!({ "metadata": { "name": "a", "finalizers": ["-bad"] } })).await;
        answer.refused(422, "Invalid").cause("FieldValueInvalid", "metadata.finalizers");
    }
}
