//! Keeps the last addresses of a Pod whose network is gone: the API still shows them.

use std::net::IpAddr;

use minke_core::runtime::PodRuntimeStatus;

/// The addresses to cache with `new`, when `cached` was there before. An empty list is believed only while a sandbox
/// is ready (then the Pod has the host's network).
#[must_use]
pub fn preserve_ips(new: &PodRuntimeStatus, cached: &[IpAddr]) -> Vec<IpAddr> {
    if !new.ips.is_empty() || new.has_ready_sandbox() { new.ips.clone() } else { cached.to_vec() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use minke_core::identity::{PodKey, PodUid};
    use minke_core::runtime::{NamespaceOptions, SandboxId, SandboxInfo, SandboxState, SandboxStatus};

    use super::*;

    fn status(state: SandboxState, ips: &[IpAddr]) -> PodRuntimeStatus {
        let uid = PodUid::new("a").unwrap();
        let pod = PodKey::new("default", "a", uid.clone());
        let created_at = Timestamp::UNIX_EPOCH;
        let sandbox = SandboxStatus {
            info: SandboxInfo { id: SandboxId("s".into()), pod, attempt: 0, state, created_at },
            ips: ips.to_vec(),
            namespaces: NamespaceOptions::default(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        };
        PodRuntimeStatus { sandboxes: vec![sandbox], ips: ips.to_vec(), ..PodRuntimeStatus::empty(uid) }
    }

    #[test]
    fn test_evented_pleg_get_pod_ips() {
        let (ready, dead) = (SandboxState::Ready, SandboxState::NotReady);
        let old: Vec<IpAddr> = vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let new: Vec<IpAddr> = vec!["10.0.0.2".parse().unwrap()];
        for (name, state, found, cached, kept) in [
            ("new addresses win", ready, &new[..], &old[..], &new[..]),
            ("none with a ready sandbox is believed", ready, &[], &old, &[]),
            ("none before and now", dead, &[], &[], &[]),
            ("none without a ready sandbox: the old ones", dead, &[], &old, &old),
        ] {
            assert_eq!(preserve_ips(&status(state, found), cached), kept, "{name}");
        }
    }
}
