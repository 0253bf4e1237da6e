//! Containerds of Debian as subjects, over CRI.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use minke_conformance::{Kind, ShellPrograms, Subject};
use minke_core::clock::SystemClock;
use minke_core::runtime::{ImageService as _, ImageStatus};
use minke_cri::{CriConfig, CriRuntime, Endpoint};
use minke_testkit::containerd::{Containerd, Network, Programs, Release};

use crate::harness::Traces;
use crate::images::{MAIN, SPARE, main, spare};

impl Traces for Containerd {
    fn leftovers(&self) -> String {
        Containerd::leftovers(self)
    }

    fn said(&self, leftovers: &str) -> String {
        leftovers.split_whitespace().filter(|word| word.len() == 64).map(|id| self.said_of(id)).collect()
    }
}

pub(crate) fn kind(release: Release) -> Kind {
    match release {
        Release::Bookworm => Kind::Containerd16,
        Release::Trixie => Kind::Containerd17,
        Release::Sid => Kind::Containerd21,
    }
}

/// Where their programs are unpacked.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("containerd")
}

/// Starts one, or says why there is none here.
pub(crate) async fn subject(release: Release, registry: &str) -> Result<(Subject, Containerd), String> {
    let programs = tokio::task::spawn_blocking(move || Programs::get(&cache(), release)).await.unwrap();
    let programs = programs.map_err(|reason| reason.to_string())?;
    let mut containerd = Containerd::start(&programs, Network::Bridge).await.unwrap();
    for image in [main(), spare()] {
        containerd.import(&image).await.unwrap();
    }
    let endpoint = Endpoint::parse(&containerd.socket().display().to_string()).unwrap();
    let runtime = CriRuntime::open(CriConfig { endpoint }, Arc::new(SystemClock)).await.unwrap();
    let image = in_store(&runtime, MAIN).await;
    in_store(&runtime, SPARE).await;
    let subject = Subject {
        kind: kind(release),
        runtime: Arc::new(runtime),
        programs: Arc::new(ShellPrograms),
        image: (image.id, MAIN.to_owned()),
        spare_image: SPARE.to_owned(),
        registry: Some(registry.to_owned()),
        directory: containerd.root().join("test"),
        cgroup: containerd.cgroup().to_owned(),
    };
    Ok((subject, containerd))
}

/// Waits until CRI shows an image that was imported.
async fn in_store(runtime: &CriRuntime, name: &str) -> ImageStatus {
    for _ in 0..1000 {
        if let Some(status) = runtime.image_status(name).await.unwrap() {
            return status;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{name} was imported and is not there");
}
