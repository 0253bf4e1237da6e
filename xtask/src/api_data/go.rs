//! Struct tags of the Go sources: protobuf numbers, pointers and `omitempty`, which OpenAPI does not say.
//!
//! The sources are formatted by gofmt and generated from with the same tags, so that lines are enough: a struct starts
//! at `type Name struct {` and ends at `}` in the first column.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::ApiDataError;

/// What Go says of one JSON field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tag {
    /// Protobuf numbers from the struct inwards: two where the field comes from an embedded struct. Empty for
    /// `apiVersion` and `kind`, which are not encoded.
    pub(super) path: Vec<u32>,
    pub(super) pointer: bool,
    pub(super) omitempty: bool,
    pub(super) omitzero: bool,
}

/// A line of a struct.
#[derive(Debug)]
enum Line {
    Field {
        json: String,
        tag: Tag,
    },
    /// An embedded struct whose fields are the outer one's.
    Inline {
        name: String,
        number: Option<u32>,
    },
}

/// The structs of one package.
type Package = BTreeMap<String, Vec<Line>>;

/// Go modules on disk, their packages read as they are asked for.
#[derive(Debug, Default)]
pub(super) struct Modules {
    directories: BTreeMap<String, PathBuf>,
    packages: BTreeMap<String, Package>,
}

impl Modules {
    pub(super) fn add(&mut self, name: &str, directory: PathBuf) {
        self.directories.insert(name.to_owned(), directory);
    }

    /// The JSON fields of the struct that a schema (`io.k8s.api.core.v1.Pod`) is made from.
    pub(super) fn fields(&mut self, schema: &str) -> Result<BTreeMap<String, Tag>, ApiDataError> {
        let unknown = |what: &str| ApiDataError::Unknown { place: schema.to_owned(), what: what.to_owned() };
        let path = schema.strip_prefix("io.k8s.").ok_or_else(|| unknown("is not Kubernetes' own"))?;
        let (package, name) = path.rsplit_once('.').ok_or_else(|| unknown("has no package"))?;
        if !self.packages.contains_key(package) {
            let (module, below) = package.split_once('.').ok_or_else(|| unknown("has no module"))?;
            let directory = self.directories.get(module).ok_or_else(|| unknown("is of a module that is not known"))?;
            let read = read_package(&directory.join(below.replace('.', "/")))?;
            self.packages.insert(package.to_owned(), read);
        }
        let mut fields = BTreeMap::new();
        gather(&self.packages[package], name, &[], &mut fields).map_err(|what| unknown(&what))?;
        Ok(fields)
    }
}

fn gather(package: &Package, name: &str, outer: &[u32], into: &mut BTreeMap<String, Tag>) -> Result<(), String> {
    let lines = package.get(name).ok_or_else(|| format!("there is no struct {name}"))?;
    for line in lines {
        match line {
            Line::Field { json, tag } => {
                let path = if tag.path.is_empty() { Vec::new() } else { [outer, &tag.path].concat() };
                into.insert(json.clone(), Tag { path, ..tag.clone() });
            }
            Line::Inline { name, number } if name.ends_with(".TypeMeta") || name == "TypeMeta" => {
                if number.is_some() {
                    return Err("encodes its TypeMeta".to_owned());
                }
                for json in ["apiVersion", "kind"] {
                    let tag = Tag { path: Vec::new(), pointer: false, omitempty: true, omitzero: false };
                    into.insert(json.to_owned(), tag);
                }
            }
            Line::Inline { name, number } => {
                let number = number.ok_or_else(|| format!("embeds {name} without a number"))?;
                gather(package, name, &[outer, &[number]].concat(), into)?;
            }
        }
    }
    Ok(())
}

fn read_package(directory: &Path) -> Result<Package, ApiDataError> {
    let failed = |source| ApiDataError::File { path: directory.to_owned(), source };
    let mut package = Package::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("types") && name.ends_with(".go") && !name.ends_with("_test.go") {
            let text =
                std::fs::read_to_string(&path).map_err(|source| ApiDataError::File { path: path.clone(), source })?;
            package.extend(read(&text));
        }
    }
    Ok(package)
}

fn read(text: &str) -> Package {
    let mut package = Package::new();
    let mut open: Option<(String, Vec<Line>)> = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("type ") {
            if let Some(name) = rest.strip_suffix(" struct {") {
                open = Some((name.to_owned(), Vec::new()));
            }
        } else if line == "}" {
            package.extend(open.take());
        } else if let Some((_, lines)) = &mut open {
            lines.extend(read_line(line));
        }
    }
    package
}

/// ``Name *Type `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"` ``, or an embedded type alone.
fn read_line(line: &str) -> Option<Line> {
    let (declaration, tags) = line.trim().split_once('`')?;
    if declaration.starts_with("//") {
        return None;
    }
    let words: Vec<&str> = declaration.split_whitespace().collect();
    let mut json = tag(tags, "json").split(',');
    let name = json.next().unwrap_or_default();
    let options: Vec<&str> = json.collect();
    let number = tag(tags, "protobuf").split(',').nth(1).and_then(|number| number.parse().ok());
    let go_type = words.last()?;
    if name.is_empty() && words.len() == 1 {
        return Some(Line::Inline { name: (*go_type).to_owned(), number });
    }
    if name.is_empty() || name == "-" {
        return None;
    }
    let tag = Tag {
        path: number.into_iter().collect(),
        pointer: go_type.starts_with('*'),
        omitempty: options.contains(&"omitempty"),
        omitzero: options.contains(&"omitzero"),
    };
    Some(Line::Field { json: name.to_owned(), tag })
}

fn tag<'a>(tags: &'a str, name: &str) -> &'a str {
    let start = format!("{name}:\"");
    tags.split_once(start.as_str()).and_then(|(_, rest)| rest.split_once('"')).map_or("", |(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
type Probe struct {
\t// The action.
\tProbeHandler `json:\"\" protobuf:\"bytes,1,opt,name=handler\"`
\t// Seconds.
\tPeriodSeconds int32 `json:\"periodSeconds,omitempty\" protobuf:\"varint,4,opt,name=periodSeconds\"`
}

type ProbeHandler struct {
\tExec *ExecAction `json:\"exec,omitempty\" protobuf:\"bytes,1,opt,name=exec\"`
}

type Pod struct {
\tmetav1.TypeMeta `json:\"\"`
\tmetav1.ObjectMeta `json:\"metadata,omitempty\" protobuf:\"bytes,1,opt,name=metadata\"`
\tStatus PodStatus `json:\"status\" protobuf:\"bytes,3,opt,name=status\"`
}
";

    fn fields(name: &str) -> BTreeMap<String, Tag> {
        let mut fields = BTreeMap::new();
        gather(&read(SOURCE), name, &[], &mut fields).unwrap();
        fields
    }

    #[test]
    fn fields_of_an_embedded_struct_have_two_numbers() {
        let fields = fields("Probe");
        assert_eq!(fields["exec"].path, [1, 1]);
        assert!(fields["exec"].pointer);
        assert_eq!(fields["periodSeconds"].path, [4]);
        assert!(!fields["periodSeconds"].pointer && fields["periodSeconds"].omitempty);
    }

    #[test]
    fn an_embedded_struct_with_a_name_is_a_field_and_type_meta_is_not_encoded() {
        let fields = fields("Pod");
        assert_eq!(fields["metadata"].path, [1]);
        assert!(fields["kind"].path.is_empty());
        assert!(!fields["status"].omitempty);
    }
}
