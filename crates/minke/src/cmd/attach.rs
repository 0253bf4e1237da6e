//! `minke attach`.

use clap::Args;
use minke_core::runtime::AttachRequest;

use super::exec::terminal;
use super::exec::{End, carry, container, target};
use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome};

/// Join the program of a container that runs
///
/// Shows what it writes from now on. Ending this command leaves the program running. A program reads what is typed if its
/// container has `stdin: true`, and has a terminal with `tty: true`.
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// A name, namespace/name, or the beginning of a uid
    #[arg(value_name = "POD")]
    pod: String,
    /// This container; without it the one of the annotation kubectl.kubernetes.io/default-container, or the first
    #[arg(short, long)]
    container: Option<String>,
    /// Pass standard input to the program
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Its standard input is a terminal
    #[arg(short = 't', long)]
    tty: bool,
    /// Only print what the program prints
    #[arg(short, long)]
    quiet: bool,
}

/// Joins until the program has ended.
pub(crate) async fn run(args: &AttachArgs, client: &Client) -> Outcome {
    let (key, report) = target(&args.pod, client, "attach to a container in").await?;
    let name = container(args.container.as_deref(), args.quiet, &key, &report.pod)?;
    let (stdin, tty) = minke_kubelet::streams_of(&report.pod, &name);
    let say = |text: &str| {
        if !args.quiet {
            eprintln!("{text}");
        }
    };
    if args.stdin && !stdin {
        say(&format!("container {name} has no standard input: its spec lacks `stdin: true`"));
    }
    if args.tty && !tty {
        say(&format!("Unable to use a TTY - container {name} did not allocate one"));
    }
    let size = if args.tty && tty { terminal::size() } else { None };
    let mut connection = client.connect().await?;
    let request = AttachRequest { stdin: args.stdin && stdin, tty, size };
    if let Err(refused) = connection.attach(&key.uid, &name, request).await? {
        let text = format!("unable to attach to container {name} of pod {}: {}", key.full_name(), refused.message);
        let hint = format!("`minke ps` shows what runs, `minke logs {}` what it said", key.full_name());
        return Err(Failure::system(text).hint(hint));
    }
    if size.is_some() && request.stdin {
        say("If you don't see a command prompt, try pressing enter.");
    }
    Ok(match carry(&mut connection, request.stdin, size).await? {
        End::Code(_) => Exit::Reached,
        End::Signal(signal) => Exit::Interrupted(signal),
        End::Lost(why) => {
            let hint = format!("the program goes on; `minke logs {}` has what it writes", key.full_name());
            return Err(Failure::system(why).hint(hint));
        }
    })
}
