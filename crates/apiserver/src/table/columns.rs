//! The columns of every kind, as data.

/// Name, type, priority, description.
pub(super) type Columns = &'static [(&'static str, &'static str, i64, &'static str)];

const NAME: (&str, &str, i64, &str) = ("Name", "string", 0, "Name of the object, unique in its namespace.");
const AGE: (&str, &str, i64, &str) = ("Age", "string", 0, "Time since the object was created.");

const fn column(name: &'static str, description: &'static str) -> (&'static str, &'static str, i64, &'static str) {
    (name, "string", 0, description)
}

const fn wide(name: &'static str, description: &'static str) -> (&'static str, &'static str, i64, &'static str) {
    (name, "string", 1, description)
}

pub(super) const POD: Columns = &[
    NAME,
    column("Ready", "The aggregate readiness state of this pod for accepting traffic."),
    column("Status", "The aggregate status of the containers in this pod."),
    column("Restarts", "How often the containers in this pod have restarted, and when one did last."),
    AGE,
    wide("IP", "Primary address of the pod."),
    wide("Node", "Node that the pod is bound to."),
    wide("Nominated Node", "Node that makes room for the pod."),
    wide("Readiness Gates", "How many of the pod's readiness gates are open."),
];

pub(super) const NODE: Columns = &[
    NAME,
    column("Status", "The status of the node"),
    column("Roles", "The roles of the node"),
    AGE,
    column("Version", "Version that the node's agent reports."),
    wide("Internal-IP", "Address inside of the cluster."),
    wide("External-IP", "Address for those outside of the cluster."),
    wide("OS-Image", "Operating system that the node reports."),
    wide("Kernel-Version", "Kernel that the node reports."),
    wide("Container-Runtime", "Container runtime that the node reports."),
];

pub(super) const EVENT: Columns = &[
    column("Last Seen", "Time since it was observed last."),
    column("Type", "Normal or Warning."),
    column("Reason", "Why, in one word for machines."),
    column("Object", "What it is about."),
    wide("Subobject", "Part of the object that it is about."),
    wide("Source", "Who has observed it."),
    column("Message", "What happened, for people."),
    wide("First Seen", "Time since it was observed first."),
    wide("Count", "How often it was observed."),
    wide("Name", "Name of the object, unique in its namespace."),
];

pub(super) const NAMESPACE: Columns = &[NAME, column("Status", "The status of the namespace"), AGE];
pub(super) const SECRET: Columns =
    &[NAME, column("Type", "What the secret is for."), column("Data", "Number of values in it."), AGE];
pub(super) const CONFIG_MAP: Columns = &[NAME, column("Data", "Number of values in it."), AGE];
pub(super) const SERVICE_ACCOUNT: Columns = &[NAME, AGE];

pub(super) const SERVICE: Columns = &[
    NAME,
    column("Type", "How the service is reached."),
    column("Cluster-IP", "Address inside of the cluster."),
    column("External-IP", "Addresses for those outside of the cluster."),
    column("Port(s)", "Ports that the service listens on."),
    AGE,
    wide("Selector", "Labels of the pods behind it."),
];

pub(super) const PERSISTENT_VOLUME: Columns = &[
    NAME,
    column("Capacity", "Size of the volume."),
    column("Access Modes", "How the volume can be mounted."),
    column("Reclaim Policy", "What happens to the volume when its claim goes."),
    column("Status", "Whether the volume is bound."),
    column("Claim", "Claim that the volume is bound to."),
    column("StorageClass", "StorageClass of the pv"),
    column("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
    column("Reason", "Why the volume is in its state."),
    AGE,
    wide("VolumeMode", "Filesystem or Block."),
];

pub(super) const PERSISTENT_VOLUME_CLAIM: Columns = &[
    NAME,
    column("Status", "Whether the claim is bound."),
    column("Volume", "Volume that the claim is bound to."),
    column("Capacity", "Size of that volume."),
    column("Access Modes", "How that volume can be mounted."),
    column("StorageClass", "StorageClass of the pvc"),
    column("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
    AGE,
    wide("VolumeMode", "Filesystem or Block."),
];

pub(super) const LEASE: Columns = &[NAME, column("Holder", "Who holds the lease."), AGE];
pub(super) const RUNTIME_CLASS: Columns = &[NAME, column("Handler", "What the runtime calls it."), AGE];

pub(super) const PRIORITY_CLASS: Columns = &[
    NAME,
    ("Value", "integer", 0, "Priority of pods with this class."),
    ("Global-Default", "boolean", 0, "Whether pods without a class have this one."),
    AGE,
    column("PreemptionPolicy", "Whether such pods make others go."),
];

pub(super) const BINDING: Columns = &[
    NAME,
    column("Role", "Role that is bound."),
    AGE,
    wide("Users", "Users in the binding."),
    wide("Groups", "Groups in the binding."),
    wide("ServiceAccounts", "Service accounts in the binding."),
];

pub(super) const CERTIFICATE_REQUEST: Columns = &[
    NAME,
    AGE,
    column("SignerName", "Signer that is asked."),
    column("Requestor", "Who asks."),
    column("RequestedDuration", "How long the certificate is to count."),
    column("Condition", "What has come of it."),
];

/// Kinds without columns of their own, as upstream's default.
pub(super) const OTHER: Columns = &[NAME, ("Created At", "date", 0, "When the object was created.")];
