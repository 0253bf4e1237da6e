//! The subject of a certificate that TLS has verified: common name and organisations.

use rustls::pki_types::CertificateDer;

use super::Identity;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANISATION: &[u8] = &[0x55, 0x04, 0x0a];
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OID: u8 = 0x06;

/// Whom a certificate names; `None` if it names nobody.
pub(crate) fn identity_of(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    subject(certificate.subject())
}

/// One element: tag, content, what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => rest.split_first_chunk::<2>().map(|(length, rest)| (u16::from_be_bytes(*length).into(), rest))?,
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The sets of attributes, with or without the sequence around them.
fn subject(mut name: &[u8]) -> Option<Identity> {
    if let Some((SEQUENCE, content, [])) = element(name) {
        name = content;
    }
    let (mut user, mut groups) = (None, Vec::new());
    while !name.is_empty() {
        let (tag, mut set, rest) = element(name)?;
        name = rest;
        if tag != SET {
            return None;
        }
        while !set.is_empty() {
            let (tag, attribute, rest) = element(set)?;
            set = rest;
            let (oid_tag, oid, value) = element(attribute)?;
            let (_, text, _) = element(value)?;
            if tag != SEQUENCE || oid_tag != OID {
                return None;
            }
            let text = std::str::from_utf8(text).ok()?.to_owned();
            match oid {
                COMMON_NAME => user = Some(text),
                ORGANISATION => groups.push(text),
                _ => {}
            }
        }
    }
    user.filter(|user| !user.is_empty()).map(|user| Identity { user, groups, ..Identity::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_rubbish_is_nobody() {
        let attribute = |oid: u8, text: &str| {
            let value = [&[0x0c, text.len() as u8][..], text.as_bytes()].concat();
            let content = [&[OID, 3, 0x55, 0x04, oid][..], &value].concat();
            let sequence = [&[SEQUENCE, content.len() as u8][..], &content].concat();
            [&[SET, sequence.len() as u8][..], &sequence].concat()
        };
        let name = [attribute(3, "admin"), attribute(10, "a"), attribute(10, "b")].concat();
        let expected =
            Identity { user: "admin".to_owned(), groups: vec!["a".to_owned(), "b".to_owned()], ..Identity::default() };
        assert_eq!(subject(&name), Some(expected.clone()));
        let wrapped = [&[SEQUENCE, name.len() as u8][..], &name].concat();
        assert_eq!(subject(&wrapped), Some(expected));
        for length in 0..name.len() {
            if let Some(identity) = subject(&name[..length]) {
                assert_eq!(identity.user, "admin", "{length}");
            }
        }
        assert_eq!(subject(&attribute(10, "group")), None);
        assert_eq!(subject(&attribute(3, "")), None);
        assert_eq!(subject(&[0x31, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
