use std::ops::Range;

use celltile::table::{Index, Table};
use serde_json::{Map, Value};

use super::features::text;
use super::{NotCarried, Source, SourceInfo};
use crate::error::Result;
use crate::frame::{damaged, display_strings};
use crate::hdf5::StringColumn;
use crate::matrix::{CellBlocks, ReadOptions};

/// A source whose cells' names start with a text.
pub(super) struct Prefixed {
    inner: Box<dyn Source>,
    prefix: String,
}

impl Prefixed {
    pub(super) fn new(inner: Box<dyn Source>, prefix: String) -> Self {
        Self { inner, prefix }
    }
}

impl Source for Prefixed {
    fn info(&self) -> &SourceInfo {
        self.inner.info()
    }

    fn gene_names(&self) -> &StringColumn {
        self.inner.gene_names()
    }

    fn gene_ids(&self) -> Option<&StringColumn> {
        self.inner.gene_ids()
    }

    fn source_column(&self) -> Option<&str> {
        self.inner.source_column()
    }

    fn var(&self) -> Result<Table> {
        self.inner.var()
    }

    fn obs(&self) -> Result<Table> {
        let (rows, index, columns) = self.inner.obs()?.into_parts();
        let index = index.map(|index| {
            let mut names = StringColumn::default();
            for name in display_strings(index.values()).iter() {
                names.push(&format!("{}{name}", self.prefix));
            }
            Index::new(index.name().map(str::to_owned), text(&names))
        });
        Table::new(rows, index, columns).map_err(|error| damaged(&error, &self.info().file, "obs"))
    }

    fn metadata(&self) -> Map<String, Value> {
        self.inner.metadata()
    }

    fn not_carried(&self) -> &[NotCarried] {
        self.inner.not_carried()
    }

    fn by_gene(&self, options: &ReadOptions) -> bool {
        self.inner.by_gene(options)
    }

    fn cells(&self, range: Range<u64>, options: &ReadOptions) -> Result<Box<dyn CellBlocks + '_>> {
        self.inner.cells(range, options)
    }

    fn cell_name(&self, cell: u64) -> Option<String> {
        self.inner.cell_name(cell).map(|name| format!("{}{name}", self.prefix))
    }
}
