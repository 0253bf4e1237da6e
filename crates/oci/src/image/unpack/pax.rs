//! PAX records: `<length> <key>=<value>\n`, over and over.

use super::UnpackError;

/// What an extended header changes about the entry that follows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) uid: Option<u64>,
    pub(super) gid: Option<u64>,
    /// Seconds and nanoseconds.
    pub(super) mtime: Option<(i64, u32)>,
    pub(super) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Prefix of the keys under which archives carry extended attributes.
const XATTR: &[u8] = b"SCHILY.xattr.";

impl Pax {
    /// Reads the records of one extended header.
    pub(super) fn parse(mut rest: &[u8]) -> Result<Self, UnpackError> {
        let mut pax = Self::default();
        while !rest.is_empty() {
            let (key, value, after) = record(rest).ok_or_else(|| bad("malformed extended header"))?;
            rest = after;
            // An empty value takes a record of an earlier extended header back; there is no earlier one here.
            if value.is_empty() && !key.starts_with(XATTR) {
                continue;
            }
            match key {
                b"path" => pax.path = Some(text(value)?),
                b"linkpath" => pax.link = Some(text(value)?),
                b"size" => pax.size = Some(number(value)?),
                b"uid" => pax.uid = Some(number(value)?),
                b"gid" => pax.gid = Some(number(value)?),
                b"mtime" => pax.mtime = Some(time(value)?),
                _ if key.starts_with(b"GNU.sparse.") => return Err(bad("sparse files are not supported in layers")),
                _ => {
                    if let Some(name) = key.strip_prefix(XATTR) {
                        pax.xattrs.push((name.to_vec(), value.to_vec()));
                    }
                }
            }
        }
        Ok(pax)
    }
}

fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().position(|&b| b == b' ')?;
    let length: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
    let body = bytes.get(space + 1..length)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|&b| b == b'=')?;
    Some((&body[..equals], &body[equals + 1..], &bytes[length..]))
}

fn text(value: &[u8]) -> Result<Vec<u8>, UnpackError> {
    if value.contains(&0) { Err(bad("a path with a zero byte")) } else { Ok(value.to_vec()) }
}

fn number(value: &[u8]) -> Result<u64, UnpackError> {
    std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).ok_or_else(|| bad("malformed number"))
}

/// Decimal seconds with an optional fraction and sign.
fn time(value: &[u8]) -> Result<(i64, u32), UnpackError> {
    let parse = || {
        let text = std::str::from_utf8(value).ok()?;
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let seconds: i64 = whole.parse().ok()?;
        if !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let nanos: u32 = format!("{fraction:0<9.9}").parse().ok()?;
        if text.starts_with('-') && nanos > 0 {
            return Some((seconds.checked_sub(1)?, 1_000_000_000 - nanos));
        }
        Some((seconds, nanos))
    };
    parse().ok_or_else(|| bad("malformed time"))
}

fn bad(message: &str) -> UnpackError {
    UnpackError::Bad(message.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_are_read() {
        let bytes = b"12 path=a/b\n20 mtime=12.3456789\n11 size=42\n29 SCHILY.xattr.user.x=a\n=b\0\n6 x=y\n";
        let pax = Pax::parse(bytes).unwrap();
        assert_eq!(pax.path.as_deref(), Some(&b"a/b"[..]));
        assert_eq!(pax.mtime, Some((12, 345_678_900)));
        assert_eq!(pax.size, Some(42));
        assert_eq!(pax.xattrs, [(b"user.x".to_vec(), b"a\n=b\0".to_vec())]);
    }

    #[test]
    fn malformed_records_are_refused() {
        for bytes in [
            &b"path=a\n"[..],
            b"99 path=a\n",
            b"3 a\n",
            b"0 a=b\n",
            b"10 size=x\n",
            b"15 size=-1\n",
            b"11 path=a\0\n",
            b"18446744073709551615 a=b\n",
            b"19 mtime=1.5e300\n",
        ] {
            assert!(Pax::parse(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
        assert!(Pax::parse(b"22 GNU.sparse.major=1\n").unwrap_err().to_string().contains("sparse"));
    }

    #[test]
    fn times_before_1970_keep_their_order() {
        assert_eq!(time(b"-1.25").unwrap(), (-2, 750_000_000));
        assert_eq!(time(b"-3").unwrap(), (-3, 0));
        assert_eq!(time(b"7.1234567891").unwrap(), (7, 123_456_789));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Pax::parse(&bytes);
        }
    }
}
