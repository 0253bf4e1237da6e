//! Credential helpers: programs named `docker-credential-<name>` that know passwords.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use minke_core::runtime::Credential;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// How long a helper may take. Those of clouds ask a server.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Most that is read of its answer.
const MAX_ANSWER: u64 = 64 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    #[serde(default)]
    username: String,
    #[serde(default)]
    secret: String,
}

/// Asks a helper for a registry's login. A helper that fails has none; the reason is logged, never its output, which
/// may hold secrets.
pub(super) async fn ask(name: &str, server: &str, search_path: Option<&Path>) -> Option<Credential> {
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        tracing::warn!(helper = name, "not the name of a credential helper");
        return None;
    }
    match tokio::time::timeout(TIMEOUT, run(name, server, search_path)).await {
        Ok(Ok(credential)) => credential,
        Ok(Err(error)) => {
            tracing::warn!(helper = name, server, %error, "a credential helper failed");
            None
        }
        Err(_) => {
            tracing::warn!(helper = name, server, "a credential helper did not answer in {} s", TIMEOUT.as_secs());
            None
        }
    }
}

async fn run(name: &str, server: &str, search_path: Option<&Path>) -> std::io::Result<Option<Credential>> {
    let program = format!("docker-credential-{name}");
    let program = search_path.map_or_else(|| program.clone().into(), |dir| dir.join(&program));
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that does not read its input has closed it; its answer tells whether that matters.
        let _ = stdin.write_all(server.as_bytes()).await;
    }
    let mut answer = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_ANSWER).read_to_end(&mut answer).await?;
    }
    if !child.wait().await?.success() {
        // By convention also the answer for a registry that it does not know.
        return Ok(None);
    }
    let Ok(Answer { username, secret }) = serde_json::from_slice(&answer) else {
        return Err(std::io::Error::other("its answer is not the expected JSON"));
    };
    Ok(match (username.as_str(), secret.is_empty()) {
        (_, true) => None,
        ("<token>", false) => Some(Credential::IdentityToken(secret)),
        (_, false) => Some(Credential::Basic { username, password: secret }),
    })
}
