//! Housekeeping over the scripted runtime: what goes, when, and what stays.

#![cfg(test)]

mod support;

use std::time::Duration;

use minke_core::fake::{Ending, Fault, FaultAction, Life, Op};
use minke_core::runtime::{ImageService, ImageUser};
use minke_kubelet::{PodStage, StopRequest};
use support::{Bed, phase, simple, uid, until};
use tokio::time::sleep;

fn restarts(report: &minke_kubelet::PodReport) -> i32 {
    let status = report.pod.status.as_ref();
    status.into_iter().flat_map(|s| s.container_statuses.iter().flatten()).map(|c| c.restart_count).sum()
}

async fn images(bed: &Bed) -> Vec<String> {
    let mut tags: Vec<String> = bed.runtime.list_images().await.unwrap().into_iter().flat_map(|i| i.tags).collect();
    tags.sort();
    tags
}

#[tokio::test(start_paused = true)]
async fn a_dead_instance_is_removed_when_the_next_one_has_died() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::exits(Duration::from_millis(100), 1)]);
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    until(&kubelet, &uid("a"), "two restarts", |r| restarts(r) == 2).await;
    // Well before the round of every 10 s would find it.
    sleep(Duration::from_secs(1)).await;
    let removed = bed.runtime.writes().into_iter().filter(|c| c.op == Op::RemoveContainer).count();
    assert!(removed >= 1, "{:?}", bed.runtime.writes());
    assert_eq!(bed.runtime.violations(), [""; 0]);
    kubelet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn housekeeping_that_hangs_delays_no_start() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::exits(Duration::from_millis(100), 1)]);
    for op in [Op::RemoveContainer, Op::ListImages, Op::ImageFsInfo] {
        bed.runtime.fault(Fault::on(op, FaultAction::Hang));
    }
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("crash", "Always")]).await;
    until(&kubelet, &uid("crash"), "two restarts", |r| restarts(r) == 2).await;
    sleep(Duration::from_secs(20)).await;
    let begin = tokio::time::Instant::now();
    bed.runtime.script_pod(&uid("new"), "main", vec![Life::forever()]);
    kubelet.apply(vec![simple("new", "Always")]).await;
    until(&kubelet, &uid("new"), "it runs", |r| phase(r) == "Running").await;
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    kubelet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn images_that_nothing_uses_go_when_the_disk_is_full_and_others_stay() {
    let bed = Bed::new();
    for name in ["image:1", "old:1", "older:1"] {
        bed.runtime.add_image(name, ImageUser::Root);
    }
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    until(&kubelet, &uid("a"), "it runs", |r| phase(r) == "Running").await;
    sleep(Duration::from_secs(301)).await;
    assert_eq!(images(&bed).await.len(), 3, "there is room");
    // Three images of 1 MB each: 3 MB of 3.4 are used.
    bed.runtime.disk(3_400_000, 3_400_000);
    sleep(Duration::from_secs(301)).await;
    let left = images(&bed).await;
    assert!(left.contains(&"image:1".to_owned()), "{left:?}");
    assert_eq!(left.len(), 2, "one is enough: {left:?}");
    kubelet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_pod_s_images_may_go_and_a_kept_pod_s_may_not() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    bed.runtime.script("main", vec![Life { ending: Ending::code(1), ..Life::exits(Duration::from_millis(10), 1) }]);
    kubelet.apply(vec![simple("crash", "Always")]).await;
    until(&kubelet, &uid("crash"), "a restart", |r| restarts(r) > 0).await;
    bed.runtime.disk(1_000_000, 1_000_000);
    sleep(Duration::from_secs(601)).await;
    assert_eq!(images(&bed).await, ["image:1"]);
    kubelet.stop(&uid("crash"), StopRequest::default()).unwrap();
    support::until_stage(&kubelet, &uid("crash"), PodStage::Finished).await;
    sleep(Duration::from_secs(301)).await;
    assert_eq!(images(&bed).await, [""; 0]);
    kubelet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn reclaiming_frees_what_nothing_uses_however_empty_the_disk_is() {
    let bed = Bed::new();
    bed.runtime.add_image("old:1", ImageUser::Root);
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    until(&kubelet, &uid("a"), "it runs", |r| phase(r) == "Running").await;
    assert_eq!(kubelet.reclaim_containers().await, 0, "nothing is dead");
    assert_eq!(kubelet.reclaim_images().await.unwrap(), 1_000_000);
    assert_eq!(images(&bed).await, ["image:1"]);
    kubelet.shutdown().await;
}
