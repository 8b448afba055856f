//! When a status that somebody else wrote is looked at.

use std::time::Duration;

use solar_core::status_edits::{EditLook, StatusEdits};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn own_writes_need_no_look_whichever_comes_first() {
    let mut edits = StatusEdits::default();
    assert_eq!(edits.look(7, at(0)), EditLook::Now, "nothing is known of 7");
    edits.wrote(7);
    assert_eq!(edits.look(7, at(0)), EditLook::NotNeeded);
    edits.wrote(5);
    assert_eq!(edits.look(7, at(0)), EditLook::NotNeeded, "what was known stays known");
    assert_eq!(edits.look(8, at(0)), EditLook::Now);
    edits.pass_begins(8, at(0), || 0.0);
    assert_eq!(edits.look(8, at(0)), EditLook::NotNeeded, "the pass has seen it");
}

#[test]
fn a_pass_without_news_counts_for_nothing() {
    let mut edits = StatusEdits::default();
    edits.wrote(7);
    edits.pass_begins(7, at(0), || unreachable!("there is no edit"));
    assert_eq!(edits.look(8, at(0)), EditLook::Now);
}

#[test]
fn somebody_who_keeps_writing_waits_ever_longer_and_is_forgiven_after_a_rest() {
    let mut edits = StatusEdits::default();
    let mut now = at(1_000);
    for (version, wait) in
        [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 64), (8, 128), (9, 256), (10, 300), (11, 300)]
    {
        assert_eq!(edits.look(version, now), EditLook::Now, "{version}");
        edits.pass_begins(version, now, || 0.0);
        assert_eq!(edits.look(version + 1, now), EditLook::At(now + at(wait)), "{version}");
        now += at(wait);
    }
    // The last wait is over; five minutes more are a rest.
    now += at(299);
    edits.pass_begins(12, now, || 0.0);
    assert_eq!(edits.look(13, now), EditLook::At(now + at(300)), "not forgiven yet");
    now += at(600);
    edits.pass_begins(13, now, || 0.0);
    assert_eq!(edits.look(14, now), EditLook::At(now + at(1)));
}

#[test]
fn a_pass_for_another_cause_counts_as_a_look_at_the_edit() {
    let mut edits = StatusEdits::default();
    edits.pass_begins(1, at(0), || 1.0);
    assert_eq!(edits.look(2, at(0)), EditLook::At(Duration::from_millis(750)));
    edits.pass_begins(2, at(0), || 0.0);
    assert_eq!(edits.look(2, at(0)), EditLook::NotNeeded);
    assert_eq!(edits.look(3, at(1)), EditLook::At(at(2)));
}
