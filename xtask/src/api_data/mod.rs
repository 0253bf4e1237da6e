//! `cargo xtask api-data VERSION`: what the embedded API knows of Kubernetes' types, from their published sources.
//!
//! Two files are made for `crates/apiserver/data`, from the OpenAPI v3 documents of `k8s.io/kubernetes` and the struct
//! tags of the modules that it is made of (all Apache-2.0):
//!
//! - `types.tbl`, a line a field: protobuf number, Go's pointer and `omitempty`, kind, patch strategy. The server reads
//!   it at start, so it is small. Its grammar stands in `crates/apiserver/src/schema/parse.rs`.
//! - `openapi.json.gz`, the same types as OpenAPI schemas with their descriptions, for those who ask for them.
//!
//! The modules come from the Go module proxy by `go mod download`; [`openapi`] reads the documents, [`go`] the tags,
//! [`table`] joins them.

mod go;
mod openapi;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use minke_core::runtime::error_chain;

/// What the server serves or takes as a body: group, version, kind. Everything that these reach comes along.
const ROOTS: &[(&str, &str, &str)] = &[
    ("", "v1", "Binding"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "Event"),
    ("", "v1", "Namespace"),
    ("", "v1", "Node"),
    ("", "v1", "PersistentVolume"),
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "Pod"),
    ("", "v1", "Secret"),
    ("", "v1", "Service"),
    ("", "v1", "ServiceAccount"),
    ("", "v1", "Status"),
    ("", "v1", "DeleteOptions"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    ("authentication.k8s.io", "v1", "SelfSubjectReview"),
    ("authentication.k8s.io", "v1", "TokenRequest"),
    ("authentication.k8s.io", "v1", "TokenReview"),
    ("authorization.k8s.io", "v1", "LocalSubjectAccessReview"),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "v1", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "v1", "SubjectAccessReview"),
    ("autoscaling", "v1", "Scale"),
    ("certificates.k8s.io", "v1", "CertificateSigningRequest"),
    ("coordination.k8s.io", "v1", "Lease"),
    ("events.k8s.io", "v1", "Event"),
    ("node.k8s.io", "v1", "RuntimeClass"),
    ("policy", "v1", "Eviction"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
    ("scheduling.k8s.io", "v1", "PriorityClass"),
];

/// The modules beside `k8s.io/kubernetes`, as the names of schemas have them (`io.k8s.<module>.…`).
const MODULES: &[&str] = &["api", "apimachinery", "apiextensions-apiserver"];

/// Why there is no new data.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiDataError {
    /// Not a version of Kubernetes.
    #[error("{0:?} is no version such as v1.37.0")]
    Version(String),
    /// `go mod download` failed or is not there.
    #[error("can't get the Go module {module}: {message}")]
    Download {
        /// Which.
        module: String,
        /// What Go said.
        message: String,
    },
    /// A file can't be read or written.
    #[error("can't use {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A document is not JSON.
    #[error("{} is no OpenAPI document", path.display())]
    Json {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The sources have something that the table can't say.
    #[error("{place}: {what}")]
    Unknown {
        /// Type or field.
        place: String,
        /// What is not understood.
        what: String,
    },
}

/// Makes the files in `<root>/crates/apiserver/data`, and says so.
pub(crate) fn run(root: &Path, version: &str) -> ExitCode {
    match write(&root.join("crates/apiserver/data"), version) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("can't make the API's data: {}", error_chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn write(directory: &Path, version: &str) -> Result<(), ApiDataError> {
    let minor = version.strip_prefix("v1.").ok_or_else(|| ApiDataError::Version(version.to_owned()))?;
    let kubernetes = download("k8s.io/kubernetes", version)?;
    let mut modules = go::Modules::default();
    for name in MODULES {
        modules.add(name, download(&format!("k8s.io/{name}"), &format!("v0.{minor}"))?);
    }
    let schemas = openapi::closure(&kubernetes.join("api/openapi-spec/v3"), ROOTS)?;
    let text = table::write(version, &schemas, &mut modules)?;
    save(&directory.join("types.tbl"), text.as_bytes())?;
    save(&directory.join("openapi.json.gz"), &openapi::compress(&schemas, directory)?)
}

fn save(path: &Path, bytes: &[u8]) -> Result<(), ApiDataError> {
    let failed = |source| ApiDataError::File { path: path.to_owned(), source };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    std::fs::write(path, bytes).map_err(failed)?;
    println!("{}: {} bytes", path.display(), bytes.len());
    Ok(())
}

/// The directory of a module in Go's cache, fetched where it is not there yet.
fn download(module: &str, version: &str) -> Result<PathBuf, ApiDataError> {
    let failed = |message: String| ApiDataError::Download { module: format!("{module}@{version}"), message };
    let output = Command::new("go")
        .args(["mod", "download", "-json", &format!("{module}@{version}")])
        .output()
        .map_err(|error| failed(error.to_string()))?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))?;
    match answer["Dir"].as_str() {
        Some(directory) => Ok(PathBuf::from(directory)),
        None => Err(failed(answer["Error"].as_str().unwrap_or("no directory").to_owned())),
    }
}
