//! What the tests share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use minke_core::runtime::{Credential, ImageId, NoProgress, PullError, PullRequest};
use minke_oci::image::{ImageStore, ImportSource, Limits, PullConfig, StoreConfig};
use minke_testkit::{Image, ImageBuilder, Layer, TempState};

/// Ends the test, with a line that says so, when this is not root.
macro_rules! needs_root {
    ($name:expr) => {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED {}: unpacking layers needs root", $name);
            return;
        }
    };
}
pub(crate) use needs_root;

/// Settings with which failing pulls fail quickly, and with no logins of this machine.
pub(crate) fn config() -> StoreConfig {
    StoreConfig {
        limits: Limits::default(),
        pull: PullConfig {
            pause: Duration::from_millis(5),
            attempts: 4,
            patience: Duration::from_secs(10),
            docker_configs: Some(Vec::new()),
            ..PullConfig::default()
        },
    }
}

/// A store of its own, removed on drop.
pub(crate) struct TestStore {
    pub(crate) store: ImageStore,
    pub(crate) state: TempState,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        Self::with(config())
    }

    pub(crate) fn with(config: StoreConfig) -> Self {
        let state = TempState::new().unwrap();
        let store = ImageStore::open(&state.state().join("images"), config).unwrap();
        Self { store, state }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.state.state().join("images")
    }

    pub(crate) async fn import(&self, image: &Image) -> Result<ImageId, PullError> {
        let path = self.state.root().join("image.tar");
        image.write_oci_archive(&path).unwrap();
        Ok(self.store.import(ImportSource::Path(path), &[]).await?.remove(0).id)
    }

    /// Imports an image of these layers and gives their trees, lowest first.
    pub(crate) async fn unpack(&self, layers: impl IntoIterator<Item = Layer>) -> Result<Vec<PathBuf>, PullError> {
        let image = layers.into_iter().fold(ImageBuilder::new(), ImageBuilder::layer).build();
        let id = self.import(&image).await?;
        Ok(self.store.layers(&id).unwrap())
    }

    /// Names below a directory of the store.
    pub(crate) fn names(&self, dir: &str) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.root().join(dir))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Nothing is left of work that ended, well or badly.
    pub(crate) fn assert_tidy(&self) {
        assert_eq!(self.names("tmp"), [""; 0], "scratch directories");
        assert_eq!(self.names("locks"), [""; 0], "locks");
    }
}

pub(crate) fn request(image: &str) -> PullRequest {
    PullRequest { image: image.to_owned(), credentials: Vec::new(), progress: Arc::new(NoProgress) }
}

pub(crate) fn with_login(image: &str, username: &str, password: &str) -> PullRequest {
    let credential = Credential::Basic { username: username.into(), password: password.into() };
    PullRequest { credentials: vec![credential], ..request(image) }
}

/// A small image with as many layers as asked for, each with one file.
pub(crate) fn image(layers: usize) -> Image {
    (0..layers)
        .fold(ImageBuilder::new(), |image, index| {
            image.layer(Layer::new().file(format!("file-{index}"), 0o644, format!("content {index}")))
        })
        .cmd(["/bin/true"])
        .build()
}

/// Bytes that don't compress, the same every time.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
    .take(length)
    .collect()
}

/// Every path below a directory, with what it is: a picture to compare with a later one.
pub(crate) fn picture(root: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt as _;
    let mut lines = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(path) = pending.pop() {
        let meta = path.symlink_metadata().unwrap();
        let content = if meta.is_file() {
            format!("{:?}", std::fs::read(&path).unwrap())
        } else if meta.is_symlink() {
            format!("{:?}", std::fs::read_link(&path).unwrap())
        } else {
            String::new()
        };
        lines.push(format!(
            "{} {:o} {}:{} nlink {} mtime {}.{} {content}",
            path.display(),
            meta.mode(),
            meta.uid(),
            meta.gid(),
            if meta.is_dir() { 0 } else { meta.nlink() },
            meta.mtime(),
            meta.mtime_nsec()
        ));
        if meta.is_dir() {
            pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    lines.sort();
    lines
}
