//! `var.parquet`: the gene table, one row a gene in output order, with its pandas index.
//!
//! The file is one that `pandas.read_parquet` turns back into the frame: index with or without a name, masked
//! dtypes, text categories with their order and those that no gene has. Beyond that it holds, under the key
//! `celltile` of its metadata, the categories that are no text, which pandas itself does not restore from Parquet.

mod dictionary;
mod extra;
mod pandas;
mod read;
mod write;

use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::keys;
use crate::recorded;
use crate::table::{Index, Table, Values};
use crate::writer::DatasetWriter;

pub use read::from_parquet;
pub use write::to_parquet;
pub(crate) use write::to_parquet_index_first;

impl DatasetWriter {
    /// Writes a gene table, whose rows are in output order, as `var.parquet`, and `metadata.celltile.var`.
    ///
    /// # Errors
    /// [`Error::Argument`] unless it has a row a gene; as [`to_parquet`]; what the storage reports.
    pub fn set_var(&mut self, table: &Table) -> Result<()> {
        self.check_length("gene table", table.rows())?;
        self.set_var_table(&to_parquet(table)?)?;
        self.set_table_meta("var", &table.meta());
        Ok(())
    }
}

impl Dataset {
    /// The gene table, in the dataset's gene order; nothing if the dataset has none.
    ///
    /// # Errors
    /// As [`from_parquet`]; what the storage reports;
    /// [`Error::File`] if it has another number of rows than the dataset genes.
    pub fn var(&self) -> Result<Option<Table>> {
        if !self.manifest().has_var_table {
            return Ok(None);
        }
        let bytes = recorded::read(self.storage().as_ref(), self.manifest(), keys::VAR_TABLE)?;
        let path = self.storage().locate(keys::VAR_TABLE);
        let table = from_parquet(&bytes, &path)?;
        if u64::try_from(table.rows()) == Ok(self.n_genes()) {
            return Ok(Some(table));
        }
        Err(Error::File {
            path,
            what: "rows".to_owned(),
            found: table.rows().to_string(),
            expected: format!("{}, the dataset's genes", self.n_genes()),
        })
    }

    /// The genes' names: those of [`Dataset::var_names`], or where there are none the index of the gene table, if it is of
    /// text. (A name with a line end in it can stand in the table only.)
    ///
    /// # Errors
    /// As [`Dataset::var_names`] and [`Dataset::var`].
    pub fn gene_names(&self) -> Result<Option<Vec<String>>> {
        if let Some(names) = self.var_names()? {
            return Ok(Some(names.into_names()));
        }
        let var = self.var()?;
        Ok(match var.as_ref().and_then(Table::index).map(Index::values) {
            Some(Values::Text(names)) => {
                Some(names.values().iter().map(|name| name.unwrap_or_default().to_owned()).collect())
            }
            _ => None,
        })
    }
}
