//! `types.tbl`, a line a field. Its grammar:
//!
//! ```text
//! # comment
//! @NAME [atomic] [apiVersion:Kind]…     starts a struct; its fields follow
//! name NUMBERS FLAGS KIND [@strategy[:key]] [=default]
//!
//! NUMBERS   protobuf numbers, dotted from the outer message inwards; `-`: not on the wire
//! FLAGS     p pointer, o omitempty, z omitzero, r required; `-`: none
//! KIND      s string, y bytes, b bool, i int32, l int64, f double, q quantity, x int or string, t time, u micro time,
//!           r raw object, v field set, j any JSON, A O P JSON schema or list, boolean, names
//!           <K map, ^K atomic map, *K atomic list, +K set, [key,…]K list map
//!           NAME struct, !NAME and ~NAME: here atomic, here granular
//! ```
//!
//! Text rather than a binary form: a new version of Kubernetes is read in review as a diff.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Field, Kind, ListType, Strategy, Struct, StructId, Types};

/// Why the table can't be read: its line, 1-based.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {0} of the types is not understood")]
pub(super) struct TableError(usize);

pub(super) fn parse(text: &'static str) -> Result<Types, TableError> {
    let mut types = Types::default();
    let lines = || text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    // Names first: structs refer forwards.
    for (_, line) in lines().filter(|(_, line)| line.starts_with('@')) {
        let mut words = line[1..].split(' ');
        let name = words.next().unwrap_or_default();
        let id = StructId(types.structs.len());
        let mut atomic = false;
        for word in words {
            match word.split_once(':') {
                Some((api_version, kind)) => drop(types.kinds.insert((api_version.into(), kind.into()), id)),
                None => atomic = word == "atomic",
            }
        }
        types.by_name.insert(name.into(), id);
        types.structs.push(Struct { name: name.into(), atomic, ..Struct::default() });
    }
    let atomics: Vec<bool> = types.structs.iter().map(|s| s.atomic).collect();
    let context = Context { names: &types.by_name, atomics: &atomics };
    let mut open: Option<usize> = None;
    for (number, line) in lines() {
        if line.starts_with('@') {
            open = Some(open.map_or(0, |at| at + 1));
            continue;
        }
        let field = field(line, &context).ok_or(TableError(number + 1))?;
        let strukt = open.and_then(|at| types.structs.get_mut(at)).ok_or(TableError(number + 1))?;
        strukt.fields.push(field);
    }
    for strukt in &mut types.structs {
        strukt.fields.sort_by(|a, b| a.name.cmp(&b.name));
    }
    Ok(types)
}

struct Context<'a> {
    names: &'a BTreeMap<Cow<'static, str>, StructId>,
    atomics: &'a [bool],
}

fn field(line: &'static str, context: &Context<'_>) -> Option<Field> {
    let mut words = line.split(' ');
    let (name, numbers, flags, kind) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let numbers = match numbers {
        "-" => Vec::new(),
        numbers => numbers.split('.').map(|n| n.parse().ok()).collect::<Option<_>>()?,
    };
    let mut field = Field {
        name: name.into(),
        kind: parse_kind(kind, context)?,
        numbers,
        pointer: flags.contains('p'),
        omitempty: flags.contains('o'),
        omitzero: flags.contains('z'),
        required: flags.contains('r'),
        patch: Strategy::default(),
        default: None,
    };
    for word in words {
        if let Some(strategy) = word.strip_prefix('@') {
            let (strategies, key) = strategy.split_once(':').map_or((strategy, None), |(s, k)| (s, Some(k)));
            field.patch = Strategy {
                merge: strategies.split(',').any(|s| s == "merge"),
                retain_keys: strategies.split(',').any(|s| s == "retainKeys"),
                key: key.map(Cow::Borrowed),
            };
        } else {
            field.default = Some(word.strip_prefix('=')?.into());
        }
    }
    Some(field)
}

fn parse_kind(text: &'static str, context: &Context<'_>) -> Option<Kind> {
    let boxed = |rest| parse_kind(rest, context).map(Box::new);
    let named = |name: &str| context.names.get(name).copied();
    Some(match text {
        "s" => Kind::String,
        "y" => Kind::Bytes,
        "b" => Kind::Bool,
        "i" => Kind::Int32,
        "l" => Kind::Int64,
        "f" => Kind::Double,
        "q" => Kind::Quantity,
        "x" => Kind::IntOrString,
        "t" => Kind::Time,
        "u" => Kind::MicroTime,
        "r" => Kind::Raw,
        "v" => Kind::Fields,
        "j" => Kind::Json,
        "A" => Kind::SchemaOrArray,
        "O" => Kind::SchemaOrBool,
        "P" => Kind::SchemaOrStrings,
        text => match text.as_bytes().first()? {
            b'<' => Kind::Map { value: boxed(&text[1..])?, atomic: false },
            b'^' => Kind::Map { value: boxed(&text[1..])?, atomic: true },
            b'*' => Kind::List { element: boxed(&text[1..])?, list: ListType::Atomic },
            b'+' => Kind::List { element: boxed(&text[1..])?, list: ListType::Set },
            b'[' => {
                let (keys, element) = text[1..].split_once(']')?;
                let keys = keys.split(',').map(Cow::Borrowed).collect();
                Kind::List { element: boxed(element)?, list: ListType::Map(keys) }
            }
            b'!' => Kind::Struct { id: named(&text[1..])?, atomic: true },
            b'~' => Kind::Struct { id: named(&text[1..])?, atomic: false },
            _ => {
                let id = named(text)?;
                Kind::Struct { id, atomic: *context.atomics.get(id.0)? }
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table_is_understood() {
        let types = parse(include_str!("../../data/types.tbl")).unwrap();
        assert!(types.structs.len() > 250);
        for strukt in &types.structs {
            assert!(strukt.fields.windows(2).all(|pair| pair[0].name < pair[1].name), "{}", strukt.name);
        }
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        assert_eq!(parse("@T\na 1 o s\nb 2 o ?").unwrap_err(), TableError(3));
        assert_eq!(parse("a 1 o s").unwrap_err(), TableError(1));
        assert_eq!(parse("@T\na 1 o Unknown").unwrap_err(), TableError(2));
        assert_eq!(parse("@T\na").unwrap_err(), TableError(2));
    }
}
