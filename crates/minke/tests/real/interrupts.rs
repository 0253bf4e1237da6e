//! Ctrl-C, once and twice.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use crate::support::{wait, wait_async, with_instance};

#[tokio::test]
async fn an_interrupt_before_the_goal_stops_what_was_started() {
    with_instance("an_interrupt_before_the_goal_stops_what_was_started", async |m| {
        let other = m.pod("other", "Always", "exec sleep 1000");
        m.minke(&["run", &other]).await.expect(0);
        let slow = m.pod("slow", "Never", "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done");
        let run = m.spawn(&["run", &slow, &other, "--until", "running", "--foreground"]);
        wait_async("the pod to be ready", async || m.minke(&["logs", "slow"]).await.out.contains("ready")).await;
        run.signal(Signal::INT);
        let ran = run.end().await.expect(0);
        assert!(ran.err.contains("stopping 1 pod"), "{}", ran.err);
        assert_eq!(m.ps("slow").await.unwrap()["containers"][0]["exitCode"], 3);
        assert_eq!(m.ps("other").await.unwrap()["phase"], "Running", "somebody else's pod goes on");
    })
    .await;
}

#[tokio::test]
async fn an_interrupt_while_waiting_gives_130() {
    with_instance("an_interrupt_while_waiting_gives_130", async |m| {
        let slow = m.pod("slow", "Never", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done");
        let run = m.spawn(&["run", &slow, "--until", "completed"]);
        wait_async("the pod to be ready", async || m.minke(&["logs", "slow"]).await.out.contains("ready")).await;
        run.signal(Signal::INT);
        run.end().await.expect(130);
    })
    .await;
}

#[tokio::test]
async fn a_second_interrupt_kills() {
    with_instance("a_second_interrupt_kills", async |m| {
        let text = crate::support::pod("deaf", "Never", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
            .replace("terminationGracePeriodSeconds: 5", "terminationGracePeriodSeconds: 600");
        let path = m.manifest("deaf.yaml", &text);
        let run = m.spawn(&["run", &path, "--until", "completed"]);
        wait_async("the pod to be ready", async || m.minke(&["logs", "deaf"]).await.out.contains("ready")).await;
        let begun = Instant::now();
        run.signal(Signal::INT);
        wait_async("the pod to be stopping", async || m.ps("deaf").await.unwrap()["stage"] == "Terminating").await;
        run.signal(Signal::INT);
        run.end().await.expect(130);
        assert!(begun.elapsed() < Duration::from_secs(60), "it did not wait for the grace of ten minutes");
        assert_eq!(m.ps("deaf").await.unwrap()["containers"][0]["exitCode"], 137);
    })
    .await;
}

#[tokio::test]
async fn an_agent_on_demand_ends_after_its_last_pod() {
    with_instance("an_agent_on_demand_ends_after_its_last_pod", async |m| {
        let job = m.pod("job", "Never", "true");
        m.minke(&["run", &job, "--until", "completed"]).await.expect(0);
        wait("the agent to end by itself", || m.agent().is_none()).await;
        assert_eq!(m.ps("job").await.unwrap()["phase"], "Succeeded", "what it knew is still there");
        assert!(m.minke(&["logs", "job"]).await.expect(0).out.is_empty());
    })
    .await;
}
