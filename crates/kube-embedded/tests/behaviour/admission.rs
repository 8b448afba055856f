//! What happens to an object on its way in: schema, defaults, pruning, rules, strictness.

use serde_json::{Value, json};

use crate::case::{Case, cases};

/// Creates widgets with these specs and expects these causes.
async fn refused_specs(case: &Case, schema: Value, table: &[(Value, &str, &str)]) {
    let widgets = case.widgets_with(schema).await;
    for (spec, reason, field) in table {
        widgets
            .create(json!({ "metadata": { "name": "a" }, "spec": spec }))
            .await
            .refused(422, "Invalid")
            .cause(reason, field);
    }
}

cases! {
    async fn wrong_types_are_refused(case) {
        let schema = json!({ "type": "object", "properties": {
            "s": { "type": "string" }, "i": { "type": "integer" }, "n": { "type": "number" }, "b": { "type": "boolean" },
            "l": { "type": "array", "items": { "type": "string" } }, "o": { "type": "object" },
            "p": { "x-kubernetes-int-or-string": true },
        } });
        refused_specs(&case, schema, &[
            (json!({ "s": 1 }), "FieldValueTypeInvalid", "spec.s"),
            (json!({ "i": "1" }), "FieldValueTypeInvalid", "spec.i"),
            (json!({ "i": 1.5 }), "FieldValueTypeInvalid", "spec.i"),
            (json!({ "n": "x" }), "FieldValueTypeInvalid", "spec.n"),
            (json!({ "b": "true" }), "FieldValueTypeInvalid", "spec.b"),
            (json!({ "l": {} }), "FieldValueTypeInvalid", "spec.l"),
            (json!({ "l": [1] }), "FieldValueTypeInvalid", "spec.l[0]"),
            (json!({ "o": [] }), "FieldValueTypeInvalid", "spec.o"),
            (json!({ "p": true }), "FieldValueTypeInvalid", "spec.p"),
        ]).await;
    }

    async fn limits_are_kept(case) {
        let schema = json!({ "type": "object", "maxProperties": 2, "properties": {
            "s": { "type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-z]+$" },
            "i": { "type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 3 },
            "x": { "type": "number", "minimum": 0, "exclusiveMinimum": true },
            "l": { "type": "array", "minItems": 1, "maxItems": 2, "items": { "type": "string" } },
            "e": { "type": "string", "enum": ["red", "blue"] },
        } });
        refused_specs(&case, schema, &[
            (json!({ "s": "a" }), "FieldValueInvalid", "spec.s"),
            (json!({ "s": "abcd" }), "FieldValueTooLong", "spec.s"),
            (json!({ "s": "AB" }), "FieldValueInvalid", "spec.s"),
            (json!({ "i": 0 }), "FieldValueInvalid", "spec.i"),
            (json!({ "i": 12 }), "FieldValueInvalid", "spec.i"),
            (json!({ "i": 4 }), "FieldValueInvalid", "spec.i"),
            (json!({ "x": 0 }), "FieldValueInvalid", "spec.x"),
            (json!({ "l": [] }), "FieldValueInvalid", "spec.l"),
            (json!({ "l": ["a", "b", "c"] }), "FieldValueTooMany", "spec.l"),
            (json!({ "e": "green" }), "FieldValueNotSupported", "spec.e"),
            (json!({ "s": "ab", "i": 3, "e": "red" }), "FieldValueTooMany", "spec"),
        ]).await;
    }

    async fn required_fields_are_required(case) {
        let schema = json!({ "type": "object", "required": ["a"], "properties": {
            "a": { "type": "object", "required": ["b"], "properties": { "b": { "type": "string" } } },
        } });
        refused_specs(&case, schema, &[
            (json!({}), "FieldValueRequired", "spec.a"),
            (json!({ "a": {} }), "FieldValueRequired", "spec.a.b"),
            (json!({ "a": null }), "FieldValueRequired", "spec.a"),
        ]).await;
    }

    async fn formats_are_checked(case) {
        let text = |format: &str| json!({ "type": "string", "format": format });
        let schema = json!({ "type": "object", "properties": {
            "time": text("date-time"), "date": text("date"), "v4": text("ipv4"), "v6": text("ipv6"), "id": text("uuid"),
            "bytes": text("byte"), "free": text("whatever"), "i": { "type": "integer", "format": "int32" },
        } });
        let widgets = case.widgets_with(schema).await;
        widgets.make("good", json!({ "spec": {
            "time": "2030-01-01T00:00:00Z", "date": "2030-01-01", "v4": "10.0.0.1", "v6": "::1", "bytes": "YQ==",
            "id": "11111111-2222-3333-4444-555555555555", "free": "!!", "i": 5,
        } })).await;
        for (field, value) in [
            ("time", json!("yesterday")), ("date", json!("2030-13-01")), ("v4", json!("10.0.0")), ("v6", json!("x")),
            ("id", json!("1")), ("bytes", json!("*")),
        ] {
            let object = json!({ "metadata": { "name": "bad" }, "spec": { field: value } });
            widgets.create(object).await.refused(422, "Invalid").cause("FieldValueTypeInvalid", &format!("spec.{field}"));
        }
    }

    async fn integers_have_the_range_of_their_format(case) {
        // Before 1.36 formats of integers were not looked at.
        if case.minor().await < 36 {
            return;
        }
        let widgets = case.widgets_with(json!({ "type": "object", "properties": {
            "i": { "type": "integer", "format": "int32" },
        } })).await;
        widgets.make("a", json!({ "spec": { "i": 2_147_483_647 } })).await;
        let object = json!({ "metadata": { "name": "b" }, "spec": { "i": 2_147_483_648_i64 } });
        widgets.create(object).await.refused(422, "Invalid").cause("FieldValueInvalid", "<nil>")
            .says("Checked value must be of type integer with format int32 in spec.i");
    }

    async fn lists_of_type_set_and_map_are_unique(case) {
        let schema = json!({ "type": "object", "properties": {
            "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            "map": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": { "type": "object", "required": ["name"], "properties": {
                    "name": { "type": "string" }, "value": { "type": "string" } } } },
        } });
        refused_specs(&case, schema, &[
            (json!({ "set": ["a", "b", "a"] }), "FieldValueDuplicate", "spec.set[2]"),
            (json!({ "map": [{ "name": "a" }, { "name": "a", "value": "x" }] }), "FieldValueDuplicate", "spec.map[1]"),
        ]).await;
    }

    async fn branches_must_hold(case) {
        let schema = json!({ "type": "object",
            "properties": { "a": { "type": "string" }, "b": { "type": "string" }, "c": { "type": "integer" } },
            "oneOf": [{ "required": ["a"] }, { "required": ["b"] }],
            "not": { "properties": { "c": { "minimum": 5 } }, "required": ["c"] },
        });
        refused_specs(&case, schema, &[
            (json!({}), "FieldValueInvalid", "<nil>"),
            (json!({ "a": "x", "b": "y" }), "FieldValueInvalid", "<nil>"),
            (json!({ "a": "x", "c": 6 }), "FieldValueInvalid", "<nil>"),
        ]).await;
    }

    async fn a_refusal_names_kind_and_name(case) {
        let widgets = case.widgets().await;
        let refused = widgets.create(json!({ "metadata": { "name": "a" }, "spec": { "size": 101 } })).await;
        let refused = refused.refused(422, "Invalid");
        let wanted = format!("Widget.{} \"a\" is invalid: spec.size: Invalid value: 101: spec.size in body should be less \
            than or equal to 100", case.group);
        assert_eq!(refused.0["message"], wanted);
        assert_eq!(refused.0["details"]["kind"], "Widget");
    }

    async fn defaults_are_filled_in_at_every_depth(case) {
        let widgets = case.widgets_with(json!({ "type": "object", "default": {}, "properties": {
            "a": { "type": "string", "default": "x" },
            "b": { "type": "object", "default": {}, "properties": { "c": { "type": "integer", "default": 7 } } },
            "d": { "type": "object", "properties": { "e": { "type": "boolean", "default": true } } },
            "l": { "type": "array", "items": { "type": "object", "properties": { "p": { "type": "string", "default": "TCP" } } } },
        } })).await;
        assert_eq!(widgets.make("a", json!({})).await["spec"], json!({ "a": "x", "b": { "c": 7 } }));
        let made = widgets.make("b", json!({ "spec": { "d": {}, "l": [{}, { "p": "UDP" }] } })).await;
        assert_eq!(made["spec"], json!({
            "a": "x", "b": { "c": 7 }, "d": { "e": true }, "l": [{ "p": "TCP" }, { "p": "UDP" }],
        }));
    }

    async fn a_null_takes_the_default_unless_it_is_allowed(case) {
        let widgets = case.widgets_with(json!({ "type": "object", "properties": {
            "a": { "type": "string", "default": "x" },
            "b": { "type": "string", "default": "y", "nullable": true },
            "c": { "type": "string" },
        } })).await;
        let made = widgets.make("a", json!({ "spec": { "a": null, "b": null, "c": null } })).await;
        assert_eq!(made["spec"], json!({ "a": "x", "b": null }));
    }

    async fn unknown_fields_are_pruned(case) {
        let widgets = case.widgets().await;
        let made = widgets.make("a", json!({ "spec": { "size": 1, "extra": { "deep": 1 } }, "top": 1 })).await;
        assert_eq!((&made["spec"], made.get("top")), (&json!({ "size": 1, "mode": "auto" }), None));
    }

    async fn preserved_fields_are_kept(case) {
        let widgets = case.widgets_with(json!({ "type": "object", "properties": {
            "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": { "known": { "type": "object", "properties": { "x": { "type": "string" } } } } },
        } })).await;
        let spec = json!({ "free": { "any": { "thing": [1, "a", null] }, "known": { "x": "1", "y": 2 } } });
        let made = widgets.make("a", json!({ "spec": spec })).await;
        assert_eq!(made["spec"], json!({ "free": { "any": { "thing": [1, "a", null] }, "known": { "x": "1" } } }));
    }

    async fn unknown_fields_are_warned_of(case) {
        let widgets = case.widgets().await;
        let answer = widgets.create(json!({ "metadata": { "name": "a" }, "spec": { "colour": "red" } })).await;
        assert_eq!(answer.headers["warning"].to_str().unwrap(), "299 - \"unknown field \\\"spec.colour\\\"\"");
        answer.is(201);
        let ignored = json!({ "metadata": { "name": "b" }, "spec": { "colour": "red" } });
        let answer = widgets.create_with("fieldValidation=Ignore", ignored).await;
        assert!(!answer.headers.contains_key("warning"));
        answer.is(201);
    }

    async fn strict_validation_refuses_unknown_fields(case) {
        let widgets = case.widgets().await;
        let object = json!({ "metadata": { "name": "a" }, "spec": { "colour": "red", "size": 1 } });
        widgets.create_with("fieldValidation=Strict", object).await.refused(400, "BadRequest")
            .says("strict decoding error: unknown field \"spec.colour\"");
        widgets.make("a", json!({})).await;
        widgets.merge("a?fieldValidation=Strict", json!({ "spec": { "colour": "red" } })).await
            .refused(422, "Invalid").says("strict decoding error: unknown field \"spec.colour\"");
    }

    async fn strict_validation_refuses_unknown_fields_of_built_in_kinds(case) {
        let object = json!({ "metadata": { "name": "a" }, "dta": {} });
        case.maps().create_with("fieldValidation=Strict", object).await.refused(400, "BadRequest")
            .says("strict decoding error: unknown field \"dta\"");
        let object = json!({ "metadata": { "name": "a", "lables": {} } });
        case.maps().create_with("fieldValidation=Strict", object).await.refused(400, "BadRequest")
            .says("unknown field \"metadata.lables\"");
    }

    async fn strict_validation_refuses_repeated_fields(case) {
        let widgets = case.widgets().await;
        let body = format!(
            r#"{{"apiVersion":"{}","kind":"Widget","metadata":{{"name":"a"}},"spec":{{"size":1,"size":2}}}}"#,
            widgets.api_version
        );
        let path = format!("{}?fieldValidation=Strict", widgets.base);
        case.send("POST", &path, "application/json", body.clone()).await.refused(400, "BadRequest")
            .says("strict decoding error: duplicate field \"spec.size\"");
        let made = case.send("POST", &widgets.base, "application/json", body).await;
        assert_eq!(made.headers["warning"].to_str().unwrap(), "299 - \"duplicate field \\\"spec.size\\\"\"");
        assert_eq!(made.is(201)["spec"]["size"], 2, "the last one wins");
    }

    async fn strict_validation_refuses_repeated_fields_of_yaml(case) {
        let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: a\n  k: b\n";
        let path = format!("{}?fieldValidation=Strict", case.maps().base);
        case.send("POST", &path, "application/yaml", body).await.refused(400, "BadRequest")
            .says("strict decoding error");
        let made = case.send("POST", &case.maps().base, "application/yaml", body).await.is(201);
        assert_eq!(made["data"]["k"], "b");
    }

    async fn an_unknown_field_validation_is_refused(case) {
        let object = json!({ "metadata": { "name": "a" } });
        case.maps().create_with("fieldValidation=Sometimes", object).await.refused(422, "Invalid")
            .cause("FieldValueNotSupported", "fieldValidation");
    }

    async fn an_unknown_dry_run_is_refused(case) {
        let object = json!({ "metadata": { "name": "a" } });
        case.maps().create_with("dryRun=Some", object).await.refused(422, "Invalid")
            .cause("FieldValueNotSupported", "dryRun");
    }

    async fn a_dry_run_of_a_create_checks_and_stores_nothing(case) {
        let widgets = case.widgets().await;
        let made = widgets.create_with("dryRun=All", json!({ "metadata": { "name": "a" }, "spec": {} })).await.is(201);
        assert_eq!(made["spec"]["mode"], "auto");
        assert!(made["metadata"]["uid"].is_string());
        assert_eq!(made["metadata"].get("resourceVersion"), None);
        widgets.get("a").await.refused(404, "NotFound");
        let wrong = json!({ "metadata": { "name": "a" }, "spec": { "size": -1 } });
        widgets.create_with("dryRun=All", wrong).await.refused(422, "Invalid");
    }

    async fn rules_refuse_with_their_message_at_their_field(case) {
        let widgets = case.widgets_with(json!({ "type": "object", "properties": {
            "low": { "type": "integer" }, "high": { "type": "integer" },
        }, "x-kubernetes-validations": [
            { "rule": "!has(self.low) || !has(self.high) || self.low <= self.high", "message": "low must not exceed high" },
        ] })).await;
        let refused = widgets.create(json!({ "metadata": { "name": "a" }, "spec": { "low": 2, "high": 1 } })).await;
        let refused = refused.refused(422, "Invalid").cause("FieldValueInvalid", "spec");
        let wanted = format!("Widget.{} \"a\" is invalid: spec: Invalid value: ", case.group);
        refused.says(&wanted).says(": low must not exceed high");
        widgets.make("a", json!({ "spec": { "low": 1, "high": 2 } })).await;
    }

    async fn rules_have_reasons_paths_and_expressions(case) {
        let widgets = case.widgets_with(json!({ "type": "object", "properties": {
            "a": { "type": "integer" }, "b": { "type": "integer" },
        }, "x-kubernetes-validations": [
            { "rule": "self.a < 5", "reason": "FieldValueForbidden", "fieldPath": ".a", "message": "a is too large" },
            { "rule": "self.b < 5", "messageExpression": "'b is ' + 'too large'" },
        ] })).await;
        let refused = widgets.create(json!({ "metadata": { "name": "x" }, "spec": { "a": 6, "b": 1 } })).await;
        refused.refused(422, "Invalid").cause("FieldValueForbidden", "spec.a").says("a is too large");
        let refused = widgets.create(json!({ "metadata": { "name": "x" }, "spec": { "a": 1, "b": 7 } })).await;
        refused.refused(422, "Invalid").cause("FieldValueInvalid", "spec").says("b is too large");
    }

    async fn transition_rules_see_the_old_object(case) {
        let widgets = case.widgets_with(json!({ "type": "object", "properties": {
            "fixed": { "type": "string", "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "fixed is fixed" }] },
            "count": { "type": "integer", "x-kubernetes-validations": [{ "rule": "self >= oldSelf" }] },
        } })).await;
        widgets.make("a", json!({ "spec": { "fixed": "x", "count": 2 } })).await;
        widgets.merge("a", json!({ "spec": { "count": 3 } })).await.is(200);
        widgets.merge("a", json!({ "spec": { "count": 1 } })).await.refused(422, "Invalid").cause("FieldValueInvalid", "spec.count");
        widgets.merge("a", json!({ "spec": { "fixed": "y" } })).await.refused(422, "Invalid")
            .cause("FieldValueInvalid", "spec.fixed").says("fixed is fixed");
        widgets.merge("a", json!({ "spec": { "fixed": null } })).await.is(200);
        widgets.merge("a", json!({ "spec": { "fixed": "y" } })).await.is(200);
    }

    async fn rules_wait_for_a_sound_object(case) {
        let widgets = case.widgets_with(json!({ "type": "object", "required": ["a"], "properties": {
            "a": { "type": "integer" }, "mode": { "type": "string", "enum": ["on"] },
        }, "x-kubernetes-validations": [{ "rule": "self.a < 5" }] })).await;
        for (spec, reason, field) in [
            (json!({}), "FieldValueRequired", "spec.a"),
            (json!({ "a": 9, "mode": "off" }), "FieldValueNotSupported", "spec.mode"),
        ] {
            let refused = widgets.create(json!({ "metadata": { "name": "x" }, "spec": spec })).await.refused(422, "Invalid");
            refused.cause(reason, field).says("some validation rules were not checked");
        }
    }

    async fn a_refusing_rule_shows_a_plain_value_and_leaves_out_an_object(case) {
        let rule = |rule: &str| json!([{ "rule": rule, "message": "no" }]);
        let widgets = case.widgets_with(json!({ "type": "object", "x-kubernetes-validations": rule("!has(self.bad)"), "properties": {
            "bad": { "type": "boolean" },
            "text": { "type": "string", "x-kubernetes-validations": rule("self == 'x'") },
            "count": { "type": "integer", "x-kubernetes-validations": rule("self < 5") },
            "flag": { "type": "boolean", "x-kubernetes-validations": rule("self") },
            "list": { "type": "array", "items": { "type": "string" }, "x-kubernetes-validations": rule("size(self) == 1") },
        } })).await;
        for (spec, says) in [
            (json!({ "bad": true }), "spec: Invalid value: no"),
            (json!({ "text": "a\"b" }), "spec.text: Invalid value: \"a\\\"b\": no"),
            (json!({ "count": 7 }), "spec.count: Invalid value: 7: no"),
            (json!({ "flag": false }), "spec.flag: Invalid value: false: no"),
            (json!({ "list": [] }), "spec.list: Invalid value: no"),
        ] {
            widgets.create(json!({ "metadata": { "name": "x" }, "spec": spec })).await.refused(422, "Invalid").says(says);
        }
    }

    async fn rules_know_the_functions_of_lists_and_texts(case) {
        let widgets = case.widgets_with(json!({ "type": "object", "properties": {
            "list": { "type": "array", "maxItems": 10, "items": { "type": "string", "maxLength": 20 } },
            "name": { "type": "string", "maxLength": 20 },
        }, "x-kubernetes-validations": [
            { "rule": "!has(self.list) || self.list.all(x, x.startsWith('p-')) && self.list.exists_one(x, x == 'p-1')" },
            { "rule": "!has(self.name) || self.name.matches('^[a-z]+$') && size(self.name) > 1" },
        ] })).await;
        widgets.make("a", json!({ "spec": { "list": ["p-1", "p-2"], "name": "ab" } })).await;
        for spec in [json!({ "list": ["q"] }), json!({ "list": ["p-2"] }), json!({ "name": "A" }), json!({ "name": "a" })] {
            widgets.create(json!({ "metadata": { "name": "b" }, "spec": spec })).await.refused(422, "Invalid");
        }
    }

    async fn labels_and_annotations_are_checked(case) {
        let meta = |meta: Value| json!({ "metadata": meta });
        for (meta, field) in [
            (meta(json!({ "name": "a", "labels": { "-bad": "x" } })), "metadata.labels"),
            (meta(json!({ "name": "a", "labels": { "k": "!!" } })), "metadata.labels"),
            (meta(json!({ "name": "a", "labels": { "k": "x".repeat(64) } })), "metadata.labels"),
            (meta(json!({ "name": "a", "annotations": { "-bad": "x" } })), "metadata.annotations"),
        ] {
            case.maps().create(meta).await.refused(422, "Invalid").cause("FieldValueInvalid", field);
        }
        let big = meta(json!({ "name": "a", "annotations": { "k": "x".repeat(262_145) } }));
        case.maps().create(big).await.refused(422, "Invalid").cause("FieldValueTooLong", "metadata.annotations");
    }

    async fn names_are_generated_from_a_prefix(case) {
        let made = case.maps().create(json!({ "metadata": { "generateName": "pre-" } })).await.is(201);
        let name = made["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("pre-") && name.len() == 9, "{name}");
        assert_eq!(made["metadata"]["generateName"], "pre-");
        let long = case.maps().create(json!({ "metadata": { "generateName": "x".repeat(80) } })).await.is(201);
        assert_eq!(long["metadata"]["name"].as_str().unwrap().len(), 63);
    }

    async fn a_name_or_a_prefix_is_needed(case) {
        case.maps().create(json!({ "metadata": {} })).await.refused(422, "Invalid")
            .cause("FieldValueRequired", "metadata.name").says("name or generateName is required");
    }
}
