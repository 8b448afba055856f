//! Every rule that looks at a new object: what it takes, and what it says against what it does not take.

use serde_json::{Map, Value, json};

use crate::support::{Api, blocking, good_of, object, refusal, run, with};

/// Kind, where, what is taken, what is refused, the fault that is named.
pub type Rule = (&'static str, &'static str, Value, Value, String);

fn many(count: usize, of: &Value) -> Value {
    Value::Object((0..count).map(|n| (format!("r{n}"), of.clone())).collect::<Map<_, _>>())
}

/// The fault of a text that must not be empty.
fn empty(field: &str) -> String {
    format!("{field}: Invalid value: \"\": {field} in body should be at least 1 chars long")
}

/// The fault of a value that is of another type.
fn wrong_type(field: &str, found: &str, wanted: &str) -> String {
    format!("{field}: Invalid value: \"{found}\": {field} in body must be of type {wanted}: \"{found}\"")
}

/// The fault of a text that does not have the form of a DNS label.
fn no_label(text: &str) -> String {
    format!(
        "spec.uniqueName: Invalid value: \"{text}\": spec.uniqueName in body should match \
         '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'"
    )
}

const ONE_INPUT: &str = "spec: Invalid value: spec.release is required with type release and \
                         spec.bootstrap with type bootstrap: set exactly the one that spec.type names";
const NO_FLAVOR: &str = "spec: Invalid value: spec.flavor is required with spec.webhookPath: set flavor to \
                         the kind of registry that sends the webhook, or remove webhookPath";

/// Texts that must not be empty.
const NOT_EMPTY: [(&str, &str); 27] = [
    ("Component", "/registry"),
    ("Component", "/repository"),
    ("ComponentVersion", "/componentRef/name"),
    ("ComponentVersion", "/tag"),
    ("Registry", "/hostname"),
    ("RegistryBinding", "/targetRef/name"),
    ("RegistryBinding", "/registryRef/name"),
    ("Release", "/componentVersionRef/name"),
    ("ReleaseBinding", "/targetRef/name"),
    ("ReleaseBinding", "/releaseRef/name"),
    ("Profile", "/releaseRef/name"),
    ("Target", "/renderRegistryRef/name"),
    ("RenderTask", "/release/chart/name"),
    ("RenderTask", "/release/chart/version"),
    ("RenderTask", "/release/input/component/name"),
    ("RenderTask", "/repository"),
    ("RenderTask", "/tag"),
    ("RenderTask", "/baseURL"),
    ("RenderArtifact", "/baseURL"),
    ("RenderArtifact", "/repository"),
    ("RenderArtifact", "/tag"),
    ("RenderArtifact", "/renderTaskRef"),
    ("RenderBinding", "/renderArtifactRef/name"),
    ("RenderBinding", "/ownerKind"),
    ("RenderBinding", "/ownerName"),
    ("RenderBinding", "/ownerNamespace"),
    ("ReferenceGrant", "/from/0/kind"),
];

pub fn rules() -> Vec<Rule> {
    let resource = json!({ "repository": "h/r", "tag": "1" });
    let grant = json!([{ "group": "g", "kind": "k", "namespace": "n" }]);
    let to = json!([{ "group": "g", "kind": "k" }]);
    let too_many = |field: &str| format!("{field}: Too many: 5001: must have at most 5000 items");
    let no_items =
        |field: &str| format!("{field}: Invalid value: 0: {field} in body should have at least 1 items");
    let too_short = |text: &str| {
        format!(
            "spec.scanInterval: Invalid value: \"{text}\": spec.scanInterval must be longer than zero: use a duration \
             such as 30m, or remove the field"
        )
    };
    vec![
        (
            "ComponentVersion",
            "/entrypoint/type",
            json!("kro"),
            json!("yaml"),
            "spec.entrypoint.type: Unsupported value: \"yaml\": supported values: \"helm\", \"kro\"".into(),
        ),
        (
            "ComponentVersion",
            "/resources",
            many(5_000, &resource),
            many(5_001, &resource),
            too_many("spec.resources"),
        ),
        (
            "RenderTask",
            "/release/input/resources",
            many(5_000, &resource),
            many(5_001, &resource),
            too_many("spec.release.input.resources"),
        ),
        ("Registry", "/scanInterval", json!("1s"), json!("0s"), too_short("0s")),
        ("Registry", "/scanInterval", json!("1h30m"), json!("0h0.0m"), too_short("0h0.0m")),
        ("Registry", "/webhookPath", json!(""), json!("/hook"), NO_FLAVOR.into()),
        ("Release", "/uniqueName", json!("web-1"), json!("Web"), no_label("Web")),
        ("Release", "/uniqueName", json!("w"), json!("-web"), no_label("-web")),
        ("Release", "/uniqueName", json!("1"), json!("web-"), no_label("web-")),
        ("Release", "/uniqueName", json!("a--b"), json!("a.b"), no_label("a.b")),
        ("ReferenceGrant", "/from", grant, json!([]), no_items("spec.from")),
        ("ReferenceGrant", "/to", to, json!([]), no_items("spec.to")),
        ("RenderTask", "/type", json!("release"), json!("bootstrap"), ONE_INPUT.into()),
    ]
}

fn types() -> Vec<Rule> {
    vec![
        (
            "ComponentVersion",
            "/resources",
            json!({}),
            json!([]),
            wrong_type("spec.resources", "array", "object"),
        ),
        (
            "Registry",
            "/plainHTTP",
            json!(true),
            json!("yes"),
            wrong_type("spec.plainHTTP", "string", "boolean"),
        ),
        ("Release", "/priority", json!(-3), json!("high"), wrong_type("spec.priority", "string", "integer")),
        ("Release", "/values", json!({ "a": 1 }), json!([1]), wrong_type("spec.values", "array", "object")),
        (
            "Release",
            "/failedJobTTL",
            json!(60),
            json!("1m"),
            wrong_type("spec.failedJobTTL", "string", "integer"),
        ),
        (
            "Profile",
            "/targetSelector",
            json!({ "matchLabels": { "a": "b" } }),
            json!("a=b"),
            wrong_type("spec.targetSelector", "string", "object"),
        ),
        (
            "Profile",
            "/userdata",
            json!({ "a": [] }),
            json!("text"),
            wrong_type("spec.userdata", "string", "object"),
        ),
        (
            "Target",
            "/userdata",
            json!({ "a": [] }),
            json!("text"),
            wrong_type("spec.userdata", "string", "object"),
        ),
        (
            "RenderTask",
            "/release/values",
            json!({ "a": [] }),
            json!(1),
            wrong_type("spec.release.values", "integer", "object"),
        ),
    ]
}

/// The objects of one rule: one is taken, one is refused with the words given.
async fn check(api: &Api, number: usize, (kind, pointer, good, bad, fault): Rule) {
    let (plural, spec) = good_of(kind);
    let name = format!("rule-{number}");
    let taken = api.create(plural, &object(kind, &name, &with(spec.clone(), pointer, &good))).await;
    assert!(taken.is_ok(), "{kind} {pointer}: {taken:?}");
    let refused = api.create(plural, &object(kind, "bad", &with(spec, pointer, &bad))).await;
    let said = refused.expect_err(&format!("{kind} {pointer} took what it must refuse"));
    let blocks = ["must be of type", "Too many", "Unsupported value"].iter().any(|text| fault.contains(text));
    let faults = if blocks { blocking(kind, &fault) } else { vec![&*fault] };
    assert_eq!(said, refusal(kind, "bad", &faults), "{kind} {pointer}");
}

#[test]
fn each_rule_takes_what_fits_and_names_the_field_of_what_does_not() {
    run(async |api| {
        for (number, rule) in rules().into_iter().enumerate() {
            check(&api, number, rule).await;
        }
    });
}

#[test]
fn a_value_of_another_type_is_refused() {
    run(async |api| {
        for (number, rule) in types().into_iter().enumerate() {
            check(&api, number, rule).await;
        }
    });
}

#[test]
fn a_text_that_names_something_is_not_empty() {
    run(async |api| {
        for (number, (kind, pointer)) in NOT_EMPTY.into_iter().enumerate() {
            let field = format!("spec{}", pointer.replace("/0", "[0]").replace('/', "."));
            check(&api, number, (kind, pointer, json!("a"), json!(""), empty(&field))).await;
        }
    });
}

#[test]
fn a_webhook_path_is_taken_with_a_flavor() {
    run(async |api| {
        let (plural, mut spec) = good_of("Registry");
        spec["webhookPath"] = json!("/hook");
        spec["flavor"] = json!("");
        let said = api.create(plural, &object("Registry", "hook", &spec)).await.unwrap_err();
        assert_eq!(said, refusal("Registry", "hook", &[NO_FLAVOR]));
        spec["flavor"] = json!("zot");
        assert!(api.create(plural, &object("Registry", "hook", &spec)).await.is_ok());
    });
}

#[test]
fn a_scan_interval_is_a_duration() {
    run(async |api| {
        let (plural, mut spec) = good_of("Registry");
        for text in ["often", "30", "-1s", "1 h", "1d", ""] {
            spec["scanInterval"] = json!(text);
            let said = api.create(plural, &object("Registry", "scan", &spec)).await.expect_err(text);
            // What follows is the rule engine's own complaint about the same text.
            let fault = format!(
                "spec.scanInterval: Invalid value: \"{text}\": spec.scanInterval in body should match "
            );
            assert!(said.contains(&fault), "{said}");
        }
        for (number, text) in ["1ns", "2us", "4ms", "1.5s", "6m", "7h", "1h2m3s"].into_iter().enumerate() {
            spec["scanInterval"] = json!(text);
            let taken = api.create(plural, &object("Registry", &format!("scan-{number}"), &spec)).await;
            assert!(taken.is_ok(), "{text}: {taken:?}");
        }
    });
}

#[test]
fn a_render_task_has_exactly_the_input_that_its_type_names() {
    run(async |api| {
        let (plural, release) = good_of("RenderTask");
        let bootstrap_input = json!({
            "chart": { "name": "bootstrap-t", "version": "v0.0.1" },
            "input": { "releases": { "web": { "repository": "h/r", "tag": "1", "digest": "sha256:00" } } },
        });
        let both = with(release.clone(), "/bootstrap", &bootstrap_input);
        let neither = with(release.clone(), "/release", &Value::Null);
        let bootstrap = with(with(both.clone(), "/release", &Value::Null), "/type", &json!("bootstrap"));
        for (name, spec) in [("release", &release), ("bootstrap", &bootstrap)] {
            let taken = api.create(plural, &object("RenderTask", name, spec)).await;
            assert!(taken.is_ok(), "{name}: {taken:?}");
        }
        let other = with(bootstrap.clone(), "/type", &json!("release"));
        let both_bootstrap = with(both.clone(), "/type", &json!("bootstrap"));
        for spec in [both, neither, other, both_bootstrap] {
            let said = api.create(plural, &object("RenderTask", "bad", &spec)).await.unwrap_err();
            assert_eq!(said, refusal("RenderTask", "bad", &[ONE_INPUT]));
        }
        let unknown = with(release, "/type", &json!("other"));
        let said = api.create(plural, &object("RenderTask", "bad", &unknown)).await.unwrap_err();
        let fault = "spec.type: Unsupported value: \"other\": supported values: \"release\", \"bootstrap\"";
        assert_eq!(said, refusal("RenderTask", "bad", &blocking("RenderTask", fault)));

        let resource = json!({ "repository": "h/r", "tag": "1", "digest": "sha256:00" });
        let pointer = "/bootstrap/input/releases";
        let most = with(bootstrap.clone(), pointer, &many(5_000, &resource));
        assert!(api.create(plural, &object("RenderTask", "most", &most)).await.is_ok());
        let more = with(bootstrap.clone(), pointer, &many(5_001, &resource));
        let said = api.create(plural, &object("RenderTask", "bad", &more)).await.unwrap_err();
        let fault = "spec.bootstrap.input.releases: Too many: 5001: must have at most 5000 items";
        assert_eq!(said, refusal("RenderTask", "bad", &blocking("RenderTask", fault)));
        let without = with(bootstrap, "/bootstrap/input/releases/web/digest", &Value::Null);
        let said = api.create(plural, &object("RenderTask", "bad", &without)).await.unwrap_err();
        let fault = "spec.bootstrap.input.releases.web.digest: Required value";
        assert_eq!(said, refusal("RenderTask", "bad", &blocking("RenderTask", fault)));
    });
}
