//! The Pod network with real links, real packets and a real packet filter, each test in namespaces of its own.

#[path = "network/world.rs"]
mod world;

use std::collections::HashSet;
use std::net::IpAddr;

use minke_core::runtime::{Protocol, SandboxId, error_chain};
use minke_oci::network::{AddressPool, CniConfig, Network, NetworkConfig, NetworkError};
use world::{MACHINE, MACHINE_V6, OUTSIDE, OUTSIDE_V6, Pod, World, ask_tcp, ask_udp, block_on, serve_tcp, serve_udp};

#[test]
fn pods_reach_each_other_over_both_families_with_their_own_addresses() {
    let Some(world) = World::new("pods_reach_each_other_over_both_families_with_their_own_addresses") else { return };
    let network = world.open();
    let (a, b) = (Pod::new("a"), Pod::new("b"));
    let (at, bt) = (a.attach(&network), b.attach(&network));
    assert_eq!(at.ips.len(), 2);
    assert!(at.ips[0].is_ipv4() && at.ips[1].is_ipv6(), "{at:?}");
    assert_eq!(at.gateway, Some("10.88.0.1".parse().unwrap()));
    serve_tcp(&b.namespace, "[::]:80");
    assert_eq!(ask_tcp(&a.namespace, &format!("{}:80", bt.ips[0])).unwrap(), at.ips[0].to_string());
    assert_eq!(ask_tcp(&a.namespace, &format!("[{}]:80", bt.ips[1])).unwrap(), at.ips[1].to_string());
    // Loopback is up as well, and the machine reaches Pods directly.
    assert_eq!(ask_tcp(&b.namespace, "127.0.0.1:80").unwrap(), "127.0.0.1");
    assert_eq!(ask_tcp(&world.machine, &format!("{}:80", bt.ips[0])).unwrap(), "10.88.0.1");
    a.detach(&network);
    b.detach(&network);
    assert_eq!(world.traces(), [""; 0]);
}

#[test]
fn packets_of_pods_leave_with_the_machines_address() {
    let Some(world) = World::new("packets_of_pods_leave_with_the_machines_address") else { return };
    let network = world.open();
    let pod = Pod::new("a");
    pod.attach(&network);
    serve_tcp(&world.outside, "[::]:80");
    assert_eq!(ask_tcp(&pod.namespace, &format!("{OUTSIDE}:80")).unwrap(), MACHINE);
    assert_eq!(ask_tcp(&pod.namespace, &format!("[{OUTSIDE_V6}]:80")).unwrap(), MACHINE_V6);
    assert_eq!(pod.namespace.mtu("eth0"), 1400, "no larger than the way out");
    pod.detach(&network);
    assert_eq!(world.machine.sysctl("net/ipv4/conf/up0/forwarding"), "0", "forwarding is put back");
    assert_eq!(world.machine.sysctl("net/ipv4/ip_forward"), "0");
    assert_eq!(world.machine.sysctl("net/ipv6/conf/all/forwarding"), "0");
}

#[test]
fn a_host_port_answers_from_outside_with_the_source_kept() {
    let Some(world) = World::new("a_host_port_answers_from_outside_with_the_source_kept") else { return };
    let network = world.open();
    let pod = Pod::new("web").port(Protocol::Tcp, 8080, 80).port(Protocol::Udp, 8053, 53);
    pod.attach(&network);
    serve_tcp(&pod.namespace, "[::]:80");
    serve_udp(&pod.namespace, "[::]:53", "web");
    assert_eq!(ask_tcp(&world.outside, &format!("{MACHINE}:8080")).unwrap(), OUTSIDE);
    assert_eq!(ask_tcp(&world.outside, &format!("[{MACHINE_V6}]:8080")).unwrap(), OUTSIDE_V6);
    assert_eq!(ask_udp(&world.outside, &format!("{MACHINE}:8053"), 0).unwrap(), format!("web {OUTSIDE}"));
    assert_eq!(ask_udp(&world.outside, &format!("[{MACHINE_V6}]:8053"), 0).unwrap(), format!("web {OUTSIDE_V6}"));
    pod.detach(&network);
    assert!(ask_tcp(&world.outside, &format!("{MACHINE}:8080")).is_err());
    assert_eq!(world.traces(), [""; 0]);
}

#[test]
fn a_host_port_answers_on_the_machine_itself_and_to_pods_and_to_its_own_pod() {
    let Some(world) = World::new("a_host_port_answers_on_the_machine_itself_and_to_pods_and_to_its_own_pod") else {
        return;
    };
    let network = world.open();
    let pod = Pod::new("web").port(Protocol::Tcp, 8080, 80).port(Protocol::Udp, 8053, 53);
    let other = Pod::new("client");
    pod.attach(&network);
    other.attach(&network);
    serve_tcp(&pod.namespace, "[::]:80");
    serve_udp(&pod.namespace, "[::]:53", "web");
    for (who, from) in [("machine", &world.machine), ("other pod", &other.namespace), ("same pod", &pod.namespace)] {
        for address in [MACHINE.to_owned(), format!("[{MACHINE_V6}]"), "10.88.0.1".to_owned()] {
            ask_tcp(from, &format!("{address}:8080")).unwrap_or_else(|error| panic!("{who} {address}: {error}"));
        }
    }
    // Only the machine's own loopback leads there.
    for address in ["127.0.0.1", "127.8.9.10"] {
        ask_tcp(&world.machine, &format!("{address}:8080")).unwrap_or_else(|error| panic!("{address}: {error}"));
        ask_udp(&world.machine, &format!("{address}:8053"), 0).unwrap_or_else(|error| panic!("{address}: {error}"));
    }
    assert!(ask_tcp(&other.namespace, "127.0.0.1:8080").is_err());
}

#[test]
fn a_host_port_is_refused_on_ipv6_loopback_so_that_clients_try_ipv4() {
    let Some(world) = World::new("a_host_port_is_refused_on_ipv6_loopback_so_that_clients_try_ipv4") else { return };
    let network = world.open();
    let pod = Pod::new("web").port(Protocol::Tcp, 8080, 80);
    pod.attach(&network);
    serve_tcp(&pod.namespace, "[::]:80");
    let error = ask_tcp(&world.machine, "[::1]:8080").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    ask_tcp(&world.machine, "127.0.0.1:8080").unwrap();
}

#[test]
fn a_host_port_at_one_address_answers_only_there() {
    let Some(world) = World::new("a_host_port_at_one_address_answers_only_there") else { return };
    world.add_uplink("up1", &[("198.51.100.1", "198.51.100.100", 24)], 1500);
    let network = world.open();
    let first = Pod::new("first").port_at(MACHINE, Protocol::Tcp, 8080, 80);
    let second = Pod::new("second").port_at("198.51.100.1", Protocol::Tcp, 8080, 81);
    let third =
        Pod::new("third").port_at("127.0.0.1", Protocol::Tcp, 8081, 80).port_at(MACHINE_V6, Protocol::Tcp, 8082, 80);
    for pod in [&first, &second, &third] {
        pod.attach(&network);
    }
    serve_tcp(&first.namespace, "0.0.0.0:80");
    serve_tcp(&second.namespace, "0.0.0.0:81");
    serve_tcp(&third.namespace, "[::]:80");
    assert_eq!(ask_tcp(&world.outside, &format!("{MACHINE}:8080")).unwrap(), OUTSIDE);
    assert_eq!(ask_tcp(&world.outside, "198.51.100.1:8080").unwrap(), "198.51.100.100");
    assert!(ask_tcp(&world.machine, "127.0.0.1:8080").is_err());
    ask_tcp(&world.machine, "127.0.0.1:8081").unwrap();
    assert!(ask_tcp(&world.outside, &format!("{MACHINE}:8081")).is_err());
    assert_eq!(ask_tcp(&world.outside, &format!("[{MACHINE_V6}]:8082")).unwrap(), OUTSIDE_V6);
    assert!(ask_tcp(&world.outside, &format!("{MACHINE}:8082")).is_err());
}

#[test]
fn an_interface_that_comes_later_serves_pods_as_well() {
    let Some(world) = World::new("an_interface_that_comes_later_serves_pods_as_well") else { return };
    let network = world.open();
    let pod = Pod::new("web").port(Protocol::Tcp, 8080, 80);
    pod.attach(&network);
    world.add_uplink("up1", &[("198.51.100.1", "198.51.100.100", 24), ("2001:db8:1::1", "2001:db8:1::100", 64)], 1500);
    serve_tcp(&pod.namespace, "[::]:80");
    serve_tcp(&world.outside, "[::]:80");
    assert_eq!(ask_tcp(&world.outside, "198.51.100.1:8080").unwrap(), "198.51.100.100");
    assert_eq!(ask_tcp(&world.outside, "[2001:db8:1::1]:8080").unwrap(), "2001:db8:1::100");
    assert_eq!(ask_tcp(&pod.namespace, "198.51.100.100:80").unwrap(), "198.51.100.1");
    assert_eq!(ask_tcp(&pod.namespace, "[2001:db8:1::100]:80").unwrap(), "2001:db8:1::1");
    pod.detach(&network);
    assert_eq!(world.machine.sysctl("net/ipv4/conf/default/forwarding"), "0", "forwarding is put back");
}

#[test]
fn pods_do_not_reach_services_on_the_machines_loopback() {
    let Some(world) = World::new("pods_do_not_reach_services_on_the_machines_loopback") else { return };
    let network = world.open();
    let pod = Pod::new("a");
    pod.attach(&network);
    serve_tcp(&world.machine, "127.0.0.1:9000");
    ask_tcp(&world.machine, "127.0.0.1:9000").unwrap();
    // The Pod sends packets for 127.0.0.1 to the gateway, as an attacker with raw sockets would.
    pod.namespace.run(|| std::fs::write("/proc/sys/net/ipv4/conf/all/route_localnet", "1").unwrap());
    pod.namespace.with_links(|links| async move {
        use rtnetlink::RouteMessageBuilder;
        links.link().set(rtnetlink::LinkUnspec::new_with_name("lo").down().build()).execute().await.unwrap();
        let route = RouteMessageBuilder::<std::net::Ipv4Addr>::new()
            .destination_prefix("127.0.0.0".parse().unwrap(), 8)
            .gateway("10.88.0.1".parse().unwrap())
            .build();
        links.route().add(route).execute().await.unwrap();
    });
    assert!(ask_tcp(&pod.namespace, "127.0.0.1:9000").is_err());
}

#[test]
fn a_host_port_that_is_taken_is_refused_and_leaves_nothing() {
    let Some(world) = World::new("a_host_port_that_is_taken_is_refused_and_leaves_nothing") else { return };
    let network = world.open();
    let first = Pod::new("first").port(Protocol::Tcp, 8080, 80);
    let second = Pod::new("second").port_at(MACHINE, Protocol::Tcp, 8080, 80);
    first.attach(&network);
    let error = second.try_attach(&network).unwrap_err();
    assert!(matches!(&error, NetworkError::PortTaken { port: 8080, by, .. } if *by == first.id()), "{error}");
    let busy = Pod::new("busy").port(Protocol::Tcp, 9000, 80);
    serve_tcp(&world.machine, "127.0.0.1:9000");
    let error = busy.try_attach(&network).unwrap_err();
    assert!(matches!(error, NetworkError::PortBusy { port: 9000, .. }), "{error}");
    assert_eq!(second.namespace.interfaces(), ["lo"]);
    first.detach(&network);
    second.attach(&network);
    second.detach(&network);
    assert_eq!(world.traces(), [""; 0]);
}

#[test]
fn a_udp_client_that_goes_on_sending_reaches_the_new_pod() {
    let Some(world) = World::new("a_udp_client_that_goes_on_sending_reaches_the_new_pod") else { return };
    let network = world.open();
    let keep = Pod::new("keep");
    keep.attach(&network);
    let first = Pod::new("first").port(Protocol::Udp, 8053, 53);
    first.attach(&network);
    serve_udp(&first.namespace, "0.0.0.0:53", "first");
    assert_eq!(ask_udp(&world.outside, &format!("{MACHINE}:8053"), 4000).unwrap(), format!("first {OUTSIDE}"));
    first.detach(&network);
    assert!(ask_udp(&world.outside, &format!("{MACHINE}:8053"), 4000).is_err());
    let second = Pod::new("second").port(Protocol::Udp, 8053, 53);
    second.attach(&network);
    serve_udp(&second.namespace, "0.0.0.0:53", "second");
    assert_eq!(ask_udp(&world.outside, &format!("{MACHINE}:8053"), 4000).unwrap(), format!("second {OUTSIDE}"));
}

#[test]
fn detach_works_from_disk_when_the_namespace_is_gone_and_twice() {
    let Some(world) = World::new("detach_works_from_disk_when_the_namespace_is_gone_and_twice") else { return };
    let network = world.open();
    let pod = Pod::new("a").port(Protocol::Tcp, 8080, 80);
    pod.attach(&network);
    let id = pod.id();
    drop(pod);
    drop(network);
    let network = world.open();
    block_on(network.detach(&id)).unwrap();
    block_on(network.detach(&id)).unwrap();
    assert_eq!(world.traces(), [""; 0]);
}

#[test]
fn attaching_again_replaces_what_was_there() {
    let Some(world) = World::new("attaching_again_replaces_what_was_there") else { return };
    let network = world.open();
    let pod = Pod::new("a").port(Protocol::Tcp, 8080, 80);
    pod.attach(&network);
    let again = pod.attach(&network);
    serve_tcp(&pod.namespace, "0.0.0.0:80");
    assert_eq!(ask_tcp(&world.outside, &format!("{MACHINE}:8080")).unwrap(), OUTSIDE);
    assert!(again.ips[0].is_ipv4());
    pod.detach(&network);
    assert_eq!(world.traces(), [""; 0]);
}

#[test]
fn the_machines_own_namespace_is_refused() {
    let Some(world) = World::new("the_machines_own_namespace_is_refused") else { return };
    let network = world.open();
    let mut pod = Pod::new("a");
    pod.request.netns = world.machine.path();
    assert!(matches!(pod.try_attach(&network), Err(NetworkError::HostNamespace(_))));
    pod.request.netns = "/proc/1/ns/no-such".into();
    assert!(matches!(pod.try_attach(&network), Err(NetworkError::Namespace { .. })));
    pod.request.netns = "/dev/null".into();
    let error = pod.try_attach(&network).unwrap_err();
    assert!(matches!(error, NetworkError::Namespace { .. }), "{error}");
    assert_eq!(world.traces(), [""; 0]);
}

#[test]
fn a_hundred_pods_attach_at_once_and_leave_nothing() {
    let Some(world) = World::new("a_hundred_pods_attach_at_once_and_leave_nothing") else { return };
    let network = world.open();
    let pods: Vec<Pod> = (0..100).map(|n| Pod::new(&format!("p{n}")).port(Protocol::Tcp, 20_000 + n, 80)).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let attached = runtime.block_on(futures_util::future::join_all(pods.iter().map(|p| network.attach(&p.request))));
    let addresses: HashSet<IpAddr> =
        attached.into_iter().flat_map(|a| a.unwrap_or_else(|error| panic!("{}", error_chain(&error))).ips).collect();
    assert_eq!(addresses.len(), 200);
    assert_eq!(world.elements("minke0"), 200);
    serve_tcp(&pods[77].namespace, "[::]:80");
    assert_eq!(ask_tcp(&world.outside, &format!("{MACHINE}:20077")).unwrap(), OUTSIDE);
    let ids: Vec<SandboxId> = pods.iter().map(Pod::id).collect();
    let detached = runtime.block_on(futures_util::future::join_all(ids.iter().map(|id| network.detach(id))));
    for done in detached {
        done.unwrap();
    }
    assert_eq!(world.traces(), [""; 0]);
}

#[test]
fn a_flushed_ruleset_and_a_removed_bridge_are_repaired() {
    let Some(world) = World::new("a_flushed_ruleset_and_a_removed_bridge_are_repaired") else { return };
    let network = world.open();
    let pod = Pod::new("web").port(Protocol::Tcp, 8080, 80);
    pod.attach(&network);
    serve_tcp(&pod.namespace, "0.0.0.0:80");
    let flush = || {
        world.machine.block_on(|| async {
            nlink::Connection::<nlink::netlink::Nftables>::new().unwrap().flush_ruleset().await.unwrap();
        });
        assert!(!world.has_table("minke0"));
    };
    // By the next attach.
    flush();
    let next = Pod::new("next");
    next.attach(&network);
    assert_eq!(ask_tcp(&world.outside, &format!("{MACHINE}:8080")).unwrap(), OUTSIDE);
    // By recovery, also with the bridge gone.
    flush();
    world.machine.with_links(|links| async move {
        let bridge = rtnetlink::LinkUnspec::new_with_name("minke0").build();
        links.link().del_with_message(bridge).execute().await.unwrap();
    });
    let live = HashSet::from([pod.id(), next.id()]);
    block_on(network.recover(&live)).unwrap();
    assert_eq!(ask_tcp(&world.outside, &format!("{MACHINE}:8080")).unwrap(), OUTSIDE);
    serve_tcp(&world.outside, "0.0.0.0:80");
    assert_eq!(ask_tcp(&next.namespace, &format!("{OUTSIDE}:80")).unwrap(), MACHINE);
    // A detach with everything gone is no error.
    flush();
    pod.detach(&network);
    next.detach(&network);
    assert_eq!(world.traces(), [""; 0]);
}

#[test]
fn a_firewall_that_forwards_nothing_is_passed_and_left_as_it_was() {
    use nlink::netlink::nftables::{BaseChain, Chain, Family, FilterHook, Policy, Priority};
    let Some(world) = World::new("a_firewall_that_forwards_nothing_is_passed_and_left_as_it_was") else { return };
    let rules = || {
        world.machine.block_on(|| async {
            let connection = nlink::Connection::<nlink::netlink::Nftables>::new().unwrap();
            connection.list_rules("filter", Family::Ip).await.unwrap().len()
        })
    };
    world.machine.block_on(|| async {
        let connection = nlink::Connection::<nlink::netlink::Nftables>::new().unwrap();
        connection.add_table("filter", Family::Ip).await.unwrap();
        let base = BaseChain::filter(FilterHook::Forward, Priority::Filter).policy(Policy::Drop);
        connection.add_chain(Chain::new("filter", "FORWARD").unwrap().family(Family::Ip).base(base)).await.unwrap();
    });
    let network = world.open();
    let pod = Pod::new("web").port(Protocol::Tcp, 8080, 80);
    pod.attach(&network);
    serve_tcp(&pod.namespace, "0.0.0.0:80");
    serve_tcp(&world.outside, "0.0.0.0:80");
    assert_eq!(ask_tcp(&world.outside, &format!("{MACHINE}:8080")).unwrap(), OUTSIDE);
    assert_eq!(ask_tcp(&pod.namespace, &format!("{OUTSIDE}:80")).unwrap(), MACHINE);
    assert_eq!(rules(), 3);
    block_on(network.recover(&HashSet::from([pod.id()]))).unwrap();
    assert_eq!(rules(), 3, "they are added once");
    pod.detach(&network);
    assert_eq!(rules(), 0);
}

#[test]
fn recovery_undoes_the_dead_and_keeps_the_living() {
    let Some(world) = World::new("recovery_undoes_the_dead_and_keeps_the_living") else { return };
    let network = world.open();
    let pods: Vec<Pod> = (0..6).map(|n| Pod::new(&format!("p{n}")).port(Protocol::Tcp, 8080 + n, 80)).collect();
    for pod in &pods {
        pod.attach(&network);
    }
    serve_tcp(&pods[0].namespace, "0.0.0.0:80");
    drop(network);
    let network = world.open();
    block_on(network.recover(&HashSet::from([pods[0].id()]))).unwrap();
    assert_eq!(world.elements("minke0"), 2);
    assert_eq!(world.machine.interfaces().len(), 4, "{:?}", world.machine.interfaces());
    assert_eq!(ask_tcp(&world.outside, &format!("{MACHINE}:8080")).unwrap(), OUTSIDE);
    block_on(network.recover(&HashSet::new())).unwrap();
    assert_eq!(world.traces(), [""; 0]);
}

#[test]
fn two_state_directories_live_side_by_side() {
    let Some(world) = World::new("two_state_directories_live_side_by_side") else { return };
    let other_state = tempfile::tempdir().unwrap();
    let mut other_config = world.config();
    other_config.state = other_state.path().to_owned();
    let (ours, theirs) = (world.open(), world.open_with(other_config.clone()));
    let (a, b) = (Pod::new("same").port(Protocol::Tcp, 8080, 80), Pod::new("other").port(Protocol::Tcp, 8081, 80));
    let (at, bt) = (a.attach(&ours), b.attach(&theirs));
    assert!(at.ips[0].to_string().starts_with("10.88."), "{at:?}");
    assert!(bt.ips[0].to_string().starts_with("10.89."), "{bt:?}");
    serve_tcp(&a.namespace, "0.0.0.0:80");
    serve_tcp(&b.namespace, "0.0.0.0:80");
    block_on(ours.recover(&HashSet::from([a.id()]))).unwrap();
    ask_tcp(&world.outside, &format!("{MACHINE}:8080")).unwrap();
    ask_tcp(&world.outside, &format!("{MACHINE}:8081")).unwrap();
    // Pods of two instances talk through the machine.
    ask_tcp(&a.namespace, &format!("{}:80", bt.ips[0])).unwrap();
    a.detach(&ours);
    ask_tcp(&world.outside, &format!("{MACHINE}:8081")).unwrap();
    b.detach(&theirs);
    assert_eq!(world.traces(), [""; 0]);
    let mut taken = other_config;
    taken.bridge = Some("up0".to_owned());
    let theirs = world.open_with(taken);
    assert!(matches!(b.try_attach(&theirs), Err(NetworkError::BridgeTaken(name)) if name == "up0"));
}

#[test]
fn one_family_alone_works() {
    let Some(world) = World::new("one_family_alone_works") else { return };
    let mut config = world.config();
    config.ipv6 = AddressPool::Off;
    let network = world.open_with(config.clone());
    let pod = Pod::new("a").port(Protocol::Tcp, 8080, 80);
    assert_eq!(pod.attach(&network).ips.len(), 1);
    pod.detach(&network);
    config.ipv4 = AddressPool::Off;
    config.ipv6 = AddressPool::Subnet("fd00:77::/64".parse().unwrap());
    let network = world.open_with(config);
    let attached = pod.attach(&network);
    assert_eq!(attached.ips, ["fd00:77::3".parse::<IpAddr>().unwrap()]);
    serve_tcp(&pod.namespace, "[::]:80");
    serve_tcp(&world.outside, "[::]:80");
    assert_eq!(ask_tcp(&world.outside, &format!("[{MACHINE_V6}]:8080")).unwrap(), OUTSIDE_V6);
    assert_eq!(ask_tcp(&pod.namespace, &format!("[{OUTSIDE_V6}]:80")).unwrap(), MACHINE_V6);
    pod.detach(&network);
    assert_eq!(world.traces(), [""; 0]);
}

#[test]
fn a_dropped_call_is_carried_out_and_can_be_undone() {
    let Some(world) = World::new("a_dropped_call_is_carried_out_and_can_be_undone") else { return };
    let network = world.open();
    for n in 0..20 {
        let pod = Pod::new(&format!("p{n}")).port(Protocol::Tcp, 8080, 80);
        block_on(async {
            let limit = std::time::Duration::from_micros(n * 400);
            let _ = tokio::time::timeout(limit, network.attach(&pod.request)).await;
        });
        pod.detach(&network);
    }
    assert_eq!(world.traces(), [""; 0]);
}

/// Where Debian and the CNI project put the reference plugins.
fn plugin_directory() -> Option<std::path::PathBuf> {
    let directories = ["/usr/lib/cni", "/opt/cni/bin"].map(std::path::PathBuf::from);
    let installed = |directory: &std::path::PathBuf| {
        ["bridge", "host-local", "portmap"].iter().all(|plugin| directory.join(plugin).exists())
    };
    directories.into_iter().find(installed)
}

#[test]
fn the_reference_plugins_connect_a_pod_and_leave_nothing() {
    let test = "the_reference_plugins_connect_a_pod_and_leave_nothing";
    let Some(world) = World::new(test) else { return };
    let Some(plugins) = plugin_directory() else {
        eprintln!("SKIPPED {test}: the CNI reference plugins are not installed");
        return;
    };
    if !["/usr/sbin/iptables", "/sbin/iptables"].iter().any(|path| std::path::Path::new(path).exists()) {
        eprintln!("SKIPPED {test}: the portmap plugin needs iptables");
        return;
    }
    let configurations = world.state.path().join("net.d");
    let leases = world.state.path().join("leases");
    std::fs::create_dir(&configurations).unwrap();
    let list = serde_json::json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge", "bridge": "up-cni", "isGateway": true, "ipMasq": true, "hairpinMode": true,
                "ipam": {
                    "type": "host-local", "dataDir": leases,
                    "ranges": [[{"subnet": "10.99.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    std::fs::write(configurations.join("10-pods.conflist"), list.to_string()).unwrap();
    let mut config = world.config();
    let cni = CniConfig { conf_dir: configurations, bin_dirs: vec![plugins], ..CniConfig::default() };
    config.cni = Some(cni);
    world.machine.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());

    let network = world.open_with(config.clone());
    let pod = Pod::new("web").port(Protocol::Tcp, 8080, 80);
    let attached = pod.attach(&network);
    assert_eq!(attached.ips, ["10.99.0.2".parse::<IpAddr>().unwrap()]);
    assert_eq!(attached.gateway, Some("10.99.0.1".parse().unwrap()));
    serve_tcp(&pod.namespace, "0.0.0.0:80");
    serve_tcp(&world.outside, "0.0.0.0:80");
    assert_eq!(ask_tcp(&world.outside, &format!("{MACHINE}:8080")).unwrap(), OUTSIDE);
    assert_eq!(ask_tcp(&pod.namespace, &format!("{OUTSIDE}:80")).unwrap(), MACHINE);
    drop(network);
    let network = world.open_with(config);
    block_on(network.recover(&HashSet::new())).unwrap();
    let interfaces = world.machine.interfaces();
    assert_eq!(interfaces, ["lo", "up-cni", "up0"], "no end of a veth pair is left of {}", pod.id());
    let lease = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("10.99.");
    let left =
        std::fs::read_dir(leases.join("pods")).unwrap().filter(|entry| lease(&entry.as_ref().unwrap().file_name()));
    assert_eq!(left.count(), 0);
    assert!(ask_tcp(&world.outside, &format!("{MACHINE}:8080")).is_err());
}

#[test]
fn a_bridge_from_a_crash_before_its_mark_is_removed_and_a_strangers_is_not() {
    let Some(world) = World::new("a_bridge_from_a_crash_before_its_mark_is_removed_and_a_strangers_is_not") else {
        return;
    };
    let pod = Pod::new("web");
    let unmark = |bridge: &'static str| {
        world.machine.with_links(move |links| async move {
            let unmarked = rtnetlink::LinkUnspec::new_with_name(bridge).alias("").build();
            links.link().set(unmarked).execute().await.unwrap();
        });
    };
    let network = world.open();
    pod.attach(&network);
    drop(network);
    unmark("minke0");
    block_on(world.open().recover(&HashSet::new())).unwrap();
    assert_eq!(world.traces(), [""; 0]);

    // The same with another hardware address: not the one that we would have made.
    let network = world.open();
    pod.attach(&network);
    drop(network);
    unmark("minke0");
    world.machine.with_links(|links| async move {
        let theirs = rtnetlink::LinkUnspec::new_with_name("minke0").address(vec![2, 0, 0, 0, 0, 1]).build();
        links.link().set(theirs).execute().await.unwrap();
    });
    block_on(world.open().recover(&HashSet::new())).unwrap();
    assert_eq!(world.traces(), ["interface minke0"]);
}

const CHILD_STATE: &str = "MINKE_TEST_NETWORK_STATE";

/// Not a test: the process that [`kill_9_at_any_moment_leaves_nothing_after_recovery`] kills.
#[test]
#[ignore = "a helper process of another test"]
fn churning_child() {
    let Some(state) = std::env::var_os(CHILD_STATE) else { return };
    let mut config = NetworkConfig::new(&state);
    config.cni = None;
    config.machine_lock = std::path::Path::new(&state).join("machine.lock");
    let network = Network::open(config).unwrap();
    let run = std::process::id();
    for n in 0.. {
        let pods: Vec<Pod> =
            (0..3).map(|i| Pod::new(&format!("p{run}-{n}-{i}")).port(Protocol::Tcp, 20_000 + i, 80)).collect();
        block_on(futures_util::future::join_all(pods.iter().map(|pod| network.attach(&pod.request))));
        let ids: Vec<SandboxId> = pods.iter().map(Pod::id).collect();
        block_on(futures_util::future::join_all(ids.iter().map(|id| network.detach(id))));
    }
}

#[test]
fn kill_9_at_any_moment_leaves_nothing_after_recovery() {
    let Some(world) = World::new("kill_9_at_any_moment_leaves_nothing_after_recovery") else { return };
    let mut caught = 0;
    for n in 0..40_u64 {
        let mut child = world.machine.run(|| {
            std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "churning_child"])
                .env(CHILD_STATE, world.state.path())
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap()
        });
        // Wait until it has begun, then for another moment each time.
        let records = world.state.path().join("network/sandboxes");
        let begun = || std::fs::read_dir(&records).is_ok_and(|mut entries| entries.next().is_some());
        let limit = std::time::Duration::from_secs(20);
        block_on(async {
            let wait = async {
                while !begun() {
                    tokio::time::sleep(std::time::Duration::from_micros(200)).await;
                }
                tokio::time::sleep(std::time::Duration::from_micros(n * 1_370)).await;
            };
            tokio::time::timeout(limit, wait).await.unwrap();
        });
        child.kill().unwrap();
        child.wait().unwrap();
        caught += usize::from(!world.traces().is_empty());
        let network = world.open();
        block_on(network.recover(&HashSet::new())).unwrap_or_else(|error| panic!("{n}: {}", error_chain(&error)));
        assert_eq!(world.traces(), [""; 0], "after kill {n}");
    }
    assert!(caught > 20, "only {caught} of 40 kills left something to recover");
}
