//! What goes wrong, by script: the next so many calls that match. Pure.

use std::time::Duration;

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// This answer, with a message.
    Answer(u16, String),
    /// The secondary rate limit: 403 with `Retry-After`, in seconds.
    RetryAfter(u64),
    /// No answer ever.
    Hang,
    /// The answer comes later.
    Delay(Duration),
    /// What was asked is done, and the answer is lost: 502.
    LostAnswer,
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// `POST`, or empty for any.
    pub method: String,
    /// A part of the path, or empty for any.
    pub path: String,
    /// So many calls.
    pub times: u32,
    /// What.
    pub kind: Kind,
}

/// The script.
#[derive(Debug, Clone, Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// One more, after those that are there.
    pub fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    /// What goes wrong with this call.
    pub fn next(&mut self, method: &str, path: &str) -> Option<Kind> {
        let matches = |fault: &&mut Fault| {
            fault.times > 0 && (fault.method.is_empty() || fault.method == method) && path.contains(&fault.path)
        };
        let fault = self.0.iter_mut().find(matches)?;
        fault.times -= 1;
        let kind = fault.kind.clone();
        self.0.retain(|fault| fault.times > 0);
        Some(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_so_often_and_is_over() {
        let mut faults = Faults::default();
        let fault = |times, kind| Fault { method: "POST".to_owned(), path: "jitconfig".to_owned(), times, kind };
        faults.add(fault(2, Kind::Hang));
        faults.add(fault(1, Kind::RetryAfter(9)));
        assert_eq!(faults.next("GET", "/jitconfig"), None);
        assert_eq!(faults.next("POST", "/runners"), None);
        let struck: Vec<_> = (0..4).map(|_| faults.next("POST", "/generate-jitconfig")).collect();
        assert_eq!(struck, [Some(Kind::Hang), Some(Kind::Hang), Some(Kind::RetryAfter(9)), None]);
    }
}
