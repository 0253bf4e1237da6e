//! Server-side apply, and who owns which fields.
//!
//! Two functions, both pure, over an object as it is stored (`metadata.managedFields` included):
//!
//! - [`apply`] is a PATCH with `application/apply-patch+yaml`: what the applier sends wins where nobody else owns it, or
//!   with `force`; what it owned and no longer sends goes, unless somebody else owns that too.
//! - [`track`] is every other write: who changed a field owns it, and nobody else does any more.
//!
//! Objects come decoded: with what Go writes for unset fields (`status: {}`), so that ownership compares with upstream's.
//! A caller creates by passing `Value::Null` as the live object. It decodes and validates what comes out as it does any
//! body: emptied parents are `null`. An object that comes out equal to the live one is no write at all; times included,
//! for an apply that changes nothing keeps the old time.
//!
//! Files: `step` and `set` are `FieldsV1`; `shape` cuts values into fields by their types; `walk` finds which fields
//! an object has and which differ; `merge` joins and removes; `check` is what an applier may not send; `managed` reads
//! and writes the entries; here is what happens to ownership.
//!
//! Entries of another group than the request's (Events are served in two) are kept and never conflict: their paths mean
//! other fields. Versions of one group have the same fields here.

mod check;
mod managed;
mod merge;
mod set;
mod shape;
mod step;
mod walk;

use std::sync::LazyLock;

use serde_json::Value;

use crate::error::{ApiError, Cause, Reason};
use crate::schema::{Kind, Types};
use managed::{Entry, Operation};
use set::FieldSet;
use step::{Step, display};

/// What a manager that was there before the first apply is called.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The annotation of client-side apply.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Fields that nobody owns.
const UNOWNED: [&[&str]; 12] = [
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// Who writes, where.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// `fieldManager`; for other writes its default is the user agent up to the first `/`. At most 128 characters.
    pub manager: &'a str,
    /// Of the request: `v1`, `events.k8s.io/v1`.
    pub api_version: &'a str,
    /// `status`, …; empty for the object itself.
    pub subresource: &'a str,
    /// Fields that this resource or subresource doesn't write, and so nobody gets by it: `status` for the object,
    /// everything else for its status.
    pub ignored: &'a [&'a [&'a str]],
    /// Now, as RFC 3339 in seconds: `2026-01-01T00:00:00Z`.
    pub now: &'a str,
}

/// Why nothing was applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The patch names the owners itself.
    #[error("metadata.managedFields must be nil")]
    ManagedFields,
    /// The patch is not of its type. Upstream answers 500; it is the client's mistake.
    #[error("failed to create typed patch object ({object}): {problems}")]
    Untyped {
        /// `default/x; v1, Kind=Pod`.
        object: String,
        /// Every one, each with its path.
        problems: String,
    },
    /// Somebody else owns what would change.
    #[error("{message}")]
    Conflicts {
        /// As upstream says it.
        message: String,
        /// Who and which field, one by one.
        causes: Vec<Cause>,
    },
}

impl From<ApplyError> for ApiError {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::ManagedFields | ApplyError::Untyped { .. } => Self::bad_request(error.to_string()),
            ApplyError::Conflicts { message, causes } => Self::new(Reason::Conflict, message).with_causes(causes),
        }
    }
}

/// Applies `config` to `live`.
///
/// # Errors
/// [`ApplyError::Conflicts`] without `force`; [`ApplyError::Untyped`] and [`ApplyError::ManagedFields`] for what may not
/// be applied.
pub fn apply(
    types: &Types,
    kind: &Kind,
    live: &Value,
    config: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    if config["metadata"]["managedFields"].as_array().is_some_and(|entries| !entries.is_empty()) {
        return Err(ApplyError::ManagedFields);
    }
    let problems = check::problems(types, kind, config);
    if !problems.is_empty() {
        return Err(ApplyError::Untyped { object: title(config), problems: problems.join("\n") });
    }
    let at = Place { types, kind };
    let mut old = if live.is_null() { types.empty(kind) } else { live.clone() };
    // Entries that are not understood own nothing; the applier must be able to repair them.
    let mut entries = managed::take(&mut old).unwrap_or_default();
    let before = entries.clone();
    if entries.is_empty() {
        let first = Writer { manager: BEFORE_FIRST_APPLY, subresource: "", ignored: &[], ..*writer };
        at.update(&mut entries, &types.empty(kind), &old, &first);
    }
    match at.apply(&old, config, &entries, writer, force) {
        Err(conflicts) if writer.manager == "kubectl" && at.were_applied_by_the_client(&old, &conflicts) => {
            at.apply(&old, config, &entries, writer, true)
        }
        other => other,
    }
    .map(|(object, entries)| {
        if !live.is_null() && object == old && same_entries(&entries, &before) {
            return live.clone();
        }
        let mut object = object;
        managed::put(&mut object, entries);
        object
    })
    .map_err(|conflicts| conflicts.error())
}

/// The object `new` with the entries that `writer`, who made it of `live`, leaves behind. `live` is null for a new
/// object.
///
/// Entries that `new` brings are taken as they are, except by a subresource; a list of none, or of one empty entry,
/// forgets all of them.
#[must_use]
pub fn track(types: &Types, kind: &Kind, live: &Value, new: Value, writer: &Writer<'_>) -> Value {
    let at = Place { types, kind };
    let created = live.is_null();
    let mut old = if created { types.empty(kind) } else { live.clone() };
    let mut object = new;
    let reset = object["metadata"]["managedFields"].as_array().is_some_and(|given| match given.as_slice() {
        [] => true,
        [one] => one.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    });
    let theirs = managed::take(&mut old).unwrap_or_default();
    let given = managed::take(&mut object);
    let mut entries = match given {
        _ if !writer.subresource.is_empty() => theirs,
        _ if reset => Vec::new(),
        Some(given) if !given.is_empty() => given,
        _ => theirs,
    };
    // An object that nobody tracks stays so until somebody applies to it.
    if created || !entries.is_empty() {
        at.update(&mut entries, &old, &object, writer);
        managed::cap(&mut entries);
    }
    managed::put(&mut object, entries);
    object
}

/// `default/x; v1, Kind=Pod`.
fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    // Upstream writes the core group's version with a slash before it.
    let version = if version.contains('/') { version } else { format!("/{version}") };
    format!("{namespace}/{name}; {version}, Kind={kind}")
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Whether entries say the same, times aside.
fn same_entries(a: &[Entry], b: &[Entry]) -> bool {
    let alike = |x: &Entry, y: &Entry| x.same_manager(y) && x.fields == y.fields && x.api_version == y.api_version;
    a.len() == b.len() && a.iter().all(|x| b.iter().any(|y| alike(x, y)))
}

/// Fields that would change and that others own.
struct Conflicts(Vec<(String, Vec<Step>)>);

impl Conflicts {
    fn error(&self) -> ApplyError {
        let causes = self.0.iter().map(|(manager, path)| {
            Cause::new("FieldManagerConflict", format!("conflict with {manager}"), display(path))
        });
        let message = match self.0.as_slice() {
            [(manager, path)] => format!("Apply failed with 1 conflict: conflict with {manager}: {}", display(path)),
            many => {
                let mut lines = Vec::new();
                let mut last = None;
                for (manager, path) in many {
                    if last != Some(manager) {
                        lines.push(format!("conflicts with {manager}:"));
                        last = Some(manager);
                    }
                    lines.push(format!("- {}", display(path)));
                }
                format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
            }
        };
        ApplyError::Conflicts { message, causes: causes.collect() }
    }
}

/// Types and the object's type: what every step needs.
#[derive(Clone, Copy)]
struct Place<'a> {
    types: &'a Types,
    kind: &'a Kind,
}

impl Place<'_> {
    fn fields(self, value: &Value) -> FieldSet {
        walk::fields_of(self.types, self.kind, value)
    }

    fn remove(self, value: &Value, set: &FieldSet) -> Value {
        merge::removed(self.types, self.kind, value, set).unwrap_or(Value::Null)
    }

    /// With the declared fields that have something below them.
    fn named(self, set: &FieldSet) -> FieldSet {
        let types = self.types;
        set.with_named(self.kind, &|kind, step| {
            let shape = shape::Shape::of(types, kind, &[]);
            (step.name().is_some_and(|name| shape.declares(name)), Some(shape.below(step)))
        })
    }

    /// A write that isn't an apply: `writer` gets what has changed, everybody else loses it.
    fn update(self, entries: &mut Vec<Entry>, old: &Value, new: &Value, writer: &Writer<'_>) {
        let changes = walk::changes(self.types, self.kind, old, new).without(&paths(writer.ignored));
        let walk::Changes { added: mut fields, modified, removed } = changes;
        fields.join(modified);
        if !entries.is_empty() {
            take_from(entries, &fields.union(&removed), writer);
        }
        fields.subtract(&removed);
        fields.subtract(unowned());
        if fields.is_empty() {
            return;
        }
        let own = entry(writer, Operation::Update, fields);
        match entries.iter_mut().find(|entry| entry.same_manager(&own)) {
            Some(entry) => {
                entry.fields.join(own.fields);
                entry.time = own.time;
            }
            None => entries.push(own),
        }
    }

    fn apply(
        self,
        live: &Value,
        config: &Value,
        entries: &[Entry],
        writer: &Writer<'_>,
        force: bool,
    ) -> Result<(Value, Vec<Entry>), Conflicts> {
        let mut entries = entries.to_vec();
        let ignored = paths(writer.ignored);
        let mut fields = self.fields(config);
        fields.exclude(&ignored);
        let own = entry(writer, Operation::Apply, fields);
        let last = entries.iter().position(|entry| entry.same_manager(&own)).map(|at| entries.remove(at));
        let mut object = merge::merged(self.types, self.kind, Some(live), Some(config)).unwrap_or_else(|| live.clone());
        if let Some(last) = last.filter(|last| !last.fields.is_empty()) {
            let owned = entries.iter().filter(|entry| group(&entry.api_version) == group(writer.api_version));
            let owned = owned.fold(own.fields.clone(), |owned, entry| owned.union(&entry.fields));
            object = self.prune(&object, &last.fields, &owned);
        }
        let changes = walk::changes(self.types, self.kind, live, &object).without(&ignored);
        let changed = changes.set();
        if !force {
            let mut conflicts = Vec::new();
            for entry in entries.iter().filter(|entry| group(&entry.api_version) == group(writer.api_version)) {
                let paths = entry.fields.intersection(&changed).paths();
                conflicts.extend(paths.into_iter().map(|path| (entry.display(), path)));
            }
            conflicts.sort();
            if !conflicts.is_empty() {
                return Err(Conflicts(conflicts));
            }
        }
        take_from(&mut entries, &changed.union(&changes.removed), writer);
        let fields = own.fields.difference(unowned());
        if !fields.is_empty() {
            entries.push(Entry { fields, ..own });
        }
        Ok((object, entries))
    }

    /// Takes away what the applier had (`last`) and nobody owns any more.
    fn prune(self, merged: &Value, last: &FieldSet, owned: &FieldSet) -> Value {
        let last = self.named(last);
        let everything = self.named(&self.fields(merged));
        let without = self.remove(merged, &last);
        // Others' fields come back, with what they stand in.
        let kept = self.named(&self.fields(&without)).union(&self.named(owned));
        let pruned = self.remove(merged, &everything.difference(&kept));
        // So does what was below: nobody owned it by name, and the applier did not have it either.
        let kept = self.named(&self.fields(&pruned));
        self.remove(merged, &everything.difference(&kept).intersection(&last))
    }

    /// Whether `kubectl apply` of the client's kind has set all of `conflicts` and nobody has changed them since: then
    /// `kubectl apply --server-side` takes them over.
    fn were_applied_by_the_client(self, live: &Value, conflicts: &Conflicts) -> bool {
        let Some(text) = live["metadata"]["annotations"][LAST_APPLIED].as_str() else { return false };
        let Ok(last) = serde_json::from_str::<Value>(text) else { return false };
        if last["apiVersion"] != live["apiVersion"] || !check::problems(self.types, self.kind, &last).is_empty() {
            return false;
        }
        let changes = walk::changes(self.types, self.kind, &last, live);
        let theirs = self.fields(&last).difference(&changes.set()).difference(&changes.removed);
        let mut wanted = FieldSet::default();
        conflicts.0.iter().for_each(|(_, path)| wanted.insert(path));
        wanted.difference(&theirs).is_empty()
    }
}

/// Takes fields from everybody of the writer's group; who has none left is gone.
fn take_from(entries: &mut Vec<Entry>, fields: &FieldSet, writer: &Writer<'_>) {
    for entry in entries.iter_mut().filter(|entry| group(&entry.api_version) == group(writer.api_version)) {
        entry.fields.subtract(fields);
    }
    entries.retain(|entry| !entry.fields.is_empty());
}

fn entry(writer: &Writer<'_>, operation: Operation, fields: FieldSet) -> Entry {
    Entry {
        manager: if writer.manager.is_empty() { "unknown" } else { writer.manager }.to_owned(),
        operation,
        api_version: writer.api_version.to_owned(),
        subresource: writer.subresource.to_owned(),
        time: Some(writer.now.to_owned()),
        fields,
    }
}

/// [`UNOWNED`] as a set.
fn unowned() -> &'static FieldSet {
    static SET: LazyLock<FieldSet> = LazyLock::new(|| paths(&UNOWNED));
    &SET
}

fn paths(names: &[&[&str]]) -> FieldSet {
    let mut set = FieldSet::default();
    for path in names {
        set.insert(&path.iter().map(|name| Step::field(name)).collect::<Vec<_>>());
    }
    set
}

#[cfg(test)]
mod tests;
