//! What becomes of probes when their Pod is wanted otherwise.

use minke_core::runtime::{ContainerStatus, ImageId, SandboxId};
use serde_json::{Value, json};

use super::*;

fn uid() -> PodUid {
    PodUid::new("u").unwrap()
}

/// A Pod whose only container has these probes, and this label.
fn pod(label: &str, probes: &[(&str, u64)]) -> Pod {
    let mut container = json!({"name": "c", "image": "i"});
    for (field, period) in probes {
        container[field] = json!({"exec": {"command": ["x"]}, "periodSeconds": period, "failureThreshold": 3});
    }
    let metadata = json!({"name": "p", "uid": "u", "labels": {"l": label}});
    let object: Value = json!({"metadata": metadata, "spec": {"containers": [container]}});
    serde_json::from_value(object).unwrap()
}

const READINESS: (&str, u64) = ("readinessProbe", 10);
const LIVENESS: (&str, u64) = ("livenessProbe", 10);

struct Bed {
    table: Table,
    now: Instant,
}

impl Bed {
    /// A table with a Pod whose container runs.
    fn new(pod: &Pod) -> Self {
        let now = Instant::now();
        let mut table = Table::new(now);
        table.add(&uid(), pod, &Recovered::default());
        let mut bed = Self { table, now };
        bed.observe("one");
        bed
    }

    /// This instance runs.
    fn observe(&mut self, id: &str) -> ProbeResults {
        let wall = Timestamp::from_second(1_800_000_000).unwrap();
        let container = ContainerStatus {
            id: ContainerId(id.to_owned()),
            sandbox: SandboxId("s".to_owned()),
            pod: uid(),
            name: "c".to_owned(),
            attempt: 0,
            created_at: wall,
            state: ContainerState::Running { started_at: wall },
            image_name: String::new(),
            image: ImageId(String::new()),
            log_path: "/log".into(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            uid: None,
        };
        let runtime = PodRuntimeStatus { containers: vec![container], ..PodRuntimeStatus::empty(uid()) };
        let now = Now { wall, monotonic: self.now };
        self.table.observe(&runtime, Vec::new(), now).remove("c").unwrap_or_default()
    }

    /// Begins all runs that are due within a period.
    fn begin(&mut self) -> Vec<Run> {
        self.now += Duration::from_secs(10);
        std::iter::from_fn(|| self.table.begin(self.now)).collect()
    }

    fn end(&mut self, run: &Run, outcome: Outcome) -> Option<bool> {
        self.table.ran(&run.probe, run.run, outcome, self.now)
    }

    fn answer(&mut self, outcome: Outcome) {
        for run in self.begin() {
            assert!(self.end(&run, outcome).is_some());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_of_something_else_changes_nothing_about_probes() {
    let mut bed = Bed::new(&pod("a", &[LIVENESS, READINESS]));
    bed.answer(Outcome::Success);
    bed.answer(Outcome::Failure);
    let under_way = bed.begin();
    // An object that is touched all the time must not keep a container alive that fails all the time.
    bed.table.update(&uid(), &pod("b", &[LIVENESS, READINESS]));
    for run in &under_way {
        assert!(bed.end(run, Outcome::Failure).is_some(), "what is under way counts");
    }
    assert!(bed.table.condemned(&uid()).is_empty(), "twice");
    bed.table.update(&uid(), &pod("c", &[LIVENESS, READINESS]));
    bed.answer(Outcome::Failure);
    assert_eq!(bed.table.condemned(&uid()), [(ContainerId("one".to_owned()), FatalProbe::Liveness)]);
    assert_eq!(bed.table.timetable.len(), 1, "readiness goes on");
}

#[tokio::test(start_paused = true)]
async fn what_is_known_of_a_container_holds_until_it_is_replaced() {
    let mut bed = Bed::new(&pod("a", &[READINESS]));
    bed.answer(Outcome::Success);
    let old = bed.begin();
    bed.table.update(&uid(), &pod("a", &[("readinessProbe", 5)]));
    assert_eq!(bed.table.next(), None, "until the container is observed again");
    assert_eq!(bed.observe("one").ready, Some(true), "no gap for as long as it runs");
    let new = bed.begin();
    assert_eq!(bed.end(&old[0], Outcome::Failure), None, "an answer to the old probe is none to the new one");
    assert_eq!(bed.end(&new[0], Outcome::Success), Some(false));
    assert_eq!(bed.table.timetable.len(), 1, "each probe stands in it once");
    assert_eq!(bed.observe("two").ready, Some(false), "another one has to answer first");
}

#[tokio::test(start_paused = true)]
async fn a_condemned_container_is_not_saved_by_an_update() {
    let mut bed = Bed::new(&pod("a", &[LIVENESS]));
    for _ in 0..3 {
        bed.answer(Outcome::Failure);
    }
    let condemned = [(ContainerId("one".to_owned()), FatalProbe::Liveness)];
    assert_eq!(bed.table.condemned(&uid()), condemned);
    bed.table.update(&uid(), &pod("a", &[("livenessProbe", 5)]));
    assert_eq!(bed.table.condemned(&uid()), condemned);
    assert_eq!(bed.observe("one").condemned, Some(FatalProbe::Liveness));
    assert_eq!(bed.observe("two").condemned, None);
}

#[tokio::test(start_paused = true)]
async fn probes_come_and_go_with_an_update() {
    let mut bed = Bed::new(&pod("a", &[LIVENESS]));
    assert_eq!(bed.observe("one").ready, None);
    let task = tokio::spawn(std::future::pending::<()>());
    let under_way = bed.begin();
    bed.table.began(&under_way[0].probe, task.abort_handle());
    bed.table.update(&uid(), &pod("a", &[READINESS]));
    assert!(task.await.unwrap_err().is_cancelled(), "nobody waits for an answer that does not count");
    assert_eq!(bed.observe("one").ready, Some(false));
    assert_eq!(bed.begin().len(), 1);
    bed.table.update(&uid(), &pod("a", &[]));
    assert!(!bed.table.has(&uid()));
    assert_eq!(bed.table.next(), None);
}

#[tokio::test(start_paused = true)]
async fn an_update_of_a_pod_that_ends_brings_back_nothing_that_kills() {
    for period in [10, 5] {
        let mut bed = Bed::new(&pod("a", &[LIVENESS, READINESS]));
        bed.answer(Outcome::Success);
        bed.table.stop_fatal(&uid());
        bed.table.update(&uid(), &pod("b", &[("livenessProbe", period), READINESS]));
        bed.observe("one");
        let kinds: Vec<ProbeKind> = bed.begin().iter().map(|run| run.probe.kind).collect();
        assert_eq!(kinds, [ProbeKind::Readiness], "liveness every {period} s");
    }
}
