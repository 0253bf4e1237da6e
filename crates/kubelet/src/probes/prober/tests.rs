//! The scheduler at scale, under paused time: thousands of probes, some of which hang, and none starves.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Pod;
use minke_core::runtime::{ContainerId, ContainerState, ContainerStatus, ImageId, SandboxId};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::*;

const PODS: usize = 2_500;
const PERIOD: u64 = 10;

/// Answers after a moment, except that probes of every tenth Pod never do. Counts.
#[derive(Debug, Default)]
struct Scripted {
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    asked: Mutex<BTreeMap<String, Vec<Instant>>>,
}

fn metrics() -> ProbeMetrics {
    ProbeMetrics::new(&crate::metrics::Metrics::default())
}

fn hangs(uid: &PodUid) -> bool {
    uid.as_str().ends_with('7')
}

#[async_trait]
impl Asker for Scripted {
    async fn ask(&self, run: &Run) -> Answer {
        let name = format!("{} {:?}", run.probe.uid, run.probe.kind);
        self.asked.lock().unwrap().entry(name).or_default().push(Instant::now());
        let now = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_at_once.fetch_max(now, Ordering::Relaxed);
        let takes = if hangs(&run.probe.uid) { Duration::from_secs(100_000) } else { Duration::from_millis(20) };
        let answer = tokio::time::timeout(run.timing.timeout, sleep(takes)).await;
        self.at_once.fetch_sub(1, Ordering::Relaxed);
        answer.map_or_else(|_| Answer::Failure("timed out".to_owned()), |()| Answer::Success)
    }
}

fn pod(uid: &PodUid) -> Pod {
    let probe = json!({"exec": {"command": ["x"]}, "periodSeconds": PERIOD, "timeoutSeconds": 30});
    let pod = json!({
        "metadata": {"name": uid.as_str(), "uid": uid.as_str()},
        "spec": {"containers": [{"name": "c", "livenessProbe": probe, "readinessProbe": probe}]},
    });
    serde_json::from_value(pod).unwrap()
}

fn runs(uid: &PodUid, since: jiff::Timestamp) -> PodRuntimeStatus {
    let container = ContainerStatus {
        id: ContainerId(format!("{uid}-c")),
        sandbox: SandboxId("s".to_owned()),
        pod: uid.clone(),
        name: "c".to_owned(),
        attempt: 0,
        created_at: since,
        state: ContainerState::Running { started_at: since },
        image_name: String::new(),
        image: ImageId(String::new()),
        log_path: "/log".into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        uid: None,
    };
    PodRuntimeStatus { containers: vec![container], ..PodRuntimeStatus::empty(uid.clone()) }
}

struct World {
    prober: Prober,
    asker: Arc<Scripted>,
    told: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

/// A prober of as many Pods, whose containers were started `age` ago.
async fn world(age: Duration) -> World {
    let (prober, asker, told) = (Prober::new(), Arc::<Scripted>::default(), Arc::new(AtomicUsize::new(0)));
    let counter = told.clone();
    let tell: Tell = Box::new(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let task = tokio::spawn(prober.clone().run_with(asker.clone(), Recorder::new(16), metrics(), tell));
    let wall = jiff::Timestamp::from_second(1_800_000_000).unwrap();
    for i in 0..PODS {
        let uid = PodUid::new(format!("pod-{i}")).unwrap();
        prober.add(&uid, &pod(&uid), &Recovered::default());
        let since = wall - jiff::SignedDuration::try_from(age).unwrap();
        prober.observe(&runs(&uid, since), Vec::new(), Now { wall, monotonic: Instant::now() });
    }
    World { prober, asker, told, _task: AbortOnDropHandle::new(task) }
}

#[tokio::test(start_paused = true)]
async fn five_thousand_probes_of_which_five_hundred_hang_and_none_starves() {
    let began = Instant::now();
    let world = world(Duration::ZERO).await;
    sleep(Duration::from_secs(10 * PERIOD)).await;
    let asked = world.asker.asked.lock().unwrap();
    assert_eq!(asked.len(), 2 * PODS, "every probe ran");
    let (mut worst_first, mut worst_gap) = (Duration::ZERO, Duration::ZERO);
    for (name, times) in asked.iter().filter(|(name, _)| !name.split(' ').next().unwrap().ends_with('7')) {
        worst_first = worst_first.max(times[0] - began);
        assert!(times.len() >= 9, "{name} ran {} times in ten periods", times.len());
        for pair in times.windows(2) {
            worst_gap = worst_gap.max(pair[1] - pair[0]);
        }
    }
    println!(
        "5,000 probes, 500 hanging: first run at the latest after {worst_first:?}, longest gap {worst_gap:?} of \
         {PERIOD} s, most at once {}",
        world.asker.most_at_once.load(Ordering::Relaxed)
    );
    // 64 slots: a hanging probe keeps one for 100 ms, another for 20 ms.
    assert!(worst_first <= Duration::from_secs(3), "{worst_first:?}");
    assert!(worst_gap <= Duration::from_secs(PERIOD + 3), "{worst_gap:?}");
    assert_eq!(world.told.load(Ordering::Relaxed), PODS, "each became ready, or was condemned, once");
}

#[tokio::test(start_paused = true)]
async fn probes_of_containers_that_were_there_before_are_spread_over_a_period() {
    let began = Instant::now();
    let world = world(Duration::from_secs(3600)).await;
    sleep(Duration::from_secs(PERIOD)).await;
    let asked = world.asker.asked.lock().unwrap();
    let mut seconds = [0; 10];
    for times in asked.values() {
        seconds[usize::try_from((times[0] - began).as_secs()).unwrap().min(9)] += 1;
    }
    assert!(seconds.iter().all(|n| (300..800).contains(n)), "{seconds:?}");
}

#[tokio::test(start_paused = true)]
async fn forgotten_pods_are_not_asked_and_their_runs_are_cut_off() {
    let world = world(Duration::ZERO).await;
    sleep(Duration::from_secs(5)).await;
    assert!(world.asker.at_once.load(Ordering::Relaxed) > 0, "some hang");
    for i in 0..PODS {
        world.prober.remove(&PodUid::new(format!("pod-{i}")).unwrap());
    }
    sleep(Duration::from_secs(1)).await;
    world.asker.asked.lock().unwrap().clear();
    assert_eq!(world.prober.table().next(), None);
    sleep(Duration::from_secs(60)).await;
    assert!(world.asker.asked.lock().unwrap().is_empty());
}

/// An asker that panics once.
#[derive(Debug, Default)]
struct Panics(AtomicUsize);

#[async_trait]
impl Asker for Panics {
    async fn ask(&self, _run: &Run) -> Answer {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) > 0, "on purpose");
        Answer::Success
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_panics_is_asked_again() {
    let (prober, asker) = (Prober::new(), Arc::<Panics>::default());
    let task = tokio::spawn(prober.clone().run_with(asker.clone(), Recorder::new(16), metrics(), Box::new(|_| {})));
    let _task = AbortOnDropHandle::new(task);
    let uid = PodUid::new("a").unwrap();
    prober.add(&uid, &pod(&uid), &Recovered::default());
    let wall = jiff::Timestamp::from_second(1_800_000_000).unwrap();
    prober.observe(&runs(&uid, wall), Vec::new(), Now { wall, monotonic: Instant::now() });
    sleep(Duration::from_secs(3 * PERIOD)).await;
    assert!(asker.0.load(Ordering::Relaxed) >= 4);
    let results = prober.observe(&runs(&uid, wall), Vec::new(), Now { wall, monotonic: Instant::now() });
    assert_eq!(results["c"].ready, Some(true));
}
