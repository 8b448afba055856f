use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use solar_core::condition::{self, MAX_MESSAGE, Wanted, fit_message, fit_text};

use crate::support::at;

fn set(conditions: &mut Vec<Condition>, wanted: Wanted, generation: i64, seconds: i64) {
    condition::set(conditions, &wanted, generation, at(seconds));
}

#[test]
fn the_transition_time_moves_with_the_status_only() {
    let mut conditions = Vec::new();
    set(&mut conditions, Wanted::no("Ready", "Pending", "one"), 1, 10);
    set(&mut conditions, Wanted::no("Ready", "Failed", "two"), 2, 20);
    assert_eq!(conditions[0].last_transition_time.0, at(10));
    assert_eq!((conditions[0].reason.as_str(), conditions[0].message.as_str()), ("Failed", "two"));
    assert_eq!(conditions[0].observed_generation, Some(2));
    set(&mut conditions, Wanted::yes("Ready", "Ready", "three"), 2, 30);
    assert_eq!(conditions[0].last_transition_time.0, at(30));
    set(&mut conditions, Wanted::unknown("Ready", "Lost", ""), 2, 40);
    assert_eq!((conditions[0].status.as_str(), conditions[0].last_transition_time.0), ("Unknown", at(40)));
}

#[test]
fn conditions_of_others_keep_their_place() {
    let mut conditions = Vec::new();
    for type_ in ["Foreign", "Ready", "Other"] {
        set(&mut conditions, Wanted::no(type_, "R", "m"), 1, 1);
    }
    let before = conditions.clone();
    set(&mut conditions, Wanted::yes("Ready", "Ready", "m"), 1, 2);
    assert_eq!((&conditions[0], &conditions[2]), (&before[0], &before[2]));
    assert_eq!(conditions[1].status, "True");
    assert!(condition::is_true(&conditions, "Ready") && !condition::is_true(&conditions, "Absent"));
}

#[test]
fn a_time_alone_is_no_difference() {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    set(&mut a, Wanted::no("Ready", "Pending", "one"), 1, 10);
    set(&mut b, Wanted::no("Ready", "Pending", "one"), 1, 99);
    assert!(condition::same(&a, &b));
    for wanted in [
        Wanted::no("Ready", "Pending", "two"),
        Wanted::no("Ready", "P", "one"),
        Wanted::yes("Ready", "Pending", "one"),
    ] {
        let mut c = a.clone();
        set(&mut c, wanted, 1, 10);
        assert!(!condition::same(&a, &c));
    }
    let mut c = a.clone();
    set(&mut c, Wanted::no("Ready", "Pending", "one"), 2, 10);
    assert!(!condition::same(&a, &c));
}

#[test]
fn long_texts_are_cut_at_a_character() {
    assert_eq!(fit_text("abcdef", 6), "abcdef");
    assert_eq!(fit_text("abcdefg", 6), "abc...");
    assert_eq!(fit_text("ääää", 6), "ä...");
    assert_eq!(fit_text("abcdefg", 2), "..");
    let message = fit_message(&"x".repeat(MAX_MESSAGE + 1));
    assert_eq!(message.len(), 32_768);
    assert!(message.ends_with("x..."));
}
