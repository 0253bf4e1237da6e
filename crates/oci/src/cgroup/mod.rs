//! Control groups: version 1, hybrid (version 1 with an extra unified hierarchy for bookkeeping) and version 2.
//!
//! [`Hierarchies`] is how the machine is set up, found once and handed on; a [`Cgroup`] is one path in all of its
//! hierarchies. `plan` turns limits into files to write (pure); `usage` reads what is used; the rest writes. In a hybrid set-up the unified
//! hierarchy is never used to look anything up: runtimes leave processes at its root.

mod bpf;
mod command;
mod detect;
mod error;
mod group;
mod kill;
mod plan;
mod usage;

pub(crate) use detect::{Controller, Hierarchies};
pub(crate) use error::CgroupError;
pub(crate) use group::Cgroup;
pub(crate) use plan::{DeviceAccess, DeviceKind, DeviceRule, container_device_rules};
