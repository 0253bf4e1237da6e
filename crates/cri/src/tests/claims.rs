//! Names that the call of an earlier agent holds.

use std::time::Duration;

use minke_core::runtime::{ContainerService as _, RuntimeError, SandboxId, SandboxService as _, labels};
use tonic::Code;

use crate::api;
use crate::convert::{container, own, sandbox};
use crate::fake::FakeCri;

const CONTAINER: &str =
    "failed to reserve container name \"app_a_b_u-1_3\": name \"app_a_b_u-1_3\" is reserved for \"c0\"";
const SANDBOX: &str = "failed to reserve sandbox name \"a_b_u_0\": name \"a_b_u_0\" is reserved for \"s0\"";

fn held(state: api::ContainerState, ours: bool) -> api::Container {
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    api::Container {
        id: "c0".to_owned(),
        pod_sandbox_id: "s0".to_owned(),
        metadata: Some(api::ContainerMetadata { name: "app".to_owned(), attempt: 3 }),
        state: state.into(),
        labels: [label(labels::POD_UID, "u-1")].into(),
        annotations: ours.then(|| label(own::SANDBOX, "s0")).into_iter().collect(),
        ..Default::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_being_made_is_waited_for_and_made_anew() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    fake.refuse("CreateContainer", Code::Unknown, CONTAINER);
    let asked = runtime.clone();
    let creating = tokio::spawn(async move {
        let pod = sandbox::tests::example();
        asked.create_container(&SandboxId("s0".to_owned()), &container::tests::example(), &pod).await
    });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!creating.is_finished() && fake.calls("RemoveContainer") == 0, "nothing is there to be removed");
    fake.state().containers = vec![held(api::ContainerState::ContainerCreated, true)];
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(fake.calls("RemoveContainer") > 0);
    fake.state().containers.clear();
    fake.state().faults.clear();
    assert_eq!(creating.await.unwrap().unwrap().0, "c1");
}

#[tokio::test(start_paused = true)]
async fn what_runs_or_is_anothers_is_not_removed_for_its_name() {
    use api::ContainerState::{ContainerCreated, ContainerExited, ContainerRunning};
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    fake.refuse("CreateContainer", Code::AlreadyExists, CONTAINER);
    for holder in [held(ContainerRunning, true), held(ContainerExited, true), held(ContainerCreated, false)] {
        fake.state().containers = vec![holder.clone()];
        let pod = sandbox::tests::example();
        let made = runtime.create_container(&SandboxId("s0".to_owned()), &container::tests::example(), &pod).await;
        assert!(matches!(made, Err(RuntimeError::AlreadyExists { .. })), "{holder:?}: {made:?}");
        assert_eq!(fake.calls("RemoveContainer"), 0, "{holder:?}");
    }
    // A name that stays held is told in the end.
    fake.state().containers.clear();
    let begun = tokio::time::Instant::now();
    let pod = sandbox::tests::example();
    let made = runtime.create_container(&SandboxId("s0".to_owned()), &container::tests::example(), &pod).await;
    assert!(matches!(made, Err(RuntimeError::AlreadyExists { .. })), "{made:?}");
    assert_eq!(begun.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_came_of_an_earlier_call_is_taken_over() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let config = sandbox::tests::example();
    let there = sandbox::config(&config, runtime.inner.facts.cgroup_driver);
    fake.refuse("RunPodSandbox", Code::Unknown, SANDBOX);
    let asked = runtime.clone();
    let running = tokio::spawn(async move { asked.run_sandbox(&config).await });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!running.is_finished(), "it is being made");
    let mut made = api::PodSandbox {
        id: "s0".to_owned(),
        metadata: there.metadata,
        labels: there.labels,
        state: api::PodSandboxState::SandboxReady.into(),
        ..Default::default()
    };
    fake.state().sandboxes = vec![made.clone()];
    assert_eq!(running.await.unwrap().unwrap().0, "s0");

    made.state = api::PodSandboxState::SandboxNotready.into();
    fake.state().sandboxes = vec![made];
    let dead = runtime.run_sandbox(&sandbox::tests::example()).await;
    assert!(matches!(dead, Err(RuntimeError::AlreadyExists { .. })), "it is for the next attempt: {dead:?}");
}
