//! Files that every container gets: `/etc/hosts` and a place for its last words.

use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;

use super::plan::is_plain_name;
use super::{VolumeError, VolumeFailure};
use crate::spec::PodNames;

/// The content of `/etc/hosts` of a Pod, in upstream's layout. With the host's network, `host_file` (the host's own
/// file) is what it begins with.
#[must_use]
pub fn hosts_content(pod: &Pod, names: &PodNames, ips: &[IpAddr], host_file: Option<&str>) -> String {
    let mut text = String::new();
    if let Some(host_file) = host_file {
        text.push_str("# Kubernetes-managed hosts file (host network).\n");
        text.push_str(host_file);
        if !host_file.is_empty() && !host_file.ends_with('\n') {
            text.push('\n');
        }
    } else {
        text.push_str("# Kubernetes-managed hosts file.\n");
        text.push_str("127.0.0.1\tlocalhost\n");
        text.push_str("::1\tlocalhost ip6-localhost ip6-loopback\n");
        text.push_str("fe00::0\tip6-localnet\n");
        text.push_str("fe00::0\tip6-mcastprefix\n");
        text.push_str("fe00::1\tip6-allnodes\n");
        text.push_str("fe00::2\tip6-allrouters\n");
        for ip in ips {
            if names.domain.is_empty() {
                text.push_str(&format!("{ip}\t{}\n", names.short));
            } else {
                text.push_str(&format!("{ip}\t{}.{}\t{}\n", names.short, names.domain, names.short));
            }
        }
    }
    let aliases = pod.spec.iter().flat_map(|s| s.host_aliases.iter().flatten());
    let lines: Vec<String> = aliases
        .map(|alias| format!("{}\t{}\n", alias.ip, alias.hostnames.as_deref().unwrap_or_default().join("\t")))
        .collect();
    if !lines.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
        text.push_str(&lines.concat());
    }
    text
}

/// Writes the Pod's `/etc/hosts` and returns its place on the host. The file is rewritten in place, because
/// containers that run have it mounted. Blocks.
///
/// # Errors
/// The machine refuses.
pub fn write_hosts(pod_directory: &Path, content: &str) -> Result<PathBuf, VolumeError> {
    let path = pod_directory.join("etc-hosts");
    let write = || {
        if fs::read(&path).is_ok_and(|have| have == content.as_bytes()) {
            return Ok(());
        }
        fs::create_dir_all(pod_directory)?;
        fs::write(&path, content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
    };
    write().map_err(|error| VolumeFailure::io("write", path.clone())(error).of("etc-hosts"))?;
    Ok(path)
}

/// Where the termination message of an attempt is on the host.
///
/// # Errors
/// The name could lead elsewhere.
pub fn termination_log_path(pod_directory: &Path, container: &str, attempt: u32) -> Result<PathBuf, VolumeError> {
    if !is_plain_name(container) {
        let failure = VolumeFailure::BadPath { path: container.to_owned(), why: "it is not a container name" };
        return Err(failure.of("termination-log"));
    }
    Ok(pod_directory.join("containers").join(container).join(attempt.to_string()))
}

/// Makes the empty file for the termination message of an attempt, which any user may write. Files of attempts
/// before the last are removed. Blocks.
///
/// # Errors
/// The machine refuses.
pub fn make_termination_log(pod_directory: &Path, container: &str, attempt: u32) -> Result<PathBuf, VolumeError> {
    let path = termination_log_path(pod_directory, container, attempt)?;
    let parent = path.parent().unwrap_or(pod_directory).to_owned();
    let make = || {
        fs::create_dir_all(&parent)?;
        for entry in fs::read_dir(&parent)?.flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            if number.is_some_and(|n| n + 1 < attempt) {
                fs::remove_file(entry.path())?;
            }
        }
        let mut file = fs::File::create(&path)?;
        file.flush()?;
        file.set_permissions(fs::Permissions::from_mode(0o666))
    };
    make().map_err(|error: std::io::Error| VolumeFailure::io("create", path.clone())(error).of("termination-log"))?;
    Ok(path)
}
