use std::ops::Range;
use std::path::Path;

use celltile::obs::Cache;
use celltile::table::{Index, Table, Values};
use celltile::{Csr, Dataset, OpenOptions};
use serde_json::{Map, Value};

use super::features::text;
use super::{MatrixChoice, NotCarried, Source, SourceInfo, SourceOptions};
use crate::error::{Error, Result};
use crate::frame::ColumnChoice;
use crate::hdf5::StringColumn;
use crate::matrix::{CellBlock, CellBlocks, ReadOptions, Shape};
use crate::metadata::Origin;

/// A deltacells dataset as an input: its genes are in the order of what it was made from, where it says.
#[derive(Debug)]
pub struct TilesSource {
    info: SourceInfo,
    dataset: Dataset,
    /// For each of the dataset's genes its place here; nothing if that is the same.
    places: Option<Vec<i32>>,
    names: StringColumn,
    ids: Option<StringColumn>,
    /// The gene table, in the dataset's order.
    var: Option<Table>,
    source_column: Option<String>,
    obs_choice: ColumnChoice,
    var_choice: ColumnChoice,
    not_carried: Vec<NotCarried>,
    metadata: Map<String, Value>,
}

impl TilesSource {
    /// Opens a dataset at a path or a URL.
    ///
    /// # Errors
    ///
    /// What [`Dataset::open_with`] says of it; [`Error::Options`] for options that do not apply.
    pub fn open(path: &Path, options: &SourceOptions) -> Result<Self> {
        let file = path.display().to_string();
        if let MatrixChoice::Path(path) = &options.matrix {
            return Err(Error::Options(format!(
                "{file}: a dataset is one matrix; {path:?} cannot be chosen"
            )));
        }
        let mut open = OpenOptions::default();
        open.remote = options.remote.clone();
        let dataset = Dataset::open_with(path, &open)?;
        let manifest = dataset.manifest();
        let metadata = manifest.metadata();
        let origin = Origin::of(&metadata);
        let places = dataset.gene_order()?.map(|order| {
            // Some datasets hold only some of their source's genes: then their rank among these.
            let mut columns: Vec<(i32, usize)> = order.columns().iter().copied().zip(0..).collect();
            columns.sort_unstable();
            let mut places = vec![0; columns.len()];
            for (rank, (_, gene)) in (0..).zip(columns) {
                if let Some(place) = places.get_mut(gene) {
                    *place = rank;
                }
            }
            places
        });
        let places = places.filter(|places| !places.iter().copied().eq(0..));
        let var = dataset.var()?;
        let own: Vec<String> = match dataset.var_names()? {
            Some(names) => names.into_names(),
            None => match var.as_ref().and_then(Table::index) {
                Some(index) => {
                    crate::frame::display_strings(index.values()).iter().map(str::to_owned).collect()
                }
                None => (0..dataset.n_genes()).map(|gene| gene.to_string()).collect(),
            },
        };
        let here = inverse(places.as_deref(), own.len());
        let in_order = |list: &[String]| -> StringColumn {
            let text = |&gene: &u64| usize::try_from(gene).ok().and_then(|gene| list.get(gene));
            here.iter().map(|gene| text(gene).map_or("", String::as_str)).collect()
        };
        let names = in_order(&own);
        let ids = var.as_ref().and_then(gene_ids).map(|ids| in_order(&ids));
        let mut carried = Map::new();
        for (key, value) in &metadata {
            // What the program that writes says of itself is its own.
            if key != "encoder" && key != "celltile" {
                carried.insert(key.clone(), value.clone());
            }
        }
        let mut recorded = options.recorded();
        if let Some(source) = metadata.get("celltile").and_then(|ours| ours.get("source")) {
            recorded.insert("made_from".into(), source.clone());
        }
        let info = SourceInfo {
            file,
            bytes: manifest.bytes(),
            format: "deltacells",
            matrix: "tiles".into(),
            why: String::new(),
            encoding: "csr",
            dtype: origin.element.map_or("int32", |element| element.name()).to_owned(),
            shape: Shape { cells: dataset.n_cells(), genes: dataset.n_genes() },
            stored: Some(manifest.nnz()),
            dropped: Vec::new(),
            notes: Vec::new(),
            options: recorded,
        };
        Ok(Self {
            info,
            dataset,
            places,
            names,
            ids,
            var,
            source_column: origin.source_column,
            obs_choice: options.obs.clone(),
            var_choice: options.var.clone(),
            not_carried: origin.not_carried,
            metadata: carried,
        })
    }
}

/// The identifiers in a dataset's gene table, if it keeps them apart from names, and every gene has one.
pub(crate) fn gene_ids(var: &Table) -> Option<Vec<String>> {
    let Values::Text(ids) = var.column("gene_ids")?.values() else { return None };
    ids.values().iter().map(|id| id.filter(|id| !id.is_empty()).map(str::to_owned)).collect()
}

/// For each place here the dataset's gene.
fn inverse(places: Option<&[i32]>, genes: usize) -> Vec<u64> {
    let mut order: Vec<u64> = (0..genes as u64).collect();
    for (gene, &place) in (0..).zip(places.unwrap_or(&[])) {
        if let Some(to) = usize::try_from(place).ok().and_then(|place| order.get_mut(place)) {
            *to = gene;
        }
    }
    order
}

impl Source for TilesSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn gene_names(&self) -> &StringColumn {
        &self.names
    }

    fn gene_ids(&self) -> Option<&StringColumn> {
        self.ids.as_ref()
    }

    fn source_column(&self) -> Option<&str> {
        self.source_column.as_deref()
    }

    fn var(&self) -> Result<Table> {
        let table = match &self.var {
            Some(table) => table.take(&inverse(self.places.as_deref(), self.names.len()))?,
            None => Table::new(self.names.len(), Some(Index::new(None, text(&self.names))), Vec::new())?,
        };
        self.var_choice.of_table(table, &self.info.file, "var")
    }

    fn obs(&self) -> Result<Table> {
        let cells = usize::try_from(self.info.shape.cells).unwrap_or(usize::MAX);
        let table = match self.dataset.obs_reader()? {
            Some(reader) => reader.all(&Cache::memory())?.to_table()?,
            None => Table::new(cells, None, Vec::new())?,
        };
        self.obs_choice.of_table(table, &self.info.file, "obs")
    }

    fn metadata(&self) -> Map<String, Value> {
        self.metadata.clone()
    }

    fn not_carried(&self) -> &[NotCarried] {
        &self.not_carried
    }

    fn by_gene(&self, _: &ReadOptions) -> bool {
        false
    }

    fn cells(&self, range: Range<u64>, options: &ReadOptions) -> Result<Box<dyn CellBlocks + '_>> {
        let end = range.end.min(self.info.shape.cells);
        Ok(Box::new(TileBlocks {
            source: self,
            next: range.start,
            end,
            options: options.clone(),
            cells: Csr::new(),
        }))
    }

    fn cell_name(&self, cell: u64) -> Option<String> {
        let reader = self.dataset.obs_reader().ok()??;
        let table = reader.all(&Cache::memory()).ok()?.to_table().ok()?;
        let names = crate::frame::display_strings(table.index()?.values());
        names.get(usize::try_from(cell).ok()?).map(str::to_owned)
    }
}

struct TileBlocks<'a> {
    source: &'a TilesSource,
    next: u64,
    end: u64,
    options: ReadOptions,
    cells: Csr,
}

impl CellBlocks for TileBlocks<'_> {
    fn next_block(&mut self, block: &mut CellBlock) -> Result<bool> {
        self.options.check_cancelled()?;
        if self.next >= self.end {
            return Ok(false);
        }
        let dataset = &self.source.dataset;
        let (tile, _) = dataset.locate(self.next)?;
        let of_tile = dataset.tile_cells(tile)?;
        let nonzeros =
            usize::try_from(tile).ok().and_then(|tile| dataset.manifest().tile_nnz.get(tile)).copied();
        // Whole tiles, or as many parts of one as its nonzeros ask for.
        let parts = nonzeros.unwrap_or(0) / self.options.block_entries() + 1;
        let step = (of_tile.end - of_tile.start).div_ceil(parts).max(1);
        let until = self.end.min(of_tile.end).min(self.next.saturating_add(step));
        let read = celltile::ReadOptions::default();
        let read = self.source.places.as_deref().map_or(read, |places| read.gene_map(places));
        dataset.rows_into(self.next..until, &read, &mut self.cells)?;
        block.first_cell = self.next;
        block.indptr.clear();
        block
            .indptr
            .extend(self.cells.indptr.iter().map(|&offset| usize::try_from(offset).unwrap_or(usize::MAX)));
        block.genes.clear();
        block.genes.extend(self.cells.genes.iter().map(|gene| gene.cast_unsigned()));
        block.counts.clear();
        block.counts.extend(self.cells.counts.iter().map(|count| count.cast_unsigned()));
        self.next = until;
        Ok(true)
    }
}
