//! Custom resources: kinds that a `CustomResourceDefinition` brings.
//!
//! ```text
//! definition (an object) ─► row: rules for definitions, structural: rules for their schemas
//!        │ written
//!        ▼
//! names: which names it gets, what its status says (pure) ─► Definition, one a served version ─► Kinds: the set that is served
//!                                                                 │
//!   a custom object: prune ─► defaults ─► check, lists, rules ◄───┘
//! ```
//!
//! - [`Node`](node::Node) is a schema as it is used: patterns compiled, lists by their type. `defaults`, `check` and `lists`
//!   walk it beside a value, and `rules` are its CEL; types for pruning, patches and apply are [`Types::structural`](crate::schema::Types::structural).
//! - [`Definition`] is one version of a definition, ready: what [`crate::kinds::Kind`] asks when it is a custom one.
//! - [`Kinds`] is every kind that is served, those of the server and those of definitions. Rows have names alone; they live as
//!   long as the server, so that every part of it may point at them, and a definition that comes again finds its own. What
//!   is heavy, the schema, is in the row's [`Slot`] and goes with the definition.
//!
//! An object is stored in the definition's storage version and shown in the one that is asked for: their fields are the
//! same (`conversion: None`), and only `apiVersion` differs. What was written under an older schema is pruned and gets its
//! defaults as it is read.

mod check;
mod defaults;
mod definition;
mod format;
mod kinds;
mod lists;
mod names;
mod node;
mod row;
mod rules;
mod scale;
mod structural;

pub use definition::{Definition, Scale, Slot};
pub use kinds::Kinds;
pub(crate) use names::{Settled, settle, terminating};
pub(crate) use row::{FINALIZER, complete, create, update, validate};
pub(crate) use scale::{replicas_of, scale_of, scaled};
