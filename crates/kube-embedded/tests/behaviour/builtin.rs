//! Namespaces, config maps, secrets, leases, events, reviews.

use serde_json::{Value, json};

use crate::case::{cases, until};

fn event(case: &crate::case::Case, name: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": case.namespace },
        "involvedObject": { "kind": "ConfigMap", "namespace": case.namespace, "name": "a", "apiVersion": "v1" },
        "reason": "Done", "message": "It is done", "type": "Normal", "source": { "component": "tests" }, "count": 1,
    })
}

cases! {
    async fn a_namespace_is_active(case) {
        let found = case.namespaces().get(&case.namespace).await.is(200);
        assert_eq!(found["status"]["phase"], "Active");
        assert_eq!(found["spec"]["finalizers"], json!(["kubernetes"]));
        assert_eq!(found["metadata"]["labels"]["kubernetes.io/metadata.name"], case.namespace.as_str());
    }

    async fn a_namespace_is_named_by_a_label(case) {
        case.namespaces().create(json!({ "metadata": { "name": "a.b" } })).await.refused(422, "Invalid")
            .cause("FieldValueInvalid", "metadata.name");
    }

    async fn nothing_is_created_where_no_namespace_is(case) {
        let nowhere = case.maps().at(&case.namespace, "nowhere-at-all");
        let refused = nowhere.create(json!({ "metadata": { "name": "a" } })).await.refused(404, "NotFound");
        assert_eq!(refused.0["message"], "namespaces \"nowhere-at-all\" not found");
        assert_eq!(nowhere.names("").await.len(), 0, "a list of nothing is no error");
        nowhere.get("a").await.refused(404, "NotFound").says("configmaps \"a\" not found");
    }

    async fn the_body_and_the_path_name_the_same_namespace(case) {
        let object = json!({ "metadata": { "name": "a", "namespace": "default" } });
        case.maps().create(object).await.refused(400, "BadRequest")
            .says("the namespace of the provided object does not match the namespace sent on the request");
    }

    async fn a_namespace_goes_with_all_that_is_in_it(case) {
        let name = format!("{}-x", case.namespace);
        case.namespaces().create(json!({ "metadata": { "name": name } })).await.is(201);
        let there = case.maps().at(&format!("/{}/", case.namespace), &format!("/{name}/"));
        there.make("a", json!({})).await;
        let answer = case.namespaces().delete(&name).await.is(200);
        if answer["kind"] == "Namespace" {
            assert_eq!(answer["status"]["phase"], "Terminating");
        }
        case.namespaces().gone(&name).await;
        there.get("a").await.refused(404, "NotFound");
    }

    async fn nothing_is_created_in_a_namespace_that_goes(case) {
        let name = format!("{}-x", case.namespace);
        case.namespaces().create(json!({ "metadata": { "name": name } })).await.is(201);
        let there = case.maps().at(&format!("/{}/", case.namespace), &format!("/{name}/"));
        there.make("held", json!({ "metadata": { "finalizers": ["x.y/1"] } })).await;
        case.namespaces().delete(&name).await.is(200);
        let refused = there.create(json!({ "metadata": { "name": "new" } })).await.refused(403, "Forbidden");
        refused.cause("NamespaceTerminating", "metadata.namespace")
            .says(&format!("unable to create new content in namespace {name} because it is being terminated"));
        until("the content is being deleted", async || {
            there.get("held").await.body["metadata"]["deletionTimestamp"].is_string()
        }).await;
        there.merge("held", json!({ "metadata": { "finalizers": null } })).await.is(200);
        case.namespaces().gone(&name).await;
    }

    async fn the_namespaces_of_the_system_stay(case) {
        for name in ["default", "kube-system"] {
            case.namespaces().delete(name).await.refused(403, "Forbidden").says("this namespace may not be deleted");
        }
    }

    async fn an_immutable_config_map_stays_as_it_is(case) {
        case.maps().make("a", json!({ "data": { "k": "v" }, "immutable": true })).await;
        case.maps().merge("a", json!({ "data": { "k": "w" } })).await.refused(422, "Invalid")
            .cause("FieldValueForbidden", "data");
        case.maps().merge("a", json!({ "immutable": false })).await.refused(422, "Invalid")
            .cause("FieldValueForbidden", "immutable");
        case.maps().merge("a", json!({ "metadata": { "labels": { "x": "y" } } })).await.is(200);
        case.maps().delete("a").await.is(200);
    }

    async fn the_keys_of_a_config_map_are_file_names(case) {
        for key in ["a b", "a/b", ""] {
            let object = json!({ "metadata": { "name": "a" }, "data": { key: "v" } });
            case.maps().create(object).await.refused(422, "Invalid").cause("FieldValueInvalid", &format!("data[{key}]"));
        }
    }

    async fn the_values_of_a_config_map_are_texts(case) {
        case.maps().create(json!({ "metadata": { "name": "a" }, "data": { "k": 1 } })).await.refused(400, "BadRequest");
        case.maps().create(json!({ "metadata": { "name": "a" }, "data": "text" })).await.refused(400, "BadRequest");
    }

    async fn a_config_map_holds_a_mebibyte(case) {
        let object = json!({ "metadata": { "name": "a" }, "data": { "k": "x".repeat(1024 * 1024 + 1) } });
        case.maps().create(object).await.refused(422, "Invalid").cause("FieldValueTooLong", "[]");
    }

    async fn a_secret_takes_plain_texts(case) {
        let made = case.secrets().make("a", json!({ "stringData": { "k": "value" }, "data": { "l": "YQ==" } })).await;
        assert_eq!(made["data"], json!({ "k": "dmFsdWU=", "l": "YQ==" }));
        assert_eq!((made.get("stringData"), &made["type"]), (None, &json!("Opaque")));
    }

    async fn the_values_of_a_secret_are_base64(case) {
        case.secrets().create(json!({ "metadata": { "name": "a" }, "data": { "k": "*" } })).await.refused(400, "BadRequest");
    }

    async fn the_type_of_a_secret_stays(case) {
        case.secrets().make("a", json!({ "type": "example.com/x" })).await;
        case.secrets().merge("a", json!({ "type": "example.com/y" })).await.refused(422, "Invalid")
            .cause("FieldValueInvalid", "type");
    }

    async fn an_immutable_secret_stays_as_it_is(case) {
        case.secrets().make("a", json!({ "data": { "k": "YQ==" }, "immutable": true })).await;
        case.secrets().merge("a", json!({ "data": { "k": "Yg==" } })).await.refused(422, "Invalid")
            .cause("FieldValueForbidden", "data");
    }

    async fn a_registry_secret_holds_its_file(case) {
        let object = json!({ "metadata": { "name": "a" }, "type": "kubernetes.io/dockerconfigjson" });
        case.secrets().create(object).await.refused(422, "Invalid")
            .cause("FieldValueRequired", "data[.dockerconfigjson]");
        let object = json!({ "metadata": { "name": "a" }, "type": "kubernetes.io/dockerconfigjson",
            "stringData": { ".dockerconfigjson": "no json" } });
        case.secrets().create(object).await.refused(422, "Invalid").cause("FieldValueInvalid", "data[.dockerconfigjson]");
        case.secrets().make("a", json!({ "type": "kubernetes.io/dockerconfigjson",
            "stringData": { ".dockerconfigjson": "{\"auths\":{}}" } })).await;
    }

    async fn a_tls_secret_holds_key_and_certificate(case) {
        let object = json!({ "metadata": { "name": "a" }, "type": "kubernetes.io/tls", "data": { "tls.crt": "" } });
        case.secrets().create(object).await.refused(422, "Invalid").cause("FieldValueRequired", "data[tls.key]");
        case.secrets().make("a", json!({ "type": "kubernetes.io/tls", "data": { "tls.crt": "", "tls.key": "" } })).await;
    }

    async fn a_basic_auth_secret_holds_a_name_or_a_password(case) {
        let object = json!({ "metadata": { "name": "a" }, "type": "kubernetes.io/basic-auth" });
        case.secrets().create(object).await.refused(422, "Invalid").cause("FieldValueRequired", "data[username]");
        case.secrets().make("a", json!({ "type": "kubernetes.io/basic-auth", "stringData": { "username": "x" } })).await;
    }

    async fn a_lease_is_taken_over_with_its_version(case) {
        let spec = json!({ "holderIdentity": "a", "leaseDurationSeconds": 15, "acquireTime": "2030-01-01T00:00:00.000000Z",
            "renewTime": "2030-01-01T00:00:00.123456Z", "leaseTransitions": 0 });
        let mut made = case.leases().make("l", json!({ "spec": spec })).await;
        assert_eq!(made["spec"]["renewTime"], "2030-01-01T00:00:00.123456Z");
        let stale = made.clone();
        made["spec"]["holderIdentity"] = "b".into();
        case.leases().put("l", made).await.is(200);
        case.leases().put("l", stale).await.refused(409, "Conflict");
    }

    async fn a_lease_has_sound_numbers(case) {
        let object = json!({ "metadata": { "name": "l" }, "spec": { "leaseDurationSeconds": 0 } });
        case.leases().create(object).await.refused(422, "Invalid")
            .cause("FieldValueInvalid", "spec.leaseDurationSeconds");
        let object = json!({ "metadata": { "name": "l" }, "spec": { "leaseTransitions": -1 } });
        case.leases().create(object).await.refused(422, "Invalid").cause("FieldValueInvalid", "spec.leaseTransitions");
    }

    async fn a_lease_is_created_by_a_replacement(case) {
        let object = json!({ "metadata": { "name": "l" }, "spec": { "holderIdentity": "a" } });
        case.leases().put("l", object).await.is(201);
        assert_eq!(case.leases().get("l").await.is(200)["spec"]["holderIdentity"], "a");
    }

    async fn a_lease_that_is_gone_is_created_by_a_replacement_only_if_that_names_no_uid(case) {
        let mut made = case.leases().make("l", json!({ "spec": { "holderIdentity": "a" } })).await;
        case.leases().delete("l").await.is(200);
        case.leases().put("l", made.clone()).await.refused(409, "Conflict")
            .says("Precondition failed: UID in precondition");
        made["metadata"].as_object_mut().unwrap().remove("uid");
        case.leases().put("l", made).await.is(201);
    }

    async fn a_config_map_is_not_created_by_a_replacement(case) {
        case.maps().put("a", json!({ "metadata": { "name": "a" } })).await.refused(404, "NotFound");
        let widgets = case.widgets().await;
        widgets.put("a", json!({ "metadata": { "name": "a" } })).await.refused(404, "NotFound");
    }

    async fn an_event_shows_in_both_groups(case) {
        case.events().create(event(&case, "e")).await.is(201);
        let modern = case.new_events().get("e").await.is(200);
        assert_eq!((&modern["apiVersion"], &modern["note"]), (&json!("events.k8s.io/v1"), &json!("It is done")));
        assert_eq!((&modern["regarding"]["name"], &modern["deprecatedCount"]), (&json!("a"), &json!(1)));
        assert_eq!(modern["deprecatedSource"]["component"], "tests");
    }

    async fn a_modern_event_shows_in_both_groups(case) {
        case.new_events().create(json!({
            "metadata": { "name": "e" }, "eventTime": "2030-01-01T00:00:00.000000Z", "reportingController": "example.com/c",
            "reportingInstance": "c-1", "action": "Doing", "reason": "Done", "type": "Normal", "note": "It is done",
            "regarding": { "kind": "ConfigMap", "namespace": case.namespace, "name": "a", "apiVersion": "v1" },
        })).await.is(201);
        let core = case.events().get("e").await.is(200);
        assert_eq!((&core["message"], &core["reportingComponent"]), (&json!("It is done"), &json!("example.com/c")));
        assert_eq!(core["involvedObject"]["name"], "a");
    }

    async fn a_modern_event_says_who_reports_what(case) {
        let answer = case.new_events().create(json!({
            "metadata": { "name": "e" }, "eventTime": "2030-01-01T00:00:00.000000Z", "type": "Normal",
            "regarding": { "kind": "ConfigMap", "namespace": case.namespace, "name": "a", "apiVersion": "v1" },
        })).await;
        let refused = answer.refused(422, "Invalid");
        for field in ["reportingController", "reportingInstance", "action", "reason"] {
            let causes = refused.0["details"]["causes"].as_array().unwrap();
            assert!(causes.iter().any(|c| c["field"] == field), "{field}: {}", refused.0);
        }
    }

    async fn an_event_is_about_an_object_of_its_namespace(case) {
        let mut wrong = event(&case, "e");
        wrong["involvedObject"]["namespace"] = "default".into();
        case.events().create(wrong).await.refused(422, "Invalid").cause("FieldValueInvalid", "involvedObject.namespace");
    }

    async fn events_are_selected_by_what_they_are_about(case) {
        case.events().create(event(&case, "e1")).await.is(201);
        let mut other = event(&case, "e2");
        other["involvedObject"]["name"] = "b".into();
        other["reason"] = "Undone".into();
        case.events().create(other).await.is(201);
        assert_eq!(case.events().names("fieldSelector=involvedObject.name%3Db").await, ["e2"]);
        assert_eq!(case.events().names("fieldSelector=involvedObject.kind%3DConfigMap,reason%3DDone").await, ["e1"]);
        assert_eq!(case.events().names("fieldSelector=source%3Dtests,type%3DNormal").await, ["e1", "e2"]);
        assert_eq!(case.new_events().names("fieldSelector=regarding.name%3Da").await, ["e1"]);
    }

    async fn an_event_counts_up(case) {
        case.events().create(event(&case, "e")).await.is(201);
        let patched = case.events().merge("e", json!({ "count": 2, "lastTimestamp": "2030-01-01T00:00:00Z" })).await;
        assert_eq!(patched.is(200)["count"], 2);
    }

    async fn one_may_ask_what_one_may_do(case) {
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let review = |spec: Value| json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec,
        }).to_string();
        let attributes = json!({ "resourceAttributes": { "verb": "get", "resource": "configmaps", "namespace": case.namespace } });
        let answer = case.send("POST", path, "application/json", review(attributes)).await.is(201);
        assert_eq!(answer["status"]["allowed"], true);
        case.send("POST", path, "application/json", review(json!({}))).await.refused(422, "Invalid");
        case.send("GET", path, "", "").await.refused(405, "MethodNotAllowed");
    }

    async fn one_may_ask_who_one_is(case) {
        let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" }).to_string();
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let answer = case.send("POST", path, "application/json", body).await.is(201);
        assert!(answer["status"]["userInfo"]["username"].is_string(), "{answer}");
    }
}
