//! `run` as a user starts it, on both API servers: the embedded one and kube-apiserver.
#![cfg(feature = "dev")]

mod both;
mod cleanup;
mod election;
mod ends;
#[path = "../support/faulty.rs"]
mod faulty;
mod life;
mod looks;
mod metrics;
mod permissions;
mod pipeline;
#[path = "../support/program.rs"]
mod program;
mod proxy;
mod registries;
mod scope;
#[path = "../support/edits.rs"]
mod status_edits;
mod stress;
#[path = "../support/tokens.rs"]
mod tokens;
mod webhook;
mod world;

/// Each case twice, under the name of its API server.
macro_rules! on_both_servers {
    ($($module:ident :: $case:ident),* $(,)?) => {
        mod embedded {
            $(#[test] fn $case() { crate::$module::$case(crate::world::Kind::Embedded); })*
        }
        mod real {
            $(#[test] fn $case() { crate::$module::$case(crate::world::Kind::Real); })*
        }
    };
}

on_both_servers! {
    pipeline::targets_become_ready_and_then_nobody_asks_for_anything,
    pipeline::changed_values_reach_the_targets_that_are_bound_and_no_others,
    pipeline::a_shared_tag_outlives_the_first_of_its_targets,
    pipeline::deletion_leaves_nothing,
    pipeline::a_profile_follows_labels,
    pipeline::owners_go_in_the_foreground_and_in_the_background_with_all_that_they_own,
    pipeline::a_namespace_whose_credentials_lie_elsewhere_goes_whole_with_its_tags,
    pipeline::a_namespace_whose_secret_went_first_keeps_its_artifacts_which_say_why,
    election::one_of_two_works_and_the_other_takes_over_at_once_when_it_ends,
    election::the_work_of_a_process_that_was_killed_is_taken_up_when_its_lease_is_over,
    election::a_process_that_is_told_to_end_while_it_pushes_hands_over_what_it_did_not_do,
    election::a_process_that_was_stopped_for_longer_than_its_lease_writes_nothing_when_it_wakes,
    election::a_process_whose_lease_is_taken_by_hand_ends,
    election::a_process_that_cannot_renew_its_lease_ends_before_another_begins,
    election::other_fields_of_the_lease_may_be_written_by_people,
    stress::connections_that_are_cut_every_second_lose_nothing,
    stress::changes_and_deletions_that_the_server_has_forgotten_are_found_by_a_new_list,
    stress::definitions_that_come_after_the_start_are_waited_for_by_name,
    stress::what_people_edit_by_hand_with_kubectl_is_set_right,
    registries::a_registry_with_passwords_has_what_targets_need_and_nothing_else,
    registries::a_registry_with_a_token_server_has_what_targets_need_and_nothing_else,
    registries::a_registry_with_a_private_authority_is_used_once_its_file_is_named,
    cleanup::tags_go_with_the_last_target_that_needs_them_and_not_before,
    cleanup::where_deletion_is_off_artifacts_stay_and_say_so_their_tags_serve_new_targets_and_go_when_it_is_on,
    metrics::promtool_has_nothing_against_the_metrics_of_a_working_controller,
    life::run_renders_tells_about_itself_ends_well_and_goes_on_where_it_ended,
    life::a_missing_definition_keeps_only_those_waiting_that_need_it_and_is_named,
    life::a_second_signal_ends_it_at_once_while_the_first_lets_passes_finish,
    scope::only_the_named_namespaces_are_looked_at,
    scope::only_the_named_controllers_run_and_only_what_they_need_is_watched,
    looks::only_the_process_that_leads_looks_for_descriptors,
    looks::a_descriptor_that_goes_and_comes_back_is_told,
    looks::metrics_tell_what_checks_came_to_how_many_run_and_how_many_wait,
}
