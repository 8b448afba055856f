//! When a status that somebody else wrote is looked at.

use std::time::Duration;

use solar_core::status_edits::{EditLook, ShownStatus, StatusEdits};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn own_writes_are_no_edits_whichever_comes_first() {
    let mut status = ShownStatus::default();
    status.show("7");
    assert!(status.is_edited(), "nothing is known of 7");
    status.wrote("7");
    assert!(!status.is_edited());
    status.wrote("8");
    status.wrote("9");
    for version in ["8", "9", "9"] {
        status.show(version);
        assert!(!status.is_edited(), "{version}");
    }
    status.show("10");
    assert!(status.is_edited());
    assert!(status.pass_begins());
    assert!(!status.is_edited(), "the pass has seen it");
    assert!(!status.pass_begins(), "there is nothing new");
}

#[test]
fn an_own_write_after_an_edit_has_seen_it() {
    let mut status = ShownStatus::default();
    status.wrote("9");
    status.show("8");
    status.show("9");
    assert!(!status.is_edited());
}

#[test]
fn an_edit_is_noticed_whatever_its_version_is() {
    let mut status = ShownStatus::default();
    for version in ["700", "800"] {
        status.wrote(version);
        status.show(version);
    }
    status.show("900");
    assert!(status.pass_begins());
    // The store was restored from a backup: to what the actor wrote before, and with lower versions from then on.
    for version in ["700", "701", "702", "not a number"] {
        status.show(version);
        assert!(status.pass_begins(), "{version}");
    }
    status.wrote("703");
    status.show("703");
    assert!(!status.is_edited());
}

#[test]
fn a_bounded_number_of_own_writes_is_remembered() {
    let mut status = ShownStatus::default();
    for version in 0..1_000 {
        status.wrote(&version.to_string());
    }
    status.show("999");
    assert!(!status.is_edited());
    status.show("100");
    assert!(status.is_edited(), "better one look too many");
}

#[test]
fn somebody_who_keeps_writing_waits_ever_longer_and_is_forgiven_after_a_rest() {
    let mut edits = StatusEdits::default();
    let mut now = at(1_000);
    for wait in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
        assert_eq!(edits.look(now), EditLook::Now, "{wait}");
        edits.looked(now, 0.0);
        assert_eq!(edits.look(now), EditLook::At(now + at(wait)), "{wait}");
        now += at(wait);
    }
    // The last wait is over; five minutes more are a rest.
    now += at(299);
    assert!(!edits.is_forgotten(now));
    edits.looked(now, 0.0);
    assert_eq!(edits.look(now), EditLook::At(now + at(300)), "not forgiven yet");
    now += at(600);
    assert!(edits.is_forgotten(now));
    edits.looked(now, 0.0);
    assert_eq!(edits.look(now), EditLook::At(now + at(1)));
}

#[test]
fn a_pass_for_another_cause_counts_as_a_look_at_the_edit() {
    let mut edits = StatusEdits::default();
    edits.looked(at(0), 1.0);
    assert_eq!(edits.look(at(0)), EditLook::At(Duration::from_millis(750)));
    edits.looked(at(0), 0.0);
    assert_eq!(edits.look(at(1)), EditLook::At(at(2)));
}
