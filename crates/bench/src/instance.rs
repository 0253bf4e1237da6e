//! One instance of Minke, driven by its command line, with an image in its store.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use minke_testkit::{BUSYBOX, TempState, busybox_image};

use crate::failure::Failure;
use crate::process::{self, Process};

/// The image of every measured Pod.
pub(crate) const IMAGE: &str = "localhost/minke-bench/busybox:1";

/// Writes the image as a docker archive, which all peers can read.
pub(crate) fn write_image(path: &Path) -> Result<(), Failure> {
    let image = busybox_image(Path::new(BUSYBOX)).map_err(Failure::file("reading", Path::new(BUSYBOX)))?;
    let archive = image.name(IMAGE).build();
    archive.write_docker_archive(path, minke_testkit::Compression::None).map_err(Failure::file("writing", path))
}

/// Pods that do nothing, named `<prefix>-0` and so on.
pub(crate) fn manifest(prefix: &str, count: usize) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {prefix}-{n}\nspec:\n  terminationGracePeriodSeconds: 0\n  \
             containers:\n  - name: main\n    image: {IMAGE}\n    imagePullPolicy: Never\n    \
             command: [/bin/sleep, \"100000\"]\n"
        );
        text
    })
}

/// An instance with directories of its own; everything is removed when dropped.
pub(crate) struct Instance {
    binary: PathBuf,
    place: TempState,
    /// The socket of its runtime, if that is not the embedded one.
    endpoint: Option<PathBuf>,
}

impl Instance {
    pub(crate) fn new(binary: &Path) -> Result<Self, Failure> {
        let place = TempState::new().map_err(Failure::file("making", Path::new("a state directory")))?;
        let instance = Self { binary: binary.to_owned(), place, endpoint: None };
        let archive = instance.place.root().join("image.tar");
        write_image(&archive)?;
        instance.import(&archive)?;
        Ok(instance)
    }

    /// One on a runtime with CRI that has the image.
    pub(crate) fn on(binary: &Path, endpoint: PathBuf) -> Result<Self, Failure> {
        let place = TempState::new().map_err(Failure::file("making", Path::new("a state directory")))?;
        Ok(Self { binary: binary.to_owned(), place, endpoint: Some(endpoint) })
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        // How full the disk of this machine is, is not what is measured.
        command.env("MINKE_EVICTION_HARD", "none");
        command.arg("--state-dir").arg(self.place.state());
        command.arg("--run-dir").arg(self.place.run());
        command.arg("--log-dir").arg(self.place.logs());
        if let Some(endpoint) = &self.endpoint {
            command.arg("--runtime-endpoint").arg(endpoint);
        }
        command
    }

    pub(crate) fn import(&self, archive: &Path) -> Result<Duration, Failure> {
        process::time(self.command().args(["image", "import"]).arg(archive))
    }

    /// From the command to all Pods Running.
    pub(crate) fn run(&self, manifest: &str) -> Result<Duration, Failure> {
        let path = self.place.root().join("pods.yaml");
        std::fs::write(&path, manifest).map_err(Failure::file("writing", &path))?;
        process::time(self.command().args(["run", "--no-logs", "--quiet"]).arg(path))
    }

    pub(crate) fn remove(&self, pods: &[&str]) -> Result<(), Failure> {
        process::run(self.command().args(["rm", "--force"]).args(pods)).map(drop)
    }

    pub(crate) fn remove_all(&self) -> Result<(), Failure> {
        process::run(self.command().args(["rm", "--force", "--all"])).map(drop)
    }

    /// Waits until an agent that was started by hand answers.
    pub(crate) fn wait_for_the_start(&self) -> Result<(), Failure> {
        let socket = self.place.run().join("agent.sock");
        crate::pods::runtime()?.block_on(async {
            for _ in 0..1_000 {
                if std::os::unix::net::UnixStream::connect(&socket).is_ok() {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(Failure::Unexpected("the agent does not answer 10 s after it was started".to_owned()))
        })
    }

    /// Waits until the agent has ended, as it does after its last Pod.
    pub(crate) fn wait_for_the_end(&self) -> Result<(), Failure> {
        let waiting = crate::pods::runtime()?;
        waiting.block_on(async {
            for _ in 0..1_000 {
                if self.agents().is_empty() {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(Failure::Unexpected("the agent is still there 10 s after its last pod was removed".to_owned()))
        })
    }

    pub(crate) fn agents(&self) -> Vec<Process> {
        let mut processes = Process::mentioning(&self.place.run());
        processes.retain(|process| process.arguments.iter().any(|argument| argument == "agent"));
        processes
    }

    pub(crate) fn shims(&self) -> Vec<Process> {
        let mut processes = Process::mentioning(&self.place.run());
        processes.retain(|process| process.arguments.first().is_some_and(|program| program.starts_with("minke-shim")));
        processes
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let gone =
            if self.agents().is_empty() { Ok(()) } else { self.remove_all().and_then(|()| self.wait_for_the_end()) };
        if let Err(failure) = gone {
            eprintln!("could not clean up: {}", minke_core::runtime::error_chain(&failure));
        }
    }
}
