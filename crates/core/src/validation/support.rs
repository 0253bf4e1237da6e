//! What Kubernetes allows and one machine without a cluster can't do. Saying so beats running something else than was
//! asked for.

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};

use super::error::{Errors, ValidationError};
use super::path::FieldPath;
use super::volume_kinds::sources;

/// What of a Pod can't be honoured here. `path` is the way to the spec.
#[must_use]
pub fn unsupported(spec: &PodSpec, path: &FieldPath) -> Vec<ValidationError> {
    let mut errors = Errors::default();
    for (i, volume) in spec.volumes.iter().flatten().enumerate() {
        self::volume(&mut errors, volume, &path.field("volumes").index(i));
    }
    for (i, container) in spec.containers.iter().enumerate() {
        let path = path.field("containers").index(i);
        if container.restart_policy.is_some() {
            let what = "a restart policy of a container that is not an init container";
            refuse(&mut errors, &path.field("restartPolicy"), what);
        }
        self::container(&mut errors, container, &path);
    }
    for (i, container) in spec.init_containers.iter().flatten().enumerate() {
        self::container(&mut errors, container, &path.field("initContainers").index(i));
    }
    if spec.os.as_ref().is_some_and(|os| os.name == "windows") {
        refuse(&mut errors, &path.field("os").field("name"), "Windows containers");
    }
    let windows = spec.security_context.as_ref().is_some_and(|context| context.windows_options.is_some());
    if windows {
        refuse(&mut errors, &path.field("securityContext").field("windowsOptions"), "Windows containers");
    }
    if spec.security_context.as_ref().is_some_and(|c| is_localhost(c.app_armor_profile.as_ref())) {
        refuse(&mut errors, &path.field("securityContext").field("appArmorProfile"), "AppArmor profiles");
    }
    let given = [
        (spec.resource_claims.as_ref().is_some_and(|l| !l.is_empty()), "resourceClaims", "dynamic resource allocation"),
        (spec.scheduling_gates.as_ref().is_some_and(|l| !l.is_empty()), "schedulingGates", "scheduling gates"),
        (spec.runtime_class_name.as_ref().is_some_and(|n| !n.is_empty()), "runtimeClassName", "runtime classes"),
        (spec.scheduling_group.is_some(), "schedulingGroup", "scheduling groups"),
    ];
    for (_, field, what) in given.into_iter().filter(|(is_given, ..)| *is_given) {
        refuse(&mut errors, &path.field(field), what);
    }
    errors.into_vec()
}

fn refuse(errors: &mut Errors, path: &FieldPath, what: &str) {
    errors.forbidden(path, &format!("not supported by minke run: {what}"));
}

fn volume(errors: &mut Errors, volume: &Volume, path: &FieldPath) {
    for source in sources(volume).into_iter().filter(|source| source.given && !source.local) {
        let what = match source.field {
            "persistentVolumeClaim" | "ephemeral" => "persistent volume claims; use hostPath or emptyDir",
            "image" => "volumes with the content of an image",
            "nfs" | "iscsi" | "fc" | "cephfs" | "rbd" | "glusterfs" => "network storage; mount it and use hostPath",
            _ => "volumes of this kind",
        };
        refuse(errors, &path.field(source.field), what);
    }
    if volume.empty_dir.as_ref().and_then(|e| e.medium.as_deref()).is_some_and(|m| m.starts_with("HugePages")) {
        refuse(errors, &path.field("emptyDir").field("medium"), "huge pages");
    }
    for (i, source) in volume.projected.iter().flat_map(|p| p.sources.iter().flatten()).enumerate() {
        let path = path.field("projected").field("sources").index(i);
        if source.service_account_token.is_some() {
            refuse(errors, &path.field("serviceAccountToken"), "service account tokens, which need a cluster");
        }
        if source.cluster_trust_bundle.is_some() {
            refuse(errors, &path.field("clusterTrustBundle"), "cluster trust bundles, which need a cluster");
        }
        if source.pod_certificate.is_some() {
            refuse(errors, &path.field("podCertificate"), "pod certificates, which need a cluster");
        }
    }
}

fn container(errors: &mut Errors, container: &Container, path: &FieldPath) {
    if container.volume_devices.as_ref().is_some_and(|devices| !devices.is_empty()) {
        refuse(errors, &path.field("volumeDevices"), "raw block volumes");
    }
    if container.restart_policy_rules.as_ref().is_some_and(|rules| !rules.is_empty()) {
        refuse(errors, &path.field("restartPolicyRules"), "restart rules by exit code");
    }
    if let Some(resources) = &container.resources {
        let path = path.field("resources");
        if resources.claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
            refuse(errors, &path.field("claims"), "dynamic resource allocation");
        }
        let names = resources.limits.iter().flatten().chain(resources.requests.iter().flatten()).map(|(name, _)| name);
        let mut devices: Vec<&String> = names.filter(|name| name.contains('/')).collect();
        devices.sort();
        devices.dedup();
        for name in devices {
            refuse(errors, &path.field("limits").key(name), "devices and other extended resources");
        }
    }
    for (i, variable) in container.env.iter().flatten().enumerate() {
        if variable.value_from.as_ref().is_some_and(|source| source.file_key_ref.is_some()) {
            let path = path.field("env").index(i).field("valueFrom").field("fileKeyRef");
            refuse(errors, &path, "variables from files of a volume");
        }
    }
    for (i, mount) in container.volume_mounts.iter().flatten().enumerate() {
        if mount.bind_mount_options.as_ref().is_some_and(|options| !options.is_empty()) {
            refuse(errors, &path.field("volumeMounts").index(i).field("bindMountOptions"), "bind mount options");
        }
    }
    if let Some(context) = &container.security_context {
        let path = path.field("securityContext");
        if context.windows_options.is_some() {
            refuse(errors, &path.field("windowsOptions"), "Windows containers");
        }
        if is_localhost(context.app_armor_profile.as_ref()) {
            refuse(errors, &path.field("appArmorProfile"), "AppArmor profiles");
        }
    }
}

fn is_localhost(profile: Option<&k8s_openapi::api::core::v1::AppArmorProfile>) -> bool {
    profile.is_some_and(|profile| profile.type_ == "Localhost")
}
