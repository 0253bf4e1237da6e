//! The real Kubernetes API, for tests that compare with it and numbers beside it: kube-apiserver over etcd, both on loopback,
//! with keys, ports and directories of their own. As clusters have it, nodes are held to the Node authorizer and to
//! NodeRestriction, and are verified when they are asked for logs and commands.
//!
//! The programs come from `e2e/kube/build`, which needs Go and some ten minutes, once. Tests never build them; without
//! them they are skipped by name, with [`Unavailable`]'s reason.

mod https;
mod keys;
mod process;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rcgen::ExtendedKeyUsagePurpose;
use tempfile::TempDir;

pub use crate::containerd::Unavailable;
use keys::Authority;
pub use keys::Identity;
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

/// A kube-apiserver with its etcd, which runs unless it was stopped. When dropped, both are gone with everything that they wrote.
#[derive(Debug)]
pub struct KubeApi {
    // They end in this order, and before their directory.
    scheduler: Option<Owned>,
    running: Option<Processes>,
    etcd: Start,
    server: Start,
    root: TempDir,
    address: SocketAddr,
    certificate: String,
    authority: Authority,
}

/// How a process is started.
#[derive(Debug)]
struct Start {
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
}

impl Start {
    fn run(&self) -> io::Result<Owned> {
        let log = std::fs::File::create(&self.log)?;
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::from(log.try_clone()?))
            .stderr(Stdio::from(log))
            .spawn()?;
        Ok(Owned(child))
    }
}

#[derive(Debug)]
struct Processes {
    // Ends before etcd.
    server: Owned,
    etcd: Owned,
}

/// Who may everything: a token that the server knows.
const TOKEN: &str = "minke-test-admin";

/// A port that is free. Somebody else may take it before it is used; then the start fails, and is tried again.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
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
        let authority = Authority::new()?;
        let certificate = keys::write(root.path(), &authority)?;
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
            ("client-ca-file", text("clients.crt")),
            ("enable-bootstrap-token-auth", "true".to_owned()),
            ("service-account-issuer", "https://kubernetes.default.svc".to_owned()),
            ("service-account-key-file", text("accounts.pub")),
            ("service-account-signing-key-file", text("accounts.key")),
            ("service-cluster-ip-range", "10.0.0.0/24".to_owned()),
            ("authorization-mode", "Node,RBAC".to_owned()),
            ("enable-admission-plugins", "NodeRestriction".to_owned()),
            // Nobody makes the account that it asks for: there is no controller manager.
            ("disable-admission-plugins", "ServiceAccount".to_owned()),
            ("endpoint-reconciler-type", "none".to_owned()),
            ("kubelet-client-certificate", text("kubelet-client.crt")),
            ("kubelet-client-key", text("kubelet-client.key")),
            ("kubelet-certificate-authority", text("clients.crt")),
            ("kubelet-preferred-address-types", "InternalIP".to_owned()),
        ]);
        let etcd = Start { program: programs.etcd.clone(), arguments: etcd, log: path("etcd.log") };
        let server = Start { program: programs.apiserver.clone(), arguments: server, log: path("server.log") };
        let mut this = Self { scheduler: None, running: None, etcd, server, root, address, certificate, authority };
        this.resume().await?;
        Ok(this)
    }

    /// Starts both again after [`Self::stop`], on the same ports; returns when the server is ready.
    ///
    /// # Errors
    /// With the end of the log of who did not start.
    pub async fn resume(&mut self) -> io::Result<()> {
        let etcd = self.etcd.run()?;
        let mut processes = Processes { etcd, server: self.server.run()? };
        self.ready(&mut processes).await?;
        self.running = Some(processes);
        Ok(())
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
        let log = self.root.path().join("scheduler.log");
        self.scheduler = Some(Start { program: program.to_owned(), arguments, log }.run()?);
        Ok(())
    }

    async fn ready(&self, processes: &mut Processes) -> io::Result<()> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            if https::get(self.address, &self.certificate, TOKEN, "/readyz").await.is_ok_and(|code| code == 200) {
                return Ok(());
            }
            for (child, start) in [(&mut processes.etcd, &self.etcd), (&mut processes.server, &self.server)] {
                let ended = child.0.try_wait()?;
                if ended.is_some() || tokio::time::Instant::now() > deadline {
                    let log = std::fs::read_to_string(&start.log).unwrap_or_default();
                    let end: Vec<&str> = log.lines().rev().take(10).collect();
                    let end: Vec<&str> = end.into_iter().rev().collect();
                    let program = start.program.display();
                    return Err(io::Error::other(format!("{program} is not ready ({ended:?}): {}", end.join("\n"))));
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills both. What they wrote stays.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Keeps the history as it is, for [`Self::take_back`]. Both must be stopped.
    ///
    /// # Errors
    /// It can't be copied.
    pub fn keep_history(&self) -> io::Result<()> {
        copy(&self.root.path().join("etcd"), &self.root.path().join("kept"))
    }

    /// Goes back to the history that was kept, as someone does who restores a backup. Both must be stopped.
    ///
    /// # Errors
    /// None was kept, or it can't be copied.
    pub fn take_back(&self) -> io::Result<()> {
        let now = self.root.path().join("etcd");
        std::fs::remove_dir_all(&now)?;
        copy(&self.root.path().join("kept"), &now)
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

    /// The processes: kube-apiserver's and etcd's; none while they are stopped.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.running.iter().flat_map(|running| [running.server.0.id(), running.etcd.0.id()]).collect()
    }

    /// Whose certificates clients and nodes have, as PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority.certificate
    }

    /// A certificate for a user of these groups.
    ///
    /// # Errors
    /// The names are none.
    pub fn client(&self, user: &str, groups: &[&str]) -> io::Result<Identity> {
        self.authority.client(user, groups)
    }

    /// A certificate for a node's own API at this address.
    ///
    /// # Errors
    /// The name is none.
    pub fn serving(&self, node: &str, address: IpAddr) -> io::Result<Identity> {
        self.authority.server(&format!("system:node:{node}"), address)
    }

    /// Signs a request for a client's certificate, good within these seconds since 1970. Who it names is not looked at.
    ///
    /// # Errors
    /// It is no request.
    pub fn sign_client(&self, request: &str, good: Range<u64>) -> io::Result<String> {
        self.authority.sign(request, ExtendedKeyUsagePurpose::ClientAuth, good)
    }

    /// The same for a server's certificate.
    ///
    /// # Errors
    /// It is no request.
    pub fn sign_serving(&self, request: &str, good: Range<u64>) -> io::Result<String> {
        self.authority.sign(request, ExtendedKeyUsagePurpose::ServerAuth, good)
    }

    /// Writes a kubeconfig for its administrator.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn kubeconfig(&self, path: &Path) -> io::Result<()> {
        self.kubeconfig_of(&serde_json::json!({"token": TOKEN}), path)
    }

    /// Writes a kubeconfig for whoever has this certificate.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn kubeconfig_for(&self, identity: &Identity, path: &Path) -> io::Result<()> {
        let user = serde_json::json!({
            "client-certificate-data": encode(&identity.certificate), "client-key-data": encode(&identity.key),
        });
        self.kubeconfig_of(&user, path)
    }

    /// Writes a kubeconfig for whoever has this token.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn kubeconfig_with(&self, token: &str, path: &Path) -> io::Result<()> {
        self.kubeconfig_of(&serde_json::json!({"token": token}), path)
    }

    fn kubeconfig_of(&self, user: &serde_json::Value, path: &Path) -> io::Result<()> {
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "kube",
            "clusters": [{"name": "kube", "cluster": {
                "server": format!("https://{}", self.address), "certificate-authority-data": encode(&self.certificate),
            }}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "kube", "context": {"cluster": "kube", "user": "user"}}],
        });
        std::fs::write(path, config.to_string())
    }
}

fn encode(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// Copies a directory with all that is in it; what was there is gone.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
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
