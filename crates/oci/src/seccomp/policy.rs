//! From a profile to a program: names become numbers, rules become decisions.

use std::collections::BTreeMap;

use super::bpf::{self, Program};
use super::profile::{Action, ArgTest, Profile, SeccompError};
use super::syscalls;

/// An architecture with a table of system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arch {
    /// x86_64.
    X86_64,
    /// aarch64, little endian.
    Aarch64,
}

impl Arch {
    /// This machine's.
    ///
    /// # Errors
    /// It has no table.
    pub(crate) fn here() -> Result<Self, SeccompError> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Self::X86_64),
            "aarch64" => Ok(Self::Aarch64),
            arch => Err(SeccompError::Architecture { arch }),
        }
    }

    /// The kernel's number for it (`AUDIT_ARCH_*`).
    #[must_use]
    pub(crate) const fn audit(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::Aarch64 => 0xc000_00b7,
        }
    }

    /// Its name in profile files.
    #[must_use]
    pub(crate) const fn go_name(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    pub(super) fn table(self) -> &'static [(&'static str, u32)] {
        match self {
            Self::X86_64 => syscalls::X86_64,
            Self::Aarch64 => syscalls::AARCH64,
        }
    }

    fn number(self, name: &str) -> Option<u32> {
        let table = self.table();
        table.binary_search_by(|(n, _)| (*n).cmp(name)).ok().map(|at| table[at].1)
    }
}

const ENOSYS: u16 = 38;

/// What happens to one system call: the first case whose conditions all hold, else the default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Decision {
    pub(super) cases: Vec<(Vec<ArgTest>, Action)>,
    pub(super) otherwise: Option<Action>,
}

/// Decisions by number, and what happens to all other numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) audit: u32,
    pub(super) decisions: BTreeMap<u32, Decision>,
    pub(super) default: Action,
    /// From this number on calls are younger than the table.
    pub(super) unknown_from: u32,
    /// What happens to those: where the profile forbids by error number, ENOSYS, so that libraries fall back to what
    /// they did before the call existed instead of giving up.
    pub(super) unknown: Action,
}

/// Makes the program for a profile.
///
/// # Errors
/// It is longer than the kernel takes.
pub(crate) fn compile(profile: &Profile, arch: Arch) -> Result<Program, SeccompError> {
    bpf::assemble(&policy(profile, arch), profile.flags)
}

pub(super) fn policy(profile: &Profile, arch: Arch) -> Policy {
    let mut decisions: BTreeMap<u32, Decision> = BTreeMap::new();
    for rule in &profile.rules {
        for number in rule.names.iter().filter_map(|n| arch.number(n)) {
            let decision = decisions.entry(number).or_default();
            if decision.otherwise.is_some() {
                continue;
            }
            if rule.args.is_empty() {
                decision.otherwise = Some(rule.action);
            } else {
                decision.cases.push((rule.args.clone(), rule.action));
            }
        }
    }
    let unknown_from = arch.table().iter().map(|(_, n)| n + 1).max().unwrap_or(0);
    let unknown = match profile.default {
        Action::Errno(_) => Action::Errno(ENOSYS),
        other @ (Action::Allow
        | Action::Log
        | Action::Trap
        | Action::KillThread
        | Action::KillProcess
        | Action::Trace(_)) => other,
    };
    Policy { audit: arch.audit(), decisions, default: profile.default, unknown_from, unknown }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::default_profile;
    use super::*;

    #[test]
    fn tables_are_sorted_and_have_no_number_twice() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            assert!(arch.table().is_sorted_by(|a, b| a.0 < b.0), "{arch:?}");
            let numbers: BTreeSet<u32> = arch.table().iter().map(|e| e.1).collect();
            assert_eq!(numbers.len(), arch.table().len(), "{arch:?}");
        }
    }

    #[test]
    fn the_default_profile_knows_every_name_it_uses() {
        for rule in default_profile(&BTreeSet::new()).rules {
            for name in rule.names {
                assert!(Arch::X86_64.number(&name).or(Arch::Aarch64.number(&name)).is_some(), "{name}");
            }
        }
    }
}
