//! How containers are stopped.

use std::time::Duration;

use crate::stage::{Broken, Stage};
use crate::subject::Program;
use crate::words;

const LONG: Duration = Duration::from_secs(30);

pub(crate) async fn asks_then_kills(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let polite = s.start(&pod, "polite", Program::Polite(5)).await?;
    s.say(format!("stop: {}", words::outcome(&s.runtime().stop_container(&polite, LONG).await)));
    s.say(format!("obeyed: {}", s.state(&polite).await?));
    let deaf = s.start(&pod, "deaf", Program::Deaf).await?;
    let began = tokio::time::Instant::now();
    s.say(format!("stop: {}", words::outcome(&s.runtime().stop_container(&deaf, Duration::from_secs(1)).await)));
    s.say(format!(
        "ignored: {}, after its grace: {}",
        s.state(&deaf).await?,
        began.elapsed() >= Duration::from_secs(1)
    ));
    let killed = s.start(&pod, "killed", Program::Polite(5)).await?;
    s.say(format!(
        "stop without grace: {}",
        words::outcome(&s.runtime().stop_container(&killed, Duration::ZERO).await)
    ));
    s.say(format!("killed: {}", s.state(&killed).await?));
    Ok(())
}

pub(crate) async fn again_changes_nothing(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let id = s.start(&pod, "app", Program::Exit(3)).await?;
    s.say(s.ended(&id).await?);
    for _ in 0..2 {
        s.say(format!("stop: {}", words::outcome(&s.runtime().stop_container(&id, LONG).await)));
    }
    s.say(s.state(&id).await?);
    Ok(())
}

pub(crate) async fn before_the_start(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let id = s.create(&pod, &s.container_config("app", Program::Exit(0))).await?;
    s.say(format!("stop: {}", words::outcome(&s.runtime().stop_container(&id, LONG).await)));
    s.say(s.state(&id).await?);
    Ok(())
}

pub(crate) async fn a_shorter_grace_overtakes(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let id = s.start(&pod, "app", Program::Deaf).await?;
    let began = tokio::time::Instant::now();
    let long = s.runtime().stop_container(&id, LONG);
    let short = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        s.runtime().stop_container(&id, Duration::from_secs(1)).await
    };
    let (long, short) = futures_util::future::join(long, short).await;
    s.say(format!("short: {}, long: {}", words::outcome(&short), words::outcome(&long)));
    s.say(format!("{}, early: {}", s.state(&id).await?, began.elapsed() < LONG / 2));
    Ok(())
}

pub(crate) async fn the_signal_of_the_manifest(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let program = Program::Shell("trap 'exit 11' USR1; trap 'exit 12' TERM; echo up; sleep 1000 & wait");
    let mut config = s.container_config("app", program);
    config.stop_signal = Some("SIGUSR1".to_owned());
    let id = s.start_config(&pod, &config, program).await?;
    s.runtime().stop_container(&id, LONG).await?;
    s.say(s.state(&id).await?);
    Ok(())
}
