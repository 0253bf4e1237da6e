//! Containers, from their creation to their removal.

use std::time::Duration;

use minke_core::runtime::{ContainerId, ContainerState, ImageId, ListFilter, SandboxId};

use crate::stage::{Broken, Stage};
use crate::subject::Program;
use crate::words;

async fn listed(s: &Stage, filter: &ListFilter) -> Result<String, Broken> {
    let mut list = s.runtime().list_containers(filter).await?;
    list.sort_by(|a, b| (&a.name, a.attempt).cmp(&(&b.name, b.attempt)));
    let one = |c: &minke_core::runtime::ContainerInfo| format!("{} {} {}", c.name, c.attempt, words::phase(c.phase));
    Ok(format!("[{}]", list.iter().map(one).collect::<Vec<_>>().join(", ")))
}

pub(crate) async fn created_then_running_then_ended(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let config = s.container_config("app", Program::Polite(0));
    let id = s.create(&pod, &config).await?;
    s.say(format!("made: {}, listed {}", s.state(&id).await?, listed(s, &s.own()).await?));
    s.runtime().start_container(&id).await?;
    s.say(format!("started: {}, listed {}", s.state(&id).await?, listed(s, &s.own()).await?));
    s.say(format!("started again: {}", words::outcome(&s.runtime().start_container(&id).await)));
    s.say(format!("still {}", s.state(&id).await?));
    s.runtime().stop_container(&id, Duration::ZERO).await?;
    s.say(format!("killed: {}, listed {}", s.ended(&id).await?, listed(s, &s.own()).await?));
    s.say(format!("started after its end: {}", words::outcome(&s.runtime().start_container(&id).await)));
    let status = s.runtime().container_status(&id).await?;
    let in_order = match &status.state {
        ContainerState::Exited { started_at: Some(started), exit } => {
            status.created_at <= *started && *started <= exit.finished_at
        }
        ContainerState::Exited { started_at: None, .. }
        | ContainerState::Created
        | ContainerState::Running { .. }
        | ContainerState::Unknown => false,
    };
    s.say(format!("times in order: {in_order}"));
    Ok(())
}

pub(crate) async fn exit_codes(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    for code in [0, 1, 126, 255] {
        let id = s.start(&pod, &format!("exit{code}"), Program::Exit(code)).await?;
        s.say(s.ended(&id).await?);
    }
    Ok(())
}

pub(crate) async fn signals(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    for (name, script) in [
        ("term", "sh -c 'kill -TERM $$'; exit $?"),
        ("segv", "sh -c 'kill -SEGV $$'; exit $?"),
        // The first process of a PID namespace is safe from what it sends itself.
        ("itself", "kill -KILL $$; exit 3"),
    ] {
        let id = s.start(&pod, name, Program::Shell(script)).await?;
        s.say(format!("{name}: {}", s.ended(&id).await?));
    }
    Ok(())
}

pub(crate) async fn a_missing_program(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let id = s.create(&pod, &s.container_config("app", Program::Missing)).await?;
    s.say(format!("start: {}", words::outcome(&s.runtime().start_container(&id).await)));
    s.say(s.state(&id).await?);
    s.say(format!("listed {}", listed(s, &s.own()).await?));
    s.say(format!("remove: {}", words::outcome(&s.runtime().remove_container(&id).await)));
    Ok(())
}

pub(crate) async fn a_missing_image(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let mut config = s.container_config("app", Program::Exit(0));
    config.image = ImageId(format!("sha256:{}", "0".repeat(64)));
    s.say(format!("create: {}", words::outcome(&s.create(&pod, &config).await)));
    s.say(format!("listed {}", listed(s, &s.own()).await?));
    let nowhere = SandboxId("nosuchsandbox".to_owned());
    let config = s.container_config("app", Program::Exit(0));
    s.say(format!("in no sandbox: {}", words::outcome(&s.create(&nowhere, &config).await)));
    Ok(())
}

pub(crate) async fn twice_the_same_attempt(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let mut config = s.container_config("app", Program::Exit(4));
    let first = s.create(&pod, &config).await?;
    let again = s.create(&pod, &config).await;
    s.say(format!("the same attempt: {}", words::outcome(&again)));
    let first = again.unwrap_or(first);
    s.runtime().start_container(&first).await?;
    s.say(s.ended(&first).await?);
    s.say(format!("the same attempt after its end: {}", words::outcome(&s.create(&pod, &config).await)));
    config.attempt = 1;
    config.log_path = "app/1.log".into();
    let second = s.create(&pod, &config).await?;
    s.say(format!("the next attempt: listed {}", listed(s, &s.own()).await?));
    s.runtime().remove_container(&first).await?;
    s.runtime().start_container(&second).await?;
    s.say(format!("{}, listed {}", s.ended(&second).await?, listed(s, &s.own()).await?));
    Ok(())
}

pub(crate) async fn removal(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let id = s.start(&pod, "app", Program::Deaf).await?;
    let config = s.container_config("app", Program::Deaf);
    for _ in 0..2 {
        s.say(format!("remove: {}", words::outcome(&s.runtime().remove_container(&id).await)));
    }
    s.say(format!("status: {}", words::outcome(&s.runtime().container_status(&id).await)));
    s.say(format!("listed {}", listed(s, &s.own()).await?));
    if s.subject.kind.runs_programs() {
        s.say(format!("its log stays: {}", s.log_path(&config).exists()));
    }
    let created = s.create(&pod, &s.container_config("unstarted", Program::Exit(0))).await?;
    s.say(format!("remove an unstarted one: {}", words::outcome(&s.runtime().remove_container(&created).await)));
    Ok(())
}

pub(crate) async fn unknown_ids(s: &Stage) -> Result<(), Broken> {
    let (r, pod, id) = (s.runtime(), SandboxId("nosuchsandbox".to_owned()), ContainerId("nosuchcontainer".to_owned()));
    let true_ = ["true".to_owned()];
    s.say(format!("sandbox status: {}", words::outcome(&r.sandbox_status(&pod).await)));
    s.say(format!("stop sandbox: {}", words::outcome(&r.stop_sandbox(&pod).await)));
    s.say(format!("remove sandbox: {}", words::outcome(&r.remove_sandbox(&pod).await)));
    s.say(format!("container status: {}", words::outcome(&r.container_status(&id).await)));
    s.say(format!("start: {}", words::outcome(&r.start_container(&id).await)));
    s.say(format!("stop: {}", words::outcome(&r.stop_container(&id, Duration::from_secs(1)).await)));
    s.say(format!("remove: {}", words::outcome(&r.remove_container(&id).await)));
    s.say(format!("reopen log: {}", words::outcome(&r.reopen_log(&id).await)));
    s.say(format!("exec: {}", words::outcome(&r.exec_sync(&id, &true_, None).await)));
    Ok(())
}

pub(crate) async fn lists_are_filtered(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    s.start(&pod, "app", Program::Polite(0)).await?;
    s.start(&pod, "side", Program::Exit(1)).await?;
    s.until("the second one ends", async || {
        let list = listed(s, &s.own()).await?;
        Ok(list.contains("exited").then_some(()))
    })
    .await?;
    s.say(format!("own: {}", listed(s, &s.own()).await?));
    let stranger = minke_core::identity::PodUid::new("no-such-pod").map_err(|e| Broken(e.to_string()))?;
    s.say(format!("of nobody: {}", listed(s, &ListFilter::pod(&stranger)).await?));
    let all = s.runtime().list_containers(&ListFilter::default()).await?;
    let own = all.iter().filter(|c| c.pod == *s.pod() && c.sandbox == pod).count();
    s.say(format!("in the list of all: {own}"));
    Ok(())
}
