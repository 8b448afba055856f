//! Sizes at which charts stop working.

/// The largest file in a chart, in bytes: Helm and Flux refuse larger ones.
pub const MAX_FILE: usize = 5 * 1024 * 1024;

/// The largest chart, in bytes of its files: Flux refuses larger ones.
pub const MAX_CHART: usize = 10 * 1024 * 1024;

/// Size of a `.tgz` in bytes from which on a warning is due: Helm stores a release, chart included, in one Secret of at
/// most 1 MiB.
pub const LARGE_TGZ: usize = 500 * 1024;
