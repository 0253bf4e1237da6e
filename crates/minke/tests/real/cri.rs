//! Pods on a runtime with CRI: the same commands, and what is said when the runtime goes away.

use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use minke_testkit::containerd::Release;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::time::Instant;

use crate::containerd::{OnContainerd, with_containerd};
use crate::support::{Instance, Running, wait, wait_async, why_not};

#[tokio::test]
async fn pods_live_and_go_on_containerd_1_6() {
    with_containerd("pods_live_and_go", Release::Bookworm, pods_live_and_go).await;
}

#[tokio::test]
async fn pods_live_and_go_on_containerd_1_7() {
    with_containerd("pods_live_and_go", Release::Trixie, pods_live_and_go).await;
}

#[tokio::test]
async fn pods_live_and_go_on_containerd_2_1() {
    with_containerd("pods_live_and_go", Release::Sid, pods_live_and_go).await;
}

async fn pods_live_and_go(bed: OnContainerd) {
    let m = &bed.m;
    let job = m.pod("job", "Never", "echo hello; exit 7");
    let ran = m.minke(&["run", &job, "--until", "completed", "-o", "json"]).await.expect(1);
    assert_eq!(ran.json()["pods"][0]["containers"][0]["exitCode"], 7);
    assert_eq!(m.minke(&["logs", "job"]).await.expect(0).out, "hello\n");
    let web = m.pod("web", "Always", "trap 'exit 0' TERM; while :; do sleep 0.1; done");
    m.minke(&["run", &web]).await.expect(0);
    let before = m.ps("web").await.unwrap();
    assert!(before["podIP"].is_string(), "{before:#}");
    // Another agent finds it as it was.
    assert!(m.kill_agent().await);
    assert_eq!(m.ps("web").await.unwrap()["containers"], before["containers"]);
    bed.end().await;
}

#[tokio::test]
async fn while_the_runtime_is_away_nothing_is_started_or_reported_dead() {
    let name = "while_the_runtime_is_away_nothing_is_started_or_reported_dead";
    with_containerd(name, Release::Sid, async |mut bed| {
        let m = &bed.m;
        let web = m.pod("web", "Always", "trap 'exit 0' TERM; while :; do sleep 0.1; done");
        m.minke(&["run", &web]).await.expect(0);
        let before = m.ps("web").await.unwrap();

        bed.containerd.kill();
        wait_async("the agent to notice", async || metric(m, "minke_runtime_answers").await == "0").await;
        let shown = m.minke(&["ps"]).await.expect(0);
        assert!(shown.err.contains("the container runtime has not answered for"), "{}", shown.err);
        assert!(shown.out.contains("Running"), "{}", shown.out);
        assert_eq!(m.ps("web").await.unwrap()["containers"], before["containers"], "as it was seen last");
        let late = m.pod("late", "Never", "sleep 1000");
        let waiting: Running = m.spawn(&["run", &late]);
        wait_async("the new Pod to be taken on", async || m.ps("late").await.is_some()).await;
        let ended = m.spawn(&["rm", "--force", "web"]);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(m.ps("late").await.unwrap()["phase"], "Pending", "nothing was started");
        let web = m.ps("web").await.unwrap();
        assert!(web["containers"][0]["exitCode"].is_null(), "nobody knows that it has ended: {web:#}");

        bed.containerd.restart().await.unwrap();
        let back = Instant::now();
        let m = &bed.m;
        ended.end().await.expect(0);
        wait_async("the new Pod to run", async || m.ps("late").await.unwrap()["phase"] == "Running").await;
        println!("after {} ms everything that waited was done", back.elapsed().as_millis());
        // It may have given up before, with a verdict on the machine.
        waiting.end().await;
        wait_async("the agent to notice", async || metric(m, "minke_runtime_answers").await == "1").await;
        let shown = m.minke(&["ps"]).await.expect(0);
        assert!(!shown.err.contains("has not answered"), "{}", shown.err);
        bed.end().await;
    })
    .await;
}

#[tokio::test]
async fn a_runtime_that_hangs_is_told_and_goes_on_where_it_was() {
    let name = "a_runtime_that_hangs_is_told_and_goes_on_where_it_was";
    with_containerd(name, Release::Sid, async |bed| {
        let m = &bed.m;
        let web = m.pod("web", "Always", "trap 'exit 0' TERM; while :; do sleep 0.1; done");
        m.minke(&["run", &web]).await.expect(0);
        let before = m.ps("web").await.unwrap();

        let containerd = Pid::from_raw(bed.containerd.pid().unwrap().cast_signed()).unwrap();
        kill_process(containerd, Signal::STOP).unwrap();
        let hangs = Instant::now();
        let says = "the container runtime has not answered for";
        wait_async("minke ps to say so", async || m.minke(&["ps"]).await.expect(0).err.contains(says)).await;
        println!("after {} ms minke ps says that the runtime hangs", hangs.elapsed().as_millis());
        assert_eq!(metric(m, "minke_runtime_answers").await, "0");
        wait("the agent to say why", || m.agent_log().contains("it hangs")).await;
        assert_eq!(m.ps("web").await.unwrap()["containers"], before["containers"], "as it was seen last");
        // Who asks it for the first time is told as well.
        let doctor = m.minke(&["doctor"]).await.expect(1);
        assert!(doctor.out.contains("does not answer within 10 s"), "{}", doctor.out);

        kill_process(containerd, Signal::CONT).unwrap();
        wait("the agent to notice", || m.agent_log().contains("answers again")).await;
        wait_async("minke ps to say no more", async || !m.minke(&["ps"]).await.expect(0).err.contains(says)).await;
        assert_eq!(m.ps("web").await.unwrap()["containers"], before["containers"], "nothing was started again");
        bed.end().await;
    })
    .await;
}

#[tokio::test]
async fn doctor_judges_each_runtime_by_itself() {
    let name = "doctor_judges_each_runtime_by_itself";
    with_containerd(name, Release::Bookworm, async |bed| {
        let report = bed.m.minke(&["doctor", "-o", "json"]).await.expect(0).json();
        let checks = report["checks"].as_array().unwrap();
        let check = |name: &str| checks.iter().find(|c| c["check"] == name).cloned().unwrap_or_default();
        assert!(check("cri")["found"].as_str().unwrap().starts_with("containerd 1.6."), "{report:#}");
        assert_eq!(check("cri conditions")["result"], "ok", "{report:#}");
        assert_eq!(check("cri sandbox image")["result"], "ok", "{report:#}");
        assert_eq!(check("cri events")["result"], "warn", "{report:#}");
        assert_eq!(check("cri oom_score_adj"), Value::Null, "it is configured for machines like this");
        let verdicts = report["verdicts"].as_array().unwrap();
        assert_eq!((&verdicts[1]["runtime"], &verdicts[1]["chosen"]), (&"cri".into(), &true.into()), "{report:#}");
        bed.end().await;
    })
    .await;
}

/// The value of a metric without labels.
async fn metric(m: &Instance, name: &str) -> String {
    let text = m.minke(&["metrics"]).await.expect(0).out;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}")).trim_end_matches(".0").to_owned()
}

#[tokio::test]
async fn a_socket_that_is_no_runtimes_is_told_with_what_to_do() {
    if let Some(reason) = why_not() {
        return println!("SKIPPED a_socket_that_is_no_runtimes_is_told_with_what_to_do: {reason}");
    }
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let _silent = UnixListener::bind(at("silent.sock")).unwrap();
    drop(UnixListener::bind(at("ended.sock")).unwrap());
    std::fs::write(at("file"), "").unwrap();
    let web = UnixListener::bind(at("web.sock")).unwrap();
    // Ends with the test's process: it waits for callers.
    std::thread::spawn(move || {
        for mut caller in web.incoming().flatten() {
            let _ = caller.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    for (name, says) in [
        ("none.sock", "is the container runtime running"),
        ("file", "is no socket"),
        ("ended.sock", "nothing listens"),
        ("web.sock", "is no container runtime"),
        ("silent.sock", "does not answer"),
    ] {
        let m = Instance::on(at(name));
        let ran = m.minke(&["run", &m.pod("a", "Never", "true")]).await.expect(5);
        assert!(ran.err.contains(says), "{name}: {}", ran.err);
        // It has said why, and is on its way out.
        wait(&format!("the agent of {name} to end"), || m.agent().is_none()).await;
        let doctor = m.minke(&["doctor"]).await.expect(1);
        assert!(doctor.out.contains("cri: Pods can't run here until this is mended: cri."), "{name}: {}", doctor.out);
    }
}
