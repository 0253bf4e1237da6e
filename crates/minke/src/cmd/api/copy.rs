//! `minke api export` and `import`: all objects as lines of JSON, while no server uses them.
//!
//! An export is insurance against a damaged log, and the way to another version or machine. It has every Secret as it is.
//! An import happens as one transaction: one that is interrupted has changed nothing and is done again. Revisions go on above
//! the exported ones; certificates and keys are not in it, a new server makes its own.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufReader, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use minke_apiserver::store::{HistoryLimits, Store};

use crate::exit::{Exit, Failure, Outcome};

/// The name of the standard streams.
const STANDARD: &str = "-";

/// Writes all objects of a data directory to a file, readable by its owner alone, whole or not at all.
pub(super) fn export(data_dir: &Path, to: &Path) -> Outcome {
    let log = data_dir.join("api.redb");
    if !log.exists() {
        return Err(Failure::system(format!("there are no objects in {}", data_dir.display())));
    }
    let store = Store::open(&log, HistoryLimits::default()).map_err(|error| {
        Failure::because("can't open the server's objects; a server that uses them must be stopped", &error)
    })?;
    let told =
        |error: &(dyn std::error::Error + 'static)| Failure::because(format!("can't write {}", to.display()), error);
    if to == Path::new(STANDARD) {
        let mut out = BufWriter::new(std::io::stdout().lock());
        store.export(&mut out).map_err(|error| told(&error))?;
        out.flush().map_err(|error| told(&error))?;
        return Ok(Exit::Reached);
    }
    let mut beside = to.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside);
    let written = file.map_err(|error| told(&error)).and_then(|file| {
        let mut out = BufWriter::new(file);
        store.export(&mut out).map_err(|error| told(&error))?;
        let file = out.into_inner().map_err(|error| told(error.error()))?;
        file.sync_all().and_then(|()| std::fs::rename(beside, to)).map_err(|error| told(&error))
    });
    if written.is_err() {
        // Half an export is none. What can't be removed is refused the next time, by its name.
        drop(std::fs::remove_file(beside));
    }
    written.map(|()| Exit::Reached)
}

/// Fills an empty data directory with an export.
pub(super) fn import(data_dir: &Path, from: &Path) -> Outcome {
    let told =
        |error: &(dyn std::error::Error + 'static)| Failure::because(format!("can't import {}", from.display()), error);
    DirBuilder::new().recursive(true).mode(0o700).create(data_dir).map_err(|error| told(&error))?;
    let log = data_dir.join("api.redb");
    let imported = if from == Path::new(STANDARD) {
        Store::import(&log, &mut BufReader::new(std::io::stdin().lock()))
    } else {
        let file = File::open(from).map_err(|error| told(&error))?;
        Store::import(&log, &mut BufReader::new(file))
    };
    imported.map_err(|error| told(&error))?;
    Ok(Exit::Reached)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use minke_apiserver::engine::Engine;
    use minke_core::clock::SystemClock;

    fn objects(data_dir: &Path) -> usize {
        let store = Store::open(&data_dir.join("api.redb"), HistoryLimits::default()).unwrap();
        store.count("namespaces")
    }

    /// Once nobody has the log open: a store's writer ends with its last handle, a little later.
    async fn unlocked(act: impl Fn() -> Outcome) -> Outcome {
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            match act() {
                Err(error) if error.message.contains("is another server using it") => {
                    assert!(tokio::time::Instant::now() < deadline, "{}", error.message);
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
                done => return done,
            }
        }
    }

    #[tokio::test]
    async fn what_is_exported_is_imported_once_and_nothing_is_overwritten() {
        let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = old.path().join("all.jsonl");
        assert!(export(old.path(), &file).is_err(), "there is nothing yet");
        {
            let store = Store::open(&old.path().join("api.redb"), HistoryLimits::default()).unwrap();
            Engine::new(store, Arc::new(SystemClock)).prepare().await.unwrap();
        }
        unlocked(|| export(old.path(), &file)).await.unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let target = new.path().join("data");
        import(&target, &file).unwrap();
        assert_eq!(objects(&target), 4);
        let again = unlocked(|| import(&target, &file)).await.unwrap_err();
        assert!(again.message.contains("there are objects already"), "{}", again.message);
        // Half an export is refused, and leaves nothing.
        let text = std::fs::read_to_string(&file).unwrap();
        let half = old.path().join("half.jsonl");
        std::fs::write(&half, text.lines().take(3).collect::<Vec<_>>().join("\n")).unwrap();
        let other = new.path().join("other");
        assert!(import(&other, &half).unwrap_err().message.contains("incomplete"));
        import(&other, &file).unwrap();
        assert_eq!(objects(&other), 4);
    }
}
