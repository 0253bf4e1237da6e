//! Termination messages: what a container wrote to its file, or else the end of its log. Blocks.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use minke_core::crilog::{LineAssembler, parse_line};
use minke_core::status::{MAX_FALLBACK_BYTES, MAX_FALLBACK_LINES, MAX_MESSAGE_BYTES};
use rustix::fs::{FileType, Mode, OFlags};

/// What a container left to say. `file` is its termination log on the host; `fallback` is its log, to be used when
/// the file is empty (policy `FallbackToLogsOnError` and an exit code other than 0). Empty when there is nothing.
///
/// # Errors
/// The file exists and can't be read.
pub fn termination_message(file: &Path, fallback: Option<&Path>) -> io::Result<String> {
    let written = read_message(file)?;
    match fallback {
        Some(log) if written.is_empty() => Ok(log_tail(log).unwrap_or_default()),
        Some(_) | None => Ok(written),
    }
}

/// The beginning of a file that a container could write to, and could have replaced by anything: links are not
/// followed, and what is no plain file is not read.
fn read_message(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Ok(String::new()),
        Err(error) => return Err(error.into()),
    };
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(String::new());
    }
    let mut bytes = Vec::new();
    File::from(file).take(MAX_MESSAGE_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(text(&bytes))
}

/// Bytes as text; a character that was cut off at the end goes.
fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned()
        }
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// How much of a log is looked at: enough for the wanted bytes in the shortest possible lines.
const TAIL_BYTES: u64 = 256 << 10;

/// The last lines of a log: at most [`MAX_FALLBACK_LINES`] lines and [`MAX_FALLBACK_BYTES`] bytes.
fn log_tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(tail_of(&bytes, start > 0))
}

fn tail_of(bytes: &[u8], cut: bool) -> String {
    // The first line may be the end of one.
    let bytes = if cut { bytes.iter().position(|b| *b == b'\n').map_or(&[][..], |at| &bytes[at + 1..]) } else { bytes };
    let mut assembler = LineAssembler::default();
    let mut last = VecDeque::new();
    let mut keep = |line: Vec<u8>| {
        if last.len() == MAX_FALLBACK_LINES {
            last.pop_front();
        }
        last.push_back(line);
    };
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        if let Ok(entry) = parse_line(line)
            && let Some(whole) = assembler.push(&entry)
        {
            keep(whole.text);
        }
    }
    assembler.finish().into_iter().for_each(|rest| keep(rest.text));
    let mut joined = Vec::new();
    for line in last {
        joined.extend_from_slice(&line);
        joined.push(b'\n');
    }
    let mut start = joined.len().saturating_sub(MAX_FALLBACK_BYTES);
    // A character that was cut off at the start goes.
    while start > 0 && joined.get(start).is_some_and(|b| b & 0b1100_0000 == 0b1000_0000) {
        start += 1;
    }
    text(&joined[start..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn log(lines: &[String]) -> Vec<u8> {
        lines.iter().flat_map(|line| format!("2026-11-21T04:03:55Z stdout F {line}\n").into_bytes()).collect()
    }

    #[test]
    fn the_file_counts_first_and_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let (file, fallback) = (dir.path().join("message"), dir.path().join("log"));
        fs::write(&fallback, log(&["from the log".to_owned()])).unwrap();
        assert_eq!(termination_message(&file, None).unwrap(), "");
        assert_eq!(termination_message(&file, Some(&fallback)).unwrap(), "from the log\n");
        fs::write(&file, "done").unwrap();
        assert_eq!(termination_message(&file, Some(&fallback)).unwrap(), "done");
        fs::write(&file, "ü".repeat(4096)).unwrap();
        assert_eq!(termination_message(&file, None).unwrap().len(), 4096);
        fs::write(&file, format!("x{}", "ü".repeat(4096))).unwrap();
        assert_eq!(termination_message(&file, None).unwrap().len(), 4095);
    }

    #[test]
    fn what_a_container_may_put_in_place_of_its_file_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("message");
        let secret = dir.path().join("secret");
        fs::write(&secret, "hunter2").unwrap();
        symlink(&secret, &file).unwrap();
        assert_eq!(termination_message(&file, None).unwrap(), "");
        fs::remove_file(&file).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &file, FileType::Fifo, mode, 0).unwrap();
        assert_eq!(termination_message(&file, None).unwrap(), "");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(termination_message(&file, None).unwrap(), "");
    }

    #[test]
    fn the_last_eighty_lines_and_two_kibibytes() {
        let lines: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let tail = tail_of(&log(&lines), false);
        assert_eq!(tail.lines().collect::<Vec<_>>(), lines[20..]);
        let tail = tail_of(&log(&["x".repeat(5000)]), false);
        assert_eq!(tail.len(), MAX_FALLBACK_BYTES);
    }

    #[test]
    fn a_cut_beginning_and_foreign_lines_are_left_out() {
        let bytes = [b"stdout F half\n".to_vec(), log(&["whole".to_owned()]), b"rubbish\n".to_vec()].concat();
        assert_eq!(tail_of(&bytes, true), "whole\n");
        assert_eq!(tail_of(&bytes, false), "whole\n");
    }
}
