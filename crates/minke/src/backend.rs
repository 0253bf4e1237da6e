//! Which container runtime an instance has: what is asked for on the command line, what the state directory remembers, and
//! which of them counts.
//!
//! An instance keeps its runtime as long as it has Pods: on another one they would be started a second time beside
//! themselves. The first agent writes it into the state directory, and later ones need not be told.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use minke_cri::{Endpoint, EndpointError};

/// The runtime as given on the command line or by the environment.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct BackendArgs {
    /// The container runtime [default: that of the instance's earlier agents, at first embedded]
    #[arg(long, global = true, value_enum, value_name = "KIND", env = "MINKE_RUNTIME", help_heading = "Instance")]
    pub(crate) runtime: Option<Kind>,
    /// The socket of a runtime with CRI (unix:///run/containerd/containerd.sock) [default: containerd's or CRI-O's usual one]
    #[arg(long, global = true, value_name = "SOCKET", env = "MINKE_RUNTIME_ENDPOINT", help_heading = "Instance")]
    pub(crate) runtime_endpoint: Option<String>,
}

/// The kinds of runtimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Minke's own, without a daemon
    Embedded,
    /// One that runs already and speaks CRI v1: containerd, CRI-O
    Cri,
}

/// A runtime that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Minke's own.
    Embedded,
    /// One with CRI; without an endpoint, whichever is found.
    Cri(Option<Endpoint>),
}

/// The runtime of an instance. `Display` is how it is remembered and told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Backend {
    /// Minke's own.
    Embedded,
    /// The one at this endpoint.
    Cri(Endpoint),
}

/// There is no runtime to use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackendError {
    /// `--runtime embedded` with an endpoint.
    #[error("--runtime embedded has no endpoint; --runtime-endpoint is for --runtime cri")]
    EmbeddedEndpoint,
    /// The endpoint can't be used.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The instance has Pods on another one.
    #[error(
        "the pods in {state} run on the {has} runtime, not on the {wanted} one; remove them first (`minke rm --all --force` \
         without --runtime), or use another --state-dir"
    )]
    Other {
        /// The state directory.
        state: PathBuf,
        /// What it has.
        has: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// The state directory can't be read or written.
    #[error("can't use {path}, which remembers the instance's runtime")]
    Memory {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl BackendArgs {
    /// What is asked for; `None`: nothing. An endpoint alone asks for CRI.
    pub(crate) fn wanted(&self) -> Result<Option<Wanted>, BackendError> {
        let endpoint = self.runtime_endpoint.as_deref().filter(|text| !text.is_empty()).map(Endpoint::parse);
        Ok(match (self.runtime, endpoint.transpose()?) {
            (None, None) => None,
            (Some(Kind::Embedded), None) => Some(Wanted::Embedded),
            (Some(Kind::Embedded), Some(_)) => return Err(BackendError::EmbeddedEndpoint),
            (None | Some(Kind::Cri), endpoint) => Some(Wanted::Cri(endpoint)),
        })
    }
}

impl Wanted {
    /// Whether this runtime is what is asked for.
    pub(crate) fn is(&self, backend: &Backend) -> bool {
        match (self, backend) {
            (Self::Embedded, Backend::Embedded) | (Self::Cri(None), Backend::Cri(_)) => true,
            (Self::Cri(Some(wanted)), Backend::Cri(has)) => wanted == has,
            (Self::Embedded, Backend::Cri(_)) | (Self::Cri(_), Backend::Embedded) => false,
        }
    }

    /// As arguments of another process of this program.
    pub(crate) fn as_arguments(&self) -> Vec<String> {
        match self {
            Self::Embedded => vec!["--runtime=embedded".to_owned()],
            Self::Cri(None) => vec!["--runtime=cri".to_owned()],
            Self::Cri(Some(endpoint)) => {
                vec!["--runtime=cri".to_owned(), format!("--runtime-endpoint={endpoint}")]
            }
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Embedded => EMBEDDED,
            Self::Cri(_) => CRI,
        }
    }
}

const EMBEDDED: &str = "embedded";
const CRI: &str = "cri";

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded | Self::Cri(None) => f.write_str(self.kind()),
            Self::Cri(Some(endpoint)) => write!(f, "{CRI} {endpoint}"),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str(EMBEDDED),
            Self::Cri(endpoint) => write!(f, "{CRI} {endpoint}"),
        }
    }
}

impl Backend {
    /// Reads what [`fmt::Display`] wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.trim().split_once(' ') {
            None if text.trim() == EMBEDDED => Some(Self::Embedded),
            Some((CRI, endpoint)) => Endpoint::parse(endpoint).ok().map(Self::Cri),
            None | Some(_) => None,
        }
    }

    /// That of the instance with this state directory, if it has written one down that can be read.
    pub(crate) fn remembered(state: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(memory(state)).ok()?)
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Embedded => EMBEDDED,
            Self::Cri(_) => CRI,
        }
    }
}

/// What a state directory has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    /// What it remembers.
    backend: Option<Backend>,
    /// Whether there may be Pods.
    pods: bool,
}

/// Which runtime counts. Pods of another kind of runtime than is asked for are a refusal; another endpoint is not, a
/// runtime's socket may have moved.
fn decide(
    state: &Path,
    wanted: Option<&Wanted>,
    known: Known,
    find: impl FnOnce() -> Result<Endpoint, EndpointError>,
) -> Result<Backend, BackendError> {
    // Agents from before there was a choice wrote nothing down.
    let has = known.backend.or(known.pods.then_some(Backend::Embedded));
    match (wanted, has) {
        (None, Some(has)) => Ok(has),
        (None | Some(Wanted::Embedded), None) => Ok(Backend::Embedded),
        (Some(wanted), Some(has)) if known.pods && wanted.kind() != has.kind() => {
            Err(BackendError::Other { state: state.to_owned(), has: has.kind(), wanted: wanted.kind() })
        }
        (Some(Wanted::Embedded), Some(_)) => Ok(Backend::Embedded),
        (Some(Wanted::Cri(Some(endpoint))), _) => Ok(Backend::Cri(endpoint.clone())),
        (Some(Wanted::Cri(None)), Some(Backend::Cri(endpoint))) => Ok(Backend::Cri(endpoint)),
        (Some(Wanted::Cri(None)), None | Some(Backend::Embedded)) => Ok(Backend::Cri(find()?)),
    }
}

fn memory(state: &Path) -> PathBuf {
    state.join("runtime")
}

/// Whether the state directory may hold Pods.
pub(crate) fn may_have_pods(state: &Path) -> bool {
    match fs::read_dir(state.join("pods")) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// The runtime of the instance with this state directory, which is locked by the caller.
pub(crate) fn choose(state: &Path, wanted: Option<&Wanted>) -> Result<Backend, BackendError> {
    let path = memory(state);
    let backend = match fs::read_to_string(&path) {
        Ok(text) => Some(Backend::parse(&text).ok_or_else(|| BackendError::Memory {
            path,
            source: io::Error::new(io::ErrorKind::InvalidData, format!("{:?} is no runtime", text.trim())),
        })?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(BackendError::Memory { path, source }),
    };
    decide(state, wanted, Known { backend, pods: may_have_pods(state) }, Endpoint::find)
}

/// Remembers the runtime, once it was opened.
pub(crate) fn remember(state: &Path, backend: &Backend) -> Result<(), BackendError> {
    let path = memory(state);
    let new = path.with_extension("new");
    let written = fs::write(&new, format!("{backend}\n")).and_then(|()| fs::rename(&new, &path));
    written.map_err(|source| BackendError::Memory { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(path: &str) -> Endpoint {
        Endpoint::parse(path).unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    fn decided(wanted: Option<Wanted>, backend: Option<Backend>, pods: bool) -> Result<Backend, String> {
        let found = || Ok(endpoint("/found.sock"));
        decide(Path::new("/s"), wanted.as_ref(), Known { backend, pods }, found).map_err(|e| e.to_string())
    }

    #[test]
    fn an_instance_keeps_its_runtime_as_long_as_it_has_pods() {
        let cri = |path| Backend::Cri(endpoint(path));
        for pods in [false, true] {
            assert_eq!(decided(None, None, pods), Ok(Backend::Embedded));
            assert_eq!(decided(None, Some(cri("/a")), pods), Ok(cri("/a")), "remembered");
            assert_eq!(decided(Some(Wanted::Cri(None)), Some(cri("/a")), pods), Ok(cri("/a")));
            let moved = Wanted::Cri(Some(endpoint("/b")));
            assert_eq!(decided(Some(moved), Some(cri("/a")), pods), Ok(cri("/b")), "its socket moved");
            assert_eq!(decided(Some(Wanted::Embedded), Some(Backend::Embedded), pods), Ok(Backend::Embedded));
        }
        assert_eq!(decided(Some(Wanted::Cri(None)), None, false), Ok(cri("/found.sock")));
        assert_eq!(decided(Some(Wanted::Cri(None)), Some(Backend::Embedded), false), Ok(cri("/found.sock")));
        assert_eq!(decided(Some(Wanted::Embedded), Some(cri("/a")), false), Ok(Backend::Embedded));
        for (wanted, has) in [
            (Wanted::Cri(None), Some(Backend::Embedded)),
            (Wanted::Cri(Some(endpoint("/a"))), Some(Backend::Embedded)),
            (Wanted::Cri(None), None),
            (Wanted::Embedded, Some(cri("/a"))),
        ] {
            let error = decided(Some(wanted.clone()), has.clone(), true).unwrap_err();
            assert!(error.contains("minke rm --all"), "{wanted:?} on {has:?}: {error}");
        }
    }

    #[test]
    fn what_is_asked_for() {
        let of = |runtime, endpoint: Option<&str>| {
            BackendArgs { runtime, runtime_endpoint: endpoint.map(str::to_owned) }.wanted().map_err(|e| e.to_string())
        };
        let at = |path| Some(Wanted::Cri(Some(endpoint(path))));
        assert_eq!(of(None, None), Ok(None));
        assert_eq!(of(None, Some("")), Ok(None), "an empty variable of the environment");
        assert_eq!(of(Some(Kind::Embedded), None), Ok(Some(Wanted::Embedded)));
        assert_eq!(of(Some(Kind::Cri), None), Ok(Some(Wanted::Cri(None))));
        assert_eq!(of(Some(Kind::Cri), Some("unix:///a")), Ok(at("/a")));
        assert_eq!(of(None, Some("/a")), Ok(at("/a")), "an endpoint alone");
        assert!(of(Some(Kind::Embedded), Some("/a")).unwrap_err().contains("--runtime cri"));
        assert!(of(Some(Kind::Cri), Some("tcp://a")).unwrap_err().contains("unix://"));
    }

    #[test]
    fn which_runtime_is_the_one_asked_for() {
        let (a, b) = (endpoint("/a"), endpoint("/b"));
        assert!(Wanted::Embedded.is(&Backend::Embedded) && !Wanted::Embedded.is(&Backend::Cri(a.clone())));
        assert!(Wanted::Cri(None).is(&Backend::Cri(a.clone())) && !Wanted::Cri(None).is(&Backend::Embedded));
        assert!(Wanted::Cri(Some(a.clone())).is(&Backend::Cri(a.clone())));
        assert!(!Wanted::Cri(Some(a)).is(&Backend::Cri(b)));
    }

    #[test]
    fn it_is_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path();
        assert_eq!(choose(state, None).unwrap(), Backend::Embedded);
        for backend in [Backend::Cri(endpoint("/a b")), Backend::Embedded] {
            remember(state, &backend).unwrap();
            assert_eq!(choose(state, None).unwrap(), backend);
            assert_eq!(Backend::remembered(state), Some(backend));
        }
        fs::write(memory(state), "nonsense").unwrap();
        assert!(matches!(choose(state, None), Err(BackendError::Memory { .. })));
    }

    #[test]
    fn another_process_is_led_to_the_same_runtime() {
        let wanted = Wanted::Cri(Some(endpoint("/a")));
        assert_eq!(wanted.as_arguments(), ["--runtime=cri", "--runtime-endpoint=unix:///a"]);
        assert_eq!(Wanted::Embedded.as_arguments(), ["--runtime=embedded"]);
        assert_eq!(Wanted::Cri(None).as_arguments(), ["--runtime=cri"]);
    }
}
