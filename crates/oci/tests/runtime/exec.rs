//! Commands in containers: what they are inside, how they end, and what is left of them.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use minke_core::runtime::{
    ContainerConfig, ContainerId, ContainerService, ExecOutput, ExecRequest, ExecService, ExecSession, IdMapping,
    NamespaceMode, RunAs, RuntimeError, SandboxConfig, SandboxService, SeccompProfile, TerminalSize,
};
use minke_oci::EmbeddedRuntime;

use crate::machine::{Machine, chain, eventually, open};
use crate::recovery::{pss_of, shims};

const IDLE: &str = "trap 'exit 0' TERM; while :; do sleep 1; done";

fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|w| (*w).to_owned()).collect()
}

/// A Pod with one container that does nothing, changed as asked.
async fn idle(m: &Machine, change: impl FnOnce(&mut SandboxConfig, &mut ContainerConfig)) -> ContainerId {
    let (mut sandbox, mut container) = (m.sandbox("exec"), m.shell(IDLE));
    change(&mut sandbox, &mut container);
    m.start(&sandbox, &container).await.1
}

async fn output(runtime: &EmbeddedRuntime, id: &ContainerId, script: &str) -> ExecOutput {
    let command = words(&["sh", "-c", script]);
    let run = runtime.exec_sync(id, &command, Some(Duration::from_secs(60)));
    run.await.unwrap_or_else(|e| panic!("{script}: {}", chain(&e)))
}

async fn says(m: &Machine, id: &ContainerId, script: &str) -> String {
    let output = output(&m.runtime, id, script).await;
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

async fn all(stream: &mut Pin<Box<dyn AsyncRead + Send>>) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

async fn session(m: &Machine, id: &ContainerId, script: &str, stdin: bool, tty: Option<TerminalSize>) -> ExecSession {
    let request = ExecRequest { command: words(&["sh", "-c", script]), stdin, tty };
    m.runtime.exec(id, &request).await.unwrap_or_else(|e| panic!("{}", chain(&e)))
}

/// Numbers of the processes whose command line holds a word.
fn processes(word: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let of = |entry: std::fs::DirEntry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&command).contains(word).then_some(pid)
    };
    entries.filter_map(of).filter(|pid| *pid != std::process::id() as i32).collect()
}

async fn gone(word: &str) {
    eventually(&format!("no process has {word} on its command line"), async || {
        processes(word).is_empty().then_some(())
    })
    .await;
}

pub(crate) async fn output_and_exit_codes_of_commands() {
    let m = Machine::new().await;
    let id = idle(&m, |_, _| {}).await;
    let done = output(&m.runtime, &id, "echo out; echo err >&2; exit 7").await;
    assert_eq!((done.exit_code, &*done.stdout, &*done.stderr), (7, &b"out\n"[..], &b"err\n"[..]));
    assert_eq!(output(&m.runtime, &id, "kill -9 $$").await.exit_code, 137);
    assert_eq!(output(&m.runtime, &id, "kill -TERM $$").await.exit_code, 143);
    // Standard input is empty, and nothing is open but the three streams.
    assert_eq!(says(&m, &id, "cat; ls /proc/$$/fd; true").await, "0\n1\n2\n");
    assert_eq!(says(&m, &id, "echo $0; echo ok > /dev/stdout").await, "sh\nok\n");
    m.close().await;
}

pub(crate) async fn a_command_that_can_not_run_says_why_in_upstreams_words() {
    let m = Machine::new().await;
    let id = idle(&m, |_, _| {}).await;
    for (command, code, message) in [
        ("foo", 127, "exec: \"foo\": executable file not found in $PATH"),
        ("/no/such", 127, "exec: \"/no/such\": stat /no/such: no such file or directory"),
        ("/etc/passwd", 126, "exec: \"/etc/passwd\": permission denied"),
        ("/etc", 126, "exec: \"/etc\": is a directory"),
    ] {
        let error = m.runtime.exec_sync(&id, &words(&[command]), None).await.unwrap_err();
        let RuntimeError::NotExecutable { exit_code, message: said, .. } = &error else { panic!("{error}") };
        assert_eq!((*exit_code, said.as_str()), (code, message));
    }
    let error = m.runtime.exec_sync(&id, &[], None).await.unwrap_err();
    assert!(matches!(error, RuntimeError::Invalid { .. }), "{error}");
    let error = m.runtime.exec_sync(&ContainerId("nope".into()), &words(&["true"]), None).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    m.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    let error = m.runtime.exec_sync(&id, &words(&["true"]), None).await.unwrap_err();
    assert!(matches!(&error, RuntimeError::Invalid { message, .. } if message.contains("CONTAINER_EXITED")), "{error}");
    let sandbox = m.sandbox("created");
    let pod = m.runtime.run_sandbox(&sandbox).await.unwrap();
    let created = m.runtime.create_container(&pod, &m.shell(IDLE), &sandbox).await.unwrap();
    let error = m.runtime.exec_sync(&created, &words(&["true"]), None).await.unwrap_err();
    assert!(
        matches!(&error, RuntimeError::Invalid { message, .. } if message.contains("CONTAINER_CREATED")),
        "{error}"
    );
    m.close().await;
}

/// What of a process is the same for every process of its container.
const FACTS: &str = "for n in user mnt pid net ipc uts cgroup; do readlink /proc/$P/ns/$n; done; \
    grep -E '^(Cap|Seccomp|NoNewPrivs|Uid|Gid|Groups|Sig(Blk|Ign)|Umask)' /proc/$P/status; \
    cat /proc/$P/oom_score_adj /proc/$P/limits; readlink /proc/$P/cwd; readlink /proc/$P/root; \
    grep -v -E ':(freezer|)(,|:)' /proc/$P/cgroup; true";

async fn same(m: &Machine, what: &str, change: impl FnOnce(&mut SandboxConfig, &mut ContainerConfig)) {
    // Not by a shell that runs on: its signals and its place are its own. Init describes itself, then sleeps.
    let (mut sandbox, mut container) = (m.sandbox("same"), m.shell(""));
    container.args = vec![format!("P=self; {FACTS}; echo over; exec sleep 1000")];
    change(&mut sandbox, &mut container);
    let (pod, id) = m.start(&sandbox, &container).await;
    let inits = eventually("init has said what it is", async || {
        Some(m.log(&sandbox, &container)).filter(|l| l.ends_with("over\n"))
    })
    .await;
    let of_command = says(m, &id, &format!("P=self; {FACTS}; echo over")).await;
    assert!(inits.contains("Seccomp") && inits.contains("CapEff") && inits.contains("mnt:"), "{what}: {inits}");
    for (init, command) in inits.lines().zip(of_command.lines()) {
        assert_eq!(init, command, "{what}");
    }
    assert_eq!(inits.lines().count(), of_command.lines().count(), "{what}");
    m.runtime.remove_sandbox(&pod).await.unwrap();
}

pub(crate) async fn a_command_has_what_its_container_has_and_nothing_more() {
    let m = Machine::new().await;
    same(&m, "plain", |_, _| {}).await;
    same(&m, "an ordinary user", |_, c| {
        c.security.run_as = RunAs::Uid(1000);
        c.security.run_as_group = Some(3000);
        c.security.supplemental_groups = vec![4000];
        c.security.no_new_privileges = true;
        c.working_dir = Some("/tmp".into());
        c.resources.oom_score_adj = Some(900);
    })
    .await;
    same(&m, "a user by name", |_, c| c.security.run_as = RunAs::Name("app".into())).await;
    same(&m, "capabilities", |_, c| {
        c.security.capabilities.add = vec!["NET_ADMIN".into()];
        c.security.capabilities.drop = vec!["KILL".into()];
    })
    .await;
    same(&m, "privileged", |s, c| {
        s.privileged = true;
        c.security.privileged = true;
    })
    .await;
    same(&m, "unconfined", |_, c| c.security.seccomp = SeccompProfile::Unconfined).await;
    same(&m, "own network", |s, _| s.namespaces = Default::default()).await;
    same(&m, "shared processes", |s, _| s.namespaces.pid = NamespaceMode::Pod).await;
    same(&m, "the host's processes", |s, _| s.namespaces.pid = NamespaceMode::Node).await;
    same(&m, "everything of the host", |s, _| {
        s.namespaces.pid = NamespaceMode::Node;
        s.namespaces.ipc = NamespaceMode::Node;
    })
    .await;
    same(&m, "a user namespace", |s, _| {
        s.namespaces = Default::default();
        s.namespaces.user = Some(IdMapping { host_id: 300_000, length: 65_536 });
    })
    .await;
    same(&m, "an ordinary user of a user namespace", |s, c| {
        s.namespaces = Default::default();
        s.namespaces.user = Some(IdMapping { host_id: 300_000, length: 65_536 });
        c.security.run_as = RunAs::Uid(1000);
    })
    .await;
    m.close().await;
}

pub(crate) async fn a_command_is_confined_as_its_container() {
    let m = Machine::new().await;
    let profile = m.temp.root().join("p.json");
    let text = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[
        {"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO","errnoRet":1}]}"#;
    std::fs::write(&profile, text).unwrap();
    let id = idle(&m, |_, c| {
        c.security.seccomp = SeccompProfile::Localhost(profile.clone());
        c.security.read_only_root = true;
    })
    .await;
    // The filter is the one that the container was made with, whatever became of its file.
    std::fs::remove_file(&profile).unwrap();
    let text =
        says(&m, &id, "mkdir /dev/shm/x 2>/dev/null || echo forbidden; touch /x 2>/dev/null || echo read-only").await;
    assert_eq!(text, "forbidden\nread-only\n");
    let text = says(
        &m,
        &id,
        "unshare -m true 2>/dev/null && echo UNSHARED; mount -t tmpfs x /tmp 2>/dev/null && echo MOUNTED; true",
    )
    .await;
    assert_eq!(text, "");
    // Its cgroup is the container's, but for the one that it is killed by, which lies below.
    let groups = says(&m, &id, "cat /proc/self/cgroup").await;
    let below: Vec<&str> = groups.lines().filter(|l| !l.ends_with(":/")).collect();
    assert!(below.iter().filter(|l| l.contains(":/exec-")).count() <= 1, "{groups}");
    assert!(!groups.contains(":/../"), "{groups}");
    m.close().await;
}

pub(crate) async fn a_command_has_the_containers_environment() {
    let m = Machine::new().await;
    let id = idle(&m, |_, c| {
        c.env = vec![minke_core::runtime::EnvVar { name: "A".into(), value: "x y".into() }];
        c.security.run_as = RunAs::Uid(1000);
    })
    .await;
    let text = says(&m, &id, "env | grep -v -E '^(PWD|SHLVL|OLDPWD)=' | sort").await;
    let names: BTreeMap<&str, &str> = text.lines().map(|l| l.split_once('=').unwrap()).collect();
    assert_eq!((names["A"], names["HOME"], names["HOSTNAME"]), ("x y", "/home/app", "exec"), "{text}");
    assert!(names.contains_key("PATH") && !names.contains_key("TERM"), "{text}");
    let size = TerminalSize { width: 80, height: 24 };
    let mut with_terminal = session(&m, &id, "echo $TERM; whoami", false, Some(size)).await;
    assert_eq!(all(&mut with_terminal.stdout).await, "xterm\r\napp\r\n");
    m.close().await;
}

pub(crate) async fn input_is_closed_and_streams_are_apart() {
    let m = Machine::new().await;
    let id = idle(&m, |_, _| {}).await;
    let mut s = session(&m, &id, "cat; echo over >&2; exit 3", true, None).await;
    let mut stdin = s.stdin.take().unwrap();
    stdin.write_all(b"first ").await.unwrap();
    let mut six = [0; 6];
    s.stdout.read_exact(&mut six).await.unwrap();
    assert_eq!(&six, b"first ");
    stdin.write_all(b"second").await.unwrap();
    stdin.close().await.unwrap();
    assert_eq!(all(&mut s.stdout).await, "second");
    assert_eq!(all(s.stderr.as_mut().unwrap()).await, "over\n");
    assert_eq!((s.control.wait().await.unwrap(), s.control.wait().await.unwrap()), (3, 3));
    // Much both ways at once.
    let mut s = session(&m, &id, "cat", true, None).await;
    let mut stdin = s.stdin.take().unwrap();
    let sent = "0123456789abcdef".repeat(1 << 16);
    let bytes = sent.clone();
    let writer = tokio::spawn(async move {
        stdin.write_all(bytes.as_bytes()).await.unwrap();
        drop(stdin);
    });
    assert!(all(&mut s.stdout).await == sent, "what came back is not what was sent");
    writer.await.unwrap();
    m.close().await;
}

pub(crate) async fn large_output_is_cut_and_never_blocks() {
    let m = Machine::new().await;
    let id = idle(&m, |_, _| {}).await;
    let script = "head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2; echo end";
    let done = output(&m.runtime, &id, script).await;
    assert_eq!((done.exit_code, done.stdout.len(), done.stderr.len()), (0, ExecOutput::LIMIT, ExecOutput::LIMIT));
    m.close().await;
}

pub(crate) async fn a_terminal_has_a_size_that_changes_and_hangs_up() {
    let m = Machine::new().await;
    for user in [None, Some(IdMapping { host_id: 300_000, length: 65_536 })] {
        let id = idle(&m, |s, c| {
            if user.is_some() {
                s.namespaces = Default::default();
            }
            s.namespaces.user = user;
            c.security.run_as = RunAs::Uid(1000);
        })
        .await;
        let script = "tty; test -t 0 && test -t 1 && test -t 2 && echo terminal; stty size; \
            trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.05; done";
        let mut s = session(&m, &id, script, true, Some(TerminalSize { width: 81, height: 25 })).await;
        assert!(s.stderr.is_none());
        let mut text = String::new();
        let mut buffer = [0; 512];
        while !text.contains("ready") {
            let n = s.stdout.read(&mut buffer).await.unwrap();
            assert!(n > 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
        assert!(text.starts_with("/dev/pts/"), "{text}");
        assert!(text.contains("terminal\r\n25 81\r\n"), "{text}");
        s.control.resize(TerminalSize { width: 132, height: 50 }).await.unwrap();
        assert!(all(&mut s.stdout).await.contains("50 132\r\n"));
        assert_eq!(s.control.wait().await.unwrap(), 5);
        // Ctrl-C reaches the program, and a session that is dropped hangs up.
        let mut s = session(&m, &id, "sleep 4242", true, Some(TerminalSize { width: 80, height: 24 })).await;
        s.stdin.as_mut().unwrap().write_all(&[3]).await.unwrap();
        assert_eq!(s.control.wait().await.unwrap(), 130);
        let s = session(
            &m,
            &id,
            "trap '' HUP TERM INT; echo up; while :; do sleep 4243; done",
            true,
            Some(TerminalSize { width: 80, height: 24 }),
        )
        .await;
        drop(s);
        gone("4243").await;
    }
    m.close().await;
}

pub(crate) async fn a_timeout_kills_the_whole_tree() {
    let m = Machine::new().await;
    let id = idle(&m, |_, _| {}).await;
    // Grandchildren in sessions of their own that ignore every polite signal, and one that has lost its parent.
    let script = "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 5151; done' & \
        (setsid sleep 5152 &); sleep 5153";
    let began = tokio::time::Instant::now();
    let error =
        m.runtime.exec_sync(&id, &words(&["sh", "-c", script]), Some(Duration::from_millis(500))).await.unwrap_err();
    assert!(matches!(error, RuntimeError::TimedOut { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20));
    for word in ["5151", "5152", "5153"] {
        gone(word).await;
    }
    assert!(m.runtime.container_status(&id).await.unwrap().state.is_running());
    no_group_left(&m).await;
    m.close().await;
}

/// No cgroup of a command is left.
async fn no_group_left(m: &Machine) {
    fn groups(dir: &std::path::Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                if entry.file_name().to_string_lossy().starts_with("exec-") {
                    found.push(entry.path().display().to_string());
                }
                groups(&entry.path(), found);
            }
        }
    }
    eventually("no command has a cgroup", async || {
        let mut found = Vec::new();
        for hierarchy in std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
            groups(&hierarchy.path().join(m.cgroup.trim_start_matches('/')), &mut found);
        }
        groups(&std::path::Path::new("/sys/fs/cgroup").join(m.cgroup.trim_start_matches('/')), &mut found);
        found.is_empty().then_some(())
    })
    .await;
}

pub(crate) async fn a_dropped_call_and_a_dropped_session_kill_their_command() {
    let m = Machine::new().await;
    let id = idle(&m, |_, _| {}).await;
    let call = m.runtime.exec_sync(&id, &[], None);
    drop(call);
    let command = words(&["sh", "-c", "sleep 6161"]);
    {
        let call = m.runtime.exec_sync(&id, &command, None);
        tokio::pin!(call);
        let running = eventually("it runs", async || {
            tokio::select! {
                done = &mut call => panic!("{done:?}"),
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
            (!processes("6161").is_empty()).then_some(())
        });
        running.await;
    }
    gone("6161").await;
    let s = session(&m, &id, "sleep 6162 & sleep 6162", true, None).await;
    drop(s);
    gone("6162").await;
    no_group_left(&m).await;
    m.close().await;
}

pub(crate) async fn what_a_command_leaves_running_stays_in_the_container() {
    let m = Machine::new().await;
    let id = idle(&m, |_, _| {}).await;
    // It still has the pipe, which holds nobody up.
    let text = says(&m, &id, "sleep 7171 & echo started").await;
    assert_eq!(text, "started\n");
    assert!(!processes("7171").is_empty());
    no_group_left(&m).await;
    m.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    gone("7171").await;
    m.close().await;
}

pub(crate) async fn the_end_of_the_container_ends_its_commands() {
    let m = Machine::new().await;
    for pid in [NamespaceMode::Container, NamespaceMode::Pod, NamespaceMode::Node] {
        let id = idle(&m, |s, _| s.namespaces.pid = pid).await;
        let s = session(&m, &id, "sleep 8181", false, None).await;
        m.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
        assert_eq!(s.control.wait().await.unwrap(), 137, "{pid:?}");
        gone("8181").await;
    }
    m.close().await;
}

pub(crate) async fn commands_run_in_containers_of_an_earlier_agent_and_die_with_theirs() {
    let m = Machine::new().await;
    let id = idle(&m, |_, c| c.security.run_as = RunAs::Uid(1000)).await;
    let s = session(&m, &id, "sleep 9191", true, None).await;
    let Machine { temp, runtime, image, cgroup } = m;
    // As when its process dies: every descriptor is closed.
    drop(s);
    drop(runtime);
    gone("9191").await;
    let runtime = open(&temp).await;
    let m = Machine { temp, runtime, image, cgroup };
    assert_eq!(says(&m, &id, "id -u; echo $HOME").await, "1000\n/home/app\n");
    m.close().await;
}

pub(crate) async fn a_container_can_not_reach_the_machine_through_a_command() {
    let m = Machine::new().await;
    // CVE-2024-21626: a working directory that leads through a descriptor.
    let script = |number: u32| format!("cd /; rm -rf /tmp/link; ln -s /proc/self/fd/{number} /tmp/link; echo linked");
    let (sandbox, mut container) = (m.sandbox("cwd"), m.shell(""));
    container.working_dir = Some("/tmp/link".into());
    // One link after the other, for all that a careless runtime could have left open.
    container.args = vec![format!(
        "{}; for n in $(seq 3 30); do ln -sfn /proc/self/fd/$n /tmp/link; sleep 0.05; done; echo over; exec sleep 1000",
        script(3)
    )];
    let (_, id) = m.start(&sandbox, &container).await;
    eventually("the link is made", async || m.log(&sandbox, &container).contains("linked").then_some(())).await;
    while !m.log(&sandbox, &container).contains("over") {
        // Where the link leads nowhere, or to the command's own pipe, it is refused.
        let error = m.runtime.exec_sync(&id, &words(&["pwd"]), None).await.unwrap_err();
        assert!(chain(&error).contains("working directory /tmp/link"), "{}", chain(&error));
    }
    // CVE-2019-5736: a program that is a script for /proc/self/exe.
    let id = idle(&m, |_, _| {}).await;
    let script = "printf '#!/proc/self/exe\\n' > /tmp/evil; chmod +x /tmp/evil; true";
    assert_eq!(output(&m.runtime, &id, script).await.exit_code, 0);
    // The interpreter is the sealed copy: it runs as nothing that could do harm, and can't be written.
    let run = m.runtime.exec_sync(&id, &words(&["/tmp/evil"]), Some(Duration::from_secs(20))).await;
    assert!(!matches!(&run, Ok(done) if done.exit_code == 0), "{run:?}");
    let script = "for p in /proc/[0-9]*; do if : 2>/dev/null > $p/exe; then echo WROTE $p; fi; done; true";
    for _ in 0..20 {
        let (wrote, _) = tokio::join!(output(&m.runtime, &id, script), output(&m.runtime, &id, "true"));
        assert!(!String::from_utf8_lossy(&wrote.stdout).contains("WROTE"), "{wrote:?}");
    }
    // A terminal multiplexer of the container's making is not taken for the kernel's.
    let id = idle(&m, |s, c| {
        s.privileged = true;
        c.security.privileged = true;
    })
    .await;
    assert_eq!(output(&m.runtime, &id, "mount -t tmpfs x /dev/pts && mkfifo /dev/pts/ptmx").await.exit_code, 0);
    let request =
        ExecRequest { command: words(&["true"]), stdin: false, tty: Some(TerminalSize { width: 80, height: 24 }) };
    let error = m.runtime.exec(&id, &request).await.unwrap_err();
    assert!(chain(&error).contains("terminal in the container"), "{}", chain(&error));
    m.close().await;
}

pub(crate) async fn a_container_that_may_have_no_more_processes_can_be_looked_at() {
    let m = Machine::new().await;
    let id = idle(&m, |_, c| c.resources.pids_limit = Some(2)).await;
    eventually("its limit is reached", async || {
        m.runtime
            .exec_sync(&id, &words(&["/bin/sh", "-c", "/bin/true & wait"]), None)
            .await
            .ok()
            .filter(|o| o.exit_code != 0)
    })
    .await;
    let done = m.runtime.exec_sync(&id, &words(&["/bin/echo", "still"]), None).await;
    assert_eq!(done.unwrap_or_else(|e| panic!("{}", chain(&e))).stdout, b"still\n");
    m.close().await;
}

pub(crate) async fn many_commands_at_once_leave_nothing() {
    let m = Arc::new(Machine::new().await);
    let id = idle(&m, |_, _| {}).await;
    let shim = shims(&m)[0];
    // Of the agent, which is this process, and of the shim.
    let open = || {
        let count = |pid: &str| std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        (count("self"), count(&shim.to_string()))
    };
    output(&m.runtime, &id, "true").await;
    no_group_left(&m).await;
    let (before, memory) = (open(), pss_of(shim));
    let began = tokio::time::Instant::now();
    let mut tasks = Vec::new();
    for number in 0..200 {
        let (m, id) = (Arc::clone(&m), id.clone());
        tasks.push(tokio::spawn(async move {
            let done = output(&m.runtime, &id, &format!("echo {number}; exit {}", number % 100)).await;
            assert_eq!((done.exit_code, done.stdout), (number % 100, format!("{number}\n").into_bytes()));
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    println!("    200 commands at once took {} ms", began.elapsed().as_millis());
    let left = |(own, shims): (usize, usize)| own <= before.0 && shims <= before.1;
    eventually("no descriptor is left", async || left(open()).then_some(())).await;
    println!("    the shim has {} kB PSS, before {memory} kB", pss_of(shim));
    no_group_left(&m).await;
    let mut times = Vec::new();
    for _ in 0..60 {
        let began = tokio::time::Instant::now();
        m.runtime.exec_sync(&id, &words(&["/bin/true"]), None).await.unwrap();
        times.push(began.elapsed());
    }
    times.sort();
    println!("    one command: median {} µs, slowest {} µs", times[30].as_micros(), times[59].as_micros());
    Arc::into_inner(m).unwrap().close().await;
}
