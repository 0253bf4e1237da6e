//! `/etc/hosts` and termination logs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde_json::json;

use super::bed::Bed;
use crate::spec::PodNames;
use crate::volumes::{hosts_content, make_termination_log, tear_down, write_hosts};

fn names(domain: &str) -> PodNames {
    PodNames { hostname: "web".to_owned(), short: "web".to_owned(), domain: domain.to_owned() }
}

const HEAD: &str = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";

#[test]
fn hosts_in_upstreams_layout() {
    let bed = Bed::new(&json!([]));
    let ips = ["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
    assert_eq!(hosts_content(&bed.pod, &names(""), &ips, None), format!("{HEAD}10.0.0.2\tweb\nfd00::2\tweb\n"));
    let with_domain = hosts_content(&bed.pod, &names("s.ns.svc"), &ips[..1], None);
    assert_eq!(with_domain, format!("{HEAD}10.0.0.2\tweb.s.ns.svc\tweb\n"));
}

#[test]
fn aliases_and_the_hosts_own_file() {
    let aliases = json!([{"ip": "192.0.2.9", "hostnames": ["a", "b.example"]}, {"ip": "::9", "hostnames": ["c"]}]);
    let bed = Bed::with(&json!({"hostAliases": aliases}));
    let tail = "\n# Entries added by HostAliases.\n192.0.2.9\ta\tb.example\n::9\tc\n";
    assert_eq!(hosts_content(&bed.pod, &names(""), &[], None), format!("{HEAD}{tail}"));
    let host = hosts_content(&bed.pod, &names(""), &[], Some("127.0.0.1 localhost"));
    assert_eq!(host, format!("# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n{tail}"));
}

#[test]
fn hosts_are_rewritten_in_place() {
    let bed = Bed::new(&json!([]));
    let path = write_hosts(bed.path(), "one").unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    write_hosts(bed.path(), "two").unwrap();
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.ino(), found.permissions().mode() & 0o777), (inode, 0o644));
    assert_eq!(fs::read_to_string(&path).unwrap(), "two");
}

#[test]
fn termination_logs_for_each_attempt() {
    let bed = Bed::new(&json!([]));
    let paths: Vec<_> = (0..3).map(|n| make_termination_log(bed.path(), "c", n).unwrap()).collect();
    assert_eq!(paths.iter().map(|p| p.exists()).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(fs::metadata(&paths[2]).unwrap().permissions().mode() & 0o777, 0o666);
    fs::write(&paths[2], "x").unwrap();
    make_termination_log(bed.path(), "c", 2).unwrap();
    assert_eq!(fs::read_to_string(&paths[2]).unwrap(), "");
    assert!(make_termination_log(bed.path(), "../c", 0).is_err());
    tear_down(bed.path()).unwrap();
    assert!(!paths[2].exists());
}
