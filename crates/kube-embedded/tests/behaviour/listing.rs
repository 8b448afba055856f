//! Lists: order, versions, pages, forms of answer.

use http::Request;
use kube::client::Body;
use serde_json::{Value, json};

use crate::case::{Kind, cases, names, version};

async fn many(kind: &Kind, count: usize) {
    for n in 0..count {
        kind.make(&format!("m{n:02}"), json!({})).await;
    }
}

fn token(list: &Value) -> String {
    let token = list["metadata"]["continue"].as_str().unwrap_or_default();
    percent_encoding::utf8_percent_encode(token, percent_encoding::NON_ALPHANUMERIC).to_string()
}

cases! {
    async fn a_list_has_the_kind_of_a_list(case) {
        let list = case.maps().list("").await.is(200);
        assert_eq!((&list["kind"], &list["apiVersion"], &list["items"]), (&json!("ConfigMapList"), &json!("v1"), &json!([])));
        assert!(!version(&list).is_empty());
        let list = case.widgets().await.list("").await.is(200);
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("WidgetList"), &json!(format!("{}/v1", case.group))));
    }

    async fn a_list_is_sorted_by_name(case) {
        for name in ["c", "a", "b"] {
            case.maps().make(name, json!({})).await;
        }
        assert_eq!(case.maps().names("").await, ["a", "b", "c"]);
    }

    async fn a_list_shows_what_was_written_before_it(case) {
        let widgets = case.widgets().await;
        for n in 0..5 {
            widgets.make(&format!("w{n}"), json!({})).await;
            assert_eq!(widgets.names("").await.len(), n + 1);
        }
        widgets.delete("w0").await.is(200);
        assert_eq!(widgets.names("").await.len(), 4);
    }

    async fn a_list_is_at_least_as_new_as_the_version_asked_for(case) {
        let made = case.maps().make("a", json!({})).await;
        assert_eq!(case.maps().names(&format!("resourceVersion={}", version(&made))).await, ["a"]);
        let query = format!("resourceVersion={}&resourceVersionMatch=NotOlderThan", version(&made));
        assert_eq!(case.maps().names(&query).await, ["a"]);
    }

    async fn an_exact_list_shows_the_past(case) {
        case.maps().make("a", json!({ "data": { "k": "1" } })).await;
        let list = case.maps().list("").await.is(200);
        case.maps().merge("a", json!({ "data": { "k": "2" } })).await.is(200);
        case.maps().make("b", json!({})).await;
        let query = format!("resourceVersion={}&resourceVersionMatch=Exact", version(&list));
        let past = case.maps().list(&query).await.is(200);
        assert_eq!((names(&past), &past["items"][0]["data"]["k"]), (vec!["a".to_owned()], &json!("1")));
        assert_eq!(version(&past), version(&list));
    }

    async fn pages_follow_one_another(case) {
        many(&case.maps(), 5).await;
        let first = case.maps().list("limit=2").await.is(200);
        assert_eq!(names(&first), ["m00", "m01"]);
        assert_eq!(first["metadata"]["remainingItemCount"], 3);
        let second = case.maps().list(&format!("limit=2&continue={}", token(&first))).await.is(200);
        assert_eq!((names(&second), &second["metadata"]["remainingItemCount"]), (vec!["m02".into(), "m03".into()], &json!(1)));
        let third = case.maps().list(&format!("limit=2&continue={}", token(&second))).await.is(200);
        assert_eq!(names(&third), ["m04"]);
        assert_eq!(third["metadata"].get("continue"), None);
        assert_eq!(third["metadata"].get("remainingItemCount"), None);
    }

    async fn all_pages_show_the_moment_of_the_first(case) {
        many(&case.maps(), 4).await;
        let first = case.maps().list("limit=2").await.is(200);
        case.maps().delete("m03").await.is(200);
        case.maps().make("m021", json!({})).await;
        case.maps().merge("m02", json!({ "data": { "k": "v" } })).await.is(200);
        let second = case.maps().list(&format!("limit=2&continue={}", token(&first))).await.is(200);
        assert_eq!(names(&second), ["m02", "m03"]);
        assert_eq!(second["items"][0].get("data"), None);
        assert_eq!(version(&second), version(&first));
    }

    async fn a_page_that_holds_all_has_no_token(case) {
        many(&case.maps(), 2).await;
        let list = case.maps().list("limit=2").await.is(200);
        assert_eq!(list["metadata"].get("continue"), None);
    }

    async fn the_rest_may_come_without_a_limit(case) {
        many(&case.maps(), 5).await;
        let first = case.maps().list("limit=1").await.is(200);
        let rest = case.maps().list(&format!("continue={}", token(&first))).await.is(200);
        assert_eq!(names(&rest).len(), 4);
    }

    async fn a_selected_page_does_not_tell_how_many_remain(case) {
        for n in 0..4 {
            case.maps().make(&format!("m{n}"), json!({ "metadata": { "labels": { "a": "b" } } })).await;
        }
        let first = case.maps().list("limit=2&labelSelector=a%3Db").await.is(200);
        assert_eq!(first["metadata"].get("remainingItemCount"), None);
        assert!(!token(&first).is_empty());
    }

    async fn a_broken_token_is_refused(case) {
        case.maps().list("limit=2&continue=nonsense").await.refused(400, "BadRequest").says("continue key is not valid");
    }

    async fn a_token_takes_no_version_beside_it(case) {
        many(&case.maps(), 3).await;
        let first = case.maps().list("limit=1").await.is(200);
        let query = format!("limit=1&continue={}&resourceVersion={}", token(&first), version(&first));
        case.maps().list(&query).await.refused(400, "BadRequest")
            .says("specifying resource version is not allowed when using continue");
    }

    async fn a_version_match_needs_a_version(case) {
        case.maps().list("resourceVersionMatch=Exact").await.refused(422, "Invalid")
            .cause("FieldValueForbidden", "resourceVersionMatch");
    }

    async fn an_exact_version_zero_is_refused(case) {
        case.maps().list("resourceVersion=0&resourceVersionMatch=Exact").await.refused(422, "Invalid")
            .cause("FieldValueForbidden", "resourceVersionMatch");
    }

    async fn an_unknown_version_match_is_refused(case) {
        case.maps().list("resourceVersion=1&resourceVersionMatch=Nearly").await.refused(422, "Invalid")
            .cause("FieldValueNotSupported", "resourceVersionMatch");
    }

    async fn a_version_match_takes_no_token_beside_it(case) {
        case.maps().list("resourceVersionMatch=Exact&continue=abc").await.refused(422, "Invalid")
            .cause("FieldValueForbidden", "resourceVersionMatch");
    }

    async fn a_list_from_the_future_is_refused(case) {
        let answer = case.maps().list("resourceVersion=9000000000000000000").await;
        answer.refused(504, "Timeout").says("Too large resource version")
            .cause("ResourceVersionTooLarge", "");
    }

    async fn a_limit_must_be_a_number(case) {
        case.maps().list("limit=many").await.refused(400, "BadRequest");
    }

    async fn lists_span_namespaces(case) {
        let other = format!("{}-x", case.namespace);
        case.namespaces().create(json!({ "metadata": { "name": other } })).await.is(201);
        let label = json!({ "metadata": { "labels": { "of": case.namespace } } });
        case.maps().make("a", label.clone()).await;
        let there = case.maps().at(&format!("/{}/", case.namespace), &format!("/{other}/"));
        there.make("b", label).await;
        let everywhere = case.maps().at(&format!("/namespaces/{}", case.namespace), "");
        let query = format!("labelSelector=of%3D{}", case.namespace);
        // By the paths of the objects: `x-x/` comes before `x/`.
        assert_eq!(everywhere.names(&query).await, ["b", "a"]);
        assert_eq!(case.maps().names(&query).await, ["a"]);
        case.namespaces().delete(&other).await;
    }

    async fn metadata_can_be_listed_alone(case) {
        case.maps().make("a", json!({ "data": { "k": "v" } })).await;
        let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let request = Request::get(&case.maps().base).header("accept", accept).body(Body::empty()).unwrap();
        let list = case.send_request(request).await.is(200);
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1")));
        let item = &list["items"][0];
        assert_eq!((&item["metadata"]["name"], item.get("data")), (&json!("a"), None));
    }

    async fn metadata_can_be_read_alone(case) {
        case.maps().make("a", json!({ "data": { "k": "v" } })).await;
        let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let path = format!("{}/a", case.maps().base);
        let request = Request::get(path).header("accept", accept).body(Body::empty()).unwrap();
        let found = case.send_request(request).await.is(200);
        assert_eq!((&found["kind"], found.get("data")), (&json!("PartialObjectMetadata"), None));
    }

    async fn tables_show_the_columns_of_a_kind(case) {
        let mut crd = case.widget_crd();
        crd["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
            { "name": "Color", "type": "string", "jsonPath": ".spec.color" },
            { "name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1, "description": "How large" },
        ]);
        let widgets = case.define(crd).await;
        widgets.make("a", json!({ "spec": { "color": "red", "size": 4 } })).await;
        widgets.make("b", json!({})).await;
        let accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let request = Request::get(&widgets.base).header("accept", accept).body(Body::empty()).unwrap();
        let table = case.send_request(request).await.is(200);
        let columns: Vec<&str> =
            table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
        assert_eq!(columns, ["Name", "Color", "Size"]);
        assert_eq!(table["columnDefinitions"][2]["priority"], 1);
        assert_eq!(table["rows"][0]["cells"], json!(["a", "red", 4]));
        assert_eq!(table["rows"][1]["cells"], json!(["b", null, null]));
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    }

    async fn tables_of_kinds_without_columns_show_the_age(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        let accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let request = Request::get(&widgets.base).header("accept", accept).body(Body::empty()).unwrap();
        let table = case.send_request(request).await.is(200);
        assert_eq!(table["columnDefinitions"][1]["name"], "Age");
    }

    async fn an_answer_can_be_yaml(case) {
        case.maps().make("a", json!({})).await;
        let path = format!("{}/a", case.maps().base);
        let request = Request::get(path).header("accept", "application/yaml").body(Body::empty()).unwrap();
        let answer = case.send_request(request).await;
        assert_eq!((answer.code, answer.headers["content-type"].to_str().unwrap()), (200, "application/yaml"));
        assert!(answer.text.contains("kind: ConfigMap\n"), "{}", answer.text);
    }

    async fn an_answer_in_an_unknown_form_is_refused(case) {
        let request = Request::get(&case.maps().base).header("accept", "text/html").body(Body::empty()).unwrap();
        case.send_request(request).await.refused(406, "NotAcceptable");
    }
}
