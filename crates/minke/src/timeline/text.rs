//! Transitions as lines, for a terminal.

use minke_kubelet::timeline::{Entry, Timelines, Transition};

use super::chart::BarKind;
use super::chart::duration;
use crate::output::table;

/// One line a transition; times count from the first transition of each Pod.
pub(crate) fn text(timelines: &Timelines) -> String {
    let mut out = String::new();
    for pod in &timelines.pods {
        let begin = pod.entries.first().map_or(0, |e| e.at);
        let mut table = table::new(&["AFTER", "CONTAINER", "ATTEMPT", "WHAT"]);
        for e in &pod.entries {
            let container = e.container.as_deref().unwrap_or_default().to_owned();
            let attempt = if e.container.is_some() { e.attempt.to_string() } else { String::new() };
            table.add_row([format!("+{}", duration(e.at - begin)), container, attempt, words(e)]);
        }
        let name = if *pod.pod.namespace == *"default" { pod.pod.name.to_string() } else { pod.pod.full_name() };
        out.push_str(&format!("{name} ({})\n", pod.pod.uid));
        out.push_str(&table::finish(&table));
        if pod.dropped > 0 {
            out.push_str(&format!("{} transitions between the first ones and the newest were not kept\n", pod.dropped));
        }
        out.push('\n');
    }
    out
}

fn words(entry: &Entry) -> String {
    match &entry.transition {
        Transition::Admitted => "admitted".to_owned(),
        Transition::Adopted => "taken over from an earlier agent".to_owned(),
        Transition::Rejected { reason } => format!("rejected: {reason}"),
        Transition::Began { step } => format!("{} begins", BarKind::of(*step).words()),
        Transition::Done { step } => format!("{} done", BarKind::of(*step).words()),
        Transition::Failed { step, reason } => format!("{} failed: {reason}", BarKind::of(*step).words()),
        Transition::Running => "runs".to_owned(),
        Transition::Ready => "ready".to_owned(),
        Transition::NotReady => "not ready".to_owned(),
        Transition::BackOff { for_us } => format!("back-off of {}", duration(*for_us)),
        Transition::Stopping { reason } => format!("told to stop: {reason}"),
        Transition::Exited { code: Some(code), reason } => format!("exited with {code}: {reason}"),
        Transition::Exited { code: None, reason } => format!("ended, and nobody saw how: {reason}"),
        Transition::Phase { phase } => format!("phase {phase}"),
        Transition::Terminating { reason } => format!("terminating: {reason}"),
        Transition::Terminated => "nothing runs any more".to_owned(),
        Transition::Finished => "finished".to_owned(),
        Transition::Gone => "forgotten".to_owned(),
    }
}
