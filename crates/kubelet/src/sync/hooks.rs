//! Lifecycle hooks: `sleep` and `httpGet`. Hooks that run a command in the container (`exec`) are not run yet, and
//! say so.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use minke_core::identity::PodKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::SyncContext;

/// Bound on one HTTP hook, where its Pod has no tighter one.
const HTTP_TIMEOUT: Duration = Duration::from_secs(30);
/// Most of a response that is looked at.
const RESPONSE_LIMIT: usize = 1024;

/// Runs the postStart hook.
///
/// # Errors
/// It failed, in words; the container is to be stopped.
pub(super) async fn post_start(
    ctx: &SyncContext,
    key: &PodKey,
    container: &Container,
    ips: &[IpAddr],
) -> Result<(), String> {
    let Some(hook) = container.lifecycle.as_ref().and_then(|l| l.post_start.as_ref()) else { return Ok(()) };
    match run(hook, container, ips, HTTP_TIMEOUT).await {
        Outcome::Done => Ok(()),
        Outcome::NotRun(what) => {
            let message = format!("postStart hook of container {} was not run: {what}", container.name);
            ctx.recorder.warning(&key.uid, Some(&container.name), "FailedPostStartHook", message);
            Ok(())
        }
        Outcome::Failed(why) => {
            let message = format!("postStart hook of container {} failed: {why}", container.name);
            ctx.recorder.warning(&key.uid, Some(&container.name), "FailedPostStartHook", message.clone());
            Err(message)
        }
    }
}

/// Runs the preStop hook for at most `grace`. A failure is told and changes nothing.
pub(super) async fn pre_stop(ctx: &SyncContext, key: &PodKey, container: &Container, ips: &[IpAddr], grace: Duration) {
    let Some(hook) = container.lifecycle.as_ref().and_then(|l| l.pre_stop.as_ref()) else { return };
    let outcome = timeout(grace, run(hook, container, ips, grace)).await;
    let message = match outcome {
        Ok(Outcome::Done) => return,
        Ok(Outcome::NotRun(what)) => format!("preStop hook of container {} was not run: {what}", container.name),
        Ok(Outcome::Failed(why)) => format!("preStop hook of container {} failed: {why}", container.name),
        Err(_) => format!("preStop hook of container {} did not end within the grace period", container.name),
    };
    ctx.recorder.warning(&key.uid, Some(&container.name), "FailedPreStopHook", message);
}

enum Outcome {
    Done,
    Failed(String),
    /// This kind of hook is not supported.
    NotRun(String),
}

async fn run(hook: &LifecycleHandler, container: &Container, ips: &[IpAddr], bound: Duration) -> Outcome {
    if let Some(action) = &hook.sleep {
        sleep(Duration::from_secs(u64::try_from(action.seconds).unwrap_or(0))).await;
        return Outcome::Done;
    }
    if let Some(action) = &hook.http_get {
        return match timeout(bound, http_get(action, container, ips)).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::Failed(format!("no answer within {} s", bound.as_secs())),
        };
    }
    if hook.exec.is_some() {
        return Outcome::NotRun("hooks that run a command are not supported yet".to_owned());
    }
    Outcome::Done
}

fn port(action: &HTTPGetAction, container: &Container) -> Option<u16> {
    match &action.port {
        IntOrString::Int(port) => u16::try_from(*port).ok(),
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|p| p.name.as_deref() == Some(name.as_str()));
            let port = named.map(|p| p.container_port).or_else(|| name.parse().ok())?;
            u16::try_from(port).ok()
        }
    }
}

/// Sends the request and reads the head of the answer. Any status below 400 is success, as for the kubelet.
async fn http_get(action: &HTTPGetAction, container: &Container, ips: &[IpAddr]) -> Outcome {
    if action.scheme.as_deref().is_some_and(|s| s.eq_ignore_ascii_case("https")) {
        return Outcome::NotRun("httpGet hooks over https are not supported yet".to_owned());
    }
    let Some(port) = port(action, container) else {
        return Outcome::Failed("its port is not a port of the container".to_owned());
    };
    let named = action.host.as_deref().filter(|h| !h.is_empty()).map(str::to_owned);
    let Some(host) = named.or_else(|| ips.first().map(ToString::to_string)) else {
        return Outcome::Failed("the pod has no address".to_owned());
    };
    let own = |name: &str| action.http_headers.iter().flatten().any(|h| h.name.eq_ignore_ascii_case(name));
    let path = action.path.as_deref().filter(|p| !p.is_empty()).unwrap_or("/");
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\nAccept: */*\r\n");
    if !own("host") {
        let bracketed = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        request.push_str(&format!("Host: {bracketed}:{port}\r\n"));
    }
    if !own("user-agent") {
        request.push_str("User-Agent: kube-lifecycle/minke\r\n");
    }
    for header in action.http_headers.iter().flatten() {
        let clean = |s: &str| !s.contains(['\r', '\n', '\0']);
        if clean(&header.name) && clean(&header.value) {
            request.push_str(&format!("{}: {}\r\n", header.name, header.value));
        }
    }
    request.push_str("\r\n");
    if path.contains(['\r', '\n', ' ', '\0']) {
        return Outcome::Failed("its path is not a path".to_owned());
    }
    match exchange(&host, port, &request).await {
        Ok(head) => judge(&head),
        Err(error) => Outcome::Failed(format!("{host}:{port}: {error}")),
    }
}

async fn exchange(host: &str, port: u16, request: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((host, port)).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut head = vec![0; RESPONSE_LIMIT];
    let mut have = 0;
    while have < head.len() && !head[..have].contains(&b'\n') {
        match stream.read(&mut head[have..]).await? {
            0 => break,
            n => have += n,
        }
    }
    head.truncate(have);
    Ok(head)
}

fn judge(head: &[u8]) -> Outcome {
    let line = head.split(|b| *b == b'\r' || *b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let status =
        line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)).and_then(|s| s.parse::<u16>().ok());
    match status {
        Some(status) if (100..400).contains(&status) => Outcome::Done,
        Some(status) => Outcome::Failed(format!("HTTP status {status}")),
        None => Outcome::Failed("the answer is not HTTP".to_owned()),
    }
}
