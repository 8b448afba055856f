//! Input that makes no sense.

use serde_json::json;

use crate::case::cases;

cases! {
    async fn broken_json_is_refused(case) {
        for body in ["{", "{\"metadata\":}", "nonsense", "{} trailing"] {
            case.send("POST", &case.maps().base, "application/json", body).await.refused(400, "BadRequest");
        }
    }

    async fn broken_yaml_is_refused(case) {
        for body in ["a: b: c", "{", "\t- x"] {
            case.send("POST", &case.maps().base, "application/yaml", body).await.refused(400, "BadRequest");
        }
    }

    async fn an_empty_body_is_refused(case) {
        case.send("POST", &case.maps().base, "application/json", "").await.refused(400, "BadRequest");
    }

    async fn a_body_that_is_no_object_is_refused(case) {
        for body in ["[]", "5", "\"text\""] {
            case.send("POST", &case.maps().base, "application/json", body).await.refused(400, "BadRequest");
        }
    }

    async fn broken_input_for_a_custom_kind_is_refused(case) {
        let widgets = case.widgets().await;
        for body in ["{", "[]", "", "{\"metadata\":{\"name\":\"a\"}}"] {
            case.send("POST", &widgets.base, "application/json", body).await.refused(400, "BadRequest");
        }
    }

    async fn yaml_is_taken(case) {
        let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: |\n    v\n";
        let made = case.send("POST", &case.maps().base, "application/yaml", body).await.is(201);
        assert_eq!(made["data"]["k"], "v\n");
    }

    async fn an_unknown_content_type_is_refused(case) {
        for media in ["text/plain", "application/xml", "application/x-www-form-urlencoded"] {
            case.send("POST", &case.maps().base, media, "{}").await.refused(415, "UnsupportedMediaType");
        }
    }

    async fn no_content_type_is_taken_for_json(case) {
        let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }).to_string();
        case.send("POST", &case.maps().base, "", body).await.is(201);
    }

    async fn a_content_type_may_have_parameters(case) {
        let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }).to_string();
        case.send("POST", &case.maps().base, "application/json; charset=utf-8", body).await.is(201);
    }

    async fn a_body_beyond_three_mebibytes_is_refused(case) {
        let data = "x".repeat(3 * 1024 * 1024);
        let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "k": data } });
        case.send("POST", &case.maps().base, "application/json", body.to_string()).await
            .refused(413, "RequestEntityTooLarge");
    }

    async fn a_patch_beyond_three_mebibytes_is_refused(case) {
        case.maps().make("a", json!({})).await;
        let patch = json!({ "data": { "k": "x".repeat(3 * 1024 * 1024) } });
        case.maps().merge("a", patch).await.refused(413, "RequestEntityTooLarge");
    }

    async fn names_that_are_no_dns_names_are_refused(case) {
        for name in ["A", "a_b", "-a", "a-", ".a", "a..b", "ä", "a b"] {
            case.maps().create(json!({ "metadata": { "name": name } })).await.refused(422, "Invalid")
                .cause("FieldValueInvalid", "metadata.name");
        }
        let long = "x".repeat(254);
        case.maps().create(json!({ "metadata": { "name": long } })).await.refused(422, "Invalid")
            .cause("FieldValueInvalid", "metadata.name");
        case.maps().make(&"x".repeat(253), json!({})).await;
        case.maps().make("a.b-c.1", json!({})).await;
    }

    async fn custom_objects_have_dns_names_too(case) {
        let widgets = case.widgets().await;
        widgets.create(json!({ "metadata": { "name": "A_b" } })).await.refused(422, "Invalid")
            .cause("FieldValueInvalid", "metadata.name");
    }

    async fn an_impossible_prefix_is_refused(case) {
        case.maps().create(json!({ "metadata": { "generateName": "A_" } })).await.refused(422, "Invalid");
    }

    async fn another_kind_is_refused(case) {
        case.maps().create(json!({ "kind": "Secret", "metadata": { "name": "a" } })).await.refused(400, "BadRequest");
        let widgets = case.widgets().await;
        widgets.create(json!({ "kind": "Gadget", "metadata": { "name": "a" } })).await.refused(422, "Invalid")
            .cause("FieldValueInvalid", "kind").says("must be Widget");
    }

    async fn another_version_is_refused(case) {
        case.maps().create(json!({ "apiVersion": "v2", "metadata": { "name": "a" } })).await.refused(400, "BadRequest");
        let widgets = case.widgets().await;
        widgets.create(json!({ "apiVersion": "other.example.com/v1", "metadata": { "name": "a" } })).await
            .refused(400, "BadRequest");
    }

    async fn another_name_in_a_replacement_is_refused(case) {
        let mut made = case.maps().make("a", json!({})).await;
        made["metadata"]["name"] = "b".into();
        case.maps().put("a", made).await.refused(400, "BadRequest")
            .says("the name of the object (b) does not match the name on the URL (a)");
    }

    async fn metadata_of_the_wrong_type_is_refused(case) {
        for metadata in [json!("text"), json!({ "name": 5 }), json!({ "name": "a", "labels": { "k": 1 } }),
            json!({ "name": "a", "finalizers": "x" })] {
            case.maps().create(json!({ "metadata": metadata })).await.refused(400, "BadRequest");
        }
    }

    async fn metadata_of_custom_objects_is_checked_as_strictly(case) {
        let widgets = case.widgets().await;
        for metadata in [json!({ "name": 5 }), json!({ "name": "a", "labels": { "k": 1 } })] {
            widgets.create(json!({ "metadata": metadata })).await.refused(400, "BadRequest");
        }
    }

    async fn unknown_paths_are_not_found(case) {
        for path in ["/apis/none.example.com/v1/things", "/api/v1/things", "/api/v9", "/apis/none.example.com", "/nonsense"] {
            let answer = case.send("GET", path, "", "").await;
            assert_eq!(answer.code, 404, "{path}: {}", answer.text);
        }
        let path = format!("/api/v1/namespaces/{}/things/a", case.namespace);
        case.send("GET", &path, "", "").await.refused(404, "NotFound")
            .says("the server could not find the requested resource");
    }

    async fn unknown_subresources_are_not_found(case) {
        case.maps().make("a", json!({})).await;
        for sub in ["status", "scale", "nonsense"] {
            case.maps().get(&format!("a/{sub}")).await.refused(404, "NotFound");
        }
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        widgets.get("a/nonsense").await.refused(404, "NotFound");
    }

    async fn methods_that_make_no_sense_are_refused(case) {
        case.maps().make("a", json!({})).await;
        let (base, one) = (case.maps().base, format!("{}/a", case.maps().base));
        case.send("POST", &one, "application/json", "{}").await.refused(405, "MethodNotAllowed");
        case.send("PUT", &base, "application/json", "{}").await.refused(405, "MethodNotAllowed");
        case.send("PATCH", &base, "application/merge-patch+json", "{}").await.refused(405, "MethodNotAllowed");
    }

    async fn broken_patches_are_refused(case) {
        case.maps().make("a", json!({})).await;
        let path = format!("{}/a", case.maps().base);
        case.send("PATCH", &path, "application/merge-patch+json", "{").await.refused(400, "BadRequest");
        case.send("PATCH", &path, "application/json-patch+json", "[{").await.refused(400, "BadRequest");
        case.send("PATCH", &path, "application/strategic-merge-patch+json", "{").await.refused(400, "BadRequest");
    }

    async fn broken_delete_options_are_refused(case) {
        case.maps().make("a", json!({})).await;
        let path = format!("{}/a", case.maps().base);
        case.send("DELETE", &path, "application/json", "{").await.refused(400, "BadRequest");
        case.maps().get("a").await.is(200);
    }

    async fn a_list_from_a_version_that_is_no_number_is_refused(case) {
        let answer = case.maps().list("resourceVersion=abc").await;
        answer.refused(400, "BadRequest").says("invalid resource version");
    }

    async fn a_token_of_another_list_shows_nothing_of_it(case) {
        for name in ["a", "b", "c"] {
            case.maps().make(name, json!({})).await;
            case.secrets().make(name, json!({})).await;
        }
        let first = case.maps().list("limit=1").await.is(200);
        let token = first["metadata"]["continue"].as_str().unwrap();
        let answer = case.secrets().list(&format!("limit=1&continue={token}")).await;
        // The real server's tokens hold a key and no kind: it goes on behind the same name in the other list.
        assert_eq!(answer.is(200)["kind"], "SecretList");
    }

    async fn what_the_server_wrote_stays(case) {
        for kind in [case.widgets().await, case.maps()] {
            let made = kind.make("a", json!({})).await;
            let metadata = json!({
                "selfLink": "/x", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 77,
            });
            let patched = kind.merge("a", json!({ "metadata": metadata })).await.is(200);
            for field in ["selfLink", "creationTimestamp", "generation", "uid", "resourceVersion"] {
                assert_eq!(patched["metadata"].get(field), made["metadata"].get(field), "{field}");
            }
            let removed = json!({ "metadata": { "creationTimestamp": null, "uid": null, "generation": null } });
            let patched = kind.merge("a", removed).await.is(200);
            assert_eq!(patched["metadata"], made["metadata"]);
        }
    }

    async fn the_prefix_of_a_name_can_be_changed(case) {
        for kind in [case.widgets().await, case.maps()] {
            kind.make("a", json!({})).await;
            let patched = kind.merge("a", json!({ "metadata": { "generateName": "x-" } })).await.is(200);
            assert_eq!((&patched["metadata"]["name"], &patched["metadata"]["generateName"]), (&json!("a"), &json!("x-")));
        }
    }

    async fn the_grace_of_a_deletion_cannot_be_set(case) {
        case.maps().make("a", json!({})).await;
        let patch = json!({ "metadata": { "deletionGracePeriodSeconds": 9 } });
        let refused = case.maps().merge("a", patch).await.refused(422, "Invalid");
        refused.cause("FieldValueInvalid", "metadata.deletionGracePeriodSeconds");
    }

    async fn an_object_that_is_too_large_to_store_is_refused(case) {
        let widgets = case.widgets_with(json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })).await;
        let with = |bytes: usize| json!({ "metadata": { "name": "a" }, "spec": { "text": "x".repeat(bytes) } });
        widgets.create(with(1_700_000)).await.refused(500, "").says("request is too large");
        widgets.create(with(1_500_000)).await.is(201);
        widgets.merge("a", json!({ "spec": { "more": "x".repeat(200_000) } })).await.refused(500, "").says("request is too large");
        assert_eq!(widgets.get("a").await.is(200)["spec"].get("more"), None);
    }

    async fn one_object_can_be_asked_for_no_version_of_the_future(case) {
        let widgets = case.widgets().await;
        for kind in [widgets, case.maps()] {
            let version = kind.make("a", json!({})).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            for past in ["0", "1", &version] {
                kind.get(&format!("a?resourceVersion={past}")).await.is(200);
            }
            for name in ["a", "absent"] {
                let future = kind.get(&format!("{name}?resourceVersion=900000000")).await;
                future.refused(504, "Timeout").says("Too large resource version: 900000000").cause("ResourceVersionTooLarge", "");
                kind.get(&format!("{name}?resourceVersion=x")).await.refused(500, "").says("strconv.ParseUint");
            }
        }
    }

    async fn numbers_in_a_query_are_numbers(case) {
        case.maps().make("a", json!({})).await;
        for query in ["limit=x", "timeoutSeconds=x", "limit=1.5", "watch=true&timeoutSeconds=x"] {
            case.maps().list(query).await.refused(400, "BadRequest").says("strconv.ParseInt");
        }
        assert_eq!(case.maps().names("limit=-1").await, case.maps().names("").await);
    }

    async fn whatever_is_not_false_is_true(case) {
        case.maps().make("a", json!({})).await;
        for no in ["", "watch=false", "watch=0", "watch=False"] {
            assert_eq!(case.maps().list(no).await.is(200)["kind"], "ConfigMapList", "{no}");
        }
        for yes in ["watch=", "watch=maybe", "watch=1"] {
            let answer = case.maps().list(&format!("{yes}&timeoutSeconds=1")).await;
            assert!(answer.text.starts_with("{\"type\":\"ADDED\""), "{yes}: {}", answer.text);
        }
    }

    async fn a_finalizer_of_a_built_in_kind_has_a_domain(case) {
        for (finalizer, code) in [("abc", 422), ("example.com/abc", 201), ("orphan", 201)] {
            let name = format!("a-{code}-{}", finalizer.len());
            let made = case.maps().create(json!({ "metadata": { "name": name, "finalizers": [finalizer] } })).await;
            if code == 201 {
                made.is(201);
                case.maps().merge(&name, json!({ "metadata": { "finalizers": null } })).await.is(200);
            } else {
                made.refused(422, "Invalid").cause("FieldValueInvalid", "metadata.finalizers[0]");
            }
        }
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "metadata": { "finalizers": ["abc"] } })).await;
        widgets.merge("a", json!({ "metadata": { "finalizers": null } })).await.is(200);
    }

    async fn dependents_are_spoken_of_once(case) {
        case.maps().make("a", json!({})).await;
        let both = json!({ "propagationPolicy": "Orphan", "orphanDependents": true });
        case.maps().delete_with("a", both).await.refused(422, "Invalid").cause("FieldValueInvalid", "propagationPolicy");
        case.maps().get("a").await.is(200);
    }

    async fn an_object_in_a_namespace_is_not_found_without_it(case) {
        for method in ["GET", "DELETE"] {
            case.send(method, "/api/v1/configmaps/a", "", "").await.refused(404, "NotFound");
        }
    }

    async fn the_version_is_told(case) {
        let version = case.send("GET", "/version", "", "").await.is(200);
        assert_eq!(version["major"], "1");
        assert!(version["gitVersion"].as_str().unwrap().starts_with("v1."));
        for path in ["/readyz", "/livez", "/healthz"] {
            let answer = case.send("GET", path, "", "").await;
            assert_eq!((answer.code, answer.text.as_str()), (200, "ok"), "{path}");
        }
    }

    async fn openapi_tells_of_every_group(case) {
        let index = case.send("GET", "/openapi/v3", "", "").await.is(200);
        let url = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
        let document = case.send("GET", &url, "", "").await.is(200);
        let map = document["components"]["schemas"]["io.k8s.api.core.v1.ConfigMap"].clone();
        assert_eq!(map["x-kubernetes-group-version-kind"][0]["kind"], "ConfigMap");
        assert_eq!(map["properties"]["data"]["type"], "object");
    }
}
