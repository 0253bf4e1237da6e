//! A provider of one Pod whose everything is scripted, and a node's API over it on loopback.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use minke_core::clock::SystemClock;
use minke_core::identity::PodKey;
use minke_core::provider::{
    AttachRequest, Attaches, ByteStream, DesiredPod, Duplex, Execs, Extras, HeldPod, LogOptions, LogSource, Notices,
    PodStats, PortForwards, Provider, ProviderError, StatsSource, StatusSink,
};
use minke_core::runtime::{CgroupUsage, ExecControl, ExecRequest, ExecSession, RuntimeError, TerminalSize};
use minke_node::http::{
    Access, Held, Limits, NodeApi, NodeFacts, NodeServer, NodeUsage, ReviewError, Reviews, ServingCertificate, User,
    server_config,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

/// One Pod `ns/p` of uid `u`, with container `c`.
#[derive(Debug, Default)]
pub(crate) struct OnePod {
    /// What logs were asked for.
    pub(crate) asked: Mutex<Vec<LogOptions>>,
    pub(crate) log: Mutex<Vec<u8>>,
    /// What commands were asked for, and how many run.
    pub(crate) commands: Mutex<Vec<ExecRequest>>,
    pub(crate) running: Arc<AtomicUsize>,
    /// What ports were connected to.
    pub(crate) ports: Mutex<Vec<u16>>,
    /// How many such connections are open.
    pub(crate) connected: Arc<AtomicUsize>,
}

pub(crate) fn pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "p", "uid": "u"},
        "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]},
    }))
    .unwrap()
}

#[async_trait]
impl Provider for OnePod {
    async fn create(&self, _: &DesiredPod) -> Result<(), ProviderError> {
        Ok(())
    }
    async fn update(&self, _: &DesiredPod) -> Result<(), ProviderError> {
        Ok(())
    }
    async fn delete(&self, _: &PodKey, _: Duration) -> Result<(), ProviderError> {
        Ok(())
    }
    async fn get(&self, key: &PodKey) -> Result<Option<HeldPod>, ProviderError> {
        Ok(self.list().await?.into_iter().find(|held| held.key == *key))
    }
    async fn list(&self) -> Result<Vec<HeldPod>, ProviderError> {
        let pod = Arc::new(pod());
        Ok(vec![HeldPod { key: PodKey::of(&pod).unwrap(), pod }])
    }
    fn notify(&self, _: Arc<dyn StatusSink>) -> Notices {
        Notices::Pushed
    }
    fn extras(&self) -> Extras<'_> {
        Extras {
            logs: Some(self),
            stats: Some(self),
            exec: Some(self),
            attach: Some(self),
            port_forward: Some(self),
            ..Extras::default()
        }
    }
}

#[async_trait]
impl LogSource for OnePod {
    async fn logs(&self, _: &PodKey, container: &str, options: &LogOptions) -> Result<ByteStream, ProviderError> {
        self.asked.lock().unwrap().push(options.clone());
        if container == "i" {
            let message = "container \"i\" in pod \"p\" is waiting to start: PodInitializing".to_owned();
            return Err(ProviderError::Invalid { operation: "logs", message });
        }
        Ok(Box::pin(futures_util::io::Cursor::new(self.log.lock().unwrap().clone())))
    }
}

/// A command that echoes its input until its end and then returns, or says its terminal's size.
struct Command {
    code: i32,
    sizes: watch::Sender<Option<TerminalSize>>,
    /// Closes when it has ended.
    ended: watch::Receiver<()>,
    running: Arc<AtomicUsize>,
}

impl Drop for Command {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl ExecControl for Command {
    async fn resize(&self, size: TerminalSize) -> Result<(), RuntimeError> {
        self.sizes.send_replace(Some(size));
        Ok(())
    }
    async fn wait(&self) -> Result<i32, RuntimeError> {
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
        Ok(self.code)
    }
}

impl OnePod {
    fn start(&self, code: i32, tty: bool) -> ExecSession {
        self.running.fetch_add(1, Ordering::SeqCst);
        let (sizes, mut told) = watch::channel(None::<TerminalSize>);
        let (running, ended) = watch::channel(());
        let (near, far) = tokio::io::duplex(64 << 10);
        let (mut reader, mut writer) = tokio::io::split(far);
        tokio::spawn(async move {
            if tty && let Ok(size) = told.wait_for(Option::is_some).await.map(|size| size.unwrap()) {
                let _ = writer.write_all(format!("{}x{}", size.width, size.height).as_bytes()).await;
            }
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
            let _ = writer.shutdown().await;
            drop(running);
        });
        let (reader, writer) = tokio::io::split(near);
        ExecSession {
            stdin: Some(Box::pin(writer.compat_write())),
            stdout: Box::pin(reader.compat()),
            // With a terminal there is none.
            stderr: (!tty).then(|| Box::pin(futures_util::io::empty()) as _),
            control: Box::new(Command { code, sizes, ended, running: self.running.clone() }),
        }
    }
}

#[async_trait]
impl Execs for OnePod {
    async fn exec(&self, _: &PodKey, _: &str, request: &ExecRequest) -> Result<ExecSession, ProviderError> {
        self.commands.lock().unwrap().push(request.clone());
        let code = request.command.get(1).map_or(0, |code| code.parse().unwrap());
        Ok(self.start(code, request.tty.is_some()))
    }
}

#[async_trait]
impl Attaches for OnePod {
    async fn attach(&self, _: &PodKey, _: &str, _: AttachRequest) -> Result<ExecSession, ProviderError> {
        Ok(self.start(0, false))
    }
}

#[async_trait]
impl PortForwards for OnePod {
    async fn connect(&self, _: &PodKey, port: u16) -> Result<Pin<Box<dyn Duplex>>, ProviderError> {
        self.ports.lock().unwrap().push(port);
        let connected = self.connected.clone();
        connected.fetch_add(1, Ordering::SeqCst);
        let (near, far) = tokio::io::duplex(64 << 10);
        tokio::spawn(async move {
            let (mut reader, mut writer) = tokio::io::split(far);
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
            let _ = writer.shutdown().await;
            connected.fetch_sub(1, Ordering::SeqCst);
        });
        Ok(Box::pin(near.compat()))
    }
}

#[async_trait]
impl StatsSource for OnePod {
    async fn stats(&self) -> Result<Vec<PodStats>, ProviderError> {
        let usage = CgroupUsage { cpu_nanos: 5, ..CgroupUsage::default() };
        let key = PodKey::of(&pod()).unwrap();
        Ok(vec![PodStats { key, pod: Some(usage), containers: vec![("c".to_owned(), usage)] }])
    }
}

/// `admin` (the user, and the token) may everything; `reader` what is got.
#[derive(Debug)]
struct Fixed;

#[async_trait]
impl Reviews for Fixed {
    async fn token(&self, token: &str) -> Result<Option<User>, ReviewError> {
        let known = matches!(token, "admin" | "reader");
        Ok(known.then(|| User { name: token.to_owned(), ..User::default() }))
    }
    async fn access(&self, user: &User, access: &Access) -> Result<bool, ReviewError> {
        Ok(user.name == "admin" || user.name == "reader" && access.verb == "get")
    }
}

#[derive(Debug)]
struct Facts;

impl NodeFacts for Facts {
    fn usage(&self) -> NodeUsage {
        NodeUsage { cpu_nanos: Some(7), ..NodeUsage::default() }
    }
    fn metrics(&self) -> String {
        "# TYPE kubelet_running_pods gauge\nkubelet_running_pods 1\n# TYPE prober_probe counter\nprober_probe_total 2\n# EOF\n"
            .to_owned()
    }
    fn config(&self) -> serde_json::Value {
        json!({"maxPods": 110})
    }
}

/// Ends when dropped.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    pub(crate) provider: Arc<OnePod>,
    pub(crate) tls: watch::Sender<Arc<rustls::ServerConfig>>,
    pub(crate) own: ServingCertificate,
    authority: Issuer<'static, KeyPair>,
    pub(crate) clients: String,
    task: JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn serving() -> ServingCertificate {
    ServingCertificate::self_signed(&["node"], &[IpAddr::from(Ipv4Addr::LOCALHOST)]).unwrap()
}

/// A certificate and its key.
pub(crate) type Certified = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl Node {
    pub(crate) async fn start() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let clients = params.self_signed(&key).unwrap().pem();
        let authority = Issuer::new(params, key);
        let own = serving();
        let provider = Arc::new(OnePod::default());
        let api = NodeApi {
            node: "n".to_owned(),
            provider: provider.clone(),
            pods: Arc::new(Held(provider.clone())),
            facts: Arc::new(Facts),
            reviews: Arc::new(Fixed),
            clock: Arc::new(SystemClock),
        };
        let server = NodeServer::bind((Ipv4Addr::LOCALHOST, 0).into(), api, Limits::default()).await.unwrap();
        let address = server.address();
        let (tls, config) = watch::channel(Arc::new(server_config(&own, Some(&clients)).unwrap()));
        let task = tokio::spawn(server.run(config));
        Self { address, provider, tls, own, authority, clients, task }
    }

    /// Ends the server.
    pub(crate) fn end(&self) {
        self.task.abort();
    }

    /// A certificate of this name, signed by the authority of clients.
    pub(crate) fn client(&self, name: &str) -> Certified {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    /// A TLS connection by whom `client` names, trusting `own`.
    pub(crate) async fn connect(
        &self,
        own: &ServingCertificate,
        client: Option<Certified>,
    ) -> std::io::Result<tokio_rustls::client::TlsStream<tokio::net::TcpStream>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(own.chain.as_bytes()).unwrap()).unwrap();
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match client {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
        };
        let stream = tokio::net::TcpStream::connect(self.address).await?;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        connector.connect(ServerName::try_from("node").unwrap(), stream).await
    }

    pub(crate) async fn ask(
        &self,
        client: Option<Certified>,
        token: &str,
        method: Method,
        path: &str,
    ) -> Result<Response<hyper::body::Incoming>, Box<dyn std::error::Error>> {
        let stream = self.connect(&self.own, client).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "node");
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        Ok(sender.send_request(request.body(Full::<Bytes>::default())?).await?)
    }

    /// Status and text for the bearer of a token.
    pub(crate) async fn get(&self, token: &str, method: Method, path: &str) -> (u16, String) {
        let response = self.ask(None, token, method, path).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8_lossy(&bytes).into_owned())
    }
}
