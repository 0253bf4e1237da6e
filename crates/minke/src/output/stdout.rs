//! Standard output that may be closed at any time by who reads it (`minke logs web | head`).

use std::io::{self, Write};

use crate::exit::Failure;

/// Writes text. A reader that has gone is no failure: it got what it wanted.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match write(text.as_bytes()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::system(format!("can't write to standard output: {error}"))),
    }
}

/// Writes bytes and flushes.
pub(crate) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}
