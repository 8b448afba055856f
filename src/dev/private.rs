//! Files and folders that nobody else on the machine can read: what `dev` keeps may be secret.

use std::fs::{DirBuilder, File};
use std::io::Write as _;
use std::path::Path;

/// Makes a folder and those above it; one that is there stays as it is.
pub(super) fn create_folders(path: &Path) -> std::io::Result<()> {
    let mut folders = DirBuilder::new();
    folders.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folders, 0o700);
    folders.create(path)
}

/// Makes an empty file, in the place of one that is there.
pub(super) fn create(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // One that was there has the mode that it was made with.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(file)
}

/// Writes a file, in the place of one that is there.
pub(super) fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    create(path)?.write_all(bytes)
}
