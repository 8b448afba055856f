//! Label and field selectors.

use serde_json::json;

use crate::case::{Case, cases};

async fn labelled(case: &Case) {
    for (name, labels) in [
        ("a", json!({ "app": "web", "tier": "1" })),
        ("b", json!({ "app": "api", "tier": "2" })),
        ("c", json!({ "app": "web" })),
        ("d", json!({ "example.com/role": "x", "empty": "" })),
    ] {
        case.maps().make(name, json!({ "metadata": { "labels": labels } })).await;
    }
}

async fn select(case: &Case, selector: &str) -> String {
    let encoded = percent_encoding::utf8_percent_encode(selector, percent_encoding::NON_ALPHANUMERIC);
    case.maps().names(&format!("labelSelector={encoded}")).await.concat()
}

async fn refuse(case: &Case, parameter: &str, selector: &str) {
    let encoded = percent_encoding::utf8_percent_encode(selector, percent_encoding::NON_ALPHANUMERIC);
    case.maps().list(&format!("{parameter}={encoded}")).await.refused(400, "BadRequest");
}

cases! {
    async fn labels_are_selected_by_equality(case) {
        labelled(&case).await;
        assert_eq!(select(&case, "app=web").await, "ac");
        assert_eq!(select(&case, "app==web").await, "ac");
        assert_eq!(select(&case, "app=web,tier=1").await, "a");
        assert_eq!(select(&case, "example.com/role=x").await, "d");
        assert_eq!(select(&case, "empty=").await, "d");
        assert_eq!(select(&case, "app=none").await, "");
    }

    async fn a_missing_label_is_unequal_to_all(case) {
        labelled(&case).await;
        assert_eq!(select(&case, "app!=web").await, "bd");
        assert_eq!(select(&case, "app notin (web)").await, "bd");
    }

    async fn labels_are_selected_by_sets(case) {
        labelled(&case).await;
        assert_eq!(select(&case, "app in (web,api)").await, "abc");
        assert_eq!(select(&case, "app in (api), tier in (1, 2)").await, "b");
        assert_eq!(select(&case, "tier notin (1,2)").await, "cd");
    }

    async fn labels_are_selected_by_presence(case) {
        labelled(&case).await;
        assert_eq!(select(&case, "tier").await, "ab");
        assert_eq!(select(&case, "!tier").await, "cd");
        assert_eq!(select(&case, "app,!tier").await, "c");
    }

    async fn labels_are_selected_by_number(case) {
        labelled(&case).await;
        assert_eq!(select(&case, "tier>1").await, "b");
        assert_eq!(select(&case, "tier<2").await, "a");
    }

    async fn a_broken_label_selector_is_refused(case) {
        refuse(&case, "labelSelector", "app in web").await;
        refuse(&case, "labelSelector", "app in (web").await;
        refuse(&case, "labelSelector", "a b c").await;
        refuse(&case, "labelSelector", "=x").await;
    }

    async fn a_label_selector_with_an_impossible_key_or_value_is_refused(case) {
        refuse(&case, "labelSelector", "-bad=x").await;
        refuse(&case, "labelSelector", "app=!!").await;
        refuse(&case, "labelSelector", "tier>x").await;
    }

    async fn names_and_namespaces_are_selected_as_fields(case) {
        labelled(&case).await;
        assert_eq!(case.maps().names("fieldSelector=metadata.name%3Db").await, ["b"]);
        assert_eq!(case.maps().names("fieldSelector=metadata.name!%3Db").await, ["a", "c", "d"]);
        let query = format!("fieldSelector=metadata.namespace%3D{}", case.namespace);
        assert_eq!(case.maps().names(&query).await.len(), 4);
        assert_eq!(case.maps().names("fieldSelector=metadata.namespace%3Dother").await.len(), 0);
    }

    async fn an_unknown_field_is_refused(case) {
        refuse(&case, "fieldSelector", "data.k=v").await;
        refuse(&case, "fieldSelector", "metadata.uid=v").await;
    }

    async fn a_broken_field_selector_is_refused(case) {
        refuse(&case, "fieldSelector", "metadata.name").await;
    }

    async fn selectable_fields_select(case) {
        let widgets = case.widgets().await;
        for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
            widgets.make(name, json!({ "spec": { "color": color } })).await;
        }
        widgets.make("d", json!({})).await;
        assert_eq!(widgets.names("fieldSelector=spec.color%3Dred").await, ["a", "c"]);
        assert_eq!(widgets.names("fieldSelector=spec.color!%3Dred").await, ["b", "d"]);
        assert_eq!(widgets.names("fieldSelector=spec.color%3D").await, ["d"], "a missing field is empty");
        assert_eq!(widgets.names("fieldSelector=spec.color%3Dred,metadata.name%3Dc").await, ["c"]);
        widgets.merge("a", json!({ "spec": { "color": "blue" } })).await.is(200);
        assert_eq!(widgets.names("fieldSelector=spec.color%3Dblue").await, ["a", "b"]);
    }

    async fn fields_that_are_not_selectable_are_refused(case) {
        let widgets = case.widgets().await;
        widgets.list("fieldSelector=spec.size%3D1").await.refused(400, "BadRequest")
            .says("field label not supported: spec.size");
    }

    async fn secrets_are_selected_by_type(case) {
        case.secrets().make("a", json!({ "type": "example.com/x" })).await;
        case.secrets().make("b", json!({})).await;
        assert_eq!(case.secrets().names("fieldSelector=type%3Dexample.com/x").await, ["a"]);
        assert_eq!(case.secrets().names("fieldSelector=type%3DOpaque").await, ["b"]);
    }

    async fn namespaces_are_selected_by_phase(case) {
        let query = format!("fieldSelector=status.phase%3DActive,metadata.name%3D{}", case.namespace);
        assert_eq!(case.namespaces().names(&query).await, [case.namespace.as_str()]);
        let query = format!("fieldSelector=status.phase%3DTerminating,metadata.name%3D{}", case.namespace);
        assert_eq!(case.namespaces().names(&query).await.len(), 0);
    }

    async fn namespaces_carry_their_name_as_a_label(case) {
        let query = format!("labelSelector=kubernetes.io/metadata.name%3D{}", case.namespace);
        assert_eq!(case.namespaces().names(&query).await, [case.namespace.as_str()]);
    }
}
