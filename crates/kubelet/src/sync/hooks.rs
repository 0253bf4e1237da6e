//! Lifecycle hooks: a command in the container, an HTTP request to it, or a pause.
//!
//! A postStart hook that fails has its container killed; a preStop hook that fails is told of and changes nothing.
//! What a hook's command writes is not shown: it may be a secret.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler};
use minke_core::identity::PodKey;
use minke_core::runtime::{ContainerId, error_chain};
use tokio::time::{sleep, timeout};

use super::SyncContext;
use crate::probes::io::http::{Get, Refusal, fetch};

/// Bound on the HTTP request of a postStart hook.
const HTTP_TIMEOUT: Duration = Duration::from_secs(30);

/// A container of which a hook runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hooked<'a> {
    pub(super) key: &'a PodKey,
    pub(super) container: &'a Container,
    pub(super) id: &'a ContainerId,
    pub(super) ips: &'a [IpAddr],
}

/// Runs the postStart hook, for as long as it takes.
///
/// # Errors
/// It failed, in words; the container is to be killed.
pub(super) async fn post_start(ctx: &SyncContext, hooked: Hooked<'_>) -> Result<(), String> {
    let Some(hook) = hooked.container.lifecycle.as_ref().and_then(|l| l.post_start.as_ref()) else { return Ok(()) };
    let result = run(ctx, hook, hooked, HTTP_TIMEOUT).await;
    result.map_err(|why| {
        let message = format!("PostStartHook failed: {why}");
        tell(ctx, hooked, "FailedPostStartHook", message.clone());
        message
    })
}

/// Runs the preStop hook for at most `grace`. A failure is told and changes nothing.
pub(super) async fn pre_stop(ctx: &SyncContext, hooked: Hooked<'_>, grace: Duration) {
    let Some(hook) = hooked.container.lifecycle.as_ref().and_then(|l| l.pre_stop.as_ref()) else { return };
    let why = match timeout(grace, run(ctx, hook, hooked, grace)).await {
        Ok(Ok(())) => return,
        Ok(Err(why)) => why,
        Err(_) => "it did not end within the grace period".to_owned(),
    };
    tell(ctx, hooked, "FailedPreStopHook", format!("PreStopHook failed: {why}"));
}

fn tell(ctx: &SyncContext, hooked: Hooked<'_>, reason: &str, message: String) {
    ctx.recorder.warning(&hooked.key.uid, Some(&hooked.container.name), reason, message);
}

async fn run(ctx: &SyncContext, hook: &LifecycleHandler, hooked: Hooked<'_>, bound: Duration) -> Result<(), String> {
    if let Some(action) = &hook.exec {
        let command = action.command.as_deref().unwrap_or_default();
        // Whoever drops this call ends the command.
        return match ctx.runtime.exec_sync(hooked.id, command, None).await {
            Ok(output) if output.exit_code == 0 => Ok(()),
            Ok(output) => Err(format!("command {:?} exited with {}", command.join(" "), output.exit_code)),
            Err(error) => Err(error_chain(&error)),
        };
    }
    if let Some(action) = &hook.http_get {
        return http_get(action, hooked, bound).await;
    }
    if let Some(action) = &hook.sleep {
        sleep(Duration::from_secs(u64::try_from(action.seconds).unwrap_or(0))).await;
        return Ok(());
    }
    // Validation wants one of them, except `tcpSocket`, which the API knows and no kubelet runs.
    Err("invalid handler: hooks are exec, httpGet or sleep".to_owned())
}

/// Any status below 400 is success. A server that answers without TLS where TLS was asked for is asked again without,
/// and without credentials, as upstream does.
async fn http_get(action: &HTTPGetAction, hooked: Hooked<'_>, bound: Duration) -> Result<(), String> {
    let get = Get::new(action, hooked.container, hooked.ips, "lifecycle")?;
    let answered = match fetch(&get, Some(bound)).await {
        Err(Refusal::PlainAnswer(_)) => fetch(&get.plain(), Some(bound)).await,
        other => other,
    };
    match answered {
        Ok(answered) if answered.status < 400 => Ok(()),
        Ok(answered) => Err(format!("HTTP status {}", answered.status)),
        // It has got the request, and said so; the rest of the answer is nobody's business.
        Err(Refusal::Cut(_)) => Ok(()),
        Err(Refusal::Failed(message) | Refusal::PlainAnswer(message)) => Err(message),
    }
}
