//! What kubectl shows.

use serde_json::{Value, json};

use crate::cluster::{Cluster, widget, words};

#[tokio::test]
async fn objects_are_shown_by_columns_of_ones_own_and_selected() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    for (name, owner, team) in [("a", "alice", "x"), ("b", "bob", "x"), ("c", "bob", "y")] {
        let mut object = widget(name, json!({ "ownerName": owner }));
        object["metadata"]["labels"] = json!({ "team": team });
        cluster.server.install(object).unwrap();
    }
    let columns = cluster.ok("get widgets -o custom-columns=N:.metadata.name,O:.spec.ownerName").await;
    let rows: Vec<Vec<&str>> = columns.lines().map(words).collect();
    assert_eq!(rows, [["N", "O"], ["a", "alice"], ["b", "bob"], ["c", "bob"]]);
    let names = async |arguments: &str| {
        let shown = cluster.ok(&format!("get widgets -o name {arguments}")).await;
        shown.lines().map(|l| l.trim_start_matches("widget.example.com/").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("-l team=x").await, ["a", "b"]);
    assert_eq!(names("--selector team!=x").await, ["c"]);
    assert_eq!(names("-A --field-selector spec.ownerName=bob,metadata.name!=b").await, ["c"]);
    assert_eq!(names("--chunk-size=1 --sort-by=.spec.ownerName").await, ["a", "b", "c"]);
    let labels = cluster.ok("get widgets --show-labels -L team --no-headers").await;
    assert_eq!(words(labels.lines().next().unwrap())[3..], ["x", "team=x"], "{labels}");
    let refused = cluster.fails("get widgets --field-selector spec.size=3").await;
    assert!(refused.contains("field label not supported: spec.size"), "{refused}");
    cluster.stop().await;
}

#[tokio::test]
async fn get_all_and_cluster_info_answer_on_an_empty_server() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let output = cluster.run("get all").await;
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "No resources found in default namespace.\n");
    assert!(cluster.ok("cluster-info").await.contains("control plane"));
    assert!(cluster.ok("api-versions").await.lines().any(|l| l == "example.com/v1"));
    assert_eq!(cluster.ok("get --raw /readyz").await, "ok");
    let mut crd = crate::common::widget_crd();
    crd["spec"]["names"]["categories"] = json!(["all"]);
    cluster.server.apply_crd(crd).unwrap();
    cluster.server.install(widget("a", json!({ "ownerName": "alice" }))).unwrap();
    // kubectl keeps what it discovered for some minutes; another user has no such cache.
    let shown = cluster.ok("get all -A --cache-dir=/nonexistent").await;
    assert!(shown.contains("widget.example.com/a"), "{shown}");
    let refused = cluster.fails("create service clusterip s --tcp=80").await;
    assert!(refused.contains("MethodNotAllowed") || refused.contains("does not allow"), "{refused}");
    cluster.stop().await;
}

#[tokio::test]
async fn auth_says_who_one_is_and_that_everything_is_allowed() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    for action in ["create widgets", "delete secrets -n kube-system", "get /metrics", "* *"] {
        assert_eq!(cluster.ok(&format!("auth can-i {action}")).await, "yes\n", "{action}");
    }
    let list = cluster.ok("auth can-i --list").await;
    assert!(list.lines().any(|l| words(l) == ["*.*", "[]", "[]", "[*]"]), "{list}");
    assert!(cluster.ok("auth whoami").await.contains("embedded"));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": { "verb": "get", "resource": "pods" } },
    });
    let file = cluster.write("review.json", &review);
    let shown = cluster.ok(&format!("create -o json -f {}", file.display())).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["status"]["allowed"], true);
    cluster.write(
        "review.json",
        &json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {},
        }),
    );
    let refused = cluster.fails(&format!("create -f {}", file.display())).await;
    assert!(refused.contains("exactly one of nonResourceAttributes or resourceAttributes"), "{refused}");
    cluster.stop().await;
}

#[tokio::test]
async fn explain_shows_fields_with_types_and_descriptions() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let mut crd = crate::common::widget_crd();
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["description"] = "A widget of the tests.".into();
    schema["properties"]["spec"]["properties"]["size"]["description"] = "How large it is.".into();
    cluster.server.apply_crd(crd).unwrap();
    let whole = cluster.ok("explain widgets").await;
    for text in ["KIND:       Widget", "GROUP:      example.com", "A widget of the tests.", "spec\t<Object>"]
    {
        assert!(whole.contains(text), "{text}: {whole}");
    }
    let size = cluster.ok("explain widgets.spec.size").await;
    assert!(size.contains("FIELD: size <integer>") && size.contains("How large it is."), "{size}");
    let all = cluster.ok("explain widget.spec --recursive").await;
    assert!(all.contains("    name\t<string>") && all.contains("labels\t<map[string]string>"), "{all}");
    let kind = cluster.ok("explain widgets.spec.type").await;
    assert!(kind.contains("ENUM:\n    helm\n    kro"), "{kind}");
    assert!(cluster.ok("explain widgets.metadata.ownerReferences.uid").await.contains("<string>"));
    for kind in
        ["configmap.data", "secret", "lease.spec", "event.involvedObject", "crd.spec.names", "ns.status"]
    {
        assert!(cluster.ok(&format!("explain {kind}")).await.contains("VERSION:    v1"), "{kind}");
    }
    let none = cluster.fails("explain widget.spec.nothing").await;
    assert!(none.contains("field \"nothing\" does not exist"), "{none}");
    cluster.stop().await;
}

#[tokio::test]
async fn describe_shows_every_kind_and_its_events() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster.server.install(widget("a", json!({ "ownerName": "alice" }))).unwrap();
    let stored = cluster.server.get_object("Widget", "default", "a").unwrap();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "a.1", "namespace": "default" },
        "involvedObject": {
            "apiVersion": "example.com/v1", "kind": "Widget", "namespace": "default", "name": "a",
            "uid": stored["metadata"]["uid"],
        },
        "reason": "Painted", "message": "It is red now", "type": "Normal", "count": 1,
        "firstTimestamp": "2030-01-01T00:00:00Z", "lastTimestamp": "2030-01-01T00:00:00Z",
        "source": { "component": "painter" },
    });
    cluster.server.install(event).unwrap();
    let shown = cluster.ok("describe widget a").await;
    for text in ["Owner Name:  alice", "Painted", "It is red now", "painter"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let events = cluster.ok("get events").await;
    let rows: Vec<Vec<&str>> = events.lines().map(words).collect();
    assert_eq!(rows[0], ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    assert_eq!(rows[1][1..4], ["Normal", "Painted", "widget/a"]);
    assert!(cluster.ok("get events.events.k8s.io").await.contains("Painted"));
    assert!(cluster.ok("events --for widget/a").await.contains("Painted"));
    let selected = cluster.ok("get events --field-selector involvedObject.name=b -o name").await;
    assert_eq!(selected, "");
    cluster.ok("create configmap m --from-literal=key=value").await;
    cluster.ok("create secret generic s --from-literal=key=value").await;
    assert!(cluster.ok("describe configmap m").await.contains("value"));
    assert!(cluster.ok("describe secret s").await.contains("key:  5 bytes"));
    assert!(cluster.ok("describe namespace default").await.contains("Active"));
    assert!(cluster.ok("describe crd widgets.example.com").await.contains("Established"));
    let crds = cluster.ok("get crd").await;
    assert_eq!(words(crds.lines().nth(1).unwrap()), ["widgets.example.com", "2030-01-01T00:00:00Z"]);
    cluster.stop().await;
}
