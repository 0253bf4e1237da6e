//! Tables: what `kubectl get` prints, made by the server as upstream makes it (`meta.k8s.io/v1 Table`), and objects
//! reduced to their metadata.
//!
//! [`printer`] has the columns and cells of a kind, wide ones (priority 1) included; kinds without one of their own have
//! a name and a time. [`Printer::custom`] is that of a custom resource. [`Printer::table`] makes the table of a list, of
//! one object, or of a watch's event. One file a group of kinds; `pod` has the logic of STATUS and RESTARTS.
//!
//! The descriptions of columns are short ones of our own; upstream repeats whole fields' documentation.

mod cells;
mod columns;
mod custom;
mod kinds;
mod path;
mod pod;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use path::{JsonPath, PathError};

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The heading, as upstream writes it: `Nominated Node`.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// `name` for the object's name.
    pub format: String,
    /// For people.
    pub description: String,
    /// 0: always shown; 1: with `-o wide`.
    pub priority: i64,
}

/// What goes along with each row: `includeObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Include {
    /// Nothing.
    None,
    /// The object's metadata.
    #[default]
    Metadata,
    /// The object.
    Object,
}

impl Include {
    /// From the query's `includeObject`. `None`: there is no such.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Metadata" => Some(Self::Metadata),
            "None" => Some(Self::None),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// The columns of a kind and how its rows are made.
#[derive(Debug)]
pub struct Printer {
    columns: Vec<Column>,
    row: Row,
}

#[derive(Debug)]
enum Row {
    Kind(fn(&Value, Timestamp) -> Vec<Value>),
    Custom(Vec<custom::Cell>),
}

/// The printer of a kind that the server knows, or of one that it has no columns for.
#[must_use]
pub fn printer(api_version: &str, kind: &str) -> Printer {
    let (columns, row) = kinds::of(api_version, kind);
    let columns = columns.iter().map(|(name, kind, priority, description)| Column {
        name: (*name).to_owned(),
        kind: (*kind).to_owned(),
        format: if *name == "Name" { "name" } else { "" }.to_owned(),
        description: (*description).to_owned(),
        priority: *priority,
    });
    Printer { columns: columns.collect(), row: Row::Kind(row) }
}

impl Printer {
    /// The printer of a custom resource with these `additionalPrinterColumns`; null and none are one: an age.
    ///
    /// # Errors
    /// [`PathError`]: a column's path is not understood.
    pub fn custom(columns: &Value) -> Result<Self, PathError> {
        let (columns, cells) = custom::columns(columns)?;
        Ok(Self { columns, row: Row::Custom(cells) })
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// A table of `objects`. `meta` is the list's metadata; for one object, its `resourceVersion`. A watch sends the
    /// columns with its first event only.
    #[must_use]
    pub fn table<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Value>,
        meta: &Value,
        include: Include,
        headers: bool,
        now: Timestamp,
    ) -> Value {
        let rows: Vec<Value> = objects.into_iter().map(|object| self.row(object, include, now)).collect();
        let columns = if headers { self.columns.iter().map(Column::to_value).collect() } else { Value::Null };
        json!({
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": if meta.is_null() { json!({}) } else { meta.clone() },
            "columnDefinitions": columns,
            "rows": rows,
        })
    }

    fn row(&self, object: &Value, include: Include, now: Timestamp) -> Value {
        let cells = match &self.row {
            Row::Kind(cells) => cells(object, now),
            Row::Custom(cells) => custom::row(cells, object, now),
        };
        let mut row = Map::from_iter([("cells".to_owned(), Value::Array(cells))]);
        if object["kind"] == "Pod" && object["apiVersion"] == "v1" {
            row.extend(pod::conditions(object).map(|conditions| ("conditions".to_owned(), conditions)));
        }
        match include {
            Include::None => {}
            Include::Metadata => drop(row.insert("object".to_owned(), partial(object))),
            Include::Object => drop(row.insert("object".to_owned(), object.clone())),
        }
        Value::Object(row)
    }
}

impl Column {
    fn to_value(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

/// An object reduced to its metadata (`PartialObjectMetadata`).
#[must_use]
pub fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// A list reduced to its objects' metadata (`PartialObjectMetadataList`).
#[must_use]
pub fn partial_list<'a>(objects: impl IntoIterator<Item = &'a Value>, meta: &Value) -> Value {
    let items: Vec<Value> = objects.into_iter().map(partial).collect();
    json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": if meta.is_null() { json!({}) } else { meta.clone() },
        "items": items,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_table_has_columns_rows_and_what_goes_along() {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "status": {"phase": "Active"},
            "metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z"},
        });
        let printer = printer("v1", "Namespace");
        let table = printer.table([&namespace], &json!({"resourceVersion": "7"}), Include::Metadata, true, now());
        assert_eq!(table["metadata"]["resourceVersion"], "7");
        let names: Vec<_> = table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
        assert_eq!(names, ["Name", "Status", "Age"]);
        assert_eq!(table["rows"][0]["cells"], json!(["n", "Active", "60m"]));
        assert_eq!(table["rows"][0]["object"], partial(&namespace));
        let later = printer.table([&namespace], &Value::Null, Include::Object, false, now());
        assert_eq!(later["columnDefinitions"], Value::Null);
        assert_eq!(later["rows"][0]["object"], namespace);
        let bare = printer.table([&namespace], &Value::Null, Include::None, false, now());
        assert_eq!(bare["rows"][0].get("object"), None);
    }

    #[test]
    fn what_to_include_is_read_from_the_query() {
        assert_eq!(Include::parse(""), Some(Include::Metadata));
        assert_eq!(Include::parse("Object"), Some(Include::Object));
        assert_eq!(Include::parse("None"), Some(Include::None));
        assert_eq!(Include::parse("object"), None);
    }

    #[test]
    fn every_row_has_a_cell_for_each_column() {
        let broken = json!({"apiVersion": 1, "kind": [], "metadata": "x", "spec": [1], "status": null});
        for (api_version, kind) in kinds::KINDS {
            let printer = printer(api_version, kind);
            for object in [&json!({}), &broken] {
                let table = printer.table([object], &Value::Null, Include::None, true, now());
                let cells = table["rows"][0]["cells"].as_array().unwrap().len();
                assert_eq!(cells, printer.columns().len(), "{kind}");
            }
        }
    }

    #[test]
    fn lists_can_be_reduced_to_metadata() {
        let object = json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": {}});
        let list = partial_list([&object], &json!({"resourceVersion": "3"}));
        assert_eq!(list["items"][0]["metadata"], json!({"name": "p"}));
        assert_eq!(list["items"][0].get("spec"), None);
        assert_eq!(list["kind"], "PartialObjectMetadataList");
    }
}
