//! The kinds of volume that Kubernetes has, and which of them one machine can serve.

use k8s_openapi::api::core::v1::Volume;

/// One of a volume's possible sources.
pub(crate) struct VolumeKind {
    /// Its field.
    pub(crate) field: &'static str,
    /// Whether this volume has it.
    pub(crate) given: bool,
    /// Whether it needs nothing but this machine and the manifests.
    pub(crate) local: bool,
}

/// Every source that a volume can have.
pub(crate) fn sources(volume: &Volume) -> [VolumeKind; 30] {
    let local = |field, given| VolumeKind { field, given, local: true };
    let remote = |field, given| VolumeKind { field, given, local: false };
    [
        local("emptyDir", volume.empty_dir.is_some()),
        local("hostPath", volume.host_path.is_some()),
        local("configMap", volume.config_map.is_some()),
        local("secret", volume.secret.is_some()),
        local("downwardAPI", volume.downward_api.is_some()),
        local("projected", volume.projected.is_some()),
        remote("image", volume.image.is_some()),
        remote("persistentVolumeClaim", volume.persistent_volume_claim.is_some()),
        remote("ephemeral", volume.ephemeral.is_some()),
        remote("csi", volume.csi.is_some()),
        remote("nfs", volume.nfs.is_some()),
        remote("iscsi", volume.iscsi.is_some()),
        remote("fc", volume.fc.is_some()),
        remote("gitRepo", volume.git_repo.is_some()),
        remote("flexVolume", volume.flex_volume.is_some()),
        remote("awsElasticBlockStore", volume.aws_elastic_block_store.is_some()),
        remote("azureDisk", volume.azure_disk.is_some()),
        remote("azureFile", volume.azure_file.is_some()),
        remote("cephfs", volume.cephfs.is_some()),
        remote("cinder", volume.cinder.is_some()),
        remote("flocker", volume.flocker.is_some()),
        remote("gcePersistentDisk", volume.gce_persistent_disk.is_some()),
        remote("glusterfs", volume.glusterfs.is_some()),
        remote("photonPersistentDisk", volume.photon_persistent_disk.is_some()),
        remote("portworxVolume", volume.portworx_volume.is_some()),
        remote("quobyte", volume.quobyte.is_some()),
        remote("rbd", volume.rbd.is_some()),
        remote("scaleIO", volume.scale_io.is_some()),
        remote("storageos", volume.storageos.is_some()),
        remote("vsphereVolume", volume.vsphere_volume.is_some()),
    ]
}
