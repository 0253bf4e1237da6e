//! Security contexts of Pods and containers.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext,
};

use super::error::Errors;
use super::names::{local_path, sysctl_name};
use super::path::FieldPath;
use super::pod::one_of;

const ID_RANGE: &str = "must be between 0 and 2147483647, inclusive";

fn id(errors: &mut Errors, id: Option<i64>, path: &FieldPath) {
    if let Some(id) = id
        && !(0..=i64::from(i32::MAX)).contains(&id)
    {
        errors.invalid(path, id, ID_RANGE);
    }
}

pub(crate) fn pod_security(errors: &mut Errors, spec: &PodSpec, path: &FieldPath) {
    let Some(context) = &spec.security_context else { return };
    id(errors, context.run_as_user, &path.field("runAsUser"));
    id(errors, context.run_as_group, &path.field("runAsGroup"));
    id(errors, context.fs_group, &path.field("fsGroup"));
    for (i, group) in context.supplemental_groups.iter().flatten().enumerate() {
        id(errors, Some(*group), &path.field("supplementalGroups").index(i));
    }
    let policy = context.fs_group_change_policy.as_deref();
    one_of(errors, policy, &["Always", "OnRootMismatch"], &path.field("fsGroupChangePolicy"));
    let policy = context.supplemental_groups_policy.as_deref();
    one_of(errors, policy, &["Merge", "Strict"], &path.field("supplementalGroupsPolicy"));
    seccomp(errors, context.seccomp_profile.as_ref(), &path.field("seccompProfile"));
    app_armor(errors, context.app_armor_profile.as_ref(), &path.field("appArmorProfile"));
    sysctls(errors, context, spec, &path.field("sysctls"));
    // Only what the Pod says by itself: containers may say otherwise, and are looked at one by one.
    let every_container_says_otherwise = spec.containers.iter().chain(spec.init_containers.iter().flatten()).all(|c| {
        c.security_context.as_ref().is_some_and(|s| s.run_as_user.is_some() || s.run_as_non_root == Some(false))
    });
    if !every_container_says_otherwise {
        non_root(errors, context.run_as_non_root, context.run_as_user, &path.field("runAsUser"));
    }
}

fn non_root(errors: &mut Errors, non_root: Option<bool>, user: Option<i64>, path: &FieldPath) {
    if non_root == Some(true) && user == Some(0) {
        errors.invalid(path, 0i64, "must not be 0 when `runAsNonRoot` is true");
    }
}

fn sysctls(errors: &mut Errors, context: &PodSecurityContext, spec: &PodSpec, path: &FieldPath) {
    let mut names = HashSet::new();
    for (i, sysctl) in context.sysctls.iter().flatten().enumerate() {
        let at = path.index(i).field("name");
        let dotted = sysctl.name.replace('/', ".");
        if sysctl.name.is_empty() {
            errors.required(&at, "");
        } else if let Some(problem) = sysctl_name(&sysctl.name) {
            errors.invalid(&at, &sysctl.name, problem);
        } else if !names.insert(dotted.clone()) {
            errors.duplicate(&at, &sysctl.name);
        }
        if spec.host_network == Some(true) && dotted.starts_with("net.") {
            errors.invalid(&at, &sysctl.name, "may not be specified when 'hostNetwork' is true");
        }
        let ipc = ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."];
        if spec.host_ipc == Some(true) && ipc.iter().any(|prefix| dotted.starts_with(prefix)) {
            errors.invalid(&at, &sysctl.name, "may not be specified when 'hostIPC' is true");
        }
    }
}

fn seccomp(errors: &mut Errors, profile: Option<&SeccompProfile>, path: &FieldPath) {
    if let Some(profile) = profile {
        profile_rules(errors, &profile.type_, profile.localhost_profile.as_deref(), path);
        if let Some(file) = profile.localhost_profile.as_deref()
            && let Some(problem) = local_path(file)
        {
            errors.invalid(&path.field("localhostProfile"), file, problem);
        }
    }
}

fn app_armor(errors: &mut Errors, profile: Option<&AppArmorProfile>, path: &FieldPath) {
    if let Some(profile) = profile {
        profile_rules(errors, &profile.type_, profile.localhost_profile.as_deref(), path);
    }
}

/// A profile has a name exactly when it is one of this host's.
fn profile_rules(errors: &mut Errors, kind: &str, localhost: Option<&str>, path: &FieldPath) {
    if kind.is_empty() {
        errors.required(&path.field("type"), "");
        return;
    }
    one_of(errors, Some(kind), &["Localhost", "RuntimeDefault", "Unconfined"], &path.field("type"));
    match (kind, localhost) {
        ("Localhost", None | Some("")) => {
            errors.required(&path.field("localhostProfile"), "must be set when type is Localhost");
        }
        ("Localhost", Some(_)) | (_, None) => {}
        (_, Some(file)) => {
            errors.invalid(&path.field("localhostProfile"), file, "can only be set when type is Localhost");
        }
    }
}

pub(crate) fn container_security(errors: &mut Errors, container: &Container, spec: &PodSpec, path: &FieldPath) {
    let Some(context) = &container.security_context else { return };
    id(errors, context.run_as_user, &path.field("runAsUser"));
    id(errors, context.run_as_group, &path.field("runAsGroup"));
    let pod = spec.security_context.as_ref();
    let wants_non_root = context.run_as_non_root.or_else(|| pod.and_then(|pod| pod.run_as_non_root));
    if context.run_as_user.is_some() || context.run_as_non_root.is_some() {
        let user = context.run_as_user.or_else(|| pod.and_then(|pod| pod.run_as_user));
        // Where the Pod says both by itself, it is the Pod's error.
        let said_by_pod = context.run_as_user.is_none() && pod.and_then(|pod| pod.run_as_non_root) == Some(true);
        if !said_by_pod {
            non_root(errors, wants_non_root, user, &path.field("runAsUser"));
        }
    }
    seccomp(errors, context.seccomp_profile.as_ref(), &path.field("seccompProfile"));
    app_armor(errors, context.app_armor_profile.as_ref(), &path.field("appArmorProfile"));
    escalation(errors, context, path);
    proc_mount(errors, context, spec, &path.field("procMount"));
    capabilities(errors, context, &path.field("capabilities"));
}

fn escalation(errors: &mut Errors, context: &SecurityContext, path: &FieldPath) {
    if context.allow_privilege_escalation != Some(false) {
        return;
    }
    let path = path.field("allowPrivilegeEscalation");
    if context.privileged == Some(true) {
        errors.invalid(&path, false, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
    }
    let added = context.capabilities.iter().flat_map(|capabilities| capabilities.add.iter().flatten());
    for capability in added.filter(|capability| bare(capability) == "SYS_ADMIN") {
        let detail = format!("cannot set `allowPrivilegeEscalation` to false and add the capability {capability}");
        errors.invalid(&path, false, &detail);
    }
}

fn proc_mount(errors: &mut Errors, context: &SecurityContext, spec: &PodSpec, path: &FieldPath) {
    let value = context.proc_mount.as_deref();
    one_of(errors, value, &["Default", "Unmasked"], path);
    if value == Some("Unmasked") && spec.host_users != Some(false) {
        errors.invalid(path, "Unmasked", "`hostUsers` must be false to use `Unmasked`");
    }
}

/// Every capability of Linux.
const CAPABILITIES: [&str; 41] = [
    "AUDIT_CONTROL",
    "AUDIT_READ",
    "AUDIT_WRITE",
    "BLOCK_SUSPEND",
    "BPF",
    "CHECKPOINT_RESTORE",
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "IPC_LOCK",
    "IPC_OWNER",
    "KILL",
    "LEASE",
    "LINUX_IMMUTABLE",
    "MAC_ADMIN",
    "MAC_OVERRIDE",
    "MKNOD",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_RAW",
    "PERFMON",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYSLOG",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_CHROOT",
    "SYS_MODULE",
    "SYS_NICE",
    "SYS_PACCT",
    "SYS_PTRACE",
    "SYS_RAWIO",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "WAKE_ALARM",
];

/// A capability without its prefix, in capitals, as runtimes compare them.
fn bare(capability: &str) -> String {
    let upper = capability.to_ascii_uppercase();
    upper.strip_prefix("CAP_").map(str::to_owned).unwrap_or(upper)
}

/// A server lets any name pass; the runtime would fail later.
fn capabilities(errors: &mut Errors, context: &SecurityContext, path: &FieldPath) {
    let Some(capabilities) = &context.capabilities else { return };
    for (list, field) in [(&capabilities.add, "add"), (&capabilities.drop, "drop")] {
        for (i, name) in list.iter().flatten().enumerate() {
            let known = bare(name);
            if known != "ALL" && !CAPABILITIES.contains(&known.as_str()) {
                errors.invalid(&path.field(field).index(i), name, "is not a capability of Linux");
            }
        }
    }
}
