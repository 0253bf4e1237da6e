//! What every container runtime has to do for Minke: one table of scenarios over the Runtime port.
//!
//! ```text
//! table       scenario ─► what is to be seen, and where a runtime legitimately differs, with the reason
//! scenario    a row: how it is carried out and compared
//! scenarios   async functions that do something to a runtime and write down what they see
//! stage       one scenario on one runtime: its Pod, its programs, its transcript; cleans up after itself
//! subject     a runtime under test, and the little that must be known about it
//! words       results, states and ends as words (pure)
//! ```
//! A scenario's transcript is compared with the table's, word by word. A runtime that differs does so in a row that says
//! why; a difference that is gone fails the row as well, so that no excuse outlives its reason. Nothing here knows which
//! runtimes there are apart from their [`Kind`]: the subjects are made in `tests/runtimes`.

mod scenario;
mod scenarios;
mod stage;
mod subject;
mod table;
mod words;

pub use scenario::{But, Needs, Scenario, Verdict};
pub use stage::{Broken, Stage};
pub use subject::{Kind, Program, Programs, ShellPrograms, Subject};
pub use table::SCENARIOS;
