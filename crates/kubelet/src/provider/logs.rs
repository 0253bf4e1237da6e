//! Output of containers, read from their log files as the API asks for it.
//!
//! ```text
//! Reading (what is there) ─► Following (what is written, until the container's run is over) ─► Done
//!       └──────────────────────── without `follow` ────────────────────────────────────────────▲
//! ```
//! Nothing runs in the background: bytes are made when somebody takes them, a piece of a file at a time, so that a log of any
//! size costs the same and a reader that goes leaves nothing. As upstream, only one run of the container is shown.

use std::io;
use std::path::Path;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use futures_util::stream;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use minke_core::identity::PodKey;
use minke_core::provider::{ByteStream, LogOptions, LogSource, LogStreams, ProviderError, Since};

use super::KubeletProvider;
use crate::kubelet::Subscription;
use crate::logs::files;
use crate::logs::line::{Line, Stream};
use crate::logs::reader::{Attempts, Reader};
use crate::logs::tail::{SourceKey, Tail};
use crate::logs::window::{Collector, Window};
use crate::{Kubelet, PodStage};

#[async_trait]
impl LogSource for KubeletProvider {
    async fn logs(&self, key: &PodKey, container: &str, options: &LogOptions) -> Result<ByteStream, ProviderError> {
        const OPERATION: &str = "logs";
        let no_pod = || ProviderError::no_pod(OPERATION, key.to_string());
        self.any(key).ok_or_else(no_pod)?;
        let report = self.kubelet.report(&key.uid).ok_or_else(no_pod)?;
        if !has_container(&report.pod, container) {
            let name = container.to_owned();
            return Err(ProviderError::NotFound { operation: OPERATION, what: "container", name });
        }
        let wanted = run_wanted(&key.name, container, status_of(&report.pod, container), options.previous);
        let invalid = |message| ProviderError::Invalid { operation: OPERATION, message };
        let run = wanted.map_err(invalid)?;
        let directory = self.kubelet.config().log_directory.join(key.log_directory()).join(container);
        if options.previous {
            let files = files::list(&directory).map_err(|error| ProviderError::failed(OPERATION, error))?;
            if !files.iter().any(|file| file.attempt == run) {
                return Err(invalid(no_previous(&key.name, container)));
            }
        }
        let since = options.since.map(|since| match since {
            Since::Time(time) => time,
            Since::Seconds(seconds) => ago(self.kubelet.workers().sync.clock.now(), seconds),
        });
        let follow = (options.follow && !options.previous).then(|| Subject {
            kubelet: self.kubelet.clone(),
            changes: self.kubelet.subscribe(),
            key: key.clone(),
            container: container.to_owned(),
            run,
        });
        let stream = LogStream::new(&directory, run, options, since, follow);
        let pieces = stream::try_unfold(stream, |mut stream| async move {
            Ok::<_, io::Error>(stream.next().await?.map(|piece| (piece, stream)))
        });
        Ok(Box::pin(Box::pin(pieces).into_async_read()))
    }
}

fn ago(now: Timestamp, seconds: u64) -> Timestamp {
    let seconds = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    now.checked_sub(seconds).unwrap_or(Timestamp::MIN)
}

fn has_container(pod: &Pod, name: &str) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let mut regular = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    regular.any(|c| c.name == name) || spec.ephemeral_containers.iter().flatten().any(|c| c.name == name)
}

fn status_of<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let lists = [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten().find(|c| c.name == name)
}

fn no_previous(pod: &str, container: &str) -> String {
    format!("previous terminated container \"{container}\" in pod \"{pod}\" not found")
}

/// Which run of a container is meant, in upstream's order of cases and with its words.
fn run_wanted(pod: &str, container: &str, status: Option<&ContainerStatus>, previous: bool) -> Result<u32, String> {
    let Some(status) = status else {
        return Err(format!("container \"{container}\" in pod \"{pod}\" is not available"));
    };
    let newest = u32::try_from(status.restart_count).unwrap_or(0);
    let state = status.state.as_ref();
    let began = state.is_some_and(|s| s.running.is_some() || s.terminated.is_some());
    let ended_before = status.last_state.as_ref().is_some_and(|s| s.terminated.is_some());
    if previous {
        let run = if began { newest.checked_sub(1) } else { Some(newest) };
        return run.filter(|_| ended_before).ok_or_else(|| no_previous(pod, container));
    }
    if began || ended_before {
        return Ok(newest);
    }
    let waits = format!("container \"{container}\" in pod \"{pod}\" is waiting to start");
    Err(match state.and_then(|s| s.waiting.as_ref()).and_then(|w| w.reason.as_deref()) {
        Some("ErrImagePull") => format!("{waits}: image can't be pulled"),
        Some("ImagePullBackOff") => format!("{waits}: trying and failing to pull image"),
        Some(reason) => format!("{waits}: {reason}"),
        None => format!("{waits} - no logs yet"),
    })
}

/// Whether a run of a container is over, so that nothing more is written.
fn is_over(status: Option<&ContainerStatus>, run: u32) -> bool {
    let Some(status) = status else { return false };
    let count = u32::try_from(status.restart_count).unwrap_or(0);
    let ended =
        |s: &Option<k8s_openapi::api::core::v1::ContainerState>| s.as_ref().is_some_and(|s| s.terminated.is_some());
    let runs = status.state.as_ref().is_some_and(|s| s.running.is_some());
    count > run || (count == run && !runs && (ended(&status.state) || ended(&status.last_state)))
}

/// The run that is followed.
struct Subject {
    kubelet: Kubelet,
    changes: Subscription,
    key: PodKey,
    container: String,
    run: u32,
}

impl Subject {
    fn is_over(&self) -> bool {
        match self.kubelet.report(&self.key.uid) {
            Some(report) => {
                report.stage == PodStage::Finished || is_over(status_of(&report.pod, &self.container), self.run)
            }
            None => true,
        }
    }
}

enum State {
    /// What is there.
    Reading {
        reader: Reader,
        collector: Collector<Vec<u8>>,
        subject: Option<Subject>,
    },
    /// What is written.
    Following {
        tail: Tail<()>,
        subject: Subject,
        over: bool,
    },
    Done,
}

/// A log on its way out.
struct LogStream {
    state: State,
    window: Window,
    timestamps: bool,
    streams: LogStreams,
    /// Bytes that may still be handed out.
    left: Option<u64>,
    source: SourceKey,
}

impl LogStream {
    fn new(
        directory: &Path,
        run: u32,
        options: &LogOptions,
        since: Option<Timestamp>,
        subject: Option<Subject>,
    ) -> Self {
        let tail = options.tail_lines.map(|lines| usize::try_from(lines).unwrap_or(usize::MAX));
        let collector = Collector::new(Window { since, tail });
        let source = SourceKey { pod: String::new(), container: String::new() };
        let state = State::Reading { reader: Reader::new(directory, Attempts::Only(run)), collector, subject };
        let window = Window { since, tail: None };
        let (timestamps, streams) = (options.timestamps, options.stream);
        Self { state, window, timestamps, streams, left: options.limit_bytes, source }
    }

    /// The next bytes; `None`: that was all. Not to be dropped and called again: it goes with its stream.
    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if self.left == Some(0) {
                return Ok(None);
            }
            let (timestamps, window, streams) = (self.timestamps, self.window, self.streams);
            let mut out = Vec::new();
            match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return Ok(None),
                State::Reading { mut reader, mut collector, subject } => {
                    let mut emit = |line: Line| {
                        if is_wanted(&line, streams) {
                            let whole = shown(&line, timestamps);
                            out.extend(collector.push(&line, whole).into_iter().flatten());
                        }
                    };
                    let more = reader.read_piece(&mut emit)?;
                    self.state = if more {
                        State::Reading { reader, collector, subject }
                    } else {
                        if subject.is_none() {
                            reader.finish(&mut emit);
                        }
                        out.extend(collector.finish().flatten());
                        match subject {
                            None => State::Done,
                            Some(subject) => {
                                let mut tail = Tail::new();
                                tail.continue_with(self.source.clone(), reader, ());
                                State::Following { tail, subject, over: false }
                            }
                        }
                    };
                    // A large log is read without anybody waiting for anything.
                    if out.is_empty() {
                        tokio::task::yield_now().await;
                    }
                }
                State::Following { mut tail, mut subject, over } => {
                    let mut emit = |(): &(), line: Line| {
                        if is_wanted(&line, streams) && window.admits(&line) {
                            out.extend(shown(&line, timestamps));
                        }
                    };
                    if over {
                        if tail.has_more() {
                            tail.read(&mut emit);
                            self.state = State::Following { tail, subject, over };
                        } else {
                            tail.finish_all(&mut emit);
                        }
                    } else if subject.is_over() {
                        tail.look_again();
                        self.state = State::Following { tail, subject, over: true };
                    } else {
                        tokio::select! {
                            () = tail.changed() => tail.read(&mut emit),
                            _ = subject.changes.next() => {}
                        }
                        self.state = State::Following { tail, subject, over };
                    }
                }
            }
            if !out.is_empty() {
                return Ok(Some(self.limited(out)));
            }
        }
    }

    fn limited(&mut self, mut out: Vec<u8>) -> Vec<u8> {
        if let Some(left) = &mut self.left {
            out.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= u64::try_from(out.len()).unwrap_or(0);
        }
        out
    }
}

fn is_wanted(line: &Line, streams: LogStreams) -> bool {
    match streams {
        LogStreams::All => true,
        LogStreams::Stdout => line.stream == Stream::Stdout,
        LogStreams::Stderr => line.stream == Stream::Stderr,
    }
}

/// A line as it is handed out: the container's own bytes, after its time if that is wanted.
fn shown(line: &Line, timestamps: bool) -> Vec<u8> {
    let mut out = match line.time.filter(|_| timestamps) {
        Some(time) => format!("{time:.9} ").into_bytes(),
        None => Vec::new(),
    };
    out.extend_from_slice(&line.text);
    out.push(b'\n');
    out
}

#[cfg(test)]
mod tests;
