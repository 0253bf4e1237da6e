//! The servers that are measured, as processes.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use minke_testkit::kube::{KubeApi, Programs};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;
use tokio::time::Instant;

use super::client::Connection;
use crate::failure::Failure;

/// Whom to measure.
#[derive(Debug)]
pub(crate) enum Candidate {
    /// This binary's `minke api`.
    Minke(PathBuf),
    /// The real one.
    Kube(Programs),
}

enum Running {
    Minke { child: Child, _directory: TempDir },
    Kube(Box<KubeApi>),
}

/// A server that is ready. Gone when dropped.
pub(super) struct Api {
    running: Running,
    pub(super) address: SocketAddr,
    pub(super) certificate: String,
    pub(super) token: String,
    /// From the start of its process to ready.
    pub(super) started: Duration,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Self::Minke { child, .. } = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: &str = "minke-bench";

/// As many files as this process may have: each watcher is a connection, here and there.
pub(super) fn raise_file_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        eprintln!("could not raise the limit of open files: {error}");
    }
}

impl Api {
    pub(super) async fn start(candidate: &Candidate) -> Result<Self, Failure> {
        match candidate {
            Candidate::Minke(program) => Self::minke(program).await,
            Candidate::Kube(programs) => {
                let begun = Instant::now();
                let kube = KubeApi::start(programs).await.map_err(Failure::runtime("starting kube-apiserver"))?;
                Ok(Self {
                    address: kube.address(),
                    certificate: kube.certificate().to_owned(),
                    token: kube.token().to_owned(),
                    started: begun.elapsed(),
                    running: Running::Kube(Box::new(kube)),
                })
            }
        }
    }

    async fn minke(program: &Path) -> Result<Self, Failure> {
        let directory = tempfile::tempdir().map_err(Failure::file("making", Path::new("a directory")))?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let address = free.map_err(Failure::runtime("finding a free port"))?;
        let tokens = directory.path().join("tokens.csv");
        fs::write(&tokens, format!("{TOKEN},bench,bench,system:masters\n"))
            .map_err(Failure::file("writing", &tokens))?;
        let data = directory.path().join("data");
        let begun = Instant::now();
        // The peer schedules nothing either: with a scheduler each new Pod would be three writes (its condition, an event).
        let child = Command::new(program)
            .args(["api", "--no-scheduler", "--listen", &address.to_string(), "--data-dir"])
            .arg(&data)
            .arg("--token-auth-file")
            .arg(&tokens)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let start = |source| Failure::Start { program: program.display().to_string(), source };
        let running = Running::Minke { child: child.map_err(start)?, _directory: directory };
        let mut this =
            Self { running, address, certificate: String::new(), token: TOKEN.to_owned(), started: Duration::ZERO };
        while begun.elapsed() < PATIENCE {
            // It makes its authority at its first start, and listens after.
            if let Ok(certificate) = fs::read_to_string(data.join("pki/ca.crt")) {
                this.certificate = certificate;
                if let Ok(mut connection) = Connection::open(&this).await
                    && connection.ready().await
                {
                    this.started = begun.elapsed();
                    return Ok(this);
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Err(Failure::Unexpected("minke api is not ready after a minute".to_owned()))
    }

    /// Resident memory of its processes, in KiB.
    pub(super) fn memory(&self) -> f64 {
        let pids = match &self.running {
            Running::Minke { child, .. } => vec![child.id()],
            Running::Kube(kube) => kube.pids(),
        };
        let resident = |pid: u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default().to_owned();
            line.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap_or_default()
        };
        pids.into_iter().map(resident).sum()
    }
}
