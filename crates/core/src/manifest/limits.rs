//! How much a manifest may ask of the reader. Real manifests stay far below; hostile ones stop here.

/// Largest source text, in bytes; the kubelet's limit.
pub const MAX_BYTES: usize = 10 * 1024 * 1024;

/// Deepest nesting of lists and maps. A Pod needs about 15.
pub(super) const MAX_DEPTH: usize = 100;

/// Most values in one source text, counted after aliases are replaced by what they stand for.
pub(super) const MAX_NODES: usize = 1_000_000;

/// Most Pods that all manifests together may ask for.
pub(super) const MAX_PODS: usize = 10_000;

/// Most problems that are listed; the others are only counted.
pub(super) const MAX_FINDINGS: usize = 100;
