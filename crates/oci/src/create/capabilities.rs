//! Which capabilities a container has. Pure.

use std::collections::BTreeSet;

use minke_core::runtime::ContainerSecurity;

/// What Kubernetes' runtimes give a container that asks for nothing.
const DEFAULT: [&str; 14] = [
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

/// A capability that this kernel or Minke does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a Linux capability; names are as in capabilities(7), without CAP_, for example NET_ADMIN")]
pub(crate) struct UnknownCapability {
    /// As given.
    pub(crate) name: String,
}

/// The capabilities of a container (`CAP_…`): Kubernetes' default ones, or all for a privileged one, with what is
/// added and dropped; a name in both lists is dropped. What this machine itself lacks (`bounding`) is left out
/// silently, as it can't be given by anybody.
///
/// # Errors
/// A name is unknown.
pub(crate) fn resolve(
    security: &ContainerSecurity,
    bounding: &BTreeSet<String>,
) -> Result<BTreeSet<String>, UnknownCapability> {
    let all = || caps::all().into_iter().map(|c| c.to_string()).collect::<BTreeSet<_>>();
    let known = all();
    let parse = |name: &String| {
        let upper = name.to_ascii_uppercase();
        let full = if upper.starts_with("CAP_") { upper } else { format!("CAP_{upper}") };
        if full == "CAP_ALL" || known.contains(&full) {
            Ok(full)
        } else {
            Err(UnknownCapability { name: name.clone() })
        }
    };
    let added = security.capabilities.add.iter().map(parse).collect::<Result<BTreeSet<_>, _>>()?;
    let dropped = security.capabilities.drop.iter().map(parse).collect::<Result<BTreeSet<_>, _>>()?;
    let mut set = if security.privileged || added.contains("CAP_ALL") {
        all()
    } else {
        DEFAULT.iter().map(|c| (*c).to_owned()).collect()
    };
    if security.privileged {
        return Ok(set.intersection(bounding).cloned().collect());
    }
    if dropped.contains("CAP_ALL") {
        set.clear();
    }
    set.extend(added);
    set.retain(|c| c != "CAP_ALL" && !dropped.contains(c) && bounding.contains(c));
    Ok(set)
}

#[cfg(test)]
mod tests {
    use minke_core::runtime::CapabilityChanges;
    use proptest::prelude::*;

    use super::*;

    fn everything() -> BTreeSet<String> {
        caps::all().into_iter().map(|c| c.to_string()).collect()
    }

    fn set(add: &[&str], drop: &[&str]) -> BTreeSet<String> {
        let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        let capabilities = CapabilityChanges { add: owned(add), drop: owned(drop) };
        resolve(&ContainerSecurity { capabilities, ..ContainerSecurity::default() }, &everything()).unwrap()
    }

    #[test]
    fn default_add_and_drop() {
        assert_eq!(set(&[], &[]).len(), 14);
        assert!(set(&["NET_ADMIN"], &[]).contains("CAP_NET_ADMIN"));
        assert!(set(&["cap_net_admin"], &[]).contains("CAP_NET_ADMIN"));
        assert!(!set(&[], &["KILL"]).contains("CAP_KILL"));
        assert_eq!(set(&[], &["ALL"]), BTreeSet::new());
        assert_eq!(set(&["NET_BIND_SERVICE"], &["ALL"]), BTreeSet::from(["CAP_NET_BIND_SERVICE".to_owned()]));
        assert_eq!(set(&["ALL"], &[]), everything());
        assert!(!set(&["ALL"], &["SYS_ADMIN"]).contains("CAP_SYS_ADMIN"));
        assert!(!set(&["KILL"], &["KILL"]).contains("CAP_KILL"));
    }

    #[test]
    fn an_unknown_name_is_an_error_with_the_name() {
        let capabilities = CapabilityChanges { add: vec!["NETADMIN".into()], drop: vec![] };
        let security = ContainerSecurity { capabilities, ..ContainerSecurity::default() };
        let error = resolve(&security, &everything()).unwrap_err();
        assert!(error.to_string().contains("NETADMIN"));
    }

    proptest! {
        #[test]
        fn never_more_than_the_machine_has(
            bounding in proptest::sample::subsequence(everything().into_iter().collect::<Vec<_>>(), 0..41),
            add in proptest::sample::subsequence(everything().into_iter().chain(["ALL".into()]).collect::<Vec<_>>(), 0..6),
            privileged: bool,
        ) {
            let bounding: BTreeSet<String> = bounding.into_iter().collect();
            let capabilities = CapabilityChanges { add, drop: vec![] };
            let security = ContainerSecurity { privileged, capabilities, ..ContainerSecurity::default() };
            prop_assert!(resolve(&security, &bounding).unwrap().is_subset(&bounding));
        }
    }
}
