//! The fake keeps its own promises.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use jiff::SignedDuration;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::clock::Clock;
use crate::identity::{PodKey, PodUid};
use crate::runtime::*;

fn uid() -> PodUid {
    PodUid::new("u1").unwrap()
}

fn sandbox() -> SandboxConfig {
    sandbox_config(PodKey::new("ns", "web", uid()))
}

struct Bed {
    runtime: FakeRuntime,
    sandbox: SandboxId,
    image: ImageId,
}

impl Bed {
    async fn new() -> Self {
        let runtime = FakeRuntime::new();
        let image = runtime.add_image("a:1", ImageUser::Root);
        let sandbox = runtime.run_sandbox(&sandbox()).await.unwrap();
        Self { runtime, sandbox, image }
    }

    async fn create(&self, name: &str, attempt: u32) -> Result<ContainerId, RuntimeError> {
        let config = container_config(name, attempt, self.image.clone());
        self.runtime.create_container(&self.sandbox, &config, &sandbox()).await
    }

    async fn start(&self, name: &str, attempt: u32) -> ContainerId {
        let id = self.create(name, attempt).await.unwrap();
        self.runtime.start_container(&id).await.unwrap();
        id
    }

    async fn state(&self, id: &ContainerId) -> ContainerState {
        self.runtime.container_status(id).await.unwrap().state
    }

    async fn exit(&self, id: &ContainerId) -> Exit {
        match self.state(id).await {
            ContainerState::Exited { exit, .. } => exit,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_lives_as_scripted() {
    let bed = Bed::new().await;
    bed.runtime.script("c", vec![Life::exits(Duration::from_secs(5), 3), Life::forever()]);
    let first = bed.start("c", 0).await;
    let began = bed.runtime.clock().now();
    sleep(Duration::from_secs(4)).await;
    assert!(bed.state(&first).await.is_running());
    sleep(Duration::from_secs(10)).await;
    let exit = bed.exit(&first).await;
    assert_eq!((exit.code, exit.reason.as_str()), (ExitCode::Known(3), "Error"));
    assert_eq!(exit.finished_at, began + SignedDuration::from_secs(5), "when it was due, not when it was looked at");
    let second = bed.start("c", 1).await;
    sleep(Duration::from_secs(100_000)).await;
    assert!(bed.state(&second).await.is_running());
    assert_eq!(bed.runtime.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn stopping_obeys_grace_and_a_shorter_grace_overtakes() {
    let bed = Bed::new().await;
    bed.runtime.script("polite", vec![Life::forever().stopping_after(Duration::from_secs(2), 0)]);
    bed.runtime.script("stubborn", vec![Life::forever().ignoring_stop()]);
    let (polite, stubborn) = (bed.start("polite", 0).await, bed.start("stubborn", 0).await);

    let began = Instant::now();
    bed.runtime.stop_container(&polite, Duration::from_secs(30)).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    assert_eq!(bed.exit(&polite).await.code, ExitCode::Known(0));
    bed.runtime.stop_container(&polite, Duration::from_secs(30)).await.unwrap();

    let began = Instant::now();
    let (runtime, id) = (bed.runtime.clone(), stubborn.clone());
    let long = tokio::spawn(async move { runtime.stop_container(&id, Duration::from_secs(300)).await });
    sleep(Duration::from_secs(1)).await;
    bed.runtime.stop_container(&stubborn, Duration::from_secs(3)).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(4));
    long.await.unwrap().unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(4));
    assert_eq!(bed.exit(&stubborn).await.code, ExitCode::Known(137));
}

#[tokio::test(start_paused = true)]
async fn two_live_containers_of_one_name_are_a_violation() {
    let bed = Bed::new().await;
    bed.start("c", 0).await;
    bed.create("other", 0).await.unwrap();
    assert_eq!(bed.runtime.violations(), Vec::<String>::new());
    bed.create("c", 1).await.unwrap();
    assert_eq!(bed.runtime.violations().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_port_is_kept() {
    let bed = Bed::new().await;
    bed.create("c", 0).await.unwrap();
    assert!(matches!(bed.create("c", 0).await, Err(RuntimeError::AlreadyExists { .. })));
    assert!(matches!(bed.runtime.run_sandbox(&sandbox()).await, Err(RuntimeError::AlreadyExists { .. })));
    bed.runtime.stop_sandbox(&bed.sandbox).await.unwrap();
    bed.runtime.stop_sandbox(&bed.sandbox).await.unwrap();
    assert!(bed.create("d", 0).await.is_err(), "the sandbox is not ready");
    assert!(bed.runtime.sandbox_status(&bed.sandbox).await.unwrap().ips.is_empty());
    bed.runtime.remove_sandbox(&bed.sandbox).await.unwrap();
    bed.runtime.remove_sandbox(&bed.sandbox).await.unwrap();
    let all = ListFilter::default();
    assert!(bed.runtime.list_containers(&all).await.unwrap().is_empty());
    assert!(bed.runtime.sandbox_status(&bed.sandbox).await.unwrap_err().is_not_found());
    assert!(bed.runtime.violations().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failed_start_is_exited_with_start_error() {
    let bed = Bed::new().await;
    bed.runtime.script("c", vec![Life::start_fails()]);
    let id = bed.create("c", 0).await.unwrap();
    assert!(bed.runtime.start_container(&id).await.is_err());
    let exit = bed.exit(&id).await;
    assert_eq!((exit.code, exit.reason.as_str()), (ExitCode::Known(128), "StartError"));
}

#[tokio::test(start_paused = true)]
async fn a_killed_sandbox_loses_exit_codes() {
    let bed = Bed::new().await;
    let id = bed.start("c", 0).await;
    bed.runtime.kill_sandbox(&bed.sandbox);
    assert_eq!(bed.exit(&id).await.code, ExitCode::Lost);
    assert_eq!(bed.runtime.sandboxes(&uid()), [(bed.sandbox.clone(), SandboxState::NotReady)]);
}

#[tokio::test(start_paused = true)]
async fn faults_hit_the_calls_that_they_name() {
    let bed = Bed::new().await;
    bed.runtime.fault(Fault::fail(Op::CreateContainer).named("c").nth(2));
    assert!(bed.create("c", 0).await.is_ok());
    assert!(bed.create("d", 0).await.is_ok());
    assert!(bed.create("c", 1).await.is_err());
    bed.runtime.remove_container(&bed.runtime.newest(&uid(), "c").unwrap().0).await.unwrap();
    assert!(bed.create("c", 2).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn calls_hang_crawl_and_lie() {
    let bed = Bed::new().await;
    let minute = Duration::from_secs(60);
    bed.runtime.fault(Fault::on(Op::CreateContainer, FaultAction::Hang).times(1));
    assert!(timeout(minute, bed.create("c", 0)).await.is_err());
    assert!(bed.runtime.newest(&uid(), "c").is_none(), "a call that hung had no effect");

    bed.runtime.fault(Fault::on(Op::CreateContainer, FaultAction::HangAfterEffect).times(1));
    assert!(timeout(minute, bed.create("c", 0)).await.is_err());
    assert!(bed.runtime.newest(&uid(), "c").is_some());

    let lies = FaultAction::FailAfterEffect(FaultError::TimedOut);
    bed.runtime.fault(Fault::on(Op::CreateContainer, lies).times(1));
    assert!(matches!(bed.create("d", 0).await, Err(RuntimeError::TimedOut { .. })));
    assert!(bed.runtime.newest(&uid(), "d").is_some());

    bed.runtime.fault(Fault::on(Op::CreateContainer, FaultAction::Delay(minute)).times(1));
    let began = Instant::now();
    bed.create("e", 0).await.unwrap();
    assert_eq!(began.elapsed(), minute);

    let mut refused = 1;
    bed.runtime.fault_hook(move |call| {
        let hit = call.op == Op::StartContainer && refused > 0;
        refused -= u32::from(hit);
        hit.then_some(FaultAction::Fail(FaultError::Unavailable))
    });
    let id = bed.runtime.newest(&uid(), "e").unwrap().0;
    assert!(matches!(bed.runtime.start_container(&id).await, Err(RuntimeError::Unavailable { .. })));
    bed.runtime.start_container(&id).await.unwrap();
}

async fn kinds(
    stream: &mut (impl futures_util::Stream<Item = Result<RuntimeEvent, RuntimeError>> + Unpin),
) -> Vec<RuntimeEventKind> {
    let mut kinds = Vec::new();
    while let Ok(Some(Ok(event))) = timeout(Duration::from_millis(1), stream.next()).await {
        kinds.push(event.kind);
    }
    kinds
}

#[tokio::test(start_paused = true)]
async fn events_arrive_in_order_and_when_they_are_due() {
    let bed = Bed::new().await;
    let mut stream = bed.runtime.subscribe().unwrap();
    bed.runtime.script("c", vec![Life::exits(Duration::from_secs(5), 0)]);
    let id = bed.start("c", 0).await;
    assert_eq!(kinds(&mut stream).await, [RuntimeEventKind::Created, RuntimeEventKind::Started]);
    let began = Instant::now();
    let event = stream.next().await.unwrap().unwrap();
    assert_eq!((event.kind, event.id.as_str()), (RuntimeEventKind::Stopped, id.0.as_str()));
    assert!(began.elapsed() <= Duration::from_secs(5));
    bed.runtime.remove_container(&id).await.unwrap();
    assert_eq!(kinds(&mut stream).await, [RuntimeEventKind::Deleted]);
}

#[tokio::test(start_paused = true)]
async fn events_are_lost_doubled_late_reordered_and_cut_off() {
    use RuntimeEventKind::{Created, Started, Stopped};
    for (fate, expected) in [
        (Delivery::Lose, vec![Created, Stopped]),
        (Delivery::Duplicate, vec![Created, Started, Started, Stopped]),
        (Delivery::Overtake, vec![Started, Created, Stopped]),
        (Delivery::Break, vec![Created]),
    ] {
        let bed = Bed::new().await;
        let mut stream = bed.runtime.subscribe().unwrap();
        bed.runtime.event_plan(EventPlan::new(move |e| if e.kind == Started { fate } else { Delivery::Deliver }));
        let id = bed.start("c", 0).await;
        bed.runtime.stop_container(&id, Duration::from_secs(1)).await.unwrap();
        assert_eq!(kinds(&mut stream).await, expected, "{fate:?}");
        if fate == Delivery::Break {
            assert!(stream.next().await.is_none(), "a stream ends after its error");
        }
    }

    let bed = Bed::new().await;
    let mut stream = bed.runtime.subscribe().unwrap();
    let late = Delivery::Delay(Duration::from_secs(3));
    bed.runtime.event_plan(EventPlan::new(move |e| if e.kind == Started { late } else { Delivery::Deliver }));
    let id = bed.start("c", 0).await;
    bed.runtime.end(&id, &Ending::code(0));
    assert_eq!(kinds(&mut stream).await, [Created, Stopped]);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(kinds(&mut stream).await, [Started]);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_without_events_says_so_and_streams_break_on_demand() {
    let bed = Bed::new().await;
    let mut stream = bed.runtime.subscribe().unwrap();
    bed.runtime.break_streams();
    assert!(stream.next().await.unwrap().is_err());
    bed.runtime.support_events(false);
    assert!(matches!(bed.runtime.subscribe(), Err(RuntimeError::Unsupported { .. })));
}

#[tokio::test(start_paused = true)]
async fn images_come_from_the_registry() {
    let runtime = FakeRuntime::new();
    let request =
        |image: &str| PullRequest { image: image.to_owned(), credentials: Vec::new(), progress: Arc::new(NoProgress) };
    assert!(runtime.pull_image(&request("any:1")).await.is_ok());
    runtime.publish_image("only:1", ImageUser::Uid(7));
    assert!(matches!(runtime.pull_image(&request("other:1")).await, Err(PullError::NotFound { .. })));
    let id = runtime.pull_image(&request("only:1")).await.unwrap();
    assert_eq!(runtime.image_status(&id.0).await.unwrap().unwrap().user, ImageUser::Uid(7));
    runtime.remove_image("only:1").await.unwrap();
    runtime.remove_image("only:1").await.unwrap();
    assert_eq!(runtime.list_images().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_is_the_same_history() {
    async fn history(seed: u64) -> (Vec<RuntimeEventKind>, Vec<Call>) {
        let bed = Bed::new().await;
        let rates = EventRates { lose: 200, duplicate: 200, delay: 200, overtake: 200, break_stream: 20 };
        bed.runtime.event_plan(EventPlan::seeded(seed, rates));
        let mut stream = bed.runtime.subscribe().unwrap();
        for attempt in 0..20 {
            let id = bed.start("c", attempt).await;
            bed.runtime.stop_container(&id, Duration::from_secs(1)).await.unwrap();
        }
        sleep(Duration::from_secs(10)).await;
        (kinds(&mut stream).await, bed.runtime.calls())
    }
    assert_eq!(history(7).await, history(7).await);
    assert_ne!(history(7).await.0, history(8).await.0);
}

#[tokio::test(start_paused = true)]
async fn the_clock_follows_time_and_jumps() {
    let clock = FakeClock::new();
    let start = clock.now();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(clock.now(), start + SignedDuration::from_secs(5));
    clock.clone().jump(SignedDuration::from_hours(-1));
    assert_eq!(clock.now(), start + SignedDuration::from_secs(5 - 3600));
}

#[tokio::test(start_paused = true)]
async fn who_joins_a_container_leaves_with_it_and_ports_echo() {
    use futures_util::{AsyncReadExt, AsyncWriteExt};

    let bed = Bed::new().await;
    bed.runtime.script("app", vec![Life::exits(Duration::from_secs(5), 3)]);
    let id = bed.create("app", 0).await.unwrap();
    assert!(matches!(bed.runtime.attach(&id, AttachRequest::default()).await, Err(RuntimeError::Invalid { .. })));
    bed.runtime.start_container(&id).await.unwrap();
    let begun = Instant::now();
    let mut session = bed.runtime.attach(&id, AttachRequest::default()).await.unwrap();
    let mut said = Vec::new();
    session.stdout.read_to_end(&mut said).await.unwrap();
    assert_eq!((said.len(), session.control.wait().await.unwrap(), begun.elapsed().as_secs()), (0, 0, 5));

    let (mut read, mut write) = bed.runtime.connect(&bed.sandbox, 80).await.unwrap().split();
    let sending = async {
        write.write_all(&vec![7; 300_000]).await.unwrap();
        write.close().await.unwrap();
    };
    let ((), received) = futures_util::future::join(sending, read.read_to_end(&mut said)).await;
    assert_eq!(received.unwrap(), 300_000);
    bed.runtime.stop_sandbox(&bed.sandbox).await.unwrap();
    assert!(matches!(bed.runtime.connect(&bed.sandbox, 80).await, Err(RuntimeError::Invalid { .. })));
}
