#![no_main]

#[path = "../bodies/stream_request.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
