//! The configuration file of a node: upstream's `KubeletConfiguration`, of which the fields count that apply here. The others
//! are named in a warning, so that nobody believes they do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use minke_core::manifest::document;
use minke_core::resources::Amount;
use minke_node::node::shutdown::{GraceOfPriority, ShutdownPolicy};
use serde::Deserialize;
use serde_json::Value;

use super::NodeArgs;
use crate::durations;
use crate::exit::Failure;

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const KIND: &str = "KubeletConfiguration";

type Texts = BTreeMap<String, String>;

/// The fields that apply.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct KubeletFile {
    api_version: String,
    kind: String,
    pub(super) max_pods: Option<usize>,
    pod_pids_limit: Option<i64>,
    system_reserved: Option<Texts>,
    kube_reserved: Option<Texts>,
    eviction_hard: Option<Texts>,
    eviction_soft: Option<Texts>,
    eviction_soft_grace_period: Option<Texts>,
    eviction_minimum_reclaim: Option<Texts>,
    eviction_max_pod_grace_period: Option<u64>,
    eviction_pressure_transition_period: Option<Span>,
    #[serde(rename = "imageGCHighThresholdPercent")]
    pub(super) image_gc_high: Option<u8>,
    #[serde(rename = "imageGCLowThresholdPercent")]
    pub(super) image_gc_low: Option<u8>,
    #[serde(rename = "imageMinimumGCAge")]
    pub(super) image_min_age: Option<Span>,
    container_log_max_size: Option<String>,
    pub(super) container_log_max_files: Option<u32>,
    pub(super) node_status_update_frequency: Option<Span>,
    pub(super) node_status_report_frequency: Option<Span>,
    pub(super) node_lease_duration_seconds: Option<u64>,
    pub(super) node_status_max_images: Option<i64>,
    pub(super) register_with_taints: Vec<Taint>,
    register_node: Option<bool>,
    shutdown_grace_period: Option<Span>,
    shutdown_grace_period_critical_pods: Option<Span>,
    shutdown_grace_period_by_pod_priority: Vec<PriorityGrace>,
    pub(super) static_pod_path: Option<String>,
    #[serde(rename = "staticPodURL")]
    pub(super) static_pod_url: Option<String>,
    pub(super) container_runtime_endpoint: Option<String>,
    #[serde(rename = "providerID")]
    pub(super) provider_id: Option<String>,
    #[serde(rename = "serverTLSBootstrap")]
    pub(super) server_tls_bootstrap: bool,
    rotate_certificates: Option<bool>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// A duration as Kubernetes writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        durations::duration(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PriorityGrace {
    priority: i32,
    shutdown_grace_period_seconds: u64,
}

impl KubeletFile {
    /// Reads the file.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let named = |message: String| Failure::usage(format!("{}: {message}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| named(format!("can't be read: {error}")))?;
        Self::parse(&text).map_err(named)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let document = document(text).map_err(|error| error.to_string())?;
        if let Some(twice) = document.duplicates.first() {
            return Err(format!("{twice} is given twice"));
        }
        let file: Self = serde_json::from_value(document.value).map_err(|error| error.to_string())?;
        if (file.api_version.as_str(), file.kind.as_str()) != (API_VERSION, KIND) {
            return Err(format!("is no {KIND} of {API_VERSION}"));
        }
        if file.register_node == Some(false) {
            return Err(
                "registerNode: false: an agent without its node has nothing to do; `minke agent` runs static pods"
                    .to_owned(),
            );
        }
        Ok(file)
    }

    /// The fields that are set and do not apply.
    pub(super) fn without_effect(&self) -> Vec<&str> {
        // One that was asked for is always renewed.
        let unrenewed = (self.rotate_certificates == Some(false)).then_some("rotateCertificates: false");
        self.rest.keys().map(String::as_str).chain(unrenewed).collect()
    }

    /// What is told with flags, over what the file says.
    pub(super) fn under(&self, flags: &NodeArgs) -> Result<NodeArgs, Failure> {
        let mut args = flags.clone();
        let unsaid = |flag: &Option<String>| flag.is_none();
        if args.system_reserved.is_empty() {
            args.system_reserved = self.reserved().map_err(Failure::usage)?;
        }
        if args.pod_max_pids <= 0 {
            args.pod_max_pids = self.pod_pids_limit.unwrap_or(-1);
        }
        if unsaid(&args.eviction_hard) {
            args.eviction_hard = self.eviction_hard.as_ref().map(|list| match list.is_empty() {
                true => "none".to_owned(),
                false => joined(list, '<'),
            });
        }
        for (flag, list, between) in [
            (&mut args.eviction_soft, &self.eviction_soft, '<'),
            (&mut args.eviction_soft_grace_period, &self.eviction_soft_grace_period, '='),
            (&mut args.eviction_minimum_reclaim, &self.eviction_minimum_reclaim, '='),
        ] {
            if unsaid(flag) {
                *flag = list.as_ref().map(|list| joined(list, between));
            }
        }
        if let (0, Some(most)) = (args.eviction_max_pod_grace_period, self.eviction_max_pod_grace_period) {
            args.eviction_max_pod_grace_period = most;
        }
        if let Some(Span(period)) = self.eviction_pressure_transition_period {
            args.eviction_pressure_transition_period = period;
        }
        Ok(args)
    }

    /// What is reserved for the system and for Kubernetes, together.
    fn reserved(&self) -> Result<Vec<String>, String> {
        let mut sum: BTreeMap<&str, Amount> = BTreeMap::new();
        for (name, amount) in self.system_reserved.iter().chain(&self.kube_reserved).flatten() {
            if name == "pid" {
                // A share of process ids can't be kept free; pid.available is watched instead.
                continue;
            }
            *sum.entry(name).or_insert(Amount::ZERO) += Amount::parse(amount).map_err(|e| format!("{name}: {e}"))?;
        }
        Ok(sum.into_iter().map(|(name, amount)| format!("{name}={amount}")).collect())
    }

    /// `containerLogMaxSize` in bytes.
    pub(super) fn log_max_bytes(&self) -> Result<Option<u64>, Failure> {
        let Some(text) = &self.container_log_max_size else { return Ok(None) };
        let wrong = |e: String| Failure::usage(format!("containerLogMaxSize: {e}"));
        let bytes = Amount::parse(text).map_err(|e| wrong(e.to_string()))?.value();
        u64::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes > 0)
            .map(Some)
            .ok_or_else(|| wrong("must be more than 0".to_owned()))
    }

    /// How Pods end with the node.
    pub(super) fn shutdown(&self, flags: (Option<Duration>, Option<Duration>)) -> Result<ShutdownPolicy, Failure> {
        let wrong = |error: minke_node::node::shutdown::PolicyError| Failure::usage(error.to_string());
        let by_priority = &self.shutdown_grace_period_by_pod_priority;
        if !by_priority.is_empty() && flags == (None, None) {
            let of = |entry: &PriorityGrace| GraceOfPriority {
                priority: entry.priority,
                grace: Duration::from_secs(entry.shutdown_grace_period_seconds),
            };
            return ShutdownPolicy::by_priority(by_priority.iter().map(of).collect()).map_err(wrong);
        }
        let or = |flag: Option<Duration>, file: Option<Span>| flag.or(file.map(|span| span.0)).unwrap_or_default();
        let all = or(flags.0, self.shutdown_grace_period);
        ShutdownPolicy::periods(all, or(flags.1, self.shutdown_grace_period_critical_pods)).map_err(wrong)
    }
}

fn joined(list: &Texts, between: char) -> String {
    let mut text = String::new();
    for (name, value) in list {
        // Writing into a String can't fail.
        let _ = write!(text, "{}{name}{between}{value}", if text.is_empty() { "" } else { "," });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    fn parse(text: &str) -> Result<KubeletFile, String> {
        KubeletFile::parse(&format!("{HEAD}{text}"))
    }

    #[test]
    fn fields_that_apply_do_and_others_are_named() {
        let file = parse(
            "maxPods: 50\nsystemReserved: {cpu: 200m, memory: 1Gi}\nkubeReserved: {cpu: 300m, pid: '1000'}\n\
             evictionHard: {memory.available: 5%, nodefs.available: 1Gi}\nevictionSoft: {memory.available: 10%}\n\
             evictionSoftGracePeriod: {memory.available: 1m30s}\nimageMinimumGCAge: 5m0s\nclusterDomain: x\n\
             containerLogMaxSize: 20Mi\nauthentication: {anonymous: {enabled: false}}\n",
        )
        .unwrap();
        assert_eq!(file.without_effect(), ["authentication", "clusterDomain"]);
        assert_eq!((file.max_pods, file.image_min_age), (Some(50), Some(Span(Duration::from_secs(300)))));
        assert_eq!(file.log_max_bytes(), Ok(Some(20 << 20)));
        let args = file.under(&NodeArgs::for_tests(&[])).unwrap();
        let options = args.options().unwrap();
        assert_eq!(options.reserved["cpu"].milli_value(), 500);
        assert_eq!(options.reserved["memory"].value(), 1 << 30);
        assert_eq!(args.eviction(false).unwrap().thresholds.len(), 3);
        let told = NodeArgs::for_tests(&["--eviction-hard=none", "--system-reserved=cpu=1"]);
        let args = file.under(&told).unwrap();
        assert_eq!(args.eviction(false).unwrap().thresholds.len(), 1, "flags count more than the file");
        assert_eq!(args.options().unwrap().reserved.len(), 1);
    }

    #[test]
    fn shutdown_in_both_of_upstreams_ways() {
        let file = parse("shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n").unwrap();
        assert_eq!(file.shutdown((None, None)).unwrap().total(), Duration::from_secs(30));
        let told = file.shutdown((Some(Duration::from_secs(60)), None)).unwrap();
        assert_eq!(told.total(), Duration::from_secs(60));
        assert!(file.shutdown((Some(Duration::from_secs(5)), None)).is_err(), "less than its critical part");
        let file =
            parse("shutdownGracePeriodByPodPriority:\n- {priority: 0, shutdownGracePeriodSeconds: 7}\n").unwrap();
        assert_eq!(file.shutdown((None, None)).unwrap().total(), Duration::from_secs(7));
        assert!(parse("").unwrap().shutdown((None, None)).unwrap().is_empty());
    }

    #[test]
    fn mistakes_are_told() {
        assert!(KubeletFile::parse("kind: Pod\napiVersion: v1\n").unwrap_err().contains("is no KubeletConfiguration"));
        assert!(parse("maxPods: many\n").is_err());
        assert!(parse("registerNode: false\n").unwrap_err().contains("minke agent"));
        assert!(parse("maxPods: 1\nmaxPods: 2\n").unwrap_err().contains("twice"));
        assert!(parse("shutdownGracePeriod: soon\n").unwrap_err().contains("not a duration"));
    }
}
