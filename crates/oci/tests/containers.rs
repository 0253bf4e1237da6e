//! Real containers: the embedded runtime from outside and from inside. Needs root.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests, in a binary that clippy does not know as one")]

#[path = "runtime/basics.rs"]
mod basics;
#[path = "runtime/exec.rs"]
mod exec;
#[path = "runtime/harness.rs"]
mod harness;
#[path = "runtime/limits.rs"]
mod limits;
#[path = "runtime/machine.rs"]
mod machine;
#[path = "runtime/recovery.rs"]
mod recovery;
#[path = "runtime/security.rs"]
mod security;
#[path = "runtime/stats.rs"]
mod stats;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = minke_oci::reexec() {
        return code;
    }
    if std::env::args().nth(1).is_some_and(|a| a == recovery::CHURN) {
        recovery::churn();
    }
    own_network();
    harness::run(tests![
        basics::a_container_runs_and_its_output_and_exit_code_are_kept,
        basics::a_created_container_waits_for_its_start,
        basics::a_created_container_that_is_stopped_was_never_a_success,
        basics::command_not_found_is_a_start_error_in_words,
        basics::image_settings_apply_where_the_manifest_says_nothing,
        basics::long_lines_are_cut_and_joined_again,
        basics::a_log_is_rotated_without_losing_a_line,
        basics::a_full_log_disk_does_not_stop_the_container,
        basics::a_terminal_is_a_terminal,
        basics::stop_asks_then_kills,
        basics::a_shorter_stop_overtakes_a_longer_one,
        basics::the_stop_signal_of_the_manifest_is_sent,
        basics::a_stopped_sandbox_is_not_ready_and_its_containers_keep_their_ends,
        basics::signals_are_as_at_boot_inside,
        security::an_ordinary_container_is_confined,
        security::user_group_and_supplementary_groups,
        security::capabilities_are_added_and_dropped,
        security::a_privileged_container_may_everything,
        security::no_new_privileges_and_read_only_root,
        security::seccomp_profiles_are_loaded_or_the_container_does_not_start,
        security::the_default_profile_lets_ordinary_programs_be,
        security::mounts_are_as_asked,
        security::mounts_made_later_show_as_the_propagation_says,
        security::devices_are_given_with_their_permissions,
        security::namespaces_of_the_pod_and_of_the_host,
        security::a_shared_process_namespace_has_an_init_that_reaps,
        security::a_user_namespace_maps_root_to_nobody_in_particular,
        security::kernel_parameters_of_the_pod,
        security::files_of_the_sandbox,
        limits::a_container_beyond_its_memory_is_oom_killed,
        limits::limits_show_inside,
        limits::a_fork_bomb_is_contained_and_stopped,
        stats::what_a_pod_uses_is_what_its_containers_do,
        exec::output_and_exit_codes_of_commands,
        exec::a_command_that_can_not_run_says_why_in_upstreams_words,
        exec::a_command_has_what_its_container_has_and_nothing_more,
        exec::a_command_is_confined_as_its_container,
        exec::a_command_has_the_containers_environment,
        exec::input_is_closed_and_streams_are_apart,
        exec::large_output_is_cut_and_never_blocks,
        exec::a_terminal_has_a_size_that_changes_and_hangs_up,
        exec::a_timeout_kills_the_whole_tree,
        exec::a_dropped_call_and_a_dropped_session_kill_their_command,
        exec::what_a_command_leaves_running_stays_in_the_container,
        exec::the_end_of_the_container_ends_its_commands,
        exec::commands_run_in_containers_of_an_earlier_agent_and_die_with_theirs,
        exec::a_container_can_not_reach_the_machine_through_a_command,
        exec::a_container_that_may_have_no_more_processes_can_be_looked_at,
        exec::many_commands_at_once_leave_nothing,
        recovery::containers_outlive_the_agent_and_keep_their_exit_codes,
        recovery::a_dead_shim_is_noticed_and_its_containers_are_lost_not_successful,
        recovery::a_shim_that_died_with_the_agent_is_found_dead,
        recovery::one_runtime_at_a_time_uses_a_state_directory,
        recovery::a_dropped_call_is_carried_out_and_shows,
        recovery::half_made_things_are_removed_on_open,
        recovery::kill_9_of_the_agent_under_churn_leaks_nothing,
        recovery::two_hundred_containers_at_once,
        recovery::how_long_it_takes,
    ])
}

/// Tests never touch the machine's network.
fn own_network() {
    #[expect(unsafe_code, reason = "unshare(2) of more than namespaces could break Rust's assumptions")]
    // SAFETY: only the network namespace is unshared, and this process has one thread.
    let _ = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
}
