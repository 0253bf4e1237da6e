#![no_main]

#[path = "../bodies/proto.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
