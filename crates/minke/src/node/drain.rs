//! The end of a node's Pods before the node itself: the cluster hears of it, then group after group ends.

use std::collections::HashSet;
use std::time::Duration;

use minke_core::identity::PodKey;
use minke_core::provider::Provider;
use minke_core::runtime::error_chain;
use minke_core::status::Phase;
use minke_node::controller::Handle;
use minke_node::node::NodeHandle;
use minke_node::node::shutdown::ShutdownPolicy;
use tokio::time::{Instant, sleep, timeout};

/// How long the API may take to hear that the node goes down, and of the last statuses.
const TELL: Duration = Duration::from_secs(5);
/// How long the last statuses may take to the API.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Between two looks whether Pods have ended.
const LOOK: Duration = Duration::from_millis(100);

/// Ends all Pods of the provider, group by group. Takes no longer than the policy's total and a few seconds.
pub(super) async fn drain(provider: &dyn Provider, node: &NodeHandle, told: &Handle, policy: &ShutdownPolicy) {
    let Some(shutdown) = provider.extras().shutdown else {
        tracing::warn!("this provider can't end its pods with the node; they stay");
        return;
    };
    shutdown.close(true);
    node.going_down(true);
    if timeout(TELL, node.told_that_it_goes_down()).await.is_err() {
        tracing::warn!("the API did not hear that the node goes down");
    }
    let pods = match provider.list().await {
        Ok(pods) => pods,
        Err(error) => {
            tracing::error!(error = error_chain(&error), "the pods of the node can't be listed, and stay");
            return;
        }
    };
    let mut ended = Vec::new();
    for (grace, group) in policy.groups(&pods) {
        tracing::info!(pods = group.len(), seconds = grace.as_secs(), "ending pods before the node goes down");
        let deadline = Instant::now() + grace;
        for key in &group {
            if let Err(error) = shutdown.end(key, grace).await
                && !error.is_not_found()
            {
                tracing::warn!(pod = %key, error = error_chain(&error), "a pod can't be ended");
            }
        }
        let mut left = group.clone();
        while !left.is_empty() && Instant::now() < deadline {
            sleep(LOOK).await;
            left = still_running(provider, left).await;
        }
        for key in &left {
            tracing::warn!(pod = %key, "a pod did not end in its time");
        }
        let left: HashSet<PodKey> = left.into_iter().collect();
        ended.extend(group.into_iter().filter(|key| !left.contains(key)));
    }
    // A pod controller that is told to end takes up nothing new: what is to be said comes first.
    if timeout(LAST_WORDS, told.told_ends(ended)).await.is_err() {
        tracing::warn!("the API did not hear of the end of all pods");
    }
}

async fn still_running(provider: &dyn Provider, keys: Vec<PodKey>) -> Vec<PodKey> {
    let mut left = Vec::new();
    for key in keys {
        let status = provider.status(&key).await.ok().flatten();
        let ended = status.is_none_or(|s| Phase::parse(s.phase.as_deref()).is_some_and(Phase::is_terminal));
        if !ended {
            left.push(key);
        }
    }
    left
}
