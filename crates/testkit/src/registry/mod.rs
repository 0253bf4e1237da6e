//! An OCI distribution server on loopback, for pulls only, that can be told to misbehave and that remembers what
//! it was asked.
//!
//! [`Registry`] is the handle of a test; `serve` answers requests, `auth` decides who may read, `fault` decides
//! what goes wrong.

mod auth;
mod fault;
mod serve;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use auth::Access;
pub use fault::{Fault, On};

use crate::{Blob, Image, ImageIndex};

/// One request that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Its `Authorization` header.
    pub authorization: Option<String>,
    /// Its `Range` header.
    pub range: Option<String>,
}

/// What the server knows; shared by its connections.
#[derive(Debug, Default)]
struct State {
    /// By repository and then tag or digest: media type and bytes.
    manifests: HashMap<(String, String), (String, Bytes)>,
    /// By repository and digest.
    blobs: HashMap<(String, String), Bytes>,
    access: Access,
    /// Tokens that were given out, and for which repository.
    tokens: HashMap<String, String>,
    faults: Vec<fault::Armed>,
    requests: Vec<Request>,
}

/// A running registry. It stops when dropped.
#[derive(Debug)]
pub struct Registry {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

impl Registry {
    /// Starts an empty registry for everybody on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> io::Result<Self> {
        Self::with_access(Access::Everybody).await
    }

    /// Starts an empty registry with access control.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn with_access(access: Access) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State { access, ..State::default() }));
        let server = tokio::spawn(serve::run(listener, address, Arc::clone(&state)));
        Ok(Self { address, state, server })
    }

    /// `127.0.0.1:<port>`, the registry part of image names.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Adds an image under `repository:tag` and under its digest; returns its full name.
    pub fn push(&self, repository: &str, tag: &str, image: &Image) -> String {
        let mut state = self.lock();
        put_image(&mut state, repository, image);
        put_manifest(&mut state, repository, tag, &image.manifest);
        format!("{}/{repository}:{tag}", self.address)
    }

    /// Adds an image index and the images it lists; returns its full name.
    pub fn push_index(&self, repository: &str, tag: &str, index: &ImageIndex) -> String {
        let mut state = self.lock();
        for image in &index.images {
            put_image(&mut state, repository, image);
        }
        put_manifest(&mut state, repository, tag, &index.index);
        put_manifest(&mut state, repository, &index.index.digest, &index.index);
        format!("{}/{repository}:{tag}", self.address)
    }

    /// Adds any manifest, well-formed or not; returns its full name.
    pub fn push_manifest(&self, repository: &str, tag: &str, media_type: &str, bytes: &[u8]) -> String {
        let blob = Blob::new(media_type, bytes.to_vec());
        let mut state = self.lock();
        put_manifest(&mut state, repository, tag, &blob);
        put_manifest(&mut state, repository, &blob.digest, &blob);
        format!("{}/{repository}:{tag}", self.address)
    }

    /// Puts other bytes under a digest: a registry that lies.
    pub fn replace_blob(&self, repository: &str, digest: &str, bytes: &[u8]) {
        self.lock().blobs.insert((repository.into(), digest.into()), Bytes::copy_from_slice(bytes));
    }

    /// From now on, the next `times` requests that match go wrong.
    pub fn fail(&self, on: On, times: usize, fault: Fault) {
        self.lock().faults.push(fault::Armed { on, times, fault });
    }

    /// Everything that was asked so far, in order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.clone()
    }

    /// How often the blob with this digest was asked for with GET.
    #[must_use]
    pub fn blob_requests(&self, digest: &str) -> usize {
        let suffix = format!("/blobs/{digest}");
        self.lock().requests.iter().filter(|r| r.method == "GET" && r.path.ends_with(&suffix)).count()
    }

    /// Forgets what was asked so far.
    pub fn forget_requests(&self) {
        self.lock().requests.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn put_image(state: &mut State, repository: &str, image: &Image) {
    put_manifest(state, repository, &image.manifest.digest, &image.manifest);
    for blob in image.layers.iter().chain([&image.config]) {
        state.blobs.insert((repository.into(), blob.digest.clone()), Bytes::copy_from_slice(&blob.bytes));
    }
}

fn put_manifest(state: &mut State, repository: &str, reference: &str, manifest: &Blob) {
    state.manifests.insert(
        (repository.into(), reference.into()),
        (manifest.media_type.clone(), Bytes::copy_from_slice(&manifest.bytes)),
    );
}
