//! What a set means, or everything that is wrong with it: the rules that a schema can't tell, or an old server does not know.

use std::fmt;

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::types::{GitHubScope, Repeat, RunnerSet, RunnerSetSpec, ScheduleSpec};
use crate::engine::Settings;
use crate::life::Timing;
use crate::plan::{Recurrence, Scaling, Schedule};

/// The label of a set's Pods, with the set's name.
pub const LABEL_SET: &str = "runners.minke.dev/set";
/// The label with a runner's state, so that a `PodDisruptionBudget` can be about busy ones.
pub const LABEL_STATE: &str = "runners.minke.dev/state";

/// The container that registers and takes the job.
pub const RUNNER_CONTAINER: &str = "runner";

/// The longest name of a set: `-<slot>` follows in a Pod's name, which is a label's value.
const LONGEST_NAME: usize = 52;
const LONGEST_WINDOW: u32 = 3600;

/// A field and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// `spec.schedules[0].end`.
    pub field: String,
    /// In words.
    pub message: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

#[derive(Debug, Default)]
struct Problems(Vec<Invalid>);

impl Problems {
    fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(Invalid { field: field.into(), message: message.into() });
    }

    fn unless(&mut self, good: bool, field: &str, message: &str) {
        if !good {
            self.add(field, message);
        }
    }
}

/// What the engine needs to know of a set.
///
/// # Errors
///
/// All that is wrong with it.
pub fn settings(set: &RunnerSet) -> Result<Settings, Vec<Invalid>> {
    let mut problems = Problems::default();
    let name = set.metadata.name.clone().unwrap_or_default();
    problems.unless(
        !name.is_empty() && name.len() <= LONGEST_NAME,
        "metadata.name",
        "must have 1 to 52 characters: the slot's number follows in the names of its Pods",
    );
    scope(&set.spec.github, &mut problems);
    let blank = |label: &String| label.trim().is_empty() || label.contains(',');
    problems.unless(!set.spec.labels.is_empty(), "spec.labels", "must name at least one");
    problems.unless(!set.spec.labels.iter().any(blank), "spec.labels", "must be words without commas");
    template(&set.spec, &mut problems);
    work_volume(&set.spec, &mut problems);
    let scaling = match scaling(&set.spec) {
        Ok(scaling) => Some(scaling),
        Err(more) => {
            problems.0.extend(more);
            None
        }
    };
    let template = template_hash(&set.spec);
    match (scaling, problems.0) {
        (Some(scaling), problems) if problems.is_empty() => {
            Ok(Settings { set: name, template, scaling, timing: Timing::default() })
        }
        (_, problems) => Err(problems),
    }
}

/// What the engine needs to know of a set, in words if that can't be. One that is being deleted wants nobody, whatever else is
/// wrong with it.
///
/// # Errors
///
/// All that is wrong with it.
pub fn settings_or_none(set: &RunnerSet) -> Result<Settings, String> {
    let settings = settings(set);
    if set.metadata.deletion_timestamp.is_none() {
        return settings.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
    }
    let scaling = Scaling { min: 0, max: 0, min_idle: 0, ..Scaling::default() };
    let name = set.metadata.name.clone().unwrap_or_default();
    Ok(match settings {
        Ok(settings) => Settings { scaling, ..settings },
        Err(_) => Settings { set: name, template: String::new(), scaling, timing: Timing::default() },
    })
}

/// How a set scales.
///
/// # Errors
///
/// All that is wrong with it.
pub fn scaling(spec: &RunnerSetSpec) -> Result<Scaling, Vec<Invalid>> {
    let mut problems = Problems::default();
    problems.unless(spec.max > 0, "spec.max", "must be at least 1");
    problems.unless(spec.min <= spec.max, "spec.min", "must not be above max: lower min, or raise max");
    problems.unless(spec.min_idle <= spec.max, "spec.minIdle", "must not be above max: lower minIdle, or raise max");
    let stabilization = spec.stabilization.unwrap_or_default();
    let mut window = |field: &str, seconds: Option<u32>, default: SignedDuration| {
        problems.unless(seconds.is_none_or(|s| s <= LONGEST_WINDOW), field, "must be an hour (3600) at most");
        seconds.map_or(default, |seconds| SignedDuration::from_secs(i64::from(seconds)))
    };
    let defaults = Scaling::default();
    let up = window("spec.stabilization.upSeconds", stabilization.up_seconds, defaults.up);
    let down = window("spec.stabilization.downSeconds", stabilization.down_seconds, defaults.down);
    let mut schedules = Vec::new();
    for (index, written) in spec.schedules.iter().enumerate() {
        schedules.extend(schedule(&format!("spec.schedules[{index}]"), written, &mut problems));
    }
    if problems.0.is_empty() {
        Ok(Scaling { min: spec.min, max: spec.max, min_idle: spec.min_idle, schedules, up, down })
    } else {
        Err(problems.0)
    }
}

fn schedule(path: &str, written: &ScheduleSpec, problems: &mut Problems) -> Option<Schedule> {
    let mut local = |field: &str, text: &str| match text.parse::<DateTime>() {
        Ok(at) => Some(at),
        Err(_) => {
            problems
                .add(format!("{path}.{field}"), format!("must be a local time like 2026-01-05T08:00, not {text:?}"));
            None
        }
    };
    let (start, end) = (local("start", &written.start), local("end", &written.end));
    let until = match written.until.as_deref().map(str::parse::<Timestamp>).transpose() {
        Ok(until) => until,
        Err(_) => {
            problems.add(format!("{path}.until"), "must be a time like 2026-12-31T00:00:00Z");
            None
        }
    };
    if written.min.is_none() && written.max.is_none() && written.min_idle.is_none() {
        problems.add(path, "must name min, minIdle or max");
    }
    if let (Some(min), Some(max)) = (written.min, written.max)
        && min > max
    {
        problems.add(path, "min must not be above max");
    }
    let recurrence = match written.repeat {
        Repeat::Once => Recurrence::Once,
        Repeat::Daily => Recurrence::Daily,
        Repeat::Weekly => Recurrence::Weekly,
        Repeat::Monthly => Recurrence::Monthly,
        Repeat::Yearly => Recurrence::Yearly,
    };
    let zone = written.time_zone.as_deref().unwrap_or("UTC");
    match Schedule::new(start?, end?, zone, recurrence, until) {
        Ok(mut schedule) => {
            (schedule.min, schedule.min_idle, schedule.max) = (written.min, written.min_idle, written.max);
            Some(schedule)
        }
        Err(error) => {
            problems.add(path, error.to_string());
            None
        }
    }
}

fn scope(github: &GitHubScope, problems: &mut Problems) {
    let named = [&github.repository, &github.organization, &github.enterprise];
    let one = named.iter().filter(|name| name.is_some()).count() == 1;
    problems.unless(one, "spec.github", "must name exactly one of repository, organization and enterprise");
    let word = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            && name != ".."
    };
    if let Some(repository) = &github.repository {
        let good = repository.split_once('/').is_some_and(|(owner, name)| word(owner) && word(name));
        problems.unless(good, "spec.github.repository", "must be owner/name");
    }
    for (field, name) in [("organization", &github.organization), ("enterprise", &github.enterprise)] {
        let good = name.as_deref().is_none_or(word);
        problems.unless(good, &format!("spec.github.{field}"), "must be its name alone");
    }
    let https = github.url.as_deref().is_none_or(|url| url.starts_with("https://") || url.starts_with("http://"));
    problems.unless(https, "spec.github.url", "must begin with https://");
    problems.unless(!github.credentials_secret.is_empty(), "spec.github.credentialsSecret", "must name a secret");
}

fn template(spec: &RunnerSetSpec, problems: &mut Problems) {
    let Some(pod) = &spec.template.spec else {
        problems.add("spec.template.spec", "is missing");
        return;
    };
    let runner = pod.containers.iter().any(|container| container.name == RUNNER_CONTAINER);
    problems.unless(runner, "spec.template.spec.containers", "must have a container called runner");
    let never = pod.restart_policy.as_deref().is_none_or(|policy| policy == "Never");
    problems.unless(never, "spec.template.spec.restartPolicy", "must be Never: a registration serves one start");
}

fn work_volume(spec: &RunnerSetSpec, problems: &mut Problems) {
    let Some(work) = &spec.work_volume else { return };
    let path = work.mount_path.as_deref().unwrap_or("/w");
    problems.unless(
        path.starts_with('/') && !path.contains(':'),
        "spec.workVolume.mountPath",
        "must be an absolute path",
    );
    let both = work.size_limit.is_some() && work.claim_template.is_some();
    let limit = work.size_limit.as_ref().is_none_or(|limit| quantity(&limit.0));
    problems.unless(limit, "spec.workVolume.sizeLimit", "must be a quantity like 20Gi");
    problems.unless(!both, "spec.workVolume", "sizeLimit is about an empty volume, and claimTemplate makes no such");
    if let Some(claim) = &work.claim_template {
        let modes = claim.spec.access_modes.as_deref().unwrap_or_default();
        problems.unless(!modes.is_empty(), "spec.workVolume.claimTemplate.spec.accessModes", "must name at least one");
        let asks = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let asks = asks.is_some_and(|requests| requests.contains_key("storage"));
        problems.unless(asks, "spec.workVolume.claimTemplate.spec.resources.requests.storage", "is missing");
    }
    let pod = spec.template.spec.as_ref();
    let mut names = pod.iter().flat_map(|pod| pod.volumes.iter().flatten()).map(|volume| volume.name.as_str());
    problems.unless(
        !names.any(|name| name == super::WORK_VOLUME),
        "spec.template.spec.volumes",
        "must have no volume called work: that is the work volume",
    );
}

/// A number of bytes as Kubernetes writes it. The API server looks closer.
fn quantity(text: &str) -> bool {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = ["", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    unit.contains(&&text[number.len()..])
        && number.starts_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// What changes when the template does, and not otherwise.
#[must_use]
pub fn template_hash(spec: &RunnerSetSpec) -> String {
    // Maps of a JSON value are sorted; labels and group are part of what a runner is.
    let runner = serde_json::json!([spec.template, spec.labels, spec.github.group_id, spec.work_volume]);
    hex::encode(&Sha256::digest(runner.to_string())[..5])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    pub(in crate::set) fn manifest() -> Value {
        json!({
            "apiVersion": "minke.dev/v1alpha1", "kind": "RunnerSet", "metadata": {"name": "linux"},
            "spec": {
                "github": {"organization": "octo", "credentialsSecret": "github"},
                "labels": ["linux", "x64"], "max": 20,
                "template": {"spec": {"containers": [{"name": "runner", "image": "runner:1"}]}},
            },
        })
    }

    pub(crate) fn set() -> RunnerSet {
        serde_json::from_value(manifest()).unwrap()
    }

    fn problems(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut manifest = manifest();
        change(&mut manifest["spec"]);
        let set = serde_json::from_value(manifest).unwrap();
        settings(&set).unwrap_err().iter().map(Invalid::to_string).collect()
    }

    #[test]
    fn a_small_set_is_enough() {
        let settings = settings(&set()).unwrap();
        assert_eq!((settings.set.as_str(), settings.scaling.max), ("linux", 20));
        assert_eq!(settings.scaling.down, SignedDuration::from_secs(60));
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let found = problems(|spec| {
            spec["github"] = json!({"repository": "octo", "enterprise": "e", "credentialsSecret": ""});
            spec["labels"] = json!([]);
            spec["min"] = json!(30);
            spec["minIdle"] = json!(21);
            spec["stabilization"] = json!({"downSeconds": 4000});
            spec["schedules"] = json!([
                {"start": "8 o'clock", "end": "2026-01-01T09:00", "min": 1},
                {"start": "2026-01-01T08:00", "end": "2026-01-01T09:00", "timeZone": "Mars", "until": "soon"},
            ]);
            spec["template"] = json!({"spec": {"containers": [{"name": "main"}], "restartPolicy": "Always"}});
        });
        assert_eq!(
            found,
            [
                "spec.github: must name exactly one of repository, organization and enterprise",
                "spec.github.repository: must be owner/name",
                "spec.github.credentialsSecret: must name a secret",
                "spec.labels: must name at least one",
                "spec.template.spec.containers: must have a container called runner",
                "spec.template.spec.restartPolicy: must be Never: a registration serves one start",
                "spec.min: must not be above max: lower min, or raise max",
                "spec.minIdle: must not be above max: lower minIdle, or raise max",
                "spec.stabilization.downSeconds: must be an hour (3600) at most",
                "spec.schedules[0].start: must be a local time like 2026-01-05T08:00, not \"8 o'clock\"",
                "spec.schedules[1].until: must be a time like 2026-12-31T00:00:00Z",
                "spec.schedules[1]: must name min, minIdle or max",
                "spec.schedules[1]: time zone \"Mars\" is unknown; use a name like Europe/Berlin or UTC",
            ]
        );
    }

    #[test]
    fn a_name_that_would_be_a_path_is_no_name() {
        for repository in ["o/../x", "o/..", "o/r?x", "o/", "/r", "o/r/x"] {
            let found = problems(|spec| spec["github"] = json!({"repository": repository, "credentialsSecret": "s"}));
            assert_eq!(found, ["spec.github.repository: must be owner/name"], "{repository}");
        }
    }

    #[test]
    fn a_work_volume_is_empty_or_from_a_claim() {
        let found = problems(|spec| {
            spec["workVolume"] = json!({"mountPath": "work", "sizeLimit": "1 GB", "claimTemplate": {"spec": {}}});
            spec["template"]["spec"]["volumes"] = json!([{"name": "work"}]);
        });
        assert_eq!(
            found,
            [
                "spec.workVolume.mountPath: must be an absolute path",
                "spec.workVolume.sizeLimit: must be a quantity like 20Gi",
                "spec.workVolume: sizeLimit is about an empty volume, and claimTemplate makes no such",
                "spec.workVolume.claimTemplate.spec.accessModes: must name at least one",
                "spec.workVolume.claimTemplate.spec.resources.requests.storage: is missing",
                "spec.template.spec.volumes: must have no volume called work: that is the work volume",
            ]
        );
    }

    #[test]
    fn a_typo_is_refused() {
        let mut manifest = manifest();
        manifest["spec"]["minidle"] = json!(1);
        let error = serde_json::from_value::<RunnerSet>(manifest).unwrap_err().to_string();
        assert!(error.contains("unknown field `minidle`"), "{error}");
    }

    #[test]
    fn the_hash_is_the_templates_and_the_labels() {
        let plain = set();
        let mut scaled = set();
        scaled.spec.max = 50;
        assert_eq!(template_hash(&plain.spec), template_hash(&scaled.spec));
        let mut labelled = set();
        labelled.spec.labels.push("gpu".to_owned());
        assert_ne!(template_hash(&plain.spec), template_hash(&labelled.spec));
        let mut grouped = set();
        grouped.spec.github.group_id = Some(2);
        assert_ne!(template_hash(&plain.spec), template_hash(&grouped.spec), "its runners are in the other group");
    }
}
