//! Commands in containers.

use std::time::Duration;

use futures_util::{AsyncReadExt as _, AsyncWriteExt as _};
use minke_core::runtime::{ContainerId, ExecRequest, TerminalSize};

use crate::stage::{Broken, Stage};
use crate::subject::Program;
use crate::words;

async fn shell(s: &Stage, id: &ContainerId, script: &str, timeout: Option<Duration>) -> String {
    let command = ["/bin/sh", "-c", script].map(str::to_owned);
    match s.runtime().exec_sync(id, &command, timeout).await {
        Err(error) => words::refusal(&error),
        Ok(o) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            format!("{} {:?} {:?}", o.exit_code, text(&o.stdout), text(&o.stderr))
        }
    }
}

pub(crate) async fn output_and_codes(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let id = s.start(&pod, "app", Program::Polite(0)).await?;
    s.say(shell(s, &id, "echo out; echo err >&2; exit 7", None).await);
    s.say(shell(s, &id, "true", Some(Duration::from_secs(30))).await);
    s.say(shell(s, &id, "kill -KILL $$", None).await);
    let missing = s.runtime().exec_sync(&id, &["/no/such/program".to_owned()], None).await;
    s.say(format!("a missing program: {}", words::outcome(&missing)));
    s.say(format!("the container is {}", s.state(&id).await?));
    Ok(())
}

pub(crate) async fn where_nothing_runs(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let created = s.create(&pod, &s.container_config("created", Program::Exit(0))).await?;
    s.say(format!("before the start: {}", shell(s, &created, "true", None).await));
    let ended = s.start(&pod, "ended", Program::Exit(0)).await?;
    s.ended(&ended).await?;
    s.say(format!("after the end: {}", shell(s, &ended, "true", None).await));
    Ok(())
}

pub(crate) async fn a_timeout_kills(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let id = s.start(&pod, "app", Program::Polite(0)).await?;
    s.say(shell(s, &id, "sleep 4242", Some(Duration::from_secs(1))).await);
    // Its process has a name that nothing else in the container has.
    let gone = async || {
        let seen = shell(s, &id, "ps -o args | grep -c '[s]leep 4242'", None).await;
        Ok(seen.starts_with("1 \"0").then_some(()))
    };
    s.until("the command is gone", gone).await?;
    s.say("the command is gone");
    s.say(format!("the container is {}", s.state(&id).await?));
    Ok(())
}

pub(crate) async fn streams(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let id = s.start(&pod, "app", Program::Polite(0)).await?;
    let command = ["/bin/sh", "-c", "read line; echo got $line; echo err >&2; cat; exit 9"].map(str::to_owned).to_vec();
    let mut session = match s.runtime().exec(&id, &ExecRequest { command, stdin: true, tty: None }).await {
        Ok(session) => session,
        Err(error) => {
            s.say(words::refusal(&error));
            return Ok(());
        }
    };
    if let Some(mut stdin) = session.stdin.take() {
        stdin.write_all(b"one\ntwo\n").await?;
        stdin.close().await?;
    }
    let (mut out, mut err) = (String::new(), String::new());
    session.stdout.read_to_string(&mut out).await?;
    if let Some(mut stderr) = session.stderr.take() {
        stderr.read_to_string(&mut err).await?;
    }
    s.say(format!("{} {out:?} {err:?}", session.control.wait().await?));

    // Over CRI a terminal has its first size a moment after the program runs.
    let script = "n=0; test -t 0 && test -t 1 && until stty size 2>/dev/null | grep 91 || [ $((n += 1)) = 200 ]; do \
                  sleep 0.1; done; exit 4";
    let command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let tty = Some(TerminalSize { width: 91, height: 17 });
    let mut session = s.runtime().exec(&id, &ExecRequest { command, stdin: true, tty }).await?;
    let mut out = String::new();
    session.stdout.read_to_string(&mut out).await?;
    let code = session.control.wait().await?;
    s.say(format!("terminal: {code} {:?}, errors apart: {}", out.replace('\r', ""), session.stderr.is_some()));
    Ok(())
}
