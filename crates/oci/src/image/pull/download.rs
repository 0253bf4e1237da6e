//! The bytes of one layer, brought from the registry to the thread that unpacks them.

use std::io::{self, Read};

use bytes::{Buf as _, Bytes};
use minke_core::runtime::PullProgress;
use tokio::sync::mpsc::{Receiver, Sender};

use super::{PullConfig, Retry};
use crate::image::registry::{RegistryError, Session};
use crate::image::unpack::ExpectedBlob;

/// Sends the blob's bytes through `to`; where a connection breaks, the next one goes on. Ends early, without an
/// error, when nobody reads any more.
pub(super) async fn download(
    session: &Session<'_>,
    blob: &ExpectedBlob,
    config: &PullConfig,
    progress: &dyn PullProgress,
    to: Sender<Bytes>,
) -> Result<(), RegistryError> {
    let name = blob.digest.to_string();
    let mut retry = Retry::new(config);
    let mut received = 0;
    loop {
        let before = received;
        let result = connection(session, blob, &mut received, &to, |done| progress.layer(&name, done, blob.size)).await;
        let error = match result {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        if received > before {
            retry.progressed();
        }
        let pause = retry.after(error.clone())?;
        tracing::debug!(blob = %name, received, ?error, "a download broke off and goes on");
        tokio::time::sleep(pause).await;
    }
}

/// Brings what one connection gives.
async fn connection(
    session: &Session<'_>,
    blob: &ExpectedBlob,
    received: &mut u64,
    to: &Sender<Bytes>,
    progress: impl Fn(u64),
) -> Result<(), RegistryError> {
    let mut body = session.blob(&blob.digest, *received).await?;
    if let Some(length) = body.length
        && body.offset + length != blob.size
    {
        let found = body.offset + length;
        return Err(RegistryError::Digest(format!(
            "expected {} of {} bytes, the registry has {found} bytes",
            blob.digest, blob.size
        )));
    }
    let mut position = body.offset;
    while let Some(mut chunk) = body.chunk().await? {
        // A registry that knows no ranges sends what is here already.
        let known = received.saturating_sub(position).min(chunk.len() as u64);
        position += chunk.len() as u64;
        chunk.advance(usize::try_from(known).unwrap_or(chunk.len()));
        if chunk.is_empty() {
            continue;
        }
        *received += chunk.len() as u64;
        progress(*received);
        if to.send(chunk).await.is_err() || *received > blob.size {
            return Ok(());
        }
    }
    if *received < blob.size {
        return Err(RegistryError::Transient(format!("it sent {received} of {} bytes", blob.size)));
    }
    Ok(())
}

/// The reading end, for the thread that unpacks.
pub(super) struct Incoming {
    from: Receiver<Bytes>,
    current: Bytes,
}

impl Incoming {
    pub(super) fn new(from: Receiver<Bytes>) -> Self {
        Self { from, current: Bytes::new() }
    }
}

impl Read for Incoming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.from.blocking_recv() {
                Some(chunk) => self.current = chunk,
                None => return Ok(0),
            }
        }
        let count = self.current.len().min(buffer.len());
        self.current.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}
