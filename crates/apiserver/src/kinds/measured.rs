//! The kinds whose objects are found out when somebody reads them: nobody writes, watches or owns them, and the engine never
//! sees one. `metrics.k8s.io` is upstream's metrics-server's.

use super::builtin::BASE;
use super::{Kind, Nature};

const METRICS: Kind = Kind { group: "metrics.k8s.io", version: "v1beta1", nature: Nature::Measured, ..BASE };

/// All of them.
pub(crate) static MEASURED: &[Kind] = &[
    Kind { kind: "NodeMetrics", plural: "nodes", namespaced: false, ..METRICS },
    Kind { kind: "PodMetrics", plural: "pods", ..METRICS },
];

/// The one behind a path: group, version, plural.
pub(crate) fn measured(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    MEASURED.iter().find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
}
