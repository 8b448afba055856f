//! What can be changed once it is stored, and what is said against other changes.

use serde_json::{Value, json};

use crate::support::{good_of, object, refusal, run};

/// Kind, fields that are set first, the patch that is refused, what is said.
pub type OnChange = (&'static str, Value, Value, &'static str);

pub fn on_change() -> Vec<OnChange> {
    let immutable = |field: &'static str, value: Value, says: &'static str| {
        ("RenderArtifact", json!({}), json!({ "spec": { field: value } }), says)
    };
    let binding =
        |patch: Value, says: &'static str| ("RenderBinding", json!({}), json!({ "spec": patch }), says);
    vec![
        (
            "Release",
            json!({ "uniqueName": "web" }),
            json!({ "spec": { "uniqueName": "other" } }),
            "spec.uniqueName: Invalid value: \"other\": spec.uniqueName cannot be changed once set: set it back, or create another Release",
        ),
        (
            "Release",
            json!({ "uniqueName": "web" }),
            json!({ "spec": { "uniqueName": null } }),
            "spec: Invalid value: spec.uniqueName cannot be removed once set: set it back, or create another Release",
        ),
        (
            "RenderTask",
            json!({}),
            json!({ "spec": { "tag": "v2" } }),
            "spec: Invalid value: spec is immutable: delete the RenderTask and create another one",
        ),
        (
            "RenderTask",
            json!({}),
            json!({ "spec": { "registryRef": { "name": "r" } } }),
            "spec: Invalid value: spec is immutable: delete the RenderTask and create another one",
        ),
        immutable(
            "baseURL",
            json!("other"),
            "spec.baseURL: Invalid value: \"other\": spec.baseURL is immutable: delete the RenderArtifact and let another one be created",
        ),
        immutable(
            "repository",
            json!("other"),
            "spec.repository: Invalid value: \"other\": spec.repository is immutable: delete the RenderArtifact and let another one be created",
        ),
        immutable(
            "tag",
            json!("other"),
            "spec.tag: Invalid value: \"other\": spec.tag is immutable: delete the RenderArtifact and let another one be created",
        ),
        binding(
            json!({ "renderArtifactRef": { "name": "other" } }),
            "spec.renderArtifactRef: Invalid value: spec.renderArtifactRef is immutable: delete the RenderBinding and create another one",
        ),
        binding(
            json!({ "ownerKind": "Other" }),
            "spec.ownerKind: Invalid value: \"Other\": spec.ownerKind is immutable: delete the RenderBinding and create another one",
        ),
        binding(
            json!({ "ownerName": "other" }),
            "spec.ownerName: Invalid value: \"other\": spec.ownerName is immutable: delete the RenderBinding and create another one",
        ),
        binding(
            json!({ "ownerNamespace": "other" }),
            "spec.ownerNamespace: Invalid value: \"other\": spec.ownerNamespace is immutable: delete the RenderBinding and create another one",
        ),
    ]
}

#[test]
fn what_cannot_be_changed_says_so_and_how_to_go_on() {
    run(async |api| {
        for (number, (kind, set, patch, says)) in on_change().into_iter().enumerate() {
            let (plural, mut spec) = good_of(kind);
            for (field, value) in set.as_object().unwrap() {
                spec[field] = value.clone();
            }
            let name = format!("change-{number}");
            api.create(plural, &object(kind, &name, &spec)).await.unwrap();
            let said = api.patch(plural, &name, &patch).await.expect_err(&format!("{kind} took {patch}"));
            assert_eq!(said, refusal(kind, &name, &[says]));
            let labelled = json!({ "metadata": { "labels": { "a": "b" } } });
            let taken = api.patch(plural, &name, &labelled).await;
            assert!(taken.is_ok(), "{kind} still takes other changes: {taken:?}");
        }
    });
}

#[test]
fn a_unique_name_may_be_set_later_and_a_registry_reference_may_move() {
    run(async |api| {
        for (kind, patch) in [
            ("Release", json!({ "spec": { "uniqueName": "web" } })),
            ("RenderArtifact", json!({ "spec": { "registryRef": { "name": "r" } } })),
            ("RenderBinding", json!({ "spec": { "registryRef": { "name": "r", "namespace": "n" } } })),
        ] {
            let (plural, spec) = good_of(kind);
            api.create(plural, &object(kind, "later", &spec)).await.unwrap();
            let taken = api.patch(plural, "later", &patch).await;
            assert!(taken.is_ok(), "{kind}: {taken:?}");
        }
    });
}

#[test]
fn a_unique_name_that_is_replaced_by_null_or_left_out_is_removed_too() {
    run(async |api| {
        let (plural, mut spec) = good_of("Release");
        spec["uniqueName"] = json!("web");
        let mut named = api.create(plural, &object("Release", "named", &spec)).await.unwrap();
        let said = "spec: Invalid value: spec.uniqueName cannot be removed once set: set it back, or create \
                    another Release";
        named["spec"]["uniqueName"] = Value::Null;
        let refused = api.replace(plural, "named", &named).await;
        assert_eq!(refused.unwrap_err(), refusal("Release", "named", &[said]));
        named["spec"].as_object_mut().unwrap().remove("uniqueName");
        let refused = api.replace(plural, "named", &named).await;
        assert_eq!(refused.unwrap_err(), refusal("Release", "named", &[said]));
    });
}
