//! kubectl against `minke up`: everything that reaches into Pods, over WebSocket (its default since 1.31) and over SPDY.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, PostParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::attach::{Joined, echo, listens};
use crate::screen::Screen;
use crate::support::{Instance, PATIENCE, Ran, wait_async, with_instance};
use crate::up::{LOOP, client, phase, pod, runs, until, up};

/// A cluster of one machine, and kubectl in it.
struct Cluster {
    m: Instance,
    program: PathBuf,
    kubeconfig: String,
    pods: Api<Pod>,
    nodes: Api<Node>,
}

/// The newest kubectl of this machine; the one in `PATH` may be a dispatcher that starts one of those beside it.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).find_map(|directory| directory.join("kubectl").canonicalize().ok())?;
    let beside = found.parent()?.read_dir().ok()?.flatten().map(|entry| entry.path());
    let minor = |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix("kubectl.1.")?.parse::<u32>().ok();
    beside.filter_map(|path| Some((minor(&path)?, path))).max().map(|(_, path)| path).or(Some(found))
}

/// Runs a test in a cluster of its own, or says why it can't.
async fn with_cluster<F: Future<Output = Cluster>>(name: &str, test: impl FnOnce(Cluster) -> F) {
    let Some(program) = program() else { return println!("SKIPPED {name}: needs kubectl") };
    with_instance(name, async |m| {
        let told = up(&m, &[]).await;
        let api = client(&told).await;
        let kubeconfig = told.out.lines().find_map(|line| line.strip_prefix("export KUBECONFIG=")).unwrap().to_owned();
        let (pods, nodes) = (Api::default_namespaced(api.clone()), Api::all(api));
        let cluster = test(Cluster { m, program, kubeconfig, pods, nodes }).await;
        cluster.m.minke(&["down", "--purge"]).await.expect(0);
        assert_eq!(cluster.m.leftovers(), "");
    })
    .await;
}

/// What carries streams.
#[derive(Debug, Clone, Copy)]
enum Over {
    WebSocket,
    Spdy,
}

const BOTH: [Over; 2] = [Over::WebSocket, Over::Spdy];

impl Cluster {
    fn command(&self, over: Over, arguments: &[&str]) -> Command {
        let websocket = match over {
            Over::WebSocket => "true",
            Over::Spdy => "false",
        };
        let mut command = Command::new(&self.program);
        command
            .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websocket)
            .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websocket)
            .env("HOME", self.m.root())
            .env("KUBECONFIG", &self.kubeconfig)
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, over: Over, arguments: &[&str]) -> Ran {
        let output = tokio::time::timeout(PATIENCE, self.command(over, arguments).output()).await;
        output.unwrap_or_else(|_| panic!("kubectl {arguments:?} does not end")).unwrap().into()
    }

    async fn kubectl(&self, arguments: &[&str]) -> Ran {
        self.run(Over::WebSocket, arguments).await
    }

    async fn create(&self, pod: &Pod) {
        self.pods.create(&PostParams::default(), pod).await.unwrap();
    }

    /// A Pod that runs.
    async fn running(&self, name: &str, script: &str) {
        self.create(&pod(name, "Always", script, &json!({}))).await;
        until(&self.pods, name, "runs", runs).await;
    }

    /// One whose container has more, and which ends for good.
    async fn running_once(&self, name: &str, script: &str, more: &Value) {
        let mut pod = pod(name, "Never", script, &json!({}));
        let container = &mut pod.spec.as_mut().unwrap().containers[0];
        container.stdin = more["stdin"].as_bool();
        container.stdin_once = more["stdinOnce"].as_bool();
        container.tty = more["tty"].as_bool();
        self.create(&pod).await;
        until(&self.pods, name, "runs", runs).await;
    }
}

/// A command on a terminal; its exit code.
async fn on_terminal(mut command: Command, screen: &mut Screen, person: impl AsyncFnOnce(&mut Screen, Pid)) -> i32 {
    let mut child = command.stdin(screen.stdio()).stdout(screen.stdio()).stderr(screen.stdio()).spawn().unwrap();
    person(screen, Pid::from_raw(child.id().unwrap() as i32).unwrap()).await;
    let status = tokio::time::timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
    assert!(screen.is_cooked(), "the terminal is left raw");
    status.code().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_reaches_into_pods_and_sees_their_events() {
    with_cluster("kubectl_reaches_into_pods_and_sees_their_events", async |c| {
        c.running("web", &format!("echo out; {LOOP}")).await;
        wait_async("its output", async || c.kubectl(&["logs", "web"]).await.expect(0).out == "out\n").await;
        for over in BOTH {
            // kubectl to 1.33 loses what comes over WebSocket before it is ready, which on a busy machine takes its time.
            let script = "sleep 1; echo in; echo bad >&2; exit 3";
            let ran = c.run(over, &["exec", "web", "--", "sh", "-c", script]).await;
            assert_eq!((ran.code, ran.out.as_str()), (3, "in\n"), "{over:?}: {ran:?}");
            assert!(ran.err.contains("bad\n"), "{over:?}: {ran:?}");
            let ran = c.run(over, &["attach", "nobody"]).await;
            assert!(ran.code == 1 && ran.err.contains("not found"), "{over:?}: {ran:?}");
        }
        let ran = c.run(Over::Spdy, &["exec", "web", "--", "nowhere"]).await;
        assert!(ran.code == 1 && ran.err.contains("executable file not found in $PATH"), "{ran:?}");
        wait_async("the events of its life", async || {
            let shown = c.kubectl(&["describe", "pod", "web"]).await.expect(0).out;
            ["Scheduled", "Pulled", "Created", "Started"].iter().all(|reason| shown.contains(reason))
        })
        .await;
        c
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_top_tells_what_nodes_and_pods_use() {
    with_cluster("kubectl_top_tells_what_nodes_and_pods_use", async |c| {
        c.running("web", LOOP).await;
        let top = c.kubectl(&["top", "pod", "web", "--no-headers"]).await.expect(0).out;
        let used: Vec<&str> = top.split_whitespace().collect();
        let is_told = matches!(used.as_slice(), ["web", cpu, memory] if cpu.ends_with('m') && memory.ends_with("Mi"));
        assert!(is_told, "{top}");
        let top = c.kubectl(&["top", "node", "--no-headers"]).await.expect(0).out;
        assert!(top.contains("Mi") && top.contains('%'), "{top}");
        let ran = c.kubectl(&["top", "pod", "nobody"]).await;
        assert!(ran.code == 1 && ran.err.contains("not found"), "{ran:?}");
        c
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_has_a_shell_on_a_terminal_that_changes_its_size() {
    with_cluster("kubectl_has_a_shell_on_a_terminal_that_changes_its_size", async |c| {
        c.running("web", LOOP).await;
        for over in BOTH {
            let mut screen = Screen::new();
            let command = c.command(over, &["exec", "-it", "web", "--", "sh"]);
            let code = on_terminal(command, &mut screen, async |screen, pid| {
                screen.shows("# ").await;
                // Its size comes a moment after the shell.
                screen.kind("while test \"$(stty size)\" != '30 100'; do sleep 0.05; done; echo fi''rst\r");
                screen.shows("first").await;
                screen.kind("while test \"$(stty size)\" != '40 120'; do sleep 0.05; done; echo sec''ond\r");
                screen.shows("ond").await;
                screen.size(120, 40);
                kill_process(pid, Signal::WINCH).unwrap();
                screen.shows("second").await;
                screen.kind("exit 7\r");
            })
            .await;
            assert_eq!(code, 7, "{over:?}");
        }
        c
    })
    .await;
}

/// Ends with `end`, and with 3.
const ASKS: &str = "while read line; do echo got $line; [ $line = end ] && exit 3; done; echo over; sleep 1000";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_attach_joins_leaves_and_joins_again() {
    with_cluster("kubectl_attach_joins_leaves_and_joins_again", async |c| {
        for (over, name) in [(Over::WebSocket, "by-websocket"), (Over::Spdy, "by-spdy")] {
            c.running_once(name, ASKS, &json!({"stdin": true})).await;
            let mut first = Joined::of(c.command(over, &["attach", "-i", name]));
            first.say("one\n").await;
            assert_eq!(first.line().await, "got one", "{over:?}");
            first.child.kill().await.unwrap();
            let mut second = Joined::of(c.command(over, &["attach", "-i", name]));
            second.say("two\n").await;
            assert_eq!(second.line().await, "got two", "{over:?}");
            second.say("end\n").await;
            assert_eq!(second.line().await, "got end", "{over:?}");
            assert_eq!((second.line().await.as_str(), second.code().await), ("", 0), "{over:?}");
            let ended = until(&c.pods, name, "ends", |pod| phase(pod) == "Failed").await;
            let status = &ended.status.unwrap().container_statuses.unwrap()[0];
            assert_eq!(status.state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 3);
        }
        // The end of what is typed is the program's, if it says so.
        c.running_once("once", "cat; echo over", &json!({"stdin": true, "stdinOnce": true})).await;
        let mut joined = Joined::of(c.command(Over::WebSocket, &["attach", "-i", "once"]));
        joined.say("a line\n").await;
        assert_eq!(joined.line().await, "a line");
        joined.child.stdin = None;
        assert_eq!((joined.line().await.as_str(), joined.code().await), ("over", 0));
        c
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_attach_has_the_programs_terminal() {
    with_cluster("kubectl_attach_has_the_programs_terminal", async |c| {
        for (over, name) in [(Over::WebSocket, "by-websocket"), (Over::Spdy, "by-spdy")] {
            let script = "while read line; do echo size $(stty size); [ $line = end ] && exit 0; done";
            c.running_once(name, script, &json!({"stdin": true, "tty": true})).await;
            let mut screen = Screen::new();
            let command = c.command(over, &["attach", "-it", name]);
            let code = on_terminal(command, &mut screen, async |screen, pid| {
                for (size, shown) in [((100, 30), "size 30 100"), ((120, 40), "size 40 120")] {
                    screen.size(size.0, size.1);
                    kill_process(pid, Signal::WINCH).unwrap();
                    // It takes effect when it does.
                    while !screen.showed(shown).await {
                        screen.kind("go\r");
                    }
                }
                screen.kind("end\r");
            })
            .await;
            assert_eq!(code, 0, "{over:?}");
        }
        c
    })
    .await;
}

/// The bytes of a megabyte by its number, none like another.
fn megabyte(n: usize) -> Vec<u8> {
    static FIRST: OnceLock<Vec<u8>> = OnceLock::new();
    let first = FIRST.get_or_init(|| (0..1 << 20).map(|i: usize| (i.wrapping_mul(31) ^ (i >> 9)) as u8).collect());
    let mut bytes = first.clone();
    bytes.rotate_left(n * 1031);
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_megabytes_go_through_kubectl_port_forward_intact_both_ways() {
    with_cluster("a_hundred_megabytes_go_through_kubectl_port_forward_intact_both_ways", async |c| {
        const MEGABYTES: usize = 100;
        c.running("echo", &echo(7007)).await;
        listens(&c.m, "echo", 7007).await;
        for over in BOTH {
            let command = c.command(over, &["port-forward", "--address", "127.0.0.1", "pod/echo", ":7007"]);
            let mut forward = Joined::of(command);
            let address = forward.address().await;
            let (mut read, mut write) = TcpStream::connect(address).await.unwrap().into_split();
            let sending = tokio::spawn(async move {
                for n in 0..MEGABYTES {
                    write.write_all(&megabyte(n)).await.unwrap();
                }
                write
            });
            let mut heard = vec![0; 1 << 20];
            for n in 0..MEGABYTES {
                let read = tokio::time::timeout(PATIENCE, read.read_exact(&mut heard)).await;
                read.unwrap_or_else(|_| panic!("{over:?}: megabyte {n} does not come")).unwrap();
                assert!(heard == megabyte(n), "{over:?}: megabyte {n} is another");
            }
            // The end of what is sent arrives as well, and so does the answer to it.
            drop(sending.await.unwrap());
            let end = tokio::time::timeout(PATIENCE, read.read(&mut heard)).await.unwrap();
            assert_eq!(end.unwrap(), 0, "{over:?}");
            // Beside each other.
            let one = async |text: &[u8]| {
                let mut socket = TcpStream::connect(address).await.unwrap();
                socket.write_all(text).await.unwrap();
                let mut back = vec![0; text.len()];
                socket.read_exact(&mut back).await.unwrap();
                back == text
            };
            let both = async { tokio::join!(one(b"this"), one(b"that")) };
            assert_eq!(tokio::time::timeout(PATIENCE, both).await.unwrap(), (true, true), "{over:?}");
            forward.child.kill().await.unwrap();
        }
        c
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_cp_carries_files_in_and_out() {
    with_cluster("kubectl_cp_carries_files_in_and_out", async |c| {
        c.running("web", LOOP).await;
        let file = c.m.root().join("sent");
        let sent: Vec<u8> = (0..20).flat_map(megabyte).collect();
        std::fs::write(&file, &sent).unwrap();
        for over in BOTH {
            let back = c.m.root().join(format!("back-{over:?}"));
            c.run(over, &["cp", file.to_str().unwrap(), "web:/tmp/there"]).await.expect(0);
            let seen = c.run(Over::Spdy, &["exec", "web", "--", "sha256sum", "/tmp/there"]).await.expect(0).out;
            assert!(seen.starts_with(&hex::encode(Sha256::digest(&sent))), "{over:?}: {seen}");
            c.run(over, &["cp", "web:/tmp/there", back.to_str().unwrap()]).await.expect(0);
            assert!(std::fs::read(back).unwrap() == sent, "{over:?}: another file comes back");
        }
        c
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_follows_logs_to_the_end_of_the_container() {
    with_cluster("kubectl_follows_logs_to_the_end_of_the_container", async |c| {
        let script =
            "echo one; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo two; sleep 0.5; echo three >&2; exit 1";
        c.running_once("job", script, &json!({})).await;
        let mut logs = Joined::of(c.command(Over::WebSocket, &["logs", "-f", "job"]));
        assert_eq!(logs.line().await, "one");
        c.run(Over::Spdy, &["exec", "job", "--", "touch", "/tmp/go"]).await.expect(0);
        assert_eq!((logs.line().await.as_str(), logs.line().await.as_str()), ("two", "three"));
        assert_eq!((logs.line().await.as_str(), logs.code().await), ("", 0));
        let ran = c.kubectl(&["logs", "job", "--tail=1", "--timestamps"]).await.expect(0);
        assert!(ran.out.ends_with(" three\n") && ran.out.starts_with("20"), "{}", ran.out);
        c
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_cordoned_drained_and_used_again() {
    with_cluster("a_node_is_cordoned_drained_and_used_again", async |c| {
        let node = c.nodes.list(&Default::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
        c.running("before", LOOP).await;
        c.kubectl(&["cordon", &node]).await.expect(0);
        c.create(&pod("after", "Always", LOOP, &json!({}))).await;
        let refused = |pod: &Pod| {
            let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
            conditions.is_some_and(|all| all.iter().any(|c| c.reason.as_deref() == Some("Unschedulable")))
        };
        until(&c.pods, "after", "finds no node", refused).await;
        assert!(runs(&c.pods.get("before").await.unwrap()), "what runs goes on");
        let ran = c.kubectl(&["drain", &node, "--force", "--timeout=120s"]).await.expect(0);
        assert!(ran.out.contains("pod/before evicted") && ran.out.contains("drained"), "{ran:?}");
        assert!(c.pods.get_opt("before").await.unwrap().is_none());
        c.kubectl(&["uncordon", &node]).await.expect(0);
        until(&c.pods, "after", "runs", runs).await;
        c
    })
    .await;
}

impl Screen {
    /// Whether this is shown within a moment.
    async fn showed(&mut self, text: &str) -> bool {
        tokio::time::timeout(Duration::from_millis(300), self.shows(text)).await.is_ok()
    }
}
