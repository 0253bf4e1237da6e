//! What a demo and a measurement need besides a cluster: a set that is no object of it, and a node that only pretends.

mod given;
mod node;

pub use given::GivenSet;
pub use node::PretendedNode;
