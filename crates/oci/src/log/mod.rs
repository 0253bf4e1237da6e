//! Container logs in CRI's format: `<RFC 3339 time> <stdout|stderr> <F|P> <text>`.
//!
//! [`Splitter`] cuts a stream of bytes into records (pure); [`Writer`] puts records into the log file, survives a full
//! disk and rotation. The shim owns both; the readers are other crates'.

mod format;
mod splitter;
mod writer;

pub(crate) use format::Stream;
pub(crate) use splitter::Splitter;
pub(crate) use writer::Writer;
