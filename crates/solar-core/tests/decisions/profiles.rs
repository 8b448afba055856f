//! Which ReleaseBindings Profiles want, and whom a change of one concerns.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, OwnerReference,
};
use proptest::prelude::*;
use solar_api as api;
use solar_api::names::{PROFILE_FINALIZER, RELEASE_REF_FINALIZER};
use solar_core::condition;
use solar_core::names;
use solar_core::object::ObjectName;
use solar_core::packed::Packed;
use solar_core::profile::{self, BindingOrder, Hindrance, Hindrances};
use solar_core::record::{GrantRecord, ProfileRecord, ReleaseBindingRecord, ReleaseRecord, TargetRecord};
use solar_core::routes::{Concerned, Routed};
use solar_core::world::World;

use crate::support::{at, edit, grant, labels, meta, release, release_binding, target};

fn held(mut meta: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta, by: &str) -> api::Profile {
    meta.finalizers = Some(vec![by.into()]);
    api::Profile { metadata: meta, spec: api::ProfileSpec::default(), status: None }
}

/// A Profile `edge/canary` for Release `web` and Targets with `ring=canary`, which holds itself.
fn canary() -> api::Profile {
    let mut profile = held(meta("edge", "canary"), PROFILE_FINALIZER);
    profile.spec.release_ref.name = "web".into();
    profile.spec.target_selector =
        LabelSelector { match_labels: Some(labels(&[("ring", "canary")])), match_expressions: None };
    profile
}

fn invalid() -> LabelSelector {
    let expression = LabelSelectorRequirement { key: "ring".into(), operator: "Near".into(), values: None };
    LabelSelector { match_labels: None, match_expressions: Some(vec![expression]) }
}

fn a_target(namespace: &str, name: &str, ring: &str) -> TargetRecord {
    let mut target = target(namespace, name, "charts");
    target.metadata.labels = Some(labels(&[("ring", ring)]));
    TargetRecord::from(&target)
}

fn a_release(name: &str, protected: bool) -> ReleaseRecord {
    let mut release = release("edge", name, "web-1");
    release.metadata.finalizers = protected.then(|| vec![RELEASE_REF_FINALIZER.into()]);
    ReleaseRecord::from(&release)
}

fn world() -> World {
    let mut world = World::default();
    world.insert(ProfileRecord::from(&canary()));
    world.insert(a_release("web", true));
    world.insert(a_target("edge", "berlin", "canary"));
    world
}

fn berlin() -> ObjectName {
    ObjectName::new("edge", "berlin")
}

fn name_of(target: &ObjectName) -> String {
    names::profile_binding("canary", "uid-edge-canary", target)
}

/// The binding that the Profile makes for `target`, as it is read back.
fn made(target: &ObjectName, release: &str) -> api::ReleaseBinding {
    let mut binding = release_binding("edge", &name_of(target), &target.to_string(), release);
    binding.metadata.owner_references = Some(vec![OwnerReference {
        kind: "Profile".into(),
        name: "canary".into(),
        uid: "uid-edge-canary".into(),
        controller: Some(true),
        ..Default::default()
    }]);
    binding
}

fn add(world: &mut World, binding: &api::ReleaseBinding) {
    world.insert(ReleaseBindingRecord::from(binding));
}

/// The orders in short.
fn orders(world: &World, target: &ObjectName) -> Vec<String> {
    let short = |order: BindingOrder| match order {
        BindingOrder::Create { profile, name, release } => {
            format!("create {name} of {} to {release}", profile.name)
        }
        BindingOrder::Correct { binding, release, .. } => {
            format!("correct {} to {release}", binding.name.name)
        }
        BindingOrder::Delete { binding, .. } => format!("delete {}", binding.name.name),
        BindingOrder::Collision { with, .. } => format!("collides with {with}"),
    };
    profile::decide(world, target).into_iter().map(short).collect()
}

fn create() -> Vec<String> {
    vec![format!("create {} of edge/canary to edge/web", name_of(&berlin()))]
}

#[test]
fn a_selected_target_is_bound_once() {
    let mut world = world();
    assert_eq!(orders(&world, &berlin()), create());
    add(&mut world, &made(&berlin(), "web"));
    assert_eq!(orders(&world, &berlin()), Vec::<String>::new());
}

#[test]
fn a_target_that_is_not_selected_or_is_going_is_not_bound() {
    let mut world = world();
    world.insert(a_target("edge", "berlin", "stable"));
    assert_eq!(orders(&world, &berlin()), Vec::<String>::new());
    let mut going = a_target("edge", "berlin", "canary");
    going.meta.terminating = true;
    world.insert(going);
    assert_eq!(orders(&world, &berlin()), Vec::<String>::new());
    // What is bound stays so until the Target is gone: its charts are still to be cleaned up.
    add(&mut world, &made(&berlin(), "web"));
    assert_eq!(orders(&world, &berlin()), Vec::<String>::new());
    world.remove::<TargetRecord>(&berlin());
    assert_eq!(orders(&world, &berlin()), [format!("delete {}", name_of(&berlin()))]);
}

#[test]
fn a_label_that_stops_matching_takes_the_binding_away() {
    let mut world = world();
    add(&mut world, &made(&berlin(), "web"));
    world.insert(a_target("edge", "berlin", "stable"));
    assert_eq!(orders(&world, &berlin()), [format!("delete {}", name_of(&berlin()))]);
}

#[test]
fn nothing_is_bound_before_profile_and_release_are_held() {
    let mut world = world();
    world.insert(a_release("web", false));
    assert_eq!(orders(&world, &berlin()), Vec::<String>::new());
    world.insert(a_release("web", true));
    let mut fresh = canary();
    fresh.metadata.finalizers = None;
    world.insert(ProfileRecord::from(&fresh));
    assert_eq!(orders(&world, &berlin()), Vec::<String>::new());
}

#[test]
fn another_release_corrects_the_binding_in_its_place_once_it_is_held() {
    let mut world = world();
    add(&mut world, &made(&berlin(), "web"));
    let mut moved = canary();
    moved.spec.release_ref.name = "shop".into();
    world.insert(ProfileRecord::from(&moved));
    assert_eq!(orders(&world, &berlin()), Vec::<String>::new(), "there is no such Release yet");
    world.insert(a_release("shop", false));
    assert_eq!(orders(&world, &berlin()), Vec::<String>::new(), "it is not held yet");
    world.insert(a_release("shop", true));
    assert_eq!(orders(&world, &berlin()), [format!("correct {} to edge/shop", name_of(&berlin()))]);
}

#[test]
fn a_binding_that_somebody_pointed_elsewhere_is_pointed_back_by_the_target_of_its_name() {
    let mut world = world();
    let hamburg = ObjectName::new("edge", "hamburg");
    world.insert(a_target("edge", "hamburg", "stable"));
    let mut moved = made(&berlin(), "web");
    moved.spec.target_ref.name = "hamburg".into();
    add(&mut world, &moved);
    assert_eq!(orders(&world, &hamburg), Vec::<String>::new());
    assert_eq!(orders(&world, &berlin()), [format!("correct {} to edge/web", name_of(&berlin()))]);
}

#[test]
fn a_binding_that_was_pointed_elsewhere_goes_when_its_own_target_is_not_selected_any_more() {
    let mut world = world();
    let mut moved = made(&berlin(), "web");
    moved.spec.target_ref.name = "hamburg".into();
    add(&mut world, &moved);
    world.insert(a_target("edge", "berlin", "stable"));
    assert_eq!(orders(&world, &berlin()), [format!("delete {}", name_of(&berlin()))]);
    world.remove::<TargetRecord>(&berlin());
    assert_eq!(orders(&world, &berlin()), [format!("delete {}", name_of(&berlin()))]);
}

#[test]
fn a_profile_that_is_going_takes_all_of_its_bindings_along() {
    let mut world = world();
    let mut moved = made(&berlin(), "web");
    moved.spec.target_ref.name = "hamburg".into();
    add(&mut world, &moved);
    let mut going = ProfileRecord::from(&canary());
    going.meta.terminating = true;
    world.insert(going);
    assert_eq!(orders(&world, &berlin()), Vec::<String>::new());
    assert_eq!(
        orders(&world, &ObjectName::new("edge", "hamburg")),
        [format!("delete {}", name_of(&berlin()))],
        "also those that somebody pointed elsewhere, and where the Target does not exist"
    );
}

#[test]
fn a_selector_that_cannot_be_asked_binds_nobody_and_takes_nothing_away() {
    let mut world = world();
    let mut broken = canary();
    broken.spec.target_selector = invalid();
    world.insert(ProfileRecord::from(&broken));
    assert_eq!(orders(&world, &berlin()), Vec::<String>::new());
    add(&mut world, &made(&berlin(), "web"));
    assert_eq!(orders(&world, &berlin()), Vec::<String>::new());
}

#[test]
fn what_others_made_is_left_alone() {
    let mut world = world();
    add(&mut world, &release_binding("edge", "by-hand", "berlin", "web"));
    assert_eq!(orders(&world, &berlin()), create());
    add(&mut world, &release_binding("edge", &name_of(&berlin()), "berlin", "other"));
    assert_eq!(orders(&world, &berlin()), [format!("collides with edge/{}", name_of(&berlin()))]);
    // A Profile of the same name, made again, does not know those of the earlier one: their owner reference ends them.
    let mut earlier = made(&berlin(), "web");
    earlier.metadata.owner_references.as_mut().unwrap()[0].uid = "earlier".into();
    add(&mut world, &earlier);
    assert_eq!(orders(&world, &berlin()), [format!("collides with edge/{}", name_of(&berlin()))]);
}

#[test]
fn targets_of_another_namespace_are_selected_where_a_grant_there_allows_it() {
    let mut world = world();
    let there = ObjectName::new("far", "oslo");
    world.insert(a_target("far", "oslo", "canary"));
    assert_eq!(orders(&world, &there), Vec::<String>::new());
    let other = grant("far", "g", &[("Profile", "elsewhere"), ("Target", "edge")], &["Target"]);
    world.insert(GrantRecord::from(&other));
    assert_eq!(orders(&world, &there), Vec::<String>::new());
    world.insert(GrantRecord::from(&grant("far", "g", &[("Profile", "edge")], &["Target"])));
    assert_eq!(orders(&world, &there), [format!("create {} of edge/canary to edge/web", name_of(&there))]);
    add(&mut world, &made(&there, "web"));
    assert_eq!(orders(&world, &there), Vec::<String>::new());
    world.remove::<GrantRecord>(&ObjectName::new("far", "g"));
    assert_eq!(orders(&world, &there), [format!("delete {}", name_of(&there))], "the grant was revoked");
}

fn said(world: &World) -> (i64, String, String) {
    let record = world.profiles.get(&ObjectName::new("edge", "canary")).unwrap();
    let status = profile::status(world, record, &Hindrances::default(), at(1))
        .expect("a first status is always written");
    let mut stored = (**record).clone();
    stored.status = Packed::of(&status);
    assert_eq!(
        profile::status(world, &stored, &Hindrances::default(), at(2)),
        None,
        "nothing is written twice"
    );
    let [ready] = status.conditions.as_slice() else { panic!("one condition") };
    assert_eq!(ready.type_, "Ready");
    (status.matched_targets, format!("{} {}", ready.status, ready.reason), ready.message.clone())
}

#[test]
fn a_profile_says_how_many_targets_it_binds_and_what_keeps_it_from_more() {
    let mut world = world();
    assert_eq!((said(&world).0, said(&world).1.as_str()), (0, "True Bound"));
    add(&mut world, &made(&berlin(), "web"));
    assert_eq!((said(&world).0, said(&world).1.as_str()), (1, "True Bound"));
    world.remove::<ReleaseRecord>(&ObjectName::new("edge", "web"));
    let (bound, reason, message) = said(&world);
    assert_eq!((bound, reason.as_str()), (1, "False ReleaseNotFound"));
    assert!(message.contains("Release edge/web does not exist"), "{message}");
    let mut broken = canary();
    broken.spec.target_selector = invalid();
    world.insert(ProfileRecord::from(&broken));
    let (_, reason, message) = said(&world);
    assert_eq!(reason, "False InvalidSelector");
    assert!(
        message.starts_with("spec.targetSelector.matchExpressions[0] has the operator \"Near\""),
        "{message}"
    );
}

#[test]
fn a_profile_says_what_is_in_the_way_of_its_bindings_until_they_are_as_it_wants_them() {
    let mut world = world();
    let mut play = Play::new(&world);
    let refused = |sentence: &str| Some(Hindrance::Refused(sentence.into()));
    let collides = |sentence: &str| Some(Hindrance::NameCollision(sentence.into()));
    assert_eq!(play.say(&world).0, "True Bound: The selected Targets are bound to Release edge/web");
    play.hear("a", refused("a"));
    assert_eq!(play.say(&world), ("False BindingRefused: a".into(), None));
    play.hear("b", refused("b"));
    assert_eq!(play.say(&world).0, "False BindingRefused: a; so it is with one more Target");
    play.hear("c", collides("c"));
    let note = "c; so it is with 2 more Targets";
    assert_eq!(play.say(&world), (format!("False NameCollision: {note}"), Some(note.into())));
    assert_eq!(play.say(&world), (format!("False NameCollision: {note}"), None), "once for each state");
    play.hear("b", collides("b"));
    assert_eq!(play.say(&world).0, "False NameCollision: b; so it is with 2 more Targets");
    play.hear("b", None);
    play.hear("c", refused("c"));
    assert_eq!(play.say(&world).0, "False BindingRefused: a; so it is with one more Target");
    play.hear("a", None);
    play.hear("c", None);
    assert!(play.say(&world).0.starts_with("True Bound"), "none of them is selected");
    // What is not in the way any more is so until the binding is seen.
    play.hear("berlin", refused("berlin"));
    assert_eq!(play.say(&world).0, "False BindingRefused: berlin");
    play.hear("berlin", None);
    assert_eq!(play.say(&world).0, "False BindingRefused: berlin");
    add(&mut world, &made(&berlin(), "web"));
    assert!(play.say(&world).0.starts_with("True Bound"));
    // Without a word of hindrances a Target that waits for its binding is none.
    world.remove::<ReleaseBindingRecord>(&ObjectName::new("edge", name_of(&berlin())));
    assert!(play.say(&world).0.starts_with("True Bound"));
}

/// A Profile, process after process.
struct Play {
    record: ProfileRecord,
    hindrances: Hindrances,
}

impl Play {
    fn new(world: &World) -> Self {
        let record = (**world.profiles.get(&ObjectName::new("edge", "canary")).unwrap()).clone();
        Self { record, hindrances: Hindrances::default() }
    }

    fn hear(&mut self, target: &str, hindrance: Option<Hindrance>) {
        self.hindrances.hear(ObjectName::new("edge", target), hindrance);
    }

    fn restart(&mut self) {
        self.hindrances = Hindrances::default();
    }

    /// What it writes; `None`: nothing.
    fn pass(&mut self, world: &World) -> Option<api::ProfileStatus> {
        self.hindrances.look(world, &self.record);
        profile::status(world, &self.record, &self.hindrances, at(1))
    }

    /// What its condition says then, and the warning.
    fn say(&mut self, world: &World) -> (String, Option<String>) {
        let status = self.pass(world).unwrap_or_else(|| self.record.status.get());
        let warned = profile::warning(&self.record.status.get(), &status).map(|warning| warning.note);
        self.record.status = Packed::of(&status);
        let ready = condition::find(&status.conditions, "Ready").unwrap();
        (format!("{} {}: {}", ready.status, ready.reason, ready.message), warned)
    }
}

#[test]
fn a_profile_that_is_hindered_writes_nothing_after_a_restart_while_nothing_has_changed() {
    let mut world = world();
    let of = |name: &str| match name {
        "oslo" => Hindrance::NameCollision("oslo".into()),
        name => Hindrance::Refused(name.into()),
    };
    let hindered = ["berlin", "oslo", "rome"];
    let mut play = Play::new(&world);
    for name in hindered {
        world.insert(a_target("edge", name, "canary"));
        play.hear(name, Some(of(name)));
    }
    let said = "False NameCollision: oslo; so it is with 2 more Targets";
    assert_eq!(play.say(&world).0, said);
    // In whichever order it hears of them, before or after its first look.
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for early in 0..=3 {
            play.restart();
            for (at, number) in order.into_iter().enumerate() {
                if at >= early {
                    assert_eq!(play.pass(&world), None, "{order:?} {at}");
                }
                play.hear(hindered[number], Some(of(hindered[number])));
            }
            assert_eq!(play.pass(&world), None, "{order:?}");
        }
    }
    // One of them is bound meanwhile, one is not selected any more: nobody tells of them.
    play.restart();
    assert_eq!(play.pass(&world), None);
    add(&mut world, &made(&ObjectName::new("edge", "oslo"), "web"));
    play.hear("rome", Some(of("rome")));
    assert_eq!(play.say(&world).0, said, "berlin is still to be heard of");
    world.insert(a_target("edge", "berlin", "stable"));
    assert_eq!(play.say(&world).0, "False BindingRefused: rome");
    // And the last one has gone.
    play.restart();
    assert_eq!(play.say(&world).0, "False BindingRefused: rome");
    let mut going = a_target("edge", "rome", "canary");
    going.meta.terminating = true;
    world.insert(going);
    assert!(play.say(&world).0.starts_with("True Bound"), "a Target that goes gets no binding");
}

/// Its actor is woken by the stranger's end, and asks those that collided to look again.
#[test]
fn a_strangers_binding_that_goes_wakes_the_profile_which_knows_whose_name_is_free() {
    let mut world = world();
    let stranger = release_binding("edge", &name_of(&berlin()), "elsewhere", "web");
    add(&mut world, &stranger);
    let mut play = Play::new(&world);
    let stranger = ReleaseBindingRecord::from(&stranger);
    let woken = |world: &World| {
        let mut to = Concerned::new();
        Routed::concerned(world, Some(&stranger), None, &mut to);
        to.iter().any(|key| key.to_string() == "Profile edge/canary")
    };
    assert!(!woken(&world), "it says nothing of names");
    let collision = Hindrance::collision(&berlin(), &stranger.meta.name);
    play.hear("berlin", Some(collision.clone()));
    play.hear("oslo", Some(Hindrance::Refused("oslo".into())));
    play.say(&world);
    world.insert(play.record.clone());
    assert!(woken(&world));
    assert_eq!(play.hindrances.freed(&world, &play.record), [], "the stranger is there");
    world.remove::<ReleaseBindingRecord>(&stranger.meta.name);
    assert_eq!(play.hindrances.freed(&world, &play.record), [berlin()]);
    add(&mut world, &made(&berlin(), "web"));
    assert_eq!(play.hindrances.freed(&world, &play.record), [berlin()], "the binding is its own");
    play.hear("berlin", None);
    assert_eq!(play.hindrances.freed(&world, &play.record), []);
}

#[test]
fn a_target_that_a_hindered_profile_selects_no_more_wakes_the_profile() {
    let mut world = world();
    let mut play = Play::new(&world);
    play.hear("berlin", Some(Hindrance::Refused("berlin".into())));
    play.say(&world);
    let grant = GrantRecord::from(&grant("far", "g", &[("Profile", "edge")], &["Target"]));
    let (stable, canary) = (a_target("edge", "berlin", "stable"), a_target("edge", "berlin", "canary"));
    assert_eq!(concerned(&world, Some(&canary), Some(&stable)), ["ProfileBindings edge/berlin"]);
    assert_eq!(concerned(&world, Some(&grant), None), Vec::<String>::new());
    world.insert(play.record.clone());
    let both = ["Profile edge/canary", "ProfileBindings edge/berlin"];
    assert_eq!(concerned(&world, Some(&canary), Some(&stable)), both);
    assert_eq!(concerned(&world, Some(&canary), None), both);
    assert_eq!(concerned(&world, Some(&grant), None), both[..1]);
}

fn concerned<R: Routed>(world: &World, old: Option<&R>, new: Option<&R>) -> Vec<String> {
    let mut to = Concerned::new();
    R::concerned(world, old, new, &mut to);
    to.iter().map(ToString::to_string).filter(|key| key.starts_with("Profile")).collect()
}

#[test]
fn a_label_wakes_the_bindings_of_its_target_only_and_only_when_a_profile_cares() {
    let mut world = world();
    for number in 0..100 {
        world.insert(a_target("edge", &format!("t{number}"), "canary"));
    }
    let (stable, canary) = (a_target("edge", "berlin", "stable"), a_target("edge", "berlin", "canary"));
    assert_eq!(concerned(&world, Some(&stable), Some(&canary)), ["ProfileBindings edge/berlin"]);
    let mut other = canary.clone();
    other.labels.insert("zone".into(), "a".into());
    assert_eq!(concerned(&world, Some(&canary), Some(&other)), Vec::<String>::new());
    assert_eq!(concerned(&world, None, Some(&stable)), Vec::<String>::new());
    assert_eq!(concerned(&world, None, Some(&canary)), ["ProfileBindings edge/berlin"]);
    assert_eq!(concerned(&world, Some(&canary), None), ["ProfileBindings edge/berlin"]);
}

#[test]
fn a_profile_concerns_itself_the_targets_in_its_scope_and_what_it_has_bound() {
    let mut world = world();
    world.insert(a_target("far", "oslo", "canary"));
    world.insert(a_target("unrelated", "rome", "canary"));
    world.insert(GrantRecord::from(&grant("far", "g", &[("Profile", "edge")], &["Target"])));
    add(&mut world, &made(&ObjectName::new("left", "kyiv"), "web"));
    let all = [
        "Profile edge/canary",
        "ProfileBindings edge/berlin",
        "ProfileBindings far/oslo",
        "ProfileBindings left/kyiv",
    ];
    let old = ProfileRecord::from(&canary());
    let mut new = old.clone();
    edit(&mut new.status, |status| status.matched_targets = 7);
    assert_eq!(concerned(&world, Some(&old), Some(&new)), Vec::<String>::new(), "its own status");
    new.meta.generation = 2;
    assert_eq!(concerned(&world, Some(&old), Some(&new)), all);
    let mut fresh = old.clone();
    fresh.meta.finalizers = [].into();
    assert_eq!(concerned(&world, Some(&fresh), Some(&old)), all, "now bindings may be made");
    let unheld = a_release("web", false);
    assert_eq!(concerned(&world, Some(&unheld), Some(&a_release("web", true))), all, "its Release is held");
    assert_eq!(
        concerned(&world, Some(&a_release("other", false)), Some(&a_release("other", true))),
        Vec::<String>::new()
    );
    let grant = GrantRecord::from(&grant("far", "g", &[("Profile", "edge")], &["Target"]));
    assert_eq!(concerned(&world, Some(&grant), None), ["ProfileBindings far/oslo"]);
}

#[test]
fn a_binding_that_was_changed_or_deleted_is_made_right_again() {
    let world = world();
    let binding = ReleaseBindingRecord::from(&made(&berlin(), "web"));
    let both = ["Profile edge/canary", "ProfileBindings edge/berlin"];
    assert_eq!(concerned(&world, None, Some(&binding)), both, "what it was made for may be otherwise by now");
    assert_eq!(concerned(&world, Some(&binding), None), both);
    let mut changed = binding.clone();
    changed.meta.generation = 2;
    assert_eq!(concerned(&world, Some(&binding), Some(&changed)), both);
    let mut stripped = made(&berlin(), "web");
    stripped.metadata.owner_references = None;
    let stripped = ReleaseBindingRecord::from(&stripped);
    assert_eq!(concerned(&world, Some(&binding), Some(&stripped)), both, "it lost its owner");
    let mut written = binding.clone();
    written.meta.resource_version = "2".into();
    assert_eq!(concerned(&world, Some(&binding), Some(&written)), Vec::<String>::new());
}

proptest! {
    /// Whatever the world is like, taking the orders leaves nothing to order, and nothing that others made is touched.
    #[test]
    fn orders_end(
        ring in prop::sample::select(vec!["canary", "stable"]),
        exists: bool,
        held: bool,
        terminating: bool,
        bound in prop::sample::select(vec![None, Some("web"), Some("other")]),
    ) {
        let mut world = world();
        world.insert(a_target("edge", "berlin", ring));
        if !exists {
            world.remove::<TargetRecord>(&berlin());
        }
        world.insert(a_release("web", held));
        let mut profile = ProfileRecord::from(&canary());
        profile.meta.terminating = terminating;
        world.insert(profile);
        add(&mut world, &release_binding("edge", "by-hand", "berlin", "web"));
        if let Some(release) = bound {
            add(&mut world, &made(&berlin(), release));
        }
        for order in profile::decide(&world, &berlin()) {
            match order {
                BindingOrder::Create { release, .. } => add(&mut world, &made(&berlin(), &release.name)),
                BindingOrder::Correct { release, binding, .. } => {
                    prop_assert!(&*binding.name.name != "by-hand");
                    add(&mut world, &made(&berlin(), &release.name));
                }
                BindingOrder::Delete { binding, .. } => {
                    prop_assert!(&*binding.name.name != "by-hand");
                    world.remove::<ReleaseBindingRecord>(&binding.name);
                }
                BindingOrder::Collision { .. } => prop_assert!(false, "nobody has its name"),
            }
        }
        prop_assert_eq!(profile::decide(&world, &berlin()), vec![]);
    }
}
