//! Whose check begins next.

use std::time::Duration;

use proptest::prelude::*;
use solar_core::availability::Turns;
use solar_core::object::ObjectName;

fn name(text: &str) -> ObjectName {
    ObjectName::new("edge", text)
}

fn stand(turns: &mut Turns, host: &str, version: &str) -> Option<usize> {
    turns.stand(&name(version), host, Duration::ZERO)
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
    assert_eq!(begun(&mut turns, Duration::from_secs(39)), Vec::<String>::new());
    assert_eq!(begun(&mut turns, Duration::from_secs(40)), ["h2", "h3"], "nobody else came for ten seconds");
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
}
