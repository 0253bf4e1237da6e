//! Probes and hooks on real containers: commands in them, requests to their addresses.

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::support::{Instance, pod_with, wait_async, with_instance};

/// The status of the Pod's one container.
async fn status(m: &Instance, pod: &str) -> Value {
    let one = m.minke(&["inspect", pod, "-o", "json"]).await.expect(0).json();
    one["status"]["containerStatuses"][0].clone()
}

async fn until(m: &Instance, pod: &str, what: &str, holds: impl Fn(&Value) -> bool) {
    wait_async(what, async || holds(&status(m, pod).await)).await;
}

async fn exec(m: &Instance, pod: &str, script: &str) {
    m.minke(&["exec", pod, "--", "sh", "-c", script]).await.expect(0);
}

#[tokio::test]
async fn readiness_follows_a_command_and_outlives_the_agent() {
    with_instance("readiness_follows_a_command_and_outlives_the_agent", async |m| {
        let probe =
            "readinessProbe:\n  exec: {command: [test, -e, /tmp/ready]}\n  periodSeconds: 1\n  failureThreshold: 1";
        let file = m.manifest("web", &pod_with("web", "Always", "mkdir -p /tmp; exec sleep 1000", "", probe));
        m.minke(&["run", &file]).await.expect(0);
        assert_eq!(status(&m, "web").await["ready"], false);
        exec(&m, "web", "touch /tmp/ready").await;
        until(&m, "web", "it to be ready", |s| s["ready"] == true).await;

        let agent = m.agent().unwrap();
        kill_process(agent, Signal::KILL).unwrap();
        assert_eq!(status(&m, "web").await["ready"], true, "a new agent does not doubt it");
        exec(&m, "web", "rm /tmp/ready").await;
        until(&m, "web", "it to be busy", |s| s["ready"] == false && s["restartCount"] == 0).await;
    })
    .await;
}

#[tokio::test]
async fn a_container_that_no_longer_listens_is_started_again() {
    with_instance("a_container_that_no_longer_listens_is_started_again", async |m| {
        let script = "httpd -f -p 8080 -h / & sleep 1000 & wait";
        let probe = "livenessProbe:\n  tcpSocket: {port: 8080}\n  initialDelaySeconds: 1\n  periodSeconds: 1\n  failureThreshold: 2\n  \
                     terminationGracePeriodSeconds: 1";
        let file = m.manifest("web", &pod_with("web", "Always", script, "", probe));
        m.minke(&["run", &file]).await.expect(0);
        exec(&m, "web", "sleep 3; kill $(pidof httpd)").await;
        until(&m, "web", "it to be started again", |s| s["restartCount"] == 1 && s["state"]["running"].is_object()).await;
        assert_eq!(status(&m, "web").await["lastState"]["terminated"]["exitCode"], 137, "the shell ignores TERM");
    })
    .await;
}

#[tokio::test]
async fn nothing_else_is_probed_before_the_start_is_over() {
    with_instance("nothing_else_is_probed_before_the_start_is_over", async |m| {
        let script = "mkdir -p /tmp/www; httpd -f -p 8080 -h /tmp/www & wait";
        let probe = "startupProbe:\n  httpGet: {path: /started, port: 8080}\n  periodSeconds: 1\n  failureThreshold: 300\n\
                     livenessProbe:\n  httpGet: {path: /alive, port: 8080}\n  periodSeconds: 1\n  failureThreshold: 1";
        let file = m.manifest("web", &pod_with("web", "Never", script, "", probe));
        m.minke(&["run", &file]).await.expect(0);
        // Long enough for the liveness probe to fail, if it were tried.
        exec(&m, "web", "sleep 3").await;
        let waiting = status(&m, "web").await;
        assert_eq!((&waiting["started"], &waiting["ready"]), (&Value::Bool(false), &Value::Bool(false)));
        assert!(waiting["state"]["running"].is_object());
        exec(&m, "web", "touch /tmp/www/alive; touch /tmp/www/started").await;
        until(&m, "web", "it to have started", |s| s["started"] == true && s["ready"] == true).await;
        exec(&m, "web", "rm /tmp/www/alive").await;
        until(&m, "web", "it to be killed for good", |s| s["state"]["terminated"].is_object()).await;
        assert_eq!(status(&m, "web").await["restartCount"], 0, "restartPolicy Never");
    })
    .await;
}

#[tokio::test]
async fn hooks_run_their_commands_in_the_container() {
    with_instance("hooks_run_their_commands_in_the_container", async |m| {
        let script = "trap 'cat /tmp/hooks; exit 0' TERM; while :; do sleep 0.1; done";
        let hooks = "lifecycle:\n  postStart:\n    exec: {command: [sh, -c, 'mkdir -p /tmp; echo started >> /tmp/hooks']}\n  \
                     preStop:\n    exec: {command: [sh, -c, 'echo stopping >> /tmp/hooks']}";
        let file = m.manifest("web", &pod_with("web", "Always", script, "", hooks));
        m.minke(&["run", &file]).await.expect(0);
        m.minke(&["stop", "web"]).await.expect(0);
        let logs = m.minke(&["logs", "web"]).await.expect(0).out;
        assert_eq!(logs, "started\nstopping\n");
    })
    .await;
}
