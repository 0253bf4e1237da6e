//! Facts → checks. Pure.

use super::facts::{Agent, Cgroups, Facts, Tried};
use super::{Check, Runtime, cri, disk, network};

/// What every Pod needs: number and name.
const ESSENTIAL: [(u32, &str); 7] = [
    (21, "CAP_SYS_ADMIN"),
    (7, "CAP_SETUID"),
    (6, "CAP_SETGID"),
    (8, "CAP_SETPCAP"),
    (0, "CAP_CHOWN"),
    (1, "CAP_DAC_OVERRIDE"),
    (5, "CAP_KILL"),
];

/// Without it runc can't lower `oom_score_adj`.
const SYS_RESOURCE: u32 = 24;

/// What some Pods on the embedded runtime need, and what for.
const USEFUL: [(u32, &str, &str); 4] = [
    (12, "CAP_NET_ADMIN", "only Pods on the host's network run"),
    (SYS_RESOURCE, "CAP_SYS_RESOURCE", "oom_score_adj can't be lowered and limits of processes can't be raised"),
    (27, "CAP_MKNOD", "containers can't make device nodes"),
    (13, "CAP_NET_RAW", "containers can't ping"),
];

/// All checks, in the order in which a Pod would run into them.
pub(super) fn judge(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![
        root(facts),
        capabilities(facts),
        cgroups(facts),
        overlay(facts).of(Runtime::Embedded),
        namespaces(facts),
        seccomp(facts),
        network::nat(facts).of(Runtime::Embedded),
        network::forwarding(facts).of(Runtime::Embedded),
        network::cni(&facts.cni).of(Runtime::Embedded),
        network::ports(facts).of(Runtime::Embedded),
        inotify(facts),
        disk::space(facts.disk.as_ref()),
        agent(&facts.agent),
    ];
    let lowers = facts.capabilities.is_none_or(|mask| !facts.root || mask & (1 << SYS_RESOURCE) != 0);
    checks.extend(cri::checks(&facts.sockets, &facts.cni, lowers));
    checks
}

fn root(facts: &Facts) -> Check {
    if facts.root {
        Check::ok("root", "runs as root")
    } else {
        Check::fail(
            "root",
            "not root: no namespaces, mounts and cgroups can be made",
            "run minke as root (sudo minke …)",
        )
    }
}

fn capabilities(facts: &Facts) -> Check {
    const NAME: &str = "capabilities";
    let Some(mask) = facts.capabilities else {
        return Check::skipped(NAME, "/proc/self/status can't be read", "mount /proc");
    };
    if !facts.root {
        return Check::skipped(NAME, "only root has those that are needed", "run minke doctor as root");
    }
    let lacks = |number: u32| mask & (1 << number) == 0;
    let missing: Vec<&str> = ESSENTIAL.iter().filter(|(number, _)| lacks(*number)).map(|(_, name)| *name).collect();
    let inside = "inside a container: start that one privileged, or with these capabilities added";
    if !missing.is_empty() {
        return Check::fail(NAME, format!("no container can start without {}", missing.join(", ")), inside);
    }
    let less: Vec<String> =
        USEFUL.iter().filter(|(number, _, _)| lacks(*number)).map(|(_, name, why)| format!("{name}: {why}")).collect();
    if less.is_empty() {
        Check::ok(NAME, "all that are needed")
    } else {
        Check::warn(NAME, less.join("; "), inside).of(Runtime::Embedded)
    }
}

fn cgroups(facts: &Facts) -> Check {
    const NAME: &str = "cgroups";
    let Cgroups { v1, v2, read_only } = &facts.cgroups;
    let (kind, has): (&str, &[String]) = match (v1.is_empty(), v2) {
        (true, None) => {
            let advice = "mount them: mount -t cgroup2 none /sys/fs/cgroup";
            return Check::fail(NAME, "no control groups are mounted", advice);
        }
        (true, Some(controllers)) => ("version 2", controllers),
        (false, Some(_)) => ("version 1 (hybrid)", v1),
        (false, None) => ("version 1", v1),
    };
    // Nobody but root can write them.
    if let Some(mount) = read_only.as_ref().filter(|_| facts.root) {
        let found = format!("{kind}, but {} can't be written", mount.display());
        let advice = "inside a container: start that one privileged, with a writable /sys/fs/cgroup";
        return Check::fail(NAME, found, advice);
    }
    let without: Vec<&str> = [
        ("memory", "no memory limits, no eviction of what uses too much"),
        ("cpu", "no limits and shares of processors"),
        ("pids", "no limits on processes"),
    ]
    .iter()
    .filter(|(name, _)| !has.iter().any(|controller| controller == name))
    .map(|(_, means)| *means)
    .collect();
    let found = format!("{kind}: {}", has.join(" "));
    if without.is_empty() {
        Check::ok(NAME, found)
    } else {
        let advice =
            "enable the controllers on the kernel's command line (cgroup_enable=memory), or use them in version 2";
        Check::warn(NAME, format!("{found}; {}", without.join(", ")), advice)
    }
}

fn overlay(facts: &Facts) -> Check {
    const NAME: &str = "overlay";
    match &facts.overlay {
        Tried::Works => Check::ok(NAME, format!("overlays by the new mount API, Linux {}", facts.kernel)),
        Tried::Refused(why) => {
            let advice = "load it (modprobe overlay), or use Linux 5.14 or newer with CONFIG_OVERLAY_FS";
            Check::fail(NAME, format!("roots of containers can't be mounted: {why}"), advice)
        }
        Tried::Unseen(why) => Check::skipped(NAME, why, "run minke doctor as root"),
    }
}

fn namespaces(facts: &Facts) -> Check {
    const NAME: &str = "namespaces";
    let has = |kind: &str| facts.namespaces.iter().any(|known| known == kind);
    let missing: Vec<&str> = ["mnt", "pid", "net", "ipc", "uts", "cgroup"].into_iter().filter(|k| !has(k)).collect();
    if !missing.is_empty() {
        let found = format!("the kernel has no namespaces of kind {}", missing.join(", "));
        return Check::fail(NAME, found, "use a kernel with CONFIG_NAMESPACES and all kinds of them");
    }
    let none = |limit: &str| facts.namespace_limits.get(limit).is_some_and(|most| *most == 0);
    if let Some(kind) = ["mnt", "pid", "net", "ipc", "uts"].iter().find(|k| none(&format!("max_{k}_namespaces"))) {
        let found = format!("the limit on namespaces of kind {kind} is 0");
        return Check::fail(NAME, found, format!("sysctl user.max_{kind}_namespaces=65536"));
    }
    if !has("user") || none("max_user_namespaces") {
        let found = "no user namespaces: Pods with hostUsers: false are refused";
        return Check::warn(NAME, found, "sysctl user.max_user_namespaces=65536");
    }
    Check::ok(NAME, facts.namespaces.join(" "))
}

fn seccomp(facts: &Facts) -> Check {
    const NAME: &str = "seccomp";
    let advice = "use a kernel with CONFIG_SECCOMP_FILTER; until then ask for `seccompProfile: {type: Unconfined}`";
    match &facts.seccomp {
        None => {
            Check::fail(NAME, "the kernel has no filters of system calls; the default profile can't be applied", advice)
        }
        Some(actions) if !actions.split_whitespace().any(|action| action == "errno") => {
            Check::fail(NAME, format!("filters can't answer with an error: {actions}"), advice)
        }
        Some(_) => Check::ok(NAME, "filters of system calls"),
    }
}

fn inotify(facts: &Facts) -> Check {
    const NAME: &str = "inotify";
    let (Some(instances), Some(watches)) = facts.inotify else {
        return Check::warn(NAME, "no inotify: changed manifests are found by looking each second", "");
    };
    let found = format!("{instances} instances and {watches} watches a user");
    if instances < 128 || watches < 8192 {
        let advice = "sysctl fs.inotify.max_user_instances=512 fs.inotify.max_user_watches=65536";
        return Check::warn(NAME, format!("{found}: few, for what watches files in many containers"), advice);
    }
    Check::ok(NAME, found)
}

fn agent(agent: &Agent) -> Check {
    const NAME: &str = "agent";
    match agent {
        Agent::None => Check::ok(NAME, "none runs; a command starts one when it needs it"),
        Agent::Answers { pid, version, own } if version == own => {
            Check::ok(NAME, format!("process {pid} answers, version {version}"))
        }
        Agent::Answers { pid, version, own } => {
            let found = format!("process {pid} answers, but is version {version}, and this is {own}");
            Check::warn(NAME, found, "minke agent --replace --background (Pods keep running)")
        }
        Agent::Silent { pid, why } => {
            let who = pid.map_or_else(|| "an agent".to_owned(), |pid| format!("process {pid}"));
            let found = format!("{who} holds the instance's lock but does not answer: {why}");
            Check::warn(
                NAME,
                found,
                "if it stays so, end that process; Pods keep running, and the next command starts an agent",
            )
        }
        Agent::Unseen(why) => Check::skipped(NAME, why, "run minke doctor as the user who runs Pods"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::super::facts::Cni;
    use super::*;

    fn fit() -> Facts {
        Facts {
            root: true,
            kernel: "6.1.0".to_owned(),
            capabilities: Some(u64::MAX),
            cgroups: Cgroups {
                v1: Vec::new(),
                v2: Some(["cpu", "memory", "pids"].map(str::to_owned).into()),
                read_only: None,
            },
            overlay: Tried::Works,
            namespaces: ["mnt", "pid", "net", "ipc", "uts", "cgroup", "user"].map(str::to_owned).into(),
            namespace_limits: [("max_user_namespaces".to_owned(), 1000)].into(),
            seccomp: Some("kill_process errno allow".to_owned()),
            nf_tables: Tried::Works,
            forwarding: Some(true),
            cni: Cni::default(),
            inotify: (Some(128), Some(65536)),
            disk: None,
            agent: Agent::None,
            cri: false,
            sockets: Vec::new(),
        }
    }

    /// What a changed machine comes to, of this check.
    fn check(name: &str, change: impl FnOnce(&mut Facts)) -> (Level, String) {
        let mut facts = fit();
        change(&mut facts);
        let found = judge(&facts).into_iter().find(|check| check.check == name).unwrap();
        assert!(found.result == Level::Ok || !found.found.is_empty(), "{found:?}");
        assert!(found.result != Level::Fail || !found.advice.is_empty(), "a failure says what to do: {found:?}");
        (found.result, found.found)
    }

    #[test]
    fn a_machine_that_has_everything_is_fit() {
        let checks = judge(&fit());
        let bad: Vec<_> = checks.iter().filter(|c| !matches!(c.result, Level::Ok | Level::Skipped)).collect();
        assert!(bad.is_empty(), "{bad:?}");
    }

    #[test]
    fn who_runs_it_and_with_which_capabilities() {
        assert_eq!(check("root", |f| f.root = false).0, Level::Fail);
        assert_eq!(check("capabilities", |f| f.root = false).0, Level::Skipped);
        assert_eq!(check("capabilities", |f| f.capabilities = None).0, Level::Skipped);
        let (level, found) = check("capabilities", |f| f.capabilities = Some(!(1 << 21)));
        assert_eq!((level, found.contains("CAP_SYS_ADMIN")), (Level::Fail, true));
        let (level, found) = check("capabilities", |f| f.capabilities = Some(!(1 << 24)));
        assert_eq!((level, found.contains("CAP_SYS_RESOURCE")), (Level::Warn, true));
    }

    #[test]
    fn control_groups_of_every_kind() {
        let all = || ["cpu", "memory", "pids"].map(str::to_owned).to_vec();
        for (v1, v2, read_only, level, word) in [
            (all(), None, None, Level::Ok, "version 1:"),
            (all(), Some(vec!["hugetlb".to_owned()]), None, Level::Ok, "hybrid"),
            (vec![], Some(all()), None, Level::Ok, "version 2"),
            (vec![], Some(vec!["cpu".to_owned(), "pids".to_owned()]), None, Level::Warn, "no memory limits"),
            (vec![], None, None, Level::Fail, "no control groups"),
            (vec![], Some(all()), Some("/sys/fs/cgroup".into()), Level::Fail, "can't be written"),
        ] {
            let found = check("cgroups", |f| f.cgroups = Cgroups { v1, v2, read_only });
            assert_eq!(found.0, level, "{found:?}");
            assert!(found.1.contains(word), "{found:?}");
        }
    }

    #[test]
    fn what_the_kernel_can() {
        assert_eq!(check("overlay", |f| f.overlay = Tried::Refused("ENODEV".to_owned())).0, Level::Fail);
        assert_eq!(check("overlay", |f| f.overlay = Tried::Unseen("not root".to_owned())).0, Level::Skipped);
        assert_eq!(check("seccomp", |f| f.seccomp = None).0, Level::Fail);
        assert_eq!(check("seccomp", |f| f.seccomp = Some("kill_thread allow".to_owned())).0, Level::Fail);
        assert_eq!(check("namespaces", |f| f.namespaces.retain(|n| n != "pid")).0, Level::Fail);
        assert_eq!(check("namespaces", |f| f.namespaces.retain(|n| n != "user")).0, Level::Warn);
        let no = |name: &str| [(name.to_owned(), 0)].into();
        assert_eq!(check("namespaces", |f| f.namespace_limits = no("max_net_namespaces")).0, Level::Fail);
        assert_eq!(check("namespaces", |f| f.namespace_limits = no("max_user_namespaces")).0, Level::Warn);
        assert_eq!(check("inotify", |f| f.inotify = (Some(16), Some(65536))).0, Level::Warn);
        assert_eq!(check("inotify", |f| f.inotify = (None, None)).0, Level::Warn);
    }

    #[test]
    fn who_makes_host_ports() {
        let with = |plugins: &[&str]| {
            let plugins = plugins.iter().map(|name| (*name).to_owned()).collect();
            Cni { first: Some(("10-a.conflist".to_owned(), Ok(plugins))), ..Cni::default() }
        };
        assert_eq!(check("ports", |_| {}).0, Level::Ok, "the built-in bridge does");
        assert_eq!(check("ports", |f| f.nf_tables = Tried::Refused("no".to_owned())).0, Level::Warn);
        assert_eq!(check("ports", |f| f.nf_tables = Tried::Unseen("no root".to_owned())).0, Level::Skipped);
        assert_eq!(check("ports", |f| f.cni = with(&["bridge", "portmap"])).0, Level::Ok);
        let (level, found) = check("ports", |f| f.cni = with(&["bridge"]));
        assert_eq!((level, found.contains("portmap")), (Level::Warn, true), "{found}");
    }

    #[test]
    fn the_agent_of_the_instance() {
        let answers = |version: &str| Agent::Answers { pid: 7, version: version.to_owned(), own: "2".to_owned() };
        assert_eq!(check("agent", |f| f.agent = answers("2")).0, Level::Ok);
        assert_eq!(check("agent", |f| f.agent = answers("1")).0, Level::Warn);
        let silent = Agent::Silent { pid: Some(7), why: "refused".to_owned() };
        assert_eq!(check("agent", |f| f.agent = silent).0, Level::Warn);
        assert_eq!(check("agent", |f| f.agent = Agent::Unseen("not root".to_owned())).0, Level::Skipped);
    }
}
