//! Looks at the machine. Changes nothing, and judges nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minke_core::clock::SystemClock;
use minke_core::runtime::error_chain;
use minke_cri::{CgroupDriver, CriConfig, CriRuntime, Endpoint, WELL_KNOWN};
use minke_kubelet::eviction::Level;
use minke_oci::network::CniConfig;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, FsWord, access, statfs, statvfs};
use rustix::mount::{FsOpenFlags, fsopen};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

use super::facts::{Agent, Cgroups, Cni, Disk, Facts, Greeted, Socket, Tried};
use super::network::plugins;
use crate::backend::{Backend, Wanted};
use crate::client::Client;
use crate::place::Place;

/// `OVERLAYFS_SUPER_MAGIC`.
const OVERLAY: FsWord = 0x794c_7630;

/// Everything that is judged.
pub(super) async fn look(client: &Client) -> Facts {
    let root = rustix::process::geteuid().is_root();
    Facts {
        root,
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        capabilities: capabilities(&read("/proc/self/status").unwrap_or_default()),
        cgroups: cgroups(&read("/proc/self/mountinfo").unwrap_or_default()),
        overlay: if root { overlay() } else { Tried::Unseen("only root may ask for an overlay".to_owned()) },
        namespaces: names(Path::new("/proc/self/ns")),
        namespace_limits: numbers(Path::new("/proc/sys/user")),
        seccomp: read("/proc/sys/kernel/seccomp/actions_avail"),
        nf_tables: if root { nf_tables() } else { Tried::Unseen("only root may ask nf_tables".to_owned()) },
        forwarding: read("/proc/sys/net/ipv4/ip_forward").map(|text| text.trim() == "1"),
        cni: cni(client.place()),
        inotify: (number("/proc/sys/fs/inotify/max_user_instances"), number("/proc/sys/fs/inotify/max_user_watches")),
        disk: disk(&client.place().state),
        agent: agent(client).await,
        cri: matches!(backend(client.place()), Some(Wanted::Cri(_))),
        sockets: sockets(backend(client.place())).await,
    }
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn number(path: impl AsRef<Path>) -> Option<u64> {
    read(path)?.trim().parse().ok()
}

/// The names of a directory's entries, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The files of a directory that hold a number.
fn numbers(directory: &Path) -> BTreeMap<String, u64> {
    names(directory).into_iter().filter_map(|name| Some((name.clone(), number(directory.join(name))?))).collect()
}

/// The effective set in `/proc/self/status`.
fn capabilities(status: &str) -> Option<u64> {
    let text = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(text.trim(), 16).ok()
}

/// Mounted hierarchies, from `/proc/self/mountinfo`.
fn cgroups(mountinfo: &str) -> Cgroups {
    let mut found = Cgroups::default();
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let Some(mount) = left.split(' ').nth(4).map(PathBuf::from) else { continue };
        let mut right = right.split(' ');
        match (right.next(), right.nth(1)) {
            (Some("cgroup2"), _) if found.v2.is_none() => {
                let text = read(mount.join("cgroup.controllers")).unwrap_or_default();
                found.v2 = Some(text.split_whitespace().map(str::to_owned).collect());
            }
            (Some("cgroup"), Some(options)) => {
                let controllers = options.split(',').filter(|o| !o.contains('=') && !["rw", "ro"].contains(o));
                let controllers = controllers.filter(|o| !["xattr", "clone_children", "noprefix"].contains(o));
                found.v1.extend(controllers.map(str::to_owned));
            }
            _ => continue,
        }
        if access(&mount, Access::WRITE_OK).is_err() {
            found.read_only = found.read_only.or(Some(mount));
        }
    }
    found
}

/// Asks for an overlay and drops it: nothing is mounted.
fn overlay() -> Tried {
    match fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC) {
        Ok(_) => Tried::Works,
        Err(errno) => Tried::Refused(io::Error::from(errno).to_string()),
    }
}

/// Asks nf_tables for the number of its current generation.
fn nf_tables() -> Tried {
    ask_nf_tables().unwrap_or_else(|error| Tried::Refused(error.to_string()))
}

fn ask_nf_tables() -> io::Result<Tried> {
    /// `NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN`.
    const GET_GENERATION: u16 = (10 << 8) | 16;
    const REQUEST: u16 = 1;
    const ERROR: u16 = 2;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::NETFILTER))?;
    // Header: length, type, flags, sequence, port. Then: family, version, resource.
    let mut message = 20_u32.to_ne_bytes().to_vec();
    message.extend(GET_GENERATION.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 12]);
    send(&socket, &message, SendFlags::empty())?;
    let patience = Timespec { tv_sec: 2, tv_nsec: 0 };
    if poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&patience))? == 0 {
        return Ok(Tried::Refused("no answer".to_owned()));
    }
    let mut answer = [0; 4096];
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    let kind = answer.get(4..6).map(|bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
    let code = answer.get(16..20).map(|bytes| i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    match (kind, code) {
        (Some(ERROR), Some(code)) if length >= 20 && code != 0 => {
            Ok(Tried::Refused(io::Error::from_raw_os_error(-code).to_string()))
        }
        _ => Ok(Tried::Works),
    }
}

/// As the network does it: the first file by name counts.
fn cni(place: &Place) -> Cni {
    let config = CniConfig::default();
    let plugin_directories = place.cni_plugins.clone().map_or(config.bin_dirs, |one| vec![one]);
    let known =
        |name: &&String| Path::new(name).extension().is_some_and(|e| e == "conflist" || e == "conf" || e == "json");
    let first = names(&place.cni).iter().find(known).map(|name| {
        let text = fs::read_to_string(place.cni.join(name)).map_err(|error| error.to_string());
        (name.clone(), text.and_then(|text| plugins(&text)))
    });
    let absent = |plugin: &&String| !plugin_directories.iter().any(|dir| dir.join(plugin).is_file());
    let asked = first.iter().flat_map(|(_, plugins)| plugins.as_deref().unwrap_or_default());
    let missing = asked.filter(absent).cloned().collect();
    Cni { directory: place.cni.clone(), first, plugin_directories, missing }
}

/// The disk on which the state directory is, or will be.
fn disk(state: &Path) -> Option<Disk> {
    let directory = state.ancestors().find(|path| path.is_dir())?.to_owned();
    let stat = statvfs(&directory).ok()?;
    let overlay = statfs(&directory).ok()?.f_type == OVERLAY;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Some(Disk {
        directory,
        bytes: Level { available: bytes(stat.f_bavail), capacity: bytes(stat.f_blocks) },
        inodes: Level { available: stat.f_favail, capacity: stat.f_files },
        overlay,
    })
}

/// The runtime that is asked for, else that of the instance.
fn backend(place: &Place) -> Option<Wanted> {
    place.backend.clone().or_else(|| match Backend::remembered(&place.state)? {
        Backend::Embedded => Some(Wanted::Embedded),
        Backend::Cri(endpoint) => Some(Wanted::Cri(Some(endpoint))),
    })
}

/// Greets the runtime that Pods are to run by, else those that are where they usually are.
async fn sockets(wanted: Option<Wanted>) -> Vec<Socket> {
    let known = WELL_KNOWN.into_iter().filter(|path| Path::new(path).exists()).filter_map(|p| Endpoint::parse(p).ok());
    let endpoints: Vec<Endpoint> = match wanted {
        Some(Wanted::Cri(Some(endpoint))) => vec![endpoint],
        Some(Wanted::Cri(None)) => match Endpoint::find() {
            Ok(endpoint) => vec![endpoint],
            Err(error) => return vec![Socket { endpoint: String::new(), greeted: Err(error_chain(&error)) }],
        },
        None | Some(Wanted::Embedded) => known.collect(),
    };
    let mut seen = Vec::new();
    for endpoint in endpoints {
        seen.push(Socket { endpoint: endpoint.to_string(), greeted: greet(endpoint).await });
    }
    seen
}

async fn greet(endpoint: Endpoint) -> Result<Greeted, String> {
    let opened = CriRuntime::open(CriConfig { endpoint }, Arc::new(SystemClock)).await;
    let runtime = opened.map_err(|error| error_chain(&error))?;
    let facts = runtime.facts();
    Ok(Greeted {
        name: facts.name.clone(),
        version: facts.version.clone(),
        systemd: facts.cgroup_driver == CgroupDriver::Systemd,
        unmet: facts.unmet.clone(),
        restricts_oom_score_adj: facts.restricts_oom_score_adj,
        sandbox_image: runtime.sandbox_image().await.map_err(|error| error_chain(&error))?,
    })
}

async fn agent(client: &Client) -> Agent {
    let path = client.place().agent_lock();
    let holder = match fs::metadata(&path) {
        Ok(file) => holder(&read("/proc/locks").unwrap_or_default(), file.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Agent::Unseen(format!("{} can't be seen: {error}", path.display())),
    };
    match (client.greet_running().await, holder) {
        (Ok(Some(connection)), _) => {
            let (pid, version) = (connection.agent().pid, connection.agent().version.clone());
            Agent::Answers { pid, version, own: env!("CARGO_PKG_VERSION").to_owned() }
        }
        (Ok(None), None) => Agent::None,
        (Ok(None), Some(pid)) => {
            Agent::Silent { pid, why: format!("nobody listens at {}", client.place().socket().display()) }
        }
        (Err(error), Some(pid)) => Agent::Silent { pid, why: error_chain(&error) },
        (Err(error), None) => Agent::Unseen(error_chain(&error)),
    }
}

/// Who holds a lock on the file with this inode, from `/proc/locks`: `Some(None)` if that process can't be seen from here.
fn holder(locks: &str, inode: u64) -> Option<Option<u32>> {
    let end = format!(":{inode}");
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // `1: FLOCK ADVISORY WRITE 1234 fe:00:5678 0 EOF`; waiters have an arrow in front.
        let [_, "FLOCK", _, "WRITE", pid, file, ..] = fields.as_slice() else { return None };
        file.ends_with(&end).then(|| pid.parse().ok().filter(|pid| *pid > 0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_as_the_kernel_writes_them() {
        let status = "CapPrm:\t0000000000000000\nCapEff:\t000001fffeffffff\nCapBnd:\t0\n";
        assert_eq!(capabilities(status), Some(0x1ff_feff_ffff));
        assert_eq!(capabilities("CapEff:\tjunk\n"), None);
        assert_eq!(capabilities(""), None);
    }

    #[test]
    fn mounted_hierarchies_are_found() {
        let v1 = "30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:10 - cgroup cgroup rw,cpu,cpuacct\n\
                  31 25 0:27 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,name=systemd\n";
        assert_eq!(cgroups(v1).v1, ["cpu", "cpuacct"]);
        assert_eq!(cgroups(v1).v2, None);
        let v2 = "30 25 0:26 / /no/such/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!((cgroups(v2).v1, cgroups(v2).v2), (vec![], Some(vec![])));
        assert_eq!(cgroups(v2).read_only, Some("/no/such/cgroup".into()));
        assert_eq!(cgroups("junk\n"), Cgroups::default());
    }

    #[test]
    fn the_holder_of_a_lock_is_found_by_inode() {
        let locks = "1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 99 fe:00:5678 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 7 fe:00:91 0 EOF\n3: FLOCK  ADVISORY  WRITE 0 fe:00:92 0 EOF\n";
        assert_eq!(holder(locks, 5678), Some(Some(1234)));
        assert_eq!(holder(locks, 678), None);
        assert_eq!(holder(locks, 91), None);
        assert_eq!(holder(locks, 92), Some(None));
    }

    #[test]
    fn a_directory_to_come_is_on_the_disk_of_what_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let found = disk(&directory.path().join("not/yet")).unwrap();
        assert_eq!(found.directory, directory.path());
        assert!(found.bytes.capacity >= found.bytes.available);
    }
}
