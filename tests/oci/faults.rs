use std::sync::{Arc, Mutex};
use std::time::Duration;

use solar_controller::adapters::clock::Clock;
use solar_controller::adapters::oci::{
    Endpoint, HttpRegistry, HttpRegistryError, HttpRegistryOptions, OciErrorKind, OciRegistry, Operation,
    Reference, Retrying, Timeouts,
};
use solar_controller::dev::registry::{Behaviour, Fault, RegistryOperation, RegistryStore};
use tokio::task::JoinSet;

use crate::support::{BOTH, Front, REPOSITORY, Rig, chart, http_client, listen};

fn retrying(registry: Arc<dyn OciRegistry>) -> Retrying {
    Retrying::new(registry, fastrand::Rng::with_seed(7))
}

/// The first `count` requests meet the fault.
fn first(store: &RegistryStore, count: u64, fault: Fault) {
    let end = store.log().len() as u64 + count;
    store.set_faults(move |info| if info.sequence <= end { fault.clone() } else { Fault::None });
}

#[tokio::test]
async fn a_hanging_registry_ends_in_a_timeout() {
    let store = RegistryStore::default();
    store.set_faults(|_| Fault::Hang);
    let mut servers = JoinSet::new();
    let host = listen(&store, &mut servers).await;
    let (read, write) = (Duration::from_millis(50), Duration::from_millis(60));
    let registry = http_client(Timeouts { read, write });
    let endpoint = Endpoint::anonymous(host, true);
    let tag = Reference::tag("v1");

    let head = registry.head(&endpoint, REPOSITORY, &tag).await.expect_err("no answer");
    assert_eq!((head.kind.clone(), head.may_still_land()), (OciErrorKind::TimedOut { after: read }, false));
    let tags = registry.tags(&endpoint, REPOSITORY).await.expect_err("no answer");
    assert_eq!(tags.kind, OciErrorKind::TimedOut { after: read });
    let delete = registry.delete(&endpoint, REPOSITORY, &tag).await.expect_err("no answer");
    assert_eq!(
        (delete.kind.clone(), delete.may_still_land()),
        (OciErrorKind::TimedOut { after: write }, true)
    );
    let push = registry.push(&endpoint, REPOSITORY, "v1", &chart("content")).await.expect_err("no answer");
    assert_eq!((push.operation, push.may_still_land()), (Operation::PushBlob, false));
}

#[tokio::test(start_paused = true)]
async fn the_limits_are_ten_and_twenty_seconds() {
    let store = RegistryStore::default();
    store.set_faults(|_| Fault::Hang);
    let (registry, endpoint) = (store.handle("test"), Endpoint::anonymous("r.example", true));
    let started = tokio::time::Instant::now();
    assert!(registry.head(&endpoint, REPOSITORY, &Reference::tag("v1")).await.is_err());
    assert_eq!(started.elapsed().as_secs(), 10);
    assert!(registry.delete(&endpoint, REPOSITORY, &Reference::tag("v1")).await.is_err());
    assert_eq!(started.elapsed().as_secs(), 30);
}

#[tokio::test]
async fn a_manifest_push_without_an_answer_may_still_land_and_a_blob_upload_cannot() {
    for front in BOTH {
        for (fault, tagged) in [(Fault::Cut, false), (Fault::CutAfterEffect, true)] {
            for (operation, lands) in
                [(RegistryOperation::PutManifest, true), (RegistryOperation::FinishUpload, false)]
            {
                let rig = Rig::new(front, Behaviour::default()).await;
                let fault = fault.clone();
                rig.store.set_faults(
                    move |info| {
                        if info.operation == operation { fault.clone() } else { Fault::None }
                    },
                );
                let error = rig.registry.push(&rig.endpoint, REPOSITORY, "v1", &chart("content")).await;
                let error = error.expect_err("no answer");
                assert!(matches!(error.kind, OciErrorKind::Cut { .. }), "{error:?}");
                assert_eq!(error.may_still_land(), lands, "{error:?}");
                assert_eq!(rig.store.all_tags().len(), usize::from(tagged && lands));
            }
        }
    }
}

#[tokio::test]
async fn answers_of_a_failing_registry_are_told_apart() {
    let throttled = Fault::Status { status: 429, code: "TOOMANYREQUESTS", retry_after: Some(3) };
    let table = [
        (Fault::status(403, "DENIED"), OciErrorKind::Forbidden { code: Some("DENIED".into()) }),
        (Fault::status(503, ""), OciErrorKind::Server { status: 503 }),
        (
            Fault::status(409, "CONFLICT"),
            OciErrorKind::Rejected { status: 409, code: Some("CONFLICT".into()) },
        ),
        (Fault::status(401, ""), OciErrorKind::Unauthorized { code: None }),
    ];
    for front in BOTH {
        let rig = Rig::new(front, Behaviour::default()).await;
        for (fault, expected) in &table {
            let fault = fault.clone();
            rig.store.set_faults(move |_| fault.clone());
            let tags = rig.registry.tags(&rig.endpoint, REPOSITORY).await;
            assert_eq!(tags.map_err(|error| error.kind).as_ref(), Err(expected));
            let push = rig.registry.push(&rig.endpoint, REPOSITORY, "v1", &chart("content")).await;
            assert_eq!(push.map_err(|error| error.kind).as_ref(), Err(expected));
        }
        let throttled = throttled.clone();
        rig.store.set_faults(move |_| throttled.clone());
        let error = rig
            .registry
            .delete(&rig.endpoint, REPOSITORY, &Reference::tag("v1"))
            .await
            .expect_err("throttled");
        assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
    }
}

#[tokio::test(start_paused = true)]
async fn reads_are_tried_three_times_and_deletes_once() {
    let throttled = Fault::Status { status: 429, code: "TOOMANYREQUESTS", retry_after: Some(2) };
    let tag = Reference::tag("v1");
    for fault in [Fault::status(500, ""), Fault::Cut, throttled] {
        let rig = Rig::new(Front::Memory, Behaviour::default()).await;
        let registry = retrying(Arc::clone(&rig.registry));
        first(&rig.store, 2, fault.clone());
        assert_eq!(registry.head(&rig.endpoint, REPOSITORY, &tag).await, Ok(None));
        assert_eq!(rig.store.count(RegistryOperation::HeadManifest), 3);
        first(&rig.store, 3, fault.clone());
        assert!(registry.head(&rig.endpoint, REPOSITORY, &tag).await.is_err());
        assert_eq!(rig.store.count(RegistryOperation::HeadManifest), 6);
        first(&rig.store, 1, fault.clone());
        assert!(registry.delete(&rig.endpoint, REPOSITORY, &tag).await.is_err());
        assert_eq!(rig.store.count(RegistryOperation::DeleteTag), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn retries_wait_as_long_as_the_registry_asks_unless_that_is_long() {
    let rig = Rig::new(Front::Memory, Behaviour::default()).await;
    let registry = retrying(Arc::clone(&rig.registry));
    let tag = Reference::tag("v1");
    first(&rig.store, 1, Fault::Status { status: 429, code: "", retry_after: Some(4) });
    let started = tokio::time::Instant::now();
    assert_eq!(registry.head(&rig.endpoint, REPOSITORY, &tag).await, Ok(None));
    let waited = started.elapsed();
    assert!((Duration::from_secs(4)..Duration::from_secs(5)).contains(&waited), "{waited:?}");
    first(&rig.store, 1, Fault::Status { status: 429, code: "", retry_after: Some(60) });
    let error = registry.head(&rig.endpoint, REPOSITORY, &tag).await.expect_err("for a minute");
    assert_eq!(error.retry_after(), Some(Duration::from_mins(1)));
    assert_eq!(started.elapsed(), waited, "no waiting for what is too long");
}

#[tokio::test(start_paused = true)]
async fn a_push_is_repeated_only_while_the_failed_one_cannot_land() {
    let table =
        [(Fault::status(503, ""), 2, true), (Fault::Cut, 1, false), (Fault::CutAfterEffect, 1, false)];
    for (fault, puts, pushed) in table {
        let rig = Rig::new(Front::Memory, Behaviour::default()).await;
        let registry = retrying(Arc::clone(&rig.registry));
        let once = fault.clone();
        rig.store.set_faults(move |info| {
            let met = info.operation == RegistryOperation::PutManifest && info.nth == 1;
            if met { once.clone() } else { Fault::None }
        });
        let result = registry.push(&rig.endpoint, REPOSITORY, "v1", &chart("content")).await;
        assert_eq!(result.is_ok(), pushed, "{fault:?}");
        assert_eq!(rig.store.count(RegistryOperation::PutManifest), puts, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fenced_actor_gets_no_answer_and_has_no_effect_wherever_its_request_was() {
    let endpoint = Endpoint::anonymous("r.example", true);
    let tag = Reference::tag("v1");
    // Fenced before the request, or while it is on its way.
    for fenced_first in [true, false] {
        let rig = Rig::new(Front::Memory, Behaviour::default()).await;
        rig.push("content", &["v1"]).await;
        let old = rig.store.handle("old");
        rig.store.set_faults(|info| match info.actor.as_str() {
            "old" => Fault::Latency(Duration::from_secs(1)),
            _ => Fault::None,
        });
        if fenced_first {
            rig.store.fence("old");
        }
        let fencing = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            rig.store.fence("old");
        };
        let (deleted, ()) = tokio::join!(old.delete(&endpoint, REPOSITORY, &tag), fencing);
        assert!(matches!(deleted.map_err(|error| error.kind), Err(OciErrorKind::TimedOut { .. })));
        assert_eq!(rig.store.all_tags().len(), 1);
        let new = rig.store.handle("new");
        assert!(matches!(new.head(&endpoint, REPOSITORY, &tag).await, Ok(Some(_))), "others are served");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_request_can_land_later_unless_its_actor_is_fenced_before() {
    for fenced in [false, true] {
        let rig = Rig::new(Front::Memory, Behaviour::default()).await;
        rig.push("content", &["v1"]).await;
        rig.store.set_faults(|_| Fault::CutAndLandLater(Duration::from_secs(20)));
        let deleted = rig.registry.delete(&rig.endpoint, REPOSITORY, &Reference::tag("v1")).await;
        assert!(deleted.expect_err("no answer").may_still_land());
        tokio::time::advance(Duration::from_secs(19)).await;
        assert_eq!(rig.store.all_tags().len(), 1, "not yet");
        if fenced {
            rig.store.fence("test");
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(rig.store.all_tags().len(), usize::from(fenced));
    }
}

#[tokio::test(start_paused = true)]
async fn the_fault_hook_sees_who_asks_for_what() {
    let rig = Rig::new(Front::Memory, Behaviour::default()).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    rig.store.set_faults(move |info| {
        log.lock().expect("a lock").push((
            info.sequence,
            info.nth,
            info.actor.clone(),
            info.operation,
            info.reference.clone(),
        ));
        Fault::None
    });
    for tag in ["v1", "v2"] {
        assert_eq!(rig.registry.head(&rig.endpoint, REPOSITORY, &Reference::tag(tag)).await, Ok(None));
    }
    let head = RegistryOperation::HeadManifest;
    let expected =
        [(1, 1, "test".to_owned(), head, "v1".to_owned()), (2, 2, "test".to_owned(), head, "v2".to_owned())];
    assert_eq!(*seen.lock().expect("a lock"), expected);
}

#[test]
fn a_bad_ca_file_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let garbage = folder.path().join("garbage.pem");
    std::fs::write(&garbage, "no certificate").expect("a file");
    let build = |path: &std::path::Path| {
        rustls::crypto::ring::default_provider().install_default().ok();
        let options =
            HttpRegistryOptions { ca_file: Some(path.to_owned()), ..HttpRegistryOptions::default() };
        HttpRegistry::new(&options, Clock::machine()).err()
    };
    assert!(matches!(build(&garbage), Some(HttpRegistryError::ParseCa { path }) if path == garbage));
    let missing = folder.path().join("missing.pem");
    assert!(matches!(build(&missing), Some(HttpRegistryError::ReadCa { path, .. }) if path == missing));
}
