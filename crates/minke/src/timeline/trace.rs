//! Chrome's trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open: a Pod is a process, a
//! container a thread of it.

use serde_json::{Value, json};

use super::chart::{Bar, Chart, Mark};

/// Writes the chart as a trace.
pub(super) fn trace(chart: &Chart) -> Result<String, serde_json::Error> {
    let mut events: Vec<Value> = Vec::new();
    for (pid, pod) in (1..).zip(&chart.pods) {
        let name = format!("{}/{}", pod.namespace, pod.name);
        events.push(json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}));
        events.push(json!({"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}));
        for (tid, lane) in (0..).zip(&pod.lanes) {
            let name = if lane.kind.is_none() { "pod" } else { &lane.name };
            events.push(json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}));
            let sort = json!({"sort_index": tid});
            events.push(json!({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": sort}));
            events.extend(lane.bars.iter().map(|bar| bar_event(bar, pid, tid, chart.begin)));
            events.extend(lane.marks.iter().map(|mark| mark_event(mark, pid, tid, chart.begin)));
        }
    }
    let other = json!({"origin": chart.origin, "begin": chart.begin, "unit": "microseconds since origin"});
    serde_json::to_string(&json!({"displayTimeUnit": "ms", "otherData": other, "traceEvents": events}))
}

fn bar_event(bar: &Bar, pid: u32, tid: u32, begin: i64) -> Value {
    let name = if bar.failed { format!("{} (failed)", bar.kind.words()) } else { bar.kind.words().to_owned() };
    json!({
        "ph": "X", "name": name, "cat": bar.kind, "pid": pid, "tid": tid,
        // Perfetto shows nothing of a trace with negative times.
        "ts": bar.from - begin, "dur": bar.to - bar.from,
        "args": {"attempt": bar.attempt, "detail": bar.detail, "open": bar.open},
    })
}

fn mark_event(mark: &Mark, pid: u32, tid: u32, begin: i64) -> Value {
    json!({
        "ph": "i", "s": "t", "name": mark.words, "cat": mark.tone, "pid": pid, "tid": tid, "ts": mark.at - begin,
        "args": {"attempt": mark.attempt},
    })
}
