//! The table: what is done, what is to be seen, and who differs why.

use crate::scenario::{But, Scenario};
use crate::scenarios::{attach, containers, events, exec, images, logs, resources, sandboxes, stopping};
use crate::subject::Kind;

/// All of containerd.
const CONTAINERD: &[Kind] = &[Kind::Containerd16, Kind::Containerd17, Kind::Containerd21];

/// All rows.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "a_sandbox_is_made_stopped_and_removed_each_twice",
        |s| Box::pin(sandboxes::lives_and_goes(s)),
        &[
            "made: ready, listed [0 ready]",
            "stop: ok",
            "stop: ok",
            "stopped: not ready, listed [0 not ready]",
            "remove: ok",
            "remove: ok",
            "removed: no such sandbox, listed []",
        ],
    ),
    Scenario::new(
        "a_sandbox_is_made_once_for_each_attempt",
        |s| Box::pin(sandboxes::attempts(s)),
        &[
            "the same attempt: sandbox exists already",
            "the first one is ready",
            "the next attempt: ok",
            "listed [0 not ready, 1 ready]",
        ],
    )
    .but(&[But {
        of: CONTAINERD,
        sees: &[
            "the same attempt: ok",
            "the first one is ready",
            "the next attempt: ok",
            "listed [0 not ready, 1 ready]",
        ],
        why: "the call of an agent that was killed goes on in the runtime: the next agent takes over what came of it",
    }]),
    Scenario::new(
        "labels_and_annotations_come_back",
        |s| Box::pin(sandboxes::labels_come_back(s)),
        &[
            "labels of the sandbox: as given",
            "annotations of the sandbox: as given",
            "the Pod: as given",
            "labels of the container: as given",
            "annotations of the container: as given",
            "the container: as given",
            "its image: as given",
            "its log: as given",
        ],
    ),
    Scenario::new(
        "removing_a_sandbox_takes_its_containers_along",
        |s| Box::pin(sandboxes::removal_takes_containers_along(s)),
        &["remove: ok", "the container: no such container", "listed: 0"],
    ),
    Scenario::new(
        "stopping_a_sandbox_ends_its_containers",
        |s| Box::pin(sandboxes::stopping_ends_containers(s)),
        &["stop: ok", "the container: exited 137 Error", "a container in a stopped sandbox: failed"],
    )
    .but(&[
        But {
            of: &[Kind::Containerd16, Kind::Containerd17],
            sees: &["stop: ok", "the container: exited 137 Error", "a container in a stopped sandbox: no such sandbox"],
            why: "containerd 1 looks for the sandbox's process and says that there is none",
        },
        But {
            of: &[Kind::Containerd21],
            sees: &["stop: ok", "the container: exited 137 Error", "a container in a stopped sandbox: ok"],
            why: "containerd 2 creates it, and refuses only its start; the kubelet makes a new sandbox instead",
        },
    ]),
    Scenario::new(
        "a_sandbox_has_addresses_unless_it_is_on_the_hosts_network",
        |s| Box::pin(sandboxes::addresses(s)),
        &["on the host's network: 0 addresses", "on a network of its own: some", "as asked for: true", "stopped: none"],
    ),
    Scenario::new(
        "a_container_is_created_then_runs_then_has_ended",
        |s| Box::pin(containers::created_then_running_then_ended(s)),
        &[
            "made: created, listed [app 0 created]",
            "started: running, listed [app 0 running]",
            "started again: failed",
            "still running",
            "killed: exited 137 Error, listed [app 0 exited]",
            "started after its end: failed",
            "times in order: true",
        ],
    ),
    Scenario::new(
        "exit_codes_are_those_of_the_program",
        |s| Box::pin(containers::exit_codes(s)),
        &["exited 0 Completed", "exited 1 Error", "exited 126 Error", "exited 255 Error"],
    ),
    Scenario::new(
        "ends_by_signals",
        |s| Box::pin(containers::signals(s)),
        &["term: exited 143 Error", "segv: exited 139 Error", "itself: exited 3 Error"],
    )
    .of_programs(),
    Scenario::new(
        "a_program_that_is_missing_is_a_start_error",
        |s| Box::pin(containers::a_missing_program(s)),
        &["start: not executable 127", "exited 128 StartError, never started", "listed [app 0 exited]", "remove: ok"],
    )
    .but(&[
        But {
            of: &[Kind::Embedded],
            sees: &["start: invalid", "exited 128 StartError, never started", "listed [app 0 exited]", "remove: ok"],
            why: "its shim says that another try is pointless, not why; the status decides, not the kind of the error",
        },
        But {
            of: &[Kind::Fake],
            sees: &["start: failed", "exited 128 StartError, never started", "listed [app 0 exited]", "remove: ok"],
            why: "scripted as a failure without a kind, so that nobody relies on one",
        },
    ]),
    Scenario::new(
        "an_image_or_a_sandbox_that_is_missing_is_told",
        |s| Box::pin(containers::a_missing_image(s)),
        &["create: no such image", "listed []", "in no sandbox: no such sandbox"],
    ),
    Scenario::new(
        "a_container_is_made_once_for_each_attempt",
        |s| Box::pin(containers::twice_the_same_attempt(s)),
        &[
            "the same attempt: container exists already",
            "exited 4 Error",
            "the same attempt after its end: container exists already",
            "the next attempt: listed [app 0 exited, app 1 created]",
            "exited 4 Error, listed [app 1 exited]",
        ],
    )
    .but(&[But {
        of: CONTAINERD,
        sees: &[
            "the same attempt: ok",
            "exited 4 Error",
            "the same attempt after its end: container exists already",
            "the next attempt: listed [app 0 exited, app 1 created]",
            "exited 4 Error, listed [app 1 exited]",
        ],
        why: "the call of an agent that was killed goes on in the runtime: what it made and nobody started makes room",
    }]),
    Scenario::new(
        "removing_a_container_kills_it_and_can_be_repeated",
        |s| Box::pin(containers::removal(s)),
        &[
            "remove: ok",
            "remove: ok",
            "status: no such container",
            "listed []",
            "its log stays: true",
            "remove an unstarted one: ok",
        ],
    )
    .but(&[But {
        of: &[Kind::Fake],
        sees: &["remove: ok", "remove: ok", "status: no such container", "listed []", "remove an unstarted one: ok"],
        why: "no program, no log",
    }]),
    Scenario::new(
        "unknown_ids_are_told_apart_from_failures",
        |s| Box::pin(containers::unknown_ids(s)),
        &[
            "sandbox status: no such sandbox",
            "stop sandbox: ok",
            "remove sandbox: ok",
            "container status: no such container",
            "start: no such container",
            "stop: ok",
            "remove: ok",
            "reopen log: no such container",
            "exec: no such container",
        ],
    ),
    Scenario::new(
        "lists_are_filtered_by_pod",
        |s| Box::pin(containers::lists_are_filtered(s)),
        &["own: [app 0 running, side 0 exited]", "of nobody: []", "in the list of all: 2"],
    ),
    Scenario::new(
        "a_stop_asks_then_kills",
        |s| Box::pin(stopping::asks_then_kills(s)),
        &[
            "stop: ok",
            "obeyed: exited 5 Error",
            "stop: ok",
            "ignored: exited 137 Error, after its grace: true",
            "stop without grace: ok",
            "killed: exited 137 Error",
        ],
    ),
    Scenario::new(
        "a_stop_of_what_has_ended_changes_nothing",
        |s| Box::pin(stopping::again_changes_nothing(s)),
        &["exited 3 Error", "stop: ok", "stop: ok", "exited 3 Error"],
    ),
    Scenario::new(
        "a_stop_before_the_start_is_no_success",
        |s| Box::pin(stopping::before_the_start(s)),
        &["stop: ok", "exited 137 Error, never started"],
    )
    .but(&[But {
        of: CONTAINERD,
        sees: &["stop: ok", "created"],
        why: "CRI leaves what never ran as it is; removing it is enough, and no end is made up",
    }]),
    Scenario::new(
        "a_shorter_grace_overtakes_a_longer_one",
        |s| Box::pin(stopping::a_shorter_grace_overtakes(s)),
        &["short: ok, long: ok", "exited 137 Error, early: true"],
    ),
    Scenario::new(
        "the_stop_signal_of_the_manifest_is_sent",
        |s| Box::pin(stopping::the_signal_of_the_manifest(s)),
        &["exited 11 Error"],
    )
    .but(&[But {
        of: CONTAINERD,
        sees: &["exited 12 Error"],
        why: "the field is newer than these versions of containerd, which send the image's signal or TERM",
    }])
    .of_programs(),
    Scenario::new(
        "logs_are_records_with_stream_and_tag",
        |s| Box::pin(logs::cri_format(s)),
        &["stdout F out", "stderr F err", "stdout F no line end"],
    )
    .but(&[But {
        of: CONTAINERD,
        sees: &["stdout F out", "stderr F err", "stdout P no line end"],
        why: "containerd marks a last line without an end as a part; the embedded runtime ends it, so that no reader waits for the rest",
    }])
    .of_programs(),
    Scenario::new(
        "long_lines_are_cut_and_joined_again",
        |s| Box::pin(logs::long_lines(s)),
        &["40000 bytes, then \"\\nend\\n\"", "in parts: true, none larger than 16 KiB: true"],
    )
    .of_programs(),
    Scenario::new(
        "a_log_is_reopened_after_it_was_renamed",
        |s| Box::pin(logs::rotation(s)),
        &["reopen: ok", "the new file is there: true", "old: [\"up\"], new: [\"after\"]"],
    )
    .of_programs(),
    Scenario::new(
        "commands_have_output_and_codes",
        |s| Box::pin(exec::output_and_codes(s)),
        &[
            "7 \"out\\n\" \"err\\n\"",
            "0 \"\" \"\"",
            "137 \"\" \"\"",
            "a missing program: not executable 127",
            "the container is running",
        ],
    )
    .of_programs(),
    Scenario::new(
        "commands_need_a_container_that_runs",
        |s| Box::pin(exec::where_nothing_runs(s)),
        &["before the start: invalid", "after the end: invalid"],
    ),
    Scenario::new(
        "a_command_that_takes_too_long_is_killed",
        |s| Box::pin(exec::a_timeout_kills(s)),
        &["timed out", "the command is gone", "the container is running"],
    )
    .of_programs(),
    Scenario::new(
        "commands_with_streams_and_terminals",
        |s| Box::pin(exec::streams(s)),
        &["9 \"got one\\ntwo\\n\" \"err\\n\"", "terminal: 4 \"17 91\\n\", errors apart: false"],
    )
    .of_programs(),
    Scenario::new(
        "who_joins_a_program_sees_what_it_writes_and_feeds_it",
        |s| Box::pin(attach::joining(s)),
        &["got one", "left, and it goes on", "got two", "error: err", "the end: 0", "then the container is exited 5 Error"],
    )
    .of_programs(),
    Scenario::new(
        "a_terminal_can_be_joined_and_resized",
        |s| Box::pin(attach::terminal(s)),
        &["size 17 91", "size 30 100", "who only watches leaves it so", "errors apart: false"],
    )
    .of_programs(),
    Scenario::new(
        "joining_what_does_not_run_is_refused",
        |s| Box::pin(attach::where_nothing_runs(s)),
        &["before the start: invalid", "after the end: invalid", "a port of a sandbox that is stopped: invalid"],
    ),
    Scenario::new(
        "megabytes_go_through_a_port_intact_both_ways",
        |s| Box::pin(attach::ports(s)),
        &["4194304 bytes back, as they were", "a port without a listener is an error"],
    )
    .of_programs(),
    Scenario::new(
        "events_tell_a_life_in_order",
        |s| Box::pin(events::of_a_life(s)),
        &[
            "sandbox Created",
            "sandbox Started",
            "container Created",
            "container Started",
            "container Stopped",
            "container Deleted",
            "sandbox Stopped",
            "sandbox Deleted",
        ],
    )
    .but(&[But { of: &[Kind::Containerd16], sees: &["unsupported"], why: "it has no events: the PLEG polls" }])
    .alone(),
    Scenario::new(
        "a_start_that_fails_is_never_told_as_started",
        |s| Box::pin(events::of_a_start_that_fails(s)),
        &["created: true, started: false"],
    )
    .but(&[But { of: &[Kind::Containerd16], sees: &["unsupported"], why: "it has no events: the PLEG polls" }])
    .alone(),
    Scenario::new(
        "the_store_of_images",
        |s| Box::pin(images::the_store(s)),
        &[
            "its name is listed",
            "its id is a digest: true",
            "it has a size: true",
            "by id it is the same: true",
            "listed: 1",
            "remove: ok",
            "remove: ok",
            "there: false",
            "another: false",
            "disk: true",
        ],
    ),
    Scenario::new(
        "an_image_in_use_stays",
        |s| Box::pin(images::in_use(s)),
        &["remove: invalid", "there: true", "the container is running"],
    )
    .alone(),
    Scenario::new(
        "pulls_tell_why_they_fail",
        |s| Box::pin(images::pulls(s)),
        &["/good:1: pulled, there: true", "/missing:1: not found", "/secret:1: denied", "Not A Name: invalid name"],
    )
    .of_programs(),
    Scenario::new(
        "limits_show_inside",
        |s| Box::pin(resources::limits(s)),
        &["exited 0 Completed", "67108864\n20000\n900"],
    )
    .of_programs(),
    Scenario::new(
        "a_program_that_needs_too_much_memory_is_oom_killed",
        |s| Box::pin(resources::out_of_memory(s)),
        &["exited 137 OOMKilled"],
    )
    .of_programs(),
    Scenario::new(
        "limits_are_changed_while_it_runs",
        |s| Box::pin(resources::limits_change(s)),
        &[
            "before: 67108864\\n20000",
            "more memory: ok",
            "134217728\\n20000",
            "less of both: ok",
            "50331648\\n10000",
            "less memory than is used: failed",
            "50331648\\n10000",
            "it is still running",
            "after its end: ok",
            "of none: no such container",
        ],
    )
    .of_programs(),
    Scenario::new(
        "a_pods_own_limits_hold_for_all_its_containers",
        |s| Box::pin(resources::limits_of_the_pod(s)),
        &[
            "memory: 100663296, processor: 30000, weight: 512, processes: 200",
            "with a container, after its end and with the next: the same",
            "removed: nothing is left",
        ],
    )
    .of_programs(),
    Scenario::new(
        "environment_directory_and_mounts_are_as_asked",
        |s| Box::pin(resources::environment_and_mounts(s)),
        &[
            "exited 0 Completed",
            "a b=c\n/made/for/me\nfrom the machine\nwritten\nread-only",
            "on the machine: \"more\\n\"",
        ],
    )
    .of_programs(),
    Scenario::new(
        "use_is_counted_while_a_container_runs",
        |s| Box::pin(resources::use_is_counted(s)),
        &[
            "the Pod's: true",
            "containers: [\"app\"]",
            "memory: true, processes: true",
            "the whole is no less: true",
            "after its end: 0",
        ],
    )
    .but(&[But {
        of: CONTAINERD,
        sees: &[
            "the Pod's: true",
            "containers: [\"app\"]",
            "memory: true, processes: false",
            "the whole is no less: true",
            "after its end: 0",
        ],
        why: "CRI counts the processes of a Pod, not of each container",
    }]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::scenario::Needs;

    #[test]
    fn rows_have_names_of_their_own_and_every_difference_a_reason() {
        let names: BTreeSet<&str> = SCENARIOS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), SCENARIOS.len());
        for row in SCENARIOS {
            assert!(!row.sees.is_empty(), "{row:?}");
            for but in row.but {
                assert!(!but.of.is_empty() && !but.why.is_empty() && but.sees != row.sees, "{row:?} {but:?}");
                assert!(but.of.iter().all(|kind| row.needs == Needs::Nothing || kind.runs_programs()), "{row:?}");
            }
            let kinds: Vec<Kind> = row.but.iter().flat_map(|but| but.of.to_vec()).collect();
            assert_eq!(
                kinds.iter().collect::<BTreeSet<_>>().len(),
                kinds.len(),
                "{row:?} has two rows for one runtime"
            );
        }
    }
}
