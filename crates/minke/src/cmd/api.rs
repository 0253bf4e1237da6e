//! `minke api`: the embedded Kubernetes API as a service.

mod copy;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use crate::api::{Api, ApiSettings};
use crate::exit::{Exit, Failure, Outcome};

/// Serve a Kubernetes API for this machine
#[derive(Debug, Args)]
#[command(after_help = "Runs until it is told to end. Point kubectl at it with \
                        `kubectl --kubeconfig DATA_DIR/admin.conf get namespaces`.")]
pub(crate) struct ApiArgs {
    #[command(subcommand)]
    command: Option<ApiCommand>,
    /// Where objects and the server's certificates are kept
    #[arg(long, value_name = "DIR", default_value = "/var/lib/minke/api", env = "MINKE_API_DATA_DIR", global = true)]
    data_dir: PathBuf,
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6443", env = "MINKE_API_LISTEN")]
    listen: SocketAddr,
    /// Where to write how an administrator reaches it, readable by its owner alone [default: DATA_DIR/admin.conf]
    #[arg(long, value_name = "FILE", env = "MINKE_API_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Bearer tokens that are known: lines of `token,user,uid,"group,group"`
    #[arg(long, value_name = "FILE", env = "MINKE_API_TOKEN_FILE")]
    token_auth_file: Option<PathBuf>,
    /// Leave Pods without a node to another scheduler
    #[arg(long, env = "MINKE_API_NO_SCHEDULER")]
    no_scheduler: bool,
    /// Give new Pods a volume with their service account's token, as upstream does. Their node must be able to fetch it
    #[arg(
        long,
        value_name = "BOOL",
        env = "MINKE_API_MOUNT_SERVICE_ACCOUNT_TOKENS",
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true"
    )]
    mount_service_account_tokens: bool,
}

/// What is done with the objects while no server uses them.
#[derive(Debug, Subcommand)]
enum ApiCommand {
    /// Write all objects to a file, as lines of JSON, while no server uses them
    #[command(
        after_help = "The file has every Secret as it is, and is readable by its owner alone. Certificates and keys are not in it."
    )]
    Export {
        /// Where to write them; `-` is the standard output
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Fill an empty data directory with an export, all of it or nothing
    Import {
        /// The export; `-` is the standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Serves until SIGTERM or SIGINT.
pub(crate) async fn run(args: &ApiArgs) -> Outcome {
    match &args.command {
        Some(ApiCommand::Export { file }) => return copy::export(&args.data_dir, file),
        Some(ApiCommand::Import { file }) => return copy::import(&args.data_dir, file),
        None => {}
    }
    // Each connection and watch takes one.
    minke_oci::raise_open_files();
    let watched = |kind| signal(kind).map_err(|error| Failure::system(format!("can't watch for signals: {error}")));
    let (mut terminate, mut interrupt) = (watched(SignalKind::terminate())?, watched(SignalKind::interrupt())?);
    let api = Api::open(&ApiSettings {
        data_dir: args.data_dir.clone(),
        listen: args.listen,
        kubeconfig: args.kubeconfig.clone(),
        token_auth_file: args.token_auth_file.clone(),
        schedules: !args.no_scheduler,
        mounts_tokens: args.mount_service_account_tokens,
    })
    .await?;
    eprintln!("serving {}; kubectl --kubeconfig {}", api.url, api.kubeconfig.display());
    tokio::select! {
        never = api.run() => match never {},
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(Exit::Reached)
}
