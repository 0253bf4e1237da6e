//! What is planned.

use std::path::Path;

use minke_core::runtime::IdMapping;
use serde_json::{Value, json};

use super::bed::Bed;
use crate::volumes::{HostPathType, VolumeKind};

fn kind(volume: &Value) -> Result<VolumeKind, String> {
    let mut whole = volume.clone();
    whole["name"] = json!("v");
    Bed::new(&json!([whole])).plan().map(|plan| plan.volumes[0].kind.clone())
}

/// Path, content and mode of each file.
fn files(volume: &Value) -> Result<Vec<(String, String, u32)>, String> {
    match kind(volume)? {
        VolumeKind::Files { payload, .. } => Ok(payload
            .into_iter()
            .map(|(path, file)| (path, String::from_utf8_lossy(&file.bytes).into_owned(), file.mode))
            .collect()),
        other => panic!("{other:?}"),
    }
}

fn file(path: &str, content: &str, mode: u32) -> (String, String, u32) {
    (path.to_owned(), content.to_owned(), mode)
}

#[test]
fn empty_dirs() {
    assert_eq!(kind(&json!({"emptyDir": {}})), Ok(VolumeKind::Disk { mode: 0o777 }));
    let memory = |size| Ok(VolumeKind::Memory { mode: 0o777, size_bytes: Some(size) });
    assert_eq!(kind(&json!({"emptyDir": {"medium": "Memory"}})), memory(64 << 20));
    assert_eq!(kind(&json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}})), memory(1 << 20));
    assert_eq!(kind(&json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}})), memory(64 << 20));
    let words = kind(&json!({"emptyDir": {"medium": "HugePages-2Mi"}})).unwrap_err();
    assert_eq!(
        words,
        "MountVolume.SetUp failed for volume \"v\": emptyDir (medium HugePages-2Mi) volumes are not supported by minke"
    );
    assert!(kind(&json!({"emptyDir": {"medium": "Odd"}})).is_err());
    assert!(kind(&json!({"emptyDir": {"sizeLimit": "x"}})).is_err());
}

#[test]
fn host_paths() {
    for (name, check) in [
        ("", HostPathType::Unset),
        ("DirectoryOrCreate", HostPathType::DirectoryOrCreate),
        ("Directory", HostPathType::Directory),
        ("FileOrCreate", HostPathType::FileOrCreate),
        ("File", HostPathType::File),
        ("Socket", HostPathType::Socket),
        ("CharDevice", HostPathType::CharDevice),
        ("BlockDevice", HostPathType::BlockDevice),
    ] {
        let expected = VolumeKind::HostPath { path: Path::new("/x").to_owned(), check };
        assert_eq!(kind(&json!({"hostPath": {"path": "/x", "type": name}})), Ok(expected));
    }
    for path in ["x", "/a/../b"] {
        assert!(kind(&json!({"hostPath": {"path": path}})).is_err(), "{path}");
    }
    assert!(kind(&json!({"hostPath": {"path": "/x", "type": "Odd"}})).is_err());
}

#[test]
fn config_maps() {
    let all = [file("a", "1", 0o644), file("b", "2", 0o644), file("bin", "\u{fffd}", 0o644)];
    assert_eq!(files(&json!({"configMap": {"name": "cfg"}})), Ok(all.to_vec()));
    let items = json!([{"key": "a", "path": "x/y", "mode": 256}, {"key": "b", "path": "z"}]);
    let some = [file("x/y", "1", 0o400), file("z", "2", 0o600)];
    assert_eq!(files(&json!({"configMap": {"name": "cfg", "items": items, "defaultMode": 384}})), Ok(some.to_vec()));
}

#[test]
fn what_is_missing_and_what_is_optional() {
    let words = |volume: &Value| files(volume).unwrap_err();
    let prefix = "MountVolume.SetUp failed for volume \"v\": ";
    assert_eq!(words(&json!({"configMap": {"name": "zz"}})), format!("{prefix}configmap \"zz\" not found"));
    assert_eq!(words(&json!({"secret": {"secretName": "zz"}})), format!("{prefix}secret \"zz\" not found"));
    let item = json!([{"key": "zz", "path": "p"}]);
    assert_eq!(
        words(&json!({"configMap": {"name": "cfg", "items": item}})),
        format!("{prefix}references non-existent config key: zz")
    );
    assert_eq!(
        words(&json!({"secret": {"secretName": "sec", "items": item}})),
        format!("{prefix}references non-existent secret key: zz")
    );
    for optional in [
        json!({"configMap": {"name": "zz", "optional": true}}),
        json!({"configMap": {"name": "cfg", "items": item, "optional": true}}),
        json!({"secret": {"secretName": "zz", "optional": true}}),
    ] {
        assert_eq!(files(&optional), Ok(vec![]), "{optional}");
    }
}

#[test]
fn secrets_are_kept_in_memory_and_never_shown() {
    let secret = kind(&json!({"secret": {"secretName": "sec", "defaultMode": 256}})).unwrap();
    assert!(matches!(&secret, VolumeKind::Files { in_memory: true, plugin: "secret", .. }));
    assert!(secret.is_read_only());
    assert!(!format!("{secret:?}").contains("hunter2"));
}

#[test]
fn downward_files() {
    let items = json!([
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}, "mode": 256},
        {"path": "memory", "resourceFieldRef": {"containerName": "c", "resource": "limits.memory", "divisor": "1Mi"}},
    ]);
    let expected = [file("labels", "app=\"x\"", 0o400), file("memory", "64", 0o644), file("name", "web", 0o644)];
    assert_eq!(files(&json!({"downwardAPI": {"items": items}})), Ok(expected.to_vec()));
    let bad = json!({"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "spec.x"}}]}});
    assert_eq!(
        files(&bad).unwrap_err(),
        "MountVolume.SetUp failed for volume \"v\": downward API: unsupported fieldPath: spec.x"
    );
}

#[test]
fn projected_sources_in_order() {
    let sources = json!([
        {"configMap": {"name": "cfg", "items": [{"key": "a", "path": "same"}]}},
        {"secret": {"name": "sec"}},
        {"downwardAPI": {"items": [{"path": "same", "fieldRef": {"fieldPath": "metadata.uid"}}]}},
    ]);
    let expected = [file("password", "hunter2", 0o400), file("same", "u1", 0o400)];
    assert_eq!(files(&json!({"projected": {"sources": sources, "defaultMode": 256}})), Ok(expected.to_vec()));
    let token = json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}});
    let words = files(&token).unwrap_err();
    assert!(words.contains("serviceAccountToken (there is no API server to issue tokens)"), "{words}");
    let issued = json!({"serviceAccountToken": {"path": "t", "audience": "vault", "expirationSeconds": 600}});
    let expected = [file("t", "issued", 0o644)];
    assert_eq!(files(&json!({"projected": {"sources": [issued]}})), Ok(expected.to_vec()));
}

#[test]
fn paths_and_names_that_lead_out() {
    for path in ["../x", "/x", "a/../../b", "..x"] {
        let volume = json!({"configMap": {"name": "cfg", "items": [{"key": "a", "path": path}]}});
        assert!(files(&volume).unwrap_err().contains("invalid path"), "{path}");
    }
    for name in ["..", "a/b", "", ".x"] {
        assert!(Bed::new(&json!([{"name": name, "emptyDir": {}}])).plan().is_err(), "{name:?}");
    }
}

#[test]
fn kinds_that_are_not_known() {
    let words = kind(&json!({"persistentVolumeClaim": {"claimName": "x"}})).unwrap_err();
    assert!(words.ends_with("persistentVolumeClaim volumes are not supported by minke"), "{words}");
    assert!(kind(&json!({"nfs": {"server": "s", "path": "/"}})).unwrap_err().contains("nfs volumes"));
}

#[test]
fn owners() {
    let of = |context: Value, user: Option<IdMapping>| {
        let mut bed = Bed::with(&json!({"securityContext": context}));
        bed.user = user;
        bed.plan().map(|plan| (plan.ownership.root, plan.ownership.fs_group))
    };
    let range = Some(IdMapping { host_id: 65_536, length: 65_536 });
    assert_eq!(of(json!({}), None), Ok((0, None)));
    assert_eq!(of(json!({"fsGroup": 7}), None), Ok((0, Some(7))));
    assert_eq!(of(json!({"fsGroup": 7}), range), Ok((65_536, Some(65_543))));
    assert!(of(json!({"fsGroup": 70_000}), range).is_err(), "outside of the range");
    assert!(of(json!({"fsGroup": -1}), None).is_err());
}
