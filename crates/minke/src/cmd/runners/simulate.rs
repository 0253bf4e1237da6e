//! `minke runners simulate`: a day of jobs, and what other limits would have made of it.

use std::path::{Path, PathBuf};

use clap::Args;
use minke_core::runtime::error_chain;
use minke_runners::simulate::{BadTrace, Outcome as Day, Trace, WhatIf, picture, simulate};

use crate::exit::{Exit, Failure, Outcome};
use crate::output::{stdout, table};

/// Replay a recorded or made-up day of jobs: queue times and cost, with these limits and others
#[derive(Debug, Args)]
#[command(after_help = "A trace is JSON: {\"jobs\": [{\"queued\": \"2026-01-05T08:00:00Z\", \"seconds\": 120, \
                        \"count\": 5}, …], \"max\": 20}, and if wanted min, minIdle, stabilization and schedules as in a \
                        RunnerSet, takes (seconds of webhook, registration, scheduling, start, online, end) and runnerHour \
                        (the cost of a Pod's hour). examples/runners/day.json is one.")]
pub(crate) struct SimulateArgs {
    /// The trace
    trace: PathBuf,
    /// Minima to try
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    min: Vec<u32>,
    /// Maxima to try
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    max: Vec<u32>,
    /// Idle headrooms to try
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    min_idle: Vec<u32>,
    /// How long fewer are wanted before any is retired, to try
    #[arg(long, value_name = "SECONDS,…", value_delimiter = ',')]
    down: Vec<u32>,
    /// Draw it, as SVG or, by the name's end, as a page (.html)
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

fn bad(path: &Path, error: &BadTrace) -> Failure {
    Failure::usage(format!("{}: {}", path.display(), error_chain(error)))
}

pub(super) fn run(args: &SimulateArgs) -> Outcome {
    let path = &args.trace;
    let text = std::fs::read(path).map_err(|e| Failure::usage(format!("can't read {}: {e}", path.display())))?;
    let trace = Trace::parse(&text).map_err(|e| bad(path, &e))?;
    let what_if = WhatIf {
        min: args.min.clone(),
        max: args.max.clone(),
        min_idle: args.min_idle.clone(),
        down: args.down.clone(),
    };
    let variants = trace.variants(&what_if).map_err(|e| bad(path, &e))?;
    let days: Vec<(String, Day)> =
        variants.into_iter().map(|variant| (variant.name.clone(), simulate(&trace, &variant))).collect();
    stdout::print(&rows(&days, trace.runner_hour))?;
    if let Some(file) = &args.picture {
        let title = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let svg = picture(&title, &days);
        let page = file.extension().is_some_and(|end| end.eq_ignore_ascii_case("html"));
        let text = if page {
            format!(
                "<!doctype html><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\">\
                 <title>minke runners simulate</title>\n{svg}"
            )
        } else {
            svg
        };
        std::fs::write(file, text).map_err(|e| Failure::system(format!("can't write {}: {e}", file.display())))?;
    }
    Ok(Exit::Reached)
}

fn rows(days: &[(String, Day)], hour: f64) -> String {
    let mut header = vec!["LIMITS", "JOBS", "P50", "P95", "LONGEST", "PODS", "PEAK", "POD HOURS", "USED"];
    if hour > 0.0 {
        header.push("COST");
    }
    let mut table = table::new(&header);
    for (name, day) in days {
        let mut row = vec![
            name.clone(),
            format!("{}{}", day.waits.len(), if day.unfinished > 0 { " (not all)" } else { "" }),
            seconds(day.percentile(50.0)),
            seconds(day.percentile(95.0)),
            seconds(day.percentile(100.0)),
            day.pods.to_string(),
            day.peak.to_string(),
            format!("{:.1}", day.pod_hours),
            format!("{:.0} %", day.use_of_pods() * 100.0),
        ];
        if hour > 0.0 {
            row.push(format!("{:.2}", day.pod_hours * hour));
        }
        table.add_row(row);
    }
    table::finish(&table)
}

fn seconds(seconds: f64) -> String {
    crate::durations::short(std::time::Duration::from_secs_f64(seconds.clamp(0.0, 1e9)))
}
