//! Name resolution: `dnsPolicy`, `dnsConfig`, `hostAliases`.

use k8s_openapi::api::core::v1::{PodDNSConfig, PodSpec};

use super::error::Errors;
use super::names::{dns_subdomain, ip_address};
use super::path::FieldPath;
use super::pod::one_of;

const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCHES_MAX_CHARS: usize = 2048;

pub(crate) fn dns(errors: &mut Errors, spec: &PodSpec, path: &FieldPath) {
    let policy = spec.dns_policy.as_deref();
    let policies = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
    one_of(errors, policy, &policies, &path.field("dnsPolicy"));
    let config_path = path.field("dnsConfig");
    let has_nameserver = spec.dns_config.as_ref().and_then(|c| c.nameservers.as_ref()).is_some_and(|n| !n.is_empty());
    if policy == Some("None") && spec.dns_config.is_none() {
        errors.required(&config_path, "must provide `dnsConfig` when `dnsPolicy` is None");
    } else if policy == Some("None") && !has_nameserver {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.required(&config_path.field("nameservers"), detail);
    }
    if let Some(config) = &spec.dns_config {
        self::config(errors, config, &config_path);
    }
    for (i, alias) in spec.host_aliases.iter().flatten().enumerate() {
        let path = path.field("hostAliases").index(i);
        if let Some(problem) = ip_address(&alias.ip) {
            errors.invalid(&path.field("ip"), &alias.ip, problem);
        }
        for (j, name) in alias.hostnames.iter().flatten().enumerate() {
            if let Some(problem) = dns_subdomain(name) {
                errors.invalid(&path.field("hostnames").index(j), name, problem);
            }
        }
    }
}

fn config(errors: &mut Errors, config: &PodDNSConfig, path: &FieldPath) {
    let servers = config.nameservers.as_deref().unwrap_or_default();
    if servers.len() > NAMESERVERS_MAX {
        let detail = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        errors.invalid(&path.field("nameservers"), servers.len(), &detail);
    }
    for (i, server) in servers.iter().enumerate() {
        if let Some(problem) = ip_address(server) {
            errors.invalid(&path.field("nameservers").index(i), server, problem);
        }
    }
    let searches = config.searches.as_deref().unwrap_or_default();
    if searches.len() > SEARCHES_MAX {
        let detail = format!("must not have more than {SEARCHES_MAX} search paths");
        errors.invalid(&path.field("searches"), searches.len(), &detail);
    }
    // Joined by spaces, as in resolv.conf.
    let chars = searches.iter().map(String::len).sum::<usize>() + searches.len().saturating_sub(1);
    if chars > SEARCHES_MAX_CHARS {
        let detail = format!("must not have more than {SEARCHES_MAX_CHARS} characters, spaces included");
        errors.invalid(&path.field("searches"), chars, &detail);
    }
    for (i, search) in searches.iter().enumerate() {
        // "." alone, a final dot and underscores are all in use in the wild.
        let name = search.strip_suffix('.').unwrap_or(search).replace('_', "-");
        let edges_fit = name.trim_matches('-').is_empty() || dns_subdomain(name.trim_matches('-')).is_none();
        if search.is_empty() || (search != "." && (name.is_empty() || !edges_fit)) {
            errors.invalid(&path.field("searches").index(i), search, "must be a DNS domain");
        }
    }
    for (i, option) in config.options.iter().flatten().enumerate() {
        if option.name.as_deref().unwrap_or("").is_empty() {
            errors.required(&path.field("options").index(i), "must not be empty");
        }
    }
}
