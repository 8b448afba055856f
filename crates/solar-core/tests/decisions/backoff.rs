use std::time::Duration;

use solar_core::backoff::{delay, until_next_look};

use crate::support::at;

const BASE: Duration = Duration::from_secs(5);
const CAP: Duration = Duration::from_mins(5);

#[test]
fn delays_double_up_to_the_cap() {
    for (attempt, seconds) in
        [(0, 5), (1, 10), (2, 20), (5, 160), (6, 300), (31, 300), (32, 300), (u32::MAX, 300)]
    {
        assert_eq!(delay(attempt, BASE, CAP, 0.0), Duration::from_secs(seconds), "{attempt}");
    }
}

#[test]
fn jitter_takes_off_at_most_a_quarter() {
    assert_eq!(delay(2, BASE, CAP, 1.0), Duration::from_secs(15));
    assert_eq!(delay(2, BASE, CAP, 0.5), Duration::from_millis(17_500));
    assert_eq!(delay(2, BASE, CAP, 9.0), Duration::from_secs(15));
    assert_eq!(delay(2, BASE, CAP, f64::NAN), Duration::from_secs(20));
}

#[test]
fn looks_are_due_at_times_that_depend_on_the_start_only() {
    // 5, 15, 35, 75, 155, 315 and then every 300 s.
    for (elapsed, seconds) in [
        (0, 5),
        (4, 1),
        (5, 10),
        (14, 1),
        (15, 20),
        (35, 40),
        (154, 1),
        (155, 160),
        (315, 300),
        (614, 1),
        (615, 300),
        (100_000, 215),
    ] {
        let wait = until_next_look(at(0), at(elapsed), BASE, CAP, 0.0);
        assert_eq!(wait, Duration::from_secs(seconds), "after {elapsed} s");
    }
    assert_eq!(until_next_look(at(10), at(0), BASE, CAP, 0.0), BASE, "a start in the future counts as now");
    assert_eq!(until_next_look(at(0), at(0), BASE, CAP, 1.0), Duration::from_millis(6_250));
    assert!(until_next_look(at(0), at(9), Duration::ZERO, Duration::ZERO, 0.0) > Duration::ZERO);
}
