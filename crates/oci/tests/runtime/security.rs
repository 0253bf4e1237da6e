//! Every securityContext row, seen from inside a container.

use minke_core::runtime::{
    CapabilityChanges, ContainerService, Device, IdMapping, Mount, MountPropagation, NamespaceMode, RunAs,
    RuntimeError, SandboxService, SeccompProfile,
};

use crate::machine::{Machine, chain, code, eventually};

const DEFAULT_CAPABILITIES: u64 = 0x0000_0000_a804_25fb;

fn hex_of(text: &str, key: &str) -> u64 {
    let line = text.lines().find(|l| l.starts_with(key)).unwrap_or_else(|| panic!("no {key} in {text}"));
    u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap()
}

pub(crate) async fn an_ordinary_container_is_confined() {
    let m = Machine::new().await;
    let script = "cat /proc/self/status; echo ns $(readlink /proc/self/ns/pid); \
        test -e /proc/kcore && head -c1 /proc/kcore | wc -c; \
        (echo x > /proc/sys/kernel/domainname) 2>/dev/null && echo WROTE proc/sys; mkdir /sys/x 2>/dev/null && echo WROTE sys; \
        mkdir /sys/fs/cgroup/x 2>/dev/null && echo WROTE cgroup; \
        for c in /sys/fs/cgroup/*/; do mkdir $c/x 2>/dev/null && echo WROTE $c; done; \
        ls /sys/firmware | wc -l; unshare -m true 2>/dev/null && echo UNSHARED; \
        mount -t tmpfs x /tmp 2>/dev/null && echo MOUNTED; \
        mknod /tmp/disk b 254 0 && head -c1 /tmp/disk 2>/dev/null | wc -c; \
        ls /dev; true";
    let (text, exit) = m.output(|_, _| {}, script).await;
    assert_eq!(code(&exit), 0, "{text}");
    assert_eq!(hex_of(&text, "CapEff"), DEFAULT_CAPABILITIES & own_bounding(), "{text}");
    assert_eq!(hex_of(&text, "CapBnd"), DEFAULT_CAPABILITIES & own_bounding());
    assert_eq!((hex_of(&text, "CapInh"), hex_of(&text, "CapAmb")), (0, 0));
    assert!(text.contains("Seccomp:\t2\n") && text.contains("NoNewPrivs:\t0\n"), "{text}");
    for forbidden in ["WROTE", "UNSHARED", "MOUNTED"] {
        assert!(!text.contains(forbidden), "{text}");
    }
    // The masked file (where this kernel has it) is empty, the masked directory too, and the disk could be made but
    // not opened.
    assert!(text.contains("\n0\n0\n") && !text.contains("\n1\n"), "{text}");
    for device in ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "mqueue", "fd", "stdin"] {
        assert!(text.lines().any(|l| l == device), "no /dev/{device} in {text}");
    }
    m.close().await;
}

fn own_bounding() -> u64 {
    hex_of(&std::fs::read_to_string("/proc/self/status").unwrap(), "CapBnd")
}

pub(crate) async fn user_group_and_supplementary_groups() {
    let m = Machine::new().await;
    let (text, _) = m
        .output(
            |_, c| {
                c.security.run_as = RunAs::Uid(1000);
                c.security.run_as_group = Some(3000);
                c.security.supplemental_groups = vec![4000];
            },
            "id -u; id -g; id -G; grep -E '^Cap(Eff|Prm)' /proc/self/status; echo $HOME; echo ok > /dev/stdout",
        )
        .await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..3], ["1000", "3000", "3000 2000 4000"], "{text}");
    assert_eq!((hex_of(&text, "CapEff"), hex_of(&text, "CapPrm")), (0, 0));
    assert_eq!(lines[5..], ["/home/app", "ok"]);
    let (text, _) = m
        .output(
            |_, c| {
                c.security.run_as = RunAs::Name("app".into());
                c.security.strict_supplemental_groups = true;
            },
            "id -G",
        )
        .await;
    assert_eq!(text, "1000\n");
    let sandbox = m.sandbox("nobody");
    let pod = m.runtime.run_sandbox(&sandbox).await.unwrap();
    let mut config = m.shell("true");
    config.security.run_as = RunAs::Name("nosuch".into());
    let error = m.runtime.create_container(&pod, &config, &sandbox).await.unwrap_err();
    assert!(matches!(&error, RuntimeError::Invalid { .. }) && chain(&error).contains("\"nosuch\""), "{error}");
    m.close().await;
}

pub(crate) async fn capabilities_are_added_and_dropped() {
    let m = Machine::new().await;
    let script = "grep -E '^Cap(Eff|Bnd)' /proc/self/status";
    let change = |add: &[&str], drop: &[&str]| CapabilityChanges {
        add: add.iter().map(|c| (*c).into()).collect(),
        drop: drop.iter().map(|c| (*c).into()).collect(),
    };
    let (text, _) = m.output(|_, c| c.security.capabilities = change(&["NET_ADMIN"], &[]), script).await;
    assert_eq!(hex_of(&text, "CapEff"), (DEFAULT_CAPABILITIES | 1 << 12) & own_bounding());
    let (text, _) = m.output(|_, c| c.security.capabilities = change(&["KILL"], &["ALL"]), script).await;
    assert_eq!((hex_of(&text, "CapEff"), hex_of(&text, "CapBnd")), (1 << 5, 1 << 5));
    // All that this machine has: what it lacks is left out instead of failing.
    let (text, _) = m.output(|_, c| c.security.capabilities = change(&["ALL"], &[]), script).await;
    assert_eq!(hex_of(&text, "CapEff"), own_bounding());
    // An ordinary user's program gets none, but a setuid one may have the bounding ones.
    let nonroot = |c: &mut minke_core::runtime::ContainerConfig| {
        c.security.capabilities = change(&["NET_ADMIN"], &["ALL"]);
        c.security.run_as = RunAs::Uid(1000);
    };
    let (text, _) = m.output(|_, c| nonroot(c), script).await;
    assert_eq!((hex_of(&text, "CapEff"), hex_of(&text, "CapBnd")), (0, 1 << 12));
    m.close().await;
}

pub(crate) async fn a_privileged_container_may_everything() {
    let m = Machine::new().await;
    let script = "grep -E '^(CapEff|Seccomp:)' /proc/self/status; mount -t tmpfs x /tmp && echo MOUNTED; \
        test -c /dev/kmsg && echo kmsg; touch /proc/sys/kernel/core_pattern && echo sys; test -e /proc/kcore && echo kcore";
    let (text, _) = m
        .output(
            |s, c| {
                s.privileged = true;
                c.security.privileged = true;
            },
            script,
        )
        .await;
    assert_eq!(hex_of(&text, "CapEff"), own_bounding());
    assert!(text.contains("Seccomp:\t0\n") && text.contains("MOUNTED\n") && text.contains("sys\n"), "{text}");
    assert_eq!(text.contains("kmsg"), std::path::Path::new("/dev/kmsg").exists(), "{text}");
    m.close().await;
}

pub(crate) async fn no_new_privileges_and_read_only_root() {
    let m = Machine::new().await;
    let script = "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; touch /x 2>/dev/null && echo WROTE; \
        touch /etc/hostname 2>/dev/null && echo WROTE; touch /dev/shm/x && echo shm; cat /etc/hostname";
    let (text, _) = m
        .output(
            |_, c| {
                c.security.no_new_privileges = true;
                c.security.read_only_root = true;
            },
            script,
        )
        .await;
    assert!(text.contains("NoNewPrivs:\t1\nSeccomp:\t2\n") && !text.contains("WROTE"), "{text}");
    assert!(text.contains("shm\nout\n"), "{text}");
    m.close().await;
}

pub(crate) async fn seccomp_profiles_are_loaded_or_the_container_does_not_start() {
    let m = Machine::new().await;
    let profile = m.temp.root().join("p.json");
    let set =
        |c: &mut minke_core::runtime::ContainerConfig| c.security.seccomp = SeccompProfile::Localhost(profile.clone());
    std::fs::write(
        &profile,
        r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[
            {"names":["mkdir","mkdirat","no_such_call"],"action":"SCMP_ACT_ERRNO","errnoRet":99}]}"#,
    )
    .unwrap();
    // Root, an ordinary user, with and without no_new_privs: always loaded, never with a capability to spare.
    for (uid, nnp) in [(0, false), (0, true), (1000, false), (1000, true)] {
        let (text, _) = m
            .output(
                |_, c| {
                    set(c);
                    c.security.run_as = RunAs::Uid(uid);
                    c.security.no_new_privileges = nnp;
                },
                "mkdir /tmp/x 2>&1; grep -E '^(Seccomp:|CapEff|CapBnd)' /proc/self/status",
            )
            .await;
        assert!(text.contains("Seccomp:\t2\n"), "{text}");
        assert!(text.to_lowercase().contains("mkdir: can't create directory '/tmp/x'"), "{text}");
        assert_eq!(hex_of(&text, "CapEff") & 1 << 21, 0, "CAP_SYS_ADMIN survived: {text}");
    }
    // A profile that forbids everything but the exec and the exit, capset among the forbidden.
    std::fs::write(
        &profile,
        r#"{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["execve","exit_group","exit","brk","mmap","munmap",
            "mprotect","arch_prctl","set_tid_address","set_robust_list","rseq","prlimit64","getrandom","readlink",
            "readlinkat","write","getuid","geteuid","getgid","getegid","uname","fstat","newfstatat","ioctl","futex",
            "rt_sigaction","rt_sigprocmask","getpid","getppid","time","prctl"],"action":"SCMP_ACT_ALLOW"}]}"#,
    )
    .unwrap();
    let (text, exit) = m
        .output(
            |_, c| {
                set(c);
                c.command = vec!["/bin/echo".into(), "strict".into()];
                c.args = vec![];
            },
            "",
        )
        .await;
    assert_eq!((text.as_str(), code(&exit)), ("strict\n", 0));
    let (text, _) =
        m.output(|_, c| c.security.seccomp = SeccompProfile::Unconfined, "grep Seccomp: /proc/self/status").await;
    assert_eq!(text, "Seccomp:\t0\n");

    let sandbox = m.sandbox("bad");
    let pod = m.runtime.run_sandbox(&sandbox).await.unwrap();
    for (content, words) in [("{}", "not valid"), (r#"{"defaultAction":"NO"}"#, "\"NO\"")] {
        std::fs::write(&profile, content).unwrap();
        let mut config = m.shell("true");
        set(&mut config);
        let error = m.runtime.create_container(&pod, &config, &sandbox).await.unwrap_err();
        assert!(matches!(error, RuntimeError::Invalid { .. }) && chain(&error).contains(words), "{}", chain(&error));
    }
    std::fs::remove_file(&profile).unwrap();
    let mut config = m.shell("true");
    set(&mut config);
    let error = m.runtime.create_container(&pod, &config, &sandbox).await.unwrap_err();
    assert!(chain(&error).contains("can't read seccomp profile"), "{}", chain(&error));
    m.close().await;
}

pub(crate) async fn the_default_profile_lets_ordinary_programs_be() {
    let m = Machine::new().await;
    let script = "(echo a | cat | grep a) && ls -la / >/dev/null && dd if=/dev/zero of=/tmp/f bs=1k count=10 2>/dev/null && \
        chown 1000:1000 /tmp/f && chmod 600 /tmp/f && ln /tmp/f /tmp/g && mkfifo /tmp/p && su app -c 'id -u' && \
        ping -c1 -W1 127.0.0.1 >/dev/null 2>&1; timeout 1 true && echo fine";
    let (text, _) = m.output(|_, _| {}, script).await;
    assert!(text.contains("1000\n") && text.ends_with("fine\n"), "{text}");
    m.close().await;
}

pub(crate) async fn mounts_are_as_asked() {
    let m = Machine::new().await;
    let host = m.temp.root().join("volume");
    std::fs::create_dir_all(host.join("sub")).unwrap();
    rustix::mount::mount("tmpfs", host.join("sub"), "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
    std::fs::write(m.temp.root().join("file"), "content\n").unwrap();
    let volume = |host_path: std::path::PathBuf, path: &str, read_only, recursive_read_only| Mount {
        host_path,
        container_path: path.into(),
        read_only,
        recursive_read_only,
        propagation: MountPropagation::Private,
    };
    let mounts = vec![
        volume(host.clone(), "/rw", false, false),
        volume(host.clone(), "/ro", true, false),
        volume(host.clone(), "/rro", true, true),
        volume(m.temp.root().join("file"), "/deep/in/the/file", true, false),
        volume(host.clone(), "/home/app/nested", false, false),
    ];
    let script = "for f in /rw/a /rw/sub/a /ro/b /ro/sub/b /rro/c /rro/sub/c; do touch $f 2>/dev/null && echo $f; done; \
        cat /deep/in/the/file; ls /home/app/nested; pwd";
    let (text, _) = m
        .output(
            |_, c| {
                c.mounts = mounts;
                c.working_dir = Some("/rw/made/here".into());
            },
            script,
        )
        .await;
    assert_eq!(text, "/rw/a\n/rw/sub/a\n/ro/sub/b\ncontent\na\nmade\nsub\n/rw/made/here\n");
    assert!(host.join("made/here").is_dir());
    rustix::mount::unmount(host.join("sub"), rustix::mount::UnmountFlags::DETACH).unwrap();
    m.close().await;
}

pub(crate) async fn mounts_made_later_show_as_the_propagation_says() {
    let m = Machine::new().await;
    let host = m.temp.root().join("shared");
    std::fs::create_dir_all(&host).unwrap();
    rustix::mount::mount_bind(&host, &host).unwrap();
    rustix::mount::mount_change(&host, rustix::mount::MountPropagationFlags::SHARED).unwrap();
    for dir in ["late", "inside"] {
        std::fs::create_dir_all(host.join(dir)).unwrap();
    }
    let sandbox = m.sandbox("propagation");
    let mut config = m.shell(
        "mount -t tmpfs x /both/inside; touch /both/inside/made; echo up; while [ ! -e /both/late/seen ]; do usleep 10000; done; \
         ls /slave/late | wc -l; ls /private/late | wc -l; ls /slave/inside | wc -l; while :; do usleep 10000; done",
    );
    config.security.privileged = true;
    let volume = |path: &str, propagation| Mount {
        host_path: host.clone(),
        container_path: path.into(),
        read_only: false,
        recursive_read_only: false,
        propagation,
    };
    config.mounts = vec![
        volume("/private", MountPropagation::Private),
        volume("/slave", MountPropagation::HostToContainer),
        volume("/both", MountPropagation::Bidirectional),
    ];
    let (pod, id) = m.start(&sandbox, &config).await;
    eventually("it is up", async || m.log(&sandbox, &config).contains("up").then_some(())).await;
    assert!(host.join("inside/made").exists(), "a mount made inside does not show on the host");
    rustix::mount::mount("tmpfs", host.join("late"), "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
    std::fs::write(host.join("late/seen"), "").unwrap();
    let text = eventually("the container has looked", async || {
        let text = m.log(&sandbox, &config);
        (text.lines().count() == 4).then_some(text)
    })
    .await;
    assert_eq!(text, "up\n1\n0\n1\n");
    m.runtime.stop_container(&id, std::time::Duration::ZERO).await.unwrap();
    let _ = pod;
    for dir in ["late", "inside"] {
        let _ = rustix::mount::unmount(host.join(dir), rustix::mount::UnmountFlags::DETACH);
    }
    rustix::mount::unmount(&host, rustix::mount::UnmountFlags::DETACH).unwrap();
    m.close().await;
}

pub(crate) async fn devices_are_given_with_their_permissions() {
    let m = Machine::new().await;
    let device = |path: &str, permissions: &str| Device {
        host_path: "/dev/zero".into(),
        container_path: path.into(),
        permissions: permissions.into(),
    };
    // /dev/zero is open to all anyway, so the permission shows in a device that is not.
    let (text, _) = m
        .output(
            |_, c| c.devices = vec![device("/dev/mine", "rwm")],
            "head -c3 /dev/mine | wc -c; stat -c %t:%T /dev/mine",
        )
        .await;
    assert_eq!(text, "3\n1:5\n");
    let sandbox = m.sandbox("nodev");
    let pod = m.runtime.run_sandbox(&sandbox).await.unwrap();
    let mut config = m.shell("true");
    config.devices = vec![Device { host_path: "/etc/passwd".into(), ..device("/dev/x", "r") }];
    let error = m.runtime.create_container(&pod, &config, &sandbox).await.unwrap_err();
    assert!(chain(&error).contains("is not a device"), "{}", chain(&error));
    m.close().await;
}

pub(crate) async fn namespaces_of_the_pod_and_of_the_host() {
    let m = Machine::new().await;
    let own = |kind: &str| std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().display().to_string();
    let script = "for n in net uts ipc pid; do readlink /proc/self/ns/$n; done; hostname; echo $HOSTNAME; echo $$";
    let (text, _) = m.output(|s, _| s.namespaces = Default::default(), script).await;
    let lines: Vec<&str> = text.lines().collect();
    for (at, kind) in ["net", "uts", "ipc", "pid"].iter().enumerate() {
        assert_ne!(lines[at], own(kind), "{kind}");
    }
    assert_eq!(lines[4..], ["out", "out", "1"]);
    let host = |s: &mut minke_core::runtime::SandboxConfig| {
        s.namespaces.network = NamespaceMode::Node;
        s.namespaces.pid = NamespaceMode::Node;
        s.namespaces.ipc = NamespaceMode::Node;
    };
    let (text, _) = m.output(|s, _| host(s), script).await;
    let lines: Vec<&str> = text.lines().collect();
    for (at, kind) in ["net", "uts", "ipc", "pid"].iter().enumerate() {
        assert_eq!(lines[at], own(kind), "{kind}");
    }
    m.close().await;
}

pub(crate) async fn a_shared_process_namespace_has_an_init_that_reaps() {
    let m = Machine::new().await;
    let mut sandbox = m.sandbox("shared");
    sandbox.namespaces.pid = NamespaceMode::Pod;
    let first = m.shell("echo first > /dev/shm/x; (sleep 0.1 &) ; while :; do usleep 10000; done");
    let (pod, first_id) = m.start(&sandbox, &first).await;
    let mut second = m.shell(
        "usleep 500000; cat /proc/1/comm; ps | grep -c '[u]sleep 10000' ; ps | grep -c '[Z]' ; cat /dev/shm/x; \
         ls /proc/1/root/ 2>/dev/null | wc -l; echo $$",
    );
    second.name = "second".into();
    second.log_path = "second/0.log".into();
    second.security.capabilities.add = vec!["SYS_PTRACE".into()];
    let id = m.add(&pod, &sandbox, &second).await;
    m.ended(&id).await;
    let text = m.log(&sandbox, &second);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "minke-pause", "{text}");
    assert!(lines.contains(&"first"), "{text}");
    assert_eq!(lines[4], "0", "the pause process shows files: {text}");
    assert_ne!(lines[5], "1");
    // A container that ends takes all its processes along although init is another's.
    m.runtime.stop_container(&first_id, std::time::Duration::ZERO).await.unwrap();
    m.close().await;
}

pub(crate) async fn a_user_namespace_maps_root_to_nobody_in_particular() {
    let m = Machine::new().await;
    let script = "id -u; cat /proc/self/uid_map; touch /made /tmp/x && stat -c %u /made /bin/busybox /etc/passwd; \
        grep CapEff /proc/self/status; hostname; mount -t tmpfs x /mnt 2>/dev/null && echo MOUNTED; echo > /dev/null && echo null; \
        stat -c %u /volume/data; echo more >> /volume/data && cat /etc/hostname && df /dev/shm | tail -1 | wc -l";
    let host = std::sync::Mutex::new(std::path::PathBuf::new());
    let volume = m.temp.root().join("volume");
    std::fs::create_dir(&volume).unwrap();
    std::fs::write(volume.join("data"), "data").unwrap();
    let map = IdMapping { host_id: 200_000, length: 65_536 };
    let (text, exit) = m
        .output(
            |s, c| {
                s.namespaces = Default::default();
                s.namespaces.user = Some(map);
                *host.lock().unwrap() = s.log_directory.clone();
                c.mounts = vec![Mount {
                    host_path: volume.clone(),
                    container_path: "/volume".into(),
                    read_only: false,
                    recursive_read_only: false,
                    propagation: MountPropagation::Private,
                }];
            },
            script,
        )
        .await;
    assert_eq!(code(&exit), 0, "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words[..4], ["0", "0", "200000", "65536"], "{text}");
    assert_eq!(words[4..7], ["0", "0", "0"], "{text}");
    assert!(text.ends_with("out\nnull\n0\nout\n1\n"), "{text}");
    m.close().await;
}

pub(crate) async fn kernel_parameters_of_the_pod() {
    let m = Machine::new().await;
    let (text, _) = m
        .output(
            |s, _| {
                s.namespaces = Default::default();
                s.sysctls.insert("net.ipv4.ip_unprivileged_port_start".into(), "0".into());
                s.sysctls.insert("kernel.shm_rmid_forced".into(), "1".into());
            },
            "cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/shm_rmid_forced",
        )
        .await;
    assert_eq!(text, "0\n1\n");
    let mut sandbox = m.sandbox("badsysctl");
    sandbox.sysctls.insert("kernel.no_such_parameter".into(), "1".into());
    let error = m.runtime.run_sandbox(&sandbox).await.unwrap_err();
    assert!(chain(&error).contains("kernel.no_such_parameter"), "{}", chain(&error));
    assert!(m.runtime.list_sandboxes(&Default::default()).await.unwrap().is_empty());
    m.close().await;
}

pub(crate) async fn files_of_the_sandbox() {
    let m = Machine::new().await;
    let dns = minke_core::runtime::DnsConfig {
        servers: vec!["10.0.0.10".into()],
        searches: vec!["x.y".into()],
        options: vec!["ndots:2".into()],
    };
    let script = "cat /etc/resolv.conf /etc/hostname; grep -c localhost /etc/hosts; df -k /dev/shm | tail -1 | awk '{print $2}'; readlink /etc/mtab || true";
    let (text, _) = m.output(|s, _| s.dns = Some(dns), script).await;
    assert!(text.starts_with("search x.y\nnameserver 10.0.0.10\noptions ndots:2\nout\n2\n65536\n"), "{text}");
    m.close().await;
}
