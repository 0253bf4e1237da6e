//! Protobuf's encoding: fields one after the other, each a number and one of four forms.

/// Bytes that are read from the front.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// A field's value as it stands in the bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field: `Some(None)` at the end, `None` where the bytes are not of the form. Groups, which nobody sends,
    /// are not.
    pub(super) fn field(&mut self) -> Option<Option<(u32, Wire<'a>)>> {
        if self.rest.is_empty() {
            return Some(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number != 0)?;
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            _ => return None,
        };
        Some(Some((number, wire)))
    }

    /// A number of up to ten bytes. `None`: cut, or longer.
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in 0..10 {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            // The tenth byte has room for one bit; what is above is dropped, as everywhere.
            number |= u64::from(byte & 0x7f) << (7 * shift).min(63);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Option<Vec<(u32, Wire<'_>)>> {
        let mut reader = Reader::new(bytes);
        let mut fields = Vec::new();
        while let Some(field) = reader.field()? {
            fields.push(field);
        }
        Some(fields)
    }

    #[test]
    fn every_form_is_read() {
        assert_eq!(all(&[0x08, 0x96, 0x01]), Some(vec![(1, Wire::Varint(150))]));
        assert_eq!(all(&[0x12, 0x02, b'h', b'i']), Some(vec![(2, Wire::Bytes(b"hi"))]));
        assert_eq!(all(&[0x09, 1, 0, 0, 0, 0, 0, 0, 0]), Some(vec![(1, Wire::Fixed64(1))]));
        assert_eq!(all(&[0x0d, 1, 0, 0, 0]), Some(vec![(1, Wire::Fixed32)]));
        let minus_one = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(all(&minus_one), Some(vec![(1, Wire::Varint(u64::MAX))]));
    }

    #[test]
    fn what_is_cut_or_odd_is_refused() {
        for bytes in [
            &[0x08][..],
            &[0x08, 0x80],
            &[0x12, 0x05, b'h'],
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x09, 1],
            &[0x0b],
            &[0x00, 0x00],
            &[0x80; 11],
        ] {
            assert_eq!(all(bytes), None, "{bytes:?}");
        }
    }
}
