//! `minke runners plan`: what would be done now, and why. Reads, and changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use minke_core::clock::{Clock, SystemClock};
use minke_core::runtime::error_chain;
use minke_runners::controller::{Forges, GitHubForges, KubeCluster, seen};
use minke_runners::demand::{Access, JobEvent, Labels, Reach, Router, Serves, SetKey, Status, Told};
use minke_runners::engine::{Command, Engine, Input};
use minke_runners::ids::{JobId, Slot};
use minke_runners::life::Outlook;
use minke_runners::set::{self, LABEL_SET, RunnerSet};

use crate::cmd::watch::connect::connect;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::stdout;

/// Say what would be done for a RunnerSet now, and why; nothing is changed
#[derive(Debug, Args)]
#[command(
    after_help = "The cluster is asked for the set's Pods, GitHub for its runners and jobs. With --offline neither \
                        is, and the set is looked at as if it had just been made."
)]
pub(crate) struct PlanArgs {
    /// The RunnerSet, as YAML or JSON
    #[arg(long, short, value_name = "FILE")]
    file: PathBuf,
    /// The kubeconfig; otherwise $KUBECONFIG, ~/.kube/config, or the service account of the Pod that this runs in
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The namespace, where the file names none
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// As if so many more jobs were queued
    #[arg(long, value_name = "N", default_value_t = 0)]
    queued: u32,
    /// Ask neither the cluster nor GitHub
    #[arg(long)]
    offline: bool,
}

pub(super) async fn run(args: &PlanArgs) -> Outcome {
    let mut set = read(&args.file)?;
    let settings = set::settings(&set).map_err(|problems| invalid(&args.file, &problems))?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let mut inputs = Vec::new();
    let mut notes = Vec::new();
    if args.offline {
        inputs.push(Input::Listed(Vec::new()));
    } else {
        let connection = connect(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
        let namespace = set.metadata.namespace.clone().or_else(|| args.namespace.clone());
        let namespace = namespace.unwrap_or_else(|| connection.namespace.clone());
        set.metadata.namespace = Some(namespace.clone());
        let pods: Api<Pod> = Api::namespaced(connection.client.clone(), &namespace);
        let own = ListParams::default().labels(&format!("{LABEL_SET}={}", settings.set));
        let listed = pods.list(&own).await;
        let listed = listed.map_err(|e| Failure::system(format!("can't list pods: {}", error_chain(&e))))?;
        let now = clock.now();
        inputs.push(Input::Listed(listed.items.iter().filter_map(|pod| seen(&settings.set, pod, now)).collect()));
        let cluster = Arc::new(KubeCluster::new(connection.client, Some(namespace.clone()), Arc::clone(&clock)));
        let forges = GitHubForges::new(cluster, Arc::clone(&clock));
        match ask(&forges, &namespace, &set, &*clock).await {
            Ok(more) => inputs.extend(more),
            Err(error) => notes.push(format!("GitHub was not asked: {}", error_chain(&error))),
        }
    }
    // Numbers that no forge gives.
    let imagined = (0..u64::from(args.queued)).map(|number| JobEvent {
        id: JobId(u64::MAX - number),
        source: "imagined".to_owned(),
        status: Status::Queued,
    });
    inputs.extend(imagined.map(Input::Job));
    let now = clock.now();
    let mut engine = Engine::new(settings);
    let commands = engine.handle(inputs, now);
    stdout::print(&told(&set, &engine, &commands, &notes, now))?;
    Ok(Exit::Reached)
}

fn read(path: &Path) -> Result<RunnerSet, Failure> {
    let wrong = |what: String| Failure::usage(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| wrong(format!("can't be read: {e}")))?;
    let document = minke_core::manifest::document(&text).map_err(|e| wrong(error_chain(&e)))?;
    serde_json::from_value(document.value).map_err(|e| wrong(format!("no RunnerSet: {e}")))
}

fn invalid(path: &Path, problems: &[set::Invalid]) -> Failure {
    let lines: Vec<String> = problems.iter().map(|problem| format!("{}: {problem}", path.display())).collect();
    Failure::usage(lines.join("\nerror: "))
}

/// What the forge says of this set's runners and jobs.
async fn ask(
    forges: &GitHubForges,
    namespace: &str,
    set: &RunnerSet,
    clock: &dyn Clock,
) -> Result<Vec<Input>, minke_runners::forge::ForgeError> {
    let forge = forges.forge(namespace, &set.spec).await?;
    let began = clock.now();
    let mut inputs = vec![Input::Runners { began, runners: forge.runners().await? }];
    let Some(reach) = Reach::of(&set.spec.github) else { return Ok(inputs) };
    // Of an organization nobody knows which repositories to ask about.
    if let Reach::Repository(repository) = &reach {
        let repository = repository.clone();
        let key = SetKey { namespace: namespace.to_owned(), name: set.metadata.name.clone().unwrap_or_default() };
        let mut router = Router::default();
        router.set(&key, Serves { reach, labels: set.spec.labels.iter().collect::<Labels>(), access: Access::All });
        let jobs = forge.jobs(&repository).await?;
        let polled = router.polled(&repository, began, &jobs, clock.now());
        inputs.extend(polled.into_iter().filter_map(|(_, told)| match told {
            Told::Polled(poll) => Some(Input::Polled(poll)),
            Told::Job(_) | Told::Elsewhere(_) => None,
        }));
    }
    Ok(inputs)
}

fn told(set: &RunnerSet, engine: &Engine, commands: &[Command], notes: &[String], now: jiff::Timestamp) -> String {
    let counts = engine.counts();
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let mut lines = vec![format!(
        "{name}: {} wanted, {} there ({} pending, {} idle, {} busy), {} draining, {} jobs queued",
        counts.desired, counts.replicas, counts.pending, counts.idle, counts.busy, counts.draining, counts.queued
    )];
    let status = set::status(set, None, engine, now);
    let mut done = Vec::new();
    let slot = |command: &Command| if let Command::Register { slot, .. } = command { Some(*slot) } else { None };
    let created: Vec<Slot> = commands.iter().filter_map(slot).collect();
    done.extend(creation(name, &created));
    for command in commands {
        match command {
            Command::CreatePod { slot, .. } => done.push(format!("make the Pod {}", slot.pod_name(name))),
            Command::Remove { id } => done.push(format!("ask GitHub to remove runner {id}")),
            Command::DeletePod { slot, .. } => done.push(format!("delete {}", slot.pod_name(name))),
            Command::ForceDelete { slot, .. } => done.push(format!("delete {} by force", slot.pod_name(name))),
            Command::Warn { slot, warning } => done.push(format!("warn of {}: {warning:?}", slot.pod_name(name))),
            // Told already, or bookkeeping.
            Command::Register { .. } | Command::Persist { .. } | Command::ListRunners => {}
        }
    }
    if done.is_empty() {
        lines.push("  nothing to be done".to_owned());
    }
    lines.extend(done.into_iter().map(|text| format!("  {text}")));
    for runner in engine.runners().filter(|runner| !runner.deleting()) {
        let Some(pod) = &runner.pod else { continue };
        let what = match &pod.outlook {
            Outlook::Fine => continue,
            Outlook::Troubled(fault) => format!("in trouble: {fault}"),
            Outlook::Hopeless(fault) => format!("will never work: {fault}. {}", fault.cause.remedy()),
        };
        lines.push(format!("  {}: {what}", runner.slot.pod_name(name)));
    }
    for hold in engine.holds() {
        let said = status.conditions.iter().find(|condition| condition.reason == format!("{:?}", hold.reason));
        let why = said.map(|condition| condition.message.clone()).unwrap_or_default();
        lines.push(format!(
            "  held back: {:?}: {why} (looked at again at {})",
            hold.reason,
            hold.wake_at.strftime("%FT%TZ")
        ));
    }
    lines.extend(notes.iter().map(|note| format!("  note: {note}")));
    lines.push(String::new());
    lines.join("\n")
}

/// Who would be created, slots in a row as one: hundreds of lines say no more.
fn creation(set: &str, slots: &[Slot]) -> Option<String> {
    let mut slots = slots.to_vec();
    slots.sort_unstable();
    let rows = slots.chunk_by(|one, next| one.0.checked_add(1) == Some(next.0));
    let names: Vec<String> = rows
        .filter_map(|row| {
            let (first, last) = (row.first()?.pod_name(set), row.last()?.pod_name(set));
            Some(if row.len() == 1 { first } else { format!("{first} to {last}") })
        })
        .collect();
    match slots.len() {
        0 => None,
        1 => Some(format!("create {}", names.join(", "))),
        count => Some(format!("create {count} runners: {}", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> RunnerSet {
        let text = "apiVersion: minke.dev/v1alpha1\nkind: RunnerSet\nmetadata: {name: linux}\nspec:\n  \
            github: {organization: octo, credentialsSecret: github}\n  labels: [linux]\n  max: 2\n  \
            template: {spec: {containers: [{name: runner, image: r}]}}\n";
        serde_json::from_value(minke_core::manifest::document(text).unwrap().value).unwrap()
    }

    #[test]
    fn slots_in_a_row_are_told_as_one() {
        let told = |slots: &[u32]| creation("l", &slots.iter().map(|slot| Slot(*slot)).collect::<Vec<_>>());
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[7]).as_deref(), Some("create l-7"));
        assert_eq!(told(&[9, 0, 1, 2, 5]).as_deref(), Some("create 5 runners: l-0 to l-2, l-5, l-9"));
    }

    #[test]
    fn what_would_be_done_is_told_with_the_reason_for_the_rest() {
        let set = set();
        let mut engine = Engine::new(set::settings(&set).unwrap());
        let now = SystemClock.now();
        let job = |id| {
            let event = JobEvent { id: JobId(id), source: "o/r".to_owned(), status: Status::Queued };
            Input::Job(event)
        };
        let commands = engine.handle([Input::Listed(vec![]), job(1), job(2), job(3)], now);
        let text = told(&set, &engine, &commands, &["a note".to_owned()], now);
        assert!(text.starts_with("linux: 2 wanted, 0 there"), "{text}");
        assert!(text.contains("\n  create 2 runners: linux-0 to linux-1\n"), "{text}");
        assert!(text.contains("held back: AtMax: more runners are wanted than the maximum allows"), "{text}");
        assert!(text.contains("note: a note"), "{text}");
    }
}
