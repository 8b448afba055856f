//! Untagging on every kind of registry, undisturbed and disturbed at every request.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use solar_controller::adapters::oci::{
    Artifact, DeleteOutcome, Digest, Endpoint, Manifest, OciError, OciErrorKind, OciRegistry, Operation,
    Reference, UntagError, UntagOutcome, UntagProgress, UntagRequest, UntagStep, untag,
};
use solar_controller::dev::registry::{
    Behaviour, DigestDelete, Fault, LogEntry, RegistryOperation, RegistryStore, TagDelete,
};

use crate::support::{BOTH, Front, REPOSITORY, Rig};

const TAG: &str = "v1";

/// A chart under the tag and under a sibling tag, and another chart beside them.
struct Scene {
    rig: Rig,
    chart: Artifact,
    other: Artifact,
}

impl Scene {
    async fn new(front: Front, behaviour: Behaviour) -> Self {
        let rig = Rig::new(front, behaviour).await;
        let chart = rig.push("content", &[TAG, "sibling"]).await;
        let other = rig.push("other", &["other"]).await;
        rig.store.clear_log();
        Self { rig, chart, other }
    }

    async fn untag(&self, progress: &mut UntagProgress) -> Result<UntagOutcome, UntagError> {
        self.untag_expecting(Some(&self.chart), progress).await
    }

    async fn untag_expecting(
        &self,
        expected: Option<&Artifact>,
        progress: &mut UntagProgress,
    ) -> Result<UntagOutcome, UntagError> {
        let request = UntagRequest {
            endpoint: &self.rig.endpoint,
            repository: REPOSITORY,
            tag: TAG,
            expected: expected.map(Artifact::digest),
        };
        untag(self.rig.registry.as_ref(), &request, progress).await
    }

    fn tag(&self) -> Option<String> {
        self.rig.store.resolve(REPOSITORY, &Reference::tag(TAG)).map(|digest| digest.to_string())
    }

    fn log(&self) -> Vec<LogEntry> {
        self.rig.store.log()
    }

    /// The requests as short words, uploads of the marker's blob left out.
    fn steps(&self) -> Vec<String> {
        let marker = Artifact::marker(REPOSITORY, TAG);
        let uploads = [RegistryOperation::StartUpload, RegistryOperation::FinishUpload];
        let log = self.log();
        let steps = log.iter().filter(|entry| !uploads.contains(&entry.operation)).map(|entry| {
            let reference = match entry.reference.as_str() {
                TAG => "tag",
                digest if digest == marker.digest().as_str() => "marker",
                digest if digest.ends_with("00000000") => "absent digest",
                _ => "something else",
            };
            let verb = match entry.operation {
                RegistryOperation::HeadManifest => "HEAD",
                RegistryOperation::PutManifest => "PUT",
                RegistryOperation::DeleteTag | RegistryOperation::DeleteDigest => "DELETE",
                _ => "other",
            };
            format!("{verb} {reference}")
        });
        steps.collect()
    }

    /// What must hold after whatever happened.
    fn assert_bystanders_untouched(&self, context: &str) {
        for (tag, artifact) in [("sibling", &self.chart), ("other", &self.other)] {
            let held = self.rig.store.resolve(REPOSITORY, &Reference::tag(tag));
            assert_eq!(held.as_ref(), Some(artifact.digest()), "{tag}: {context}");
        }
        let marker = Artifact::marker(REPOSITORY, TAG);
        for entry in self.log() {
            if entry.operation == RegistryOperation::DeleteDigest {
                let allowed =
                    entry.reference == marker.digest().as_str() || entry.reference.ends_with("00000000");
                assert!(allowed, "deleted {}: {context}", entry.reference);
            }
        }
    }
}

fn deletable() -> [(&'static str, Behaviour); 5] {
    [
        ("untags", Behaviour::default()),
        ("400 DIGEST_INVALID", Behaviour::distribution_2()),
        ("400 UNSUPPORTED", Behaviour::harbor()),
        ("405 UNSUPPORTED", Behaviour::refuses_tags_with_405()),
        ("404 while alive", Behaviour::says_404_while_alive()),
    ]
}

#[tokio::test]
async fn a_tag_goes_in_three_requests_where_tags_can_be_deleted() {
    for front in BOTH {
        let scene = Scene::new(front, Behaviour::default()).await;
        assert_eq!(scene.untag(&mut UntagProgress::default()).await, Ok(UntagOutcome::Deleted));
        assert_eq!(scene.steps(), ["HEAD tag", "DELETE tag", "HEAD tag"]);
        assert_eq!(scene.tag(), None);
        scene.assert_bystanders_untouched("untags");
    }
}

#[tokio::test]
async fn a_tag_is_moved_to_a_throw_away_manifest_where_only_digests_can_be_deleted() {
    for front in BOTH {
        for (name, behaviour) in &deletable()[1..] {
            let scene = Scene::new(front, behaviour.clone()).await;
            assert_eq!(scene.untag(&mut UntagProgress::default()).await, Ok(UntagOutcome::Deleted), "{name}");
            let expected = [
                "HEAD tag",
                "DELETE tag",
                "HEAD tag",
                "DELETE absent digest",
                "PUT tag",
                "DELETE marker",
                "HEAD tag",
            ];
            assert_eq!(scene.steps(), expected, "{name}");
            assert_eq!(scene.tag(), None);
            scene.assert_bystanders_untouched(name);
        }
    }
}

#[tokio::test]
async fn an_absent_tag_is_already_gone_and_nothing_is_sent_after_the_look() {
    for front in BOTH {
        for (name, behaviour) in deletable() {
            let scene = Scene::new(front, behaviour).await;
            scene.rig.store.remove_tag(REPOSITORY, TAG);
            let outcome = scene.untag(&mut UntagProgress::default()).await;
            assert_eq!(outcome, Ok(UntagOutcome::AlreadyGone), "{name}");
            assert_eq!(scene.steps(), ["HEAD tag"]);
        }
    }
}

#[tokio::test]
async fn what_somebody_else_pushed_is_left_alone() {
    for front in BOTH {
        for (name, behaviour) in deletable() {
            let scene = Scene::new(front, behaviour).await;
            let foreign = scene.rig.push("foreign", &[TAG]).await;
            scene.rig.store.clear_log();
            let outcome = scene.untag(&mut UntagProgress::default()).await;
            let (found, expected) = (foreign.digest().clone(), scene.chart.digest().clone());
            assert_eq!(outcome, Ok(UntagOutcome::Foreign { found, expected }), "{name}");
            let deletes = scene.steps().into_iter().filter(|step| step.starts_with("DELETE")).count();
            assert_eq!((deletes, scene.tag()), (0, Some(foreign.digest().to_string())));
        }
    }
}

#[tokio::test]
async fn without_a_known_digest_there_is_nothing_to_compare() {
    for front in BOTH {
        for (name, behaviour) in deletable() {
            let scene = Scene::new(front, behaviour).await;
            let outcome = scene.untag_expecting(None, &mut UntagProgress::default()).await;
            assert_eq!(outcome, Ok(UntagOutcome::Deleted), "{name}");
            scene.assert_bystanders_untouched(name);
        }
    }
}

#[tokio::test]
async fn a_registry_without_deletion_is_found_out_before_anything_is_pushed() {
    let probe_says = |status, code| Behaviour {
        tag_delete: TagDelete::Refused(400, "DIGEST_INVALID"),
        digest_delete: DigestDelete::Refused(status, code),
        ..Behaviour::default()
    };
    let table = [
        (Behaviour::deletion_off(), 405, Some("UNSUPPORTED")),
        (probe_says(405, ""), 405, None),
        (probe_says(400, "UNSUPPORTED"), 400, Some("UNSUPPORTED")),
        (probe_says(403, "DENIED"), 403, Some("DENIED")),
        (probe_says(403, "UNSUPPORTED"), 403, Some("UNSUPPORTED")),
    ];
    for front in BOTH {
        for (behaviour, status, code) in &table {
            let scene = Scene::new(front, behaviour.clone()).await;
            let error = scene.untag(&mut UntagProgress::default()).await.expect_err("no deletion");
            let code = code.map(str::to_owned);
            assert_eq!(error, UntagError::Unsupported { status: *status, code });
            assert!(error.to_string().starts_with("registry does not support deletion"), "{error}");
            assert!(error.is_definite_refusal());
            assert_eq!(scene.steps(), ["HEAD tag", "DELETE tag", "HEAD tag", "DELETE absent digest"]);
            assert_eq!(scene.tag().as_deref(), Some(scene.chart.digest().as_str()));
        }
    }
}

#[tokio::test]
async fn a_probe_that_says_neither_yes_nor_no_ends_the_attempt_before_anything_is_pushed() {
    for front in BOTH {
        for (status, code) in [(400, "DIGEST_INVALID"), (412, "PRECONDITION"), (409, "CONFLICT")] {
            let behaviour = Behaviour::deletion_refused(status, code);
            let scene = Scene::new(front, behaviour).await;
            let error = scene.untag(&mut UntagProgress::default()).await.expect_err("no answer to rely on");
            assert_eq!(error, UntagError::Inconclusive { status, code: Some(code.to_owned()) });
            assert!(!error.is_definite_refusal());
            assert_eq!(scene.tag().as_deref(), Some(scene.chart.digest().as_str()));
        }
    }
}

#[tokio::test]
async fn a_registry_that_deletes_later_is_only_looked_at_after_it_has_accepted() {
    for front in BOTH {
        let scene = Scene::new(front, Behaviour::deletes_later(5)).await;
        let mut progress = UntagProgress::default();
        let found = scene.chart.digest().clone();
        for _ in 0..3 {
            let waiting = scene.untag(&mut progress).await;
            assert_eq!(waiting, Err(UntagError::NotYetGone { found: found.clone() }));
            assert!(progress.delete_accepted());
        }
        scene.rig.store.settle();
        assert_eq!(scene.untag(&mut progress).await, Ok(UntagOutcome::AlreadyGone));
        assert_eq!(scene.steps(), ["HEAD tag", "DELETE tag", "HEAD tag", "HEAD tag", "HEAD tag", "HEAD tag"]);
        scene.assert_bystanders_untouched("deletes later");
    }
}

#[tokio::test]
async fn a_throw_away_manifest_left_by_an_interrupted_run_is_finished_by_the_next() {
    for front in BOTH {
        for (name, behaviour) in &deletable()[1..] {
            let scene = Scene::new(front, behaviour.clone()).await;
            scene.rig.store.set_faults(|info| {
                let real = info.operation == RegistryOperation::DeleteDigest
                    && !info.reference.ends_with("00000000");
                if real { Fault::Cut } else { Fault::None }
            });
            let error = scene.untag(&mut UntagProgress::default()).await.expect_err("interrupted");
            assert!(
                matches!(error, UntagError::Failed { step: UntagStep::DeleteMarker, .. }),
                "{name}: {error:?}"
            );
            assert_eq!(scene.tag().as_deref(), Some(Artifact::marker(REPOSITORY, TAG).digest().as_str()));
            scene.rig.store.clear_faults();
            // The next process remembers nothing.
            assert_eq!(scene.untag(&mut UntagProgress::default()).await, Ok(UntagOutcome::Deleted), "{name}");
            assert_eq!(scene.tag(), None);
            scene.assert_bystanders_untouched(name);
        }
    }
}

#[tokio::test]
async fn a_marked_manifest_of_another_release_of_this_program_is_recognised_by_its_mark() {
    for front in BOTH {
        let scene = Scene::new(front, Behaviour::distribution_2()).await;
        let foreign_marker = Artifact::marker(REPOSITORY, "made differently");
        let pushed = scene.rig.registry.push(&scene.rig.endpoint, REPOSITORY, TAG, &foreign_marker).await;
        assert!(pushed.is_ok());
        scene.rig.store.clear_log();
        assert_eq!(scene.untag(&mut UntagProgress::default()).await, Ok(UntagOutcome::Deleted));
        scene.assert_bystanders_untouched("other marker");
    }
}

#[tokio::test]
async fn a_tag_that_outlives_its_throw_away_manifest_is_a_failure() {
    for front in BOTH {
        let scene = Scene::new(front, Behaviour::distribution_2()).await;
        // The registry accepts the deletion of the marker and does nothing.
        scene.rig.store.set_faults(|info| {
            let real =
                info.operation == RegistryOperation::DeleteDigest && !info.reference.ends_with("00000000");
            if real { Fault::status(202, "IGNORED") } else { Fault::None }
        });
        let error = scene.untag(&mut UntagProgress::default()).await.expect_err("still there");
        let found = Artifact::marker(REPOSITORY, TAG).digest().clone();
        assert_eq!(error, UntagError::StillThere { found, status: 202 });
    }
}

/// A registry in which somebody moves the tag back to the chart right after the marker was pushed.
struct Meddled(Arc<dyn OciRegistry>, RegistryStore);

#[async_trait]
impl OciRegistry for Meddled {
    async fn head(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Digest>, OciError> {
        self.0.head(endpoint, repository, reference).await
    }

    async fn manifest(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Manifest>, OciError> {
        self.0.manifest(endpoint, repository, reference).await
    }

    async fn blob(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        digest: &Digest,
        limit: usize,
    ) -> Result<Option<Bytes>, OciError> {
        self.0.blob(endpoint, repository, digest, limit).await
    }

    async fn push(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        tag: &str,
        artifact: &Artifact,
    ) -> Result<Digest, OciError> {
        let pushed = self.0.push(endpoint, repository, tag, artifact).await;
        assert!(self.1.copy_tag(repository, "sibling", tag));
        pushed
    }

    async fn delete(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<DeleteOutcome, OciError> {
        self.0.delete(endpoint, repository, reference).await
    }

    async fn tags(&self, endpoint: &Endpoint, repository: &str) -> Result<Vec<String>, OciError> {
        self.0.tags(endpoint, repository).await
    }
}

#[tokio::test]
async fn the_computed_digest_is_deleted_also_when_the_tag_was_moved_in_between() {
    for front in BOTH {
        let mut scene = Scene::new(front, Behaviour::distribution_2()).await;
        scene.rig.registry = Arc::new(Meddled(Arc::clone(&scene.rig.registry), scene.rig.store.clone()));
        let error = scene.untag(&mut UntagProgress::default()).await.expect_err("the tag is back");
        assert!(matches!(error, UntagError::StillThere { .. }), "{error:?}");
        scene.assert_bystanders_untouched("moved back");
    }
}

/// How the first attempt is disturbed.
fn disturbances(front: Front) -> Vec<Fault> {
    let mut faults = vec![
        Fault::status(401, "UNAUTHORIZED"),
        Fault::status(403, "DENIED"),
        Fault::Status { status: 429, code: "TOOMANYREQUESTS", retry_after: Some(1) },
        Fault::status(500, "UNKNOWN"),
        Fault::status(503, ""),
        Fault::Cut,
        Fault::CutAfterEffect,
    ];
    // Without sockets time is virtual, so that limits are reached at once.
    if front == Front::Memory {
        faults.extend([Fault::Hang, Fault::HangAfterEffect, Fault::CutAndLandLater(Duration::from_secs(25))]);
    }
    faults
}

fn is_write(operation: RegistryOperation) -> bool {
    matches!(
        operation,
        RegistryOperation::DeleteTag | RegistryOperation::DeleteDigest | RegistryOperation::PutManifest
    )
}

fn is_delete(operation: RegistryOperation) -> bool {
    matches!(operation, RegistryOperation::DeleteTag | RegistryOperation::DeleteDigest)
}

/// Disturbs the `at`-th request of the first attempt; `None` when there is no such request.
async fn disturbed(
    front: Front,
    behaviour: &Behaviour,
    fault: &Fault,
    at: u64,
) -> Option<(Scene, LogEntry, UntagProgress)> {
    let scene = Scene::new(front, behaviour.clone()).await;
    let once = fault.clone();
    let mut seen = 0;
    scene.rig.store.set_faults(move |_| {
        seen += 1;
        if seen == at { once.clone() } else { Fault::None }
    });
    let mut progress = UntagProgress::default();
    let result = scene.untag(&mut progress).await;
    scene.rig.store.clear_faults();
    let met = scene.log().get(usize::try_from(at).expect("small") - 1).cloned()?;
    let context = format!("{front:?} {behaviour:?} {fault:?} at {at} ({})", met.operation);
    check_disturbed(&result, fault, &met, &progress, &context);
    scene.assert_bystanders_untouched(&context);
    Some((scene, met, progress))
}

fn check_disturbed(
    result: &Result<UntagOutcome, UntagError>,
    fault: &Fault,
    met: &LogEntry,
    progress: &UntagProgress,
    context: &str,
) {
    let Err(error) = result else { panic!("{context}: {result:?}") };
    let unanswered = !matches!(fault, Fault::Status { .. }) && is_write(met.operation);
    assert_eq!(error.may_still_land(), unanswered, "{context}: {error}");
    assert_eq!(progress.unanswered_write().is_some(), unanswered, "{context}");
    let refused = matches!(fault, Fault::Status { status: 401 | 403, .. }) && is_delete(met.operation);
    assert_eq!(error.is_definite_refusal(), refused, "{context}: {error:?}");
}

async fn every_disturbance_is_survived(front: Front) {
    let mut disturbed_requests = 0;
    for (name, behaviour) in deletable() {
        for fault in disturbances(front) {
            for at in 1.. {
                let Some((scene, met, mut progress)) = disturbed(front, &behaviour, &fault, at).await else {
                    break;
                };
                disturbed_requests += 1;
                if front == Front::Memory {
                    tokio::time::sleep(Duration::from_secs(30)).await;
                }
                let context = format!("{name} {fault:?} at {at} ({})", met.operation);
                let outcome = scene.untag(&mut progress).await;
                assert!(
                    matches!(outcome, Ok(UntagOutcome::Deleted | UntagOutcome::AlreadyGone)),
                    "{context}: {outcome:?}"
                );
                assert_eq!(scene.tag(), None, "{context}");
                scene.assert_bystanders_untouched(&context);
            }
        }
    }
    // Three requests where tags can be deleted, nine where not, of which two upload the blob.
    assert_eq!(disturbed_requests, disturbances(front).len() * (3 + 4 * 9));
}

#[tokio::test(start_paused = true)]
async fn every_disturbance_at_every_request_is_survived_in_memory() {
    every_disturbance_is_survived(Front::Memory).await;
}

#[tokio::test]
async fn every_disturbance_at_every_request_is_survived_over_http() {
    every_disturbance_is_survived(Front::Http).await;
}

#[tokio::test(start_paused = true)]
async fn no_disturbance_makes_an_asynchronous_registry_see_a_second_delete_after_its_answer() {
    for fault in disturbances(Front::Memory) {
        for at in 1..=3 {
            let behaviour = Behaviour::deletes_later(100);
            let Some((scene, _, mut progress)) = disturbed(Front::Memory, &behaviour, &fault, at).await
            else {
                panic!("three requests")
            };
            let accepted = |scene: &Scene| {
                let log = scene.log();
                log.iter().filter(|entry| is_delete(entry.operation) && entry.status == Some(202)).count()
            };
            for _ in 0..3 {
                assert!(scene.untag(&mut progress).await.is_err());
                assert_eq!(accepted(&scene), 1, "{fault:?} at {at}");
            }
            scene.rig.store.settle();
            assert_eq!(scene.untag(&mut progress).await, Ok(UntagOutcome::AlreadyGone));
            assert_eq!(scene.rig.store.count(RegistryOperation::PutManifest), 0, "never replaced");
        }
    }
}

#[tokio::test]
async fn an_attempt_dropped_while_a_write_hangs_leaves_its_mark_in_the_progress() {
    for front in BOTH {
        let operations = [(RegistryOperation::HeadManifest, false), (RegistryOperation::DeleteTag, true)];
        for (operation, unanswered) in operations {
            let scene = Scene::new(front, Behaviour::default()).await;
            scene.rig.store.set_faults(
                move |info| {
                    if info.operation == operation { Fault::Hang } else { Fault::None }
                },
            );
            let mut progress = UntagProgress::default();
            let reached = async {
                while scene.rig.store.count(operation) == 0 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                result = scene.untag(&mut progress) => panic!("it hangs: {result:?}"),
                () = reached => {}
            }
            assert_eq!(progress.unanswered_write().is_some(), unanswered, "{operation}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_names_the_request_that_failed() {
    let scene = Scene::new(Front::Memory, Behaviour::distribution_2()).await;
    scene.rig.store.set_faults(|info| match info.operation {
        RegistryOperation::PutManifest => Fault::status(503, ""),
        _ => Fault::None,
    });
    let error = scene.untag(&mut UntagProgress::default()).await.expect_err("a failing push");
    let UntagError::Failed { step: UntagStep::PushMarker, source } = &error else { panic!("{error:?}") };
    assert_eq!(
        (source.operation, &source.kind),
        (Operation::PushManifest, &OciErrorKind::Server { status: 503 })
    );
    assert_eq!(
        error.to_string(),
        "push of the manifest at registry.example/team-a/shop/release-web: the registry answered 503"
    );
}
