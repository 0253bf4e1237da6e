//! `minke image`: the image store, used directly. It is safe for several processes at once, so no agent is needed. A container
//! runtime with CRI has a store of its own ([`super::image_cri`]).

use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, Subcommand};
use indicatif::{HumanBytes, MultiProgress, ProgressBar, ProgressStyle};
use minke_core::runtime::{ImageId, ImageStatus, NoProgress, PullError, PullProgress, PullRequest};
use minke_oci::image::{ImageStore, ImportSource, Keep, Pruned, StoreConfig, StoreError};
use serde::Serialize;

use crate::backend::{self, Backend};
use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Format, document, stdout, table};

/// What to do with images.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    Pull(PullArgs),
    Import(ImportArgs),
    /// List images
    List(ListArgs),
    Rm(RmArgs),
    Prune(PruneArgs),
}

/// Fetch an image from its registry
///
/// Logins come from docker's configuration ($DOCKER_CONFIG, ~/.docker/config.json) and its credential helpers.
#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// The image, as a manifest names it
    #[arg(required = true, value_name = "IMAGE")]
    pub(super) images: Vec<String>,
    /// No progress
    #[arg(short, long)]
    quiet: bool,
}

/// Take images from an OCI archive, an OCI layout directory or a docker archive
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The file or directory, or - for an archive on standard input
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Name it so, instead of as the archive does; may be given several times
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
}

/// How to list.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Remove images, by name or id
#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    /// A name, or an id with all its names
    #[arg(required = true, value_name = "IMAGE")]
    pub(super) images: Vec<String>,
}

/// Remove images without a name that no container uses
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Those with a name, too
    #[arg(long, short)]
    all: bool,
}

/// Does it.
pub(crate) async fn run(command: &ImageCommand, client: &Client) -> Outcome {
    let state = &client.place().state;
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::system("the image store belongs to root: it keeps owners and devices of images")
            .hint("run this as root, for example with sudo"));
    }
    let backend = backend::choose(state, client.place().backend.as_ref()).map_err(|e| Failure::from_error(&e))?;
    if let Backend::Cri(endpoint) = backend {
        return super::image_cri::run(command, endpoint).await;
    }
    let store = ImageStore::open(&state.join("images"), StoreConfig::default()).map_err(|e| store_failure(&e))?;
    match command {
        ImageCommand::Pull(args) => pull(args, &store).await,
        ImageCommand::Import(args) => import(args, &store).await,
        ImageCommand::List(args) => list(args, &store),
        ImageCommand::Rm(args) => {
            let mut all = Pruned::default();
            for image in &args.images {
                if store.status(image).map_err(|e| store_failure(&e))?.is_none() {
                    return Err(
                        Failure::usage(format!("no image {image:?} in the store")).hint("`minke image list` shows all")
                    );
                }
                let pruned = store.remove(image, &in_use(state)).map_err(|e| store_failure(&e))?;
                all = Pruned {
                    images: [all.images, pruned.images].concat(),
                    layers: all.layers + pruned.layers,
                    bytes: all.bytes + pruned.bytes,
                };
            }
            told(&all)
        }
        ImageCommand::Prune(args) => {
            let keep = if args.all { Keep::Nothing } else { Keep::Tagged };
            told(&store.prune(&in_use(state), keep).map_err(|e| store_failure(&e))?)
        }
    }
}

/// Whether a container of this state directory has the image, looked up each time it is asked.
fn in_use(state: &Path) -> impl Fn(&ImageId) -> bool {
    let state = state.to_owned();
    move |id| minke_oci::images_in_use(&state).contains(id)
}

fn told(pruned: &Pruned) -> Outcome {
    let text: String = pruned.images.iter().map(|id| format!("removed {id}\n")).collect();
    stdout::print(&text)?;
    eprintln!("{} freed", HumanBytes(pruned.bytes));
    Ok(Exit::Reached)
}

async fn pull(args: &PullArgs, store: &ImageStore) -> Outcome {
    for image in &args.images {
        let bars = (!args.quiet && std::io::stderr().is_terminal()).then(|| Arc::new(LayerBars::default()));
        let progress: Arc<dyn PullProgress> = match &bars {
            Some(bars) => Arc::clone(bars) as Arc<dyn PullProgress>,
            None => Arc::new(NoProgress),
        };
        let request = PullRequest { image: image.clone(), credentials: Vec::new(), progress };
        let pulled = store.pull(&request).await;
        if let Some(bars) = bars {
            bars.clear();
        }
        let id = pulled.map_err(|e| pull_failure(&e))?;
        stdout::print(&format!("{id}\n"))?;
    }
    Ok(Exit::Reached)
}

async fn import(args: &ImportArgs, store: &ImageStore) -> Outcome {
    let source = if args.path == Path::new("-") {
        ImportSource::Stream(Box::new(std::io::stdin()))
    } else {
        ImportSource::Path(args.path.clone())
    };
    let imported = store.import(source, &args.name).await.map_err(|e| pull_failure(&e))?;
    let line = |image: &minke_oci::image::Imported| {
        let names = if image.names.is_empty() { "without a name".to_owned() } else { image.names.join(" ") };
        format!("{} {names}\n", image.id)
    };
    stdout::print(&imported.iter().map(line).collect::<String>())?;
    Ok(Exit::Reached)
}

/// An image as the formats for programs show it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ImageResult {
    id: String,
    names: Vec<String>,
    digests: Vec<String>,
    size_bytes: u64,
}

fn list(args: &ListArgs, store: &ImageStore) -> Outcome {
    show(args, store.list().map_err(|e| store_failure(&e))?)
}

/// Prints images.
pub(super) fn show(args: &ListArgs, images: Vec<ImageStatus>) -> Outcome {
    let text = match args.output {
        Format::Json | Format::Yaml => {
            let all: Vec<ImageResult> = images
                .into_iter()
                .map(|i| ImageResult { id: i.id.0, names: i.tags, digests: i.digests, size_bytes: i.size_bytes })
                .collect();
            document(&all, args.output == Format::Yaml)?
        }
        Format::Table => image_table(&images, false),
        Format::Wide => image_table(&images, true),
    };
    stdout::print(&text)?;
    Ok(Exit::Reached)
}

fn image_table(images: &[ImageStatus], wide: bool) -> String {
    let mut table = table::new(&["NAME", "ID", "SIZE"]);
    for image in images {
        let id = if wide { &image.id.0 } else { short_id(&image.id.0) };
        let names: Vec<&String> = match (image.tags.as_slice(), wide) {
            ([], _) => image.digests.iter().collect(),
            (tags, false) => tags.iter().collect(),
            (tags, true) => tags.iter().chain(&image.digests).collect(),
        };
        let size = HumanBytes(image.size_bytes).to_string();
        if names.is_empty() {
            table.add_row(["<none>", id, &size]);
        }
        for name in names {
            table.add_row([name, id, &size]);
        }
    }
    table::finish(&table)
}

/// The twelve digits that people know an image by.
fn short_id(id: &str) -> &str {
    let digits = id.strip_prefix("sha256:").unwrap_or(id);
    digits.get(..12).unwrap_or(digits)
}

fn store_failure(error: &StoreError) -> Failure {
    let failure = Failure::from_error(error);
    match error {
        StoreError::InvalidName { .. } | StoreError::Ambiguous { .. } | StoreError::NotFound { .. } => {
            Failure { exit: Exit::Usage, ..failure }
        }
        StoreError::InUse { .. } => failure.hint("`minke ps -a` shows the pods; `minke rm` removes those that use it"),
        StoreError::Io { .. } | StoreError::Damaged { .. } => failure,
    }
}

pub(super) fn pull_failure(error: &PullError) -> Failure {
    let failure = Failure::from_error(error);
    match error {
        PullError::InvalidName { .. } => Failure { exit: Exit::Usage, ..failure },
        PullError::Denied { .. } => failure.hint("log in with `docker login`, or write ~/.docker/config.json"),
        PullError::NotFound { .. }
        | PullError::RateLimited { .. }
        | PullError::Network { .. }
        | PullError::DigestMismatch { .. }
        | PullError::NoPlatform { .. }
        | PullError::BadContent { .. }
        | PullError::Storage { .. } => failure,
    }
}

/// One bar a layer.
#[derive(Debug, Default)]
struct LayerBars {
    multi: MultiProgress,
    bars: Mutex<HashMap<String, ProgressBar>>,
}

impl LayerBars {
    fn clear(&self) {
        for bar in self.bars.lock().unwrap_or_else(PoisonError::into_inner).values() {
            bar.finish_and_clear();
        }
    }
}

impl PullProgress for LayerBars {
    fn layer(&self, digest: &str, done: u64, total: u64) {
        let mut bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = bars.entry(digest.to_owned()).or_insert_with(|| {
            let style = ProgressStyle::with_template("{prefix} {bar:30.cyan/dim} {bytes} of {total_bytes}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = self.multi.add(ProgressBar::new(total).with_style(style));
            bar.set_prefix(short_id(digest).to_owned());
            bar
        });
        bar.set_length(total.max(done));
        bar.set_position(done);
    }
}

#[cfg(test)]
mod tests {
    use minke_core::runtime::ImageUser;

    use super::*;

    fn image(tags: &[&str], digests: &[&str]) -> ImageStatus {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        ImageStatus {
            id: ImageId(format!("sha256:{}", "ab".repeat(32))),
            tags: texts(tags),
            digests: texts(digests),
            size_bytes: 2048,
            user: ImageUser::Root,
            pinned: false,
        }
    }

    #[test]
    fn every_image_has_a_row_also_without_a_name() {
        let text = image_table(&[image(&["a:1", "a:2"], &["a@sha256:x"]), image(&[], &[])], false);
        let names: Vec<&str> = text.lines().map(|l| l.split_whitespace().next().unwrap()).collect();
        assert_eq!(names, ["NAME", "a:1", "a:2", "<none>"]);
        assert!(text.contains(" abababababab "), "{text}");
        assert!(image_table(&[image(&["a:1"], &["a@sha256:x"])], true).contains("a@sha256:x"));
    }
}
