//! Watches: order, resume, bookmarks, selection, ends.

use serde_json::{Value, json};

use crate::case::{cases, version};

/// A number behind every version that the server gave out.
const FUTURE: &str = "9000000000000000000";

cases! {
    async fn a_watch_without_a_version_begins_with_what_is_there(case) {
        case.maps().make("a", json!({})).await;
        case.maps().make("b", json!({})).await;
        let mut watch = case.maps().watch("").await;
        assert_eq!(watch.line().await, "ADDED a");
        assert_eq!(watch.line().await, "ADDED b");
        case.maps().make("c", json!({})).await;
        assert_eq!(watch.line().await, "ADDED c");
    }

    async fn a_watch_from_zero_begins_with_what_is_there(case) {
        case.maps().make("a", json!({})).await;
        let mut watch = case.maps().watch("resourceVersion=0").await;
        assert_eq!(watch.line().await, "ADDED a");
    }

    async fn a_watch_from_a_list_shows_what_comes_after_it(case) {
        case.maps().make("a", json!({})).await;
        let list = case.maps().list("").await.is(200);
        let mut watch = case.maps().watch(&format!("resourceVersion={}", version(&list))).await;
        case.maps().merge("a", json!({ "data": { "k": "v" } })).await.is(200);
        case.maps().delete("a").await.is(200);
        assert_eq!(watch.line().await, "MODIFIED a");
        assert_eq!(watch.line().await, "DELETED a");
    }

    async fn changes_come_in_the_order_of_their_versions(case) {
        let widgets = case.widgets().await;
        let list = widgets.list("").await.is(200);
        for n in 0..10 {
            widgets.make(&format!("w{n}"), json!({})).await;
        }
        for n in (0..10).rev() {
            widgets.merge(&format!("w{n}"), json!({ "spec": { "size": n } })).await.is(200);
        }
        let mut watch = widgets.watch(&format!("resourceVersion={}", version(&list))).await;
        let mut lines = Vec::new();
        for _ in 0..20 {
            lines.push(watch.line().await);
        }
        let wanted: Vec<String> =
            (0..10).map(|n| format!("ADDED w{n}")).chain((0..10).rev().map(|n| format!("MODIFIED w{n}"))).collect();
        assert_eq!(lines, wanted);
    }

    async fn a_watch_resumes_where_the_last_one_stood(case) {
        case.maps().make("a", json!({})).await;
        let list = case.maps().list("").await.is(200);
        let mut first = case.maps().watch(&format!("resourceVersion={}", version(&list))).await;
        case.maps().make("b", json!({})).await;
        let seen = first.next().await.unwrap();
        drop(first);
        case.maps().make("c", json!({})).await;
        case.maps().delete("b").await.is(200);
        let mut second = case.maps().watch(&format!("resourceVersion={}", version(&seen["object"]))).await;
        assert_eq!(second.line().await, "ADDED c");
        assert_eq!(second.line().await, "DELETED b");
    }

    async fn a_deletion_event_has_a_version_of_its_own(case) {
        let made = case.maps().make("a", json!({ "data": { "k": "v" } })).await;
        let mut watch = case.maps().watch(&format!("resourceVersion={}", version(&made))).await;
        case.maps().delete("a").await.is(200);
        let event = watch.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["data"]["k"]), (&json!("DELETED"), &json!("v")));
        assert_ne!(version(&event["object"]), version(&made));
    }

    async fn a_deletion_that_waits_is_a_modification_first(case) {
        let widgets = case.widgets().await;
        let made = widgets.make("a", json!({ "metadata": { "finalizers": ["x.y/1"] } })).await;
        let mut watch = widgets.watch(&format!("resourceVersion={}", version(&made))).await;
        widgets.delete("a").await.is(200);
        widgets.merge("a", json!({ "metadata": { "finalizers": null } })).await.is(200);
        let marked = watch.next().await.unwrap();
        assert_eq!(marked["type"], "MODIFIED");
        assert!(marked["object"]["metadata"]["deletionTimestamp"].is_string());
        let gone = watch.next().await.unwrap();
        assert_eq!(gone["type"], "DELETED");
        assert_eq!(gone["object"]["metadata"]["finalizers"], json!(["x.y/1"]), "the last state that was stored");
    }

    async fn a_watch_of_one_name_shows_it_alone(case) {
        let mut watch = case.maps().watch("fieldSelector=metadata.name%3Db").await;
        case.maps().make("a", json!({})).await;
        case.maps().make("b", json!({})).await;
        assert_eq!(watch.line().await, "ADDED b");
    }

    async fn what_enters_a_selection_is_added_and_what_leaves_is_deleted(case) {
        let made = case.maps().make("a", json!({})).await;
        let query = format!("labelSelector=team%3Dx&resourceVersion={}", version(&made));
        let mut watch = case.maps().watch(&query).await;
        let label = |team: Value| json!({ "metadata": { "labels": { "team": team } } });
        case.maps().merge("a", label("x".into())).await.is(200);
        case.maps().merge("a", json!({ "data": { "k": "v" } })).await.is(200);
        let left = case.maps().merge("a", label("y".into())).await.is(200);
        assert_eq!(watch.line().await, "ADDED a");
        assert_eq!(watch.line().await, "MODIFIED a");
        let event = watch.next().await.unwrap();
        assert_eq!(event["type"], "DELETED");
        assert_eq!(event["object"]["metadata"]["labels"]["team"], "x", "the last state in the selection");
        assert_eq!(version(&event["object"]), version(&left), "at the version of the change");
    }

    async fn what_never_was_in_a_selection_is_not_shown(case) {
        let made = case.maps().make("a", json!({})).await;
        let query = format!("labelSelector=team%3Dx&resourceVersion={}", version(&made));
        let mut watch = case.maps().watch(&query).await;
        case.maps().merge("a", json!({ "data": { "k": "v" } })).await.is(200);
        case.maps().delete("a").await.is(200);
        case.maps().make("b", json!({ "metadata": { "labels": { "team": "x" } } })).await;
        assert_eq!(watch.line().await, "ADDED b");
    }

    async fn a_watch_by_a_selectable_field_follows_the_field(case) {
        let widgets = case.widgets().await;
        let list = widgets.list("").await.is(200);
        let query = format!("fieldSelector=spec.color%3Dred&resourceVersion={}", version(&list));
        let mut watch = widgets.watch(&query).await;
        widgets.make("a", json!({ "spec": { "color": "blue" } })).await;
        widgets.merge("a", json!({ "spec": { "color": "red" } })).await.is(200);
        widgets.merge("a", json!({ "spec": { "color": "green" } })).await.is(200);
        assert_eq!(watch.line().await, "ADDED a");
        assert_eq!(watch.line().await, "DELETED a");
    }

    async fn a_watch_ends_after_its_timeout(case) {
        let mut watch = case.maps().watch("timeoutSeconds=1").await;
        while watch.next().await.is_some() {}
    }

    async fn initial_events_end_with_an_annotated_bookmark(case) {
        case.maps().make("a", json!({})).await;
        let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let mut watch = case.maps().watch(query).await;
        let first = watch.next().await.unwrap();
        assert_eq!((&first["type"], &first["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("a")));
        let bookmark = watch.next().await.unwrap();
        assert_eq!(bookmark["type"], "BOOKMARK");
        assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
        assert_eq!(bookmark["object"]["kind"], "ConfigMap");
        case.maps().make("b", json!({})).await;
        assert_eq!(watch.line().await, "ADDED b");
    }

    async fn a_bookmark_comes_before_the_end_of_a_watch(case) {
        let from = version(&case.maps().make("a", json!({})).await);
        let query = format!("resourceVersion={from}&allowWatchBookmarks=true&timeoutSeconds=12");
        let mut watch = case.maps().watch(&query).await;
        case.maps().make("between", json!({})).await;
        let mut bookmark = None;
        while let Some(event) = watch.next().await {
            bookmark = Some(event["object"].clone()).filter(|_| event["type"] == "BOOKMARK").or(bookmark);
        }
        let bookmark = bookmark.expect("a bookmark");
        assert_eq!(bookmark["kind"], "ConfigMap");
        assert!(version(&bookmark).parse::<u64>().unwrap() > from.parse().unwrap());
        assert_eq!(bookmark["metadata"].get("annotations"), None);
        // It is a place to go on from.
        case.maps().make("b", json!({})).await;
        let query = format!("resourceVersion={}&timeoutSeconds=4", version(&bookmark));
        let mut watch = case.maps().watch(&query).await;
        assert_eq!(watch.line().await, "ADDED b");
        // Nobody asked for one here.
        assert_eq!(watch.next().await, None);
    }

    async fn a_watch_from_before_the_kind_was_there_is_too_old(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        let mut watch = widgets.watch("resourceVersion=1&timeoutSeconds=30").await;
        let event = watch.next().await.expect("an event");
        assert_eq!(event["type"], "ERROR");
        let status = &event["object"];
        assert_eq!((&status["kind"], &status["code"], &status["reason"]), (&json!("Status"), &json!(410), &json!("Expired")));
        assert!(status["message"].as_str().unwrap().starts_with("too old resource version: 1 ("), "{status}");
        assert_eq!(watch.next().await, None);
    }

    async fn initial_events_need_a_version_match(case) {
        let query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true";
        case.maps().list(query).await.refused(422, "Invalid").cause("FieldValueForbidden", "resourceVersionMatch");
    }

    async fn a_list_takes_no_initial_events(case) {
        let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        case.maps().list(query).await.refused(422, "Invalid").cause("FieldValueForbidden", "sendInitialEvents");
    }

    async fn a_version_match_needs_initial_events_in_a_watch(case) {
        let query = "watch=true&resourceVersion=1&resourceVersionMatch=NotOlderThan";
        case.maps().list(query).await.refused(422, "Invalid").cause("FieldValueForbidden", "resourceVersionMatch");
    }

    async fn a_watch_from_a_version_that_is_no_number_is_refused(case) {
        case.maps().list("watch=true&resourceVersion=abc").await.refused(500, "")
            .says("resourceVersion: Invalid value: \"abc\"");
    }

    async fn a_watch_from_the_future_shows_nothing(case) {
        case.maps().make("a", json!({})).await;
        let answer = case.maps().list(&format!("watch=true&timeoutSeconds=2&resourceVersion={FUTURE}")).await;
        // The real server keeps the stream open and empty; the embedded one says so at once.
        if case.is_embedded() {
            answer.refused(504, "Timeout").cause("ResourceVersionTooLarge", "");
        } else {
            assert_eq!((answer.code, answer.text.as_str()), (200, ""));
        }
    }

    async fn a_watch_of_all_namespaces_shows_this_one_too(case) {
        let maps = case.maps();
        let made = maps.make("a", json!({})).await;
        let everywhere = maps.at(&format!("/namespaces/{}", case.namespace), "");
        let mut watch = everywhere.watch(&format!("resourceVersion={}", version(&made))).await;
        maps.make("mine", json!({})).await;
        loop {
            let event = watch.next().await.unwrap();
            if event["object"]["metadata"]["namespace"] == case.namespace.as_str() {
                assert_eq!(event["object"]["metadata"]["name"], "mine");
                break;
            }
        }
    }

    async fn watches_show_namespaces_and_definitions(case) {
        let list = case.namespaces().list("").await.is(200);
        let query = format!("resourceVersion={}&fieldSelector=metadata.name%3D{}", version(&list), case.namespace);
        let mut watch = case.namespaces().watch(&query).await;
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        case.namespaces().merge(&case.namespace, label).await.is(200);
        assert_eq!(watch.line().await, format!("MODIFIED {}", case.namespace));
        let mut crds = case.crds().watch(&format!("fieldSelector=metadata.name%3Dwidgets.{}", case.group)).await;
        case.widgets().await;
        assert_eq!(crds.line().await, format!("ADDED widgets.{}", case.group));
    }

    async fn a_dry_run_is_seen_by_no_watch(case) {
        let made = case.maps().make("a", json!({})).await;
        let mut watch = case.maps().watch(&format!("resourceVersion={}", version(&made))).await;
        case.maps().create_with("dryRun=All", json!({ "metadata": { "name": "b" } })).await.is(201);
        case.maps().merge("a?dryRun=All", json!({ "data": { "k": "v" } })).await.is(200);
        case.maps().make("c", json!({})).await;
        assert_eq!(watch.line().await, "ADDED c");
    }
}
