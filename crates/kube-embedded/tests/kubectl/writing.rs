//! What kubectl changes.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::cluster::{Cluster, DEADLINE, text, widget};

fn config_map(data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" }, "data": data })
}

impl Cluster {
    /// An editor that puts one text in the place of another.
    fn editor(&self, from: &str, to: &str) -> String {
        let path = self.path("editor");
        std::fs::write(&path, format!("#!/bin/sh\nsed -i 's/{from}/{to}/' \"$1\"\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        text(&path).to_owned()
    }

    async fn edit(&self, what: &str, from: &str, to: &str) -> (bool, String) {
        let editor = self.editor(from, to);
        let edit = self.command(&format!("edit {what}")).env("KUBE_EDITOR", editor).output();
        let output = tokio::time::timeout(DEADLINE, edit).await.expect(what).unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }

    fn stored(&self, kind: &str, name: &str) -> Value {
        self.server.get_object(kind, "default", name).unwrap()
    }
}

#[tokio::test]
async fn patches_of_every_type_change_or_say_what_is_supported() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster.server.install(widget("a", json!({ "ownerName": "alice" }))).unwrap();
    let refused = cluster.fails(r#"patch widget a -p {"spec":{"size":5}}"#).await;
    assert!(
        refused.contains(
            "application/strategic-merge-patch+json is not supported by example.com/v1, Kind=Widget"
        ) && refused.trim_end().ends_with(
            "accepted media types include: application/json-patch+json, application/merge-patch+json"
        ),
        "{refused}"
    );
    cluster.server.install(config_map(json!({ "a": "1", "b": "2" }))).unwrap();
    assert_eq!(
        cluster.ok(r#"patch configmap m -p {"data":{"a":null,"c":"3"}}"#).await,
        "configmap/m patched\n"
    );
    assert_eq!(cluster.stored("ConfigMap", "m")["data"], json!({ "b": "2", "c": "3" }));
    cluster.ok(r#"patch configmap m -p {"metadata":{"finalizers":["a.b/c"]}}"#).await;
    cluster.ok(r#"patch configmap m -p {"metadata":{"finalizers":["d.e/f"]}}"#).await;
    let finalizers = &cluster.stored("ConfigMap", "m")["metadata"]["finalizers"];
    assert_eq!(finalizers, &json!(["d.e/f", "a.b/c"]), "a list that merges, what is new first");
    assert!(cluster.ok(r#"patch configmap m -p {"data":{"b":"2"}}"#).await.contains("(no change)"));
    let failed =
        cluster.fails(r#"patch configmap m --type json -p [{"op":"test","path":"/data/b","value":"9"}]"#);
    assert!(failed.await.contains("test failed"));
    cluster.stop().await;
}

#[tokio::test]
async fn replace_takes_the_whole_object() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let file = cluster.write("w.json", &widget("a", json!({ "ownerName": "alice", "size": 4 })));
    let refused = cluster.fails(&format!("replace -f {}", text(&file))).await;
    assert!(refused.contains("widgets.example.com \"a\" not found"), "{refused}");
    cluster.ok(&format!("create -f {}", text(&file))).await;
    cluster.write("w.json", &widget("a", json!({ "ownerName": "bob" })));
    assert_eq!(cluster.ok(&format!("replace -f {}", text(&file))).await, "widget.example.com/a replaced\n");
    assert_eq!(cluster.stored("Widget", "a")["spec"], json!({ "ownerName": "bob", "size": 3 }));
    let uid = cluster.stored("Widget", "a")["metadata"]["uid"].clone();
    cluster.ok(&format!("replace --force -f {}", text(&file))).await;
    assert_ne!(cluster.stored("Widget", "a")["metadata"]["uid"], uid, "--force deletes and creates");
    cluster.stop().await;
}

#[tokio::test]
async fn edit_sends_what_the_editor_leaves() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster.server.install(widget("a", json!({ "ownerName": "alice", "size": 4 }))).unwrap();
    cluster.server.install(config_map(json!({ "key": "old" }))).unwrap();
    let (done, said) = cluster.edit("widget a", "size: 4", "size: 6").await;
    assert!(done && said == "widget.example.com/a edited\n", "{said}");
    assert_eq!(cluster.stored("Widget", "a")["spec"]["size"], 6);
    let (done, said) = cluster.edit("configmap m", "key: old", "key: new").await;
    assert!(done, "{said}");
    assert_eq!(cluster.stored("ConfigMap", "m")["data"]["key"], "new");
    let (_, said) = cluster.edit("configmap m", "nothing like it", "x").await;
    assert!(said.contains("no changes made"), "{said}");
    let (done, said) = cluster.edit("widget a", "size: 6$", "size: 60").await;
    assert!(!done && said.contains("widgets.example.com \"a\" is invalid"), "{said}");
    assert_eq!(cluster.stored("Widget", "a")["spec"]["size"], 6);
    cluster.stop().await;
}

#[tokio::test]
async fn diff_shows_what_apply_would_change() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let file = cluster.write("w.json", &widget("a", json!({ "ownerName": "alice", "size": 4 })));
    let run = async |wanted: i32| {
        let output = cluster.run(&format!("diff -f {}", text(&file))).await;
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(wanted), "{shown}{}", String::from_utf8_lossy(&output.stderr));
        shown
    };
    let new = run(1).await;
    assert!(new.contains("+  ownerName: alice"), "{new}");
    assert_eq!(cluster.server.count("Widget"), 0);
    cluster.ok(&format!("apply -f {}", text(&file))).await;
    assert_eq!(run(0).await, "");
    cluster.write("w.json", &widget("a", json!({ "ownerName": "alice", "size": 5 })));
    let changed = run(1).await;
    assert!(changed.contains("-  size: 4") && changed.contains("+  size: 5"), "{changed}");
    assert_eq!(cluster.stored("Widget", "a")["spec"]["size"], 4);
    cluster.stop().await;
}

#[tokio::test]
async fn a_dry_run_on_the_server_checks_and_stores_nothing() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let file = cluster.write("w.json", &widget("a", json!({ "ownerName": "alice" })));
    let file = text(&file);
    let shown = cluster.ok(&format!("create --dry-run=server -o json -f {file}")).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["spec"]["size"], 3, "defaults are filled in");
    assert_eq!(shown["metadata"].get("resourceVersion"), None, "what is not stored has no version");
    assert!(
        cluster.ok(&format!("apply --dry-run=server -f {file}")).await.contains("created (server dry run)")
    );
    assert_eq!(cluster.server.count("Widget"), 0);
    cluster.write("w.json", &widget("a", json!({ "ownerName": "A" })));
    assert!(cluster.fails(&format!("create --dry-run=server -f {file}")).await.contains("spec.ownerName"));
    cluster.server.install(widget("b", json!({ "ownerName": "alice" }))).unwrap();
    cluster.ok("delete widget b --dry-run=server").await;
    cluster.ok(r#"patch widget b --dry-run=server --type merge -p {"spec":{"size":9}}"#).await;
    cluster.ok("label widget b --dry-run=server x=y").await;
    let stored = cluster.stored("Widget", "b");
    assert_eq!((&stored["spec"]["size"], stored["metadata"].get("labels")), (&json!(3), None));
    cluster.stop().await;
}

#[tokio::test]
async fn strict_validation_names_unknown_and_repeated_fields() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let path = cluster.path("w.json");
    let file = text(&path);
    std::fs::write(
        &path,
        r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},
            "spec":{"ownerName":"alice","size":1,"size":2,"colour":"red"}}"#,
    )
    .unwrap();
    let refused = cluster.fails(&format!("create --validate=strict -f {file}")).await;
    assert!(refused.contains("strict decoding error: unknown field \"spec.colour\""), "{refused}");
    // kubectl drops a repeated field itself; --raw sends the file as it is.
    let raw = "/apis/example.com/v1/namespaces/default/widgets?fieldValidation=Strict";
    let refused = cluster.fails(&format!("create --raw {raw} -f {file}")).await;
    assert!(
        refused
            .contains("strict decoding error: duplicate field \"spec.size\", unknown field \"spec.colour\""),
        "{refused}"
    );
    assert_eq!(cluster.server.count("Widget"), 0);
    let warned = cluster.run(&format!("create --validate=warn -f {file}")).await;
    assert_eq!(String::from_utf8_lossy(&warned.stderr), "Warning: unknown field \"spec.colour\"\n");
    assert_eq!(cluster.stored("Widget", "a")["spec"], json!({ "ownerName": "alice", "size": 2 }));
    let silent = cluster.run(&format!("apply --validate=ignore -f {file}")).await;
    assert!(!String::from_utf8_lossy(&silent.stderr).contains("unknown field"));
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m", "lables": {} }, "dta": {} });
    let file = cluster.write("m.json", &map);
    let refused = cluster.fails(&format!("apply -f {}", text(&file))).await;
    assert!(
        refused.contains("unknown field \"dta\"") && refused.contains("\"metadata.lables\""),
        "{refused}"
    );
    cluster.stop().await;
}

#[tokio::test]
async fn delete_takes_one_some_or_all_with_or_without_dependents() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let owned = |name: &str, owner: &str| {
        let uid = cluster.stored("Widget", owner)["metadata"]["uid"].clone();
        let mut object = widget(name, json!({ "ownerName": "child" }));
        object["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": "example.com/v1", "kind": "Widget", "name": owner, "uid": uid }]);
        cluster.server.install(object).unwrap();
    };
    for policy in ["background", "foreground", "orphan"] {
        cluster.server.install(widget("owner", json!({ "ownerName": "alice" }))).unwrap();
        owned("child", "owner");
        cluster.ok(&format!("delete widget owner --cascade={policy}")).await;
        let left = usize::from(policy == "orphan");
        assert_eq!(cluster.server.count("Widget"), left, "{policy}");
    }
    let mut held = widget("held", json!({ "ownerName": "alice" }));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.server.install(held).unwrap();
    cluster.ok("delete widget held --wait=false").await;
    assert!(cluster.stored("Widget", "held")["metadata"]["deletionTimestamp"].is_string());
    cluster.ok(r#"patch widget held --type json -p [{"op":"remove","path":"/metadata/finalizers"}]"#).await;
    for (name, team) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let mut object = widget(name, json!({ "ownerName": "alice" }));
        object["metadata"]["labels"] = json!({ "team": team });
        cluster.server.install(object).unwrap();
    }
    cluster.ok("delete widgets -l team=x").await;
    assert_eq!(cluster.server.count("Widget"), 2, "the orphan and c");
    cluster.ok("delete widgets --all").await;
    assert_eq!(cluster.server.count("Widget"), 0);
    assert!(cluster.fails("delete widget none").await.contains("not found"));
    assert_eq!(cluster.ok("delete widget none --ignore-not-found").await, "");
    cluster.stop().await;
}

#[tokio::test]
async fn labels_and_annotations_are_set_changed_and_removed() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster.server.install(widget("a", json!({ "ownerName": "alice" }))).unwrap();
    cluster.ok("label widget a team=x tier=1").await;
    assert!(cluster.fails("label widget a team=y").await.contains("--overwrite"));
    cluster.ok("label widget a team=y tier- --overwrite").await;
    cluster.ok("annotate widgets --all note=some").await;
    let meta = cluster.stored("Widget", "a")["metadata"].clone();
    assert_eq!(
        (&meta["labels"], &meta["annotations"]),
        (&json!({ "team": "y" }), &json!({ "note": "some" }))
    );
    let refused = cluster.fails("label widget a bad=!!").await;
    assert!(
        refused.contains("invalid label value") || refused.contains("a valid label must be"),
        "{refused}"
    );
    cluster.stop().await;
}

#[tokio::test]
async fn apply_creates_configures_prunes_and_refuses_the_server_side() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let list = |items: Vec<Value>| json!({ "apiVersion": "v1", "kind": "List", "items": items });
    let labelled = |name: &str| {
        let mut object = widget(name, json!({ "ownerName": "alice" }));
        object["metadata"]["labels"] = json!({ "set": "one" });
        object
    };
    let file = cluster.write("all.json", &list(vec![labelled("a"), labelled("b")]));
    let file = text(&file);
    assert_eq!(cluster.ok(&format!("apply -f {file}")).await.lines().count(), 2);
    assert!(cluster.ok("apply view-last-applied widget a -o json").await.contains("ownerName"));
    cluster.write("all.json", &list(vec![labelled("a")]));
    let pruned = cluster
        .ok(&format!("apply --prune -l set=one --prune-allowlist example.com/v1/Widget -f {file}"))
        .await;
    assert!(pruned.contains("widget.example.com/b pruned"), "{pruned}");
    assert_eq!(cluster.server.count("Widget"), 1);
    let refused = cluster.fails(&format!("apply --server-side -f {file}")).await;
    assert!(refused.contains("not supported by the embedded API"), "{refused}");
    cluster.stop().await;
}
