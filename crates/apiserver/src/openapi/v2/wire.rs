//! OpenAPI v2 as gnostic's protobuf messages (`openapi.v2.Document`), as far as [`super::document`] uses them. The numbers are
//! those of `OpenAPIv2.proto`.

use serde_json::Value;

use super::METHODS;

/// A message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, field: usize, bytes: &[u8]) {
        self.number(field << 3 | 2);
        self.number(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// A text; absent ones are not written.
    fn text(&mut self, field: usize, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            self.bytes(field, text.as_bytes());
        }
    }

    fn texts(&mut self, field: usize, value: &Value) {
        value.as_array().into_iter().flatten().for_each(|text| self.text(field, text));
    }

    fn flag(&mut self, field: usize, value: &Value) {
        if *value == Value::Bool(true) {
            self.number(field << 3);
            self.number(1);
        }
    }

    fn message(&mut self, field: usize, fill: impl FnOnce(&mut Self)) {
        let mut message = Self::default();
        fill(&mut message);
        self.bytes(field, &message.0);
    }

    /// A name with a message, as maps are written.
    fn named(&mut self, field: usize, name: &str, fill: impl FnOnce(&mut Self)) {
        self.message(field, |named| {
            named.bytes(1, name.as_bytes());
            named.message(2, fill);
        });
    }

    /// Extensions are YAML, which JSON is.
    fn extensions(&mut self, field: usize, of: &Value) {
        for (name, value) in of.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-")) {
            self.named(field, name, |any| any.bytes(2, value.to_string().as_bytes()));
        }
    }
}

/// The document as protobuf.
#[must_use]
pub fn protobuf(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    out.message(2, |info| {
        info.text(1, &document["info"]["title"]);
        info.text(2, &document["info"]["version"]);
    });
    out.message(8, |paths| {
        for (name, path) in document["paths"].as_object().into_iter().flatten() {
            paths.named(2, name, |item| self::path(item, path));
        }
    });
    out.message(9, |definitions| named_schemas(definitions, &document["definitions"]));
    out.0
}

fn named_schemas(out: &mut Message, schemas: &Value) {
    for (name, schema) in schemas.as_object().into_iter().flatten() {
        out.named(1, name, |out| self::schema(out, schema));
    }
}

fn schema(out: &mut Message, schema: &Value) {
    for (field, name) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description")] {
        out.text(field, &schema[name]);
    }
    out.texts(19, &schema["required"]);
    match &schema["additionalProperties"] {
        more @ Value::Object(_) => out.message(21, |item| item.message(1, |out| self::schema(out, more))),
        more => {
            if *more == Value::Bool(true) {
                out.message(21, |item| item.flag(2, more));
            }
        }
    }
    if schema["type"].is_string() {
        out.message(22, |item| item.text(1, &schema["type"]));
    }
    if schema["items"].is_object() {
        out.message(23, |items| items.message(1, |out| self::schema(out, &schema["items"])));
    }
    if schema["properties"].is_object() {
        out.message(25, |properties| named_schemas(properties, &schema["properties"]));
    }
    out.extensions(31, schema);
}

fn path(out: &mut Message, path: &Value) {
    // `get` is 2, and so on in the order of the methods; `options` and `head` are between `delete` and `patch`.
    for (method, field) in METHODS.into_iter().zip([2, 3, 4, 5, 8]) {
        if path[method].is_object() {
            out.message(field, |out| operation(out, &path[method]));
        }
    }
    parameters(out, 9, &path["parameters"]);
}

fn operation(out: &mut Message, operation: &Value) {
    out.text(3, &operation["description"]);
    out.texts(6, &operation["produces"]);
    out.texts(7, &operation["consumes"]);
    parameters(out, 8, &operation["parameters"]);
    out.message(9, |responses| {
        for (code, response) in operation["responses"].as_object().into_iter().flatten() {
            responses.named(1, code, |value| {
                value.message(1, |out| {
                    out.text(1, &response["description"]);
                    if response["schema"].is_object() {
                        out.message(2, |item| item.message(1, |out| schema(out, &response["schema"])));
                    }
                });
            });
        }
    });
    out.extensions(13, operation);
}

fn parameters(out: &mut Message, field: usize, all: &Value) {
    for parameter in all.as_array().into_iter().flatten() {
        out.message(field, |item| item.message(1, |out| self::parameter(out, parameter)));
    }
}

fn parameter(out: &mut Message, parameter: &Value) {
    if parameter["in"] == "body" {
        return out.message(1, |body| {
            body.text(2, &parameter["name"]);
            body.text(3, &parameter["in"]);
            body.flag(4, &parameter["required"]);
            body.message(5, |out| schema(out, &parameter["schema"]));
        });
    }
    out.message(2, |other| {
        // Of a query and of a path: the same fields, but for one between the name and the type.
        let (which, kind) = if parameter["in"] == "query" { (3, 6) } else { (4, 5) };
        other.message(which, |out| {
            out.flag(1, &parameter["required"]);
            out.text(2, &parameter["in"]);
            out.text(4, &parameter["name"]);
            out.text(kind, &parameter["type"]);
        });
    });
}
