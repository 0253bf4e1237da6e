//! Kernel parameters of the network: set where needed, recorded, put back.
//!
//! A parameter outside our own interfaces is recorded with its former value before it is changed. When the last Pod
//! is gone it is put back, unless somebody has changed it since, or has switched on forwarding for the whole machine
//! and so relies on it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::NetworkError;
use super::record::{read_json, remove_file, write_json};

/// Parameters below `/proc/sys`, as paths: interface names may hold dots.
#[derive(Debug, Clone)]
pub(super) struct Sysctls {
    root: PathBuf,
    record: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    before: String,
    after: String,
}

type Changes = BTreeMap<String, Change>;

impl Sysctls {
    pub(super) fn new(record: PathBuf) -> Self {
        Self { root: PathBuf::from("/proc/sys"), record }
    }

    /// The value now; `None` where this kernel has no such parameter.
    pub(super) fn get(&self, key: &str) -> Option<String> {
        fs::read_to_string(self.root.join(key)).ok().map(|value| value.trim().to_owned())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.root.join(key).exists()
    }

    /// Sets a parameter of our own interface, which goes when the interface goes.
    pub(super) fn set_own(&self, key: &str, value: &'static str) -> Result<(), NetworkError> {
        if self.get(key).as_deref() == Some(value) {
            return Ok(());
        }
        self.write(key, value)
    }

    /// Sets a parameter of the machine, records the former value and says so.
    pub(super) fn set(&self, key: &str, value: &'static str) -> Result<(), NetworkError> {
        let Some(before) = self.get(key).filter(|before| before != value) else { return Ok(()) };
        let mut changes = self.changes()?;
        changes
            .entry(key.to_owned())
            .and_modify(|change| value.clone_into(&mut change.after))
            .or_insert_with(|| Change { before: before.clone(), after: value.to_owned() });
        write_json(&self.record, &changes)?;
        self.write(key, value)?;
        tracing::info!(parameter = key, before, after = value, "set a kernel parameter for the pod network");
        Ok(())
    }

    /// Puts everything back that nobody else has touched or relies on.
    pub(super) fn restore(&self) -> Result<(), NetworkError> {
        let changes = self.changes()?;
        for (key, change) in &changes {
            let untouched = self.get(key).as_ref() == Some(&change.after);
            if untouched && !self.relied_on(key, &changes) {
                // An interface that has gone in between has nothing to put back.
                if let Err(error) = fs::write(self.root.join(key), &change.before) {
                    tracing::warn!(parameter = key, %error, "could not put a kernel parameter back");
                }
            }
        }
        remove_file(&self.record)
    }

    /// Whether forwarding was switched on for the whole machine by somebody else.
    fn relied_on(&self, key: &str, changes: &Changes) -> bool {
        let machine = if key.starts_with("net/ipv4/") { FORWARDING_V4 } else { FORWARDING_V6 };
        !changes.contains_key(machine) && self.get(machine).as_deref() == Some("1")
    }

    fn changes(&self) -> Result<Changes, NetworkError> {
        Ok(read_json(&self.record)?.unwrap_or_default())
    }

    fn write(&self, key: &str, value: &'static str) -> Result<(), NetworkError> {
        fs::write(self.root.join(key), value).map_err(|source| NetworkError::Sysctl {
            key: key.to_owned(),
            value,
            source,
        })
    }

    #[cfg(test)]
    fn at(root: &Path, record: PathBuf) -> Self {
        Self { root: root.to_owned(), record }
    }
}

/// Forwarding for the whole machine.
pub(super) const FORWARDING_V4: &str = "net/ipv4/ip_forward";
/// Forwarding for the whole machine.
pub(super) const FORWARDING_V6: &str = "net/ipv6/conf/all/forwarding";

/// What interfaces start with that come later: answers to Pods may arrive there.
const LATER: &str = "default";

/// Lets packets from these interfaces, and from those that come later, be forwarded. IPv4 has a switch for each interface; so has IPv6 since Linux
/// 6.17. Before, IPv6 has only the one for the whole machine, which makes the machine ignore router advertisements:
/// interfaces that use them are told to go on.
pub(super) fn allow_forwarding(
    sysctls: &Sysctls,
    own: &str,
    v4: Option<&[String]>,
    v6: Option<&[String]>,
) -> Result<(), NetworkError> {
    if let Some(uplinks) = v4 {
        sysctls.set_own(&format!("net/ipv4/conf/{own}/forwarding"), "1")?;
        for uplink in uplinks.iter().map(String::as_str).chain([LATER]) {
            sysctls.set(&format!("net/ipv4/conf/{uplink}/forwarding"), "1")?;
        }
    }
    let Some(uplinks) = v6 else { return Ok(()) };
    if sysctls.get(FORWARDING_V6).as_deref() == Some("1") {
        return Ok(());
    }
    let own_switch = format!("net/ipv6/conf/{own}/force_forwarding");
    if sysctls.has(&own_switch) {
        sysctls.set_own(&own_switch, "1")?;
        for uplink in uplinks.iter().map(String::as_str).chain([LATER]) {
            sysctls.set(&format!("net/ipv6/conf/{uplink}/force_forwarding"), "1")?;
        }
        return Ok(());
    }
    for uplink in uplinks {
        let accept = format!("net/ipv6/conf/{uplink}/accept_ra");
        if sysctls.get(&accept).as_deref() == Some("1") {
            sysctls.set(&accept, "2")?;
        }
    }
    sysctls.set(FORWARDING_V6, "1")
}

/// Prepares a Pod's namespace for interfaces to come. Called inside it, before there are any: addresses are usable at
/// once (no duplicate address detection: the addresses are ours to give), and nothing is taken from router
/// advertisements. Without IPv6 in the kernel there is nothing to do.
pub(super) fn prepare_pod() -> std::io::Result<()> {
    let defaults = Path::new("/proc/sys/net/ipv6/conf/default");
    if !defaults.exists() {
        return Ok(());
    }
    for (name, value) in [("disable_ipv6", "0"), ("accept_dad", "0"), ("dad_transmits", "0"), ("accept_ra", "0")] {
        fs::write(defaults.join(name), value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine {
        directory: tempfile::TempDir,
    }

    impl Machine {
        fn new(parameters: &[(&str, &str)]) -> Self {
            let machine = Self { directory: tempfile::tempdir().unwrap() };
            for (key, value) in parameters {
                machine.write(key, value);
            }
            machine
        }

        fn write(&self, key: &str, value: &str) {
            let path = self.directory.path().join("sys").join(key);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value).unwrap();
        }

        fn read(&self, key: &str) -> String {
            fs::read_to_string(self.directory.path().join("sys").join(key)).unwrap().trim().to_owned()
        }

        fn sysctls(&self) -> Sysctls {
            Sysctls::at(&self.directory.path().join("sys"), self.directory.path().join("sysctls.json"))
        }
    }

    const V4: [(&str, &str); 3] = [
        ("net/ipv4/ip_forward", "0\n"),
        ("net/ipv4/conf/minke0/forwarding", "0\n"),
        ("net/ipv4/conf/eth0.7/forwarding", "0\n"),
    ];

    #[test]
    fn ipv4_is_switched_on_by_interface_and_put_back() {
        let machine = Machine::new(&V4);
        allow_forwarding(&machine.sysctls(), "minke0", Some(&["eth0.7".to_owned()]), None).unwrap();
        assert_eq!(machine.read("net/ipv4/conf/minke0/forwarding"), "1");
        assert_eq!(machine.read("net/ipv4/conf/eth0.7/forwarding"), "1");
        assert_eq!(machine.read("net/ipv4/ip_forward"), "0");
        machine.sysctls().restore().unwrap();
        assert_eq!(machine.read("net/ipv4/conf/eth0.7/forwarding"), "0");
        assert!(!machine.directory.path().join("sysctls.json").exists());
    }

    #[test]
    fn what_somebody_else_relies_on_or_has_changed_stays() {
        let machine = Machine::new(&V4);
        allow_forwarding(&machine.sysctls(), "minke0", Some(&["eth0.7".to_owned()]), None).unwrap();
        machine.write("net/ipv4/ip_forward", "1");
        machine.sysctls().restore().unwrap();
        assert_eq!(machine.read("net/ipv4/conf/eth0.7/forwarding"), "1");

        let machine = Machine::new(&[("net/ipv6/conf/all/forwarding", "0"), ("net/ipv6/conf/eth0/accept_ra", "1")]);
        allow_forwarding(&machine.sysctls(), "minke0", None, Some(&["eth0".to_owned()])).unwrap();
        machine.write("net/ipv6/conf/eth0/accept_ra", "0");
        machine.sysctls().restore().unwrap();
        assert_eq!(machine.read("net/ipv6/conf/eth0/accept_ra"), "0");
        assert_eq!(machine.read("net/ipv6/conf/all/forwarding"), "0");
    }

    #[test]
    fn an_old_kernel_keeps_listening_to_router_advertisements() {
        let machine = Machine::new(&[
            ("net/ipv6/conf/all/forwarding", "0"),
            ("net/ipv6/conf/eth0/accept_ra", "1"),
            ("net/ipv6/conf/eth1/accept_ra", "0"),
        ]);
        let uplinks = ["eth0".to_owned(), "eth1".to_owned()];
        allow_forwarding(&machine.sysctls(), "minke0", None, Some(&uplinks)).unwrap();
        assert_eq!(machine.read("net/ipv6/conf/all/forwarding"), "1");
        assert_eq!(machine.read("net/ipv6/conf/eth0/accept_ra"), "2");
        assert_eq!(machine.read("net/ipv6/conf/eth1/accept_ra"), "0");
    }

    #[test]
    fn a_new_kernel_is_switched_on_by_interface() {
        let machine = Machine::new(&[
            ("net/ipv6/conf/all/forwarding", "0"),
            ("net/ipv6/conf/minke0/force_forwarding", "0"),
            ("net/ipv6/conf/eth0/force_forwarding", "0"),
            ("net/ipv6/conf/eth0/accept_ra", "1"),
        ]);
        allow_forwarding(&machine.sysctls(), "minke0", None, Some(&["eth0".to_owned()])).unwrap();
        assert_eq!(machine.read("net/ipv6/conf/all/forwarding"), "0");
        assert_eq!(machine.read("net/ipv6/conf/minke0/force_forwarding"), "1");
        assert_eq!(machine.read("net/ipv6/conf/eth0/force_forwarding"), "1");
        assert_eq!(machine.read("net/ipv6/conf/eth0/accept_ra"), "1");
    }

    #[test]
    fn the_first_former_value_is_the_one_kept() {
        let machine = Machine::new(&[("net/ipv6/conf/eth0/accept_ra", "0")]);
        let sysctls = machine.sysctls();
        sysctls.set("net/ipv6/conf/eth0/accept_ra", "1").unwrap();
        sysctls.set("net/ipv6/conf/eth0/accept_ra", "2").unwrap();
        sysctls.restore().unwrap();
        assert_eq!(machine.read("net/ipv6/conf/eth0/accept_ra"), "0");
    }
}
