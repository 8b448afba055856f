//! Every rule of the definitions: what it takes, and what it says against what it does not take.

use serde_json::{Map, Value, json};

use crate::support::{Api, good_of, object, run};

/// A rule that looks at a new object: kind, where, what is taken, what is refused, what is said.
type OnCreate = (&'static str, &'static str, Value, Value, &'static str);

/// A rule that looks at a change: kind, fields that are set first, the patch that is refused, what is said.
type OnChange = (&'static str, Value, Value, &'static str);

fn many(count: usize, of: &Value) -> Value {
    Value::Object((0..count).map(|n| (format!("r{n}"), of.clone())).collect::<Map<_, _>>())
}

fn on_create() -> Vec<OnCreate> {
    let resource = json!({ "repository": "h/r", "tag": "1" });
    let grant = json!([{ "group": "g", "kind": "k", "namespace": "n" }]);
    let to = json!([{ "group": "g", "kind": "k" }]);
    vec![
        ("Component", "/registry", json!("ghcr.io"), json!(""), "spec.registry"),
        ("Component", "/repository", json!("a"), json!(""), "spec.repository"),
        ("Component", "/scheme", json!("oci"), Value::Null, "spec.scheme"),
        ("ComponentVersion", "/componentRef/name", json!("c"), json!(""), "spec.componentRef.name"),
        ("ComponentVersion", "/tag", json!("1"), json!(""), "spec.tag"),
        (
            "ComponentVersion",
            "/entrypoint/type",
            json!("kro"),
            json!("yaml"),
            "spec.entrypoint.type: Unsupported value: \"yaml\": supported values: \"helm\", \"kro\"",
        ),
        ("ComponentVersion", "/resources", many(5_000, &resource), many(5_001, &resource), "spec.resources"),
        ("ComponentVersion", "/resources", json!({}), json!([]), "spec.resources"),
        ("Registry", "/hostname", json!("h:5000"), json!(""), "spec.hostname"),
        ("Registry", "/plainHTTP", json!(true), json!("yes"), "spec.plainHTTP"),
        (
            "Registry",
            "/solarSecretRef",
            json!({ "name": "s" }),
            json!({ "name": "" }),
            "spec.solarSecretRef.name",
        ),
        ("Registry", "/scanInterval", json!("1h30m"), json!("often"), "spec.scanInterval"),
        (
            "Registry",
            "/scanInterval",
            json!("1s"),
            json!("0s"),
            "spec.scanInterval must be longer than zero: use a duration such as 30m, or remove the field",
        ),
        ("RegistryBinding", "/targetRef/name", json!("t"), json!(""), "spec.targetRef.name"),
        ("RegistryBinding", "/registryRef/name", json!("r"), json!(""), "spec.registryRef.name"),
        ("Release", "/componentVersionRef/name", json!("cv"), json!(""), "spec.componentVersionRef.name"),
        ("Release", "/uniqueName", json!("web-1"), json!("Web"), "spec.uniqueName"),
        ("Release", "/uniqueName", json!("w"), json!("-web"), "spec.uniqueName"),
        ("Release", "/uniqueName", json!("a".repeat(63)), json!("a".repeat(64)), "spec.uniqueName"),
        ("Release", "/priority", json!(-3), json!("high"), "spec.priority"),
        ("Release", "/values", json!({ "a": 1 }), json!([1]), "spec.values"),
        ("Release", "/failedJobTTL", json!(60), json!("1m"), "spec.failedJobTTL"),
        ("ReleaseBinding", "/targetRef/name", json!("t"), json!(""), "spec.targetRef.name"),
        ("ReleaseBinding", "/releaseRef/name", json!("r"), json!(""), "spec.releaseRef.name"),
        ("Profile", "/releaseRef/name", json!("r"), json!(""), "spec.releaseRef.name"),
        (
            "Profile",
            "/targetSelector",
            json!({ "matchLabels": { "a": "b" } }),
            Value::Null,
            "spec.targetSelector",
        ),
        ("ReferenceGrant", "/from", grant, json!([]), "spec.from"),
        ("ReferenceGrant", "/to", to, json!([]), "spec.to"),
        ("Target", "/renderRegistryRef/name", json!("r"), json!(""), "spec.renderRegistryRef.name"),
        ("Target", "/userdata", json!({ "a": [] }), json!("text"), "spec.userdata"),
        ("RenderTask", "/type", json!("release"), json!("other"), "spec.type: Unsupported value: \"other\""),
        (
            "RenderTask",
            "/type",
            json!("release"),
            json!("bootstrap"),
            "spec.release is required with type release and spec.bootstrap with type bootstrap: set exactly the one \
             that spec.type names",
        ),
        ("RenderTask", "/repository", json!("a"), json!(""), "spec.repository"),
        ("RenderTask", "/tag", json!("v1"), json!(""), "spec.tag"),
        ("RenderTask", "/baseURL", json!("h"), json!(""), "spec.baseURL"),
        ("RenderArtifact", "/baseURL", json!("h"), json!(""), "spec.baseURL"),
        ("RenderArtifact", "/repository", json!("a"), json!(""), "spec.repository"),
        ("RenderArtifact", "/tag", json!("v1"), json!(""), "spec.tag"),
        ("RenderArtifact", "/renderTaskRef", json!("rt"), json!(""), "spec.renderTaskRef"),
        ("RenderBinding", "/renderArtifactRef/name", json!("ra"), json!(""), "spec.renderArtifactRef.name"),
        ("RenderBinding", "/ownerName", json!("t"), json!(""), "spec.ownerName"),
    ]
}

/// Puts `value` at `pointer` below the spec; null takes the field away.
fn with(mut spec: Value, pointer: &str, value: &Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = spec.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        parent.remove(field);
    } else {
        parent.insert(field.to_owned(), value.clone());
    }
    spec
}

#[test]
fn each_rule_takes_what_fits_and_names_the_field_of_what_does_not() {
    run(async {
        let api = Api::new();
        for (number, (kind, pointer, good, bad, says)) in on_create().into_iter().enumerate() {
            let (plural, spec) = good_of(kind);
            let name = format!("rule-{number}");
            let taken = api.create(plural, &object(kind, &name, &with(spec.clone(), pointer, &good))).await;
            assert!(taken.is_ok(), "{kind} {pointer}: {taken:?}");
            let name = format!("{name}-bad");
            let refused = api.create(plural, &object(kind, &name, &with(spec, pointer, &bad))).await;
            let said = refused.expect_err(&format!("{kind} {pointer} took what it must refuse"));
            assert!(said.contains(says), "{kind} {pointer}: {said}");
        }
    });
}

#[test]
fn a_webhook_path_needs_a_flavor() {
    run(async {
        let api = Api::new();
        let (plural, mut spec) = good_of("Registry");
        spec["webhookPath"] = json!("/hook");
        let said = api.create(plural, &object("Registry", "hook", &spec)).await.unwrap_err();
        assert!(said.contains("spec.flavor is required with spec.webhookPath: set flavor"), "{said}");
        spec["flavor"] = json!("zot");
        assert!(api.create(plural, &object("Registry", "hook", &spec)).await.is_ok());
    });
}

fn on_change() -> Vec<OnChange> {
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
            "spec.uniqueName cannot be changed once set: set it back, or create another Release",
        ),
        (
            "Release",
            json!({ "uniqueName": "web" }),
            json!({ "spec": { "uniqueName": null } }),
            "spec.uniqueName cannot be removed once set: set it back, or create another Release",
        ),
        (
            "RenderTask",
            json!({}),
            json!({ "spec": { "tag": "v2" } }),
            "spec is immutable: delete the RenderTask and create another one",
        ),
        (
            "RenderTask",
            json!({}),
            json!({ "spec": { "registryRef": { "name": "r" } } }),
            "spec is immutable: delete the RenderTask and create another one",
        ),
        immutable("baseURL", json!("other"), "spec.baseURL is immutable: delete the RenderArtifact"),
        immutable("repository", json!("other"), "spec.repository is immutable: delete the RenderArtifact"),
        immutable("tag", json!("other"), "spec.tag is immutable: delete the RenderArtifact"),
        binding(
            json!({ "renderArtifactRef": { "name": "other" } }),
            "spec.renderArtifactRef is immutable: delete the RenderBinding",
        ),
        binding(json!({ "ownerKind": "Other" }), "spec.ownerKind is immutable: delete the RenderBinding"),
        binding(json!({ "ownerName": "other" }), "spec.ownerName is immutable: delete the RenderBinding"),
        binding(
            json!({ "ownerNamespace": "other" }),
            "spec.ownerNamespace is immutable: delete the RenderBinding",
        ),
    ]
}

#[test]
fn what_cannot_be_changed_says_so_and_how_to_go_on() {
    run(async {
        let api = Api::new();
        for (number, (kind, set, patch, says)) in on_change().into_iter().enumerate() {
            let (plural, mut spec) = good_of(kind);
            for (field, value) in set.as_object().unwrap() {
                spec[field] = value.clone();
            }
            let name = format!("change-{number}");
            api.create(plural, &object(kind, &name, &spec)).await.unwrap();
            let said = api.patch(plural, &name, &patch).await.expect_err(&format!("{kind} took {patch}"));
            assert!(said.contains(says), "{kind} {patch}: {said}");
            let labelled = json!({ "metadata": { "labels": { "a": "b" } } });
            let taken = api.patch(plural, &name, &labelled).await;
            assert!(taken.is_ok(), "{kind} still takes other changes: {taken:?}");
        }
    });
}

#[test]
fn a_unique_name_may_be_set_later_and_a_registry_reference_may_move() {
    run(async {
        let api = Api::new();
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
