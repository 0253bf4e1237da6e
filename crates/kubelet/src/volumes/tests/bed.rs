//! A Pod with objects and a directory of its own.

use std::net::IpAddr;
use std::path::Path;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use minke_core::env::DownwardFacts;
use minke_core::objects::ObjectSet;
use minke_core::resources::{Amount, ResourceList};
use minke_core::runtime::{EnvVar, IdMapping, Mount, error_chain};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::volumes::{MountInput, VolumeError, VolumePlan, container_mounts, plan, set_up, tear_down};

pub(super) struct Bed {
    pub(super) pod: Pod,
    pub(super) objects: ObjectSet,
    pub(super) directory: TempDir,
    pub(super) user: Option<IdMapping>,
    allocatable: ResourceList,
    host: Vec<IpAddr>,
}

impl Bed {
    pub(super) fn new(volumes: &Value) -> Self {
        Self::with(&json!({"volumes": volumes}))
    }

    pub(super) fn with(spec: &Value) -> Self {
        let mut whole = json!({"containers": [{"name": "c", "resources": {"limits": {"memory": "64Mi"}}}]});
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let metadata = json!({"name": "web", "namespace": "ns", "uid": "u1", "labels": {"app": "x"}});
        let mut objects = ObjectSet::default();
        let map = json!({"metadata": {"name": "cfg", "namespace": "ns"}, "data": {"a": "1", "b": "2"}, "binaryData": {"bin": "/w=="}});
        objects.insert_config_map(serde_json::from_value(map).unwrap());
        let secret = json!({"metadata": {"name": "sec", "namespace": "ns"}, "data": {"password": "aHVudGVyMg=="}});
        objects.insert_secret(serde_json::from_value(secret).unwrap());
        objects.insert_token("vault", 600, "issued".to_owned());
        Self {
            pod: serde_json::from_value(json!({"metadata": metadata, "spec": whole})).unwrap(),
            objects,
            directory: tempfile::Builder::new().prefix("mk-logic-").tempdir().unwrap(),
            user: None,
            allocatable: ResourceList::from([("cpu".to_owned(), Amount::from_units(4))]),
            host: vec!["192.0.2.1".parse().unwrap()],
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn plan(&self) -> Result<VolumePlan, String> {
        let facts = DownwardFacts {
            pod: &self.pod,
            pod_ips: &[],
            host_ips: &self.host,
            node_name: "here",
            allocatable: &self.allocatable,
        };
        plan(&self.pod, &self.objects, &facts, self.user).map_err(|error| error_chain(&error))
    }

    pub(super) fn set_up(&self) -> Result<VolumePlan, VolumeError> {
        let plan = self.plan().unwrap();
        set_up(self.path(), &plan, Timestamp::UNIX_EPOCH)?;
        Ok(plan)
    }

    pub(super) fn mounts(&self, mounts: &Value, env: &[(&str, &str)]) -> Result<Vec<Mount>, String> {
        let container: Container = serde_json::from_value(json!({"name": "c", "volumeMounts": mounts})).unwrap();
        let env: Vec<EnvVar> =
            env.iter().map(|(n, v)| EnvVar { name: (*n).to_owned(), value: (*v).to_owned() }).collect();
        let plan = self.plan().unwrap();
        let input = MountInput { pod_directory: self.path(), plan: &plan, container: &container, env: &env };
        container_mounts(&input).map_err(|error| error_chain(&error))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // A failed test must not leave mounts behind.
        let _ = tear_down(self.path());
    }
}

/// Whether this process may mount. The tests that need it say so when it may not.
pub(super) fn may_mount(test: &str) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let allowed = super::super::mount_table::mount_tmpfs(directory.path(), "size=4096").is_ok();
    if allowed {
        super::super::mount_table::unmount_below(directory.path()).unwrap();
    } else {
        println!("SKIPPED {test}: this process may not mount a tmpfs (run as root)");
    }
    allowed
}
