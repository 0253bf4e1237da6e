//! Real Pods that went bad, as a watch of an API told of them, told again: the cause is the one that it was, however the
//! sequence is cut. `crates/watch/tests/fixtures/README.md` says how the sequences were made.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use minke_core::judgement::{Now, Policy, Verdict};
use minke_watch::machine::{Access, Action, ApiFault, Input, Machine};
use minke_watch::{Report, Scope, Settings, Target};
use serde::Deserialize;

/// The first line of a file.
#[derive(Deserialize)]
struct Head {
    name: String,
    cause: String,
}

/// What was told, and when.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    at_ms: u64,
    #[serde(flatten)]
    told: Told,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Told {
    Pod(Box<Pod>),
    Gone(Box<Pod>),
    Event(Box<Event>),
}

struct Recording {
    head: Head,
    lines: Vec<Line>,
}

fn recordings() -> Vec<Recording> {
    let embedded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let directories = [embedded.join("kube-apiserver"), embedded];
    let entries = directories.iter().flat_map(|directory| std::fs::read_dir(directory).unwrap());
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    paths.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let (head, rest) = text.split_once('\n').unwrap();
        let line = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Recording { head: serde_json::from_str(head).unwrap(), lines: rest.lines().map(line).collect() }
    };
    paths.iter().map(read).collect()
}

/// A machine that is told a recording; it sees what is told, except that the watch is cut before one line and finds the rest
/// by a list.
struct Player<'a> {
    recording: &'a Recording,
    /// Told so far.
    place: usize,
    /// Before this line the watch is cut, and this line is for the list to find.
    cut: Option<usize>,
    machine: Machine,
    at: Duration,
    stream: u64,
    report: Option<Report>,
    /// Answers on their way.
    answers: Vec<Input>,
}

impl<'a> Player<'a> {
    fn new(recording: &'a Recording, cut: Option<usize>) -> Self {
        let mut policy = Policy::default();
        // Patience is for other tests.
        policy.budgets = policy.budgets.fail_fast();
        let settings = Settings { policy, ..Settings::default() };
        let machine = Machine::new(Scope::namespace("default"), settings);
        Self { recording, place: 0, cut, machine, at: Duration::ZERO, stream: 0, report: None, answers: Vec::new() }
    }

    /// Who is there now, by name: what a list has.
    fn present(&self) -> BTreeMap<String, Pod> {
        let mut pods = BTreeMap::new();
        for line in &self.recording.lines[..self.place] {
            match &line.told {
                Told::Pod(pod) => pods.insert(pod.metadata.name.clone().unwrap(), Pod::clone(pod)),
                Told::Gone(pod) => pods.remove(pod.metadata.name.as_ref().unwrap()),
                Told::Event(_) => None,
            };
        }
        pods
    }

    fn take(&mut self, input: Input) {
        let wall: Timestamp = "2026-11-22T08:00:00Z".parse().unwrap();
        let wall = wall.checked_add(jiff::SignedDuration::try_from(self.at).unwrap()).unwrap();
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for action in self.machine.handle(input, Now { moment: self.at, wall }) {
                match action {
                    Action::Probe => inputs.push(Input::Probed(Access::Watch)),
                    Action::List { ask } => {
                        let pods = self.present().into_values().collect();
                        inputs.push(Input::Listed { ask, pods, version: "1".to_owned() });
                    }
                    Action::Watch { stream, .. } => self.stream = stream,
                    Action::Get { ask, namespace, name } => {
                        let pod = self.present().remove(&name).map(Box::new);
                        self.answers.push(Input::Got { ask, namespace, name, pod });
                    }
                    Action::Events { uid, .. } => {
                        let mut events = Vec::new();
                        for line in &self.recording.lines[..self.place] {
                            if let Told::Event(event) = &line.told {
                                events.push(Event::clone(event));
                            }
                        }
                        self.answers.push(Input::Events { uid, events });
                    }
                    Action::Publish { report, .. } => self.report = Some(*report),
                    Action::Node { .. } | Action::Count { .. } => {}
                }
            }
        }
    }

    /// Lets time pass, answering what is asked a moment later.
    fn pass(&mut self, until: Duration) {
        loop {
            while let Some(answer) = self.answers.pop() {
                self.take(answer);
            }
            match self.machine.next_wake().filter(|wake| *wake <= until) {
                Some(wake) => self.at = self.at.max(wake),
                None => break,
            }
            self.take(Input::Tick);
        }
        self.at = self.at.max(until);
    }

    fn play(mut self) -> Option<String> {
        self.take(Input::Tick);
        let target = Target::named("default", self.recording.head.name.clone());
        self.take(Input::Subscribe { id: 1, target, attempt: 1 });
        for (place, line) in self.recording.lines.iter().enumerate() {
            self.pass(Duration::from_millis(line.at_ms));
            let stream = self.stream;
            self.place = place + 1;
            if self.cut == Some(place) {
                self.take(Input::WatchFailed { stream, fault: ApiFault::Expired });
                continue;
            }
            match &line.told {
                Told::Pod(pod) => self.take(Input::Seen { stream, pod: pod.clone() }),
                Told::Gone(pod) => self.take(Input::Gone { stream, pod: pod.clone() }),
                Told::Event(_) => {}
            }
        }
        self.pass(self.at + Duration::from_secs(20));
        match self.report?.verdict? {
            Verdict::Failed(failure) => Some(failure.cause.to_string()),
            Verdict::Healthy(_) | Verdict::Waiting { .. } | Verdict::Doomed { .. } | Verdict::Succeeded => None,
        }
    }
}

#[test]
fn every_recording_has_its_cause() {
    let recordings = recordings();
    assert!(recordings.len() >= 20, "{} recordings", recordings.len());
    for recording in &recordings {
        let found = Player::new(recording, None).play();
        assert_eq!(found.as_ref(), Some(&recording.head.cause), "{}", recording.head.name);
    }
}

/// What happened while nobody watched is found by the list afterwards. Only who took a Pod that is gone can't be told any
/// more when nothing of it was seen before: then it was deleted.
#[test]
fn every_recording_has_its_cause_wherever_the_watch_is_cut() {
    for recording in &recordings() {
        for cut in 0..recording.lines.len() {
            let found = Player::new(recording, Some(cut)).play();
            let unseen = matches!(recording.lines[cut].told, Told::Gone(_));
            let expected = Some(recording.head.cause.clone());
            let right = found == expected || (unseen && found.as_deref() == Some("Deleted"));
            assert!(right, "{} cut before {cut}: {found:?}", recording.head.name);
        }
    }
}
