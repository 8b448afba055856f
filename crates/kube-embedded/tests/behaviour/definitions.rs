//! CRDs: what is refused, what is served, and how they go.

use serde_json::{Value, json};

use crate::case::{Case, cases, until};

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
        let conditions = crd["status"]["conditions"].as_array().unwrap();
        for wanted in ["NamesAccepted", "Established"] {
            assert!(conditions.iter().any(|c| c["type"] == wanted && c["status"] == "True"), "{wanted}: {crd}");
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
