//! Tests of sandbox and container specs.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::{PodKey, PodUid};
use minke_core::resources::{LimitFacts, ResourceList};
use minke_core::runtime::{
    ContainerConfig, DnsConfig, EnvVar, IdMapping, ImageId, ImageStatus, ImageUser, Mount, MountPropagation,
    NamespaceMode, Protocol, RunAs, SeccompProfile, labels,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn pod(spec: &Value) -> Pod {
    let mut whole = json!({"containers": [{"name": "c", "image": "a:1"}]});
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let metadata =
        json!({"name": "web", "namespace": "ns", "uid": "u1", "labels": {"app": "x"}, "annotations": {"n": "v"}});
    serde_json::from_value(json!({"metadata": metadata, "spec": whole})).unwrap()
}

fn node() -> NodeSettings {
    NodeSettings {
        name: "here".to_owned(),
        host_ips: vec!["192.0.2.1".parse().unwrap()],
        log_directory: PathBuf::from("/var/log/pods"),
        state_directory: PathBuf::from("/state"),
        cgroup_root: "/minke".to_owned(),
        cluster_domain: "cluster.local".to_owned(),
        host_dns: DnsConfig {
            servers: vec!["192.0.2.53".to_owned()],
            searches: vec!["example".to_owned()],
            options: vec!["ndots:1".to_owned()],
        },
        limits: LimitFacts { memory_bytes: 4 << 30, pod_pids_limit: Some(500) },
        allocatable: ResourceList::new(),
    }
}

fn sandbox(spec: &Value) -> Result<SandboxSpec, SpecError> {
    let pod = pod(spec);
    let key = PodKey::of(&pod).unwrap();
    let user_namespace = Some(IdMapping { host_id: 131_072, length: 65_536 });
    sandbox_config(&SandboxInput { pod: &pod, key: &key, attempt: 3, node: &node(), user_namespace })
}

fn container_of(pod: &Pod, user: ImageUser, env: &[EnvVar], mounts: &[Mount]) -> Result<ContainerConfig, SpecError> {
    let key = PodKey::of(pod).unwrap();
    let image = ImageStatus {
        id: ImageId("sha256:1".to_owned()),
        tags: vec![],
        digests: vec![],
        size_bytes: 1,
        user,
        pinned: false,
    };
    container_config(&ContainerInput {
        pod,
        key: &key,
        container: &pod.spec.as_ref().unwrap().containers[0],
        attempt: 2,
        image: &image,
        env,
        volume_mounts: mounts,
        hosts_file: Some(Path::new("/state/etc-hosts")),
        termination_log: Some(Path::new("/state/term")),
        node: &node(),
    })
}

fn container(fields: &Value) -> Result<ContainerConfig, SpecError> {
    container_in(&json!({}), fields, ImageUser::Root)
}

fn container_in(spec: &Value, fields: &Value, user: ImageUser) -> Result<ContainerConfig, SpecError> {
    let mut own = json!({"name": "c", "image": "a:1"});
    for (key, value) in fields.as_object().unwrap() {
        own[key] = value.clone();
    }
    let mut spec = spec.clone();
    spec["containers"] = json!([own]);
    container_of(&pod(&spec), user, &[], &[])
}

#[test]
fn a_plain_sandbox() {
    let spec = sandbox(&json!({})).unwrap();
    let config = spec.config;
    assert_eq!((config.hostname.as_str(), config.attempt), ("web", 3));
    assert_eq!(config.log_directory, Path::new("/var/log/pods/ns_web_u1"));
    assert_eq!(config.cgroup_parent, "/minke/besteffort/podu1");
    assert_eq!(config.labels["app"], "x");
    assert_eq!(config.labels[labels::POD_NAME], "web");
    assert_eq!(config.labels[labels::POD_NAMESPACE], "ns");
    assert_eq!(config.labels[labels::POD_UID], "u1");
    assert_eq!(config.annotations["n"], "v");
    assert_eq!(config.resources.pids_limit, Some(500));
    assert_eq!(config.seccomp, SeccompProfile::RuntimeDefault);
    assert_eq!(config.namespaces.pid, NamespaceMode::Container);
    assert_eq!(config.namespaces.user, None);
    assert_eq!(config.dns, Some(node().host_dns));
    assert!(!config.privileged && config.port_mappings.is_empty() && config.sysctls.is_empty());
}

#[test]
fn cgroups_by_class() {
    let cgroup = |resources: Value| {
        sandbox(&json!({"containers": [{"name": "c", "resources": resources}]})).unwrap().config.cgroup_parent
    };
    assert_eq!(cgroup(json!({"requests": {"cpu": "1"}})), "/minke/burstable/podu1");
    assert_eq!(
        cgroup(json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}})),
        "/minke/podu1"
    );
}

#[test]
fn names_of_a_pod() {
    let names = |spec: Value| {
        let names = pod_names(&pod(&spec), "here", "cluster.local").unwrap();
        (names.hostname, names.short, names.domain)
    };
    let three = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    assert_eq!(names(json!({})), three("web", "web", ""));
    assert_eq!(names(json!({"hostname": "h"})), three("h", "h", ""));
    assert_eq!(names(json!({"hostname": "h", "subdomain": "s"})), three("h", "h", "s.ns.svc.cluster.local"));
    let fqdn = json!({"hostname": "h", "subdomain": "s", "setHostnameAsFQDN": true});
    assert_eq!(names(fqdn), three("h.s.ns.svc.cluster.local", "h", "s.ns.svc.cluster.local"));
    assert_eq!(names(json!({"setHostnameAsFQDN": true})), three("web", "web", ""));
    assert_eq!(names(json!({"hostNetwork": true})), three("here", "here", ""));
    assert_eq!(
        names(json!({"hostnameOverride": "over.example", "subdomain": "s"})),
        three("over.example", "over.example", "")
    );
}

#[test]
fn long_names_are_cut_and_long_fqdns_refused() {
    let mut long = pod(&json!({}));
    long.metadata.name = Some(format!("{}-x", "a".repeat(62)));
    assert_eq!(pod_names(&long, "here", "").unwrap().hostname, "a".repeat(62));
    let spec = json!({"hostname": "h".repeat(50), "subdomain": "s", "setHostnameAsFQDN": true});
    let words = sandbox(&spec).unwrap_err().to_string();
    assert!(words.starts_with("Failed to construct FQDN from Pod hostname and cluster domain, FQDN hhh"), "{words}");
    assert!(words.ends_with("is too long (64 is the max, 73 characters requested)"), "{words}");
}

fn dns(spec: &Value) -> PodDns {
    pod_dns(&pod(spec), &node().host_dns)
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|t| (*t).to_owned()).collect()
}

#[test]
fn dns_policies() {
    for policy in ["Default", "ClusterFirst"] {
        assert_eq!(dns(&json!({"dnsPolicy": policy})).config, Some(node().host_dns), "{policy}");
    }
    assert_eq!(dns(&json!({"hostNetwork": true})).config, None);
    let own = json!({"nameservers": ["203.0.113.1"], "searches": ["s"], "options": [{"name": "ndots", "value": "5"}, {"name": "edns0"}]});
    let none = dns(&json!({"dnsPolicy": "None", "dnsConfig": own})).config.unwrap();
    assert_eq!(none.servers, ["203.0.113.1"]);
    assert_eq!(none.options, ["ndots:5", "edns0"]);
    let merged = dns(&json!({"dnsConfig": own})).config.unwrap();
    assert_eq!(merged.servers, ["192.0.2.53", "203.0.113.1"]);
    assert_eq!(merged.searches, ["example", "s"]);
    assert_eq!(merged.options, ["ndots:5", "edns0"]);
    assert!(dns(&json!({"hostNetwork": true, "dnsConfig": own})).config.is_some());
}

#[test]
fn dns_limits_are_kept_with_a_warning() {
    let own = json!({"nameservers": ["1.1.1.1", "1.1.1.1", "2.2.2.2", "3.3.3.3"]});
    let found = dns(&json!({"dnsConfig": own}));
    assert_eq!(found.config.unwrap().servers, ["192.0.2.53", "1.1.1.1", "2.2.2.2"]);
    assert_eq!(
        found.warnings,
        [
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 192.0.2.53 1.1.1.1 2.2.2.2"
        ]
    );
    let many: Vec<String> = (0..40).map(|n| format!("s{n}")).collect();
    let found = dns(&json!({"dnsPolicy": "None", "dnsConfig": {"searches": many}}));
    assert_eq!(found.config.unwrap().searches.len(), MAX_SEARCHES);
    assert_eq!(found.warnings.len(), 1);
    let long: Vec<String> = (0..10).map(|n| format!("{n}{}", "x".repeat(250))).collect();
    let found = dns(&json!({"dnsPolicy": "None", "dnsConfig": {"searches": long}}));
    assert_eq!(found.config.unwrap().searches.len(), 8);
}

#[test]
fn resolv_conf_is_read_as_resolvers_do() {
    let text = "# c\nnameserver 1.1.1.1 x\nnameserver\t::1 ; c\ndomain old\nsearch a b .\noptions ndots:2\noptions edns0\nsortlist x\n";
    let config = parse_resolv_conf(text);
    assert_eq!(config.servers, ["1.1.1.1", "::1"]);
    assert_eq!(config.searches, ["a", "b"]);
    assert_eq!(config.options, ["edns0"]);
    assert_eq!(parse_resolv_conf(""), DnsConfig::default());
}

#[test]
fn host_ports_become_mappings() {
    let ports = json!([
        {"containerPort": 80, "hostPort": 8080},
        {"containerPort": 80, "hostPort": 8080},
        {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "127.0.0.1"},
        {"containerPort": 9},
    ]);
    let spec = |host: bool| json!({"hostNetwork": host, "containers": [{"name": "c", "ports": ports}]});
    let mappings = sandbox(&spec(false)).unwrap().config.port_mappings;
    assert_eq!(mappings.len(), 2);
    assert_eq!((mappings[0].container_port, mappings[0].host_port, mappings[0].host_ip), (80, 8080, None));
    assert_eq!((mappings[1].protocol, mappings[1].host_ip), (Protocol::Udp, Some("127.0.0.1".parse().unwrap())));
    assert_eq!(sandbox(&spec(true)).unwrap().config.port_mappings, []);
    let bad = |port: Value| sandbox(&json!({"containers": [{"name": "c", "ports": [port]}]})).unwrap_err().to_string();
    assert_eq!(bad(json!({"containerPort": 80, "hostPort": 70000})), "hostPort 70000 is not between 1 and 65535");
    assert_eq!(bad(json!({"containerPort": 80, "hostPort": 1, "hostIP": "x"})), "hostIP \"x\" is not an IP address");
}

#[test]
fn namespaces_of_host_and_pod() {
    let of = |spec: Value| sandbox(&spec).unwrap().config.namespaces;
    let host = of(json!({"hostNetwork": true, "hostPID": true, "hostIPC": true}));
    assert_eq!((host.network, host.pid, host.ipc), (NamespaceMode::Node, NamespaceMode::Node, NamespaceMode::Node));
    assert_eq!(of(json!({"shareProcessNamespace": true})).pid, NamespaceMode::Pod);
    assert_eq!(of(json!({"shareProcessNamespace": true, "hostPID": true})).pid, NamespaceMode::Node);
    assert_eq!(of(json!({"hostUsers": false})).user.unwrap().host_id, 131_072);
    assert_eq!(of(json!({"hostUsers": true})).user, None);
}

#[test]
fn sysctls_privilege_and_runtime_class() {
    let config = sandbox(&json!({
        "securityContext": {"sysctls": [{"name": "net/ipv4/conf/eth0.1/forwarding", "value": "1"}, {"name": "kernel.sem", "value": "2"}]},
        "initContainers": [{"name": "i", "securityContext": {"privileged": true}}],
    }))
    .unwrap()
    .config;
    assert!(config.privileged);
    assert_eq!(config.sysctls["net.ipv4.conf.eth0/1.forwarding"], "1");
    assert_eq!(config.sysctls["kernel.sem"], "2");
    assert!(matches!(sandbox(&json!({"runtimeClassName": "gvisor"})), Err(SpecError::NoRuntimeClass(_))));
}

#[test]
fn a_plain_container() {
    let config = container(&json!({"command": ["sh"], "args": ["-c", "x"], "workingDir": "/w", "stdin": true, "stdinOnce": true, "tty": true})).unwrap();
    assert_eq!((config.name.as_str(), config.attempt, config.image_name.as_str()), ("c", 2, "a:1"));
    assert_eq!((config.command, config.args), (texts(&["sh"]), texts(&["-c", "x"])));
    assert_eq!(config.working_dir.as_deref(), Some(Path::new("/w")));
    assert_eq!(config.log_path, Path::new("c/2.log"));
    assert!(config.stdin && config.stdin_once && config.tty);
    assert_eq!(config.labels[labels::CONTAINER_NAME], "c");
    assert_eq!(config.annotations[labels::RESTART_COUNT], "2");
    assert_eq!(config.annotations[labels::TERMINATION_MESSAGE_PATH], "/dev/termination-log");
    assert_eq!(config.annotations[labels::TERMINATION_MESSAGE_POLICY], "File");
    assert_eq!(config.annotations[labels::HASH].len(), 16);
    assert_eq!(config.stop_signal, None);
    let signal = container(&json!({"lifecycle": {"stopSignal": "SIGUSR1"}})).unwrap();
    assert_eq!(signal.stop_signal.as_deref(), Some("SIGUSR1"));
}

#[test]
fn commands_see_the_environment() {
    let pod = pod(&json!({"containers": [{"name": "c", "command": ["$(A)"], "args": ["$(B)"]}]}));
    let env = [EnvVar { name: "A".to_owned(), value: "x".to_owned() }];
    let config = container_of(&pod, ImageUser::Root, &env, &[]).unwrap();
    assert_eq!((config.command, config.args), (texts(&["x"]), texts(&["$(B)"])));
    assert_eq!(config.env, env);
}

fn mount(path: &str) -> Mount {
    Mount {
        host_path: PathBuf::from("/host"),
        container_path: PathBuf::from(path),
        read_only: false,
        recursive_read_only: false,
        propagation: MountPropagation::Private,
    }
}

#[test]
fn mounts_stand_parents_first_and_volumes_win() {
    let paths = |mounts: &[&str], fields: Value| -> Vec<String> {
        let mut own = json!({"name": "c"});
        for (key, value) in fields.as_object().unwrap() {
            own[key] = value.clone();
        }
        let mounts: Vec<Mount> = mounts.iter().map(|path| mount(path)).collect();
        let config = container_of(&pod(&json!({"containers": [own]})), ImageUser::Root, &[], &mounts).unwrap();
        config.mounts.iter().map(|m| m.container_path.display().to_string()).collect()
    };
    assert_eq!(
        paths(&["/a/b/c", "/a", "/a/b"], json!({})),
        ["/a", "/a/b", "/etc/hosts", "/dev/termination-log", "/a/b/c"]
    );
    assert_eq!(paths(&["/etc/hosts"], json!({"terminationMessagePath": "/t"})), ["/t", "/etc/hosts"]);
}

#[test]
fn security_context_of_pod_and_container_merge() {
    let pod = json!({"securityContext": {
        "runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "supplementalGroups": [4, 3, 4],
        "supplementalGroupsPolicy": "Strict", "seccompProfile": {"type": "Unconfined"},
    }});
    let outer = container_in(&pod, &json!({}), ImageUser::Root).unwrap().security;
    assert_eq!((outer.run_as, outer.run_as_group), (RunAs::Uid(1), Some(2)));
    assert_eq!(outer.supplemental_groups, [3, 4]);
    assert!(outer.strict_supplemental_groups);
    assert_eq!(outer.seccomp, SeccompProfile::Unconfined);
    let own = json!({"securityContext": {
        "runAsUser": 10, "runAsGroup": 20, "seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"},
        "capabilities": {"add": ["CAP_NET_ADMIN", "sys_time"], "drop": ["ALL"]},
        "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "procMount": "Unmasked",
    }});
    let own = container_in(&pod, &own, ImageUser::Root).unwrap().security;
    assert_eq!((own.run_as, own.run_as_group), (RunAs::Uid(10), Some(20)));
    assert_eq!(own.seccomp, SeccompProfile::Localhost(PathBuf::from("/state/seccomp/a/b.json")));
    assert_eq!((own.capabilities.add, own.capabilities.drop), (texts(&["NET_ADMIN", "SYS_TIME"]), texts(&["ALL"])));
    assert!(own.read_only_root && own.no_new_privileges && own.unmasked_proc && !own.privileged);
}

#[test]
fn defaults_are_secure() {
    let security = container(&json!({})).unwrap().security;
    assert_eq!((security.run_as, security.seccomp), (RunAs::Image, SeccompProfile::RuntimeDefault));
    assert!(!security.privileged && !security.no_new_privileges && !security.unmasked_proc);
    let privileged = container(&json!({"securityContext": {"privileged": true}})).unwrap().security;
    assert_eq!(privileged.seccomp, SeccompProfile::Unconfined);
}

#[test]
fn run_as_non_root_in_upstreams_words() {
    let non_root = json!({"securityContext": {"runAsNonRoot": true}});
    let with =
        |fields: Value, user: ImageUser| container_in(&non_root, &fields, user).map(|_| ()).map_err(|e| e.to_string());
    let image_root = "container has runAsNonRoot and image will run as root (pod: \"web_ns(u1)\", container: c)";
    assert_eq!(with(json!({}), ImageUser::Root), Err(image_root.to_owned()));
    assert_eq!(with(json!({}), ImageUser::Uid(0)), Err(image_root.to_owned()));
    assert_eq!(with(json!({}), ImageUser::Uid(5)), Ok(()));
    assert_eq!(
        with(json!({}), ImageUser::Name("app".to_owned())),
        Err("container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root (pod: \"web_ns(u1)\", container: c)".to_owned())
    );
    assert_eq!(
        with(json!({"securityContext": {"runAsUser": 0}}), ImageUser::Uid(5)),
        Err("container's runAsUser breaks non-root policy (pod: \"web_ns(u1)\", container: c)".to_owned())
    );
    assert_eq!(with(json!({"securityContext": {"runAsUser": 7}}), ImageUser::Root), Ok(()));
    assert_eq!(with(json!({"securityContext": {"runAsNonRoot": false}}), ImageUser::Root), Ok(()));
}

#[test]
fn ids_and_profiles_that_can_not_be() {
    let words = |context: Value| container(&json!({"securityContext": context})).unwrap_err().to_string();
    assert_eq!(words(json!({"runAsUser": -1})), "runAsUser -1 is not between 0 and 4294967294");
    assert_eq!(
        words(json!({"runAsGroup": 4_294_967_295_i64})),
        "runAsGroup 4294967295 is not between 0 and 4294967294"
    );
    for path in ["", "/etc/x", "../x", "a/../../x"] {
        let profile = json!({"seccompProfile": {"type": "Localhost", "localhostProfile": path}});
        assert!(words(profile).starts_with("seccomp profile"), "{path}");
    }
    assert_eq!(words(json!({"seccompProfile": {"type": "Odd"}})), "unknown seccomp profile type \"Odd\"");
    assert!(matches!(
        container(&json!({"volumeDevices": [{"name": "v", "devicePath": "/d"}]})),
        Err(SpecError::Unsupported(_))
    ));
}

#[test]
fn hashes_change_with_what_they_stand_for() {
    let of = |fields: Value| {
        let container = serde_json::from_value(fields).unwrap();
        (container_hash(&container), backoff_hash(&container))
    };
    let base = of(json!({"name": "c", "image": "a:1"}));
    assert_eq!(base, of(json!({"name": "c", "image": "a:1", "args": ["x"]})));
    assert_ne!(base.0, of(json!({"name": "c", "image": "a:2"})).0);
    let resources = of(json!({"name": "c", "image": "a:1", "resources": {"limits": {"cpu": "1"}}}));
    assert_eq!(base.0, resources.0);
    assert_ne!(base.1, resources.1);
}

fn uid(n: u32) -> PodUid {
    PodUid::new(format!("pod{n}")).unwrap()
}

#[test]
fn id_ranges_are_given_recovered_and_released() {
    let mut ranges = IdRanges::new(65_536, 2);
    let first = ranges.allocate(&uid(1)).unwrap();
    assert_eq!((first.host_id, first.length), (65_536, 65_536));
    assert_eq!(ranges.allocate(&uid(1)), Ok(first), "the same pod keeps its range");
    ranges.allocate(&uid(2)).unwrap();
    assert_eq!(ranges.allocate(&uid(3)), Err(NoFreeRange(2)));
    ranges.release(&uid(1));
    ranges.release(&uid(1));
    assert_eq!(ranges.allocate(&uid(3)), Ok(first));
    assert!(matches!(ranges.recover(&uid(4), first), Err(RecoverError::Taken { .. })));
    assert_eq!(ranges.recover(&uid(3), first), Ok(()));
    let odd = IdMapping { host_id: 65_537, length: 65_536 };
    assert_eq!(ranges.recover(&uid(4), odd), Err(RecoverError::NotARange(odd)));
}

proptest! {
    /// The model: no two Pods ever share an id, whatever is allocated, recovered and released.
    #[test]
    fn no_two_pods_share_an_id(steps in prop::collection::vec((0_u32..6, 0_u8..3), 1..60)) {
        let mut ranges = IdRanges::new(0, 4);
        let mut model = std::collections::BTreeMap::new();
        for (pod, step) in steps {
            match step {
                0 => {
                    ranges.release(&uid(pod));
                    model.remove(&pod);
                }
                1 => {
                    let range = IdMapping { host_id: (pod % 4 + 1) * 65_536, length: 65_536 };
                    if !model.contains_key(&pod) && ranges.recover(&uid(pod), range).is_ok() {
                        model.insert(pod, range);
                    }
                }
                _ => {
                    if let Ok(range) = ranges.allocate(&uid(pod)) {
                        model.insert(pod, range);
                    } else {
                        prop_assert_eq!(model.len(), 4);
                    }
                }
            }
            let mut starts: Vec<u32> = model.values().map(|r| r.host_id).collect();
            starts.sort_unstable();
            prop_assert!(starts.windows(2).all(|pair| pair[0] + 65_536 <= pair[1]) && starts.iter().all(|s| *s >= 65_536));
        }
    }
}
