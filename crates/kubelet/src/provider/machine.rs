//! Who the machine is, read from the system: identities and versions for `status.nodeInfo`.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use k8s_openapi::api::core::v1::NodeSystemInfo;

/// What only the program knows of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineFacts {
    /// The version of Kubernetes that this kubelet is like, `v1.37.0`.
    pub kubelet_version: String,
    /// Addresses that count instead of those that the machine is found to have.
    pub addresses: Vec<IpAddr>,
}

fn line(path: &str) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// The distribution, as it calls itself.
fn os_image(root: &Path) -> String {
    let text = ["etc/os-release", "usr/lib/os-release"].iter().find_map(|p| fs::read_to_string(root.join(p)).ok());
    let text = text.unwrap_or_default();
    let value = |key: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(value.trim().trim_matches(['"', '\'']).to_owned()).filter(|value| !value.is_empty())
    };
    value("PRETTY_NAME").or_else(|| value("NAME")).unwrap_or_else(|| "Linux".to_owned())
}

/// Identities and versions; the runtime as `name://version`. What can't be read is left empty, as upstream does.
pub(super) fn system_info(facts: &MachineFacts, runtime: String) -> NodeSystemInfo {
    let uname = rustix::system::uname();
    NodeSystemInfo {
        architecture: crate::admission::architecture().to_owned(),
        boot_id: line("/proc/sys/kernel/random/boot_id"),
        container_runtime_version: runtime,
        kernel_version: uname.release().to_string_lossy().into_owned(),
        // Not reported by upstream any more, and required by the type.
        kube_proxy_version: String::new(),
        kubelet_version: facts.kubelet_version.clone(),
        machine_id: line("/etc/machine-id"),
        operating_system: "linux".to_owned(),
        os_image: os_image(Path::new("/")),
        system_uuid: line("/sys/class/dmi/id/product_uuid"),
        ..NodeSystemInfo::default()
    }
}

/// What kind of machine it is, where the maker of virtual machines says so in its firmware.
pub(super) fn instance_type() -> Option<String> {
    let (vendor, product) = (line("/sys/class/dmi/id/sys_vendor"), line("/sys/class/dmi/id/product_name"));
    instance_type_of(&vendor, &product)
}

fn instance_type_of(vendor: &str, product: &str) -> Option<String> {
    // Others put the product's name there, which is the same for machines of every size.
    (vendor == "Amazon EC2" && !product.is_empty()).then(|| product.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_says_who_it_is() {
        let facts = MachineFacts { kubelet_version: "v1.2.3".to_owned(), ..MachineFacts::default() };
        let info = system_info(&facts, "minke://1".to_owned());
        assert!(!info.kernel_version.is_empty() && !info.os_image.is_empty() && !info.boot_id.is_empty());
        assert_eq!(info.container_runtime_version, "minke://1");
        assert_eq!((info.operating_system.as_str(), info.kubelet_version.as_str()), ("linux", "v1.2.3"));
    }

    #[test]
    fn the_distribution_has_a_name_also_without_its_file() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(os_image(root.path()), "Linux");
        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/os-release"), "ID=x\nPRETTY_NAME=\"A Linux 7\"\n").unwrap();
        assert_eq!(os_image(root.path()), "A Linux 7");
    }

    #[test]
    fn only_a_maker_whose_product_is_the_type_tells_it() {
        assert_eq!(instance_type_of("Amazon EC2", "m5.large").as_deref(), Some("m5.large"));
        assert_eq!(instance_type_of("QEMU", "Standard PC"), None);
        assert_eq!(instance_type_of("Amazon EC2", ""), None);
    }
}
