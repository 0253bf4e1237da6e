//! The Lease over a Kubernetes client. Performs, decides nothing.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use minke_core::clock::Clock;
use minke_core::runtime::error_chain;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::{Candidate, Held, Terms, Wish};

/// Which Lease, and who would hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whoever would hold it: no other replica has this name.
    pub identity: String,
}

/// Holds the Lease whenever it can, and says so, until it is dropped. Needs to `get`, `create` and `update` Leases.
pub async fn hold(client: Client, name: LeaseName, terms: Terms, clock: Arc<dyn Clock>, leads: watch::Sender<bool>) {
    let api: Api<Lease> = Api::namespaced(client, &name.namespace);
    let began = Instant::now();
    let mut candidate = Candidate::new(&*name.identity, terms);
    loop {
        let asked = began.elapsed();
        match timeout(terms.renew / 2, attempt(&api, &name, &mut candidate, asked, terms, &*clock)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(error = error_chain(&error), "the lease can't be held"),
            Err(_) => tracing::warn!("the lease can't be held: no answer"),
        }
        // What was written must not hold longer than this one thinks it does.
        let until = Instant::now() + terms.retry;
        while Instant::now() < until {
            let now = candidate.leads(began.elapsed());
            leads.send_if_modified(|leads| std::mem::replace(leads, now) != now);
            sleep(Duration::from_millis(250)).await;
        }
    }
}

async fn attempt(
    api: &Api<Lease>,
    name: &LeaseName,
    candidate: &mut Candidate,
    asked: Duration,
    terms: Terms,
    clock: &dyn Clock,
) -> Result<(), Error> {
    let lease = api.get_opt(&name.name).await?;
    let wish = candidate.see(lease.as_ref().map(held), asked);
    let transitions = match wish {
        Wish::Wait => return Ok(()),
        Wish::Take(transitions) => transitions,
        Wish::Renew => lease.as_ref().map_or(0, |lease| held(lease).transitions),
    };
    let now = MicroTime(clock.now());
    let acquired = lease.as_ref().and_then(|lease| lease.spec.as_ref()?.acquire_time.clone());
    let spec = LeaseSpec {
        holder_identity: Some(name.identity.clone()),
        lease_duration_seconds: i32::try_from(terms.duration.as_secs()).ok(),
        renew_time: Some(now.clone()),
        acquire_time: if wish == Wish::Renew { acquired } else { Some(now) },
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    };
    match lease {
        None => {
            let metadata = ObjectMeta { name: Some(name.name.clone()), ..ObjectMeta::default() };
            api.create(&PostParams::default(), &Lease { metadata, spec: Some(spec) }).await?;
        }
        // Its version is that of the read: who was faster wins.
        Some(lease) => {
            let lease = Lease { spec: Some(spec), ..lease };
            api.replace(&name.name, &PostParams::default(), &lease).await?;
        }
    }
    candidate.wrote(asked);
    Ok(())
}

fn held(lease: &Lease) -> Held {
    let spec = lease.spec.clone().unwrap_or_default();
    Held {
        holder: spec.holder_identity.unwrap_or_default(),
        renewed: spec.renew_time.map(|time| time.0.to_string()).unwrap_or_default(),
        duration: Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0)),
        transitions: spec.lease_transitions.unwrap_or(0),
    }
}
