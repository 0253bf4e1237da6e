//! Host name and domain of a Pod.

use k8s_openapi::api::core::v1::Pod;

use super::SpecError;

/// The kernel's limit on host names, in bytes.
pub const MAX_HOSTNAME: usize = 64;
/// Kubernetes' limit on the first label.
const MAX_LABEL: usize = 63;

/// What a Pod is called inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodNames {
    /// What `hostname` prints.
    pub hostname: String,
    /// The first label, as in `/etc/hosts`.
    pub short: String,
    /// `<subdomain>.<namespace>.svc.<cluster domain>`; empty without a subdomain.
    pub domain: String,
}

/// The names of a Pod. With the host's network a Pod is called like the host.
///
/// # Errors
/// [`SpecError::FqdnTooLong`] with `setHostnameAsFQDN`.
pub fn pod_names(pod: &Pod, node_name: &str, cluster_domain: &str) -> Result<PodNames, SpecError> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let Some(spec) = pod.spec.as_ref() else {
        let short = label(name);
        return Ok(PodNames { hostname: short.clone(), short, domain: String::new() });
    };
    let given = |text: &Option<String>| text.as_deref().filter(|t| !t.is_empty()).map(str::to_owned);
    if let Some(over) = given(&spec.hostname_override) {
        // It stands for the whole name and leaves no room for a domain.
        let hostname = over.get(..MAX_HOSTNAME).unwrap_or(&over).to_owned();
        return Ok(PodNames { short: hostname.clone(), hostname, domain: String::new() });
    }
    let host_network = spec.host_network.unwrap_or(false);
    let short = given(&spec.hostname).unwrap_or_else(|| label(if host_network { node_name } else { name }));
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let domain = match given(&spec.subdomain) {
        Some(subdomain) if cluster_domain.is_empty() => format!("{subdomain}.{namespace}.svc"),
        Some(subdomain) => format!("{subdomain}.{namespace}.svc.{cluster_domain}"),
        None => String::new(),
    };
    let hostname = if host_network {
        node_name.to_owned()
    } else if spec.set_hostname_as_fqdn.unwrap_or(false) && !domain.is_empty() {
        let fqdn = format!("{short}.{domain}");
        if fqdn.len() > MAX_HOSTNAME {
            return Err(SpecError::FqdnTooLong { fqdn, most: MAX_HOSTNAME });
        }
        fqdn
    } else {
        short.clone()
    };
    Ok(PodNames { hostname, short, domain })
}

/// A name cut to one label of a host name.
fn label(name: &str) -> String {
    let cut = name.get(..MAX_LABEL).unwrap_or(name);
    cut.trim_end_matches(['-', '.']).to_owned()
}
