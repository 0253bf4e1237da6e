//! The streams of a connection: what a frame means for them (pure).
//!
//! ```text
//!          opened by either side
//!                  │
//!   both send ─────┴──► they ended ──┐
//!       └─────────────► we ended ────┴──► gone        reset, by either side: gone at once
//! ```

use std::collections::HashMap;

use bytes::Bytes;

use super::frame::{Frame, Headers};

/// Most streams open at once: a port-forward has two for each connection.
pub(super) const MOST_STREAMS: usize = 2048;

const INVALID_STREAM: u32 = 2;
const REFUSED_STREAM: u32 = 3;
/// Its sender wants no more of it.
pub(super) const CANCEL: u32 = 5;
const STREAM_ALREADY_CLOSED: u32 = 9;

/// Which end of a connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// It opens streams with odd numbers.
    Client,
    /// With even ones.
    Server,
}

impl Side {
    fn first(self) -> u32 {
        match self {
            Self::Client => 1,
            Self::Server => 2,
        }
    }

    fn opened(self, stream: u32) -> bool {
        stream % 2 == self.first() % 2
    }
}

/// What is to be done about a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// The peer opened a stream.
    Accept { stream: u32, headers: Headers },
    /// The peer accepted a stream of ours.
    Accepted { stream: u32 },
    /// Bytes for a stream's reader.
    Deliver { stream: u32, data: Bytes },
    /// The peer sends nothing more on it.
    End { stream: u32 },
    /// It is over, by the peer's wish.
    Abort { stream: u32 },
    /// Sent to the peer.
    Send(Frame),
}

/// A peer that breaks the rules so that nothing further makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    /// A stream's number is 0, of our own parity, or not above the last.
    #[error("the peer opened stream {0} out of order")]
    Number(u32),
}

#[derive(Debug, Clone, Copy)]
struct State {
    they_send: bool,
    we_send: bool,
}

/// The streams that are open.
#[derive(Debug)]
pub(super) struct Table {
    side: Side,
    streams: HashMap<u32, State>,
    last: u32,
    next: u32,
}

impl Table {
    pub(super) fn new(side: Side) -> Self {
        Self { side, streams: HashMap::new(), last: 0, next: side.first() }
    }

    /// The last stream that the peer opened.
    pub(super) fn last(&self) -> u32 {
        self.last
    }

    /// Opens a stream of ours; `None` when there are too many, or no numbers left.
    pub(super) fn open(&mut self) -> Option<u32> {
        let stream = self.next;
        if self.streams.len() >= MOST_STREAMS || stream > super::frame::NUMBER {
            return None;
        }
        self.next += 2;
        self.streams.insert(stream, State { they_send: true, we_send: true });
        Some(stream)
    }

    /// Whether we may still send on it.
    pub(super) fn sends(&self, stream: u32) -> bool {
        self.streams.get(&stream).is_some_and(|s| s.we_send)
    }

    pub(super) fn is_open(&self, stream: u32) -> bool {
        self.streams.contains_key(&stream)
    }

    /// We end our direction; `false` if it was over.
    pub(super) fn finish(&mut self, stream: u32) -> bool {
        let Some(state) = self.streams.get_mut(&stream).filter(|s| s.we_send) else { return false };
        state.we_send = false;
        if !state.they_send {
            self.streams.remove(&stream);
        }
        true
    }

    /// We end it at once; `false` if it was over.
    pub(super) fn abort(&mut self, stream: u32) -> bool {
        self.streams.remove(&stream).is_some()
    }

    fn opened_once(&self, stream: u32) -> bool {
        if self.side.opened(stream) { stream < self.next } else { stream != 0 && stream <= self.last }
    }

    fn ended(&mut self, stream: u32, actions: &mut Vec<Action>) {
        let Some(state) = self.streams.get_mut(&stream).filter(|s| s.they_send) else { return };
        state.they_send = false;
        actions.push(Action::End { stream });
        if !state.we_send {
            self.streams.remove(&stream);
        }
    }

    /// A frame arrived.
    pub(super) fn arrived(&mut self, frame: Frame) -> Result<Vec<Action>, Violation> {
        let mut actions = Vec::new();
        let reset = |stream, status| Action::Send(Frame::RstStream { stream, status });
        match frame {
            Frame::SynStream { stream, fin, unidirectional, headers, associated: _, priority: _ } => {
                if stream == 0 || self.side.opened(stream) || stream <= self.last {
                    return Err(Violation::Number(stream));
                }
                self.last = stream;
                if self.streams.len() >= MOST_STREAMS {
                    actions.push(reset(stream, REFUSED_STREAM));
                } else {
                    self.streams.insert(stream, State { they_send: true, we_send: !unidirectional });
                    actions.push(Action::Accept { stream, headers });
                    if fin {
                        self.ended(stream, &mut actions);
                    }
                }
            }
            Frame::SynReply { stream, fin, headers: _ } => {
                if self.side.opened(stream) && self.is_open(stream) {
                    actions.push(Action::Accepted { stream });
                    if fin {
                        self.ended(stream, &mut actions);
                    }
                }
            }
            Frame::Headers { stream, fin, headers: _ } => {
                if fin {
                    self.ended(stream, &mut actions);
                }
            }
            Frame::Data { stream, fin, data } => match self.streams.get(&stream) {
                Some(State { they_send: true, .. }) => {
                    if !data.is_empty() {
                        actions.push(Action::Deliver { stream, data });
                    }
                    if fin {
                        self.ended(stream, &mut actions);
                    }
                }
                Some(State { they_send: false, .. }) => {
                    self.streams.remove(&stream);
                    actions.extend([Action::Abort { stream }, reset(stream, STREAM_ALREADY_CLOSED)]);
                }
                // It may have been on its way when we closed the stream.
                None if self.opened_once(stream) => {}
                None => actions.push(reset(stream, INVALID_STREAM)),
            },
            Frame::RstStream { stream, status: _ } => {
                if self.streams.remove(&stream).is_some() {
                    actions.push(Action::Abort { stream });
                }
            }
            Frame::Ping(id) => {
                // One of ours comes back with our parity.
                if !self.side.opened(id) {
                    actions.push(Action::Send(Frame::Ping(id)));
                }
            }
            Frame::Settings(_) | Frame::WindowUpdate { .. } | Frame::GoAway { .. } => {}
        }
        Ok(actions)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn syn(stream: u32, fin: bool) -> Frame {
        let headers = Headers::default();
        Frame::SynStream { stream, associated: 0, priority: 0, fin, unidirectional: false, headers }
    }

    fn data(stream: u32, fin: bool, data: &'static [u8]) -> Frame {
        Frame::Data { stream, fin, data: Bytes::from_static(data) }
    }

    #[test]
    fn a_stream_lives_until_both_sides_ended() {
        let mut table = Table::new(Side::Server);
        assert!(matches!(table.arrived(syn(1, false)).unwrap()[..], [Action::Accept { stream: 1, .. }]));
        let arrived = table.arrived(data(1, true, b"x")).unwrap();
        assert!(matches!(arrived[..], [Action::Deliver { stream: 1, .. }, Action::End { stream: 1 }]));
        assert!(table.sends(1));
        assert!(table.finish(1));
        assert!(!table.finish(1) && !table.is_open(1));
        assert_eq!(table.arrived(data(1, false, b"late")).unwrap(), []);
    }

    #[test]
    fn numbers_are_the_peers_and_rise() {
        let mut table = Table::new(Side::Server);
        assert_eq!(table.arrived(syn(2, false)), Err(Violation::Number(2)));
        assert_eq!(table.arrived(syn(0, false)), Err(Violation::Number(0)));
        table.arrived(syn(5, false)).unwrap();
        assert_eq!(table.arrived(syn(3, false)), Err(Violation::Number(3)));
        assert_eq!((table.open(), table.open()), (Some(2), Some(4)));
    }

    #[test]
    fn data_after_the_end_resets_and_data_from_nowhere_is_refused() {
        let mut table = Table::new(Side::Server);
        table.arrived(syn(1, true)).unwrap();
        let late = table.arrived(data(1, false, b"x")).unwrap();
        assert_eq!(late[1], Action::Send(Frame::RstStream { stream: 1, status: STREAM_ALREADY_CLOSED }));
        let nowhere = table.arrived(data(7, false, b"x")).unwrap();
        assert_eq!(nowhere, [Action::Send(Frame::RstStream { stream: 7, status: INVALID_STREAM })]);
    }

    #[test]
    fn too_many_streams_are_refused_one_by_one() {
        let mut table = Table::new(Side::Server);
        for n in 0..u32::try_from(MOST_STREAMS).unwrap() {
            table.arrived(syn(2 * n + 1, false)).unwrap();
        }
        let refused = table.arrived(syn(9999, false)).unwrap();
        assert_eq!(refused, [Action::Send(Frame::RstStream { stream: 9999, status: REFUSED_STREAM })]);
        assert_eq!(table.open(), None);
    }

    #[test]
    fn a_peers_ping_comes_back_and_ours_does_not_go_twice() {
        let mut table = Table::new(Side::Server);
        assert_eq!(table.arrived(Frame::Ping(1)).unwrap(), [Action::Send(Frame::Ping(1))]);
        assert_eq!(table.arrived(Frame::Ping(2)).unwrap(), []);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Arrived(Frame),
        Open,
        Finish(u32),
        Abort(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let stream = 0..12_u32;
        let step = prop_oneof![
            (stream.clone(), any::<bool>()).prop_map(|(s, fin)| Step::Arrived(syn(s, fin))),
            (stream.clone(), any::<bool>()).prop_map(|(s, fin)| Step::Arrived(data(s, fin, b"x"))),
            (stream.clone(), any::<bool>()).prop_map(|(stream, fin)| Step::Arrived(Frame::SynReply {
                stream,
                fin,
                headers: Headers::default()
            })),
            stream.clone().prop_map(|stream| Step::Arrived(Frame::RstStream { stream, status: 1 })),
            Just(Step::Open),
            stream.clone().prop_map(Step::Finish),
            stream.prop_map(Step::Abort),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        /// Against the simplest model: who may still send on which stream.
        #[test]
        fn nothing_is_delivered_that_was_not_open(steps in steps()) {
            let mut table = Table::new(Side::Server);
            let mut theirs = BTreeSet::new();
            let mut ours = BTreeSet::new();
            let mut ends: BTreeMap<u32, u32> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Open => {
                        let stream = table.open().unwrap();
                        prop_assert!(theirs.insert(stream) && ours.insert(stream), "numbers are new");
                    }
                    Step::Finish(stream) => prop_assert_eq!(table.finish(stream), ours.remove(&stream)),
                    Step::Abort(stream) => {
                        let known = theirs.remove(&stream) | ours.remove(&stream);
                        prop_assert_eq!(table.abort(stream), known);
                    }
                    Step::Arrived(frame) => {
                        let Ok(actions) = table.arrived(frame) else { continue };
                        for action in actions {
                            match action {
                                Action::Accept { stream, .. } => {
                                    prop_assert!(theirs.insert(stream) && ours.insert(stream));
                                }
                                Action::Accepted { stream } => prop_assert!(stream % 2 == 0),
                                Action::Deliver { stream, .. } => prop_assert!(theirs.contains(&stream)),
                                Action::End { stream } => {
                                    prop_assert!(theirs.remove(&stream));
                                    *ends.entry(stream).or_default() += 1;
                                }
                                Action::Abort { stream } => {
                                    prop_assert!(theirs.remove(&stream) | ours.remove(&stream));
                                }
                                Action::Send(_) => {}
                            }
                        }
                    }
                }
                for stream in 0..30 {
                    prop_assert_eq!(table.is_open(stream), theirs.contains(&stream) || ours.contains(&stream));
                    prop_assert_eq!(table.sends(stream), ours.contains(&stream));
                }
            }
            prop_assert!(ends.values().all(|n| *n == 1), "each ends once");
        }
    }
}
