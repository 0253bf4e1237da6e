//! From transitions to what can be drawn: each Pod a lane, each container a lane below it, with bars (something that
//! lasted) and marks (something that happened).

use std::collections::BTreeMap;

use jiff::Timestamp;
use minke_kubelet::timeline::{Entry, LaneKind, PodTimeline, Step, Timelines, Transition};
use serde::Serialize;

/// What a bar stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum BarKind {
    Volumes,
    Sandbox,
    Pull,
    Create,
    Start,
    PostStart,
    /// It runs and is not ready.
    Running,
    Ready,
    BackOff,
    Stopping,
    CleaningUp,
}

impl BarKind {
    /// For people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Volumes => "volumes",
            Self::Sandbox => "sandbox",
            Self::Pull => "pull",
            Self::Create => "create",
            Self::Start => "start",
            Self::PostStart => "postStart hook",
            Self::Running => "running, not ready",
            Self::Ready => "ready",
            Self::BackOff => "back-off",
            Self::Stopping => "stopping",
            Self::CleaningUp => "cleaning up",
        }
    }

    pub(super) fn of(step: Step) -> Self {
        match step {
            Step::Volumes => Self::Volumes,
            Step::Sandbox => Self::Sandbox,
            Step::Pull => Self::Pull,
            Step::Create => Self::Create,
            Step::Start => Self::Start,
            Step::PostStart => Self::PostStart,
        }
    }
}

/// Something that lasted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Bar {
    pub(super) kind: BarKind,
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) attempt: u32,
    /// It failed.
    pub(super) failed: bool,
    /// It goes on.
    pub(super) open: bool,
    /// More words.
    pub(super) detail: String,
}

/// How a mark is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Tone {
    Plain,
    Good,
    Bad,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Mark {
    pub(super) at: i64,
    pub(super) attempt: u32,
    pub(super) tone: Tone,
    /// A few characters to draw.
    pub(super) sign: String,
    pub(super) words: String,
}

/// A Pod's or a container's line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct LaneChart {
    pub(super) name: String,
    /// Absent for the Pod itself.
    pub(super) kind: Option<LaneKind>,
    pub(super) bars: Vec<Bar>,
    pub(super) marks: Vec<Mark>,
}

/// A Pod: its own lane first, then those of its containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct PodChart {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// The last phase that was published.
    pub(super) phase: String,
    /// From its admission to its first moment of readiness, or success.
    pub(super) startup: Option<i64>,
    pub(super) dropped: u64,
    pub(super) lanes: Vec<LaneChart>,
}

/// All of it. Times are microseconds from `origin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Chart {
    pub(super) origin: Timestamp,
    pub(super) begin: i64,
    pub(super) end: i64,
    pub(super) pods: Vec<PodChart>,
}

/// A lane while it is made.
struct Draft {
    lane: LaneChart,
    /// Steps that began, by kind; what comes last in a lane ends what is open of it.
    open: Option<Bar>,
    /// The attempt whose process runs.
    process: Option<u32>,
}

impl Draft {
    fn new(name: &str, kind: Option<LaneKind>) -> Self {
        let lane = LaneChart { name: name.to_owned(), kind, bars: Vec::new(), marks: Vec::new() };
        Self { lane, open: None, process: None }
    }

    fn close(&mut self, at: i64) {
        if let Some(mut bar) = self.open.take() {
            bar.to = at.max(bar.from);
            self.lane.bars.push(bar);
        }
    }

    fn open(&mut self, kind: BarKind, entry: &Entry, detail: impl Into<String>) {
        self.close(entry.at);
        let (from, attempt, detail) = (entry.at, entry.attempt, detail.into());
        self.open = Some(Bar { kind, from, to: from, attempt, failed: false, open: false, detail });
    }

    fn mark(&mut self, entry: &Entry, tone: Tone, sign: &str, words: impl Into<String>) {
        let (at, attempt) = (entry.at, entry.attempt);
        self.lane.marks.push(Mark { at, attempt, tone, sign: sign.to_owned(), words: words.into() });
    }

    fn is_open(&self, kind: BarKind) -> bool {
        self.open.as_ref().is_some_and(|bar| bar.kind == kind)
    }

    fn take(&mut self, entry: &Entry) {
        match &entry.transition {
            Transition::Admitted => self.mark(entry, Tone::Plain, "▸", "admitted"),
            Transition::Adopted => self.mark(entry, Tone::Plain, "▸", "taken over from an earlier agent"),
            Transition::Rejected { reason } => self.mark(entry, Tone::Bad, "✕", format!("rejected: {reason}")),
            Transition::Began { step } => self.open(BarKind::of(*step), entry, ""),
            Transition::Done { step } if self.is_open(BarKind::of(*step)) => {
                self.close(entry.at);
                // A Pod goes on when it got a new sandbox.
                if self.lane.kind.is_none() && self.process.is_some() {
                    self.open(BarKind::Running, entry, "");
                }
            }
            // The beginning was not kept.
            Transition::Done { .. } => {}
            Transition::Failed { step, reason } => {
                let kind = BarKind::of(*step);
                if !self.is_open(kind) {
                    self.open(kind, entry, "");
                }
                if let Some(bar) = &mut self.open {
                    (bar.failed, bar.detail) = (true, reason.clone());
                }
                self.close(entry.at);
                self.mark(entry, Tone::Bad, "!", format!("{} failed: {reason}", kind.words()));
            }
            Transition::Running => {
                self.process = Some(entry.attempt);
                self.open(BarKind::Running, entry, "");
            }
            Transition::Ready => self.readiness(entry, BarKind::Ready),
            Transition::NotReady => self.readiness(entry, BarKind::Running),
            Transition::BackOff { for_us } => {
                self.open(BarKind::BackOff, entry, format!("at least {}", duration(*for_us)));
            }
            Transition::Stopping { reason } => self.open(BarKind::Stopping, entry, reason),
            Transition::Exited { code, reason } => {
                self.process = None;
                self.close(entry.at);
                match code {
                    Some(0) => self.mark(entry, Tone::Good, "✓", format!("exited with 0: {reason}")),
                    Some(code) => {
                        self.mark(entry, Tone::Bad, &code.to_string(), format!("exited with {code}: {reason}"))
                    }
                    None => self.mark(entry, Tone::Bad, "?", format!("ended, and nobody saw how: {reason}")),
                }
            }
            Transition::Phase { phase } => match phase.as_str() {
                "Running" if self.open.is_none() => {
                    self.process = Some(0);
                    self.open(BarKind::Running, entry, "");
                }
                "Succeeded" => self.mark(entry, Tone::Good, "✓", "Succeeded"),
                "Failed" => self.mark(entry, Tone::Bad, "✕", "Failed"),
                _ => {}
            },
            Transition::Terminating { reason } => {
                self.process = None;
                self.open(BarKind::Stopping, entry, reason);
            }
            Transition::Terminated => self.open(BarKind::CleaningUp, entry, ""),
            Transition::Finished => self.close(entry.at),
            Transition::Gone => {
                self.close(entry.at);
                self.mark(entry, Tone::Plain, "■", "forgotten");
            }
        }
    }

    /// Readiness changes the colour of a process that runs; of one that is told to stop or has ended it says nothing.
    fn readiness(&mut self, entry: &Entry, kind: BarKind) {
        let idle = self.open.is_none() || self.is_open(BarKind::Running) || self.is_open(BarKind::Ready);
        if self.process.is_some() && idle && !self.is_open(kind) {
            self.open(kind, entry, "");
        }
    }

    fn end(mut self, now: i64) -> LaneChart {
        if let Some(bar) = &mut self.open {
            bar.open = true;
        }
        self.close(now);
        self.lane
    }
}

/// Makes the chart.
pub(super) fn chart(timelines: &Timelines) -> Chart {
    let times = || timelines.pods.iter().flat_map(|p| &p.entries).map(|e| e.at);
    let pods: Vec<PodChart> = timelines.pods.iter().map(|pod| pod_chart(pod, timelines.now)).collect();
    let open = pods.iter().flat_map(|p| &p.lanes).flat_map(|l| &l.bars).any(|b| b.open);
    let last = times().max().unwrap_or(timelines.now);
    Chart {
        origin: timelines.origin,
        begin: times().min().unwrap_or(0),
        end: if open { last.max(timelines.now) } else { last },
        pods,
    }
}

fn pod_chart(pod: &PodTimeline, now: i64) -> PodChart {
    let mut own = Draft::new(&pod.pod.name, None);
    let mut containers: BTreeMap<&str, Draft> = BTreeMap::new();
    for lane in &pod.lanes {
        containers.insert(&lane.name, Draft::new(&lane.name, Some(lane.kind)));
    }
    for entry in &pod.entries {
        let draft = match entry.container.as_deref() {
            None => Some(&mut own),
            Some(name) => containers.get_mut(name),
        };
        if let Some(draft) = draft {
            draft.take(entry);
        }
    }
    let mut lanes = vec![own.end(now)];
    lanes.extend(pod.lanes.iter().filter_map(|lane| containers.remove(&*lane.name)).map(|draft| draft.end(now)));
    let own = || pod.entries.iter().filter(|e| e.container.is_none());
    let mut phases = own().filter_map(|e| match &e.transition {
        Transition::Phase { phase } => Some((e.at, phase.as_str())),
        _ => None,
    });
    let up = own().find(|e| {
        matches!(&e.transition, Transition::Ready)
            || matches!(&e.transition, Transition::Phase { phase } if phase == "Succeeded")
    });
    let admitted = own().find(|e| e.transition == Transition::Admitted);
    PodChart {
        namespace: pod.pod.namespace.to_string(),
        name: pod.pod.name.to_string(),
        uid: pod.pod.uid.to_string(),
        phase: phases.next_back().map(|(_, phase)| phase.to_owned()).unwrap_or_default(),
        startup: admitted.zip(up).map(|(from, to)| to.at - from.at),
        dropped: pod.dropped,
        lanes,
    }
}

/// A length of time for people: `5 ms`, `1.25 s`, `3 min 20 s`.
pub(super) fn duration(us: i64) -> String {
    let trimmed = |value: f64, unit: &str| {
        let text = format!("{value:.2}");
        format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    match us.unsigned_abs() {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => trimmed(us as f64 / 1e3, "ms"),
        1_000_000..60_000_000 => trimmed(us as f64 / 1e6, "s"),
        60_000_000..3_600_000_000 => format!("{} min {} s", us / 60_000_000, us / 1_000_000 % 60),
        _ => format!("{} h {} min", us / 3_600_000_000, us / 60_000_000 % 60),
    }
}
