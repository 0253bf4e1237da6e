//! The user's terminal: its size, and raw while a command has it.

use std::io;
use std::sync::{Mutex, PoisonError};

use minke_core::runtime::TerminalSize;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

/// How the terminal was before. One a process: there is one standard input.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The size of the terminal on standard input; `None` without one.
pub(in crate::cmd) fn size() -> Option<TerminalSize> {
    let stdin = rustix::stdio::stdin();
    if !isatty(stdin) {
        return None;
    }
    let size = tcgetwinsize(stdin).ok()?;
    // A terminal that does not know its size (a serial line) is taken for the usual one.
    let or = |value: u16, usual| if value == 0 { usual } else { value };
    Some(TerminalSize { width: or(size.ws_col, 80), height: or(size.ws_row, 24) })
}

/// The terminal passes every key on. Dropping it makes it as it was; so does a panic, also one that ends the process
/// at once.
#[derive(Debug)]
pub(in crate::cmd) struct Raw(());

impl Raw {
    pub(in crate::cmd) fn enter() -> io::Result<Self> {
        let stdin = rustix::stdio::stdin();
        let before = tcgetattr(stdin)?;
        let mut raw = before.clone();
        raw.make_raw();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let next = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            next(panic);
        }));
        tcsetattr(stdin, OptionalActions::Drain, &raw)?;
        Ok(Self(()))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // A panic while this is held would be one in here; then there is nothing to be had.
    let Ok(mut before) = BEFORE.try_lock() else { return };
    if let Some(before) = before.take() {
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &before);
    }
}
