//! The bytes of a layer, hashed and counted as they pass.

use crate::store::digest::{Digest, Hasher};
use std::io::{self, Read};

/// A reader that hashes what it hands out, and no more of it than a limit.
pub struct Metered<R> {
    inner: R,
    hasher: Hasher,
    size: u64,
    limit: u64,
}

/// There was more than the limit.
#[derive(Debug, thiserror::Error)]
#[error("more bytes than the limit")]
pub struct OverLimit;

impl<R: Read> Metered<R> {
    /// Reads `inner`, of which `limit` bytes at most may come.
    pub fn new(inner: R, hasher: Hasher, limit: u64) -> Metered<R> {
        Metered { inner, hasher, size: 0, limit }
    }

    /// How many bytes came, and their digest.
    pub fn finish(self) -> (u64, Digest) {
        (self.size, self.hasher.finish())
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.size += count as u64;
        if self.size > self.limit {
            return Err(io::Error::other(OverLimit));
        }
        self.hasher.update(into.get(..count).unwrap_or_default());
        Ok(count)
    }
}
