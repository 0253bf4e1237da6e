//! Removing links, many at once.
//!
//! The kernel unregisters a network device in one or two milliseconds, and then lets the caller wait 10 to 25 more
//! for a grace period. So removal has threads of its own, whose waits overlap; one that is free takes all names that
//! have come in, and removes them as one group for the price of one. A caller is answered when the device can no
//! longer be seen: what then remains happens in the kernel whether or not this process lives.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use tokio::sync::{Mutex, mpsc, oneshot};

use super::error::NetworkError;
use super::links::Links;

/// How many removals wait in the kernel at the same time.
const THREADS: u32 = 3;
/// Devices about to be removed carry this group, or one of the next; nothing else does.
const GROUP: u32 = u32::from_be_bytes(*b"mink");
const POLL: Duration = Duration::from_millis(1);

type Reply = oneshot::Sender<Result<(), NetworkError>>;

/// The threads that remove links.
#[derive(Debug)]
pub(super) struct Reaper {
    /// Asked for names: unlike netlink that does not wait for a removal under way.
    names: OwnedFd,
    queue: mpsc::UnboundedSender<(String, Reply)>,
}

impl Reaper {
    /// Starts the threads in the calling thread's network namespace.
    pub(super) fn start() -> Result<Self, NetworkError> {
        let failed = |source| NetworkError::Stopped { source: Some(source) };
        let (queue, requests) = mpsc::unbounded_channel();
        let requests = Arc::new(Mutex::new(requests));
        for n in 0..THREADS {
            let requests = Arc::clone(&requests);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
            std::thread::Builder::new()
                .name("minke-unlink".to_owned())
                .stack_size(512 * 1024)
                .spawn(move || runtime.block_on(run(requests, GROUP + n)))
                .map_err(failed)?;
        }
        let names = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(|error| failed(error.into()))?;
        Ok(Self { names, queue })
    }

    /// Removes a link. Idempotent. A dropped call is carried out all the same.
    pub(super) async fn remove(&self, name: &str) -> Result<(), NetworkError> {
        if !self.sees(name) {
            return Ok(());
        }
        let stopped = || NetworkError::Stopped { source: None };
        let (reply, mut answer) = oneshot::channel();
        self.queue.send((name.to_owned(), reply)).map_err(|_| stopped())?;
        loop {
            tokio::select! {
                answer = &mut answer => return answer.map_err(|_| stopped())?,
                () = tokio::time::sleep(POLL) => {
                    if !self.sees(name) {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn sees(&self, name: &str) -> bool {
        netdevice::name_to_index(&self.names, name) != Err(rustix::io::Errno::NODEV)
    }
}

async fn run(requests: Arc<Mutex<mpsc::UnboundedReceiver<(String, Reply)>>>, group: u32) {
    let connected = Links::connect().map(|(connection, links)| {
        tokio::spawn(connection);
        links
    });
    loop {
        let mut batch = Vec::new();
        if requests.lock().await.recv_many(&mut batch, usize::MAX).await == 0 {
            return;
        }
        match &connected {
            Ok(links) => remove_all(links, batch, group).await,
            Err(error) => {
                for (_, reply) in batch {
                    let source = Some(std::io::Error::new(error.kind(), error.to_string()));
                    let _ = reply.send(Err(NetworkError::Stopped { source }));
                }
            }
        }
    }
}

async fn remove_all(links: &Links, batch: Vec<(String, Reply)>, group: u32) {
    let mut grouped = false;
    if batch.len() > 1 {
        for (name, _) in &batch {
            // One that can't be grouped is removed alone below.
            grouped |= links.set_group(name, group).await.is_ok();
        }
    }
    if grouped {
        // Whatever this leaves is removed, or its error reported, one by one.
        let _ = links.delete_group(group).await;
    }
    for (name, reply) in batch {
        let removed =
            if grouped && matches!(links.find(&name).await, Ok(None)) { Ok(()) } else { links.delete(&name).await };
        let _ = reply.send(removed);
    }
}
