//! What a machine is short of, and who may still come in then.
//!
//! Upstream source: `pkg/kubelet/eviction` (`Admit`). The eviction manager finds the pressure.

use std::fmt;

use k8s_openapi::api::core::v1::{Pod, Toleration};
use minke_core::priority::is_critical;
use minke_core::qos::{QosClass, qos_class};
use serde::{Deserialize, Serialize};

/// A condition of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Pressure {
    /// Memory is short.
    Memory,
    /// Disk space or inodes are short.
    Disk,
    /// Process ids are short.
    Pid,
}

impl Pressure {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Pid];

    /// The node condition's type.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "MemoryPressure",
            Self::Disk => "DiskPressure",
            Self::Pid => "PIDPressure",
        }
    }
}

impl fmt::Display for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why the Pod may not come in now, in upstream's words; `None` when it may. Critical Pods always may; under memory
/// pressure alone, those that ask for anything or tolerate it may as well.
pub(super) fn refused_under(pod: &Pod, pressure: &[Pressure]) -> Option<String> {
    if pressure.is_empty() || is_critical(pod) {
        return None;
    }
    if pressure == [Pressure::Memory] && (qos_class(pod) != QosClass::BestEffort || tolerates_memory_pressure(pod)) {
        return None;
    }
    let names: Vec<&str> = pressure.iter().map(|p| p.as_str()).collect();
    Some(format!("The node had condition: [{}]. ", names.join(" ")))
}

fn tolerates_memory_pressure(pod: &Pod) -> bool {
    const TAINT: &str = "node.kubernetes.io/memory-pressure";
    let tolerates = |t: &Toleration| {
        let key = t.key.as_deref().unwrap_or_default();
        let exists = t.operator.as_deref() == Some("Exists");
        let effect = t.effect.as_deref().unwrap_or_default();
        let fits = key == TAINT && (exists || t.value.as_deref().unwrap_or_default().is_empty());
        (effect.is_empty() || effect == "NoSchedule") && (fits || (key.is_empty() && exists))
    };
    pod.spec.iter().flat_map(|s| s.tolerations.iter().flatten()).any(tolerates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn refused(spec: &Value, pressure: &[Pressure]) -> Option<String> {
        refused_under(&serde_json::from_value(json!({"spec": spec})).unwrap(), pressure)
    }

    #[test]
    fn admit_under_node_conditions() {
        let best_effort = json!({"containers": [{"name": "c"}]});
        let burstable = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]});
        let critical = json!({"containers": [{"name": "c"}], "priority": 2_000_000_000});
        let tolerant = |toleration: &Value| json!({"containers": [{"name": "c"}], "tolerations": [toleration]});
        let said = |names: &str| Some(format!("The node had condition: [{names}]. "));
        for pressure in [&[][..], &[Pressure::Memory], &[Pressure::Disk], &[Pressure::Memory, Pressure::Pid]] {
            assert_eq!(refused(&critical, pressure), None);
        }
        assert_eq!(refused(&best_effort, &[]), None);
        assert_eq!(refused(&best_effort, &[Pressure::Memory]), said("MemoryPressure"));
        assert_eq!(refused(&burstable, &[Pressure::Memory]), None);
        assert_eq!(refused(&burstable, &[Pressure::Disk]), said("DiskPressure"));
        assert_eq!(refused(&burstable, &[Pressure::Memory, Pressure::Pid]), said("MemoryPressure PIDPressure"));
        let memory = "node.kubernetes.io/memory-pressure";
        for (toleration, admitted) in [
            (json!({"key": memory, "operator": "Exists", "effect": "NoSchedule"}), true),
            (json!({"key": memory, "operator": "Exists"}), true),
            (json!({"operator": "Exists"}), true),
            (json!({"key": memory, "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": memory, "operator": "Equal", "value": "x"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
        ] {
            assert_eq!(refused(&tolerant(&toleration), &[Pressure::Memory]).is_none(), admitted, "{toleration}");
            assert!(refused(&tolerant(&toleration), &[Pressure::Disk]).is_some());
        }
    }
}
