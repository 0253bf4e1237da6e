//! A small world of network namespaces: a "machine" with an uplink, an "outside" at its other end, Pods.
//!
//! Nothing here touches the real network of the machine that runs the tests.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test whose world can't be built has failed")]

use std::fs::File;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::mpsc;

use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{PortMapping, Protocol, SandboxId};
use minke_oci::network::{AttachRequest, Attachment, Network, NetworkConfig, NetworkError};
use rtnetlink::packet_route::link::{InfoData, InfoKind, InfoVeth};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

/// Address of the machine on its uplink.
pub(crate) const MACHINE: &str = "192.0.2.1";
/// Address of the machine on its uplink.
pub(crate) const MACHINE_V6: &str = "2001:db8::1";
/// Address of the outside.
pub(crate) const OUTSIDE: &str = "192.0.2.100";
/// Address of the outside.
pub(crate) const OUTSIDE_V6: &str = "2001:db8::100";

/// A network namespace, alive as long as this is.
#[derive(Debug)]
pub(crate) struct Namespace {
    file: File,
}

impl Namespace {
    pub(crate) fn new() -> io::Result<Self> {
        std::thread::spawn(|| {
            unshare()?;
            let file = File::open("/proc/thread-self/ns/net")?;
            let namespace = Self { file };
            namespace.with_links(|links| async move {
                links.link().set(LinkUnspec::new_with_name("lo").up().build()).execute().await.unwrap();
            });
            Ok(namespace)
        })
        .join()
        .unwrap()
    }

    /// A path to it for any process of the machine.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }

    /// Runs something inside, on a thread of its own.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Starts something inside that outlives the call.
    pub(crate) fn start<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) {
        let file = self.file.try_clone().unwrap();
        std::thread::spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        });
    }

    /// Runs async work inside.
    pub(crate) fn block_on<T: Send, F: Future<Output = T>>(&self, work: impl FnOnce() -> F + Send) -> T {
        self.run(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(work())
        })
    }

    pub(crate) fn with_links<T: Send, F: Future<Output = T>>(&self, work: impl FnOnce(Handle) -> F + Send) -> T {
        self.block_on(|| async {
            let (connection, handle, _) = rtnetlink::new_connection().unwrap();
            tokio::spawn(connection);
            work(handle).await
        })
    }

    /// Names of its interfaces.
    pub(crate) fn interfaces(&self) -> Vec<String> {
        self.run(|| {
            let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
            let mut names: Vec<String> = text
                .lines()
                .skip(2)
                .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
                .filter(|name| !name.starts_with("ifb"))
                .collect();
            names.sort();
            names
        })
    }

    pub(crate) fn mtu(&self, name: &str) -> u32 {
        self.with_links(|links| async move {
            use futures_util::TryStreamExt as _;
            let found = links.link().get().match_name(name).execute().try_next().await.unwrap().unwrap();
            let mtu = found.attributes.iter().find_map(|attribute| match attribute {
                rtnetlink::packet_route::link::LinkAttribute::Mtu(mtu) => Some(*mtu),
                _ => None,
            });
            mtu.unwrap()
        })
    }

    pub(crate) fn sysctl(&self, key: &str) -> String {
        let path = format!("/proc/sys/{key}");
        self.run(|| std::fs::read_to_string(&path).unwrap_or_default().trim().to_owned())
    }
}

#[expect(unsafe_code, reason = "rustix has no safe unshare; only the network namespace is left")]
fn unshare() -> io::Result<()> {
    // SAFETY: the flags do not include `FILES`, the only one that endangers other threads' descriptors.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.map_err(io::Error::from)
}

async fn index(links: &Handle, name: &str) -> u32 {
    use futures_util::TryStreamExt as _;
    let found = links.link().get().match_name(name).execute().try_next().await;
    found.unwrap().unwrap_or_else(|| panic!("no link {name}")).header.index
}

/// A machine with an uplink to an outside, and the network under test on it.
pub(crate) struct World {
    pub(crate) machine: Namespace,
    pub(crate) outside: Namespace,
    pub(crate) state: tempfile::TempDir,
}

impl World {
    /// `None`, with a line that says so, where network namespaces can't be made.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let (machine, outside) = match (Namespace::new(), Namespace::new()) {
            (Ok(machine), Ok(outside)) => (machine, outside),
            (Err(error), _) | (_, Err(error)) => {
                eprintln!("SKIPPED {test}: no network namespaces: {error}");
                return None;
            }
        };
        let world = Self { machine, outside, state: tempfile::tempdir().unwrap() };
        // New namespaces take this from the real machine, which may forward or not.
        world.machine.run(|| {
            for key in ["ipv4/ip_forward", "ipv4/conf/default/forwarding", "ipv6/conf/all/forwarding"] {
                std::fs::write(format!("/proc/sys/net/{key}"), "0").unwrap();
            }
        });
        world.add_uplink("up0", &[(MACHINE, OUTSIDE, 24), (MACHINE_V6, OUTSIDE_V6, 64)], 1400);
        world.machine.with_links(|links| async move {
            for gateway in [OUTSIDE, OUTSIDE_V6] {
                let route = match gateway.parse().unwrap() {
                    IpAddr::V4(gateway) => {
                        rtnetlink::RouteMessageBuilder::<std::net::Ipv4Addr>::new().gateway(gateway).build()
                    }
                    IpAddr::V6(gateway) => {
                        rtnetlink::RouteMessageBuilder::<std::net::Ipv6Addr>::new().gateway(gateway).build()
                    }
                };
                links.route().add(route).execute().await.unwrap();
            }
        });
        Some(world)
    }

    /// A cable between the machine and the outside.
    pub(crate) fn add_uplink(&self, name: &str, addresses: &[(&str, &str, u8)], mtu: u32) {
        let peer_netns = self.outside.file.as_raw_fd();
        self.machine.with_links(|links| async move {
            let peer = LinkMessageBuilder::<LinkUnspec>::new().name(name).mtu(mtu).setns_by_fd(peer_netns).build();
            let pair = LinkMessageBuilder::<LinkVeth>::new_with_info_kind(InfoKind::Veth)
                .name(name)
                .mtu(mtu)
                .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
                .build();
            links.link().add(pair).execute().await.unwrap();
        });
        for (namespace, side) in [(&self.machine, 0), (&self.outside, 1)] {
            // No duplicate address detection: tests do not wait a second for their addresses.
            namespace.run(|| std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/accept_dad"), "0").unwrap());
            namespace.with_links(|links| async move {
                let index = index(&links, name).await;
                for (ours, theirs, prefix) in addresses {
                    let address = if side == 0 { ours } else { theirs };
                    links.address().add(index, address.parse().unwrap(), *prefix).execute().await.unwrap();
                }
                links.link().set(LinkUnspec::new_with_index(index).up().build()).execute().await.unwrap();
            });
        }
    }

    /// The built-in bridge, whatever plugins this machine has.
    pub(crate) fn config(&self) -> NetworkConfig {
        let mut config = NetworkConfig::new(self.state.path());
        config.cni = None;
        config.machine_lock = self.state.path().join("machine.lock");
        config
    }

    pub(crate) fn open(&self) -> Network {
        self.open_with(self.config())
    }

    pub(crate) fn open_with(&self, config: NetworkConfig) -> Network {
        self.machine.run(|| Network::open(config)).unwrap()
    }

    /// Whether the machine's packet filter has a table of that name.
    pub(crate) fn has_table(&self, name: &str) -> bool {
        self.tables().iter().any(|table| table == name)
    }

    pub(crate) fn tables(&self) -> Vec<String> {
        self.machine.block_on(|| async {
            let connection = nlink::Connection::<nlink::netlink::Nftables>::new().unwrap();
            connection.list_tables().await.unwrap().into_iter().map(|table| table.name).collect()
        })
    }

    /// Every element of the host port maps.
    pub(crate) fn elements(&self, table: &str) -> usize {
        self.machine.block_on(|| async {
            use nlink::netlink::nftables::Family;
            let connection = nlink::Connection::<nlink::netlink::Nftables>::new().unwrap();
            let mut count = 0;
            for map in ["to4", "at4", "to6", "at6"] {
                count += connection.list_set_elements(table, map, Family::Inet).await.unwrap().len();
            }
            count
        })
    }

    /// Everything that is left of any Pod: interfaces, tables, files. Empty when all is clean.
    pub(crate) fn traces(&self) -> Vec<String> {
        let mut traces: Vec<String> = self
            .machine
            .interfaces()
            .into_iter()
            .filter(|name| name != "lo" && !name.starts_with("up"))
            .map(|name| format!("interface {name}"))
            .collect();
        traces.extend(self.tables().into_iter().map(|name| format!("table {name}")));
        let network = self.state.path().join("network");
        for directory in ["ipam", "ports", "sandboxes"] {
            let Ok(entries) = std::fs::read_dir(network.join(directory)) else { continue };
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            traces.extend(names.filter(|name| name != "last").map(|name| format!("{directory}/{name}")));
        }
        for file in [network.join("instance.json"), self.state.path().join("machine.sysctls.json")] {
            if file.exists() {
                traces.push(file.display().to_string());
            }
        }
        traces
    }
}

/// A Pod: a namespace and what it asks for.
pub(crate) struct Pod {
    pub(crate) namespace: Namespace,
    pub(crate) request: AttachRequest,
}

impl Pod {
    pub(crate) fn new(name: &str) -> Self {
        let namespace = Namespace::empty().unwrap();
        let request = AttachRequest {
            sandbox: SandboxId(format!("{name}-sandbox")),
            pod: PodKey::new("default", name, PodUid::new(format!("{name}-uid")).unwrap()),
            netns: namespace.path(),
            ports: Vec::new(),
        };
        Self { namespace, request }
    }

    pub(crate) fn port(mut self, protocol: Protocol, host: u16, container: u16) -> Self {
        self.request.ports.push(PortMapping { protocol, container_port: container, host_port: host, host_ip: None });
        self
    }

    pub(crate) fn port_at(mut self, ip: &str, protocol: Protocol, host: u16, container: u16) -> Self {
        let host_ip = Some(ip.parse().unwrap());
        self.request.ports.push(PortMapping { protocol, container_port: container, host_port: host, host_ip });
        self
    }

    pub(crate) fn id(&self) -> SandboxId {
        self.request.sandbox.clone()
    }

    pub(crate) fn attach(&self, network: &Network) -> Attachment {
        self.try_attach(network).unwrap_or_else(|error| panic!("{}", minke_core::runtime::error_chain(&error)))
    }

    pub(crate) fn try_attach(&self, network: &Network) -> Result<Attachment, NetworkError> {
        block_on(network.attach(&self.request))
    }

    pub(crate) fn detach(&self, network: &Network) {
        block_on(network.detach(&self.id()))
            .unwrap_or_else(|error| panic!("{}", minke_core::runtime::error_chain(&error)));
    }
}

impl Namespace {
    /// One whose loopback is still down, as a Pod's is.
    fn empty() -> io::Result<Self> {
        std::thread::spawn(|| {
            unshare()?;
            File::open("/proc/thread-self/ns/net").map(|file| Self { file })
        })
        .join()
        .unwrap()
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A server inside a namespace that answers each TCP connection with the client's address.
pub(crate) fn serve_tcp(namespace: &Namespace, at: &str) {
    use std::io::Write as _;
    let (ready, wait) = mpsc::channel();
    let at = at.to_owned();
    namespace.start(move || {
        let listener = std::net::TcpListener::bind(&at).unwrap();
        ready.send(()).unwrap();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let peer = stream.peer_addr().unwrap().ip().to_canonical();
            let _ = write!(stream, "{peer}");
        }
    });
    wait.recv().unwrap();
}

/// A server inside a namespace that answers each datagram with `name` and the client's address.
pub(crate) fn serve_udp(namespace: &Namespace, at: &str, name: &'static str) {
    let (ready, wait) = mpsc::channel();
    let at = at.to_owned();
    namespace.start(move || {
        let socket = std::net::UdpSocket::bind(&at).unwrap();
        ready.send(()).unwrap();
        let mut buffer = [0; 64];
        while let Ok((_, peer)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(format!("{name} {}", peer.ip().to_canonical()).as_bytes(), peer);
        }
    });
    wait.recv().unwrap();
}

/// What a TCP server answers a client inside a namespace.
pub(crate) fn ask_tcp(namespace: &Namespace, to: &str) -> io::Result<String> {
    use std::io::Read as _;
    namespace.run(|| {
        let limit = std::time::Duration::from_secs(3);
        let mut stream = std::net::TcpStream::connect_timeout(&to.parse().unwrap(), limit)?;
        stream.set_read_timeout(Some(limit))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    })
}

/// What a UDP server answers a client inside a namespace, from a fixed port if one is given.
pub(crate) fn ask_udp(namespace: &Namespace, to: &str, from_port: u16) -> io::Result<String> {
    namespace.run(|| {
        let to: std::net::SocketAddr = to.parse().unwrap();
        let any = if to.is_ipv4() { "0.0.0.0" } else { "::" };
        let socket = std::net::UdpSocket::bind((any, from_port))?;
        socket.set_read_timeout(Some(std::time::Duration::from_millis(1500)))?;
        socket.connect(to)?;
        socket.send(b"hello")?;
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
    })
}
