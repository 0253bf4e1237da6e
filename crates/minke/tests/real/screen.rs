//! A terminal as a person sits in front of it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::support::PATIENCE;

/// A terminal with a command on it, and what it has shown.
pub(crate) struct Screen {
    ours: File,
    theirs: OwnedFd,
    shown: String,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let theirs = ioctl_tiocgptpeer(&ours, flags).unwrap();
        rustix::io::ioctl_fionbio(&ours, true).unwrap();
        let screen = Self { ours: ours.into(), theirs, shown: String::new() };
        screen.size(100, 30);
        screen
    }

    pub(crate) fn size(&self, width: u16, height: u16) {
        let size = Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.ours, size).unwrap();
    }

    pub(crate) fn stdio(&self) -> Stdio {
        self.theirs.try_clone().unwrap().into()
    }

    pub(crate) fn kind(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) async fn shows(&mut self, text: &str) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !self.shown.contains(text) {
            assert!(tokio::time::Instant::now() < deadline, "no {text:?} in {:?}", self.shown);
            let mut buffer = [0; 4096];
            match self.ours.read(&mut buffer) {
                Ok(n) => self.shown.push_str(&String::from_utf8_lossy(&buffer[..n])),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        let at = self.shown.find(text).unwrap() + text.len();
        self.shown.drain(..at);
    }

    /// Whether the line is edited and keys are echoed, as a shell's prompt needs it.
    pub(crate) fn is_cooked(&self) -> bool {
        let modes = tcgetattr(self.theirs.as_fd()).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }
}
