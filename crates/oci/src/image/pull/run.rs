//! One pull, from a name to an image of the store.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use minke_core::runtime::{Credential, ImageId, PullError, PullProgress, PullRequest};
use tokio::sync::mpsc;

use super::download::{Incoming, download};
use super::{PullConfig, Retry};
use crate::image::ingest::{self, Layer};
use crate::image::manifest::{
    Document, MAX_CONFIG, MAX_MANIFEST, Manifest, NoPlatform, Platform, check_platform, select,
};
use crate::image::registry::{RegistryError, Session};
use crate::image::store::{Inner, LayerKey};
use crate::image::unpack::{Budget, ExpectedBlob, UnpackError};
use crate::image::{Digest, ImageConfig, Reference};

/// How deep indexes may nest.
const MAX_DEPTH: usize = 4;
/// How often it is looked whether another pull has brought a layer.
const LOOK: Duration = Duration::from_millis(25);
/// Chunks that wait to be unpacked: about a MiB.
const CHUNKS: usize = 64;

/// Why a pull failed, before the image's name is added.
#[derive(Debug)]
enum Failure {
    Registry(RegistryError),
    Unpack(UnpackError),
    Platform(NoPlatform),
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        Self::Registry(error)
    }
}

impl<E: Into<UnpackError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Unpack(error.into())
    }
}

fn bad(message: String) -> Failure {
    Failure::Registry(RegistryError::Content(message))
}

/// Fetches an image and puts it into the store.
pub(super) async fn pull(store: Arc<Inner>, request: PullRequest) -> Result<ImageId, PullError> {
    let image = request.image.clone();
    let reference =
        Reference::parse(&image).map_err(|message| PullError::InvalidName { image: image.clone(), message })?;
    let pull = Pull { platform: Platform::host(), reference, progress: &*request.progress, store: &store };
    let name = pull.reference.to_string();
    pull.run(&request.credentials).await.map_err(|failure| match failure {
        Failure::Registry(error) => error.into_pull(&name),
        Failure::Unpack(error) => error.into_pull(&name),
        Failure::Platform(NoPlatform { available }) => {
            PullError::NoPlatform { image: name, platform: pull.platform.to_string(), available }
        }
    })
}

struct Pull<'a> {
    reference: Reference,
    platform: Platform,
    progress: &'a dyn PullProgress,
    store: &'a Arc<Inner>,
}

/// What the registry has under the name.
struct Found {
    manifest: Manifest,
    /// Digest of the manifest or index that the name points to.
    digest: Digest,
}

impl Pull<'_> {
    fn config(&self) -> &PullConfig {
        &self.store.puller.config
    }

    async fn run(&self, credentials: &[Credential]) -> Result<ImageId, Failure> {
        let (session, found) = self.log_in(credentials).await?;
        let Found { manifest, digest } = found;
        manifest.check().map_err(bad)?;
        let config_bytes = self.config_bytes(&session, &manifest).await?;
        let config = manifest.config(&config_bytes).map_err(bad)?;
        check_platform(&config, &self.platform).map_err(Failure::Platform)?;
        let budget = Arc::new(Budget::new(self.store.config.limits));
        let layers = self.layers(&session, &manifest, &config, &budget).await?;
        let names: Vec<String> =
            self.reference.tagged().into_iter().chain([self.reference.with_digest(&digest)]).collect();
        let store = Arc::clone(self.store);
        let id = manifest.config.digest;
        blocking(move || ingest::finish(&store, &id, &config_bytes, layers, &names, &budget)).await
    }

    /// Finds the login with which the registry gives the manifest. A registry may say of what a login may not see
    /// that it does not exist, so both lead on to the next one.
    async fn log_in(&self, credentials: &[Credential]) -> Result<(Session<'_>, Found), Failure> {
        let mut logins: Vec<Option<Credential>> = credentials.iter().cloned().map(Some).collect();
        if logins.is_empty() {
            logins = self.store.puller.logins.credentials(&self.reference).await.into_iter().map(Some).collect();
            logins.push(None);
        }
        let tls = !self.reference.is_loopback()
            && !self.config().insecure_registries.iter().any(|host| host == self.reference.registry());
        let mut denied: Option<RegistryError> = None;
        for login in logins {
            let session = Session::new(&self.store.puller.http, &self.reference, tls, login, self.config().patience)?;
            match self.resolve(&session).await {
                Ok(found) => return Ok((session, found)),
                Err(Failure::Registry(error @ (RegistryError::Denied(_) | RegistryError::NotFound))) => {
                    // That it exists, but not for us, is the more useful answer of the two.
                    if denied.is_none() || matches!(error, RegistryError::Denied(_)) {
                        denied = Some(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(denied.unwrap_or(RegistryError::NotFound).into())
    }

    /// The manifest for this machine.
    async fn resolve(&self, session: &Session<'_>) -> Result<Found, Failure> {
        let (bytes, digest) = self.manifest(session, &self.reference.target()).await?;
        let mut document = Document::parse(&bytes).map_err(bad)?;
        for _ in 0..MAX_DEPTH {
            match document {
                Document::Image(manifest) => return Ok(Found { manifest, digest }),
                Document::Index(descriptors) => {
                    let chosen = select(&descriptors, &self.platform).map_err(Failure::Platform)?;
                    let (bytes, _) = self.manifest(session, &chosen.digest.to_string()).await?;
                    document = Document::parse(&bytes).map_err(bad)?;
                }
            }
        }
        Err(bad("its indexes are nested too deeply".to_owned()))
    }

    async fn manifest(&self, session: &Session<'_>, target: &str) -> Result<(Vec<u8>, Digest), RegistryError> {
        let mut retry = Retry::new(self.config());
        loop {
            match session.manifest(target, MAX_MANIFEST).await {
                Ok((bytes, digest)) => return Ok((bytes.to_vec(), digest)),
                Err(error) => tokio::time::sleep(retry.after(error)?).await,
            }
        }
    }

    /// The configuration: the store's own, if the image is there, otherwise the registry's.
    async fn config_bytes(&self, session: &Session<'_>, manifest: &Manifest) -> Result<Vec<u8>, Failure> {
        let descriptor = &manifest.config;
        if let Some(bytes) = self.store.config_bytes(&descriptor.digest)? {
            return Ok(bytes);
        }
        let mut retry = Retry::new(self.config());
        loop {
            match session.small_blob(&descriptor.digest, descriptor.size, MAX_CONFIG).await {
                Ok(bytes) => return Ok(bytes.to_vec()),
                Err(error) => tokio::time::sleep(retry.after(error)?).await,
            }
        }
    }

    /// Brings every layer, several at a time; lowest first.
    async fn layers(
        &self,
        session: &Session<'_>,
        manifest: &Manifest,
        config: &ImageConfig,
        budget: &Arc<Budget>,
    ) -> Result<Vec<(LayerKey, Layer)>, Failure> {
        let blobs = manifest.layers.iter();
        let blobs = blobs.map(|layer| ExpectedBlob { digest: layer.digest.clone(), size: layer.size });
        let jobs: Vec<_> = LayerKey::of(&config.diff_ids).into_iter().zip(blobs).collect();
        let jobs = jobs.into_iter().map(|(key, blob)| async move {
            let layer = self.layer(session, &key, blob, budget).await?;
            Ok((key, layer))
        });
        stream::iter(jobs).buffered(self.config().parallel_layers.max(1)).try_collect().await
    }

    /// Brings one layer, unless it is there or somebody else brings it.
    async fn layer(
        &self,
        session: &Session<'_>,
        key: &LayerKey,
        blob: ExpectedBlob,
        budget: &Arc<Budget>,
    ) -> Result<Layer, Failure> {
        let lock = loop {
            if let Some(hold) = self.store.hold_layer(key)? {
                self.progress.layer(&blob.digest.to_string(), blob.size, blob.size);
                return Ok(Layer::Held(hold));
            }
            match self.store.try_fetch_lock(key)? {
                // Looked for once more: the one who had the lock may have just finished.
                Some(lock) => match self.store.hold_layer(key)? {
                    Some(hold) => return Ok(Layer::Held(hold)),
                    None => break lock,
                },
                None => tokio::time::sleep(LOOK).await,
            }
        };
        self.progress.layer(&blob.digest.to_string(), 0, blob.size);
        let (sender, receiver) = mpsc::channel(CHUNKS);
        let (store, budget, key, expected) = (Arc::clone(self.store), Arc::clone(budget), key.clone(), blob.clone());
        let unpacked = blocking(move || {
            // The lock goes with the thread: it outlives a pull that is dropped, until its scratch is gone.
            let _lock = lock;
            ingest::unpack_layer(&store, &key, Incoming::new(receiver), Some(expected), &budget)
        });
        let downloaded = download(session, &blob, self.config(), self.progress, sender);
        let (downloaded, unpacked) = tokio::join!(downloaded, unpacked);
        // A download that failed also fails the unpacking, as a cut layer; the reason is the download's.
        downloaded?;
        unpacked
    }
}

async fn blocking<T: Send + 'static, E: Into<UnpackError> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(|error| Failure::Unpack(error.into())),
        Err(error) => Err(Failure::Unpack(UnpackError::Source(std::io::Error::other(error)))),
    }
}
