//! What the cache keeps of a fleet: Targets with three releases that they share, all ready. The objects are those that
//! the controller itself has made and written; they go from JSON into the cache as a watch takes them in. Bytes are those
//! that were asked for, before an allocator rounds them up. Prints, never asserts.
#![allow(
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "a measurement on the machine's clock"
)]

mod scene;

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::core::DynamicObject;
use kube_embedded::Server;
use solar_api as api;
use solar_controller::actors::root;
use solar_controller::adapters::kubernetes::{Cache, Namespaced, kind_name};
use solar_controller::runtime;
use solar_core::record::{
    ReleaseBindingRecord, RenderArtifactRecord, RenderBindingRecord, RenderTaskRecord, TargetRecord,
};
use solar_core::routes::Routed;

fn main() {
    let number = std::env::args().nth(1).and_then(|targets| targets.parse().ok());
    let targets: usize = number.unwrap_or(1_000);
    let server = ready(targets);
    if std::env::args().nth(2).as_deref() == Some("show") {
        for kind in ["Target", "ReleaseBinding", "RenderTask", "RenderArtifact", "RenderBinding"] {
            server.objects(kind).take(5).for_each(|object| println!("{object:#}"));
        }
    }
    println!("Records of {targets} ready Targets with three shared releases");
    println!(
        "{:<16}{:>8}{:>10}{:>18}{:>18}{:>12}",
        "kind", "records", "struct B", "B kept each", "allocations each", "us each"
    );
    let cache = Cache::default();
    let mut all = Sum::default();
    // In the order in which somebody would read them; whichever kind comes first pays for the names that it shares.
    take_in::<api::Target, TargetRecord>(&server, &cache, &mut all);
    take_in::<api::ReleaseBinding, ReleaseBindingRecord>(&server, &cache, &mut all);
    take_in::<api::RenderTask, RenderTaskRecord>(&server, &cache, &mut all);
    take_in::<api::RenderArtifact, RenderArtifactRecord>(&server, &cache, &mut all);
    take_in::<api::RenderBinding, RenderBindingRecord>(&server, &cache, &mut all);
    let tables = allocation_counter::measure(|| drop(cache));
    let each = |number: i64, of: usize| number as f64 / of as f64;
    println!(
        "{:.0} B a record, {:.0} B and {:.1} allocations a Target; of these in tables and indexes {:.0} B a Target",
        each(all.bytes, all.records.len()),
        each(all.bytes, targets),
        each(all.allocations, targets),
        each(-tables.bytes_current, targets),
    );
}

/// What the records of all kinds cost.
#[derive(Default)]
struct Sum {
    records: Vec<Arc<dyn Any>>,
    bytes: i64,
    allocations: i64,
}

/// Takes all objects of one kind into `cache`, as they are listed, and once more, as they are when something changed.
fn take_in<K, R>(server: &Server, cache: &Cache, all: &mut Sum)
where
    K: Namespaced,
    R: Routed + for<'a> From<&'a K>,
{
    let texts: Vec<String> = server.objects(kind_name::<K>()).map(|object| object.to_string()).collect();
    let each = |number: f64| number / texts.len() as f64;
    let began = Instant::now();
    let first = allocation_counter::measure(|| texts.iter().for_each(|text| apply::<K, R>(cache, text)));
    let took = began.elapsed();
    let again = allocation_counter::measure(|| texts.iter().for_each(|text| apply::<K, R>(cache, text)));
    let bytes = first.bytes_current + again.bytes_current;
    let allocations = first.count_current + again.count_current;
    println!(
        "{:<16}{:>8}{:>10}{:>18.0}{:>18.1}{:>12.1}",
        kind_name::<K>(),
        texts.len(),
        size_of::<R>(),
        each(bytes as f64),
        each(allocations as f64),
        each(took.as_secs_f64() * 1e6),
    );
    all.records.extend(R::table(&cache.read()).iter().map(|record| record.clone() as Arc<dyn Any>));
    all.bytes += bytes;
    all.allocations += allocations;
}

fn apply<K, R>(cache: &Cache, text: &str)
where
    K: Namespaced,
    R: Routed + for<'a> From<&'a K>,
{
    let object: DynamicObject = serde_json::from_str(text).expect("the API server writes objects");
    let object: K = object.try_parse().expect("the object is of its kind");
    cache.apply(R::from(&object), false);
}

/// An API server on which the controller has made `targets` Targets ready.
fn ready(targets: usize) -> Server {
    runtime::run(0, |arbiters| async move {
        let server = scene::server(targets);
        let running = root::start(scene::options(), scene::ports(&server), arbiters, "bench");
        for number in 0..targets {
            while !scene::is_known_as_ready(&running.shared.cache.read(), number) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        running.shut_down().await;
        server
    })
    .expect("the runtime starts")
}
