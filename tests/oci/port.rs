use solar_controller::adapters::oci::{
    DeleteOutcome, Digest, MANIFEST_MEDIA_TYPE, OciErrorKind, Operation, Reference, Retrying,
    is_marked_manifest,
};
use solar_controller::dev::registry::{Behaviour, RegistryOperation};

use crate::support::{BOTH, REPOSITORY, Rig, chart};

#[tokio::test]
async fn a_pushed_tag_resolves_to_the_digest_that_was_known_before() {
    for front in BOTH {
        let rig = Rig::new(front, Behaviour::default()).await;
        let artifact = chart("content");
        let tag = Reference::tag("v1");
        assert_eq!(rig.registry.head(&rig.endpoint, REPOSITORY, &tag).await, Ok(None));

        let pushed = rig.registry.push(&rig.endpoint, REPOSITORY, "v1", &artifact).await;

        assert_eq!(pushed.as_ref(), Ok(artifact.digest()));
        assert_eq!(rig.store.resolve(REPOSITORY, &tag).as_ref(), Some(artifact.digest()));
        let head = rig.registry.head(&rig.endpoint, REPOSITORY, &tag).await;
        assert_eq!(head.as_ref().map(Option::as_ref), Ok(Some(artifact.digest())));
        let manifest = rig.registry.manifest(&rig.endpoint, REPOSITORY, &tag).await;
        let manifest = manifest.expect("an answer").expect("a manifest");
        assert_eq!(
            (&manifest.bytes, manifest.media_type.as_str()),
            (artifact.manifest(), MANIFEST_MEDIA_TYPE)
        );
        for blob in artifact.blobs() {
            let read = rig.registry.blob(&rig.endpoint, REPOSITORY, &blob.digest, 1024).await;
            assert_eq!(read.as_ref().map(Option::as_ref), Ok(Some(&blob.bytes)));
        }
    }
}

#[tokio::test]
async fn pushing_twice_changes_nothing_and_another_content_moves_the_tag() {
    for front in BOTH {
        let rig = Rig::new(front, Behaviour::default()).await;
        rig.push("content", &["v1", "v1"]).await;
        let other = rig.push("other", &["v1"]).await;
        assert_eq!(rig.store.all_tags().into_values().collect::<Vec<_>>(), [other.digest().clone()]);
    }
}

#[tokio::test]
async fn what_is_absent_is_an_answer_and_not_an_error() {
    for front in BOTH {
        let rig = Rig::new(front, Behaviour::default()).await;
        let absent = Digest::impossible();
        for reference in [Reference::tag("v1"), Reference::Digest(absent.clone())] {
            assert_eq!(rig.registry.head(&rig.endpoint, REPOSITORY, &reference).await, Ok(None));
            assert_eq!(rig.registry.manifest(&rig.endpoint, REPOSITORY, &reference).await, Ok(None));
            let deleted = rig.registry.delete(&rig.endpoint, REPOSITORY, &reference).await;
            assert_eq!(deleted, Ok(DeleteOutcome { status: 404, code: Some("MANIFEST_UNKNOWN".into()) }));
        }
        assert_eq!(rig.registry.blob(&rig.endpoint, REPOSITORY, &absent, 1024).await, Ok(None));
        assert_eq!(rig.registry.tags(&rig.endpoint, REPOSITORY).await, Ok(vec![]));
    }
}

#[tokio::test]
async fn a_registry_that_refuses_head_or_states_no_digest_is_asked_with_get() {
    let no_head = Behaviour { answers_head: false, ..Behaviour::default() };
    let no_digest = Behaviour { states_digest: false, ..Behaviour::default() };
    for front in BOTH {
        for behaviour in [no_head.clone(), no_digest.clone()] {
            let rig = Rig::new(front, behaviour).await;
            let artifact = rig.push("content", &["v1"]).await;
            let head = rig.registry.head(&rig.endpoint, REPOSITORY, &Reference::tag("v1")).await;
            assert_eq!(head.as_ref().map(Option::as_ref), Ok(Some(artifact.digest())));
            let absent = rig.registry.head(&rig.endpoint, REPOSITORY, &Reference::tag("v2")).await;
            assert_eq!(absent, Ok(None));
        }
    }
}

#[tokio::test]
async fn long_lists_of_tags_are_read_page_by_page() {
    for front in BOTH {
        let rig = Rig::new(front, Behaviour::default()).await;
        rig.push("content", &["v0000"]).await;
        for number in 1..2500 {
            assert!(rig.store.copy_tag(REPOSITORY, "v0000", &format!("v{number:04}")));
        }
        rig.store.clear_log();
        let tags = rig.registry.tags(&rig.endpoint, REPOSITORY).await.expect("a list");
        assert_eq!((tags.len(), tags[0].as_str(), tags[2499].as_str()), (2500, "v0000", "v2499"));
        assert_eq!(rig.store.count(RegistryOperation::Tags), 3);
    }
}

#[tokio::test]
async fn a_null_list_of_tags_is_empty() {
    for front in BOTH {
        let rig = Rig::new(front, Behaviour { null_tags: true, ..Behaviour::default() }).await;
        rig.push("content", &["v1"]).await;
        rig.store.remove_tag(REPOSITORY, "v1");
        assert_eq!(rig.registry.tags(&rig.endpoint, REPOSITORY).await, Ok(vec![]));
    }
}

#[tokio::test]
async fn a_blob_larger_than_the_limit_is_not_read() {
    for front in BOTH {
        let rig = Rig::new(front, Behaviour::default()).await;
        let artifact = rig.push(&"x".repeat(5000), &["v1"]).await;
        let layer = artifact.blobs().last().expect("a layer").digest.clone();
        let read = rig.registry.blob(&rig.endpoint, REPOSITORY, &layer, 4999).await;
        assert_eq!(read.map_err(|error| error.kind), Err(OciErrorKind::TooLarge { limit: 4999 }));
        assert!(matches!(rig.registry.blob(&rig.endpoint, REPOSITORY, &layer, 5000).await, Ok(Some(_))));
    }
}

#[tokio::test]
async fn names_that_no_registry_accepts_are_never_sent() {
    for front in BOTH {
        let rig = Rig::new(front, Behaviour::default()).await;
        let artifact = chart("content");
        let table = [
            ("Team", "v1"),
            ("team", "v 1"),
            ("team/../admin", "v1"),
            ("team", "../../_catalog"),
            ("team?x=", "v1"),
        ];
        for (repository, tag) in table {
            let tag_reference = Reference::tag(tag);
            let failures = [
                rig.registry.head(&rig.endpoint, repository, &tag_reference).await.err(),
                rig.registry.delete(&rig.endpoint, repository, &tag_reference).await.err(),
                rig.registry.push(&rig.endpoint, repository, tag, &artifact).await.err(),
            ];
            for failure in failures {
                let kind = failure.expect("a refusal").kind;
                assert!(matches!(kind, OciErrorKind::InvalidName(_)), "{kind:?}");
            }
        }
        assert_eq!(rig.store.log(), []);
    }
}

#[tokio::test]
async fn the_store_tells_a_marked_manifest_from_a_chart() {
    for front in BOTH {
        let rig = Rig::new(front, Behaviour::default()).await;
        let artifact = rig.push("content", &["v1"]).await;
        let marker = solar_controller::adapters::oci::Artifact::marker(REPOSITORY, "v1");
        assert!(!is_marked_manifest(artifact.manifest()));
        let pushed = rig.registry.push(&rig.endpoint, REPOSITORY, "v1", &marker).await;
        assert_eq!(pushed.as_ref(), Ok(marker.digest()));
        let bytes = rig.store.manifest(REPOSITORY, &Reference::tag("v1")).expect("the manifest");
        assert!(is_marked_manifest(&bytes));
    }
}

#[tokio::test]
async fn one_push_costs_five_requests_on_a_warm_client() {
    for front in BOTH {
        let rig = Rig::new(front, Behaviour::default()).await;
        rig.push("content", &["v1"]).await;
        let operations: Vec<_> = rig.store.log().iter().map(|entry| entry.operation).collect();
        let upload = [RegistryOperation::StartUpload, RegistryOperation::FinishUpload];
        assert_eq!(operations, [&upload[..], &upload, &[RegistryOperation::PutManifest]].concat());
    }
}

#[tokio::test]
async fn a_registry_that_nobody_listens_for_is_unreachable_and_nothing_was_sent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = listener.local_addr().expect("its address").to_string();
    drop(listener);
    let registry = crate::support::http_client(crate::support::patient());
    let endpoint = solar_controller::adapters::oci::Endpoint::anonymous(host.clone(), true);
    let registry = Retrying::new(std::sync::Arc::new(registry), fastrand::Rng::with_seed(1));
    let error = solar_controller::adapters::oci::OciRegistry::delete(
        &registry,
        &endpoint,
        "a",
        &Reference::tag("v1"),
    )
    .await;
    let error = error.expect_err("nobody is there");
    assert!(matches!(error.kind, OciErrorKind::Unreachable { .. }), "{error}");
    assert!(!error.may_still_land());
    assert_eq!((error.operation, error.host, error.repository.as_str()), (Operation::Delete, host, "a"));
}
