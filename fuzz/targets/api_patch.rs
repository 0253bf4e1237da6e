#![no_main]

#[path = "../bodies/api_patch.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
