//! Ranges of ids for Pods with a user namespace of their own (`hostUsers: false`).
//!
//! Each Pod gets 65536 ids that no other Pod has, so that root of one Pod is nobody to all others and to the host.
//! The allocator is data; after a restart [`IdRanges::recover`] is told what running sandboxes have.

use std::collections::BTreeMap;

use minke_core::identity::PodUid;
use minke_core::runtime::IdMapping;

/// Ids of one Pod.
pub const IDS_PER_POD: u32 = 65_536;

/// Who has which range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdRanges {
    /// First slot and number of slots; slot n is ids `n·65536..(n+1)·65536`. Slot 0 is the host's own.
    slots: std::ops::Range<u32>,
    taken: BTreeMap<u32, PodUid>,
}

/// Every range is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no range of {IDS_PER_POD} user ids is free: {0} pods with hostUsers=false exist already")]
pub struct NoFreeRange(pub usize);

/// A range that can't belong to this Pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// It is none of ours.
    #[error("user ids from {} are not one of minke's ranges", .0.host_id)]
    NotARange(IdMapping),
    /// Another Pod has it.
    #[error("user ids from {} belong to pod {owner} already", mapping.host_id)]
    Taken {
        /// The range.
        mapping: IdMapping,
        /// Its owner.
        owner: PodUid,
    },
}

impl Default for IdRanges {
    /// All ranges from 65536 up that fit below 2³¹, the part that all file systems and tools agree on.
    fn default() -> Self {
        Self::new(IDS_PER_POD, 32_767)
    }
}

impl IdRanges {
    /// `count` ranges from `first_id` on, rounded up to a multiple of 65536 and never below it.
    #[must_use]
    pub fn new(first_id: u32, count: u32) -> Self {
        let first = first_id.div_ceil(IDS_PER_POD).max(1);
        // The last slot would hold id 2³²−1, which is no id.
        let end = first.saturating_add(count).min(u32::MAX / IDS_PER_POD);
        Self { slots: first..end.max(first), taken: BTreeMap::new() }
    }

    /// The range of this Pod: the one it has, or the lowest free one.
    ///
    /// # Errors
    /// [`NoFreeRange`].
    pub fn allocate(&mut self, pod: &PodUid) -> Result<IdMapping, NoFreeRange> {
        if let Some((slot, _)) = self.taken.iter().find(|(_, owner)| *owner == pod) {
            return Ok(mapping(*slot));
        }
        let free = self.slots.clone().find(|slot| !self.taken.contains_key(slot));
        let slot = free.ok_or(NoFreeRange(self.taken.len()))?;
        self.taken.insert(slot, pod.clone());
        Ok(mapping(slot))
    }

    /// Notes that a Pod that exists has this range.
    ///
    /// # Errors
    /// The range is none of ours, or another Pod's.
    pub fn recover(&mut self, pod: &PodUid, range: IdMapping) -> Result<(), RecoverError> {
        let slot = range.host_id / IDS_PER_POD;
        if range != mapping(slot) || slot == 0 {
            return Err(RecoverError::NotARange(range));
        }
        match self.taken.get(&slot) {
            Some(owner) if owner != pod => Err(RecoverError::Taken { mapping: range, owner: owner.clone() }),
            Some(_) => Ok(()),
            None => {
                self.taken.insert(slot, pod.clone());
                Ok(())
            }
        }
    }

    /// Frees the range of a Pod that is gone. Idempotent.
    pub fn release(&mut self, pod: &PodUid) {
        self.taken.retain(|_, owner| owner != pod);
    }
}

fn mapping(slot: u32) -> IdMapping {
    IdMapping { host_id: slot.saturating_mul(IDS_PER_POD), length: IDS_PER_POD }
}
