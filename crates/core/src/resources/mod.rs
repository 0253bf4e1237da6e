//! Amounts of resources: reading quantities exactly, adding up a Pod, and turning both into kernel limits.

mod linux;
mod pod;
mod quantity;

pub use linux::*;
pub use pod::*;
pub use quantity::*;
