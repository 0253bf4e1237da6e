//! What the machine still has of Pods that nobody knows: which of it may go. Pure.
//!
//! A Pod that is being taken on has a directory a moment before it has a worker. So what looks left over must look so
//! in two rounds; nothing is removed at first sight.

use std::collections::BTreeSet;

use minke_core::identity::PodUid;

/// Something on the machine that belongs to a Pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leftover {
    /// `<state>/pods/<uid>`: volumes, perhaps with mounts. `checkpoint`: there is something of a checkpoint in it,
    /// readable or not.
    Directory {
        /// Whose.
        uid: PodUid,
        /// Whether somebody may still want the Pod.
        checkpoint: bool,
    },
    /// A directory of logs.
    Logs {
        /// Whose.
        uid: PodUid,
        /// Its name in the directory of logs.
        directory: String,
    },
    /// A Pod's cgroup below the root that is this agent's.
    Cgroup {
        /// Whose.
        uid: PodUid,
        /// Its path below the mount of a hierarchy.
        path: std::path::PathBuf,
    },
}

impl Leftover {
    /// The Pod that it belonged to.
    #[must_use]
    pub fn uid(&self) -> &PodUid {
        match self {
            Self::Directory { uid, .. } | Self::Logs { uid, .. } | Self::Cgroup { uid, .. } => uid,
        }
    }

    /// Whether it may go once nobody knows the Pod.
    fn may_go(&self) -> bool {
        match self {
            Self::Directory { checkpoint, .. } => !checkpoint,
            Self::Logs { .. } | Self::Cgroup { .. } => true,
        }
    }
}

/// What looked left over in the round before.
#[derive(Debug, Default)]
pub(super) struct Suspects(BTreeSet<Leftover>);

impl Suspects {
    /// Takes what was found on the machine, with the Pods that somebody knows (asked for after looking), and says what
    /// may go.
    pub(super) fn round(&mut self, found: Vec<Leftover>, known: &BTreeSet<PodUid>) -> Vec<Leftover> {
        let suspects: BTreeSet<Leftover> =
            found.into_iter().filter(|left| left.may_go() && !known.contains(left.uid())).collect();
        let before = std::mem::replace(&mut self.0, suspects);
        // By order: directories, whose mounts may be into a Pod's cgroup or log; then logs; then cgroups.
        self.0.intersection(&before).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(s: &str) -> PodUid {
        PodUid::new(s).unwrap()
    }

    fn directory(s: &str, checkpoint: bool) -> Leftover {
        Leftover::Directory { uid: uid(s), checkpoint }
    }

    #[test]
    fn what_is_left_over_twice_goes() {
        let (mut suspects, known) = (Suspects::default(), BTreeSet::from([uid("kept")]));
        let logs = Leftover::Logs { uid: uid("gone"), directory: "default_x_gone".to_owned() };
        let found = || vec![logs.clone(), directory("kept", false), directory("gone", false)];
        assert_eq!(suspects.round(found(), &known), []);
        assert_eq!(suspects.round(found(), &known), [directory("gone", false), logs.clone()]);
    }

    #[test]
    fn what_has_something_of_a_checkpoint_never_goes() {
        let mut suspects = Suspects::default();
        for _ in 0..3 {
            assert_eq!(suspects.round(vec![directory("torn", true)], &BTreeSet::new()), []);
        }
    }

    #[test]
    fn a_pod_that_is_being_taken_on_is_never_hit() {
        let mut suspects = Suspects::default();
        assert_eq!(suspects.round(vec![directory("new", false)], &BTreeSet::new()), []);
        assert_eq!(suspects.round(vec![directory("new", false)], &BTreeSet::from([uid("new")])), []);
        // Forgotten meanwhile: suspected anew.
        assert_eq!(suspects.round(vec![directory("new", false)], &BTreeSet::new()), []);
    }
}
