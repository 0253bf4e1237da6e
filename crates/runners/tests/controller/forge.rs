//! The look-alike's state as a forge, without HTTP: time is paused here.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use minke_runners::controller::Forges;
use minke_runners::demand::Access;
use minke_runners::engine::ForgeRunner;
use minke_runners::forge::lookalike::{NotRemoved, State};
use minke_runners::forge::{Forge, ForgeError, ListedJob, Registration, Secret};
use minke_runners::ids::RunnerId;
use minke_runners::set::RunnerSetSpec;
use tokio::time::sleep;

use crate::random::Random;

/// What all sets' forges share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) random: Mutex<Random>,
    /// In thousandths.
    pub(crate) fails: AtomicU64,
    pub(crate) away: AtomicBool,
    /// Removals never end.
    pub(crate) hangs: AtomicBool,
    pub(crate) no_credential: AtomicBool,
    pub(crate) calls: AtomicU64,
}

#[derive(Debug, Clone)]
pub(crate) struct FakeForges(pub(crate) Arc<Shared>);

#[derive(Debug)]
struct FakeForge {
    shared: Arc<Shared>,
    labels: Vec<String>,
    group: u64,
    organization: bool,
}

impl FakeForges {
    pub(crate) fn new(state: Arc<Mutex<State>>, seed: u64) -> Self {
        Self(Arc::new(Shared {
            state,
            random: Mutex::new(Random::new(seed)),
            fails: AtomicU64::new(0),
            away: AtomicBool::new(false),
            hangs: AtomicBool::new(false),
            no_credential: AtomicBool::new(false),
            calls: AtomicU64::new(0),
        }))
    }
}

#[async_trait]
impl Forges for FakeForges {
    async fn forge(&self, _namespace: &str, spec: &RunnerSetSpec) -> Result<Arc<dyn Forge>, ForgeError> {
        if self.0.no_credential.load(Ordering::Relaxed) {
            return Err(ForgeError::Credential("there is no secret github".to_owned()));
        }
        let (group, organization) = (spec.github.group_id.unwrap_or(1), spec.github.organization.is_some());
        Ok(Arc::new(FakeForge { shared: Arc::clone(&self.0), labels: spec.labels.clone(), group, organization }))
    }

    fn refused(&self, _namespace: &str, _secret: &str) {}

    fn budgets(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

impl FakeForge {
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before an answer: how it takes, and whether it fails.
    async fn pass(&self) -> Result<(), ForgeError> {
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
        let (by, fails) = {
            let mut random = self.shared.random.lock().unwrap();
            (random.between(5, 300), random.chance(self.shared.fails.load(Ordering::Relaxed)))
        };
        sleep(Duration::from_millis(by)).await;
        if fails || self.shared.away.load(Ordering::Relaxed) {
            return Err(ForgeError::Unavailable(503));
        }
        Ok(())
    }
}

#[async_trait]
impl Forge for FakeForge {
    async fn register(&self, name: &str) -> Result<Registration, ForgeError> {
        self.pass().await?;
        let given = self.state().register_in(self.group, name, &self.labels);
        // And the answer may be lost.
        self.pass().await?;
        let (id, configuration) = given.ok_or(ForgeError::Conflict)?;
        Ok(Registration { id, configuration: Secret::new(configuration) })
    }

    async fn runners(&self) -> Result<Vec<ForgeRunner>, ForgeError> {
        let runners = self.state().runners();
        self.pass().await?;
        Ok(runners)
    }

    async fn remove(&self, id: RunnerId) -> Result<(), ForgeError> {
        if self.shared.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        self.pass().await?;
        let removed = self.state().remove(id);
        removed.map_err(|not| match not {
            NotRemoved::Unknown => ForgeError::NotFound,
            NotRemoved::Busy => ForgeError::Unprocessable("busy".to_owned()),
        })
    }

    async fn jobs(&self, repository: &str) -> Result<Vec<ListedJob>, ForgeError> {
        let jobs = self.state().listed(repository);
        self.pass().await?;
        Ok(jobs)
    }

    async fn access(&self) -> Result<Access, ForgeError> {
        let open = self.state().selected(self.group).cloned();
        self.pass().await?;
        Ok(open.filter(|_| self.organization).map_or(Access::All, Access::only))
    }
}
