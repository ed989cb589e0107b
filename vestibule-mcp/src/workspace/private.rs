//! Folders for their owner alone.

use std::fs::DirBuilder;

/// Makes folders that nobody but their owner can enter. On Windows a folder takes over the access
/// list of the one above it, and the user's own folders are closed to others.
pub fn builder() -> DirBuilder {
    #[cfg(unix)]
    {
        let mut builder = DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
    }
    #[cfg(not(unix))]
    DirBuilder::new()
}
