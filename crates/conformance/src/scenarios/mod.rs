//! What is done to a runtime, and what is written down of it. What is to be seen stands in the table.

pub(crate) mod attach;
pub(crate) mod containers;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod images;
pub(crate) mod logs;
pub(crate) mod resources;
pub(crate) mod sandboxes;
pub(crate) mod stopping;
