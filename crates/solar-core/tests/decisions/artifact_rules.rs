//! The rules by which a RenderArtifact's actor never loses a tag, each with the case that would break it.

use std::sync::Arc;

use solar_api as api;
use solar_core::artifact::{
    self, ArtifactMemory, ArtifactOptions, ArtifactStep, BindDecision, BindingChange, CleanupProblem, Owner,
    PushDecision, Sighting, Ticket, Written,
};
use solar_core::object::ObjectName;
use solar_core::overlay::{Own, is_overdue, settle};
use solar_core::record::{RenderArtifactRecord, RenderBindingRecord, TargetRecord};
use solar_core::target::Coordinates;
use solar_core::world::World;

use crate::artifacts::{
    OPTIONS, a_binding, an_artifact, coordinates, name, next, owner, push, registry, seconds, terminating,
    trusting, view, world,
};

fn bind_with(world: &World, memory: &mut ArtifactMemory, owner: &Owner) -> BindDecision {
    let view = view(world, memory);
    artifact::bind(&view, memory, &name(), owner, &coordinates(), &registry("charts"), seconds(60))
}

fn uid() -> Option<Box<str>> {
    an_artifact().metadata.uid.map(Into::into)
}

/// Bindings were listed by API in this pass.
fn confirmed() -> ArtifactMemory {
    ArtifactMemory { confirmed: true, ..ArtifactMemory::default() }
}

fn uncontrolled(target: &str) -> api::RenderBinding {
    let mut binding = a_binding(target, "charts");
    binding.metadata.owner_references = None;
    binding
}

fn going(target: &str) -> api::RenderBinding {
    let mut binding = a_binding(target, "charts");
    binding.metadata.deletion_timestamp = terminating().metadata.deletion_timestamp;
    binding
}

// ---- Bind ----

#[test]
fn a_binding_that_is_going_or_names_no_controller_is_made_anew() {
    for existing in [going("berlin"), uncontrolled("berlin")] {
        let record = Arc::new(RenderBindingRecord::from(&existing));
        let world = world(Some(&an_artifact()), &[existing]);
        let wanted =
            BindDecision::Proceed { binding: BindingChange::Recreate(record), create_artifact: false };
        assert_eq!(bind_with(&world, &mut ArtifactMemory::default(), &owner("berlin")), wanted);
    }
}

#[test]
fn a_binding_without_its_artifact_gets_the_artifact() {
    let world = world(None, &[a_binding("berlin", "charts")]);
    let wanted = BindDecision::Proceed { binding: BindingChange::None, create_artifact: true };
    assert_eq!(bind_with(&world, &mut ArtifactMemory::default(), &owner("berlin")), wanted);
}

#[test]
fn each_coordinate_tells_a_stranger() {
    let change: [fn(&mut Coordinates); 3] =
        [|c| c.base_url = "other".into(), |c| c.repository = "other".into(), |c| c.tag = "other".into()];
    for change in change {
        let mut wanted = coordinates();
        change(&mut wanted);
        let world = world(Some(&an_artifact()), &[]);
        let mut memory = ArtifactMemory::default();
        let view = view(&world, &mut memory);
        let decision = artifact::bind(
            &view,
            &mut memory,
            &name(),
            &owner("berlin"),
            &wanted,
            &registry("charts"),
            seconds(0),
        );
        assert_eq!(decision, BindDecision::Collision { with: coordinates() });
    }
}

#[test]
fn a_bind_that_is_told_to_wait_is_told_what_for() {
    let world = world(Some(&terminating()), &[]);
    let mut memory = ArtifactMemory::default();
    memory.cleanup.cause = Some("Registry edge/charts does not exist".into());
    let BindDecision::Terminating { cause, .. } = bind_with(&world, &mut memory, &owner("berlin")) else {
        panic!("not told to wait");
    };
    assert_eq!(cause, "Registry edge/charts does not exist");
}

#[test]
fn nobody_binds_or_pushes_during_a_clean_up_though_a_binding_appeared_from_outside() {
    let unbound = world(Some(&terminating()), &[]);
    let mut memory = ArtifactMemory { trusted: true, ..confirmed() };
    assert_eq!(next(&unbound, &mut memory, seconds(0)), ArtifactStep::CleanUp);
    memory.errand = true;
    let bound = world(Some(&terminating()), &[a_binding("hamburg", "charts")]);
    for done in [false, true] {
        memory.errand = !done;
        memory.cleanup.done = done;
        let decision = bind_with(&bound, &mut memory, &owner("berlin"));
        assert!(matches!(decision, BindDecision::Terminating { .. }), "done {done}: {decision:?}");
        let decision = push(&bound, &mut memory, Some(owner("hamburg")), seconds(60));
        assert_eq!(decision, PushDecision::Terminating, "done {done}");
    }
}

#[test]
fn a_look_at_a_kept_tag_does_not_keep_further_owners_out() {
    let world = world(Some(&terminating()), &[a_binding("hamburg", "charts")]);
    let mut memory = ArtifactMemory { announced: uid(), ..confirmed() };
    assert_eq!(next(&world, &mut memory, seconds(0)), ArtifactStep::Look);
    memory.errand = true;
    let decision = bind_with(&world, &mut memory, &owner("berlin"));
    assert!(matches!(decision, BindDecision::Proceed { .. }), "{decision:?}");
}

// ---- A registry that does not delete, and a tag without credentials ----

/// The last attempt to delete the tag ended like this.
fn failed(problem: CleanupProblem) -> ArtifactMemory {
    let mut memory = confirmed();
    memory.cleanup.problem = Some(problem);
    memory.cleanup.cause = Some("registry does not support deletion".into());
    memory
}

/// A look at the tag with these credentials found this.
fn sighted(registry_name: &str, found: Result<Option<&str>, &str>) -> Sighting {
    let found = found.map(|found| found.map(str::to_owned)).map_err(str::to_owned);
    Sighting { uid: uid().unwrap(), registry: registry(registry_name), found }
}

fn told(decision: BindDecision) -> String {
    match decision {
        BindDecision::Terminating { cause, .. } => cause,
        decision => panic!("not told to wait: {decision:?}"),
    }
}

#[test]
fn a_tag_that_the_registry_does_not_delete_is_looked_at_and_bound_again_if_it_holds_our_digest() {
    let world = world(Some(&terminating()), &[]);
    let mut memory = failed(CleanupProblem::Refused);
    assert_eq!(bind_with(&world, &mut memory, &owner("berlin")), BindDecision::LookFirst);
    memory.sighting = Some(sighted("charts", Ok(Some("sha256:aa"))));
    let wanted = BindDecision::Proceed { binding: BindingChange::Create, create_artifact: false };
    assert_eq!(bind_with(&world, &mut memory, &owner("berlin")), wanted);
}

#[test]
fn a_tag_that_holds_something_else_or_cannot_be_seen_is_not_bound_and_the_asker_is_told() {
    let world = world(Some(&terminating()), &[]);
    let rows = [
        (Ok(Some("sha256:bb")), "the tag now holds sha256:bb"),
        (Ok(None), "the tag now holds nothing"),
        (Err("the registry answered 401"), "looking at the tag: the registry answered 401"),
    ];
    for (found, said) in rows {
        let mut memory = failed(CleanupProblem::Refused);
        memory.sighting = Some(sighted("charts", found));
        let cause = told(bind_with(&world, &mut memory, &owner("berlin")));
        assert_eq!(cause, format!("registry does not support deletion; {said}"));
    }
}

#[test]
fn what_other_credentials_or_another_artifact_showed_is_no_leave_to_bind() {
    let world = world(Some(&terminating()), &[]);
    let mut memory = failed(CleanupProblem::Refused);
    memory.sighting = Some(sighted("other", Ok(Some("sha256:aa"))));
    assert_eq!(bind_with(&world, &mut memory, &owner("berlin")), BindDecision::LookFirst);
    memory.sighting = Some(sighted("charts", Ok(Some("sha256:aa"))));
    memory.sighting.as_mut().unwrap().uid = "an earlier one".into();
    assert_eq!(bind_with(&world, &mut memory, &owner("berlin")), BindDecision::LookFirst);
}

#[test]
fn only_a_definite_refusal_lets_a_tag_stay() {
    let world = world(Some(&terminating()), &[]);
    for problem in [None, Some(CleanupProblem::Other), Some(CleanupProblem::NoCredentials)] {
        let mut memory = failed(CleanupProblem::Other);
        memory.cleanup.problem = problem;
        memory.sighting = Some(sighted("charts", Ok(Some("sha256:aa"))));
        told(bind_with(&world, &mut memory, &owner("berlin")));
    }
}

/// Its name, the artifact, and how the memory differs.
type Obstacle = (&'static str, api::RenderArtifact, fn(&mut ArtifactMemory));

#[test]
fn a_tag_does_not_stay_while_a_write_may_still_land_or_a_clean_up_is_out_or_its_digest_is_unknown() {
    let mut without_digest = terminating();
    without_digest.status.as_mut().unwrap().digest = None;
    let rows: [Obstacle; 5] = [
        ("no digest", without_digest, |_| {}),
        ("earlier incarnation", terminating(), |memory| memory.quiet_until = seconds(61)),
        ("unanswered write", terminating(), |memory| memory.under_way_until = Some(seconds(61))),
        ("clean-up", terminating(), |memory| (memory.errand, memory.cleaning) = (true, true)),
        ("finalizer", terminating(), |memory| memory.cleanup.done = true),
    ];
    for (row, artifact, change) in rows {
        let mut memory = failed(CleanupProblem::Refused);
        memory.sighting = Some(sighted("charts", Ok(Some("sha256:aa"))));
        change(&mut memory);
        let decision = bind_with(&world(Some(&artifact), &[]), &mut memory, &owner("berlin"));
        assert!(matches!(decision, BindDecision::Terminating { .. }), "{row}: {decision:?}");
    }
}

#[test]
fn a_clean_up_that_begins_takes_back_what_was_seen_of_the_tag() {
    let unbound = world(Some(&terminating()), &[]);
    let mut memory = failed(CleanupProblem::Refused);
    memory.sighting = Some(sighted("charts", Ok(Some("sha256:aa"))));
    assert_eq!(next(&unbound, &mut memory, seconds(60)), ArtifactStep::CleanUp);
    assert_eq!(memory.sighting, None);
}

#[test]
fn whoever_wants_to_bind_lends_credentials_to_a_tag_that_has_none() {
    let world = world(Some(&terminating()), &[]);
    let mut memory = failed(CleanupProblem::NoCredentials);
    told(bind_with(&world, &mut memory, &owner("berlin")));
    assert_eq!(memory.cleanup.lenders, [registry("charts")].into());
    for problem in [CleanupProblem::Refused, CleanupProblem::Other] {
        let mut memory = failed(problem);
        bind_with(&world, &mut memory, &owner("berlin"));
        assert!(memory.cleanup.lenders.is_empty(), "{problem:?}");
    }
}

// ---- Unbind and pins ----

fn unbind_from(world: &World, owner: &Owner) -> artifact::UnbindDecision {
    let mut memory = ArtifactMemory::default();
    let view = view(world, &mut memory);
    artifact::unbind(&view, &mut memory, owner, seconds(0))
}

#[test]
fn an_unbind_of_an_earlier_owner_leaves_the_binding_of_the_present_one() {
    let world = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    let old = Owner { uid: "uid-of-an-earlier-berlin".into(), ..owner("berlin") };
    assert_eq!(unbind_from(&world, &old), artifact::UnbindDecision::default());
}

/// Where the Unbind is the first thing that an actor does, nothing else tells it that the artifact was bound.
#[test]
fn an_artifact_whose_binding_was_given_up_was_seen_bound() {
    let bound = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    let mut memory = confirmed();
    let seen = view(&bound, &mut memory);
    artifact::unbind(&seen, &mut memory, &owner("berlin"), seconds(1));
    let unbound = world(Some(&an_artifact()), &[]);
    assert_eq!(next(&unbound, &mut memory, seconds(2)), ArtifactStep::DeleteSelf, "no grace");
}

#[test]
fn an_unbind_takes_a_binding_that_names_no_controller() {
    let world = world(Some(&an_artifact()), &[uncontrolled("berlin")]);
    let decision = unbind_from(&world, &owner("berlin"));
    assert_eq!(decision.delete, [Arc::new(RenderBindingRecord::from(&uncontrolled("berlin")))]);
}

#[test]
fn an_unbind_pins_nothing_where_no_survivor_names_another_registry() {
    let mut silent = a_binding("hamburg", "charts");
    silent.spec.registry_ref = None;
    for survivors in [vec![], vec![a_binding("hamburg", "charts")], vec![silent]] {
        let bindings = [vec![a_binding("berlin", "other")], survivors].concat();
        let world = world(Some(&an_artifact()), &bindings);
        let decision = unbind_from(&world, &owner("berlin"));
        assert_eq!(decision.repin, None);
        assert_eq!(decision.delete.len(), 1);
    }
}

/// A binding that somebody made by hand may have any name; it goes by that, and not by the name that it should have.
#[test]
fn a_binding_of_whatever_name_is_released_and_a_survivors_registry_is_pinned_before() {
    let mut odd = a_binding("berlin", "charts");
    odd.metadata.name = Some("odd".into());
    let world = world(Some(&an_artifact()), &[odd.clone(), a_binding("hamburg", "other")]);
    let odd = Arc::new(RenderBindingRecord::from(&odd));
    let view = view(&world, &mut ArtifactMemory::default());
    for decision in [unbind_from(&world, &owner("berlin")), artifact::release(&view, vec![odd.clone()])] {
        assert_eq!((decision.repin, decision.delete), (Some(registry("other")), vec![odd.clone()]));
    }
}

/// The Target that is deleted waits until no binding of it is left.
#[test]
fn an_unbind_takes_every_binding_of_the_asker_and_no_other() {
    let named = |mut binding: api::RenderBinding, name: &str| {
        binding.metadata.name = Some(name.into());
        binding
    };
    let mut persons = uncontrolled("berlin");
    persons.spec.owner_kind = "Person".into();
    let mut earlier = a_binding("berlin", "charts");
    earlier.metadata.owner_references.as_mut().unwrap()[0].uid = "uid-of-an-earlier-berlin".into();
    let bindings = [
        a_binding("berlin", "charts"),
        named(a_binding("berlin", "charts"), "copy"),
        named(uncontrolled("berlin"), "copy-without-an-owner"),
        named(persons, "of-a-person"),
        named(earlier, "of-an-earlier-one"),
        a_binding("hamburg", "charts"),
        named(uncontrolled("hamburg"), "copy-of-hamburg"),
    ];
    let decision = unbind_from(&world(Some(&an_artifact()), &bindings), &owner("berlin"));
    let mut gone: Vec<_> = decision.delete.iter().map(|binding| binding.meta.name.name.to_string()).collect();
    gone.sort();
    let computed = bindings[0].metadata.name.clone().unwrap();
    let mut wanted = vec![computed, "copy".to_owned(), "copy-without-an-owner".to_owned()];
    wanted.sort();
    assert_eq!(gone, wanted);
}

/// Name of a binding, and of the Registry that it names.
type Named<'a> = (&'a str, Option<&'a str>);

#[test]
fn the_lowest_name_pins_among_those_that_name_a_registry() {
    let binding = |name: &str, registry: Option<&str>| {
        let mut binding = a_binding("berlin", "charts");
        binding.metadata.name = Some(name.into());
        binding.spec.registry_ref =
            registry.map(|name| api::ObjectReference { name: name.into(), namespace: None });
        binding
    };
    let rows: [(&[Named<'_>], Option<&str>); 4] = [
        (&[("b", Some("two")), ("a", Some("one"))], Some("one")),
        (&[("a", None), ("c", Some("three")), ("b", Some("two"))], Some("two")),
        (&[("a", None)], None),
        (&[], None),
    ];
    for (bindings, wanted) in rows {
        let bindings: Vec<_> = bindings.iter().map(|(name, registry)| binding(name, *registry)).collect();
        // However many of them are own writes that the watch does not show yet.
        for own in 0..=bindings.len() {
            let (own, watched) = bindings.split_at(own);
            let mut memory = ArtifactMemory::default();
            for binding in own {
                let record = Arc::new(RenderBindingRecord::from(binding));
                let key = record.meta.name.name.clone();
                memory.own_bindings.insert(key, Own::Present { record, since: seconds(0) });
            }
            let world = world(None, watched);
            let view = view(&world, &mut memory);
            assert_eq!(artifact::pin(&view.bindings, |_| true), wanted.map(registry));
            assert_eq!(view.bindings.is_empty(), bindings.is_empty());
        }
    }
}

// ---- OpenPush ----

#[test]
fn a_push_for_other_coordinates_or_without_the_artifact_is_not_bound() {
    let mut stranger = an_artifact();
    stranger.spec.tag = "v9".into();
    for artifact in [None, Some(&stranger)] {
        let world = world(artifact, &[a_binding("berlin", "charts")]);
        let decision = push(&world, &mut trusting(), Some(owner("berlin")), seconds(60));
        assert_eq!(decision, PushDecision::NotBound);
    }
    let world = world(Some(&stranger), &[]);
    assert_eq!(push(&world, &mut trusting(), None, seconds(60)), PushDecision::NotBound);
}

#[test]
fn a_binding_that_is_going_is_no_leave_to_push() {
    let world = world(Some(&an_artifact()), &[going("berlin")]);
    let decision = push(&world, &mut trusting(), Some(owner("berlin")), seconds(60));
    assert_eq!(decision, PushDecision::NotBound);
}

#[test]
fn a_task_that_no_target_owns_is_granted_a_ticket_with_and_without_an_artifact_but_not_in_a_clean_up() {
    let ticket = |artifact: Option<&api::RenderArtifact>| match push(
        &world(artifact, &[]),
        &mut trusting(),
        None,
        seconds(60),
    ) {
        PushDecision::Granted { ticket, .. } => Some(ticket.artifact_uid),
        _ => None,
    };
    assert_eq!(ticket(None), Some(None));
    assert_eq!(ticket(Some(&an_artifact())), Some(uid()));
    assert_eq!(ticket(Some(&terminating())), None);
}

#[test]
fn a_name_that_was_terminating_at_the_start_is_not_pushed_to_within_the_wait_though_its_artifact_is_gone() {
    let mut memory = ArtifactMemory::new(seconds(30));
    let seen = push(&world(Some(&terminating()), &[]), &mut memory, None, seconds(1));
    assert_eq!(seen, PushDecision::ReadFirst);
    memory.trusted = true;
    let gone = world(None, &[]);
    assert_eq!(push(&gone, &mut memory, None, seconds(29)), PushDecision::Terminating);
    assert!(!memory.is_idle(seconds(29)), "who forgets this grants too early");
    assert!(matches!(push(&gone, &mut memory, None, seconds(30)), PushDecision::Granted { .. }));
}

#[test]
fn an_artifact_that_is_deleted_within_the_wait_after_a_start_is_not_pushed_to_before_its_end() {
    let bound = [a_binding("berlin", "charts")];
    let mut memory = ArtifactMemory { trusted: true, ..ArtifactMemory::new(seconds(30)) };
    next(&world(Some(&an_artifact()), &bound), &mut memory, seconds(1));
    let world = world(Some(&terminating()), &bound);
    let early = push(&world, &mut memory, Some(owner("berlin")), seconds(29));
    assert_eq!(early, PushDecision::Terminating);
    let later = push(&world, &mut memory, Some(owner("berlin")), seconds(30));
    assert!(matches!(later, PushDecision::Granted { .. }), "{later:?}");
}

#[test]
fn nobody_pushes_while_a_kept_tag_is_looked_at() {
    let world = world(Some(&terminating()), &[a_binding("berlin", "charts")]);
    let mut memory = ArtifactMemory { announced: uid(), trusted: true, ..confirmed() };
    assert_eq!(next(&world, &mut memory, seconds(0)), ArtifactStep::Look);
    memory.errand = true;
    let decision = push(&world, &mut memory, Some(owner("berlin")), seconds(60));
    assert_eq!(decision, PushDecision::Terminating);
}

#[test]
fn a_clean_up_that_failed_makes_the_tag_worth_another_look_when_it_is_bound_from_outside() {
    let mut memory = ArtifactMemory { announced: uid(), trusted: true, ..confirmed() };
    next(&world(Some(&terminating()), &[]), &mut memory, seconds(0));
    let mut memory = ArtifactMemory { looked: uid(), errand: false, ..memory };
    assert_eq!(next(&world(Some(&terminating()), &[]), &mut memory, seconds(1)), ArtifactStep::CleanUp);
    let bound = world(Some(&terminating()), &[a_binding("berlin", "charts")]);
    let decision = push(&bound, &mut memory, Some(owner("berlin")), seconds(60));
    assert!(matches!(decision, PushDecision::Granted { known_digest: None, .. }), "{decision:?}");
}

#[test]
fn a_name_that_was_not_terminating_at_the_start_is_pushed_to_at_once() {
    let world = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    let mut memory = ArtifactMemory { trusted: true, ..ArtifactMemory::new(seconds(30)) };
    let decision = push(&world, &mut memory, Some(owner("berlin")), seconds(1));
    assert!(matches!(decision, PushDecision::Granted { .. }), "{decision:?}");
}

#[test]
fn a_write_without_an_answer_holds_up_pushes_to_a_terminating_artifact_only() {
    for (artifact, granted_at) in [(an_artifact(), 11), (terminating(), 40)] {
        let world = world(Some(&artifact), &[a_binding("berlin", "charts")]);
        let mut memory = trusting();
        memory.ticket = Some(Ticket { id: 1, artifact_uid: uid() });
        memory.close_ticket(1, Written::Unanswered(seconds(10)));
        let granted = |now| {
            let mut memory = memory.clone();
            let decision = push(&world, &mut memory, Some(owner("berlin")), seconds(now));
            matches!(decision, PushDecision::Granted { .. })
        };
        assert!(granted(granted_at), "at {granted_at} s");
        assert_eq!(granted(39), granted_at <= 39);
    }
}

#[test]
fn a_terminating_artifact_tells_its_digest_only_after_the_look() {
    let world = world(Some(&terminating()), &[a_binding("berlin", "charts")]);
    for (looked, wanted) in [
        (None, None),
        (Some("uid of an earlier artifact".into()), None),
        (uid(), Some("sha256:aa".to_owned())),
    ] {
        let mut memory = trusting();
        // The uid has to be known, for what was seen of an earlier one is forgotten.
        next(&world, &mut memory, seconds(0));
        memory.looked = looked;
        let decision = push(&world, &mut memory, Some(owner("berlin")), seconds(60));
        let PushDecision::Granted { known_digest, .. } = decision else { panic!("{decision:?}") };
        assert_eq!(known_digest, wanted);
    }
}

#[test]
fn a_later_unanswered_write_never_shortens_an_earlier_wait() {
    let mut memory = ArtifactMemory { under_way_until: Some(seconds(50)), ..ArtifactMemory::default() };
    memory.ticket = Some(Ticket { id: 1, artifact_uid: None });
    memory.close_ticket(1, Written::Unanswered(seconds(10)));
    assert_eq!(memory.under_way_until, Some(seconds(50)));
    assert!(memory.write_under_way(seconds(49)) && !memory.write_under_way(seconds(50)));
}

// ---- States ----

#[test]
fn the_api_is_asked_again_between_the_deletion_of_the_artifact_and_that_of_the_tag() {
    let mut memory = ArtifactMemory { seen_bound: true, ..ArtifactMemory::default() };
    let living = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    next(&living, &mut memory, seconds(0));
    memory.confirmed = true;
    assert_eq!(next(&world(Some(&an_artifact()), &[]), &mut memory, seconds(0)), ArtifactStep::DeleteSelf);
    assert_eq!(next(&world(Some(&terminating()), &[]), &mut memory, seconds(0)), ArtifactStep::Read);
}

#[test]
fn an_open_ticket_or_a_write_under_way_holds_up_deletion_look_and_clean_up() {
    let bound = [a_binding("berlin", "charts")];
    let rows = [
        (an_artifact(), &[][..], ArtifactStep::DeleteSelf),
        (terminating(), &[][..], ArtifactStep::CleanUp),
        (terminating(), &bound[..], ArtifactStep::Look),
    ];
    for (artifact, bindings, wanted) in rows {
        let world = world(Some(&artifact), bindings);
        let mut memory = ArtifactMemory { announced: uid(), ..confirmed() };
        next(&world, &mut memory, seconds(0));
        memory = ArtifactMemory { seen_bound: true, confirmed: true, ..memory };
        let ticket = Some(Ticket { id: 1, artifact_uid: uid() });
        let mut open = ArtifactMemory { ticket, ..memory.clone() };
        assert_eq!(next(&world, &mut open, seconds(60)), ArtifactStep::Wait(None), "before {wanted:?}");
        let mut sent = ArtifactMemory { under_way_until: Some(seconds(61)), ..memory.clone() };
        let until = ArtifactStep::Wait(Some(seconds(61)));
        assert_eq!(next(&world, &mut sent, seconds(60)), until, "before {wanted:?}");
        assert_eq!(next(&world, &mut memory, seconds(60)), wanted);
    }
}

#[test]
fn the_finalizer_waits_for_a_deletion_without_an_answer() {
    let world = world(Some(&terminating()), &[]);
    let mut memory = confirmed();
    next(&world, &mut memory, seconds(0));
    memory.errand = false;
    memory.cleanup.done = true;
    memory.under_way_until = Some(seconds(30));
    assert_eq!(next(&world, &mut memory, seconds(29)), ArtifactStep::Wait(Some(seconds(30))));
    assert_eq!(next(&world, &mut memory, seconds(30)), ArtifactStep::RemoveFinalizer);
}

#[test]
fn a_failed_clean_up_is_tried_again_when_its_time_has_come() {
    let world = world(Some(&terminating()), &[]);
    let mut memory = confirmed();
    next(&world, &mut memory, seconds(0));
    memory.cleanup.retry_at = Some(seconds(9));
    assert_eq!(next(&world, &mut memory, seconds(8)), ArtifactStep::Wait(Some(seconds(9))));
    assert_eq!(next(&world, &mut memory, seconds(9)), ArtifactStep::CleanUp);
}

#[test]
fn a_failed_look_is_tried_again_when_its_time_has_come() {
    let world = world(Some(&terminating()), &[a_binding("berlin", "charts")]);
    let mut memory = ArtifactMemory { announced: uid(), ..confirmed() };
    next(&world, &mut memory, seconds(0));
    memory.look_at = Some(seconds(9));
    assert_eq!(next(&world, &mut memory, seconds(8)), ArtifactStep::Wait(Some(seconds(9))));
    assert_eq!(next(&world, &mut memory, seconds(9)), ArtifactStep::Look);
}

#[test]
fn a_kept_tag_is_looked_at_only_after_the_wait_that_follows_a_start() {
    let world = world(Some(&terminating()), &[a_binding("berlin", "charts")]);
    let mut memory = ArtifactMemory { announced: uid(), confirmed: true, ..ArtifactMemory::new(seconds(30)) };
    assert_eq!(next(&world, &mut memory, seconds(29)), ArtifactStep::Wait(Some(seconds(30))));
    assert_eq!(next(&world, &mut memory, seconds(30)), ArtifactStep::Look);
}

#[test]
fn a_kept_tag_is_pinned_to_the_registry_of_a_holder_before_it_is_looked_at() {
    let world = world(Some(&terminating()), &[a_binding("berlin", "other")]);
    let mut memory = ArtifactMemory { announced: uid(), ..confirmed() };
    assert_eq!(next(&world, &mut memory, seconds(60)), ArtifactStep::Repin(registry("other")));
}

#[test]
fn the_charts_address_is_written_though_the_watch_does_not_know_an_owner() {
    let mut fresh = an_artifact();
    fresh.status = None;
    let mut world = world(Some(&fresh), &[a_binding("berlin", "charts")]);
    world.remove::<TargetRecord>(&ObjectName::new("edge", "berlin"));
    let step = next(&world, &mut ArtifactMemory::default(), seconds(0));
    assert!(matches!(step, ArtifactStep::SetChartUrl(_)), "{step:?}");
}

#[test]
fn each_stay_is_announced_once() {
    let bound = world(Some(&terminating()), &[a_binding("berlin", "charts")]);
    let mut memory = ArtifactMemory { looked: uid(), ..confirmed() };
    next(&bound, &mut memory, seconds(0));
    memory.announced = uid();
    memory.looked = uid();
    assert_eq!(next(&bound, &mut memory, seconds(1)), ArtifactStep::Wait(None));
    assert_eq!(next(&world(Some(&terminating()), &[]), &mut memory, seconds(2)), ArtifactStep::CleanUp);
    assert_eq!(next(&bound, &mut memory, seconds(3)), ArtifactStep::AnnounceKept, "another stay");
}

#[test]
fn what_was_seen_of_one_artifact_counts_for_no_other_of_its_name() {
    let mut memory = confirmed();
    next(&world(Some(&an_artifact()), &[a_binding("berlin", "charts")]), &mut memory, seconds(0));
    memory.cleanup.done = true;
    memory.looked = uid();
    memory.look_at = Some(seconds(900));
    let mut other = an_artifact();
    other.metadata.uid = Some("another".into());
    let step = next(&world(Some(&other), &[]), &mut memory, seconds(100));
    assert_eq!(step, ArtifactStep::Wait(Some(seconds(400))), "it waits for its own grace");
    assert!(!memory.cleanup.done && memory.looked.is_none() && memory.look_at.is_none());
}

#[test]
fn a_terminating_artifact_without_our_finalizer_is_left_alone() {
    let mut artifact = terminating();
    artifact.metadata.finalizers = Some(vec!["example.com/other".into()]);
    assert_eq!(next(&world(Some(&artifact), &[]), &mut confirmed(), seconds(60)), ArtifactStep::Wait(None));
}

#[test]
fn a_stray_binding_is_one_whose_target_is_unknown_or_has_another_uid() {
    let mut foreign_kind = a_binding("berlin", "charts");
    foreign_kind.spec.owner_kind = "Deployment".into();
    let mut old = a_binding("berlin", "charts");
    old.metadata.owner_references.as_mut().unwrap()[0].uid = "uid-of-an-earlier-berlin".into();
    let rows = [
        (a_binding("berlin", "charts"), true, false),
        (a_binding("berlin", "charts"), false, true),
        (old, true, true),
        (uncontrolled("berlin"), true, false),
        (uncontrolled("berlin"), false, true),
        (foreign_kind, false, false),
        (going("berlin"), false, false),
    ];
    for (number, (binding, owner_known, stray)) in rows.into_iter().enumerate() {
        let record = Arc::new(RenderBindingRecord::from(&binding));
        let mut world = world(Some(&an_artifact()), &[binding]);
        if !owner_known {
            world.remove::<TargetRecord>(&ObjectName::new("edge", "berlin"));
        }
        let wanted = if stray { ArtifactStep::CheckOwner(record) } else { ArtifactStep::Wait(None) };
        assert_eq!(next(&world, &mut ArtifactMemory::default(), seconds(0)), wanted, "row {number}");
    }
}

#[test]
fn a_stray_binding_is_checked_though_its_artifact_is_gone() {
    let mut world = world(None, &[a_binding("berlin", "charts")]);
    world.remove::<TargetRecord>(&ObjectName::new("edge", "berlin"));
    let step = next(&world, &mut ArtifactMemory::default(), seconds(0));
    assert!(matches!(step, ArtifactStep::CheckOwner(_)), "{step:?}");
}

// ---- Own writes ----

fn version(uid: &str, version: &str) -> Arc<RenderArtifactRecord> {
    let mut artifact = an_artifact();
    artifact.metadata.uid = Some(uid.into());
    artifact.metadata.resource_version = Some(version.into());
    Arc::new(RenderArtifactRecord::from(&artifact))
}

/// Uid and version of an object, if there is one.
type Known<'a> = Option<(&'a str, &'a str)>;

#[test]
fn the_newer_of_watch_and_own_deed_counts_and_what_the_watch_has_is_forgotten() {
    let present = |uid: &str, rv: &str| Own::Present { record: version(uid, rv), since: seconds(0) };
    let gone = |uid: &str| Own::Gone { uid: uid.into() };
    // Watched (uid, version); own deed; what counts (uid, version); whether the deed is still remembered.
    let rows: [(Known<'_>, Option<Own<RenderArtifactRecord>>, Known<'_>, bool); 12] = [
        (Some(("a", "5")), None, Some(("a", "5")), false),
        (None, None, None, false),
        (None, Some(present("a", "5")), Some(("a", "5")), true),
        (Some(("a", "4")), Some(present("a", "5")), Some(("a", "5")), true),
        (Some(("a", "5")), Some(present("a", "5")), Some(("a", "5")), false),
        (Some(("a", "6")), Some(present("a", "5")), Some(("a", "6")), false),
        (Some(("a", "9")), Some(present("a", "10")), Some(("a", "10")), true),
        (Some(("b", "6")), Some(present("a", "5")), Some(("b", "6")), false),
        (Some(("a", "5")), Some(gone("a")), None, true),
        (Some(("b", "6")), Some(gone("a")), Some(("b", "6")), false),
        (None, Some(gone("a")), None, false),
        // Versions that are no numbers prove nothing unless they are equal.
        (Some(("a", "x9")), Some(present("a", "x5")), Some(("a", "x5")), true),
    ];
    for (number, (watched, mut own, wanted, remembered)) in rows.into_iter().enumerate() {
        let watched = watched.map(|(uid, rv)| version(uid, rv));
        let found = settle(watched.as_ref(), &mut own);
        assert_eq!(found, wanted.map(|(uid, rv)| version(uid, rv)), "row {number}");
        assert_eq!(own.is_some(), remembered, "row {number}");
    }
}

#[test]
fn the_api_server_is_asked_where_the_watch_does_not_show_an_own_write_for_thirty_seconds() {
    let own = |rv: &str| Some(Own::Present { record: version("a", rv), since: seconds(10) });
    for (watched, own, now, overdue) in [
        (Some("4"), own("5"), 39, false),
        (Some("4"), own("5"), 40, true),
        // A store that was restored begins again with lower versions.
        (Some("4"), own("500"), 4_000, true),
        (Some("5"), own("5"), 4_000, false),
        (Some("6"), own("5"), 4_000, false),
        (None, own("5"), 4_000, false),
        (Some("4"), Some(Own::Gone { uid: "a".into() }), 4_000, false),
        (Some("4"), None, 4_000, false),
    ] {
        let record = watched.map(|rv| version("a", rv));
        let asked = is_overdue(record.as_ref(), own.as_ref(), seconds(now));
        assert_eq!(asked, overdue, "{watched:?} {own:?} {now}");
    }
}

#[test]
fn an_own_write_that_the_watch_does_not_show_for_thirty_seconds_is_read_again() {
    let record = Arc::new(RenderArtifactRecord::from(&an_artifact()));
    let world = world(None, &[]);
    let own_artifact = Some(Own::Present { record, since: seconds(10) });
    let mut memory = ArtifactMemory { own_artifact, ..ArtifactMemory::default() };
    // Never bound, so it would wait for its grace, which is later.
    assert_eq!(next(&world, &mut memory, seconds(11)), ArtifactStep::Wait(Some(seconds(40))));
    assert_eq!(next(&world, &mut memory, seconds(40)), ArtifactStep::Read);
}

#[test]
fn own_bindings_stand_beside_watched_ones_and_own_deletions_hide_them() {
    let world = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    let mut memory = ArtifactMemory::default();
    let hamburg = Arc::new(RenderBindingRecord::from(&a_binding("hamburg", "charts")));
    let berlin = RenderBindingRecord::from(&a_binding("berlin", "charts"));
    memory
        .own_bindings
        .insert(hamburg.meta.name.name.clone(), Own::Present { record: hamburg.clone(), since: seconds(0) });
    memory.own_bindings.insert(berlin.meta.name.name.clone(), Own::Gone { uid: berlin.meta.uid.clone() });
    let bindings = view(&world, &mut memory).bindings;
    assert_eq!(bindings.values().cloned().collect::<Vec<_>>(), [hamburg]);
}

#[test]
fn a_pushed_tag_is_looked_at_when_its_time_has_come_and_never_while_it_may_be_written() {
    let world = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    let mut memory = ArtifactMemory::default();
    let step = |memory: &mut ArtifactMemory, at: u64| next(&world, memory, seconds(at));
    assert_eq!(step(&mut memory, 0), ArtifactStep::Wait(None), "its time is not set yet");
    memory.check_at = Some(seconds(100));
    assert_eq!(step(&mut memory, 99), ArtifactStep::Wait(Some(seconds(100))));
    memory.ticket = Some(Ticket { id: 1, artifact_uid: None });
    assert_eq!(step(&mut memory, 100), ArtifactStep::Wait(None), "it is being pushed");
    memory.close_ticket(1, Written::Unanswered(seconds(100)));
    assert_eq!(step(&mut memory, 101), ArtifactStep::Wait(Some(seconds(130))), "a push may still land");
    assert_eq!(step(&mut memory, 130), ArtifactStep::Look);
    memory.errand = true;
    assert_eq!(step(&mut memory, 131), ArtifactStep::Wait(None), "the look is out");
    memory.errand = false;
    memory.look_at = Some(seconds(140));
    assert_eq!(step(&mut memory, 131), ArtifactStep::Wait(Some(seconds(140))), "the last look failed");
    assert_eq!(step(&mut memory, 140), ArtifactStep::Look);
}

#[test]
fn a_tag_without_a_digest_is_not_looked_at_nor_any_where_looks_are_switched_off() {
    let mut unpushed = an_artifact();
    unpushed.status.as_mut().unwrap().digest = None;
    let mut memory = ArtifactMemory { check_at: Some(seconds(0)), ..ArtifactMemory::default() };
    let unpushed = world(Some(&unpushed), &[a_binding("berlin", "charts")]);
    assert_eq!(next(&unpushed, &mut memory, seconds(10)), ArtifactStep::Wait(None), "its tasks look at it");
    let pushed = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    let off = ArtifactOptions { check_interval: None, ..OPTIONS };
    let view = view(&pushed, &mut memory);
    assert_eq!(artifact::next(&pushed, &view, &mut memory, &off, seconds(10)), ArtifactStep::Wait(None));
}

// ---- where nothing was pushed ----

/// Nothing in a status tells whether a push has begun: only who made the artifact and saw every job end knows.
#[test]
fn that_there_is_no_tag_is_certain_only_for_who_made_the_artifact_and_saw_no_job_write() {
    let mut unpushed = an_artifact();
    unpushed.status.as_mut().unwrap().digest = None;
    let unpushed = RenderArtifactRecord::from(&unpushed);
    let uid = &unpushed.meta.uid;
    let job = |memory: &mut ArtifactMemory, written: Option<Written>| {
        memory.ticket = Some(Ticket { id: 1, artifact_uid: Some(uid.clone()) });
        if let Some(written) = written {
            memory.close_ticket(1, written);
        }
    };
    let made = || {
        let mut memory = ArtifactMemory::default();
        memory.created(uid, seconds(10));
        memory
    };
    assert!(made().has_nothing_to_delete(&unpushed));
    assert!(!ArtifactMemory::default().has_nothing_to_delete(&unpushed), "an earlier incarnation made it");
    for (written, certain) in [
        (Some(Written::Nothing), true),
        (Some(Written::Answered), false),
        (Some(Written::Unanswered(seconds(11))), false),
        (None, false),
    ] {
        let mut memory = made();
        job(&mut memory, written);
        assert_eq!(memory.has_nothing_to_delete(&unpushed), certain, "{written:?}");
        job(&mut memory, Some(Written::Nothing));
        let again = certain || written.is_none();
        assert_eq!(
            memory.has_nothing_to_delete(&unpushed),
            again,
            "{written:?}, then a job that wrote nothing"
        );
    }
    // A job that no Target owns may write before the artifact exists.
    for written in [None, Some(Written::Unanswered(seconds(5)))] {
        let mut memory = ArtifactMemory::default();
        job(&mut memory, written);
        memory.created(uid, seconds(10));
        job(&mut memory, Some(Written::Nothing));
        assert!(!memory.has_nothing_to_delete(&unpushed), "{written:?}");
    }
    let mut other = unpushed.clone();
    other.meta.uid = "another".into();
    assert!(!made().has_nothing_to_delete(&other), "another artifact of the name");
    let pushed = RenderArtifactRecord::from(&an_artifact());
    assert!(!made().has_nothing_to_delete(&pushed), "its status says otherwise");
}

// ---- a backup ----

/// Restored one by one: a binding may come before its Target, and is taken away then; the tag outlives that.
#[test]
fn a_binding_without_its_target_does_not_end_the_grace_of_an_artifact() {
    let mut lonely = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    lonely.remove::<TargetRecord>(&owner("berlin").target);
    let mut memory = ArtifactMemory::default();
    let step = next(&lonely, &mut memory, seconds(10));
    assert!(matches!(step, ArtifactStep::CheckOwner(_)), "{step:?}");
    let bare = world(Some(&an_artifact()), &[]);
    assert_eq!(next(&bare, &mut memory, seconds(20)), ArtifactStep::Wait(Some(seconds(310))));
    let bound = world(Some(&an_artifact()), &[a_binding("berlin", "charts")]);
    assert_eq!(next(&bound, &mut memory, seconds(30)), ArtifactStep::Wait(None));
    assert_eq!(next(&bare, &mut memory, seconds(40)), ArtifactStep::Read, "now it was seen bound");
}

// ---- what no registry can hold ----

type Change = fn(&mut api::RenderArtifact);

#[test]
fn an_artifact_whose_coordinates_no_registry_can_hold_is_let_go_once_nobody_holds_it() {
    let rows: [(&str, Change, &str); 7] = [
        ("upper case", |it| it.spec.repository = "Edge/web".into(), "repository \"Edge/web\""),
        ("no repository", |it| it.spec.repository = String::new(), "repository \"\""),
        ("a long repository", |it| it.spec.repository = "r".repeat(256), "repository"),
        ("no tag", |it| it.spec.tag = String::new(), "tag \"\""),
        ("a tag with a slash", |it| it.spec.tag = "../x".into(), "tag \"../x\""),
        ("no host", |it| it.spec.base_url = String::new(), "the hostname is empty"),
        ("a host with a path", |it| it.spec.base_url = "charts.example/team".into(), "holds a path"),
    ];
    for (row, change, said) in rows {
        let mut artifact = terminating();
        change(&mut artifact);
        let bound = world(Some(&artifact), &[a_binding("berlin", "charts")]);
        let step = next(&bound, &mut confirmed(), seconds(0));
        assert_eq!(step, ArtifactStep::AnnounceKept, "{row}: it is bound");
        let unbound = world(Some(&artifact), &[]);
        let step = next(&unbound, &mut ArtifactMemory::default(), seconds(0));
        assert_eq!(step, ArtifactStep::Read, "{row}: the API decides");
        let step = next(&unbound, &mut confirmed(), seconds(0));
        assert!(matches!(&step, ArtifactStep::LetGo(fault) if fault.contains(said)), "{row}: {step:?}");
        artifact.metadata.deletion_timestamp = None;
        let living = world(Some(&artifact), &[a_binding("berlin", "charts")]);
        let step = next(&living, &mut confirmed(), seconds(0));
        assert!(!matches!(step, ArtifactStep::LetGo(_)), "{row}: it lives");
    }
}

#[test]
fn names_that_no_object_can_have_are_told() {
    for name in ["a", "a-1.b", "push", "0", &"a".repeat(253)] {
        assert!(ObjectName::new("fleet", name).is_possible(), "{name}");
    }
    let long = "a".repeat(254);
    for name in [
        "", ".", "..", "a/b", "a?b", "a#b", "a%2fb", "A", "a_b", "-a", "a-", "a..b", "a b", "a\n", "ä", &long,
    ] {
        assert!(!ObjectName::new("fleet", name).is_possible(), "{name}");
        assert!(!ObjectName::new(name, "push").is_possible(), "{name}");
    }
}
