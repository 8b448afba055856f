//! Whose check begins next.

use std::time::Duration;

use proptest::prelude::*;
use solar_core::availability::{Lane, Turns};
use solar_core::object::ObjectName;

fn name(text: &str) -> ObjectName {
    ObjectName::new("edge", text)
}

fn stand(turns: &mut Turns, host: &str, version: &str) -> Option<usize> {
    stand_in(turns, host, version, Lane::Due)
}

fn stand_in(turns: &mut Turns, host: &str, version: &str, lane: Lane) -> Option<usize> {
    turns.stand(&name(version), host, Duration::ZERO, lane)
}

/// Begins as many as may begin, all of them wanted.
fn begun(turns: &mut Turns, now: Duration) -> Vec<String> {
    let mut begun = Vec::new();
    while let Some(host) = turns.first(now, |_, _| true) {
        begun.push(turns.begin(&host).unwrap().version.name.to_string());
    }
    begun
}

/// Everybody is served one after the other, each check ending at once.
fn served(turns: &mut Turns) -> Vec<String> {
    let mut served = Vec::new();
    while let Some(host) = turns.first(Duration::ZERO, |_, _| true) {
        served.push(turns.begin(&host).unwrap().version.name.to_string());
        turns.ended(&host, Duration::ZERO);
    }
    served
}

#[test]
fn of_one_host_first_come_is_first_served_and_each_has_a_later_place() {
    let mut turns = Turns::new(4, 100);
    let places: Vec<_> =
        ["a", "b", "c"].iter().map(|version| stand(&mut turns, "h", version).unwrap()).collect();
    assert_eq!(places, [0, 1, 2]);
    assert_eq!(served(&mut turns), ["a", "b", "c"]);
}

#[test]
fn hosts_take_turns_and_a_place_says_how_many_begin_before() {
    let mut turns = Turns::new(4, 100);
    let asked = [("g", "g0"), ("g", "g1"), ("g", "g2"), ("h", "h0"), ("i", "i0"), ("i", "i1")];
    for (host, version) in asked {
        stand(&mut turns, host, version);
    }
    // Asked again, when everybody is there.
    let mut told: Vec<_> =
        asked.iter().map(|(host, version)| (stand(&mut turns, host, version).unwrap(), *version)).collect();
    told.sort_unstable();
    let order = ["g0", "h0", "i0", "g1", "i1", "g2"];
    assert_eq!(told, order.iter().copied().enumerate().collect::<Vec<_>>());
    assert_eq!(served(&mut turns), order);
}

#[test]
fn one_that_asks_again_keeps_its_place_and_one_that_moves_goes_to_the_end_of_the_other_queue() {
    let mut turns = Turns::new(4, 100);
    for version in ["a", "b", "c"] {
        stand(&mut turns, "h", version);
    }
    assert_eq!(stand(&mut turns, "h", "a"), Some(0));
    stand(&mut turns, "i", "d");
    stand(&mut turns, "i", "b");
    assert_eq!(turns.waiting(), 4);
    assert_eq!(served(&mut turns), ["a", "d", "c", "b"]);
}

#[test]
fn one_that_is_gone_is_passed_over() {
    let mut turns = Turns::new(4, 100);
    for version in ["a", "b", "c"] {
        stand(&mut turns, "h", version);
    }
    let host = turns.first(Duration::ZERO, |version, _| *version.name == *"c").unwrap();
    assert_eq!((&*turns.begin(&host).unwrap().version.name, turns.waiting()), ("c", 0));
    stand(&mut turns, "h", "d");
    turns.leave(&name("d"));
    assert_eq!(turns.first(Duration::ZERO, |_, _| true), None);
}

#[test]
fn a_full_queue_takes_nobody_and_other_hosts_have_their_own() {
    let mut turns = Turns::new(4, 2);
    assert_eq!([stand(&mut turns, "h", "a"), stand(&mut turns, "h", "b")], [Some(0), Some(1)]);
    assert_eq!(stand(&mut turns, "h", "c"), None);
    assert_eq!(stand(&mut turns, "h", "a"), Some(0));
    assert!(stand(&mut turns, "i", "c").is_some());
}

#[test]
fn a_host_alone_has_every_runner() {
    let mut turns = Turns::new(4, 100);
    for version in ["a", "b", "c", "d", "e"] {
        stand(&mut turns, "h", version);
    }
    assert_eq!(begun(&mut turns, Duration::ZERO), ["a", "b", "c", "d"]);
    turns.ended("h", Duration::ZERO);
    assert_eq!(begun(&mut turns, Duration::ZERO), ["e"]);
}

#[test]
fn a_host_that_hangs_has_no_more_than_its_share_beside_another() {
    let mut turns = Turns::new(4, 100);
    for number in 0..20 {
        stand(&mut turns, "hangs", &format!("h{number}"));
    }
    stand(&mut turns, "answers", "a0");
    stand(&mut turns, "answers", "a1");
    assert_eq!(begun(&mut turns, Duration::ZERO), ["a0", "h0", "a1", "h1"]);
    // Those that hang keep two runners; the other two are there whenever the healthy host needs them.
    for second in 0..30 {
        let now = Duration::from_secs(second);
        turns.ended("answers", now);
        stand(&mut turns, "answers", &format!("b{second}"));
        assert_eq!(begun(&mut turns, now), [format!("b{second}")]);
    }
    turns.ended("answers", Duration::from_secs(30));
    turns.ended("answers", Duration::from_secs(30));
    assert_eq!(begun(&mut turns, Duration::from_secs(39)), ["h2"], "one runner is kept free");
    assert_eq!(begun(&mut turns, Duration::from_secs(40)), ["h3"], "nobody else came for ten seconds");
}

#[test]
fn a_slow_host_with_many_has_all_runners_but_one_beside_three_with_few() {
    let mut turns = Turns::new(4, 100);
    for number in 0..20 {
        stand(&mut turns, "slow", &format!("s{number}"));
    }
    let small = ["a", "b", "c"];
    for host in small {
        stand(&mut turns, host, &format!("{host}0"));
    }
    assert_eq!(begun(&mut turns, Duration::ZERO), ["a0", "b0", "c0", "s0"]);
    for host in small {
        turns.ended(host, Duration::ZERO);
    }
    assert_eq!(begun(&mut turns, Duration::ZERO), ["s1", "s2"]);
    // Each of the small ones finds a runner at once.
    for (number, host) in (0_u64..).zip(small.iter().cycle().take(30)) {
        let now = Duration::from_millis(100 * number);
        let version = format!("{host}{number}");
        stand(&mut turns, host, &version);
        assert_eq!(begun(&mut turns, now), [version]);
        turns.ended(host, now);
    }
}

#[test]
fn two_hosts_that_hang_leave_the_third_a_runner() {
    let mut turns = Turns::new(4, 100);
    for host in ["fine", "hangs-1", "hangs-2"] {
        for number in 0..20 {
            stand(&mut turns, host, &format!("{host}-{number}"));
        }
    }
    let fine = |turns: &Turns| {
        let (_, waiting, running) = turns.hosts().find(|(name, ..)| *name == "fine").unwrap();
        (waiting, running)
    };
    while fine(&turns).0 > 0 {
        begun(&mut turns, Duration::ZERO);
        assert!(fine(&turns).1 > 0, "a runner is there for it");
        while fine(&turns).1 > 0 {
            turns.ended("fine", Duration::ZERO);
        }
    }
}

#[test]
fn those_for_whom_somebody_waits_have_every_other_turn_and_are_few() {
    let mut turns = Turns::new(4, 1_000);
    for number in 0..10 {
        stand(&mut turns, "h", &format!("d{number}"));
    }
    assert_eq!(stand_in(&mut turns, "h", "s0", Lane::Soon), Some(1));
    assert_eq!(stand_in(&mut turns, "h", "d7", Lane::Soon), Some(3), "it is sooner there");
    assert_eq!(stand_in(&mut turns, "h", "d1", Lane::Soon), Some(3), "it is not");
    assert_eq!(served(&mut turns), ["s0", "d0", "d7", "d1", "d2", "d3", "d4", "d5", "d6", "d8", "d9"]);
    for number in 0..300 {
        stand(&mut turns, "h", &format!("d{number:03}"));
    }
    for number in 0..300 {
        stand_in(&mut turns, "h", &format!("d{number:03}"), Lane::Soon);
    }
    let order = served(&mut turns);
    assert_eq!(order.len(), 300);
    let place = |version: &str| order.iter().position(|served| served == version).unwrap();
    for number in 0..300 {
        assert!(place(&format!("d{number:03}")) <= 2 * number + 100, "nobody falls far back: {order:?}");
    }
}

#[test]
fn what_was_due_before_the_start_comes_behind_and_the_newest_of_it_first() {
    let mut turns = Turns::new(4, 1_000);
    for (version, age) in [("b29", 29), ("b2", 2), ("b17", 17), ("b4", 4), ("b25", 25)] {
        stand_in(&mut turns, "h", version, Lane::LookBack { age: Duration::from_secs(age) });
    }
    for number in 0..3 {
        stand(&mut turns, "h", &format!("d{number}"));
    }
    let again = Lane::LookBack { age: Duration::from_secs(1) };
    stand_in(&mut turns, "h", "b17", again);
    assert_eq!(stand_in(&mut turns, "h", "b29", Lane::Due), Some(3), "its time has come again");
    assert_eq!(stand_in(&mut turns, "h", "b4", Lane::Soon), Some(1));
    assert_eq!(served(&mut turns), ["b4", "d0", "d1", "d2", "b29", "b2", "b17", "b25"]);
}

#[test]
fn of_what_was_due_at_one_time_before_the_start_others_are_first_in_each_interval() {
    let interval = Duration::from_secs(300);
    let first_half = |wall: i64| {
        let wall = jiff::Timestamp::from_second(wall).unwrap();
        let mut turns = Turns::new(4, 1_000).starting_at(wall, interval);
        for number in 0..100 {
            let age = Duration::from_millis(100 * number);
            stand_in(&mut turns, "h", &format!("b{number}"), Lane::LookBack { age });
        }
        served(&mut turns)[..50].iter().cloned().collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(first_half(0), first_half(299), "the same all interval long");
    for interval in 0..10 {
        let both: std::collections::BTreeSet<_> =
            first_half(300 * interval).union(&first_half(300 * (interval + 1))).cloned().collect();
        assert!(both.len() >= 75, "{}", both.len());
    }
}

#[test]
fn a_host_that_asks_to_be_left_alone_is_and_costs_the_others_nothing() {
    let second = Duration::from_secs;
    let interval = second(300);
    for (asked, rest) in
        [(Some(second(60)), 60), (Some(second(3_600)), 300), (Some(Duration::ZERO), 1), (None, 10)]
    {
        let mut turns = Turns::new(4, 100);
        for number in 0..6 {
            stand(&mut turns, "refuses", &format!("r{number}"));
        }
        assert_eq!(begun(&mut turns, second(0)), ["r0", "r1", "r2", "r3"]);
        turns.ended("refuses", second(0));
        turns.rest("refuses", asked, interval, second(0));
        for _ in 0..3 {
            turns.ended("refuses", second(0));
        }
        // Beside it another host has all runners.
        for number in 0..5 {
            stand(&mut turns, "fine", &format!("f{number}"));
        }
        let almost = second(rest).saturating_sub(Duration::from_millis(1));
        assert_eq!(begun(&mut turns, almost), ["f0", "f1", "f2", "f3"], "{asked:?}");
        assert_eq!(turns.rests_until(almost), Some(second(rest)));
        for _ in 0..4 {
            turns.ended("fine", almost);
        }
        assert_eq!(turns.waiting(), 3, "all keep their places");
        let next = begun(&mut turns, second(rest));
        assert!(next.contains(&"r4".to_owned()), "{next:?}");
        assert_eq!(turns.rests_until(second(rest)), None);
    }
}

#[test]
fn a_host_that_refused_is_asked_by_one_check_at_a_time_until_it_answers() {
    let second = Duration::from_secs;
    let mut turns = Turns::new(4, 100);
    for number in 0..9 {
        stand(&mut turns, "h", &format!("r{number}"));
    }
    assert_eq!(begun(&mut turns, second(0)).len(), 4);
    for _ in 0..4 {
        turns.ended("h", second(1));
        turns.rest("h", Some(second(5)), second(300), second(1));
    }
    assert_eq!(begun(&mut turns, second(1)), [""; 0]);
    assert_eq!(begun(&mut turns, second(6)), ["r4"]);
    turns.ended("h", second(7));
    turns.rest("h", Some(second(5)), second(300), second(7));
    assert_eq!(begun(&mut turns, second(12)), ["r5"]);
    // A new start of the actor knows it still.
    let mut again = turns.emptied();
    stand(&mut again, "h", "r6");
    stand(&mut again, "h", "r7");
    assert_eq!(begun(&mut again, second(11)), [""; 0]);
    assert_eq!(begun(&mut again, second(12)), ["r6"]);
    turns.ended("h", second(13));
    assert_eq!(begun(&mut turns, second(13)), ["r6", "r7", "r8"]);
}

#[test]
fn slots_behind_a_host_that_is_left_alone_are_its_own() {
    let (second, pace) = (Duration::from_secs, Duration::from_millis(100));
    let mut turns = Turns::new(4, 100);
    for number in 0..5 {
        stand(&mut turns, "refuses", &format!("r{number}"));
    }
    begun(&mut turns, second(0));
    turns.ended("refuses", second(0));
    turns.rest("refuses", Some(second(60)), second(300), second(0));
    let tell = |turns: &mut Turns, host: &str, version: &str| {
        let before = stand(turns, host, version).unwrap();
        turns.tell(&name(version), pace * (u32::try_from(before).unwrap() + 1), pace, second(0))
    };
    let told = [tell(&mut turns, "refuses", "r4"), tell(&mut turns, "refuses", "r5")];
    assert!(told[0] > second(60) && told[1] > told[0] && told[1] < second(62), "{told:?}");
    assert!(tell(&mut turns, "fine", "f0") < second(1));
}

#[test]
fn one_that_moves_to_a_full_queue_keeps_its_place_should_it_come_back() {
    let mut turns = Turns::new(4, 2);
    for (host, version) in [("h", "a"), ("h", "b"), ("i", "c"), ("i", "d")] {
        stand(&mut turns, host, version);
    }
    assert_eq!(stand(&mut turns, "i", "a"), None);
    assert_eq!(turns.waiting(), 4);
    assert!(stand(&mut turns, "h", "a").is_some());
    assert_eq!(served(&mut turns), ["a", "c", "b", "d"]);
}

#[test]
fn a_full_queue_is_rid_of_those_that_are_gone_but_not_time_and_again() {
    let second = Duration::from_secs;
    let mut turns = Turns::new(4, 3);
    for version in ["a", "b", "c"] {
        stand(&mut turns, "h", version);
    }
    stand(&mut turns, "i", "b2");
    let mut looked_at = 0;
    let mut sweep = |turns: &mut Turns, at, gone: &[&str]| {
        turns.sweep("h", second(at), |version| {
            looked_at += 1;
            !gone.contains(&&*version.name)
        });
    };
    sweep(&mut turns, 0, &["b", "b2"]);
    assert_eq!(turns.waiting(), 3);
    assert!(stand(&mut turns, "h", "d").is_some());
    assert_eq!(stand(&mut turns, "h", "e"), None);
    sweep(&mut turns, 9, &["a"]);
    assert_eq!(stand(&mut turns, "h", "e"), None, "it was done a moment ago");
    sweep(&mut turns, 10, &["a"]);
    sweep(&mut turns, 30, &["c"]);
    assert_eq!(looked_at, 6, "one that has room is not swept");
    assert!(stand(&mut turns, "h", "e").is_some());
    assert_eq!(served(&mut turns), ["c", "b2", "d", "e"]);
}

#[test]
fn slots_that_are_told_increase_whatever_the_host_while_a_queue_stands() {
    let pace = Duration::from_millis(100);
    let mut turns = Turns::new(4, 100);
    let mut told = Vec::new();
    let tell = |turns: &mut Turns, host: &str, version: &str, now| {
        let before = stand(turns, host, version).unwrap();
        turns.tell(&name(version), now + pace * (u32::try_from(before).unwrap() + 1), pace, now)
    };
    for number in 0..5 {
        told.push(tell(&mut turns, "h", &format!("h{number}"), Duration::ZERO));
    }
    for number in 0..5 {
        told.push(tell(&mut turns, "g", &format!("g{number}"), Duration::ZERO));
        told.push(tell(&mut turns, "h", &format!("i{number}"), Duration::ZERO));
    }
    assert!(told.windows(2).all(|pair| pair[1] >= pair[0] + pace), "{told:?}");
    assert_eq!(tell(&mut turns, "h", "h3", Duration::ZERO), told[3], "its slot is its own");
    let late = told[3] + pace;
    assert!(tell(&mut turns, "h", "h3", late) > *told.last().unwrap(), "it is over");
    served(&mut turns);
    let now = Duration::from_secs(1);
    assert_eq!(tell(&mut turns, "h", "again", now), now + pace, "nobody else waits");
}

#[test]
fn more_hosts_than_runners_have_one_each_in_turn() {
    let mut turns = Turns::new(4, 100);
    for host in ["a", "b", "c", "d", "e", "f"] {
        for number in 0..2 {
            stand(&mut turns, host, &format!("{host}{number}"));
        }
    }
    assert_eq!(begun(&mut turns, Duration::ZERO), ["a0", "b0", "c0", "d0"]);
    turns.ended("b", Duration::ZERO);
    assert_eq!(begun(&mut turns, Duration::ZERO), ["e0"]);
    turns.ended("a", Duration::ZERO);
    turns.ended("c", Duration::ZERO);
    assert_eq!(begun(&mut turns, Duration::ZERO), ["f0", "a1"]);
}

proptest! {
    /// Nobody starves: whoever stands in a queue begins before those who came later to it, and everybody begins.
    #[test]
    fn everybody_is_served_once_and_in_the_order_of_the_queue(asked in prop::collection::vec((0..5_u8, 0..40_u8), 1..120)) {
        let mut turns = Turns::new(4, 1_000);
        let mut queues: Vec<(u8, u8)> = Vec::new();
        for (host, version) in asked {
            let version_name = format!("v{version}");
            if queues.contains(&(host, version)) {
                stand(&mut turns, &host.to_string(), &version_name);
                continue;
            }
            queues.retain(|(_, other)| *other != version);
            queues.push((host, version));
            stand(&mut turns, &host.to_string(), &version_name);
        }
        prop_assert_eq!(turns.waiting(), queues.len());
        let order = served(&mut turns);
        prop_assert_eq!(order.len(), queues.len());
        for host in 0..5 {
            let of_host: Vec<_> = queues.iter().filter(|(at, _)| *at == host).map(|(_, v)| format!("v{v}")).collect();
            let served: Vec<_> = order.iter().filter(|version| of_host.contains(version)).cloned().collect();
            prop_assert_eq!(served, of_host);
        }
    }

    /// Whatever happens: four run at most; a host that asked to be left alone is; one that may be asked and has no runner
    /// waits only while all are busy; and everybody has a turn in the end.
    #[test]
    fn hosts_that_refuse_are_left_alone_and_hold_up_nobody(happens in prop::collection::vec(happening(), 1..150)) {
        let interval = Duration::from_secs(300);
        let mut turns = Turns::new(4, 1_000);
        let mut now = Duration::ZERO;
        let mut rests = [Duration::ZERO; 3];
        let mut waiting = std::collections::BTreeSet::new();
        let number = |host: &str| host.parse::<usize>().unwrap();
        let drain = Happening::Later(300);
        let end = (0..3).cycle().map(Happening::Answers).take(30).chain([drain]);
        let end: Vec<_> = end.cycle().take(31 * 60).collect();
        for happening in happens.into_iter().chain(end) {
            match happening {
                Happening::Asks(host, version) => {
                    stand(&mut turns, &host.to_string(), &format!("{host}-{version}"));
                    waiting.insert(format!("{host}-{version}"));
                }
                Happening::Later(seconds) => now += Duration::from_secs(seconds),
                Happening::Answers(host) => turns.ended(&host.to_string(), now),
                Happening::Refuses(host, seconds) => {
                    let host = host.to_string();
                    if turns.hosts().any(|(name, _, running)| name == host && running > 0) {
                        turns.ended(&host, now);
                        turns.rest(&host, Some(Duration::from_secs(seconds)), interval, now);
                        let rest = Duration::from_secs(seconds.clamp(1, 300));
                        rests[number(&host)] = rests[number(&host)].max(now + rest);
                    }
                }
            }
            while let Some(host) = turns.first(now, |_, _| true) {
                prop_assert!(now >= rests[number(&host)], "{} is left alone", host);
                let turn = turns.begin(&host).unwrap();
                prop_assert!(waiting.remove(&*turn.version.name), "once only");
            }
            let running: usize = turns.hosts().map(|(.., running)| running).sum();
            prop_assert!(running <= 4);
            for (host, waiting, its) in turns.hosts() {
                let waits = waiting > 0 && its == 0 && now >= rests[number(host)];
                prop_assert!(!waits || running == 4, "{} waits for nothing", host);
            }
        }
        prop_assert_eq!((turns.waiting(), waiting.len()), (0, 0));
    }
}

#[derive(Clone, Debug)]
enum Happening {
    Asks(u8, u8),
    Answers(u8),
    Refuses(u8, u64),
    Later(u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        5 => (0..3_u8, 0..30_u8).prop_map(|(host, version)| Happening::Asks(host, version)),
        3 => (0..3_u8).prop_map(Happening::Answers),
        1 => (0..3_u8, 0..400_u64).prop_map(|(host, seconds)| Happening::Refuses(host, seconds)),
        1 => (0..60_u64).prop_map(Happening::Later),
    ]
}
