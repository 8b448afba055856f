//! When a chart is rendered, and what its task's status says.

use std::sync::Arc;
use std::time::Duration;

use solar_api::{self as api};
use solar_core::condition;
use solar_core::object::ControllerRef;
use solar_core::packed::Packed;
use solar_core::record::{RenderArtifactRecord, RenderTaskRecord};
use solar_core::render_task::{self, Fault, JobOutcome, MAX_ATTEMPTS, TaskMemory, TaskStep, TaskView};

use crate::support::{at, bootstrap_task_spec, meta};

const VIEW: TaskView<'static> =
    TaskView { artifact: None, bound: true, seen_created: true, surroundings: "registry there" };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn task(status: api::RenderTaskStatus) -> RenderTaskRecord {
    let task = api::RenderTask {
        metadata: meta("edge", "render-tgt-berlin-1"),
        spec: bootstrap_task_spec(),
        status: Some(status),
    };
    RenderTaskRecord::from(&task)
}

fn fresh() -> RenderTaskRecord {
    task(api::RenderTaskStatus::default())
}

fn next(task: &RenderTaskRecord, view: &TaskView<'_>, memory: &mut TaskMemory, now: Duration) -> TaskStep {
    render_task::next(task, view, memory, now, at(100), 0.0)
}

fn written(step: TaskStep) -> api::RenderTaskStatus {
    match step {
        TaskStep::WriteStatus(status, _) => status,
        other => panic!("no status is written: {other:?}"),
    }
}

/// The task as it is after its job ended so, and what its actor remembers.
fn after(outcome: JobOutcome) -> (RenderTaskRecord, TaskMemory) {
    let mut memory = TaskMemory { outcome: Some(outcome), ..TaskMemory::default() };
    let status = written(next(&fresh(), &VIEW, &mut memory, seconds(10)));
    (task(status), memory)
}

fn surroundings(message: &str) -> JobOutcome {
    JobOutcome::Failed { fault: Fault::Surroundings { retry_after: None }, message: message.into() }
}

#[test]
fn a_task_that_was_seen_created_is_submitted_without_a_write() {
    assert_eq!(next(&fresh(), &VIEW, &mut TaskMemory::default(), seconds(0)), TaskStep::Submit);
}

#[test]
fn any_other_task_is_counted_first_and_given_up_after_three_attempts() {
    let view = TaskView { seen_created: false, ..VIEW };
    let mut memory = TaskMemory::default();
    let counted = written(next(&fresh(), &view, &mut memory, seconds(0)));
    assert_eq!(counted.attempts, Some(1));
    assert_eq!(next(&task(counted), &view, &mut memory, seconds(0)), TaskStep::Submit);

    let used_up = api::RenderTaskStatus { attempts: Some(MAX_ATTEMPTS), ..Default::default() };
    let status = written(next(&task(used_up), &view, &mut TaskMemory::default(), seconds(0)));
    assert!(condition::is_true(&status.conditions, "JobFailed"));
    let given_up = task(status);
    assert_eq!(next(&given_up, &view, &mut TaskMemory::default(), seconds(900)), TaskStep::Wait(None));
}

#[test]
fn a_submission_without_a_word_is_made_again() {
    let mut memory = TaskMemory::default();
    assert_eq!(next(&fresh(), &VIEW, &mut memory, seconds(0)), TaskStep::Submit);
    memory.submitted = true;
    let scheduled = task(written(next(&fresh(), &VIEW, &mut memory, seconds(2))));
    assert_eq!(next(&scheduled, &VIEW, &mut memory, seconds(29)), TaskStep::Wait(Some(seconds(30))));
    assert_eq!(next(&scheduled, &VIEW, &mut memory, seconds(30)), TaskStep::Submit);
    assert_eq!(next(&scheduled, &VIEW, &mut memory, seconds(31)), TaskStep::Wait(Some(seconds(60))));
}

#[test]
fn a_task_without_a_binding_waits_for_one() {
    let view = TaskView { bound: false, ..VIEW };
    assert_eq!(next(&fresh(), &view, &mut TaskMemory::default(), seconds(0)), TaskStep::Wait(None));
}

#[test]
fn job_scheduled_is_said_only_after_two_seconds() {
    let mut memory =
        TaskMemory { submitted: true, waiting_since: Some(seconds(10)), ..TaskMemory::default() };
    assert_eq!(next(&fresh(), &VIEW, &mut memory, seconds(11)), TaskStep::Wait(Some(seconds(12))));
    let status = written(next(&fresh(), &VIEW, &mut memory, seconds(12)));
    assert!(condition::is_true(&status.conditions, "JobScheduled"));
    assert_eq!(
        next(&task(status), &VIEW, &mut memory, seconds(20)),
        TaskStep::Wait(Some(seconds(41))),
        "once"
    );
}

#[test]
fn a_pushed_chart_is_said_with_digest_and_address() {
    let outcome = JobOutcome::Succeeded { digest: "sha256:aa".into(), chart_url: "oci://h/r:t".into() };
    let (done, _) = after(outcome);
    assert!(condition::is_true(&done.status.get().conditions, "JobSucceeded"));
    assert_eq!(done.status.get().digest.as_deref(), Some("sha256:aa"));
    assert_eq!(done.status.get().chart_url.as_deref(), Some("oci://h/r:t"));
}

#[test]
fn a_fault_of_the_input_is_final_until_a_person_asks() {
    let (failed, mut memory) =
        after(JobOutcome::Failed { fault: Fault::Input, message: "no entrypoint".into() });
    let status = failed.status.get();
    let said = condition::find(&status.conditions, "JobFailed").unwrap();
    assert_eq!((said.status.as_str(), said.message.as_str()), ("True", "no entrypoint"));
    let elsewhere = TaskView { surroundings: "registry moved", ..VIEW };
    assert_eq!(next(&failed, &elsewhere, &mut memory, seconds(9_000)), TaskStep::Wait(None));
    assert_eq!(next(&failed, &VIEW, &mut TaskMemory::default(), seconds(0)), TaskStep::Wait(None), "restart");

    let mut asked = failed;
    asked.render_request = Some("again".into());
    let retrying = written(next(&asked, &VIEW, &mut memory, seconds(9_000)));
    let said = condition::find(&retrying.conditions, "JobFailed").unwrap();
    assert_eq!((said.status.as_str(), said.reason.as_str()), ("False", "Retrying"));
    assert_eq!(retrying.observed_render_request.as_deref(), Some("again"));
}

#[test]
fn a_fault_of_the_surroundings_is_tried_again_after_a_while_and_at_once_when_they_change() {
    let (failed, mut memory) = after(surroundings("registry away"));
    assert_eq!(next(&failed, &VIEW, &mut memory, seconds(14)), TaskStep::Wait(Some(seconds(15))));
    let mut waited = memory.clone();
    let retrying = written(next(&failed, &VIEW, &mut waited, seconds(15)));
    assert!(!condition::is_true(&retrying.conditions, "JobFailed"));
    assert_eq!(next(&task(retrying), &VIEW, &mut waited, seconds(15)), TaskStep::Submit);

    let mended = TaskView { surroundings: "registry there, with a secret", ..VIEW };
    assert!(matches!(next(&failed, &mended, &mut memory, seconds(11)), TaskStep::WriteStatus(..)));
}

#[test]
fn a_person_who_asks_ends_the_wait_after_a_failure_of_the_surroundings() {
    let (mut failed, mut memory) = after(surroundings("the registry answered 401"));
    assert!(matches!(next(&failed, &VIEW, &mut memory, seconds(11)), TaskStep::Wait(Some(_))));
    failed.render_request = Some("now".into());
    let status = written(next(&failed, &VIEW, &mut memory, seconds(11)));
    assert_eq!(status.observed_render_request.as_deref(), Some("now"));
    failed.status = Packed::of(&status);
    assert_eq!(next(&failed, &VIEW, &mut memory, seconds(11)), TaskStep::Submit);
}

#[test]
fn what_the_registry_asks_for_is_waited_for() {
    let fault = Fault::Surroundings { retry_after: Some(seconds(60)) };
    let (failed, mut memory) = after(JobOutcome::Failed { fault, message: "429".into() });
    assert_eq!(next(&failed, &VIEW, &mut memory, seconds(69)), TaskStep::Wait(Some(seconds(70))));
}

#[test]
fn a_full_pool_is_asked_again_when_it_said() {
    let mut memory = TaskMemory { refused_until: Some(seconds(3)), ..TaskMemory::default() };
    assert!(matches!(next(&fresh(), &VIEW, &mut memory, seconds(1)), TaskStep::Wait(Some(_))));
    assert_eq!(next(&fresh(), &VIEW, &mut memory, seconds(3)), TaskStep::Submit);
}

// ---- Results and writes that fail ----

fn succeeded() -> JobOutcome {
    JobOutcome::Succeeded { digest: "sha256:aa".into(), chart_url: "oci://h/r:t".into() }
}

fn input_fault() -> JobOutcome {
    JobOutcome::Failed { fault: Fault::Input, message: "no entrypoint".into() }
}

/// Type, status and reason of each condition, in the stored order.
fn said(status: &api::RenderTaskStatus) -> Vec<String> {
    let word = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        format!("{} {} {}", c.type_, c.status, c.reason)
    };
    status.conditions.iter().map(word).collect()
}

fn artifact_with(digest: Option<&str>) -> RenderArtifactRecord {
    let artifact = api::RenderArtifact {
        metadata: meta("edge", "render-art-1"),
        spec: api::RenderArtifactSpec::default(),
        status: Some(api::RenderArtifactStatus { digest: digest.map(Into::into), ..Default::default() }),
    };
    RenderArtifactRecord::from(&artifact)
}

#[test]
fn a_result_that_could_not_be_written_is_written_by_the_next_pass_and_its_backoff_counts_once() {
    for outcome in [succeeded(), input_fault(), surroundings("registry away")] {
        let mut memory = TaskMemory { outcome: Some(outcome), ..TaskMemory::default() };
        let first = next(&fresh(), &VIEW, &mut memory, seconds(10));
        let retry_at = memory.retry_at;
        let second = next(&fresh(), &VIEW, &mut memory, seconds(11));
        assert_eq!(first, second);
        assert_eq!(memory.retry_at, retry_at);
        let done = task(written(second));
        assert!(matches!(next(&done, &VIEW, &mut memory, seconds(12)), TaskStep::Wait(_)));
        assert_eq!(memory.result, None);
    }
}

#[test]
fn an_attempt_whose_count_was_not_written_is_not_begun() {
    let view = TaskView { seen_created: false, ..VIEW };
    // Nobody counts from below zero.
    for (before, after) in [(None, 1), (Some(1), 2), (Some(2), 3), (Some(-3), 1), (Some(i32::MIN), 1)] {
        let task_before = task(api::RenderTaskStatus { attempts: before, ..Default::default() });
        let mut memory = TaskMemory::default();
        for _ in 0..2 {
            let counted = written(next(&task_before, &view, &mut memory, seconds(0)));
            assert_eq!(counted.attempts, Some(after));
        }
    }
    for attempts in [3, i32::MAX] {
        let used_up = task(api::RenderTaskStatus { attempts: Some(attempts), ..Default::default() });
        let mut memory = TaskMemory::default();
        for _ in 0..2 {
            let given_up = written(next(&used_up, &view, &mut memory, seconds(0)));
            assert_eq!(said(&given_up), ["JobFailed True JobFailed"]);
        }
    }
}

#[test]
fn conditions_stand_in_the_order_in_which_the_status_column_reads_them() {
    let mut memory = TaskMemory { submitted: true, waiting_since: Some(seconds(0)), ..TaskMemory::default() };
    let scheduled = written(next(&fresh(), &VIEW, &mut memory, seconds(2)));
    assert_eq!(said(&scheduled), ["JobScheduled True JobScheduled"]);

    memory = TaskMemory { outcome: Some(surroundings("registry away")), ..TaskMemory::default() };
    let failed = written(next(&task(scheduled), &VIEW, &mut memory, seconds(3)));
    assert_eq!(said(&failed), ["JobFailed True JobFailed", "JobScheduled True JobScheduled"]);

    let retrying = written(next(&task(failed), &VIEW, &mut memory, seconds(900)));
    assert_eq!(said(&retrying), ["JobFailed False Retrying", "JobScheduled True JobScheduled"]);

    memory.outcome = Some(succeeded());
    let done = written(next(&task(retrying), &VIEW, &mut memory, seconds(901)));
    assert_eq!(said(&done), ["JobSucceeded True JobSucceeded", "JobScheduled True JobScheduled"]);
}

#[test]
fn a_failure_takes_back_what_a_success_had_said() {
    let (done, _) = after(succeeded());
    let mut memory = TaskMemory { outcome: Some(input_fault()), ..TaskMemory::default() };
    let failed = written(next(&done, &VIEW, &mut memory, seconds(20)));
    assert_eq!(said(&failed), ["JobFailed True JobFailed"]);
    assert_eq!((failed.digest, failed.chart_url, failed.attempts), (None, None, Some(MAX_ATTEMPTS)));
}

#[test]
fn results_are_told_as_events() {
    let rows = [
        (succeeded(), false, "JobSucceeded"),
        (input_fault(), true, "JobFailed"),
        (surroundings("registry away"), true, "JobFailed"),
    ];
    for (outcome, warning, reason) in rows {
        let mut memory = TaskMemory { outcome: Some(outcome), ..TaskMemory::default() };
        let TaskStep::WriteStatus(_, Some(event)) = next(&fresh(), &VIEW, &mut memory, seconds(0)) else {
            panic!("no event");
        };
        assert_eq!((event.warning, event.reason), (warning, reason));
    }
}

#[test]
fn a_long_wait_for_a_slot_is_said_too() {
    let mut memory = TaskMemory::default();
    assert_eq!(next(&fresh(), &VIEW, &mut memory, seconds(0)), TaskStep::Submit);
    memory.refused_until = Some(seconds(30));
    assert_eq!(next(&fresh(), &VIEW, &mut memory, seconds(1)), TaskStep::Wait(Some(seconds(2))));
    let status = written(next(&fresh(), &VIEW, &mut memory, seconds(2)));
    assert_eq!(said(&status), ["JobScheduled True JobScheduled"]);
    assert_eq!(next(&task(status), &VIEW, &mut memory, seconds(3)), TaskStep::Wait(Some(seconds(30))));
}

// ---- Retries ----

#[test]
fn the_waits_after_failures_of_the_surroundings_double_from_five_seconds_to_five_minutes() {
    let mut memory = TaskMemory::default();
    let mut task_now = fresh();
    let mut now = seconds(0);
    for wait in [5, 10, 20, 40, 80, 160, 300, 300] {
        memory.outcome = Some(surroundings("registry away"));
        task_now = task(written(next(&task_now, &VIEW, &mut memory, now)));
        let due = now + seconds(wait);
        assert_eq!(next(&task_now, &VIEW, &mut memory, now), TaskStep::Wait(Some(due)));
        now = due;
        task_now = task(written(next(&task_now, &VIEW, &mut memory, now)));
        assert_eq!(next(&task_now, &VIEW, &mut memory, now), TaskStep::Submit);
    }
}

#[test]
fn surroundings_that_changed_while_the_job_ran_are_worth_an_attempt_at_once() {
    let mut memory = TaskMemory::default();
    assert_eq!(next(&fresh(), &VIEW, &mut memory, seconds(0)), TaskStep::Submit);
    memory.outcome = Some(surroundings("registry away"));
    let mended = TaskView { surroundings: "registry moved", ..VIEW };
    let failed = task(written(next(&fresh(), &mended, &mut memory, seconds(1))));
    assert!(matches!(next(&failed, &mended, &mut memory, seconds(1)), TaskStep::WriteStatus(..)));
}

#[test]
fn a_failure_of_the_surroundings_is_tried_again_after_a_restart() {
    let (failed, _) = after(surroundings("registry away"));
    let retrying = written(next(&failed, &VIEW, &mut TaskMemory::default(), seconds(0)));
    assert_eq!(said(&retrying), ["JobFailed False Retrying"]);
}

#[test]
fn an_attempt_at_a_failed_task_that_ends_with_the_process_is_counted_by_the_next() {
    let (failed, mut memory) = after(surroundings("registry away"));
    let retrying = task(written(next(&failed, &VIEW, &mut memory, seconds(900))));
    let view = TaskView { seen_created: false, ..VIEW };
    let counted = written(next(&retrying, &view, &mut TaskMemory::default(), seconds(0)));
    assert_eq!(counted.attempts, Some(1));
}

#[test]
fn a_person_may_ask_again_for_a_task_that_was_given_up() {
    let view = TaskView { seen_created: false, ..VIEW };
    let used_up = task(api::RenderTaskStatus { attempts: Some(3), ..Default::default() });
    let mut memory = TaskMemory::default();
    let mut given_up = task(written(next(&used_up, &view, &mut memory, seconds(0))));
    given_up.render_request = Some("please".into());
    let retrying = written(next(&given_up, &view, &mut memory, seconds(1)));
    assert_eq!((retrying.attempts, retrying.observed_render_request.as_deref()), (None, Some("please")));
    let mut begun = task(retrying);
    begun.render_request = Some("please".into());
    assert_eq!(next(&begun, &view, &mut memory, seconds(1)), TaskStep::Submit);
}

#[test]
fn a_person_may_ask_again_for_a_chart_that_is_there_and_gets_one_attempt() {
    let there = artifact_with(Some("sha256:aa"));
    let view = TaskView { artifact: Some(&there), ..VIEW };
    let (mut done, _) = after(succeeded());
    done.render_request = Some("check".into());
    let mut memory = TaskMemory::default();
    let noted = written(next(&done, &view, &mut memory, seconds(60)));
    assert_eq!(noted.observed_render_request.as_deref(), Some("check"));
    assert_eq!(said(&noted), ["JobSucceeded True JobSucceeded"]);
    let mut noted = task(noted);
    noted.render_request = Some("check".into());
    assert_eq!(next(&noted, &view, &mut memory, seconds(60)), TaskStep::Submit);
    memory.outcome = Some(succeeded());
    assert_eq!(next(&noted, &view, &mut memory, seconds(61)), TaskStep::Wait(None));
}

// ---- Charts that are there, or not ----

#[test]
fn a_chart_is_checked_again_when_its_artifact_lost_the_digest_or_has_another() {
    let (done, _) = after(succeeded());
    for (digest, wanted) in [
        (Some("sha256:aa"), TaskStep::Wait(None)),
        (Some("sha256:bb"), TaskStep::Submit),
        (None, TaskStep::Submit),
    ] {
        let artifact = artifact_with(digest);
        let view = TaskView { artifact: Some(&artifact), ..VIEW };
        assert_eq!(next(&done, &view, &mut TaskMemory::default(), seconds(60)), wanted, "{digest:?}");
    }
}

#[test]
fn a_chart_without_an_artifact_is_checked_again_only_where_a_target_owns_its_task() {
    let (mut done, _) = after(succeeded());
    assert_eq!(next(&done, &VIEW, &mut TaskMemory::default(), seconds(60)), TaskStep::Wait(None));
    done.controller = Some(Arc::new(ControllerRef {
        kind: "Target".into(),
        name: "berlin".into(),
        uid: "uid-edge-berlin".into(),
    }));
    assert_eq!(next(&done, &VIEW, &mut TaskMemory::default(), seconds(60)), TaskStep::Submit);
}

#[test]
fn a_digest_that_was_just_pushed_is_believed_for_five_seconds() {
    let (done, mut memory) = after(succeeded());
    let lagging = artifact_with(None);
    let view = TaskView { artifact: Some(&lagging), ..VIEW };
    assert_eq!(next(&done, &view, &mut memory, seconds(14)), TaskStep::Wait(Some(seconds(15))));
    assert_eq!(next(&done, &view, &mut memory, seconds(15)), TaskStep::Submit);
}

// ---- Held and stale ----

#[test]
fn a_task_that_is_not_bound_by_the_artifacts_word_waits_for_a_change_but_not_for_ever() {
    let unbound = TaskView { bound: false, ..VIEW };
    let other = artifact_with(None);
    let changed = TaskView { artifact: Some(&other), ..VIEW };
    let held = || {
        let mut memory = TaskMemory::default();
        assert_eq!(next(&fresh(), &VIEW, &mut memory, seconds(0)), TaskStep::Submit);
        memory.outcome = Some(JobOutcome::Held { retry_after: None });
        assert_eq!(next(&fresh(), &VIEW, &mut memory, seconds(1)), TaskStep::Wait(Some(seconds(31))));
        memory
    };
    assert_eq!(next(&fresh(), &changed, &mut held(), seconds(2)), TaskStep::Submit, "another artifact");
    let mut rebound = held();
    assert_eq!(next(&fresh(), &unbound, &mut rebound, seconds(2)), TaskStep::Wait(None));
    assert_eq!(next(&fresh(), &VIEW, &mut rebound, seconds(3)), TaskStep::Submit, "bound again");
    assert_eq!(next(&fresh(), &VIEW, &mut held(), seconds(31)), TaskStep::Submit, "the change was missed");
}

#[test]
fn a_change_while_the_job_ran_ends_the_wait_that_its_answer_asks_for() {
    let mut memory = TaskMemory::default();
    assert_eq!(next(&fresh(), &VIEW, &mut memory, seconds(0)), TaskStep::Submit);
    memory.outcome = Some(JobOutcome::Held { retry_after: None });
    let came = artifact_with(None);
    let changed = TaskView { artifact: Some(&came), ..VIEW };
    assert_eq!(next(&fresh(), &changed, &mut memory, seconds(1)), TaskStep::Submit);
}

#[test]
fn a_task_whose_artifact_is_busy_asks_again_when_it_was_told_to() {
    let mut memory = TaskMemory {
        outcome: Some(JobOutcome::Held { retry_after: Some(seconds(1)) }),
        ..TaskMemory::default()
    };
    assert_eq!(next(&fresh(), &VIEW, &mut memory, seconds(10)), TaskStep::Wait(Some(seconds(11))));
    assert_eq!(next(&fresh(), &VIEW, &mut memory, seconds(11)), TaskStep::Submit);
}

#[test]
fn a_stale_chart_is_made_again_at_once_and_then_ever_more_slowly() {
    let mut memory = TaskMemory::default();
    let mut stale = |now: Duration| {
        memory.outcome = Some(JobOutcome::Stale);
        next(&fresh(), &VIEW, &mut memory, now)
    };
    assert_eq!(stale(seconds(10)), TaskStep::Submit);
    let millis = |millis| TaskStep::Wait(Some(seconds(10) + Duration::from_millis(millis)));
    assert_eq!(stale(seconds(10)), millis(100));
    assert_eq!(stale(seconds(10)), millis(200));
    memory.outcome = Some(JobOutcome::Held { retry_after: Some(seconds(0)) });
    assert_eq!(next(&fresh(), &VIEW, &mut memory, seconds(20)), TaskStep::Submit);
    assert_eq!(memory.stale, 0, "another end forgets it");
}

// ---- Rest ----

#[test]
fn a_memory_can_be_done_without_when_the_chart_is_there_or_was_given_up_and_the_watch_has_shown_it() {
    for outcome in [succeeded(), input_fault()] {
        let (done, mut memory) = after(outcome);
        assert!(
            !memory.is_dispensable(&done, seconds(10)),
            "what it came to is not known to be written: {memory:?}"
        );
        let steps = next(&done, &VIEW, &mut memory, seconds(20));
        assert!(memory.is_dispensable(&done, seconds(20)), "{memory:?}");
        assert_eq!(next(&done, &VIEW, &mut TaskMemory::default(), seconds(20)), steps, "{memory:?}");
    }
    let (done, mut memory) = after(succeeded());
    next(&done, &VIEW, &mut memory, seconds(14));
    assert!(!memory.is_dispensable(&done, seconds(14)), "the watch may not show the digest yet");
}

/// What a memory holds, and how it gets it.
type Need = (&'static str, fn(&mut TaskMemory));

#[test]
fn a_memory_is_needed_while_an_attempt_is_ahead_or_counted() {
    let (done, _) = after(succeeded());
    let now = seconds(100);
    let (waiting, retries) = after(surroundings("registry away"));
    assert!(!retries.is_dispensable(&waiting, now), "a wait after a failure");
    let counted = TaskMemory { counted: Some(1), ..TaskMemory::default() };
    assert!(!counted.is_dispensable(&fresh(), now), "the attempt would be counted twice");
    let needed: [Need; 9] = [
        ("submitted", |memory| memory.submitted = true),
        ("outcome", |memory| memory.outcome = Some(JobOutcome::Stale)),
        ("again", |memory| memory.again = true),
        ("held", |memory| memory.held = Some((String::new(), Duration::from_secs(1)))),
        ("retry_at", |memory| memory.retry_at = Some(Duration::from_secs(1))),
        ("refused_until", |memory| memory.refused_until = Some(Duration::from_secs(101))),
        ("waiting_since", |memory| memory.waiting_since = Some(Duration::from_secs(1))),
        ("failures", |memory| memory.failures = 1),
        ("stale", |memory| memory.stale = 1),
    ];
    for (what, set) in needed {
        let mut memory = TaskMemory::default();
        assert!(memory.is_dispensable(&done, now));
        set(&mut memory);
        assert!(!memory.is_dispensable(&done, now), "{what}");
    }
}

#[test]
fn a_terminating_task_asks_for_nothing() {
    let mut going = fresh();
    going.meta.terminating = true;
    let mut memory = TaskMemory { outcome: Some(succeeded()), ..TaskMemory::default() };
    assert_eq!(next(&going, &VIEW, &mut memory, seconds(0)), TaskStep::Wait(None));
}
