//! Any bytes as SPDY frames: never a panic, pieces of a bounded size; however the bytes are cut, the frames are the same;
//! what was read can be written and read again.

use bytes::BytesMut;
use minke_streams::spdy::{Decoder, Encoder, Frame, FrameError, MOST_DATA};

fn read(pieces: &[&[u8]]) -> (Vec<Frame>, Option<FrameError>) {
    let mut decoder = Decoder::new();
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.buffer().extend_from_slice(piece);
        loop {
            match decoder.frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

/// Data as one byte after the other, so that it compares however it was cut.
fn flat(frames: &[Frame]) -> Vec<Frame> {
    let mut flat = Vec::new();
    for frame in frames {
        match frame {
            Frame::Data { stream, fin, data } => {
                assert!(data.len() <= MOST_DATA);
                for at in 0..data.len() {
                    flat.push(Frame::Data { stream: *stream, fin: false, data: data.slice(at..=at) });
                }
                if *fin {
                    flat.push(Frame::Data { stream: *stream, fin: true, data: bytes::Bytes::new() });
                }
            }
            other => flat.push(other.clone()),
        }
    }
    flat
}

pub(crate) fn run(data: &[u8]) {
    let (frames, error) = read(&[data]);
    let pieces: Vec<&[u8]> = data.chunks(3).collect();
    let (cut, cut_error) = read(&pieces);
    assert_eq!((flat(&cut), cut_error), (flat(&frames), error));
    let mut bytes = BytesMut::new();
    let mut encoder = Encoder::new().expect("an encoder");
    for frame in &frames {
        // A block that unpacks to more than is sent is the one thing that can be read and not written.
        if encoder.encode(frame, &mut bytes).is_err() {
            return;
        }
    }
    assert_eq!(flat(&read(&[&bytes]).0), flat(&frames));
}
