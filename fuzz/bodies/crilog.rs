//! Any bytes as lines of a container's log: never a panic; what is read and written again is the same entry.

use minke_core::crilog::{parse_line, write_entry};

pub(crate) fn run(data: &[u8]) {
    for line in data.split(|b| *b == b'\n') {
        let Ok(entry) = parse_line(line) else { continue };
        let mut written = Vec::new();
        write_entry(&mut written, &entry);
        assert_eq!(parse_line(&written).expect("what was written can be read"), entry);
    }
}
