//! Logs.

use crate::stage::{Broken, Stage};
use crate::subject::Program;
use crate::words;

pub(crate) async fn cri_format(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let program = Program::Shell("echo out; sleep 0.2; echo err >&2; sleep 0.2; printf 'no line end'");
    let id = s.start(&pod, "app", program).await?;
    s.ended(&id).await?;
    let path = s.log_path(&s.container_config("app", program));
    // The last words may be written a moment after the end.
    s.until("three records", async || Ok((s.records(&path).len() >= 3).then_some(()))).await?;
    for record in s.records(&path) {
        s.say(format!("{} {} {}", record.stream, record.tag, record.text));
    }
    Ok(())
}

pub(crate) async fn long_lines(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let program = Program::Shell("head -c 40000 /dev/zero | tr '\\0' x; echo; echo end");
    let id = s.start(&pod, "app", program).await?;
    s.ended(&id).await?;
    let config = s.container_config("app", program);
    s.until("the last record", async || Ok(s.log(&config).ends_with("end\n").then_some(()))).await?;
    let text = s.log(&config);
    s.say(format!("{} bytes, then {:?}", text.find('\n').unwrap_or(0), text.trim_start_matches('x')));
    let records = s.records(&s.log_path(&config));
    let partial = records.iter().filter(|r| r.tag == "P").count();
    s.say(format!(
        "in parts: {}, none larger than 16 KiB: {}",
        partial > 1,
        records.iter().all(|r| r.text.len() <= 16384)
    ));
    Ok(())
}

pub(crate) async fn rotation(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let program = Program::Shell("trap 'echo after; exit 0' TERM; echo up; sleep 1000 & wait");
    let id = s.start(&pod, "app", program).await?;
    let config = s.container_config("app", program);
    let path = s.log_path(&config);
    let old = path.with_extension("old");
    std::fs::rename(&path, &old)?;
    s.say(format!("reopen: {}", words::outcome(&s.runtime().reopen_log(&id).await)));
    s.say(format!("the new file is there: {}", path.exists()));
    s.runtime().stop_container(&id, std::time::Duration::from_secs(30)).await?;
    s.until("the last record", async || Ok((!s.log(&config).is_empty()).then_some(()))).await?;
    s.say(format!("old: {:?}, new: {:?}", texts(s, &old), texts(s, &path)));
    Ok(())
}

fn texts(s: &Stage, path: &std::path::Path) -> Vec<String> {
    s.records(path).into_iter().map(|record| record.text).collect()
}
