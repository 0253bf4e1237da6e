//! A command's output and input as asynchronous streams.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::io::{AsyncRead, AsyncWrite};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// Not blocking, and registered under a number of its own: a terminal's two directions would share one otherwise,
/// which can be registered once only.
fn register(fd: &OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(fd, true)?;
    let own = fd.try_clone()?;
    #[expect(unsafe_code, reason = "tokio can't know that a descriptor stays open")]
    // SAFETY: the stream owns the descriptor, nothing replaces or closes it before the stream is dropped, and
    // `OwnedFd` always has the same number.
    let registered = unsafe { AsyncFd::register_with_interest(own, interest) };
    Ok(registered?)
}

/// What a command writes. It ends when the last process that could write has closed it, and at the latest when the
/// command has ended and everything is read that was written until then: what it left running does not hold it open.
pub(super) struct Output {
    fd: AsyncFd<OwnedFd>,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
    over: bool,
}

impl Output {
    pub(super) fn new<T: Clone + Send + Sync + 'static>(
        fd: &OwnedFd,
        mut end: watch::Receiver<Option<T>>,
    ) -> io::Result<Self> {
        let ended = Box::pin(async move {
            // A sender that is gone has nothing more to say either.
            let _ = end.wait_for(Option::is_some).await;
        });
        Ok(Self { fd: register(fd, Interest::READABLE)?, ended, over: false })
    }
}

/// Reads what is there. A terminal whose last user is gone reads as an input/output error.
fn read(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    match rustix::io::read(fd, buffer) {
        Err(rustix::io::Errno::IO) => Ok(0),
        Err(rustix::io::Errno::INTR) => Err(io::ErrorKind::WouldBlock.into()),
        other => Ok(other?),
    }
}

impl AsyncRead for Output {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        loop {
            if !this.over {
                match this.fd.poll_read_ready(context) {
                    Poll::Ready(guard) => match guard?.try_io(|fd| read(fd.get_ref(), buffer)) {
                        Ok(result) => return Poll::Ready(result),
                        Err(_would_block) => continue,
                    },
                    Poll::Pending => {}
                }
                ready!(this.ended.as_mut().poll(context));
                this.over = true;
            }
            // Whatever the readiness says, which may lag behind: the kernel knows.
            return Poll::Ready(match rustix::io::read(this.fd.get_ref(), &mut *buffer) {
                Ok(n) => Ok(n),
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::IO) => Ok(0),
                Err(e) => Err(e.into()),
            });
        }
    }
}

/// What a command reads. Closing or dropping it is the end of input; a terminal stays open.
pub(super) struct Input {
    fd: Option<AsyncFd<OwnedFd>>,
}

impl Input {
    pub(super) fn new(fd: &OwnedFd) -> io::Result<Self> {
        Ok(Self { fd: Some(register(fd, Interest::WRITABLE)?) })
    }
}

impl AsyncWrite for Input {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let Some(fd) = &self.fd else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        loop {
            let mut guard = ready!(fd.poll_write_ready(context))?;
            match guard.try_io(|fd| Ok(rustix::io::write(fd.get_ref(), buffer)?)) {
                Ok(result) => return Poll::Ready(result),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().fd = None;
        Poll::Ready(Ok(()))
    }
}
