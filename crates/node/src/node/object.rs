//! The Node object as it should be (pure).

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerImage, DaemonEndpoint, Node, NodeAddress, NodeDaemonEndpoints, NodeSpec, NodeStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minke_core::provider::NodeDescription;
use minke_core::resources::ResourceList;

use super::conditions::{Described, conditions};
use super::config::NodeConfig;

/// Which labels were ours the last time: those that are not any more are removed.
pub(super) const OUR_LABELS: &str = "minke.dev/node-labels";
/// Most names of one image in the status, as upstream.
const NAMES: usize = 5;

/// The object as it should be: as it is created, and as what is ours of it should stay.
#[must_use]
pub fn desired_node(config: &NodeConfig, described: &Described, going_down: bool, now: Timestamp) -> Node {
    let mut labels = described.latest().map(|d| d.labels.clone()).unwrap_or_default();
    labels.extend(config.labels.clone());
    let mut annotations = config.annotations.clone();
    annotations.insert(OUR_LABELS.to_owned(), labels.keys().cloned().collect::<Vec<_>>().join(","));
    Node {
        metadata: ObjectMeta {
            name: Some(config.name.clone()),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            taints: Some(config.taints.clone()).filter(|taints| !taints.is_empty()),
            unschedulable: (!config.schedulable).then_some(true),
            provider_id: config.provider_id.clone(),
            ..NodeSpec::default()
        }),
        status: Some(status(config, described, going_down, now)),
    }
}

fn status(config: &NodeConfig, described: &Described, going_down: bool, now: Timestamp) -> NodeStatus {
    let conditions = Some(conditions(described, going_down, now));
    let port = config
        .port
        .map(|port| NodeDaemonEndpoints { kubelet_endpoint: Some(DaemonEndpoint { port: i32::from(port) }) });
    let Some(latest) = described.latest() else {
        return NodeStatus { conditions, daemon_endpoints: port, ..NodeStatus::default() };
    };
    NodeStatus {
        capacity: Some(quantities(&latest.capacity)),
        allocatable: Some(quantities(&latest.allocatable)),
        conditions,
        addresses: Some(addresses(latest)),
        daemon_endpoints: port,
        node_info: Some(latest.info.clone()),
        images: Some(images(&latest.images, config.max_images)),
        ..NodeStatus::default()
    }
}

fn quantities(list: &ResourceList) -> BTreeMap<String, Quantity> {
    let shown = |name: &str, amount: minke_core::resources::Amount| {
        // Bytes read best in binary units, everything else in decimal ones.
        let bytes = ["memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-");
        Quantity(if bytes { amount.to_binary() } else { amount.to_string() })
    };
    list.iter().map(|(name, amount)| (name.clone(), shown(name, *amount))).collect()
}

fn addresses(described: &NodeDescription) -> Vec<NodeAddress> {
    let internal = described.addresses.iter().map(|ip| ("InternalIP", ip.to_string()));
    let named = (!described.hostname.is_empty()).then(|| ("Hostname", described.hostname.clone()));
    let all = internal.chain(named);
    all.map(|(kind, address)| NodeAddress { type_: kind.to_owned(), address }).collect()
}

/// The largest images, each with a few of its names, in an order that does not change by itself.
fn images(all: &[ContainerImage], most: usize) -> Vec<ContainerImage> {
    let mut images = all.to_vec();
    images.sort_by(|a, b| b.size_bytes.cmp(&a.size_bytes).then_with(|| a.names.cmp(&b.names)));
    images.truncate(most);
    for image in &mut images {
        if let Some(names) = &mut image.names {
            names.truncate(NAMES);
        }
    }
    images
}

#[cfg(test)]
mod tests {
    use minke_core::resources::Amount;

    use super::*;

    #[test]
    fn a_node_says_what_it_has_in_the_units_that_people_read() {
        let list = ResourceList::from([
            ("cpu".to_owned(), Amount::parse("1500m").unwrap()),
            ("memory".to_owned(), Amount::parse("8Gi").unwrap()),
            ("pods".to_owned(), Amount::from_units(110)),
            ("example.com/gpu".to_owned(), Amount::from_units(2)),
        ]);
        let shown: Vec<_> = quantities(&list).into_iter().map(|(k, v)| format!("{k}={}", v.0)).collect();
        assert_eq!(shown, ["cpu=1500m", "example.com/gpu=2", "memory=8Gi", "pods=110"]);
    }

    #[test]
    fn images_are_bounded_and_the_largest_are_named() {
        let image = |name: &str, size| ContainerImage {
            names: Some((0..9).map(|n| format!("{name}:{n}")).collect()),
            size_bytes: Some(size),
        };
        let all = [image("small", 1), image("b", 7), image("a", 7), image("large", 9)];
        let shown = images(&all, 3);
        let names: Vec<_> = shown.iter().map(|i| i.names.as_ref().unwrap()[0].as_str()).collect();
        assert_eq!(names, ["large:0", "a:0", "b:0"]);
        assert!(shown.iter().all(|i| i.names.as_ref().unwrap().len() == NAMES));
        assert!(images(&all, 0).is_empty());
    }

    #[test]
    fn both_families_of_addresses_and_the_host_name() {
        let described = NodeDescription {
            addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
            hostname: "box".to_owned(),
            ..NodeDescription::default()
        };
        let shown: Vec<_> = addresses(&described).into_iter().map(|a| format!("{} {}", a.type_, a.address)).collect();
        assert_eq!(shown, ["InternalIP 192.0.2.1", "InternalIP 2001:db8::1", "Hostname box"]);
    }
}
