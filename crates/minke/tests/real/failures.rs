//! Bad things that must end well, each with its exit code.

use std::net::TcpListener;

use crate::support::{IMAGE, pod, pod_with, wait_async, with_instance};

#[tokio::test]
async fn exit_1_when_a_container_fails() {
    with_instance("exit_1_when_a_container_fails", async |m| {
        let bad = m.pod("bad", "Never", "exit 42");
        let ran = m.minke(&["run", &bad, "--until", "completed", "-o", "json"]).await.expect(1);
        assert_eq!(ran.json()["pods"][0]["containers"][0]["exitCode"], 42);
        let why = &ran.json()["pods"][0]["why"];
        assert_eq!((&why["cause"], &why["category"]), (&"ContainerFailed".into(), &"program".into()));
        assert!(
            ran.err.contains("default/bad: ContainerFailed: container main (image ")
                && ran.err.contains("exit code 42"),
            "{}",
            ran.err
        );
    })
    .await;
}

#[tokio::test]
async fn exit_code_from_gives_the_containers_own() {
    with_instance("exit_code_from_gives_the_containers_own", async |m| {
        let bad = m.pod("bad", "Never", "exit 42");
        m.minke(&["run", &bad, "--until", "completed", "--exit-code-from", "bad/main"]).await.expect(42);
        m.minke(&["run", &bad, "--until", "completed", "--exit-code-from", "bad/other"]).await.expect(2);
    })
    .await;
}

#[tokio::test]
async fn exit_2_and_nothing_started_for_a_bad_manifest() {
    with_instance("exit_2_and_nothing_started_for_a_bad_manifest", async |m| {
        let text = format!(
            "{}---\n{}",
            pod("good", "Always", "sleep 1000"),
            pod("bad", "Always", "x").replace("image:", "imagee:")
        );
        let path = m.manifest("mixed.yaml", &text);
        let ran = m.minke(&["run", &path]).await.expect(2);
        assert!(ran.err.contains("mixed.yaml:") && ran.err.contains("imagee"), "{}", ran.err);
        assert!(ran.err.contains("did you mean"), "{}", ran.err);
        assert!(m.agent().is_none(), "no agent was started");
        assert_eq!(m.ps("good").await, None);
    })
    .await;
}

#[tokio::test]
async fn a_manifest_of_50_mb_is_refused_and_nothing_started() {
    with_instance("a_manifest_of_50_mb_is_refused_and_nothing_started", async |m| {
        let path = m.manifest("huge.yaml", &format!("# {}\n{}", "x".repeat(50 << 20), pod("a", "Always", "sleep 9")));
        let ran = m.minke(&["run", &path]).await.expect(2);
        assert!(ran.err.contains("10 MiB"), "{}", ran.err);
        assert!(m.agent().is_none());
    })
    .await;
}

#[tokio::test]
async fn exit_3_when_the_time_is_over_and_the_pod_stays() {
    with_instance("exit_3_when_the_time_is_over_and_the_pod_stays", async |m| {
        let slow = m.pod("slow", "Never", "sleep 1000");
        let ran = m.minke(&["run", &slow, "--until", "completed", "--timeout", "1s"]).await.expect(3);
        assert!(ran.err.contains("not all completed in time"), "{}", ran.err);
        assert_eq!(m.ps("slow").await.unwrap()["phase"], "Running");
    })
    .await;
}

#[tokio::test]
async fn exit_4_when_the_machine_has_not_enough() {
    with_instance("exit_4_when_the_machine_has_not_enough", async |m| {
        let requests = "resources: {requests: {memory: 900Ti}}";
        let path = m.manifest("big.yaml", &pod_with("big", "Always", "sleep 9", "", requests));
        let ran = m.minke(&["run", &path, "-o", "json"]).await.expect(4);
        assert_eq!(ran.json()["pods"][0]["reason"], "OutOfmemory");
    })
    .await;
}

#[tokio::test]
async fn exit_4_when_a_port_is_taken() {
    with_instance("exit_4_when_a_port_is_taken", async |m| {
        let taken = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let ports = format!("ports: [{{containerPort: 80, hostPort: {port}}}]");
        let path = m.manifest("port.yaml", &pod_with("port", "Always", "sleep 9", "", &ports));
        let ran = m.minke(&["run", &path]).await.expect(4);
        assert!(ran.err.contains(&port.to_string()), "{}", ran.err);
    })
    .await;
}

#[tokio::test]
async fn exit_4_when_another_pod_has_the_name() {
    with_instance("exit_4_when_another_pod_has_the_name", async |m| {
        let one = m.pod("same", "Always", "exec sleep 1000");
        m.minke(&["run", &one]).await.expect(0);
        let other = m.manifest("other.yaml", &pod("same", "Always", "exec sleep 2000"));
        let ran = m.minke(&["run", &other]).await.expect(4);
        assert!(ran.err.contains("AlreadyExists"), "{}", ran.err);
    })
    .await;
}

#[tokio::test]
async fn exit_5_when_an_image_is_missing() {
    with_instance("exit_5_when_an_image_is_missing", async |m| {
        let path =
            m.manifest("lacking.yaml", &pod("lacking", "Always", "true").replace(IMAGE, "localhost/test/absent:1"));
        let ran = m.minke(&["run", &path]).await.expect(5);
        assert!(ran.err.contains("ErrImageNeverPull") && ran.err.contains("absent"), "{}", ran.err);
    })
    .await;
}

#[tokio::test]
async fn exit_5_when_a_config_map_is_missing() {
    with_instance("exit_5_when_a_config_map_is_missing", async |m| {
        let env = "envFrom: [{configMapRef: {name: absent}}]";
        let path = m.manifest("lacking.yaml", &pod_with("lacking", "Always", "true", "", env));
        let ran = m.minke(&["run", &path]).await.expect(5);
        assert!(ran.err.contains("absent"), "{}", ran.err);
    })
    .await;
}

#[tokio::test]
async fn a_command_that_is_not_found_is_a_failed_container() {
    with_instance("a_command_that_is_not_found_is_a_failed_container", async |m| {
        for restart in ["Never", "Always"] {
            let name = format!("nocmd-{}", restart.to_lowercase());
            let text = pod(&name, restart, "x").replace("[sh, -c, \"x\"]", "[no-such-command]");
            let path = m.manifest("nocmd.yaml", &text);
            let ran = m.minke(&["run", &path]).await.expect(1);
            assert!(ran.err.contains("no-such-command"), "{restart}: {}", ran.err);
        }
    })
    .await;
}

#[tokio::test]
async fn out_of_memory_is_said() {
    with_instance("out_of_memory_is_said", async |m| {
        let limit = "resources: {limits: {memory: 16Mi}}";
        let eater = "x=a; while :; do x=$x$x; done";
        let path = m.manifest("oom.yaml", &pod_with("oom", "Never", eater, "", limit));
        let ran = m.minke(&["run", &path, "--until", "completed", "-o", "json"]).await.expect(1);
        let container = &ran.json()["pods"][0]["containers"][0];
        assert_eq!((container["reason"].as_str(), container["exitCode"].as_i64()), (Some("OOMKilled"), Some(137)));
    })
    .await;
}

#[tokio::test]
async fn a_process_that_ignores_term_is_killed_after_its_grace() {
    with_instance("a_process_that_ignores_term_is_killed_after_its_grace", async |m| {
        let deaf = m.pod("deaf", "Always", "trap '' TERM; echo deaf; while :; do sleep 0.1; done");
        m.minke(&["run", &deaf]).await.expect(0);
        wait_async("the trap to be set", async || m.minke(&["logs", "deaf"]).await.out.contains("deaf")).await;
        m.minke(&["stop", "deaf", "--grace", "1s"]).await.expect(0);
        let stopped = m.ps("deaf").await.unwrap();
        assert_eq!(stopped["containers"][0]["exitCode"], 137, "{stopped:#}");
    })
    .await;
}

#[tokio::test]
async fn not_root_is_told_that_root_is_needed_and_why() {
    with_instance("not_root_is_told_that_root_is_needed_and_why", async |m| {
        use std::os::unix::fs::PermissionsExt;
        let text = pod("a", "Always", "sleep 9");
        // Somewhere that another user can read: the instance's own directory is private.
        let open = tempfile::tempdir().unwrap();
        std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = open.path().join("a.yaml");
        let program = open.path().join("minke");
        std::fs::write(&path, text).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_minke"), &program).unwrap();
        let output = tokio::process::Command::new(&program)
            .args(["run", path.to_str().unwrap(), "--state-dir", "/nonexistent/mk", "--run-dir", "/nonexistent/run"])
            .uid(65534)
            .output()
            .await
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{said}");
        assert!(said.contains("needs root") && said.contains("sudo"), "{said}");
        drop(m);
    })
    .await;
}

#[tokio::test]
async fn a_network_that_can_not_be_made_is_said_and_leaves_nothing() {
    with_instance("a_network_that_can_not_be_made_is_said_and_leaves_nothing", async |m| {
        use std::os::unix::fs::PermissionsExt;
        let cni = m.root().join("cni");
        std::fs::create_dir(&cni).unwrap();
        let list = r#"{"cniVersion": "1.0.0", "name": "broken", "plugins": [{"type": "broken"}]}"#;
        std::fs::write(cni.join("1-broken.conflist"), list).unwrap();
        let plugin = cni.join("broken");
        let refuse = r#"echo '{"cniVersion": "1.0.0", "code": 11, "msg": "out of luck"}'; exit 1"#;
        std::fs::write(&plugin, format!("#!/bin/sh\n{refuse}\n")).unwrap();
        std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).unwrap();

        let ran = m.minke(&["run", &m.pod("web", "Always", "sleep 1000")]).await.expect(5);
        assert!(ran.err.contains("out of luck"), "{}", ran.err);
        // A plugin that can't undo either would rightly keep the sandbox from being removed.
        std::fs::write(&plugin, "#!/bin/sh\nexit 0\n").unwrap();
        m.minke(&["rm", "--all", "--force"]).await.expect(0);
        m.end_agent().await;
        assert_eq!(m.leftovers(), "");
    })
    .await;
}
