//! Tests of the whole computation, a file for each concept.

mod bed;
mod conditions;
mod containers;
mod history;
mod phase;
mod publish;
mod restart;
