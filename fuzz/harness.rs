//! The tests of `crates/*/tests/fuzz.rs`: what the fuzz targets run (`fuzz/bodies`) on every kept input, and on inputs
//! made from them by seeded changes.
//!
//! `MINKE_FUZZ_ROUNDS=n` tries n changed inputs of each target. A failing one is named by target and number, and can
//! be had as a file with `MINKE_FUZZ_SAVE=DIRECTORY`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use minke_core::fake::SplitMix;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn below(random: &mut SplitMix, n: usize) -> usize {
    usize::try_from(random.below(n.max(1) as u64)).unwrap()
}

/// A change of the kinds that find most: bits, bytes, cuts, repeats, pieces of other inputs, telling values.
fn change(data: &mut Vec<u8>, others: &[Vec<u8>], random: &mut SplitMix) {
    const TELLING: [&[u8]; 12] =
        [b"\0", b"\xff", b"\n", b" ", b"-", b"9223372036854775808", b"null", b"[]", b"{}", b"\"", b"0x", b"\xf0\x9f"];
    let at = below(random, data.len());
    let end = (at + 1 + below(random, 16)).min(data.len());
    match random.below(7) {
        0 if !data.is_empty() => data[at] ^= 1 << random.below(8),
        1 if !data.is_empty() => data[at] = u8::try_from(random.below(256)).unwrap(),
        2 => drop(data.drain(at.min(end)..end)),
        3 => {
            let piece = data[at.min(end)..end].to_vec();
            drop(data.splice(at..at, piece));
        }
        4 => drop(data.splice(at..at, TELLING[below(random, TELLING.len())].iter().copied())),
        5 => data.truncate(at),
        _ => {
            let other = &others[below(random, others.len())];
            let from = below(random, other.len());
            let to = (from + 1 + below(random, 64)).min(other.len());
            drop(data.splice(at..at, other[from.min(to)..to].iter().copied()));
        }
    }
    data.truncate(64 << 10);
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

pub(crate) fn check(target: &str, rounds: u64, body: fn(&[u8])) {
    let corpus = corpus(target);
    assert!(!corpus.is_empty(), "{target}: there is a corpus");
    let attempt = |data: &[u8], which: String| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(data))) {
            eprintln!("{target}: {which} fails: {:?}", String::from_utf8_lossy(&data[..data.len().min(400)]));
            if let Some(directory) = std::env::var_os("MINKE_FUZZ_SAVE") {
                std::fs::write(Path::new(&directory).join(format!("{target}-failing")), data).unwrap();
            }
            std::panic::resume_unwind(panic);
        }
    };
    body(b"");
    for (i, data) in corpus.iter().enumerate() {
        attempt(data, format!("kept input {i}"));
    }
    for seed in 0..number("MINKE_FUZZ_ROUNDS").unwrap_or(rounds) {
        let mut random = SplitMix::new(seed);
        let mut data = corpus[below(&mut random, corpus.len())].clone();
        for _ in 0..=random.below(6) {
            change(&mut data, &corpus, &mut random);
        }
        attempt(&data, format!("changed input {seed}"));
    }
}
