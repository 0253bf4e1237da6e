//! The kind, field by field, as it stands in manifests.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{PersistentVolumeClaimTemplate, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use k8s_openapi::{Metadata, NamespaceResourceScope, Resource};
use serde::{Deserialize, Serialize};

/// A set of ephemeral runners.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerSet {
    /// `minke.dev/v1alpha1`.
    pub api_version: Cow<'static, str>,
    /// `RunnerSet`.
    pub kind: Cow<'static, str>,
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What is wanted. Nobody but its author writes it.
    pub spec: RunnerSetSpec,
    /// What is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunnerSetStatus>,
}

impl Resource for RunnerSet {
    const API_VERSION: &'static str = "minke.dev/v1alpha1";
    const GROUP: &'static str = "minke.dev";
    const KIND: &'static str = "RunnerSet";
    const VERSION: &'static str = "v1alpha1";
    const URL_PATH_SEGMENT: &'static str = "runnersets";
    type Scope = NamespaceResourceScope;
}

impl Metadata for RunnerSet {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunnerSetSpec {
    /// Whose runners these are.
    pub github: GitHubScope,
    /// What jobs ask for in `runs-on`; `self-hosted` goes without saying.
    pub labels: Vec<String>,
    /// So many runners at least, busy ones included.
    #[serde(default)]
    pub min: u32,
    /// So many at most.
    pub max: u32,
    /// So many more than there are jobs.
    #[serde(default)]
    pub min_idle: u32,
    /// How long a wish has to last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stabilization: Option<Stabilization>,
    /// Other limits at certain times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<ScheduleSpec>,
    /// Where jobs work, if not in the container's own file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_volume: Option<WorkVolume>,
    /// The Pods. A container is called `runner`.
    pub template: PodTemplateSpec,
}

/// The volume that jobs work in: an empty one of each Pod's own, or one of the set's claims, which stay for the next runner.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkVolume {
    /// Where it is mounted; `/home/runner/_work` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_path: Option<String>,
    /// How big an empty one may get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_limit: Option<Quantity>,
    /// Claims are made from this, at most one a slot, and used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_template: Option<PersistentVolumeClaimTemplate>,
    /// A claim that no runner has used for so long is deleted; a day (86400) if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused_seconds: Option<u32>,
}

/// Where runners register. Exactly one of repository, organization and enterprise.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GitHubScope {
    /// The server; `https://github.com` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `owner/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// An organization's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// An enterprise's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enterprise: Option<String>,
    /// The number of the runner group; 1, the default group, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_id: Option<u64>,
    /// The secret with `github_token`, or with `github_app_id`, `github_app_installation_id` and `github_app_private_key`.
    pub credentials_secret: String,
}

/// How long a wish has to last, in seconds, an hour at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stabilization {
    /// Before more are created; 0 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_seconds: Option<u32>,
    /// Before any is retired; 60 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_seconds: Option<u32>,
}

/// How often a schedule comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the words of the calendar")]
pub enum Repeat {
    #[default]
    Once,
    Daily,
    Weekly,
    Monthly,
    Yearly,
}

/// Limits for some time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduleSpec {
    /// The first start, in local time: `2026-01-05T08:00`.
    pub start: String,
    /// The first end, in local time.
    pub end: String,
    /// `Europe/Berlin`; `UTC` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// How often it comes again.
    #[serde(default)]
    pub repeat: Repeat,
    /// It does not begin again from then on: `2026-12-31T00:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The minimum meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    /// The idle headroom meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_idle: Option<u32>,
    /// The maximum meanwhile; within the set's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
}

/// What is so.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerSetStatus {
    /// The generation of the spec that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// So many are wanted.
    #[serde(default)]
    pub desired: u32,
    /// So many are there, or about to be.
    #[serde(default)]
    pub replicas: u32,
    /// On their way.
    #[serde(default)]
    pub pending: u32,
    /// Waiting for a job.
    #[serde(default)]
    pub idle: u32,
    /// With a job.
    #[serde(default)]
    pub busy: u32,
    /// On their way out.
    #[serde(default)]
    pub draining: u32,
    /// Jobs without a runner.
    #[serde(default)]
    pub queued: u32,
    /// Registrations without a Pod, which are being removed.
    #[serde(default)]
    pub orphans: u32,
    /// The labels of the set's Pods, for the scale subresource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// `Scaled`, `TemplateHealthy`, `ForgeReachable`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
