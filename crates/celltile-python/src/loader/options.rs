//! Options of a loader, from keywords.

use celltile::obs::Cache;
use celltile_loader::{Buffer, LoaderOptions, OnDamage, Shuffle, Transform, Uneven, Weighting};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{Failure, Result};

pub(super) struct Asked {
    pub(super) float32: bool,
    pub(super) options: LoaderOptions,
}

pub(super) fn parse(keywords: Option<&Bound<'_, PyDict>>, cache: Cache) -> Result<Asked> {
    let mut options = super::defaults();
    options.cache = Some(cache);
    let mut float32 = true;
    let mut threads = None;
    let (mut weights, mut replacement, mut draws) = (None, true, None);
    for (key, value) in keywords.into_iter().flatten() {
        let key: String = key.extract()?;
        if value.is_none() {
            continue;
        }
        match key.as_str() {
            "batch_size" => options.batch_size = value.extract()?,
            "shuffle" => {
                options.shuffle = one_of(
                    &key,
                    &value,
                    &[
                        ("tiles", Shuffle::Tiles),
                        ("chunks", Shuffle::Chunks),
                        ("cells", Shuffle::Cells),
                        ("none", Shuffle::None),
                    ],
                )?;
            }
            "buffer_cells" => options.buffer = Buffer::Cells(value.extract()?),
            "buffer_bytes" => options.buffer = Buffer::Bytes(value.extract()?),
            "group" => options.group = value.extract()?,
            "drop_last" => options.drop_last = value.extract()?,
            "seed" => options.seed = value.extract()?,
            "uneven" => {
                options.uneven = one_of(&key, &value, &[("drop", Uneven::Drop), ("pad", Uneven::Pad)])?;
            }
            "cells" => options.cells = Some(list::<u64>(&value)?.into()),
            "genes" => options.genes = Some(list::<u64>(&value)?.into()),
            "weights" => weights = Some(list::<f64>(&value)?),
            "replacement" => replacement = value.extract()?,
            "draws" => draws = Some(value.extract()?),
            "columns" => options.columns = value.extract()?,
            "float32" => float32 = value.extract()?,
            "totals" => options.totals = value.extract()?,
            "transform" => {
                options.transform = one_of(&key, &value, &[("log1p_cp10k", Transform::Log1pCp10k)])?;
            }
            "round_counts" => options.round_counts = value.extract()?,
            "on_damage" => {
                options.on_damage =
                    one_of(&key, &value, &[("raise", OnDamage::Fail), ("skip", OnDamage::Skip)])?;
            }
            "memory" => options.memory = Some(value.extract()?),
            "threads" => threads = Some(value.extract()?),
            "rank" => options.seat.rank = value.extract()?,
            "world_size" => options.seat.world = value.extract()?,
            "worker" => options.seat.worker = value.extract()?,
            "workers" => options.seat.workers = value.extract()?,
            _ => return Err(Failure::Argument(format!("a loader has no option {key:?}"))),
        }
    }
    // Worker processes share the machine.
    let workers = usize::try_from(options.seat.workers).unwrap_or(usize::MAX).max(1);
    options.threads = threads.unwrap_or_else(|| (options.threads / workers).max(1));
    if let Some(weights) = weights {
        options.weighting = Some(Weighting { weights: weights.into(), replacement, draws });
    } else if draws.is_some() {
        return Err(Failure::Argument("draws: found a number of draws without weights".to_owned()));
    }
    Ok(Asked { float32, options })
}

fn list<T: numpy::Element + Copy>(value: &Bound<'_, PyAny>) -> Result<Vec<T>> {
    let array: PyReadonlyArray1<'_, T> = value.extract()?;
    Ok(array.as_array().iter().copied().collect())
}

fn one_of<T: Copy>(key: &str, value: &Bound<'_, PyAny>, choices: &[(&str, T)]) -> Result<T> {
    let text: String = value.extract()?;
    match choices.iter().find(|(name, _)| *name == text) {
        Some((_, choice)) => Ok(*choice),
        None => {
            let names: Vec<String> = choices.iter().map(|(name, _)| format!("{name:?}")).collect();
            Err(Failure::Argument(format!("{key}: found {text:?}, expected {}", names.join(" or "))))
        }
    }
}
