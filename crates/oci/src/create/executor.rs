//! The last steps inside the container, in its init process, after the start signal.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use libcontainer::oci_spec::runtime::Spec;
use libcontainer::workload::{Executor, ExecutorError, ExecutorSetEnvsError, ExecutorValidationError};
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, move_mount};

use super::process::{self, Process};

/// Exit code of an init whose program could not be executed, as upstream's runtimes have it.
pub(crate) const START_FAILED: i32 = 128;

/// What the init process does when it is started.
#[derive(Debug, Clone)]
pub(super) struct Exec {
    pub(super) plan: Arc<Plan>,
}

#[derive(Debug)]
pub(super) struct Plan {
    /// Program and arguments.
    pub(super) args: Vec<String>,
    pub(super) process: Process,
    pub(super) tty: bool,
    /// A detached tree to be mounted on `/sys/fs/cgroup`.
    pub(super) cgroups: Option<OwnedFd>,
    /// Takes the reason of a failure. Closed by a successful exec, which is how the shim learns of that.
    pub(super) report: File,
}

impl Executor for Exec {
    fn exec(&self, _spec: &Spec) -> Result<(), ExecutorError> {
        let error = self.plan.run();
        // Nobody else can be told: the channels to the helper are closed.
        let _ = (&self.plan.report).write_all(error.as_bytes());
        std::process::exit(START_FAILED)
    }

    fn validate(&self, _spec: &Spec) -> Result<(), ExecutorValidationError> {
        // A program that can't be found is an error of the start, with its own reason, not of the creation.
        Ok(())
    }

    fn setup_envs(&self, _envs: HashMap<String, String>) -> Result<(), ExecutorSetEnvsError> {
        Ok(())
    }
}

impl Plan {
    /// Does everything; returns only with the reason why it could not.
    fn run(&self) -> String {
        let uid = self.process.uid;
        if self.tty
            && let Err(e) = rustix::fs::fchown(io::stdin().as_fd(), Some(rustix::fs::Uid::from_raw(uid)), None)
        {
            return format!("can't give the terminal to user {uid}: {e}");
        }
        if let Some(tree) = &self.cgroups {
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            if let Err(e) = move_mount(tree, "", CWD, "/sys/fs/cgroup", flags) {
                return format!("can't mount /sys/fs/cgroup: {e}");
            }
        }
        if let Err(e) = process::enter(&self.process.cwd, true) {
            return format!("can't enter the working directory {}: {e}", self.process.cwd.display());
        }
        self.process.execute(&self.args, &self.process.env).message
    }
}
