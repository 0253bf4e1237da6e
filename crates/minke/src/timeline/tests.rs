use minke_core::identity::{PodKey, PodUid};
use minke_kubelet::timeline::{Entry, Lane, LaneKind, PodTimeline, Step, Timelines, Transition};

use super::chart::{BarKind, Tone, chart, duration};
use super::{TimelineFile, html, text, trace};

fn timelines(name: &str, entries: Vec<(i64, Option<&str>, u32, Transition)>) -> Timelines {
    let entry = |(at, container, attempt, transition): (i64, Option<&str>, u32, Transition)| Entry {
        at,
        container: container.map(Into::into),
        attempt,
        transition,
    };
    let pod = PodTimeline {
        pod: PodKey::new("default", name, PodUid::new("u").unwrap()),
        lanes: vec![
            Lane { name: "init".into(), kind: LaneKind::Init },
            Lane { name: "main".into(), kind: LaneKind::Main },
        ],
        entries: entries.into_iter().map(entry).collect(),
        dropped: 0,
    };
    Timelines { origin: "2026-11-21T12:00:00Z".parse().unwrap(), now: 100_000, pods: vec![pod] }
}

fn crash() -> Timelines {
    let main = Some("main");
    let exited = |code| Transition::Exited { code, reason: "Error".to_owned() };
    timelines(
        "p",
        vec![
            (0, None, 0, Transition::Admitted),
            (10, None, 0, Transition::Began { step: Step::Sandbox }),
            (500, None, 0, Transition::Done { step: Step::Sandbox }),
            (500, main, 0, Transition::Began { step: Step::Create }),
            (900, main, 0, Transition::Done { step: Step::Create }),
            (900, main, 0, Transition::Began { step: Step::Start }),
            (1000, main, 0, Transition::Done { step: Step::Start }),
            (1000, main, 0, Transition::Running),
            (1100, main, 0, Transition::Ready),
            (1100, None, 0, Transition::Phase { phase: "Running".to_owned() }),
            (1100, None, 0, Transition::Ready),
            (5000, main, 0, exited(Some(3))),
            (5100, main, 0, Transition::NotReady),
            (5100, None, 0, Transition::NotReady),
            (5200, main, 0, Transition::BackOff { for_us: 10_000_000 }),
            (9000, main, 1, Transition::Began { step: Step::Create }),
            (9100, main, 1, Transition::Failed { step: Step::Create, reason: "no".to_owned() }),
        ],
    )
}

fn bars(lane: &super::chart::LaneChart) -> Vec<(BarKind, i64, i64, u32)> {
    lane.bars.iter().map(|b| (b.kind, b.from, b.to, b.attempt)).collect()
}

#[test]
fn a_container_s_lane_tells_its_attempts() {
    let chart = chart(&crash());
    let main = &chart.pods[0].lanes[2];
    assert_eq!(
        bars(main),
        [
            (BarKind::Create, 500, 900, 0),
            (BarKind::Start, 900, 1000, 0),
            (BarKind::Running, 1000, 1100, 0),
            (BarKind::Ready, 1100, 5000, 0),
            (BarKind::BackOff, 5200, 9000, 0),
            (BarKind::Create, 9000, 9100, 1),
        ]
    );
    let marks: Vec<_> = main.marks.iter().map(|m| (m.at, m.sign.as_str(), m.tone)).collect();
    assert_eq!(marks, [(5000, "3", Tone::Bad), (9100, "!", Tone::Bad)]);
    assert!(main.bars[5].failed);
}

#[test]
fn the_pod_s_lane_tells_its_sandbox_and_readiness_and_what_is_open_lasts_until_now() {
    let chart = chart(&crash());
    let own = &chart.pods[0].lanes[0];
    let told = [(BarKind::Sandbox, 10, 500, 0), (BarKind::Ready, 1100, 5100, 0), (BarKind::Running, 5100, 100_000, 0)];
    assert_eq!(bars(own).into_iter().filter(|b| b.1 != b.2).collect::<Vec<_>>(), told);
    assert!(own.bars.last().unwrap().open);
    assert_eq!((chart.begin, chart.end, chart.pods[0].startup), (0, 100_000, Some(1100)));
    assert_eq!(chart.pods[0].phase, "Running");
}

#[test]
fn a_stop_is_told_from_the_request_to_the_exit() {
    let main = Some("main");
    let chart = chart(&timelines(
        "p",
        vec![
            (0, main, 0, Transition::Running),
            (50, None, 0, Transition::Terminating { reason: "Stopped".to_owned() }),
            (60, main, 0, Transition::Stopping { reason: "the pod ends".to_owned() }),
            (70, main, 0, Transition::NotReady),
            (90, main, 0, Transition::Exited { code: None, reason: "ContainerStatusUnknown".to_owned() }),
            (95, None, 0, Transition::Terminated),
            (99, None, 0, Transition::Finished),
            (120, None, 0, Transition::Gone),
        ],
    ));
    let lanes = &chart.pods[0].lanes;
    assert_eq!(bars(&lanes[2]), [(BarKind::Running, 0, 60, 0), (BarKind::Stopping, 60, 90, 0)]);
    assert_eq!(bars(&lanes[0]), [(BarKind::Stopping, 50, 95, 0), (BarKind::CleaningUp, 95, 99, 0)]);
    assert_eq!(lanes[2].marks[0].words, "ended, and nobody saw how: ContainerStatusUnknown");
    assert_eq!(chart.end, 120, "nothing goes on, so it ends with the last transition");
}

#[test]
fn ends_without_beginnings_are_no_bars() {
    let chart = chart(&timelines(
        "p",
        vec![
            (5, Some("main"), 4, Transition::Done { step: Step::Create }),
            (6, Some("main"), 4, Transition::Exited { code: Some(0), reason: "Completed".to_owned() }),
        ],
    ));
    assert_eq!(bars(&chart.pods[0].lanes[2]), []);
    assert_eq!(chart.pods[0].lanes[2].marks[0].tone, Tone::Good);
}

#[test]
fn names_can_not_leave_the_page_s_data() {
    let name = "</script><script>alert(1)</script><!--";
    let page = html::page(&chart(&timelines(name, vec![(0, None, 0, Transition::Admitted)]))).unwrap();
    assert!(!page.contains("alert(1)</script>"));
    let data = page.split("type=\"application/json\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["pods"][0]["name"], name);
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = html::page(&chart(&crash())).unwrap();
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(!page.contains("@@"));
}

#[test]
fn a_trace_has_a_process_a_pod_and_no_negative_times() {
    let mut early = crash();
    early.pods[0].entries[0].at = -5000;
    let trace: serde_json::Value = serde_json::from_str(&trace::trace(&chart(&early)).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let name = events.iter().find(|e| e["name"] == "process_name").unwrap();
    assert_eq!(name["args"]["name"], "default/p");
    let create = events.iter().find(|e| e["name"] == "create").unwrap();
    assert_eq!((&create["ph"], create["ts"].as_i64(), create["dur"].as_i64()), (&"X".into(), Some(5500), Some(400)));
    assert!(events.iter().filter_map(|e| e["ts"].as_i64()).all(|ts| ts >= 0));
}

#[test]
fn the_text_counts_from_each_pod_s_first_transition() {
    let text = text(&crash());
    assert!(text.starts_with("p (u)\nAFTER"), "{text}");
    assert!(text.contains("+5 ms     main        0         exited with 3: Error"), "{text}");
}

#[test]
fn the_name_of_the_file_says_the_format() {
    for (name, good) in
        [("a.html", true), ("a.JSON", true), ("a.trace.json", true), ("a.png", false), ("a", false), ("", false)]
    {
        assert_eq!(name.parse::<TimelineFile>().is_ok(), good, "{name}");
    }
}

#[test]
fn a_file_is_replaced_whole_and_json_carries_its_version() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json");
    std::fs::write(&path, "old").unwrap();
    let file: TimelineFile = path.to_str().unwrap().parse().unwrap();
    file.write(&crash()).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(document["version"], 1);
    assert_eq!(document["pods"][0]["entries"][1]["what"], "began");
    assert_eq!(document["pods"][0]["entries"][1]["step"], "sandbox");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn lengths_of_time_for_people() {
    for (us, words) in [(7, "7 µs"), (53_000, "53 ms"), (1_250_000, "1.25 s"), (200_000_000, "3 min 20 s")] {
        assert_eq!(duration(us), words);
    }
}
