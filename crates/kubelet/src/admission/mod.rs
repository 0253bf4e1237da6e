//! Whether a Pod may run on this machine: [`admit`], pure, in upstream's order and words.
//!
//! The facts are handed in: what the machine has ([`Machine`], gathered by [`read_machine`]), which Pods are active
//! and what the machine is short of. The answer is a [`Verdict`]; who takes the place of whom is computed in
//! `preempt`, and carried out by whoever asked.

mod check;
mod fit;
mod machine;
mod preempt;
mod pressure;
mod probe;
mod sysctls;
mod verdict;

pub use check::*;
pub use fit::less_reserved;
pub use machine::*;
pub use minke_core::placement::{HostPort, host_ports};
pub use pressure::Pressure;
pub use probe::*;
pub use sysctls::*;
pub use verdict::*;

#[cfg(test)]
mod tests;
