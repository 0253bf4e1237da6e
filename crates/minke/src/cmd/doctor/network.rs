//! The Pod network: address translation, forwarding, CNI. Pure.

use super::Check;
use super::facts::{Cni, Facts, Tried};

pub(super) fn nat(facts: &Facts) -> Check {
    const NAME: &str = "nf_tables";
    match &facts.nf_tables {
        Tried::Works => Check::ok(NAME, "address translation without other programs"),
        Tried::Refused(why) => {
            let found = format!("no host ports, and no way out of Pods with addresses of their own: {why}");
            Check::warn(
                NAME,
                found,
                "load it (modprobe nf_tables nft_nat nft_masq); Pods with hostNetwork: true don't need it",
            )
        }
        Tried::Unseen(why) => Check::skipped(NAME, why, "run minke doctor as root"),
    }
}

pub(super) fn forwarding(facts: &Facts) -> Check {
    const NAME: &str = "forwarding";
    match facts.forwarding {
        Some(true) => Check::ok(NAME, "IPv4 packets are forwarded"),
        Some(false) => {
            Check::ok(NAME, "off; the built-in bridge turns it on for itself, with the first Pod that needs it")
        }
        None => Check::warn(NAME, "the kernel has no IPv4", "only Pods on the host's network run"),
    }
}

pub(super) fn cni(cni: &Cni) -> Check {
    const NAME: &str = "cni";
    let directory = cni.directory.display();
    match &cni.first {
        None => Check::ok(NAME, format!("no configuration in {directory}: Pods get the built-in bridge")),
        Some((file, Err(why))) => {
            let advice = format!("mend or remove {directory}/{file}; until then Pods may get the built-in bridge");
            Check::warn(NAME, format!("{file} can't be used: {why}"), advice)
        }
        Some((file, Ok(plugins))) if cni.missing.is_empty() => {
            Check::ok(NAME, format!("{file}: {}", plugins.join(", ")))
        }
        Some((file, Ok(_))) => {
            let places: Vec<String> = cni.plugin_directories.iter().map(|d| d.display().to_string()).collect();
            let found = format!("{file} asks for {}, not in {}", cni.missing.join(", "), places.join(", "));
            Check::warn(NAME, found, "install the plugins, name their directory with --cni-bin-dir, or remove the file")
        }
    }
}

/// Who makes `hostPort`s: the built-in bridge, or the plugin of CNI that is there for it.
pub(super) fn ports(facts: &Facts) -> Check {
    const NAME: &str = "ports";
    match &facts.cni.first {
        Some((_, Ok(plugins))) if plugins.iter().any(|plugin| plugin == "portmap") => {
            Check::ok(NAME, "host ports by CNI's portmap")
        }
        Some((file, Ok(_))) => {
            let found = format!("{file} has no portmap: a Pod's hostPort leads nowhere");
            Check::warn(NAME, found, "add portmap to its plugins, with the capability portMappings")
        }
        None | Some((_, Err(_))) => match &facts.nf_tables {
            Tried::Works => Check::ok(NAME, "host ports by the built-in bridge"),
            Tried::Refused(_) => Check::warn(NAME, "no host ports without nf_tables", "see nf_tables"),
            Tried::Unseen(why) => Check::skipped(NAME, why, "run minke doctor as root"),
        },
    }
}

/// The same for a runtime with CRI, which has no bridge of ours.
pub(super) fn cri_ports(cni: &Cni) -> Check {
    const NAME: &str = "cri ports";
    match &cni.first {
        Some((file, Ok(plugins))) if plugins.iter().any(|plugin| plugin == "portmap") => {
            Check::ok(NAME, format!("host ports by CNI's portmap ({file})"))
        }
        Some((file, Ok(_))) => {
            let found = format!("{file} has no portmap: a Pod's hostPort leads nowhere");
            Check::warn(NAME, found, "add portmap to its plugins, with the capability portMappings")
        }
        None | Some((_, Err(_))) => {
            let found = format!("host ports come from CNI, which has no configuration in {}", cni.directory.display());
            let advice = "install one with portmap; Pods with hostNetwork: true need none. Skip this if the runtime is \
                          configured to look elsewhere";
            Check::warn(NAME, found, advice)
        }
    }
}

/// The plugins that a file of CNI asks for; a list of them or a single one.
pub(super) fn plugins(text: &str) -> Result<Vec<String>, String> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let kind = |plugin: &serde_json::Value| plugin["type"].as_str().map(str::to_owned);
    let found: Option<Vec<String>> = match value.get("plugins") {
        Some(list) => list.as_array().and_then(|list| list.iter().map(kind).collect()),
        None => kind(&value).map(|one| vec![one]),
    };
    found.filter(|plugins| !plugins.is_empty()).ok_or_else(|| "it names no plugin".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn what_a_configuration_asks_for() {
        assert_eq!(plugins(r#"{"plugins":[{"type":"bridge"},{"type":"portmap"}]}"#).unwrap(), ["bridge", "portmap"]);
        assert_eq!(plugins(r#"{"type":"ptp"}"#).unwrap(), ["ptp"]);
        for bad in ["{", "{}", r#"{"plugins":[]}"#, r#"{"plugins":[{}]}"#, r#"{"plugins":"bridge"}"#] {
            assert!(plugins(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn host_ports_of_a_runtime_with_cri_are_cnis() {
        let with = |first| Cni { directory: "/etc/cni/net.d".into(), first, ..Cni::default() };
        let file = |plugins: &[&str]| {
            Some(("10-a.conflist".to_owned(), Ok(plugins.iter().map(|name| (*name).to_owned()).collect())))
        };
        assert_eq!(cri_ports(&with(file(&["bridge", "portmap"]))).result, Level::Ok);
        assert_eq!(cri_ports(&with(file(&["bridge"]))).result, Level::Warn);
        let none = cri_ports(&with(None));
        assert_eq!((none.result, none.found.contains("/etc/cni/net.d")), (Level::Warn, true), "{none:?}");
    }

    #[test]
    fn a_configuration_is_whole_or_it_is_told_what_is_missing() {
        let first = |plugins| Some(("10-a.conflist".to_owned(), plugins));
        let cni = |first, missing: &[&str]| Cni {
            directory: "/etc/cni/net.d".into(),
            first,
            plugin_directories: vec!["/opt/cni/bin".into()],
            missing: missing.iter().map(|name| (*name).to_owned()).collect(),
        };
        let bridge = || Ok(vec!["bridge".to_owned()]);
        assert_eq!(super::cni(&cni(None, &[])).result, Level::Ok);
        assert_eq!(super::cni(&cni(first(bridge()), &[])).result, Level::Ok);
        let missing = super::cni(&cni(first(bridge()), &["bridge"]));
        assert_eq!(missing.result, Level::Warn);
        assert!(missing.found.contains("bridge, not in /opt/cni/bin"), "{missing:?}");
        assert_eq!(super::cni(&cni(first(Err("no JSON".to_owned())), &[])).result, Level::Warn);
    }
}
