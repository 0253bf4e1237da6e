#![no_main]

#[path = "../bodies/api_definition.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
