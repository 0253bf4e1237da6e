//! Volumes on the real system. Tests that mount say so when they may not.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use jiff::Timestamp;
use minke_core::runtime::{IdMapping, MountPropagation};
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use serde_json::json;

use super::bed::{Bed, may_mount};
use crate::volumes::mount_table::{is_mount_point, mount_tmpfs, mounts_below, unmount_below};
use crate::volumes::{VolumeFailure, set_up, tear_down, volume_directory};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn an_empty_dir_keeps_its_content() {
    let bed = Bed::new(&json!([{"name": "v", "emptyDir": {}}]));
    let plan = bed.set_up().unwrap();
    let path = volume_directory(bed.path(), &plan.volumes[0]);
    assert!(path.ends_with("volumes/kubernetes.io~empty-dir/v"));
    assert_eq!(mode(&path), 0o777);
    fs::write(path.join("f"), "x").unwrap();
    bed.set_up().unwrap();
    assert_eq!(fs::read_to_string(path.join("f")).unwrap(), "x");
    tear_down(bed.path()).unwrap();
    tear_down(bed.path()).unwrap();
    assert!(!path.exists() && bed.path().exists());
}

#[test]
fn memory_is_a_tmpfs_of_its_size() {
    if !may_mount("memory_is_a_tmpfs_of_its_size") {
        return;
    }
    let bed = Bed::new(&json!([{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]));
    let plan = bed.set_up().unwrap();
    let path = volume_directory(bed.path(), &plan.volumes[0]);
    assert!(is_mount_point(&path).unwrap());
    assert_eq!(mode(&path), 0o777);
    fs::write(path.join("f"), vec![0; 1 << 19]).unwrap();
    let full = fs::write(path.join("g"), vec![0; 1 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    bed.set_up().unwrap();
    assert_eq!(mounts_below(bed.path()).unwrap().len(), 1, "not mounted twice");
    assert!(path.join("f").exists());
    tear_down(bed.path()).unwrap();
    assert_eq!(mounts_below(bed.path()).unwrap(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn files_of_objects_appear_and_follow_changes() {
    if !may_mount("files_of_objects_appear_and_follow_changes") {
        return;
    }
    let mut bed = Bed::new(&json!([
        {"name": "m", "configMap": {"name": "cfg"}},
        {"name": "s", "secret": {"secretName": "sec", "defaultMode": 256}},
    ]));
    let plan = bed.set_up().unwrap();
    let [map, secret] = [0, 1].map(|n| volume_directory(bed.path(), &plan.volumes[n]));
    assert_eq!(fs::read_to_string(map.join("a")).unwrap(), "1");
    assert_eq!(fs::read(map.join("bin")).unwrap(), [0xff]);
    assert_eq!(fs::read_to_string(secret.join("password")).unwrap(), "hunter2");
    assert_eq!(mode(&secret.join("password")), 0o400);
    assert!(is_mount_point(&secret).unwrap(), "a secret never reaches the disk");
    assert!(!is_mount_point(&map).unwrap());

    let changed = json!({"metadata": {"name": "cfg", "namespace": "ns"}, "data": {"a": "9"}});
    bed.objects.insert_config_map(serde_json::from_value(changed).unwrap());
    bed.set_up().unwrap();
    assert_eq!(fs::read_to_string(map.join("a")).unwrap(), "9");
    assert!(!map.join("b").exists());
}

#[test]
fn host_paths_by_type() {
    let place = tempfile::tempdir().unwrap();
    let base = place.path();
    fs::write(base.join("file"), "x").unwrap();
    fs::create_dir(base.join("dir")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(base.join("socket")).unwrap();
    let check = |name: &str, kind: &str| {
        let path = if name.starts_with('/') { name.to_owned() } else { base.join(name).display().to_string() };
        let bed = Bed::new(&json!([{"name": "v", "hostPath": {"path": path, "type": kind}}]));
        bed.set_up().map(|_| ()).map_err(|error| match error.failure {
            VolumeFailure::HostPathType { why, .. } => why,
            _ => "other",
        })
    };
    assert_eq!(check("dir", "Directory"), Ok(()));
    assert_eq!(check("file", "Directory"), Err("is not a directory"));
    assert_eq!(check("none", "Directory"), Err("is not a directory"));
    assert_eq!(check("made", "DirectoryOrCreate"), Ok(()));
    assert!(base.join("made").is_dir());
    assert_eq!(check("file", "DirectoryOrCreate"), Err("is not a directory"));
    assert_eq!(check("file", "File"), Ok(()));
    assert_eq!(check("dir", "File"), Err("is not a file"));
    assert_eq!(check("new", "FileOrCreate"), Ok(()));
    assert!(base.join("new").is_file());
    assert_eq!(check("no/parent", "FileOrCreate"), Err("other"));
    assert_eq!(check("socket", "Socket"), Ok(()));
    assert_eq!(check("file", "Socket"), Err("is not a socket file"));
    assert_eq!(check("/dev/null", "CharDevice"), Ok(()));
    assert_eq!(check("file", "CharDevice"), Err("is not a character device"));
    assert_eq!(check("/dev/null", "BlockDevice"), Err("is not a block device"));
    assert_eq!(check("file", ""), Ok(()));
    assert_eq!(check("anything", ""), Ok(()));
    assert!(base.join("anything").is_dir());
}

#[test]
fn fs_group_owns_what_is_ours_and_not_the_hosts() {
    let host = tempfile::tempdir().unwrap();
    let bed = Bed::with(&json!({
        "securityContext": {"fsGroup": 4321},
        "volumes": [
            {"name": "e", "emptyDir": {}},
            {"name": "m", "configMap": {"name": "cfg", "defaultMode": 256}},
            {"name": "h", "hostPath": {"path": host.path()}},
        ],
    }));
    let plan = bed.plan().unwrap();
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED fs_group_owns_what_is_ours_and_not_the_hosts: changing groups needs root");
        return;
    }
    let before = fs::metadata(host.path()).unwrap();
    set_up(bed.path(), &plan, Timestamp::UNIX_EPOCH).unwrap();
    let [empty, map] = [0, 1].map(|n| volume_directory(bed.path(), &plan.volumes[n]));
    let found = fs::metadata(&empty).unwrap();
    assert_eq!((found.gid(), found.mode() & 0o7777), (4321, 0o2777));
    let found = fs::metadata(map.join("a")).unwrap();
    assert_eq!((found.gid(), found.mode() & 0o7777), (4321, 0o440));
    let after = fs::metadata(host.path()).unwrap();
    assert_eq!((before.gid(), before.mode()), (after.gid(), after.mode()));

    // Links are changed themselves; what they point to is not.
    let outside = host.path().join("outside");
    fs::write(&outside, "x").unwrap();
    symlink(&outside, empty.join("link")).unwrap();
    set_up(bed.path(), &plan, Timestamp::UNIX_EPOCH).unwrap();
    assert_ne!(fs::metadata(&outside).unwrap().gid(), 4321);
}

#[test]
fn on_root_mismatch_leaves_the_inside_alone() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED on_root_mismatch_leaves_the_inside_alone: changing groups needs root");
        return;
    }
    for (policy, expected) in [("OnRootMismatch", 0), ("Always", 4321)] {
        let bed = Bed::with(&json!({
            "securityContext": {"fsGroup": 4321, "fsGroupChangePolicy": policy},
            "volumes": [{"name": "e", "emptyDir": {}}],
        }));
        let plan = bed.set_up().unwrap();
        let file = volume_directory(bed.path(), &plan.volumes[0]).join("f");
        fs::write(&file, "x").unwrap();
        std::os::unix::fs::chown(&file, None, Some(0)).unwrap();
        bed.set_up().unwrap();
        assert_eq!(fs::metadata(&file).unwrap().gid(), expected, "{policy}");
    }
}

#[test]
fn volumes_of_a_user_namespace_belong_to_its_root() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED volumes_of_a_user_namespace_belong_to_its_root: changing owners needs root");
        return;
    }
    let mut bed = Bed::new(&json!([{"name": "e", "emptyDir": {}}, {"name": "m", "configMap": {"name": "cfg"}}]));
    bed.user = Some(IdMapping { host_id: 131_072, length: 65_536 });
    let plan = bed.set_up().unwrap();
    let [empty, map] = [0, 1].map(|n| volume_directory(bed.path(), &plan.volumes[n]));
    let owner = |path: &Path| (fs::metadata(path).unwrap().uid(), fs::metadata(path).unwrap().gid());
    assert_eq!(owner(&empty), (131_072, 131_072));
    assert_eq!(owner(&map.join("a")), (131_072, 131_072));
    // What a user of the Pod wrote stays that user's.
    let file = empty.join("f");
    fs::write(&file, "x").unwrap();
    std::os::unix::fs::chown(&file, Some(131_077), Some(131_077)).unwrap();
    bed.set_up().unwrap();
    assert_eq!(owner(&file), (131_077, 131_077));
}

#[test]
fn mounts_of_a_container() {
    let bed = Bed::new(&json!([{"name": "e", "emptyDir": {}}, {"name": "m", "configMap": {"name": "cfg"}}]));
    bed.set_up().unwrap();
    let mounts = bed
        .mounts(
            &json!([
                {"name": "e", "mountPath": "/e", "mountPropagation": "HostToContainer", "recursiveReadOnly": "IfPossible"},
                {"name": "m", "mountPath": "m"},
                {"name": "e", "mountPath": "/r", "readOnly": true, "recursiveReadOnly": "Enabled"},
            ]),
            &[],
        )
        .unwrap();
    assert_eq!(mounts[0].propagation, MountPropagation::HostToContainer);
    assert!(!mounts[0].read_only && !mounts[0].recursive_read_only);
    assert!(mounts[1].read_only, "files of objects are read-only");
    assert_eq!(mounts[1].container_path, Path::new("/m"));
    assert!(mounts[2].read_only && mounts[2].recursive_read_only);
    assert!(bed.mounts(&json!([{"name": "zz", "mountPath": "/z"}]), &[]).is_err());
    assert!(bed.mounts(&json!([{"name": "e", "mountPath": "/z", "mountPropagation": "Odd"}]), &[]).is_err());
}

#[test]
fn sub_paths_are_parts_of_the_volume() {
    if !may_mount("sub_paths_are_parts_of_the_volume") {
        return;
    }
    let bed = Bed::new(&json!([{"name": "e", "emptyDir": {}}, {"name": "m", "configMap": {"name": "cfg"}}]));
    let plan = bed.set_up().unwrap();
    let volume = volume_directory(bed.path(), &plan.volumes[0]);
    let mounts = json!([
        {"name": "e", "mountPath": "/a", "subPath": "x/y"},
        {"name": "m", "mountPath": "/b", "subPath": "a"},
        {"name": "e", "mountPath": "/c", "subPathExpr": "$(POD)/logs"},
    ]);
    let found = bed.mounts(&mounts, &[("POD", "web")]).unwrap();
    fs::write(found[0].host_path.join("f"), "1").unwrap();
    assert_eq!(fs::read_to_string(volume.join("x/y/f")).unwrap(), "1");
    assert_eq!(fs::read_to_string(&found[1].host_path).unwrap(), "1");
    assert!(volume.join("web/logs").is_dir());
    // A container that starts again gets the same.
    assert_eq!(bed.mounts(&mounts, &[("POD", "web")]).unwrap(), found);
    assert_eq!(mounts_below(&bed.path().join("volume-subpaths")).unwrap().len(), 3);
    let words = bed.mounts(&mounts, &[]).unwrap_err();
    assert!(words.ends_with("subPathExpr \"$(POD)/logs\": missing value for \"POD\""), "{words}");
    tear_down(bed.path()).unwrap();
    assert!(!bed.path().join("volume-subpaths").exists());
}

#[test]
fn sub_paths_never_leave_the_volume() {
    if !may_mount("sub_paths_never_leave_the_volume") {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("secret")).unwrap();
    let bed = Bed::new(&json!([{"name": "e", "emptyDir": {}}]));
    let plan = bed.set_up().unwrap();
    let volume = volume_directory(bed.path(), &plan.volumes[0]);
    symlink(outside.path(), volume.join("absolute")).unwrap();
    symlink("../../../../../../etc", volume.join("relative")).unwrap();
    symlink("/proc/self/root", volume.join("magic")).unwrap();
    symlink(outside.path().join("not-there"), volume.join("dangling")).unwrap();
    symlink("loop", volume.join("loop")).unwrap();
    for sub in ["absolute", "absolute/secret", "relative", "magic/etc", "dangling", "loop", "../x", "/etc", "a/../../b"]
    {
        let mounts = json!([{"name": "e", "mountPath": "/a", "subPath": sub}]);
        let words = bed.mounts(&mounts, &[]).unwrap_err();
        assert!(words.contains("leads out of its volume"), "{sub}: {words}");
    }
    assert!(!outside.path().join("not-there").exists());
    fs::create_dir(volume.join("real")).unwrap();
    symlink("real", volume.join("inside")).unwrap();
    assert!(bed.mounts(&json!([{"name": "e", "mountPath": "/a", "subPath": "inside"}]), &[]).is_ok());
}

#[test]
fn teardown_takes_nothing_from_the_host() {
    if !may_mount("teardown_takes_nothing_from_the_host") {
        return;
    }
    let host = tempfile::tempdir().unwrap();
    // A shared mount with another mount inside, as a host's file systems are.
    mount_tmpfs(host.path(), "size=65536").unwrap();
    mount_change(host.path(), MountPropagationFlags::SHARED).unwrap();
    let inner = host.path().join("sub/inner");
    fs::create_dir_all(&inner).unwrap();
    mount_tmpfs(&inner, "size=65536").unwrap();
    fs::write(inner.join("precious"), "x").unwrap();

    let bed = Bed::new(&json!([{"name": "h", "hostPath": {"path": host.path()}}, {"name": "e", "emptyDir": {}}]));
    let plan = bed.set_up().unwrap();
    bed.mounts(&json!([{"name": "h", "mountPath": "/h", "subPath": "sub"}]), &[]).unwrap();
    let volume = volume_directory(bed.path(), &plan.volumes[1]);
    symlink(host.path(), volume.join("link")).unwrap();
    tear_down(bed.path()).unwrap();

    assert!(is_mount_point(&inner).unwrap(), "still mounted on the host");
    assert_eq!(fs::read_to_string(inner.join("precious")).unwrap(), "x");
    assert!(!volume.exists());
    unmount_below(host.path()).unwrap();
}

#[test]
fn teardown_goes_on_where_it_was_cut_off() {
    if !may_mount("teardown_goes_on_where_it_was_cut_off") {
        return;
    }
    let bed = Bed::new(&json!([{"name": "v", "emptyDir": {"medium": "Memory"}}, {"name": "e", "emptyDir": {}}]));
    let plan = bed.set_up().unwrap();
    let volume = volume_directory(bed.path(), &plan.volumes[0]);
    // Somebody stacked another mount on ours, and a process keeps a file of it open.
    mount_bind(volume_directory(bed.path(), &plan.volumes[1]), &volume).unwrap();
    let busy = fs::File::create(volume.join("busy")).unwrap();
    unmount_below(&bed.path().join("volumes")).unwrap();
    assert!(bed.path().join("volumes").exists());
    tear_down(bed.path()).unwrap();
    drop(busy);
    assert!(!bed.path().join("volumes").exists());
}
