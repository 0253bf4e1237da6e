//! A runtime that goes away: nothing is made up, and it is back with the first call after its return.

use std::time::Duration;

use minke_core::runtime::{
    ContainerId, ContainerService as _, HealthService as _, ImageService as _, ListFilter, NoProgress, PullError,
    PullRequest, RuntimeError, SandboxId, SandboxService as _, error_chain,
};

use crate::Health;
use crate::fake::{FakeCri, Fault};

#[tokio::test]
async fn calls_fail_clearly_while_it_is_gone_and_work_when_it_is_back() {
    let mut fake = FakeCri::start();
    let runtime = fake.open().await;
    let health = runtime.health();
    runtime.list_sandboxes(&ListFilter::default()).await.unwrap();
    assert_eq!(*health.borrow(), Health::Answers);

    fake.go_away().await;
    let id = ContainerId("c".to_owned());
    for _ in 0..2 {
        for error in [
            runtime.list_sandboxes(&ListFilter::default()).await.unwrap_err(),
            runtime.container_status(&id).await.unwrap_err(),
            runtime.stop_container(&id, Duration::ZERO).await.unwrap_err(),
            runtime.remove_container(&id).await.unwrap_err(),
            runtime.stop_sandbox(&SandboxId("s".to_owned())).await.unwrap_err(),
            runtime.image_status("a").await.unwrap_err(),
        ] {
            assert!(matches!(error, RuntimeError::Unavailable { .. }), "{error:?}");
            assert!(!error_chain(&error).contains("code:"), "{}", error_chain(&error));
        }
    }
    assert!(matches!(&*health.borrow(), Health::Silent { .. }));
    let request =
        PullRequest { image: "a".to_owned(), credentials: Vec::new(), progress: std::sync::Arc::new(NoProgress) };
    let error = runtime.pull_image(&request).await.unwrap_err();
    assert!(matches!(&error, PullError::Storage { message, .. } if message.contains("does not answer")), "{error:?}");

    fake.come_back();
    runtime.list_sandboxes(&ListFilter::default()).await.unwrap();
    assert_eq!(*health.borrow(), Health::Answers);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_hangs_is_known_long_before_its_calls_are_given_up() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let mut health = runtime.health();
    fake.fault("ListPodSandbox", Fault::Hang);
    let asked = runtime.clone();
    let begun = tokio::time::Instant::now();
    let call = tokio::spawn(async move { asked.list_sandboxes(&ListFilter::default()).await });
    let told = health.wait_for(|health| matches!(health, Health::Silent { .. })).await.unwrap().clone();
    assert_eq!(begun.elapsed().as_secs(), 10);
    let Health::Silent { why, .. } = told else { unreachable!() };
    assert!(why.contains("list sandboxes: no answer within 10 s"), "{why}");
    assert!(!call.is_finished(), "a busy runtime may still answer");
    assert!(call.await.unwrap().is_err());

    fake.state().faults.clear();
    runtime.list_sandboxes(&ListFilter::default()).await.unwrap();
    assert_eq!(*health.borrow(), Health::Answers);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_nobody_asks_anything_is_asked_whether_it_is_there() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let asked = fake.calls("Version");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!((10..=13).contains(&(fake.calls("Version") - asked)), "{}", fake.calls("Version") - asked);
    assert_eq!(runtime.silence(), None);

    fake.fault("Version", Fault::Hang);
    tokio::time::sleep(Duration::from_secs(15)).await;
    let silence = runtime.silence().unwrap();
    assert!(silence.why.contains("no answer within 5 s") && silence.lasts >= Duration::from_secs(4), "{silence:?}");

    fake.state().faults.clear();
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(runtime.silence(), None, "and nobody had to ask");
}

#[tokio::test]
async fn it_is_not_asked_any_more_when_nobody_uses_it() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let inner = std::sync::Arc::downgrade(&runtime.inner);
    drop(runtime);
    assert!(inner.upgrade().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_ends_at_its_deadline() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let id = ContainerId("c".to_owned());
    let seconds = |error: RuntimeError| match error {
        RuntimeError::TimedOut { after, .. } => after.as_secs(),
        other => panic!("{other:?}"),
    };
    fake.fault("StopContainer", Fault::Hang);
    // Between two of the questions that are asked each five seconds: who answers those is not silent any more.
    assert_eq!(seconds(runtime.stop_container(&id, Duration::from_secs(32)).await.unwrap_err()), 152);
    assert!(matches!(&*runtime.health().borrow(), Health::Silent { why, .. } if why.contains("152 s")));
    fake.fault("ListContainers", Fault::Hang);
    assert_eq!(seconds(runtime.list_containers(&ListFilter::default()).await.unwrap_err()), 120);
    fake.fault("RunPodSandbox", Fault::Hang);
    let config = crate::convert::sandbox::tests::example();
    assert_eq!(seconds(runtime.run_sandbox(&config).await.unwrap_err()), 240);
}
