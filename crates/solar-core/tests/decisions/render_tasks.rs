//! When a chart is rendered, and what its task's status says.

use std::time::Duration;

use solar_api::{self as api};
use solar_core::condition;
use solar_core::record::RenderTaskRecord;
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
    assert_eq!(next(&task(status), &VIEW, &mut memory, seconds(20)), TaskStep::Wait(None), "once");
}

#[test]
fn a_pushed_chart_is_said_with_digest_and_address() {
    let outcome = JobOutcome::Succeeded { digest: "sha256:aa".into(), chart_url: "oci://h/r:t".into() };
    let (done, _) = after(outcome);
    assert!(condition::is_true(&done.status.conditions, "JobSucceeded"));
    assert_eq!(done.status.digest.as_deref(), Some("sha256:aa"));
    assert_eq!(done.status.chart_url.as_deref(), Some("oci://h/r:t"));
}

#[test]
fn a_fault_of_the_input_is_final_until_a_person_asks() {
    let (failed, mut memory) =
        after(JobOutcome::Failed { fault: Fault::Input, message: "no entrypoint".into() });
    let said = condition::find(&failed.status.conditions, "JobFailed").unwrap();
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
