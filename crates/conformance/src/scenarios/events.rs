//! Events: hints, but in the order of what happened.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use minke_core::runtime::{RuntimeError, RuntimeEvent, RuntimeEventKind};

use crate::stage::{Broken, Stage};
use crate::subject::Program;
use crate::words;

type Events = BoxStream<'static, Result<RuntimeEvent, RuntimeError>>;

/// Subscribes, or says that there are no events.
fn subscribe(s: &Stage) -> Option<Events> {
    match s.runtime().subscribe() {
        Ok(stream) => Some(stream),
        Err(error) => {
            s.say(words::refusal(&error));
            None
        }
    }
}

/// What happens to this scenario's Pod, as `Kind id`, until a sandbox is deleted.
async fn until_deleted(s: &Stage, events: &mut Events, sandbox: &str) -> Result<Vec<String>, Broken> {
    let mut seen = Vec::new();
    let all = async {
        while let Some(event) = events.next().await {
            let event = match event {
                // Some runtimes tell only now that they have none.
                Err(error @ RuntimeError::Unsupported { .. }) => {
                    seen.push(words::refusal(&error));
                    return Ok(());
                }
                event => event?,
            };
            if event.pod != *s.pod() {
                continue;
            }
            let what = if event.id == sandbox { "sandbox" } else { "container" };
            seen.push(format!("{what} {:?}", event.kind));
            if event.id == sandbox && event.kind == RuntimeEventKind::Deleted {
                return Ok(());
            }
        }
        Err(Broken("the stream ended".to_owned()))
    };
    match tokio::time::timeout(Duration::from_secs(10), all).await {
        Ok(done) => done.map(|()| seen),
        Err(_) => Ok(seen),
    }
}

/// A line for each, what follows of the same thing in one.
fn say_all(s: &Stage, seen: &[String]) {
    seen.iter().for_each(|event| s.say(event));
}

pub(crate) async fn of_a_life(s: &Stage) -> Result<(), Broken> {
    let Some(mut events) = subscribe(s) else { return Ok(()) };
    // A subscription may take a moment to reach the runtime.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let pod = s.sandbox().await?;
    let id = s.start(&pod, "app", Program::Exit(0)).await?;
    s.ended(&id).await?;
    s.runtime().remove_container(&id).await?;
    s.runtime().stop_sandbox(&pod).await?;
    s.runtime().remove_sandbox(&pod).await?;
    say_all(s, &until_deleted(s, &mut events, &pod.0).await?);
    Ok(())
}

pub(crate) async fn of_a_start_that_fails(s: &Stage) -> Result<(), Broken> {
    let Some(mut events) = subscribe(s) else { return Ok(()) };
    tokio::time::sleep(Duration::from_millis(300)).await;
    let pod = s.sandbox().await?;
    let id = s.create(&pod, &s.container_config("app", Program::Missing)).await?;
    let _ = s.runtime().start_container(&id).await;
    s.runtime().stop_sandbox(&pod).await?;
    s.runtime().remove_sandbox(&pod).await?;
    let seen = until_deleted(s, &mut events, &pod.0).await?;
    if let [unsupported] = seen.as_slice() {
        s.say(unsupported);
        return Ok(());
    }
    // Whether it is told that a container ended that never ran differs; that it never started does not.
    let started = seen.iter().any(|event| event == "container Started");
    s.say(format!("created: {}, started: {started}", seen.iter().any(|event| event == "container Created")));
    Ok(())
}
