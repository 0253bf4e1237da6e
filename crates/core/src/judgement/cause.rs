//! Every cause that a judgement can name: identifier, category, meaning, what to do. `docs/watch.md` has the same table.

use std::fmt;

use serde::{Serialize, Serializer};

/// Whose matter a cause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    /// The Pod asks for something that can't be: its author has to change it, or what it refers to.
    Configuration,
    /// The program in a container failed.
    Program,
    /// The cluster or the machine failed or took the Pod's place; the same Pod may work again.
    Infrastructure,
    /// Something outside of the cluster failed: a registry.
    External,
    /// Somebody does not want the Pod any more.
    Cancelled,
}

impl Category {
    /// As identifiers, documents and JSON have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Program => "program",
            Self::Infrastructure => "infrastructure",
            Self::External => "external",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One row a cause, so that nothing of it can be forgotten.
macro_rules! causes {
    ($($name:ident $category:ident $meaning:literal => $remedy:literal)*) => {
        /// Why a Pod will never work. The names are stable identifiers: causes may be added, never renamed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Cause {
            $(#[doc = $meaning] $name,)*
        }

        impl Cause {
            /// All of them, in the table's order.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The stable identifier.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }

            /// Whose matter it is.
            #[must_use]
            pub fn category(self) -> Category {
                match self { $(Self::$name => Category::$category),* }
            }

            /// What it means, in a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning),* }
            }

            /// What to do about it.
            #[must_use]
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$name => $remedy),* }
            }
        }
    };
}

causes! {
    OwnDeletion Cancelled "The Pod was deleted by whoever watches it." => "Nothing: it was asked for."
    Deleted Cancelled "The Pod is being deleted, or is gone." => "Find out who deleted it: its owner, a person, a controller (audit log)."
    Replaced Cancelled "Another Pod of the same name has taken its place." => "Watch the new Pod; its uid differs."

    Preempted Infrastructure "A Pod of higher priority needed its place." => "Create it again, or give it a higher priorityClassName."
    TaintEvicted Infrastructure "A taint on its node evicted it, mostly because the node is not ready." => "Create it again; look at the node's taints and conditions."
    ApiEvicted Infrastructure "It was evicted through the API: a drain, an autoscaler, a descheduler." => "Create it again; a PodDisruptionBudget delays drains."
    GarbageCollected Infrastructure "The control plane removed it because its node is gone." => "Create it again."
    Evicted Infrastructure "Its node ran short of memory, disk, inodes or process ids." => "Create it again with requests that say what it needs; look at the node's pressure."
    NodeShutdown Infrastructure "Its node is shutting down." => "Create it again."
    NodeLost Infrastructure "Its node does not answer any more; whether it still runs is not known." => "Look at the node. A copy may still run until the node is back or removed."
    NodeGoing Infrastructure "Its node is about to be taken away (spot notice, scale-down)." => "Save what the Pod has; create it again elsewhere."
    Disrupted Infrastructure "It was marked as the target of a disruption." => "Create it again; the condition's message says who did it."

    OomKilled Program "A container used more memory than its limit, or the node had none left, and was killed." => "Raise the container's memory limit, or make the program use less."
    StorageLimit Program "The Pod wrote more than its limit on ephemeral storage or on an emptyDir." => "Raise limits.ephemeral-storage or sizeLimit, or write less."
    LivenessFailed Program "A liveness or startup probe failed, so the container was killed." => "Read the container's log; give the probe more time if the program only starts slowly."
    InitFailed Program "An init container failed, and is not tried again." => "Read its log; the Pod's other containers never start."
    ContainerFailed Program "A container ended with an error, and is not started again." => "Read the container's log."
    CrashLoop Program "A container ends again and again." => "Read its previous log (--previous)."
    DeadlineExceeded Program "The Pod ran longer than its activeDeadlineSeconds." => "Raise activeDeadlineSeconds, or find out what takes so long."

    InvalidImageName Configuration "The image's name can't be read." => "Correct the image's name."
    ImageNotFound Configuration "The registry has no such repository, tag or digest." => "Correct name and tag, or push the image."
    ImageDenied Configuration "The registry refuses: the login is missing, wrong or not enough, or the repository does not exist." => "Check the name; give the Pod an imagePullSecret that may read it."
    ImageNeverPull Configuration "The image is not on the node, and imagePullPolicy is Never." => "Load it onto the node, or allow pulls."
    ImagePlatform Configuration "The image has no variant for the node's architecture or system." => "Build it for that platform, or select other nodes."
    ImageSignature Configuration "The image's signature is missing or does not verify." => "Sign the image, or correct the node's policy."
    RegistryUnavailable External "The registry can't be reached, or is unwell." => "Look at registry, DNS and network between node and registry; try again."
    RegistryTls External "The registry's certificate or protocol is not trusted." => "Install the registry's authority on the nodes, or configure it there."
    RegistryRateLimit External "The registry limits the rate of pulls." => "Pull with a login, through a mirror, or later."
    ImageCorrupt External "What the registry sent is not what its digests promise." => "Push the image again; look at proxies and mirrors in between."
    ImagePullFailed External "The image could not be pulled, for a reason that is none of the known ones." => "Read the message."
    ImageStorage Infrastructure "The node can't store the image." => "Free disk space on the node."
    ImageInspect Infrastructure "The node's image store does not answer, or is damaged." => "Look at the node's container runtime."

    ObjectMissing Configuration "A ConfigMap, Secret, key or service account that the Pod refers to is missing." => "Create it, or correct the reference."
    RunAsRoot Configuration "The image runs as root, and the Pod forbids that (runAsNonRoot)." => "Set runAsUser, or build the image with a numeric USER."
    ContainerConfig Configuration "A container's configuration can't be carried out." => "Correct the container's spec as the message says."
    CommandNotFound Configuration "The container's command is not in its image, or is no program." => "Correct command and args, or the image."
    WrongArchitecture Configuration "The container's program is for another architecture than the node's." => "Build the image for that platform, or select other nodes."
    CreateContainer Configuration "The runtime refuses to create a container." => "Read the message: mounts, devices and security options are the usual reasons."
    RunContainer Configuration "The runtime refuses to start a container." => "Read the message: mounts, devices and security options are the usual reasons."
    HookFailed Program "A lifecycle hook failed, so its container was killed." => "Correct the hook; see the message."
    RuntimeSlow Infrastructure "The node's runtime does not get a container created in time." => "Look at the node's load and its container runtime."

    RuntimeClassMissing Configuration "The node's runtime does not know the Pod's runtimeClassName." => "Correct runtimeClassName, or select nodes that have it."
    UserNamespaces Configuration "The node can't give the Pod user namespaces (hostUsers: false)." => "Select nodes whose kernel and runtime can, or leave hostUsers out."
    SandboxFailed Infrastructure "The Pod's sandbox or network can't be made." => "Look at the node's runtime and network plugin."
    VolumeMissing Configuration "A volume refers to something that does not exist." => "Create the claim, ConfigMap, Secret or path, or correct the reference."
    VolumeAttach Infrastructure "A volume can't be attached to the node." => "Look at where it is attached already and at its driver."
    VolumeMount Infrastructure "A volume can't be mounted." => "Look at the volume's driver on the node."

    Unschedulable Infrastructure "No node can take the Pod." => "The message counts the nodes and their reasons: add room, ask for less, or loosen selectors and tolerations."
    SchedulingGated Configuration "Scheduling gates hold the Pod back." => "Whoever set the gates must remove them."

    OutOfResource Infrastructure "The node refused it: it had no room any more. It never started." => "Create it again."
    AdmissionRejected Infrastructure "The node refused it. It never started." => "Create it again; the message has the node's reason."
    AdmissionForbidden Configuration "The node does not allow what the Pod asks for. It never started." => "Leave that out of the spec, or select nodes that allow it."

    RestartedDespiteNever Infrastructure "A container was started again although its restart policy is Never." => "Whatever it did may have been done twice."
    ExitUnknown Infrastructure "A container is gone, and nobody saw how it ended." => "Look at the node: it or its runtime has restarted."
    PodFailed Infrastructure "The Pod failed, and nothing that is known says why." => "Read the reason and message as the cluster gives them."
    StartTimeout Infrastructure "Its containers were not created within the start budget, and nothing says why." => "Look at the node and at the size of the images; raise the budget."
    NeverReady Program "It runs, and did not become ready within the ready budget." => "Read the log and the readiness probe; raise the budget."
    UnknownWaiting Infrastructure "A container waits for a reason that is none of the known ones, for too long." => "Read the reason and message as the cluster gives them."
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Cause {
    /// The cause of this identifier.
    #[must_use]
    pub fn parse(identifier: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|cause| cause.as_str() == identifier)
    }

    /// Whether it is about getting an image.
    #[must_use]
    pub fn is_pull(self) -> bool {
        matches!(
            self,
            Self::InvalidImageName
                | Self::ImageNotFound
                | Self::ImageDenied
                | Self::ImageNeverPull
                | Self::ImagePlatform
                | Self::ImageSignature
                | Self::RegistryUnavailable
                | Self::RegistryTls
                | Self::RegistryRateLimit
                | Self::ImageCorrupt
                | Self::ImagePullFailed
                | Self::ImageStorage
                | Self::ImageInspect
        )
    }

    /// Whether the Pod's place was taken, by nobody's fault of its own.
    #[must_use]
    pub fn is_disruption(self) -> bool {
        matches!(
            self,
            Self::Preempted
                | Self::TaintEvicted
                | Self::ApiEvicted
                | Self::GarbageCollected
                | Self::Evicted
                | Self::NodeShutdown
                | Self::NodeLost
                | Self::NodeGoing
                | Self::Disrupted
        )
    }

    /// Which of several causes that are seen together is the root: the smaller.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::OwnDeletion => 0,
            Self::StorageLimit | Self::DeadlineExceeded => 1,
            Self::Preempted
            | Self::TaintEvicted
            | Self::ApiEvicted
            | Self::GarbageCollected
            | Self::Evicted
            | Self::NodeShutdown
            | Self::NodeLost
            | Self::NodeGoing
            | Self::Disrupted => 2,
            Self::Deleted | Self::Replaced => 3,
            Self::OomKilled => 4,
            Self::OutOfResource | Self::AdmissionRejected | Self::AdmissionForbidden => 5,
            Self::LivenessFailed | Self::HookFailed => 6,
            Self::ExitUnknown | Self::RestartedDespiteNever => 8,
            Self::PodFailed => 10,
            Self::UnknownWaiting | Self::StartTimeout | Self::NeverReady => 9,
            Self::InitFailed
            | Self::ContainerFailed
            | Self::CrashLoop
            | Self::InvalidImageName
            | Self::ImageNotFound
            | Self::ImageDenied
            | Self::ImageNeverPull
            | Self::ImagePlatform
            | Self::ImageSignature
            | Self::RegistryUnavailable
            | Self::RegistryTls
            | Self::RegistryRateLimit
            | Self::ImageCorrupt
            | Self::ImagePullFailed
            | Self::ImageStorage
            | Self::ImageInspect
            | Self::ObjectMissing
            | Self::RunAsRoot
            | Self::ContainerConfig
            | Self::CommandNotFound
            | Self::WrongArchitecture
            | Self::CreateContainer
            | Self::RunContainer
            | Self::RuntimeSlow
            | Self::RuntimeClassMissing
            | Self::UserNamespaces
            | Self::SandboxFailed
            | Self::VolumeMissing
            | Self::VolumeAttach
            | Self::VolumeMount
            | Self::Unschedulable
            | Self::SchedulingGated => 7,
        }
    }
}
