//! One agent's connection, on the shim's side.

use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::PollFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::protocol::{Call, MAX_FRAME, Message, decode, encode};

/// A reader that is this far behind is cut off; it connects anew and lists.
const MOST_PENDING: usize = 4 << 20;
/// A command has three streams.
const MOST_FILES: usize = 3;

/// A connected agent.
#[derive(Debug)]
pub(super) struct Peer {
    stream: UnixStream,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// Descriptors that came with what was read and no call has taken yet.
    files: Vec<OwnedFd>,
    pub(super) subscribed: bool,
}

impl Peer {
    /// Takes a connection; `None` for one of another user.
    pub(super) fn new(stream: UnixStream) -> Option<Self> {
        let own = rustix::process::geteuid();
        let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
        if peer.uid != own && !peer.uid.is_root() {
            return None;
        }
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, incoming: Vec::new(), outgoing: Vec::new(), files: Vec::new(), subscribed: false })
    }

    pub(super) fn interest(&self) -> PollFlags {
        if self.outgoing.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
    }

    /// Sends what is pending, reads what is there and returns the calls that are complete.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub(super) fn exchange(&mut self) -> io::Result<Vec<Call>> {
        self.flush()?;
        let mut chunk = [0; 4096];
        let mut calls = Vec::new();
        loop {
            match self.receive(&mut chunk) {
                Ok(0) if calls.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
                // What it asked before it left is done all the same.
                Ok(0) => break,
                Ok(n) => self.incoming.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
            while let Some(call) = decode::<Call>(&mut self.incoming).map_err(io::Error::other)? {
                calls.push(call);
            }
            if self.incoming.len() > MAX_FRAME + 4 {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        if self.incoming.is_empty() {
            self.incoming = Vec::new();
        }
        Ok(calls)
    }

    /// The descriptors that came with the call that was read last.
    pub(super) fn take_files(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.files)
    }

    fn receive(&mut self, chunk: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(&self.stream, &mut [io::IoSliceMut::new(chunk)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        if self.files.len() > MOST_FILES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(received.bytes)
    }

    /// Queues a message and sends what the socket takes.
    ///
    /// # Errors
    /// The connection is of no more use, or its reader too far behind.
    pub(super) fn send(&mut self, message: &Message) -> io::Result<()> {
        self.outgoing.extend(encode(message).map_err(io::Error::other)?);
        self.flush()?;
        if self.outgoing.len() > MOST_PENDING {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.outgoing.len() {
            match self.stream.write(&self.outgoing[sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.outgoing.drain(..sent);
        if self.outgoing.is_empty() {
            self.outgoing = Vec::new();
        }
        Ok(())
    }
}

impl AsFd for Peer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
