//! Logs of the program itself, on standard error. Secrets are kept out by the types: nothing that may hold one shows
//! it in `Debug` or in an error.

use std::io::IsTerminal;

use tracing::Subscriber;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::spans::SpanLayer;

/// Timestamps of the machine's clock, as Kubernetes writes them.
struct WallClock;

impl FormatTime for WallClock {
    fn format_time(&self, w: &mut tracing_subscriber::fmt::format::Writer<'_>) -> std::fmt::Result {
        use minke_core::clock::{Clock, SystemClock};
        write!(w, "{:.6}", SystemClock.now())
    }
}

/// Starts logging at a level or by a tracing filter; with spans for who exports them. Without them nothing is told of spans, and
/// opening one costs a look at a flag.
///
/// # Errors
/// The text is neither.
pub(crate) fn init(filter: &str, spans: Option<SpanLayer>) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|_| format!("{filter:?} is neither a log level (error, warn, info, debug, trace) nor a filter"))?;
    let started = match spans {
        None => tracing_subscriber::registry().with(filter).with(lines()).try_init(),
        // Each has its own filter: lines of the log don't name spans that are for export alone.
        Some(spans) => {
            tracing_subscriber::registry().with(lines().with_filter(filter)).with(spans.filtered()).try_init()
        }
    };
    // Already started: a test in the same process did.
    drop(started);
    Ok(())
}

/// Events as lines on standard error.
fn lines<S>() -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    tracing_subscriber::fmt::layer()
        .with_timer(WallClock)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
}
