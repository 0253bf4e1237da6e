//! Starts that an earlier agent asked for: waited for while they are under way, forgotten where they were cut off.

use minke_core::runtime::{ContainerId, ContainerService as _, ContainerState, RuntimeError, labels};
use tonic::Code;

use crate::api;
use crate::convert::own;
use crate::fake::FakeCri;

const CUT_OFF: &str = "failed to create containerd task: failed to create shim task: context canceled";

fn container(state: api::ContainerState, reason: &str, message: &str) -> api::ContainerStatus {
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    api::ContainerStatus {
        id: "c".to_owned(),
        metadata: Some(api::ContainerMetadata { name: "app".to_owned(), attempt: 0 }),
        state: state.into(),
        created_at: 1,
        exit_code: 128,
        reason: reason.to_owned(),
        message: message.to_owned(),
        labels: [label(labels::POD_UID, "u"), label(labels::CONTAINER_NAME, "app")].into(),
        annotations: [label(own::SANDBOX, "s")].into(),
        ..Default::default()
    }
}

fn id() -> ContainerId {
    ContainerId("c".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_under_way_is_waited_for() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let words = "failed to set starting state for container \"c\": container is already in starting state";
    fake.refuse("StartContainer", Code::Unknown, words);
    fake.state().statuses.insert("c".to_owned(), container(api::ContainerState::ContainerCreated, "", ""));
    let asked = runtime.clone();
    let starting = tokio::spawn(async move { asked.start_container(&id()).await });
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(!starting.is_finished());
    fake.state().statuses.insert("c".to_owned(), container(api::ContainerState::ContainerRunning, "", ""));
    starting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_container_whose_start_was_cut_off_before_it_ran_is_removed_and_told_as_gone() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let ended = api::ContainerState::ContainerExited;
    fake.state().statuses.insert("c".to_owned(), container(ended, "StartError", CUT_OFF));
    let error = runtime.container_status(&id()).await.unwrap_err();
    assert!(error.is_not_found(), "{error:?}");
    assert_eq!(fake.calls("RemoveContainer"), 1);

    // The same where it is to be started.
    fake.refuse(
        "StartContainer",
        Code::Unknown,
        "failed to set starting state: container is in CONTAINER_EXITED state",
    );
    let error = runtime.start_container(&id()).await.unwrap_err();
    assert!(error.is_not_found(), "{error:?}");
}

#[tokio::test]
async fn what_is_not_ours_or_may_have_run_is_left_alone() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let ended = api::ContainerState::ContainerExited;
    let ours = container(ended, "StartError", CUT_OFF);
    let anothers = api::ContainerStatus { annotations: [].into(), ..ours.clone() };
    let may_have_run = container(ended, "StartError", "failed to start containerd task \"c\": context canceled");
    let own_failure = container(ended, "StartError", "failed to create containerd task: no such device");
    for status in [anothers, may_have_run, own_failure] {
        fake.state().statuses.insert("c".to_owned(), status.clone());
        let _ = runtime.container_status(&id()).await;
        assert_eq!(fake.calls("RemoveContainer"), 0, "{status:?}");
    }
    // A start that failed for a reason of its own is told with it.
    fake.refuse(
        "StartContainer",
        Code::Unknown,
        "failed to set starting state: container is in CONTAINER_EXITED state",
    );
    let error = runtime.start_container(&id()).await.unwrap_err();
    assert!(matches!(&error, RuntimeError::Failed { source, .. } if source.to_string().contains("no such device")));
    assert!(matches!(runtime.container_status(&id()).await.unwrap().state, ContainerState::Exited { .. }));
}
