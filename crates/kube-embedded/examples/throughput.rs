//! Creates, patches and pages of 2 KB objects with CRD validation on and ten watchers, in one thread: prints the rates.
//!
//! `cargo run --release -p kube-embedded --example throughput [objects]`

use futures::{StreamExt, stream::FuturesUnordered};
use kube::{
    Api,
    api::{
        ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams, WatchParams,
    },
};
use kube_embedded::Server;
use serde_json::{Value, json};
use tokio::time::Instant;

const WATCHERS: usize = 10;
/// Requests in flight at once.
const WINDOW: usize = 16;

fn crd() -> Value {
    let text = json!({ "type": "string", "minLength": 1, "maxLength": 253 });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "parcels.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "parcels", "kind": "Parcel" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "selectableFields": [{ "jsonPath": ".spec.owner" }],
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "required": ["owner"],
                        "properties": {
                            "owner": { "type": "string", "x-kubernetes-validations": [{ "rule": "self == oldSelf" }] },
                            "size": { "type": "integer", "minimum": 0 },
                            "parts": { "type": "array", "items": { "type": "object", "properties": {
                                "name": text, "tag": text, "repository": text,
                            } } },
                        },
                        "x-kubernetes-validations": [{ "rule": "!has(self.size) || self.size < 1000000" }],
                    },
                    "status": { "type": "object", "properties": { "note": { "type": "string" } } },
                } } },
            }],
        },
    })
}

fn parcel(index: usize) -> DynamicObject {
    let part = |n: usize| json!({ "name": format!("part-{n}"), "tag": "v0.0.1-0123456789abcdef", "repository": "x".repeat(60) });
    let parts: Vec<Value> = (0..14).map(part).collect();
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Parcel",
        "metadata": { "name": format!("parcel-{index:06}"), "labels": { "team": "a" } },
        "spec": { "owner": format!("owner-{}", index % 100), "size": index, "parts": parts },
    });
    serde_json::from_value(object).expect("a literal")
}

/// Runs `make(0..count)`, a window at a time, and prints the rate.
async fn run<F: Future<Output = ()>>(what: &str, count: usize, make: impl Fn(usize) -> F) {
    #[allow(clippy::disallowed_methods, reason = "a program that measures real time")]
    let start = Instant::now();
    let mut flight = FuturesUnordered::new();
    for index in 0..count {
        flight.push(make(index));
        if flight.len() == WINDOW {
            flight.next().await;
        }
    }
    while flight.next().await.is_some() {}
    let seconds = start.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss, reason = "a printed rate")]
    let rate = count as f64 / seconds;
    println!("{what}: {rate:.0}/s");
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(20_000), |n| n.parse())?;
    let server = Server::builder().seed(1).build();
    server.apply_crd(crd())?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Parcel"));
    let api: Api<DynamicObject> = Api::namespaced_with(server.client("default"), "default", &resource);
    println!("object: {} bytes", serde_json::to_vec(&parcel(0))?.len());
    let mut watches = Vec::new();
    for _ in 0..WATCHERS {
        watches.push(Box::pin(api.watch(&WatchParams::default(), "0").await?));
    }
    let watching = async {
        let mut streams: FuturesUnordered<_> =
            watches.into_iter().map(|mut w| async move { while w.next().await.is_some() {} }).collect();
        while streams.next().await.is_some() {}
    };
    let working = async {
        run("creates", count, |i| {
            let api = api.clone();
            async move {
                drop(api.create(&PostParams::default(), &parcel(i)).await.expect("a create"));
            }
        })
        .await;
        run("patches", count, |i| {
            let api = api.clone();
            let patch = Patch::Merge(json!({ "spec": { "size": i + 1 } }));
            async move {
                let name = format!("parcel-{i:06}");
                drop(api.patch(&name, &PatchParams::default(), &patch).await.expect("a patch"));
            }
        })
        .await;
        let pages = count.div_ceil(500);
        let mut token = None;
        let start = Instant::now();
        while let Some(next) = {
            let mut params = ListParams::default().limit(500);
            params.continue_token = token.take();
            api.list_metadata(&params).await.expect("a page").metadata.continue_
        } {
            token = Some(next);
        }
        println!("pages: {pages} in {:?}", start.elapsed());
    };
    tokio::select! {
        biased;
        () = working => {}
        () = watching => return Err("the watches ended".into()),
    }
    Ok(())
}
