//! Joining programs and forwarding ports, as a person does.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};

use crate::support::{Instance, PATIENCE, pod_with, wait, wait_async, with_instance};

/// A command that goes on, and what it prints.
pub(crate) struct Joined {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Joined {
    fn new(m: &Instance, arguments: &[&str]) -> Self {
        Self::of(m.command(arguments))
    }

    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    pub(crate) async fn say(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
    }

    /// The next line; none at all at the end.
    pub(crate) async fn line(&mut self) -> String {
        tokio::time::timeout(PATIENCE, self.lines.next_line()).await.unwrap().unwrap().unwrap_or_default()
    }

    pub(crate) async fn code(mut self) -> i32 {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.expect("it does not end").unwrap().code().unwrap()
    }

    /// The address that a port-forward says it listens on.
    pub(crate) async fn address(&mut self) -> SocketAddr {
        let line = self.line().await;
        let told = line.strip_prefix("Forwarding from ").and_then(|l| l.split_once(" -> "));
        told.unwrap_or_else(|| panic!("{line:?}")).0.parse().unwrap()
    }
}

const ASKS: &str =
    "echo up; while read line; do echo got $line; [ $line = end ] && exit 3; done; echo over; sleep 1000";

#[tokio::test]
async fn who_joins_and_does_not_read_is_let_go_and_the_program_goes_on() {
    with_instance("who_joins_and_does_not_read_is_let_go_and_the_program_goes_on", async |m| {
        let shared = m.root().join("shared");
        std::fs::create_dir(&shared).unwrap();
        let script = "while [ ! -e /shared/go ]; do echo tick; sleep 0.1; done; yes \"$(head -c 1000 /dev/zero | tr '\\0' x)\" | \
                      head -c 4194304; touch /shared/done; \
                      sleep 1000";
        let volumes = format!("volumes: [{{name: shared, hostPath: {{path: {}}}}}]", shared.display());
        let mounts = "volumeMounts: [{name: shared, mountPath: /shared}]";
        let file = m.manifest("web.yaml", &pod_with("web", "Never", script, &volumes, mounts));
        m.minke(&["run", "-q", &file]).await.expect(0);
        let mut joined = Joined::new(&m, &["attach", "web"]);
        assert_eq!(joined.line().await, "tick");

        std::fs::write(shared.join("go"), "").unwrap();
        wait("the program to go on", || shared.join("done").exists()).await;
        while !joined.line().await.is_empty() {}
        let mut said = String::new();
        joined.child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
        assert!(said.contains("was not read for 10 s") && said.contains("minke logs default/web"), "{said}");
        assert_ne!(joined.code().await, 0);
        assert!(m.minke(&["logs", "web"]).await.expect(0).out.len() > 4_000_000, "the log has everything");
    })
    .await;
}

#[tokio::test]
async fn a_program_is_joined_left_and_joined_again() {
    with_instance("a_program_is_joined_left_and_joined_again", async |m| {
        let file = m.manifest("web.yaml", &pod_with("web", "Never", ASKS, "", "stdin: true"));
        m.minke(&["run", "-q", &file]).await.expect(0);
        let mut first = Joined::new(&m, &["attach", "-i", "web"]);
        first.say("one\n").await;
        assert_eq!(first.line().await, "got one");
        // Its input ends; the program's does not.
        first.child.stdin = None;
        first.child.kill().await.unwrap();

        let mut watches = Joined::new(&m, &["attach", "web"]);
        let mut second = Joined::new(&m, &["attach", "-i", "web"]);
        // What is said before somebody has joined is not seen by him.
        let mut seen = String::new();
        while seen != "got two" {
            second.say("two\n").await;
            seen = tokio::time::timeout(Duration::from_millis(300), watches.line()).await.unwrap_or_default();
        }
        second.say("three\nend\n").await;
        while seen != "got end" {
            seen = second.line().await;
        }
        assert_eq!(second.code().await, 0);
        while seen != "got three" {
            seen = watches.line().await;
            assert_ne!(seen, "", "who only watches sees it as well");
        }
        assert_eq!(watches.code().await, 0);
        let logs = m.minke(&["logs", "web"]).await.expect(0).out;
        assert!(logs.starts_with("up\ngot one\ngot two\n") && logs.ends_with("got three\ngot end\n"), "{logs}");
    })
    .await;
}

#[tokio::test]
async fn the_end_of_input_is_the_programs_with_stdin_once() {
    with_instance("the_end_of_input_is_the_programs_with_stdin_once", async |m| {
        let script = "cat; echo over";
        let file = m.manifest("once.yaml", &pod_with("once", "Never", script, "", "stdin: true\nstdinOnce: true"));
        m.minke(&["run", "-q", &file]).await.expect(0);
        let mut joined = Joined::new(&m, &["attach", "-i", "once"]);
        joined.say("a line\n").await;
        assert_eq!(joined.line().await, "a line");
        joined.child.stdin = None;
        assert_eq!(joined.line().await, "over");
        assert_eq!(joined.code().await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_pod_with_a_terminal_reads_and_shows() {
    with_instance("a_pod_with_a_terminal_reads_and_shows", async |m| {
        let script = "test -t 0 && echo terminal; while read line; do echo got $line; done";
        let file = m.manifest("tty.yaml", &pod_with("tty", "Never", script, "", "stdin: true\ntty: true"));
        m.minke(&["run", "-q", &file]).await.expect(0);
        let mut joined = Joined::new(&m, &["attach", "-i", "tty"]);
        joined.say("one\n").await;
        let mut seen = String::new();
        // The terminal shows what is typed, too.
        while !seen.contains("got one") {
            seen = joined.line().await;
        }
        joined.child.kill().await.unwrap();
        let logs = m.minke(&["logs", "tty"]).await.expect(0).out.replace('\r', "");
        assert!(logs.contains("terminal\n") && logs.contains("got one\n"), "{logs}");
    })
    .await;
}

async fn forwarding(m: &Instance, arguments: &[&str]) -> (Joined, SocketAddr) {
    let mut forward = Joined::new(m, &[&["port-forward"], arguments].concat());
    let address = forward.address().await;
    (forward, address)
}

/// Echoes on this port of a Pod's, to many at a time.
pub(crate) fn echo(port: u16) -> String {
    format!("trap 'exit 0' TERM; nc -ll -p {port} -e cat & wait")
}

/// Whether somebody listens on it, as the Pod sees it.
pub(crate) async fn listens(m: &Instance, pod: &str, port: u16) {
    let look = format!("netstat -ltn | grep -q :{port}");
    let asks = async || m.minke(&["exec", "-q", pod, "--", "sh", "-c", &look]).await.code == 0;
    wait_async("the server in the pod to listen", asks).await;
}

#[tokio::test]
async fn megabytes_go_through_a_forwarded_port_intact_both_ways() {
    with_instance("megabytes_go_through_a_forwarded_port_intact_both_ways", async |m| {
        m.minke(&["run", "-q", &m.pod("echo", "Never", &echo(7007))]).await.expect(0);
        listens(&m, "echo", 7007).await;
        let (forward, address) = forwarding(&m, &["echo", "--address", "127.0.0.1", ":7007"]).await;
        let data: Vec<u8> = (0..4_u32 << 20).map(|n| n.to_le_bytes()[1] ^ n.to_le_bytes()[0]).collect();
        let echoed = async |data: &[u8]| {
            let (mut read, mut write) = TcpStream::connect(address).await.unwrap().into_split();
            let mut back = Vec::new();
            let sending = async {
                write.write_all(data).await.unwrap();
                write.shutdown().await.unwrap();
            };
            let ((), received) = tokio::join!(sending, read.read_to_end(&mut back));
            received.unwrap();
            back
        };
        let back = tokio::time::timeout(PATIENCE, echoed(&data)).await.unwrap();
        assert!(back == data, "{} bytes of {}", back.len(), data.len());
        let (a, b) =
            tokio::time::timeout(PATIENCE, async { tokio::join!(echoed(b"one"), echoed(b"two")) }).await.unwrap();
        assert_eq!((a.as_slice(), b.as_slice()), (&b"one"[..], &b"two"[..]));

        // Nobody listens: the connection ends, and the next one is served.
        let (closed, nowhere) = forwarding(&m, &["echo", "--address", "127.0.0.1", ":7008"]).await;
        let mut socket = TcpStream::connect(nowhere).await.unwrap();
        assert!(!matches!(socket.read(&mut [0; 8]).await, Ok(1..)));
        for forward in [forward, closed] {
            let pid = rustix::process::Pid::from_raw(forward.child.id().unwrap() as i32).unwrap();
            rustix::process::kill_process(pid, Signal::INT).unwrap();
            assert_eq!(forward.code().await, 0);
        }
        wait("the ports to be closed", || std::net::TcpStream::connect(address).is_err()).await;
    })
    .await;
}
