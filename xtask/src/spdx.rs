//! SPDX licence expressions, as far as crates use them: whether a list of allowed licences satisfies one.

/// Whether `expression` can be satisfied with licences of `allowed` alone. `/` is the old way to write `OR`; a
/// licence `WITH` an exception is one name, and is allowed with its bare licence as well.
///
/// # Errors
/// What of the expression is not understood.
pub(crate) fn satisfied(expression: &str, allowed: &[String]) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, allowed };
    let result = parser.any()?;
    match parser.words.first() {
        None => Ok(result),
        Some(word) => Err(format!("unexpected {word} in {expression:?}")),
    }
}

struct Parser<'a> {
    words: &'a [&'a str],
    allowed: &'a [String],
}

impl<'a> Parser<'a> {
    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn any(&mut self) -> Result<bool, String> {
        let mut result = self.all()?;
        while self.take("OR") {
            result |= self.all()?;
        }
        Ok(result)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut result = self.one()?;
        while self.take("AND") {
            result &= self.one()?;
        }
        Ok(result)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let result = self.any()?;
            return if self.take(")") { Ok(result) } else { Err("a ( without its )".to_owned()) };
        }
        let licence = self.name()?;
        let exception = if self.take("WITH") { Some(self.name()?) } else { None };
        let whole = exception.map_or_else(|| licence.to_owned(), |exception| format!("{licence} WITH {exception}"));
        Ok(self.allowed.iter().any(|allowed| *allowed == whole || allowed == licence))
    }

    fn name(&mut self) -> Result<&'a str, String> {
        match self.words.split_first() {
            Some((name, rest)) if !matches!(*name, "OR" | "AND" | "WITH" | ")") => {
                self.words = rest;
                Ok(name)
            }
            Some((word, _)) => Err(format!("{word} where a licence should be")),
            None => Err("the expression ends where a licence should be".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_satisfied_or_not() {
        let allowed = ["MIT".to_owned(), "Apache-2.0".to_owned(), "Unicode-3.0".to_owned()];
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("MIT/Apache-2.0", true),
            ("GPL-2.0/GPL-3.0", false),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND OpenSSL", false),
            ("MIT OR Apache-2.0 AND OpenSSL", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("GPL-2.0 WITH Classpath-exception-2.0", false),
        ] {
            assert_eq!(satisfied(expression, &allowed), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn nonsense_is_an_error_and_not_a_pass() {
        for nonsense in ["", "MIT MIT", "(MIT", "MIT)", "OR MIT", "MIT OR", "MIT WITH"] {
            assert!(satisfied(nonsense, &["MIT".to_owned()]).is_err(), "{nonsense}");
        }
    }
}
