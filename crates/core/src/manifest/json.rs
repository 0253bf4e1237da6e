//! JSON texts to trees, by RFC 8259. YAML readers are not quite right for it: they refuse tabs between tokens and
//! surrogate pairs in escapes.

use super::limits::MAX_DEPTH;
use super::position::Position;
use super::syntax::{Budget, SyntaxError};
use super::tree::{Entry, Node, Number, Value};

/// The values of a JSON text, one after the other. After an error there is nothing more.
pub(super) struct Documents<'a> {
    rest: Cursor<'a>,
    budget: Budget,
    ended: bool,
}

impl<'a> Documents<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: Cursor { text, next: 0, at: Position::START }, budget: Budget::new(), ended: false }
    }
}

impl Iterator for Documents<'_> {
    type Item = Result<Node, SyntaxError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rest.skip_blanks();
        if self.ended || self.rest.peek().is_none() {
            return None;
        }
        let value = self.rest.value(0, &mut self.budget);
        self.ended = value.is_err();
        Some(value)
    }
}

/// A place in the text, with its line and column.
struct Cursor<'a> {
    text: &'a str,
    next: usize,
    at: Position,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.next).copied()
    }

    /// Goes over one byte. Bytes inside a character do not count as columns.
    fn step(&mut self) {
        let Some(byte) = self.peek() else { return };
        self.next += 1;
        let line_ends = byte == b'\n' || (byte == b'\r' && self.peek() != Some(b'\n'));
        if line_ends {
            self.at = Position { line: self.at.line.saturating_add(1), column: 1 };
        } else if byte & 0xC0 != 0x80 && byte != b'\r' {
            self.at.column = self.at.column.saturating_add(1);
        }
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.step();
        }
    }

    /// The character at the cursor for a message.
    fn found(&self) -> String {
        match self.text[self.next..].chars().next() {
            Some(c) => format!("{c:?}"),
            None => "the end of the text".to_owned(),
        }
    }

    fn unexpected(&self, wanted: &str) -> SyntaxError {
        SyntaxError::new(self.at, format!("expected {wanted}, found {}", self.found()))
    }

    fn value(&mut self, depth: usize, budget: &mut Budget) -> Result<Node, SyntaxError> {
        let at = self.at;
        budget.spend(1, at)?;
        let value = match self.peek() {
            Some(b'{') => self.object(depth, budget)?,
            Some(b'[') => self.array(depth, budget)?,
            Some(b'"') => Value::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true", Value::Bool(true, "true".into()))?,
            Some(b'f') => self.word("false", Value::Bool(false, "false".into()))?,
            Some(b'n') => self.word("null", Value::Null)?,
            Some(_) | None => return Err(self.unexpected("a value")),
        };
        Ok(Node::new(value, at))
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, SyntaxError> {
        if !self.text[self.next..].starts_with(word) {
            return Err(self.unexpected("a value"));
        }
        word.bytes().for_each(|_| self.step());
        Ok(value)
    }

    fn object(&mut self, depth: usize, budget: &mut Budget) -> Result<Value, SyntaxError> {
        if depth >= MAX_DEPTH {
            return Err(SyntaxError::too_deep(self.at));
        }
        let mut entries = Vec::new();
        self.step();
        self.skip_blanks();
        if self.peek() == Some(b'}') {
            self.step();
            return Ok(Value::Map(entries));
        }
        loop {
            let at = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in double quotes"));
            }
            let key = self.string()?;
            self.skip_blanks();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("':' after the key"));
            }
            self.step();
            self.skip_blanks();
            let value = self.value(depth + 1, budget)?;
            entries.push(Entry { key, at, value });
            self.skip_blanks();
            match self.peek() {
                Some(b',') => self.step(),
                Some(b'}') => {
                    self.step();
                    return Ok(Value::Map(entries));
                }
                Some(_) | None => return Err(self.unexpected("',' or '}'")),
            }
            self.skip_blanks();
        }
    }

    fn array(&mut self, depth: usize, budget: &mut Budget) -> Result<Value, SyntaxError> {
        if depth >= MAX_DEPTH {
            return Err(SyntaxError::too_deep(self.at));
        }
        let mut items = Vec::new();
        self.step();
        self.skip_blanks();
        if self.peek() == Some(b']') {
            self.step();
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value(depth + 1, budget)?);
            self.skip_blanks();
            match self.peek() {
                Some(b',') => self.step(),
                Some(b']') => {
                    self.step();
                    return Ok(Value::List(items));
                }
                Some(_) | None => return Err(self.unexpected("',' or ']'")),
            }
            self.skip_blanks();
        }
    }

    fn number(&mut self) -> Result<Value, SyntaxError> {
        let (start, at) = (self.next, self.at);
        let digits = |cursor: &mut Self| {
            let from = cursor.next;
            while let Some(b'0'..=b'9') = cursor.peek() {
                cursor.step();
            }
            cursor.next - from
        };
        if self.peek() == Some(b'-') {
            self.step();
        }
        let leading_zero = self.peek() == Some(b'0');
        let whole = digits(self);
        let mut well_formed = whole == 1 || (whole > 1 && !leading_zero);
        let mut integral = true;
        if self.peek() == Some(b'.') {
            self.step();
            integral = false;
            well_formed &= digits(self) > 0;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.step();
            integral = false;
            if let Some(b'+' | b'-') = self.peek() {
                self.step();
            }
            well_formed &= digits(self) > 0;
        }
        let text = &self.text[start..self.next];
        if !well_formed {
            return Err(SyntaxError::new(at, format!("{text:?} is not a number in JSON")));
        }
        let exact = || text.parse().map(Number::Int).or_else(|_| text.parse().map(Number::UInt)).ok();
        let number = if integral { exact() } else { None };
        let number = number.or_else(|| text.parse().ok().map(Number::Float));
        number.map(|n| Value::Number(n, text.into())).ok_or_else(|| SyntaxError::new(at, "not a number"))
    }

    /// The text between the quotes, escapes replaced.
    fn string(&mut self) -> Result<String, SyntaxError> {
        let opened_at = self.at;
        self.step();
        let mut text = String::new();
        loop {
            let run = self.next;
            while self.peek().is_some_and(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
                self.step();
            }
            text.push_str(&self.text[run..self.next]);
            match self.peek() {
                Some(b'"') => {
                    self.step();
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => {
                    let message = format!("{} must be escaped in a text", self.found());
                    return Err(SyntaxError::new(self.at, message));
                }
                None => return Err(SyntaxError::new(opened_at, "this text has no closing quote")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, SyntaxError> {
        let at = self.at;
        self.step();
        let escaped = self.peek();
        self.step();
        Ok(match escaped {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(at),
            Some(_) | None => return Err(SyntaxError::new(at, "there is no such escape in JSON")),
        })
    }

    /// `\uXXXX`, or two of them that make one character.
    fn unicode(&mut self, at: Position) -> Result<char, SyntaxError> {
        let alone = || SyntaxError::new(at, "half of a surrogate pair stands alone");
        let first = self.hex4(at)?;
        let code = match first {
            0xD800..=0xDBFF => {
                if !self.text[self.next..].starts_with("\\u") {
                    return Err(alone());
                }
                self.step();
                self.step();
                let second = self.hex4(at)?;
                if !(0xDC00..=0xDFFF).contains(&second) {
                    return Err(alone());
                }
                0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            }
            code => code,
        };
        char::from_u32(code).ok_or_else(alone)
    }

    fn hex4(&mut self, at: Position) -> Result<u32, SyntaxError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let digit = digit.ok_or_else(|| SyntaxError::new(at, "\\u takes four hexadecimal digits"))?;
            code = code * 16 + digit;
            self.step();
        }
        Ok(code)
    }
}
