//! Control groups: version 1, hybrid (version 1 with an extra unified hierarchy for bookkeeping) and version 2.
//!
//! [`Hierarchies`] is how the machine is set up, found once and handed on; a [`Cgroup`] is one path in all of its
//! hierarchies. Which files hold a limit is [`minke_core::cgroup`]'s; `devices` says which devices a container has (pure);
//! `usage` reads what is used; the rest writes. In a hybrid set-up the unified hierarchy is never used to look anything up:
//! runtimes leave processes at its root.

mod bpf;
mod command;
mod detect;
mod devices;
mod error;
mod group;
mod kill;
mod usage;

pub(crate) use detect::detect;
pub(crate) use devices::{DeviceAccess, DeviceKind, DeviceRule, container_device_rules};
pub(crate) use error::CgroupError;
pub(crate) use group::Cgroup;
pub(crate) use minke_core::cgroup::{Controller, Hierarchies};
