//! What the fuzz target runs (`fuzz/bodies`), as a test: see `fuzz/harness.rs`.

#![cfg(test)]

#[path = "../../../fuzz/harness.rs"]
mod harness;

#[path = "../../../fuzz/bodies/spdy.rs"]
mod spdy;

#[test]
fn any_bytes_as_spdy() {
    harness::check("spdy", 20_000, spdy::run);
}
