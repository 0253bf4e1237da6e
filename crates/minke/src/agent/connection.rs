//! One client of the agent, from its greeting to its end. Malformed input is answered with an error and never ends
//! anything but its own connection.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use minke_core::identity::PodUid;
use minke_core::runtime::error_chain;
use minke_kubelet::{DesiredPod, PodChange, PodReport, Progress, StopRequest};
use tokio::net::UnixStream;
use tokio::sync::broadcast::error::RecvError;

use super::Shared;
use crate::protocol::{Channel, ChannelError, Identity, PROTOCOL, Reply, Request};

/// A client that connects and says nothing does not keep an agent alive.
const GREETING: Duration = Duration::from_secs(5);

/// Serves a client until it goes, or the agent ends.
pub(super) async fn serve(stream: UnixStream, shared: &Shared) {
    let mut channel = Channel::new(stream);
    let served = tokio::select! {
        served = talk(&mut channel, shared) => served,
        () = shared.ending.cancelled() => Ok(()),
    };
    match served {
        Ok(()) | Err(ChannelError::Closed) => {}
        Err(error) => tracing::debug!(error = %error_chain(&error), "a client is gone"),
    }
}

async fn talk(channel: &mut Channel, shared: &Shared) -> Result<(), ChannelError> {
    if !greet(channel, &shared.identity).await? {
        return Ok(());
    }
    loop {
        let request = match channel.receive().await {
            Ok(request) => request,
            Err(error @ ChannelError::Malformed(_)) => {
                channel.send(&Reply::Error(error_chain(&error))).await?;
                continue;
            }
            Err(error) => return Err(error),
        };
        match request {
            Request::Exec { uid, container, request } => {
                return super::exec::serve(channel, &shared.kubelet, &uid, &container, &request).await;
            }
            Request::Attach { uid, container, request } => {
                return super::exec::attach(channel, &shared.kubelet, &uid, &container, request).await;
            }
            Request::Connect { uid, port } => return super::connect::serve(channel, &shared.kubelet, &uid, port).await,
            Request::Watch { uids } => return watch(channel, shared, uids).await,
            Request::Shutdown => {
                channel.send(&Reply::Done).await?;
                shared.ending.cancel();
                return Ok(());
            }
            other => channel.send(&answer(other, shared).await).await?,
        }
    }
}

/// Does what is asked.
async fn answer(request: Request, shared: &Shared) -> Reply {
    match request {
        Request::Hello(_) => Reply::Hello(shared.identity.clone()),
        Request::Apply { pods, objects } => {
            let pods = pods.into_iter().map(|pod| DesiredPod { pod, objects: Arc::clone(&objects) }).collect();
            // On a task of its own: a client that goes away in the middle must not leave half of it undone.
            let kubelet = shared.kubelet.clone();
            let applied = tokio::spawn(async move { kubelet.apply(pods).await }).await;
            applied.map_or_else(|e| Reply::Error(format!("applying failed: {e}")), Reply::Admissions)
        }
        Request::Usage => match shared.kubelet.usage().await {
            Ok(pods) => Reply::Usage(pods, shared.kubelet.node()),
            Err(error) => Reply::Error(error_chain(&error)),
        },
        Request::Node => Reply::Node(shared.kubelet.node()),
        Request::Metrics => Reply::Metrics(format!("{}{}", crate::spans::metrics(), shared.kubelet.metrics().text())),
        Request::Timeline { uids } => Reply::Timelines(shared.kubelet.timelines(uids.as_deref())),
        Request::List => Reply::Reports(shared.kubelet.reports()),
        Request::Stop { uid, grace_ms, remove } => {
            let request = StopRequest { grace: grace_ms.map(Duration::from_millis), remove };
            match shared.kubelet.stop(&uid, request) {
                Ok(()) => Reply::Done,
                Err(unknown) => Reply::UnknownPod(unknown.0),
            }
        }
        Request::Watch { .. }
        | Request::Exec { .. }
        | Request::Attach { .. }
        | Request::Connect { .. }
        | Request::Shutdown => Reply::Error("not on a connection that watches".to_owned()),
    }
}

/// Whether the two can talk. The answer goes out in any case: it is how an older command learns what to say.
async fn greet(channel: &mut Channel, own: &Identity) -> Result<bool, ChannelError> {
    let greeting = tokio::time::timeout(GREETING, channel.receive()).await.map_err(|_| ChannelError::Closed)?;
    match greeting {
        Ok(Request::Hello(client)) => {
            channel.send(&Reply::Hello(own.clone())).await?;
            // Ending an agent is understood from every version, so that `agent --replace` works across them.
            if client.protocol != PROTOCOL {
                tracing::warn!(client = client.protocol, own = PROTOCOL, "a command speaks another protocol");
            }
            Ok(true)
        }
        Ok(_) => {
            channel.send(&Reply::Error("the first message must be a greeting".to_owned())).await?;
            Ok(false)
        }
        Err(error @ ChannelError::Malformed(_)) => {
            channel.send(&Reply::Error(error_chain(&error))).await?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

async fn watch(channel: &mut Channel, shared: &Shared, uids: Option<Vec<PodUid>>) -> Result<(), ChannelError> {
    let wanted: Option<HashSet<PodUid>> = uids.map(|uids| uids.into_iter().collect());
    let wants = |uid: &PodUid| wanted.as_ref().is_none_or(|set| set.contains(uid));
    let of_pod = |report: &PodReport| {
        report.pod.metadata.uid.clone().and_then(|uid| PodUid::new(uid).ok()).is_some_and(|uid| wants(&uid))
    };
    // Subscribed before the list is taken: what changes in between comes twice rather than never.
    let mut changes = shared.kubelet.subscribe();
    let mut progress = shared.kubelet.progress();
    let reports = shared.kubelet.reports().into_iter().filter(|r| of_pod(r)).collect();
    channel.send(&Reply::Reports(reports)).await?;
    loop {
        let reply = tokio::select! {
            change = changes.next() => match change {
                PodChange::Updated(report) if of_pod(&report) => Reply::Change(Box::new(report)),
                PodChange::Removed(uid) if wants(&uid) => Reply::Removed(uid),
                PodChange::Updated(_) | PodChange::Removed(_) => continue,
            },
            event = progress.recv() => match event {
                Ok(event) if wants(pod_of(&event)) => Reply::Progress(event),
                Ok(_) | Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return Ok(()),
            },
            request = channel.receive() => match request {
                // No change is sent until it is answered: that is what gives changes their place in the order.
                Ok(request) => answer(request, shared).await,
                Err(error @ ChannelError::Malformed(_)) => Reply::Error(error_chain(&error)),
                Err(error) => return Err(error),
            },
        };
        channel.send(&reply).await?;
    }
}

fn pod_of(progress: &Progress) -> &PodUid {
    match progress {
        Progress::Pull { pod, .. } | Progress::Event { pod, .. } => pod,
    }
}
