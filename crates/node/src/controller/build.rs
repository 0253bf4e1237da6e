//! What a controller is made of.

use std::sync::Arc;
use std::time::Duration;

use minke_core::clock::{Clock, SystemClock};
use minke_core::provider::Provider;

use super::{Controller, ControllerMetrics};
use crate::api::PodApi;
use crate::book::Caution;
use crate::environment::NodeFacts;
use crate::queue::Backoff;

/// Settings, each with a default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Calls on the provider at a time.
    pub workers: usize,
    /// Writes to the API at a time.
    pub writers: usize,
    /// How long a failing call on the provider is held back.
    pub provider_backoff: Backoff,
    /// How long a failing write is held back.
    pub api_backoff: Backoff,
    /// Between two lists of a provider that has to be asked.
    pub poll: Duration,
    /// Between two lists of a provider that tells of changes.
    pub sweep: Duration,
    /// Longest call on the provider.
    pub call_timeout: Duration,
    /// Longest call on the API.
    pub api_timeout: Duration,
    /// How long work in hand is waited for at the end.
    pub shutdown: Duration,
    /// How much absence is believed.
    pub caution: Caution,
}

impl Default for Options {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            workers: 32,
            writers: 32,
            provider_backoff: Backoff::default(),
            api_backoff: Backoff { first: Duration::from_millis(50), longest: seconds(30) },
            poll: seconds(5),
            sweep: seconds(60),
            call_timeout: seconds(300),
            api_timeout: seconds(30),
            shutdown: seconds(30),
            caution: Caution::default(),
        }
    }
}

/// A part that a controller can't do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MissingPart {
    /// [`Builder::api`].
    #[error("the pod controller needs an API to serve")]
    Api,
    /// [`Builder::provider`].
    #[error("the pod controller needs a provider to run pods")]
    Provider,
    /// [`Builder::node`], with a name.
    #[error("the pod controller needs the name of its node")]
    NodeName,
    /// [`Options::workers`] is 0.
    #[error("the pod controller needs one worker at least")]
    Workers,
    /// [`Options::writers`] is 0.
    #[error("the pod controller needs one writer at least")]
    Writers,
}

#[derive(Debug)]
pub(super) struct Parts {
    pub(super) api: Arc<dyn PodApi>,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) node: NodeFacts,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: Options,
    pub(super) metrics: Arc<ControllerMetrics>,
}

/// Collects the parts.
#[derive(Debug, Default)]
pub struct Builder {
    api: Option<Arc<dyn PodApi>>,
    provider: Option<Arc<dyn Provider>>,
    node: NodeFacts,
    clock: Option<Arc<dyn Clock>>,
    options: Options,
    metrics: Arc<ControllerMetrics>,
}

impl Builder {
    /// The API that it serves.
    #[must_use]
    pub fn api(self, api: Arc<dyn PodApi>) -> Self {
        Self { api: Some(api), ..self }
    }

    /// Who runs the Pods.
    #[must_use]
    pub fn provider(self, provider: Arc<dyn Provider>) -> Self {
        Self { provider: Some(provider), ..self }
    }

    /// Which node it is.
    #[must_use]
    pub fn node(self, node: NodeFacts) -> Self {
        Self { node, ..self }
    }

    /// Another clock than the machine's.
    #[must_use]
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Other settings than the defaults.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Where it counts, for who tells of it.
    #[must_use]
    pub fn metrics(self, metrics: Arc<ControllerMetrics>) -> Self {
        Self { metrics, ..self }
    }

    /// The controller, to be run.
    ///
    /// # Errors
    /// [`MissingPart`] names the first.
    pub fn build(self) -> Result<Controller, MissingPart> {
        let Self { api, provider, node, clock, options, metrics } = self;
        let api = api.ok_or(MissingPart::Api)?;
        let provider = provider.ok_or(MissingPart::Provider)?;
        if node.name.is_empty() {
            return Err(MissingPart::NodeName);
        }
        if options.workers == 0 {
            return Err(MissingPart::Workers);
        }
        if options.writers == 0 {
            return Err(MissingPart::Writers);
        }
        let clock = clock.unwrap_or_else(|| Arc::new(SystemClock));
        Ok(Controller::new(Parts { api, provider, node, clock, options, metrics }))
    }
}
