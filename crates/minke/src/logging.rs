//! Logs of the program itself, on standard error. Secrets are kept out by the types: nothing that may hold one shows
//! it in `Debug` or in an error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::FormatTime;

/// Timestamps of the machine's clock, as Kubernetes writes them.
struct WallClock;

impl FormatTime for WallClock {
    fn format_time(&self, w: &mut tracing_subscriber::fmt::format::Writer<'_>) -> std::fmt::Result {
        use minke_core::clock::{Clock, SystemClock};
        write!(w, "{:.6}", SystemClock.now())
    }
}

/// Starts logging at a level or by a tracing filter.
///
/// # Errors
/// The text is neither.
pub(crate) fn init(filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|_| format!("{filter:?} is neither a log level (error, warn, info, debug, trace) nor a filter"))?;
    let started = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_timer(WallClock)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .try_init();
    // Already started: a test in the same process did.
    drop(started);
    Ok(())
}
