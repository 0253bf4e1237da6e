//! The removed run-once mode, row by row, on the scripted runtime under paused time.

#![cfg(test)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use minke_core::fake::{Fault, Life, Op};
use minke_kubelet::admission::{Pressure, Rejection, Verdict};
use minke_kubelet::runonce::{RunOnceError, RunOnceReport, RunPodError, run_with};
use minke_kubelet::{Admit, DesiredPod, PodStage};
use serde_json::json;
use support::{Bed, pod, simple, uid};
use tokio::time::{Instant, sleep};

async fn run(bed: &Bed, pods: Vec<DesiredPod>) -> RunOnceReport {
    run_admitting(bed, pods, Arc::new(minke_kubelet::AdmitAll)).await
}

async fn run_admitting(bed: &Bed, pods: Vec<DesiredPod>, admit: Arc<dyn Admit>) -> RunOnceReport {
    let ports = minke_kubelet::Ports { admit, ..bed.ports() };
    let (runtime, clock) = (Arc::new(bed.runtime.clone()), Arc::new(bed.runtime.clock()));
    run_with(Bed::config(), runtime, clock, ports, async { pods }).await
}

fn names(report: &RunOnceReport) -> Vec<&str> {
    report.results.iter().map(|r| r.pod.metadata.name.as_deref().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn run_once() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("foo", "Always")]).await;
    support::until_phase(&kubelet, &uid("foo"), "Running").await;
    kubelet.shutdown().await;
    bed.runtime.clear_calls();
    let report = run(&bed, vec![simple("foo", "Always")]).await;
    assert!(report.error.is_none() && report.results[0].error.is_none());
    assert_eq!(names(&report), ["foo"]);
    assert_eq!(bed.runtime.writes(), [], "a pod that runs is left alone");
}

#[tokio::test(start_paused = true)]
async fn no_manifest_in_one_second() {
    let bed = Bed::new();
    let begin = Instant::now();
    let (runtime, clock) = (Arc::new(bed.runtime.clone()), Arc::new(bed.runtime.clock()));
    let late = async {
        sleep(Duration::from_secs(5)).await;
        vec![simple("late", "Always")]
    };
    let report = run_with(Bed::config(), runtime, clock, bed.ports(), late).await;
    assert_eq!(begin.elapsed(), Duration::from_secs(1));
    let error = report.error.unwrap();
    assert_eq!(error.process_message(), "runonce failed: no pod manifest update after 1s");
    assert!(matches!(error, RunOnceError::NoManifest));
    assert_eq!(bed.runtime.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn an_empty_manifest_is_success() {
    let bed = Bed::new();
    let report = run(&bed, Vec::new()).await;
    assert!(report.error.is_none() && report.results.is_empty());
    assert_eq!(bed.runtime.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn the_first_check_after_a_sync_comes_after_a_second() {
    let bed = Bed::new();
    let begin = Instant::now();
    let report = run(&bed, vec![simple("a", "Always"), simple("b", "Always")]).await;
    assert!(report.error.is_none());
    assert_eq!(begin.elapsed(), Duration::from_secs(1), "pods run beside each other");
    assert_eq!(bed.runtime.running(&uid("a")) + bed.runtime.running(&uid("b")), 2, "containers stay");
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bed.runtime.count(Op::StopContainer), 0);
}

/// Refuses every second Pod, and keeps what it was shown.
#[derive(Debug, Default)]
struct EverySecond(std::sync::Mutex<Vec<usize>>);

#[async_trait]
impl Admit for EverySecond {
    async fn admit(&self, _pod: &Pod, active: &[Arc<Pod>], _pressure: &[Pressure]) -> Verdict {
        let mut seen = self.0.lock().unwrap();
        seen.push(active.len());
        if seen.len().is_multiple_of(2) {
            return Verdict::Reject(Rejection { reason: "OutOfcpu".to_owned(), message: "too much".to_owned() });
        }
        Verdict::Admit
    }

    async fn admit_again(&self, pod: &Pod, active: &[Arc<Pod>]) -> Verdict {
        self.admit(pod, active, &[]).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_pod_is_no_error() {
    let bed = Bed::new();
    let admit = Arc::new(EverySecond::default());
    let pods = ["a", "b", "c", "d"].map(|n| simple(n, "Always")).to_vec();
    let report = run_admitting(&bed, pods, admit.clone()).await;
    assert!(report.error.is_none(), "{:?}", report.error);
    assert!(report.results.iter().all(|r| r.error.is_none()));
    assert_eq!(*admit.0.lock().unwrap(), [0, 1, 1, 2], "only pods of this run count, in order");
    assert_eq!(&names(&report)[..2], ["b", "d"], "rejected ones come first");
    let status = report.results[0].pod.status.as_ref().unwrap();
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("OutOfcpu")));
    assert_eq!(status.message.as_deref(), Some("Pod was rejected: too much"));
    assert_eq!(bed.runtime.running(&uid("b")), 0);
}

#[tokio::test(start_paused = true)]
async fn a_status_error_ends_the_pod_at_once() {
    let bed = Bed::new();
    bed.runtime.fault(Fault::fail(Op::ListContainers).nth(1));
    let report = run(&bed, vec![simple("a", "Always")]).await;
    let error = report.results[0].error.as_ref().unwrap();
    assert!(matches!(error, RunPodError::Status { .. }));
    assert!(error.to_string().starts_with("unable to get status for pod \"a_default(uid-a)\": "), "{error}");
    assert_eq!(bed.runtime.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_sync_error_ends_the_pod_without_a_retry() {
    for op in [Op::RunSandbox, Op::PullImage, Op::CreateContainer] {
        let bed = Bed::new();
        bed.runtime.fault(Fault::fail(op));
        let begin = Instant::now();
        let report = run(&bed, vec![simple("a", "Always")]).await;
        let error = report.results[0].error.as_ref().unwrap();
        assert!(error.to_string().starts_with("error syncing pod \"a_default(uid-a)\": "), "{error}");
        assert_eq!((begin.elapsed(), bed.runtime.count(op)), (Duration::ZERO, 1), "{op:?}");
        let overall = report.error.unwrap().process_message();
        assert_eq!(overall, "runonce failed: error running pods: [a_default(uid-a)]");
    }
}

#[tokio::test(start_paused = true)]
async fn ten_retries_with_doubling_delay_and_then_a_timeout() {
    let bed = Bed::new();
    // A job: it is never seen running, and not started again.
    bed.runtime.script("main", vec![Life::exits(Duration::from_millis(100), 0)]);
    let begin = Instant::now();
    let report = run(&bed, vec![simple("job", "Never")]).await;
    assert_eq!(begin.elapsed(), Duration::from_secs(1023));
    let error = report.results[0].error.as_ref().unwrap();
    assert_eq!(
        error.to_string(),
        "timeout error: pod \"job_default(uid-job)\" containers not running after 10 retries"
    );
    assert_eq!(bed.runtime.count(Op::StartContainer), 1);
    let looks: Vec<_> = bed.runtime.timed_calls().into_iter().filter(|(_, c)| c.op == Op::ListContainers).collect();
    let gaps: Vec<i64> = looks.windows(2).map(|w| w[1].0.duration_since(w[0].0).as_secs()).filter(|g| *g > 0).collect();
    assert_eq!(gaps, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
}

#[tokio::test(start_paused = true)]
async fn init_containers_progress_only_at_retries() {
    let bed = Bed::new();
    for name in ["one", "two"] {
        bed.runtime.script(name, vec![Life::exits(Duration::from_millis(10), 0)]);
    }
    let spec = json!({
        "restartPolicy": "Always",
        "initContainers": [{"name": "one"}, {"name": "two"}],
        "containers": [{"name": "main"}],
    });
    let begin = Instant::now();
    let report = run(&bed, vec![pod("a", spec)]).await;
    assert!(report.error.is_none());
    // Syncs at 0, 1 and 3 s start one container each; the look at 7 s finds the last running.
    assert_eq!(begin.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn a_short_lived_container_is_caught_only_while_it_runs() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::exits(Duration::from_millis(1500), 0)]);
    assert!(run(&bed, vec![simple("a", "Never")]).await.error.is_none(), "it ran at the look after a second");
}

#[tokio::test(start_paused = true)]
async fn mixed_success_and_failure() {
    let bed = Bed::new();
    bed.runtime.fault(Fault::fail(Op::RunSandbox).of_pod(&uid("bad1")));
    bed.runtime.fault(Fault::fail(Op::CreateContainer).of_pod(&uid("bad2")));
    let pods = ["bad1", "good", "bad2"].map(|n| simple(n, "Always")).to_vec();
    let report = run(&bed, pods).await;
    let failed: Vec<_> = report.results.iter().filter(|r| r.error.is_some()).collect();
    assert_eq!((report.results.len(), failed.len()), (3, 2));
    let Some(RunOnceError::Pods(names)) = &report.error else { panic!("{:?}", report.error) };
    assert_eq!(names, &["bad1_default(uid-bad1)", "bad2_default(uid-bad2)"]);
    assert_eq!(bed.runtime.running(&uid("good")), 1, "the others keep running");
}

#[tokio::test(start_paused = true)]
async fn a_later_agent_adopts_what_run_once_left() {
    let bed = Bed::new();
    run(&bed, vec![simple("a", "Always")]).await;
    let (id, _) = bed.runtime.newest(&uid("a"), "main").unwrap();
    let kubelet = bed.kubelet().await;
    let report = support::until_phase(&kubelet, &uid("a"), "Running").await;
    assert_eq!(report.stage, PodStage::Syncing);
    assert_eq!(bed.runtime.newest(&uid("a"), "main").unwrap().0, id);
}
