use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use solar_core::object::ObjectName;
use solar_core::record::ReleaseRecord;
use solar_core::resolver::{Candidate, is_dns_label, resolve};

use crate::support::{labels, release};

struct Bound {
    binding: ObjectName,
    release: ReleaseRecord,
    unique_name: String,
}

/// Binding `<namespace>/<name>` of a Release of the same name.
fn bound(binding: &str, unique_name: &str, priority: i32) -> Bound {
    let (namespace, name) = binding.split_once('/').unwrap();
    let mut release = release(namespace, name, "v");
    release.spec.priority = priority;
    Bound {
        binding: ObjectName::new(namespace, name),
        release: ReleaseRecord::from(&release),
        unique_name: unique_name.into(),
    }
}

impl Bound {
    fn labelled(mut self, label: &str) -> Self {
        self.release.labels = labels(&[("app", label)]);
        self
    }
    fn against(mut self, label: &str) -> Self {
        let match_labels = Some(labels(&[("app", label)]));
        self.release.anti_affinity = Some(LabelSelector { match_labels, match_expressions: None });
        self
    }
}

fn names(bound: &[Bound]) -> (Vec<String>, Vec<String>) {
    let candidates: Vec<Candidate<'_>> = bound
        .iter()
        .map(|b| Candidate { binding: &b.binding, release: &b.release, unique_name: &b.unique_name })
        .collect();
    let forwards = resolve(candidates.iter().copied());
    let backwards = resolve(candidates.iter().rev().copied());
    let accepted: Vec<String> = forwards.accepted.iter().map(|c| c.binding.to_string()).collect();
    let again: Vec<String> = backwards.accepted.iter().map(|c| c.binding.to_string()).collect();
    assert_eq!(accepted, again, "the order of candidates does not matter");
    assert_eq!(forwards.filtered, backwards.filtered);
    (accepted, forwards.filtered.iter().map(ToString::to_string).collect())
}

#[test]
fn without_conflicts_all_are_accepted_by_priority_then_name() {
    let (accepted, filtered) = names(&[bound("b/x", "x", 0), bound("a/y", "y", 0), bound("z/z", "z", 5)]);
    assert_eq!(accepted, ["z/z", "a/y", "b/x"]);
    assert!(filtered.is_empty());
}

#[test]
fn the_highest_priority_has_the_unique_name() {
    let (accepted, filtered) = names(&[bound("a/low", "web", 1), bound("b/high", "web", 2)]);
    assert_eq!(accepted, ["b/high"]);
    assert_eq!(
        filtered,
        ["ReleaseBinding a/low: Release b/high has the unique name web by ReleaseBinding b/high"]
    );
}

#[test]
fn ties_go_to_the_lowest_text_of_namespace_and_name() {
    // As texts `a-b/x` is before `a/x`, as pairs it is behind.
    let (accepted, _) = names(&[bound("a/x", "web", 1), bound("a-b/x", "web", 1)]);
    assert_eq!(accepted, ["a-b/x"]);
    let (accepted, _) = names(&[bound("a/b", "web", 1), bound("a/a", "web", 1)]);
    assert_eq!(accepted, ["a/a"]);
}

#[test]
fn anti_affinity_works_both_ways() {
    let (accepted, filtered) =
        names(&[bound("a/db", "db", 2).labelled("db"), bound("a/web", "web", 1).against("db")]);
    assert_eq!(accepted, ["a/db"]);
    assert_eq!(filtered, ["ReleaseBinding a/web: spec.antiAffinity of Release a/web excludes Release a/db"]);
    let (accepted, filtered) =
        names(&[bound("a/db", "db", 1).labelled("db"), bound("a/web", "web", 2).against("db")]);
    assert_eq!(accepted, ["a/web"]);
    assert_eq!(filtered, ["ReleaseBinding a/db: spec.antiAffinity of Release a/web excludes Release a/db"]);
}

#[test]
fn a_release_that_was_not_accepted_excludes_nobody() {
    let (accepted, _) = names(&[
        bound("a/first", "first", 3).against("second"),
        bound("a/second", "second", 2).labelled("second").against("third"),
        bound("a/third", "third", 1).labelled("third"),
    ]);
    assert_eq!(accepted, ["a/first", "a/third"]);
}

#[test]
fn a_release_excluded_by_anti_affinity_does_not_pass_its_unique_name_on() {
    let (accepted, filtered) = names(&[
        bound("a/db", "db", 3).labelled("db"),
        bound("a/web", "web", 2).against("db"),
        bound("a/web-old", "web", 1),
    ]);
    assert_eq!(accepted, ["a/db"]);
    assert_eq!(filtered.len(), 2);
}

#[test]
fn invalid_bindings_are_filtered_before_anything_is_grouped() {
    let mut broken = bound("a/broken", "web", 9);
    broken.release.anti_affinity = Some(LabelSelector {
        match_labels: None,
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: "app".into(),
            operator: "Like".into(),
            values: None,
        }]),
    });
    let (accepted, filtered) = names(&[broken, bound("a/dots", "acme.org.web", 9), bound("a/web", "web", 0)]);
    assert_eq!(accepted, ["a/web"]);
    assert_eq!(
        filtered,
        [
            "ReleaseBinding a/broken: spec.antiAffinity of Release a/broken is invalid: matchExpressions[0] has the \
             operator \"Like\": use In, NotIn, Exists or DoesNotExist",
            "ReleaseBinding a/dots: the unique name \"acme.org.web\" of Release a/dots is no DNS label: set \
             spec.uniqueName of the Release",
        ]
    );
}

#[test]
fn dns_labels_are_short_lower_case_and_framed_by_letters_or_digits() {
    let long = "a".repeat(63);
    for label in ["a", "0", "a-b", long.as_str()] {
        assert!(is_dns_label(label), "{label}");
    }
    let longer = "a".repeat(64);
    for text in ["", "-a", "a-", "A", "a.b", "a_b", "ä", longer.as_str()] {
        assert!(!is_dns_label(text), "{text}");
    }
}
