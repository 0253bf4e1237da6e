//! Where one instance of Minke keeps its things.
//!
//! A state directory is an instance: one agent, one bridge, one cgroup root. The default one has the plain names;
//! any other derives its names from its path, so that instances never tread on each other.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::Args;
use sha2::{Digest, Sha256};

use crate::backend::{BackendArgs, BackendError, Wanted};

/// The state directory of the default instance.
pub(crate) const DEFAULT_STATE: &str = "/var/lib/minke";
const DEFAULT_RUN: &str = "/run/minke";
const DEFAULT_LOG: &str = "/var/log/pods";
const DEFAULT_CNI: &str = "/etc/cni/net.d";
/// `sun_path` holds 108 bytes with its NUL; shims' sockets lie this much deeper than the run directory.
const LONGEST_RUN_DIRECTORY: usize = 107 - "/pods/0123456789abcdef0123456789abcdef/shim.sock".len();

/// The directories as given on the command line or by the environment.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlaceArgs {
    /// Durable state: images, Pods, addresses. Each state directory is an instance of its own
    #[arg(long, global = true, value_name = "DIR", env = "MINKE_STATE_DIR", help_heading = "Instance")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Sockets; emptied by a reboot
    #[arg(long, global = true, value_name = "DIR", env = "MINKE_RUN_DIR", help_heading = "Instance")]
    pub(crate) run_dir: Option<PathBuf>,
    /// Logs of Pods
    #[arg(long, global = true, value_name = "DIR", env = "MINKE_LOG_DIR", help_heading = "Instance")]
    pub(crate) log_dir: Option<PathBuf>,
    /// Where CNI networks are configured; without any there, Pods get the built-in bridge
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "MINKE_CNI_CONF_DIR",
        default_value = DEFAULT_CNI,
        help_heading = "Instance"
    )]
    pub(crate) cni_conf_dir: PathBuf,
    /// Where CNI plugins are, instead of the usual directories
    #[arg(long, global = true, value_name = "DIR", env = "MINKE_CNI_BIN_DIR", help_heading = "Instance")]
    pub(crate) cni_bin_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

/// An instance: its directories (absolute) and the names that it uses on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Durable state.
    pub(crate) state: PathBuf,
    /// Sockets.
    pub(crate) run: PathBuf,
    /// Logs of Pods.
    pub(crate) logs: PathBuf,
    /// Where CNI networks are configured.
    pub(crate) cni: PathBuf,
    /// Where CNI plugins are; `None`: in the usual directories.
    pub(crate) cni_plugins: Option<PathBuf>,
    /// The container runtime that is asked for; `None`: the instance's own.
    pub(crate) backend: Option<Wanted>,
    /// `None` for the default instance, else eight hexadecimal digits.
    pub(crate) instance: Option<String>,
}

/// A directory that can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    /// A relative path and no current directory.
    #[error("can't find the absolute path of {path}")]
    Relative {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Unix sockets have short paths.
    #[error(
        "the run directory {path} is too long for unix sockets ({length} bytes, at most {LONGEST_RUN_DIRECTORY}); \
         choose a shorter --run-dir"
    )]
    RunTooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
    /// The container runtime that is asked for can't be.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl Place {
    /// Makes paths absolute and derives what was not given. Touches no file.
    pub(crate) fn resolve(args: &PlaceArgs) -> Result<Self, PlaceError> {
        let absolute = |path: &Path| {
            std::path::absolute(path)
                .map(|p| p.components().collect::<PathBuf>())
                .map_err(|source| PlaceError::Relative { path: path.to_owned(), source })
        };
        let state = absolute(args.state_dir.as_deref().unwrap_or(Path::new(DEFAULT_STATE)))?;
        let instance = (state != Path::new(DEFAULT_STATE)).then(|| instance_name(state.as_os_str()));
        let run = match (&args.run_dir, &instance) {
            (Some(run), _) => absolute(run)?,
            (None, None) => PathBuf::from(DEFAULT_RUN),
            (None, Some(name)) => Path::new(DEFAULT_RUN).join(name),
        };
        // Uids come from a manifest's content, so two instances that run one manifest must not share logs.
        let logs = match (&args.log_dir, &instance) {
            (Some(logs), _) => absolute(logs)?,
            (None, None) => PathBuf::from(DEFAULT_LOG),
            (None, Some(_)) => state.join("logs"),
        };
        let length = run.as_os_str().len();
        if length > LONGEST_RUN_DIRECTORY {
            return Err(PlaceError::RunTooLong { path: run, length });
        }
        let cni = absolute(&args.cni_conf_dir)?;
        let cni_plugins = args.cni_bin_dir.as_deref().map(absolute).transpose()?;
        let backend = args.backend.wanted()?;
        Ok(Self { state, run, logs, cni, cni_plugins, backend, instance })
    }

    /// The agent's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.run.join("agent.sock")
    }

    /// Locked by the agent as long as it lives.
    pub(crate) fn agent_lock(&self) -> PathBuf {
        self.state.join("agent.lock")
    }

    /// Locked by whoever starts an agent, until it answers.
    pub(crate) fn start_lock(&self) -> PathBuf {
        self.state.join("agent.start.lock")
    }

    /// What a background agent writes.
    pub(crate) fn agent_log(&self) -> PathBuf {
        self.state.join("agent.log")
    }

    fn down(&self) -> PathBuf {
        self.state.join("down")
    }

    /// Whether `minke down` has ended the instance, and nobody began it again.
    pub(crate) fn is_down(&self) -> bool {
        self.down().exists()
    }

    /// Notes that the instance is down, or that it is not any more.
    pub(crate) fn set_down(&self, down: bool) -> io::Result<()> {
        if down {
            return std::fs::write(self.down(), "");
        }
        match std::fs::remove_file(self.down()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Parent of the instance's pod cgroups.
    pub(crate) fn cgroup_root(&self) -> String {
        match &self.instance {
            None => "/minke".to_owned(),
            Some(name) => format!("/minke-{name}"),
        }
    }

    /// The arguments that lead another process of this program to the same instance.
    pub(crate) fn as_arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![
            OsStr::new("--state-dir"),
            self.state.as_os_str(),
            OsStr::new("--run-dir"),
            self.run.as_os_str(),
            OsStr::new("--log-dir"),
            self.logs.as_os_str(),
            OsStr::new("--cni-conf-dir"),
            self.cni.as_os_str(),
        ];
        if let Some(plugins) = &self.cni_plugins {
            arguments.extend([OsStr::new("--cni-bin-dir"), plugins.as_os_str()]);
        }
        let wanted = self.backend.iter().flat_map(Wanted::as_arguments).map(OsString::from);
        arguments.into_iter().map(OsStr::to_owned).chain(wanted).collect()
    }
}

/// A short name that only this path has.
fn instance_name(path: &OsStr) -> String {
    hex::encode(&Sha256::digest(path.as_bytes())[..4])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(state: Option<&str>, run: Option<&str>, logs: Option<&str>) -> Result<Place, PlaceError> {
        let path = |p: Option<&str>| p.map(PathBuf::from);
        Place::resolve(&PlaceArgs {
            state_dir: path(state),
            run_dir: path(run),
            log_dir: path(logs),
            cni_conf_dir: PathBuf::from(DEFAULT_CNI),
            cni_bin_dir: None,
            backend: BackendArgs::default(),
        })
    }

    #[test]
    fn the_default_instance_has_the_plain_names() {
        let place = place(None, None, None).unwrap();
        assert_eq!(place.state, Path::new("/var/lib/minke"));
        assert_eq!(place.run, Path::new("/run/minke"));
        assert_eq!(place.logs, Path::new("/var/log/pods"));
        assert_eq!(place.cgroup_root(), "/minke");
        assert_eq!(place.instance, None);
    }

    #[test]
    fn the_default_path_spelt_out_is_the_default_instance() {
        assert_eq!(place(Some("/var/lib/minke/"), None, None).unwrap(), place(None, None, None).unwrap());
    }

    #[test]
    fn another_state_directory_shares_nothing_with_the_default() {
        let a = place(Some("/tmp/a"), None, None).unwrap();
        let b = place(Some("/tmp/b"), None, None).unwrap();
        assert_ne!(a.run, b.run);
        assert_ne!(a.cgroup_root(), b.cgroup_root());
        assert_eq!(a.logs, Path::new("/tmp/a/logs"));
        assert!(a.run.starts_with("/run/minke/"));
    }

    #[test]
    fn an_instance_is_down_until_it_is_begun_again() {
        let state = tempfile::tempdir().unwrap();
        let place = place(state.path().to_str(), None, None).unwrap();
        assert!(!place.is_down());
        for down in [false, true, true, false] {
            place.set_down(down).unwrap();
            assert_eq!(place.is_down(), down);
        }
    }

    #[test]
    fn a_run_directory_too_deep_for_sockets_is_refused_with_its_length() {
        let error = place(None, Some(&format!("/{}", "x".repeat(90))), None).unwrap_err();
        assert!(error.to_string().contains("91 bytes"), "{error}");
    }
}
