//! How a shim's process begins.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use minke_core::runtime::error_chain;
use rustix::mount::{MountFlags, mount};

use super::binary::SHIM_NAME;
use super::config::{Ready, ShimConfig};
use super::namespaces::{NamespaceError, failed};
use super::server::Server;
use super::{fork, namespaces, pause, signals, socket};

/// Becomes a shim when this process was started as one; `None` in any other process. To be called first in `main`,
/// before any thread exists.
#[must_use]
pub(crate) fn reexec() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    if args.next()? != SHIM_NAME {
        return None;
    }
    let run = PathBuf::from(args.next()?);
    Some(match start(&run) {
        Ok(mut server) => server.run(),
        Err(error) => {
            let not_permitted = matches!(
                error.source.raw_os_error(),
                Some(libc::EPERM | libc::EACCES | libc::EROFS | libc::ENOSYS | libc::EINVAL | libc::ENOSPC)
            );
            say(&Ready::Failed { not_permitted, message: error_chain(&error) });
            ExitCode::FAILURE
        }
    })
}

fn start(run: &Path) -> Result<Server, NamespaceError> {
    fork::close_all_but(&[]);
    rustix::process::setsid().map_err(failed("begin a session"))?;
    std::env::set_current_dir("/").map_err(failed("enter /"))?;
    rustix::process::umask(0o022.into());
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1)).map_err(failed("adopt orphans"))?;
    let _ = rustix::thread::set_name(c"minke-shim");
    // Where the machine allows it the shim is the last of its Pod to go for want of memory.
    let _ = fs::write("/proc/self/oom_score_adj", "-998");

    let text = fs::read(run.join("shim.json")).map_err(failed("read shim.json"))?;
    let config: ShimConfig =
        serde_json::from_slice(&text).map_err(io::Error::other).map_err(failed("read shim.json"))?;
    crate::open_files::raise(config.open_files);
    let children = signals::children_ended().map_err(failed("watch children"))?;
    if config.sandbox.namespaces.user.is_none() {
        namespaces::enter(&config.sandbox.namespaces, &config.sandbox.hostname, &config.sysctls)?;
    }
    let pause = pause::start(&config)?;
    mount_shm(&config.sandbox.files.shm)?;
    let listener = socket::listen(&run.join("shim.sock")).map_err(failed("listen on shim.sock"))?;
    let holder = pause.unwrap_or_else(rustix::process::getpid);
    if !say(&Ready::Ready { holder: holder.as_raw_nonzero().get() }) {
        // The agent died while it waited. Nobody knows this sandbox, so it must not stay.
        let _ = rustix::mount::unmount(&config.sandbox.files.shm, rustix::mount::UnmountFlags::DETACH);
        let gone = io::Error::from(io::ErrorKind::BrokenPipe);
        return Err(failed("tell the agent that the shim is ready")(gone));
    }
    Ok(Server::new(config, listener, children, pause))
}

/// The Pod's `/dev/shm`, in the host's mount namespace so that every container can bind it.
fn mount_shm(path: &Path) -> Result<(), NamespaceError> {
    let step = || format!("mount the Pod's /dev/shm at {}", path.display());
    fs::create_dir_all(path).map_err(failed(step()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("shm", path, "tmpfs", flags, c"mode=1777,size=67108864").map_err(failed(step()))
}

/// Says it on standard output, and closes that so that the agent sees the end. `false` if nobody listens.
fn say(ready: &Ready) -> bool {
    let text = serde_json::to_vec(ready).unwrap_or_default();
    // Not by way of `std::io::stdout`, which takes a closed pipe for success.
    let said = rustix::io::write(rustix::stdio::stdout(), &text).is_ok_and(|n| n == text.len());
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
    said
}
