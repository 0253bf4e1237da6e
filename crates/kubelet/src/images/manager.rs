//! Performs what the policy decides, with back-off for each Pod and image, and tells about it in upstream's words.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_core::backoff::Backoff;
use minke_core::identity::PodUid;
use minke_core::objects::ObjectSet;
use minke_core::runtime::{ImageService, ImageStatus, PullError, PullProgress, PullRequest, error_chain};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{Decision, ImageName, PullPolicy, pull_credentials};

/// Something that people should hear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageEvent {
    /// Upstream's reason: `Pulling`, `Pulled`, `Failed`, `BackOff`, …
    pub reason: &'static str,
    /// Upstream's words.
    pub message: String,
    /// Something is wrong.
    pub warning: bool,
}

/// Why a container has no image, as its `waiting` state shows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct ImageFailure {
    /// `ErrImagePull`, `ImagePullBackOff`, `ErrImageNeverPull`, `InvalidImageName`, `ImageInspectError`,
    /// `RegistryUnavailable`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// When to try again; `None`: nothing known, as after any error.
    pub retry_after: Option<Duration>,
}

/// An image that is in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnsuredImage {
    /// The image.
    pub status: ImageStatus,
    /// How long its pull took, waiting included; `None`: it was present.
    pub pulled_in: Option<Duration>,
}

/// What is wanted.
pub struct EnsureImage<'a> {
    /// For which Pod.
    pub pod: &'a Pod,
    /// Its uid.
    pub uid: &'a PodUid,
    /// The image as the manifest names it.
    pub image: &'a str,
    /// `imagePullPolicy`.
    pub policy: Option<&'a str>,
    /// Holds the Pod's pull secrets.
    pub objects: &'a ObjectSet,
    /// Gets told how far a pull is.
    pub progress: Arc<dyn PullProgress>,
    /// Gets told what happens.
    pub events: &'a (dyn Fn(ImageEvent) + Send + Sync),
}

impl fmt::Debug for EnsureImage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnsureImage").field("uid", self.uid).field("image", &self.image).finish_non_exhaustive()
    }
}

/// Sees to the images of all Pods.
pub struct ImageManager {
    images: Arc<dyn ImageService>,
    backoff: Mutex<Backoff<(PodUid, String)>>,
    pulls: Semaphore,
    origin: Instant,
}

/// How many pulls go on at a time unless configured otherwise.
pub const PARALLEL_PULLS: usize = 8;

impl ImageManager {
    /// A manager over this store that pulls so many images at a time (at least one).
    #[must_use]
    pub fn new(images: Arc<dyn ImageService>, parallel_pulls: usize) -> Self {
        Self { images, backoff: Mutex::default(), pulls: Semaphore::new(parallel_pulls.max(1)), origin: Instant::now() }
    }

    /// Sees to it that an image is in the store.
    ///
    /// # Errors
    /// [`ImageFailure`], to be shown as the container's `waiting` state. A failed pull is not tried again before its
    /// back-off has passed, whoever asks.
    ///
    /// # Cancel safety
    /// A dropped call counts as no attempt.
    pub async fn ensure(&self, wanted: &EnsureImage<'_>) -> Result<EnsuredImage, ImageFailure> {
        let image = wanted.image;
        let name = ImageName::parse(image).map_err(|error| {
            let message = format!("Failed to apply default image tag {image:?}: {error}");
            (wanted.events)(ImageEvent { reason: "InspectFailed", message: message.clone(), warning: true });
            ImageFailure { reason: "InvalidImageName", message, retry_after: None }
        })?;
        let policy = PullPolicy::of(wanted.policy, &name);
        let present = self.inspect(wanted).await?;
        match (policy.decide(present.is_some()), present) {
            (Decision::Use, Some(status)) => {
                let message = format!("Container image {image:?} already present on machine");
                (wanted.events)(ImageEvent { reason: "Pulled", message, warning: false });
                Ok(EnsuredImage { status, pulled_in: None })
            }
            (Decision::Refuse, _) => {
                let message = format!("Container image {image:?} is not present with pull policy of Never");
                (wanted.events)(ImageEvent { reason: "ErrImageNeverPull", message: message.clone(), warning: true });
                Err(ImageFailure { reason: "ErrImageNeverPull", message, retry_after: None })
            }
            (Decision::Pull | Decision::Use, _) => self.pull(wanted, &name).await,
        }
    }

    async fn inspect(&self, wanted: &EnsureImage<'_>) -> Result<Option<ImageStatus>, ImageFailure> {
        self.images.image_status(wanted.image).await.map_err(|error| {
            let message = format!("Failed to inspect image {:?}: {}", wanted.image, error_chain(&error));
            (wanted.events)(ImageEvent { reason: "InspectFailed", message: message.clone(), warning: true });
            ImageFailure { reason: "ImageInspectError", message, retry_after: None }
        })
    }

    async fn pull(&self, wanted: &EnsureImage<'_>, name: &ImageName) -> Result<EnsuredImage, ImageFailure> {
        let image = wanted.image;
        let key = (wanted.uid.clone(), image.to_owned());
        if let Some(failure) = self.backed_off(&key, image) {
            (wanted.events)(ImageEvent { reason: "BackOff", message: failure.message.clone(), warning: false });
            return Err(failure);
        }
        let found = pull_credentials(wanted.pod, wanted.objects, name);
        for message in found.warnings {
            (wanted.events)(ImageEvent { reason: "FailedToRetrieveImagePullSecret", message, warning: true });
        }
        let asked = Instant::now();
        // Closed never: the semaphore lives as long as the manager.
        let _turn = self.pulls.acquire().await.ok();
        let began = Instant::now();
        (wanted.events)(ImageEvent { reason: "Pulling", message: format!("Pulling image {image:?}"), warning: false });
        let request = PullRequest {
            image: image.to_owned(),
            credentials: found.credentials,
            progress: Arc::clone(&wanted.progress),
        };
        let result = self.images.pull_image(&request).await;
        let (pulling, waiting) = (began.elapsed(), asked.elapsed());
        let id = match result {
            Ok(id) => id,
            Err(error) => return Err(self.failed(wanted, &key, &error)),
        };
        self.backoff().succeeded(&key);
        let Some(status) = self.images.image_status(&id.0).await.map_err(|error| inspect_failed(image, &error))? else {
            let message = format!("image {image:?} was pulled as {id} and is gone again");
            return Err(ImageFailure { reason: "ImageInspectError", message, retry_after: None });
        };
        let message = format!(
            "Successfully pulled image {image:?} in {} ({} including waiting). Image size: {} bytes.",
            go_seconds(pulling),
            go_seconds(waiting),
            status.size_bytes
        );
        (wanted.events)(ImageEvent { reason: "Pulled", message, warning: false });
        Ok(EnsuredImage { status, pulled_in: Some(waiting) })
    }

    fn backed_off(&self, key: &(PodUid, String), image: &str) -> Option<ImageFailure> {
        let backoff = self.backoff();
        let (wait, previous) = backoff.check(key, self.origin.elapsed())?;
        let message = format!("Back-off pulling image {image:?}: {previous}");
        Some(ImageFailure { reason: "ImagePullBackOff", message, retry_after: Some(wait.remaining) })
    }

    fn failed(&self, wanted: &EnsureImage<'_>, key: &(PodUid, String), error: &PullError) -> ImageFailure {
        let reason = reason_of(error);
        let message = format!("Failed to pull image {:?}: {error}", wanted.image);
        (wanted.events)(ImageEvent { reason: "Failed", message: message.clone(), warning: true });
        let now = self.origin.elapsed();
        let mut backoff = self.backoff();
        backoff.failed(key.clone(), format!("{reason}: {error}"), now);
        let retry_after = backoff.check(key, now).map(|(wait, _)| wait.remaining);
        ImageFailure { reason, message, retry_after }
    }

    /// Forgets the failures of Pods that are gone.
    pub fn collect_garbage(&self, mut keep: impl FnMut(&PodUid) -> bool) {
        self.backoff().retain(self.origin.elapsed(), |(pod, _)| keep(pod));
    }

    fn backoff(&self) -> MutexGuard<'_, Backoff<(PodUid, String)>> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ImageManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageManager").field("backed_off", &self.backoff().len()).finish_non_exhaustive()
    }
}

/// The `waiting` reason of each kind of failure.
fn reason_of(error: &PullError) -> &'static str {
    match error {
        PullError::InvalidName { .. } => "InvalidImageName",
        PullError::Network { .. } => "RegistryUnavailable",
        PullError::NotFound { .. }
        | PullError::Denied { .. }
        | PullError::RateLimited { .. }
        | PullError::DigestMismatch { .. }
        | PullError::NoPlatform { .. }
        | PullError::BadContent { .. }
        | PullError::Storage { .. } => "ErrImagePull",
    }
}

fn inspect_failed(image: &str, error: &minke_core::runtime::RuntimeError) -> ImageFailure {
    let message = format!("Failed to inspect image {image:?}: {}", error_chain(error));
    ImageFailure { reason: "ImageInspectError", message, retry_after: None }
}

/// A duration to the millisecond, as upstream's events show it: `712ms`, `1.503s`, `2m3.5s`.
fn go_seconds(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis < 1000 {
        return format!("{millis}ms");
    }
    let (minutes, rest) = (millis / 60_000, millis % 60_000);
    let seconds = format!("{}.{:03}", rest / 1000, rest % 1000);
    let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
    if minutes == 0 { format!("{seconds}s") } else { format!("{minutes}m{seconds}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minke_core::fake::{FakeRuntime, Fault, FaultAction, FaultError, Op};
    use minke_core::runtime::{ImageUser, NoProgress};
    use serde_json::json;

    struct Bed {
        runtime: FakeRuntime,
        manager: ImageManager,
        pod: Pod,
        uid: PodUid,
        objects: ObjectSet,
        events: Mutex<Vec<ImageEvent>>,
    }

    impl Bed {
        fn new() -> Self {
            let runtime = FakeRuntime::new();
            let manager = ImageManager::new(Arc::new(runtime.clone()), 1);
            let (pod, uid) = (Pod::default(), PodUid::new("u").unwrap());
            Self { runtime, manager, pod, uid, objects: ObjectSet::default(), events: Mutex::default() }
        }

        async fn ensure_for(&self, uid: &str, image: &str, policy: Option<&str>) -> Result<EnsuredImage, ImageFailure> {
            let wanted = EnsureImage {
                pod: &self.pod,
                uid: &PodUid::new(uid).unwrap(),
                image,
                policy,
                objects: &self.objects,
                progress: Arc::new(NoProgress),
                events: &|event| self.events.lock().unwrap().push(event),
            };
            self.manager.ensure(&wanted).await
        }

        async fn ensure(&self, image: &str, policy: Option<&str>) -> Result<EnsuredImage, ImageFailure> {
            self.ensure_for(self.uid.as_str(), image, policy).await
        }

        fn words(&self) -> Vec<String> {
            self.events.lock().unwrap().drain(..).map(|e| format!("{}: {}", e.reason, e.message)).collect()
        }

        fn pull_fails(&self, error: PullError) {
            self.runtime.fault(Fault::on(Op::PullImage, FaultAction::Fail(FaultError::Pull(error))));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_present_image_is_used() {
        let bed = Bed::new();
        bed.runtime.add_image("a:1", ImageUser::Root);
        assert_eq!(bed.ensure("a:1", None).await.unwrap().pulled_in, None);
        assert_eq!(bed.words(), ["Pulled: Container image \"a:1\" already present on machine"]);
        assert_eq!(bed.runtime.count(Op::PullImage), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_absent_image_is_pulled_and_always_means_always() {
        let bed = Bed::new();
        bed.runtime.fault(Fault::on(Op::PullImage, FaultAction::Delay(Duration::from_millis(1500))));
        assert_eq!(bed.ensure("a:1", None).await.unwrap().pulled_in, Some(Duration::from_millis(1500)));
        assert_eq!(
            bed.words(),
            [
                "Pulling: Pulling image \"a:1\"",
                "Pulled: Successfully pulled image \"a:1\" in 1.5s (1.5s including waiting). Image size: 1000000 bytes."
            ]
        );
        bed.ensure("a:1", Some("Always")).await.unwrap();
        assert_eq!(bed.runtime.count(Op::PullImage), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn never_is_refused_when_absent() {
        let bed = Bed::new();
        let failure = bed.ensure("a:1", Some("Never")).await.unwrap_err();
        assert_eq!(failure.reason, "ErrImageNeverPull");
        assert_eq!(
            bed.words(),
            ["ErrImageNeverPull: Container image \"a:1\" is not present with pull policy of Never"]
        );
        bed.runtime.add_image("a:1", ImageUser::Root);
        assert!(bed.ensure("a:1", Some("Never")).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_pull_backs_off_for_this_pod_only() {
        let bed = Bed::new();
        bed.pull_fails(PullError::NotFound { image: "a:1".to_owned() });
        let first = bed.ensure("a:1", None).await.unwrap_err();
        assert_eq!((first.reason, first.retry_after), ("ErrImagePull", Some(Duration::from_secs(10))));
        assert_eq!(bed.words()[1], "Failed: Failed to pull image \"a:1\": a:1 does not exist in its registry");

        tokio::time::sleep(Duration::from_secs(4)).await;
        let waits = bed.ensure("a:1", None).await.unwrap_err();
        assert_eq!((waits.reason, waits.retry_after), ("ImagePullBackOff", Some(Duration::from_secs(6))));
        assert_eq!(waits.message, "Back-off pulling image \"a:1\": ErrImagePull: a:1 does not exist in its registry");
        assert_eq!(bed.runtime.count(Op::PullImage), 1);

        assert_eq!(bed.ensure_for("other", "a:1", None).await.unwrap_err().reason, "ErrImagePull");
        tokio::time::sleep(Duration::from_secs(6)).await;
        let second = bed.ensure("a:1", None).await.unwrap_err();
        assert_eq!((second.reason, second.retry_after), ("ErrImagePull", Some(Duration::from_secs(20))));

        bed.runtime.heal();
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(bed.ensure("a:1", None).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn reasons_by_kind_of_failure() {
        for (error, reason) in [
            (PullError::Network { image: "a".to_owned(), message: "refused".to_owned() }, "RegistryUnavailable"),
            (PullError::Denied { image: "a".to_owned(), message: "no".to_owned() }, "ErrImagePull"),
            (PullError::InvalidName { image: "a".to_owned(), message: "no".to_owned() }, "InvalidImageName"),
        ] {
            let bed = Bed::new();
            bed.pull_fails(error);
            assert_eq!(bed.ensure("a:1", None).await.unwrap_err().reason, reason);
        }
        let bed = Bed::new();
        assert_eq!(bed.ensure("Bad Name", None).await.unwrap_err().reason, "InvalidImageName");
        bed.runtime.fault(Fault::fail(Op::ImageStatus));
        let failure = bed.ensure("a:1", None).await.unwrap_err();
        assert_eq!(
            (failure.reason, failure.message.as_str()),
            ("ImageInspectError", "Failed to inspect image \"a:1\": image status failed: scripted failure")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn failures_of_gone_pods_are_forgotten() {
        let bed = Bed::new();
        bed.pull_fails(PullError::NotFound { image: "a:1".to_owned() });
        bed.ensure("a:1", None).await.unwrap_err();
        bed.manager.collect_garbage(|_| false);
        assert_eq!(bed.ensure("a:1", None).await.unwrap_err().reason, "ErrImagePull");
    }

    #[tokio::test(start_paused = true)]
    async fn a_login_goes_with_the_pulls_of_its_pod_and_no_others() {
        let secret = json!({"metadata": {"name": "s"}, "type": "kubernetes.io/dockerconfigjson", "data": {
            ".dockerconfigjson": "eyJhdXRocyI6eyJyLmV4YW1wbGUiOnsidXNlcm5hbWUiOiJ1IiwicGFzc3dvcmQiOiJwIn19fQ==",
        }});
        let mut bed = Bed::new();
        bed.objects.insert_secret(serde_json::from_value(secret).unwrap());
        let spec = json!({"containers": [], "imagePullSecrets": [{"name": "s"}]});
        bed.pod = serde_json::from_value(json!({"spec": spec})).unwrap();
        bed.ensure("r.example/a:1", Some("Always")).await.unwrap();
        bed.ensure("other.example/a:1", Some("Always")).await.unwrap();
        bed.pod = Pod::default();
        bed.ensure_for("other", "r.example/a:1", Some("Always")).await.unwrap();
        let logins: Vec<usize> = bed.runtime.pulls().into_iter().map(|(_, credentials)| credentials.len()).collect();
        assert_eq!(logins, [1, 0, 0]);
    }

    #[test]
    fn durations_as_go_shows_them() {
        for (millis, shown) in [(0, "0ms"), (712, "712ms"), (1000, "1s"), (1503, "1.503s"), (123_500, "2m3.5s")] {
            assert_eq!(go_seconds(Duration::from_millis(millis)), shown);
        }
    }
}
