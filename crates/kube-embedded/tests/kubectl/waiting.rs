//! What kubectl waits for.

use std::process::Stdio;

use kube_embedded::Verb;
use serde_json::json;

use crate::cluster::{Cluster, DEADLINE, widget};

impl Cluster {
    /// Runs kubectl until it watches, then lets `then` happen, which must end it.
    async fn ends_after(&self, arguments: &str, resource: &str, then: impl AsyncFnOnce()) -> String {
        self.server.reset_requests();
        let child = self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        tokio::time::timeout(DEADLINE, async {
            while self.server.count_requests(Verb::Watch, resource) == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("kubectl watches");
        then().await;
        let output =
            tokio::time::timeout(DEADLINE, child.wait_with_output()).await.expect(arguments).unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[tokio::test]
async fn wait_ends_with_a_condition_a_value_and_a_deletion() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let plain = widget("a", json!({ "ownerName": "alice" }));
    cluster.server.install(plain.clone()).unwrap();
    let mut ready = plain.clone();
    ready["status"] = json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
    let said = cluster
        .ends_after("wait --for=condition=Ready widget/a", "widgets", async || {
            cluster.server.install(ready).unwrap();
        })
        .await;
    assert_eq!(said, "widget.example.com/a condition met\n");
    assert!(cluster.ok("wait --for=condition=Ready widget --all").await.contains("condition met"));
    let said = cluster
        .ends_after("wait --for=jsonpath={.status.note}=done widget/a", "widgets", async || {
            let mut noted = plain.clone();
            noted["status"] = json!({ "note": "done" });
            cluster.server.install(noted).unwrap();
        })
        .await;
    assert_eq!(said, "widget.example.com/a condition met\n");
    cluster
        .ends_after("wait --for=delete widget/a", "widgets", async || {
            cluster.ok("delete widget a --wait=false").await;
        })
        .await;
    assert_eq!(cluster.server.count("Widget"), 0);
    cluster.server.install(plain).unwrap();
    assert!(cluster.ok("wait --for=create widget/a").await.contains("condition met"));
    let late = cluster.fails("wait --for=condition=Never widget/a --timeout=1s").await;
    assert!(late.contains("timed out waiting for the condition"), "{late}");
    cluster.stop().await;
}

#[tokio::test]
async fn the_deletion_of_a_namespace_ends_when_it_is_empty() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster.ok("create namespace team").await;
    cluster.ok("create configmap m -n team --from-literal=a=b").await;
    let mut held = widget("held", json!({ "ownerName": "alice" }));
    held["metadata"]["namespace"] = "team".into();
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.server.install(held).unwrap();
    let said = cluster
        .ends_after("delete namespace team", "namespaces", async || {
            assert!(cluster.ok("get namespace team").await.contains("Terminating"));
            let refused = cluster.fails("create configmap n -n team").await;
            assert!(refused.contains("because it is being terminated"), "{refused}");
            cluster.ok(r#"patch widget held -n team --type merge -p {"metadata":{"finalizers":null}}"#).await;
        })
        .await;
    assert_eq!(said, "namespace \"team\" deleted\n");
    assert!(cluster.fails("get namespace team").await.contains("NotFound"));
    cluster.stop().await;
}
