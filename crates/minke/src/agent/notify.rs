//! Tells the service manager (systemd's `sd_notify`) how the agent is: ready, alive, about to end. One datagram each.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The way to the service manager; without one, nobody is told.
#[derive(Debug, Default)]
pub(super) struct Notifier {
    manager: Option<(UnixDatagram, SocketAddr)>,
    /// It wants to hear from us this often, or restarts the agent.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// As the environment has it: `NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`.
    pub(super) fn from_environment() -> Self {
        let var = |name: &str| std::env::var_os(name);
        let text = |name: &str| var(name).and_then(|value| value.into_string().ok());
        // The watchdog is somebody else's where a number is given that is not ours.
        let ours = text("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let watchdog = text("WATCHDOG_USEC").filter(|_| ours).and_then(|usec| usec.parse().ok());
        var("NOTIFY_SOCKET").map(|socket| Self::new(&socket, watchdog)).unwrap_or_default()
    }

    fn new(socket: &OsStr, watchdog_usec: Option<u64>) -> Self {
        let address = match socket.as_bytes() {
            // An abstract name.
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            _ => SocketAddr::from_pathname(socket),
        };
        let opened = address.and_then(|address| Ok((UnixDatagram::unbound()?, address)));
        let manager = match opened {
            Ok(manager) => Some(manager),
            Err(error) => {
                tracing::warn!(socket = %socket.display(), %error, "the service manager can't be told anything");
                None
            }
        };
        let watchdog = watchdog_usec.filter(|usec| *usec > 0).map(Duration::from_micros);
        Self { manager, watchdog }
    }

    fn tell(&self, state: &str) {
        let Some((socket, address)) = &self.manager else { return };
        // It may restart; the next word reaches it again.
        if let Err(error) = socket.send_to_addr(state.as_bytes(), address) {
            tracing::debug!(%error, state, "the service manager does not listen");
        }
    }

    /// Commands can connect, and what runs was adopted.
    pub(super) fn ready(&self, pods: usize) {
        self.tell(&format!("READY=1\nSTATUS=supervising {pods} pods"));
    }

    /// The agent ends; Pods stay.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=ending; pods stay as they are");
    }

    /// Says twice in each period that the agent is alive, for ever. Does nothing without a watchdog.
    pub(super) async fn alive(&self) -> std::convert::Infallible {
        let Some(period) = self.watchdog.filter(|_| self.manager.is_some()) else {
            return std::future::pending().await;
        };
        let mut ticks = tokio::time::interval(period / 2);
        loop {
            ticks.tick().await;
            self.tell("WATCHDOG=1");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(manager: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn the_manager_is_told_by_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let notifier = Notifier::new(path.as_os_str(), Some(60_000_000));
        notifier.ready(3);
        assert_eq!(heard(&manager), "READY=1\nSTATUS=supervising 3 pods");
        let ended = tokio::time::timeout(Duration::from_secs(100), notifier.alive()).await;
        assert!(ended.is_err());
        manager.set_nonblocking(true).unwrap();
        // At 0, 30, 60 and 90 seconds.
        for _ in 0..4 {
            assert_eq!(heard(&manager), "WATCHDOG=1");
        }
        notifier.stopping();
        assert!(heard(&manager).starts_with("STOPPING=1\n"));
        assert!(manager.recv(&mut [0; 8]).is_err(), "and nothing else");
    }

    #[test]
    fn the_manager_is_told_by_abstract_name() {
        let name = format!("minke-test-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        Notifier::new(OsStr::new(&format!("@{name}")), None).stopping();
        assert!(heard(&manager).starts_with("STOPPING=1"));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_manager_nothing_happens() {
        for notifier in [Notifier::default(), Notifier::new(OsStr::new("/nonexistent/notify"), Some(0))] {
            notifier.ready(0);
            notifier.stopping();
            assert!(tokio::time::timeout(Duration::from_secs(9), notifier.alive()).await.is_err());
        }
    }
}
