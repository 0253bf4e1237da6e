//! Failures and crashes at every step, in a network namespace of the test's own.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{PortMapping, Protocol, SandboxId, error_chain};
use nlink::netlink::Nftables;

use super::config::{CniConfig, NetworkConfig};
use super::error::NetworkError;
use super::fault::{Fault, Step};
use super::request::{AttachRequest, Attachment};
use super::service::Network;

const ATTACHING: [Step; 7] = [
    Step::HostReady,
    Step::AddressClaimed,
    Step::PortsClaimed,
    Step::Recorded,
    Step::PortsOpen,
    Step::Linked,
    Step::Configured,
];
const DETACHING: [Step; 4] = [Step::PortsClosed, Step::Unlinked, Step::Released, Step::Forgotten];

/// Runs a test on a thread with a network namespace of its own, or says that it can't.
fn in_own_namespace(test: &str, body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| match unshare() {
            Ok(()) => body(),
            Err(error) => eprintln!("SKIPPED {test}: no network namespaces: {error}"),
        });
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[expect(unsafe_code, reason = "rustix has no safe unshare; only the network namespace is left")]
fn unshare() -> std::io::Result<()> {
    // SAFETY: the flags do not include `FILES`, the only one that endangers other threads' descriptors.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.map_err(std::io::Error::from)
}

/// A state directory and a Pod.
struct Case {
    state: tempfile::TempDir,
    pod: File,
}

impl Case {
    fn new() -> Self {
        let pod = std::thread::spawn(|| {
            unshare().unwrap();
            File::open("/proc/thread-self/ns/net").unwrap()
        });
        Self { state: tempfile::tempdir().unwrap(), pod: pod.join().unwrap() }
    }

    fn open(&self, fault: Fault) -> Network {
        self.open_with(fault, None)
    }

    fn open_with(&self, fault: Fault, cni: Option<CniConfig>) -> Network {
        let mut config = NetworkConfig::new(self.state.path());
        config.cni = cni;
        config.machine_lock = self.state.path().join("machine.lock");
        config.fault = fault;
        Network::open(config).unwrap()
    }

    fn request(&self) -> AttachRequest {
        AttachRequest {
            sandbox: id(),
            pod: PodKey::new("default", "web", PodUid::new("web-uid").unwrap()),
            netns: PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.pod.as_raw_fd())),
            ports: vec![PortMapping { protocol: Protocol::Tcp, container_port: 80, host_port: 18_080, host_ip: None }],
        }
    }

    fn attach(&self, network: &Network) -> Result<Attachment, NetworkError> {
        block_on(network.attach(&self.request()))
    }

    /// Whatever is left of the Pod.
    fn traces(&self) -> Vec<String> {
        let mut traces: Vec<String> = fs::read_to_string("/proc/thread-self/net/dev")
            .unwrap()
            .lines()
            .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
            .filter(|name| name != "lo" && !name.starts_with("ifb") && !name.contains('|'))
            .collect();
        let tables = block_on(async { nlink::Connection::<Nftables>::new().unwrap().list_tables().await.unwrap() });
        traces.extend(tables.into_iter().map(|table| table.name));
        for directory in ["ipam", "ports", "sandboxes"] {
            for entry in fs::read_dir(self.state.path().join("network").join(directory)).unwrap() {
                traces.push(entry.unwrap().file_name().into_string().unwrap());
            }
        }
        traces.retain(|name| name != "last");
        for file in ["network/instance.json", "machine.sysctls.json"] {
            if self.state.path().join(file).exists() {
                traces.push(file.to_owned());
            }
        }
        traces
    }
}

fn id() -> SandboxId {
    SandboxId("web-sandbox".to_owned())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn expect(done: Result<(), NetworkError>) {
    done.unwrap_or_else(|error| panic!("{}", error_chain(&error)));
}

#[test]
fn an_attach_that_fails_at_any_step_is_undone_at_once() {
    in_own_namespace("an_attach_that_fails_at_any_step_is_undone_at_once", || {
        for step in ATTACHING {
            let case = Case::new();
            assert!(case.attach(&case.open(Fault::Fail(step))).is_err(), "{step:?}");
            assert_eq!(case.traces(), [""; 0], "{step:?}");
        }
    });
}

#[test]
fn a_crash_at_any_step_of_attach_is_undone_by_recovery_and_by_detach() {
    in_own_namespace("a_crash_at_any_step_of_attach_is_undone_by_recovery_and_by_detach", || {
        for step in ATTACHING {
            for recover in [true, false] {
                let case = Case::new();
                assert!(case.attach(&case.open(Fault::Crash(step))).is_err(), "{step:?}");
                assert_ne!(case.traces(), [""; 0], "{step:?}: a crash leaves something");
                let network = case.open(Fault::None);
                expect(match recover {
                    true => block_on(network.recover(&HashSet::new())),
                    false => block_on(network.detach(&id())),
                });
                assert_eq!(case.traces(), [""; 0], "{step:?} {recover}");
            }
        }
    });
}

#[test]
fn a_crash_at_any_step_of_attach_does_not_hinder_the_next_attach() {
    in_own_namespace("a_crash_at_any_step_of_attach_does_not_hinder_the_next_attach", || {
        for step in ATTACHING {
            let case = Case::new();
            assert!(case.attach(&case.open(Fault::Crash(step))).is_err(), "{step:?}");
            let network = case.open(Fault::None);
            let attached = case.attach(&network);
            attached.unwrap_or_else(|error| panic!("{step:?}: {}", error_chain(&error)));
            expect(block_on(network.detach(&id())));
            assert_eq!(case.traces(), [""; 0], "{step:?}");
        }
    });
}

#[test]
fn a_crash_or_failure_at_any_step_of_detach_is_finished_later() {
    in_own_namespace("a_crash_or_failure_at_any_step_of_detach_is_finished_later", || {
        for step in DETACHING {
            for fault in [Fault::Crash(step), Fault::Fail(step)] {
                let case = Case::new();
                let network = case.open(fault);
                case.attach(&network).unwrap();
                assert!(block_on(network.detach(&id())).is_err(), "{fault:?}");
                drop(network);
                let network = case.open(Fault::None);
                expect(block_on(network.recover(&HashSet::new())));
                assert_eq!(case.traces(), [""; 0], "{fault:?}");
            }
        }
    });
}

#[test]
fn recovery_with_lost_or_damaged_records_leaves_nothing() {
    in_own_namespace("recovery_with_lost_or_damaged_records_leaves_nothing", || {
        for damage in ["", "{", "gone"] {
            let case = Case::new();
            case.attach(&case.open(Fault::None)).unwrap();
            let record = case.state.path().join("network/sandboxes/web-sandbox.json");
            match damage {
                "gone" => fs::remove_file(&record).unwrap(),
                text => fs::write(&record, text).unwrap(),
            }
            expect(block_on(case.open(Fault::None).recover(&HashSet::new())));
            assert_eq!(case.traces(), [""; 0], "{damage:?}");
        }
    });
}

/// CNI plugins that write down how they were called, in `calls`, and answer from `answer`.
fn plugins(directory: &Path, plugins: &[(&str, &str)]) -> CniConfig {
    let config = CniConfig {
        conf_dir: directory.join("net.d"),
        bin_dirs: vec![directory.join("bin")],
        timeout: Duration::from_secs(10),
    };
    fs::create_dir_all(&config.conf_dir).unwrap();
    fs::create_dir_all(&config.bin_dirs[0]).unwrap();
    let calls = directory.join("calls");
    for (name, then) in plugins {
        let script = format!(
            "#!/bin/sh\nread -r input || :\nprintf '%s %s %s %s %s\\n' \"$CNI_COMMAND\" {name} \"$CNI_IFNAME\" \"$CNI_ARGS\" \"$input\" >> {calls}\n{then}\n",
            calls = calls.display()
        );
        let path = config.bin_dirs[0].join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let chain: Vec<String> = plugins
        .iter()
        .map(|(name, _)| format!(r#"{{"type":"{name}","capabilities":{{"portMappings":{}}}}}"#, *name == "second"))
        .collect();
    let list = format!(r#"{{"cniVersion":"1.0.0","name":"pods","plugins":[{}]}}"#, chain.join(","));
    fs::write(config.conf_dir.join("10-pods.conflist"), list).unwrap();
    config
}

const ANSWER: &str = r#"[ "$CNI_COMMAND" = ADD ] && printf '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"x"}],"ips":[{"address":"10.1.2.3/24","gateway":"10.1.2.1","interface":0}]}'"#;
const REFUSE_ADD: &str = r#"[ "$CNI_COMMAND" = ADD ] && { printf '{"cniVersion":"1.0.0","code":11,"msg":"no luck","details":"today"}'; exit 1; }"#;

impl Case {
    /// The calls so far, as `COMMAND plugin`.
    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.state.path().join("calls")).unwrap_or_default();
        text.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
    }

    fn call(&self, nth: usize) -> String {
        fs::read_to_string(self.state.path().join("calls")).unwrap().lines().nth(nth).unwrap().to_owned()
    }
}

fn ok(then: &str) -> String {
    format!("{then}\nexit 0")
}

#[test]
fn plugins_are_added_in_order_with_each_others_results_and_deleted_in_reverse() {
    in_own_namespace("plugins_are_added_in_order_with_each_others_results_and_deleted_in_reverse", || {
        let case = Case::new();
        let cni = plugins(case.state.path(), &[("first", &ok(ANSWER)), ("second", &ok(ANSWER))]);
        let network = case.open_with(Fault::None, Some(cni));
        let attached = case.attach(&network).unwrap();
        assert_eq!(attached.ips, ["10.1.2.3".parse::<std::net::IpAddr>().unwrap()]);
        assert_eq!(attached.gateway, Some("10.1.2.1".parse().unwrap()));
        let (first, second) = (case.call(0), case.call(1));
        let arguments =
            "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=web-sandbox;K8S_POD_UID=web-uid";
        assert!(first.contains("first eth0 IgnoreUnknown=1;") && first.contains(arguments), "{first}");
        assert!(!first.contains("prevResult") && !first.contains("runtimeConfig"), "{first}");
        assert!(second.contains(r#""prevResult":{"#) && second.contains(r#""address":"10.1.2.3/24""#), "{second}");
        assert!(second.contains(r#""hostPort":18080"#), "{second}");
        // DEL works from disk, with the configuration as it was.
        drop(network);
        fs::write(case.state.path().join("net.d/10-pods.conflist"), "{}").unwrap();
        let directory = case.state.path();
        let cni = CniConfig {
            conf_dir: directory.join("net.d"),
            bin_dirs: vec![directory.join("bin")],
            ..CniConfig::default()
        };
        expect(block_on(case.open_with(Fault::None, Some(cni)).detach(&id())));
        assert_eq!(case.calls(), ["ADD first", "ADD second", "DEL second", "DEL first"]);
        assert!(case.call(2).contains("prevResult"), "{}", case.call(2));
        assert_eq!(case.traces(), [""; 0]);
    });
}

#[test]
fn a_plugin_that_refuses_is_told_in_its_words_and_all_are_deleted() {
    in_own_namespace("a_plugin_that_refuses_is_told_in_its_words_and_all_are_deleted", || {
        let case = Case::new();
        let cni = plugins(case.state.path(), &[("first", &ok(ANSWER)), ("second", &ok(REFUSE_ADD))]);
        let error = case.attach(&case.open_with(Fault::None, Some(cni))).unwrap_err();
        let text = error_chain(&error);
        assert_eq!(text, "cni network pods: plugin second refused ADD: no luck (today), code 11");
        assert_eq!(case.calls(), ["ADD first", "ADD second", "DEL second", "DEL first"]);
        assert_eq!(case.traces(), [""; 0]);
    });
}

#[test]
fn a_plugin_that_hangs_or_talks_nonsense_is_an_error() {
    in_own_namespace("a_plugin_that_hangs_or_talks_nonsense_is_an_error", || {
        let rows = [
            (r#"[ "$CNI_COMMAND" = ADD ] && exec sleep 60; exit 0"#, "did not finish ADD within 300ms"),
            ("echo nonsense", "gave an unreadable result"),
            ("[ $CNI_COMMAND = ADD ] || exit 0; echo trouble >&2; exit 3", "refused ADD: trouble"),
            ("echo '{}'", "gave the pod no address"),
        ];
        for (then, expected) in rows {
            let case = Case::new();
            let mut cni = plugins(case.state.path(), &[("first", then)]);
            if then.contains("sleep") {
                cni.timeout = Duration::from_millis(300);
            }
            let text = error_chain(&case.attach(&case.open_with(Fault::None, Some(cni))).unwrap_err());
            assert!(text.contains(expected), "{text}");
            assert_eq!(case.traces(), [""; 0]);
        }
    });
}

#[test]
fn a_crash_in_the_middle_of_a_chain_is_undone_by_recovery() {
    in_own_namespace("a_crash_in_the_middle_of_a_chain_is_undone_by_recovery", || {
        for step in [Step::Recorded, Step::Linked, Step::Configured] {
            let case = Case::new();
            let cni = plugins(case.state.path(), &[("first", &ok(ANSWER)), ("second", &ok(ANSWER))]);
            assert!(case.attach(&case.open_with(Fault::Crash(step), Some(cni.clone()))).is_err());
            let network = case.open_with(Fault::None, Some(cni));
            expect(block_on(network.recover(&HashSet::new())));
            assert_eq!(case.calls()[case.calls().len() - 2..], ["DEL second", "DEL first"], "{step:?}");
            assert_eq!(case.traces(), [""; 0], "{step:?}");
        }
    });
}

#[test]
fn a_del_that_fails_keeps_the_record_and_is_tried_again() {
    in_own_namespace("a_del_that_fails_keeps_the_record_and_is_tried_again", || {
        let case = Case::new();
        let stubborn =
            format!("{ANSWER}\n[ \"$CNI_COMMAND\" = ADD ] || [ -e {}/give-in ]", case.state.path().display());
        let cni = plugins(case.state.path(), &[("first", &ok(ANSWER)), ("second", &stubborn)]);
        let network = case.open_with(Fault::None, Some(cni));
        case.attach(&network).unwrap();
        assert!(block_on(network.detach(&id())).is_err());
        assert!(case.calls().ends_with(&["DEL second".to_owned(), "DEL first".to_owned()]), "the others are called");
        assert_ne!(case.traces(), [""; 0]);
        fs::write(case.state.path().join("give-in"), "").unwrap();
        expect(block_on(network.recover(&HashSet::new())));
        assert_eq!(case.traces(), [""; 0]);
    });
}
