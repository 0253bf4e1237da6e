use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::*;
use crate::provider::conformance::{self, Harness};
use crate::provider::{Environment, Extras};

fn pod(name: &str, uid: &str) -> Pod {
    let value = serde_json::json!({
        "metadata": {"name": name, "namespace": "default", "uid": uid},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "busybox"}]},
    });
    serde_json::from_value(value).unwrap()
}

fn desired(name: &str, uid: &str) -> (PodKey, DesiredPod) {
    let pod = Arc::new(pod(name, uid));
    (PodKey::of(&pod).unwrap(), DesiredPod { pod, objects: Arc::default() })
}

struct Fake(FakeProvider);

impl Harness for Fake {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.0.clone())
    }

    fn pod(&self, name: &str, uid: &str) -> Pod {
        pod(name, uid)
    }
}

#[tokio::test(start_paused = true)]
async fn it_conforms_however_it_tells_and_however_slow_it_is() {
    for notices in [Notices::Pushed, Notices::Polled] {
        for seconds in [0, 3] {
            let provider = FakeProvider::new(notices, FakeClock::new());
            let (starts_after, stops_after) = (Duration::from_secs(seconds), Duration::from_secs(seconds));
            provider.set_life(FakePodLife { starts_after, ends: None, stops_after });
            let driver = tokio::spawn(provider.clone().drive());
            let violations = conformance::check(&Fake(provider)).await;
            driver.abort();
            assert!(violations.is_empty(), "{notices:?} {seconds}: {violations:?}");
        }
    }
}

/// A provider that keeps its promises except for one.
#[derive(Debug)]
struct Wrong {
    fake: FakeProvider,
    how: &'static str,
}

#[async_trait]
impl Provider for Wrong {
    async fn create(&self, pod: &DesiredPod) -> Result<(), ProviderError> {
        let key = PodKey::of(&pod.pod).unwrap();
        if self.how == "refuses a second create" && self.fake.get(&key).await?.is_some() {
            return Err(ProviderError::failed("create", "exists already"));
        }
        self.fake.create(pod).await
    }

    async fn update(&self, pod: &DesiredPod) -> Result<(), ProviderError> {
        match self.how {
            "creates by update" => self.fake.create(pod).await,
            "drops updates" => Ok(()),
            _ => self.fake.update(pod).await,
        }
    }

    async fn delete(&self, key: &PodKey, grace: Duration) -> Result<(), ProviderError> {
        match self.how {
            "deletes by name" => {
                for other in self.fake.keys().iter().filter(|other| other.name == key.name) {
                    self.fake.delete(other, grace).await?;
                }
                Ok(())
            }
            "never deletes" => Ok(()),
            _ => self.fake.delete(key, grace).await,
        }
    }

    async fn get(&self, key: &PodKey) -> Result<Option<HeldPod>, ProviderError> {
        self.fake.get(key).await
    }

    async fn list(&self) -> Result<Vec<HeldPod>, ProviderError> {
        if self.how == "lists nothing" { Ok(Vec::new()) } else { self.fake.list().await }
    }

    fn notify(&self, sink: Arc<dyn StatusSink>) -> Notices {
        if self.how != "tells nothing" {
            self.fake.notify(sink);
        }
        Notices::Pushed
    }
}

#[tokio::test(start_paused = true)]
async fn conformance_finds_each_broken_promise() {
    let cases = [
        ("refuses a second create", "creating_twice_is_one_pod"),
        ("creates by update", "updating_an_unknown_pod_is_not_found"),
        ("drops updates", "updates_are_kept"),
        ("deletes by name", "a_uid_is_a_pod_of_its_own"),
        ("never deletes", "deleting_ends_and_forgets"),
        ("lists nothing", "a_created_pod_is_held_and_listed"),
        ("tells nothing", "its_status_arrives"),
    ];
    struct Bad(&'static str);
    impl Harness for Bad {
        fn provider(&self) -> Arc<dyn Provider> {
            Arc::new(Wrong { fake: FakeProvider::new(Notices::Pushed, FakeClock::new()), how: self.0 })
        }

        fn pod(&self, name: &str, uid: &str) -> Pod {
            pod(name, uid)
        }
    }
    for (how, check) in cases {
        let violations = conformance::check(&Bad(how)).await;
        assert!(violations.iter().any(|v| v.check == check), "{how}: {violations:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_live_as_their_life_says() {
    let provider = FakeProvider::new(Notices::Polled, FakeClock::new());
    let second = Duration::from_secs(1);
    provider.set_life(FakePodLife { starts_after: second, ends: Some((second * 2, 3)), stops_after: second });
    let (key, desired) = desired("a", "a-1");
    provider.create(&desired).await.unwrap();
    let phase = async || provider.status(&key).await.unwrap().unwrap().phase.unwrap();
    assert_eq!(phase().await, "Pending");
    tokio::time::advance(second).await;
    assert_eq!(phase().await, "Running");
    tokio::time::advance(second * 2).await;
    assert_eq!(phase().await, "Failed");
    assert_eq!(provider.held(), 1, "what ended by itself is kept");
    provider.delete(&key, second).await.unwrap();
    assert_eq!(provider.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn faults_hit_as_told_and_second_starts_are_noticed() {
    let provider = FakeProvider::new(Notices::Polled, FakeClock::new());
    let (key, desired) = desired("a", "a-1");
    provider.add_fault(ProviderFault::fail(ProviderOp::Create).of_pod(&key).times(1));
    let after = ProviderFaultAction::FailAfter(ProviderFaultError::Unavailable);
    provider.add_fault(ProviderFault::on(ProviderOp::Create, after).times(1));
    assert!(provider.create(&desired).await.is_err());
    assert_eq!(provider.held(), 0);
    assert!(provider.create(&desired).await.is_err());
    assert_eq!(provider.held(), 1, "it had its effect all the same");
    provider.create(&desired).await.unwrap();
    assert_eq!((provider.starts(&key), provider.calls(ProviderOp::Create)), (1, 3));
    assert!(provider.violations().is_empty());
    provider.lose(&key);
    provider.create(&desired).await.unwrap();
    assert_eq!(provider.violations().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_pods_fit() {
    let provider = FakeProvider::new(Notices::Polled, FakeClock::new());
    let shared = Arc::new(pod("many", "many-0"));
    for number in 0..100_000 {
        let uid = crate::identity::PodUid::new(format!("u{number}")).unwrap();
        let key = PodKey::new("default", format!("p{number}"), uid);
        provider.settled().create(&key, shared.clone(), Instant::now());
        provider.settled().news.clear();
    }
    assert_eq!(provider.list().await.unwrap().len(), 100_000);
    let extras: Extras<'_> = provider.extras();
    assert!(extras.logs.is_none() && provider.environment() == Environment::Resolved);
}
