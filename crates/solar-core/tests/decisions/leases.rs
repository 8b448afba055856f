//! Who may lead, and that never two do.

use std::time::Duration;

use proptest::prelude::*;
use solar_core::lease::{Candidate, LeaseStep, LeaseTimes, SeenLease};

const TIMES: LeaseTimes = LeaseTimes {
    duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn held(by: &str, version: u64) -> SeenLease {
    SeenLease { holder: by.into(), version: version.to_string(), duration: at(15), clean: false }
}

#[test]
fn a_lease_that_is_not_there_is_created_and_one_that_was_given_up_is_taken_at_once() {
    let mut candidate = Candidate::default();
    assert_eq!(candidate.next(None, at(0), &TIMES), LeaseStep::Create);
    for clean in [false, true] {
        let given_up = SeenLease { holder: String::new(), version: "1".into(), duration: at(15), clean };
        assert_eq!(candidate.next(Some(given_up), at(0), &TIMES), LeaseStep::Take { clean });
    }
}

#[test]
fn a_holder_counts_as_dead_only_when_nothing_changed_for_as_long_as_its_lease_says() {
    let mut candidate = Candidate::default();
    assert_eq!(
        candidate.next(Some(held("a", 1)), at(100), &TIMES),
        LeaseStep::Wait(at(2)),
        "whatever its age"
    );
    assert_eq!(
        candidate.next(Some(held("a", 1)), at(114), &TIMES),
        LeaseStep::Wait(at(1)),
        "not later than needed"
    );
    assert_eq!(candidate.next(Some(held("a", 2)), at(114), &TIMES), LeaseStep::Wait(at(2)), "it was renewed");
    assert_eq!(candidate.next(Some(held("a", 2)), at(128), &TIMES), LeaseStep::Wait(at(1)));
    assert_eq!(candidate.next(Some(held("a", 2)), at(129), &TIMES), LeaseStep::Take { clean: false });
    let mut longer = held("a", 3);
    longer.duration = at(60);
    candidate.next(Some(longer.clone()), at(130), &TIMES);
    assert_eq!(
        candidate.next(Some(longer), at(189), &TIMES),
        LeaseStep::Wait(at(1)),
        "its holder's time counts"
    );
}

#[test]
fn a_lease_that_somebody_deleted_keeps_others_out_for_as_long_as_it_said() {
    let mut candidate = Candidate::default();
    candidate.next(Some(held("a", 1)), at(100), &TIMES);
    assert_eq!(candidate.next(None, at(101), &TIMES), LeaseStep::Wait(at(2)));
    assert_eq!(candidate.next(None, at(114), &TIMES), LeaseStep::Wait(at(1)));
    assert_eq!(candidate.next(None, at(115), &TIMES), LeaseStep::Create);
}

#[test]
fn a_holder_that_does_not_say_for_how_long_is_given_the_usual_time() {
    let mut candidate = Candidate::default();
    let silent = SeenLease { duration: Duration::ZERO, ..held("a", 1) };
    assert_eq!(candidate.next(Some(silent.clone()), at(100), &TIMES), LeaseStep::Wait(at(2)));
    assert_eq!(candidate.next(Some(silent), at(115), &TIMES), LeaseStep::Take { clean: false });
}

#[test]
fn times_that_let_two_lead_or_give_no_second_try_are_refused_with_the_flag() {
    assert_eq!(TIMES.check(), Ok(()));
    let refused = |times: LeaseTimes| times.check().unwrap_err();
    assert!(refused(LeaseTimes { renew_deadline: at(15), ..TIMES }).contains("--lease-renew-deadline"));
    assert!(refused(LeaseTimes { retry_period: at(6), ..TIMES }).contains("--lease-retry-period"));
}

proptest! {
    /// Two processes, one of which is stopped at any time for any while and renews whenever it runs: the other never
    /// begins before the first has ended, by the first's own deadline.
    #[test]
    fn a_successor_never_begins_before_its_predecessors_deadline(
        renewals in prop::collection::vec(0_u64..8_000, 1..20),
        looks in prop::collection::vec(1_u64..3_000, 60..80),
    ) {
        // When the holder sends its renewals, in milliseconds; each is seen at once.
        let mut sent = vec![0_u64];
        for pause in renewals {
            sent.push(sent.last().unwrap() + pause);
        }
        let mut candidate = Candidate::default();
        let mut now = 0;
        for pause in looks {
            now += pause;
            let version = sent.iter().filter(|at| **at <= now).count() as u64;
            let step = candidate.next(Some(held("a", version)), Duration::from_millis(now), &TIMES);
            if matches!(step, LeaseStep::Take { .. }) {
                let last = sent[usize::try_from(version).unwrap() - 1];
                let deadline = Duration::from_millis(last) + TIMES.renew_deadline;
                prop_assert!(Duration::from_millis(now) > deadline);
                break;
            }
        }
    }
}
