//! The peer of `minke run`: `podman play kube` with runc.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::failure::Failure;
use crate::instance::write_image;
use crate::process;

const BRIDGE: &str = "mk-bench-peer";

/// A podman with directories and a network of its own; everything is removed when dropped.
pub(crate) struct Podman {
    binary: PathBuf,
    directory: tempfile::TempDir,
}

impl Podman {
    /// `None` where podman or runc is not installed.
    pub(crate) fn new() -> Result<Option<Self>, Failure> {
        let (Some(binary), Some(_)) = (process::find("podman"), process::find("runc")) else { return Ok(None) };
        let directory = tempfile::Builder::new()
            .prefix("mk-peer-")
            .tempdir()
            .map_err(Failure::file("making", Path::new("a directory")))?;
        let podman = Self { binary, directory };
        podman.configure()?;
        let archive = podman.directory.path().join("image.tar");
        write_image(&archive)?;
        process::run(podman.command().args(["load", "--quiet", "--input"]).arg(archive))?;
        Ok(Some(podman))
    }

    /// Machines like those of CI need the ulimits said; with cgroups in hybrid mode only runc works.
    fn configure(&self) -> Result<(), Failure> {
        let networks = self.directory.path().join("net.d");
        std::fs::create_dir(&networks).map_err(Failure::file("making", &networks))?;
        let list = json!({
            "cniVersion": "0.4.0",
            "name": "podman",
            "plugins": [
                {
                    "type": "bridge", "bridge": BRIDGE, "isGateway": true, "ipMasq": true, "hairpinMode": true,
                    "ipam": {
                        "type": "host-local", "dataDir": self.directory.path().join("leases"),
                        "routes": [{"dst": "0.0.0.0/0"}],
                        "ranges": [[{"subnet": "10.253.0.0/16", "gateway": "10.253.0.1"}]],
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": true}},
                {"type": "firewall"},
                {"type": "tuning"},
            ],
        });
        let path = networks.join("10-podman.conflist");
        std::fs::write(&path, list.to_string()).map_err(Failure::file("writing", &path))?;
        let text = format!(
            "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\noom_score_adj = 0\n\
             [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n\
             [network]\nnetwork_backend = \"cni\"\nnetwork_config_dir = {networks:?}\n\
             cni_plugin_dirs = [\"/usr/lib/cni\", \"/opt/cni/bin\"]\n"
        );
        let path = self.configuration();
        std::fs::write(&path, text).map_err(Failure::file("writing", &path))
    }

    fn configuration(&self) -> PathBuf {
        self.directory.path().join("containers.conf")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.env("CONTAINERS_CONF", self.configuration());
        command.arg("--root").arg(self.directory.path().join("root"));
        command.arg("--runroot").arg(self.directory.path().join("run"));
        command.args(["--storage-driver", "overlay"]);
        command
    }

    /// From the command to all Pods Running.
    pub(crate) fn run(&self, manifest: &str) -> Result<Duration, Failure> {
        let path = self.directory.path().join("pods.yaml");
        std::fs::write(&path, manifest).map_err(Failure::file("writing", &path))?;
        process::time(self.command().args(["play", "kube"]).arg(path))
    }

    pub(crate) fn remove_all(&self) -> Result<(), Failure> {
        process::run(self.command().args(["pod", "rm", "--all", "--force", "--time", "0"])).map(drop)
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let cleaned = self
            .remove_all()
            .and_then(|()| process::run(self.command().args(["system", "reset", "--force"])).map(drop));
        if let Err(failure) = cleaned {
            eprintln!("could not clean up podman: {}", minke_core::runtime::error_chain(&failure));
        }
        if Path::new("/sys/class/net").join(BRIDGE).exists()
            && let Some(ip) = process::find("ip")
        {
            let _ = process::run(Command::new(ip).args(["link", "del", BRIDGE]));
        }
    }
}
