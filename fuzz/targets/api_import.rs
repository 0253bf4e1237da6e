#![no_main]

#[path = "../bodies/api_import.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
