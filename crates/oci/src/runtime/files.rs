//! The small files that every container of a sandbox sees.

use std::fmt::Write as _;
use std::fs;
use std::io;

use minke_core::runtime::{DnsConfig, SandboxConfig};

use crate::create::SandboxFiles;
use crate::layout::SandboxDir;

/// Writes them.
pub(super) fn write(dir: &SandboxDir, config: &SandboxConfig) -> io::Result<SandboxFiles> {
    let files = SandboxFiles {
        resolv_conf: dir.file("resolv.conf"),
        hostname: dir.file("hostname"),
        hosts: dir.file("hosts"),
        shm: dir.shm(),
    };
    let resolv_conf = match &config.dns {
        Some(dns) => resolv_conf(dns),
        None => match fs::read_to_string("/etc/resolv.conf") {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(e),
        },
    };
    fs::write(&files.resolv_conf, resolv_conf)?;
    fs::write(&files.hostname, format!("{}\n", config.hostname))?;
    fs::write(&files.hosts, hosts(&config.hostname))?;
    Ok(files)
}

fn resolv_conf(dns: &DnsConfig) -> String {
    let mut text = String::new();
    if !dns.searches.is_empty() {
        let _ = writeln!(text, "search {}", dns.searches.join(" "));
    }
    for server in &dns.servers {
        let _ = writeln!(text, "nameserver {server}");
    }
    if !dns.options.is_empty() {
        let _ = writeln!(text, "options {}", dns.options.join(" "));
    }
    text
}

/// For a container whose kubelet brings no hosts file of its own.
fn hosts(hostname: &str) -> String {
    format!("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t{hostname}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolv_conf_has_the_lines_that_were_asked_for() {
        let dns = DnsConfig {
            servers: vec!["1.2.3.4".into(), "::1".into()],
            searches: vec!["a.b".into(), "c".into()],
            options: vec!["ndots:5".into()],
        };
        assert_eq!(resolv_conf(&dns), "search a.b c\nnameserver 1.2.3.4\nnameserver ::1\noptions ndots:5\n");
        assert_eq!(resolv_conf(&DnsConfig::default()), "");
    }
}
