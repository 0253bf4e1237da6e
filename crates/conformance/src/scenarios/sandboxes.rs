//! Sandboxes.

use minke_core::runtime::{NamespaceOptions, SandboxId, labels};

use crate::stage::{Broken, Stage};
use crate::subject::Program;
use crate::words;

async fn listed(s: &Stage) -> Result<String, Broken> {
    let mut list = s.runtime().list_sandboxes(&s.own()).await?;
    list.sort_by_key(|sandbox| sandbox.attempt);
    let one = |i: &minke_core::runtime::SandboxInfo| format!("{} {}", i.attempt, words::ready(i.state));
    Ok(format!("[{}]", list.iter().map(one).collect::<Vec<_>>().join(", ")))
}

async fn ready(s: &Stage, id: &SandboxId) -> String {
    match s.runtime().sandbox_status(id).await {
        Ok(status) => words::ready(status.info.state).to_owned(),
        Err(error) => words::refusal(&error),
    }
}

pub(crate) async fn lives_and_goes(s: &Stage) -> Result<(), Broken> {
    let id = s.sandbox().await?;
    s.say(format!("made: {}, listed {}", ready(s, &id).await, listed(s).await?));
    for _ in 0..2 {
        s.say(format!("stop: {}", words::outcome(&s.runtime().stop_sandbox(&id).await)));
    }
    s.say(format!("stopped: {}, listed {}", ready(s, &id).await, listed(s).await?));
    for _ in 0..2 {
        s.say(format!("remove: {}", words::outcome(&s.runtime().remove_sandbox(&id).await)));
    }
    s.say(format!("removed: {}, listed {}", ready(s, &id).await, listed(s).await?));
    Ok(())
}

pub(crate) async fn attempts(s: &Stage) -> Result<(), Broken> {
    let first = s.sandbox().await?;
    let mut config = s.sandbox_config();
    s.say(format!("the same attempt: {}", words::outcome(&s.runtime().run_sandbox(&config).await)));
    s.say(format!("the first one is {}", ready(s, &first).await));
    s.runtime().stop_sandbox(&first).await?;
    config.attempt = 1;
    s.say(format!("the next attempt: {}", words::outcome(&s.runtime().run_sandbox(&config).await)));
    s.say(format!("listed {}", listed(s).await?));
    Ok(())
}

pub(crate) async fn labels_come_back(s: &Stage) -> Result<(), Broken> {
    let mut config = s.sandbox_config();
    std::fs::create_dir_all(&config.log_directory)?;
    config.labels.insert("example.com/app".to_owned(), "web".to_owned());
    config.annotations.insert("example.com/note".to_owned(), "two words, \"quoted\"\nand a line".to_owned());
    config.annotations.insert("empty".to_owned(), String::new());
    let pod = s.runtime().run_sandbox(&config).await?;
    let status = s.runtime().sandbox_status(&pod).await?;
    let has = |all: bool| if all { "as given" } else { "not as given" };
    s.say(format!("labels of the sandbox: {}", has(config.labels == status.labels)));
    s.say(format!("annotations of the sandbox: {}", has(config.annotations == status.annotations)));
    s.say(format!("the Pod: {}", has(status.info.pod == config.pod)));

    let mut container = s.container_config("app", Program::Exit(0));
    container.labels.insert("example.com/part".to_owned(), "front".to_owned());
    container.annotations.insert(labels::HASH.to_owned(), "1a2b3c".to_owned());
    let id = s.create(&pod, &container).await?;
    let status = s.runtime().container_status(&id).await?;
    s.say(format!("labels of the container: {}", has(container.labels == status.labels)));
    s.say(format!("annotations of the container: {}", has(container.annotations == status.annotations)));
    let ours = (status.pod == *s.pod(), status.name.as_str(), status.attempt, status.sandbox == pod);
    s.say(format!("the container: {}", has(ours == (true, "app", 0, true))));
    s.say(format!("its image: {}", has(status.image == container.image && status.image_name == container.image_name)));
    s.say(format!("its log: {}", has(status.log_path == s.log_path(&container))));
    Ok(())
}

pub(crate) async fn removal_takes_containers_along(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let id = s.start(&pod, "app", Program::Deaf).await?;
    // As whoever removes does it: what has failed is tried again.
    s.until("the sandbox is removed", async || Ok(s.runtime().remove_sandbox(&pod).await.ok())).await?;
    s.say("remove: ok");
    s.say(format!("the container: {}", words::outcome(&s.runtime().container_status(&id).await)));
    s.say(format!("listed: {}", s.runtime().list_containers(&s.own()).await?.len()));
    Ok(())
}

pub(crate) async fn stopping_ends_containers(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let id = s.start(&pod, "app", Program::Deaf).await?;
    s.say(format!("stop: {}", words::outcome(&s.runtime().stop_sandbox(&pod).await)));
    s.say(format!("the container: {}", s.ended(&id).await?));
    let late = s.create(&pod, &s.container_config("late", Program::Exit(0))).await;
    s.say(format!("a container in a stopped sandbox: {}", words::outcome(&late)));
    Ok(())
}

pub(crate) async fn addresses(s: &Stage) -> Result<(), Broken> {
    let host = s.sandbox().await?;
    let count = s.runtime().sandbox_status(&host).await?.ips.len();
    s.say(format!("on the host's network: {count} addresses"));
    s.runtime().remove_sandbox(&host).await?;
    let config = minke_core::runtime::SandboxConfig {
        namespaces: NamespaceOptions::default(),
        attempt: 1,
        ..s.sandbox_config()
    };
    let own = s.runtime().run_sandbox(&config).await?;
    let some = |any: bool| if any { "some" } else { "none" };
    let status = s.runtime().sandbox_status(&own).await?;
    s.say(format!("on a network of its own: {}", some(!status.ips.is_empty())));
    s.say(format!("as asked for: {}", status.namespaces.network == config.namespaces.network));
    s.runtime().stop_sandbox(&own).await?;
    s.say(format!("stopped: {}", some(!s.runtime().sandbox_status(&own).await?.ips.is_empty())));
    Ok(())
}
