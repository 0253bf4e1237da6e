//! The columns of custom resources: `additionalPrinterColumns`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Column;
use super::cells::{since, text, time};
use super::path::{JsonPath, PathError};

/// How a cell is made after the name's.
#[derive(Debug)]
pub(super) struct Cell {
    path: JsonPath,
    kind: String,
}

pub(super) fn columns(given: &Value) -> Result<(Vec<Column>, Vec<Cell>), PathError> {
    let age = json!([{
        "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since the object was created.",
    }]);
    let given = given.as_array().filter(|given| !given.is_empty()).or(age.as_array());
    let mut columns = vec![Column {
        name: "Name".to_owned(),
        kind: "string".to_owned(),
        format: "name".to_owned(),
        description: "Name of the object, unique in its namespace.".to_owned(),
        priority: 0,
    }];
    let mut cells = Vec::new();
    for column in given.into_iter().flatten() {
        let owned = |key: &str| text(&column[key]).to_owned();
        cells.push(Cell { path: JsonPath::parse(text(&column["jsonPath"]))?, kind: owned("type") });
        columns.push(Column {
            name: owned("name"),
            kind: owned("type"),
            format: owned("format"),
            description: owned("description"),
            priority: column["priority"].as_i64().unwrap_or(0),
        });
    }
    Ok((columns, cells))
}

pub(super) fn row(cells: &[Cell], object: &Value, now: Timestamp) -> Vec<Value> {
    let name = Value::from(text(&object["metadata"]["name"]));
    std::iter::once(name).chain(cells.iter().map(|cell| value(cell, object, now))).collect()
}

/// The first value at the path, if it is of the column's type; null otherwise.
fn value(cell: &Cell, object: &Value, now: Timestamp) -> Value {
    let Some(found) = cell.path.first(object).filter(|found| !found.is_null()) else { return Value::Null };
    match cell.kind.as_str() {
        "integer" => match (found.as_i64(), found.as_f64()) {
            (Some(whole), _) => whole.into(),
            #[expect(clippy::cast_possible_truncation, reason = "upstream cuts the fraction off")]
            (None, Some(number)) => (number as i64).into(),
            (None, None) => Value::Null,
        },
        "number" if found.is_number() => found.clone(),
        "boolean" if found.is_boolean() => found.clone(),
        "string" => Value::String(found.as_str().map_or_else(|| found.to_string(), str::to_owned)),
        "date" => match found.as_str() {
            Some(_) => time(found).map_or_else(|| "<invalid>".to_owned(), |time| since(time, now)).into(),
            None => Value::Null,
        },
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Include, Printer};
    use super::*;

    fn cells(columns: &Value, object: &Value) -> Value {
        let printer = Printer::custom(columns).unwrap();
        let table = printer.table([object], &Value::Null, Include::None, true, "2026-01-01T01:00:00Z".parse().unwrap());
        table["rows"][0]["cells"].clone()
    }

    #[test]
    fn without_columns_there_is_an_age() {
        let object = json!({"metadata": {"name": "x", "creationTimestamp": "2026-01-01T00:30:00Z"}});
        assert_eq!(cells(&Value::Null, &object), json!(["x", "30m"]));
        assert_eq!(cells(&json!([]), &object), json!(["x", "30m"]));
    }

    #[test]
    fn cells_are_of_their_columns_type() {
        let column = |path: &str, kind: &str| json!({"name": "c", "type": kind, "jsonPath": path});
        let object = json!({"metadata": {"name": "x"}, "spec": {"n": 3, "f": 1.5, "b": true, "s": "t", "o": {"a": 1}, "d": "soon"}});
        let columns = json!([
            column(".spec.n", "integer"),
            column(".spec.f", "integer"),
            column(".spec.f", "number"),
            column(".spec.b", "boolean"),
            column(".spec.s", "string"),
            column(".spec.o", "string"),
            column(".spec.d", "date"),
            column(".spec.s", "integer"),
            column(".spec.none", "string"),
        ]);
        let expected = json!(["x", 3, 1, 1.5, true, "t", "{\"a\":1}", "<invalid>", null, null]);
        assert_eq!(cells(&columns, &object), expected);
    }

    #[test]
    fn a_path_that_is_none_is_an_error() {
        assert!(Printer::custom(&json!([{"name": "c", "type": "string", "jsonPath": "x"}])).is_err());
    }
}
