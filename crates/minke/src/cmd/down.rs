//! `minke down`: the other end of `minke up`.
//!
//! ```text
//! this instance is marked as down ─► agent with its API and node ends ─► containers are stopped, as before a reboot
//! ```
//! Nothing of the API's objects and of the Pods' checkpoints is touched: the next `minke up` finds Pods that have ended and does
//! with them what their restart policy says, as a kubelet does after a reboot. Until then no command starts an agent, which
//! would do so at once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::{StreamExt, stream};
use minke_core::clock::SystemClock;
use minke_core::identity::PodUid;
use minke_core::runtime::{ContainerPhase, ListFilter, Runtime, error_chain};
use minke_kubelet::PodReport;

use super::{rm, up};
use crate::agent::{self, lock};
use crate::client::Client;
use crate::durations;
use crate::exit::{Exit, Failure, Outcome};

/// A Pod without a grace period of its own has this one, as in the API.
const GRACE: Duration = Duration::from_secs(30);
/// An agent that was told to end has done so by then.
const LONGEST_END: Duration = Duration::from_secs(20);
/// Containers stopped at a time.
const AT_ONCE: usize = 64;

/// End what `minke up` began: its API, its node and the containers of its Pods; their objects stay
///
/// `minke up` goes on from there: Pods are started again if their restart policy says so. Lifecycle hooks do not run, as when
/// a machine goes down; delete the Pods with kubectl first where that matters.
#[derive(Debug, Args)]
pub(crate) struct DownArgs {
    /// Leave the Pods running; the next `minke up` takes them up as they are
    #[arg(long, conflicts_with = "grace")]
    keep_pods: bool,
    /// Instead of the Pods' own grace periods; 0 kills at once
    #[arg(long, short, value_name = "DURATION", value_parser = durations::duration, conflicts_with = "purge")]
    grace: Option<Duration>,
    /// Forget everything besides images: Pods of any kind with their volumes and logs, and all objects of the API
    #[arg(long, conflicts_with = "keep_pods")]
    purge: bool,
    /// Where the API's objects are that --purge forgets, if `minke up` was told so
    #[arg(long, value_name = "DIR", env = "MINKE_API_DATA_DIR")]
    data_dir: Option<PathBuf>,
}

/// Ends the agent, then stops what runs.
pub(crate) async fn run(args: &DownArgs, client: &Client) -> Outcome {
    let place = client.place();
    let mut graces = HashMap::new();
    let mut running = client.greet_running().await?;
    if let Some(connection) = &mut running {
        graces = connection.list().await?.iter().filter_map(grace_of).collect();
    } else if !place.state.is_dir() {
        return Ok(Exit::Reached);
    }
    if !args.keep_pods && !args.purge {
        // Before the agent ends: a command that starts the next one meanwhile would have the Pods taken up again.
        let marked = place.set_down(true);
        marked.map_err(|e| Failure::system(format!("can't note that {} is down: {e}", place.state.display())))?;
    }
    if let Some(connection) = running {
        connection.shutdown().await?;
    }
    let held = lock::wait_bounded(place.agent_lock(), LONGEST_END).await;
    let held = held.map_err(|error| Failure::from_error(&error).hint("another agent of this instance does not end"))?;
    if args.purge {
        // The lock is the next agent's.
        drop(held);
        return purge(args, client).await;
    }
    if args.keep_pods {
        return Ok(Exit::Reached);
    }
    let opened = agent::open_runtime(place, Arc::new(SystemClock)).await;
    let opened = opened.map_err(|error| Failure::from_error(&error).hint("its containers go on; try again"))?;
    let grace = |uid: &PodUid| args.grace.or_else(|| graces.get(uid).copied()).unwrap_or(GRACE);
    stop_all(&*opened.runtime, grace).await.map_err(|error| {
        Failure::system(format!("not everything could be stopped: {error}")).hint("`minke down` can be repeated")
    })?;
    Ok(Exit::Reached)
}

/// Removes the Pods by an agent on demand, which ends with the last one; then the objects.
async fn purge(args: &DownArgs, client: &Client) -> Outcome {
    let place = client.place();
    let can_not =
        |what: &Path, error: &std::io::Error| Failure::system(format!("can't remove {}: {error}", what.display()));
    place.set_down(false).map_err(|error| can_not(&place.state, &error))?;
    rm::run(&rm::RmArgs::everything(), client).await?;
    let data = args.data_dir.clone().unwrap_or_else(|| up::default_data_dir(&place.state));
    match std::fs::remove_dir_all(&data) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(can_not(&data, &error)),
        Ok(()) | Err(_) => Ok(Exit::Reached),
    }
}

fn grace_of(report: &PodReport) -> Option<(PodUid, Duration)> {
    let uid = PodUid::new(report.pod.metadata.uid.clone()?).ok()?;
    let seconds = report.pod.spec.as_ref()?.termination_grace_period_seconds?;
    Some((uid, Duration::from_secs(u64::try_from(seconds).ok()?)))
}

/// Stops every container, then every sandbox, of all Pods at once; goes on past what fails, and tells the first failure.
async fn stop_all(runtime: &dyn Runtime, grace: impl Fn(&PodUid) -> Duration) -> Result<(), String> {
    let all = ListFilter::default();
    let told = |error: &(dyn std::error::Error + 'static)| error_chain(error);
    let containers = runtime.list_containers(&all).await.map_err(|error| told(&error))?;
    let running = containers.into_iter().filter(|container| container.phase != ContainerPhase::Exited);
    let stops = running.map(|container| {
        let grace = grace(&container.pod);
        async move { runtime.stop_container(&container.id, grace).await }
    });
    let stopped: Vec<_> = stream::iter(stops).buffer_unordered(AT_ONCE).collect().await;
    let sandboxes = runtime.list_sandboxes(&all).await.map_err(|error| told(&error))?;
    let stops = sandboxes.into_iter().map(|sandbox| async move { runtime.stop_sandbox(&sandbox.id).await });
    let ended: Vec<_> = stream::iter(stops).buffer_unordered(AT_ONCE).collect().await;
    let failed = stopped.into_iter().chain(ended).find_map(Result::err);
    failed.map_or(Ok(()), |error| Err(told(&error)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        down: DownArgs,
    }

    #[test]
    fn where_the_objects_are_may_be_said_without_forgetting_them() {
        let parse = |arguments: &[&str]| Line::try_parse_from([&["down"], arguments].concat());
        assert!(parse(&["--data-dir", "/d"]).is_ok(), "it may come from the environment, as `minke up` reads it");
        assert!(parse(&["--purge", "--data-dir", "/d"]).is_ok());
        assert!(parse(&["--purge", "--grace", "5s"]).is_err(), "a grace that would be ignored");
        assert!(parse(&["--keep-pods", "--grace", "5s"]).is_err());
    }
}
