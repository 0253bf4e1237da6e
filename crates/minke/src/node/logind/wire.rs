//! D-Bus messages as bytes (pure): as much of the format as is needed to ask logind and to hear of a shutdown.
//!
//! ```text
//! order type flags version │ length of the body │ serial │ fields: (code, variant)… │ padding to 8 │ body
//! ```
//! Everything is aligned to its own size, counted from the beginning of the message.

use std::str;

/// Longer messages are none of ours.
const LONGEST: usize = 64 * 1024;

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what the bus sent is no D-Bus message: {0}")]
pub(super) struct Malformed(&'static str);

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Call,
    Return,
    Error,
    Signal,
}

/// A message that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) serial: u32,
    /// The call that it answers.
    pub(super) answers: Option<u32>,
    pub(super) interface: String,
    pub(super) member: String,
    /// Of an error.
    pub(super) error: String,
    signature: String,
    order: Order,
    body: Vec<u8>,
}

/// A call, all of whose arguments are strings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) destination: &'a str,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
    pub(super) member: &'a str,
    pub(super) arguments: &'a [&'a str],
}

impl Call<'_> {
    /// As bytes, in the order of this machine's most common kind: little end first.
    pub(super) fn encode(&self, serial: u32) -> Vec<u8> {
        let mut body = Writer::default();
        self.arguments.iter().for_each(|argument| body.text(argument));
        let mut message = Writer::header(1, body.0.len(), serial);
        let fields = [(1, "o", self.path), (2, "s", self.interface), (3, "s", self.member), (6, "s", self.destination)];
        message.fields(|all| {
            for (code, kind, value) in fields {
                all.field(code, kind);
                all.text(value);
            }
            if !self.arguments.is_empty() {
                all.field(8, "g");
                all.signature(&"s".repeat(self.arguments.len()));
            }
        });
        message.0.extend(body.0);
        message.0
    }
}

/// Bytes that grow. Little end first.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn header(kind: u8, body: usize, serial: u32) -> Self {
        let mut writer = Self(vec![b'l', kind, 0, 1]);
        writer.number(length(body));
        writer.number(serial);
        writer
    }

    /// The fields of a header, and the padding behind them.
    pub(super) fn fields(&mut self, write: impl FnOnce(&mut Self)) {
        let at = self.0.len();
        self.number(0);
        // The header before them takes 16 bytes: they begin aligned.
        write(self);
        let written = length(self.0.len() - at - 4).to_le_bytes();
        self.0[at..at + 4].copy_from_slice(&written);
        self.align(8);
    }

    pub(super) fn field(&mut self, code: u8, kind: &str) {
        self.align(8);
        self.0.push(code);
        self.signature(kind);
    }

    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    pub(super) fn number(&mut self, number: u32) {
        self.align(4);
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(length(text.len()));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    pub(super) fn signature(&mut self, signature: &str) {
        self.0.push(u8::try_from(signature.len()).unwrap_or(u8::MAX));
        self.0.extend(signature.as_bytes());
        self.0.push(0);
    }
}

/// What is written here is short.
fn length(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    order: Order,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(count).ok_or(Malformed("a length is too great"))?;
        let taken = self.bytes.get(self.at..end).ok_or(Malformed("it ends too soon"))?;
        self.at = end;
        Ok(taken)
    }

    fn align(&mut self, to: usize) -> Result<(), Malformed> {
        self.take(self.at.next_multiple_of(to) - self.at).map(drop)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> Result<u32, Malformed> {
        self.align(4)?;
        let bytes = self.take(4)?.try_into().map_err(|_| Malformed("it ends too soon"))?;
        Ok(match self.order {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        })
    }

    fn long(&mut self) -> Result<u64, Malformed> {
        self.align(8)?;
        let bytes = self.take(8)?.try_into().map_err(|_| Malformed("it ends too soon"))?;
        Ok(match self.order {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        })
    }

    fn size(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.number()?).map_err(|_| Malformed("a length is too great"))
    }

    fn text(&mut self) -> Result<&'a str, Malformed> {
        let size = self.size()?;
        self.ended(size)
    }

    fn signature(&mut self) -> Result<&'a str, Malformed> {
        let size = self.byte()?.into();
        self.ended(size)
    }

    /// A text and the zero behind it.
    fn ended(&mut self, size: usize) -> Result<&'a str, Malformed> {
        let text = self.take(size)?;
        self.take(1)?;
        str::from_utf8(text).map_err(|_| Malformed("a text is none"))
    }
}

impl Message {
    /// The first message of these bytes and how many it takes; `None`: there are more to come.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        const FIXED: usize = 16;
        if bytes.len() < FIXED {
            return Ok(None);
        }
        let order = match bytes[0] {
            b'l' => Order::Little,
            b'B' => Order::Big,
            _ => return Err(Malformed("its order of bytes is unknown")),
        };
        let kind = match bytes[1] {
            1 => Kind::Call,
            2 => Kind::Return,
            3 => Kind::Error,
            4 => Kind::Signal,
            _ => return Err(Malformed("its kind is unknown")),
        };
        let mut reader = Reader { bytes, at: 4, order };
        let (body, serial, fields) = (reader.size()?, reader.number()?, reader.size()?);
        if body > LONGEST || fields > LONGEST {
            return Err(Malformed("it is too long"));
        }
        let begins = (FIXED + fields).next_multiple_of(8);
        let Some(whole) = bytes.get(..begins + body) else { return Ok(None) };
        let mut message = Self {
            kind,
            serial,
            answers: None,
            interface: String::new(),
            member: String::new(),
            error: String::new(),
            signature: String::new(),
            order,
            body: whole[begins..].to_vec(),
        };
        let mut reader = Reader { bytes: &whole[..FIXED + fields], at: FIXED, order };
        while reader.at < FIXED + fields {
            reader.align(8)?;
            message.field(&mut reader)?;
        }
        Ok(Some((message, begins + body)))
    }

    fn field(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let (code, kind) = (reader.byte()?, reader.signature()?);
        match (code, kind) {
            (2, "s") => reader.text()?.clone_into(&mut self.interface),
            (3, "s") => reader.text()?.clone_into(&mut self.member),
            (4, "s") => reader.text()?.clone_into(&mut self.error),
            (5, "u") => self.answers = Some(reader.number()?),
            (8, "g") => reader.signature()?.clone_into(&mut self.signature),
            (_, "s" | "o") => drop(reader.text()?),
            (_, "u") => drop(reader.number()?),
            (_, "g") => drop(reader.signature()?),
            _ => return Err(Malformed("a field is of an unknown type")),
        }
        Ok(())
    }

    fn body<'a, T>(&'a self, signature: &str, read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>) -> Option<T> {
        // An error has its text first, and perhaps more.
        if !self.signature.starts_with(signature) {
            return None;
        }
        read(&mut Reader { bytes: &self.body, at: 0, order: self.order }).ok()
    }

    /// Its first argument, a truth.
    pub(super) fn truth(&self) -> Option<bool> {
        self.body("b", Reader::number).map(|number| number != 0)
    }

    /// Its first argument, a text.
    pub(super) fn text(&self) -> Option<String> {
        self.body("s", |reader| reader.text().map(str::to_owned))
    }

    /// Which of the files that came along is its first argument.
    pub(super) fn file(&self) -> Option<usize> {
        self.body("h", Reader::size)
    }

    /// Its first argument, a property that is a number.
    pub(super) fn property(&self) -> Option<u64> {
        self.body("v", |reader| match reader.signature()? {
            "t" => reader.long(),
            _ => Err(Malformed("the property is no number")),
        })
    }
}
