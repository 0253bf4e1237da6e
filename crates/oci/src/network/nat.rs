//! Address translation: one nftables table, and the only file that knows `nlink`.
//!
//! ```text
//! table inet <bridge> {
//!   map to4 { proto . port          : pod . port }   any local address
//!   map at4 { address . proto . port : pod . port }  one local address      (to6, at6 alike)
//!   chain loopback    prerouting, raw    from the bridge to 127.0.0.0/8: drop
//!   chain prerouting  dstnat             to a local address: jump hostports
//!   chain output      dstnat             to a local address but ::1: jump hostports
//!   chain hostports                      dnat by at4, to4, at6, to6
//!   chain postrouting srcnat             from Pods to elsewhere: masquerade
//!                                        translated, from Pods or 127.0.0.0/8, to Pods: masquerade
//! }
//! ```
//! Two map lookups a connection, however many Pods there are. A source outside is kept; one that could not be
//! answered from the Pod's place (itself, its neighbour on the bridge, loopback) is replaced by the gateway.
//!
//! The kernel counts generations of its whole ruleset. As long as the count is the one that our last commit made,
//! nobody has touched anything; otherwise the whole table is put in place again, in one transaction.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use minke_core::runtime::Protocol;
use nlink::Connection;
use nlink::netlink::netfilter::{ConntrackFilter, IpProtocol};
use nlink::netlink::nftables::{
    BaseChain, Chain, ChainName, ChainType, CmpOp, CtState, CtStatus, Expr, Family, FibFlags, FilterHook, LookupExpr,
    MetaKey, NFT_MSG_NEWTABLE, NFTA_TABLE_NAME, NatHook, PayloadBase, Priority, RawExpr, RawMessage, Register, Rule,
    Set, SetDataType, SetElement, SetKeyType, Transaction, Verdict,
};
use nlink::netlink::types::AddressFamily;
use nlink::netlink::types::route::RouteType;
use nlink::netlink::{Netfilter, Nftables};

use super::ipam::Subnets;
use super::translation::{HostAddress, Translation};

/// The kernel refused a change of its packet filter, or has none.
#[derive(Debug, thiserror::Error)]
#[error(
    "{action}; this kernel needs nf_tables with NAT (CONFIG_NF_TABLES, CONFIG_NFT_NAT, CONFIG_NFT_MASQ, CONFIG_NFT_FIB_INET)"
)]
pub struct NatError {
    action: String,
    #[source]
    source: Box<nlink::Error>,
}

fn failed(action: impl Into<String>) -> impl FnOnce(nlink::Error) -> NatError {
    let action = action.into();
    |source| NatError { action, source: Box::new(source) }
}

/// The table of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// Name of the bridge and of the table.
    pub(super) bridge: String,
    pub(super) subnets: Subnets,
}

/// A connection to the packet filter of one network namespace.
pub(super) struct Nat {
    connection: Connection<Nftables>,
    /// The generation that our last commit made.
    generation: Cell<Option<u32>>,
}

impl std::fmt::Debug for Nat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nat").field("generation", &self.generation).finish_non_exhaustive()
    }
}

const FAMILY: Family = Family::Inet;
/// How often a commit is tried again when somebody else commits in between.
const ATTEMPTS: usize = 16;

impl Nat {
    /// Opens a socket in the calling thread's namespace.
    pub(super) fn connect() -> Result<Self, NatError> {
        let connection = Connection::<Nftables>::new().map_err(failed("opening a netlink socket"))?;
        Ok(Self { connection, generation: Cell::new(None) })
    }

    /// Whether nobody has changed the ruleset since our last commit.
    pub(super) async fn untouched(&self) -> bool {
        let now = self.connection.generation().await.ok();
        now.is_some() && now == self.generation.get()
    }

    /// Puts the whole table in place, with these translations and no others. Atomic: packets see the old or the new
    /// table.
    pub(super) async fn replace(&self, table: &Table, translations: &[Translation]) -> Result<(), NatError> {
        for _ in 0..ATTEMPTS {
            let generation = self.connection.generation().await.map_err(failed("reading the generation"))?;
            let transaction = whole(self.connection.transaction(), table, translations)
                .map_err(failed("building the table"))?
                .expect_generation(generation);
            match transaction.commit(&self.connection).await {
                Ok(()) => {
                    self.generation.set(Some(generation.wrapping_add(1)));
                    return Ok(());
                }
                Err(error) if error.is_restart() => {}
                Err(error) => return Err(failed(format!("making table {}", table.bridge))(error)),
            }
        }
        // Somebody commits all the time. Without the check nothing is wrong but that the next call does it again.
        self.generation.set(None);
        let transaction =
            whole(self.connection.transaction(), table, translations).map_err(failed("building the table"))?;
        transaction.commit(&self.connection).await.map_err(failed(format!("making table {}", table.bridge)))
    }

    /// Adds translations to a table that nobody has touched; `Ok(false)` when somebody has, and nothing was done.
    pub(super) async fn add(&self, table: &Table, translations: &[Translation]) -> Result<bool, NatError> {
        let Some(generation) = self.generation.get() else { return Ok(false) };
        let transaction = with_elements(self.connection.transaction(), table, translations);
        match transaction.expect_generation(generation).commit(&self.connection).await {
            Ok(()) => {
                self.generation.set(Some(generation.wrapping_add(1)));
                Ok(true)
            }
            Err(error) if error.is_restart() || error.is_not_found() => Ok(false),
            Err(error) => Err(failed("adding host ports")(error)),
        }
    }

    /// Removes translations. What is not there is fine, the whole table included.
    pub(super) async fn remove(&self, table: &Table, translations: &[Translation]) -> Result<(), NatError> {
        if translations.is_empty() {
            return Ok(());
        }
        let maps = Maps::of(table);
        let mut transaction = self.connection.transaction();
        for translation in translations {
            let (map, key, _) = maps.element(translation);
            transaction = transaction.del_set_elements(map, &[key]);
        }
        let generation = self.generation.get();
        if let Some(generation) = generation {
            transaction = transaction.expect_generation(generation);
        }
        match transaction.commit(&self.connection).await {
            Ok(()) => {
                self.generation.set(generation.map(|generation| generation.wrapping_add(1)));
                Ok(())
            }
            // Somebody was here, or an attach stopped before it added all: one by one, and the next attach looks
            // at everything.
            Err(error) if error.is_restart() || error.is_not_found() => {
                self.generation.set(None);
                for translation in translations {
                    let (map, key, _) = maps.element(translation);
                    let removed =
                        self.connection.transaction().del_set_elements(map, &[key]).commit(&self.connection).await;
                    present(removed).map_err(failed("removing host ports"))?;
                }
                Ok(())
            }
            Err(error) => Err(failed("removing host ports")(error)),
        }
    }

    /// Removes the table and what [`Nat::pass_firewalls`] added. Idempotent.
    pub(super) async fn delete(&self, table: &Table) -> Result<(), NatError> {
        self.generation.set(None);
        let name = &table.bridge;
        present(self.connection.del_table(name.as_str(), FAMILY).await)
            .map_err(failed(format!("removing table {name}")))?;
        for chain in self.dropping_chains(table, Policies::Any).await? {
            for rule in self.rules(&chain).await? {
                if rule.comment.as_deref() == Some(&comment(table)) {
                    let removed = self.connection.del_rule(&chain.table, &chain.name, chain.family, rule.handle).await;
                    present(removed).map_err(failed(format!("removing a rule of chain {chain}")))?;
                }
            }
        }
        Ok(())
    }

    /// Lets Pods' packets through firewalls that forward nothing unless told. Accepting in a chain of ours would not
    /// help: another chain that drops has the last word. The rules go to the end of such a chain, so every rule of
    /// its owner still comes first. Idempotent.
    pub(super) async fn pass_firewalls(&self, table: &Table) -> Result<(), NatError> {
        let mut added = false;
        for chain in self.dropping_chains(table, Policies::Drop).await? {
            let comment = comment(table);
            if self.rules(&chain).await?.iter().any(|rule| rule.comment.as_ref() == Some(&comment)) {
                continue;
            }
            tracing::warn!(%chain, bridge = table.bridge, "a firewall drops forwarded packets; added rules for pods");
            let rule = || Rule::new(&chain.table, &chain.name).family(chain.family).comment(&comment);
            let bridge = table.bridge.as_str();
            self.connection
                .transaction()
                .add_rule(rule().match_iif(bridge).accept())
                .add_rule(
                    rule()
                        .match_oif(bridge)
                        .match_ct_state(CtState(CtState::ESTABLISHED.0 | CtState::RELATED.0))
                        .accept(),
                )
                .add_rule(rule().match_oif(bridge).match_ct_status(CtStatus::DST_NAT).accept())
                .commit(&self.connection)
                .await
                .map_err(failed(format!("adding rules to chain {chain}")))?;
            added = true;
        }
        if added {
            self.generation.set(self.connection.generation().await.ok());
        }
        Ok(())
    }

    /// Forgets connections to UDP host ports: a client that goes on sending would be sent to where the port led
    /// before. TCP clients notice by themselves.
    pub(super) async fn forget_connections(&self, translations: &[Translation]) -> Result<(), NatError> {
        let udp: Vec<&Translation> = translations.iter().filter(|t| t.protocol == Protocol::Udp).collect();
        if udp.is_empty() {
            return Ok(());
        }
        let connection = Connection::<Netfilter>::new().map_err(failed("opening a netlink socket"))?;
        for translation in udp {
            let family = if translation.to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
            let mut filter =
                ConntrackFilter::new().family(family).proto(IpProtocol::Udp).orig_dst_port(translation.port);
            if let HostAddress::One(address) = translation.address {
                filter = filter.orig_dst(address);
            }
            match connection.del_conntrack_matching(&filter).await {
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(failed("forgetting connections")(error)),
            }
        }
        Ok(())
    }

    async fn dropping_chains(&self, table: &Table, policies: Policies) -> Result<Vec<ForeignChain>, NatError> {
        /// `NF_INET_FORWARD`.
        const FORWARD: u32 = 2;
        /// `NF_DROP`.
        const DROP: u32 = 0;
        let chains = self.connection.list_chains().await.map_err(failed("listing chains"))?;
        let wanted = chains.into_iter().filter(|chain| {
            chain.hook == Some(FORWARD)
                && chain.chain_type == Some(ChainType::Filter)
                && matches!(chain.family, Family::Ip | Family::Ip6 | Family::Inet)
                && chain.table != table.bridge
                && (policies == Policies::Any || chain.policy == Some(DROP))
        });
        Ok(wanted.map(|c| ForeignChain { family: c.family, table: c.table, name: c.name }).collect())
    }

    async fn rules(&self, chain: &ForeignChain) -> Result<Vec<ForeignRule>, NatError> {
        let rules = self.connection.list_rules(&chain.table, chain.family).await;
        let rules = rules.map_err(failed(format!("listing the rules of chain {chain}")))?;
        let wanted = rules.into_iter().filter(|rule| rule.chain == chain.name);
        Ok(wanted.map(|rule| ForeignRule { handle: rule.handle, comment: rule.comment_text }).collect())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Policies {
    Any,
    Drop,
}

struct ForeignChain {
    family: Family,
    table: String,
    name: String,
}

impl std::fmt::Display for ForeignChain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.family.name(), self.table, self.name)
    }
}

struct ForeignRule {
    handle: u64,
    comment: Option<String>,
}

fn comment(table: &Table) -> String {
    format!("minke {}", table.bridge)
}

/// What is gone already is as good as removed.
fn present(removed: Result<(), nlink::Error>) -> Result<(), nlink::Error> {
    match removed {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

fn whole(transaction: Transaction, table: &Table, translations: &[Translation]) -> nlink::Result<Transaction> {
    let name = table.bridge.as_str();
    // Creating (where it does not exist), deleting and creating is how a table is replaced whatever was there.
    let created = RawMessage::new(NFT_MSG_NEWTABLE, FAMILY)
        .flags(libc::NLM_F_CREATE as u16)
        .attrs(attribute(NFTA_TABLE_NAME, format!("{name}\0").as_bytes()));
    let mut transaction = transaction.raw(created).del_table(name, FAMILY).add_table(name, FAMILY);
    for map in Maps::of(table).all() {
        transaction = transaction.add_set(map);
    }
    for chain in chains(name)? {
        transaction = transaction.add_chain(chain);
    }
    for rule in rules(table) {
        transaction = transaction.add_rule(rule);
    }
    Ok(with_elements(transaction, table, translations))
}

fn with_elements(mut transaction: Transaction, table: &Table, translations: &[Translation]) -> Transaction {
    let maps = Maps::of(table);
    for translation in translations {
        let (map, key, value) = maps.element(translation);
        transaction = transaction.add_set_elements(map, &[key.value(value)]);
    }
    transaction
}

fn chains(table: &str) -> nlink::Result<Vec<Chain>> {
    let base = [
        ("loopback", BaseChain::filter(FilterHook::Prerouting, Priority::Raw)),
        ("prerouting", BaseChain::nat(NatHook::Prerouting, Priority::DstNat)),
        ("output", BaseChain::nat(NatHook::Output, Priority::DstNat)),
        ("postrouting", BaseChain::nat(NatHook::Postrouting, Priority::SrcNat)),
    ];
    let mut chains = vec![Chain::new(table, "hostports")?.family(FAMILY)];
    for (name, base) in base {
        chains.push(Chain::new(table, name)?.family(FAMILY).base(base));
    }
    Ok(chains)
}

fn rules(table: &Table) -> Vec<Rule> {
    let bridge = table.bridge.as_str();
    let rule = |chain: &str| Rule::new(bridge, chain).family(FAMILY);
    // The bridge routes 127.0.0.0/8 so that the machine reaches host ports there; Pods must not reach the machine's
    // own services there.
    let mut rules = vec![rule("loopback").match_iif(bridge).match_daddr_v4(Ipv4Addr::new(127, 0, 0, 0), 8).drop()];
    // Linux drops what would come back to ::1 over a bridge. Refused at once is better than never answered: clients then
    // try 127.0.0.1.
    rules.push(rule("output").match_daddr_v6(Ipv6Addr::LOCALHOST, 128).expr(Expr::Verdict(Verdict::Return)));
    if let Ok(hostports) = ChainName::new("hostports") {
        for chain in ["prerouting", "output"] {
            rules.push(rule(chain).match_fib_type(FibFlags::DADDR, RouteType::Local).jump(hostports.clone()));
        }
    }
    for (family, map, key) in [
        (Family::Ip, "at4", Key::Address),
        (Family::Ip, "to4", Key::Port),
        (Family::Ip6, "at6", Key::Address),
        (Family::Ip6, "to6", Key::Port),
    ] {
        rules.push(rule("hostports").expressions(translate(family, map, key)));
    }
    if let Some(subnet) = table.subnets.v4 {
        let from_pods = || rule("postrouting").match_saddr_v4(subnet.network(), subnet.prefix());
        rules.push(from_pods().match_oif_not(bridge).match_daddr_v4_not(Ipv4Addr::new(224, 0, 0, 0), 4).masquerade());
        rules.push(from_pods().match_oif(bridge).match_ct_status(CtStatus::DST_NAT).masquerade());
        let from_loopback = rule("postrouting").match_saddr_v4(Ipv4Addr::new(127, 0, 0, 0), 8);
        rules.push(from_loopback.match_oif(bridge).match_ct_status(CtStatus::DST_NAT).masquerade());
    }
    if let Some(subnet) = table.subnets.v6 {
        let from_pods = || rule("postrouting").match_saddr_v6(subnet.network(), subnet.prefix());
        let multicast = Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0);
        rules.push(from_pods().match_oif_not(bridge).match_daddr_v6_not(multicast, 8).masquerade());
        rules.push(from_pods().match_oif(bridge).match_ct_status(CtStatus::DST_NAT).masquerade());
    }
    rules
}

#[derive(Clone, Copy)]
enum Key {
    /// Protocol and port.
    Port,
    /// Address, protocol and port.
    Address,
}

/// `meta nfproto <family> dnat <family> to [ip daddr .] meta l4proto . th dport map @<map>`.
fn translate(family: Family, map: &str, key: Key) -> Vec<Expr> {
    // Where things lie in the packet and in the registers (in words of four bytes).
    let (protocol, offset, length) =
        if family == Family::Ip { (libc::NFPROTO_IPV4, 16, 4) } else { (libc::NFPROTO_IPV6, 24, 16) };
    let words = length as usize / 4;
    let after_address = match key {
        Key::Port => 0,
        Key::Address => words,
    };
    let register = |word: usize| Register::word(word).unwrap_or(Register::R0);
    let mut expressions = vec![
        Expr::Meta { dreg: Register::R0, key: MetaKey::NfProto },
        Expr::Cmp { sreg: Register::R0, op: CmpOp::Eq, data: vec![protocol as u8] },
    ];
    match key {
        Key::Port => {}
        Key::Address => {
            expressions.push(Expr::Payload { dreg: Register::R0, base: PayloadBase::Network, offset, len: length });
        }
    }
    expressions.push(Expr::Meta { dreg: register(after_address), key: MetaKey::L4Proto });
    expressions.push(Expr::Payload {
        dreg: register(after_address + 1),
        base: PayloadBase::Transport,
        offset: 2,
        len: 2,
    });
    expressions.push(LookupExpr::new(map, Register::R0).dreg(Register::R0).into());
    expressions.push(destination_nat(family, Register::R0, register(words)).into());
    expressions
}

/// The `nat` expression with both address and port from registers, which `nlink` has no builder for: attributes
/// `NFTA_NAT_TYPE` (1) to `NFTA_NAT_REG_PROTO_MIN` (5) of `linux/netfilter/nf_tables.h`.
fn destination_nat(family: Family, address: Register, port: Register) -> RawExpr {
    const DNAT: u32 = 1;
    let attributes = [(1, DNAT), (2, family as u32), (3, address.wire()), (5, port.wire())];
    RawExpr::new("nat", attributes.iter().flat_map(|(kind, value)| attribute(*kind, &value.to_be_bytes())).collect())
}

/// One netlink attribute: length, kind, value, padded to four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

struct Maps {
    to4: Set,
    at4: Set,
    to6: Set,
    at6: Set,
}

impl Maps {
    fn of(table: &Table) -> Self {
        use SetKeyType::{Concat, InetProto, InetService, Ipv4Addr, Ipv6Addr};
        let map = |name: &str, key: Vec<SetKeyType>, pod: SetKeyType| {
            Set::new(&table.bridge, name)
                .family(FAMILY)
                .key_type(Concat(key))
                .map(SetDataType::Value(Concat(vec![pod, InetService])))
        };
        Self {
            to4: map("to4", vec![InetProto, InetService], Ipv4Addr),
            at4: map("at4", vec![Ipv4Addr, InetProto, InetService], Ipv4Addr),
            to6: map("to6", vec![InetProto, InetService], Ipv6Addr),
            at6: map("at6", vec![Ipv6Addr, InetProto, InetService], Ipv6Addr),
        }
    }

    fn all(self) -> [Set; 4] {
        [self.to4, self.at4, self.to6, self.at6]
    }

    fn element(&self, translation: &Translation) -> (&Set, SetElement, SetElement) {
        let protocol = SetElement::inet_proto(match translation.protocol {
            Protocol::Tcp => libc::IPPROTO_TCP as u8,
            Protocol::Udp => libc::IPPROTO_UDP as u8,
            Protocol::Sctp => libc::IPPROTO_SCTP as u8,
        });
        let port = SetElement::port(translation.port);
        let value = SetElement::concat([ip(translation.to.ip()), SetElement::port(translation.to.port())]);
        let (map, key) = match (translation.to.ip(), translation.address) {
            (IpAddr::V4(_), HostAddress::Any) => (&self.to4, SetElement::concat([protocol, port])),
            (IpAddr::V6(_), HostAddress::Any) => (&self.to6, SetElement::concat([protocol, port])),
            (IpAddr::V4(_), HostAddress::One(at)) => (&self.at4, SetElement::concat([ip(at), protocol, port])),
            (IpAddr::V6(_), HostAddress::One(at)) => (&self.at6, SetElement::concat([ip(at), protocol, port])),
        };
        (map, key, value)
    }
}

fn ip(address: IpAddr) -> SetElement {
    match address {
        IpAddr::V4(address) => SetElement::ipv4(address),
        IpAddr::V6(address) => SetElement::ipv6(address),
    }
}
