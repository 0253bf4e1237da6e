//! How a log line is shown: with whose it is in front where several are shown together.

use std::io::Write as _;

use super::line::Line;

/// Whose line it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    text: String,
    color: u8,
}

/// Colours that are readable on dark and light terminals.
const COLORS: [u8; 6] = [36, 33, 32, 35, 34, 31];

impl Label {
    /// A label; the same text always has the same colour.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let sum = text.bytes().fold(0_usize, |sum, b| sum.wrapping_mul(31).wrapping_add(usize::from(b)));
        Self { color: COLORS[sum % COLORS.len()], text }
    }
}

/// What is shown of each line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// `pod/container | ` in front.
    pub(crate) prefix: bool,
    /// Coloured; only for terminals.
    pub(crate) color: bool,
    /// The time in front.
    pub(crate) timestamps: bool,
}

/// The bytes of one line as shown, with its end. The container's own bytes are not changed.
pub(crate) fn format(line: &Line, label: &Label, style: Style) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.text.len() + 40);
    // Writing into a Vec can't fail.
    if style.prefix {
        let Label { text, color } = label;
        let _ = if style.color { write!(out, "\x1b[{color}m{text} |\x1b[0m ") } else { write!(out, "{text} | ") };
    }
    if let (true, Some(time)) = (style.timestamps, line.time) {
        let _ = write!(out, "{time} ");
    }
    out.extend_from_slice(&line.text);
    out.push(b'\n');
    out
}

#[cfg(test)]
mod tests {
    use super::super::line::Stream;
    use super::*;

    fn shown(style: Style) -> String {
        let line = Line {
            time: Some("2026-01-01T00:00:00.5Z".parse().unwrap()),
            stream: Stream::Stdout,
            text: b"hello".to_vec(),
        };
        String::from_utf8(format(&line, &Label::new("web/app"), style)).unwrap()
    }

    #[test]
    fn prefix_colour_and_time_are_each_optional() {
        let style = Style::default();
        assert_eq!(shown(style), "hello\n");
        assert_eq!(shown(Style { prefix: true, ..style }), "web/app | hello\n");
        assert_eq!(shown(Style { timestamps: true, ..style }), "2026-01-01T00:00:00.5Z hello\n");
        let colored = shown(Style { prefix: true, color: true, ..style });
        assert!(colored.starts_with("\x1b[") && colored.ends_with("web/app |\x1b[0m hello\n"), "{colored:?}");
    }

    #[test]
    fn bytes_that_are_not_utf8_pass_unchanged() {
        let line = Line { time: None, stream: Stream::Stdout, text: vec![0xff, 0] };
        assert_eq!(format(&line, &Label::new("x"), Style::default()), [0xff, 0, b'\n']);
    }
}
