//! Every case runs on both API servers, or says here why not.

use std::collections::BTreeSet;
use std::path::Path;

/// What runs on one API server only, each with the reason.
const ON_ONE: &[(&str, &str)] = &[
    (
        "election::when_the_api_server_is_away_for_longer_than_the_lease_the_leader_ends_and_one_works_when_it_is_back",
        "a process is killed and started again, and the embedded API server is none",
    ),
    (
        "election::a_process_that_may_not_touch_the_lease_is_not_ready_and_says_why",
        "the embedded API server lets everybody do everything",
    ),
    ("ends::victim", "it is about the processes of tests, whatever they ask"),
    ("registries::behind_a_proxy", "each takes long; the trouble is between the controller and the registry"),
    (
        "registries::a_registry_that_deletes_nothing_is_named_with_the_mend_and_let_go_once_it_does",
        "as where_deletion_is_off... of cleanup, which runs on both; this one adds the restart of the registry",
    ),
    (
        "stress::an_api_server_that_ends_in_the_middle_of_rendering_finds_the_work_go_on_when_it_is_back",
        "processes are killed and started again, and the embedded API server is none",
    ),
    (
        "stress::requests_that_are_turned_away_by_priority_and_fairness_are_sent_again",
        "the embedded API server has no priority and fairness; tests/pipeline has its 429",
    ),
    (
        "stress::a_token_in_a_file_that_expires_is_said_and_its_successor_is_used",
        "the embedded API server asks for no token",
    ),
    (
        "stress::a_token_that_is_not_taken_any_more_is_said_and_the_program_logs_in_again",
        "the embedded API server asks for no token",
    ),
    (
        "stress::writes_that_a_policy_refuses_are_said_and_made_when_it_is_gone",
        "the embedded API server has no admission policies",
    ),
    (
        "stress::writes_that_a_webhook_refuses_or_that_it_is_not_there_to_allow_are_said_and_made_in_the_end",
        "the embedded API server has no admission webhooks",
    ),
];

/// The name of the function that begins on this line.
fn begins(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// Functions that choose an API server themselves instead of being told.
fn choosing(module: &str, text: &str) -> BTreeSet<String> {
    let (mut found, mut function) = (BTreeSet::new(), "");
    for line in text.lines() {
        function = begins(line).unwrap_or(function);
        if line.contains("Kind::") || line.contains("Bed::") {
            found.insert(format!("{module}::{function}"));
        }
    }
    found
}

#[test]
fn whoever_chooses_an_api_server_is_found() {
    let text = "use crate::world::{Kind, World};\npub fn a(kind: Kind) {\n    World::new(kind, \"a\");\n}\n\
                #[test]\nfn b() {\n    World::new(Kind::Real, \"b\");\n}\n\
                impl C {\n    async fn c<T>() {\n        Bed::start(x);\n    }\n}\n";
    assert_eq!(choosing("m", text), BTreeSet::from(["m::b".to_owned(), "m::c".to_owned()]));
}

#[test]
fn every_case_runs_on_both_api_servers_or_there_is_a_reason() {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers")).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap();
        // What has the switch, and this.
        if !["main", "world", "both"].contains(&module) {
            found.extend(choosing(module, &std::fs::read_to_string(&path).unwrap()));
        }
    }
    let listed: BTreeSet<String> = ON_ONE.iter().map(|(case, _)| (*case).to_owned()).collect();
    assert_eq!(found, listed, "list the case in on_both_servers! of main.rs, or give a reason in ON_ONE");
}
