//! `minke up`: a whole cluster of one machine in one process: the embedded API, its scheduler, the node over the instance's
//! agent, and a kubeconfig.
//!
//! ```text
//! up ─► an agent that serves an API already? ── yes ─► say where
//!        │ no (one without an API is told to end; Pods run on)
//!        ▼
//!      start `up --foreground` in the background, wait until it is ready ─► say where
//! ```
//! The process is the instance's agent with a [`companion`] beside it, so `minke ps`, `logs`, `exec` see the same Pods as
//! kubectl does. It ends like an agent: Pods stay, and the next one takes them up.

mod companion;
mod demo;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use minke_kubelet::housekeeping::ImageGcPolicy;
use minke_node::node::NodeConfig;
use minke_node::node::shutdown::ShutdownPolicy;

use super::node::NodeArgs;
use super::node::configz::configz;
use crate::agent::{self, Mode, Readiness, Ready, Settings};
use crate::api::ApiSettings;
use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome};
use crate::node::identity;
use crate::output::stdout;
use crate::protocol::Served;
use crate::spans::OtlpArgs;
use companion::Up;
pub(super) use companion::default_data_dir;
pub(super) use demo::image as demo_image;

/// Be a Kubernetes cluster of one machine: an API for kubectl, a scheduler, a node
///
/// Returns when it is ready; what it began goes on in the background. Objects and Pods are there again after a restart.
#[derive(Debug, Args)]
#[command(after_help = "Then: export KUBECONFIG=… as it says, and kubectl get nodes. `minke down` is the other end.")]
pub(crate) struct UpArgs {
    /// Where the API's objects and certificates are kept [default: `api` in the state directory]
    #[arg(long, value_name = "DIR", env = "MINKE_API_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Where the API listens
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6443", env = "MINKE_API_LISTEN")]
    listen: SocketAddr,
    /// Where to write how an administrator reaches the API, readable by its owner alone [default: DATA_DIR/admin.conf]
    #[arg(long, value_name = "FILE", env = "MINKE_API_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Apply some examples, and say what to try with kubectl
    #[arg(long)]
    demo: bool,
    /// Stay in the foreground until told to end, for a service manager
    #[arg(long, conflicts_with = "demo")]
    foreground: bool,
    #[command(flatten)]
    pub(crate) otlp: OtlpArgs,
    #[command(flatten)]
    node: NodeArgs,
    /// Started by another `minke up`: say on standard output when ready
    #[arg(long, hide = true, requires = "foreground")]
    pub(crate) on_demand: bool,
}

impl UpArgs {
    /// Whether this process serves.
    pub(crate) fn serves(&self) -> bool {
        self.foreground
    }

    /// The same as arguments of the process that serves. Paths are absolute: it runs elsewhere.
    fn as_arguments(&self) -> Result<Vec<String>, Failure> {
        let mut arguments = ["up", "--foreground", "--on-demand"].map(str::to_owned).to_vec();
        arguments.push(format!("--listen={}", self.listen));
        for (flag, path) in [("--data-dir", &self.data_dir), ("--kubeconfig", &self.kubeconfig)] {
            let Some(path) = path else { continue };
            let absolute = std::path::absolute(path);
            let absolute = absolute.map_err(|e| Failure::usage(format!("can't use {}: {e}", path.display())))?;
            let Some(text) = absolute.to_str() else {
                return Err(Failure::usage(format!("{flag} {} is not UTF-8", path.display())));
            };
            arguments.push(format!("{flag}={text}"));
        }
        arguments.extend(self.otlp.as_arguments());
        arguments.extend(self.node.as_arguments());
        Ok(arguments)
    }
}

/// Begins it, or serves.
pub(crate) async fn run(args: &UpArgs, client: &Client) -> Outcome {
    if args.foreground {
        return serve(args, client).await;
    }
    let served = match running(client).await? {
        Some(served) => served,
        None => begin(args, client).await?,
    };
    stdout::print(&told(&served))?;
    if args.demo {
        stdout::print(&demo::apply(&served, client).await?)?;
    }
    Ok(Exit::Reached)
}

/// What the agent of this instance serves, if it does. One that serves nothing is told to end.
async fn running(client: &Client) -> Result<Option<Served>, Failure> {
    let Some(connection) = client.connect_running().await? else { return Ok(None) };
    let served = connection.agent().served.clone();
    if served.is_none() {
        tracing::info!(pid = connection.agent().pid, "ending the agent that runs; the pods stay");
        connection.shutdown().await?;
    }
    Ok(served)
}

async fn begin(args: &UpArgs, client: &Client) -> Result<Served, Failure> {
    // Mistakes are told here, not by the background.
    args.node.options()?;
    args.node.eviction(false)?;
    args.otlp.endpoint()?;
    let connection = client.starting(args.as_arguments()?).connect().await?;
    connection.agent().served.clone().ok_or_else(|| {
        let failure = Failure::system("another command has started an agent without an API meanwhile");
        failure.hint("try again")
    })
}

fn told(served: &Served) -> String {
    format!(
        "serving {}, node {} is registered\n\nexport KUBECONFIG={}\nkubectl get nodes\n",
        served.url,
        served.node,
        served.kubeconfig.display()
    )
}

/// Serves until it is told to end.
async fn serve(args: &UpArgs, client: &Client) -> Outcome {
    let mut ready = if args.on_demand { Readiness::Stdout } else { Readiness::Nobody };
    if args.on_demand
        && let Err(error) = rustix::process::setsid()
    {
        // Its own session: an interrupt that is typed in the terminal is not meant for it.
        tracing::debug!(%error, "it leads a session already");
    }
    match go_on(args, client, &mut ready).await {
        Ok(()) => Ok(Exit::Reached),
        Err(failure) => {
            ready.tell(&Ready::Failed { message: failure.message.clone(), hint: failure.hint.clone() });
            Err(failure)
        }
    }
}

async fn go_on(args: &UpArgs, client: &Client, ready: &mut Readiness) -> Result<(), Failure> {
    let place = client.place();
    let settings = Settings {
        node: args.node.options()?,
        eviction: args.node.eviction(false)?,
        image_gc: ImageGcPolicy { high_percent: super::agent::NEVER, ..ImageGcPolicy::default() },
        ..Settings::default()
    };
    let api = ApiSettings {
        data_dir: args.data_dir.clone().unwrap_or_else(|| default_data_dir(&place.state)),
        listen: args.listen,
        kubeconfig: args.kubeconfig.clone(),
        token_auth_file: None,
        schedules: true,
        mounts_tokens: true,
    };
    let mut node = NodeConfig::new(agent::node_name(), identity(&place.state));
    node.labels.clone_from(&settings.node.labels);
    let config = configz(&node, &settings, &ShutdownPolicy::default(), false);
    let mut companion = Up::new(api, node, config);
    // An agent that was told to end lets go of its lock a moment after its socket.
    let ended = agent::run(place, Mode::Replacement, &settings, ready, &mut companion).await;
    ended.map_err(|error| super::agent::failure(&error))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        up: UpArgs,
    }

    fn parse(arguments: &[&str]) -> UpArgs {
        Line::try_parse_from([&["up"], arguments].concat()).unwrap().up
    }

    #[test]
    fn the_process_in_the_background_gets_what_was_asked_for() {
        let asked = parse(&[
            "--data-dir=data",
            "--listen=127.0.0.1:7",
            "--kubeconfig=/k",
            "--node-label=a=b",
            "--otlp-endpoint=http://c:1",
        ]);
        let arguments = asked.as_arguments().unwrap();
        let given: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
        let child = parse(&given);
        assert!(child.foreground && child.on_demand && child.serves());
        assert_eq!(child.listen, asked.listen);
        assert_eq!(child.data_dir.unwrap(), std::path::absolute("data").unwrap());
        assert_eq!(child.kubeconfig.unwrap(), PathBuf::from("/k"));
        assert_eq!(child.node.as_arguments(), asked.node.as_arguments());
        assert_eq!(child.otlp.as_arguments().as_deref(), Some("--otlp-endpoint=http://c:1"));
    }

    #[test]
    fn what_to_do_next_is_told() {
        let served =
            Served { url: "https://127.0.0.1:6443".to_owned(), kubeconfig: "/k".into(), node: "box".to_owned() };
        let text = told(&served);
        assert!(text.contains("node box") && text.contains("export KUBECONFIG=/k\n"), "{text}");
    }
}
