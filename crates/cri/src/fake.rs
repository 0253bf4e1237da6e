//! A CRI server for tests, on a socket of its own: it answers as scripted, counts calls, and can hang, refuse, go away and
//! come back.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use minke_core::clock::SystemClock;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use tower::Service as _;

use crate::api::image_service_server::{ImageService, ImageServiceServer};
use crate::api::runtime_service_server::{RuntimeService, RuntimeServiceServer};
use crate::connection::Connection;
use crate::{CriRuntime, Endpoint, api};

/// What a call does instead of answering.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    Refuse(Status),
    Hang,
    /// Refuses after this time. Who does not wait for it cuts it off, which is counted.
    RefuseLate(Duration, Status),
}

/// Counts itself unless it came to its end.
struct CutOff(Arc<Mutex<State>>, bool);

impl Drop for CutOff {
    fn drop(&mut self) {
        self.0.lock().unwrap().cut_off += u32::from(!self.1);
    }
}

type EventSender = mpsc::UnboundedSender<Result<api::ContainerEventResponse, Status>>;

/// What the server knows. Shared with the test.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) version: String,
    pub(crate) status: api::StatusResponse,
    pub(crate) faults: HashMap<&'static str, Fault>,
    pub(crate) calls: BTreeMap<&'static str, u32>,
    /// Calls that were given up while they were worked on.
    pub(crate) cut_off: u32,
    /// Every login of a pull, in order; those in `accepted` succeed.
    pub(crate) logins: Vec<Option<api::AuthConfig>>,
    pub(crate) accepted: Option<String>,
    pub(crate) events: Vec<EventSender>,
    pub(crate) has_events: bool,
    /// Answers the first question of the version before v1.
    pub(crate) speaks_v1alpha2: bool,
    /// Handed out with the next stream.
    pub(crate) backlog: Vec<api::ContainerEventResponse>,
    pub(crate) created: Vec<api::CreateContainerRequest>,
    pub(crate) updated: Vec<api::UpdateContainerResourcesRequest>,
    pub(crate) sandboxes: Vec<api::PodSandbox>,
    pub(crate) containers: Vec<api::Container>,
    pub(crate) statuses: HashMap<String, api::ContainerStatus>,
    pub(crate) selectors: Vec<HashMap<String, String>>,
    pub(crate) image: api::Image,
    pub(crate) output: api::ExecSyncResponse,
}

#[derive(Debug, Clone)]
struct Served(Arc<Mutex<State>>);

/// The server. Goes with its directory when dropped.
#[derive(Debug)]
pub(crate) struct FakeCri {
    directory: tempfile::TempDir,
    state: Arc<Mutex<State>>,
    /// Connections that need no socket. Nobody takes them while it is gone.
    dial: Arc<Mutex<mpsc::UnboundedSender<DuplexStream>>>,
    serving: JoinSet<()>,
}

impl FakeCri {
    pub(crate) fn start() -> Self {
        let state = State { version: "2.1.9".to_owned(), has_events: true, ..State::default() };
        let directory = tempfile::tempdir().unwrap();
        let dial = Arc::new(Mutex::new(mpsc::unbounded_channel().0));
        let mut fake = Self { directory, state: Arc::new(Mutex::new(state)), dial, serving: JoinSet::new() };
        fake.come_back();
        fake
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("cri.sock")
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn calls(&self, name: &str) -> u32 {
        self.state().calls.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn fault(&self, call: &'static str, fault: Fault) {
        self.state().faults.insert(call, fault);
    }

    pub(crate) fn refuse(&self, call: &'static str, code: tonic::Code, message: &str) {
        self.fault(call, Fault::Refuse(Status::new(code, message)));
    }

    /// Ends as a daemon that is killed: every connection breaks.
    pub(crate) async fn go_away(&mut self) {
        self.serving.shutdown().await;
        std::fs::remove_file(self.socket()).unwrap();
        self.state().events.clear();
    }

    pub(crate) fn come_back(&mut self) {
        let (listener, served) = (UnixListener::bind(self.socket()).unwrap(), Served(self.state.clone()));
        let (dial, mut dialled) = mpsc::unbounded_channel();
        *self.dial.lock().unwrap() = dial;
        self.serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    Ok((stream, _)) = listener.accept() => connections.spawn(served.clone().serve(stream)),
                    Some(stream) = dialled.recv() => connections.spawn(served.clone().serve(stream)),
                    else => return,
                };
            }
        });
    }

    /// A runtime that reaches this server through memory: nothing of the kernel's is in between, so that a paused clock stands
    /// still until both sides wait.
    pub(crate) async fn open(&self) -> CriRuntime {
        let endpoint = Endpoint::parse(self.socket().to_str().unwrap()).unwrap();
        let dial = Arc::clone(&self.dial);
        let connection = Connection::over(move || {
            let (ours, theirs) = tokio::io::duplex(1 << 20);
            let taken = dial.lock().unwrap().send(theirs);
            std::future::ready(taken.map(|()| ours).map_err(|_| io::ErrorKind::ConnectionRefused.into()))
        });
        CriRuntime::over(endpoint, connection, Arc::new(SystemClock)).await.unwrap()
    }

    pub(crate) fn send_event(&self, event: &api::ContainerEventResponse) {
        self.state().events.retain(|stream| stream.send(Ok(event.clone())).is_ok());
    }
}

/// A question of v1alpha2 is answered as v1's of the same name, by a server that speaks it.
fn older(mut request: http::Request<Incoming>, speaks: bool) -> http::Request<Incoming> {
    if speaks && request.uri().path() == "/runtime.v1alpha2.RuntimeService/Version" {
        *request.uri_mut() = "/runtime.v1.RuntimeService/Version".parse().unwrap();
        request.headers_mut().insert("x-v1alpha2", http::HeaderValue::from_static("yes"));
    }
    request
}

fn speaks_v1alpha2(served: &Served) -> bool {
    served.state().speaks_v1alpha2
}

impl Served {
    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let (runtime, images) = (RuntimeServiceServer::new(self.clone()), ImageServiceServer::new(self.clone()));
        let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
            let (mut runtime, mut images, served) = (runtime.clone(), images.clone(), self.clone());
            async move {
                let request = older(request, speaks_v1alpha2(&served));
                if request.uri().path().starts_with("/runtime.v1.ImageService/") {
                    images.call(request).await
                } else {
                    runtime.call(request).await
                }
            }
        });
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    }

    /// Counts a call and does what was scripted for it.
    async fn call(&self, name: &'static str) -> Result<(), Status> {
        let fault = {
            let mut state = self.0.lock().unwrap();
            *state.calls.entry(name).or_default() += 1;
            state.faults.get(name).cloned()
        };
        match fault {
            None => Ok(()),
            Some(Fault::Refuse(status)) => Err(status),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::RefuseLate(after, status)) => {
                let mut under_way = CutOff(self.0.clone(), false);
                tokio::time::sleep(after).await;
                under_way.1 = true;
                Err(status)
            }
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[async_trait::async_trait]
impl RuntimeService for Served {
    async fn version(&self, request: Request<api::VersionRequest>) -> Answer<api::VersionResponse> {
        if request.metadata().get("x-v1alpha2").is_none() {
            self.call("Version").await?;
        }
        let (runtime_name, runtime_version) = ("containerd".to_owned(), self.state().version.clone());
        Ok(Response::new(api::VersionResponse { runtime_name, runtime_version, ..Default::default() }))
    }

    async fn status(&self, _: Request<api::StatusRequest>) -> Answer<api::StatusResponse> {
        self.call("Status").await?;
        Ok(Response::new(self.state().status.clone()))
    }

    async fn run_pod_sandbox(&self, _: Request<api::RunPodSandboxRequest>) -> Answer<api::RunPodSandboxResponse> {
        self.call("RunPodSandbox").await?;
        Ok(Response::new(api::RunPodSandboxResponse { pod_sandbox_id: "s1".to_owned() }))
    }

    async fn stop_pod_sandbox(&self, _: Request<api::StopPodSandboxRequest>) -> Answer<api::StopPodSandboxResponse> {
        self.call("StopPodSandbox").await?;
        Ok(Response::new(Default::default()))
    }

    async fn remove_pod_sandbox(
        &self,
        _: Request<api::RemovePodSandboxRequest>,
    ) -> Answer<api::RemovePodSandboxResponse> {
        self.call("RemovePodSandbox").await?;
        Ok(Response::new(Default::default()))
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<api::PodSandboxStatusRequest>,
    ) -> Answer<api::PodSandboxStatusResponse> {
        self.call("PodSandboxStatus").await?;
        let (id, state) = (request.into_inner().pod_sandbox_id, self.state());
        let found = state.sandboxes.iter().find(|s| s.id == id).ok_or_else(|| Status::not_found("no such sandbox"))?;
        let status = api::PodSandboxStatus {
            id,
            metadata: found.metadata.clone(),
            labels: found.labels.clone(),
            annotations: found.annotations.clone(),
            ..Default::default()
        };
        Ok(Response::new(api::PodSandboxStatusResponse { status: Some(status), ..Default::default() }))
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<api::ListPodSandboxRequest>,
    ) -> Answer<api::ListPodSandboxResponse> {
        self.call("ListPodSandbox").await?;
        let mut state = self.state();
        state.selectors.extend(request.into_inner().filter.map(|f| f.label_selector));
        Ok(Response::new(api::ListPodSandboxResponse { items: state.sandboxes.clone() }))
    }

    async fn create_container(
        &self,
        request: Request<api::CreateContainerRequest>,
    ) -> Answer<api::CreateContainerResponse> {
        self.call("CreateContainer").await?;
        self.state().created.push(request.into_inner());
        Ok(Response::new(api::CreateContainerResponse { container_id: "c1".to_owned() }))
    }

    async fn start_container(&self, _: Request<api::StartContainerRequest>) -> Answer<api::StartContainerResponse> {
        self.call("StartContainer").await?;
        Ok(Response::new(Default::default()))
    }

    async fn stop_container(&self, _: Request<api::StopContainerRequest>) -> Answer<api::StopContainerResponse> {
        self.call("StopContainer").await?;
        Ok(Response::new(Default::default()))
    }

    async fn remove_container(&self, _: Request<api::RemoveContainerRequest>) -> Answer<api::RemoveContainerResponse> {
        self.call("RemoveContainer").await?;
        Ok(Response::new(Default::default()))
    }

    async fn list_containers(&self, _: Request<api::ListContainersRequest>) -> Answer<api::ListContainersResponse> {
        self.call("ListContainers").await?;
        Ok(Response::new(api::ListContainersResponse { containers: self.state().containers.clone() }))
    }

    async fn container_status(
        &self,
        request: Request<api::ContainerStatusRequest>,
    ) -> Answer<api::ContainerStatusResponse> {
        self.call("ContainerStatus").await?;
        let found = self.state().statuses.get(&request.into_inner().container_id).cloned();
        let status = Some(found.ok_or_else(|| Status::not_found("no such container"))?);
        Ok(Response::new(api::ContainerStatusResponse { status, ..Default::default() }))
    }

    async fn update_container_resources(
        &self,
        request: Request<api::UpdateContainerResourcesRequest>,
    ) -> Answer<api::UpdateContainerResourcesResponse> {
        self.call("UpdateContainerResources").await?;
        self.state().updated.push(request.into_inner());
        Ok(Response::new(Default::default()))
    }

    async fn reopen_container_log(
        &self,
        _: Request<api::ReopenContainerLogRequest>,
    ) -> Answer<api::ReopenContainerLogResponse> {
        self.call("ReopenContainerLog").await?;
        Ok(Response::new(Default::default()))
    }

    async fn exec_sync(&self, _: Request<api::ExecSyncRequest>) -> Answer<api::ExecSyncResponse> {
        self.call("ExecSync").await?;
        Ok(Response::new(self.state().output.clone()))
    }

    async fn get_container_events(
        &self,
        _: Request<api::GetEventsRequest>,
    ) -> Answer<BoxStream<api::ContainerEventResponse>> {
        self.call("GetContainerEvents").await?;
        let mut receiver = {
            let mut state = self.state();
            if !state.has_events {
                return Err(Status::unimplemented("unknown method GetContainerEvents"));
            }
            let (sender, receiver) = mpsc::unbounded_channel();
            for event in std::mem::take(&mut state.backlog) {
                sender.send(Ok(event)).unwrap();
            }
            state.events.push(sender);
            receiver
        };
        // As containerd: no answer before the first event.
        let Some(first) = receiver.recv().await else { return Err(Status::unavailable("it ends")) };
        let rest = futures_util::stream::unfold(receiver, |mut r| async { r.recv().await.map(|event| (event, r)) });
        Ok(Response::new(futures_util::stream::iter([first]).chain(rest).boxed() as BoxStream<_>))
    }
}

#[async_trait::async_trait]
impl ImageService for Served {
    async fn image_status(&self, request: Request<api::ImageStatusRequest>) -> Answer<api::ImageStatusResponse> {
        self.call("ImageStatus").await?;
        let (name, image) = (request.into_inner().image.unwrap_or_default().image, self.state().image.clone());
        let known = image.id == name || image.repo_tags.contains(&name) || image.repo_digests.contains(&name);
        Ok(Response::new(api::ImageStatusResponse { image: known.then_some(image), ..Default::default() }))
    }

    async fn list_images(&self, _: Request<api::ListImagesRequest>) -> Answer<api::ListImagesResponse> {
        self.call("ListImages").await?;
        Ok(Response::new(api::ListImagesResponse { images: vec![self.state().image.clone()] }))
    }

    async fn pull_image(&self, request: Request<api::PullImageRequest>) -> Answer<api::PullImageResponse> {
        self.call("PullImage").await?;
        let mut state = self.state();
        let login = request.into_inner().auth;
        let right = login.as_ref().map(|l| l.username.clone()) == state.accepted;
        state.logins.push(login);
        if right {
            let digest = state.image.repo_digests.first().cloned().unwrap_or_default();
            Ok(Response::new(api::PullImageResponse { image_ref: digest }))
        } else {
            Err(Status::unknown("unexpected status: 401 Unauthorized"))
        }
    }

    async fn remove_image(&self, _: Request<api::RemoveImageRequest>) -> Answer<api::RemoveImageResponse> {
        self.call("RemoveImage").await?;
        self.state().image = api::Image::default();
        Ok(Response::new(Default::default()))
    }
}
