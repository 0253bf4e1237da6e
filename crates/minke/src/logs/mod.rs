//! Container logs as people see them: lines with whose they are in front ([`show`]). Reading is the kubelet core's.

pub(crate) mod show;

pub(crate) use minke_kubelet::logs::{files, line, reader, tail, window};
