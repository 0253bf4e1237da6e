//! Rows and the table of them.

use std::fmt;

use comfy_table::{Table, presets};

use crate::sample::Sample;

/// With what ours is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Peer {
    Measured {
        name: String,
        sample: Sample,
    },
    NotInstalled {
        name: String,
    },
    /// There is no peer to run; the design has a budget.
    Nobody,
}

/// One measured thing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) ours: Sample,
    pub(crate) peer: Peer,
    /// What the design promises.
    pub(crate) aim: &'static str,
}

impl Row {
    fn peer_cell(&self) -> String {
        match &self.peer {
            Peer::Measured { name, sample } => format!("{name}: {sample}"),
            Peer::NotInstalled { name } => format!("{name}: peer not installed"),
            Peer::Nobody => String::new(),
        }
    }

    fn ratio_cell(&self) -> String {
        match &self.peer {
            Peer::Measured { sample, .. } if sample.median() > 0.0 => {
                format!("{:.2}×", self.ours.median() / sample.median())
            }
            Peer::Measured { .. } | Peer::NotInstalled { .. } | Peer::Nobody => String::new(),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} | {} {}", self.what, self.ours, self.peer_cell(), self.ratio_cell())
    }
}

/// All rows.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        table.set_header(["what", "minke", "peer", "ratio", "aim"]);
        for row in &self.rows {
            table.add_row([
                row.what.clone(),
                row.ours.to_string(),
                row.peer_cell(),
                row.ratio_cell(),
                row.aim.to_owned(),
            ]);
        }
        table.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Unit;

    #[test]
    fn a_row_has_its_ratio_or_says_that_the_peer_is_missing() {
        let sample = |value| Sample::new(Unit::Milliseconds, vec![value]).unwrap();
        let mut row = Row {
            what: "one pod".to_owned(),
            ours: sample(50.0),
            peer: Peer::Measured { name: "podman".to_owned(), sample: sample(200.0) },
            aim: "≤ 0.25×",
        };
        let table = Report { rows: vec![row.clone()] }.to_string();
        assert!(table.contains("0.25×") && table.contains("podman: 200 ms"), "{table}");
        row.peer = Peer::NotInstalled { name: "podman".to_owned() };
        let table = Report { rows: vec![row] }.to_string();
        assert!(table.contains("podman: peer not installed"), "{table}");
    }
}
