//! One containerd as a process: started, killed, started again, and everything that it made taken away.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::UnixStream;

use super::collector::Collector;
use super::config::{self, Network};
use super::{Programs, Release, processes};
use crate::{BUSYBOX, Image, busybox_image};

/// The image of the process that holds a sandbox: busybox that sleeps.
pub const PAUSE_IMAGE: &str = "localhost/minke/pause:1";

/// How long a containerd may take until it answers, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Enters a mount namespace in which what containerd writes below /run and /var/lib goes to a tmpfs: the machine's own
/// directories stay as they are, and all of it goes with the last process.
const ENTER: &str = r#"set -e
mount -t tmpfs -o mode=755 tmpfs "$1/private"
for directory in run var/lib; do
  mkdir -p "$1/private/$directory/upper" "$1/private/$directory/work"
  mount -t overlay overlay -o "lowerdir=/$directory,upperdir=$1/private/$directory/upper,workdir=$1/private/$directory/work" "/$directory"
done
shift
exec "$@""#;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A containerd with sockets, directories and mounts of its own. When dropped, it is gone with all its shims, containers,
/// mounts and cgroups.
#[derive(Debug)]
pub struct Containerd {
    programs: Programs,
    root: TempDir,
    cgroup: String,
    child: Option<Child>,
    network: Network,
    /// Its mount and network namespace, for the next start.
    namespaces: Option<[File; 2]>,
    images: u32,
}

impl Containerd {
    /// Starts one, with the image of sandboxes in its store; returns when it answers.
    ///
    /// # Errors
    /// When it does not start, with the end of its log.
    pub async fn start(programs: &Programs, network: Network) -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("mk-ctd-").tempdir()?;
        for name in ["root", "state", "cni", "opt", "private", "images"] {
            std::fs::create_dir(root.path().join(name))?;
        }
        let text = config::containerd(programs, root.path(), PAUSE_IMAGE);
        std::fs::write(root.path().join("config.toml"), text)?;
        match network {
            Network::None => {}
            Network::Bridge | Network::Own => {
                let text = config::conflist(programs.release, root.path());
                std::fs::write(root.path().join("cni/10-bridge.conflist"), text)?;
            }
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let cgroup = format!("/mk-ctd-{}-{number}", std::process::id());
        let mut this =
            Self { programs: programs.clone(), root, cgroup, child: None, network, namespaces: None, images: 0 };
        this.restart().await?;
        let pause = busybox_image(Path::new(BUSYBOX))?.cmd(["/bin/sleep", "2147483647"]).name(PAUSE_IMAGE).build();
        this.import(&pause).await?;
        Ok(this)
    }

    /// Which one.
    #[must_use]
    pub fn release(&self) -> Release {
        self.programs.release
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.root.path().join("c.sock")
    }

    /// Its directory; a test may put its own files there, under names that begin with `test`.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The cgroup below which a test's Pods belong, so that they are found when everything else is gone.
    #[must_use]
    pub fn cgroup(&self) -> &str {
        &self.cgroup
    }

    /// Its process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Its shims that are alive.
    #[must_use]
    pub fn shims(&self) -> Vec<i32> {
        processes::shims(&self.socket())
    }

    /// The sandbox that a shim was started for, by its command line.
    #[must_use]
    pub fn sandbox_of(shim: i32) -> Option<String> {
        processes::argument(shim, "-id")
    }

    /// Everything that it costs: its process, its shims, and what they have started, sandboxes and containers.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let own = self.pid().and_then(|pid| i32::try_from(pid).ok());
        own.into_iter().chain(processes::with_descendants(&self.shims())).collect()
    }

    /// `kill -9`. Shims and containers live on. Nothing happens if it does not run.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again after [`Containerd::kill`]; returns when it answers.
    ///
    /// # Errors
    /// When it does not start, with the end of its log.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.kill();
        let log = File::options().create(true).append(true).open(self.log())?;
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = self.enter();
        command.arg(self.programs.bin.join("containerd")).arg("--config").arg(self.root.path().join("config.toml"));
        command.env("PATH", format!("{}:{path}", self.programs.bin.display()));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        std::fs::write(self.started(), "")?;
        self.child = Some(command.spawn()?);
        self.answers().await?;
        if let (None, Some(pid)) = (&self.namespaces, self.pid()) {
            let [mounts, network] = ["mnt", "net"].map(|kind| File::open(format!("/proc/{pid}/ns/{kind}")));
            self.namespaces = Some([mounts?, network?]);
        }
        Ok(())
    }

    /// A command that continues in this containerd's namespaces, made for the first time.
    fn enter(&self) -> Command {
        match &self.namespaces {
            None => {
                let mut command = Command::new("unshare");
                command.args(["--mount", "--propagation", "slave"]);
                let script = match self.network {
                    Network::None | Network::Bridge => ENTER.to_owned(),
                    Network::Own => {
                        command.arg("--net");
                        format!("{BUSYBOX} ifconfig lo up\n{ENTER}")
                    }
                };
                command.args(["sh", "-c", &script, "sh"]).arg(self.root.path());
                command
            }
            Some([mounts, network]) => {
                let mut command = Command::new("nsenter");
                let path = |file: &File| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
                command.arg(format!("--mount={}", path(mounts))).arg(format!("--net={}", path(network)));
                command
            }
        }
    }

    /// What its Pods have of the machine: a line each for mounts of containers and sandboxes, network namespaces and
    /// addresses. Empty when all Pods are gone. Only while it runs.
    #[must_use]
    pub fn traces(&self) -> String {
        let Some(pid) = self.pid() else { return String::new() };
        let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let state = self.root.path().join("state");
        let of_pods = mounts.lines().filter_map(|line| line.split(' ').nth(4)).filter(|path| {
            Path::new(path).starts_with(&state) || Path::new(path).parent() == Some(Path::new("/run/netns"))
        });
        let names = |directory: PathBuf| {
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
        };
        let networks = names(format!("/proc/{pid}/root/run/netns").into());
        let addresses = names(self.root.path().join("ipam").join(config::network_name(self.release())));
        let addresses = addresses.into_iter().filter(|name| name.parse::<std::net::IpAddr>().is_ok());
        let mounts = of_pods.map(|path| format!("mount {path}\n"));
        let networks = networks.into_iter().map(|name| format!("network namespace {name}\n"));
        mounts.chain(networks).chain(addresses.map(|name| format!("address {name}\n"))).collect()
    }

    fn log(&self) -> PathBuf {
        self.root.path().join("log")
    }

    /// Takes away what it leaves in its own way when it is killed.
    #[must_use]
    pub fn collector(&self) -> Collector {
        Collector { root: self.root.path().to_owned(), log: self.log(), started: self.started() }
    }

    /// Written when it is started.
    fn started(&self) -> PathBuf {
        self.root.path().join("started")
    }

    async fn answers(&mut self) -> io::Result<()> {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().transpose()).transpose()? {
                self.child = None;
                return Err(io::Error::other(format!("containerd ended: {status}\n{}", self.said())));
            }
            // An old socket file may be there; only an answer counts, and ctr asks for one.
            if UnixStream::connect(self.socket()).await.is_ok() && self.ctr(&["version"]).await.is_ok() {
                return Ok(());
            }
            if tokio::time::Instant::now() > until {
                return Err(io::Error::other(format!("containerd does not answer\n{}", self.said())));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The end of its log.
    #[must_use]
    pub fn said(&self) -> String {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// What it has said of a sandbox or a container.
    #[must_use]
    pub fn said_of(&self, id: &str) -> String {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        text.lines().filter(|line| line.contains(id)).map(|line| format!("{line}\n")).collect()
    }

    /// Asks its own command line client, in the namespace of CRI.
    ///
    /// # Errors
    /// When it fails, with what it says.
    pub async fn ctr(&self, arguments: &[&str]) -> io::Result<String> {
        let mut command = tokio::process::Command::new(self.programs.bin.join("ctr"));
        command.arg("--address").arg(self.socket()).args(["--namespace", "k8s.io"]).args(arguments);
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("ctr {}: {}", arguments.join(" "), said.trim())))
    }

    /// Puts an image into its store, under its names. CRI may show it a moment later.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn import(&mut self, image: &Image) -> io::Result<()> {
        self.images += 1;
        let path = self.root.path().join(format!("images/{}.tar", self.images));
        image.write_oci_archive(&path)?;
        self.ctr(&["images", "import", &path.display().to_string()]).await?;
        std::fs::remove_file(path)
    }

    /// What there is of Pods: shims and processes of containers, a line each. Empty when all Pods are gone. Cgroups of
    /// Pods are not containerd's to remove. A shim below which nothing lives is `empty shim PID of SANDBOX`.
    #[must_use]
    pub fn leftovers(&self) -> String {
        let shims = self.shims().into_iter().map(|pid| {
            let empty = if processes::with_descendants(&[pid]).len() > 1 { "" } else { "empty " };
            format!("{empty}shim {pid} of {}\n", Self::sandbox_of(pid).unwrap_or_default())
        });
        let members = processes::members(&processes::cgroups(&self.cgroup)).into_iter();
        shims.chain(members.map(|pid| format!("process {pid}\n"))).collect()
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        self.kill();
        // A shim that was just being started may come to life meanwhile.
        for _ in 0..20 {
            let mut pids = processes::with_descendants(&self.shims());
            pids.extend(processes::members(&processes::cgroups(&self.cgroup)));
            if pids.is_empty() {
                break;
            }
            processes::kill_and_wait(&pids);
        }
        for directory in processes::cgroups(&self.cgroup) {
            let _ = std::fs::remove_dir(directory);
        }
    }
}
