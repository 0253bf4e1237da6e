//! Joining programs, and reaching ports.

use std::pin::Pin;

use futures_util::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use minke_core::runtime::{AttachRequest, ExecRequest, ExecSession, TerminalSize};

use crate::stage::{Broken, Stage};
use crate::subject::Program;
use crate::words;

/// Reads until this is among what was read.
async fn until(stream: &mut Pin<Box<dyn AsyncRead + Send>>, wanted: &str) -> Result<(), Broken> {
    let mut seen = Vec::new();
    let mut buffer = [0; 1024];
    let reading = async {
        while !String::from_utf8_lossy(&seen).contains(wanted) {
            let n = stream.read(&mut buffer).await?;
            if n == 0 {
                return Err(Broken(format!("{wanted:?} never came, but {:?}", String::from_utf8_lossy(&seen))));
            }
            seen.extend_from_slice(&buffer[..n]);
        }
        Ok(())
    };
    match tokio::time::timeout(std::time::Duration::from_secs(60), reading).await {
        Ok(read) => read,
        Err(_) => Err(Broken(format!("{wanted:?} did not come in time"))),
    }
}

async fn say(session: &mut ExecSession, line: &[u8]) -> Result<(), Broken> {
    let stdin = session.stdin.as_mut().ok_or_else(|| Broken("there is no input".to_owned()))?;
    stdin.write_all(line).await?;
    Ok(stdin.flush().await?)
}

pub(crate) async fn joining(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    // Its input has no end, so it is told when to end. Not at once: containerd may lose what is written just before.
    let script =
        "echo up; while read line; do [ $line = over ] && break; echo got $line; done; echo err >&2; read line; exit 5";
    let program = Program::Shell(script);
    let mut config = s.container_config("app", program);
    config.stdin = true;
    let id = s.start_config(&pod, &config, program).await?;
    let request = AttachRequest { stdin: true, tty: false, size: None };

    let mut first = s.runtime().attach(&id, request).await?;
    say(&mut first, b"one\n").await?;
    until(&mut first.stdout, "got one\n").await?;
    s.say("got one");
    drop(first);

    let mut second = s.runtime().attach(&id, request).await?;
    s.say("left, and it goes on");
    say(&mut second, b"two\n").await?;
    until(&mut second.stdout, "got two\n").await?;
    s.say("got two");
    say(&mut second, b"over\n").await?;
    let mut stderr = second.stderr.take().ok_or_else(|| Broken("there are no errors".to_owned()))?;
    until(&mut stderr, "err\n").await?;
    s.say("error: err");
    say(&mut second, b"now\n").await?;
    s.say(format!("the end: {}", second.control.wait().await?));
    s.ended(&id).await?;
    s.say(format!("then the container is {}", s.state(&id).await?));
    Ok(())
}

pub(crate) async fn terminal(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let program = Program::Shell("echo up; while read line; do echo size $(stty size); done");
    let mut config = s.container_config("app", program);
    (config.stdin, config.tty) = (true, true);
    let id = s.create(&pod, &config).await?;
    s.runtime().start_container(&id).await?;
    let size = Some(TerminalSize { width: 91, height: 17 });
    let mut session = s.runtime().attach(&id, AttachRequest { stdin: true, tty: true, size }).await?;
    asked(&mut session, "size 17 91").await?;
    s.say("size 17 91");
    session.control.resize(TerminalSize { width: 100, height: 30 }).await?;
    asked(&mut session, "size 30 100").await?;
    s.say("size 30 100");
    let mut watches = s.runtime().attach(&id, AttachRequest { stdin: true, tty: true, size: None }).await?;
    asked(&mut watches, "size 30 100").await?;
    s.say("who only watches leaves it so");
    s.say(format!("errors apart: {}", session.stderr.is_some()));
    Ok(())
}

/// A size takes effect when it does; the program is asked until it has.
async fn asked(session: &mut ExecSession, wanted: &str) -> Result<(), Broken> {
    let mut stdout = std::mem::replace(&mut session.stdout, Box::pin(futures_util::io::empty()));
    let asking = async {
        loop {
            say(session, b"\n").await?;
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    let seen = tokio::select! {
        seen = until(&mut stdout, wanted) => seen,
        failed = asking => failed,
    };
    session.stdout = stdout;
    seen
}

pub(crate) async fn where_nothing_runs(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let created = s.create(&pod, &s.container_config("created", Program::Exit(0))).await?;
    let joined = s.runtime().attach(&created, AttachRequest::default()).await;
    s.say(format!("before the start: {}", words::outcome(&joined)));
    let ended = s.start(&pod, "ended", Program::Exit(0)).await?;
    s.ended(&ended).await?;
    let joined = s.runtime().attach(&ended, AttachRequest::default()).await;
    s.say(format!("after the end: {}", words::outcome(&joined)));
    s.runtime().stop_sandbox(&pod).await?;
    let connected = s.runtime().connect(&pod, 80).await;
    s.say(format!("a port of a sandbox that is stopped: {}", words::outcome(&connected)));
    Ok(())
}

pub(crate) async fn ports(s: &Stage) -> Result<(), Broken> {
    const BYTES: usize = 4 << 20;
    let pod = s.sandbox().await?;
    let id = s.start(&pod, "app", Program::Polite(0)).await?;
    // On the host's network ports are everybody's: this one depends on the scenario's own number.
    let number = s.pod().to_string().bytes().fold(0_u64, |sum, byte| (sum * 31 + u64::from(byte)) % 10_000);
    let port = 20_000 + u16::try_from(number).unwrap_or_default();
    let script = format!("nc -l -p {port} -e cat");
    let command = ["/bin/sh", "-c", &script].map(str::to_owned).to_vec();
    let _server = s.runtime().exec(&id, &ExecRequest { command, stdin: false, tty: None }).await?;

    let data: Vec<u8> = (0..BYTES).map(|n| n.to_le_bytes()[1] ^ n.to_le_bytes()[0]).collect();
    // It listens a moment later, and takes one connection only: the first that comes about.
    let echoed = s
        .until("the port answers", async || {
            let Ok(connection) = s.runtime().connect(&pod, port).await else { return Ok(None) };
            let (mut read, mut write) = connection.split();
            let mut back = vec![0; BYTES];
            // The end comes last: containerd gives the other direction a second after one has ended.
            let (sent, received) = futures_util::future::join(write.write_all(&data), read.read_exact(&mut back)).await;
            Ok((sent.is_ok() && received.is_ok()).then_some(back))
        })
        .await?;
    let same = if echoed == data { "as they were" } else { "but not as they were" };
    s.say(format!("{} bytes back, {same}", echoed.len()));

    let refused = match s.runtime().connect(&pod, 1).await {
        Err(_) => true,
        Ok(mut connection) => connection.read(&mut [0; 8]).await.is_err(),
    };
    s.say(format!("a port without a listener is {}", if refused { "an error" } else { "reached" }));
    Ok(())
}
