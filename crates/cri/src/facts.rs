//! What is known of the runtime since it was greeted. Pure: from its answers to facts.

use std::collections::{BTreeMap, HashMap};

use crate::api;

/// Who makes cgroups, and so how a Pod's cgroup is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CgroupDriver {
    /// The runtime itself, as directories: `/minke/burstable/pod<uid>`.
    #[default]
    Cgroupfs,
    /// systemd, as slices: `minke-burstable-pod<uid>.slice`.
    Systemd,
}

/// What a runtime handler (RuntimeClass) can do beyond CRI's first version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HandlerFeatures {
    /// Mounts that are read-only all the way down.
    pub recursive_read_only: bool,
    /// User namespaces of Pods.
    pub user_namespaces: bool,
}

/// A runtime as it introduced itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// `containerd`, `cri-o`.
    pub name: String,
    /// As it says, for example `1.7.24~ds1`.
    pub version: String,
    /// Of the runtime, or as it is configured where the runtime can't say.
    pub cgroup_driver: CgroupDriver,
    /// By handler; `""` is the default one. Empty where the runtime does not say.
    pub handlers: BTreeMap<String, HandlerFeatures>,
    /// Its conditions that are not met, in words. Unknown ones are not judged.
    pub unmet: Vec<String>,
    /// The image of sandboxes that it is configured with, where it shows that: containerd before 2.0.
    pub sandbox_image: Option<String>,
    /// Whether it leaves `oom_score_adj` where it is if it can't lower it, where it shows that: containerd.
    pub restricts_oom_score_adj: Option<bool>,
}

impl Facts {
    /// What a handler can do; nothing is taken for granted.
    #[must_use]
    pub fn handler(&self, name: &str) -> HandlerFeatures {
        self.handlers.get(name).copied().unwrap_or_default()
    }

    /// Whether each event reaches one subscriber only: containerd before 2.0 deals them out.
    #[must_use]
    pub fn deals_out_events(&self) -> bool {
        let major = self.version.trim_start_matches('v').split('.').next().and_then(|n| n.parse::<u32>().ok());
        self.name == "containerd" && major.is_some_and(|major| major < 2)
    }
}

/// Puts the answers together. `driver` is what the runtime answered to the question for its cgroup driver, `None` where it
/// does not know the question.
pub(crate) fn facts(version: api::VersionResponse, status: api::StatusResponse, driver: Option<CgroupDriver>) -> Facts {
    let sandbox_image = configured_image(&status.info);
    let restricts_oom_score_adj = configured(&status.info).and_then(|c| c.get("restrictOOMScoreAdj")?.as_bool());
    let cgroup_driver = driver.or_else(|| configured_driver(&status.info)).unwrap_or_default();
    let handlers = status.runtime_handlers.into_iter().map(|handler| {
        let features = handler.features.unwrap_or_default();
        let features = HandlerFeatures {
            recursive_read_only: features.recursive_read_only_mounts,
            user_namespaces: features.user_namespaces,
        };
        (handler.name, features)
    });
    let unmet = status.status.into_iter().flat_map(|s| s.conditions).filter_map(|condition| {
        let known = matches!(condition.r#type.as_str(), "RuntimeReady" | "NetworkReady");
        let words = |c: &api::RuntimeCondition| format!("{} is false: {} {}", c.r#type, c.reason, c.message);
        (known && !condition.status).then(|| words(&condition).trim_end().to_owned())
    });
    Facts {
        name: version.runtime_name,
        version: version.runtime_version,
        cgroup_driver,
        handlers: handlers.collect(),
        unmet: unmet.collect(),
        sandbox_image,
        restricts_oom_score_adj,
    }
}

/// Its configuration, in a verbose status.
fn configured(info: &HashMap<String, String>) -> Option<serde_json::Value> {
    serde_json::from_str(info.get("config")?).ok()
}

/// As its configuration says.
fn configured_image(info: &HashMap<String, String>) -> Option<String> {
    configured(info)?.get("sandboxImage")?.as_str().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// containerd before 2.0 can't be asked for its driver, but shows its configuration in a verbose status.
fn configured_driver(info: &HashMap<String, String>) -> Option<CgroupDriver> {
    let config = configured(info)?;
    let containerd = config.get("containerd")?;
    let runtimes = containerd.get("runtimes")?;
    let default = containerd.get("defaultRuntimeName").and_then(|name| name.as_str()).unwrap_or("runc");
    let systemd = runtimes.get(default)?.get("options")?.get("SystemdCgroup")?.as_bool()?;
    Some(if systemd { CgroupDriver::Systemd } else { CgroupDriver::Cgroupfs })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(name: &str, version: &str) -> api::VersionResponse {
        api::VersionResponse { runtime_name: name.into(), runtime_version: version.into(), ..Default::default() }
    }

    fn condition(kind: &str, status: bool) -> api::RuntimeCondition {
        let (reason, message) = ("Why".to_owned(), "words".to_owned());
        api::RuntimeCondition { r#type: kind.to_owned(), status, reason, message }
    }

    #[test]
    fn unknown_conditions_are_ignored() {
        let conditions = vec![
            condition("RuntimeReady", true),
            condition("NetworkReady", false),
            condition("ContainerdHasNoDeprecationWarnings", false),
        ];
        let status = api::StatusResponse { status: Some(api::RuntimeStatus { conditions }), ..Default::default() };
        assert_eq!(facts(version("x", "1"), status, None).unmet, ["NetworkReady is false: Why words"]);
    }

    #[test]
    fn the_cgroup_driver_is_asked_for_or_read_from_the_configuration() {
        let with = |config: &str| {
            let info = HashMap::from([("config".to_owned(), config.to_owned())]);
            api::StatusResponse { info, ..Default::default() }
        };
        let systemd =
            r#"{"containerd":{"defaultRuntimeName":"r","runtimes":{"r":{"options":{"SystemdCgroup":true}}}}}"#;
        let driver = |status, asked| facts(version("x", "1"), status, asked).cgroup_driver;
        assert_eq!(driver(with(systemd), None), CgroupDriver::Systemd);
        assert_eq!(driver(with(systemd), Some(CgroupDriver::Cgroupfs)), CgroupDriver::Cgroupfs, "its word comes first");
        for nothing in ["{}", "no JSON", r#"{"containerd":{"runtimes":{"runc":{"options":{}}}}}"#] {
            assert_eq!(driver(with(nothing), None), CgroupDriver::Cgroupfs, "{nothing}");
        }
        assert_eq!(driver(api::StatusResponse::default(), None), CgroupDriver::Cgroupfs);
    }

    #[test]
    fn the_image_of_sandboxes_is_read_from_the_configuration() {
        let with = |config: &str| {
            let info = HashMap::from([("config".to_owned(), config.to_owned())]);
            facts(version("x", "1"), api::StatusResponse { info, ..Default::default() }, None).sandbox_image
        };
        assert_eq!(with(r#"{"sandboxImage":"r.example/pause:3.9"}"#).as_deref(), Some("r.example/pause:3.9"));
        for nothing in ["{}", "no JSON", r#"{"sandboxImage":""}"#, r#"{"sandboxImage":7}"#] {
            assert_eq!(with(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn whether_it_restricts_oom_score_adj_is_read_from_the_configuration() {
        let with = |config: &str| {
            let info = HashMap::from([("config".to_owned(), config.to_owned())]);
            facts(version("x", "1"), api::StatusResponse { info, ..Default::default() }, None).restricts_oom_score_adj
        };
        assert_eq!(with(r#"{"restrictOOMScoreAdj":true}"#), Some(true));
        assert_eq!(with(r#"{"restrictOOMScoreAdj":false}"#), Some(false));
        assert_eq!(with("{}"), None);
    }

    #[test]
    fn what_a_handler_can_do_is_not_taken_for_granted() {
        let features = api::RuntimeHandlerFeatures { recursive_read_only_mounts: true, user_namespaces: false };
        let handler = api::RuntimeHandler { name: String::new(), features: Some(features) };
        let status = api::StatusResponse { runtime_handlers: vec![handler], ..Default::default() };
        let facts = facts(version("containerd", "2.1.9"), status, None);
        assert_eq!(facts.handler(""), HandlerFeatures { recursive_read_only: true, user_namespaces: false });
        assert_eq!(facts.handler("other"), HandlerFeatures::default());
    }

    #[test]
    fn containerd_1_deals_its_events_out() {
        for (name, number, deals) in [
            ("containerd", "1.7.24~ds1", true),
            ("containerd", "v1.7.0", true),
            ("containerd", "2.1.9", false),
            ("containerd", "", false),
            ("cri-o", "1.31.0", false),
        ] {
            let facts = facts(version(name, number), api::StatusResponse::default(), None);
            assert_eq!(facts.deals_out_events(), deals, "{name} {number}");
        }
    }
}
