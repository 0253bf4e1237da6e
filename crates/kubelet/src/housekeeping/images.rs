//! Which images go when the disk fills. Pure: [`Ledger`] remembers when each image was seen first and used last,
//! [`Ledger::plan`] says what to remove.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use minke_core::runtime::{FsInfo, ImageId, ImageStatus};
use tokio::time::Instant;

use crate::images::ImageName;

/// When images are removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageGcPolicy {
    /// Removing begins when this much of the disk is used, in percent; 100: never.
    pub high_percent: u8,
    /// And goes on until no more than this much is used, in percent.
    pub low_percent: u8,
    /// An image stays at least this long after it was seen first.
    pub min_age: Duration,
    /// Names of images that always stay: those of sandboxes, where a runtime has such.
    pub protected: Vec<String>,
}

impl Default for ImageGcPolicy {
    /// The kubelet's defaults.
    fn default() -> Self {
        Self { high_percent: 85, low_percent: 80, min_age: Duration::from_secs(120), protected: Vec::new() }
    }
}

/// Two thresholds that make no sense together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidImageGc {
    /// Not a percentage.
    #[error("the image thresholds are percentages: {high} and {low} must be at most 100")]
    NoPercentage {
        /// The high one.
        high: u8,
        /// The low one.
        low: u8,
    },
    /// The wrong way round.
    #[error("the low image threshold, {low} %, must be below the high one, {high} %")]
    Order {
        /// The high one.
        high: u8,
        /// The low one.
        low: u8,
    },
}

impl ImageGcPolicy {
    /// Checks the thresholds.
    ///
    /// # Errors
    /// [`InvalidImageGc`].
    pub fn check(&self) -> Result<(), InvalidImageGc> {
        let (high, low) = (self.high_percent, self.low_percent);
        if high > 100 || low > 100 {
            return Err(InvalidImageGc::NoPercentage { high, low });
        }
        if low >= high { Err(InvalidImageGc::Order { high, low }) } else { Ok(()) }
    }

    /// How many bytes have to go; `None` while there is room.
    pub(super) fn excess(&self, disk: &FsInfo) -> Option<u64> {
        if self.high_percent >= 100 || disk.capacity_bytes == 0 {
            return None;
        }
        let capacity = u128::from(disk.capacity_bytes);
        let used = u128::from(disk.capacity_bytes.saturating_sub(disk.available_bytes));
        if used * 100 < capacity * u128::from(self.high_percent) {
            return None;
        }
        let allowed = capacity * u128::from(self.low_percent) / 100;
        u64::try_from(used.saturating_sub(allowed)).ok()
    }
}

/// The images that these names mean, as manifests write them.
pub(super) fn named(images: &[ImageStatus], names: &BTreeSet<String>) -> BTreeSet<ImageId> {
    let whole = |name: &str| {
        let mut name = ImageName::parse(name).ok()?;
        if name.tag.is_none() && name.digest.is_none() {
            name.tag = Some("latest".to_owned());
        }
        Some(name)
    };
    let wanted: Vec<ImageName> = names.iter().filter_map(|name| whole(name)).collect();
    let means = |image: &&ImageStatus| {
        let own = image.tags.iter().chain(&image.digests);
        names.contains(&image.id.0) || own.filter_map(|name| whole(name)).any(|own| wanted.contains(&own))
    };
    images.iter().filter(means).map(|image| image.id.clone()).collect()
}

#[derive(Debug, Clone, Copy)]
struct Record {
    /// `None`: it was here before this agent.
    first_seen: Option<Instant>,
    last_used: Option<Instant>,
}

/// What is remembered of images.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    records: BTreeMap<ImageId, Record>,
    looked: bool,
}

impl Ledger {
    /// These images are there, and these of them are used by containers now. The first look takes all as old.
    pub(super) fn look(&mut self, images: &[ImageStatus], used: &BTreeSet<ImageId>, now: Instant) {
        self.records.retain(|id, _| images.iter().any(|image| image.id == *id));
        for image in images {
            let first_seen = self.looked.then_some(now);
            let record = self.records.entry(image.id.clone()).or_insert(Record { first_seen, last_used: None });
            if used.contains(&image.id) {
                record.last_used = Some(now);
            }
        }
        self.looked = true;
    }

    /// What to remove, in order, so that about `bytes` become free: those not used for the longest time first, of
    /// those never used the oldest first. Never one that is in use, pinned, protected, or younger than the policy allows.
    pub(super) fn plan(
        &self,
        images: &[ImageStatus],
        used: &BTreeSet<ImageId>,
        policy: &ImageGcPolicy,
        bytes: u64,
        now: Instant,
    ) -> Vec<ImageId> {
        let protected = |image: &ImageStatus| {
            let names = || image.tags.iter().chain(&image.digests);
            policy.protected.iter().any(|name| *name == image.id.0 || names().any(|own| own == name))
        };
        let record = |image: &ImageStatus| self.records.get(&image.id).copied();
        let young =
            |record: Record| record.first_seen.is_some_and(|seen| now.saturating_duration_since(seen) < policy.min_age);
        let mut candidates: Vec<(Record, &ImageStatus)> = images
            .iter()
            .filter(|image| !image.pinned && !used.contains(&image.id) && !protected(image))
            .filter_map(|image| Some((record(image)?, image)))
            .filter(|(record, _)| !young(*record))
            .collect();
        candidates
            .sort_by(|(a, x), (b, y)| (a.last_used, a.first_seen, &x.id).cmp(&(b.last_used, b.first_seen, &y.id)));
        let mut freed = 0_u64;
        let enough = |image: &&ImageStatus| {
            let more = freed < bytes;
            freed = freed.saturating_add(image.size_bytes);
            more
        };
        candidates.into_iter().map(|(_, image)| image).take_while(enough).map(|image| image.id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use minke_core::runtime::ImageUser;

    use super::*;

    fn image(id: &str, size_bytes: u64) -> ImageStatus {
        let id = ImageId(id.to_owned());
        let tags = vec![format!("{id}:1")];
        ImageStatus { tags, id, digests: Vec::new(), size_bytes, user: ImageUser::Root, pinned: false }
    }

    fn set(ids: &[&str]) -> BTreeSet<ImageId> {
        ids.iter().map(|id| ImageId((*id).to_owned())).collect()
    }

    fn names(ids: &[ImageId]) -> Vec<&str> {
        ids.iter().map(|id| id.0.as_str()).collect()
    }

    fn disk(used_percent: u64) -> FsInfo {
        let available_bytes = 1000 - 10 * used_percent;
        FsInfo { used_bytes: 0, used_inodes: 0, available_bytes, capacity_bytes: 1000, directory: "/i".into() }
    }

    #[test]
    fn between_the_thresholds_nothing_goes_and_at_the_high_one_it_goes_down_to_the_low_one() {
        let policy = ImageGcPolicy::default();
        for (used, excess) in [(10, None), (80, None), (84, None), (85, Some(50)), (100, Some(200))] {
            assert_eq!(policy.excess(&disk(used)), excess, "{used} %");
        }
        let never = ImageGcPolicy { high_percent: 100, ..policy };
        assert_eq!(never.excess(&disk(100)), None);
    }

    #[test]
    fn thresholds_must_make_sense() {
        let policy =
            |high_percent, low_percent| ImageGcPolicy { high_percent, low_percent, ..ImageGcPolicy::default() };
        for (high, low, good) in [(85, 80, true), (100, 0, true), (80, 80, false), (70, 80, false), (101, 80, false)] {
            assert_eq!(policy(high, low).check().is_ok(), good, "{high} {low}");
        }
    }

    #[test]
    fn the_longest_unused_goes_first_and_no_more_than_needed() {
        let images = [image("a", 10), image("b", 10), image("c", 10), image("d", 10)];
        let (mut ledger, begin, policy) = (Ledger::default(), Instant::now(), ImageGcPolicy::default());
        let at = |minutes: u64| begin + Duration::from_secs(60 * minutes);
        ledger.look(&images, &set(&["a", "b", "c"]), at(0));
        ledger.look(&images, &set(&["a", "c"]), at(5));
        ledger.look(&images, &set(&["c"]), at(10));
        let plan = |bytes| ledger.plan(&images, &set(&["c"]), &policy, bytes, at(10));
        assert_eq!(names(&plan(u64::MAX)), ["d", "b", "a"], "never the one in use");
        assert_eq!(names(&plan(11)), ["d", "b"]);
        assert_eq!(names(&plan(0)), [""; 0]);
    }

    #[test]
    fn a_young_image_stays_and_one_that_was_here_before_the_agent_is_not_young() {
        let (mut ledger, begin, policy) = (Ledger::default(), Instant::now(), ImageGcPolicy::default());
        ledger.look(&[image("old", 10)], &set(&[]), begin);
        let images = [image("old", 10), image("new", 10)];
        ledger.look(&images, &set(&[]), begin + Duration::from_secs(60));
        let plan = |after| ledger.plan(&images, &set(&[]), &policy, u64::MAX, begin + Duration::from_secs(after));
        assert_eq!(names(&plan(61)), ["old"]);
        assert_eq!(names(&plan(60 + 119)), ["old"]);
        assert_eq!(names(&plan(60 + 120)), ["old", "new"]);
    }

    #[test]
    fn an_image_is_meant_by_any_spelling_of_its_name() {
        let busybox = ImageStatus { tags: vec!["docker.io/library/busybox:latest".to_owned()], ..image("a", 1) };
        let images = [busybox, image("localhost/b", 1)];
        let meant = |name: &str| named(&images, &BTreeSet::from([name.to_owned()])).into_iter().collect::<Vec<_>>();
        assert_eq!(names(&meant("busybox")), ["a"]);
        assert_eq!(names(&meant("localhost/b:1")), ["localhost/b"]);
        assert_eq!(names(&meant("busybox:1")), [""; 0]);
        assert_eq!(names(&meant("Not A Name")), [""; 0]);
    }

    #[test]
    fn pinned_images_stay() {
        let images = [ImageStatus { pinned: true, ..image("imported", 10) }, image("pulled", 10)];
        let mut ledger = Ledger::default();
        ledger.look(&images, &set(&[]), Instant::now());
        let policy = ImageGcPolicy::default();
        assert_eq!(names(&ledger.plan(&images, &set(&[]), &policy, u64::MAX, Instant::now())), ["pulled"]);
    }

    #[test]
    fn protected_images_stay_by_name_and_by_id() {
        let images = [image("a", 10), image("b", 10), image("c", 10)];
        let mut ledger = Ledger::default();
        ledger.look(&images, &set(&[]), Instant::now());
        let policy = ImageGcPolicy { protected: vec!["a:1".to_owned(), "b".to_owned()], ..ImageGcPolicy::default() };
        assert_eq!(names(&ledger.plan(&images, &set(&[]), &policy, u64::MAX, Instant::now())), ["c"]);
    }
}
