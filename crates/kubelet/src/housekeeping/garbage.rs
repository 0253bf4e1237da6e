//! Which containers and sandboxes of a Pod that is kept may go. Pure.

use std::collections::HashMap;

use minke_core::runtime::{ContainerId, ContainerState, PodRuntimeStatus, SandboxId, SandboxState};

/// Dead instances kept of each container name: the newest says how the last attempt ended.
const KEEP: usize = 1;

/// What may go.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Garbage {
    /// In this order. Those whose state nobody knows are stopped first.
    pub(super) containers: Vec<(ContainerId, Stop)>,
    /// Stopped once more before they are removed: a stop that was cut off may have left something.
    pub(super) sandboxes: Vec<SandboxId>,
}

/// Whether a container has to be stopped before it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    No,
    First,
}

/// Of each name all but the newest dead instances, and sandboxes that are dead, empty and not the newest. The newest
/// instance of a name always stays, whatever its state: it says what to do next, and only a sync acts on it.
pub(super) fn garbage(status: &PodRuntimeStatus) -> Garbage {
    let mut instances: HashMap<&str, usize> = HashMap::new();
    let mut dead: HashMap<&str, usize> = HashMap::new();
    let mut garbage = Garbage::default();
    for container in &status.containers {
        let newer = instances.entry(&container.name).or_default();
        let newest = *newer == 0;
        *newer += 1;
        let stop = match container.state {
            ContainerState::Exited { .. } => Stop::No,
            ContainerState::Unknown if !newest => Stop::First,
            ContainerState::Unknown | ContainerState::Created | ContainerState::Running { .. } => continue,
        };
        // An instance that nobody knows anything of tells nothing about how an attempt ended.
        if stop == Stop::No {
            let seen = dead.entry(&container.name).or_default();
            *seen += 1;
            if *seen <= KEEP {
                continue;
            }
        }
        garbage.containers.push((container.id.clone(), stop));
    }
    for sandbox in status.sandboxes.iter().skip(1) {
        let going = |id: &ContainerId| garbage.containers.iter().any(|(gone, _)| gone == id);
        let used = status.containers.iter().any(|c| c.sandbox == sandbox.info.id && !going(&c.id));
        if sandbox.info.state == SandboxState::NotReady && !used {
            garbage.sandboxes.push(sandbox.info.id.clone());
        }
    }
    garbage
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use minke_core::identity::{PodKey, PodUid};
    use minke_core::runtime::{ContainerStatus, Exit, ExitCode, ImageId, NamespaceOptions, SandboxInfo, SandboxStatus};

    use super::*;

    fn container(id: &str, sandbox: &str, running: bool) -> ContainerStatus {
        let state = if running {
            ContainerState::Running { started_at: Timestamp::UNIX_EPOCH }
        } else {
            let (reason, message) = (String::new(), String::new());
            let exit = Exit { code: ExitCode::Known(0), reason, message, finished_at: Timestamp::UNIX_EPOCH };
            ContainerState::Exited { started_at: None, exit }
        };
        ContainerStatus {
            id: ContainerId(id.to_owned()),
            sandbox: SandboxId(sandbox.to_owned()),
            pod: PodUid::new("u").unwrap(),
            name: id[..1].to_owned(),
            attempt: 0,
            created_at: Timestamp::UNIX_EPOCH,
            state,
            image_name: String::new(),
            image: ImageId(String::new()),
            log_path: "/log".into(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            uid: None,
        }
    }

    fn sandbox(id: &str, state: SandboxState) -> SandboxStatus {
        let pod = PodKey::new("default", "p", PodUid::new("u").unwrap());
        let id = SandboxId(id.to_owned());
        SandboxStatus {
            info: SandboxInfo { id, pod, attempt: 0, state, created_at: Timestamp::UNIX_EPOCH },
            ips: Vec::new(),
            namespaces: NamespaceOptions::default(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        }
    }

    fn found(containers: Vec<ContainerStatus>, sandboxes: Vec<SandboxStatus>) -> (Vec<String>, Vec<String>) {
        let status = PodRuntimeStatus { sandboxes, containers, ..PodRuntimeStatus::empty(PodUid::new("u").unwrap()) };
        let garbage = garbage(&status);
        (
            garbage.containers.into_iter().map(|(id, _)| id.0).collect(),
            garbage.sandboxes.into_iter().map(|s| s.0).collect(),
        )
    }

    #[test]
    fn one_dead_instance_of_each_name_is_kept() {
        let containers = vec![
            container("a3", "s", true),
            container("a2", "s", false),
            container("a1", "s", false),
            container("a0", "s", false),
            container("b0", "s", false),
        ];
        assert_eq!(found(containers, vec![]).0, ["a1", "a0"]);
    }

    #[test]
    fn a_dead_sandbox_goes_when_it_is_empty_and_not_the_newest() {
        let dead = SandboxState::NotReady;
        let sandboxes = vec![sandbox("s2", dead), sandbox("s1", dead), sandbox("s0", dead)];
        let containers = vec![container("a1", "s1", false)];
        assert_eq!(found(containers, sandboxes).1, ["s0"], "the newest says what to do next; s1 holds a last state");
    }

    #[test]
    fn what_nobody_knows_is_stopped_first_unless_it_is_the_newest() {
        let unknown = |id: &str| ContainerStatus { state: ContainerState::Unknown, ..container(id, "s", false) };
        let containers = vec![unknown("a3"), unknown("a2"), container("a1", "s", false), container("a0", "s", false)];
        let status = PodRuntimeStatus { containers, ..PodRuntimeStatus::empty(PodUid::new("u").unwrap()) };
        let expected = [("a2", Stop::First), ("a0", Stop::No)];
        assert_eq!(garbage(&status).containers, expected.map(|(id, stop)| (ContainerId(id.to_owned()), stop)));
    }
}
