//! One scenario on one runtime.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use minke_core::fake;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{
    ContainerConfig, ContainerId, ContainerState, ListFilter, NamespaceMode, NamespaceOptions, Runtime, RuntimeError,
    SandboxConfig, SandboxId, error_chain, labels,
};
use tokio::time::Instant;

use crate::subject::{Program, Subject};
use crate::words;

/// Nothing in a scenario takes longer on a busy machine, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Why a scenario could not go on: something that every runtime must do failed, or a wait was in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken(pub String);

impl From<RuntimeError> for Broken {
    fn from(error: RuntimeError) -> Self {
        Self(error_chain(&error))
    }
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// One scenario on one runtime: a Pod identity of its own, and the transcript.
#[derive(Debug)]
pub struct Stage {
    /// The runtime under test.
    pub subject: Subject,
    pod: PodKey,
    said: Mutex<String>,
}

impl Stage {
    /// A stage for a scenario of this name.
    ///
    /// # Errors
    /// When its directory can't be made.
    pub fn new(subject: &Subject, scenario: &str) -> Result<Self, Broken> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let uid = PodUid::new(format!("{scenario}-{}-{number}", std::process::id()));
        let uid = uid.map_err(|error| Broken(error_chain(&error)))?;
        let this =
            Self { subject: subject.clone(), pod: PodKey::new("conformance", scenario, uid), said: Mutex::default() };
        std::fs::create_dir_all(this.directory())?;
        Ok(this)
    }

    pub(crate) fn runtime(&self) -> &dyn Runtime {
        self.subject.runtime.as_ref()
    }

    pub(crate) fn pod(&self) -> &PodUid {
        &self.pod.uid
    }

    /// Only what belongs to this scenario.
    pub(crate) fn own(&self) -> ListFilter {
        ListFilter::pod(self.pod())
    }

    /// A directory of its own on the machine.
    pub(crate) fn directory(&self) -> PathBuf {
        self.subject.directory.join(self.pod().to_string())
    }

    /// Adds a line to the transcript.
    pub(crate) fn say(&self, line: impl AsRef<str>) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(line.as_ref());
        said.push('\n');
    }

    /// The transcript so far.
    #[must_use]
    pub fn transcript(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The configuration of this scenario's sandbox: on the host's network, without limits.
    pub(crate) fn sandbox_config(&self) -> SandboxConfig {
        SandboxConfig {
            hostname: "conformance".to_owned(),
            log_directory: self.directory().join("logs"),
            labels: self.labels(),
            cgroup_parent: format!("{}/pod{}", self.subject.cgroup, self.pod()),
            namespaces: NamespaceOptions { network: NamespaceMode::Node, ..NamespaceOptions::default() },
            ..fake::sandbox_config(self.pod.clone())
        }
    }

    /// The configuration of a container with this name that runs this program.
    pub(crate) fn container_config(&self, name: &str, program: Program) -> ContainerConfig {
        let (image, image_name) = self.subject.image.clone();
        let plain = fake::container_config(name, 0, image);
        let mut config = ContainerConfig { image_name, labels: self.labels(), ..plain };
        config.labels.insert(labels::CONTAINER_NAME.to_owned(), name.to_owned());
        self.subject.programs.prepare(self.pod(), &mut config, program);
        config
    }

    /// As the kubelet writes them: over CRI, Pods are found by them.
    fn labels(&self) -> BTreeMap<String, String> {
        let PodKey { namespace, name, uid } = &self.pod;
        [
            (labels::POD_NAMESPACE, namespace.to_string()),
            (labels::POD_NAME, name.to_string()),
            (labels::POD_UID, uid.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }

    /// This scenario's sandbox, made.
    pub(crate) async fn sandbox(&self) -> Result<SandboxId, Broken> {
        let config = self.sandbox_config();
        std::fs::create_dir_all(&config.log_directory)?;
        Ok(self.runtime().run_sandbox(&config).await?)
    }

    /// Creates a container. Its log's directory exists, as the kubelet sees to.
    pub(crate) async fn create(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
    ) -> Result<ContainerId, RuntimeError> {
        let log = self.log_path(config);
        let _ = log.parent().map(std::fs::create_dir_all);
        self.runtime().create_container(sandbox, config, &self.sandbox_config()).await
    }

    /// Creates and starts a container, and waits until it is ready for signals.
    pub(crate) async fn start(&self, sandbox: &SandboxId, name: &str, program: Program) -> Result<ContainerId, Broken> {
        let config = self.container_config(name, program);
        self.start_config(sandbox, &config, program).await
    }

    /// The same with a configuration that was changed.
    pub(crate) async fn start_config(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        program: Program,
    ) -> Result<ContainerId, Broken> {
        let id = self.create(sandbox, config).await?;
        self.runtime().start_container(&id).await?;
        let says_up = match program {
            Program::Polite(_) | Program::Deaf => true,
            Program::Shell(script) => script.contains("echo up"),
            Program::Exit(_) | Program::Missing => false,
        };
        if says_up && self.subject.kind.runs_programs() {
            self.until("the program is up", async || {
                Ok(self.records(&self.log_path(config)).iter().any(|r| r.text == "up").then_some(()))
            })
            .await?;
        }
        Ok(id)
    }

    /// What a container does, in words.
    pub(crate) async fn state(&self, id: &ContainerId) -> Result<String, Broken> {
        Ok(words::state(&self.runtime().container_status(id).await?.state))
    }

    /// Waits for the end of a container and returns it in words.
    pub(crate) async fn ended(&self, id: &ContainerId) -> Result<String, Broken> {
        self.until("the container ends", async || match self.runtime().container_status(id).await?.state {
            state @ ContainerState::Exited { .. } => Ok(Some(words::state(&state))),
            ContainerState::Created | ContainerState::Running { .. } | ContainerState::Unknown => Ok(None),
        })
        .await
    }

    /// Where a container's log is.
    pub(crate) fn log_path(&self, config: &ContainerConfig) -> PathBuf {
        self.sandbox_config().log_directory.join(&config.log_path)
    }

    /// The records of a log; what is none stands in the text.
    pub(crate) fn records(&self, path: &Path) -> Vec<LogRecord> {
        std::fs::read_to_string(path).unwrap_or_default().lines().map(LogRecord::parse).collect()
    }

    /// The text of a container's log.
    pub(crate) fn log(&self, config: &ContainerConfig) -> String {
        LogRecord::text(&self.records(&self.log_path(config)))
    }

    /// Waits for a condition.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        condition: impl AsyncFn() -> Result<Option<T>, Broken>,
    ) -> Result<T, Broken> {
        let limit = Instant::now() + PATIENCE;
        loop {
            if let Some(value) = condition().await? {
                return Ok(value);
            }
            if Instant::now() > limit {
                return Err(Broken(format!("in vain for {} s: {what}", PATIENCE.as_secs())));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Removes what the scenario left, and says so if something can't be removed.
    ///
    /// # Errors
    /// What can't be removed.
    pub async fn clear(&self) -> Result<(), Broken> {
        for sandbox in self.runtime().list_sandboxes(&self.own()).await? {
            self.runtime().stop_sandbox(&sandbox.id).await?;
            self.runtime().remove_sandbox(&sandbox.id).await?;
        }
        let left = self.runtime().list_containers(&self.own()).await?.len();
        if left > 0 {
            return Err(Broken(format!("{left} containers are listed after their sandbox was removed")));
        }
        std::fs::remove_dir_all(self.directory())?;
        Ok(())
    }
}

/// A line of a log in CRI's format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogRecord {
    /// `stdout` or `stderr`; empty in what is no record.
    pub(crate) stream: String,
    /// `F` or `P`.
    pub(crate) tag: String,
    /// What was written.
    pub(crate) text: String,
}

impl LogRecord {
    fn parse(line: &str) -> Self {
        let mut fields = line.splitn(4, ' ');
        match (fields.next(), fields.next(), fields.next(), fields.next()) {
            (Some(time), Some(stream), Some(tag), Some(text)) if time.parse::<jiff::Timestamp>().is_ok() => {
                Self { stream: stream.to_owned(), tag: tag.to_owned(), text: text.to_owned() }
            }
            _ => Self { stream: String::new(), tag: String::new(), text: format!("not a log record: {line:?}") },
        }
    }

    fn text(records: &[Self]) -> String {
        let part = |r: &Self| if r.tag == "P" { r.text.clone() } else { format!("{}\n", r.text) };
        records.iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_as_cri_writes_it() {
        let lines =
            ["2026-01-02T03:04:05.000000006Z stdout P ab", "2026-01-02T03:04:05.000000007Z stdout F c d", "junk"];
        let records = lines.map(LogRecord::parse);
        assert_eq!(LogRecord::text(&records), "abc d\nnot a log record: \"junk\"\n");
        assert_eq!((records[0].stream.as_str(), records[0].tag.as_str()), ("stdout", "P"));
    }
}
