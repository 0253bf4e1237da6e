//! Single calls.

use std::sync::Arc;
use std::time::Duration;

use minke_core::identity::PodUid;
use minke_core::runtime::{
    ContainerId, ContainerService as _, Credential, ExecOutput, ExecService as _, IdMapping, ImageService as _,
    LinuxResources, ListFilter, NoProgress, PullError, PullRequest, RuntimeError, SandboxId, SandboxService as _,
    StatsService as _, error_chain, labels,
};
use tonic::Code;

use crate::SandboxImage;
use crate::api;
use crate::convert::{container, sandbox};
use crate::fake::{FakeCri, Fault};

fn image() -> api::Image {
    api::Image {
        id: "sha256:1".into(),
        repo_tags: vec!["r/a:1".into()],
        repo_digests: vec!["r/a@sha256:9".into()],
        ..Default::default()
    }
}

fn pull(credentials: Vec<Credential>) -> PullRequest {
    PullRequest { image: "r/a:1".to_owned(), credentials, progress: Arc::new(NoProgress) }
}

fn login(username: &str) -> Credential {
    Credential::Basic { username: username.to_owned(), password: "p".to_owned() }
}

#[tokio::test]
async fn a_pull_tries_its_logins_in_order_and_answers_with_the_id() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    fake.state().image = image();
    fake.state().accepted = Some("right".to_owned());
    let id = runtime.pull_image(&pull(vec![login("wrong"), login("right"), login("never")])).await.unwrap();
    assert_eq!(id.0, "sha256:1", "not the name that the runtime answers with");
    let tried: Vec<String> = fake.state().logins.iter().flatten().map(|l| l.username.clone()).collect();
    assert_eq!(tried, ["wrong", "right"]);
    let error = runtime.pull_image(&pull(vec![login("wrong")])).await.unwrap_err();
    assert!(matches!(error, PullError::Denied { .. }), "{error:?}");
    fake.state().accepted = None;
    fake.state().logins.clear();
    runtime.pull_image(&pull(Vec::new())).await.unwrap();
    assert_eq!(fake.state().logins, [None], "without one, the runtime's own configuration decides");
}

#[tokio::test]
async fn stopping_and_removing_what_is_gone_succeeds() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let calls = ["StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox", "ReopenContainerLog"];
    for call in calls {
        fake.refuse(call, Code::NotFound, "not found");
    }
    let (container, sandbox) = (ContainerId("c".to_owned()), SandboxId("s".to_owned()));
    runtime.stop_container(&container, Duration::ZERO).await.unwrap();
    runtime.remove_container(&container).await.unwrap();
    runtime.stop_sandbox(&sandbox).await.unwrap();
    runtime.remove_sandbox(&sandbox).await.unwrap();
    assert!(runtime.reopen_log(&container).await.unwrap_err().is_not_found());
    fake.refuse("ReopenContainerLog", Code::Unknown, "container is not running");
    runtime.reopen_log(&container).await.unwrap();
    assert!(runtime.container_status(&container).await.unwrap_err().is_not_found());
    assert!(runtime.sandbox_status(&sandbox).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_container_gets_its_log_directory_and_a_group_gets_a_user() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    fake.state().image = api::Image { username: "www".into(), ..image() };
    let (mut config, mut pod) = (container::tests::example(), sandbox::tests::example());
    pod.log_directory = fake.directory().join("logs");
    config.security.run_as_group = Some(7);
    let id = runtime.create_container(&SandboxId("s1".to_owned()), &config, &pod).await.unwrap();
    assert_eq!(id.0, "c1");
    assert!(fake.directory().join("logs/app").is_dir());
    let security = |n: usize| fake.state().created[n].config.clone().unwrap().linux.unwrap().security_context.unwrap();
    assert_eq!(security(0).run_as_username, "www", "CRI refuses a group without a user");
    config.security.run_as_group = None;
    runtime.create_container(&SandboxId("s1".to_owned()), &config, &pod).await.unwrap();
    assert_eq!((security(1).run_as_username.as_str(), security(1).run_as_user), ("", None), "the image decides");
}

#[tokio::test]
async fn what_the_runtime_would_leave_out_silently_is_refused() {
    let fake = FakeCri::start();
    let handler = |yes| api::RuntimeHandler {
        name: String::new(),
        features: Some(api::RuntimeHandlerFeatures { recursive_read_only_mounts: yes, user_namespaces: yes }),
    };
    for offered in [false, true] {
        fake.state().status.runtime_handlers = vec![handler(offered)];
        let runtime = fake.open().await;
        let (mut config, mut pod) = (container::tests::example(), sandbox::tests::example());
        pod.log_directory = fake.directory().join("logs");
        pod.namespaces.user = Some(IdMapping { host_id: 65536, length: 65536 });
        config.mounts[0].recursive_read_only = true;
        let sandbox = runtime.run_sandbox(&pod).await;
        let container = runtime.create_container(&SandboxId("s".to_owned()), &config, &pod).await;
        if offered {
            assert!(sandbox.is_ok() && container.is_ok(), "{sandbox:?} {container:?}");
        } else {
            assert!(matches!(sandbox, Err(RuntimeError::Unsupported { .. })), "{sandbox:?}");
            assert!(matches!(container, Err(RuntimeError::Unsupported { .. })), "{container:?}");
        }
    }
    let runtime = fake.open().await;
    let (mut config, pod) = (container::tests::example(), sandbox::tests::example());
    config.stop_signal = Some("SIGNOPE".to_owned());
    let error = runtime.create_container(&SandboxId("s".to_owned()), &config, &pod).await.unwrap_err();
    assert!(matches!(error, RuntimeError::Invalid { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_named() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let (config, mut pod) = (container::tests::example(), sandbox::tests::example());
    pod.log_directory = fake.directory().join("logs");
    let create = async || runtime.create_container(&SandboxId("s1".to_owned()), &config, &pod).await.unwrap_err();
    fake.refuse("CreateContainer", Code::NotFound, "failed to resolve image \"sha256:1\": not found");
    assert_eq!(create().await.to_string(), "create container: no image busybox:1");
    fake.refuse("CreateContainer", Code::NotFound, "failed to find sandbox id \"s1\": not found");
    assert_eq!(create().await.to_string(), "create container: no sandbox s1");
    fake.refuse(
        "CreateContainer",
        Code::Unknown,
        "failed to reserve container name \"n\": name \"n\" is reserved for \"x\"",
    );
    assert!(matches!(create().await, RuntimeError::AlreadyExists { what: "container", .. }));
    fake.refuse("RunPodSandbox", Code::NotFound, "failed to get sandbox image: not found");
    assert!(matches!(runtime.run_sandbox(&pod).await, Err(RuntimeError::Failed { .. })));
}

#[tokio::test]
async fn a_change_whose_caller_stops_waiting_is_made_nevertheless() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let id = ContainerId("c".to_owned());
    // Polled once, so that it is on its way, and dropped.
    tokio::select! {
        biased;
        done = runtime.start_container(&id) => panic!("too soon: {done:?}"),
        () = std::future::ready(()) => {}
    }
    while fake.calls("StartContainer") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn lists_are_narrowed_by_label_and_once_more() {
    let fake = FakeCri::start();
    let of = |id: &str, uid: &str| {
        let metadata = api::PodSandboxMetadata { name: "n".into(), uid: uid.into(), ..Default::default() };
        api::PodSandbox { id: id.into(), metadata: Some(metadata), ..Default::default() }
    };
    fake.state().sandboxes = vec![of("s1", "u1"), of("s2", "u2"), api::PodSandbox::default()];
    let runtime = fake.open().await;
    assert_eq!(runtime.list_sandboxes(&ListFilter::default()).await.unwrap().len(), 2, "one is no Pod's");
    let filter = ListFilter::pod(&PodUid::new("u2").unwrap());
    let listed = runtime.list_sandboxes(&filter).await.unwrap();
    assert_eq!((listed.len(), listed[0].id.0.as_str()), (1, "s2"));
    assert_eq!(fake.state().selectors.last().unwrap()[labels::POD_UID], "u2");
}

#[tokio::test]
async fn the_sandbox_of_another_programs_container_is_looked_up() {
    let fake = FakeCri::start();
    let labels = [(labels::POD_UID.to_owned(), "u".to_owned())];
    let status = api::ContainerStatus { id: "c".into(), labels: labels.clone().into(), ..Default::default() };
    fake.state().statuses.insert("c".to_owned(), status);
    fake.state().containers = vec![api::Container {
        id: "c".into(),
        pod_sandbox_id: "s9".into(),
        labels: labels.into(),
        ..Default::default()
    }];
    let runtime = fake.open().await;
    assert_eq!(runtime.container_status(&ContainerId("c".to_owned())).await.unwrap().sandbox.0, "s9");
}

#[tokio::test]
async fn an_image_that_is_used_stays() {
    let fake = FakeCri::start();
    fake.state().image = image();
    fake.state().containers =
        vec![api::Container { id: "c".into(), image_ref: "sha256:1".into(), ..Default::default() }];
    let runtime = fake.open().await;
    let error = runtime.remove_image("r/a:1").await.unwrap_err();
    assert!(error_chain(&error).contains("container c uses sha256:1"), "{}", error_chain(&error));
    assert_eq!(fake.calls("RemoveImage"), 0);
    fake.state().containers.clear();
    runtime.remove_image("r/a:1").await.unwrap();
    runtime.remove_image("r/a:1").await.unwrap();
    assert_eq!(fake.calls("RemoveImage"), 1, "the second time it is gone");
}

#[tokio::test(start_paused = true)]
async fn a_command_ends_at_its_own_time() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let (id, command) = (ContainerId("c".to_owned()), ["true".to_owned()]);
    let (stdout, exit_code) = (vec![b'x'; ExecOutput::LIMIT * 2], 3);
    fake.state().output = api::ExecSyncResponse { stdout, exit_code, ..Default::default() };
    let output = runtime.exec_sync(&id, &command, Some(Duration::from_millis(200))).await.unwrap();
    assert_eq!((output.exit_code, output.stdout.len()), (3, ExecOutput::LIMIT));
    fake.fault("ExecSync", Fault::Hang);
    let error = runtime.exec_sync(&id, &command, Some(Duration::from_millis(200))).await.unwrap_err();
    assert!(matches!(error, RuntimeError::TimedOut { after, .. } if after == Duration::from_millis(200)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_ends_a_command_is_waited_for_and_not_cut_off() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let (id, command) = (ContainerId("c".to_owned()), ["true".to_owned()]);
    let words = "failed to exec in container: timeout 1s exceeded: context deadline exceeded";
    let late = tonic::Status::new(Code::DeadlineExceeded, words);
    fake.fault("ExecSync", Fault::RefuseLate(Duration::from_millis(1500), late));
    let (begun, timeout) = (tokio::time::Instant::now(), Duration::from_secs(1));
    let error = runtime.exec_sync(&id, &command, Some(timeout)).await.unwrap_err();
    assert!(matches!(error, RuntimeError::TimedOut { after, .. } if after == timeout), "{error:?}");
    assert!(begun.elapsed() >= Duration::from_millis(1500), "the runtime's own answer");
    assert_eq!(fake.state().cut_off, 0);

    // A runtime that takes longer still is not waited for, and ends the command all the same.
    let late = tonic::Status::new(Code::DeadlineExceeded, words);
    fake.fault("ExecSync", Fault::RefuseLate(Duration::from_secs(20), late));
    let begun = tokio::time::Instant::now();
    let error = runtime.exec_sync(&id, &command, Some(timeout)).await.unwrap_err();
    assert!(matches!(error, RuntimeError::TimedOut { after, .. } if after == timeout), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(fake.state().cut_off, 0);
}

#[tokio::test]
async fn a_call_that_the_runtime_does_not_know_is_a_missing_feature() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let error = runtime.pod_usage(&ListFilter::default()).await.unwrap_err();
    assert!(matches!(error, RuntimeError::Unsupported { .. }), "{error:?}");
}

#[tokio::test]
async fn the_image_of_sandboxes_is_looked_for_by_name_or_among_those_that_are_kept() {
    let fake = FakeCri::start();
    fake.state().image = image();
    assert_eq!(fake.open().await.sandbox_image().await.unwrap(), SandboxImage::Untold);
    fake.state().image.pinned = true;
    assert_eq!(fake.open().await.sandbox_image().await.unwrap(), SandboxImage::Present("r/a:1".to_owned()));
    for (name, found) in [
        ("r/a:1", SandboxImage::Present("r/a:1".to_owned())),
        ("r/pause:9", SandboxImage::Absent("r/pause:9".to_owned())),
    ] {
        fake.state().status.info.insert("config".to_owned(), format!(r#"{{"sandboxImage":"{name}"}}"#));
        assert_eq!(fake.open().await.sandbox_image().await.unwrap(), found);
    }
}

#[tokio::test]
async fn an_update_says_what_changes_and_nothing_else() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let limits =
        LinuxResources { memory_limit_bytes: Some(64 << 20), oom_score_adj: Some(900), ..LinuxResources::default() };
    runtime.update_resources(&ContainerId("c1".to_owned()), &limits).await.unwrap();
    let sent = fake.state().updated.pop().unwrap();
    let linux = sent.linux.unwrap();
    assert_eq!((sent.container_id.as_str(), linux.memory_limit_in_bytes), ("c1", 64 << 20));
    assert_eq!((linux.cpu_quota, linux.cpu_shares, linux.oom_score_adj), (0, 0, 0), "zero is: as it is");
    fake.refuse("UpdateContainerResources", Code::NotFound, "no such container");
    assert!(runtime.update_resources(&ContainerId("c2".to_owned()), &limits).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_container_is_stopped_when_the_runtime_shows_it_as_ended() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let labels = [(labels::POD_UID.to_owned(), "u1".to_owned())].into();
    let annotations = [("cri.minke.dev/sandbox".to_owned(), "s1".to_owned())].into();
    let running = api::ContainerStatus {
        id: "c1".to_owned(),
        state: api::ContainerState::ContainerRunning.into(),
        labels,
        annotations,
        ..Default::default()
    };
    fake.state().statuses.insert("c1".to_owned(), running.clone());
    let id = ContainerId("c1".to_owned());
    let stop = runtime.stop_container(&id, Duration::ZERO);
    let end = async {
        while fake.calls("ContainerStatus") < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let exited = api::ContainerState::ContainerExited.into();
        fake.state().statuses.insert("c1".to_owned(), api::ContainerStatus { state: exited, ..running });
    };
    let (stopped, ()) = tokio::join!(stop, end);
    stopped.unwrap();
    assert!(fake.calls("ContainerStatus") > 3, "it was not believed before");
    runtime.stop_container(&ContainerId("gone".to_owned()), Duration::ZERO).await.unwrap();
}
