//! How hard zstd tries: presets are sets of its parameters, found by measuring on count matrices.

use std::fmt;
use std::str::FromStr;

use zstd_safe::{CCtx, CParameter, ParamSwitch, ResetDirective, Strategy};

use crate::error::{Error, Result, Stream};

/// A point on the front of size against encoding speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Preset {
    /// About the size of zstd level 19, several times faster to encode.
    Small,
    /// A few per cent larger, many times faster again.
    #[default]
    Balanced,
    /// Less than a tenth larger than level 19, and as fast as zstd goes.
    Fast,
    /// A little larger than that, as fast to encode, and the fastest to decode: for data that is read again and again.
    /// Tile chunks of one cell are left as they are, and more than twice as large.
    Training,
}

impl Preset {
    /// All presets, smallest result first.
    pub const ALL: [Self; 4] = [Self::Small, Self::Balanced, Self::Fast, Self::Training];

    /// The preset's name: `small`, `balanced`, `fast` or `training`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Balanced => "balanced",
            Self::Fast => "fast",
            Self::Training => "training",
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name).ok_or_else(|| Error::Option {
            option: "preset",
            found: name.into(),
            expected: "small, balanced, fast or training",
        })
    }
}

/// How the streams are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// A set of parameters chosen for count matrices.
    Preset(Preset),
    /// A plain zstd level, 1 to 22.
    Level(i32),
    /// Parameters of one's own, for gaps and counts.
    Parameters {
        /// For the gaps.
        gaps: ZstdParameters,
        /// For the counts.
        vals: ZstdParameters,
    },
}

impl Default for Compression {
    fn default() -> Self {
        Self::Preset(Preset::default())
    }
}

impl Compression {
    /// The zstd level nearest to it in size, for the manifest's `zstd_level`.
    #[must_use]
    pub const fn nearest_level(&self) -> i32 {
        match self {
            Self::Preset(Preset::Small) => 19,
            Self::Preset(Preset::Balanced) => 13,
            Self::Preset(Preset::Fast | Preset::Training) => 1,
            Self::Level(level) => *level,
            Self::Parameters { gaps, .. } => match gaps.strategy {
                0..=2 => 1,
                3..=5 => 9,
                _ => 19,
            },
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Level(level) if !(1..=22).contains(level) => {
                Err(Error::Option { option: "level", found: level.to_string(), expected: "1 to 22" })
            }
            _ => Ok(()),
        }
    }

    /// Whether the planes of a stream are compressed apart.
    pub(crate) const fn parts_planes(&self) -> bool {
        matches!(self, Self::Preset(Preset::Training))
    }

    /// Sets up a context for one stream.
    pub(crate) fn apply(&self, stream: Stream, zstd: &mut CCtx<'static>) -> Result<()> {
        let is_gaps = matches!(stream, Stream::Gaps | Stream::Gexc);
        let parameters = match *self {
            Self::Level(level) => {
                return set(
                    zstd,
                    ResetDirective::SessionAndParameters,
                    &[CParameter::CompressionLevel(level)],
                );
            }
            Self::Preset(preset) => ZstdParameters::of(preset, is_gaps),
            Self::Parameters { gaps, vals } => {
                if is_gaps {
                    gaps
                } else {
                    vals
                }
            }
        };
        set(zstd, ResetDirective::SessionAndParameters, &parameters.list()?)
    }
}

/// Parameters of zstd, as its manual defines them. A 0 leaves the choice to the library, by `level` and input size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ZstdParameters {
    /// The level that the parameters left at 0 are taken from.
    pub level: i32,
    /// 1 (fast) to 9 (btultra2).
    pub strategy: u32,
    /// Log of the largest distance of a match.
    pub window_log: u32,
    /// Log of the size of the hash table.
    pub hash_log: u32,
    /// Log of the size of the chain table or binary tree.
    pub chain_log: u32,
    /// Log of the number of search attempts.
    pub search_log: u32,
    /// Shortest match searched for.
    pub min_match: u32,
    /// Match length that is good enough (bt* strategies), or acceleration (fast).
    pub target_length: u32,
}

impl ZstdParameters {
    /// The parameters of a preset. How they were found: `docs/decisions/presets.md`.
    const fn of(preset: Preset, gaps: bool) -> Self {
        let [level, strategy, hash_log, chain_log, search_log, min_match, target_length] =
            match (preset, gaps) {
                (Preset::Small, true) => [19_u32, 8, 13, 13, 8, 6, 64],
                (Preset::Small, false) => [19, 8, 13, 13, 6, 6, 64],
                (Preset::Balanced, _) => [5, 5, 12, 12, 5, 6, 16],
                // What is not a plane of low bytes, for which see `encode/apart.rs`.
                (Preset::Fast | Preset::Training, _) => [1, 1, 6, 0, 0, 7, 0],
            };
        Self {
            level: level.cast_signed(),
            strategy,
            window_log: 0,
            hash_log,
            chain_log,
            search_log,
            min_match,
            target_length,
        }
    }

    fn list(&self) -> Result<[CParameter; 8]> {
        let strategy = match self.strategy {
            0 => None,
            1 => Some(Strategy::ZSTD_fast),
            2 => Some(Strategy::ZSTD_dfast),
            3 => Some(Strategy::ZSTD_greedy),
            4 => Some(Strategy::ZSTD_lazy),
            5 => Some(Strategy::ZSTD_lazy2),
            6 => Some(Strategy::ZSTD_btlazy2),
            7 => Some(Strategy::ZSTD_btopt),
            8 => Some(Strategy::ZSTD_btultra),
            9 => Some(Strategy::ZSTD_btultra2),
            found => {
                return Err(Error::Option {
                    option: "strategy",
                    found: found.to_string(),
                    expected: "0 to 9",
                });
            }
        };
        let level = CParameter::CompressionLevel(self.level);
        Ok([
            level,
            // There is no way to say "default" here but to say the level again.
            strategy.map_or(level, CParameter::Strategy),
            CParameter::WindowLog(self.window_log),
            CParameter::HashLog(self.hash_log),
            CParameter::ChainLog(self.chain_log),
            CParameter::SearchLog(self.search_log),
            CParameter::MinMatch(self.min_match),
            CParameter::TargetLength(self.target_length),
        ])
    }
}

/// Sets up a context that finds no matches and codes every byte by itself.
pub(crate) fn apply_literals_only(zstd: &mut CCtx<'static>) -> Result<()> {
    // The search's first step is one past the largest block. By itself, such a step would leave literals as they are.
    let parameters = [
        CParameter::CompressionLevel(1),
        CParameter::Strategy(Strategy::ZSTD_fast),
        CParameter::HashLog(6),
        CParameter::TargetLength(128 << 10),
        CParameter::LiteralCompressionMode(ParamSwitch::Enable),
    ];
    set(zstd, ResetDirective::SessionAndParameters, &parameters)
}

fn set(zstd: &mut CCtx<'static>, reset: ResetDirective, parameters: &[CParameter]) -> Result<()> {
    let fail = |code| Error::Zstd(zstd_safe::get_error_name(code));
    zstd.reset(reset).map_err(fail)?;
    for &parameter in parameters {
        zstd.set_parameter(parameter).map_err(fail)?;
    }
    Ok(())
}
