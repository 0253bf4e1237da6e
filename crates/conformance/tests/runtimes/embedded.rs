//! The embedded runtime as a subject.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use minke_conformance::{Kind, ShellPrograms, Subject};
use minke_core::clock::SystemClock;
use minke_core::runtime::ImageId;
use minke_oci::image::ImportSource;
use minke_oci::network::NetworkConfig;
use minke_oci::{EmbeddedConfig, EmbeddedRuntime};
use minke_testkit::{Image, TempState};

use crate::harness::Traces;
use crate::images::{MAIN, SPARE, main, spare};

/// What the runtime was given, to look for what it left there.
pub(crate) struct Place {
    temp: TempState,
    cgroup: String,
}

impl Traces for Place {
    fn leftovers(&self) -> String {
        let mounts = self.temp.mounts().into_iter().map(|path| format!("mount {}\n", path.display()));
        let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|e| e.path());
        let cgroups = hierarchies.map(|dir| dir.join(self.cgroup.trim_start_matches('/'))).filter(|dir| dir.exists());
        let cgroups = cgroups.map(|dir| format!("cgroup {}\n", dir.display()));
        let run =
            entries(&self.temp.run().join("pods")).into_iter().chain(entries(&self.temp.state().join("sandboxes")));
        mounts.chain(cgroups).chain(run.map(|path| format!("directory {}\n", path.display()))).collect()
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

async fn import(runtime: &EmbeddedRuntime, temp: &TempState, image: Image) -> ImageId {
    let path = temp.root().join("image.tar");
    image.write_oci_archive(&path).unwrap();
    runtime.images().import(ImportSource::Path(path), &[]).await.unwrap()[0].id.clone()
}

pub(crate) async fn subject(registry: &str) -> (Subject, Place) {
    let temp = TempState::new().unwrap();
    let mut network = NetworkConfig::new(temp.state());
    network.cni = None;
    network.machine_lock = temp.root().join("network.lock");
    let config = EmbeddedConfig { network, ..EmbeddedConfig::new(temp.state(), temp.run()) };
    let runtime = EmbeddedRuntime::open(config, Arc::new(SystemClock)).await.unwrap();
    let image = import(&runtime, &temp, main()).await;
    import(&runtime, &temp, spare()).await;
    let cgroup = format!("/mk-conformance-{}", std::process::id());
    let subject = Subject {
        kind: Kind::Embedded,
        runtime: Arc::new(runtime),
        programs: Arc::new(ShellPrograms),
        image: (image, MAIN.to_owned()),
        spare_image: SPARE.to_owned(),
        registry: Some(registry.to_owned()),
        directory: temp.root().join("pods"),
        cgroup: cgroup.clone(),
    };
    (subject, Place { temp, cgroup })
}
