use celltile::obs::ObsWriteOptions;
use celltile::{ChunkCut, Compression, EncodeOptions};
use serde::{Deserialize, Serialize};

use crate::convert::{ConvertOptions, Duplicates};
use crate::error::{Error, Result};
use crate::matrix::Rounding;

/// What of a conversion's options the dataset depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) tile_size: u64,
    pub(crate) compression: String,
    pub(crate) cut: String,
    pub(crate) tiles_per_file: u64,
    pub(crate) max_categories: usize,
    pub(crate) obs_level: i32,
    pub(crate) rounding: String,
    pub(crate) sum_duplicates: bool,
    /// Whether tiles of datasets among the inputs are taken over as they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) copy_tiles: bool,
}

impl Settings {
    pub(super) fn of(options: &ConvertOptions) -> Result<Self> {
        let EncodeOptions { compression, cut } = options.writer.encode;
        let compression = match compression {
            Compression::Preset(preset) => preset.name().to_owned(),
            Compression::Level(level) => level.to_string(),
            other => format!("{other:?}"),
        };
        let cut = match cut {
            ChunkCut::Nonzeros(n) => format!("nonzeros {n}"),
            ChunkCut::Cells(n) => format!("cells {n}"),
            ChunkCut::Count(n) => format!("count {n}"),
            other => return Err(Error::Options(format!("a plan cannot hold {other:?}"))),
        };
        Ok(Self {
            tile_size: options.writer.tile_size,
            compression,
            cut,
            tiles_per_file: options.obs.tiles_per_file,
            max_categories: options.obs.max_categories,
            obs_level: options.obs.zstd_level,
            rounding: match options.read.rounding {
                Rounding::Refuse => "refuse",
                Rounding::Nearest => "nearest",
                Rounding::Floor => "floor",
            }
            .to_owned(),
            sum_duplicates: options.duplicates == Duplicates::Sum,
            copy_tiles: options.copy_tiles,
        })
    }

    /// Sets options to what the plan says, for a process that only got the plan.
    pub(crate) fn apply(&self, options: &mut ConvertOptions) -> Result<()> {
        let wrong = |what: &str| Error::Options(format!("the stored plan: {what:?} is not understood"));
        options.writer.tile_size = self.tile_size;
        options.writer.encode.compression = match self.compression.parse::<i32>() {
            Ok(level) => Compression::Level(level),
            Err(_) => Compression::Preset(self.compression.parse().map_err(|_| wrong(&self.compression))?),
        };
        let (kind, number) = self.cut.split_once(' ').ok_or_else(|| wrong(&self.cut))?;
        let number: u64 = number.parse().map_err(|_| wrong(&self.cut))?;
        options.writer.encode.cut = match kind {
            "nonzeros" => ChunkCut::Nonzeros(number),
            "cells" => ChunkCut::Cells(number),
            _ => ChunkCut::Count(u32::try_from(number).map_err(|_| wrong(&self.cut))?),
        };
        options.obs = ObsWriteOptions {
            tiles_per_file: self.tiles_per_file,
            max_categories: self.max_categories,
            zstd_level: self.obs_level,
        };
        options.read.rounding = match self.rounding.as_str() {
            "nearest" => Rounding::Nearest,
            "floor" => Rounding::Floor,
            _ => Rounding::Refuse,
        };
        options.duplicates = if self.sum_duplicates { Duplicates::Sum } else { Duplicates::Refuse };
        Ok(())
    }
}
