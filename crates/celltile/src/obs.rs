//! The per-cell metadata table: schema, Parquet shards, local cache ("Obs").
//!
//! An [`ObsWriter`] takes a table's rows in the order of the cells and writes `obs/schema.json` and shards with one
//! row group a tile. An [`ObsReader`] fetches single columns from the shards into the local [`Cache`] and maps them
//! from there.

mod cache;
mod chunks;
mod column;
mod csv;
mod fault;
mod field;
mod file_names;
mod fingerprint;
mod layout;
mod reader;
mod schema;
mod shard;
pub(crate) mod verify;
mod writer;

use std::sync::Arc;

use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::table::TableMeta;
use crate::writer::DatasetWriter;

pub use cache::Cache;
pub use column::{Obs, ObsColumn};
pub use csv::write_csv;
pub use field::ObsField;
pub use file_names::cache_file_name;
pub use fingerprint::{Separators, fingerprint, fingerprint_matches};
pub use reader::ObsReader;
pub use schema::ObsSchema;
pub use writer::{ObsWriteOptions, ObsWriter, ObsWritten, write_obs};

impl Dataset {
    /// A reader of the dataset's obs table; nothing if it has none. It reads the schema, so keep it.
    ///
    /// # Errors
    /// As [`ObsReader::open`].
    pub fn obs_reader(&self) -> Result<Option<ObsReader>> {
        ObsReader::open(Arc::clone(self.storage()), self.manifest())
    }

    /// Columns of the obs table, through the cache that the environment names.
    ///
    /// # Errors
    /// As [`ObsReader::columns`]; without an obs table every name is one that there is not.
    pub fn obs<S: AsRef<str>>(&self, columns: &[S]) -> Result<Obs> {
        self.obs_from(columns, &Cache::from_env()?)
    }

    /// Columns of the obs table, through a cache.
    ///
    /// # Errors
    /// As [`obs`](Self::obs).
    pub fn obs_from<S: AsRef<str>>(&self, columns: &[S], cache: &Cache) -> Result<Obs> {
        match (self.obs_reader()?, columns.first()) {
            (Some(reader), _) => reader.columns(columns, cache),
            (None, None) => Ok(Obs::new(self.n_cells(), Vec::new(), TableMeta::default())),
            (None, Some(name)) => {
                Err(Error::NoColumn { name: name.as_ref().to_owned(), columns: Vec::new() })
            }
        }
    }
}

impl DatasetWriter {
    /// Takes over what an [`ObsWriter`] has written: schema, manifest fields, and `metadata.celltile.obs`.
    ///
    /// # Errors
    /// What the storage reports.
    pub fn set_obs_table(&mut self, written: &ObsWritten) -> Result<()> {
        self.set_obs(written.schema.as_bytes(), written.record.clone())?;
        self.set_table_meta("obs", &written.meta);
        Ok(())
    }

    /// Keeps what a table has beyond its files under `metadata.celltile`.
    pub(crate) fn set_table_meta(&mut self, table: &str, meta: &TableMeta) {
        let own = self.metadata_mut().entry("celltile").or_insert_with(|| serde_json::json!({}));
        if let Some(own) = own.as_object_mut() {
            own.insert(table.to_owned(), meta.to_json());
        }
    }
}
