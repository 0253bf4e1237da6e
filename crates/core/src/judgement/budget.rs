//! How long a trouble may last before it counts as the end. Zero fails fast; without a limit it never does.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// A time that troubles of one kind have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// So long; zero: fail at once.
    After(Duration),
    /// For ever.
    Never,
}

macro_rules! budgets {
    ($($name:ident $field:literal $default:expr, $meaning:literal;)*) => {
        /// The kinds of trouble that may heal, each with a time of its own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Budget {
            $(#[doc = $meaning] $name,)*
        }

        impl Budget {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// As options name it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $field),* }
            }

            /// What it is for.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning),* }
            }

            /// Unless configured otherwise.
            #[must_use]
            pub fn default_limit(self) -> Limit {
                match self { $(Self::$name => $default),* }
            }
        }
    };
}

const fn seconds(seconds: u64) -> Limit {
    Limit::After(Duration::from_secs(seconds))
}

budgets! {
    Pull "pull" seconds(60), "A registry that can't be reached, limits pulls, or fails in an unknown way.";
    Missing "missing" seconds(0), "A ConfigMap, Secret, key or claim that does not exist.";
    Create "create" seconds(60), "A runtime that is too slow to create containers.";
    Sandbox "sandbox" seconds(60), "A sandbox or network that can't be made.";
    Mount "mount" seconds(120), "A volume that can't be attached or mounted.";
    Schedule "schedule" seconds(300), "No node can take the Pod.";
    ScaleUp "scale-up" seconds(600), "No node can take the Pod, and an autoscaler has announced one.";
    Gated "gated" Limit::Never, "Scheduling gates hold the Pod back.";
    Node "node" seconds(60), "The Pod's node does not answer.";
    Crash "crash" seconds(0), "A container in a crash loop.";
    Unknown "unknown" seconds(60), "A waiting reason that is none of the known ones.";
    Start "start" Limit::Never, "Containers are being created, and nothing is wrong.";
    Ready "ready" Limit::Never, "Everything runs, and something is not ready.";
}

impl Budget {
    /// The budget of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|budget| budget.as_str() == name)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Budget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// All budgets, and how long a terminal finding settles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budgets {
    limits: Vec<Limit>,
    /// How long a terminal finding waits for a deeper cause before it is the verdict; 100 to 300 ms are sensible.
    pub settle: Duration,
    /// How long the end of a container waits that was killed and has a probe: that the probe has condemned it stands in an
    /// event alone, which a busy node may write seconds after the status. Zero for who sees no events.
    pub explain: Duration,
}

impl Default for Budgets {
    fn default() -> Self {
        let limits = Budget::ALL.iter().map(|budget| budget.default_limit()).collect();
        Self { limits, settle: Duration::from_millis(200), explain: Duration::from_secs(10) }
    }
}

impl Budgets {
    /// The limit of a budget.
    #[must_use]
    pub fn of(&self, budget: Budget) -> Limit {
        self.limits.get(budget as usize).copied().unwrap_or_else(|| budget.default_limit())
    }

    /// The same with another limit.
    #[must_use]
    pub fn with(mut self, budget: Budget, limit: Limit) -> Self {
        if let Some(slot) = self.limits.get_mut(budget as usize) {
            *slot = limit;
        }
        self
    }

    /// No trouble may heal: everything that is wrong is the end, at once.
    #[must_use]
    pub fn fail_fast(self) -> Self {
        Budget::ALL
            .iter()
            .filter(|b| !matches!(b, Budget::Start | Budget::Ready))
            .fold(self, |budgets, budget| budgets.with(*budget, Limit::After(Duration::ZERO)))
    }
}
