//! The network thread: one tokio runtime, a task for each call, one call at a time for each sandbox.
//!
//! ```text
//! attach: machine's side ready → address claimed → ports claimed → record on disk → ports open
//!         → veth pair → Pod's side configured
//! detach: ports closed → veth pair gone → claims given up → record gone → machine's side removed with the last Pod
//! ```
//! The record is written before anything that only it can undo, and removed after everything else. An attach that
//! fails is undone by the steps of detach; one that stopped dead is undone by the next detach or recovery.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use futures_util::future::join_all;
use minke_core::runtime::{SandboxId, error_chain};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::cni;
use super::config::{Layout, NetworkConfig};
use super::error::NetworkError;
use super::fault::{Fault, Step};
use super::host::Host;
use super::instance::{check_bridge_name, hardware_address};
use super::ipam::Ipam;
use super::links::{Links, VethPair};
use super::lock;
use super::netns::{NamespaceId, Netns};
use super::pod;
use super::ports::HostPorts;
use super::record::{Attached, Record, Records, check_id, link_name};
use super::request::{AttachRequest, Attachment};
use super::service::Command;

/// Starts the thread and waits until it has its sockets.
pub(super) fn start(config: NetworkConfig, commands: mpsc::UnboundedReceiver<Command>) -> Result<(), NetworkError> {
    let failed = |source| NetworkError::Stopped { source: Some(source) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (started, wait) = std::sync::mpsc::channel();
    std::thread::Builder::new()
        .name("minke-network".to_owned())
        .spawn(move || {
            LocalSet::new().block_on(&runtime, async move {
                match Worker::new(config) {
                    Ok(worker) => {
                        let _ = started.send(Ok(()));
                        serve(Rc::new(worker), commands).await;
                    }
                    Err(error) => {
                        let _ = started.send(Err(error));
                    }
                }
            });
        })
        .map_err(failed)?;
    wait.recv().unwrap_or(Err(NetworkError::Stopped { source: None }))
}

async fn serve(worker: Rc<Worker>, mut commands: mpsc::UnboundedReceiver<Command>) {
    let mut calls = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            command = commands.recv() => {
                let Some(command) = command else { break };
                let worker = Rc::clone(&worker);
                calls.spawn_local(async move { worker.carry_out(command).await });
            }
            Some(_) = calls.join_next() => {}
        }
    }
    while calls.join_next().await.is_some() {}
}

struct Worker {
    config: NetworkConfig,
    layout: Layout,
    namespace: NamespaceId,
    host: Host,
    ipam: Ipam,
    ports: HostPorts,
    records: Records,
    fault: Fault,
    /// The calls under way, by sandbox.
    turns: RefCell<HashMap<SandboxId, Rc<tokio::sync::Mutex<()>>>>,
}

impl Worker {
    fn new(config: NetworkConfig) -> Result<Self, NetworkError> {
        if let Some(name) = &config.bridge {
            check_bridge_name(name)?;
        }
        let layout = Layout::new(config.directory());
        std::fs::create_dir_all(layout.root()).map_err(|e| NetworkError::state("creating", layout.root(), e))?;
        let records = Records::open(layout.records())?;
        let ports = HostPorts::open(layout.ports())?;
        let ipam = Ipam::open(layout.addresses())?;
        let (connection, links) = Links::connect()
            .map_err(|source| NetworkError::Netlink { action: "opening a socket".to_owned(), source })?;
        tokio::spawn(connection);
        let namespace = Netns::current()?.id();
        let host = Host::new(config.clone(), layout.clone(), links, records.clone(), ports.clone())?;
        #[cfg(not(test))]
        let fault = Fault::default();
        #[cfg(test)]
        let fault = config.fault;
        Ok(Self { config, layout, namespace, host, ipam, ports, records, fault, turns: RefCell::default() })
    }

    async fn carry_out(&self, command: Command) {
        match command {
            Command::Attach(request, reply) => {
                let sandbox = request.sandbox.clone();
                let done = self.in_turn(&sandbox, self.attach(&request)).await;
                let _ = reply.send(done);
            }
            Command::Detach(sandbox, reply) => {
                let done = self.in_turn(&sandbox, self.detach(&sandbox)).await;
                let _ = reply.send(done);
            }
            Command::Recover(live, reply) => {
                let _ = reply.send(self.recover(&live).await);
            }
        }
    }

    /// One call after the other for each sandbox.
    async fn in_turn<T>(&self, sandbox: &SandboxId, call: impl Future<Output = T>) -> T {
        let turn = Rc::clone(self.turns.borrow_mut().entry(sandbox.clone()).or_default());
        let held = turn.lock().await;
        let done = call.await;
        drop(held);
        // This call's reference and the table's: nobody waits.
        if Rc::strong_count(&turn) == 2 {
            self.turns.borrow_mut().remove(sandbox);
        }
        done
    }

    async fn attach(&self, request: &AttachRequest) -> Result<Attachment, NetworkError> {
        check_id(&request.sandbox)?;
        let netns = Netns::open(&request.netns)?;
        if netns.id() == self.namespace {
            return Err(NetworkError::HostNamespace(request.netns.clone()));
        }
        match self.records.load(&request.sandbox) {
            Ok(None) => {}
            Ok(Some(_)) | Err(NetworkError::Damaged { .. }) => self.detach(&request.sandbox).await?,
            Err(other) => return Err(other),
        }
        let chain = self.config.cni.as_ref().and_then(cni::find);
        let attached = match chain {
            Some(chain) => self.attach_by_cni(request, &netns, chain).await,
            None => self.attach_to_bridge(request, &netns).await,
        };
        match attached {
            Err(error) if !self.fault.is_crash(&error) => {
                if let Err(left) = self.detach(&request.sandbox).await {
                    let left = error_chain(&left);
                    tracing::warn!(sandbox = %request.sandbox, error = left, "could not undo a failed attach; recovery will");
                }
                Err(error)
            }
            attached => attached,
        }
    }

    async fn attach_to_bridge(&self, request: &AttachRequest, netns: &Netns) -> Result<Attachment, NetworkError> {
        let sandbox = &request.sandbox;
        let (ready, addresses) = {
            let mut state = self.host.lock().await;
            let ready = self.host.prepare(&mut state).await?;
            self.fault.passed(Step::HostReady)?;
            let record = {
                let _files = lock::acquire(&self.layout.lock()).await?;
                let addresses = self.ipam.allocate(ready.instance.subnets, sandbox)?;
                self.fault.passed(Step::AddressClaimed)?;
                self.ports.claim(&request.ports, sandbox)?;
                self.fault.passed(Step::PortsClaimed)?;
                let record = record(request, netns, Attached::Bridge(addresses));
                self.records.save(&record)?;
                self.fault.passed(Step::Recorded)?;
                record
            };
            self.host.open_ports(&mut state, &record).await?;
            self.fault.passed(Step::PortsOpen)?;
            let Attached::Bridge(addresses) = record.network else { return Err(NetworkError::NoFamily) };
            (ready, addresses)
        };
        let ips = addresses.list();
        let Some(primary) = ips.first() else { return Err(NetworkError::NoFamily) };
        let inside = pod::enter(netns).await?;
        let name = link_name(sandbox);
        let pair = VethPair {
            name: &name,
            bridge: ready.bridge,
            mtu: ready.mtu,
            peer_name: pod::INTERFACE,
            peer_address: hardware_address(*primary),
            peer_netns: netns.raw_fd(),
        };
        self.host.links.add_veth(pair).await?;
        self.fault.passed(Step::Linked)?;
        if let Some(link) = self.host.links.find(&name).await? {
            self.host.links.start_port(link.index).await?;
        }
        pod::start_loopback(&inside).await?;
        pod::configure(&inside, ready.instance.subnets, addresses).await?;
        self.fault.passed(Step::Configured)?;
        let gateway = ready.instance.subnets.gateway().list().first().copied();
        Ok(Attachment { ips, gateway })
    }

    async fn attach_by_cni(
        &self,
        request: &AttachRequest,
        netns: &Netns,
        chain: cni::Chain,
    ) -> Result<Attachment, NetworkError> {
        {
            let _files = lock::acquire(&self.layout.lock()).await?;
            self.ports.claim(&request.ports, &request.sandbox)?;
        }
        let mut attachment = cni::CniAttachment::new(chain, &request.ports);
        self.records.save(&record(request, netns, Attached::Cni(Box::new(attachment.clone()))))?;
        self.fault.passed(Step::Recorded)?;
        pod::start_loopback(&pod::enter(netns).await?).await?;
        let call = self.cni_call(&request.sandbox, &request.pod, Some(netns.path()));
        let attached = cni::add(&mut attachment, &call).await.map_err(|source| cni_failed(&attachment, source))?;
        self.fault.passed(Step::Linked)?;
        self.records.save(&record(request, netns, Attached::Cni(Box::new(attachment))))?;
        self.fault.passed(Step::Configured)?;
        Ok(attached)
    }

    fn cni_call<'a>(
        &'a self,
        sandbox: &'a SandboxId,
        pod: &'a minke_core::identity::PodKey,
        netns: Option<&'a std::path::Path>,
    ) -> cni::Call<'a> {
        cni::Call { sandbox, pod, netns, interface: pod::INTERFACE, config: self.config.cni.as_ref() }
    }

    async fn detach(&self, sandbox: &SandboxId) -> Result<(), NetworkError> {
        check_id(sandbox)?;
        let record = match self.records.load(sandbox) {
            Ok(record) => record,
            Err(error @ NetworkError::Damaged { .. }) => {
                // The link's name and the claims follow from the id.
                tracing::warn!(%sandbox, error = error_chain(&error), "undoing what can be undone without the record");
                None
            }
            Err(other) => return Err(other),
        };
        match record.as_ref().map(|record| (record, &record.network)) {
            Some((record, Attached::Cni(attachment))) => {
                // The path may lead to another process's namespace by now.
                let alive = Netns::open(&record.netns).ok().filter(|netns| netns.id() == record.netns_id);
                let call = self.cni_call(sandbox, &record.pod, alive.as_ref().map(Netns::path));
                cni::del(attachment, &call).await.map_err(|source| cni_failed(attachment, source))?;
            }
            Some((record, Attached::Bridge(_))) => {
                let mut state = self.host.lock().await;
                self.host.close_ports(&mut state, record).await?;
            }
            None => {}
        }
        self.fault.passed(Step::PortsClosed)?;
        self.host.reaper.remove(&link_name(sandbox)).await?;
        self.fault.passed(Step::Unlinked)?;
        let mut state = self.host.lock().await;
        {
            let _files = lock::acquire(&self.layout.lock()).await?;
            self.ports.release(sandbox)?;
            self.ipam.release(sandbox)?;
            self.fault.passed(Step::Released)?;
            self.records.remove(sandbox)?;
        }
        self.fault.passed(Step::Forgotten)?;
        self.host.release(&mut state).await
    }

    async fn recover(&self, live: &HashSet<SandboxId>) -> Result<(), NetworkError> {
        let mut known: BTreeSet<SandboxId> = self.records.sandboxes()?.into_iter().collect();
        known.extend(self.ipam.owners()?);
        known.extend(self.ports.owners()?);
        // A call under way knows better than the caller's list.
        let busy: HashSet<SandboxId> = self.turns.borrow().keys().cloned().collect();
        let dead = known.iter().filter(|sandbox| !live.contains(*sandbox) && !busy.contains(*sandbox));
        let undone = join_all(dead.map(|sandbox| async move {
            self.in_turn(sandbox, self.detach(sandbox)).await.map_err(|error| (sandbox.clone(), error))
        }));
        let mut failures = undone.await.into_iter().filter_map(Result::err);
        let first = failures.next();
        let count = failures.count() + 1;

        let mut state = self.host.lock().await;
        let keep: HashSet<SandboxId> = live.union(&busy).cloned().collect();
        self.host.remove_orphans(&mut state, &keep).await?;
        if self.host.in_use()? {
            self.host.prepare(&mut state).await?;
        } else {
            self.host.release(&mut state).await?;
        }
        match first {
            None => Ok(()),
            Some((first, source)) => Err(NetworkError::Recovery { count, first, source: Box::new(source) }),
        }
    }
}

fn record(request: &AttachRequest, netns: &Netns, network: Attached) -> Record {
    Record {
        sandbox: request.sandbox.clone(),
        pod: request.pod.clone(),
        netns: request.netns.clone(),
        netns_id: netns.id(),
        ports: request.ports.clone(),
        network,
    }
}

fn cni_failed(attachment: &cni::CniAttachment, source: cni::CniError) -> NetworkError {
    NetworkError::Cni { network: attachment.network().to_owned(), source }
}
