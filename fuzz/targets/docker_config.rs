#![no_main]

#[path = "../bodies/docker_config.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
