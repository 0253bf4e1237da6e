//! Outcomes as a picture: one row a variant, its queue above, its Pods and those with a job below, on one axis of time.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::outcome::{Outcome, Point};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const QUEUE: f64 = 56.0;
const PODS: f64 = 96.0;
const TITLE: f64 = 42.0;
const BETWEEN: f64 = 18.0;
const GAP: f64 = 34.0;
const HEAD: f64 = 48.0;
/// A row has no more points: a day of thousands of jobs is a picture, no data base.
const POINTS: usize = 1200;

/// What is drawn in which colour, by day and by night.
const STYLE: &str = "<style>\
    .w{fill:#ffffff}.t{fill:#16202c}.s{fill:#5b6875}.b{stroke:#aeb8c2}.g{stroke:#edf0f3}\
    .q{fill:#d1495b}.p{fill:#a9bfd1}.j{fill:#2a6f97}\
    @media (prefers-color-scheme:dark){\
    .w{fill:#14191f}.t{fill:#e8edf2}.s{fill:#9aa7b4}.b{stroke:#4a5662}.g{stroke:#242c35}\
    .q{fill:#ee6c7d}.p{fill:#48617a}.j{fill:#63a9d6}}</style>\n";

/// The picture, as SVG that needs nothing else.
#[must_use]
pub fn picture(title: &str, rows: &[(String, Outcome)]) -> String {
    let points = || rows.iter().flat_map(|(_, outcome)| &outcome.points);
    let from = points().map(|point| point.at).min().unwrap_or(Timestamp::UNIX_EPOCH);
    let to = points().map(|point| point.at).max().unwrap_or(from);
    let span = to.duration_since(from).as_secs_f64().max(1.0);
    let x = |at: Timestamp| LEFT + at.duration_since(from).as_secs_f64() / span * (WIDTH - LEFT - RIGHT);
    let most = |of: fn(&Point) -> u32| f64::from(points().map(of).max().unwrap_or(1).max(1));
    let (queue, pods) = (most(|point| point.queued), most(|point| point.pods));
    let row = TITLE + QUEUE + BETWEEN + PODS + GAP;
    let height = HEAD + row * rows.len() as f64 + 30.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\">\n{STYLE}\
         <rect width=\"{WIDTH}\" height=\"{height}\" class=\"w\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"17\" font-weight=\"600\" class=\"t\">{}</text>\n",
        escape(title)
    );
    times(&mut svg, from, to, height);
    legend(&mut svg);
    for (index, (name, outcome)) in rows.iter().enumerate() {
        let top = HEAD + row * index as f64;
        let numbers = format!(
            "waits p50 {} · p95 {} · longest {} · {:.1} Pod hours · {:.0} % used · {} Pods at most",
            short(outcome.percentile(50.0)),
            short(outcome.percentile(95.0)),
            short(outcome.percentile(100.0)),
            outcome.pod_hours,
            outcome.use_of_pods() * 100.0,
            outcome.peak,
        );
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"600\" class=\"t\">{}</text>\n\
             <text x=\"{LEFT}\" y=\"{:.1}\" class=\"s\">{}</text>",
            top + 14.0,
            escape(name),
            top + 30.0,
            escape(&numbers)
        );
        let queue_base = top + TITLE + QUEUE;
        let pods_base = queue_base + BETWEEN + PODS;
        axis(&mut svg, queue_base, QUEUE, queue, "jobs");
        axis(&mut svg, pods_base, PODS, pods, "Pods");
        let points = thin(&outcome.points);
        area(&mut svg, &points, &x, queue_base, QUEUE / queue, "q", |point| point.queued);
        area(&mut svg, &points, &x, pods_base, PODS / pods, "p", |point| point.pods);
        area(&mut svg, &points, &x, pods_base, PODS / pods, "j", |point| point.busy);
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String) {
    let mut left = WIDTH - RIGHT - 310.0;
    let words = [("q", "jobs that wait", 120.0), ("p", "Pods", 70.0), ("j", "Pods with a job", 0.0)];
    for (class, word, width) in words {
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"18\" width=\"12\" height=\"12\" class=\"{class}\"/>\
             <text x=\"{}\" y=\"28\" class=\"t\">{word}</text>",
            left + 17.0
        );
        left += width;
    }
}

/// A base at nought and a line at the most, each with its number; what is counted stands between them.
fn axis(svg: &mut String, base: f64, height: f64, most: f64, what: &str) {
    let end = WIDTH - RIGHT;
    for (y, class, number) in [(base, "b", 0.0), (base - height, "g", most)] {
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{end}\" y2=\"{y:.1}\" class=\"{class}\"/>\
             <text x=\"{0}\" y=\"{1:.1}\" text-anchor=\"end\" class=\"s\">{number}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    let middle = base - height / 2.0 + 4.0;
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\" class=\"s\">{what}</text>", LEFT - 8.0);
}

/// Steps, filled down to the base: a number holds until the next one.
fn area(
    svg: &mut String,
    points: &[Point],
    x: &impl Fn(Timestamp) -> f64,
    base: f64,
    scale: f64,
    class: &str,
    of: fn(&Point) -> u32,
) {
    let Some(first) = points.first() else { return };
    let mut path = format!("M{:.1} {base:.1}", x(first.at));
    for point in points {
        let _ = write!(path, "H{:.1}V{:.1}", x(point.at), base - f64::from(of(point)) * scale);
    }
    let _ = writeln!(svg, "<path d=\"{path}V{base:.1}Z\" class=\"{class}\"/>");
}

/// So few that it can be drawn: of neighbours the one with the most waiting stays, so that no peak is lost.
fn thin(points: &[Point]) -> Vec<Point> {
    let chunk = points.len().div_ceil(POINTS).max(1);
    points
        .chunks(chunk)
        .filter_map(|chunk| chunk.iter().max_by_key(|point| (point.queued, point.pods)).copied())
        .collect()
}

/// Lines at whole hours, or whatever is whole at this scale, through all rows, with their times below.
fn times(svg: &mut String, from: Timestamp, to: Timestamp, height: f64) {
    let span = to.duration_since(from).as_secs_f64().max(1.0);
    let step = step(span);
    let first = from.as_second().div_euclid(step) + 1;
    for at in (first..).map(|count| count * step).take_while(|at| *at <= to.as_second()) {
        let Ok(at) = Timestamp::from_second(at) else { return };
        let x = LEFT + at.duration_since(from).as_secs_f64() / span * (WIDTH - LEFT - RIGHT);
        // The day stands at the first time and where it begins.
        let text = at.strftime(match at.as_second() {
            second if second.rem_euclid(DAY) == 0 => "%d %b",
            second if second == first * step => "%d %b %H:%M",
            _ => "%H:%M",
        });
        // One at the right end stands left of its line: it would leave the picture.
        let anchor = if x > WIDTH - RIGHT - 20.0 { "end" } else { "middle" };
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{HEAD}\" x2=\"{x:.1}\" y2=\"{:.1}\" class=\"g\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" class=\"s\">{text}</text>",
            height - 32.0,
            height - 16.0,
        );
    }
    let _ = writeln!(svg, "<text x=\"12\" y=\"{:.1}\" class=\"s\">UTC</text>", height - 16.0);
}

const DAY: i64 = 24 * 3600;

/// Seconds between two lines, so that there are nine at most.
fn step(span: f64) -> i64 {
    const STEPS: [i64; 12] = [1, 10, 60, 300, 900, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, DAY, 2 * DAY];
    let fits = |step: &i64| span / *step as f64 <= 9.0;
    // A longer span has as many weeks between its lines as it needs.
    let weeks = || (span / 9.0 / (7 * DAY) as f64).ceil() as i64 * 7 * DAY;
    STEPS.into_iter().find(fits).unwrap_or_else(weeks)
}

fn short(seconds: f64) -> String {
    if seconds < 90.0 {
        format!("{seconds:.0} s")
    } else if seconds < 600.0 {
        format!("{:.1} min", seconds / 60.0)
    } else if seconds < 5400.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3600.0)
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Trace, WhatIf, simulate};

    #[test]
    fn a_picture_has_a_row_a_variant_and_shows_no_markup_of_others() {
        let text = br#"{"jobs": [{"queued": "2026-01-05T08:00:00Z", "seconds": 60, "count": 9}], "max": 5}"#;
        let trace = Trace::parse(text).unwrap();
        let variants = trace.variants(&WhatIf { max: vec![9], ..WhatIf::default() }).unwrap();
        let rows: Vec<_> = variants.iter().map(|variant| (variant.name.clone(), simulate(&trace, variant))).collect();
        let svg = picture("<script>", &rows);
        assert_eq!(svg.matches("<path").count(), 6);
        assert!(svg.contains("as it is") && svg.contains("max 9") && svg.contains("&lt;script&gt;"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert!(!picture("empty", &[]).contains("NaN"));
        assert!(
            svg.contains("prefers-color-scheme:dark") && !svg.contains("fill=\"#"),
            "every colour has one for the night"
        );
    }

    #[test]
    fn times_are_whole_and_few_however_long_the_span_is() {
        for (span, expected) in [(7.0, 1), (3000.0, 900), (86_520.0, 3 * 3600), (86_400.0 * 30.0, 7 * DAY)] {
            assert_eq!(step(span), expected, "{span}");
        }
        let second = |at| Timestamp::from_second(at).unwrap();
        let mut svg = String::new();
        times(&mut svg, second(1_800_000_000), second(1_800_086_400), 100.0);
        assert_eq!(svg.matches("<line").count(), 8);
        assert!(
            svg.contains(">15 Jan 09:00<")
                && svg.contains(">16 Jan<")
                && svg.contains(">06:00<")
                && svg.contains("UTC"),
            "{svg}"
        );
    }

    #[test]
    fn no_peak_is_lost() {
        let point = |at: i64, queued| Point { at: Timestamp::from_second(at).unwrap(), queued, busy: 0, pods: 0 };
        let points: Vec<Point> = (0..10_000).map(|at| point(at, if at == 5_555 { 7 } else { 0 })).collect();
        let thin = thin(&points);
        assert!(thin.len() <= POINTS && thin.iter().any(|point| point.queued == 7));
    }
}
