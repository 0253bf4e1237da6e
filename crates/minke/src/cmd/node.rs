//! A node of a cluster (`serve`), and what an operator says of the machine: labels, what is kept for the system, when Pods are evicted. Flags of
//! `minke agent` under the kubelet's names; the environment has them as well, because that is what an agent inherits
//! that a command starts in the background.

mod cluster;
pub(super) mod configz;
mod file;
pub(crate) mod serve;
mod serving;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use minke_core::resources::{Amount, ResourceList};
use minke_kubelet::admission::NodeOptions;
use minke_kubelet::eviction::{EvictionConfig, Signal, Threshold, ThresholdValue, parse_value};

use crate::durations;
use crate::exit::Failure;

/// Flags about the machine.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct NodeArgs {
    /// Labels of this machine for node selectors, beside kubernetes.io/os, arch and hostname
    #[arg(
        long,
        value_name = "KEY=VALUE,…",
        env = "MINKE_NODE_LABELS",
        value_delimiter = ',',
        help_heading = "Machine"
    )]
    node_label: Vec<String>,
    /// What is kept for programs that are no Pods: cpu, memory, ephemeral-storage
    #[arg(
        long,
        value_name = "RESOURCE=AMOUNT,…",
        env = "MINKE_SYSTEM_RESERVED",
        value_delimiter = ',',
        help_heading = "Machine"
    )]
    system_reserved: Vec<String>,
    /// Most processes and threads of one Pod; -1: as many as the kernel lets it
    #[arg(long, value_name = "N", env = "MINKE_POD_MAX_PIDS", default_value_t = -1, allow_negative_numbers = true, help_heading = "Machine")]
    pod_max_pids: i64,
    /// Evict a Pod at once when less is left; replaces the defaults; none: never
    #[arg(long, value_name = "SIGNAL<AMOUNT,…", env = "MINKE_EVICTION_HARD", help_heading = "Eviction")]
    #[arg(long_help = HARD)]
    eviction_hard: Option<String>,
    /// Evict a Pod when less is left for longer than its grace period
    #[arg(long, value_name = "SIGNAL<AMOUNT,…", env = "MINKE_EVICTION_SOFT", help_heading = "Eviction")]
    eviction_soft: Option<String>,
    /// How long each soft threshold may last
    #[arg(long, value_name = "SIGNAL=DURATION,…", env = "MINKE_EVICTION_SOFT_GRACE_PERIOD", help_heading = "Eviction")]
    eviction_soft_grace_period: Option<String>,
    /// How much more than its threshold must be left before a signal is in order again
    #[arg(long, value_name = "SIGNAL=AMOUNT,…", env = "MINKE_EVICTION_MINIMUM_RECLAIM", help_heading = "Eviction")]
    eviction_minimum_reclaim: Option<String>,
    /// Most seconds that a Pod gets to end by itself when a soft threshold evicts it
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MINKE_EVICTION_MAX_POD_GRACE_PERIOD",
        default_value_t = 0,
        help_heading = "Eviction"
    )]
    eviction_max_pod_grace_period: u64,
    /// How long the machine counts as short of something after it was last seen to be
    #[arg(long, value_name = "DURATION", env = "MINKE_EVICTION_PRESSURE_TRANSITION_PERIOD", default_value = "5m", value_parser = durations::duration, help_heading = "Eviction")]
    eviction_pressure_transition_period: Duration,
    /// Between two looks
    #[arg(long, hide = true, env = "MINKE_EVICTION_PERIOD", default_value = "10s", value_parser = durations::duration)]
    eviction_period: Duration,
}

const HARD: &str = "Evict a Pod at once when less is left; replaces the defaults; none: never\n\n\
    Signals: memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, \
    pid.available. Amounts: a quantity (100Mi) or a part of the whole (10%). Default: memory.available<100Mi,\
    nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%; of an agent that a command \
    starts by itself: memory.available<100Mi, and 1Gi and 1% of the inodes of each disk";

/// The kubelet's defaults on Linux.
const OF_A_SERVICE: &str =
    "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%";
/// Whoever types a command on a machine of their own may have a disk that is nearly full, and still wants it to work.
const ON_DEMAND: &str =
    "memory.available<100Mi,nodefs.available<1Gi,nodefs.inodesFree<1%,imagefs.available<1Gi,imagefs.inodesFree<1%";

impl NodeArgs {
    /// As these arguments say.
    #[cfg(test)]
    fn for_tests(arguments: &[&str]) -> Self {
        tests::parsed(arguments)
    }

    /// What a service was told, for another process.
    pub(crate) fn as_arguments(&self) -> Vec<String> {
        let millis = |duration: Duration| format!("{}ms", duration.as_millis());
        let mut arguments = vec![
            format!("--pod-max-pids={}", self.pod_max_pids),
            format!("--eviction-max-pod-grace-period={}", self.eviction_max_pod_grace_period),
            format!("--eviction-pressure-transition-period={}", millis(self.eviction_pressure_transition_period)),
            format!("--eviction-period={}", millis(self.eviction_period)),
        ];
        let lists = [("node-label", &self.node_label), ("system-reserved", &self.system_reserved)];
        arguments.extend(lists.iter().map(|(flag, list)| format!("--{flag}={}", list.join(","))));
        arguments.push(format!("--eviction-hard={}", self.eviction_hard.as_deref().unwrap_or(OF_A_SERVICE)));
        for (flag, text) in [
            ("eviction-soft", &self.eviction_soft),
            ("eviction-soft-grace-period", &self.eviction_soft_grace_period),
            ("eviction-minimum-reclaim", &self.eviction_minimum_reclaim),
        ] {
            arguments.extend(text.as_ref().map(|text| format!("--{flag}={text}")));
        }
        arguments
    }

    /// What the flags say of the machine.
    pub(crate) fn options(&self) -> Result<NodeOptions, Failure> {
        let reserved = resources("--system-reserved", &self.system_reserved)?;
        if let Some(name) = reserved.keys().find(|n| !["cpu", "memory", "ephemeral-storage"].contains(&n.as_str())) {
            return Err(wrong("--system-reserved", &format!("{name:?} is none of cpu, memory, ephemeral-storage")));
        }
        let mut labels = BTreeMap::new();
        for text in self.node_label.iter().filter(|t| !t.is_empty()) {
            let (key, value) = pair("--node-label", text, '=')?;
            labels.insert(key.to_owned(), value.to_owned());
        }
        let pod_max_pids = Some(self.pod_max_pids).filter(|n| *n > 0);
        Ok(NodeOptions { labels, reserved, pod_max_pids })
    }

    /// When the flags want Pods to be evicted, by an agent that a command started or by one that is a service.
    pub(crate) fn eviction(&self, on_demand: bool) -> Result<EvictionConfig, Failure> {
        let default = if on_demand { ON_DEMAND } else { OF_A_SERVICE };
        let mut thresholds = read_thresholds("--eviction-hard", self.eviction_hard.as_deref().unwrap_or(default))?;
        let mut graces: BTreeMap<Signal, Duration> = BTreeMap::new();
        let flag = "--eviction-soft-grace-period";
        for (signal, text) in signals(flag, self.eviction_soft_grace_period.as_deref().unwrap_or_default(), '=')? {
            graces.insert(signal, durations::duration(text).map_err(|e| wrong(flag, &e))?);
        }
        for mut soft in read_thresholds("--eviction-soft", self.eviction_soft.as_deref().unwrap_or_default())? {
            let Some(grace) = graces.remove(&soft.signal) else {
                let message = format!("grace period must be specified for the soft eviction threshold {}", soft.signal);
                return Err(wrong("--eviction-soft", &message));
            };
            soft.grace = Some(grace);
            thresholds.push(soft);
        }
        if let Some(signal) = graces.keys().next() {
            return Err(wrong(flag, &format!("there is no soft threshold for {signal}")));
        }
        let flag = "--eviction-minimum-reclaim";
        for (signal, text) in signals(flag, self.eviction_minimum_reclaim.as_deref().unwrap_or_default(), '=')? {
            let least = value(flag, text)?;
            for threshold in thresholds.iter_mut().filter(|t| t.signal == signal) {
                threshold.min_reclaim = Some(least);
            }
        }
        Ok(EvictionConfig {
            thresholds,
            max_pod_grace: Duration::from_secs(self.eviction_max_pod_grace_period),
            pressure_transition: self.eviction_pressure_transition_period,
            period: self.eviction_period.max(Duration::from_millis(100)),
        })
    }
}

fn wrong(flag: &str, message: &str) -> Failure {
    Failure::usage(format!("{flag}: {message}"))
}

fn pair<'a>(flag: &str, text: &'a str, between: char) -> Result<(&'a str, &'a str), Failure> {
    let pair = text.split_once(between).map(|(key, value)| (key.trim(), value.trim()));
    pair.filter(|(key, _)| !key.is_empty()).ok_or_else(|| wrong(flag, &format!("{text:?} has no {between:?} in it")))
}

fn resources(flag: &str, texts: &[String]) -> Result<ResourceList, Failure> {
    let mut list = ResourceList::new();
    for text in texts.iter().filter(|t| !t.is_empty()) {
        let (name, amount) = pair(flag, text, '=')?;
        let amount = Amount::parse(amount).map_err(|e| wrong(flag, &e.to_string()))?;
        if amount < Amount::ZERO {
            return Err(wrong(flag, &format!("{text:?} is less than nothing")));
        }
        list.insert(name.to_owned(), amount);
    }
    Ok(list)
}

/// `memory.available<100Mi,…`, each signal once; `none` is none.
fn signals<'a>(flag: &str, text: &'a str, between: char) -> Result<Vec<(Signal, &'a str)>, Failure> {
    let mut found: Vec<(Signal, &str)> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty() && text != "none") {
        let (name, value) = pair(flag, part, between)?;
        let signal: Signal = name.parse().map_err(|e| wrong(flag, &format!("{e}")))?;
        if found.iter().any(|(other, _)| *other == signal) {
            return Err(wrong(flag, &format!("{signal} is there twice")));
        }
        found.push((signal, value));
    }
    Ok(found)
}

fn value(flag: &str, text: &str) -> Result<ThresholdValue, Failure> {
    parse_value(text).map_err(|e| wrong(flag, &e.to_string()))
}

/// The thresholds of an agent that was told nothing.
pub(crate) fn default_thresholds(on_demand: bool) -> Result<Vec<Threshold>, Failure> {
    read_thresholds("--eviction-hard", if on_demand { ON_DEMAND } else { OF_A_SERVICE })
}

fn read_thresholds(flag: &str, text: &str) -> Result<Vec<Threshold>, Failure> {
    let read = |(signal, text)| Ok(Threshold::hard(signal, value(flag, text)?));
    signals(flag, text, '<')?.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        node: NodeArgs,
    }

    pub(super) fn parsed(arguments: &[&str]) -> NodeArgs {
        Program::try_parse_from(std::iter::once("minke").chain(arguments.iter().copied())).unwrap().node
    }

    fn eviction(arguments: &[&str]) -> Result<EvictionConfig, String> {
        parsed(arguments).eviction(false).map_err(|failure| failure.message)
    }

    #[test]
    fn nothing_said_is_upstreams_default() {
        assert_eq!(eviction(&[]), Ok(EvictionConfig::default()));
        assert_eq!(parsed(&[]).options().unwrap(), NodeOptions::default());
    }

    #[test]
    fn an_agent_on_demand_bears_a_disk_that_is_nearly_full_unless_told_otherwise() {
        let of_disk = |config: EvictionConfig| config.thresholds.into_iter().find(|t| t.signal == Signal::Nodefs);
        let mild = parsed(&[]).eviction(true).unwrap();
        assert_eq!(of_disk(mild).unwrap().value, ThresholdValue::Quantity(1 << 30));
        let told = parsed(&["--eviction-hard=nodefs.available<3%"]).eviction(true).unwrap();
        assert_eq!(
            Some(told.thresholds),
            eviction(&["--eviction-hard=nodefs.available<3%"]).ok().map(|c| c.thresholds)
        );
        // What is started in the background by an operator is a service.
        assert!(parsed(&[]).as_arguments().contains(&format!("--eviction-hard={OF_A_SERVICE}")));
    }

    #[test]
    fn thresholds_with_grace_and_minimum_reclaim() {
        let config = eviction(&[
            "--eviction-hard=memory.available<1Gi,nodefs.available<5%",
            "--eviction-soft",
            "memory.available<2Gi",
            "--eviction-soft-grace-period=memory.available=1m30s",
            "--eviction-minimum-reclaim=memory.available=500Mi",
            "--eviction-max-pod-grace-period=30",
        ])
        .unwrap();
        let least = Some(ThresholdValue::Quantity(500 << 20));
        let memory = |bytes| Threshold {
            min_reclaim: least,
            ..Threshold::hard(Signal::Memory, ThresholdValue::Quantity(bytes))
        };
        let nodefs = Threshold::hard(Signal::Nodefs, ThresholdValue::Percent(Amount::from_units(5)));
        let soft = Threshold { grace: Some(Duration::from_secs(90)), ..memory(2 << 30) };
        assert_eq!(config.thresholds, [memory(1 << 30), nodefs, soft]);
        assert_eq!(config.max_pod_grace, Duration::from_secs(30));
        assert_eq!(eviction(&["--eviction-hard=none"]).unwrap().thresholds, []);
        assert_eq!(eviction(&["--eviction-hard="]).unwrap().thresholds, []);
    }

    #[test]
    fn flags_can_be_handed_on() {
        let given = [
            "--node-label=a=b,c=",
            "--system-reserved=cpu=1,memory=1Gi",
            "--pod-max-pids=9",
            "--eviction-hard=none",
            "--eviction-soft=pid.available<5",
            "--eviction-soft-grace-period=pid.available=1m",
            "--eviction-minimum-reclaim=pid.available=2",
            "--eviction-pressure-transition-period=90s",
        ];
        for given in [&given[..], &[]] {
            let first = parsed(given);
            let arguments = first.as_arguments();
            let again = parsed(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(again.options().unwrap(), first.options().unwrap());
            assert_eq!(again.eviction(true).unwrap(), first.eviction(false).unwrap());
        }
    }

    #[test]
    fn mistakes_are_told_with_their_flag() {
        for (arguments, words) in [
            (&["--eviction-hard=memory.free<1Gi"][..], "--eviction-hard: \"memory.free\" is not an eviction signal"),
            (&["--eviction-hard=memory.available=1Gi"], "--eviction-hard: \"memory.available=1Gi\" has no '<'"),
            (&["--eviction-hard=memory.available<-1"], "--eviction-hard: \"-1\" is no amount"),
            (&["--eviction-hard=pid.available<1,pid.available<2"], "pid.available is there twice"),
            (
                &["--eviction-soft=pid.available<1"],
                "grace period must be specified for the soft eviction threshold pid",
            ),
            (&["--eviction-soft-grace-period=pid.available=1m"], "there is no soft threshold for pid.available"),
        ] {
            let message = eviction(arguments).unwrap_err();
            assert!(message.contains(words), "{message}");
        }
        for (argument, words) in [
            ("--system-reserved=gpu=1", "none of cpu"),
            ("--system-reserved=cpu=x", "not a quantity"),
            ("--system-reserved=cpu=-1", "less than nothing"),
            ("--node-label=disk", "has no '='"),
        ] {
            let message = parsed(&[argument]).options().unwrap_err().message;
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn labels_reserves_and_limits() {
        let options = parsed(&[
            "--node-label=disk=ssd,zone=",
            "--node-label=rank=7",
            "--system-reserved=cpu=500m,memory=1Gi",
            "--pod-max-pids=100",
        ])
        .options()
        .unwrap();
        let shown: Vec<_> = options.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(shown, ["disk=ssd", "rank=7", "zone="]);
        assert_eq!(options.reserved["cpu"].milli_value(), 500);
        assert_eq!(options.pod_max_pids, Some(100));
        assert_eq!(parsed(&["--pod-max-pids=-1"]).options().unwrap().pod_max_pids, None);
    }
}
