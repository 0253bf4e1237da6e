//! JSON to values, with the keys that an object has twice.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{MOST_PROBLEMS, Parsed, StrictError};

pub(super) fn parse(body: &[u8]) -> Result<Parsed, StrictError> {
    let place = Place { path: RefCell::new(String::new()), duplicates: RefCell::new(Vec::new()) };
    let syntax = |error: serde_json::Error| StrictError::Syntax(format!("error decoding JSON: {error}"));
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = (&place).deserialize(&mut deserializer).map_err(syntax)?;
    deserializer.end().map_err(syntax)?;
    Ok(Parsed { value, duplicates: place.duplicates.into_inner() })
}

/// Where the reader is, and what it has found.
struct Place {
    path: RefCell<String>,
    duplicates: RefCell<Vec<String>>,
}

impl Place {
    /// Does something one step further, which `step` writes.
    fn inside<T>(&self, step: impl FnOnce(&mut String), act: impl FnOnce() -> T) -> T {
        let length = self.path.borrow().len();
        step(&mut self.path.borrow_mut());
        let done = act();
        self.path.borrow_mut().truncate(length);
        done
    }
}

fn step_to(key: &str) -> impl FnOnce(&mut String) {
    move |path| {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
    }
}

impl<'de> DeserializeSeed<'de> for &Place {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &Place {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number that is none"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let step = |path: &mut String| path.push_str(&format!("[{}]", list.len()));
            match self.inside(step, || access.next_element_seed(self))? {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = self.inside(step_to(&key), || access.next_value_seed(self))?;
            if map.contains_key(&key) && self.duplicates.borrow().len() < MOST_PROBLEMS {
                let path = self.inside(step_to(&key), || self.path.borrow().clone());
                self.duplicates.borrow_mut().push(format!("duplicate field {path:?}"));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_given_twice_are_told_with_their_path_and_the_last_counts() {
        let parsed = parse(br#"{"a":{"b":1,"b":2},"l":[{},{"c":1,"c":1,"c":3}]}"#).unwrap();
        assert_eq!(parsed.value, json!({"a": {"b": 2}, "l": [{}, {"c": 3}]}));
        let c = "duplicate field \"l[1].c\"";
        assert_eq!(parsed.duplicates, ["duplicate field \"a.b\"", c, c]);
    }

    #[test]
    fn values_are_as_exact_as_they_are_written() {
        let parsed = parse(br#"[1, -1, 18446744073709551615, 1.5, "x", true, null]"#).unwrap();
        assert_eq!(parsed.value, json!([1, -1, u64::MAX, 1.5, "x", true, null]));
        assert_eq!(parsed.duplicates, [""; 0]);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        let deep = "[".repeat(200);
        for body in ["", "{", "{} {}", "[1,]", "\u{fe}", &deep] {
            assert!(matches!(parse(body.as_bytes()), Err(StrictError::Syntax(_))), "{body:?}");
        }
        assert!(parse(b"\"\xff\"").is_err());
    }

    #[test]
    fn the_number_of_problems_is_bounded() {
        let body = format!("{{{}\"a\":1}}", "\"a\":1,".repeat(1000));
        assert_eq!(parse(body.as_bytes()).unwrap().duplicates.len(), MOST_PROBLEMS);
    }
}
