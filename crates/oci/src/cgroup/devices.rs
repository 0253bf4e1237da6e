//! Which devices a container may use. Pure.

/// Kind of a device node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceKind {
    /// Character device.
    Char,
    /// Block device.
    Block,
}

/// What may be done with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceAccess {
    /// Open for reading.
    pub(crate) read: bool,
    /// Open for writing.
    pub(crate) write: bool,
    /// Make a node.
    pub(crate) mknod: bool,
}

impl DeviceAccess {
    /// Everything.
    pub(crate) const ALL: Self = Self { read: true, write: true, mknod: true };
    /// Make nodes only.
    pub(crate) const MKNOD: Self = Self { read: false, write: false, mknod: true };

    /// Reads `rwm` letters; others mean nothing.
    #[must_use]
    pub(crate) fn parse(letters: &str) -> Self {
        Self { read: letters.contains('r'), write: letters.contains('w'), mknod: letters.contains('m') }
    }

    pub(super) fn letters(self) -> String {
        [(self.read, 'r'), (self.write, 'w'), (self.mknod, 'm')].iter().filter(|l| l.0).map(|l| l.1).collect()
    }
}

/// A device that a container may use; everything else is forbidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceRule {
    /// Kind.
    pub(crate) kind: DeviceKind,
    /// Major number; `None` is any.
    pub(crate) major: Option<u32>,
    /// Minor number; `None` is any.
    pub(crate) minor: Option<u32>,
    /// What may be done.
    pub(crate) access: DeviceAccess,
}

impl DeviceRule {
    const fn char(major: u32, minor: Option<u32>, access: DeviceAccess) -> Self {
        Self { kind: DeviceKind::Char, major: Some(major), minor, access }
    }

    /// As `devices.allow` of version 1 wants it.
    pub(super) fn v1_line(&self) -> String {
        let number = |n: Option<u32>| n.map_or_else(|| "*".to_owned(), |n| n.to_string());
        let kind = match self.kind {
            DeviceKind::Char => 'c',
            DeviceKind::Block => 'b',
        };
        format!("{kind} {}:{} {}", number(self.major), number(self.minor), self.access.letters())
    }
}

/// What every container may use: nodes can be made of any device but opened only for the harmless ones, the terminals
/// and what the Pod was given. `None` (privileged): no filter.
#[must_use]
pub(crate) fn container_device_rules(privileged: bool, extra: &[DeviceRule]) -> Option<Vec<DeviceRule>> {
    if privileged {
        return None;
    }
    let mut rules = vec![
        DeviceRule { kind: DeviceKind::Char, major: None, minor: None, access: DeviceAccess::MKNOD },
        DeviceRule { kind: DeviceKind::Block, major: None, minor: None, access: DeviceAccess::MKNOD },
        DeviceRule::char(1, Some(3), DeviceAccess::ALL), // null
        DeviceRule::char(1, Some(5), DeviceAccess::ALL), // zero
        DeviceRule::char(1, Some(7), DeviceAccess::ALL), // full
        DeviceRule::char(1, Some(8), DeviceAccess::ALL), // random
        DeviceRule::char(1, Some(9), DeviceAccess::ALL), // urandom
        DeviceRule::char(5, Some(0), DeviceAccess::ALL), // tty
        DeviceRule::char(5, Some(1), DeviceAccess::ALL), // console
        DeviceRule::char(5, Some(2), DeviceAccess::ALL), // ptmx
        DeviceRule::char(136, None, DeviceAccess::ALL),  // pts/*
    ];
    rules.extend_from_slice(extra);
    Some(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_rules_read_as_version_1_lines() {
        let rules = container_device_rules(false, &[]).unwrap();
        let lines: Vec<String> = rules.iter().map(DeviceRule::v1_line).collect();
        assert_eq!(lines[0], "c *:* m");
        assert!(lines.contains(&"c 1:3 rwm".to_owned()) && lines.contains(&"c 136:* rwm".to_owned()));
        assert_eq!(container_device_rules(true, &[]), None);
    }
}
