use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;

fn headers() -> impl Strategy<Value = Headers> {
    let pairs = prop::collection::btree_map("[a-z-]{1,20}", ".{0,40}", 0..6);
    pairs.prop_map(|pairs| Headers(pairs.into_iter().collect()))
}

fn frame() -> impl Strategy<Value = Frame> {
    let stream = || 0..=0x7fff_ffff_u32;
    let setting =
        (any::<u8>(), 0..1_u32 << 24, any::<u32>()).prop_map(|(flags, id, value)| Setting { flags, id, value });
    prop_oneof![
        (stream(), stream(), 0..8_u8, any::<bool>(), any::<bool>(), headers()).prop_map(
            |(stream, associated, priority, fin, unidirectional, headers)| Frame::SynStream {
                stream,
                associated,
                priority,
                fin,
                unidirectional,
                headers
            }
        ),
        (stream(), any::<bool>(), headers()).prop_map(|(stream, fin, headers)| Frame::SynReply {
            stream,
            fin,
            headers
        }),
        (stream(), any::<bool>(), headers()).prop_map(|(stream, fin, headers)| Frame::Headers { stream, fin, headers }),
        (stream(), any::<u32>()).prop_map(|(stream, status)| Frame::RstStream { stream, status }),
        prop::collection::vec(setting, 0..4).prop_map(Frame::Settings),
        any::<u32>().prop_map(Frame::Ping),
        (stream(), any::<u32>()).prop_map(|(last, status)| Frame::GoAway { last, status }),
        (stream(), stream()).prop_map(|(stream, delta)| Frame::WindowUpdate { stream, delta }),
        (stream(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..200))
            .prop_map(|(stream, fin, data)| Frame::Data { stream, fin, data: data.into() }),
    ]
}

fn encoded(frames: &[Frame]) -> BytesMut {
    let mut encoder = Encoder::new().unwrap();
    let mut bytes = BytesMut::new();
    for frame in frames {
        encoder.encode(frame, &mut bytes).unwrap();
    }
    bytes
}

/// All frames, with the pieces of data frames that were cut put together again.
fn decoded<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Frame>, FrameError> {
    let mut decoder = Decoder::new();
    let mut frames: Vec<Frame> = Vec::new();
    for piece in pieces {
        decoder.buffer().extend_from_slice(piece);
        while let Some(frame) = decoder.frame()? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

/// Neighbouring data of one stream as one frame.
fn merged(frames: Vec<Frame>) -> Vec<Frame> {
    let mut merged: Vec<Frame> = Vec::new();
    for frame in frames {
        if let Frame::Data { stream, fin, data } = &frame
            && let Some(Frame::Data { stream: before, fin: over, data: first }) = merged.last_mut()
            && before == stream
            && !*over
        {
            *first = Bytes::from([&first[..], &data[..]].concat());
            *over = *fin;
            continue;
        }
        merged.push(frame);
    }
    merged
}

proptest! {
    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut(
        frames in prop::collection::vec(frame(), 0..8),
        cuts in prop::collection::vec(1..40_usize, 1..20),
    ) {
        let bytes = encoded(&frames);
        let whole = decoded([&bytes[..]].into_iter()).unwrap();
        prop_assert_eq!(&whole, &frames);
        let mut rest = &bytes[..];
        let mut pieces = Vec::new();
        for cut in cuts.iter().cycle() {
            let (piece, more) = rest.split_at((*cut).min(rest.len()));
            pieces.push(piece);
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(merged(decoded(pieces.into_iter()).unwrap()), merged(frames));
    }

    #[test]
    fn any_bytes_are_frames_or_an_error_that_stays(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut decoder = Decoder::new();
        decoder.buffer().extend_from_slice(&bytes);
        let error = loop {
            match decoder.frame() {
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        if let Some(error) = error {
            decoder.buffer().extend_from_slice(&encoded(&[Frame::Ping(1)]));
            prop_assert_eq!(decoder.frame(), Err(error));
        }
    }
}

/// Two streams whose headers another implementation of zlib packed, with the dictionary, the second with reference to
/// the first.
#[test]
fn a_foreign_peers_streams_are_understood() {
    let blocks = [
        "78f9e3c6a7c202e50e50ca0a2e294a4dcc851625aca9a0808614cb45a024cc646100000000ffff",
        "82292c4656082a731251d501000000ffff",
    ];
    let mut bytes = Vec::new();
    for (block, stream) in blocks.map(hex).iter().zip([1, 3]) {
        bytes.extend([0x80, 3, 0, 1, 0, 0, 0, u8::try_from(10 + block.len()).unwrap()]);
        bytes.extend([0, 0, 0, stream, 0, 0, 0, 0, 0, 0]);
        bytes.extend(block);
    }
    let frames = decoded([&bytes[..]].into_iter()).unwrap();
    let says = |frame: &Frame| match frame {
        Frame::SynStream { stream, headers, .. } => {
            format!("{stream} {:?} {:?}", headers.get("streamType"), headers.get("port"))
        }
        other => format!("{other:?}"),
    };
    let said: Vec<String> = frames.iter().map(says).collect();
    assert_eq!(said, ["1 Some(\"error\") Some(\"80\")", "3 Some(\"data\") Some(\"80\")"]);
}

fn hex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn a_large_data_frame_comes_in_pieces_and_is_never_held_whole() {
    let mut decoder = Decoder::new();
    let length = 0x00ff_ffff_u32;
    decoder.buffer().extend_from_slice(&[&5_u32.to_be_bytes()[..], &(1 << 24 | length).to_be_bytes()].concat());
    let mut left = usize::try_from(length).unwrap();
    while left > 0 {
        let n = left.min(100_000);
        decoder.buffer().extend_from_slice(&vec![7; n]);
        while let Some(frame) = decoder.frame().unwrap() {
            let Frame::Data { stream: 5, fin, data } = frame else { panic!("{frame:?}") };
            assert!(data.len() <= MOST_DATA);
            left -= data.len();
            assert_eq!(fin, left == 0);
        }
    }
}

#[test]
fn too_much_is_refused_before_it_is_taken() {
    let head =
        |kind: u16, length: u32| [&0x8003_u16.to_be_bytes()[..], &kind.to_be_bytes(), &length.to_be_bytes()].concat();
    let large = head(1, u32::try_from(MOST_BLOCK).unwrap() + 1);
    assert_eq!(decoded([&large[..]].into_iter()), Err(FrameError::TooLarge));
    assert_eq!(decoded([&[0x80, 2, 0, 1, 0, 0, 0, 0][..]].into_iter()), Err(FrameError::Version(2)));
    // A block of a few hundred bytes that unpacks to a megabyte.
    let mut packer = flate2::Compress::new(flate2::Compression::best(), true);
    let mut packed = Vec::with_capacity(1 << 16);
    packer.compress_vec(&vec![0; 1 << 20], &mut packed, flate2::FlushCompress::Sync).unwrap();
    let mut bomb = head(2, u32::try_from(4 + packed.len()).unwrap());
    bomb.extend([0, 0, 0, 1]);
    bomb.extend(&packed);
    assert_eq!(decoded([&bomb[..]].into_iter()), Err(FrameError::TooLarge));
    let long = Headers::default().with("a", "x".repeat(MOST_BLOCK));
    let mut encoder = Encoder::new().unwrap();
    let frame = Frame::SynReply { stream: 1, fin: false, headers: long };
    assert_eq!(encoder.encode(&frame, &mut BytesMut::new()), Err(FrameError::TooLarge));
}

#[test]
fn a_kind_that_is_not_known_is_skipped() {
    let mut bytes = vec![0x80, 3, 0, 42, 0, 0, 0, 3, 1, 2, 3];
    bytes.extend_from_slice(&encoded(&[Frame::Ping(9)]));
    assert_eq!(decoded([&bytes[..]].into_iter()).unwrap(), [Frame::Ping(9)]);
}

#[test]
fn headers_are_found_in_any_case_and_the_first_value_counts() {
    let headers = Headers::default().with("streamType", "data\0error");
    assert_eq!(headers.get("STREAMtype"), Some("data"));
    assert_eq!(headers.get("port"), None);
}
