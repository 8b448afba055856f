//! CRDs: what is refused, what is served, and how they go.

use serde_json::{Value, json};

use crate::case::{Case, cases, holds_condition, until};

/// Changes a field of the widget CRD, creates it, and expects a cause.
async fn refused(case: &Case, change: impl FnOnce(&mut Value), reason: &str, field: &str) {
    let mut crd = case.widget_crd();
    change(&mut crd);
    case.crds().create(crd).await.refused(422, "Invalid").cause(reason, field);
}

fn schema(crd: &mut Value) -> &mut Value {
    &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// What is the same in all versions is named as if it stood above them.
const SCHEMA: &str = "spec.validation.openAPIV3Schema";

cases! {
    async fn a_definition_becomes_established(case) {
        case.widgets().await;
        let crd = case.crds().get(&format!("widgets.{}", case.group)).await.is(200);
        for wanted in ["NamesAccepted", "Established"] {
            assert!(holds_condition(&crd, wanted), "{wanted}: {crd}");
        }
        assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
        assert_eq!(crd["status"]["acceptedNames"]["plural"], "widgets");
    }

    async fn names_are_filled_in(case) {
        let mut crd = case.widget_crd();
        crd["spec"]["names"] = json!({ "plural": "widgets", "kind": "Widget" });
        let made = case.crds().create(crd).await.is(201);
        assert_eq!(made["spec"]["names"]["singular"], "widget");
        assert_eq!(made["spec"]["names"]["listKind"], "WidgetList");
        assert_eq!(made["spec"]["conversion"]["strategy"], "None");
    }

    async fn the_name_is_plural_and_group(case) {
        refused(&case, |c| c["metadata"]["name"] = "others.example.com".into(), "FieldValueInvalid", "metadata.name").await;
    }

    async fn a_scope_is_one_of_two(case) {
        refused(&case, |c| c["spec"]["scope"] = "Everywhere".into(), "FieldValueNotSupported", "spec.scope").await;
    }

    async fn exactly_one_version_is_stored(case) {
        refused(&case, |c| c["spec"]["versions"][0]["storage"] = false.into(), "FieldValueInvalid", "spec.versions").await;
    }

    async fn a_schema_is_needed(case) {
        refused(&case, |c| {
            c["spec"]["versions"][0].as_object_mut().unwrap().remove("schema");
        }, "FieldValueRequired", "spec.versions[0].schema.openAPIV3Schema").await;
    }

    async fn every_field_has_a_type(case) {
        refused(&case, |c| schema(c)["properties"]["spec"]["properties"]["size"] = json!({ "minimum": 1 }),
            "FieldValueRequired", &format!("{SCHEMA}.properties[spec].properties[size].type")).await;
    }

    async fn the_root_is_an_object(case) {
        refused(&case, |c| *schema(c) = json!({ "type": "string" }), "FieldValueInvalid", &format!("{SCHEMA}.type")).await;
    }

    async fn an_unknown_type_is_refused(case) {
        refused(&case, |c| schema(c)["properties"]["spec"]["properties"]["size"] = json!({ "type": "int" }),
            "FieldValueNotSupported", &format!("{SCHEMA}.properties[spec].properties[size].type")).await;
    }

    async fn a_list_needs_items(case) {
        refused(&case, |c| schema(c)["properties"]["spec"]["properties"]["list"] = json!({ "type": "array" }),
            "FieldValueRequired", &format!("{SCHEMA}.properties[spec].properties[list].items")).await;
    }

    async fn properties_and_additional_ones_exclude_each_other(case) {
        refused(&case, |c| schema(c)["properties"]["spec"]["additionalProperties"] = json!({ "type": "string" }),
            "FieldValueForbidden", &format!("{SCHEMA}.properties[spec].additionalProperties")).await;
    }

    async fn branches_have_no_types_or_defaults(case) {
        refused(&case, |c| schema(c)["properties"]["spec"]["anyOf"] = json!([{ "type": "object" }]),
            "FieldValueForbidden", &format!("{SCHEMA}.properties[spec].anyOf[0].type")).await;
    }

    async fn a_default_fits_its_schema(case) {
        refused(&case, |c| schema(c)["properties"]["spec"]["properties"]["size"]["default"] = "x".into(),
            "FieldValueTypeInvalid", &format!("{SCHEMA}.properties[spec].properties[size].default")).await;
    }

    async fn a_pattern_is_a_regular_expression(case) {
        refused(&case, |c| schema(c)["properties"]["spec"]["properties"]["color"]["pattern"] = "[".into(),
            "FieldValueInvalid", &format!("{SCHEMA}.properties[spec].properties[color].pattern")).await;
    }

    async fn a_rule_compiles(case) {
        refused(&case, |c| schema(c)["properties"]["spec"]["x-kubernetes-validations"] = json!([{ "rule": "self." }]),
            "FieldValueInvalid", &format!("{SCHEMA}.properties[spec].x-kubernetes-validations[0].rule")).await;
    }

    async fn a_rule_is_needed_where_rules_stand(case) {
        refused(&case, |c| schema(c)["properties"]["spec"]["x-kubernetes-validations"] = json!([{ "rule": "" }]),
            "FieldValueRequired", &format!("{SCHEMA}.properties[spec].x-kubernetes-validations[0].rule")).await;
    }

    async fn a_map_list_names_its_keys(case) {
        refused(&case, |c| schema(c)["properties"]["spec"]["properties"]["list"] = json!({
            "type": "array", "x-kubernetes-list-type": "map",
            "items": { "type": "object", "properties": { "name": { "type": "string" } } },
        }), "FieldValueRequired", &format!("{SCHEMA}.properties[spec].properties[list].x-kubernetes-list-map-keys")).await;
    }

    async fn a_selectable_path_begins_with_a_dot(case) {
        refused(&case, |c| c["spec"]["versions"][0]["selectableFields"] = json!([{ "jsonPath": "spec.color" }]),
            "FieldValueInvalid", "spec.selectableFields[0].jsonPath").await;
    }

    async fn a_selectable_field_is_one_of_the_schema(case) {
        refused(&case, |c| c["spec"]["versions"][0]["selectableFields"] = json!([{ "jsonPath": ".spec.none" }]),
            "FieldValueInvalid", "spec.selectableFields[0].jsonPath").await;
    }

    async fn a_selectable_field_is_a_scalar(case) {
        refused(&case, |c| c["spec"]["versions"][0]["selectableFields"] = json!([{ "jsonPath": ".spec.tags" }]),
            "FieldValueInvalid", "spec.selectableFields[0].jsonPath").await;
    }

    async fn a_column_has_a_known_type_and_path(case) {
        refused(&case, |c| c["spec"]["versions"][0]["additionalPrinterColumns"] =
            json!([{ "name": "X", "type": "text", "jsonPath": ".spec.color" }]),
            "FieldValueInvalid", "spec.additionalPrinterColumns[0].type").await;
        refused(&case, |c| c["spec"]["versions"][0]["additionalPrinterColumns"] =
            json!([{ "name": "X", "type": "string", "jsonPath": "spec.color" }]),
            "FieldValueInvalid", "spec.additionalPrinterColumns[0].JSONPath").await;
    }

    async fn a_group_is_a_domain(case) {
        refused(&case, |c| {
            c["spec"]["group"] = "nodots".into();
            c["metadata"]["name"] = "widgets.nodots".into();
        }, "FieldValueInvalid", "spec.group").await;
    }

    async fn versions_have_names_of_their_own(case) {
        refused(&case, |c| {
            let mut second = c["spec"]["versions"][0].clone();
            second["storage"] = false.into();
            c["spec"]["versions"].as_array_mut().unwrap().push(second);
        }, "FieldValueInvalid", "spec.versions").await;
    }

    async fn discovery_shows_the_kind(case) {
        let mut crd = case.widget_crd();
        crd["spec"]["names"]["shortNames"] = json!(["wd"]);
        crd["spec"]["names"]["categories"] = json!(["all"]);
        case.define(crd).await;
        let path = format!("/apis/{}/v1", case.group);
        until("discovery", async || case.send("GET", &path, "", "").await.code == 200).await;
        let list = case.send("GET", &path, "", "").await.is(200);
        let widget = &list["resources"][0];
        assert_eq!((&widget["name"], &widget["kind"], &widget["namespaced"]), (&json!("widgets"), &json!("Widget"), &json!(true)));
        assert_eq!((&widget["shortNames"], &widget["categories"]), (&json!(["wd"]), &json!(["all"])));
        assert_eq!(list["resources"][1]["name"], "widgets/status");
        let group = case.send("GET", &format!("/apis/{}", case.group), "", "").await.is(200);
        assert_eq!(group["preferredVersion"]["version"], "v1");
    }

    async fn a_cluster_wide_kind_has_no_namespaces(case) {
        let mut crd = case.widget_crd();
        crd["spec"]["scope"] = "Cluster".into();
        let widgets = case.define(crd).await;
        let made = widgets.make("a", json!({})).await;
        assert_eq!(made["metadata"].get("namespace"), None);
        let inside = widgets.at("/v1/", &format!("/v1/namespaces/{}/", case.namespace));
        assert_eq!(inside.get("a").await.code, 404);
    }

    async fn a_namespaced_kind_is_created_in_a_namespace(case) {
        let widgets = case.widgets().await;
        let outside = widgets.at(&format!("/namespaces/{}", case.namespace), "");
        let answer = outside.create(json!({ "metadata": { "name": "a" } })).await;
        assert!(matches!(answer.code, 400 | 404 | 405), "{}", answer.text);
    }

    async fn keywords_that_no_schema_may_hold_are_refused(case) {
        let text = json!({ "type": "string" });
        let list = json!({ "type": "array", "items": text });
        for (keyword, of, value) in [
            ("uniqueItems", &list, json!(true)),
            ("additionalItems", &list, json!(false)),
            ("patternProperties", &json!({ "type": "object" }), json!({ "a": text })),
            ("definitions", &json!({ "type": "object" }), json!({ "a": text })),
            ("dependencies", &json!({ "type": "object" }), json!({ "a": ["b"] })),
            ("$ref", &json!({ "type": "object" }), json!("#/a")),
            ("id", &json!({ "type": "object" }), json!("a")),
            ("items", &list, json!([text])),
        ] {
            let change = |crd: &mut Value| {
                // With these the real server breaks the connection.
                crd["spec"]["versions"][0].as_object_mut().unwrap().remove("selectableFields");
                let field = &mut schema(crd)["properties"]["extra"];
                *field = of.clone();
                field[keyword] = value;
            };
            refused(&case, change, "FieldValueForbidden", &format!("{SCHEMA}.properties[extra].{keyword}")).await;
        }
    }

    async fn what_only_a_schema_itself_may_say_is_refused_in_its_branches(case) {
        for (keyword, value) in [
            ("additionalProperties", json!({ "type": "string" })),
            ("default", json!({})),
            ("description", json!("x")),
            ("nullable", json!(true)),
            ("title", json!("x")),
            ("type", json!("object")),
            ("x-kubernetes-embedded-resource", json!(true)),
            ("x-kubernetes-int-or-string", json!(true)),
            ("x-kubernetes-list-map-keys", json!(["a"])),
            ("x-kubernetes-list-type", json!("set")),
            ("x-kubernetes-map-type", json!("atomic")),
            ("x-kubernetes-preserve-unknown-fields", json!(true)),
            ("x-kubernetes-validations", json!([{ "rule": "true" }])),
        ] {
            for inside in ["anyOf", "allOf"] {
                let branch = json!({ keyword: value });
                let (branches, at) = match inside {
                    "anyOf" => (json!([branch]), "anyOf[0]"),
                    _ => (json!([{ "properties": { "color": branch } }]), "allOf[0].properties[color]"),
                };
                let change = |crd: &mut Value| schema(crd)["properties"]["spec"][inside] = branches;
                let field = format!("{SCHEMA}.properties[spec].{at}.{keyword}");
                refused(&case, change, "FieldValueForbidden", &field).await;
            }
        }
    }

    async fn the_branches_of_the_root_speak_of_fields_that_there_are(case) {
        for (branches, field) in [
            (json!({ "anyOf": [{ "properties": { "b": { "minLength": 1 } } }] }), "properties[b]"),
            (json!({ "not": { "properties": { "b": {} } } }), "properties[b]"),
            (json!({ "anyOf": [{ "allOf": [{ "properties": { "b": {} } }] }] }), "properties[b]"),
            (json!({ "oneOf": [{ "properties": { "spec": { "properties": { "b": {} } } } }] }), "properties[spec].properties[b]"),
            (
                json!({ "anyOf": [{ "properties": { "spec": { "properties": { "color": { "items": {} } } } } }] }),
                "properties[spec].properties[color].items",
            ),
        ] {
            let change = |crd: &mut Value| {
                let root = schema(crd).as_object_mut().unwrap();
                root.extend(branches.as_object().unwrap().clone());
            };
            refused(&case, change, "FieldValueRequired", &format!("{SCHEMA}.{field}")).await;
        }
    }

    async fn lists_say_what_tells_their_entries_apart(case) {
        let object = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
        for (kind, keys, reason, field) in [
            ("bag", json!(null), "FieldValueNotSupported", "x-kubernetes-list-type"),
            ("set", json!(null), "FieldValueInvalid", "items.x-kubernetes-map-type"),
            ("map", json!(["b"]), "FieldValueInvalid", "x-kubernetes-list-map-keys"),
            ("map", json!(["a"]), "FieldValueRequired", "items.properties[a].default"),
        ] {
            let change = |crd: &mut Value| {
                let mut list = json!({ "type": "array", "items": object, "x-kubernetes-list-type": kind });
                if !keys.is_null() {
                    list["x-kubernetes-list-map-keys"] = keys;
                }
                schema(crd)["properties"]["extra"] = list;
            };
            refused(&case, change, reason, &format!("{SCHEMA}.properties[extra].{field}")).await;
        }
    }

    async fn a_schema_of_metadata_speaks_of_names_only(case) {
        let metadata = |fields: Value| move |crd: &mut Value| {
            schema(crd)["properties"]["metadata"] = json!({ "type": "object", "properties": fields });
        };
        let labels = metadata(json!({ "labels": { "type": "object" } }));
        refused(&case, labels, "FieldValueForbidden", &format!("{SCHEMA}.properties[metadata]")).await;
        let mut crd = case.widget_crd();
        metadata(json!({ "name": { "type": "string", "maxLength": 3 } }))(&mut crd);
        case.crds().create(crd).await.is(201);
    }

    async fn conversions_are_checked(case) {
        let webhook = json!({ "conversionReviewVersions": ["v1"], "clientConfig": { "url": "https://x.example.com/c" } });
        let conversion = |value: Value| move |crd: &mut Value| crd["spec"]["conversion"] = value;
        let client = "spec.conversion.webhookClientConfig";
        refused(&case, conversion(json!({ "strategy": "Webhook" })), "FieldValueRequired", client).await;
        let both = json!({ "strategy": "None", "webhook": webhook });
        refused(&case, conversion(both), "FieldValueForbidden", client).await;
        let odd = conversion(json!({ "strategy": "Odd" }));
        refused(&case, odd, "FieldValueNotSupported", "spec.conversion.strategy").await;
        // The embedded one has no webhooks and says so.
        let mut crd = case.widget_crd();
        conversion(json!({ "strategy": "Webhook", "webhook": webhook }))(&mut crd);
        let answer = case.crds().create(crd).await;
        if case.is_embedded() {
            answer.refused(422, "Invalid").says("not supported by the embedded API");
        } else {
            answer.is(201);
        }
    }

    async fn a_rule_has_bounds(case) {
        let rule = |rule: String| move |crd: &mut Value| {
            schema(crd)["properties"]["spec"]["x-kubernetes-validations"] = json!([{ "rule": rule }]);
        };
        let field = format!("{SCHEMA}.properties[spec].x-kubernetes-validations[0].rule");
        for wrong in [
            format!("{}true{}", "(".repeat(300), ")".repeat(300)),
            format!("size({}1{}) > 0", "[".repeat(300), "]".repeat(300)),
            format!("{} > 0", vec!["1"; 3_000].join("+")),
            format!("self.color{} == ''", ".trim()".repeat(300)),
            format!("size('{}') > 0", "x".repeat(100_000)),
        ] {
            refused(&case, rule(wrong), "FieldValueInvalid", &field).await;
        }
        let mut crd = case.widget_crd();
        let fine = format!("{} > 0 && {}true{}", vec!["1"; 200].join("+"), "(".repeat(40), ")".repeat(40));
        rule(fine)(&mut crd);
        case.crds().create(crd).await.is(201);
        let reason = |crd: &mut Value| {
            schema(crd)["properties"]["spec"]["x-kubernetes-validations"] = json!([{ "rule": "true", "reason": "Odd" }]);
        };
        let field = format!("{SCHEMA}.properties[spec].x-kubernetes-validations[0].reason");
        refused(&case, reason, "FieldValueNotSupported", &field).await;
    }

    async fn objects_go_with_their_definition(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({})).await;
        case.crds().delete(&format!("widgets.{}", case.group)).await.is(200);
        case.crds().gone(&format!("widgets.{}", case.group)).await;
        until("the path is gone", async || widgets.list("").await.code == 404).await;
        let again = case.widgets().await;
        assert_eq!(again.names("").await.len(), 0);
    }

    async fn a_definition_waits_for_the_finalizers_of_its_objects(case) {
        let widgets = case.widgets().await;
        widgets.make("a", json!({ "metadata": { "finalizers": ["x.y/1"] } })).await;
        let name = format!("widgets.{}", case.group);
        let marked = case.crds().delete(&name).await.is(200);
        assert_eq!(marked["kind"], "CustomResourceDefinition");
        until("the object is being deleted", async || {
            widgets.get("a").await.body["metadata"]["deletionTimestamp"].is_string()
        }).await;
        widgets.create(json!({ "metadata": { "name": "b" } })).await.refused(403, "Forbidden").says("custom resource definition is terminating");
        widgets.merge("a", json!({ "metadata": { "finalizers": null } })).await.is(200);
        case.crds().gone(&name).await;
    }
}
