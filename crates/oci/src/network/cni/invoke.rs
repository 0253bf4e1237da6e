//! One plugin, one command: a process that reads JSON, writes JSON and may not take for ever.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// A plugin's output beyond this is not read: results are a few hundred bytes.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// Why a chain of plugins failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CniError {
    /// The binary is not in any directory (any more).
    #[error("plugin {plugin} is not installed in {}", directories.join(", "))]
    NotInstalled {
        /// Name of the plugin.
        plugin: String,
        /// Where it was looked for.
        directories: Vec<String>,
    },
    /// The binary can't be run, or its pipes broke.
    #[error("running plugin {}", path.display())]
    Run {
        /// The binary.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It took too long and was killed.
    #[error("plugin {plugin} did not finish {command} within {after:?}")]
    TimedOut {
        /// Name of the plugin.
        plugin: String,
        /// ADD or DEL.
        command: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// It said no.
    #[error("plugin {plugin} refused {command}: {message}")]
    Refused {
        /// Name of the plugin.
        plugin: String,
        /// ADD or DEL.
        command: &'static str,
        /// In its own words.
        message: String,
    },
    /// It succeeded with an answer that is none.
    #[error("plugin {plugin} gave an unreadable result")]
    BadResult {
        /// Name of the plugin.
        plugin: String,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The chain gave no address.
    #[error("the plugins gave the pod no address")]
    NoAddress,
}

/// What a plugin is run with.
#[derive(Debug)]
pub(super) struct Invocation<'a> {
    pub(super) plugin: &'a str,
    pub(super) path: &'a Path,
    pub(super) command: &'static str,
    pub(super) environment: &'a [(&'static str, String)],
    pub(super) input: &'a Value,
    pub(super) timeout: Duration,
}

/// Runs a plugin. Dropping the future kills it.
pub(super) async fn invoke(invocation: &Invocation<'_>) -> Result<Vec<u8>, CniError> {
    let run = |source| CniError::Run { path: invocation.path.to_owned(), source };
    let mut child = Command::new(invocation.path)
        .env("CNI_COMMAND", invocation.command)
        .envs(invocation.environment.iter().map(|(key, value)| (key, value)))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(run)?;
    let input = serde_json::to_vec(invocation.input).map_err(|error| run(error.into()))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let work = async {
        let write = async {
            if let Some(mut stdin) = stdin {
                // A plugin that does not read its input fails in its own words.
                let _ = stdin.write_all(&input).await;
            }
        };
        let ((), output, errors) = tokio::join!(write, read(stdout), read(stderr));
        Ok::<_, io::Error>((child.wait().await?, output?, errors?))
    };
    let Ok(done) = tokio::time::timeout(invocation.timeout, work).await else {
        let (plugin, command) = (invocation.plugin.to_owned(), invocation.command);
        return Err(CniError::TimedOut { plugin, command, after: invocation.timeout });
    };
    let (status, output, errors) = done.map_err(run)?;
    if status.success() {
        return Ok(output);
    }
    let message = refusal(&output, &errors).unwrap_or_else(|| status.to_string());
    Err(CniError::Refused { plugin: invocation.plugin.to_owned(), command: invocation.command, message })
}

async fn read(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut output = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(OUTPUT_LIMIT).read_to_end(&mut output).await?;
    }
    Ok(output)
}

/// The specification's error object, otherwise whatever was printed.
fn refusal(output: &[u8], errors: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Refusal {
        code: u32,
        #[serde(default)]
        msg: String,
        #[serde(default)]
        details: String,
    }
    if let Ok(Refusal { code, msg, details }) = serde_json::from_slice(output) {
        let details = if details.is_empty() { String::new() } else { format!(" ({details})") };
        return Some(format!("{msg}{details}, code {code}"));
    }
    let printed = [errors, output].into_iter().map(String::from_utf8_lossy).find(|text| !text.trim().is_empty())?;
    let last: String = printed.trim().chars().rev().take(500).collect();
    Some(last.chars().rev().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_in_the_plugins_words() {
        let structured = br#"{"cniVersion":"1.0.0","code":7,"msg":"no more addresses","details":"range full"}"#;
        assert_eq!(refusal(structured, b"noise").unwrap(), "no more addresses (range full), code 7");
        assert_eq!(refusal(b"", b" iptables: not found\n").unwrap(), "iptables: not found");
        assert_eq!(refusal(b"plain", b"").unwrap(), "plain");
        assert_eq!(refusal(b"", b" "), None);
    }
}
