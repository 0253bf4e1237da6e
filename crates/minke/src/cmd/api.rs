//! `minke api`: the embedded Kubernetes API as a service.

mod copy;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use minke_apiserver::access::{Authority, Issuer, Tokens};
use minke_apiserver::engine::{Accounts, Engine};
use minke_apiserver::http::{Limits, NodeClient, Server};
use minke_apiserver::scheduler;
use minke_apiserver::store::{HistoryLimits, Store};
use minke_core::clock::{Clock, SystemClock};
use minke_core::runtime::error_chain;
use tokio::signal::unix::{SignalKind, signal};

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

fn failed(what: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::system(format!("{what}: {}", error_chain(error)))
}

/// Names and addresses that the certificate is good for.
fn addresses(listen: SocketAddr) -> Vec<IpAddr> {
    let mut addresses = vec![IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    if !listen.ip().is_unspecified() && !addresses.contains(&listen.ip()) {
        addresses.push(listen.ip());
    }
    addresses
}

/// The address that this machine reaches the server by.
fn url(listening: SocketAddr) -> String {
    let ip = match listening.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    format!("https://{}", SocketAddr::new(ip, listening.port()))
}

/// Serves until SIGTERM or SIGINT.
pub(crate) async fn run(args: &ApiArgs) -> Outcome {
    match &args.command {
        Some(ApiCommand::Export { file }) => return copy::export(&args.data_dir, file),
        Some(ApiCommand::Import { file }) => return copy::import(&args.data_dir, file),
        None => {}
    }
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| failed("can't watch for signals", &error))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| failed("can't watch for signals", &error))?;
    let pki = args.data_dir.join("pki");
    // The directory is made by its owner alone, so that nothing below it needs more care.
    let authority = Authority::open(&pki, SystemClock.now())
        .map_err(|error| failed("can't set up the server's certificates", &error))?;
    let store = Store::open(&args.data_dir.join("api.redb"), HistoryLimits::default())
        .map_err(|error| failed("can't open the server's objects", &error))?;
    let tokens = match &args.token_auth_file {
        Some(path) => Tokens::read(path).map_err(|error| failed(&format!("can't read {}", path.display()), &error))?,
        None => Tokens::default(),
    };
    let issuer =
        Issuer::open(&pki).map_err(|error| failed("can't set up the key of the service accounts' tokens", &error))?;
    let (root_certificate, mount) = (authority.certificate().to_owned(), args.mount_service_account_tokens);
    let engine = Engine::new(store, Arc::new(SystemClock)).with_accounts(Accounts { issuer, root_certificate, mount });
    engine.prepare().await.map_err(|error| failed("can't make the first objects", &error))?;
    let server = Server::bind(args.listen, engine.clone(), tokens, Limits::default())
        .await
        .map_err(|error| failed("can't serve", &error))?;
    let nodes = authority.node_client().map_err(|error| failed("can't set up the server's certificates", &error))?;
    let server = server.reaching(NodeClient::new(nodes));
    engine
        .announce(server.address().port())
        .await
        .map_err(|error| failed("can't make the server's Service", &error))?;
    let tls = authority
        .server(&["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"], &addresses(args.listen))
        .map_err(|error| failed("can't set up the server's certificates", &error))?;
    let kubeconfig = args.kubeconfig.clone().unwrap_or_else(|| Path::new(&args.data_dir).join("admin.conf"));
    let url = url(server.address());
    authority.kubeconfig(&kubeconfig, &url).map_err(|error| failed("can't write the kubeconfig", &error))?;
    eprintln!("serving {url}; kubectl --kubeconfig {}", kubeconfig.display());
    tokio::select! {
        () = server.run(tls) => {}
        () = engine.care() => {}
        () = scheduler::run(&engine), if !args.no_scheduler => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(Exit::Reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_and_the_url_are_good_for_where_it_listens() {
        let listen = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(url(listen("127.0.0.1:6443")), "https://127.0.0.1:6443");
        assert_eq!(url(listen("0.0.0.0:1")), "https://127.0.0.1:1");
        assert_eq!(url(listen("[::]:1")), "https://[::1]:1");
        assert_eq!(addresses(listen("0.0.0.0:1")).len(), 2);
        assert!(addresses(listen("192.0.2.7:1")).contains(&listen("192.0.2.7:1").ip()));
    }
}
