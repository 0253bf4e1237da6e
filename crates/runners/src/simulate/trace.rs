//! What was, or could be: jobs, what things take, what they cost.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::plan::Scaling;
use crate::set::{RunnerSetSpec, ScheduleSpec, Stabilization, scaling};

/// A job of a trace.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TraceJob {
    /// When it was queued: `2026-01-05T08:00:00Z`.
    pub queued: Timestamp,
    /// How long it runs.
    pub seconds: f64,
    /// So many of them at once; 1 if not given.
    #[serde(default = "one")]
    pub count: u32,
}

fn one() -> u32 {
    1
}

/// What each step of a runner takes, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Takes {
    /// From a job's queueing until the controller hears of it.
    pub webhook: f64,
    /// A call to the forge.
    pub registration: f64,
    /// From a Pod until it has a node.
    pub scheduling: f64,
    /// From a node until its container runs: images, volumes.
    pub start: f64,
    /// From its container until the forge sees it.
    pub online: f64,
    /// From the end of its job until its Pod is gone.
    pub end: f64,
}

impl Default for Takes {
    fn default() -> Self {
        Self { webhook: 1.0, registration: 0.3, scheduling: 0.5, start: 8.0, online: 4.0, end: 3.0 }
    }
}

/// A trace and the limits that it was run, or would be run, with.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Trace {
    /// The jobs, in any order.
    pub jobs: Vec<TraceJob>,
    /// So many runners at least.
    #[serde(default)]
    pub min: u32,
    /// So many at most.
    pub max: u32,
    /// So many more than there are jobs.
    #[serde(default)]
    pub min_idle: u32,
    /// How long a wish has to last.
    #[serde(default)]
    pub stabilization: Option<Stabilization>,
    /// Other limits at certain times.
    #[serde(default)]
    pub schedules: Vec<ScheduleSpec>,
    /// What things take.
    #[serde(default)]
    pub takes: Takes,
    /// What a runner costs in an hour, whatever it does.
    #[serde(default)]
    pub runner_hour: f64,
}

/// A trace that can't be run.
#[derive(Debug, thiserror::Error)]
pub enum BadTrace {
    /// It is no trace.
    #[error("the trace can't be read")]
    Malformed(#[source] serde_json::Error),
    /// It has nothing to run.
    #[error("the trace has no jobs")]
    Empty,
    /// It is too long.
    #[error("the trace has {0} jobs, and a million at most can be run")]
    TooLong(u64),
    /// A number that is none.
    #[error("{0} must be a number of seconds, 0 or more, a month at most")]
    Seconds(&'static str),
    /// Limits that can't be.
    #[error("the limits can't be: {0}")]
    Limits(String),
}

/// Limits other than the trace's own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WhatIf {
    /// Minima to try.
    pub min: Vec<u32>,
    /// Maxima to try.
    pub max: Vec<u32>,
    /// Idle headrooms to try.
    pub min_idle: Vec<u32>,
    /// Waits before any is retired to try, in seconds.
    pub down: Vec<u32>,
}

/// One mix of limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// What tells it from others.
    pub name: String,
    /// The limits.
    pub scaling: Scaling,
}

const MOST: u64 = 1_000_000;
const MONTH: f64 = 31.0 * 86_400.0;

impl Trace {
    /// Reads a trace.
    ///
    /// # Errors
    ///
    /// It is none, or can't be run.
    pub fn parse(text: &[u8]) -> Result<Self, BadTrace> {
        let trace: Self = serde_json::from_slice(text).map_err(BadTrace::Malformed)?;
        let jobs: u64 = trace.jobs.iter().map(|job| u64::from(job.count)).sum();
        match jobs {
            0 => return Err(BadTrace::Empty),
            more if more > MOST => return Err(BadTrace::TooLong(more)),
            _ => {}
        }
        let takes = trace.takes;
        let numbers = [
            ("takes.webhook", takes.webhook),
            ("takes.registration", takes.registration),
            ("takes.scheduling", takes.scheduling),
            ("takes.start", takes.start),
            ("takes.online", takes.online),
            ("takes.end", takes.end),
        ];
        let jobs = trace.jobs.iter().map(|job| ("jobs[].seconds", job.seconds));
        for (name, seconds) in numbers.into_iter().chain(jobs) {
            if !(0.0..=MONTH).contains(&seconds) {
                return Err(BadTrace::Seconds(name));
            }
        }
        trace.scaling()?;
        Ok(trace)
    }

    /// The trace's own limits.
    ///
    /// # Errors
    ///
    /// They can't be.
    pub fn scaling(&self) -> Result<Scaling, BadTrace> {
        let spec = RunnerSetSpec {
            github: crate::set::GitHubScope::default(),
            labels: Vec::new(),
            min: self.min,
            max: self.max,
            min_idle: self.min_idle,
            stabilization: self.stabilization,
            schedules: self.schedules.clone(),
            work_volume: None,
            template: k8s_openapi::api::core::v1::PodTemplateSpec::default(),
        };
        scaling(&spec).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            BadTrace::Limits(problems.join("; "))
        })
    }

    /// The trace's own limits first, then every mix of what is to be tried.
    ///
    /// # Errors
    ///
    /// A mix that can't be.
    pub fn variants(&self, what_if: &WhatIf) -> Result<Vec<Variant>, BadTrace> {
        let own = self.scaling()?;
        let mut variants = vec![Variant { name: "as it is".to_owned(), scaling: own.clone() }];
        let tried = |values: &[u32], own: u32| if values.is_empty() { vec![own] } else { values.to_vec() };
        let down = u32::try_from(own.down.as_secs()).unwrap_or(u32::MAX);
        for min in tried(&what_if.min, own.min) {
            for max in tried(&what_if.max, own.max) {
                for min_idle in tried(&what_if.min_idle, own.min_idle) {
                    for down in tried(&what_if.down, down) {
                        if max == 0 || min > max {
                            return Err(BadTrace::Limits(format!("min {min} is above max {max}, or max is 0")));
                        }
                        let down_for = SignedDuration::from_secs(i64::from(down));
                        let scaling = Scaling { min, max, min_idle, down: down_for, ..own.clone() };
                        if variants.iter().any(|known| known.scaling == scaling) {
                            continue;
                        }
                        let parts = [
                            (!what_if.min.is_empty()).then(|| format!("min {min}")),
                            (!what_if.max.is_empty()).then(|| format!("max {max}")),
                            (!what_if.min_idle.is_empty()).then(|| format!("min idle {min_idle}")),
                            (!what_if.down.is_empty()).then(|| format!("down {down} s")),
                        ];
                        let name = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
                        variants.push(Variant { name, scaling });
                    }
                }
            }
        }
        Ok(variants)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        minke_core::runtime::error_chain(&Trace::parse(text.as_bytes()).unwrap_err())
    }

    #[test]
    fn what_is_no_trace_is_told() {
        let job = r#"{"queued": "2026-01-05T08:00:00Z", "seconds": 60}"#;
        assert!(problem("{").contains("can't be read"));
        assert!(problem(r#"{"jobs": [], "max": 1}"#).contains("no jobs"));
        assert!(problem(&format!(r#"{{"jobs": [{job}], "max": 0}}"#)).contains("spec.max: must be at least 1"));
        assert!(
            problem(&format!(r#"{{"jobs": [{job}], "max": 1, "maximum": 2}}"#)).contains("unknown field `maximum`")
        );
        let long = job.replace("60", "-1");
        assert!(problem(&format!(r#"{{"jobs": [{long}], "max": 1}}"#)).contains("jobs[].seconds must be"));
        let many = job.replace("60", "60, \"count\": 2000000");
        assert!(problem(&format!(r#"{{"jobs": [{many}], "max": 1}}"#)).contains("a million"));
    }

    #[test]
    fn every_mix_is_tried_once_and_the_own_limits_first() {
        let trace =
            Trace::parse(br#"{"jobs": [{"queued": "2026-01-05T08:00:00Z", "seconds": 60}], "max": 5}"#).unwrap();
        let what_if = WhatIf { max: vec![5, 10], min_idle: vec![0, 2], ..WhatIf::default() };
        let names: Vec<_> = trace.variants(&what_if).unwrap().into_iter().map(|variant| variant.name).collect();
        let expected = ["as it is", "max 5, min idle 2", "max 10, min idle 0", "max 10, min idle 2"];
        assert_eq!(names, expected);
        let impossible = WhatIf { min: vec![6], ..WhatIf::default() };
        assert!(trace.variants(&impossible).is_err());
    }
}
