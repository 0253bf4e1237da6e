//! `resolv.conf` of a Pod, by `dnsPolicy` and `dnsConfig`.
//!
//! Upstream source: `pkg/kubelet/network/dns`. On one machine there is no cluster DNS, so `ClusterFirst` behaves as
//! `Default`: as upstream's does when the kubelet knows no cluster DNS.

use k8s_openapi::api::core::v1::{Pod, PodDNSConfig};
use minke_core::runtime::DnsConfig;

/// Most `nameserver` lines; more are not read by resolvers.
pub const MAX_NAMESERVERS: usize = 3;
/// Most search domains.
pub const MAX_SEARCHES: usize = 32;
/// Longest search line, in characters.
pub const MAX_SEARCH_CHARACTERS: usize = 2048;

/// A resolver configuration, and what people should hear about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDns {
    /// `None`: the host's `resolv.conf` as it is.
    pub config: Option<DnsConfig>,
    /// Texts of `DNSConfigForming` warning events.
    pub warnings: Vec<String>,
}

/// The resolver configuration of a Pod.
#[must_use]
pub fn pod_dns(pod: &Pod, host: &DnsConfig) -> PodDns {
    let spec = pod.spec.as_ref();
    let own = spec.and_then(|s| s.dns_config.as_ref());
    let host_network = spec.and_then(|s| s.host_network).unwrap_or(false);
    let base = match spec.and_then(|s| s.dns_policy.as_deref()) {
        Some("None") => DnsConfig::default(),
        Some(_) | None => {
            if host_network && own.is_none() {
                return PodDns { config: None, warnings: Vec::new() };
            }
            host.clone()
        }
    };
    let mut config = own.map_or_else(|| base.clone(), |own| merged(&base, own));
    let mut warnings = Vec::new();
    limit(&mut config, &mut warnings);
    PodDns { config: Some(config), warnings }
}

fn merged(base: &DnsConfig, own: &PodDNSConfig) -> DnsConfig {
    let joined = |base: &[String], own: &Option<Vec<String>>| {
        let mut all: Vec<String> = Vec::new();
        for entry in base.iter().chain(own.iter().flatten()) {
            if !all.contains(entry) {
                all.push(entry.clone());
            }
        }
        all
    };
    let mut options = base.options.clone();
    for option in own.options.iter().flatten() {
        let Some(name) = option.name.as_deref().filter(|n| !n.is_empty()) else { continue };
        let text = match option.value.as_deref().filter(|v| !v.is_empty()) {
            Some(value) => format!("{name}:{value}"),
            None => name.to_owned(),
        };
        let same = |have: &&mut String| have.split(':').next() == Some(name);
        match options.iter_mut().find(same) {
            Some(have) => *have = text,
            None => options.push(text),
        }
    }
    DnsConfig {
        servers: joined(&base.servers, &own.nameservers),
        searches: joined(&base.searches, &own.searches),
        options,
    }
}

fn limit(config: &mut DnsConfig, warnings: &mut Vec<String>) {
    if config.servers.len() > MAX_NAMESERVERS {
        config.servers.truncate(MAX_NAMESERVERS);
        warnings.push(format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
            config.servers.join(" ")
        ));
    }
    let before = config.searches.len();
    config.searches.truncate(MAX_SEARCHES);
    while config.searches.join(" ").chars().count() > MAX_SEARCH_CHARACTERS {
        config.searches.pop();
    }
    if config.searches.len() < before {
        warnings.push(format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
            config.searches.join(" ")
        ));
    }
}

/// Reads a `resolv.conf`, forgiving as resolvers are.
#[must_use]
pub fn parse_resolv_conf(text: &str) -> DnsConfig {
    let mut config = DnsConfig::default();
    for line in text.lines() {
        let line = line.split(['#', ';']).next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let keyword = words.next();
        let rest = words.map(str::to_owned);
        match keyword {
            Some("nameserver") => config.servers.extend(rest.take(1)),
            // The last one counts; a root domain alone says nothing.
            Some("search" | "domain") => config.searches = rest.filter(|d| d != ".").collect(),
            Some("options") => config.options = rest.collect(),
            Some(_) | None => {}
        }
    }
    config
}
