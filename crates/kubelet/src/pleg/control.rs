//! What can be changed while the PLEG runs: its periods, and whether it runs at all.

use std::time::Duration;

use tokio::sync::watch;

/// No period is shorter: a full relist a moment would leave time for nothing else.
const SHORTEST: Duration = Duration::from_millis(10);

/// The durations of relists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Periods {
    /// Gap between full relists without a healthy event stream.
    pub relist: Duration,
    /// Gap between full relists with one.
    pub slow_relist: Duration,
    /// Unhealthy when no full relist succeeded for this long.
    pub threshold: Duration,
}

impl Periods {
    /// The same, within what makes sense.
    pub(super) fn sane(self) -> Self {
        let relist = self.relist.max(SHORTEST);
        Self { relist, slow_relist: self.slow_relist.max(relist), threshold: self.threshold }
    }
}

#[derive(Debug, Clone, Copy)]
struct State {
    periods: Periods,
    on: bool,
}

/// The handle's end. Every operation is idempotent.
#[derive(Debug, Clone)]
pub(super) struct Control(watch::Sender<State>);

impl Control {
    pub(super) fn new(periods: Periods) -> Self {
        Self(watch::Sender::new(State { periods: periods.sane(), on: true }))
    }

    pub(super) fn periods(&self) -> Periods {
        self.0.borrow().periods
    }

    pub(super) fn set_periods(&self, periods: Periods) {
        let periods = periods.sane();
        self.0.send_if_modified(|state| std::mem::replace(&mut state.periods, periods) != periods);
    }

    pub(super) fn set_on(&self, on: bool) {
        self.0.send_if_modified(|state| std::mem::replace(&mut state.on, on) != on);
    }

    pub(super) fn switch(&self) -> Switch {
        Switch(self.0.subscribe())
    }
}

/// The tasks' end.
#[derive(Debug, Clone)]
pub(super) struct Switch(watch::Receiver<State>);

impl Switch {
    pub(super) fn periods(&self) -> Periods {
        self.0.borrow().periods
    }

    pub(super) fn is_on(&self) -> bool {
        self.0.borrow().on
    }

    /// Waits until it is on. Without anyone who could still switch it, waits for ever.
    pub(super) async fn on(&mut self) {
        if self.0.wait_for(|state| state.on).await.is_err() {
            std::future::pending().await
        }
    }

    /// Waits until it is off.
    pub(super) async fn off(&mut self) {
        if self.0.wait_for(|state| !state.on).await.is_err() {
            std::future::pending().await
        }
    }

    /// Waits until anything was changed.
    pub(super) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}
