//! Stop signals.

use crate::api::Signal;

/// The signal of this name: `SIGUSR1`, `USR1`, `SIGRTMIN+3`. `None`: CRI knows no such signal, numbers among them.
pub(crate) fn signal(name: &str) -> Option<Signal> {
    let upper = name.to_ascii_uppercase();
    let plain = upper.strip_prefix("SIG").unwrap_or(&upper);
    let name = format!("SIG{}", plain.replace('+', "PLUS").replace('-', "MINUS"));
    Signal::from_str_name(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_found_by_their_usual_names() {
        for (name, expected) in [
            ("SIGTERM", Some(Signal::Sigterm)),
            ("term", Some(Signal::Sigterm)),
            ("SIGRTMIN+3", Some(Signal::Sigrtminplus3)),
            ("RTMAX-14", Some(Signal::Sigrtmaxminus14)),
            ("RTMAX", Some(Signal::Sigrtmax)),
            ("SIGNOPE", None),
            ("9", None),
            ("", None),
            ("RUNTIME_DEFAULT", None),
        ] {
            assert_eq!(signal(name), expected, "{name}");
        }
    }
}
