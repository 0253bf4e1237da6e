//! `minke logs`.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use minke_core::clock::{Clock, SystemClock};
use minke_core::identity::PodKey;

use super::stop::is_over;
use crate::client::{Client, Update, Watch};
use crate::durations::Since;
use crate::exit::{Exit, Failure, Outcome};
use crate::logs::files;
use crate::logs::line::Line;
use crate::logs::reader::{Attempts, Reader};
use crate::logs::show::{Label, Style, format};
use crate::logs::tail::{SourceKey, Tail};
use crate::logs::window::{Collector, Window};
use crate::output::stdout;

/// Show the logs of a Pod's containers
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// A name, namespace/name, or the beginning of a uid
    #[arg(value_name = "POD")]
    pod: String,
    /// Only of this container; without it of all, each line with its container in front where there are several
    #[arg(short, long)]
    container: Option<String>,
    /// Go on with what is written, over restarts, until the container has ended for good
    #[arg(short, long)]
    follow: bool,
    /// Of the attempt before the newest
    #[arg(short, long, conflicts_with = "follow")]
    previous: bool,
    /// Only lines younger than this (10m), or written since this time (2026-01-31T12:00:00Z)
    #[arg(long, value_name = "AGE|TIME", value_parser = Since::parse)]
    since: Option<Since>,
    /// Only so many of the last lines of each container
    #[arg(long, short = 'n', value_name = "LINES")]
    tail: Option<usize>,
    /// Show when each line was written
    #[arg(long, short)]
    timestamps: bool,
}

/// One container's log.
struct Source {
    key: SourceKey,
    directory: PathBuf,
    label: Label,
}

/// Shows logs. Files are read directly; the agent only says which Pods there are and when they end.
pub(crate) async fn run(args: &LogsArgs, client: &Client) -> Outcome {
    let reports = super::reports(client).await?;
    let keys = super::keys(&reports);
    let key = crate::select::select(&args.pod, &keys)?.clone();
    let Some(report) = reports.iter().find(|r| r.pod.metadata.uid.as_deref() == Some(key.uid.as_str())) else {
        return Err(Failure::system(format!("the agent lost pod {key} just now")));
    };
    let sources = sources(args, client, &key, &report.pod)?;
    let style =
        Style { prefix: sources.len() > 1, color: std::io::stdout().is_terminal(), timestamps: args.timestamps };
    let window = Window { since: args.since.map(|s| s.resolve(SystemClock.now())), tail: args.tail };
    let mut printer = Printer { style, failure: None };
    let mut tail = Tail::new();
    for source in &sources {
        let attempts = attempts(args, source)?;
        let newest = match attempts {
            Some(attempts) => attempts,
            // Nothing was written yet; there may be something to follow.
            None => Attempts::From(0),
        };
        let mut reader = Reader::new(&source.directory, newest);
        let mut collector = Collector::new(window);
        let mut emit = |line: Line| {
            if let Some(line) = collector.push(&line, line.clone()) {
                printer.print(&source.label, &line);
            }
        };
        let unreadable = |e| Failure::system(format!("can't read the log in {}: {e}", source.directory.display()));
        reader.read(&mut emit).map_err(unreadable)?;
        if !args.follow {
            reader.finish(&mut emit);
        }
        for line in collector.finish() {
            printer.print(&source.label, &line);
        }
        if args.follow {
            tail.continue_with(source.key.clone(), reader, source.label.clone());
        }
        printer.check()?;
    }
    if args.follow {
        follow(client, &key, tail, printer, window.since).await?;
    }
    Ok(Exit::Reached)
}

/// The containers whose logs are wanted, in the spec's order.
fn sources(args: &LogsArgs, client: &Client, key: &PodKey, pod: &Pod) -> Result<Vec<Source>, Failure> {
    let spec = pod.spec.as_ref();
    let init = spec.into_iter().flat_map(|s| s.init_containers.iter().flatten());
    let main = spec.into_iter().flat_map(|s| &s.containers);
    let names: Vec<&str> = init.chain(main).map(|c| c.name.as_str()).collect();
    let wanted: Vec<&str> = match &args.container {
        None => names,
        Some(name) if names.contains(&name.as_str()) => vec![name],
        Some(name) => {
            return Err(Failure::usage(format!("pod {} has no container {name:?}", key.full_name()))
                .hint(format!("it has {}", names.join(", "))));
        }
    };
    let directory = client.place().logs.join(key.log_directory());
    let source = |name: &str| Source {
        key: SourceKey { pod: key.uid.to_string(), container: name.to_owned() },
        directory: directory.join(name),
        label: Label::new(name),
    };
    Ok(wanted.into_iter().map(source).collect())
}

/// Which attempts of a container to show; `None` if it never ran.
fn attempts(args: &LogsArgs, source: &Source) -> Result<Option<Attempts>, Failure> {
    let files = files::list(&source.directory)
        .map_err(|e| Failure::system(format!("can't list the logs in {}: {e}", source.directory.display())))?;
    if args.previous {
        return match files::previous(&files) {
            Some(attempt) => Ok(Some(Attempts::Only(attempt))),
            None if args.container.is_none() => Ok(Some(Attempts::Only(u32::MAX))),
            None => Err(Failure::usage(format!("container {} has no previous attempt", source.key.container))),
        };
    }
    Ok(files.last().map(|newest| Attempts::From(newest.attempt)))
}

async fn follow(
    client: &Client,
    key: &PodKey,
    mut tail: Tail<Label>,
    mut printer: Printer,
    since: Option<Timestamp>,
) -> Result<(), Failure> {
    let window = Window { since, tail: None };
    let mut watch = Watch::begin(client, Some(vec![key.uid.clone()])).await?;
    loop {
        let mut emit = |label: &Label, line: Line| {
            if window.admits(&line) {
                printer.print(label, &line);
            }
        };
        let over = tokio::select! {
            () = tail.changed() => {
                tail.read(&mut emit);
                false
            }
            update = watch.next() => match update? {
                Update::All(reports) => reports.first().is_none_or(is_over),
                Update::Changed(report) => is_over(&report),
                Update::Removed(_) => true,
                Update::Progress(_) | Update::Admissions(_) => false,
                Update::Refused(message) => return Err(Failure::system(message)),
            },
        };
        if over {
            tail.finish_all(&mut emit);
        }
        printer.check()?;
        if over || printer.closed() {
            return Ok(());
        }
    }
}

/// Prints lines and remembers when that fails.
struct Printer {
    style: Style,
    failure: Option<std::io::Error>,
}

impl Printer {
    fn print(&mut self, label: &Label, line: &Line) {
        if self.failure.is_none() {
            self.failure = stdout::write(&format(line, label, self.style)).err();
        }
    }

    /// Whether the reader of standard output has gone.
    fn closed(&self) -> bool {
        self.failure.is_some()
    }

    fn check(&self) -> Result<(), Failure> {
        match &self.failure {
            Some(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Failure::system(format!("can't write to standard output: {error}")))
            }
            Some(_) | None => Ok(()),
        }
    }
}
