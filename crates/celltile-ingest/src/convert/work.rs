//! The folder `.work` of a dataset in the making: what stages leave for each other.

use std::sync::Arc;

use celltile::checksums::TileChecksums;
use celltile::genes::var_table::{from_parquet, to_parquet};
use celltile::keys;
use celltile::storage::{EntryKind, LocalStorage, Storage, is_url, open_storage};
use celltile::table::{Column, Index, Table, TableMeta};
use celltile::writer::TileRecord;
use serde_json::{Value, json};

use super::clean::Findings;
use super::lock::Lock;
use super::options::ConvertOptions;
use super::tally::Tally;
use crate::error::{Error, Result};
use crate::plan::{Plan, Spill};

const PLAN: &str = ".work/plan.json";
const VAR: &str = ".work/var.parquet";
const ORDER: &str = ".work/order.bin";
const TILES: &str = ".work/tiles";
const COUNTS: &str = ".work/count";
const SCATTERED: &str = ".work/scatter";
const MAGIC: &[u8; 8] = b"ctcount1";

/// Where stages leave things for each other.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) storage: Arc<dyn Storage>,
    /// Where parts of cells are put aside.
    pub(super) spill: Arc<dyn Storage>,
    spill_folder: String,
    /// How cells are put aside.
    pub(super) layout: Spill,
    /// Held as long as anybody works with this, where there are locks.
    _lock: Option<Arc<Lock>>,
}

/// What the first pass found of an input.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Counted {
    pub(super) tally: Tally,
    pub(super) findings: Findings,
    /// Sum of the counts of each gene of the plan.
    pub(super) totals: Vec<u64>,
}

impl Counted {
    /// From what a finished dataset says of an input, without the sums of genes.
    pub(super) fn of_source(source: &Value) -> Self {
        let number = |key: &str| source.get(key).and_then(Value::as_u64);
        let or = |key: &str, other: &str| number(key).or_else(|| number(other)).unwrap_or(0);
        Self {
            tally: Tally {
                cells: or("cells", ""),
                read_nonzeros: or("read_nonzeros", "nonzeros"),
                read_sum: or("read_sum", "sum"),
                nonzeros: or("nonzeros", ""),
                sum: or("sum", ""),
            },
            findings: Findings {
                unsorted: or("unsorted_cells", ""),
                zeros: or("zeros_dropped", ""),
                repeated: or("repeated_summed", ""),
            },
            totals: Vec::new(),
        }
    }
}

/// Cells, nonzeros and sum of counts that a tile has of an input.
pub(super) type TileShare = (usize, u64, u64, u64);

/// A tile that is there.
pub(super) struct MadeTile {
    pub(super) record: TileRecord,
    pub(super) shares: Vec<TileShare>,
    /// Whether it was taken over as it is: then its cells were not counted before.
    pub(super) copied: bool,
}

impl Work {
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        plan: &Plan,
        options: &ConvertOptions,
        lock: Option<Lock>,
    ) -> Result<Self> {
        let (spill, spill_folder): (Arc<dyn Storage>, _) = match &options.spill {
            None => (Arc::clone(&storage), ".work/spill".to_owned()),
            Some(place) => {
                let digest = plan.digest();
                let folder = format!("celltile-spill-{}", digest.get(..16).unwrap_or(&digest));
                let spill: Arc<dyn Storage> = match place.to_str() {
                    Some(url) if is_url(url) => open_storage(url, &options.output_remote)?,
                    _ => Arc::new(LocalStorage::new(place)),
                };
                (spill, folder)
            }
        };
        Ok(Self { storage, spill, spill_folder, layout: plan.spill, _lock: lock.map(Arc::new) })
    }

    pub(super) fn store_plan(&self, plan: &Plan) -> Result<()> {
        let mut json = serde_json::to_value(plan).map_err(|e| Error::Options(format!("the plan: {e}")))?;
        if let Value::Object(json) = &mut json {
            json.insert("var_meta".into(), plan.var.meta().to_json());
        }
        self.storage.write(VAR, &to_parquet(&plan.var)?)?;
        // The plan last: with it the conversion has begun.
        Ok(self.storage.write(PLAN, json.to_string().as_bytes())?)
    }

    /// The stored plan, if a conversion has begun.
    pub(super) fn load_plan(storage: &dyn Storage) -> Result<Option<Plan>> {
        let text = match storage.read(PLAN) {
            Ok(text) => text,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let damaged = |what: String| Error::Damaged { file: storage.locate(PLAN), at: "plan".into(), what };
        let json: Value = serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
        let meta = TableMeta::from_json(json.get("var_meta").unwrap_or(&Value::Null))?;
        let mut plan: Plan = serde_json::from_value(json).map_err(|e| damaged(e.to_string()))?;
        let var = from_parquet(&storage.read(VAR)?, &storage.locate(VAR))?;
        let (rows, index, columns) = var.into_parts();
        let columns = columns.into_iter().map(|column| {
            let (name, values) = column.into_parts();
            let values = meta.column(&name).apply(values)?;
            Ok(Column::new(name, values))
        });
        let columns = columns.collect::<Result<_>>()?;
        let index = match (index, &meta.index) {
            (Some(index), Some(own)) => {
                let values = meta.column(&own.column).apply(index.values().clone())?;
                Some(Index::new(own.name.clone(), values))
            }
            (index, _) => index,
        };
        plan.var = Table::new(rows, index, columns)?;
        Ok(Some(plan))
    }

    /// The numbers of the files in a folder of `.work`.
    fn numbers(&self, folder: &str) -> Result<Vec<u64>> {
        let number = |key: &str| key.rsplit('/').next()?.split('.').next()?.parse().ok();
        let entries = self.storage.list(folder)?;
        let mut numbers: Vec<u64> = entries
            .iter()
            .filter(|entry| matches!(entry.kind, EntryKind::Object(_)))
            .filter_map(|entry| number(&entry.key))
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    pub(super) fn counted(&self) -> Result<Vec<u64>> {
        self.numbers(COUNTS)
    }

    pub(super) fn scattered(&self) -> Result<Vec<u64>> {
        self.numbers(SCATTERED)
    }

    pub(super) fn encoded(&self) -> Result<Vec<u64>> {
        self.numbers(TILES)
    }

    pub(super) fn write_count(&self, input: usize, counted: &Counted) -> Result<()> {
        let Counted { tally: t, findings: f, totals } = counted;
        let mut bytes = MAGIC.to_vec();
        let head = [
            t.cells,
            t.read_nonzeros,
            t.read_sum,
            t.nonzeros,
            t.sum,
            f.unsorted,
            f.zeros,
            f.repeated,
            totals.len() as u64,
        ];
        for &number in head.iter().chain(totals) {
            leb128(&mut bytes, number);
        }
        Ok(self.storage.write(&format!("{COUNTS}/{input:06}.bin"), &sealed(bytes))?)
    }

    pub(super) fn read_count(&self, input: usize) -> Result<Counted> {
        let key = format!("{COUNTS}/{input:06}.bin");
        let bytes = self.storage.read(&key)?;
        let parse = || {
            let mut rest = unsealed(&bytes)?.strip_prefix(MAGIC)?;
            let mut head = [0_u64; 9];
            for number in &mut head {
                *number = from_leb128(&mut rest)?;
            }
            let [cells, read_nonzeros, read_sum, nonzeros, sum, unsorted, zeros, repeated, genes] = head;
            let totals = (0..genes.min(rest.len() as u64))
                .map(|_| from_leb128(&mut rest))
                .collect::<Option<Vec<_>>>()?;
            (totals.len() as u64 == genes && rest.is_empty()).then_some(Counted {
                tally: Tally { cells, read_nonzeros, read_sum, nonzeros, sum },
                findings: Findings { unsorted, zeros, repeated },
                totals,
            })
        };
        parse().ok_or_else(|| damaged(self.storage.as_ref(), &key))
    }

    pub(super) fn write_order(&self, order: &[i32]) -> Result<()> {
        let bytes = order.iter().flat_map(|column| column.to_le_bytes()).collect();
        Ok(self.storage.write(ORDER, &sealed(bytes))?)
    }

    pub(super) fn read_order(&self) -> Result<Option<Vec<i32>>> {
        let bytes = match self.storage.read(ORDER) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let order = unsealed(&bytes).ok_or_else(|| damaged(self.storage.as_ref(), ORDER))?;
        Ok(Some(order.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()))
    }

    pub(super) fn write_tile(storage: &dyn Storage, tile: u64, made: &MadeTile) -> celltile::Result<()> {
        let MadeTile { record, shares, copied } = made;
        let json = json!({
            "cells": record.cells,
            "nnz": record.nnz,
            "bytes": record.bytes,
            "sha256": record.sha256.to_string(),
            "head": record.checksums.head,
            "chunks": record.checksums.chunks,
            "inputs": shares,
            "copied": copied,
        });
        storage.write(&format!("{TILES}/{tile:06}.json"), json.to_string().as_bytes())
    }

    pub(super) fn read_tile(&self, tile: u64) -> Result<MadeTile> {
        let key = format!("{TILES}/{tile:06}.json");
        let text = self.storage.read(&key)?;
        let parse = || {
            let json: Value = serde_json::from_slice(&text).ok()?;
            let number = |key: &str| json.get(key)?.as_u64();
            let crc = |value: &Value| u32::try_from(value.as_u64()?).ok();
            let record = TileRecord {
                cells: number("cells")?,
                nnz: number("nnz")?,
                bytes: number("bytes")?,
                sha256: json.get("sha256")?.as_str()?.parse().ok()?,
                checksums: TileChecksums {
                    head: crc(json.get("head")?)?,
                    chunks: json.get("chunks")?.as_array()?.iter().map(crc).collect::<Option<_>>()?,
                },
            };
            let shares = serde_json::from_value(json.get("inputs")?.clone()).ok()?;
            Some(MadeTile { record, shares, copied: json.get("copied")?.as_bool()? })
        };
        parse().ok_or_else(|| damaged(self.storage.as_ref(), &key))
    }

    /// The key of a part of an input's scattered cells, in the storage of what is put aside.
    pub(super) fn part(&self, input: usize, part: usize) -> String {
        format!("{}/{input:06}_{part:05}.bin", self.spill_folder)
    }

    /// The key of an input's rows of obs, in the storage of what is put aside.
    pub(super) fn obs_part(&self, input: usize) -> String {
        format!("{}/obs_{input:06}.bin", self.spill_folder)
    }

    pub(super) fn write_scattered(&self, input: usize, bytes: Vec<u8>) -> Result<()> {
        Ok(self.storage.write(&format!("{SCATTERED}/{input:06}.bin"), &sealed(bytes))?)
    }

    pub(super) fn read_scattered(&self, input: usize) -> Result<Vec<u8>> {
        let key = format!("{SCATTERED}/{input:06}.bin");
        let bytes = self.storage.read(&key)?;
        unsealed(&bytes).map(<[u8]>::to_vec).ok_or_else(|| damaged(self.storage.as_ref(), &key))
    }

    /// Removes all that was left.
    pub(super) fn clear(&self) -> Result<()> {
        if !self.spill_folder.starts_with(keys::WORK) {
            self.spill.remove_folder(&self.spill_folder)?;
        }
        // A folder without a plan is none that anybody goes on with.
        self.storage.remove(PLAN)?;
        Ok(self.storage.remove_folder(keys::WORK)?)
    }
}

/// Removes what processes that were killed in the middle of a write left among a dataset's files.
pub(super) fn clear_temporaries(storage: &dyn Storage) -> Result<()> {
    for folder in ["", keys::TILES, keys::OBS] {
        for entry in storage.list(folder)? {
            if entry.kind == EntryKind::Temporary {
                storage.remove(&entry.key)?;
            }
        }
    }
    Ok(())
}

pub(super) fn damaged(storage: &dyn Storage, key: &str) -> Error {
    Error::Damaged {
        file: storage.locate(key),
        at: "what an earlier stage left".into(),
        what: "damaged; remove it to have it made again".into(),
    }
}

/// With a checksum behind it.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32fast::hash(&bytes);
    bytes.extend(crc.to_le_bytes());
    bytes
}

fn unsealed(bytes: &[u8]) -> Option<&[u8]> {
    let (content, crc) = bytes.split_last_chunk::<4>()?;
    (crc32fast::hash(content) == u32::from_le_bytes(*crc)).then_some(content)
}

pub(super) fn leb128(bytes: &mut Vec<u8>, mut number: u64) {
    while let [low, ..] = number.to_le_bytes()
        && number >= 0x80
    {
        bytes.push(low | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

pub(super) fn from_leb128(rest: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0_u64, 0_u32);
    loop {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f).checked_shl(shift).filter(|_| shift < 64)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
}
