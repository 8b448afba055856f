//! A chart's files as the one `.tgz` that they always make, and back.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Read};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::limits::{MAX_CHART, MAX_FILE};

/// Files of a chart by their path in it.
pub type ChartFiles = BTreeMap<&'static str, Cow<'static, [u8]>>;

/// The file that Helm reads first, and writes first.
pub(crate) const CHART_YAML: &str = "Chart.yaml";

/// A middle level: charts are small, and a higher one costs more time than it saves bytes.
const LEVEL: Compression = Compression::new(6);

/// Packs `files` under the folder `name`.
///
/// The same files give the same bytes, on any machine and day: Chart.yaml first and then in the order of their paths,
/// regular files of mode 0644, owner 0 and time 0, and a gzip header without time, name and operating system.
pub(crate) fn pack(name: &str, files: &ChartFiles) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), LEVEL));
    let first = files.get_key_value(CHART_YAML).into_iter();
    let others = files.iter().filter(|(path, _)| **path != CHART_YAML);
    for (path, bytes) in first.chain(others) {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        archive.append_data(&mut header, format!("{name}/{path}"), bytes.as_ref())?;
    }
    archive.into_inner()?.finish()
}

/// Why a `.tgz` was not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// Neither gzip nor tar, or cut off.
    #[error("the chart is no gzipped tar archive")]
    Archive(#[source] io::Error),
    /// A file outside the chart's folder, or one that is there twice.
    #[error("the chart holds a file at {path:?}, where no file belongs")]
    Path {
        /// The path.
        path: String,
    },
    /// More bytes than a chart may have.
    #[error("the chart has more than {limit} bytes")]
    TooLarge {
        /// The most bytes that are read.
        limit: usize,
    },
}

/// Files of a packed chart by their path in it, the chart's own folder taken off.
///
/// Folders and headers are passed over, as Helm does. At most 10 MiB are read, whatever the archive claims.
pub fn unpack(tgz: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, UnpackError> {
    let mut files = BTreeMap::new();
    // Headers and padding come on top of the files.
    let limit = 2 * MAX_CHART as u64;
    let mut archive = tar::Archive::new(MultiGzDecoder::new(tgz).take(limit));
    let mut total = 0;
    for entry in archive.entries().map_err(UnpackError::Archive)? {
        let entry = entry.map_err(UnpackError::Archive)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = inner_path(&entry.path_bytes())?;
        let mut bytes = Vec::new();
        entry.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes).map_err(UnpackError::Archive)?;
        total += bytes.len();
        if bytes.len() > MAX_FILE || total > MAX_CHART {
            return Err(UnpackError::TooLarge { limit: MAX_CHART });
        }
        if files.contains_key(&path) {
            return Err(UnpackError::Path { path });
        }
        files.insert(path, bytes);
    }
    Ok(files)
}

fn inner_path(path: &[u8]) -> Result<String, UnpackError> {
    let path = String::from_utf8_lossy(path);
    match path.split_once('/') {
        Some((folder, inner))
            if !folder.is_empty() && !inner.is_empty() && !inner.split('/').any(|part| part == "..") =>
        {
            Ok(inner.to_owned())
        }
        _ => Err(UnpackError::Path { path: path.into_owned() }),
    }
}
