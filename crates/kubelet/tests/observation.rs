//! What is seen half-way through a start never makes the core start anything twice, whichever way changes are noticed.

#![cfg(test)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use minke_core::fake::{Fault, FaultAction, Op};
use minke_core::runtime::RuntimeEventKind;
use minke_kubelet::pleg::PlegConfig;
use minke_kubelet::{Kubelet, Ports, RelistMode};
use support::{Bed, phase, simple, uid, until};
use tokio::time::sleep;

const MODES: [RelistMode; 3] = [RelistMode::Generic, RelistMode::Hinted, RelistMode::Evented];

async fn kubelet(bed: &Bed, mode: RelistMode) -> Kubelet {
    let pleg = PlegConfig::new(mode, Duration::from_secs(1));
    let (runtime, clock) = (Arc::new(bed.runtime.clone()), Arc::new(bed.runtime.clock()));
    Kubelet::start_with(Bed::config(), runtime, clock, Ports { pleg, ..bed.ports() }).await.unwrap()
}

/// Events of everything that is there, again and again, for so long.
async fn storm(bed: &Bed, pod: &str, lasts: Duration) {
    let begin = tokio::time::Instant::now();
    while begin.elapsed() < lasts {
        for kind in [RuntimeEventKind::Created, RuntimeEventKind::Started] {
            for (id, _) in bed.runtime.sandboxes(&uid(pod)) {
                bed.runtime.forge_event(kind, id.0, &uid(pod));
            }
            if let Some((id, _)) = bed.runtime.newest(&uid(pod), "main") {
                bed.runtime.forge_event(kind, id.0, &uid(pod));
            }
        }
        sleep(Duration::from_millis(50)).await;
    }
}

async fn starts_once(bed: &Bed, mode: RelistMode) {
    let kubelet = kubelet(bed, mode).await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    storm(bed, "a", Duration::from_secs(6)).await;
    until(&kubelet, &uid("a"), "runs", |r| phase(r) == "Running").await;
    sleep(Duration::from_secs(5)).await;
    for op in [Op::RunSandbox, Op::CreateContainer, Op::StartContainer] {
        assert_eq!(bed.runtime.count(op), 1, "{op:?}, {mode:?}");
    }
    assert_eq!(bed.runtime.violations(), Vec::<String>::new());
    kubelet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_with_only_a_sandbox_does_not_start_containers_twice() {
    for mode in MODES {
        let bed = Bed::new();
        bed.runtime.fault(Fault::on(Op::CreateContainer, FaultAction::Delay(Duration::from_secs(4))));
        starts_once(&bed, mode).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_stays_created_between_syncs_is_not_created_twice() {
    for mode in MODES {
        let bed = Bed::new();
        bed.runtime.fault(Fault::on(Op::StartContainer, FaultAction::Delay(Duration::from_secs(4))));
        starts_once(&bed, mode).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_whose_call_takes_long_is_made_once() {
    for mode in MODES {
        let bed = Bed::new();
        bed.runtime.fault(Fault::on(Op::RunSandbox, FaultAction::Delay(Duration::from_secs(4))));
        starts_once(&bed, mode).await;
    }
}

#[tokio::test(start_paused = true)]
async fn statuses_that_fail_for_a_while_start_nothing_twice() {
    for mode in MODES {
        let bed = Bed::new();
        for op in [Op::SandboxStatus, Op::ContainerStatus, Op::ListContainers] {
            bed.runtime.fault(Fault::fail(op).times(5));
        }
        starts_once(&bed, mode).await;
    }
}
