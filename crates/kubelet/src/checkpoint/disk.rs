//! Checkpoints on disk: files of mode 0600, each replaced as a whole (written beside, synced, renamed).

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::PodUid;
use minke_core::objects::ObjectSet;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{CheckpointError, Checkpoints, Loaded, SavedPod, SavedState};
use crate::DesiredPod;

/// What this version writes. Another number is left alone: it is for the version that wrote it.
const VERSION: u32 = 1;
const POD: &str = "pod.json";
const STATE: &str = "state.json";
/// A file that can't be read is renamed to its name and this.
const TORN: &str = "torn";

#[derive(Debug, Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    content: T,
}

#[derive(Debug, Serialize, Deserialize)]
struct PodFile {
    pod: Arc<Pod>,
    objects: Arc<ObjectSet>,
}

/// The directory of checkpoints can't be used.
#[derive(Debug, thiserror::Error)]
#[error("can't use {} for checkpoints", path.display())]
pub struct OpenError {
    /// Which.
    pub path: PathBuf,
    /// Why not.
    #[source]
    pub source: io::Error,
}

/// Checkpoints under one directory.
#[derive(Debug, Clone)]
pub struct DiskCheckpoints {
    root: PathBuf,
}

enum Read<T> {
    Absent,
    Is(T),
    Unreadable,
}

impl DiskCheckpoints {
    /// Uses `<state_directory>/pods`, which only the owner may enter: checkpoints hold Secrets.
    ///
    /// # Errors
    /// The directory can't be made or entered.
    pub fn open(state_directory: &Path) -> Result<Self, OpenError> {
        let root = state_directory.join("pods");
        let open = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&root)?;
            fs::read_dir(&root).map(drop)
        };
        match open() {
            Ok(()) => Ok(Self { root }),
            Err(source) => Err(OpenError { path: root, source }),
        }
    }

    fn directory(&self, uid: &PodUid) -> PathBuf {
        self.root.join(uid.as_str())
    }

    fn load_now(&self) -> Result<Loaded, CheckpointError> {
        let list = fs::read_dir(&self.root).map_err(|e| failed("list", &self.root, e))?;
        let mut loaded = Loaded::default();
        for entry in list {
            let entry = entry.map_err(|e| failed("list", &self.root, e))?;
            let Some(uid) = entry.file_name().to_str().and_then(|name| PodUid::new(name).ok()) else { continue };
            match self.load_pod(&uid) {
                Ok(Some(pod)) => loaded.pods.push(pod),
                Ok(None) => self.clear_leftover(&uid),
                Err(()) => loaded.unreadable.push(uid),
            }
        }
        loaded.pods.sort_by(|a, b| a.uid.cmp(&b.uid));
        loaded.unreadable.sort();
        Ok(loaded)
    }

    /// A Pod; `None` for a directory that is left from one; an error where it is there but can't be read.
    fn load_pod(&self, uid: &PodUid) -> Result<Option<SavedPod>, ()> {
        let directory = self.directory(uid);
        let torn = directory.join(format!("{POD}.{TORN}")).exists();
        let file: PodFile = match read(&directory.join(POD)) {
            Read::Is(file) => file,
            Read::Absent if !torn => return Ok(None),
            Read::Absent | Read::Unreadable => return Err(()),
        };
        let state = match read(&directory.join(STATE)) {
            Read::Is(state) => state,
            Read::Absent | Read::Unreadable => SavedState::default(),
        };
        let desired = DesiredPod { pod: file.pod, objects: file.objects };
        Ok(Some(SavedPod { uid: uid.clone(), desired, state }))
    }

    /// What is left when an agent died while it took a Pod on or forgot one.
    fn clear_leftover(&self, uid: &PodUid) {
        if let Err(error) = self.remove_now(uid) {
            tracing::warn!(pod = %uid, error = minke_core::runtime::error_chain(&error), "can't clear a leftover");
        }
    }

    fn save_now<T: Serialize>(&self, uid: &PodUid, name: &str, content: T) -> Result<(), CheckpointError> {
        let text = serde_json::to_vec(&Versioned { version: VERSION, content })
            .map_err(|source| CheckpointError::Encode { uid: uid.clone(), source })?;
        let directory = self.directory(uid);
        let fresh = match DirBuilder::new().mode(0o750).create(&directory) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(failed("make", &directory, error)),
        };
        let (target, beside) = (directory.join(name), directory.join(format!(".{name}.new")));
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
            file.set_permissions(Permissions::from_mode(0o600))?;
            file.write_all(&text)?;
            file.sync_data()?;
            fs::rename(&beside, &target)?;
            // The name of a Pod's first file must last as well; a later one replaces what lasts already.
            if name == POD {
                File::open(&directory)?.sync_all()?;
            }
            if fresh { File::open(&self.root)?.sync_all() } else { Ok(()) }
        };
        write().map_err(|e| failed("write", &target, e))
    }

    fn remove_now(&self, uid: &PodUid) -> Result<(), CheckpointError> {
        let directory = self.directory(uid);
        let ignore_absent = |result: io::Result<()>| match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        if let Some(path) = mounted_inside(&directory).map_err(|e| failed("check", &directory, e))? {
            return Err(CheckpointError::StillMounted { path });
        }
        // From here on the Pod does not exist; the rest is litter.
        let pod = directory.join(POD);
        ignore_absent(fs::remove_file(&pod)).map_err(|e| failed("remove", &pod, e))?;
        ignore_absent(fs::remove_dir_all(&directory)).map_err(|e| failed("remove", &directory, e))
    }
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> CheckpointError {
    CheckpointError::Io { action, path: path.to_owned(), source }
}

/// Reads a file; what can't be understood is set aside, so that it can be looked at and is not read again.
fn read<T: DeserializeOwned>(path: &Path) -> Read<T> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Read::Absent,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "can't read a checkpoint");
            return Read::Unreadable;
        }
    };
    #[derive(Deserialize)]
    struct Head {
        version: u32,
    }
    match serde_json::from_slice::<Head>(&text) {
        Ok(head) if head.version != VERSION => {
            let version = head.version;
            tracing::warn!(path = %path.display(), version, "a checkpoint of another version of minke is left alone");
            return Read::Unreadable;
        }
        Ok(_) | Err(_) => {}
    }
    match serde_json::from_slice::<Versioned<T>>(&text) {
        Ok(file) => Read::Is(file.content),
        Err(error) => {
            let mut aside = path.as_os_str().to_owned();
            aside.push(".");
            aside.push(TORN);
            // serde's message names fields and positions, never values of strings that parsed; the file may hold
            // Secrets, so only the position is told.
            let (line, column) = (error.line(), error.column());
            tracing::warn!(path = %path.display(), line, column, "a torn checkpoint is set aside");
            if let Err(error) = fs::rename(path, &aside) {
                tracing::warn!(path = %path.display(), %error, "can't set it aside");
            }
            Read::Unreadable
        }
    }
}

/// The first mount point below this directory.
fn mounted_inside(directory: &Path) -> io::Result<Option<PathBuf>> {
    let Ok(directory) = directory.canonicalize() else { return Ok(None) };
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(|field| PathBuf::from(unescaped(field)));
    Ok(points.into_iter().find(|point| point.starts_with(&directory) && *point != directory))
}

/// The kernel writes blanks and backslashes in paths as `\ooo`.
fn unescaped(field: &str) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = (first == b'\\').then(|| tail.get(..3)).flatten();
        let code = code.and_then(|c| std::str::from_utf8(c).ok()).and_then(|c| u8::from_str_radix(c, 8).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs blocking work beside the async tasks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CheckpointError> + Send + 'static,
) -> Result<T, CheckpointError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(CheckpointError::Interrupted))
}

#[async_trait]
impl Checkpoints for DiskCheckpoints {
    async fn load(&self) -> Result<Loaded, CheckpointError> {
        let this = self.clone();
        blocking(move || this.load_now()).await
    }

    async fn save_pod(&self, uid: &PodUid, desired: &DesiredPod) -> Result<(), CheckpointError> {
        let (this, uid) = (self.clone(), uid.clone());
        let file = PodFile { pod: desired.pod.clone(), objects: desired.objects.clone() };
        blocking(move || this.save_now(&uid, POD, file)).await
    }

    async fn save_state(&self, uid: &PodUid, state: &SavedState) -> Result<(), CheckpointError> {
        let (this, uid, state) = (self.clone(), uid.clone(), state.clone());
        blocking(move || this.save_now(&uid, STATE, state)).await
    }

    async fn remove(&self, uid: &PodUid) -> Result<(), CheckpointError> {
        let (this, uid) = (self.clone(), uid.clone());
        blocking(move || this.remove_now(&uid)).await
    }
}

#[cfg(test)]
mod tests;
