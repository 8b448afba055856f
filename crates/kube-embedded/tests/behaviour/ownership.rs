//! Owners and their dependents.

use serde_json::{Value, json};

use crate::case::{Kind, cases, until};

fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"],
    })
}

async fn child(kind: &Kind, name: &str, owners: Vec<Value>) {
    kind.make(name, json!({ "metadata": { "ownerReferences": owners } })).await;
}

fn owners(object: &Value) -> usize {
    object["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len)
}

cases! {
    async fn dependents_go_with_their_owner(case) {
        let (maps, secrets) = (case.maps(), case.secrets());
        let parent = maps.make("parent", json!({})).await;
        child(&secrets, "child", vec![owner(&parent)]).await;
        let middle = secrets.get("child").await.is(200);
        child(&secrets, "grandchild", vec![owner(&middle)]).await;
        maps.delete("parent").await.is(200);
        secrets.gone("child").await;
        secrets.gone("grandchild").await;
    }

    async fn dependents_of_custom_objects_go_too(case) {
        let widgets = case.widgets().await;
        let parent = widgets.make("parent", json!({})).await;
        child(&widgets, "child", vec![owner(&parent)]).await;
        child(&case.maps(), "map", vec![owner(&parent)]).await;
        widgets.delete_with("parent", json!({ "propagationPolicy": "Background" })).await.is(200);
        widgets.gone("child").await;
        case.maps().gone("map").await;
    }

    async fn a_dependent_stays_while_one_owner_stays(case) {
        let maps = case.maps();
        let (a, b) = (maps.make("a", json!({})).await, maps.make("b", json!({})).await);
        child(&maps, "child", vec![owner(&a), owner(&b)]).await;
        maps.delete("a").await.is(200);
        until("the reference is gone", async || owners(&maps.get("child").await.is(200)) == 1).await;
        maps.delete("b").await.is(200);
        maps.gone("child").await;
    }

    async fn orphans_stay(case) {
        let maps = case.maps();
        let parent = maps.make("parent", json!({})).await;
        child(&maps, "child", vec![owner(&parent)]).await;
        maps.delete_with("parent", json!({ "propagationPolicy": "Orphan" })).await.is(200);
        maps.gone("parent").await;
        until("the reference is gone", async || owners(&maps.get("child").await.is(200)) == 0).await;
    }

    async fn an_owner_waits_in_the_foreground_for_dependents_that_block(case) {
        let maps = case.maps();
        let parent = maps.make("parent", json!({})).await;
        let mut blocking = owner(&parent);
        blocking["blockOwnerDeletion"] = true.into();
        maps.make("child", json!({ "metadata": { "ownerReferences": [blocking], "finalizers": ["x.y/1"] } })).await;
        // What a client created a moment ago must have reached the collector.
        until("the collector knows the child", async || {
            let marked = maps.delete_with("parent", json!({ "propagationPolicy": "Foreground" })).await;
            marked.code == 404 || maps.get("child").await.is(200)["metadata"]["deletionTimestamp"].is_string()
        }).await;
        let waiting = maps.get("parent").await.is(200);
        assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
        maps.merge("child", json!({ "metadata": { "finalizers": null } })).await.is(200);
        maps.gone("parent").await;
    }

    async fn an_owner_does_not_wait_for_dependents_that_do_not_block(case) {
        let maps = case.maps();
        let parent = maps.make("parent", json!({})).await;
        maps.make("child", json!({ "metadata": { "ownerReferences": [owner(&parent)], "finalizers": ["x.y/1"] } })).await;
        maps.delete_with("parent", json!({ "propagationPolicy": "Foreground" })).await.is(200);
        maps.gone("parent").await;
        maps.merge("child", json!({ "metadata": { "finalizers": null } })).await.is(200);
        maps.gone("child").await;
    }

    async fn an_owner_that_never_was_takes_its_dependent_along(case) {
        let maps = case.maps();
        let ghost = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "11111111-2222-3333-4444-555555555555" });
        child(&maps, "child", vec![ghost]).await;
        maps.gone("child").await;
    }

    async fn an_owner_reference_is_complete(case) {
        let maps = case.maps();
        for field in ["apiVersion", "kind", "name", "uid"] {
            let mut reference = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y" });
            reference[field] = "".into();
            let object = json!({ "metadata": { "name": "a", "ownerReferences": [reference] } });
            let refused = maps.create(object).await.refused(422, "Invalid");
            let causes = refused.0["details"]["causes"].to_string();
            assert!(causes.contains(&format!("metadata.ownerReferences[0].{field}"))
                || causes.contains("metadata.ownerReferences.") , "{field}: {causes}");
        }
    }

    async fn one_owner_controls(case) {
        let reference = |uid: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, "controller": true });
        let object = json!({ "metadata": { "name": "a", "ownerReferences": [reference("x"), reference("y")] } });
        case.maps().create(object).await.refused(422, "Invalid").cause("FieldValueInvalid", "metadata.ownerReferences")
            .says("Only one reference can have Controller set to true");
    }
}
