//! Certificates of a node, by which it shows the API who it is and is known to those who ask it: asked for with a bootstrap token,
//! kept on disk, and asked for again with the certificate itself long before it ends.
//!
//! ```text
//!  none, or over ──► ask with the bootstrap token ─┐
//!      ▲                                           ├─► approved, signed ─► kept ─► used ─ 70–90 % of its life ─┐
//!      └── over while the API was away             └─◄───────────── ask with the certificate ◄────────────────┘
//! ```
//!
//! Upstream source: `staging/src/k8s.io/client-go/util/certificate`, `pkg/kubelet/certificate`. Somebody approves: kube-controller-manager
//! what a node asks for to be a client; an operator what it serves with, since only they know which addresses are a node's.

mod ask;
mod keep;
mod life;
mod request;
mod store;
mod swap;

pub use ask::AskError;
pub use keep::Keeper;
pub use life::{Life, LifeError};
pub use request::{Identity, Purpose, RequestError};
pub use store::{Store, StoreError};
pub use swap::{Swap, with_identity};
