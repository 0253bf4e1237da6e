//! What `/configz` of a node's own API says: the settings that count here, under the names of upstream's configuration. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use minke_kubelet::eviction::{Threshold, ThresholdValue};
use minke_node::node::NodeConfig;
use minke_node::node::shutdown::ShutdownPolicy;
use serde_json::{Map, Value, json};

use crate::agent::Settings;

/// Flags, file and defaults put together. No secrets are among them.
pub(in crate::cmd) fn configz(
    node: &NodeConfig,
    settings: &Settings,
    shutdown: &ShutdownPolicy,
    bootstraps: bool,
) -> Value {
    let Settings { relist: _, node: machine, eviction, image_gc, static_sources: _, overrides } = settings;
    let mut said = json!({
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": true}},
        "authorization": {"mode": "Webhook"},
        "podPidsLimit": machine.pod_max_pids.unwrap_or(-1),
        "nodeStatusUpdateFrequency": go(node.period),
        "nodeStatusReportFrequency": go(node.report),
        "nodeLeaseDurationSeconds": node.lease.as_secs(),
        "nodeStatusMaxImages": node.max_images,
        "registerWithTaints": node.taints,
        "imageGCHighThresholdPercent": image_gc.high_percent,
        "imageGCLowThresholdPercent": image_gc.low_percent,
        "imageMinimumGCAge": go(image_gc.min_age),
        "evictionMaxPodGracePeriod": eviction.max_pod_grace.as_secs(),
        "evictionPressureTransitionPeriod": go(eviction.pressure_transition),
        "shutdownGracePeriod": go(shutdown.total()),
        "serverTLSBootstrap": bootstraps,
    });
    let thresholds = |soft: bool| eviction.thresholds.iter().filter(move |one| one.grace.is_some() == soft);
    let values = |soft, of: fn(&Threshold) -> Option<String>| -> Map<String, Value> {
        thresholds(soft).filter_map(|one| Some((one.signal.to_string(), of(one)?.into()))).collect()
    };
    said["evictionHard"] = values(false, |one| Some(text(one.value))).into();
    said["evictionSoft"] = values(true, |one| Some(text(one.value))).into();
    said["evictionSoftGracePeriod"] = values(true, |one| one.grace.map(go)).into();
    let mut reclaim = values(false, |one| one.min_reclaim.map(text));
    reclaim.extend(values(true, |one| one.min_reclaim.map(text)));
    said["evictionMinimumReclaim"] = reclaim.into();
    let reserved: BTreeMap<&str, String> =
        machine.reserved.iter().map(|(name, amount)| (name.as_str(), amount.to_string())).collect();
    said["systemReserved"] = json!(reserved);
    // What nobody said is not made up: its default is the core's own.
    let told = [
        ("maxPods", overrides.max_pods.map(Value::from)),
        ("containerLogMaxSize", overrides.log_max_bytes.map(|bytes| bytes.to_string().into())),
        ("containerLogMaxFiles", overrides.log_max_files.map(Value::from)),
        ("providerID", node.provider_id.clone().map(Value::from)),
    ];
    for (name, value) in told {
        if let Some(value) = value {
            said[name] = value;
        }
    }
    said
}

fn text(value: ThresholdValue) -> String {
    match value {
        ThresholdValue::Quantity(quantity) => quantity.to_string(),
        ThresholdValue::Percent(percent) => {
            let nanos = u128::try_from(percent.nanos()).unwrap_or_default();
            format!("{}%", decimal(nanos / 1_000_000_000, nanos % 1_000_000_000))
        }
    }
}

/// A number of this whole part and so many billionths.
fn decimal(whole: u128, billionths: u128) -> String {
    match billionths {
        0 => whole.to_string(),
        _ => format!("{whole}.{billionths:09}").trim_end_matches('0').to_owned(),
    }
}

/// As Go writes durations, which is what readers of this expect: `1h0m0s`, `5m0s`, `1.5s`.
fn go(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let mut text = String::new();
    // Writing to a string can't fail.
    if seconds >= 3600 {
        let _ = write!(text, "{}h", seconds / 3600);
    }
    if seconds >= 60 {
        let _ = write!(text, "{}m", seconds / 60 % 60);
    }
    text.push_str(&decimal(u128::from(seconds % 60), u128::from(duration.subsec_nanos())));
    text.push('s');
    text
}

#[cfg(test)]
mod tests {
    use minke_kubelet::eviction::Signal;

    use super::*;
    use crate::agent::Overrides;

    #[test]
    fn what_counts_is_said_under_upstreams_names() {
        let mut settings = Settings::default();
        settings.eviction.thresholds = vec![
            Threshold::hard(Signal::Memory, ThresholdValue::Quantity(100 << 20)),
            Threshold {
                grace: Some(Duration::from_secs(90)),
                min_reclaim: Some(ThresholdValue::Quantity(5)),
                ..Threshold::hard(
                    Signal::Nodefs,
                    ThresholdValue::Percent(minke_core::resources::Amount::from_units(15)),
                )
            },
        ];
        settings.overrides = Overrides { max_pods: Some(7), ..Overrides::default() };
        settings.node.pod_max_pids = Some(99);
        let node = NodeConfig { provider_id: Some("p://1".to_owned()), ..NodeConfig::new("n", "agent") };
        let shutdown = ShutdownPolicy::periods(Duration::from_secs(60), Duration::from_secs(10)).unwrap();
        let said = configz(&node, &settings, &shutdown, true);
        for (name, expected) in [
            ("maxPods", json!(7)),
            ("podPidsLimit", json!(99)),
            ("providerID", json!("p://1")),
            ("nodeStatusUpdateFrequency", json!("10s")),
            ("nodeStatusReportFrequency", json!("5m0s")),
            ("nodeLeaseDurationSeconds", json!(40)),
            ("imageMinimumGCAge", json!("2m0s")),
            ("imageGCHighThresholdPercent", json!(settings.image_gc.high_percent)),
            ("evictionHard", json!({"memory.available": "104857600"})),
            ("evictionSoft", json!({"nodefs.available": "15%"})),
            ("evictionSoftGracePeriod", json!({"nodefs.available": "1m30s"})),
            ("evictionMinimumReclaim", json!({"nodefs.available": "5"})),
            ("shutdownGracePeriod", json!("1m0s")),
            ("serverTLSBootstrap", json!(true)),
        ] {
            assert_eq!(said[name], expected, "{name}");
        }
        assert_eq!(said.get("containerLogMaxFiles"), None, "nobody said so");
    }

    #[test]
    fn parts_of_a_percent_are_written_as_they_are_read() {
        let percent = minke_core::resources::Amount::parse("7.5").unwrap();
        assert_eq!(text(ThresholdValue::Percent(percent)), "7.5%");
    }

    #[test]
    fn durations_as_go_writes_them() {
        for (millis, text) in
            [(0, "0s"), (1500, "1.5s"), (90_000, "1m30s"), (3_600_000, "1h0m0s"), (3_661_000, "1h1m1s")]
        {
            assert_eq!(go(Duration::from_millis(millis)), text);
        }
    }
}
