//! Commands in containers, as a person and a script run them.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt;

use crate::screen::Screen;
use crate::support::{IMAGE, Instance, PATIENCE, Ran, pod, wait, with_instance};

const IDLE: &str = "trap 'exit 0' TERM; while :; do sleep 0.2; done";

async fn running(m: &Instance, name: &str) {
    m.minke(&["run", "-q", &m.pod(name, "Never", IDLE)]).await.expect(0);
}

#[tokio::test]
async fn output_errors_and_exit_code_are_the_commands() {
    with_instance("output_errors_and_exit_code_are_the_commands", async |m| {
        running(&m, "web").await;
        let ran = m.minke(&["exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 42"]).await.expect(42);
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("out\n", "err\ncommand terminated with exit code 42\n"));
        let ran =
            m.minke(&["exec", "-q", "default/web", "-c", "main", "--", "sh", "-c", "kill -9 $$"]).await.expect(137);
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
        assert_eq!(m.minke(&["exec", "web", "--", "cat"]).await.expect(0).out, "");
        let ran = m.minke(&["exec", "web", "--", "head", "-c", "3000000", "/dev/zero"]).await.expect(0);
        assert_eq!(ran.out.len(), 3_000_000);
    })
    .await;
}

#[tokio::test]
async fn input_is_passed_on_to_its_end() {
    with_instance("input_is_passed_on_to_its_end", async |m| {
        running(&m, "web").await;
        let mut child = m.command(&["exec", "-i", "web", "--", "sh", "-c", "md5sum; echo over"]);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let data = "0123456789abcdef".repeat(200_000);
        stdin.write_all(data.as_bytes()).await.unwrap();
        drop(stdin);
        let ran: Ran = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap().into();
        let ran = ran.expect(0);
        assert_eq!(ran.out, format!("{}  -\nover\n", md5(&m, &data)));
        // A command that reads nothing does not hold up who writes.
        let mut child = m.command(&["exec", "-i", "web", "--", "true"]);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writer = tokio::spawn(async move {
            let _ = stdin.write_all(&vec![0; 4 << 20]).await;
        });
        assert!(tokio::time::timeout(PATIENCE, child.wait()).await.unwrap().unwrap().success());
        writer.await.unwrap();
    })
    .await;
}

/// By the busybox of this machine, which is the one of the image.
fn md5(m: &Instance, data: &str) -> String {
    let path = m.root().join("data");
    std::fs::write(&path, data).unwrap();
    let out = std::process::Command::new(minke_testkit::BUSYBOX).arg("md5sum").arg(&path).output().unwrap().stdout;
    String::from_utf8(out).unwrap().split_whitespace().next().unwrap().to_owned()
}

#[tokio::test]
async fn what_can_not_run_says_why() {
    with_instance("what_can_not_run_says_why", async |m| {
        running(&m, "web").await;
        let ran = m.minke(&["exec", "web", "--", "foo"]).await.expect(127);
        assert!(ran.err.contains("exec: \"foo\": executable file not found in $PATH"), "{}", ran.err);
        let ran = m.minke(&["exec", "web", "--", "/etc/passwd"]).await.expect(126);
        assert!(ran.err.contains("permission denied"), "{}", ran.err);
        let ran = m.minke(&["exec", "webb", "--", "true"]).await.expect(2);
        assert!(ran.err.contains("no pod \"webb\"") && ran.err.contains("did you mean \"web\""), "{}", ran.err);
        let ran = m.minke(&["exec", "web", "-c", "nope", "--", "true"]).await.expect(2);
        assert!(ran.err.contains("container nope is not valid for pod default/web"), "{}", ran.err);
        let side = format!("{{name: side, image: \"{IMAGE}\", imagePullPolicy: Never, command: [sleep, \"1000\"]}}");
        let text = format!("{}  - {side}\n", pod("two", "Never", IDLE));
        m.minke(&["run", "-q", &m.manifest("two.yaml", &text)]).await.expect(0);
        let ran = m.minke(&["exec", "two", "--", "hostname"]).await.expect(0);
        assert_eq!(
            (ran.out.as_str(), ran.err.as_str()),
            ("two\n", "Defaulted container \"main\" out of: main, side\n")
        );
        m.minke(&["run", "-q", "--until", "completed", &m.pod("done", "Never", "true")]).await.expect(0);
        let ran = m.minke(&["exec", "done", "--", "true"]).await.expect(5);
        let words = "cannot exec into a container in a completed pod; current phase is Succeeded";
        assert!(ran.err.contains(words), "{}", ran.err);
    })
    .await;
}

#[tokio::test]
async fn a_command_ends_with_who_asked_for_it_and_with_the_agent() {
    with_instance("a_command_ends_with_who_asked_for_it_and_with_the_agent", async |m| {
        running(&m, "web").await;
        let script = |mark: u32| format!("trap '' INT TERM HUP; echo up; while :; do sleep {mark}; done");
        let up = async |mark: u32| {
            let child = m.spawn(&["exec", "-i", "web", "--", "sh", "-c", &script(mark)]);
            wait("the command to run", || runs(mark)).await;
            child
        };
        let child = up(313_131).await;
        child.signal(Signal::KILL);
        wait("the command to be gone", || !runs(313_131)).await;
        let child = up(323_232).await;
        child.signal(Signal::TERM);
        child.end().await.expect(143);
        wait("the command to be gone", || !runs(323_232)).await;
        let child = up(333_333).await;
        assert!(m.kill_agent().await);
        let ran = child.end().await.expect(5);
        assert!(ran.err.contains("the agent is gone"), "{}", ran.err);
        wait("the command to be gone", || !runs(333_333)).await;
        // In a container that this agent has not made.
        assert_eq!(m.minke(&["exec", "web", "--", "hostname"]).await.expect(0).out, "web\n");
    })
    .await;
}

fn runs(mark: u32) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let line = |e: std::fs::DirEntry| std::fs::read(e.path().join("cmdline")).unwrap_or_default();
    let wanted = format!("sleep\0{mark}\0");
    entries.map(line).any(|l| l == wanted.as_bytes())
}

#[tokio::test]
async fn a_shell_on_a_terminal_that_changes_its_size() {
    with_instance("a_shell_on_a_terminal_that_changes_its_size", async |m| {
        running(&m, "web").await;
        let mut screen = Screen::new();
        assert!(screen.is_cooked());
        let mut command = m.command(&["exec", "-it", "web", "--", "sh"]);
        let mut child = command.stdin(screen.stdio()).stdout(screen.stdio()).stderr(screen.stdio()).spawn().unwrap();
        screen.shows("# ").await;
        assert!(!screen.is_cooked(), "keys are not passed on");
        screen.kind("tty; stty size\r");
        screen.shows("/dev/pts/").await;
        screen.shows("30 100\r\n").await;
        screen.kind("while test \"$(stty size)\" != '40 120'; do sleep 0.05; done; echo arri''ved\r");
        screen.shows("ved").await;
        screen.size(120, 40);
        kill_process(Pid::from_raw(child.id().unwrap() as i32).unwrap(), Signal::WINCH).unwrap();
        screen.shows("arrived").await;
        // Ctrl-C is for the program inside.
        screen.kind("sleep 1000\r");
        screen.shows("sleep 1000").await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        screen.kind("\x03");
        screen.kind("echo st''ill here\r");
        screen.shows("still here").await;
        screen.kind("exit 7\r");
        let status = tokio::time::timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(7));
        assert!(screen.is_cooked(), "the terminal is left raw");
        screen.shows("command terminated with exit code 7").await;
    })
    .await;
}

#[tokio::test]
async fn the_terminal_is_as_it_was_however_it_ends() {
    with_instance("the_terminal_is_as_it_was_however_it_ends", async |m| {
        running(&m, "web").await;
        for (signal, code) in [(Some(Signal::TERM), 143), (Some(Signal::HUP), 129), (None, 5)] {
            let mut screen = Screen::new();
            let mut command = m.command(&["exec", "-it", "web", "--", "sh", "-c", "echo up; sleep 424242"]);
            let mut child =
                command.stdin(screen.stdio()).stdout(screen.stdio()).stderr(screen.stdio()).spawn().unwrap();
            screen.shows("up").await;
            wait("the terminal to be raw", || !screen.is_cooked()).await;
            match signal {
                Some(signal) => kill_process(Pid::from_raw(child.id().unwrap() as i32).unwrap(), signal).unwrap(),
                None => assert!(m.kill_agent().await),
            }
            let status = tokio::time::timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
            assert_eq!(status.code(), Some(code));
            assert!(screen.is_cooked(), "the terminal is left raw");
            wait("the command to be gone", || !runs(424_242)).await;
        }
        // Without a terminal of its own it runs without, and says so.
        let ran = m.minke(&["exec", "-t", "web", "--", "sh", "-c", "test -t 1 || echo none"]).await.expect(0);
        assert_eq!(ran.out, "none\n");
        assert!(ran.err.contains("Unable to use a TTY"), "{}", ran.err);
    })
    .await;
}
