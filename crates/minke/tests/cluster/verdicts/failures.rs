//! The ways to fail: what is asked for, what happens to it, and what is to be said.

use minke_core::judgement::Cause;
use minke_testkit::registry::{Access, Fault, On};
use minke_testkit::{BUSYBOX, Compression, ImageBuilder, ImageIndex, Layer, Platform, Registry, busybox_image};
use serde_json::{Value, json};

use crate::node::{ELSEWHERE, NODE, POOR};

/// Who makes it fail.
#[derive(Debug, Clone)]
pub(super) enum Story {
    /// Its node, by running it; or the scheduler, by finding none.
    Runs,
    /// Whoever deletes it through the API once it runs.
    Deleted,
    /// Whoever evicts it through the API once it runs, as a drain does.
    Drained,
    /// The scheduler, which needs its place for this Pod once it runs.
    Preempted(Value),
    /// Controllers: these statuses are written, one after the other.
    Written(Vec<Value>),
    /// The same, then it is deleted with no grace.
    WrittenAndDeleted(Vec<Value>),
    /// An event says it: reason and message.
    Told(&'static str, &'static str),
}

/// One way to fail.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) name: &'static str,
    pub(super) spec: Value,
    pub(super) story: Story,
    pub(super) cause: Cause,
    /// What `minke watch` ends with.
    pub(super) code: i32,
}

/// Registries, each with its own vice.
pub(super) struct Registries {
    good: Registry,
    closed: Registry,
    limiting: Registry,
    image: String,
    foreign: String,
    lying: String,
}

impl Registries {
    pub(super) async fn start() -> Self {
        let good = Registry::start().await.unwrap();
        let access = Access::Basic { user: "somebody".to_owned(), password: "else".to_owned() };
        let closed = Registry::with_access(access).await.unwrap();
        let limiting = Registry::start().await.unwrap();
        limiting.fail(On::Any, 100_000, Fault::RateLimit(1));
        let busybox = busybox_image(BUSYBOX.as_ref()).unwrap().compression(Compression::None);
        let garbage = Layer::new().file("bin/garbage", 0o755, "\x7fNOT A PROGRAM");
        let image = good.push("test/busybox", "1", &busybox.layer(garbage).build());
        let tiny = |platform| {
            let layer = Layer::new().file("x", 0o644, "x");
            ImageBuilder::new().layer(layer).platform(platform).build()
        };
        let foreign = ImageIndex::new(vec![tiny(Platform::new("linux", "s390x", None))]);
        let foreign = good.push_index("test/foreign", "1", &foreign);
        let liar = tiny(Platform::host());
        let lying = good.push("test/lying", "1", &liar);
        good.replace_blob("test/lying", &liar.layers[0].digest, b"something else");
        Self { good, closed, limiting, image, foreign, lying }
    }
}

fn container(image: &str, command: &[&str]) -> Value {
    json!({"name": "main", "image": image, "command": command, "imagePullPolicy": "IfNotPresent"})
}

fn pod(restart: &str, container: &Value) -> Value {
    json!({"nodeName": NODE, "restartPolicy": restart, "terminationGracePeriodSeconds": 1,
           "automountServiceAccountToken": false, "containers": [container]})
}

/// With its place given.
fn on(node: &str, mut spec: Value) -> Value {
    spec["nodeName"] = json!(node);
    spec
}

/// A container with more to it.
fn with(mut container: Value, key: &str, value: Value) -> Value {
    container[key] = value;
    container
}

fn waits(reason: &str, message: &str) -> Value {
    json!({"phase": "Pending", "containerStatuses": [{"name": "main", "image": "i", "imageID": "", "ready": false,
           "restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}}]})
}

fn runs(conditions: &Value) -> Value {
    json!({"phase": "Running", "conditions": conditions, "containerStatuses": [{"name": "main", "image": "i", "imageID": "",
           "ready": true, "restartCount": 0, "state": {"running": {}}}]})
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!([{"type": kind, "status": status, "reason": reason, "message": message}])
}

/// All of them. What a scheduler does is written by hand where there is none.
pub(super) fn all(registries: &Registries, taken_port: u16, schedules: bool) -> Vec<Failure> {
    let good = registries.image.as_str();
    let sh = |script: &str| container(good, &["sh", "-c", script]);
    let never = |container: &Value| pod("Never", container);
    let image = |image: &str| never(&container(image, &["sleep", "1000"]));
    let sleeps = || never(&sh("sleep 1000"));
    let anywhere = || {
        let mut spec = sleeps();
        spec.as_object_mut().unwrap().remove("nodeName");
        spec
    };
    let elsewhere = || on(ELSEWHERE, sleeps());
    let of = |name, spec, cause, code| Failure { name, spec, story: Story::Runs, cause, code };
    let after = |name, spec, story, cause, code| Failure { name, spec, story, cause, code };
    let written = |name, spec, status, cause, code| after(name, spec, Story::Written(vec![status]), cause, code);

    let absent = format!("{}/test/absent:1", registries.good.host());
    let denied = format!("{}/test/busybox:1", registries.closed.host());
    let limited = format!("{}/test/busybox:1", registries.limiting.host());
    let mut never_pull = container("localhost/test/absent:1", &["true"]);
    never_pull["imagePullPolicy"] = json!("Never");
    let mut init = sleeps();
    init["initContainers"] =
        json!([{"name": "prepare", "image": good, "command": ["sh", "-c", "echo no disk; exit 7"]}]);
    let probe = json!({"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1});
    let mut late = sleeps();
    late["activeDeadlineSeconds"] = json!(8);
    let mut lacking = sleeps();
    lacking["volumes"] = json!([{"name": "data", "hostPath": {"path": "/nonexistent/data", "type": "Directory"}}]);
    lacking["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let mut gated = anywhere();
    gated["schedulingGates"] = json!([{"name": "example.com/quota"}]);
    // More than it asks for, on a node that thinks it has no memory: the first to go.
    let greedy = with(sh("sleep 1000"), "resources", json!({"requests": {"memory": "1"}}));
    let greedy = on(POOR, never(&greedy));
    let mut writes = never(&with(
        sh("head -c 3000000 /dev/zero > /data/x; sleep 1000"),
        "volumeMounts",
        json!([{"name": "data", "mountPath": "/data"}]),
    ));
    writes["volumes"] = json!([{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]);
    let mut nowhere = anywhere();
    nowhere["nodeSelector"] = json!({"example.com/disk": "none"});
    // Two that can't be on one node.
    let mut victim = anywhere();
    victim["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 31999}]);
    let mut important = victim.clone();
    important["priorityClassName"] = json!("system-node-critical");
    let disrupted = |reason: &str| runs(&condition("DisruptionTarget", "True", reason, "by the test"));
    let gone =
        |name, reason, cause| after(name, elsewhere(), Story::WrittenAndDeleted(vec![disrupted(reason)]), cause, 5);
    let told = |name, reason, message, cause, code| after(name, elsewhere(), Story::Told(reason, message), cause, code);
    let (preempted, unschedulable) = if schedules {
        (
            after("preempted", victim, Story::Preempted(important), Cause::Preempted, 5),
            of("unschedulable", nowhere, Cause::Unschedulable, 5),
        )
    } else {
        let why = condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.");
        let status = json!({"phase": "Pending", "conditions": why});
        (
            gone("preempted", "PreemptionByScheduler", Cause::Preempted),
            written("unschedulable", nowhere, status, Cause::Unschedulable, 5),
        )
    };
    vec![
        of("image-missing", image(&absent), Cause::ImageNotFound, 6),
        of("image-denied", image(&denied), Cause::ImageDenied, 6),
        of("image-never-pulled", never(&never_pull), Cause::ImageNeverPull, 6),
        of("image-name", image("registry/UPPER/case:1"), Cause::InvalidImageName, 6),
        of("image-platform", image(&registries.foreign), Cause::ImagePlatform, 6),
        of("image-corrupt", image(&registries.lying), Cause::ImageCorrupt, 7),
        of("registry-away", image("127.0.0.1:1/test/busybox:1"), Cause::RegistryUnavailable, 7),
        of("registry-limits", image(&limited), Cause::RegistryRateLimit, 7),
        of(
            "config-missing",
            never(&with(sh("true"), "envFrom", json!([{"configMapRef": {"name": "absent"}}]))),
            Cause::ObjectMissing,
            6,
        ),
        of(
            "runs-as-root",
            never(&with(sh("true"), "securityContext", json!({"runAsNonRoot": true}))),
            Cause::RunAsRoot,
            6,
        ),
        of("command-missing", never(&container(good, &["no-such-command"])), Cause::CommandNotFound, 6),
        of("wrong-architecture", never(&container(good, &["/bin/garbage"])), Cause::WrongArchitecture, 6),
        of("exits", never(&sh("echo something is wrong; exit 3")), Cause::ContainerFailed, 1),
        of("init-fails", init, Cause::InitFailed, 1),
        of(
            "out-of-memory",
            never(&with(sh("x=a; while :; do x=$x$x; done"), "resources", json!({"limits": {"memory": "16Mi"}}))),
            Cause::OomKilled,
            1,
        ),
        of("crash-loop", pod("Always", &sh("exit 1")), Cause::CrashLoop, 1),
        of("not-alive", never(&with(sh("sleep 1000"), "livenessProbe", probe)), Cause::LivenessFailed, 1),
        of("too-late", late, Cause::DeadlineExceeded, 1),
        of(
            "no-room",
            never(&with(sh("true"), "resources", json!({"requests": {"memory": "900Ti"}}))),
            Cause::OutOfResource,
            4,
        ),
        of(
            "port-taken",
            never(&with(sh("true"), "ports", json!([{"containerPort": 80, "hostPort": taken_port}]))),
            Cause::AdmissionRejected,
            4,
        ),
        of("volume-missing", lacking, Cause::VolumeMissing, 6),
        of("evicted", greedy, Cause::Evicted, 5),
        of("writes-too-much", writes, Cause::StorageLimit, 1),
        after("deleted", sleeps(), Story::Deleted, Cause::Deleted, 8),
        after("api-evicted", sleeps(), Story::Drained, Cause::ApiEvicted, 5),
        preempted,
        unschedulable,
        // The API says so itself.
        of("gated", gated, Cause::SchedulingGated, 6),
        // What no such cluster makes: written as its controllers write it.
        gone("taint-evicted", "DeletionByTaintManager", Cause::TaintEvicted),
        written(
            "node-lost",
            elsewhere(),
            runs(&condition("Ready", "False", "NodeNotReady", "Node is not ready")),
            Cause::NodeLost,
            5,
        ),
        written(
            "node-shutdown",
            elsewhere(),
            json!({"phase": "Failed", "reason": "Terminated",
                   "message": "Pod was terminated in response to imminent node shutdown."}),
            Cause::NodeShutdown,
            5,
        ),
        written("unsigned", elsewhere(), waits("SignatureValidationFailed", "no signature"), Cause::ImageSignature, 6),
        written(
            "runtime-slow",
            elsewhere(),
            waits("CreateContainerError", "context deadline exceeded"),
            Cause::RuntimeSlow,
            5,
        ),
        written("brand-new", elsewhere(), waits("ReasonOfTomorrow", "nobody knows it"), Cause::UnknownWaiting, 5),
        told("no-sandbox", "FailedCreatePodSandBox", "plugin type=\"bridge\" failed", Cause::SandboxFailed, 5),
        told(
            "no-runtime-class",
            "FailedCreatePodSandBox",
            "no runtime for \"gvisor\" is configured",
            Cause::RuntimeClassMissing,
            6,
        ),
        told("not-attached", "FailedAttachVolume", "Multi-Attach error for volume \"pv\"", Cause::VolumeAttach, 5),
    ]
}
