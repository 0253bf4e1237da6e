//! Very many sessions at one time, through a whole cluster: API server, node, agent, shim.

use futures_util::future::join_all;
use futures_util::{AsyncReadExt, AsyncWriteExt};
use hyper::Request;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::client::Body;
use minke_core::runtime::ExecSession;
use minke_streams::client::exec_over;
use minke_streams::negotiate::ExecStreams;
use rustix::process::Pid;
use serde_json::json;

use crate::support::{PATIENCE, Ran, wait_async, with_instance};
use crate::up::{LOOP, client, pod, runs, until, up_with_few_files};

const SESSIONS: usize = 1000;
/// Begun at one time: each is a process, and a test machine is small.
const AT_ONCE: usize = 25;
/// Most memory of the process that everything goes through, per session and in KiB.
const MOST_KIB: u64 = 512;

async fn session(api: &Client, command: &str) -> ExecSession {
    let streams = ExecStreams { stdin: true, stdout: true, stderr: true, tty: false };
    let path = format!("/api/v1/namespaces/default/pods/web/exec?stdin=true&stdout=true&stderr=true&command={command}");
    let request = Request::post(path)
        .header("connection", "Upgrade")
        .header("upgrade", "SPDY/3.1")
        .header("x-stream-protocol-version", "v4.channel.k8s.io")
        .body(Body::empty())
        .unwrap();
    let response = api.send(request).await.unwrap();
    assert_eq!(response.status(), 101);
    let io = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    exec_over(io, streams, None).await.unwrap()
}

/// Says something, hears it, ends.
async fn used(mut session: ExecSession, said: &[u8]) {
    let mut stdin = session.stdin.take().unwrap();
    stdin.write_all(said).await.unwrap();
    let mut heard = vec![0; said.len()];
    session.stdout.read_exact(&mut heard).await.unwrap();
    assert_eq!(heard, said);
    stdin.close().await.unwrap();
    assert_eq!(session.control.wait().await.unwrap(), 0);
}

fn resident_kib(pid: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The soft and the hard limit of open files.
fn open_files(pid: i32) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut words = line.split_whitespace().map(ToOwned::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

#[tokio::test]
async fn minke_opens_as_many_files_as_it_may_and_containers_do_not_notice() {
    with_instance("minke_opens_as_many_files_as_it_may_and_containers_do_not_notice", async |m| {
        let file = m.pod("web", "Never", &format!("ulimit -n; {LOOP}"));
        let ran: Ran = m.command_with_few_files(&["run", "-q", &file]).output().await.unwrap().into();
        ran.expect(0);
        let ours = m.processes();
        assert!(ours.len() > 1, "an agent and a shim: {ours:?}");
        for (pid, command) in ours {
            let (soft, hard) = open_files(pid);
            assert_eq!(soft, hard, "{command}");
        }
        wait_async("the limit in the container", async || m.minke(&["logs", "web"]).await.out == "1024\n").await;
        let ran = m.minke(&["exec", "web", "--", "sh", "-c", "ulimit -n"]).await.expect(0);
        assert_eq!(ran.out, "1024\n");
        // Another agent, started by somebody with another limit.
        assert!(m.kill_agent().await);
        let ran = m.minke(&["exec", "web", "--", "sh", "-c", "ulimit -n"]).await.expect(0);
        assert_eq!(ran.out, "1024\n", "the shim remembers");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_commands_at_one_time_are_all_served_in_bounded_memory() {
    with_instance("a_thousand_commands_at_one_time_are_all_served_in_bounded_memory", async |m| {
        let api = client(&up_with_few_files(&m).await).await;
        let pods: Api<Pod> = Api::default_namespaced(api.clone());
        pods.create(&PostParams::default(), &pod("web", "Always", LOOP, &json!({}))).await.unwrap();
        until(&pods, "web", "runs", runs).await;
        used(session(&api, "cat").await, b"one").await;
        let agent = m.agent().unwrap();
        let before = resident_kib(agent);
        let mut sessions = Vec::new();
        while sessions.len() < SESSIONS {
            let some = join_all((0..AT_ONCE).map(|_| session(&api, "cat")));
            sessions.extend(tokio::time::timeout(PATIENCE, some).await.unwrap());
        }
        let each = (resident_kib(agent).saturating_sub(before)) / SESSIONS as u64;
        println!("{each} KiB a session");
        // A program of another kind still has room beside them.
        m.minke(&["exec", "web", "--", "true"]).await.expect(0);
        for some in sessions.chunks_mut(AT_ONCE) {
            let some = some.iter_mut().map(|session| async {
                let stdin = session.stdin.as_mut().unwrap();
                stdin.write_all(b"still here").await.unwrap();
                let mut heard = [0; 10];
                session.stdout.read_exact(&mut heard).await.unwrap();
                assert_eq!(&heard, b"still here");
            });
            tokio::time::timeout(PATIENCE, join_all(some)).await.unwrap();
        }
        assert!(each <= MOST_KIB, "{each} KiB a session");
        join_all(sessions.into_iter().map(|session| used(session, b"and again"))).await;
        m.minke(&["down", "--purge"]).await.expect(0);
        assert_eq!(m.leftovers(), "");
    })
    .await;
}
