//! What would take a server down or hold it up: each is refused, also on the small stacks of a debug build's threads.

mod common;

use std::fmt::Write as _;

use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use kube_embedded::{InstallError, Server};
use serde_json::{Value, json};

/// A CRD of widgets with these properties of `spec`.
fn crd(spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "properties": { "spec": spec },
            } } }],
        },
    })
}

fn with_rule(rule: &str) -> Value {
    crd(&json!({
        "type": "object", "x-kubernetes-validations": [{ "rule": rule }],
        "properties": {
            "text": { "type": "string" },
            "list": { "type": "array", "items": { "type": "integer" } },
            "any": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        },
    }))
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec })
}

fn server_with(crd: Value) -> Server {
    let server = Server::builder().build();
    server.apply_crd(crd).unwrap();
    server
}

fn free_form() -> Server {
    server_with(crd(&json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })))
}

fn widgets(server: &Server) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    Api::default_namespaced_with(server.client("default"), &resource)
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!({ "a": inner }))
}

fn repeat(open: &str, times: usize, middle: &str, close: &str) -> String {
    format!("{}{middle}{}", open.repeat(times), close.repeat(times))
}

#[test]
fn a_rule_that_nests_as_deep_as_the_real_server_allows_is_parsed_and_run() {
    // The parser itself ends at fewer brackets than the real one.
    for rule in [
        repeat("(", 40, "true", ")"),
        format!("size({}) > 0", repeat("[", 40, "1", "]")),
        format!("{} > 0", vec!["1"; 240].join(" + ")),
        format!("self.text{} == ''", ".trim()".repeat(120)),
        format!("{}true", "true ? true : ".repeat(40)),
        format!("{}false", "!".repeat(2_001)),
        vec!["true"; 2_000].join(" || "),
    ] {
        let server = server_with(with_rule(&rule));
        server.install(widget("a", &json!({ "text": "" }))).unwrap();
    }
}

#[test]
fn a_rule_that_nests_deeper_or_is_longer_is_refused() {
    for rule in [
        repeat("(", 240, "true", ")"),
        repeat("(", 100_000, "true", ")"),
        format!("size({}) > 0", repeat("[", 3_000, "1", "]")),
        format!("{} > 0", vec!["1"; 3_000].join("+")),
        format!("self.text{} == ''", ".trim()".repeat(3_000)),
        format!("{}true", "true ? true : ".repeat(3_000)),
        repeat("[1].all(x, ", 3_000, "true", ")"),
        format!("size('{}') > 0", "x".repeat(100_000)),
        "lists.range(1000000000).size() > 0".to_owned(),
    ] {
        let refused = Server::builder().build().apply_crd(with_rule(&rule)).unwrap_err();
        assert_eq!(refused.code, 422, "{}", refused.message);
        assert!(refused.message.contains("x-kubernetes-validations[0].rule"), "{}", refused.message);
    }
    let mut message = with_rule("true");
    let rule = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/0";
    message.pointer_mut(rule).unwrap()["messageExpression"] = repeat("(", 3_000, "'a'", ")").into();
    assert_eq!(Server::builder().build().apply_crd(message).unwrap_err().code, 422);
}

#[test]
fn a_rule_is_run_on_a_value_as_deep_as_may_be() {
    let server = server_with(with_rule("self.any == self.any && self == self"));
    server.install(widget("a", &json!({ "any": nested(120) }))).unwrap();
}

#[test]
fn a_rule_that_would_hold_the_server_up_is_not_run() {
    let thrice = "self.list.all(a, self.list.all(b, self.list.all(c, a + b + c >= 0)))";
    let server = server_with(with_rule(thrice));
    server.install(widget("few", &json!({ "list": vec![1; 10] }))).unwrap();
    let refused = server.install(widget("many", &json!({ "list": vec![1; 600] }))).unwrap_err();
    assert_eq!(refused.code, 422);
    assert!(refused.message.contains("running out of cost budget"), "{}", refused.message);
}

#[test]
fn the_budget_is_one_for_all_rules_of_an_object() {
    let server =
        server_with(crd(&json!({ "type": "object", "properties": { "list": { "type": "array", "items": {
        "type": "array", "items": { "type": "integer" },
        // It ends with the first entry, which nobody can know before.
        "x-kubernetes-validations": [{ "rule": "self.exists(a, self.exists(b, a == b))" }],
    } } } })));
    let entry = vec![1; 300];
    server.install(widget("few", &json!({ "list": vec![&entry; 5] }))).unwrap();
    let refused = server.install(widget("many", &json!({ "list": vec![&entry; 200] }))).unwrap_err();
    assert!(refused.message.contains("running out of cost budget"), "{}", refused.message);
}

#[tokio::test]
async fn copies_in_a_patch_cannot_fill_the_memory_or_go_too_deep() {
    let server = free_form();
    server.install(widget("a", &json!({ "text": "x".repeat(1_000) }))).unwrap();
    let api = widgets(&server);
    let before = server.get_object("Widget", "default", "a").unwrap();
    for (count, to) in [(40, "/spec/k#"), (9_000, "/spec/a"), (135, "/spec/a")] {
        let to = |number: usize| to.replace('#', &number.to_string());
        let operations: Value =
            (0..count).map(|i| json!({ "op": "copy", "from": "/spec", "path": to(i) })).collect();
        let patch = Patch::<Value>::Json(serde_json::from_value(operations).unwrap());
        match api.patch("a", &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) => assert_eq!((status.code, &*status.reason), (422, "Invalid")),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(server.get_object("Widget", "default", "a"), Some(before));
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(server.count("Widget"), 0);
}

#[test]
fn an_object_that_could_not_be_read_back_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("api.log");
    let server = Server::builder().open(&log).unwrap().server;
    server
        .apply_crd(crd(&json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })))
        .unwrap();
    server.install(widget("deepest", &nested(125))).unwrap();
    let refused = server.install(widget("deeper", &nested(127))).unwrap_err();
    assert_eq!((refused.code, &*refused.reason), (400, "BadRequest"));
    let left = server.snapshot();
    drop(server);
    assert_eq!(Server::builder().open(&log).unwrap().server.snapshot(), left);
}

#[tokio::test]
async fn an_object_that_the_store_of_a_real_server_does_not_take_is_refused() {
    let server = free_form();
    let text = |bytes: usize| json!({ "text": "x".repeat(bytes) });
    server.install(widget("large", &text(1_572_000))).unwrap();
    let too_large = |refused: InstallError| {
        assert_eq!(
            (refused.code, &*refused.reason, &*refused.message),
            (500, "", "etcdserver: request is too large")
        );
    };
    too_large(server.install(widget("larger", &text(1_600_000))).unwrap_err());
    too_large(server.install(widget("large", &text(1_600_000))).unwrap_err());
    let api = widgets(&server);
    let object = serde_json::from_value(widget("dry", &text(1_600_000))).unwrap();
    api.create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await.unwrap();
    assert_eq!(server.count("Widget"), 1);
}

#[test]
fn long_lists_are_checked_without_comparing_each_with_each() {
    let list =
        |kind: &str, items: Value| json!({ "type": "array", "items": items, "x-kubernetes-list-type": kind });
    let mut map = list(
        "map",
        json!({ "type": "object", "required": ["k"], "properties": { "k": { "type": "integer" } },
        "x-kubernetes-validations": [{ "rule": "self == oldSelf" }] }),
    );
    map["x-kubernetes-list-map-keys"] = json!(["k"]);
    let many: Vec<i64> = (0..40_000).collect();
    let server = server_with(crd(&json!({ "type": "object", "properties": {
        "set": list("set", json!({ "type": "integer" })), "map": map,
        "enum": { "type": "array", "items": { "type": "integer", "enum": many } },
    } })));
    let keyed: Vec<Value> = many.iter().map(|k| json!({ "k": k })).collect();
    let mut spec = json!({ "set": many, "map": keyed, "enum": many });
    server.install(widget("a", &spec)).unwrap();
    spec["enum"] = json!([1]);
    server.install(widget("a", &spec)).unwrap();
    // Each of them is wrong and would show all that is allowed.
    spec["enum"] = many.iter().map(|n| json!(n + 40_000)).collect();
    let refused = server.install(widget("b", &spec)).unwrap_err();
    assert!(refused.message.contains("too many errors"));
    assert!(refused.message.len() < 30_000_000, "{}", refused.message.len());
    let twice = server.install(widget("c", &json!({ "set": [1, 2, 1] }))).unwrap_err();
    assert!(twice.message.contains("spec.set[2]: Duplicate value: 1"), "{}", twice.message);
}

#[test]
fn branches_that_nest_are_looked_at_once_each() {
    let leaf = json!({ "minimum": 5 });
    let schema = (0..30).fold(leaf, |inner, _| json!({ "anyOf": [inner] }));
    let server = server_with(crd(&json!({ "type": "object", "properties": { "n": {
        "type": "integer", "anyOf": [schema],
    } } })));
    server.install(widget("fine", &json!({ "n": 5 }))).unwrap();
    assert_eq!(server.install(widget("wrong", &json!({ "n": 4 }))).unwrap_err().code, 422);
}

#[tokio::test]
async fn any_number_of_unknown_fields_leaves_an_answer() {
    let server = server_with(crd(&json!({ "type": "object" })));
    let mut spec = String::from("{\"k\":1");
    (0..50_000).for_each(|i| write!(spec, ",\"k{i}\":1").unwrap());
    let spec: Value = serde_json::from_str(&(spec + "}")).unwrap();
    let object = serde_json::from_value(widget("a", &spec)).unwrap();
    let made = widgets(&server).create(&PostParams::default(), &object).await.unwrap();
    assert_eq!(made.data["spec"], json!({}));
}
