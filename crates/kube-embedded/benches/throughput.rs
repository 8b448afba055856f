//! What the server does in process on one core: objects of 2 KB with CRD validation and rules on, ten watchers.
//!
//! Prints, never asserts. `cargo bench -p kube-embedded [-- OBJECTS]`; memory and CPU are read from `/proc` and left out
//! where there is none.
#![allow(
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "a measurement on the machine's clock"
)]

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream::FuturesUnordered};
use http_body_util::BodyExt;
use kube::{
    Api,
    api::{
        ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams, WatchParams,
    },
};
use kube_embedded::Server;
use serde_json::{Value, json};

const WATCHERS: usize = 10;
/// Requests in flight at once.
const WINDOW: usize = 16;
const IDLE_WATCHES: usize = 1_000;
const PAGE: u32 = 500;

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
        "metadata": { "name": name(index), "labels": { "team": "a" } },
        "spec": { "owner": format!("owner-{}", index % 100), "size": index, "parts": parts },
    });
    serde_json::from_value(object).expect("a literal")
}

fn name(index: usize) -> String {
    format!("parcel-{index:06}")
}

/// Runs `make(0..count)`, a window at a time, and answers the rate.
async fn rate<F: Future<Output = ()>>(count: usize, make: impl Fn(usize) -> F) -> f64 {
    let start = Instant::now();
    let mut flight = FuturesUnordered::new();
    for index in 0..count {
        flight.push(make(index));
        if flight.len() == WINDOW {
            flight.next().await;
        }
    }
    while flight.next().await.is_some() {}
    count as f64 / start.elapsed().as_secs_f64()
}

/// Bytes of memory that are resident.
fn resident() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|l| l.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

/// CPU time of this process so far, in units of a hundredth of a second.
fn cpu_ticks() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

async fn create_all(api: &Api<DynamicObject>, count: usize) -> f64 {
    rate(count, |i| {
        let api = api.clone();
        async move { drop(api.create(&PostParams::default(), &parcel(i)).await.expect("a create")) }
    })
    .await
}

async fn patch_all(api: &Api<DynamicObject>, count: usize) -> f64 {
    rate(count, |i| {
        let api = api.clone();
        let patch = Patch::Merge(json!({ "spec": { "size": i + 1 } }));
        async move { drop(api.patch(&name(i), &PatchParams::default(), &patch).await.expect("a patch")) }
    })
    .await
}

/// Reads all objects in pages; answers how many there were.
async fn read_pages(api: &Api<DynamicObject>) -> usize {
    let (mut count, mut params) = (0, ListParams::default().limit(PAGE));
    loop {
        let page = api.list(&params).await.expect("a page");
        count += page.items.len();
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return count;
        }
    }
}

/// Patches until `done` is ready; answers how long each patch took.
async fn patch_meanwhile(api: &Api<DynamicObject>, done: impl Future<Output = ()>) -> Vec<Duration> {
    let mut done = std::pin::pin!(done);
    let mut times = Vec::new();
    loop {
        let index = times.len();
        let patch = Patch::Merge(json!({ "spec": { "size": 500_000 + index } }));
        let params = PatchParams::default();
        let name = name(index % 1_000);
        let began = Instant::now();
        let mut write = std::pin::pin!(api.patch(&name, &params, &patch));
        let ended = tokio::select! {
            biased;
            written = &mut write => { drop(written.expect("a patch")); false }
            () = &mut done => true,
        };
        if ended {
            return times;
        }
        times.push(began.elapsed());
    }
}

/// What a watcher does with what it reads.
#[derive(Clone, Copy)]
enum Reader {
    /// It takes the bytes, which is what the server has to do for it.
    Bytes,
    /// It decodes every event, on the same thread, which is work of the client.
    Objects,
}

async fn read(server: Server, api: Api<DynamicObject>, from: String, reader: Reader) {
    if matches!(reader, Reader::Objects) {
        let mut watch = Box::pin(api.watch(&WatchParams::default(), &from).await.expect("a watch"));
        while watch.next().await.is_some() {}
        return;
    }
    let request = kube::core::Request::new(api.resource_url()).watch(&WatchParams::default(), &from);
    let request = request.expect("a request").map(kube::client::Body::from);
    let mut body = server.client("default").send(request).await.expect("a watch").into_body();
    while body.frame().await.is_some() {}
}

/// Does `work` while ten watches are read.
async fn watched(server: &Server, api: &Api<DynamicObject>, reader: Reader, work: impl Future<Output = ()>) {
    let from = server.resource_version().to_string();
    let reading = async {
        let mut readers: FuturesUnordered<_> =
            (0..WATCHERS).map(|_| read(server.clone(), api.clone(), from.clone(), reader)).collect();
        while readers.next().await.is_some() {}
    };
    tokio::select! {
        biased;
        () = work => {}
        () = reading => panic!("the watches ended"),
    }
}

fn server() -> (Server, Api<DynamicObject>) {
    with_parcels(Server::builder().seed(1).build())
}

fn with_parcels(server: Server) -> (Server, Api<DynamicObject>) {
    server.apply_crd(crd()).expect("a sound definition");
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Parcel"));
    let api = Api::namespaced_with(server.client("default"), "default", &resource);
    (server, api)
}

async fn writes(count: usize, reader: Reader, what: &str) {
    let (server, api) = server();
    watched(&server, &api, reader, async {
        println!("creates, {WATCHERS} watchers that {what}: {:.0}/s", create_all(&api, count).await);
        println!("patches, {WATCHERS} watchers that {what}: {:.0}/s", patch_all(&api, count).await);
    })
    .await;
}

async fn on_disk(count: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("api.log");
    let (_memory, in_memory) = server();
    println!("in memory: {:.0} creates/s", create_all(&in_memory, count).await);
    let (server, api) = with_parcels(Server::builder().open(&log).expect("a new log").server);
    println!("on disk: {:.0} creates/s", create_all(&api, count).await);
    println!("in memory: {:.0} patches/s", patch_all(&in_memory, count).await);
    println!("on disk: {:.0} patches/s", patch_all(&api, count).await);
    drop((server, api));
    let began = Instant::now();
    let left = Server::builder().open(&log).expect("a sound log").server.count("Parcel");
    println!("on disk: {left} objects taken up again in {:.2?}", began.elapsed());
}

async fn large_list(count: usize) {
    let (_server, api) = server();
    let before = resident();
    create_all(&api, count).await;
    let json = serde_json::to_vec(&api.get(&name(0)).await.expect("an object")).expect("JSON").len();
    if let (Some(before), Some(after)) = (before, resident()) {
        let each = (after - before) / count as f64;
        println!(
            "memory: {each:.0} bytes per stored object of {json} bytes, with the window of changes ({count} objects)"
        );
    }
    let began = Instant::now();
    let mut listed = 0;
    let mut times = patch_meanwhile(&api, async { listed = read_pages(&api).await }).await;
    times.sort();
    let longest = times.last().copied().unwrap_or_default();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    println!(
        "list of {listed} objects in pages of {PAGE}: {:.2?}; {} patches meanwhile, median {median:.0?}, longest \
         {longest:.1?} (a page is decoded on the same thread)",
        began.elapsed(),
        times.len()
    );
}

async fn idle_watches() {
    let (server, api) = server();
    let alone = create_all(&api, 5_000).await;
    let (before, from) = (resident(), server.resource_version().to_string());
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::default_namespaced(server.client("default"));
    let mut watches: VecDeque<_> = VecDeque::new();
    for _ in 0..IDLE_WATCHES {
        let mut watch = Box::pin(secrets.watch(&WatchParams::default(), &from).await.expect("a watch"));
        // Polled once, so that it waits as a watch of a program does.
        assert!(futures::poll!(watch.next()).is_pending());
        watches.push_back(watch);
    }
    if let (Some(before), Some(after)) = (before, resident()) {
        println!(
            "idle watches: {:.0} bytes each ({IDLE_WATCHES} of them)",
            (after - before) / IDLE_WATCHES as f64
        );
    }
    let ticks = cpu_ticks();
    tokio::time::sleep(Duration::from_secs(2)).await;
    if let (Some(before), Some(after)) = (ticks, cpu_ticks()) {
        println!("idle watches: {} ms of CPU in 2 s", (after - before) * 10);
    }
    let beside = patch_all(&api, 5_000).await;
    println!("idle watches: {beside:.0} patches/s beside them ({alone:.0} creates/s before)");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let count = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(100_000);
    println!("object: {} bytes", serde_json::to_vec(&parcel(0)).expect("JSON").len());
    // First what is measured by the memory of the process.
    idle_watches().await;
    large_list(count).await;
    on_disk(count.min(20_000)).await;
    writes(count.min(20_000), Reader::Bytes, "read").await;
    writes(count.min(20_000), Reader::Objects, "decode every event").await;
}
