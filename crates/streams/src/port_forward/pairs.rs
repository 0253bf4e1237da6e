//! Which streams belong together (pure): an error and a data stream of one request make a connection.
//!
//! ```text
//! first half ──► Half (until its deadline) ──second half──► Whole, handed out
//!                  └─ deadline ──► given up        └─ the same half again ──► given up
//! ```

use std::collections::BTreeMap;

use crate::spdy::Headers;

/// Which half of a connection a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    /// Takes the reason when something fails.
    Error,
    /// Carries the bytes.
    Data,
}

/// What a stream's headers say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) request: String,
    pub(super) half: Half,
    pub(super) port: u16,
}

/// Reads a stream's headers, with upstream's words for what is wrong with them.
pub(super) fn read(number: u32, headers: &Headers) -> Result<Asked, String> {
    let required = |name: &str| format!("\"{name}\" header is required");
    let port = headers.get("port").filter(|p| !p.is_empty()).ok_or_else(|| required("port"))?;
    let port = crate::negotiate::port(port)?;
    let half = match headers.get("streamType").filter(|t| !t.is_empty()) {
        None => return Err(required("streamType")),
        Some("error") => Half::Error,
        Some("data") => Half::Data,
        Some(other) => return Err(format!("invalid stream type \"{other}\"")),
    };
    let request = match (headers.get("requestID").filter(|id| !id.is_empty()), half) {
        (Some(id), _) => id.to_owned(),
        // Clients from before request ids open the error stream, then the data stream.
        (None, Half::Error) => number.to_string(),
        (None, Half::Data) => number.checked_sub(2).map_or_else(String::new, |n| n.to_string()),
    };
    Ok(Asked { request, half, port })
}

/// Streams that wait for their other half: `T` is a stream, `I` a time.
#[derive(Debug)]
pub(super) struct Pairs<T, I> {
    waiting: BTreeMap<String, Waiting<T, I>>,
}

#[derive(Debug)]
struct Waiting<T, I> {
    half: Half,
    stream: T,
    until: I,
}

/// What a stream comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<T> {
    /// Its other half is still to come.
    Waits,
    /// A connection: error stream, data stream.
    Whole { error: T, data: T },
    /// The same half came twice: both are given up.
    Twice { first: T, second: T },
}

impl<T, I: Copy + Ord> Pairs<T, I> {
    pub(super) fn new() -> Self {
        Self { waiting: BTreeMap::new() }
    }

    /// A stream came; it waits until then for its other half.
    pub(super) fn add(&mut self, asked: &Asked, stream: T, until: I) -> Step<T> {
        let Some(first) = self.waiting.remove(&asked.request) else {
            self.waiting.insert(asked.request.clone(), Waiting { half: asked.half, stream, until });
            return Step::Waits;
        };
        match (first.half, asked.half) {
            (Half::Error, Half::Data) => Step::Whole { error: first.stream, data: stream },
            (Half::Data, Half::Error) => Step::Whole { error: stream, data: first.stream },
            (Half::Error, Half::Error) | (Half::Data, Half::Data) => {
                Step::Twice { first: first.stream, second: stream }
            }
        }
    }

    /// When the next one is given up.
    pub(super) fn next(&self) -> Option<I> {
        self.waiting.values().map(|w| w.until).min()
    }

    /// Those whose other half is late: request, which half came, and its stream.
    pub(super) fn late(&mut self, now: I) -> Vec<(String, Half, T)> {
        let (late, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(|(_, w)| w.until <= now);
        self.waiting = waiting;
        let late: BTreeMap<String, Waiting<T, I>> = late;
        late.into_iter().map(|(request, waiting)| (request, waiting.half, waiting.stream)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        pairs.iter().fold(Headers::default(), |headers, (name, value)| headers.with(name, *value))
    }

    #[test]
    fn test_http_stream_received() {
        let says = |pairs: &[(&str, &str)]| read(3, &headers(pairs)).map(|a| a.port);
        assert_eq!(says(&[]), Err("\"port\" header is required".to_owned()));
        assert_eq!(says(&[("port", "a")]), Err("unable to parse \"a\" as a port".to_owned()));
        assert_eq!(says(&[("port", "-1")]), Err("unable to parse \"-1\" as a port".to_owned()));
        assert_eq!(says(&[("port", "0")]), Err("port \"0\" must be > 0".to_owned()));
        assert_eq!(says(&[("port", "80")]), Err("\"streamType\" header is required".to_owned()));
        let wrong = says(&[("port", "80"), ("streamType", "stdin")]);
        assert_eq!(wrong, Err("invalid stream type \"stdin\"".to_owned()));
        assert_eq!(says(&[("port", "80"), ("streamType", "error")]), Ok(80));
        assert_eq!(says(&[("port", "80"), ("streamType", "data")]), Ok(80));
    }

    #[test]
    fn test_request_id() {
        let id = |number, pairs: &[(&str, &str)]| {
            let all = [&[("port", "80")], pairs].concat();
            read(number, &headers(&all)).unwrap().request
        };
        assert_eq!(id(1, &[("streamType", "error")]), "1");
        assert_eq!(id(3, &[("streamType", "data")]), "1");
        assert_eq!(id(7, &[("streamType", "error"), ("requestID", "5")]), "5");
        assert_eq!(id(9, &[("streamType", "data"), ("requestID", "5")]), "5");
        assert_eq!(id(1, &[("streamType", "data")]), "");
    }

    fn asked(request: &str, half: Half) -> Asked {
        Asked { request: request.to_owned(), half, port: 80 }
    }

    #[test]
    fn test_get_stream_pair() {
        let mut pairs = Pairs::new();
        assert_eq!(pairs.add(&asked("1", Half::Data), 'd', 10), Step::Waits);
        assert_eq!(pairs.add(&asked("1", Half::Error), 'e', 10), Step::Whole { error: 'e', data: 'd' });
        assert_eq!(pairs.next(), None);
        assert_eq!(pairs.add(&asked("2", Half::Error), 'a', 20), Step::Waits);
        assert_eq!(pairs.add(&asked("2", Half::Error), 'b', 21), Step::Twice { first: 'a', second: 'b' });
        assert_eq!(pairs.add(&asked("3", Half::Error), 'c', 30), Step::Waits);
        assert_eq!((pairs.next(), pairs.late(29).len()), (Some(30), 0));
        assert_eq!(pairs.late(30), [("3".to_owned(), Half::Error, 'c')]);
        assert_eq!(pairs.next(), None);
    }

    proptest! {
        /// Every stream is handed out exactly once: in a pair of both halves of one request, twice, or late.
        #[test]
        fn no_stream_is_lost(steps in prop::collection::vec((0..4_u8, any::<bool>(), 0..9_u32), 0..40)) {
            let mut pairs = Pairs::new();
            let mut known: HashMap<usize, (u8, Half)> = HashMap::new();
            let mut now = 0;
            let mut out = Vec::new();
            let count = steps.len();
            for (stream, (request, data, later)) in steps.into_iter().enumerate() {
                now += later;
                let half = if data { Half::Data } else { Half::Error };
                known.insert(stream, (request, half));
                out.extend(pairs.late(now).into_iter().map(|(_, _, s)| s));
                match pairs.add(&asked(&request.to_string(), half), stream, now + 10) {
                    Step::Waits => {}
                    Step::Whole { error, data } => {
                        prop_assert_eq!(known[&error], (request, Half::Error));
                        prop_assert_eq!(known[&data], (request, Half::Data));
                        out.extend([error, data]);
                    }
                    Step::Twice { first, second } => {
                        prop_assert_eq!(known[&first], known[&second]);
                        out.extend([first, second]);
                    }
                }
            }
            out.extend(pairs.late(u32::MAX).into_iter().map(|(_, _, s)| s));
            out.sort_unstable();
            prop_assert_eq!(out, (0..count).collect::<Vec<_>>());
        }
    }
}
