use std::sync::Arc;

use crate::checksums::TileChecksums;
use crate::digest::Sha256;
use crate::error::Result;

/// What is known of a written tile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileRecord {
    /// Its cells.
    pub cells: u64,
    /// Its nonzeros.
    pub nnz: u64,
    /// Size of its object.
    pub bytes: u64,
    /// Hash of its object.
    pub sha256: Sha256,
    /// Checksums of its parts.
    pub checksums: TileChecksums,
}

/// Is told of every tile once it is written, from the thread that wrote it; an error stops the writer.
pub type OnTile = Arc<dyn Fn(u64, &TileRecord) -> Result<()> + Send + Sync>;
