//! Namespaces.

use minke_core::runtime::{IdMapping, NamespaceMode, NamespaceOptions};

use crate::api;

fn mode(mode: NamespaceMode) -> i32 {
    let mode = match mode {
        NamespaceMode::Pod => api::NamespaceMode::Pod,
        NamespaceMode::Container => api::NamespaceMode::Container,
        NamespaceMode::Node => api::NamespaceMode::Node,
    };
    mode.into()
}

fn mode_of(mode: api::NamespaceMode) -> NamespaceMode {
    match mode {
        api::NamespaceMode::Pod => NamespaceMode::Pod,
        api::NamespaceMode::Node => NamespaceMode::Node,
        // That of another container is none of the Pod's.
        api::NamespaceMode::Container | api::NamespaceMode::Target => NamespaceMode::Container,
    }
}

/// The one range of ids of a Pod with a user namespace of its own.
pub(crate) fn mapping(range: IdMapping) -> api::IdMapping {
    api::IdMapping { host_id: range.host_id, container_id: 0, length: range.length }
}

/// For CRI.
pub(crate) fn namespaces(options: &NamespaceOptions) -> api::NamespaceOption {
    let user = options.user.map(|range| api::UserNamespace {
        mode: mode(NamespaceMode::Pod),
        uids: vec![mapping(range)],
        gids: vec![mapping(range)],
    });
    api::NamespaceOption {
        network: mode(options.network),
        pid: mode(options.pid),
        ipc: mode(options.ipc),
        target_id: String::new(),
        userns_options: user,
    }
}

/// From CRI.
pub(crate) fn namespaces_of(options: &api::NamespaceOption) -> NamespaceOptions {
    let user = options.userns_options.as_ref().filter(|user| user.mode() == api::NamespaceMode::Pod);
    let range = user.and_then(|user| user.uids.first());
    NamespaceOptions {
        network: mode_of(options.network()),
        pid: mode_of(options.pid()),
        ipc: mode_of(options.ipc()),
        user: range.map(|range| IdMapping { host_id: range.host_id, length: range.length }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_survive_the_way_there_and_back() {
        let all = [NamespaceMode::Pod, NamespaceMode::Node];
        for network in all {
            for ipc in all {
                for pid in [NamespaceMode::Pod, NamespaceMode::Container, NamespaceMode::Node] {
                    for user in [None, Some(IdMapping { host_id: 65536, length: 65536 })] {
                        let options = NamespaceOptions { network, pid, ipc, user };
                        assert_eq!(namespaces_of(&namespaces(&options)), options);
                    }
                }
            }
        }
    }

    #[test]
    fn the_hosts_user_namespace_is_none_of_its_own() {
        let host = api::UserNamespace { mode: api::NamespaceMode::Node.into(), uids: vec![], gids: vec![] };
        let options = api::NamespaceOption { userns_options: Some(host), ..Default::default() };
        assert_eq!(namespaces_of(&options).user, None);
    }
}
