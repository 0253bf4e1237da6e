use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_core::fake::FakeClock;
use minke_core::provider::conformance::{Harness, check};
use serde_json::json;
use tokio::time::sleep;

use super::*;

struct Mock(Arc<MockProvider>);

fn pod(name: &str, uid: &str) -> Pod {
    let value = json!({
        "metadata": {"namespace": "default", "name": name, "uid": uid},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "i"}]},
    });
    serde_json::from_value(value).unwrap()
}

fn desired(name: &str) -> DesiredPod {
    DesiredPod { pod: Arc::new(pod(name, name)), objects: Arc::default() }
}

fn mock(options: MockOptions) -> Arc<MockProvider> {
    MockProvider::start_with(options, Arc::new(FakeClock::new()))
}

impl Harness for Mock {
    fn provider(&self) -> Arc<dyn Provider> {
        self.0.clone()
    }

    fn pod(&self, name: &str, uid: &str) -> Pod {
        pod(name, uid)
    }
}

#[tokio::test(start_paused = true)]
async fn a_mock_keeps_the_ports_contract() {
    for (starts, stops) in [(0, 0), (3, 7)] {
        let (starts_after, stops_after) = (Duration::from_secs(starts), Duration::from_secs(stops));
        let options = MockOptions { starts_after, stops_after, ..MockOptions::default() };
        let violations = check(&Mock(mock(options))).await;
        assert!(violations.is_empty(), "{violations:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn its_pods_take_their_time_and_a_grace_bounds_it() {
    let second = Duration::from_secs(1);
    let options = MockOptions { starts_after: 5 * second, stops_after: 20 * second, ..MockOptions::default() };
    let mock = mock(options);
    mock.create(&desired("a")).await.unwrap();
    let key = PodKey::of(&pod("a", "a")).unwrap();
    let phase = async || mock.status(&key).await.unwrap().and_then(|status| status.phase);
    assert_eq!(phase().await.as_deref(), Some("Pending"));
    sleep(6 * second).await;
    assert_eq!(phase().await.as_deref(), Some("Running"));
    mock.delete(&key, 10 * second).await.unwrap();
    sleep(9 * second).await;
    assert_eq!(phase().await.as_deref(), Some("Running"));
    sleep(2 * second).await;
    assert_eq!((phase().await, mock.held()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn calls_fail_as_often_as_they_are_to_and_have_no_effect_then() {
    let mock = mock(MockOptions { failing_percent: 20, ..MockOptions::default() });
    let mut failed = 0;
    for at in 0..1000 {
        failed += usize::from(mock.create(&desired(&format!("p{at}"))).await.is_err());
    }
    assert!((150..250).contains(&failed), "{failed} of 1000");
    assert_eq!(mock.held(), 1000 - failed);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_pods_come_and_go() {
    let mock = mock(MockOptions::default());
    let shared = desired("template");
    for at in 0..100_000 {
        let mut pod = (*shared.pod).clone();
        pod.metadata.uid = Some(format!("u{at}"));
        mock.create(&DesiredPod { pod: Arc::new(pod), objects: Arc::default() }).await.unwrap();
    }
    assert_eq!(mock.held(), 100_000);
    mock.close(true);
    assert!(matches!(mock.create(&desired("late")).await, Err(ProviderError::Rejected { .. })));
    for at in 0..100_000 {
        let key = PodKey::of(&pod("template", &format!("u{at}"))).unwrap();
        mock.delete(&key, Duration::ZERO).await.unwrap();
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(mock.held(), 0);
}
