//! Packed values against the values themselves.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use proptest::prelude::*;
use solar_api as api;
use solar_core::packed::{Pack, Packed};

use crate::support::at;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just("True".to_owned()), Just("Ready".to_owned()), Just(String::new()), any::<String>()]
}

fn maybe_text() -> impl Strategy<Value = Option<String>> {
    prop::option::of(text())
}

fn time() -> impl Strategy<Value = Time> {
    // The years -9999 to 9999, as far as a timestamp goes.
    let seconds = prop_oneof![-1_000..1_000_i64, -377_705_023_201..=253_402_207_199_i64];
    (seconds, prop_oneof![Just(0), 0..1_000_000_000_i32])
        .prop_map(|(seconds, nanos)| Time(at(seconds) + jiff::SignedDuration::new(0, nanos)))
}

fn condition() -> impl Strategy<Value = Condition> {
    (text(), text(), text(), text(), any::<Option<i64>>(), time()).prop_map(
        |(type_, status, reason, message, observed_generation, last_transition_time)| Condition {
            last_transition_time,
            message,
            observed_generation,
            reason,
            status,
            type_,
        },
    )
}

fn conditions() -> impl Strategy<Value = Vec<Condition>> {
    prop::collection::vec(condition(), 0..4)
}

fn comes_back<T: Pack + PartialEq + Debug>(value: T) -> Result<(), TestCaseError> {
    prop_assert_eq!(Packed::of(&value).get(), value);
    Ok(())
}

proptest! {
    #[test]
    fn what_is_packed_comes_back(
        conditions in conditions(),
        texts in [maybe_text(), maybe_text(), maybe_text()],
        numbers in any::<(i64, i64, Option<i32>)>(),
        time in prop::option::of(time()),
    ) {
        let [a, b, c] = texts;
        comes_back(api::TargetStatus {
            bootstrap_version: numbers.0,
            chart_url: a.clone(),
            observed_generation: numbers.1,
            conditions: conditions.clone(),
        })?;
        comes_back(api::ReleaseStatus {
            conditions: conditions.clone(),
            effective_unique_name: a.clone(),
            render_task_ref: b.clone(),
        })?;
        comes_back(api::ComponentVersionStatus {
            conditions: conditions.clone(),
            descriptor_missing_since: time,
            observed_recheck: a.clone(),
        })?;
        comes_back(api::ProfileStatus { matched_targets: numbers.0, conditions: conditions.clone() })?;
        comes_back(api::RenderTaskStatus {
            conditions: conditions.clone(),
            chart_url: a.clone(),
            digest: b.clone(),
            attempts: numbers.2,
            observed_render_request: c,
        })?;
        comes_back(api::RenderArtifactStatus { chart_url: a, digest: b, conditions: conditions.clone() })?;
        comes_back(conditions)?;
    }

    /// Values that are often equal, and often nearly so.
    #[test]
    fn packed_values_are_equal_when_the_values_are(
        values in prop::collection::vec(prop::collection::vec(("a?", "b?", 0..2_i64, 0..2_i64), 0..3), 2),
    ) {
        let all: Vec<Vec<Condition>> = values.into_iter().map(|list| {
            list.into_iter().map(|(reason, message, generation, second)| Condition {
                last_transition_time: Time(at(second)),
                message,
                observed_generation: (generation > 0).then_some(generation),
                reason,
                status: "True".into(),
                type_: "Ready".into(),
            }).collect()
        }).collect();
        prop_assert_eq!(Packed::of(&all[0]) == Packed::of(&all[1]), all[0] == all[1]);
    }
}

#[test]
fn a_number_takes_as_many_bytes_as_it_needs_and_comes_back() {
    for number in [0, 1, -1, 63, 64, -64, -65, 8_191, 8_192, i64::MAX, i64::MIN] {
        assert_eq!(Packed::of(&number).get(), number);
    }
    let length = |number: i64| {
        let mut bytes = Vec::new();
        number.write(&mut bytes);
        bytes.len()
    };
    assert_eq!([0, -64, 64, 8_192, i64::MAX, i64::MIN].map(length), [1, 1, 2, 3, 10, 10]);
}

#[test]
fn what_breaks_off_is_no_value() {
    let condition = Condition {
        last_transition_time: Time(at(7)),
        message: "found".into(),
        observed_generation: Some(3),
        reason: "Other".into(),
        status: "True".into(),
        type_: "Ready".into(),
    };
    let mut bytes = Vec::new();
    vec![condition].write(&mut bytes);
    for end in 0..bytes.len() {
        assert_eq!(Vec::<Condition>::read(&mut &bytes[..end]), None, "{end} bytes");
    }
}
