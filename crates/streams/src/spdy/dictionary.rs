//! What both sides know before the first header: SPDY/3's dictionary for zlib.

use std::sync::LazyLock;

/// Names, each with its length in front.
const NAMES: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges \
age allow authorization cache-control connection content-base content-encoding content-language content-length \
content-location content-md5 content-range content-type date etag expect expires from host if-match if-modified-since \
if-none-match if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate \
proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade user-agent vary via warning \
www-authenticate method get status";
/// The same for those that have spaces, and what follows them.
const MORE: [&str; 8] = ["200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin"];
/// Values, one after the other.
const VALUES: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden\
404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,\
publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

/// The dictionary's bytes.
pub(super) static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = Vec::with_capacity(1423);
    for name in NAMES.split(' ').chain(MORE) {
        bytes.extend(u32::try_from(name.len()).unwrap_or_default().to_be_bytes());
        bytes.extend(name.as_bytes());
    }
    bytes.extend(VALUES.as_bytes());
    bytes
});

#[cfg(test)]
mod tests {
    use super::*;

    fn adler32(bytes: &[u8]) -> u32 {
        let (a, b) = bytes.iter().fold((1, 0), |(a, b), byte| {
            let a = (a + u32::from(*byte)) % 65521;
            (a, (b + a) % 65521)
        });
        b << 16 | a
    }

    #[test]
    fn it_is_the_one_that_every_peer_has() {
        assert_eq!((DICTIONARY.len(), adler32(&DICTIONARY)), (1423, 0xe3c6_a7c2));
    }
}
