//! Inputs in memory, and what a conversion of them must give.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use celltile::obs::Cache;
use celltile::storage::{EntryKind, MemoryStorage, Storage};
use celltile::table::{Categorical, Categories, Codes, Column, Index, Numeric, Table, Text};
use celltile::{Dataset, OpenOptions};
use celltile_ingest::convert::{ConvertOptions, Summary, convert_files};
use celltile_ingest::hdf5::StringColumn;
use celltile_ingest::matrix::{CellBlock, CellBlocks, ReadOptions, Shape};
use celltile_ingest::plan::{InputName, Looked, Plan};
use celltile_ingest::source::{NotCarried, Opener, Source, SourceInfo, SourceOptions};
use celltile_ingest::{Error, Result};

/// What an input holds.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) genes: Vec<String>,
    pub(crate) ids: Option<Vec<String>>,
    pub(crate) cells: Vec<Vec<(u32, u32)>>,
    pub(crate) obs: Table,
    pub(crate) var: Table,
    pub(crate) encoding: &'static str,
}

/// A generator of numbers, the same everywhere and for ever.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

pub(crate) fn text(values: impl IntoIterator<Item = String>) -> Text {
    values.into_iter().map(Some).collect()
}

pub(crate) fn names(prefix: &str, n: usize) -> Vec<String> {
    (0..n).map(|at| format!("{prefix}{at}")).collect()
}

impl Input {
    /// Random cells of these genes; some cells are empty, some counts large.
    pub(crate) fn random(seed: u64, cells: usize, genes: Vec<String>) -> Self {
        let mut numbers = Numbers(seed);
        let n = genes.len() as u64;
        let cells: Vec<Vec<(u32, u32)>> = (0..cells)
            .map(|_| {
                let mut cell = BTreeMap::new();
                for _ in 0..numbers.below(n.min(30) + 1) {
                    let count = if numbers.below(40) == 0 { 70_000 } else { 1 + numbers.below(5) };
                    cell.insert(numbers.below(n) as u32, count as u32);
                }
                cell.into_iter().collect()
            })
            .collect();
        Self::of(genes, cells)
    }

    pub(crate) fn of(genes: Vec<String>, cells: Vec<Vec<(u32, u32)>>) -> Self {
        let n = cells.len();
        let batch = Codes::collect((0..n).map(|at| (at % 2) as i64), 2).unwrap();
        let batch = Categorical::new(batch, Categories::from_text(["b0", "b1"]).unwrap(), false).unwrap();
        let number = arrow_array::Int32Array::from_iter_values((0..n).map(|at| at as i32));
        let number = Numeric::new(Arc::new(number), false).unwrap();
        let obs = Table::new(
            n,
            Some(Index::new(None, text(names("cell", n)))),
            vec![Column::new("batch", batch), Column::new("number", number)],
        );
        let var = Table::new(genes.len(), Some(Index::new(None, text(genes.iter().cloned()))), Vec::new());
        Self { ids: None, cells, obs: obs.unwrap(), var: var.unwrap(), genes, encoding: "csr" }
    }

    pub(crate) fn with_obs(mut self, column: Column) -> Self {
        let (rows, index, mut columns) = self.obs.into_parts();
        columns.retain(|old| old.name() != column.name());
        columns.push(column);
        self.obs = Table::new(rows, index, columns).unwrap();
        self
    }

    pub(crate) fn with_var(mut self, column: Column) -> Self {
        let (rows, index, mut columns) = self.var.into_parts();
        columns.push(column);
        self.var = Table::new(rows, index, columns).unwrap();
        self
    }

    pub(crate) fn nonzeros(&self) -> u64 {
        self.cells.iter().map(|cell| cell.len() as u64).sum()
    }

    pub(crate) fn sum(&self) -> u64 {
        self.cells.iter().flatten().map(|(_, count)| u64::from(*count)).sum()
    }
}

/// Inputs by the name `memory/N`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inputs {
    pub(crate) inputs: Arc<Mutex<Vec<Input>>>,
    /// How often cells were asked for.
    pub(crate) reads: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Memory {
    info: SourceInfo,
    input: Input,
    genes: StringColumn,
    ids: Option<StringColumn>,
    reads: Arc<AtomicU64>,
}

impl Opener for Inputs {
    fn open(&self, path: &Path, _: &SourceOptions) -> Result<Option<Box<dyn Source>>> {
        let Some(number) = path.to_str().and_then(|path| path.strip_prefix("memory/")) else {
            return Ok(None);
        };
        let input = self.inputs.lock().unwrap().get(number.parse::<usize>().unwrap()).cloned();
        let input = input.ok_or_else(|| Error::Options(format!("{}: is not there", path.display())))?;
        let info = SourceInfo {
            file: path.display().to_string(),
            bytes: input.nonzeros() * 8,
            format: "memory",
            matrix: "X".into(),
            why: String::new(),
            encoding: input.encoding,
            dtype: "int32".into(),
            shape: Shape { cells: input.cells.len() as u64, genes: input.genes.len() as u64 },
            stored: Some(input.nonzeros()),
            dropped: Vec::new(),
            notes: Vec::new(),
            options: serde_json::Map::new(),
        };
        let column = |names: &Vec<String>| names.iter().map(String::as_str).collect::<StringColumn>();
        let (genes, ids) = (column(&input.genes), input.ids.as_ref().map(column));
        Ok(Some(Box::new(Memory { info, genes, ids, input, reads: Arc::clone(&self.reads) })))
    }
}

struct Blocks<'a> {
    cells: &'a [Vec<(u32, u32)>],
    at: u64,
}

impl CellBlocks for Blocks<'_> {
    fn next_block(&mut self, block: &mut CellBlock) -> Result<bool> {
        if self.cells.is_empty() {
            return Ok(false);
        }
        let (now, rest) = self.cells.split_at(self.cells.len().min(7));
        *block = CellBlock { first_cell: self.at, indptr: vec![0], ..CellBlock::default() };
        for cell in now {
            block.genes.extend(cell.iter().map(|(gene, _)| *gene));
            block.counts.extend(cell.iter().map(|(_, count)| *count));
            block.indptr.push(block.genes.len());
        }
        self.at += now.len() as u64;
        self.cells = rest;
        Ok(true)
    }
}

impl Source for Memory {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn gene_names(&self) -> &StringColumn {
        &self.genes
    }

    fn gene_ids(&self) -> Option<&StringColumn> {
        self.ids.as_ref()
    }

    fn var(&self) -> Result<Table> {
        Ok(self.input.var.clone())
    }

    fn obs(&self) -> Result<Table> {
        Ok(self.input.obs.clone())
    }

    fn not_carried(&self) -> &[NotCarried] {
        &[]
    }

    fn by_gene(&self, _: &ReadOptions) -> bool {
        self.input.encoding != "csr"
    }

    fn cells(&self, range: Range<u64>, _: &ReadOptions) -> Result<Box<dyn CellBlocks + '_>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let cells = &self.input.cells[range.start as usize..range.end as usize];
        Ok(Box::new(Blocks { cells, at: range.start }))
    }

    fn cell_name(&self, cell: u64) -> Option<String> {
        Some(format!("cell{cell}"))
    }
}

impl Inputs {
    pub(crate) fn new(inputs: impl IntoIterator<Item = Input>) -> Self {
        Self { inputs: Arc::new(Mutex::new(inputs.into_iter().collect())), reads: Arc::default() }
    }

    pub(crate) fn names(&self) -> Vec<InputName> {
        let n = self.inputs.lock().unwrap().len();
        (0..n).map(|at| InputName { path: format!("memory/{at}"), name: format!("in{at}") }).collect()
    }

    pub(crate) fn source(&self) -> SourceOptions {
        SourceOptions { openers: vec![Arc::new(self.clone())], ..SourceOptions::default() }
    }

    pub(crate) fn look(&self, options: &ConvertOptions) -> Looked {
        Plan::look(&self.names(), &self.source(), options).unwrap()
    }

    pub(crate) fn convert(&self, storage: &MemoryStorage, options: &ConvertOptions) -> Result<Summary> {
        convert_files(&self.names(), Arc::new(storage.clone()), &self.source(), options)
    }

    pub(crate) fn converted(&self, options: &ConvertOptions) -> (MemoryStorage, Summary) {
        let storage = MemoryStorage::new();
        let summary = self.convert(&storage, options).unwrap();
        (storage, summary)
    }
}

/// Small tiles, two threads.
pub(crate) fn options() -> ConvertOptions {
    let mut options = ConvertOptions::default();
    options.writer.tile_size = 10;
    options.writer.threads = 2;
    options
}

/// The options with so little memory that cells are put aside in several parts and buckets.
pub(crate) fn tight(mut options: ConvertOptions) -> ConvertOptions {
    options.memory = 1 << 13;
    options
}

pub(crate) fn open(storage: &MemoryStorage) -> Dataset {
    Dataset::open_storage(Arc::new(storage.clone()), &OpenOptions::default()).unwrap()
}

/// All objects of a storage.
pub(crate) fn files(storage: &MemoryStorage) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in storage.list(&folder).unwrap() {
            match entry.kind {
                EntryKind::Folder => folders.push(entry.key),
                _ => {
                    found.insert(entry.key.clone(), storage.read(&entry.key).unwrap().to_vec());
                }
            }
        }
    }
    found
}

/// Each cell of a dataset as counts by gene name.
pub(crate) fn cells(dataset: &Dataset) -> Vec<BTreeMap<String, i64>> {
    let names = dataset.var_names().unwrap().unwrap();
    let csr = dataset.rows(0..dataset.n_cells()).unwrap();
    let cell = |(genes, counts): (&[i32], &[i32])| {
        genes.iter().zip(counts).map(|(g, c)| (names.names()[*g as usize].clone(), i64::from(*c))).collect()
    };
    csr.view().unwrap().iter().map(cell).collect()
}

/// The same of inputs, one after the other.
pub(crate) fn reference(inputs: &[Input]) -> Vec<BTreeMap<String, i64>> {
    let cell = |input: &Input, cell: &Vec<(u32, u32)>| {
        cell.iter().map(|(g, c)| (input.genes[*g as usize].clone(), i64::from(*c))).collect()
    };
    inputs.iter().flat_map(|input| input.cells.iter().map(move |c| cell(input, c))).collect()
}

/// A column of obs as text, cell by cell.
pub(crate) fn column(dataset: &Dataset, name: &str) -> Vec<String> {
    let obs = dataset.obs_from(&[name], &Cache::memory()).unwrap();
    shown(&obs.column(name).unwrap().values().unwrap())
}

/// Values as text, `-` for missing ones.
pub(crate) fn shown(values: &celltile::table::Values) -> Vec<String> {
    match values {
        celltile::table::Values::Category(values) => {
            let value = |code: i32| values.categories().get(code as usize).unwrap().to_string();
            values.codes().iter().map(|code| if code < 0 { "-".into() } else { value(code) }).collect()
        }
        celltile::table::Values::Text(values) => {
            values.values().iter().map(|value| value.unwrap_or("-").to_owned()).collect()
        }
        values => {
            let array = values.to_array();
            let format = |row: usize| arrow_value(array.as_ref(), row);
            (0..array.len()).map(format).collect()
        }
    }
}

fn arrow_value(array: &dyn arrow_array::Array, row: usize) -> String {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int32Type, Int64Type};
    if array.is_null(row) {
        return "-".into();
    }
    match array.data_type() {
        arrow_schema::DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        arrow_schema::DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        arrow_schema::DataType::Float64 => array.as_primitive::<Float64Type>().value(row).to_string(),
        other => panic!("{other}"),
    }
}
