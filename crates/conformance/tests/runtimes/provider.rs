//! The kubelet core as a provider of Pods in real containers: the Provider port's contract, on the embedded runtime.
//!
//! The same checks run against the core on the runtime in memory, and against the mock of the node.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_conformance::Subject;
use minke_core::clock::SystemClock;
use minke_core::defaults::default_pod;
use minke_core::provider::Provider;
use minke_core::provider::conformance::{Harness, check};
use minke_kubelet::eviction::EvictionConfig;
use minke_kubelet::housekeeping::ImageGcPolicy;
use minke_kubelet::provider::{KubeletProvider, MachineFacts};
use minke_kubelet::{Kubelet, KubeletConfig};
use minke_testkit::TempState;
use serde_json::json;

use crate::images::MAIN;

struct Node(KubeletProvider);

impl Harness for Node {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.0.clone())
    }

    fn pod(&self, name: &str, uid: &str) -> Pod {
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": uid},
            "spec": {
                "terminationGracePeriodSeconds": 5,
                "containers": [{
                    "name": "main", "image": MAIN, "imagePullPolicy": "Never",
                    "command": ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait"],
                }],
            },
        });
        let mut pod: Pod = serde_json::from_value(pod).unwrap();
        default_pod(&mut pod);
        pod
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// What the core does not keep of the contract on this runtime, which nobody else uses; a line each.
pub(crate) async fn violations(subject: &Subject) -> String {
    let temp = TempState::new().unwrap();
    let config = KubeletConfig {
        cgroup_root: format!("/{}", temp.cgroup()),
        // How full this machine's disk is, is not for tests.
        eviction: EvictionConfig { thresholds: Vec::new(), ..EvictionConfig::default() },
        image_gc: ImageGcPolicy { high_percent: 100, ..ImageGcPolicy::default() },
        ..KubeletConfig::new("conformance".to_owned(), temp.state(), temp.logs())
    };
    let kubelet = Kubelet::start(config, subject.runtime.clone(), Arc::new(SystemClock)).await.unwrap();
    let violations = check(&Node(KubeletProvider::new(kubelet, MachineFacts::default()))).await;
    violations.iter().map(|violation| format!("{violation}\n")).collect()
}
