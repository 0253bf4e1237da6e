//! Looking at what runs, and ending it.

use crate::support::{IMAGE, pod, wait_async, with_instance};

#[tokio::test]
async fn logs_follow_until_the_container_has_ended_for_good() {
    with_instance("logs_follow_until_the_container_has_ended_for_good", async |m| {
        let job = m.pod("job", "Never", "for i in 1 2 3; do echo line $i; sleep 0.3; done");
        m.minke(&["run", &job]).await.expect(0);
        let ran = m.minke(&["logs", "-f", "job"]).await.expect(0);
        assert_eq!(ran.out, "line 1\nline 2\nline 3\n");
        assert_eq!(m.minke(&["logs", "job", "--tail", "1"]).await.expect(0).out, "line 3\n");
        assert_eq!(m.minke(&["logs", "job", "--since", "1ms"]).await.expect(0).out, "");
        let stamped = m.minke(&["logs", "job", "--timestamps", "--tail", "1"]).await.expect(0).out;
        assert!(stamped.starts_with("20") && stamped.ends_with("Z line 3\n"), "{stamped}");
    })
    .await;
}

#[tokio::test]
async fn logs_of_the_attempt_before() {
    with_instance("logs_of_the_attempt_before", async |m| {
        let script = "echo attempt; sleep 0.2; exit 1";
        m.minke(&["run", &m.pod("crash", "Always", script), "--quiet"]).await.expect(0);
        m.minke(&["logs", "crash", "--previous", "-c", "main"]).await.expect(2);
        wait_async("a restart", async || m.minke(&["logs", "crash", "--previous"]).await.expect(0).out == "attempt\n")
            .await;
    })
    .await;
}

#[tokio::test]
async fn several_containers_are_told_apart() {
    with_instance("several_containers_are_told_apart", async |m| {
        let text = format!(
            "{}  - {{name: second, image: \"{IMAGE}\", imagePullPolicy: Never, command: [echo, two]}}\n",
            pod("both", "Never", "echo one")
        );
        m.minke(&["run", &m.manifest("both.yaml", &text), "--until", "completed"]).await.expect(0);
        assert_eq!(m.minke(&["logs", "both"]).await.expect(0).out, "main | one\nsecond | two\n");
        assert_eq!(m.minke(&["logs", "both", "-c", "second"]).await.expect(0).out, "two\n");
        let ran = m.minke(&["logs", "both", "-c", "third"]).await.expect(2);
        assert!(ran.err.contains("main, second"), "{}", ran.err);
    })
    .await;
}

#[tokio::test]
async fn stop_keeps_and_rm_removes() {
    with_instance("stop_keeps_and_rm_removes", async |m| {
        let web = m.pod("web", "Always", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done");
        m.minke(&["run", &web]).await.expect(0);
        wait_async("the trap to be set", async || m.minke(&["logs", "web"]).await.out == "up\n").await;
        let ran = m.minke(&["rm", "web"]).await.expect(2);
        assert!(ran.err.contains("--force"), "{}", ran.err);
        m.minke(&["stop", "web"]).await.expect(0);
        let stopped = m.ps("web").await.unwrap();
        assert_eq!(stopped["containers"][0]["exitCode"], 0, "{stopped:#}");
        assert_eq!(m.minke(&["logs", "web"]).await.expect(0).out, "up\n");
        assert!(m.minke(&["ps"]).await.expect(0).out.is_empty(), "only live pods without -a");
        m.minke(&["rm", "web"]).await.expect(0);
        assert_eq!(m.ps("web").await, None);
        m.end_agent().await;
        assert_eq!(m.leftovers(), "");
    })
    .await;
}

#[tokio::test]
async fn an_unknown_name_suggests_the_nearest() {
    with_instance("an_unknown_name_suggests_the_nearest", async |m| {
        m.minke(&["run", &m.pod("frontend", "Never", "true"), "--until", "completed"]).await.expect(0);
        for command in ["stop", "rm", "logs", "inspect"] {
            let ran = m.minke(&[command, "fronted"]).await.expect(2);
            assert!(ran.err.contains("did you mean \"frontend\"?"), "{command}: {}", ran.err);
        }
    })
    .await;
}

#[tokio::test]
async fn inspect_shows_a_pod_that_kubernetes_would_know() {
    with_instance("inspect_shows_a_pod_that_kubernetes_would_know", async |m| {
        m.minke(&["run", &m.pod("web", "Always", "exec sleep 1000")]).await.expect(0);
        let pod = m.minke(&["inspect", "web", "-o", "json"]).await.expect(0).json();
        assert_eq!(pod["status"]["phase"], "Running");
        assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
        assert_eq!(pod["spec"]["dnsPolicy"], "ClusterFirst", "defaulted");
        assert!(pod["minke"]["timings"]["runningAt"].is_string(), "{pod:#}");
        let yaml = m.minke(&["inspect", "web"]).await.expect(0).out;
        assert!(yaml.contains("\n  phase: Running\n"), "{yaml}");
    })
    .await;
}

#[tokio::test]
async fn asking_starts_no_agent_where_there_is_nothing() {
    with_instance("asking_starts_no_agent_where_there_is_nothing", async |m| {
        m.minke(&["ps"]).await.expect(0);
        assert_eq!(m.minke(&["ps", "-o", "json"]).await.expect(0).json(), serde_json::json!([]));
        m.minke(&["rm", "--all", "--force"]).await.expect(0);
        assert!(m.minke(&["version"]).await.expect(0).out.contains("agent not running"));
        assert!(m.agent().is_none());
    })
    .await;
}

#[tokio::test]
async fn images_in_use_stay() {
    with_instance("images_in_use_stay", async |m| {
        m.minke(&["run", &m.pod("web", "Always", "exec sleep 1000")]).await.expect(0);
        let ran = m.minke(&["image", "rm", IMAGE]).await.expect(5);
        assert!(ran.err.contains("use"), "{}", ran.err);
        m.minke(&["image", "prune", "--all"]).await.expect(0);
        assert!(m.minke(&["image", "list"]).await.expect(0).out.contains("localhost/test/busybox"));
        m.minke(&["rm", "web", "--force"]).await.expect(0);
        m.minke(&["image", "rm", IMAGE]).await.expect(0);
        assert!(!m.minke(&["image", "list"]).await.expect(0).out.contains("localhost/test/busybox"));
    })
    .await;
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_failure() {
    with_instance("a_reader_that_goes_away_is_no_failure", async |m| {
        m.minke(&["run", &m.pod("many", "Never", "seq 100000"), "--until", "completed", "--no-logs"]).await.expect(0);
        let mut child = m.command(&["logs", "many"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert!(child.wait().await.unwrap().success());
    })
    .await;
}
