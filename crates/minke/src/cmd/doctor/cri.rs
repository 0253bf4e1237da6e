//! Container runtimes behind CRI: what is needed for them, and what each can't. Pure.

use minke_cri::SandboxImage;

use super::facts::{Cni, Greeted, Socket};
use super::{Check, Runtime, network};

const NAME: &str = "cri";

/// The checks of all sockets; one that says that there is none. `lowers`: whether this machine can lower `oom_score_adj`.
pub(super) fn checks(sockets: &[Socket], cni: &Cni, lowers: bool) -> Vec<Check> {
    let checks = if sockets.is_empty() {
        vec![Check::skipped(NAME, "no containerd or CRI-O is where they usually are", ABSENT)]
    } else {
        // The first is the one that Pods run by.
        sockets.iter().enumerate().flat_map(|(at, socket)| of_socket(socket, cni, lowers, at == 0)).collect()
    };
    checks.into_iter().map(|check| check.of(Runtime::Cri)).collect()
}

const ABSENT: &str = "nothing, for the embedded runtime; --runtime-endpoint SOCKET looks elsewhere";

fn of_socket(socket: &Socket, cni: &Cni, lowers: bool, first: bool) -> Vec<Check> {
    match &socket.greeted {
        Ok(runtime) => {
            let kept = scores(runtime, lowers);
            let mut checks = vec![version(socket, runtime), conditions(runtime, first), image(runtime)];
            checks.extend(kept);
            checks.extend([network::cri_ports(cni), events(runtime)]);
            checks
        }
        Err(why) if first => vec![Check::fail(NAME, why, "as it says; the embedded runtime does not need it")],
        Err(why) => vec![Check::warn(NAME, why, "as it says, if --runtime-endpoint is to name this one")],
    }
}

fn version(socket: &Socket, runtime: &Greeted) -> Check {
    let driver = if runtime.systemd {
        "cgroups by systemd: containers have limits, Pods as a whole have none"
    } else {
        "cgroups by itself"
    };
    Check::ok(NAME, format!("{} {} at {}, {driver}", runtime.name, runtime.version, socket.endpoint))
}

fn conditions(runtime: &Greeted, first: bool) -> Check {
    const NAME: &str = "cri conditions";
    if runtime.unmet.is_empty() {
        return Check::ok(NAME, "it is ready, and so is its network");
    }
    let network = runtime.unmet.iter().all(|condition| condition.starts_with("NetworkReady"));
    let advice = if network {
        "install a CNI configuration in /etc/cni/net.d; until then only Pods with hostNetwork: true run by it"
    } else {
        "look into the runtime's log (journalctl -u containerd, journalctl -u crio)"
    };
    let found = runtime.unmet.join("; ");
    if first && !network { Check::fail(NAME, found, advice) } else { Check::warn(NAME, found, advice) }
}

/// runc says nothing of an `oom_score_adj` that it may not lower; it fails, with words that lead nowhere.
fn scores(runtime: &Greeted, lowers: bool) -> Option<Check> {
    const NAME: &str = "cri oom_score_adj";
    match runtime.restricts_oom_score_adj {
        Some(false) if !lowers => Some(Check::warn(
            NAME,
            "this machine lacks CAP_SYS_RESOURCE: unless the runtime has it, no sandbox starts (runc: can't get final \
             child's PID from pipe)",
            "restrict_oom_score_adj = true in containerd's CRI plugin, then restart it",
        )),
        Some(_) | None => None,
    }
}

/// Each sandbox has a process of the runtime's own image.
fn image(runtime: &Greeted) -> Check {
    const NAME: &str = "cri sandbox image";
    match &runtime.sandbox_image {
        SandboxImage::Present(name) => Check::ok(NAME, format!("{name} is in its store")),
        SandboxImage::Absent(name) => Check::warn(
            NAME,
            format!("{name} is not in its store: the first Pod waits until it is pulled, and fails where it can't be"),
            format!(
                "ctr -n k8s.io images pull {name}, or import it; or another sandbox_image in the runtime's configuration"
            ),
        ),
        SandboxImage::Untold => Check::skipped(NAME, "this runtime does not tell which one it uses", ""),
    }
}

/// Judged by version: a stream that is opened to try it takes events away from whoever reads them.
fn events(runtime: &Greeted) -> Check {
    const NAME: &str = "cri events";
    let mut numbers = runtime.version.trim_start_matches('v').split('.').map(|n| n.parse::<u32>().ok());
    let version = (numbers.next().flatten(), numbers.next().flatten());
    match (runtime.name.as_str(), version) {
        ("containerd", (Some(0 | 1), Some(minor))) if minor < 7 => Check::warn(
            NAME,
            "it has none: every container is looked at each second",
            "containerd 1.7 or newer, for less work and a faster notice",
        ),
        ("containerd", (Some(1), _)) => Check::warn(
            NAME,
            "each event reaches one reader only: a kubelet or another agent beside this one takes some",
            "containerd 2.0 or newer where several programs read events",
        ),
        ("cri-o", (Some(1), Some(minor))) if minor < 26 => Check::warn(
            NAME,
            "it has none: every container is looked at each second",
            "CRI-O 1.26 or newer, with enable_pod_events = true",
        ),
        ("cri-o", _) => Check::ok(NAME, "if enable_pod_events = true is in its configuration"),
        _ => Check::ok(NAME, "as far as its version tells"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn socket(name: &str, version: &str, unmet: &[&str]) -> Socket {
        let greeted = Greeted {
            name: name.to_owned(),
            version: version.to_owned(),
            systemd: false,
            unmet: unmet.iter().map(|text| (*text).to_owned()).collect(),
            sandbox_image: SandboxImage::Untold,
            restricts_oom_score_adj: None,
        };
        Socket { endpoint: "unix:///x.sock".to_owned(), greeted: Ok(greeted) }
    }

    /// Without the check of ports, which is another file's.
    fn of(sockets: &[Socket]) -> Vec<Check> {
        checks(sockets, &Cni::default(), true).into_iter().filter(|check| check.check != "cri ports").collect()
    }

    fn levels(sockets: &[Socket]) -> Vec<Level> {
        of(sockets).iter().map(|check| check.result).collect()
    }

    #[test]
    fn events_by_version() {
        use Level::{Ok, Warn};
        for (name, version, level) in [
            ("containerd", "1.6.20~ds1", Warn),
            ("containerd", "1.7.24~ds1", Warn),
            ("containerd", "v2.1.9", Ok),
            ("cri-o", "1.31.0", Ok),
            ("cri-o", "1.25.4", Warn),
            ("containerd", "unknown", Ok),
        ] {
            assert_eq!(levels(&[socket(name, version, &[])]), [Ok, Ok, Level::Skipped, level], "{name} {version}");
        }
    }

    #[test]
    fn a_runtime_that_does_not_answer_can_run_nothing_and_a_second_one_is_no_matter() {
        let silent = || Socket { greeted: Err("nothing listens".to_owned()), ..socket("", "", &[]) };
        assert_eq!(levels(&[silent()]), [Level::Fail]);
        assert_eq!(levels(&[socket("containerd", "2.1.9", &[]), silent()]).last(), Some(&Level::Warn));
        assert_eq!(levels(&[]), [Level::Skipped]);
        assert!(of(&[silent()]).iter().all(|check| check.runtime == Runtime::Cri), "none of the embedded runtime's");
    }

    #[test]
    fn conditions_that_are_not_met() {
        let level = |unmet| of(&[socket("containerd", "2.1.9", &[unmet])])[1].result;
        assert_eq!(level("RuntimeReady is false"), Level::Fail);
        assert_eq!(level("NetworkReady is false"), Level::Warn, "Pods on the host's network run");
    }

    #[test]
    fn a_score_that_can_not_be_lowered_is_told_before_the_first_sandbox_fails() {
        let found = |restricts: Option<bool>, lowers: bool| {
            let mut one = socket("containerd", "2.1.9", &[]);
            one.greeted.as_mut().unwrap().restricts_oom_score_adj = restricts;
            checks(&[one], &Cni::default(), lowers).into_iter().find(|check| check.check == "cri oom_score_adj")
        };
        let warning = found(Some(false), false).unwrap();
        assert_eq!((warning.result, warning.advice.contains("restrict_oom_score_adj = true")), (Level::Warn, true));
        for (restricts, lowers) in [(Some(true), false), (None, false), (Some(false), true)] {
            assert_eq!(found(restricts, lowers), None, "{restricts:?} {lowers}");
        }
    }

    #[test]
    fn the_image_of_sandboxes() {
        for (found, level) in [
            (SandboxImage::Present("pause:3".to_owned()), Level::Ok),
            (SandboxImage::Absent("pause:3".to_owned()), Level::Warn),
            (SandboxImage::Untold, Level::Skipped),
        ] {
            let mut one = socket("containerd", "1.7.24", &[]);
            one.greeted.as_mut().unwrap().sandbox_image = found;
            let check = of(&[one]).remove(2);
            assert_eq!(check.result, level, "{check:?}");
        }
    }

    #[test]
    fn what_the_runtime_says_of_itself_is_told() {
        let found = of(&[socket("containerd", "2.1.9", &["NetworkReady is false: no CNI"])]);
        assert_eq!(found[1].result, Level::Warn);
        assert!(found[1].advice.contains("hostNetwork"), "{found:?}");
        let found = of(&[socket("containerd", "2.1.9", &["RuntimeReady is false", "NetworkReady is false"])]);
        assert!(found[1].advice.contains("log"), "{found:?}");
    }
}
