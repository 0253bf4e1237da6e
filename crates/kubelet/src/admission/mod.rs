//! Whether a Pod may run on this machine: [`admit`], pure, in upstream's order and words.
//!
//! The facts are handed in: what the machine has ([`Machine`], gathered by [`read_machine`]) and which Pods are active.

mod check;
mod machine;
mod ports;
mod probe;
mod sysctls;

pub use check::*;
pub use machine::*;
pub use ports::*;
pub use probe::*;
pub use sysctls::*;

#[cfg(test)]
mod tests;
