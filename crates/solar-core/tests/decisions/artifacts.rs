//! What a RenderArtifact's actor answers and does.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use solar_api::names::RENDER_ARTIFACT_FINALIZER;
use solar_api::{self as api};
use solar_core::artifact::{
    self, ArtifactMemory, ArtifactOptions, ArtifactStep, BindDecision, BindingChange, Owner, PushDecision,
    PushRequest, View, Written,
};
use solar_core::condition::{self, Wanted};
use solar_core::names;
use solar_core::object::ObjectName;
use solar_core::overlay::Own;
use solar_core::record::{RenderArtifactRecord, RenderBindingRecord, TargetRecord};
use solar_core::target::Coordinates;
use solar_core::world::World;

use crate::support::{at, meta, target};

const HOST: &str = "registry.example.com";
const REPOSITORY: &str = "edge/edge/release-web";
const TAG: &str = "v0.0.1-0a1b2c3d";
pub const OPTIONS: ArtifactOptions = ArtifactOptions {
    unbound_grace: Duration::from_secs(300),
    check_interval: Some(Duration::from_secs(21_600)),
};

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn name() -> ObjectName {
    ObjectName::new("edge", names::artifact("edge", HOST, REPOSITORY, TAG))
}

pub fn coordinates() -> Coordinates {
    Coordinates { base_url: HOST.into(), repository: REPOSITORY.into(), tag: TAG.into() }
}

pub fn registry(name: &str) -> ObjectName {
    ObjectName::new("edge", name)
}

pub fn owner(target: &str) -> Owner {
    Owner { target: ObjectName::new("edge", target), uid: format!("uid-edge-{target}").into() }
}

/// A settled artifact: finalizer, chart address and digest are there.
pub fn an_artifact() -> api::RenderArtifact {
    let mut metadata = meta("edge", &name().name);
    metadata.finalizers = Some(vec![RENDER_ARTIFACT_FINALIZER.into()]);
    let spec = api::RenderArtifactSpec {
        base_url: HOST.into(),
        repository: REPOSITORY.into(),
        tag: TAG.into(),
        render_task_ref: "task".into(),
        registry_ref: Some(api::ObjectReference { name: "charts".into(), namespace: None }),
    };
    let status = api::RenderArtifactStatus {
        chart_url: Some(format!("oci://{HOST}/{REPOSITORY}:{TAG}")),
        digest: Some("sha256:aa".into()),
        conditions: Vec::new(),
    };
    api::RenderArtifact { metadata, spec, status: Some(status) }
}

pub fn terminating() -> api::RenderArtifact {
    let mut artifact = an_artifact();
    artifact.metadata.deletion_timestamp = Some(Time(at(1)));
    artifact
}

pub fn a_binding(target: &str, registry: &str) -> api::RenderBinding {
    let mut metadata = meta("edge", &names::binding(&name().name, target));
    metadata.owner_references = Some(vec![OwnerReference {
        kind: "Target".into(),
        name: target.into(),
        uid: format!("uid-edge-{target}"),
        controller: Some(true),
        ..Default::default()
    }]);
    let spec = api::RenderBindingSpec {
        render_artifact_ref: api::LocalReference { name: name().name.to_string() },
        owner_kind: "Target".into(),
        owner_name: target.into(),
        owner_namespace: "edge".into(),
        registry_ref: Some(api::ObjectReference { name: registry.into(), namespace: None }),
    };
    api::RenderBinding { metadata, spec }
}

pub fn world(artifact: Option<&api::RenderArtifact>, bindings: &[api::RenderBinding]) -> World {
    let mut world = World::default();
    if let Some(artifact) = artifact {
        world.insert(RenderArtifactRecord::from(artifact));
    }
    for binding in bindings {
        world.insert(RenderBindingRecord::from(binding));
        world.insert(TargetRecord::from(&target("edge", &binding.spec.owner_name, "charts")));
    }
    world
}

pub fn view<'w>(world: &'w World, memory: &mut ArtifactMemory) -> View<'w> {
    View::of(world, &name(), memory)
}

fn bind(world: &World, owner: &Owner, registry_name: &str) -> BindDecision {
    let mut memory = ArtifactMemory::default();
    let view = view(world, &mut memory);
    artifact::bind(&view, &mut memory, &name(), owner, &coordinates(), &registry(registry_name), seconds(0))
}

pub fn next(world: &World, memory: &mut ArtifactMemory, now: Duration) -> ArtifactStep {
    let view = view(world, memory);
    artifact::next(world, &view, memory, &OPTIONS, now)
}

#[test]
fn bind_creates_the_binding_and_then_the_artifact() {
    let decision = bind(&world(None, &[]), &owner("berlin"), "charts");
    let wanted = BindDecision::Proceed { binding: BindingChange::Create, create_artifact: true };
    assert_eq!(decision, wanted);
}

#[test]
fn bind_of_an_existing_binding_changes_nothing() {
    let world = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    let wanted = BindDecision::Proceed { binding: BindingChange::None, create_artifact: false };
    assert_eq!(bind(&world, &owner("berlin"), "charts"), wanted);
}

#[test]
fn bind_corrects_the_registry_of_an_existing_binding() {
    let world = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    let decision = bind(&world, &owner("berlin"), "other");
    assert!(
        matches!(decision, BindDecision::Proceed { binding: BindingChange::Repoint(_), .. }),
        "{decision:?}"
    );
}

#[test]
fn a_binding_of_an_old_owner_uid_is_made_anew_and_never_patched() {
    let world = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    let fresh = Owner { uid: "another".into(), ..owner("berlin") };
    let decision = bind(&world, &fresh, "other");
    assert!(
        matches!(decision, BindDecision::Proceed { binding: BindingChange::Recreate(_), .. }),
        "{decision:?}"
    );
}

#[test]
fn bind_to_an_artifact_that_is_cleaned_up_creates_nothing() {
    let decision = bind(&world(Some(&terminating()), &[]), &owner("berlin"), "charts");
    let BindDecision::Terminating { retry_after, .. } = decision else { panic!("{decision:?}") };
    assert_eq!(retry_after, seconds(5), "it asks again");
}

#[test]
fn bind_to_a_terminating_artifact_that_another_holds_is_bound() {
    let world = world(Some(&terminating()), &[a_binding("hamburg", "charts")]);
    let wanted = BindDecision::Proceed { binding: BindingChange::Create, create_artifact: false };
    assert_eq!(bind(&world, &owner("berlin"), "charts"), wanted);
}

#[test]
fn a_stranger_of_the_same_name_is_a_collision_and_never_a_share() {
    let mut stranger = an_artifact();
    stranger.spec.tag = "v9".into();
    let with = Coordinates { tag: "v9".into(), ..coordinates() };
    assert_eq!(
        bind(&world(Some(&stranger), &[]), &owner("berlin"), "charts"),
        BindDecision::Collision { with }
    );
}

#[test]
fn unbind_pins_a_survivors_registry_before_the_binding_goes() {
    let world = world(Some(&an_artifact()), &[a_binding("berlin", "charts"), a_binding("hamburg", "other")]);
    let mut memory = ArtifactMemory::default();
    let view = view(&world, &mut memory);
    let decision = artifact::unbind(&view, &mut memory, &owner("berlin"), seconds(0));
    assert_eq!(decision.repin, Some(registry("other")));
    let owners: Vec<_> = decision.delete.iter().map(|binding| &*binding.owner.name).collect();
    assert_eq!(owners, ["berlin"]);
}

#[test]
fn unbind_of_what_is_not_bound_does_nothing() {
    let world = world(Some(&an_artifact()), &[]);
    let mut memory = ArtifactMemory::default();
    let view = view(&world, &mut memory);
    let decision = artifact::unbind(&view, &mut memory, &owner("berlin"), seconds(0));
    assert_eq!(decision, artifact::UnbindDecision::default());
    assert!(!memory.seen_bound, "by nobody");
}

#[test]
fn a_binding_without_a_registry_never_erases_the_pin() {
    let mut without = a_binding("berlin", "charts");
    without.spec.registry_ref = None;
    let world = world(Some(&an_artifact()), &[without]);
    assert_eq!(next(&world, &mut ArtifactMemory::default(), seconds(0)), ArtifactStep::Wait(None));
}

pub fn push(world: &World, memory: &mut ArtifactMemory, owner: Option<Owner>, now: Duration) -> PushDecision {
    let view = view(world, memory);
    artifact::open_push(&view, memory, &PushRequest { coordinates: coordinates(), owner, digest: None }, now)
}

pub fn trusting() -> ArtifactMemory {
    ArtifactMemory { trusted: true, ..ArtifactMemory::default() }
}

#[test]
fn a_push_is_never_granted_on_the_word_of_the_watch_alone() {
    let world = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    let mut memory = ArtifactMemory::default();
    assert_eq!(push(&world, &mut memory, Some(owner("berlin")), seconds(0)), PushDecision::ReadFirst);
    assert_eq!(memory.ticket, None);
}

#[test]
fn a_push_is_granted_to_whoever_holds_the_tag_one_at_a_time_and_told_the_known_digest() {
    let world = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    let mut memory = trusting();
    let PushDecision::Granted { ticket, known_digest } =
        push(&world, &mut memory, Some(owner("berlin")), seconds(0))
    else {
        panic!("not granted");
    };
    assert_eq!(known_digest.as_deref(), Some("sha256:aa"));
    assert_eq!(push(&world, &mut memory, Some(owner("berlin")), seconds(0)), PushDecision::Busy);
    memory.close_ticket(ticket.id, Written::Answered);
    assert!(matches!(push(&world, &mut memory, None, seconds(0)), PushDecision::Granted { .. }));
}

#[test]
fn what_the_tag_is_known_to_hold_needs_no_ticket_also_while_another_job_has_it() {
    let world = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    let ask = |memory: &mut ArtifactMemory, who: &str, digest: &str| {
        let view = view(&world, memory);
        let owner = Some(owner(who));
        let request = PushRequest { coordinates: coordinates(), owner, digest: Some(digest.into()) };
        artifact::open_push(&view, memory, &request, seconds(0))
    };
    let mut memory = trusting();
    assert_eq!(ask(&mut memory, "berlin", "sha256:aa"), PushDecision::Known);
    assert_eq!(memory.ticket, None);
    assert_eq!(ask(&mut memory, "hamburg", "sha256:aa"), PushDecision::NotBound, "not on a stranger's word");
    assert!(matches!(ask(&mut memory, "berlin", "sha256:bb"), PushDecision::Granted { .. }));
    assert_eq!(ask(&mut memory, "berlin", "sha256:aa"), PushDecision::Known);
    assert_eq!(ask(&mut memory, "berlin", "sha256:bb"), PushDecision::Busy);
    assert_eq!(ask(&mut ArtifactMemory::default(), "berlin", "sha256:aa"), PushDecision::ReadFirst);
}

#[test]
fn a_push_is_refused_to_whoever_does_not_hold_the_tag() {
    let world = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    for stranger in [owner("hamburg"), Owner { uid: "old".into(), ..owner("berlin") }] {
        assert_eq!(push(&world, &mut trusting(), Some(stranger), seconds(0)), PushDecision::NotBound);
    }
}

#[test]
fn a_push_waits_for_what_an_earlier_incarnation_may_still_delete() {
    let world = world(Some(&terminating()), &[a_binding("berlin", "charts")]);
    let mut memory = ArtifactMemory { trusted: true, ..ArtifactMemory::new(seconds(30)) };
    let early = push(&world, &mut memory, Some(owner("berlin")), seconds(29));
    assert_eq!(early, PushDecision::Terminating);
    let later = push(&world, &mut memory, Some(owner("berlin")), seconds(30));
    assert!(
        matches!(later, PushDecision::Granted { known_digest: None, .. }),
        "not looked at yet: {later:?}"
    );
}

#[test]
fn a_write_without_an_answer_counts_as_under_way_for_thirty_seconds() {
    let world = world(Some(&terminating()), &[]);
    let mut memory = ArtifactMemory { trusted: true, confirmed: true, ..ArtifactMemory::default() };
    memory.ticket = Some(artifact::Ticket { id: 1, artifact_uid: None });
    assert_eq!(next(&world, &mut memory, seconds(5)), ArtifactStep::Wait(None), "a ticket is open");
    memory.close_ticket(7, Written::Answered);
    assert!(memory.ticket.is_some(), "another ticket's end is not this one's");
    memory.close_ticket(1, Written::Unanswered(seconds(10)));
    assert_eq!(next(&world, &mut memory, seconds(39)), ArtifactStep::Wait(Some(seconds(40))));
    assert_eq!(next(&world, &mut memory, seconds(40)), ArtifactStep::CleanUp);
}

#[test]
fn a_living_artifact_gets_its_finalizer_its_address_and_its_pin() {
    let bindings = [a_binding("berlin", "other")];
    let mut artifact = an_artifact();
    artifact.metadata.finalizers = None;
    let step = |artifact: &api::RenderArtifact| {
        next(&world(Some(artifact), &bindings), &mut ArtifactMemory::default(), seconds(0))
    };
    assert_eq!(step(&artifact), ArtifactStep::AddFinalizer);
    artifact = an_artifact();
    artifact.status = None;
    assert_eq!(step(&artifact), ArtifactStep::SetChartUrl(format!("oci://{HOST}/{REPOSITORY}:{TAG}")));
    assert_eq!(step(&an_artifact()), ArtifactStep::Repin(registry("other")));
}

#[test]
fn an_artifact_that_was_never_seen_bound_waits_for_the_grace_then_confirms_then_goes() {
    let world = world(Some(&an_artifact()), &[]);
    let mut memory = ArtifactMemory::default();
    assert_eq!(next(&world, &mut memory, seconds(10)), ArtifactStep::Wait(Some(seconds(310))));
    assert_eq!(next(&world, &mut memory, seconds(310)), ArtifactStep::Read);
    memory.confirmed = true;
    assert_eq!(next(&world, &mut memory, seconds(310)), ArtifactStep::DeleteSelf);
}

#[test]
fn an_artifact_whose_last_binding_was_seen_to_go_confirms_at_once() {
    let mut memory = ArtifactMemory::default();
    let bound = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    assert_eq!(next(&bound, &mut memory, seconds(1)), ArtifactStep::Wait(None));
    assert_eq!(next(&world(Some(&an_artifact()), &[]), &mut memory, seconds(2)), ArtifactStep::Read);
}

#[test]
fn nothing_is_cleaned_up_while_requests_of_an_earlier_incarnation_may_land() {
    let world = world(Some(&terminating()), &[]);
    let mut memory = ArtifactMemory { confirmed: true, ..ArtifactMemory::new(seconds(30)) };
    assert_eq!(next(&world, &mut memory, seconds(29)), ArtifactStep::Wait(Some(seconds(30))));
    assert_eq!(next(&world, &mut memory, seconds(30)), ArtifactStep::CleanUp);
}

#[test]
fn a_terminating_artifact_that_is_bound_keeps_its_tag_says_so_once_and_looks_at_it() {
    let world = world(Some(&terminating()), &[a_binding("berlin", "charts")]);
    let mut memory = ArtifactMemory::default();
    assert_eq!(next(&world, &mut memory, seconds(0)), ArtifactStep::Read, "the API decides");
    memory.confirmed = true;
    assert_eq!(next(&world, &mut memory, seconds(0)), ArtifactStep::AnnounceKept);
    let uid = Some(terminating().metadata.uid.unwrap().into_boxed_str());
    memory.announced.clone_from(&uid);
    assert_eq!(next(&world, &mut memory, seconds(0)), ArtifactStep::Look);
    memory.looked = uid;
    assert_eq!(next(&world, &mut memory, seconds(0)), ArtifactStep::Wait(None));
}

#[test]
fn what_is_said_of_a_failed_clean_up_goes_when_the_tag_is_in_use() {
    let failed = |mut artifact: api::RenderArtifact| {
        let wanted = Wanted::no("OCICleanup", "DeleteFailed", "why");
        condition::set(&mut artifact.status.as_mut().unwrap().conditions, &wanted, 1, at(0));
        artifact
    };
    let bound = [a_binding("berlin", "charts")];
    let step =
        |artifact: api::RenderArtifact, bindings: &[api::RenderBinding], change: fn(&mut ArtifactMemory)| {
            let mut memory = ArtifactMemory { confirmed: true, ..ArtifactMemory::default() };
            change(&mut memory);
            next(&world(Some(&failed(artifact)), bindings), &mut memory, seconds(0))
        };
    let forget = ArtifactStep::ForgetCleanupFailure;
    assert_eq!(step(an_artifact(), &bound, |_| {}), forget, "it lives");
    assert_eq!(step(an_artifact(), &[], |_| {}), forget, "it lives, and nobody has tried to delete the tag");
    let seen = |memory: &mut ArtifactMemory| {
        let uid = RenderArtifactRecord::from(&terminating()).meta.uid;
        memory.known_since = Some((uid.clone(), seconds(0)));
        (memory.announced, memory.looked) = (Some(uid.clone()), Some(uid));
    };
    assert_eq!(step(terminating(), &bound, |_| {}), ArtifactStep::AnnounceKept, "nothing waits for it");
    assert_eq!(step(terminating(), &bound, seen), forget, "it is held again");
    assert_eq!(step(terminating(), &[], |_| {}), ArtifactStep::CleanUp, "it stands until the tag is gone");
    let cleaning = |memory: &mut ArtifactMemory| (memory.errand, memory.cleaning) = (true, true);
    assert_eq!(step(terminating(), &bound, cleaning), ArtifactStep::Wait(None), "who binds now is too late");
}

#[test]
fn a_tag_that_another_artifact_stands_for_is_left_to_that_one() {
    let twin = |base_url: &str, tag: &str, terminating: bool| {
        let mut twin = an_artifact();
        twin.metadata.name = Some("twin".into());
        twin.spec.base_url = base_url.into();
        twin.spec.tag = tag.into();
        twin.metadata.deletion_timestamp = terminating.then(|| Time(at(1)));
        RenderArtifactRecord::from(&twin)
    };
    let step = |twin: RenderArtifactRecord, bound: bool| {
        let mut world = world(Some(&terminating()), &[]);
        world.insert(twin);
        if bound {
            let mut binding = a_binding("berlin", "charts");
            binding.spec.render_artifact_ref.name = "twin".into();
            world.insert(RenderBindingRecord::from(&binding));
        }
        next(&world, &mut ArtifactMemory { confirmed: true, ..ArtifactMemory::default() }, seconds(0))
    };
    let yields = ArtifactStep::Yield(registry("twin"));
    assert_eq!(step(twin("OCI://Registry.Example.com:443/", TAG, false), false), yields);
    assert_eq!(step(twin(HOST, TAG, true), true), yields, "it is held");
    assert_eq!(step(twin(HOST, TAG, true), false), ArtifactStep::CleanUp, "it goes too");
    assert_eq!(step(twin(HOST, "other", false), false), ArtifactStep::CleanUp);
    assert_eq!(step(twin("other.example.com", TAG, false), false), ArtifactStep::CleanUp);
}

#[test]
fn the_finalizer_goes_only_after_the_tag() {
    let world = world(Some(&terminating()), &[]);
    let mut memory = ArtifactMemory { confirmed: true, ..ArtifactMemory::default() };
    assert_eq!(next(&world, &mut memory, seconds(0)), ArtifactStep::CleanUp);
    memory.errand = true;
    assert_eq!(next(&world, &mut memory, seconds(0)), ArtifactStep::Wait(None), "it is on its way");
    memory.errand = false;
    memory.cleanup.done = true;
    assert_eq!(next(&world, &mut memory, seconds(0)), ArtifactStep::RemoveFinalizer);
}

#[test]
fn a_binding_whose_owner_is_unknown_or_another_is_checked_by_api() {
    let binding = a_binding("berlin", "charts");
    let record = std::sync::Arc::new(RenderBindingRecord::from(&binding));
    let mut unknown = world(Some(&an_artifact()), std::slice::from_ref(&binding));
    unknown.remove::<TargetRecord>(&ObjectName::new("edge", "berlin"));
    let step = next(&unknown, &mut ArtifactMemory::default(), seconds(0));
    assert_eq!(step, ArtifactStep::CheckOwner(record));
}

#[test]
fn own_writes_hold_against_an_older_watch_and_yield_to_a_newer_one() {
    let mut memory = ArtifactMemory::default();
    let written = |version: &str| {
        let mut artifact = an_artifact();
        artifact.metadata.resource_version = Some(version.into());
        RenderArtifactRecord::from(&artifact)
    };
    let own = std::sync::Arc::new(written("7"));
    memory.own_artifact = Some(Own::Present { record: own.clone(), since: seconds(0) });
    let mut world = World::default();
    world.insert(written("6"));
    assert_eq!(view(&world, &mut memory).artifact, Some(own));
    world.insert(written("8"));
    assert_eq!(&*view(&world, &mut memory).artifact.unwrap().meta.resource_version, "8");
    assert!(memory.own_artifact.is_none(), "the watch has caught up");

    let uid = an_artifact().metadata.uid.unwrap().into_boxed_str();
    memory.own_artifact = Some(Own::Gone { uid });
    assert_eq!(view(&world, &mut memory).artifact, None, "an own deletion holds until the watch shows it");
}
