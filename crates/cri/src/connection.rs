//! The one channel to the runtime. It connects when it is used, and again after it broke.
//!
//! No HTTP/2 keepalive: runtimes' servers close connections that ping them too often, and a unix socket tells by
//! itself when the other end is gone.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint as HttpEndpoint};

use crate::api::image_service_client::ImageServiceClient;
use crate::api::runtime_service_client::RuntimeServiceClient;

/// Lists of a machine with many Pods are long; gRPC's default is 4 MiB, the kubelet's 16.
pub(crate) const LARGEST_MESSAGE: usize = 16 << 20;
/// Flow-control windows that let a long list through without waiting.
const WINDOW: u32 = 1 << 20;

/// The channel, and which connection it is on.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    channel: Channel,
    count: Arc<AtomicU64>,
}

impl Connection {
    /// A connection to this socket, made when it is used.
    pub(crate) fn new(socket: &Path) -> Self {
        let socket: Arc<Path> = socket.into();
        Self::over(move || {
            let socket = Arc::clone(&socket);
            async move { UnixStream::connect(&*socket).await }
        })
    }

    /// A connection over streams that are made so.
    pub(crate) fn over<S, F>(connect: impl Fn() -> F + Send + 'static) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        F: Future<Output = io::Result<S>> + Send + 'static,
    {
        let count = Arc::new(AtomicU64::new(0));
        let counted = count.clone();
        let connector = tower::service_fn(move |_: http::Uri| {
            let (connecting, counted) = (connect(), counted.clone());
            async move {
                let stream = connecting.await?;
                counted.fetch_add(1, Ordering::SeqCst);
                Ok::<_, io::Error>(TokioIo::new(stream))
            }
        });
        // The address is never resolved; servers want the authority to be well-formed.
        let endpoint = HttpEndpoint::from_static("http://localhost")
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        Self { channel: endpoint.connect_with_connector_lazy(connector), count }
    }

    /// How many connections were made. A runtime that was replaced answers on another one.
    pub(crate) fn generation(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// The channel itself, for calls of other versions.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub(crate) fn runtime(&self) -> RuntimeServiceClient<Channel> {
        RuntimeServiceClient::new(self.channel.clone())
            .max_decoding_message_size(LARGEST_MESSAGE)
            .max_encoding_message_size(LARGEST_MESSAGE)
    }

    pub(crate) fn images(&self) -> ImageServiceClient<Channel> {
        ImageServiceClient::new(self.channel.clone())
            .max_decoding_message_size(LARGEST_MESSAGE)
            .max_encoding_message_size(LARGEST_MESSAGE)
    }
}
