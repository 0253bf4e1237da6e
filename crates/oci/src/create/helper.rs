//! The helper: a child of the shim that creates one container and exits.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use caps::CapSet;
use libcontainer::container::builder::ContainerBuilder;
use libcontainer::syscall::syscall::SyscallType;
use minke_core::runtime::{LinuxResources, NamespaceMode, NamespaceOptions, SeccompProfile};
use serde::{Deserialize, Serialize};

use super::executor::{Exec, Plan};
use super::passwd::{identify, read_inside};
use super::process::Process;
use super::rootfs::{self, Rootfs};
use super::spec::{self, DeviceNode, Facts};
use super::{CreateRequest, SandboxFacts, capabilities, command, mounts, oom};
use crate::cgroup::{Cgroup, DeviceAccess, Hierarchies, container_device_rules};
use crate::seccomp;
use crate::shim::protocol::{Refusal, RefusalKind};

/// What the shim learns of a created container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Created {
    /// The init process, in the shim's terms.
    pub(crate) pid: i32,
    /// What its processes share.
    pub(crate) process: Process,
}

/// Why a container could not be created.
pub(crate) type HelperError = Refusal;

/// The ends of pipes that the container's first process gets.
#[derive(Debug)]
pub(crate) struct Stdio {
    /// Standard input; `None` is `/dev/null`.
    pub(crate) stdin: Option<OwnedFd>,
    /// Standard output and error; `None` with a terminal.
    pub(crate) output: Option<(OwnedFd, OwnedFd)>,
    /// Takes the reason when its program can't be executed.
    pub(crate) report: OwnedFd,
}

/// Creates a container; its init waits for the start signal. Only for a process of its own with one thread: mount
/// namespace, score, groups and more of the caller are changed.
///
/// # Errors
/// In words, with the kind that the agent needs to tell people what to do.
pub(crate) fn create(
    request: &CreateRequest,
    sandbox: &SandboxFacts,
    namespaces: &Path,
    stdio: Stdio,
) -> Result<Created, HelperError> {
    let invalid = |e: &dyn std::error::Error| Refusal::new(RefusalKind::Invalid, error_text(e));
    let failed = |e: &dyn std::error::Error| Refusal::new(RefusalKind::Failed, error_text(e));
    let io = |what: &'static str| move |e: io::Error| Refusal::new(kind_of(&e), format!("can't {what}: {e}"));

    let config = &request.config;
    let security = &config.security;
    let args = command::arguments(config, &request.image).ok_or_else(|| {
        let text = "no command specified: neither the manifest (command, args) nor the image (ENTRYPOINT, CMD) has one";
        Refusal::new(RefusalKind::Invalid, text)
    })?;

    // The shim's own groups must not reach the container, and libcontainer leaves them when there are none to set.
    rustix::thread::set_thread_groups(&[]).map_err(|e| io("drop groups")(e.into()))?;
    make_private(&request.bundle).map_err(io("make the bundle directory"))?;
    let bounding: BTreeSet<String> =
        caps::read(None, CapSet::Bounding).map_err(|e| failed(&e))?.into_iter().map(|c| c.to_string()).collect();
    let capabilities = capabilities::resolve(security, &bounding).map_err(|e| invalid(&e))?;
    let filter = filter(request, &capabilities)?;

    let cgroup_path = format!("{}/{}", sandbox.cgroup.trim_end_matches('/'), request.id);
    let cgroup = Cgroup::new(&sandbox.hierarchies, &cgroup_path);
    let on_cgroup = |e: crate::cgroup::CgroupError| {
        let kind = if e.is_not_permitted() { RefusalKind::NotPermitted } else { RefusalKind::Failed };
        Refusal::new(kind, error_text(&e))
    };
    let limits = LinuxResources { oom_score_adj: None, ..config.resources.clone() };
    cgroup.create(&limits).map_err(on_cgroup)?;
    let joined = open_namespaces(&sandbox.namespaces, namespaces).map_err(io("open the Pod's namespaces"))?;
    let user = joined.get("user");
    let Rootfs { path: root, volumes, files, cgroups } = rootfs::mount(request, sandbox, &cgroup_path, user)
        .map_err(|e| Refusal::new(kind_of_chain(&e), error_text(&e)))?;
    let root_fd = File::open(&root).map_err(io("open the root file system"))?;
    let passwd = read_inside(&root_fd, "etc/passwd").map_err(io("read the image's /etc/passwd"))?;
    let group = read_inside(&root_fd, "etc/group").map_err(io("read the image's /etc/group"))?;
    let identity = identify(security, request.image.user.as_deref(), &passwd, &group).map_err(|e| invalid(&e))?;

    let devices = devices(request).map_err(io("read the host's devices"))?;
    let rules: Vec<_> = devices.iter().map(DeviceNode::rule).collect();
    if let Some(rules) = container_device_rules(security.privileged, &rules) {
        cgroup.restrict_devices(&rules).map_err(on_cgroup)?;
    }
    // The shim's own score is the lowest that it could get, and would be inherited.
    let score = config.resources.oom_score_adj.unwrap_or(0);
    oom::adjust(score).map_err(io("set oom_score_adj"))?;

    let owner = host_id(sandbox, identity.uid);
    if let Some((stdout, stderr)) = &stdio.output {
        for pipe in [Some(stdout), Some(stderr), stdio.stdin.as_ref()].into_iter().flatten() {
            // A program that opens /dev/stdout needs the pipe to be its own.
            let owner = rustix::fs::Uid::from_raw(owner);
            rustix::fs::fchown(pipe, Some(owner), None).map_err(|e| io("give away a pipe")(e.into()))?;
        }
    }

    let facts = Facts {
        mounts: mounts::mounts(config, sandbox, &files, &volumes),
        devices,
        // By descriptor: from inside a user namespace the holder's own files could not be opened.
        namespaces: joined.iter().map(|(n, f)| (*n, format!("/proc/self/fd/{}", f.as_raw_fd()).into())).collect(),
        cgroup: cgroup_path,
        identity: identity.clone(),
        root,
    };
    let spec = spec::build(config, &sandbox.namespaces, &facts).map_err(|e| invalid(&e))?;
    let file = request.bundle.join("config.json");
    let text = serde_json::to_vec(&spec).map_err(|e| failed(&e))?;
    write_private(&file, &text).map_err(io("write the bundle"))?;

    let cwd = config.working_dir.clone().or_else(|| request.image.working_dir.clone()).unwrap_or_else(|| "/".into());
    let process = Process {
        env: command::environment(config, &request.image, &sandbox.hostname, &identity.home),
        cwd: Path::new("/").join(cwd),
        uid: identity.uid,
        gid: identity.gid,
        groups: identity.groups,
        capabilities,
        no_new_privileges: security.no_new_privileges,
        seccomp: filter,
        oom_score_adj: score,
    };
    let report = File::from(stdio.report);
    let plan = Plan { args, process: process.clone(), tty: config.tty, cgroups, report };
    if joins_early(sandbox, &config.resources) {
        cgroup.join().map_err(on_cgroup)?;
        // A privileged container gets the machine's tree, which must be there to be mounted.
        if !security.privileged {
            rootfs::hide_cgroups().map_err(|e| Refusal::new(kind_of_chain(&e), error_text(&e)))?;
        }
    }
    let pid = build(request, plan, stdio.stdin, stdio.output)?;
    Ok(Created { pid, process })
}

fn build(
    request: &CreateRequest,
    plan: Plan,
    stdin: Option<OwnedFd>,
    output: Option<(OwnedFd, OwnedFd)>,
) -> Result<i32, HelperError> {
    let failed = |e: libcontainer::error::LibcontainerError| {
        Refusal::new(kind_of_chain(&e), format!("can't create the container: {}", error_text(&e)))
    };
    let tty = request.config.tty;
    let mut builder = ContainerBuilder::new(request.id.0.clone(), SyscallType::Linux)
        .with_root_path(request.bundle.join("oci"))
        .map_err(failed)?
        .with_executor(Exec { plan: Arc::new(plan) });
    if let Some((stdout, stderr)) = output {
        builder = builder.with_stdout(stdout).with_stderr(stderr);
    }
    if let Some(stdin) = stdin {
        builder = builder.with_stdin(stdin);
    }
    if tty {
        builder = builder.with_console_socket(Some(request.bundle.join("console.sock")));
    }
    let container = builder.as_init(&request.bundle).with_systemd(false).with_detach(true).build().map_err(failed)?;
    container.pid().map(nix_pid).ok_or_else(|| Refusal::new(RefusalKind::Failed, "the container has no process"))
}

/// libcontainer's process id comes from a crate that we don't depend on.
fn nix_pid(pid: impl Into<libc::pid_t>) -> i32 {
    pid.into()
}

/// The filter that the container gets; `None` for an unconfined or privileged one.
fn filter(request: &CreateRequest, capabilities: &BTreeSet<String>) -> Result<Option<seccomp::Program>, HelperError> {
    let invalid = |e: seccomp::SeccompError| Refusal::new(RefusalKind::Invalid, error_text(&e));
    let security = &request.config.security;
    let profile = match &security.seccomp {
        _ if security.privileged => return Ok(None),
        SeccompProfile::Unconfined => return Ok(None),
        SeccompProfile::RuntimeDefault => seccomp::default_profile(capabilities),
        SeccompProfile::Localhost(path) => {
            let text = fs::read(path)
                .map_err(|source| seccomp::SeccompError::Read { path: path.clone(), source })
                .map_err(invalid)?;
            let arch = seccomp::Arch::here().map_err(invalid)?;
            seccomp::parse(&text, path, capabilities, arch, kernel_release()).map_err(invalid)?
        }
    };
    let arch = seccomp::Arch::here().map_err(invalid)?;
    seccomp::compile(&profile, arch).map(Some).map_err(invalid)
}

fn kernel_release() -> (u32, u32) {
    let uname = rustix::system::uname();
    let mut numbers = uname.release().to_str().unwrap_or("").split(['.', '-']).map(|n| n.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// The device nodes that the container gets beside the usual ones.
fn devices(request: &CreateRequest) -> io::Result<Vec<DeviceNode>> {
    let mut nodes = Vec::new();
    if request.config.security.privileged {
        all_devices(Path::new("/dev"), &mut nodes)?;
    }
    for device in &request.config.devices {
        let access = DeviceAccess::parse(&device.permissions);
        if let Some(node) = node(&device.host_path, &device.container_path, access)? {
            nodes.retain(|n: &DeviceNode| n.path != node.path);
            nodes.push(node);
        } else {
            let text = format!("{} is not a device", device.host_path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
    }
    Ok(nodes)
}

/// Every device of the host, other than terminals and shared memory, which a container has of its own.
fn all_devices(dir: &Path, into: &mut Vec<DeviceNode>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
        if matches!(name, "pts" | "shm" | "fd" | "mqueue" | ".lxc" | ".lxd-mounts" | ".udev" | "console" | "ptmx") {
            continue;
        }
        let kind = fs::symlink_metadata(&path)?.file_type();
        if kind.is_dir() {
            all_devices(&path, into)?;
        } else if kind.is_char_device() || kind.is_block_device() {
            into.extend(node(&path, &path, DeviceAccess::ALL)?);
        }
    }
    Ok(())
}

fn node(host: &Path, inside: &Path, access: DeviceAccess) -> io::Result<Option<DeviceNode>> {
    let metadata = fs::metadata(host)?;
    let kind = metadata.file_type();
    if !kind.is_char_device() && !kind.is_block_device() {
        return Ok(None);
    }
    let number = metadata.rdev();
    Ok(Some(DeviceNode {
        path: inside.to_owned(),
        block: kind.is_block_device(),
        major: rustix::fs::major(number),
        minor: rustix::fs::minor(number),
        mode: metadata.mode(),
        uid: metadata.uid(),
        gid: metadata.gid(),
        access,
    }))
}

/// Whether this process may be in the container's cgroup while it creates the container: not where so few processes
/// are allowed that the helper's own would be too many.
fn joins_early(sandbox: &SandboxFacts, limits: &LinuxResources) -> bool {
    const OWN: i64 = 8;
    match sandbox.hierarchies {
        Hierarchies::V1 { .. } => limits.pids_limit.is_none_or(|limit| limit <= 0 || limit >= OWN),
        Hierarchies::V2 { .. } => false,
    }
}

/// The namespaces that the container shares with its Pod.
fn open_namespaces(options: &NamespaceOptions, dir: &Path) -> io::Result<BTreeMap<&'static str, File>> {
    let wanted = [
        ("net", options.network != NamespaceMode::Node),
        ("uts", options.network != NamespaceMode::Node),
        ("ipc", options.ipc != NamespaceMode::Node),
        ("pid", options.pid == NamespaceMode::Pod),
        ("user", options.user.is_some()),
    ];
    let wanted = wanted.into_iter().filter(|(_, wanted)| *wanted);
    wanted.map(|(name, _)| File::open(dir.join(name)).map(|file| (name, file))).collect()
}

/// A container's user id as the host has it.
pub(super) fn host_id(sandbox: &SandboxFacts, id: u32) -> u32 {
    match sandbox.namespaces.user {
        Some(map) if id < map.length => map.host_id.saturating_add(id),
        Some(_) | None => id,
    }
}

fn make_private(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn write_private(path: &PathBuf, bytes: &[u8]) -> io::Result<()> {
    use io::Write as _;
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(bytes)
}

fn error_text(error: &dyn std::error::Error) -> String {
    // Borrowed errors are not 'static for the one adapter, so this walks the chain itself, dropping repetitions that
    // transparent variants make.
    let mut parts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if parts.last().is_none_or(|last| !last.contains(&text)) {
            parts.push(text);
        }
        cause = error.source();
    }
    parts.join(": ")
}

fn kind_of(error: &io::Error) -> RefusalKind {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::EROFS | libc::ENODEV | libc::ENOSYS) => RefusalKind::NotPermitted,
        _ => RefusalKind::Failed,
    }
}

/// The kind by the system's error at the end of the chain.
fn kind_of_chain(error: &(dyn std::error::Error + 'static)) -> RefusalKind {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return kind_of(error);
        }
        cause = error.source();
    }
    RefusalKind::Failed
}
