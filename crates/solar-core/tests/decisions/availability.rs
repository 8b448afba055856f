//! The table of page 04's condition, its times and its memory.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use proptest::prelude::*;
use solar_api::ComponentVersionStatus;
use solar_core::availability::{
    AvailabilityOptions, Checked, Finding, Judged, Lane, Memory, Now, Step, Turns, judge, next, subject,
};
use solar_core::object::ObjectName;
use solar_core::packed::Packed;
use solar_core::record::{ComponentRecord, ComponentVersionRecord, RegistryRecord};
use solar_core::schedule::{next_time, phase};
use solar_core::world::World;

use crate::support::{at, component_version, edit, meta, registry};

const GRACE: Duration = Duration::from_secs(900);
const INTERVAL: Duration = Duration::from_secs(300);
const OPTIONS: AvailabilityOptions = AvailabilityOptions { interval: INTERVAL, grace: GRACE };
const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const REFERENCE: &str = "descriptors.example/component-descriptors/acme.org/web@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A condition about [`REFERENCE`] that has been like this since second 100, and the start of its grace period.
fn status(available: Option<(&str, &str)>, since: Option<i64>) -> ComponentVersionStatus {
    let condition = available.map(|(status, reason)| Condition {
        last_transition_time: Time(at(100)),
        message: format!("of {REFERENCE}"),
        observed_generation: Some(1),
        reason: reason.to_owned(),
        status: status.to_owned(),
        type_: "Available".to_owned(),
    });
    ComponentVersionStatus {
        conditions: condition.into_iter().collect(),
        descriptor_missing_since: since.map(|since| Time(at(since))),
        observed_recheck: None,
    }
}

fn judged(finding: &Finding, now: Timestamp) -> Judged<'_> {
    Judged { finding, reference: REFERENCE, at: now, seen_missing_for: None, generation: 1 }
}

fn short(status: &ComponentVersionStatus) -> (String, String, Option<i64>) {
    let condition = &status.conditions[0];
    let since = status.descriptor_missing_since.as_ref().map(|since| since.0.as_second());
    (condition.status.clone(), condition.reason.clone(), since)
}

const AVAILABLE: (&str, &str) = ("True", "DescriptorAvailable");
const PENDING: (&str, &str) = ("Unknown", "DescriptorMissingPending");
const MISSING: (&str, &str) = ("False", "DescriptorMissing");
const UNREACHABLE: (&str, &str) = ("Unknown", "RegistryUnreachable");
const NO_DIGEST: (&str, &str) = ("Unknown", "NoDigest");
const NOT_CONFIGURED: (&str, &str) = ("Unknown", "RegistryNotConfigured");
const ALL: [Option<(&str, &str)>; 7] = [
    None,
    Some(AVAILABLE),
    Some(PENDING),
    Some(MISSING),
    Some(UNREACHABLE),
    Some(NO_DIGEST),
    Some(NOT_CONFIGURED),
];

/// The condition that each finding but 404 gives, whatever there was before; the grace period has ended with it.
fn always(finding: &Finding, wanted: (&str, &str)) {
    for before in ALL {
        let since = (before == Some(PENDING)).then_some(0);
        let status = judge(&status(before, since), judged(finding, at(10_000)), GRACE);
        assert_eq!(short(&status), (wanted.0.into(), wanted.1.into(), None), "{before:?}");
    }
}

#[test]
fn row_200_is_available_whatever_was_before() {
    always(&Finding::Present, AVAILABLE);
}

#[test]
fn row_404_without_pending_or_false_starts_the_grace_period() {
    for before in [None, Some(AVAILABLE), Some(UNREACHABLE), Some(NO_DIGEST), Some(NOT_CONFIGURED)] {
        let next = judge(&status(before, None), judged(&Finding::Absent, at(10_000)), GRACE);
        assert_eq!(short(&next), (PENDING.0.into(), PENDING.1.into(), Some(10_000)), "{before:?}");
    }
}

#[test]
fn row_404_within_the_grace_period_changes_nothing() {
    let before = status(Some(PENDING), Some(10_000));
    for now in [at(10_000), at(10_899), Timestamp::new(10_899, 999_999_999).unwrap()] {
        assert_eq!(judge(&before, judged(&Finding::Absent, now), GRACE), before, "{now}");
    }
}

#[test]
fn row_404_before_the_start_of_the_grace_period_begins_it_anew() {
    // The clock was a year ahead when pending began, and was set back.
    let before = status(Some(PENDING), Some(31_000_000));
    let next = judge(&before, judged(&Finding::Absent, at(10_000)), GRACE);
    assert_eq!(short(&next), (PENDING.0.into(), PENDING.1.into(), Some(10_000)));
    assert_eq!(next.conditions[0].last_transition_time.0, at(100));
    // A start that was rounded up lies ahead by less than a second, and stays.
    let rounded = status(Some(PENDING), Some(10_000));
    let early = Timestamp::new(9_999, 500_000_000).unwrap();
    assert_eq!(judge(&rounded, judged(&Finding::Absent, early), GRACE), rounded);
}

#[test]
fn row_404_after_the_grace_period_is_false() {
    for now in [at(10_900), at(20_000)] {
        let next = judge(&status(Some(PENDING), Some(10_000)), judged(&Finding::Absent, now), GRACE);
        assert_eq!(short(&next), (MISSING.0.into(), MISSING.1.into(), None));
        assert_eq!(next.conditions[0].last_transition_time.0, now);
        assert!(next.conditions[0].message.contains(REFERENCE), "{next:?}");
    }
}

#[test]
fn row_404_while_false_changes_nothing() {
    let before = status(Some(MISSING), None);
    assert_eq!(judge(&before, judged(&Finding::Absent, at(90_000)), GRACE), before);
}

#[test]
fn row_other_error_is_unreachable_whatever_was_before() {
    always(&Finding::Failed("503".into()), UNREACHABLE);
}

#[test]
fn row_no_digest_whatever_was_before() {
    always(&Finding::NoDigest("none".into()), NO_DIGEST);
}

#[test]
fn row_no_registry_whatever_was_before() {
    always(&Finding::NoRegistry("none".into()), NOT_CONFIGURED);
}

#[test]
fn what_is_said_of_another_reference_counts_for_nothing() {
    let other = "descriptors.example/component-descriptors/acme.org/web@sha256:other";
    for before in [status(Some(PENDING), Some(0)), status(Some(MISSING), None)] {
        let judged = Judged { reference: other, ..judged(&Finding::Absent, at(50_000)) };
        let next = judge(&before, judged, GRACE);
        assert_eq!(short(&next), (PENDING.0.into(), PENDING.1.into(), Some(50_000)), "{before:?}");
    }
}

#[test]
fn a_reference_is_told_from_one_that_it_is_a_part_of() {
    let longer = [format!("my.{REFERENCE}"), format!("my-{REFERENCE}"), format!("{REFERENCE}0")];
    for other in longer {
        for (available, since) in [(PENDING, Some(0)), (MISSING, None)] {
            let mut before = status(Some(available), since);
            before.conditions[0].message = format!("{other} is not in the registry");
            let next = judge(&before, judged(&Finding::Absent, at(50_000)), GRACE);
            assert_eq!(short(&next), (PENDING.0.into(), PENDING.1.into(), Some(50_000)), "{other}");
        }
    }
    for message in
        [format!("({REFERENCE})"), format!("\"{REFERENCE}\", says it"), format!("gone: {REFERENCE}.")]
    {
        let mut before = status(Some(PENDING), Some(10_000));
        before.conditions[0].message = message;
        assert_eq!(judge(&before, judged(&Finding::Absent, at(10_001)), GRACE), before);
    }
}

#[test]
fn words_that_name_no_reference_hold_for_the_generation_that_they_were_true_of() {
    let mut before = status(Some(PENDING), Some(10_000));
    before.conditions[0].message = "the manifest is not there (yet)".to_owned();
    assert_eq!(judge(&before, judged(&Finding::Absent, at(10_001)), GRACE), before);
    let red = judge(&before, judged(&Finding::Absent, at(10_900)), GRACE);
    assert_eq!(short(&red).0, "False");
    let edited = Judged { generation: 2, ..judged(&Finding::Absent, at(10_900)) };
    assert_eq!(short(&judge(&before, edited, GRACE)), (PENDING.0.into(), PENDING.1.into(), Some(10_900)));
}

#[test]
fn pending_without_a_start_begins_anew() {
    let next = judge(&status(Some(PENDING), None), judged(&Finding::Absent, at(50_000)), GRACE);
    assert_eq!(short(&next), (PENDING.0.into(), PENDING.1.into(), Some(50_000)));
}

#[test]
fn a_change_of_the_reason_alone_moves_no_transition_time_and_the_grace_period_has_a_start_of_its_own() {
    let before = status(Some(UNREACHABLE), None);
    let next = judge(&before, judged(&Finding::Absent, at(10_000)), GRACE);
    assert_eq!(next.conditions[0].last_transition_time.0, at(100), "Unknown stays Unknown");
    assert_eq!(next.descriptor_missing_since, Some(Time(at(10_000))));
}

#[test]
fn the_start_is_rounded_up_so_that_no_fraction_of_the_grace_period_is_lost() {
    let start = Timestamp::new(10_000, 1).unwrap();
    let pending = judge(&status(None, None), judged(&Finding::Absent, start), GRACE);
    assert_eq!(pending.descriptor_missing_since, Some(Time(at(10_001))));
    let early = judged(&Finding::Absent, start.checked_add(GRACE).unwrap());
    assert_eq!(judge(&pending, early, GRACE), pending);
    assert_eq!(short(&judge(&pending, judged(&Finding::Absent, at(10_901)), GRACE)).0, "False");
}

#[test]
fn a_wall_clock_that_was_corrected_forwards_turns_nothing_red_early() {
    // Pending began while the clock was an hour behind.
    let before = status(Some(PENDING), Some(10_000));
    let seen = |seconds| Judged {
        seen_missing_for: Some(Duration::from_secs(seconds)),
        ..judged(&Finding::Absent, at(13_600))
    };
    assert_eq!(judge(&before, seen(300), GRACE), before);
    assert_eq!(short(&judge(&before, seen(900), GRACE)).0, "False");
}

#[test]
fn the_generation_is_always_the_one_that_was_looked_at() {
    for (finding, before) in [(Finding::Absent, Some(PENDING)), (Finding::Absent, Some(MISSING))] {
        let before = status(before, Some(10_000));
        let judged = Judged { generation: 7, ..judged(&finding, at(10_001)) };
        let next = judge(&before, judged, GRACE);
        assert_eq!(next.conditions[0].observed_generation, Some(7));
        assert_eq!(short(&next), short(&before));
    }
}

#[test]
fn a_phase_is_fixed_by_the_uid_and_less_than_the_interval() {
    // `printf uid-1 | sha256sum` begins with these sixteen digits.
    assert_eq!(phase("uid-1", INTERVAL), Duration::from_millis(0x4a49_acf8_a6bd_7277_u64 % 300_000));
    assert_eq!(phase("uid-1", Duration::ZERO), Duration::ZERO);
}

#[test]
fn the_times_of_many_are_spread_evenly() {
    let mut counts = [0_u32; 10];
    for number in 0..10_000 {
        let phase = phase(&format!("uid-{number}"), INTERVAL);
        counts[usize::try_from(phase.as_secs() / 30).unwrap()] += 1;
    }
    assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
}

#[test]
fn times_are_one_interval_apart_whenever_they_are_asked_for() {
    let first = next_time("uid-1", at(1_000_000), INTERVAL);
    let wait = first.duration_since(at(1_000_000));
    assert!(wait > SignedDuration::ZERO && wait <= SignedDuration::from_secs(300), "{wait}");
    let just_before = first.checked_sub(Duration::from_millis(1)).unwrap();
    assert_eq!(next_time("uid-1", just_before, INTERVAL), first);
    assert_eq!(next_time("uid-1", first, INTERVAL), first.checked_add(INTERVAL).unwrap());
}

fn world(host: Option<&str>) -> World {
    let mut world = World::default();
    if let Some(host) = host {
        world.insert(RegistryRecord::from(&registry("edge", "b-descriptors", host)));
        world.insert(RegistryRecord::from(&registry("edge", "a-descriptors", host)));
    }
    let spec = solar_api::ComponentSpec {
        scheme: "oci".into(),
        registry: "https://Component.example:443/".into(),
        repository: "some/where/component-descriptors/acme.org/from-component".into(),
    };
    let component = solar_api::Component { metadata: meta("edge", "web"), spec };
    world.insert(ComponentRecord::from(&component));
    world
}

fn version(change: impl FnOnce(&mut solar_api::ComponentVersion)) -> ComponentVersionRecord {
    let mut version = component_version("edge", "web-1", "web");
    version.spec.registry = Some("descriptors.example".into());
    version.spec.component_name = Some("acme.org/web".into());
    version.spec.digest = Some(DIGEST.into());
    change(&mut version);
    ComponentVersionRecord::from(&version)
}

#[test]
fn the_reference_is_made_of_registry_namespace_name_and_digest() {
    let world = world(Some("descriptors.example"));
    let of = |change: fn(&mut solar_api::ComponentVersion)| subject(&world, &version(change)).unwrap();
    let plain = of(|_| {});
    assert_eq!(plain.reference(), REFERENCE);
    assert_eq!(plain.registry, ObjectName::new("edge", "a-descriptors"), "the lowest name of several");
    let spaced = of(|version| version.spec.namespace = Some(String::new()));
    assert_eq!(spaced, plain, "an empty namespace is none");
    let prefixed = of(|version| version.spec.namespace = Some("acme/prod".into()));
    assert_eq!(&*prefixed.repository, "acme/prod/component-descriptors/acme.org/web");
    let decorated = of(|version| version.spec.registry = Some("oci://DESCRIPTORS.example/".into()));
    assert_eq!(decorated, plain, "hosts have one form");
    let derived = of(|version| version.spec.component_name = None);
    assert_eq!(&*derived.repository, "component-descriptors/acme.org/from-component");
}

#[test]
fn the_name_is_what_stands_behind_the_segment_in_the_components_repository() {
    let of = |repository: &str| {
        let mut world = world(Some("descriptors.example"));
        let spec = solar_api::ComponentSpec {
            scheme: "oci".into(),
            registry: "descriptors.example".into(),
            repository: repository.into(),
        };
        world.insert(ComponentRecord::from(&solar_api::Component { metadata: meta("edge", "web"), spec }));
        subject(&world, &version(|version| version.spec.component_name = None)).map(|found| found.repository)
    };
    for (repository, name) in [
        ("component-descriptors/acme.org/web", "acme.org/web"),
        ("/some/component-descriptors/web/", "web"),
        ("component-descriptors-old/component-descriptors/web", "web"),
    ] {
        assert_eq!(*of(repository).unwrap(), *format!("component-descriptors/{name}"), "{repository}");
    }
    for repository in
        ["web", "component-descriptors", "some/component-descriptors/", "my-component-descriptors/web"]
    {
        assert!(
            matches!(of(repository), Err(Finding::Failed(why)) if why.contains("set spec.componentName"))
        );
    }
}

#[test]
fn a_registry_of_another_namespace_is_none() {
    let mut world = world(None);
    world.insert(RegistryRecord::from(&registry("other", "r", "descriptors.example")));
    let finding = subject(&world, &version(|_| {})).unwrap_err();
    assert_eq!(finding.label(), "not_configured", "{finding:?}");
}

#[test]
fn the_registry_falls_back_to_the_components() {
    let world = world(Some("component.example"));
    let found = subject(&world, &version(|version| version.spec.registry = None)).unwrap();
    assert_eq!(&*found.host, "component.example");
}

#[test]
fn the_mark_differs_with_the_registrys_spec_and_not_with_its_status() {
    let plain = world(Some("descriptors.example"));
    let mark = |world: &World| subject(world, &version(|_| {})).unwrap().mark;
    let mut changed = registry("edge", "a-descriptors", "descriptors.example");
    changed.metadata.resource_version = Some("2".into());
    let mut told = world(Some("descriptors.example"));
    told.insert(RegistryRecord::from(&changed));
    assert_eq!(mark(&plain), mark(&told));
    changed.metadata.generation = Some(2);
    told.insert(RegistryRecord::from(&changed));
    assert_ne!(mark(&plain), mark(&told));
}

#[test]
fn bad_input_is_a_finding_that_names_what_is_wrong() {
    type Change = fn(&mut solar_api::ComponentVersion);
    let rows: [(Change, &str, &str); 10] = [
        (|v| v.spec.digest = None, "no_digest", "spec.digest is not set"),
        (|v| v.spec.digest = Some(" ".into()), "no_digest", "spec.digest is not set"),
        (|v| v.spec.digest = Some("latest".into()), "no_digest", "\"latest\" is no digest"),
        (|v| v.spec.digest = Some(DIGEST.to_uppercase()), "no_digest", "is no digest"),
        (|v| v.spec.registry = Some("descriptors.example/path".into()), "unreachable", "holds a path"),
        (|v| v.spec.registry = Some("two words".into()), "unreachable", "white space"),
        (|v| v.spec.registry = Some("ftp://descriptors.example".into()), "unreachable", "holds a scheme"),
        (|v| v.spec.registry = Some("other.example".into()), "not_configured", "other.example"),
        (
            |v| {
                v.spec.component_ref.name = "gone".into();
                v.spec.component_name = None;
            },
            "unreachable",
            "Component edge/gone does not exist",
        ),
        (
            |v| {
                v.spec.component_ref.name = "gone".into();
                v.spec.registry = None;
            },
            "not_configured",
            "Component edge/gone does not exist",
        ),
    ];
    let world = world(Some("descriptors.example"));
    for (change, label, says) in rows {
        let finding = subject(&world, &version(change)).unwrap_err();
        assert_eq!(finding.label(), label, "{finding:?}");
        let (Finding::NoDigest(why) | Finding::NoRegistry(why) | Finding::Failed(why)) = &finding else {
            panic!("{finding:?}")
        };
        assert!(why.contains(says), "{why}");
    }
}

/// A version whose actor is played: it asks, is answered, and its writes are stored.
struct Play {
    world: World,
    version: ComponentVersionRecord,
    memory: Memory,
    moment: Duration,
    began: Duration,
    /// Wall time at the start of the process.
    wall: Timestamp,
    writes: usize,
    /// It has asked for a check that has not ended.
    waits: bool,
}

impl Play {
    fn new(status: ComponentVersionStatus) -> Self {
        let version = version(|version| version.status = Some(status));
        Self {
            world: world(Some("descriptors.example")),
            version,
            memory: Memory::default(),
            moment: Duration::ZERO,
            began: Duration::ZERO,
            wall: at(1_000_000),
            writes: 0,
            waits: false,
        }
    }

    fn now(&self) -> Now {
        let wall = self.wall.checked_add(self.moment).unwrap();
        Now { moment: self.moment, began: self.began, wall }
    }

    fn step(&mut self) -> Step {
        let subject = subject(&self.world, &self.version);
        let now = self.now();
        next(&self.version, &subject, &mut self.memory, now, &OPTIONS)
    }

    /// Writes what is to be written; answers the step after that.
    fn settle(&mut self) -> Step {
        for _ in 0..3 {
            match self.step() {
                Step::Write(status) => {
                    self.version.status = Packed::of(&status);
                    self.writes += 1;
                    self.memory.written();
                }
                step => {
                    self.waits |= matches!(step, Step::Ask { .. });
                    return step;
                }
            }
        }
        panic!("it writes again and again: {:?}", self.version.status)
    }

    fn asks(&mut self) -> bool {
        matches!(self.settle(), Step::Ask { .. })
    }

    /// The check that was asked for ends with this.
    fn result(&mut self, finding: Finding) -> Step {
        let subject = subject(&self.world, &self.version).unwrap();
        let (at, wall) = (self.moment, self.now().wall);
        let recheck = self.version.recheck.clone();
        self.waits = false;
        self.memory.checked(Checked { mark: subject.mark, recheck, finding, at, wall });
        self.settle()
    }

    /// Another process: nothing but the status is kept.
    fn restart(&mut self) {
        self.wall = self.now().wall;
        self.moment = Duration::ZERO;
        self.began = Duration::ZERO;
        self.memory = Memory::default();
        self.waits = false;
    }

    fn wait(&mut self, time: Duration) {
        self.moment += time;
    }

    fn observed(&self) -> Option<String> {
        self.version.status.get().observed_recheck
    }

    fn reason(&self) -> String {
        self.version.status.get().conditions.remove(0).reason
    }
}

fn until(step: &Step) -> Duration {
    match step {
        Step::Wait(Some(until)) => *until,
        step => panic!("{step:?}"),
    }
}

#[test]
fn one_that_was_never_checked_is_checked_at_once_and_then_at_its_times() {
    let mut play = Play::new(status(None, None));
    assert!(play.asks());
    assert!(matches!(play.settle(), Step::Wait(Some(_))), "it does not ask twice at one moment");
    let first = until(&play.result(Finding::Present));
    assert_eq!((&*play.reason(), play.writes), ("DescriptorAvailable", 1));
    assert!(first <= INTERVAL);
    play.moment = first;
    assert!(play.asks());
    let second = until(&play.result(Finding::Present));
    assert_eq!(
        (second.saturating_sub(first), play.writes),
        (INTERVAL, 1),
        "nothing is written for a check that changes nothing"
    );
}

#[test]
fn a_descriptor_that_is_missing_is_looked_for_when_it_is_due_to_turn_red() {
    let mut play = Play::new(status(None, None));
    assert!(play.asks());
    let mut wait = play.result(Finding::Absent);
    assert_eq!(play.reason(), "DescriptorMissingPending");
    let mut last = Duration::ZERO;
    while until(&wait) < GRACE {
        play.moment = until(&wait);
        assert!(play.asks());
        wait = play.result(Finding::Absent);
        assert_eq!(play.reason(), "DescriptorMissingPending");
        assert!(until(&wait) > last);
        last = until(&wait);
    }
    assert_eq!(until(&wait), GRACE, "not at its next time, but when the grace period is over");
    play.moment = GRACE;
    assert!(play.asks());
    play.result(Finding::Absent);
    assert_eq!((&*play.reason(), play.writes), ("DescriptorMissing", 2));
}

#[test]
fn pending_survives_a_restart() {
    let mut play = Play::new(status(None, None));
    assert!(play.asks());
    play.result(Finding::Absent);
    play.wait(Duration::from_secs(880));
    play.restart();
    let mut wait = play.settle();
    // It may have been due while nobody was there.
    if matches!(wait, Step::Ask { .. }) {
        wait = play.result(Finding::Absent);
    }
    play.moment = until(&wait);
    assert_eq!(play.moment, Duration::from_secs(20));
    assert!(play.asks());
    play.result(Finding::Absent);
    assert_eq!(play.reason(), "DescriptorMissing");
}

#[test]
fn each_value_of_the_annotation_is_answered_once_and_also_by_the_next_process() {
    let mut play = Play::new(status(Some(AVAILABLE), None));
    play.version.recheck = Some("1".into());
    assert!(play.asks());
    play.restart();
    assert!(play.asks(), "the first process ended before it was answered");
    // Changed while the check runs: only what stood there when it began is answered.
    let subject = subject(&play.world, &play.version).unwrap();
    let now = play.now();
    play.version.recheck = Some("2".into());
    play.memory.checked(Checked {
        mark: subject.mark,
        recheck: Some("1".into()),
        finding: Finding::Present,
        at: now.moment,
        wall: now.wall,
    });
    assert!(play.asks());
    assert_eq!(play.observed().as_deref(), Some("1"));
    assert!(matches!(play.result(Finding::Present), Step::Wait(_)));
    assert_eq!(play.observed().as_deref(), Some("2"));
    play.restart();
    assert!(matches!(play.settle(), Step::Wait(_)));
    play.version.recheck = None;
    assert!(matches!(play.settle(), Step::Wait(_)), "an annotation that is taken away asks for nothing");
}

#[test]
fn an_answer_that_the_status_does_not_keep_is_not_asked_for_for_ever() {
    let mut play = Play::new(status(Some(AVAILABLE), None));
    play.version.recheck = Some("1".into());
    assert!(play.asks());
    play.result(Finding::Present);
    edit(&mut play.version.status, |status| status.observed_recheck = None);
    assert!(matches!(play.settle(), Step::Wait(_)));
}

#[test]
fn an_annotation_is_answered_where_there_is_nothing_to_look_for() {
    let mut play = Play::new(status(None, None));
    play.version.descriptor.digest = None;
    play.version.recheck = Some("1".into());
    assert_eq!(play.settle(), Step::Wait(None));
    assert_eq!((&*play.reason(), play.observed().as_deref()), ("NoDigest", Some("1")));
}

#[test]
fn a_registry_that_appears_changes_or_goes_is_heeded_at_once() {
    let mut play = Play::new(status(None, None));
    play.world = world(None);
    assert_eq!(play.settle(), Step::Wait(None));
    assert_eq!(play.reason(), "RegistryNotConfigured");
    play.world = world(Some("descriptors.example"));
    assert!(play.asks(), "it appeared");
    assert!(matches!(play.result(Finding::Failed("no".into())), Step::Wait(_)));
    // Whoever was not checked since the start heeds a change, too.
    play.restart();
    if play.asks() {
        play.result(Finding::Failed("no".into()));
    }
    let mut changed = registry("edge", "a-descriptors", "descriptors.example");
    changed.metadata.generation = Some(2);
    play.world.insert(RegistryRecord::from(&changed));
    assert!(play.asks(), "it changed");
    play.result(Finding::Present);
    play.world = world(None);
    assert_eq!(play.settle(), Step::Wait(None));
    assert_eq!(play.reason(), "RegistryNotConfigured");
}

#[test]
fn a_result_of_what_is_no_longer_to_be_looked_for_is_not_believed() {
    let mut play = Play::new(status(None, None));
    assert!(play.asks());
    let before = subject(&play.world, &play.version).unwrap();
    play.version.descriptor.namespace = Some("moved".into());
    play.version.meta.generation = 2;
    let now = play.now();
    play.memory.checked(Checked {
        mark: before.mark,
        recheck: None,
        finding: Finding::Present,
        at: now.moment,
        wall: now.wall,
    });
    assert!(play.asks());
    assert_eq!(play.writes, 0);
}

#[test]
fn a_changed_spec_is_checked_at_once() {
    let mut play = Play::new(status(Some(AVAILABLE), None));
    if play.asks() {
        play.result(Finding::Present);
    }
    play.version.meta.generation = 2;
    assert!(play.asks());
    play.result(Finding::Present);
    assert_eq!(play.version.status.get().conditions[0].observed_generation, Some(2));
    assert!(matches!(play.settle(), Step::Wait(_)));
}

#[test]
fn who_was_told_to_wait_or_gets_no_result_asks_again() {
    let mut play = Play::new(status(None, None));
    assert!(play.asks());
    play.memory.throttled(Duration::from_secs(100), play.moment, INTERVAL);
    assert_eq!(until(&play.settle()), Duration::from_secs(102));
    play.moment = Duration::from_secs(102);
    assert!(
        matches!(play.settle(), Step::Ask { due, .. } if due == Duration::ZERO),
        "due since the first time"
    );
    play.memory.started(play.moment);
    assert_eq!(until(&play.settle()), Duration::from_secs(122));
    play.moment = Duration::from_secs(122);
    assert!(play.asks());
}

/// The question, or its answer, was lost.
#[test]
fn who_gets_no_answer_asks_again_after_two_seconds() {
    let mut play = Play::new(status(None, None));
    assert!(play.asks());
    assert_eq!(until(&play.settle()), Duration::from_secs(2));
    play.moment = Duration::from_secs(2);
    assert!(play.asks());
}

#[test]
fn who_was_told_to_wait_for_longer_than_an_interval_asks_again_after_one() {
    let mut play = Play::new(status(None, None));
    assert!(play.asks());
    play.memory.throttled(Duration::from_secs(100_000), play.moment, INTERVAL);
    assert_eq!(until(&play.settle()), INTERVAL + Duration::from_secs(2));
}

#[test]
fn who_waits_and_is_annotated_or_edited_asks_for_a_better_place_once() {
    let lane = |step: Step| match step {
        Step::Ask { lane, .. } => Some(lane),
        _ => None,
    };
    let mut play = Play::new(status(None, None));
    assert_eq!(lane(play.settle()), Some(Lane::Due), "a new one has nothing that is out of date");
    play.memory.throttled(Duration::from_secs(100), play.moment, INTERVAL);
    play.version.recheck = Some("1".into());
    assert_eq!(lane(play.settle()), Some(Lane::Soon));
    assert_eq!(lane(play.settle()), None);
    play.result(Finding::Present);
    play.version.meta.generation = 2;
    assert_eq!(lane(play.settle()), Some(Lane::Soon));
}

#[test]
fn what_was_due_before_the_start_stands_behind_until_its_time_comes_again() {
    let mut play = Play::new(status(Some(AVAILABLE), None));
    let due = next_time(&play.version.meta.uid, at(1_000_000), INTERVAL);
    play.wall = due.checked_add(Duration::from_secs(5)).unwrap();
    assert!(
        matches!(play.settle(), Step::Ask { lane: Lane::LookBack { age }, .. } if age == Duration::from_secs(5))
    );
    play.memory.throttled(Duration::from_secs(100_000), play.moment, INTERVAL);
    play.moment = until(&play.settle());
    assert!(matches!(play.settle(), Step::Ask { lane: Lane::Due, .. }));
}

#[test]
fn an_edited_version_asks_anew_only_for_another_host() {
    let mut play = Play::new(status(None, None));
    assert!(play.asks());
    play.memory.throttled(Duration::from_secs(100), play.moment, INTERVAL);
    play.version.descriptor.namespace = Some("moved".into());
    play.version.meta.generation = 2;
    assert!(matches!(play.settle(), Step::Wait(_)), "it keeps its place");
    play.world.insert(RegistryRecord::from(&registry("edge", "c", "other.example")));
    play.version.descriptor.registry = Some("other.example".into());
    assert!(matches!(play.settle(), Step::Ask { host, .. } if *host == *"other.example"));
}

#[test]
fn a_restart_loop_every_minute_checks_everybody_once_in_each_interval() {
    const MINUTES: u32 = 60;
    const MANY: usize = 300;
    // Ten seconds of each minute nobody is there.
    let mut checks = vec![Vec::new(); MANY];
    for (number, times) in checks.iter_mut().enumerate() {
        let mut play = Play::new(status(Some(AVAILABLE), None));
        play.version.meta.uid = format!("uid-{number}").into();
        for minute in 0..MINUTES {
            play.restart();
            play.wall = at(1_000_000 + i64::from(minute) * 60 + 10);
            loop {
                if play.asks() {
                    times.push(u64::from(minute) * 60 + play.moment.as_secs());
                    play.result(Finding::Present);
                }
                let wait = until(&play.settle());
                if wait >= Duration::from_secs(50) {
                    break;
                }
                play.moment = wait;
            }
        }
    }
    let all = checks.iter().map(Vec::len).sum::<usize>();
    for (number, times) in checks.iter().enumerate() {
        for begin in (0..3_300).step_by(60) {
            let within = times.iter().filter(|time| (begin..begin + 320).contains(*time)).count();
            assert!(within >= 1, "uid-{number} is forgotten from {begin} s on: {times:?}");
        }
    }
    // Twelve times each in an hour, and some once more by the process after.
    assert!(all < MANY * 12 * 17 / 10, "{all}");
}

#[test]
fn a_restart_with_ten_thousand_versions_checks_few_at_once_and_all_within_an_interval() {
    begin_with_ten_thousand(Duration::ZERO);
}

#[test]
fn one_that_stood_by_for_an_hour_checks_few_at_once_and_none_of_them_long_due() {
    begin_with_ten_thousand(Duration::from_secs(3_600));
}

/// A process that begins to do the work at `began`.
fn begin_with_ten_thousand(began: Duration) {
    let (mut at_once, mut later) = (0, [0_u32; 10]);
    for number in 0..10_000 {
        let mut play = Play::new(status(Some(AVAILABLE), None));
        play.version.meta.uid = format!("uid-{number}").into();
        (play.moment, play.began) = (began, began);
        match play.settle() {
            Step::Ask { due, .. } => {
                assert!(began.saturating_sub(due) <= Duration::from_secs(30), "{due:?}");
                at_once += 1;
            }
            step => {
                let until = until(&step).saturating_sub(began);
                assert!(until <= INTERVAL, "{until:?}");
                later[usize::try_from(until.as_secs() / 30).unwrap().min(9)] += 1;
            }
        }
    }
    // Those of the half minute before the start: a tenth.
    assert!((900..1_100).contains(&at_once), "{at_once}");
    assert!(later[..9].iter().all(|count| (850..1_150).contains(count)), "{later:?}");
}

/// With Registries of two hosts, one of which ends as the other.
fn both() -> World {
    let mut world = world(Some("descriptors.example"));
    world.insert(RegistryRecord::from(&registry("edge", "my", "my.descriptors.example")));
    world
}

/// What a restart loop came to.
#[derive(Debug)]
struct Loop {
    /// The longest time that any version was not checked.
    longest: Duration,
    /// Of a thousand such times, how many were longer than an interval and a life.
    long: usize,
    /// The longest that one waited that became due while the process ran.
    lag: Duration,
}

/// `LIVES` lives of 50 s with 10 s between them, 10 checks a second after 20 at once: 520 in each minute.
fn restart_loop(many: u32) -> Loop {
    const LIVES: u32 = 20;
    let host = "descriptors.example";
    let mut plays: Vec<Play> = (0..many)
        .map(|number| {
            let mut play = Play::new(status(Some(AVAILABLE), None));
            play.version.meta.uid = format!("uid-{number}").into();
            play.version.meta.name = ObjectName::new("edge", format!("v-{number}"));
            play
        })
        .collect();
    let of: BTreeMap<ObjectName, usize> =
        plays.iter().enumerate().map(|(number, play)| (play.version.meta.name.clone(), number)).collect();
    let mut last = vec![Duration::ZERO; plays.len()];
    let (mut gaps, mut lag) = (Vec::new(), Duration::ZERO);
    for life in 0..LIVES {
        let wall = at(1_000_000 + i64::from(life) * 60);
        let mut turns = Turns::new(4, 10_000).starting_at(wall, INTERVAL);
        let mut asks: BTreeMap<Duration, Vec<usize>> =
            [(Duration::ZERO, (0..plays.len()).collect())].into_iter().collect();
        let mut looked_back = std::collections::BTreeSet::new();
        for play in &mut plays {
            play.restart();
            play.wall = wall;
        }
        for tick in 0..500_u32 {
            let now = Duration::from_millis(100) * tick;
            let later = asks.split_off(&(now + Duration::from_nanos(1)));
            for number in std::mem::replace(&mut asks, later).into_values().flatten() {
                let play = &mut plays[number];
                play.moment = now;
                let mut step = play.settle();
                if let Step::Ask { due, lane, .. } = step {
                    turns.stand(&play.version.meta.name, host, due, lane).unwrap();
                    if matches!(lane, Lane::LookBack { .. }) {
                        looked_back.insert(number);
                    }
                    play.memory.throttled(Duration::from_secs(1_000), now, INTERVAL);
                    step = play.settle();
                }
                asks.entry(until(&step)).or_default().push(number);
            }
            for _ in 0..if tick == 0 { 20 } else { 1 } {
                let Some(first) = turns.first(now, |_, _| true) else { break };
                let turn = turns.begin(&first).unwrap();
                turns.ended(&first, now);
                let number = of[&turn.version];
                if !looked_back.contains(&number) {
                    lag = lag.max(now.saturating_sub(turn.due));
                }
                let play = &mut plays[number];
                play.moment = now;
                let step = play.result(Finding::Present);
                asks.entry(until(&step)).or_default().push(number);
                let real = Duration::from_secs(60) * life + now;
                gaps.push(real.saturating_sub(last[number]));
                last[number] = real;
            }
        }
    }
    let end = Duration::from_secs(60) * LIVES;
    gaps.extend(last.iter().map(|last| end.saturating_sub(*last)));
    let longest = gaps.iter().copied().max().unwrap_or_default();
    let long = gaps.iter().filter(|gap| **gap > INTERVAL + Duration::from_secs(60)).count();
    Loop { longest, long: long * 1_000 / gaps.len(), lag }
}

#[test]
fn a_restart_loop_with_checks_to_spare_leaves_nobody_out() {
    for (many, more) in [(1_000, 10), (2_000, 50)] {
        let found = restart_loop(many);
        assert!(found.longest < INTERVAL + Duration::from_secs(more), "{many}: {found:?}");
        assert!(found.lag < Duration::from_secs(1), "{many}: {found:?}");
    }
}

/// Of 2,500 as many become due in a minute as there are checks for in a life. By chance there is a minute in each interval
/// for which they do not suffice: of those due in it each is left out once at most before it has its turn.
#[test]
fn a_restart_loop_with_no_check_to_spare_leaves_nobody_out_twice() {
    let found = restart_loop(2_500);
    assert!(found.longest < 2 * INTERVAL + Duration::from_secs(10), "{found:?}");
    assert!(found.long <= 20, "{found:?}");
    assert!(found.lag < Duration::from_secs(3), "what is due in this life does not wait: {found:?}");
}

#[derive(Clone, Debug)]
enum Event {
    Wait(u64),
    Result(u8),
    Restart,
    Jump(i64),
    Edit,
    Host(bool),
    Registry(bool),
    Recheck(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..700_u64).prop_map(Event::Wait),
        6 => (0..10_u8).prop_map(Event::Result),
        1 => Just(Event::Restart),
        1 => (-4_000..0_i64).prop_map(Event::Jump),
        1 => Just(Event::Edit),
        1 => any::<bool>().prop_map(Event::Host),
        1 => any::<bool>().prop_map(Event::Registry),
        1 => (0..3_u8).prop_map(Event::Recheck),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// Whatever happens: only absence gives False, and only when nothing else was found for a full grace period of real
    /// time; 200 heals; a transition time moves with the status alone; and it never writes or asks without end.
    #[test]
    fn red_only_after_a_full_grace_period_of_nothing_but_404(events in prop::collection::vec(event(), 1..80)) {
        let mut play = Play::new(status(None, None));
        play.world = both();
        // Real time, which no jump of the wall clock touches.
        let mut real = Duration::ZERO;
        // What was found missing first and ever since, and when.
        let mut unbroken: Option<(String, Duration)> = None;
        for event in events {
            let before = play.version.status.clone();
            match event {
                Event::Wait(seconds) => {
                    play.wait(Duration::from_secs(seconds));
                    real += Duration::from_secs(seconds);
                }
                Event::Restart => play.restart(),
                Event::Jump(seconds) => {
                    play.wall = play.wall.checked_add(SignedDuration::from_secs(seconds)).unwrap();
                }
                Event::Edit => {
                    let moved = play.version.descriptor.namespace.is_none();
                    play.version.descriptor.namespace = moved.then(|| "moved".into());
                    play.version.meta.generation += 1;
                }
                Event::Host(longer) => {
                    let host = if longer { "my.descriptors.example" } else { "descriptors.example" };
                    if play.version.descriptor.registry.as_deref() != Some(host) {
                        play.version.descriptor.registry = Some(host.into());
                        play.version.meta.generation += 1;
                    }
                }
                Event::Registry(there) => {
                    play.world = if there { both() } else { world(None) };
                    if !there {
                        unbroken = None;
                    }
                }
                Event::Recheck(value) => play.version.recheck = Some(value.to_string().into()),
                Event::Result(number) => {
                    play.settle();
                    if !play.waits || subject(&play.world, &play.version).is_err() {
                        continue;
                    }
                    let finding = match number {
                        0 => Finding::Present,
                        1 => Finding::Failed("503".into()),
                        _ => Finding::Absent,
                    };
                    unbroken = match finding {
                        Finding::Absent => {
                            let reference = subject(&play.world, &play.version).unwrap().reference();
                            Some(unbroken.filter(|(of, _)| *of == reference).unwrap_or((reference, real)))
                        }
                        _ => None,
                    };
                    play.result(finding.clone());
                    if finding == Finding::Present {
                        prop_assert_eq!(play.reason(), "DescriptorAvailable");
                    }
                    if let Some(value) = &play.version.recheck {
                        let observed = play.observed();
                        prop_assert_eq!(observed.as_deref(), Some(&**value));
                    }
                }
            }
            play.settle();
            if matches!(play.settle(), Step::Ask { .. }) {
                prop_assert!(false, "it asks twice at one moment");
            }
            let after = play.version.status.get();
            let Some(condition) = after.conditions.first() else { continue };
            if condition.status == "False" {
                let missing = unbroken.as_ref().map(|(_, since)| real.saturating_sub(*since));
                prop_assert!(missing.is_some_and(|missing| missing >= GRACE), "red after {:?}", missing);
            }
            prop_assert_eq!(after.descriptor_missing_since.is_some(), condition.reason == "DescriptorMissingPending");
            if let Some(before) = before.get().conditions.first() {
                let moved = before.last_transition_time != condition.last_transition_time;
                prop_assert!(!moved || before.status != condition.status, "{:?} {:?}", before, condition);
            }
        }
    }
}
