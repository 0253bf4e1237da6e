//! Reaching the goal.

use serde_json::json;

use crate::support::{IMAGE, pod, wait_async, with_instance};

#[tokio::test]
async fn a_pod_runs_and_stays_when_the_command_has_ended() {
    with_instance("a_pod_runs_and_stays_when_the_command_has_ended", async |m| {
        let web = m.pod("web", "Always", "echo up; exec sleep 1000");
        let result = m.minke(&["run", &web, "-o", "json"]).await.expect(0).json();
        assert_eq!(result["outcome"], "reached");
        assert_eq!(result["pods"][0]["phase"], "Running");
        assert_eq!(result["pods"][0]["containers"][0]["state"], "Running");
        assert_eq!(m.ps("web").await.unwrap()["phase"], "Running");
        assert!(!m.pod_cgroups().is_empty());

        m.minke(&["rm", "--all", "--force"]).await.expect(0);
        m.end_agent().await;
        assert_eq!(m.leftovers(), "");
    })
    .await;
}

#[tokio::test]
async fn until_completed_shows_the_logs_and_gives_0() {
    with_instance("until_completed_shows_the_logs_and_gives_0", async |m| {
        let hello = m.pod("hello", "Never", "echo one; echo two >&2");
        let ran = m.minke(&["run", &hello, "--until", "completed"]).await.expect(0);
        assert!(ran.out.contains("hello/main | one\n") && ran.out.contains("hello/main | two\n"), "{}", ran.out);
        assert!(ran.out.contains("Succeeded"), "{}", ran.out);
    })
    .await;
}

#[tokio::test]
async fn with_a_document_on_standard_output_logs_go_to_standard_error() {
    with_instance("with_a_document_on_standard_output_logs_go_to_standard_error", async |m| {
        let hello = m.pod("hello", "Never", "echo one");
        let ran = m.minke(&["run", &hello, "--until", "completed", "-o", "json"]).await.expect(0);
        assert_eq!(ran.json()["pods"][0]["containers"][0]["exitCode"], 0);
        assert!(ran.err.contains("hello/main | one"), "{}", ran.err);
    })
    .await;
}

#[tokio::test]
async fn a_pod_run_again_while_it_runs_is_left_alone_and_afterwards_runs_afresh() {
    with_instance("a_pod_run_again_while_it_runs_is_left_alone_and_afterwards_runs_afresh", async |m| {
        let job = m.pod("job", "Never", "echo $RANDOM; test -e /go && exit 0; sleep 2");
        let first = m.minke(&["run", &job, "-o", "json"]).await.expect(0).json();
        let again = m.minke(&["run", &job, "-o", "json"]).await.expect(0).json();
        let started = |r: &serde_json::Value| r["pods"][0]["containers"][0]["startedAt"].clone();
        assert_eq!(started(&first), started(&again), "it was left alone");
        m.minke(&["run", &job, "--until", "completed"]).await.expect(0);
        let afresh = m.minke(&["run", &job, "--until", "completed", "-o", "json"]).await.expect(0).json();
        assert_ne!(started(&first), started(&afresh), "it ran again: {afresh:#}");
    })
    .await;
}

#[tokio::test]
async fn manifests_come_from_standard_input_and_directories() {
    use tokio::io::AsyncWriteExt;
    with_instance("manifests_come_from_standard_input_and_directories", async |m| {
        let mut child = m
            .command(&["run", "-", "--until", "completed", "--quiet"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(pod("piped", "Never", "echo from a pipe").as_bytes()).await.unwrap();
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        assert!(output.status.success() && output.stdout.starts_with(b"piped/main | from a pipe\n"), "{output:?}");

        let directory = m.root().join("manifests");
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("a.yaml"), pod("a", "Never", "true")).unwrap();
        std::fs::write(directory.join("b.yaml"), pod("b", "Never", "true")).unwrap();
        std::fs::write(directory.join(".hidden.yaml"), "not a manifest").unwrap();
        let ran = m.minke(&["run", directory.to_str().unwrap(), "--until", "completed", "-o", "json"]).await;
        let names: Vec<_> =
            ran.expect(0).json()["pods"].as_array().unwrap().iter().map(|p| p["name"].clone()).collect();
        assert_eq!(names, [json!("a"), json!("b")]);
    })
    .await;
}

#[tokio::test]
async fn two_runs_at_once_share_one_agent() {
    with_instance("two_runs_at_once_share_one_agent", async |m| {
        let (a, b) = (m.pod("a", "Always", "exec sleep 1000"), m.pod("b", "Always", "exec sleep 1000"));
        let (a, b) = (["run", a.as_str(), "--quiet"], ["run", b.as_str(), "--quiet"]);
        let (first, second) = tokio::join!(m.minke(&a), m.minke(&b));
        first.expect(0);
        second.expect(0);
        let agents = m.processes().iter().filter(|(_, command)| command.contains(" agent --on-demand")).count();
        assert_eq!(agents, 1, "{:?}", m.processes());
        let all = m.minke(&["ps", "-o", "json"]).await.expect(0).json();
        assert_eq!(all.as_array().unwrap().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn two_runs_of_one_manifest_at_once_make_one_pod() {
    with_instance("two_runs_of_one_manifest_at_once_make_one_pod", async |m| {
        let a = m.pod("a", "Always", "exec sleep 1000");
        let arguments = ["run", a.as_str(), "-o", "json"];
        let runs = (0..4).map(|_| m.minke(&arguments));
        let started: Vec<_> = futures_util::future::join_all(runs)
            .await
            .into_iter()
            .map(|ran| ran.expect(0).json()["pods"][0]["containers"][0]["startedAt"].clone())
            .collect();
        assert!(started.iter().all(|s| *s == started[0]), "{started:?}");
    })
    .await;
}

#[tokio::test]
async fn a_failing_container_is_restarted_by_the_agent() {
    with_instance("a_failing_container_is_restarted_by_the_agent", async |m| {
        let crash = m.pod("crash", "Always", "sleep 0.3; exit 7");
        m.minke(&["run", &crash, "--quiet"]).await.expect(0);
        wait_async("a restart", async || {
            m.ps("crash").await.is_some_and(|p| p["containers"][0]["restarts"].as_i64().unwrap() >= 1)
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn two_hundred_containers_in_forty_pods_run() {
    with_instance("two_hundred_containers_in_forty_pods_run", async |m| {
        let containers: String = (0..5)
            .map(|i| {
                format!("  - {{name: c{i}, image: \"{IMAGE}\", imagePullPolicy: Never, command: [sleep, \"1000\"]}}\n")
            })
            .collect();
        let pods: String = (0..40)
            .map(|i| {
                format!(
                    "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: p{i}\nspec:\n  \
                     terminationGracePeriodSeconds: 0\n  containers:\n{containers}"
                )
            })
            .collect();
        let many = m.manifest("many.yaml", &pods);
        let result = m.minke(&["run", &many, "-o", "json", "--timeout", "200s"]).await.expect(0).json();
        assert_eq!(result["pods"].as_array().unwrap().len(), 40);
        m.minke(&["rm", "--all", "--force"]).await.expect(0);
        m.end_agent().await;
        assert_eq!(m.leftovers(), "");
    })
    .await;
}
