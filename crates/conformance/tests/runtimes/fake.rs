//! The fake runtime as a subject.

use std::sync::Arc;
use std::time::Duration;

use minke_conformance::{Kind, Program, Programs, Subject};
use minke_core::fake::{FakeRuntime, Life};
use minke_core::identity::PodUid;
use minke_core::runtime::{ContainerConfig, ImageUser};
use minke_testkit::TempState;

use crate::images::{MAIN, SPARE};

/// Scripts the lives of the fake's containers.
struct Scripts(FakeRuntime);

impl Programs for Scripts {
    fn prepare(&self, pod: &PodUid, config: &mut ContainerConfig, program: Program) {
        let life = match program {
            Program::Exit(code) => Life::exits(Duration::ZERO, code),
            Program::Polite(code) => Life::forever().stopping_after(Duration::from_millis(1), code),
            Program::Deaf => Life::forever().ignoring_stop(),
            Program::Missing => Life::start_fails(),
            Program::Shell(_) => Life::forever(),
        };
        self.0.script_pod(pod, config.name.clone(), vec![life]);
    }
}

pub(crate) fn subject(temp: &TempState) -> Subject {
    let runtime = FakeRuntime::new();
    let image = runtime.add_image(MAIN, ImageUser::Root);
    runtime.add_image(SPARE, ImageUser::Root);
    Subject {
        kind: Kind::Fake,
        programs: Arc::new(Scripts(runtime.clone())),
        runtime: Arc::new(runtime),
        image: (image, MAIN.to_owned()),
        spare_image: SPARE.to_owned(),
        registry: None,
        directory: temp.root().to_owned(),
        cgroup: "/conformance".to_owned(),
    }
}
