//! Commands, ends, logs.

use std::time::Duration;

use minke_core::runtime::{
    ContainerService, ContainerState, ExitCode, ListFilter, RuntimeError, SandboxService, SandboxState,
};
use minke_testkit::{BUSYBOX, busybox_image};

use crate::machine::{Machine, chain, code, eventually, import};

pub(crate) async fn a_container_runs_and_its_output_and_exit_code_are_kept() {
    let m = Machine::new().await;
    let (text, exit) = m.output(|_, _| {}, "echo out; echo err >&2; exit 7").await;
    assert!(text.contains("out\n") && text.contains("err\n"), "{text}");
    assert_eq!((exit.code, exit.reason.as_str()), (ExitCode::Known(7), "Error"));
    let (_, exit) = m.output(|_, _| {}, "exit 0").await;
    assert_eq!((exit.code, exit.reason.as_str()), (ExitCode::Known(0), "Completed"));
    // Its own PID 1 is safe from its signals, a child is not.
    let (_, exit) = m.output(|_, _| {}, "kill -9 $$; sh -c 'kill -9 $$'; exit $?").await;
    assert_eq!(code(&exit), 137);
    m.close().await;
}

pub(crate) async fn a_created_container_waits_for_its_start() {
    let m = Machine::new().await;
    let sandbox = m.sandbox("created");
    let pod = m.runtime.run_sandbox(&sandbox).await.unwrap();
    let id = m.runtime.create_container(&pod, &m.shell("echo ran"), &sandbox).await.unwrap();
    assert_eq!(m.runtime.container_status(&id).await.unwrap().state, ContainerState::Created);
    let twice = m.runtime.create_container(&pod, &m.shell("echo ran"), &sandbox).await.unwrap_err();
    assert!(matches!(twice, RuntimeError::AlreadyExists { .. }), "{twice}");
    assert_eq!(m.log(&sandbox, &m.shell("")), "");
    m.runtime.start_container(&id).await.unwrap();
    assert_eq!(code(&m.ended(&id).await), 0);
    assert_eq!(m.log(&sandbox, &m.shell("")), "ran\n");
    assert_eq!(m.runtime.list_containers(&ListFilter::pod(&sandbox.pod.uid)).await.unwrap().len(), 1);
    m.runtime.remove_container(&id).await.unwrap();
    m.runtime.remove_container(&id).await.unwrap();
    assert!(m.runtime.container_status(&id).await.unwrap_err().is_not_found());
    m.close().await;
}

pub(crate) async fn a_created_container_that_is_stopped_was_never_a_success() {
    let m = Machine::new().await;
    let sandbox = m.sandbox("never");
    let pod = m.runtime.run_sandbox(&sandbox).await.unwrap();
    let id = m.runtime.create_container(&pod, &m.shell("true"), &sandbox).await.unwrap();
    m.runtime.stop_container(&id, Duration::from_secs(30)).await.unwrap();
    let ContainerState::Exited { started_at, exit } = m.runtime.container_status(&id).await.unwrap().state else {
        panic!("not ended")
    };
    assert_eq!((started_at, exit.code), (None, ExitCode::Known(137)));
    m.close().await;
}

pub(crate) async fn command_not_found_is_a_start_error_in_words() {
    let m = Machine::new().await;
    for (command, words) in [
        ("foo", "exec: \"foo\": executable file not found in $PATH"),
        ("/no/such", "no such file or directory"),
        ("/etc/passwd", "permission denied"),
        ("/etc", "is a directory"),
    ] {
        let sandbox = m.sandbox("notfound");
        let pod = m.runtime.run_sandbox(&sandbox).await.unwrap();
        let mut config = m.shell("");
        config.command = vec![command.into()];
        config.args = vec![];
        let id = m.runtime.create_container(&pod, &config, &sandbox).await.unwrap();
        let error = m.runtime.start_container(&id).await.unwrap_err();
        assert!(chain(&error).contains(words), "{}", chain(&error));
        let ContainerState::Exited { started_at, exit } = m.runtime.container_status(&id).await.unwrap().state else {
            panic!("not ended")
        };
        assert_eq!((started_at, exit.code, exit.reason.as_str()), (None, ExitCode::Known(128), "StartError"));
        assert!(exit.message.contains(words));
        m.runtime.remove_sandbox(&pod).await.unwrap();
    }
    m.close().await;
}

pub(crate) async fn image_settings_apply_where_the_manifest_says_nothing() {
    let m = Machine::new().await;
    let image = busybox_image(std::path::Path::new(BUSYBOX))
        .unwrap()
        .entrypoint(["/bin/sh", "-c"])
        .cmd(["echo $FROM $PWD $HOME $(id -un) $(id -gn)"])
        .env("FROM", "image")
        .working_dir("/made/for/me")
        .user("app");
    let image = import(&m.runtime, &m.temp, image).await;
    let (text, _) = m
        .output(
            |_, c| {
                c.image = image;
                c.command = vec![];
                c.args = vec![];
            },
            "",
        )
        .await;
    assert_eq!(text, "image /made/for/me /home/app app app\n");
    m.close().await;
}

pub(crate) async fn long_lines_are_cut_and_joined_again() {
    let m = Machine::new().await;
    let (text, _) = m.output(|_, _| {}, "head -c 100000 /dev/zero | tr '\\0' x; echo; printf end").await;
    assert_eq!(text.len(), 100_001 + 4);
    assert!(text.ends_with("x\nend\n"));
    m.close().await;
}

pub(crate) async fn a_log_is_rotated_without_losing_a_line() {
    let m = Machine::new().await;
    let sandbox = m.sandbox("rotate");
    let config = m.shell("i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done");
    let (pod, id) = m.start(&sandbox, &config).await;
    let path = m.log_path(&sandbox, &config);
    let mut parts = Vec::new();
    for number in 0..5 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let old = path.with_extension(format!("log.{number}"));
        if std::fs::rename(&path, &old).is_ok() {
            parts.push(old);
            m.runtime.reopen_log(&id).await.unwrap();
        }
    }
    m.ended(&id).await;
    parts.push(path);
    let all: String = parts.iter().map(|p| crate::machine::text(&std::fs::read_to_string(p).unwrap())).collect();
    let expected: String = (0..20_000).map(|i| format!("{i}\n")).collect();
    assert!(all == expected, "{} of {} bytes", all.len(), expected.len());
    m.runtime.remove_sandbox(&pod).await.unwrap();
    m.close().await;
}

pub(crate) async fn a_full_log_disk_does_not_stop_the_container() {
    let m = Machine::new().await;
    let mut sandbox = m.sandbox("full");
    let disk = m.temp.root().join("small");
    std::fs::create_dir_all(&disk).unwrap();
    rustix::mount::mount("tmpfs", &disk, "tmpfs", rustix::mount::MountFlags::empty(), c"size=256k").unwrap();
    sandbox.log_directory = disk.join("logs");
    let ballast = disk.join("ballast");
    let config = m.shell(
        "i=0; while [ $i -lt 40000 ]; do echo line $i; i=$((i+1)); done; touch /tmp/done; \
         while [ ! -e /go/on ]; do usleep 10000; done; echo back; exit 3",
    );
    let go = m.temp.root().join("go");
    std::fs::create_dir_all(&go).unwrap();
    let mut config = config;
    config.mounts = vec![minke_core::runtime::Mount {
        host_path: go.clone(),
        container_path: "/go".into(),
        read_only: true,
        recursive_read_only: false,
        propagation: Default::default(),
    }];
    std::fs::create_dir_all(&sandbox.log_directory).unwrap();
    std::fs::write(&ballast, vec![0; 100 * 1024]).unwrap();
    let (pod, id) = m.start(&sandbox, &config).await;
    // The disk is full long before the container has said all.
    let path = m.log_path(&sandbox, &config);
    let mut last = 0;
    eventually("the log stops growing", async || {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = std::fs::metadata(&path).map_or(0, |m| m.len());
        let stopped = now == last && now > 0;
        last = now;
        stopped.then_some(())
    })
    .await;
    assert!(matches!(m.runtime.container_status(&id).await.unwrap().state, ContainerState::Running { .. }));
    std::fs::remove_file(&ballast).unwrap();
    std::fs::write(go.join("on"), "").unwrap();
    let exit = m.ended(&id).await;
    assert_eq!(code(&exit), 3);
    let text = m.log(&sandbox, &config);
    assert!(text.contains("are missing here\n"), "{}", &text[text.len() - 200..]);
    assert!(text.ends_with("back\n"));
    m.runtime.remove_sandbox(&pod).await.unwrap();
    rustix::mount::unmount(&disk, rustix::mount::UnmountFlags::DETACH).unwrap();
    m.close().await;
}

pub(crate) async fn a_terminal_is_a_terminal() {
    let m = Machine::new().await;
    let (text, exit) = m
        .output(
            |_, c| {
                c.tty = true;
                c.security.run_as = minke_core::runtime::RunAs::Uid(1000);
            },
            "test -t 0 && test -t 1 && test -t 2 && echo $TERM > /dev/tty && echo owner $(stat -c %u $(tty))",
        )
        .await;
    assert_eq!(code(&exit), 0, "{text}");
    assert!(text.replace('\r', "").contains("xterm\nowner 1000\n"), "{text:?}");
    m.close().await;
}

pub(crate) async fn stop_asks_then_kills() {
    let m = Machine::new().await;
    let sandbox = m.sandbox("stop");
    let polite = m.shell("trap 'echo bye; exit 5' TERM; echo up; while :; do usleep 10000; done");
    let (pod, id) = m.start(&sandbox, &polite).await;
    eventually("it is up", async || m.log(&sandbox, &polite).contains("up").then_some(())).await;
    m.runtime.stop_container(&id, Duration::from_secs(20)).await.unwrap();
    assert_eq!(code(&m.ended(&id).await), 5);
    m.runtime.stop_container(&id, Duration::from_secs(20)).await.unwrap();

    let mut deaf = m.shell("trap '' TERM; echo up; (trap '' TERM; sleep 1000) & while :; do usleep 10000; done");
    deaf.name = "deaf".into();
    deaf.log_path = "deaf/0.log".into();
    let id = m.add(&pod, &sandbox, &deaf).await;
    eventually("it is up", async || m.log(&sandbox, &deaf).contains("up").then_some(())).await;
    let began = tokio::time::Instant::now();
    m.runtime.stop_container(&id, Duration::from_millis(300)).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    assert_eq!(code(&m.ended(&id).await), 137);
    m.close().await;
}

pub(crate) async fn a_shorter_stop_overtakes_a_longer_one() {
    let m = Machine::new().await;
    let sandbox = m.sandbox("overtake");
    let deaf = m.shell("trap '' TERM; echo up; while :; do usleep 10000; done");
    let (_pod, id) = m.start(&sandbox, &deaf).await;
    eventually("it is up", async || m.log(&sandbox, &deaf).contains("up").then_some(())).await;
    let began = tokio::time::Instant::now();
    let long = {
        let (runtime, id) = (m.runtime.clone(), id.clone());
        tokio::spawn(async move { runtime.stop_container(&id, Duration::from_secs(100)).await })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    m.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    long.await.unwrap().unwrap();
    assert!(began.elapsed() < Duration::from_secs(20));
    m.close().await;
}

pub(crate) async fn the_stop_signal_of_the_manifest_is_sent() {
    let m = Machine::new().await;
    let sandbox = m.sandbox("usr1");
    let mut config = m.shell("trap 'exit 11' USR1; echo up; while :; do usleep 10000; done");
    config.stop_signal = Some("SIGUSR1".into());
    let (_pod, id) = m.start(&sandbox, &config).await;
    eventually("it is up", async || m.log(&sandbox, &config).contains("up").then_some(())).await;
    m.runtime.stop_container(&id, Duration::from_secs(20)).await.unwrap();
    assert_eq!(code(&m.ended(&id).await), 11);
    let mut bad = m.shell("true");
    bad.stop_signal = Some("SIGNOTHING".into());
    bad.name = "bad".into();
    let pod = m.runtime.list_sandboxes(&ListFilter::default()).await.unwrap()[0].id.clone();
    let error = m.runtime.create_container(&pod, &bad, &sandbox).await.unwrap_err();
    assert!(matches!(error, RuntimeError::Invalid { .. }), "{error}");
    m.close().await;
}

pub(crate) async fn a_stopped_sandbox_is_not_ready_and_its_containers_keep_their_ends() {
    let m = Machine::new().await;
    let sandbox = m.sandbox("stopped");
    let (pod, id) = m.start(&sandbox, &m.shell("sleep 1000")).await;
    m.runtime.stop_sandbox(&pod).await.unwrap();
    m.runtime.stop_sandbox(&pod).await.unwrap();
    assert_eq!(m.runtime.sandbox_status(&pod).await.unwrap().info.state, SandboxState::NotReady);
    assert_eq!(code(&m.ended(&id).await), 137);
    m.runtime.remove_container(&id).await.unwrap();
    m.runtime.remove_sandbox(&pod).await.unwrap();
    m.runtime.remove_sandbox(&pod).await.unwrap();
    m.close().await;
}

pub(crate) async fn signals_are_as_at_boot_inside() {
    let m = Machine::new().await;
    let grep = |c: &mut minke_core::runtime::ContainerConfig| {
        c.command = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"].map(str::to_owned).to_vec();
        c.args = vec![];
    };
    let (text, _) = m.output(|_, c| grep(c), "").await;
    assert_eq!(text, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    let list = |c: &mut minke_core::runtime::ContainerConfig| {
        c.command = ["ls", "/proc/self/fd"].map(str::to_owned).to_vec();
        c.args = vec![];
    };
    let (text, _) = m.output(|_, c| list(c), "").await;
    // Standard streams, and the directory that ls reads.
    assert_eq!(text, "0\n1\n2\n3\n");
    m.close().await;
}
