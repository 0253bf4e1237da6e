//! What each containerd wants to be told.

use std::path::Path;

use super::{Programs, Release};

/// The network of Pods that don't use the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// None: only Pods on the host's network.
    None,
    /// CNI's bridge, in the network namespace that the test itself is in. A bridge and a subnet for each containerd.
    Bridge,
    /// CNI's bridge, in a network namespace that only this containerd and its Pods are in: nothing of it is on the machine,
    /// and the machine can't reach it.
    Own,
}

/// The configuration file. Everything lies below `root`. `restrict_oom_score_adj`, because a machine without
/// CAP_SYS_RESOURCE could not start a sandbox otherwise.
pub(super) fn containerd(programs: &Programs, root: &Path, pause: &str) -> String {
    let (root, runc, cni) = (root.display(), programs.runc.display(), programs.cni.display());
    let common = format!(
        "root = \"{root}/root\"\nstate = \"{root}/state\"\n\
         [grpc]\naddress = \"{root}/c.sock\"\n[ttrpc]\naddress = \"{root}/c.sock.ttrpc\"\n[metrics]\naddress = \"\"\n\
         [plugins.\"io.containerd.internal.v1.opt\"]\npath = \"{root}/opt\"\n"
    );
    let runtime = |plugin: &str| {
        format!(
            "[plugins.\"{plugin}\".containerd]\ndefault_runtime_name = \"runc\"\n\
             [plugins.\"{plugin}\".containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n\
             [plugins.\"{plugin}\".containerd.runtimes.runc.options]\nBinaryName = \"{runc}\"\nSystemdCgroup = false\n"
        )
    };
    match programs.release {
        Release::Bookworm | Release::Trixie => {
            let cri = "io.containerd.grpc.v1.cri";
            format!(
                "version = 2\n{common}[plugins.\"{cri}\"]\nsandbox_image = \"{pause}\"\nrestrict_oom_score_adj = true\n\
                 [plugins.\"{cri}\".cni]\nbin_dir = \"{cni}\"\nconf_dir = \"{root}/cni\"\n{}",
                runtime(cri)
            )
        }
        Release::Sid => {
            let (cri, images) = ("io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images");
            format!(
                "version = 3\n{common}[plugins.\"{cri}\"]\nrestrict_oom_score_adj = true\n\
                 [plugins.\"{cri}\".cni]\nbin_dirs = [\"{cni}\"]\nconf_dir = \"{root}/cni\"\n{}\
                 [plugins.\"{images}\".pinned_images]\nsandbox = \"{pause}\"\n\
                 [plugins.\"io.containerd.nri.v1.nri\"]\ndisable = true\n",
                runtime(cri)
            )
        }
    }
}

/// The name of the network that CNI makes.
pub(super) fn network_name(release: Release) -> String {
    format!("mk{}", release.number())
}

/// The network that CNI makes: no NAT, which would need another program.
pub(super) fn conflist(release: Release, root: &Path) -> String {
    let (number, name) = (release.number(), network_name(release));
    format!(
        r#"{{"cniVersion":"0.4.0","name":"{name}","plugins":[{{"type":"bridge","bridge":"mkcni{number}","isGateway":true,
"ipam":{{"type":"host-local","dataDir":"{}/ipam","ranges":[[{{"subnet":"10.231.{number}.0/24"}}]],
"routes":[{{"dst":"0.0.0.0/0"}}]}}}}]}}"#,
        root.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(release: Release) -> Programs {
        Programs { release, bin: "/p/bin".into(), runc: "/p/runc".into(), cni: "/p/cni".into() }
    }

    #[test]
    fn each_version_is_told_in_its_own_words() {
        for (release, version, image) in [
            (Release::Bookworm, "version = 2\n", "sandbox_image = \"pause:1\""),
            (Release::Trixie, "version = 2\n", "sandbox_image = \"pause:1\""),
            (Release::Sid, "version = 3\n", "sandbox = \"pause:1\""),
        ] {
            let text = containerd(&programs(release), Path::new("/r"), "pause:1");
            assert!(text.starts_with(version), "{text}");
            assert!(text.contains(image), "{text}");
            assert!(text.contains("restrict_oom_score_adj = true"), "{text}");
            for path in ["/r/root", "/r/state", "/r/c.sock", "/r/opt", "/r/cni", "/p/runc", "/p/cni"] {
                assert!(text.contains(path), "{path}: {text}");
            }
        }
    }

    #[test]
    fn containerds_of_one_test_have_networks_of_their_own() {
        let texts = Release::ALL.map(|release| conflist(release, Path::new("/r")));
        for text in &texts {
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(value["plugins"][0]["type"], "bridge");
        }
        assert_ne!(texts[0], texts[1]);
        assert_ne!(texts[1], texts[2]);
    }
}
