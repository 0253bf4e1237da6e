//! The real Kubernetes API, for tests that compare with it and numbers beside it: kube-apiserver over etcd, both on loopback,
//! with keys, ports and directories of their own.
//!
//! The programs come from `e2e/kube/build`, which needs Go and some ten minutes, once. Tests never build them; without
//! them they are skipped by name, with [`Unavailable`]'s reason.

mod https;
mod keys;
mod process;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

pub use crate::containerd::Unavailable;
use process::Owned;

/// The version that `e2e/kube/go.mod` pins.
const VERSION: &str = "v1.37.0";

/// How long the server may take until it is ready, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// kube-apiserver.
    pub apiserver: PathBuf,
    /// etcd.
    pub etcd: PathBuf,
    /// kube-scheduler, where `e2e/kube/build kube-scheduler` has built it.
    pub scheduler: Option<PathBuf>,
}

impl Programs {
    /// Finds them in a cache that `e2e/kube/build` has filled; `MINKE_KUBE_CACHE` names another one.
    ///
    /// # Errors
    /// [`Unavailable`] if they have not been built.
    pub fn get(cache: &Path) -> Result<Self, Unavailable> {
        let cache = std::env::var_os("MINKE_KUBE_CACHE").map_or_else(|| cache.to_owned(), PathBuf::from).join(VERSION);
        let scheduler = Some(cache.join("kube-scheduler")).filter(|program| program.is_file());
        let found = Self { apiserver: cache.join("kube-apiserver"), etcd: cache.join("etcd"), scheduler };
        if found.apiserver.is_file() && found.etcd.is_file() {
            return Ok(found);
        }
        Err(Unavailable::because("the real kube-apiserver has not been built: e2e/kube/build does it, with Go"))
    }
}

/// A running kube-apiserver with its etcd. When dropped, both are gone with everything that they wrote.
#[derive(Debug)]
pub struct KubeApi {
    // They end in this order, and before their directory.
    scheduler: Option<Owned>,
    server: Owned,
    etcd: Owned,
    root: TempDir,
    address: SocketAddr,
    certificate: String,
}

/// Who may everything: a token that the server knows.
const TOKEN: &str = "minke-test-admin";

/// A port that is free. Somebody else may take it before it is used; then the start fails, and is tried again.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn spawn(program: &Path, arguments: &[String], log: &Path) -> io::Result<Child> {
    let log = std::fs::File::create(log)?;
    Command::new(program)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::from(log.try_clone()?))
        .stderr(Stdio::from(log))
        .spawn()
}

fn flags(pairs: &[(&str, String)]) -> Vec<String> {
    pairs.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

impl KubeApi {
    /// Starts both; returns when the server says that it is ready.
    ///
    /// # Errors
    /// With the end of the log of who did not start.
    pub async fn start(programs: &Programs) -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("mk-kube-").tempdir()?;
        let path = |name: &str| root.path().join(name);
        let text = |name: &str| path(name).display().to_string();
        let certificate = keys::write(root.path())?;
        std::fs::write(path("tokens.csv"), format!("{TOKEN},admin,admin,system:masters\n"))?;
        let (clients, peers) =
            (format!("http://127.0.0.1:{}", free_port()?), format!("http://127.0.0.1:{}", free_port()?));
        let etcd = flags(&[
            ("name", "etcd".to_owned()),
            ("data-dir", text("etcd")),
            ("listen-client-urls", clients.clone()),
            ("advertise-client-urls", clients.clone()),
            ("listen-peer-urls", peers.clone()),
            ("initial-advertise-peer-urls", peers.clone()),
            ("initial-cluster", format!("etcd={peers}")),
            ("log-level", "warn".to_owned()),
        ]);
        let etcd = Owned(spawn(&programs.etcd, &etcd, &path("etcd.log"))?);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let server = flags(&[
            ("etcd-servers", clients),
            ("bind-address", address.ip().to_string()),
            ("secure-port", address.port().to_string()),
            // It is not found out where there is no network but loopback.
            ("advertise-address", address.ip().to_string()),
            ("tls-cert-file", text("server.crt")),
            ("tls-private-key-file", text("server.key")),
            ("token-auth-file", text("tokens.csv")),
            ("service-account-issuer", "https://kubernetes.default.svc".to_owned()),
            ("service-account-key-file", text("accounts.pub")),
            ("service-account-signing-key-file", text("accounts.key")),
            ("service-cluster-ip-range", "10.0.0.0/24".to_owned()),
            ("authorization-mode", "Node,RBAC".to_owned()),
            // Nobody makes the account that it asks for: there is no controller manager.
            ("disable-admission-plugins", "ServiceAccount".to_owned()),
            ("endpoint-reconciler-type", "none".to_owned()),
        ]);
        let server = Owned(spawn(&programs.apiserver, &server, &path("server.log"))?);
        let mut this = Self { scheduler: None, server, etcd, root, address, certificate };
        this.ready().await?;
        Ok(this)
    }

    /// Starts its scheduler, which goes with it.
    ///
    /// # Errors
    /// The program can't be started.
    pub fn schedule(&mut self, program: &Path) -> io::Result<()> {
        let kubeconfig = self.root.path().join("scheduler.conf");
        self.kubeconfig(&kubeconfig)?;
        let arguments = flags(&[
            ("kubeconfig", kubeconfig.display().to_string()),
            ("leader-elect", "false".to_owned()),
            // It is asked nothing.
            ("secure-port", "0".to_owned()),
        ]);
        self.scheduler = Some(Owned(spawn(program, &arguments, &self.root.path().join("scheduler.log"))?));
        Ok(())
    }

    async fn ready(&mut self) -> io::Result<()> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            if https::get(self.address, &self.certificate, TOKEN, "/readyz").await.is_ok_and(|code| code == 200) {
                return Ok(());
            }
            for (child, name) in [(&mut self.etcd, "etcd"), (&mut self.server, "server")] {
                let ended = child.0.try_wait()?;
                if ended.is_some() || tokio::time::Instant::now() > deadline {
                    let log = std::fs::read_to_string(self.root.path().join(format!("{name}.log"))).unwrap_or_default();
                    let end: Vec<&str> = log.lines().rev().take(10).collect();
                    let end: Vec<&str> = end.into_iter().rev().collect();
                    return Err(io::Error::other(format!("{name} is not ready ({ended:?}): {}", end.join("\n"))));
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whom to trust, as PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The administrator's bearer token.
    #[must_use]
    pub fn token(&self) -> &str {
        TOKEN
    }

    /// The processes: kube-apiserver's and etcd's.
    #[must_use]
    pub fn pids(&self) -> [u32; 2] {
        [self.server.0.id(), self.etcd.0.id()]
    }

    /// Writes a kubeconfig for its administrator.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn kubeconfig(&self, path: &Path) -> io::Result<()> {
        use base64::Engine as _;
        let authority = base64::engine::general_purpose::STANDARD.encode(&self.certificate);
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "kube",
            "clusters": [{"name": "kube", "cluster": {
                "server": format!("https://{}", self.address), "certificate-authority-data": authority,
            }}],
            "users": [{"name": "admin", "user": {"token": TOKEN}}],
            "contexts": [{"name": "kube", "context": {"cluster": "kube", "user": "admin"}}],
        });
        std::fs::write(path, config.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_been_built_is_unavailable() {
        if std::env::var_os("MINKE_KUBE_CACHE").is_none() {
            assert!(Programs::get(Path::new("/no/such/cache")).is_err());
        }
    }

    #[test]
    fn the_version_is_the_one_that_is_pinned() {
        let module = include_str!("../../../../e2e/kube/go.mod");
        let pinned = |line: &str| line.split_whitespace().take(2).eq(["k8s.io/kubernetes", VERSION]);
        assert!(module.lines().any(pinned));
    }
}
